//! The listening side: one thread that accepts at all of a door's listeners and hands sockets on.
//!
//! One acceptor deals connections to the cores in turn. A listener per core (SO_REUSEPORT) would let
//! the kernel hash eight connections six to two, and one busy core decides the tail latency.
//!
//! A listening socket may be shared with another process, which takes clients over while this one
//! rests. So it is never shut down, only closed, and it does not block: a client that both see coming
//! may be the other's.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};

use crate::listening::listener::{Address, Listener};
use crate::stream::Stream;

/// A look at who is there, without a wait.
const NOW: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 0,
};

/// Pause when nobody can be taken until a client goes; without it the thread would spin.
const NO_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(10);

/// The listening sockets of a door, with their thread.
pub struct Acceptor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What the acceptor and its thread both hold.
struct Shared {
    listeners: Vec<Listener>,
    /// Wakes the thread from its wait for clients.
    wake: OwnedFd,
    phase: Mutex<Phase>,
    changed: Condvar,
}

/// What the thread does, or is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Accepts,
    /// It is to rest, but may be taking somebody.
    Stops,
    Rests,
    /// It is to end; before, it takes those who have connected, unless it rested.
    Ends,
}

impl Acceptor {
    /// Calls `take` on the acceptor's thread for every connection to one of these listening sockets, with
    /// the client's address; who comes by a Unix socket has none.
    pub fn start(
        listeners: Vec<Listener>,
        mut take: impl FnMut(Stream, Option<SocketAddr>) + Send + 'static,
    ) -> io::Result<Acceptor> {
        for listener in &listeners {
            listener.prepare()?;
        }
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            listeners,
            wake: rustix::event::eventfd(0, flags)?,
            phase: Mutex::new(Phase::Accepts),
            changed: Condvar::new(),
        });
        let of_thread = shared.clone();
        let thread = std::thread::Builder::new()
            .name("acceptor".to_owned())
            .spawn(move || of_thread.run(&mut take))?;
        Ok(Acceptor {
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.shared.listeners.iter().map(Listener::address)
    }

    /// The bound TCP address: the port is the real one where 0 was asked for. `None` where clients come by
    /// Unix sockets only.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.addresses().find_map(Address::tcp)
    }

    /// The sockets once more, to be given to another process.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        self.shared.listeners.iter().map(Listener::socket).collect()
    }

    /// Takes nobody from now on until [`Acceptor::resume`]: connections wait in the kernel, or are
    /// taken by another process that has the socket. Waits for the one that is being taken.
    pub fn rest(&self) {
        let mut phase = self.shared.lock();
        if *phase == Phase::Accepts {
            *phase = Phase::Stops;
            self.shared.wake();
        }
        while *phase == Phase::Stops {
            let waited = self.shared.changed.wait(phase);
            phase = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes connections again after a rest.
    pub fn resume(&self) {
        let mut phase = self.shared.lock();
        if *phase == Phase::Rests {
            *phase = Phase::Accepts;
            self.shared.changed.notify_all();
        }
    }

    /// Takes those who have connected already, unless it rests, and then nobody; waits for the thread.
    /// The sockets are closed when the acceptor is dropped.
    pub fn stop(&mut self) {
        if let Some(thread) = self.thread.take() {
            *self.shared.lock() = Phase::Ends;
            self.shared.changed.notify_all();
            self.shared.wake();
            let _ = thread.join();
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        // It fails only when it has been woken 2^64 times without noticing.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// The thread's life: two calls for a client, one that waits for it and one that takes it.
    fn run(&self, take: &mut impl FnMut(Stream, Option<SocketAddr>)) {
        let of_listeners = self.listeners.iter();
        let of_listeners = of_listeners.map(|listener| PollFd::new(listener, PollFlags::IN));
        let wake = PollFd::new(&self.wake, PollFlags::IN);
        let mut watched: Vec<PollFd<'_>> = of_listeners.chain([wake]).collect();
        while let Some(phase) = self.phase() {
            let ends = phase == Phase::Ends;
            // An error says that a signal ended the wait.
            if rustix::event::poll(&mut watched, ends.then_some(&NOW)).is_err() {
                continue;
            }
            let mut took = false;
            for (listener, watched) in self.listeners.iter().zip(&watched) {
                if !watched.revents().is_empty() {
                    took = true;
                    self.take_one(listener, take);
                }
            }
            if ends && !took {
                return;
            }
            if watched
                .last()
                .is_some_and(|wake| !wake.revents().is_empty())
            {
                // Without this the next wait would end at once.
                let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
            }
        }
    }

    /// Takes the next client of a listener, unless another process did or the client has gone.
    fn take_one(&self, listener: &Listener, take: &mut impl FnMut(Stream, Option<SocketAddr>)) {
        match listener.accept() {
            Ok((stream, peer)) => take(stream, peer),
            Err(error) if out_of_descriptors(&error) => {
                std::thread::park_timeout(NO_DESCRIPTORS_PAUSE);
            }
            Err(_) => {}
        }
    }

    /// What the thread is to do, once it need not rest: to accept, or to end with those who have connected. `None`
    /// when it ends at once.
    fn phase(&self) -> Option<Phase> {
        let mut phase = self.lock();
        if !matches!(*phase, Phase::Stops | Phase::Rests) {
            return Some(*phase);
        }
        *phase = Phase::Rests;
        self.changed.notify_all();
        while *phase == Phase::Rests {
            let waited = self.changed.wait(phase);
            phase = waited.unwrap_or_else(PoisonError::into_inner);
        }
        (*phase == Phase::Accepts).then_some(Phase::Accepts)
    }
}

pub(super) fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
