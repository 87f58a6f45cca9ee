//! The binary logs that a server gets together with another one's files.
//!
//! Job: copies the donor's logs, some megabytes at a time, up to the place where the files are as of, and lists them in
//! the recipient's index. A server that starts on files without logs begins a log of its own. When all servers of a group
//! have begun so, nobody has the changes from before, which consumers of changes may lack.
//!
//! Invariants: what the index lists follows one another without a hole, and ends exactly at that place. Logs are copied and
//! not linked: a server that recovers from a crash may cut the end of its own ones. Without an index a server ignores
//! whatever else is there.
//!
//! Must not know: what is in a log behind its head.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::backup::Noted;
use crate::{Error, Options};

/// As `my.cnf` names them (`log_bin`).
const INDEX: &str = "binlog.index";
const STEM: &str = "binlog.";

/// A log begins so.
const MAGIC: [u8; 4] = [0xfe, b'b', b'i', b'n'];

/// Where the flags of a log's first event are, and the flag of a log that is being written.
const FLAGS_AT: u64 = 21;
const IN_USE: u8 = 1;

/// At most so many bytes are copied in one step.
const STEP_BYTES: u64 = 8 << 20;

/// The logs of a donor on their way.
#[derive(Debug)]
pub struct Carrying {
    from: PathBuf,
    to: PathBuf,
    last: Noted,
    /// Names of logs that are to be copied, the newest first.
    waiting: Vec<String>,
    /// Names of those that are there, the oldest first.
    arrived: Vec<String>,
    open: Option<Open>,
}

/// A log that is there in part.
#[derive(Debug)]
struct Open {
    name: String,
    source: File,
    target: File,
    /// Bytes that are still to come at most.
    left: u64,
}

impl Carrying {
    /// The donor's logs up to where a backup of its files was made, on their way into the directory with these files.
    ///
    /// # Errors
    /// The donor's index cannot be read, or does not have the log that the backup notes.
    pub fn begin(donor: &Options, files: &Path, last: &Noted) -> Result<Carrying, Error> {
        let from = donor.data();
        let index = from.join(INDEX);
        let text = fs::read_to_string(&index).map_err(Error::file("read", &index))?;
        let mut waiting: Vec<String> = text.lines().map(name_of).collect();
        let end = waiting.iter().position(|name| *name == last.file);
        let end = end.ok_or_else(|| {
            let missing = ErrorKind::NotFound.into();
            Error::file("find in the index of", from.join(&last.file))(missing)
        })?;
        waiting.truncate(end + 1);
        waiting.reverse();
        Ok(Carrying {
            from,
            to: files.to_owned(),
            last: last.clone(),
            waiting,
            arrived: Vec::new(),
            open: None,
        })
    }

    /// Copies on; gives the bytes of this step, and `None` when all logs have arrived.
    ///
    /// # Errors
    /// A file cannot be read or written, or the last log ends too early. Nothing is listed then; see [`forget`].
    pub fn step(&mut self) -> Result<Option<u64>, Error> {
        let Some(mut open) = self.open.take() else {
            return self.next();
        };
        let limit = open.left.min(STEP_BYTES);
        let copied = std::io::copy(&mut (&mut open.source).take(limit), &mut open.target);
        let target = self.to.join(&open.name);
        let copied = copied.map_err(Error::file("copy to", &target))?;
        open.left -= copied;
        let is_end = copied < limit || open.left == 0;
        if !is_end {
            self.open = Some(open);
            return Ok(Some(copied));
        }
        if open.name == self.last.file {
            if open.left > 0 {
                let early = ErrorKind::UnexpectedEof.into();
                return Err(Error::file("copy the whole of", &target)(early));
            }
            close(&mut open.target).map_err(Error::file("close", &target))?;
        }
        open.target
            .sync_all()
            .map_err(Error::file("write", &target))?;
        self.arrived.push(open.name);
        Ok(Some(copied))
    }

    /// Opens the next log, or lists all of them.
    fn next(&mut self) -> Result<Option<u64>, Error> {
        let Some(name) = self.waiting.pop() else {
            self.list()?;
            return Ok(None);
        };
        let (from, to) = (self.from.join(&name), self.to.join(&name));
        let source = match File::open(&from) {
            Ok(source) => source,
            // The donor has purged it meanwhile, and so what was in front of it.
            Err(error) if error.kind() == ErrorKind::NotFound && !self.waiting.is_empty() => {
                for name in self.arrived.drain(..) {
                    let _ = fs::remove_file(self.to.join(name));
                }
                return Ok(Some(0));
            }
            Err(error) => return Err(Error::file("read", &from)(error)),
        };
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let target = options.mode(0o640).open(&to);
        let target = target.map_err(Error::file("create", &to))?;
        let left = match name == self.last.file {
            true => self.last.offset,
            false => u64::MAX,
        };
        self.open = Some(Open {
            name,
            source,
            target,
            left,
        });
        Ok(Some(0))
    }

    /// Makes the logs the recipient's.
    fn list(&self) -> Result<(), Error> {
        let index = self.to.join(INDEX);
        let lines = self.arrived.iter().map(|name| format!("./{name}\n"));
        let written = File::create(&index).and_then(|mut file| {
            file.write_all(lines.collect::<String>().as_bytes())?;
            file.sync_all()
        });
        written.map_err(Error::file("write", &index))
    }
}

