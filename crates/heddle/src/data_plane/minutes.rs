//! The minutes of digests in files that outlive the process: `digests` in the state directory.
//!
//! Each process writes files of its own, a minute behind the other, each with its length and a check sum; so kill -9
//! loses the minute under way at most, and a process that hands over spoils nothing of its successor's. Files older than
//! a day go, and the oldest of those that take more than they may.
//!
//! Invariants: what cannot be written or read is a warning and fewer minutes, never an error of the router; a minute
//! that was damaged is told from a whole one, and what stands behind it in its file is left out.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crc32fast::hash;
use meta::private;
use statistics::{History, MinuteReader, MinuteWriter, Past};

/// In the state directory.
const DIRECTORY: &str = "digests";

/// The end of a file's name.
const ENDING: &str = "minutes";

/// What a file begins with; its last byte is the number of the format.
const MAGIC: &[u8; 8] = b"hdlmins\x01";

/// Length and check sum in front of a minute.
const HEAD_BYTES: usize = 8;

/// What may be kept is in about so many files, so that the oldest part of it can go.
const FILES: u64 = 8;

/// Older files go, and so long are minutes written into one file.
const KEPT: Duration = Duration::from_secs(24 * 3600);
const FILE_MS: u64 = 3 * 3600 * 1000;

/// The files of one state directory.
pub(super) struct Minutes {
    dir: PathBuf,
    open: Option<Open>,
    /// The last minute could not be written.
    fails: bool,
}

/// The file that is written to.
struct Open {
    file: File,
    bytes: u64,
    began_ms: u64,
    writer: MinuteWriter,
}

impl Minutes {
    /// Those of a router with this state directory.
    pub fn of(state: &Path) -> Minutes {
        Minutes {
            dir: state.join(DIRECTORY),
            open: None,
            fails: false,
        }
    }

    /// What processes before have kept, as far as it is whole, fits and is not too old.
    pub fn read(&self, now_ms: u64, bytes_max: usize) -> History {
        let mut history = History::default();
        for path in self.files() {
            let read = fs::read(&path).map_err(|error| error.to_string());
            let whole = read.and_then(|bytes| {
                each_minute(&bytes, |end_ms, rows| history.keep(end_ms, rows, bytes_max))
            });
            if let Err(why) = whole {
                tracing::warn!(path = %path.display(), %why, "minutes of digests are lost");
            }
        }
        history.keep(now_ms, Vec::new(), bytes_max);
        history
    }

    /// Writes what was counted in the minute that ended now. All files take so many bytes at most, beside the newest.
    pub fn write(&mut self, end_ms: u64, rows: &[Past], bytes_max: usize) {
        if rows.is_empty() {
            return;
        }
        match self.try_write(end_ms, rows, bytes_max as u64) {
            Ok(()) => self.fails = false,
            Err(error) => {
                // What stands behind a torn minute is lost.
                self.open = None;
                if !std::mem::replace(&mut self.fails, true) {
                    let path = self.dir.display();
                    tracing::warn!(%path, %error, "minutes of digests cannot be written");
                }
            }
        }
    }

    fn try_write(&mut self, end_ms: u64, rows: &[Past], bytes_max: u64) -> io::Result<()> {
        let is_full = |open: &Open| {
            open.bytes > bytes_max / FILES || open.began_ms.saturating_add(FILE_MS) < end_ms
        };
        if self.open.as_ref().is_none_or(is_full) {
            self.open = None;
            self.sweep(bytes_max)?;
            self.open = Some(self.begin(end_ms)?);
        }
        let Some(open) = &mut self.open else {
            return Ok(());
        };
        let minute = open.writer.encode(end_ms, rows);
        let length = u32::try_from(minute.len()).map_err(io::Error::other)?;
        let mut bytes = Vec::with_capacity(HEAD_BYTES + minute.len());
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&hash(&minute).to_le_bytes());
        bytes.extend_from_slice(&minute);
        open.file.write_all(&bytes)?;
        open.bytes += bytes.len() as u64;
        Ok(())
    }

    fn begin(&self, now_ms: u64) -> io::Result<Open> {
        private::create_dir(&self.dir)?;
        // A process may have the number of one before, but not in the same millisecond.
        let name = format!("{now_ms:015}-{}.{ENDING}", std::process::id());
        let path = self.dir.join(name);
        let mut file = private::create(&path)?;
        file.write_all(MAGIC)?;
        Ok(Open {
            file,
            bytes: MAGIC.len() as u64,
            began_ms: now_ms,
            writer: MinuteWriter::default(),
        })
    }

    /// Removes files that are too old, and the oldest of those that take too much, with room for another one.
    fn sweep(&self, bytes_max: u64) -> io::Result<()> {
        let oldest = SystemTime::now().checked_sub(KEPT);
        let mut left = bytes_max - bytes_max / FILES;
        for path in self.files().iter().rev() {
            let Ok(found) = fs::metadata(path) else {
                continue;
            };
            let is_old = oldest.is_some_and(|oldest| found.modified().is_ok_and(|at| at < oldest));
            match left.checked_sub(found.len()).filter(|_| !is_old) {
                Some(rest) => left = rest,
                None => {
                    left = if is_old { left } else { 0 };
                    fs::remove_file(path)?;
                }
            }
        }
        Ok(())
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.open = None;
        for path in self.files() {
            if let Err(error) = fs::remove_file(&path) {
                tracing::warn!(path = %path.display(), %error, "minutes of digests are still there");
            }
        }
    }

    /// The oldest first.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(&self.dir) else {
            return Vec::new();
        };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut all: Vec<PathBuf> = paths
            .filter(|path| path.extension().is_some_and(|ending| ending == ENDING))
            .collect();
        all.sort();
        all
    }
}

