//! Slow statements on their way from the cores to whoever writes them down.
//!
//! The queue is bounded: when it is full, a statement is dropped, and the core that wanted to hand it over counts
//! that. A core never waits.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use sqltext::Digest;

use crate::counts::Call;
use crate::measured::{Door, Kind};

/// So many slow statements wait to be written.
pub const QUEUE_MAX: usize = 1024;

/// One slow statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slow {
    pub call: Call,
    pub kind: Kind,
    pub door: Door,
    /// The id of its session.
    pub session: u32,
    pub user: String,
    /// Where its client is; empty for a session of Heddle's own.
    pub client: String,
    pub database: String,
    pub group: String,
    /// `HOST:PORT` of the server that answered; empty where none did, or several.
    pub server: String,
    pub digest: Digest,
    /// As it came, where that may be shown, else its normal form.
    pub text: String,
    pub tag: String,
    pub trace: String,
    /// Times that it was sent again.
    pub retries: u32,
}

/// Takes slow statements.
#[derive(Clone, Debug)]
pub struct SlowQueue(SyncSender<Slow>);

/// A queue, and its other end.
pub fn queue() -> (SlowQueue, Receiver<Slow>) {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    (SlowQueue(sender), receiver)
}

impl SlowQueue {
    /// Hands a statement over; false where it was dropped.
    pub fn offer(&self, slow: Slow) -> bool {
        self.0.try_send(slow).is_ok()
    }
}
