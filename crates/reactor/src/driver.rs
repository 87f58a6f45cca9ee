//! How a core asks the kernel: by epoll, or by a ring with an epoll beside it.
//!
//! The ring's one call hands over what many sessions have started and takes what many have got. Where one message
//! comes at a time there is nothing to share, and an operation costs more than a call: then receives wait by epoll,
//! and the ring has the rest. When messages begin to come together, the receives in epoll are woken and go on by the
//! ring. So no receive waits in both, and the core sleeps in one of them: in epoll while a receive waits there, else in
//! the ring. An eventfd of the ring wakes a core that sleeps in epoll.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::cores::Io;
use crate::epoll::Epoll;
use crate::remote::Remote;
use crate::ring::Ring;
use crate::tasks::Waiter;

/// A receive that has waited at so many looks gives its buffer up.
pub(crate) const IDLE_LOOKS: u8 = 3;

pub(crate) struct Driver {
    pub(crate) epoll: RefCell<Epoll>,
    /// `None` where epoll does everything.
    pub(crate) ring: Option<Box<RefCell<Ring>>>,
}

impl Driver {
    pub(crate) fn new(io: Io, remote: &Arc<Remote>) -> io::Result<Driver> {
        let (epoll, ring) = match io {
            Io::Epoll => (Epoll::new(&[remote.bell()])?, None),
            _ => {
                let ring = Ring::new(remote)?;
                // The ring reads the core's bell, but does not ring its own for that: the kernel lets no eventfd
                // ring because of another.
                let epoll = Epoll::new(&[ring.bell(), remote.bell()])?;
                (epoll, Some(Box::new(RefCell::new(ring))))
            }
        };
        Ok(Driver {
            epoll: RefCell::new(epoll),
            ring,
        })
    }

    /// Hands over what was started and takes what has happened; waits for something to happen for at most `wait`,
    /// for ever without.
    pub(crate) fn turn(&self, wait: Option<Duration>, woken: &mut Vec<Waiter>) {
        let Some(ring) = &self.ring else {
            self.epoll.borrow_mut().turn(wait, woken);
            return;
        };
        // While the ring works, sockets may be closed, which epoll then hears of: it is not borrowed meanwhile.
        let mut ring = ring.borrow_mut();
        if ring.messages_come_together() {
            self.epoll.borrow_mut().wake_receives(woken);
        }
        if !self.epoll.borrow().has_receives() {
            ring.signal(false);
            ring.turn(unless_woken(wait, woken), woken);
            return ring.turned(0);
        }
        // The bell says nothing of what was done before it was asked for.
        if ring.signal(true) || ring.has_queued() {
            ring.flush_into(woken);
        }
        let wait = unless_woken(wait, woken);
        let events = self.epoll.borrow_mut().turn(wait, woken);
        if events.rang {
            ring.flush_into(woken);
        }
        ring.turned(events.receives);
    }

    /// Has receives that have waited for long give up their buffers.
    pub(crate) fn recall_idle(&self, woken: &mut Vec<Waiter>) {
        self.epoll.borrow_mut().wake_idle(IDLE_LOOKS, woken);
        if let Some(ring) = &self.ring {
            ring.borrow_mut().recall_idle();
        }
    }
}

/// Nobody waits where somebody is to run.
fn unless_woken(wait: Option<Duration>, woken: &[Waiter]) -> Option<Duration> {
    match woken.is_empty() {
        true => wait,
        false => Some(Duration::ZERO),
    }
}
