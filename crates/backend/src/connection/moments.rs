//! When things happened on a connection, where others want to know.
//!
//! Must not know: what was sent, and who takes an answer for a sign of life.

use std::time::Instant;

/// Signs of life of one connection are this far apart, in microseconds.
const SIGNS_APART_US: u64 = 5_000;

/// Moments of one connection.
#[derive(Clone, Copy, Debug)]
pub struct Moments {
    /// When the server had let it in.
    pub opened: Instant,
    /// When something was sent to the server last, by [`reactor::turn_us`]: not later than it was.
    sent_us: u64,
    /// The last of these that was taken for a sign of life.
    taken_us: u64,
}

impl Moments {
    /// Of a connection that has just been opened.
    pub(crate) fn new() -> Moments {
        Moments {
            opened: Instant::now(),
            sent_us: 0,
            taken_us: 0,
        }
    }

    /// Something is being sent.
    #[inline]
    pub(crate) fn sent(&mut self) {
        self.sent_us = reactor::turn_us();
    }

    /// The server has answered: how many microseconds ago it surely lived, as what it answered was sent then. `None`
    /// where this connection told about as much shortly before.
    #[inline]
    pub fn sign_of_life(&mut self) -> Option<u64> {
        if self.sent_us.saturating_sub(self.taken_us) < SIGNS_APART_US {
            return None;
        }
        self.taken_us = self.sent_us;
        Some(reactor::since_origin_us().saturating_sub(self.sent_us))
    }
}
