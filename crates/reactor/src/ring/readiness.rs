//! What a ring has to do with the epoll beside it, by which receives wait where one message comes at a time: whether
//! messages come together, and the eventfd by which the ring wakes a core that sleeps in epoll.
//!
//! A ring's own descriptor can be polled, too, but the kernel tells nobody of completions that it defers
//! (`IORING_SETUP_DEFER_TASKRUN`) in this way: a registered eventfd is told of them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use io_uring::IoUring;
use rustix::event::{EventfdFlags, eventfd};

use super::Ring;
use crate::tasks::Waiter;

/// One message, as averages are counted.
const ONE: u32 = 1 << 16;

/// Messages come together where there are so many in a turn, and do so until there are fewer than `TOGETHER_MIN`.
const TOGETHER: u32 = ONE + ONE / 16;
const TOGETHER_MIN: u32 = ONE + ONE / 50;

/// Turns over which it is averaged. With two messages in each it takes five to show.
const TURNS: u32 = 64;

/// No turn counts as more messages.
const MESSAGES_MAX: u32 = 4;

/// Whether messages come together, so that what is sent and received had better share calls to the kernel. It goes by what
/// comes and not by how many sessions there are: of some that wait for the disk in turns, each has the core to itself.
pub(super) struct Sharing {
    /// Messages that came in this turn.
    came: u32,
    /// Of the turns in which any came.
    average: u32,
    together: bool,
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing {
            came: 0,
            average: ONE,
            together: false,
        }
    }
}

impl Sharing {
    /// So many more in this turn.
    pub(super) fn came(&mut self, messages: u32) {
        self.came += messages;
    }

    fn turned(&mut self) {
        let came = std::mem::take(&mut self.came).min(MESSAGES_MAX);
        if came == 0 {
            return;
        }
        self.average = (self.average * (TURNS - 1) + ONE * came) / TURNS;
        let bound = if self.together {
            TOGETHER_MIN
        } else {
            TOGETHER
        };
        self.together = self.average > bound;
    }
}

/// The eventfd that the kernel rings when an operation is done, while it is asked to.
pub(super) struct Signal {
    eventfd: OwnedFd,
    is_on: bool,
}

impl Signal {
    pub(super) fn of(ring: &IoUring) -> io::Result<Signal> {
        let eventfd = eventfd(0, EventfdFlags::CLOEXEC)?;
        ring.submitter().register_eventfd(eventfd.as_raw_fd())?;
        let is_on = true;
        Ok(Signal { eventfd, is_on })
    }
}

impl Ring {
    /// A turn is over, in which so many messages came beside those that the ring received.
    pub(crate) fn turned(&mut self, messages: u32) {
        self.sharing.came(messages);
        self.sharing.turned();
    }

    /// Several sessions have something to do at the same time.
    pub(crate) fn messages_come_together(&self) -> bool {
        self.sharing.together
    }

    /// As if they did, or did not.
    #[cfg(test)]
    pub(crate) fn pretend_that_messages_come_together(&mut self, together: bool) {
        self.sharing.together = together;
        self.sharing.average = if together { ONE * MESSAGES_MAX } else { ONE };
    }

    /// What rings when an operation is done, while [`Ring::signal`] says so.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.signal.eventfd.as_fd()
    }

    /// Has the bell rung when an operation is done, or not. True when that is new: of what was done before, the bell
    /// says nothing.
    pub(crate) fn signal(&mut self, on: bool) -> bool {
        if self.signal.is_on == on {
            return false;
        }
        self.signal.is_on = on;
        let completions = self.ring.completion();
        match on {
            true => completions.enable_eventfd(),
            false => completions.disable_eventfd(),
        }
        true
    }

    /// Something was started that the kernel has not been told of.
    pub(crate) fn has_queued(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    /// Hands over what is queued, and tells who is to run because of what is done.
    pub(crate) fn flush_into(&mut self, woken: &mut Vec<Waiter>) {
        self.flush();
        woken.append(&mut self.woken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After `turns` more turns with these numbers of messages.
    fn together(sharing: &mut Sharing, turns: usize, messages: &[u32]) -> bool {
        for came in messages.iter().cycle().take(turns) {
            sharing.came(*came);
            sharing.turned();
        }
        sharing.together
    }

    #[test]
    fn a_few_turns_show_what_comes() {
        let now_and_then: Vec<u32> = (0..25).map(|turn| 1 + u32::from(turn == 24)).collect();
        let mut sharing = Sharing::default();
        assert!(!together(&mut sharing, 10_000, &[1]));
        // In between it stays as it was, and turns without a message say nothing.
        assert!(!together(&mut sharing, 10_000, &now_and_then));
        assert!(together(&mut sharing, 5, &[2]));
        assert!(together(&mut sharing, 10_000, &[0]));
        assert!(together(&mut sharing, 10_000, &now_and_then));
        // However many there were before.
        assert!(together(&mut sharing, 10_000, &[500]));
        assert!(!together(&mut sharing, 330, &[1]));
        assert!(together(&mut sharing, 2, &[64]));
    }
}
