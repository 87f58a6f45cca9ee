//! The listening side: one thread that accepts and hands sockets on.
//!
//! One acceptor deals connections to the cores in turn. A listener per core (SO_REUSEPORT) would let
//! the kernel hash eight connections six to two, and one busy core decides the tail latency.
//!
//! The listening socket may be shared with another process, which takes clients over while this one
//! rests. So it is never shut down, only closed, and it does not block: a client that both see coming
//! may be the other's.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags};
use socket2::{Domain, Protocol, Socket, Type};

/// Connections that the kernel keeps for us while the acceptor is busy.
const BACKLOG: i32 = 4096;

/// Pause when nobody can be taken until a client goes; without it the thread would spin.
const NO_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(10);

/// A listening socket with its thread.
pub struct Acceptor {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// What the acceptor and its thread both hold.
struct Shared {
    listener: TcpListener,
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

/// Listens on an address. The error names it and, for the common causes, the cure.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    bind(address).map_err(|error| explain(address, &error))
}

impl Acceptor {
    /// Calls `take` on the acceptor's thread for every connection to this listening socket.
    pub fn start(
        listener: TcpListener,
        mut take: impl FnMut(TcpStream, SocketAddr) + Send + 'static,
    ) -> io::Result<Acceptor> {
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let shared = Arc::new(Shared {
            listener,
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
            address,
            thread: Some(thread),
        })
    }

    /// The bound address: the port is the real one where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket once more, to be given to another process.
    pub fn listener(&self) -> io::Result<TcpListener> {
        self.shared.listener.try_clone()
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
    /// The socket is closed when the acceptor is dropped.
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

    /// The thread's life.
    fn run(&self, take: &mut impl FnMut(TcpStream, SocketAddr)) {
        while self.may_accept() {
            match self.listener.accept() {
                Ok((stream, peer)) => take(stream, peer),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if *self.lock() == Phase::Ends {
                        return;
                    }
                    self.wait_for_clients();
                }
                Err(error) if out_of_descriptors(&error) => {
                    std::thread::park_timeout(NO_DESCRIPTORS_PAUSE);
                }
                Err(_) => {}
            }
        }
    }

    /// Waits while the thread is to rest. False when it ends then.
    fn may_accept(&self) -> bool {
        let mut phase = self.lock();
        if !matches!(*phase, Phase::Stops | Phase::Rests) {
            return true;
        }
        *phase = Phase::Rests;
        self.changed.notify_all();
        while *phase == Phase::Rests {
            let waited = self.changed.wait(phase);
            phase = waited.unwrap_or_else(PoisonError::into_inner);
        }
        *phase == Phase::Accepts
    }

    fn wait_for_clients(&self) {
        let mut watched = [
            PollFd::new(&self.listener, PollFlags::IN),
            PollFd::new(&self.wake, PollFlags::IN),
        ];
        // An interrupted wait is as good as one that ended.
        let _ = rustix::event::poll(&mut watched, None);
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8]);
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn explain(address: SocketAddr, error: &io::Error) -> io::Error {
    let cure = match error.kind() {
        io::ErrorKind::AddrInUse => "another process has this port; stop it or choose another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need the right to bind them",
        io::ErrorKind::AddrNotAvailable => "this machine has no such address",
        _ => "check the address",
    };
    io::Error::new(
        error.kind(),
        format!("cannot listen on {address}: {error}; {cure}"),
    )
}

fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
