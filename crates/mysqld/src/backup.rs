//! Backups of a MariaDB server's files by mariadb-backup, straight into another server's directory.
//!
//! The files arrive and are prepared beside the recipient's data, which stay until [`exchange`] puts the
//! new ones in their place; the old ones stay until [`forget`]. Nothing here runs a server.

use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use farm::Engine;

use crate::{Binary, Error, Options};

/// Where a backup notes the position, by the names of newer and older releases.
const NOTES: [&str; 2] = ["mariadb_backup_binlog_info", "xtrabackup_binlog_info"];

/// mariadb-backup and the program that unpacks its stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    backup: PathBuf,
    stream: PathBuf,
}

impl Tool {
    /// The tool that fits a server, beside it or on PATH; the error says what is missing.
    pub fn find(binary: &Binary) -> Result<Tool, String> {
        if binary.engine != Engine::MariaDb {
            return Err("mariadb-backup is for MariaDB only".to_owned());
        }
        let path = std::env::var_os("PATH").unwrap_or_default();
        let own = ["bin", "sbin"].map(|dir| binary.base().join(dir));
        let dirs: Vec<PathBuf> = own
            .into_iter()
            .chain(std::env::split_paths(&path))
            .collect();
        let find = |names: &[&str]| {
            let all = dirs
                .iter()
                .flat_map(|dir| names.iter().map(move |name| dir.join(name)));
            all.into_iter().find(|path| path.is_file())
        };
        let missing = "mariadb-backup is not installed; apt install mariadb-backup";
        let backup = find(&["mariadb-backup", "mariabackup"]).ok_or(missing)?;
        let stream = find(&["mbstream"]).ok_or(missing)?;
        let output = Command::new(&backup).arg("--version").output();
        let output = output.map_err(|error| format!("{}: {error}", backup.display()))?;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        let release = |text: &str| text.split("-MariaDB").next().map(str::to_owned);
        let mut words = said.split_whitespace();
        let tools = words.find(|word| word.contains("-MariaDB"));
        if tools.and_then(release) != release(&binary.version) {
            return Err(format!(
                "{} is of release {}, the servers run {}; install the one of their release",
                backup.display(),
                tools.unwrap_or("unknown"),
                binary.version
            ));
        }
        Ok(Tool { backup, stream })
    }

    /// Streams the donor's files to its standard output. `login` is a file that [`write_login`] made.
    pub fn backup(&self, login: &Path, scratch: &Path) -> Command {
        let mut command = Command::new(&self.backup);
        command
            .arg(format!("--defaults-file={}", login.display()))
            .args(["--backup", "--stream=mbstream"])
            .arg(format!("--target-dir={}", scratch.display()));
        command
    }

    /// Unpacks such a stream from its standard input.
    pub fn unpack(&self, files: &Path) -> Command {
        let mut command = Command::new(&self.stream);
        command.arg("-x").arg("-C").arg(files);
        command
    }

    /// Makes what was unpacked a server's data, as of one moment.
    pub fn prepare(&self, files: &Path) -> Command {
        let mut command = Command::new(&self.backup);
        command
            .arg("--prepare")
            .arg(format!("--target-dir={}", files.display()));
        command
    }
}

/// Writes how the tool reaches the donor: nobody else reads the file, and no password stands in a list
/// of processes.
///
/// # Errors
/// The file cannot be written.
pub fn write_login(path: &Path, donor: &Options, user: &str, password: &str) -> Result<(), Error> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let text = format!(
        "!include {}\n[mariadb-backup]\nuser = {}\npassword = {}\nsocket = {}\n",
        donor.my_cnf().display(),
        quoted(user),
        quoted(password),
        quoted(&donor.socket().display().to_string())
    );
    let _ = fs::remove_file(path);
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create_new(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(Error::file("write", path))
}

/// The place in the donor's binary log that a prepared backup has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    /// The log's name, without a directory.
    pub file: String,
    pub offset: u64,
    /// The GTID position there.
    pub gtids: String,
}

/// Reads what a prepared backup notes.
///
/// # Errors
/// It notes none, which is so without a binary log.
pub fn noted(files: &Path) -> Result<Noted, String> {
    const NONE: &str = "the backup notes no position of the binary log";
    let notes = NOTES.iter().map(|name| files.join(name));
    let mut texts = notes.filter_map(|path| fs::read_to_string(path).ok());
    let text = texts.next().ok_or(NONE)?;
    // There are no blanks in any of them.
    let mut words = text.split_whitespace();
    let file = words.next().ok_or(NONE)?;
    let offset = words.next().and_then(|offset| offset.parse().ok());
    Ok(Noted {
        file: file.to_owned(),
        offset: offset.ok_or(NONE)?,
        gtids: words.next().unwrap_or("").to_owned(),
    })
}

