//! The kernel asked by epoll: sockets are registered once, edge-triggered, and read or written only
//! when they can be.
//!
//! It carries a core alone, or stands beside a ring, which then has all but the receives of a core that
//! serves one session (`driver`). Receives that wait are listed, so that all of them can be told to go on
//! elsewhere, and those that have waited for long to do without a buffer.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::tasks::Waiter;

/// Events taken from the kernel at a time.
const EVENTS: usize = 512;

/// The bells' token; no socket's, since slots are fewer.
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
    /// Its receive waits, and may be told to go on elsewhere.
    waits: bool,
    /// It stands in the list of those whose receive waits, or did and has gone on since.
    listed: bool,
    /// For how many looks at idle receives its receive has waited.
    looks: u8,
    /// Its receive has waited for long: the next one is to do without a buffer.
    idle: bool,
}

/// Which way of a socket is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Receive,
    Send,
}

/// What has happened at one look.
#[derive(Default)]
pub(crate) struct Events {
    /// A bell has.
    pub(crate) rang: bool,
    /// So many who waited to receive can.
    pub(crate) receives: u32,
}

/// An epoll instance with its sockets.
pub(crate) struct Epoll {
    epoll: OwnedFd,
    sources: Vec<Source>,
    free: Vec<u32>,
    /// So many receives wait that may be told to go on elsewhere.
    waiting: usize,
    /// Their sources, and some whose receive has gone on since.
    listed: Vec<SourceId>,
    events: Box<[MaybeUninit<Event>; EVENTS]>,
}

impl Epoll {
    /// One that these eventfds wake, too.
    pub(crate) fn new(bells: &[BorrowedFd<'_>]) -> io::Result<Epoll> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Edge-triggered: it rings for every write, and is never read here.
        let flags = EventFlags::IN | EventFlags::ET;
        for bell in bells {
            epoll::add(&epoll, bell, EventData::new_u64(BELL), flags)?;
        }
        Ok(Epoll {
            epoll,
            sources: Vec::new(),
            free: Vec::new(),
            waiting: 0,
            listed: Vec::new(),
            events: Box::new([MaybeUninit::uninit(); EVENTS]),
        })
    }

    /// Registers a socket, for as long as it is open. Sending is tried at once only where `connected`.
    pub(crate) fn register(&mut self, fd: BorrowedFd<'_>, connected: bool) -> io::Result<SourceId> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.register_for(fd, connected, flags)
    }

    /// Registers a socket that is only received from, for as long as it is open.
    pub(crate) fn register_receives(&mut self, fd: BorrowedFd<'_>) -> io::Result<SourceId> {
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        self.register_for(fd, false, flags)
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
        self.waiting -= usize::from(source.waits);
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

    /// Wakes `waiter` once there is something to receive, when the receive is to go on elsewhere, or when it has
    /// waited for long. Returns who waited before.
    pub(crate) fn wait_to_receive(&mut self, id: SourceId, waiter: Waiter) -> Option<Waiter> {
        let source = &mut self.sources[id.slot as usize];
        if !source.listed {
            (source.listed, source.looks) = (true, 0);
            self.listed.push(id);
        }
        if !source.waits {
            source.waits = true;
            self.waiting += 1;
        }
        source.receive.waiter.replace(waiter)
    }

    /// Receives that wait, each of which may hold room.
    #[cfg(test)]
    pub(crate) fn receives_with_room(&self) -> usize {
        self.waiting
    }

    /// There is something to receive, as somebody else has seen.
    pub(crate) fn may_receive(&mut self, id: SourceId) {
        self.way(id, Direction::Receive).ready = true;
    }

    /// True when its receive has been told that it is idle. It is told once.
    pub(crate) fn is_idle(&mut self, id: SourceId) -> bool {
        std::mem::take(&mut self.sources[id.slot as usize].idle)
    }

    /// True when a receive waits that may be told to go on elsewhere.
    pub(crate) fn has_receives(&self) -> bool {
        self.waiting > 0
    }

    /// Wakes all who wait to receive.
    pub(crate) fn wake_receives(&mut self, woken: &mut Vec<Waiter>) {
        let Epoll {
            sources, listed, ..
        } = self;
        for id in listed.drain(..) {
            if let Some(source) = current(sources, id) {
                source.listed = false;
                if std::mem::take(&mut source.waits) {
                    woken.extend(source.receive.waiter.take());
                }
            }
        }
        self.waiting = 0;
    }

    /// Looks at all receives that wait, and wakes those that have waited at so many looks: they are idle.
    pub(crate) fn wake_idle(&mut self, looks: u8, woken: &mut Vec<Waiter>) {
        let Epoll {
            sources,
            listed,
            waiting,
            ..
        } = self;
        listed.retain(|&id| {
            let Some(source) = current(sources, id) else {
                return false;
            };
            source.looks += 1;
            source.idle = source.waits && source.looks >= looks;
            if source.idle {
                source.waits = false;
                *waiting -= 1;
                woken.extend(source.receive.waiter.take());
            }
            source.listed = source.waits;
            source.listed
        });
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
    pub(crate) fn turn(&mut self, wait: Option<Duration>, woken: &mut Vec<Waiter>) -> Events {
        let limit = wait.map(|wait| Timespec {
            tv_sec: wait.as_secs() as i64,
            tv_nsec: i64::from(wait.subsec_nanos()),
        });
        let events = match epoll::wait(self.epoll.as_fd(), &mut self.events[..], limit.as_ref()) {
            Ok((events, _)) => events,
            Err(Errno::INTR) => return Events::default(),
            Err(error) => panic!("epoll_wait on a healthy epoll: {error}"),
        };
        let mut all = Events::default();
        for event in events {
            let (token, flags) = (event.data.u64(), event.flags);
            if token == BELL {
                all.rang = true;
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
                (source.looks, source.idle) = (0, false);
                all.receives += u32::from(source.receive.waiter.is_some());
                self.waiting -= usize::from(std::mem::take(&mut source.waits));
                source.receive.open(woken);
            }
            if flags.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
                source.send.open(woken);
            }
        }
        all
    }
}

/// The source of this id, unless it has been forgotten.
fn current(sources: &mut [Source], id: SourceId) -> Option<&mut Source> {
    let source = sources.get_mut(id.slot as usize);
    source.filter(|source| source.generation == id.generation)
}
