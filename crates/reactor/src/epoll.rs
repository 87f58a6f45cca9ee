//! The kernel asked by epoll: sockets are registered once, edge-triggered, and read or written only
//! when they can be.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::remote::Remote;
use crate::tasks::Waiter;

/// Events taken from the kernel at a time.
const EVENTS: usize = 512;

/// The bell's token; no socket's, since slots are fewer.
const BELL: u64 = u64::MAX;

/// Names a registered socket. The generation tells a late event of a closed socket from one of the
/// socket that has its slot now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceId {
    slot: u32,
    generation: u32,
}

/// One way of a socket: whether it can go on, and who waits for that.
#[derive(Default)]
struct Way {
    ready: bool,
    waiter: Option<Waiter>,
}

impl Way {
    fn open(&mut self, woken: &mut Vec<Waiter>) {
        self.ready = true;
        woken.extend(self.waiter.take());
    }
}

#[derive(Default)]
struct Source {
    generation: u32,
    receive: Way,
    send: Way,
    /// The peer has closed, or the connection is broken: there may be no further event.
    over: bool,
}

/// Which way of a socket is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

/// An epoll instance with its sockets.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    sources: Vec<Source>,
    free: Vec<u32>,
    events: Box<[MaybeUninit<Event>; EVENTS]>,
}

impl Epoll {
    pub(crate) fn new(remote: &Remote) -> io::Result<Epoll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Edge-triggered: it rings for every write, and is never read.
        let flags = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, remote.bell(), EventData::new_u64(BELL), flags)?;
        Ok(Epoll {
            epoll,
            sources: Vec::new(),
            free: Vec::new(),
            events: Box::new([MaybeUninit::uninit(); EVENTS]),
        })
    }

    /// Registers a socket, for as long as it is open. Sending is tried at once only where `connected`.
    pub(crate) fn register(&mut self, fd: BorrowedFd<'_>, connected: bool) -> io::Result<SourceId> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.register_for(fd, connected, flags)
    }

    fn register_for(
        &mut self,
        fd: BorrowedFd<'_>,
        connected: bool,
        flags: EventFlags,
    ) -> io::Result<SourceId> {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.sources.push(Source::default());
            self.sources.len() as u32 - 1
        });
        let source = &mut self.sources[slot as usize];
        source.send.ready = connected;
        let id = SourceId {
            slot,
            generation: source.generation,
        };
        let token = u64::from(id.generation) << 32 | u64::from(slot);
        match epoll::add(&self.epoll, fd, EventData::new_u64(token), flags) {
            Ok(()) => Ok(id),
            Err(error) => {
                drop(self.forget(id));
                Err(error.into())
            }
        }
    }

    /// Waits at a listening socket, as others do: for each client one of them is told.
    pub(crate) fn watch(&mut self, fd: BorrowedFd<'_>) -> io::Result<SourceId> {
        let flags = EventFlags::IN | EventFlags::ET | EventFlags::EXCLUSIVE;
        self.register_for(fd, false, flags)
    }

    /// Waits there no more. Those who did are returned, to be dropped where nothing is borrowed.
    pub(crate) fn unwatch(&mut self, fd: BorrowedFd<'_>, id: SourceId) -> [Option<Waiter>; 2] {
        // It fails only where it was not registered.
        let _ = epoll::delete(&self.epoll, fd);
        self.forget(id)
    }

    /// Forgets a socket that is about to be closed, which is what ends its registration. Those who
    /// still wait for it are returned, to be dropped where nothing is borrowed.
    pub(crate) fn forget(&mut self, id: SourceId) -> [Option<Waiter>; 2] {
        let source = &mut self.sources[id.slot as usize];
        let waiters = [source.receive.waiter.take(), source.send.waiter.take()];
        // 2^32 - 1 is left out, so that no token is the bell's.
        let generation = source.generation.wrapping_add(1) % u32::MAX;
        *source = Source {
            generation,
            ..Source::default()
        };
        self.free.push(id.slot);
        waiters
    }

    fn way(&mut self, id: SourceId, direction: Direction) -> &mut Way {
        let source = &mut self.sources[id.slot as usize];
        match direction {
            Direction::Receive => &mut source.receive,
            Direction::Send => &mut source.send,
        }
    }

    /// True when the socket can go on this way, as far as is known.
    pub(crate) fn is_ready(&mut self, id: SourceId, direction: Direction) -> bool {
        self.way(id, direction).ready
    }

    /// Wakes `waiter` once the socket can go on. Returns who waited before.
    pub(crate) fn wait(
        &mut self,
        id: SourceId,
        direction: Direction,
        waiter: Waiter,
    ) -> Option<Waiter> {
        self.way(id, direction).waiter.replace(waiter)
    }

    /// The kernel has said that the socket must wait.
    pub(crate) fn must_wait(&mut self, id: SourceId, direction: Direction) {
        self.way(id, direction).ready = false;
    }

    /// A receive got less than it had room for, so that was all; unless the end has been announced,
    /// what comes next makes an event.
    pub(crate) fn drained(&mut self, id: SourceId) {
        let source = &mut self.sources[id.slot as usize];
        source.receive.ready = source.over;
    }

    /// Takes events; waits for one for at most `wait`, for ever without.
    pub(crate) fn turn(&mut self, wait: Option<Duration>, woken: &mut Vec<Waiter>) {
        let limit = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let events = match epoll::wait(self.epoll.as_fd(), &mut self.events[..], limit.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return,
            Err(error) => panic!("epoll_wait on a healthy epoll: {error}"),
        };
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == BELL {
                continue;
            }
            let Some(source) = self.sources.get_mut(token as u32 as usize) else {
                continue;
            };
            if u64::from(source.generation) != token >> 32 {
                continue;
            }
            if flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR) {
                source.over = true;
            }
            if source.over || flags.contains(EventFlags::IN) {
                source.receive.open(woken);
            }
            if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
                source.send.open(woken);
            }
        }
    }
}