/// Where the files for a server arrive; empty now.
///
/// # Errors
/// The directory cannot be made.
pub fn arrival(options: &Options) -> Result<PathBuf, Error> {
    let files = beside(options, "filling");
    remove(&files)?;
    fs::create_dir_all(&files).map_err(Error::file("create directory", &files))?;
    Ok(files)
}

/// Puts the files that arrived in the place of a server's data. The server must not run.
///
/// # Errors
/// A directory cannot be renamed; everything is as it was.
pub fn exchange(options: &Options) -> Result<(), Error> {
    let (data, old) = (options.data(), beside(options, "replaced"));
    let files = beside(options, "filling");
    remove(&old)?;
    fs::rename(&data, &old).map_err(Error::file("rename", &data))?;
    fs::rename(&files, &data).map_err(|error| {
        // Back, so that the server can start on what it had.
        let _ = fs::rename(&old, &data);
        Error::file("rename", &files)(error)
    })
}

/// Undoes [`exchange`]: the server has what it had. It must not run.
///
/// # Errors
/// A directory cannot be renamed.
pub fn exchange_back(options: &Options) -> Result<(), Error> {
    let (data, old) = (options.data(), beside(options, "replaced"));
    if !old.is_dir() {
        return Ok(());
    }
    remove(&data)?;
    fs::rename(&old, &data).map_err(Error::file("rename", &old))
}

/// Removes what [`arrival`] made and [`exchange`] kept.
///
/// # Errors
/// A directory cannot be removed.
pub fn forget(options: &Options) -> Result<(), Error> {
    remove(&beside(options, "filling"))?;
    remove(&beside(options, "replaced"))
}

/// Bytes of a directory's files, without binary and relay logs, which a backup leaves out.
pub fn bytes_in(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            match entry.metadata() {
                Ok(found) if found.is_dir() => bytes_in(&entry.path()),
                Ok(found) if !is_log(&name) => found.len(),
                _ => 0,
            }
        })
        .sum()
}

fn is_log(name: &str) -> bool {
    ["binlog.", "relaylog", "ib_logfile", "ibtmp"]
        .iter()
        .any(|start| name.starts_with(start))
}

fn beside(options: &Options, what: &str) -> PathBuf {
    options.data().with_extension(what)
}

fn remove(dir: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::file("remove", dir)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(dir: &Path) -> Options {
        Options::new("g1-2", dir, 23306, 7)
    }

    #[test]
    fn files_change_places_and_back() {
        let home = tempfile::tempdir().expect("a directory");
        let options = options(home.path());
        fs::create_dir(options.data()).expect("made");
        fs::write(options.data().join("ibdata1"), "old").expect("written");
        let files = arrival(&options).expect("made");
        fs::write(files.join("ibdata1"), "new").expect("written");
        let holds = || fs::read_to_string(options.data().join("ibdata1")).expect("there");
        exchange(&options).expect("exchanged");
        assert_eq!(holds(), "new");
        exchange_back(&options).expect("exchanged back");
        assert_eq!(holds(), "old");

        // Without files that arrived nothing happens.
        exchange(&options).expect_err("nothing has arrived");
        assert_eq!(holds(), "old");
        let files = arrival(&options).expect("made");
        forget(&options).expect("removed");
        assert!(!files.exists());
    }

    #[test]
    fn the_position_stands_behind_the_file_and_the_offset() {
        let home = tempfile::tempdir().expect("a directory");
        noted(home.path()).expect_err("no notes");
        let note = |name: &str, text: &str| fs::write(home.path().join(name), text);
        let place = |gtids: &str| Noted {
            file: "binlog.000002".to_owned(),
            offset: 342,
            gtids: gtids.to_owned(),
        };
        note(NOTES[1], "binlog.000002\t342\t0-1-5,1-2-7\n").expect("written");
        assert_eq!(noted(home.path()), Ok(place("0-1-5,1-2-7")));
        note(NOTES[0], "binlog.000002\t342\t\n").expect("written");
        assert_eq!(noted(home.path()), Ok(place("")), "nothing was executed");
    }

    #[test]
    fn nobody_else_reads_the_login() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().expect("a directory");
        let path = home.path().join("login.cnf");
        write_login(&path, &options(home.path()), "root", "a\"b").expect("written");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&path).expect("text");
        assert!(text.contains("password = \"a\\\"b\""), "{text}");
    }

    #[test]
    fn logs_are_no_part_of_a_backup() {
        let home = tempfile::tempdir().expect("a directory");
        fs::create_dir(home.path().join("d")).expect("made");
        for name in ["d/t.ibd", "ibdata1", "binlog.000001", "ib_logfile0"] {
            fs::write(home.path().join(name), "12345").expect("written");
        }
        assert_eq!(bytes_in(home.path()), 10);
    }
}
