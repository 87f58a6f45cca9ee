//! Files: lines of JSON in a directory, closed by size, number and time, or what of Parquet they become when they are
//! closed.
//!
//! `SINK-NUMBER.ndjson` (with `.zst` if packed) is closed and does not change any more. `….open` behind its name marks
//! the one that is written. A batch is on disk before it counts as delivered. The last whole line says what the
//! directory has, so that a writer that begins goes on behind it: what a dead one left unfinished is cut off.
//!
//! With Parquet, lines are what an open file has: they are durable at once, and Parquet's files can be read only when they
//! are whole. A closed file of lines becomes files of Parquet, then `SINK-NUMBER.json` with their names and the token
//! behind them is written, then the lines (`SINK-NUMBER.lines`) are removed. Whoever begins does what of this is missing.
//!
//! One process writes to a directory at a time: it holds a lock on `.lock`.

mod parquet;
mod pieces;
mod scan;

use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufReader, Seek, SeekFrom, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::message::Message;
use crate::spec::{Compression, Format, Spec};
use crate::undelivered::{Undelivered, later};
use parquet::{Conversion, manifest};
use pieces::{Known, Piece};

const OPEN: &str = ".open";

/// Writes to one directory.
pub struct Files {
    plan: Plan,
    /// The tables' columns, as the stream told them last.
    known: Known,
    /// `None` while it is not open, or after something failed.
    writer: Option<Writer>,
}

/// Where files are, and what they are like.
#[derive(Clone)]
struct Plan {
    sink: String,
    dir: PathBuf,
    format: Format,
    compress: Compression,
    rotate_bytes: u64,
    rotate_rows: u64,
    rotate: Duration,
}

/// The file that is written.
struct Writer {
    /// Held while this writes.
    lock: File,
    number: u64,
    file: File,
    bytes: u64,
    rows: u64,
    /// The tables whose columns it has.
    described: BTreeSet<(String, String)>,
    begun: SystemTime,
    /// Of the last event in the directory.
    token: Option<String>,
}

impl Files {
    pub(crate) fn new(sink: &str, dir: PathBuf, spec: &Spec) -> Files {
        Files {
            plan: Plan {
                sink: sink.to_owned(),
                dir,
                format: spec.format,
                compress: spec.compress,
                rotate_bytes: spec.rotate_bytes,
                rotate_rows: spec.rotate_rows,
                rotate: Duration::from_secs(spec.rotate_s),
            },
            known: Known::default(),
            writer: None,
        }
    }

    pub(crate) async fn reached(&mut self) -> Result<Option<String>, Undelivered> {
        self.with_writer(|_, writer| Ok(writer.token.clone())).await
    }

    pub(crate) async fn deliver(&mut self, batch: &[Message]) -> Result<usize, Undelivered> {
        let pieces = self.known.pieces(batch, self.plan.format);
        let token = batch.last().map(|it| it.token.clone());
        self.with_writer(move |plan, writer| {
            let bytes = pieces.iter().map(Piece::bytes).sum();
            plan.close_if_due(writer, bytes)?;
            if pieces.is_empty() {
                return Ok(0);
            }
            let text = pieces::text(&pieces, &mut writer.described);
            let packed = match plan.packing() {
                // Nobody is told gzip for files.
                Compression::None | Compression::Gzip => text,
                Compression::Zstd => zstd::bulk::compress(&text, 0)?,
            };
            writer.file.write_all(&packed)?;
            writer.file.sync_data()?;
            writer.bytes += count(packed.len());
            writer.rows += count(pieces.len());
            writer.token = token;
            Ok(packed.len())
        })
        .await
    }

    /// Does what blocks on a thread for that. What has begun ends, also when nobody waits for it any more.
    async fn with_writer<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Plan, &mut Writer) -> io::Result<T> + Send + 'static,
    ) -> Result<T, Undelivered> {
        let (plan, writer) = (self.plan.clone(), self.writer.take());
        let dir = plan.dir.display().to_string();
        let done = tokio::task::spawn_blocking(move || {
            let mut writer = match writer {
                Some(writer) => writer,
                None => plan.open()?,
            };
            let value = work(&plan, &mut writer)?;
            Ok::<_, io::Error>((value, writer))
        });
        match done.await {
            Ok(Ok((value, writer))) => {
                self.writer = Some(writer);
                Ok(value)
            }
            Ok(Err(error)) => Err(later(format!("{dir}: {error}"))),
            Err(error) => Err(later(format!("writing to {dir} panicked: {error}"))),
        }
    }
}

