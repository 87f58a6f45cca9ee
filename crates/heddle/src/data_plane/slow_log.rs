//! The slow log: a line of JSON for each slow statement, written by a thread of its own.
//!
//! The cores hand statements over by a bounded queue and never wait. A file that has become long enough is renamed to
//! `FILE.1`, its predecessors to `FILE.2` and so on, and the oldest is removed. A line that cannot be written is lost;
//! the log of the router says so once until writing works again.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};

use catalog::event::when;
use serde_json::json;
use sqltext::Digest;
use statistics::{Slow, SlowQueue, queue};

use crate::failure::Failure;
use crate::settings::Settings;

const MINUTE_MS: u64 = 60_000;

/// Where more digests are slow in a minute, their lines are counted anew.
const DIGESTS_MAX: usize = 10_000;

/// Begins to write, where the settings name a file. The thread ends with the last end of the queue.
///
/// # Errors
/// The file cannot be written, or the process may have no more threads.
pub fn start(settings: &Settings) -> Result<Option<SlowQueue>, Failure> {
    let Some(path) = settings.slow_log.0.clone() else {
        return Ok(None);
    };
    let shown = path.display().to_string();
    let failed = |error: io::Error| {
        Failure::new(format!(
            "cannot write slow statements into {shown}: {error}; name another file with slow_log"
        ))
    };
    let mut log = Log {
        path,
        bytes_max: settings.slow_log_bytes_max,
        files: settings.slow_log_files,
        file: None,
        bytes: 0,
        fails: false,
        share: Share::of(settings.slow_log_digest_lines),
    };
    log.open().map_err(failed)?;
    let (queue, slow) = queue();
    let thread = std::thread::Builder::new().name("slow-log".to_owned());
    thread.spawn(move || log.follow(&slow)).map_err(failed)?;
    Ok(Some(queue))
}

struct Log {
    path: PathBuf,
    bytes_max: u64,
    files: u64,
    file: Option<BufWriter<File>>,
    /// What it has by now.
    bytes: u64,
    /// The last line could not be written.
    fails: bool,
    share: Share,
}

/// How much of the log one digest may have.
struct Share {
    /// In a minute; 0 for no bound.
    lines_max: u64,
    /// Since 1970, of the statements that came last.
    minute: u64,
    /// Lines of this minute, and statements that were left out since the digest's last line.
    digests: HashMap<Digest, (u64, u64)>,
}

impl Share {
    fn of(lines_max: u64) -> Share {
        Share {
            lines_max,
            minute: 0,
            digests: HashMap::new(),
        }
    }

    /// How many statements of its digest were left out before this one; `None` where it is left out, too.
    fn take(&mut self, slow: &Slow) -> Option<u64> {
        if self.lines_max == 0 {
            return Some(0);
        }
        let minute = slow.call.at_ms / MINUTE_MS;
        if minute > self.minute {
            self.minute = minute;
            self.digests.retain(|_, (_, left_out)| *left_out > 0);
            for (lines, _) in self.digests.values_mut() {
                *lines = 0;
            }
        }
        if self.digests.len() >= DIGESTS_MAX && !self.digests.contains_key(&slow.digest) {
            self.digests.clear();
        }
        let (lines, left_out) = self.digests.entry(slow.digest).or_default();
        if *lines >= self.lines_max {
            *left_out += 1;
            return None;
        }
        *lines += 1;
        Some(std::mem::take(left_out))
    }
}

impl Log {
    /// Writes all that comes, until nothing can come any more.
    fn follow(&mut self, queue: &Receiver<Slow>) {
        loop {
            let slow = match queue.try_recv() {
                Ok(slow) => slow,
                Err(TryRecvError::Empty) => {
                    let flushed = self.file.as_mut().map_or(Ok(()), Write::flush);
                    self.note(flushed);
                    match queue.recv() {
                        Ok(slow) => slow,
                        Err(_) => return,
                    }
                }
                Err(TryRecvError::Disconnected) => return,
            };
            if let Some(left_out) = self.share.take(&slow) {
                let written = self.write(&line(&slow, left_out));
                self.note(written);
            }
        }
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + line.len() as u64 > self.bytes_max {
            self.rotate()?;
        }
        if self.file.is_none() {
            self.open()?;
        }
        if let Some(file) = &mut self.file {
            file.write_all(line.as_bytes())?;
            self.bytes += line.len() as u64;
        }
        Ok(())
    }

    fn open(&mut self) -> io::Result<()> {
        // Texts are nobody's business but the operator's.
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .open(&self.path)?;
        self.bytes = file.metadata()?.len();
        self.file = Some(BufWriter::new(file));
        Ok(())
    }

    /// Makes room for a new file.
    fn rotate(&mut self) -> io::Result<()> {
        if let Some(mut file) = self.file.take() {
            file.flush()?;
        }
        match self.files {
            1 => std::fs::remove_file(&self.path)?,
            files => {
                for number in (1..files - 1).rev() {
                    let older = numbered(&self.path, number + 1);
                    rename(&numbered(&self.path, number), &older)?;
                }
                rename(&self.path, &numbered(&self.path, 1))?;
            }
        }
        self.bytes = 0;
        Ok(())
    }

