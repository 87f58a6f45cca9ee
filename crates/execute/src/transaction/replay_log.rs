//! The log of an open transaction: what was sent and what its replies said, so that it can be done again.

use crate::execution::exec::{Job, Shape};
use crate::prepared::statements::Statement;
use backend::SessionState;
use memory::{Budget, Full, Purpose, Reservation, STEP_BYTES};
use mysql_wire::status::Status;
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
    /// The command as the client sent it, headers included.
    pub frame: Box<[u8]>,
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

impl Log {
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
        (self.entries, self.closed) = (Vec::new(), Vec::new());
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