impl Plan {
    fn stem(&self, number: u64) -> String {
        format!("{}-{number:010}", self.sink)
    }

    /// How lines are packed.
    fn packing(&self) -> Compression {
        match self.format {
            Format::Lines => self.compress,
            Format::Parquet => Compression::None,
        }
    }

    /// Of a file of lines.
    fn line_name(&self, number: u64) -> String {
        let end = match (self.format, self.compress) {
            (Format::Lines, Compression::None | Compression::Gzip) => "ndjson",
            (Format::Lines, Compression::Zstd) => "ndjson.zst",
            // None that an earlier sink of this name has left.
            (Format::Parquet, _) => "lines",
        };
        format!("{}.{end}", self.stem(number))
    }

    /// Of what tells that this file is closed, with the token behind it in its last line.
    fn closed_name(&self, number: u64) -> String {
        match self.format {
            Format::Lines => self.line_name(number),
            Format::Parquet => format!("{}.json", self.stem(number)),
        }
    }

    fn open_path(&self, number: u64) -> PathBuf {
        self.dir.join(self.line_name(number) + OPEN)
    }

    /// Takes the directory, and goes on where it ends.
    fn open(&self) -> io::Result<Writer> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.dir)?;
        let lock = self.lock()?;
        self.convert_closed()?;
        let last = self.last()?;
        let number = last.as_ref().map_or(1, |(number, _)| *number);
        match last {
            Some((_, true)) => self.go_on(lock, number),
            Some((_, false)) => {
                let path = self.dir.join(self.closed_name(number));
                let found = scan::scan(&path, self.packing())?;
                let mut writer = self.begin(lock, number + 1)?;
                writer.token = found.token;
                Ok(writer)
            }
            None => self.begin(lock, number),
        }
    }

    fn lock(&self) -> io::Result<File> {
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(self.dir.join(".lock"))?;
        match lock.try_lock() {
            Ok(()) => Ok(lock),
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => Err(io::Error::new(
                io::ErrorKind::ResourceBusy,
                "another process, or another sink, writes there",
            )),
        }
    }

    /// The number of the last file, and whether it is open.
    fn last(&self) -> io::Result<Option<(u64, bool)>> {
        let numbers = self.numbers()?;
        // Files of this sink that are packed otherwise are of an earlier one with its name.
        let states = numbers.into_iter().filter_map(|(number, name)| {
            let is_open = name == self.line_name(number) + OPEN;
            (is_open || name == self.closed_name(number)).then_some((number, is_open))
        });
        Ok(states.max())
    }

    /// The sink's files by their numbers.
    fn numbers(&self) -> io::Result<Vec<(u64, String)>> {
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&self.dir)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            let rest = name.strip_prefix(&*self.sink);
            let digits = rest
                .and_then(|it| it.strip_prefix('-'))
                .and_then(|it| it.get(..10));
            if let Some(number) = digits.and_then(|it| it.parse().ok()) {
                all.push((number, name));
            }
        }
        all.sort();
        Ok(all)
    }

    /// Makes files of Parquet of the lines that are closed.
    fn convert_closed(&self) -> io::Result<()> {
        if self.format == Format::Lines {
            return Ok(());
        }
        for (number, name) in self.numbers()? {
            if name != self.line_name(number) {
                continue;
            }
            let lines = self.dir.join(name);
            let manifest_path = self.dir.join(self.closed_name(number));
            if !manifest_path.exists() {
                self.convert(number, &lines, &manifest_path)?;
            }
            std::fs::remove_file(lines)?;
        }
        Ok(())
    }

    fn convert(&self, number: u64, lines: &Path, manifest_path: &Path) -> io::Result<()> {
        let found = scan::scan(lines, Compression::None)?;
        let conversion = Conversion {
            dir: &self.dir,
            name: &self.stem(number),
            compress: self.compress,
        };
        let written = conversion.run(BufReader::new(File::open(lines)?))?;
        let text = manifest(&found.token.unwrap_or_default(), &written);
        let open = manifest_path.with_extension("json.open");
        let mut file = File::create(&open)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&open, manifest_path)?;
        sync_dir(&self.dir)
    }

    fn begin(&self, lock: File, number: u64) -> io::Result<Writer> {
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(self.open_path(number))?;
        sync_dir(&self.dir)?;
        Ok(Writer {
            lock,
            number,
            file,
            bytes: 0,
            rows: 0,
            described: BTreeSet::new(),
            begun: SystemTime::now(),
            token: None,
        })
    }

    /// Goes on in a file that somebody left open; what is not whole is cut off.
    fn go_on(&self, lock: File, number: u64) -> io::Result<Writer> {
        let path = self.open_path(number);
        let mut found = scan::scan(&path, self.packing())?;
        if found.token.is_none() && number > 1 {
            let before = self.dir.join(self.closed_name(number - 1));
            // Somebody may have taken it away.
            if before.exists() {
                found.token = scan::scan(&before, self.packing())?.token;
            }
        }
        let mut file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(found.whole_bytes)?;
        file.sync_data()?;
        file.seek(SeekFrom::End(0))?;
        let metadata = file.metadata()?;
        let begun = metadata.created().or_else(|_| metadata.modified())?;
        Ok(Writer {
            lock,
            number,
            file,
            bytes: found.whole_bytes,
            rows: found.lines,
            described: BTreeSet::new(),
            begun,
            token: found.token,
        })
    }

    /// Closes the file and begins the next one, if it is full or old enough.
    fn close_if_due(&self, writer: &mut Writer, more_bytes: usize) -> io::Result<()> {
        let is_old = writer.begun.elapsed().is_ok_and(|age| age >= self.rotate);
        let is_full = writer.bytes + count(more_bytes) > self.rotate_bytes;
        let has_all = self.rotate_rows > 0 && writer.rows >= self.rotate_rows;
        if writer.bytes == 0 || !(is_old || is_full || has_all) {
            return Ok(());
        }
        let closed = self.dir.join(self.line_name(writer.number));
        std::fs::rename(self.open_path(writer.number), closed)?;
        self.convert_closed()?;
        let begun = self.begin(writer.lock.try_clone()?, writer.number + 1)?;
        let token = writer.token.take();
        *writer = Writer { token, ..begun };
        Ok(())
    }
}

