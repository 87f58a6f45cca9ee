//! A core's wait at a listening socket for which others wait, too: the kernel wakes one of them for each client.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

use crate::epoll::{Direction, SourceId};
use crate::listening::listener::Listener;
use crate::ring::OpId;
use crate::runtime::{self, Runtime};
use crate::tasks::Waiter;

/// The wait of one core at one listener. Dropped, it is over for the kernel, too.
pub(crate) struct Watch {
    listener: Arc<Listener>,
    runtime: Rc<Runtime>,
    /// The registration with epoll; `None` on io_uring.
    source: Option<SourceId>,
    /// The wait under way on io_uring.
    op: Option<OpId>,
}

impl Watch {
    /// Of this core.
    pub(crate) fn new(listener: Arc<Listener>) -> io::Result<Watch> {
        let runtime = runtime::current().ok_or_else(|| io::Error::other("not on a core"))?;
        let source = match &runtime.driver.ring {
            Some(_) => None,
            None => Some(runtime.driver.epoll.borrow_mut().watch(listener.as_fd())?),
        };
        Ok(Watch {
            listener,
            runtime,
            source,
            op: None,
        })
    }

    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// Waits until there may be a client. Dropped before, it goes on when it is called again.
    pub(crate) async fn ready(&mut self) {
        poll_fn(|context| {
            let waiter = Waiter::of(context);
            let before = match (&self.runtime.driver.ring, self.source) {
                (_, Some(source)) => {
                    let mut epoll = self.runtime.driver.epoll.borrow_mut();
                    if epoll.is_ready(source, Direction::Receive) {
                        return self.runtime.poll_call(context);
                    }
                    epoll.wait(source, Direction::Receive, waiter)
                }
                (Some(ring), None) => {
                    let mut ring = ring.borrow_mut();
                    let op = *self
                        .op
                        .get_or_insert_with(|| ring.client(self.listener.as_fd().as_raw_fd()));
                    if ring.take(&op).is_some() {
                        self.op = None;
                        return Poll::Ready(());
                    }
                    ring.wait(&op, waiter)
                }
                (None, None) => unreachable!("it was registered when it was made"),
            };
            drop(before);
            Poll::Pending
        })
        .await;
    }

    /// The kernel has said that there is nobody.
    pub(crate) fn is_empty(&mut self) {
        if let Some(source) = self.source {
            let mut epoll = self.runtime.driver.epoll.borrow_mut();
            epoll.must_wait(source, Direction::Receive);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let driver = &self.runtime.driver;
        if let Some(source) = self.source {
            let mut epoll = driver.epoll.borrow_mut();
            let waiters = epoll.unwatch(self.listener.as_fd(), source);
            drop(epoll);
            drop(waiters);
        }
        if let (Some(ring), Some(op)) = (&driver.ring, self.op.take()) {
            let left = ring.borrow_mut().abandon(op);
            drop(left);
            ring.borrow_mut().flush();
        }
    }
}