/// Removes what arrived of logs in a directory with a backup's files.
pub fn forget(files: &Path) {
    let entries = fs::read_dir(files).into_iter().flatten().flatten();
    for entry in entries.filter(|it| it.file_name().to_string_lossy().starts_with(STEM)) {
        // What stays is in no index, so the server leaves it alone.
        let _ = fs::remove_file(entry.path());
    }
}

/// A log's name in a line of an index.
fn name_of(line: &str) -> String {
    let name = Path::new(line).file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Takes the flag away by which a server takes a log for one that a crash left. The checksum of the event leaves it out.
fn close(log: &mut File) -> std::io::Result<()> {
    let mut head = [0; FLAGS_AT as usize + 1];
    log.seek(SeekFrom::Start(0))?;
    log.read_exact(&mut head)?;
    let Some((flags, _)) = head
        .split_last()
        .filter(|(_, front)| front.starts_with(&MAGIC))
    else {
        return Err(ErrorKind::InvalidData.into());
    };
    log.seek(SeekFrom::Start(FLAGS_AT))?;
    log.write_all(&[flags & !IN_USE])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        home: tempfile::TempDir,
        donor: Options,
    }

    /// A log's head with the flag, and this behind it.
    fn log(text: &str) -> Vec<u8> {
        let mut head = [&MAGIC[..], &[0; 18]].concat();
        head[FLAGS_AT as usize] = IN_USE | 8;
        [&head[..], text.as_bytes()].concat()
    }

    impl Scene {
        fn new(logs: &[(&str, &str)]) -> Scene {
            let home = tempfile::tempdir().expect("a directory");
            let donor = Options::new("g1-1", &home.path().join("donor"), 23306, 7);
            fs::create_dir_all(donor.data()).expect("made");
            fs::create_dir(home.path().join("files")).expect("made");
            let mut index = String::new();
            for (name, text) in logs {
                index.push_str(&format!("./{name}\n"));
                fs::write(donor.data().join(name), log(text)).expect("written");
            }
            fs::write(donor.data().join(INDEX), index).expect("written");
            Scene { home, donor }
        }

        fn files(&self) -> PathBuf {
            self.home.path().join("files")
        }

        fn begin(&self, file: &str, text: &str) -> Result<Carrying, Error> {
            let noted = Noted {
                file: file.to_owned(),
                offset: log(text).len() as u64,
                gtids: String::new(),
            };
            Carrying::begin(&self.donor, &self.files(), &noted)
        }

        fn index(&self) -> Option<String> {
            fs::read_to_string(self.files().join(INDEX)).ok()
        }
    }

    fn carry(carrying: &mut Carrying) -> Result<(), Error> {
        while carrying.step()?.is_some() {}
        Ok(())
    }

    #[test]
    fn logs_arrive_up_to_where_the_files_are() {
        let all = [
            ("binlog.000001", "one"),
            ("binlog.000002", "two and more"),
            ("binlog.000003", "behind"),
        ];
        let scene = Scene::new(&all);
        let mut carrying = scene.begin("binlog.000002", "two").expect("begun");
        carry(&mut carrying).expect("carried");
        assert_eq!(
            scene.index().as_deref(),
            Some("./binlog.000001\n./binlog.000002\n")
        );
        let read = |name| fs::read(scene.files().join(name)).expect("there");
        assert_eq!(read("binlog.000001"), log("one"));
        let mut closed = log("two");
        closed[FLAGS_AT as usize] = 8;
        assert_eq!(read("binlog.000002"), closed);
        assert!(!scene.files().join("binlog.000003").exists());
    }

    #[test]
    fn what_was_purged_meanwhile_leaves_no_hole() {
        let all = [
            ("binlog.000001", "one"),
            ("binlog.000002", "two"),
            ("binlog.000003", "three"),
        ];
        let scene = Scene::new(&all);
        let mut carrying = scene.begin("binlog.000003", "three").expect("begun");
        while carrying.arrived.is_empty() {
            carrying.step().expect("copied");
        }
        fs::remove_file(scene.donor.data().join("binlog.000002")).expect("removed");
        carry(&mut carrying).expect("carried");
        assert_eq!(scene.index().as_deref(), Some("./binlog.000003\n"));
    }

    #[test]
    fn a_log_that_ends_too_early_is_an_error_and_no_log_is_listed() {
        let scene = Scene::new(&[("binlog.000001", "one")]);
        let mut carrying = scene.begin("binlog.000001", "one and more").expect("begun");
        carry(&mut carrying).expect_err("it is shorter");
        assert_eq!(scene.index(), None);
        scene
            .begin("binlog.000002", "")
            .expect_err("the index lacks it");
        fs::write(
            scene.donor.data().join("binlog.000001"),
            "something else of this length",
        )
        .expect("written");
        let mut carrying = scene.begin("binlog.000001", "").expect("begun");
        carry(&mut carrying).expect_err("it is no log");
        assert_eq!(scene.index(), None);
        forget(&scene.files());
        let left = fs::read_dir(scene.files()).expect("there").count();
        assert_eq!(left, 0);
    }
}