/// A file's name is durable with its directory.
fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u32) -> Message {
        let token = format!("token{number}");
        Message {
            line: format!(r#"{{"id":"{number}","token":"{token}","event":"row"}}"#).into_bytes(),
            token,
            ..Message::default()
        }
    }

    fn spec(compress: Compression, rotate_bytes: u64) -> Spec {
        Spec {
            compress,
            rotate_bytes,
            ..Spec::default()
        }
    }

    fn names(dir: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(dir).expect("a directory");
        let names = entries.map(|it| it.expect("an entry").file_name());
        let mut names: Vec<String> = names.map(|it| it.to_string_lossy().into_owned()).collect();
        names.retain(|name| name != ".lock");
        names.sort();
        names
    }

    async fn goes_on(compress: Compression) {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = spec(compress, 1 << 20);
        let files = || Files::new("s", dir.path().to_owned(), &spec);
        let mut one = files();
        assert_eq!(one.reached().await, Ok(None));
        let batch = [message(1), message(2)];
        assert!(one.deliver(&batch).await.is_ok_and(|bytes| bytes > 0));
        assert!(one.deliver(&[message(3)]).await.is_ok());
        let busy = files().reached().await;
        assert!(matches!(busy, Err(Undelivered::Later(why, _)) if why.contains("writes there")));
        drop(one);
        // Somebody died in the middle of a batch.
        let path = dir.path().join(&names(dir.path())[0]);
        let whole = std::fs::read(&path).expect("the file");
        let mut torn = whole.clone();
        torn.extend_from_slice(&whole[..whole.len() / 2 - 1]);
        std::fs::write(&path, &torn).expect("it is written");
        let mut two = files();
        let reached = two.reached().await.expect("it is read").expect("a token");
        // Of lines, those that are whole count.
        let after = std::fs::read(&path).expect("the file");
        assert!(after.starts_with(&whole), "nothing whole is cut off");
        assert!(["token1", "token3"].contains(&&*reached), "{reached}");
        assert_eq!(reached == "token3", compress == Compression::Zstd);
    }

    #[tokio::test]
    async fn a_writer_goes_on_behind_the_last_whole_line() {
        goes_on(Compression::None).await;
    }

    #[tokio::test]
    async fn a_writer_goes_on_behind_the_last_whole_frame() {
        goes_on(Compression::Zstd).await;
    }

    #[tokio::test]
    async fn full_files_are_closed_and_the_next_one_is_begun() {
        let dir = tempfile::tempdir().expect("a directory");
        let spec = spec(Compression::None, 60);
        let mut files = Files::new("s", dir.path().to_owned(), &spec);
        for number in 1..=3 {
            assert!(files.deliver(&[message(number)]).await.is_ok());
        }
        let expected = [
            "s-0000000001.ndjson",
            "s-0000000002.ndjson",
            "s-0000000003.ndjson.open",
        ];
        assert_eq!(names(dir.path()), expected);
        drop(files);
        // The open one is empty, as after a death behind its beginning.
        let open = dir.path().join(expected[2]);
        std::fs::write(&open, "").expect("it is written");
        let mut files = Files::new("s", dir.path().to_owned(), &spec);
        assert_eq!(files.reached().await, Ok(Some("token2".to_owned())));
        drop(files);
        std::fs::remove_file(&open).expect("it is there");
        let mut files = Files::new("s", dir.path().to_owned(), &spec);
        assert_eq!(files.reached().await, Ok(Some("token2".to_owned())));
        assert!(files.deliver(&[message(3)]).await.is_ok());
        assert_eq!(names(dir.path()), expected);
    }

    #[tokio::test]
    async fn lines_that_a_death_left_closed_become_parquet() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spec = spec(Compression::Zstd, 1 << 20);
        spec.format = Format::Parquet;
        spec.rotate_rows = 2;
        let files = || Files::new("s", dir.path().to_owned(), &spec);
        let mut one = files();
        assert!(one.deliver(&[message(1), message(2)]).await.is_ok());
        drop(one);
        let (open, closed) = ("s-0000000001.lines.open", "s-0000000001.lines");
        std::fs::rename(dir.path().join(open), dir.path().join(closed)).expect("it is there");
        let mut two = files();
        assert_eq!(two.reached().await, Ok(Some("token2".to_owned())));
        let expected = ["_events", "s-0000000001.json", "s-0000000002.lines.open"];
        assert_eq!(names(dir.path()), expected);
        assert!(two.deliver(&[message(3), message(4)]).await.is_ok());
        assert!(two.deliver(&[message(5)]).await.is_ok());
        drop(two);
        let manifest = std::fs::read_to_string(dir.path().join("s-0000000002.json"));
        let manifest = manifest.expect("it is closed");
        assert!(
            manifest.contains("_events/s-0000000002.parquet"),
            "{manifest}"
        );
        // What an earlier death left between the two is done with.
        std::fs::write(dir.path().join("s-0000000002.lines"), "torn").expect("it is written");
        assert_eq!(files().reached().await, Ok(Some("token5".to_owned())));
        assert!(!dir.path().join("s-0000000002.lines").exists());
    }

    #[tokio::test]
    async fn old_files_are_closed_without_another_event() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut spec = spec(Compression::None, 1 << 20);
        spec.rotate_s = 0;
        let mut files = Files::new("s", dir.path().to_owned(), &spec);
        assert!(files.deliver(&[message(1)]).await.is_ok());
        assert!(files.deliver(&[]).await.is_ok());
        assert!(files.deliver(&[]).await.is_ok(), "an empty one stays");
        let expected = ["s-0000000001.ndjson", "s-0000000002.ndjson.open"];
        assert_eq!(names(dir.path()), expected);
    }
}