/// Tells each whole minute of a file. The error says where the file ends to be one.
fn each_minute(bytes: &[u8], mut tell: impl FnMut(u64, Vec<Past>)) -> Result<(), String> {
    let mut rest = bytes
        .strip_prefix(MAGIC)
        .ok_or("it does not begin as files of this release do")?;
    let mut reader = MinuteReader::default();
    while !rest.is_empty() {
        let minute = next(&mut rest).and_then(|minute| reader.decode(minute));
        let Some((end_ms, rows)) = minute else {
            let at = bytes.len() - rest.len();
            return Err(format!("it is damaged before byte {at} of {}", bytes.len()));
        };
        tell(end_ms, rows);
    }
    Ok(())
}

/// The next minute, as it was written.
fn next<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk()?;
    let (sum, behind) = behind.split_first_chunk()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (minute, behind) = behind.split_at_checked(length)?;
    if hash(minute) != u32::from_le_bytes(*sum) {
        return None;
    }
    *rest = behind;
    Some(minute)
}

#[cfg(test)]
mod tests {
    use statistics::Minute;

    use super::*;

    fn rows(tag: &str) -> Vec<Past> {
        let mut minute = Minute::default();
        minute.add(&statistics::Call::default());
        vec![Past {
            digest: sqltext::Digest::of_normal("SELECT ?"),
            user: b"u"[..].into(),
            database: b""[..].into(),
            group: "g1".into(),
            tag: tag.into(),
            text: "SELECT ?".into(),
            minute,
        }]
    }

    /// Tags and texts of what is kept.
    fn kept(state: &Path, now_ms: u64) -> Vec<(String, String)> {
        let history = Minutes::of(state).read(now_ms, 1 << 20);
        let rows = history.since(0).into_iter();
        let mut all: Vec<_> = rows
            .map(|it| (it.tag.to_string(), it.text.to_string()))
            .collect();
        all.sort();
        all
    }

    fn known(tags: &[&str]) -> Vec<(String, String)> {
        let all = tags
            .iter()
            .map(|tag| ((*tag).to_owned(), "SELECT ?".to_owned()));
        all.collect()
    }

    #[test]
    fn minutes_outlive_their_writer() {
        let home = tempfile::tempdir().expect("a directory");
        assert_eq!(kept(home.path(), 1), known(&[]), "nothing is there yet");
        let mut minutes = Minutes::of(home.path());
        minutes.write(60_000, &rows("a"), 1 << 20);
        minutes.write(120_000, &rows("b"), 1 << 20);
        let mut another = Minutes::of(home.path());
        another.write(130_000, &rows("c"), 1 << 20);
        assert_eq!(kept(home.path(), 200_000), known(&["a", "b", "c"]));
        let day_ms = 24 * 3600 * 1000;
        assert_eq!(kept(home.path(), 125_000 + day_ms), known(&["c"]));
        minutes.clear();
        assert_eq!(kept(home.path(), 200_000), known(&[]));
        another.write(190_000, &rows("d"), 1 << 20);
        minutes.write(200_000, &rows("e"), 1 << 20);
        assert_eq!(kept(home.path(), 200_000), known(&["e"]));
    }

    #[test]
    fn what_is_damaged_costs_what_stands_behind_it() {
        let home = tempfile::tempdir().expect("a directory");
        let mut minutes = Minutes::of(home.path());
        for (end_ms, tag) in [(60_000, "a"), (120_000, "b"), (180_000, "c")] {
            minutes.write(end_ms, &rows(tag), 1 << 20);
        }
        let path = minutes.files().remove(0);
        let whole = fs::read(&path).expect("it is there");
        let at = whole
            .windows(2)
            .position(|part| part == b"\x01b")
            .expect("a tag");
        let mut damaged = whole.clone();
        damaged[at + 1] = b'x';
        fs::write(&path, damaged).expect("written");
        assert_eq!(kept(home.path(), 200_000), known(&["a"]));
        for end in 0..whole.len() {
            fs::write(&path, &whole[..end]).expect("written");
            assert!(kept(home.path(), 200_000).len() <= 2, "{end}");
        }
        fs::write(&path, "something else").expect("written");
        assert_eq!(kept(home.path(), 200_000), known(&[]));
    }

    #[test]
    fn what_cannot_be_written_is_no_failure() {
        let home = tempfile::tempdir().expect("a directory");
        fs::write(home.path().join(DIRECTORY), "in the way").expect("written");
        let mut minutes = Minutes::of(home.path());
        for end_ms in [60_000, 120_000] {
            minutes.write(end_ms, &rows("a"), 1 << 20);
            assert!(minutes.fails && minutes.open.is_none());
        }
        fs::remove_file(home.path().join(DIRECTORY)).expect("removed");
        minutes.write(180_000, &rows("b"), 1 << 20);
        assert_eq!(kept(home.path(), 200_000), known(&["b"]));
    }

    #[test]
    fn files_take_no_more_than_they_may() {
        let home = tempfile::tempdir().expect("a directory");
        let mut minutes = Minutes::of(home.path());
        let max = 8000;
        for end_ms in 0..1000 {
            minutes.write(end_ms, &rows(&end_ms.to_string()), max);
        }
        let files = minutes.files();
        let bytes = files.iter().filter_map(|path| fs::metadata(path).ok());
        let bytes: u64 = bytes.map(|found| found.len()).sum();
        assert!(
            files.len() > 2 && bytes <= max as u64 + 200,
            "{bytes} in {files:?}"
        );
        let tags = kept(home.path(), 1000);
        assert!(tags.contains(&("999".to_owned(), "SELECT ?".to_owned())));
    }
}
