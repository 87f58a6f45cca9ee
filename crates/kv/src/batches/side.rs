//! One of the sides of a container, that of its gets or that of its changes: a task at most, which waits
//! for a moment before a batch where that is worth it.

use std::cell::{Cell, RefCell};
use std::task::{Poll, Waker};
use std::time::Duration;

use crate::batches::linger::{Linger, Worth};
use crate::store::Open;

/// The batch before.
#[derive(Clone, Copy, Default)]
pub(crate) struct Last {
    pub answered: usize,
    pub took: Duration,
}

/// A task at most, and its internal session while there is none.
pub(crate) struct Side {
    pub runs: Cell<bool>,
    pub internal: RefCell<Option<Open>>,
    linger: RefCell<Linger>,
    /// What the next batch waits for.
    wanted: Cell<usize>,
    waker: RefCell<Option<Waker>>,
}

impl Side {
    pub fn new(worth: Worth) -> Side {
        Side {
            runs: Cell::new(false),
            internal: RefCell::default(),
            linger: RefCell::new(Linger::new(worth)),
            wanted: Cell::new(usize::MAX),
            waker: RefCell::default(),
        }
    }

    /// Waits for commands of those who were answered, where that is worth it.
    pub async fn gather(&self, last: Last, waiting: impl Fn() -> usize) {
        let before = waiting();
        let wanted = self.linger.borrow_mut().wanted(last.answered, before);
        let Some(wanted) = wanted else { return };
        self.wanted.set(wanted);
        let all_here = std::future::poll_fn(|context| match waiting() >= wanted {
            true => Poll::Ready(()),
            false => {
                self.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        });
        reactor::timeout(Linger::longest(last.took), all_here).await;
        self.wanted.set(usize::MAX);
        let came = waiting().saturating_sub(before);
        self.linger.borrow_mut().ended(wanted - before, came);
    }

    /// Waits until something is so, which is looked at whenever a command comes; not longer than `limit`.
    pub async fn wait(&self, limit: Duration, ready: impl Fn() -> bool) {
        self.wanted.set(0);
        let is_so = std::future::poll_fn(|context| match ready() {
            true => Poll::Ready(()),
            false => {
                self.waker.replace(Some(context.waker().clone()));
                Poll::Pending
            }
        });
        reactor::timeout(limit, is_so).await;
        self.wanted.set(usize::MAX);
    }

    /// There are so many commands now.
    pub fn heed(&self, waiting: usize) {
        if waiting < self.wanted.get() {
            return;
        }
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}