    fn note(&mut self, done: io::Result<()>) {
        match done {
            Ok(()) => self.fails = false,
            Err(error) => {
                // To be opened anew: the disk may have been full, or the directory gone.
                self.file = None;
                if !std::mem::replace(&mut self.fails, true) {
                    let path = self.path.display();
                    tracing::warn!(%path, %error, "slow statements cannot be written");
                }
            }
        }
    }
}

fn numbered(path: &Path, number: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{number}"));
    PathBuf::from(name)
}

/// Renames a file that may not be there.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    match std::fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// A statement as a line; so many of its digest were left out before it.
fn line(slow: &Slow, left_out: u64) -> String {
    let ms = |us: u64| us as f64 / 1000.0;
    let call = &slow.call;
    let line = json!({
        "time": when(call.at_ms),
        "ms": ms(call.total_us()),
        "wait_ms": ms(call.waiting_us),
        "server_ms": ms(call.server_us),
        "kind": slow.kind.name(),
        "door": slow.door.name(),
        "session": slow.session,
        "user": slow.user,
        "client": slow.client,
        "database": slow.database,
        "group": slow.group,
        "server": slow.server,
        "digest": slow.digest.to_string(),
        "text": slow.text,
        "tag": slow.tag,
        "trace": slow.trace,
        "error": call.error,
        "rows_sent": call.rows_sent,
        "rows_changed": call.rows_changed,
        "bytes": call.bytes,
        "retries": slow.retries,
        "left_out": left_out,
    });
    format!("{line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;
    use statistics::{Call, Door, Kind};

    fn slow(session: u32) -> Slow {
        Slow {
            call: Call {
                error: Some(1062),
                at_ms: 1_770_000_000_123,
                waiting_us: 1_500,
                server_us: 2_000_000,
                ..Call::default()
            },
            kind: Kind::Write,
            door: Door::Sql,
            session,
            user: "u".to_owned(),
            client: "127.0.0.1:5".to_owned(),
            database: "d".to_owned(),
            group: "g1".to_owned(),
            server: "127.0.0.1:3306".to_owned(),
            digest: Digest::of_normal("INSERT INTO t VALUES (?)"),
            text: "INSERT INTO t VALUES (\"a\nb\")".to_owned(),
            tag: "app:web".to_owned(),
            trace: String::new(),
            retries: 0,
        }
    }

    fn log(path: &Path, bytes_max: u64, files: u64) -> Log {
        Log {
            path: path.to_owned(),
            bytes_max,
            files,
            file: None,
            bytes: 0,
            fails: false,
            share: Share::of(0),
        }
    }

    #[test]
    fn a_digest_has_so_many_lines_in_a_minute() {
        let mut share = Share::of(2);
        let mut take = |minute: u64, text: &str| {
            let mut slow = slow(1);
            slow.call.at_ms = minute * MINUTE_MS + 7;
            slow.digest = Digest::of_normal(text);
            share.take(&slow)
        };
        let first: Vec<_> = (0..4).map(|_| take(5, "SELECT a")).collect();
        assert_eq!(first, [Some(0), Some(0), None, None]);
        assert_eq!(take(5, "SELECT b"), Some(0), "it is another one");
        assert_eq!(take(6, "SELECT a"), Some(2), "two were left out");
        // A core that is late does not begin the minute anew.
        assert_eq!(take(5, "SELECT a"), Some(0));
        assert_eq!(take(6, "SELECT a"), None);
    }

    #[test]
    fn a_line_is_one_object() {
        let line = line(&slow(7), 3);
        assert_eq!(line.matches('\n').count(), 1);
        let read: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(read["ms"], 2001.5);
        assert_eq!(read["error"], 1062);
        assert_eq!(read["time"], "2026-02-02T02:40:00.123Z");
        assert_eq!(
            (&read["session"], &read["left_out"]),
            (&7.into(), &3.into())
        );
    }

    #[test]
    fn files_are_renamed_and_the_oldest_goes() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("slow.log");
        let (sender, receiver) = queue();
        for session in 1..=5 {
            assert!(sender.offer(slow(session)));
        }
        drop(sender);
        // Two lines do not fit into one file.
        let bytes_max = line(&slow(1), 0).len() as u64 + 1;
        log(&path, bytes_max, 3).follow(&receiver);
        let session = |path: &Path| {
            let text = std::fs::read_to_string(path).ok()?;
            let read: Value = serde_json::from_str(&text).expect("one line");
            read["session"].as_u64()
        };
        assert_eq!(session(&path), Some(5));
        assert_eq!(session(&numbered(&path, 1)), Some(4));
        assert_eq!(session(&numbered(&path, 2)), Some(3));
        assert_eq!(session(&numbered(&path, 3)), None);
    }

    #[test]
    fn a_log_goes_on_where_it_ended() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("slow.log");
        for session in 1..=2 {
            let mut log = log(&path, 1 << 20, 1);
            log.write(&line(&slow(session), 0)).expect("written");
        }
        let text = std::fs::read_to_string(&path).expect("the file");
        assert_eq!(text.lines().count(), 2);
    }
}
