//! The log of an open transaction: what was sent and what its replies said, so that it can be done again.

use crate::execution::exec::{Job, Shape};
use crate::prepared::statements::Statement;
use backend::SessionState;
use memory::{Budget, Full, Purpose, Reservation, STEP_BYTES};
use mysql_wire::status::Status;
use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// What the client was told by one reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    pub checksum: u32,
    pub bytes: u64,
}

/// One command of the transaction.
pub struct Entry {
    pub shape: Shape,
    pub job: Job,
    /// Where the log has the command as the client sent it, headers included.
    pub(crate) frame: Range<usize>,
    pub told: Told,
    pub insert_id: u64,
    /// When it ran, by the clock of [`crate::per_core::Core`].
    pub(crate) at_us: u64,
}

/// An open transaction.
#[derive(Default)]
pub struct Log {
    /// The session as it was before the first command; `None` while there was none.
    pub began: Option<(Rc<SessionState>, Status, u64)>,
    pub entries: Vec<Entry>,
    /// The entries' frames, one behind the other.
    frames: Vec<u8>,
    pub bytes: usize,
    /// For them, once they are more than a few.
    pub reservation: Option<Reservation>,
    /// Why it cannot be done again.
    pub refused: Option<&'static str>,
    /// Of the reply under way.
    pub sum: crc32fast::Hasher,
    pub(crate) sum_bytes: u64,
    /// Statements that the client closed since, by id.
    pub closed: Vec<(u32, Statement)>,
    /// Those of them that are there again while the transaction is done again.
    pub(crate) closed_again: Vec<u32>,
}

/// Logs of transactions that are over, for the next ones of the core.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "sessions hold them in boxes, which are what is to be kept"
)]
pub(crate) struct SpareLogs(RefCell<Vec<Box<Log>>>);

/// Logs that are kept, and what they may have room for; others are freed.
const SPARES_MAX: usize = 32;
const SPARE_ENTRIES_MAX: usize = 64;
const SPARE_BYTES_MAX: usize = 8192;

impl SpareLogs {
    /// An empty one.
    pub fn take(&self) -> Box<Log> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes one back.
    pub fn give(&self, mut log: Box<Log>) {
        let mut spares = self.0.borrow_mut();
        let small =
            log.entries.capacity() <= SPARE_ENTRIES_MAX && log.frames.capacity() <= SPARE_BYTES_MAX;
        if small && spares.len() < SPARES_MAX {
            log.empty();
            spares.push(log);
        }
    }
}

impl Log {
    /// Begins anew, in the room that it has.
    pub fn empty(&mut self) {
        let (mut entries, mut frames) =
            (std::mem::take(&mut self.entries), std::mem::take(&mut self.frames));
        entries.clear();
        frames.clear();
        *self = Log {
            entries,
            frames,
            ..Log::default()
        };
    }

    /// Keeps a command: its frame, and what is to stand of it beside that.
    pub fn keep(&mut self, frame: &[u8], entry: impl FnOnce(Range<usize>) -> Entry) {
        let start = self.frames.len();
        self.frames.extend_from_slice(frame);
        self.entries.push(entry(start..self.frames.len()));
        self.bytes += frame.len() + std::mem::size_of::<Entry>();
    }

    /// The command as the client sent it, headers included.
    pub fn frame(&self, entry: &Entry) -> &[u8] {
        self.frames.get(entry.frame.clone()).unwrap_or_default()
    }

    /// A part of the reply goes to the client.
    pub fn add(&mut self, part: &[u8]) {
        self.sum.update(part);
        self.sum_bytes += part.len() as u64;
    }

    pub(crate) fn take_told(&mut self) -> Told {
        let sum = std::mem::take(&mut self.sum);
        Told {
            checksum: sum.finalize(),
            bytes: std::mem::take(&mut self.sum_bytes),
        }
    }

    /// Keeps a statement that the client closes: a command of the transaction may have run it.
    pub fn keep_closed(&mut self, id: u32, statement: Statement) {
        let used = |entry: &Entry| entry.job == Job::Execute(id);
        if self.entries.iter().any(used) {
            self.closed.push((id, statement));
        }
    }

    /// False once something came that cannot be done twice.
    pub(crate) fn may_be_repeated(&self) -> bool {
        self.refused.is_none() && self.began.is_some()
    }

    /// From now on the transaction cannot be done again.
    pub fn refuse(&mut self, why: &'static str) {
        self.refused.get_or_insert(why);
        (self.entries, self.closed, self.frames) = (Vec::new(), Vec::new(), Vec::new());
        self.reservation = None;
    }

    /// Reserves what it keeps; without memory for that it cannot be done again.
    pub fn cover(&mut self, memory: &Arc<Budget>) {
        if self.bytes <= STEP_BYTES || self.refused.is_some() {
            return;
        }
        let fresh = || Reservation::new(memory, Purpose::Replay);
        let reservation = self.reservation.get_or_insert_with(fresh);
        match reservation.cover(self.bytes) {
            Ok(()) => (),
            Err(Full::Process) => self.refuse("memory_bytes_max was reached"),
            Err(Full::Account) => self.refuse("user_memory_bytes_max was reached"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(log: &mut Log, frame: &[u8]) {
        log.keep(frame, |frame| Entry {
            shape: Shape::command(),
            job: Job::Prepare(0),
            frame,
            told: Told::default(),
            insert_id: 0,
            at_us: 0,
        });
    }

    #[test]
    fn frames_are_found_again_and_room_is_used_again() {
        let spares = SpareLogs::default();
        let mut log = spares.take();
        keep(&mut log, b"UPDATE t");
        keep(&mut log, b"COMMIT");
        let frames: Vec<&[u8]> = log.entries.iter().map(|entry| log.frame(entry)).collect();
        assert_eq!(frames, [&b"UPDATE t"[..], b"COMMIT"]);
        log.refused = Some("a test says so");
        spares.give(log);
        let log = spares.take();
        assert!(log.entries.is_empty() && log.entries.capacity() > 0 && log.frames.is_empty());
        assert!(log.refused.is_none() && log.bytes == 0);
        let mut long = spares.take();
        assert_eq!(long.entries.capacity(), 0, "there was one");
        keep(&mut long, &[b' '; 2 * SPARE_BYTES_MAX]);
        spares.give(long);
        assert_eq!(spares.take().frames.capacity(), 0, "a long one is freed");
    }

    #[test]
    fn what_is_refused_is_forgotten() {
        let mut log = Log::default();
        keep(&mut log, b"UPDATE t");
        log.refuse("a test says so");
        assert!(log.entries.is_empty() && log.frames.is_empty() && log.refused.is_some());
    }
}
