//! What a ring has to do with the epoll beside it, by which receives wait where one session talks: who talks, and the
//! eventfd by which the ring wakes a core that sleeps in epoll.
//!
//! A ring's own descriptor can be polled, too, but the kernel tells nobody of completions that it defers
//! (`IORING_SETUP_DEFER_TASKRUN`) in this way: a registered eventfd is told of them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

use io_uring::IoUring;
use rustix::event::{EventfdFlags, eventfd};

use super::Ring;
use crate::descriptor::Descriptor;
use crate::tasks::Waiter;

/// Completed receives for which a core that heard a third peer takes it that several talk.
const COMPANY: u32 = 32;

/// Whose bytes came last. A client and its server are two; a third means that another session works, and then what
/// is sent and received had better share a call to the kernel with what that one does.
#[derive(Default)]
pub(super) struct Talkers {
    last: [usize; 2],
    company: u32,
}

impl Talkers {
    pub(super) fn heard(&mut self, descriptor: &Rc<Descriptor>) {
        let one = Rc::as_ptr(descriptor).addr();
        if self.last.contains(&one) {
            self.company = self.company.saturating_sub(1);
            return;
        }
        if self.last[0] != 0 {
            self.company = COMPANY;
        }
        self.last = [self.last[1], one];
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
    /// These bytes came last.
    pub(crate) fn heard(&mut self, descriptor: &Rc<Descriptor>) {
        self.talkers.heard(descriptor);
    }

    /// Several sessions work at the same time.
    pub(crate) fn several_talk(&self) -> bool {
        self.talkers.company > 0
    }

    /// As if several sessions did so, or one.
    #[cfg(test)]
    pub(crate) fn pretend_that_several_talk(&mut self, several: bool) {
        self.talkers.company = if several { COMPANY } else { 0 };
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
