//! The data plane's runtime seam: cores, sockets, timers, on io_uring or epoll.
//!
//! Job: run one thread per core, each with its own completion runtime, and give sessions plain
//! `async` calls: [`Sock::recv`], [`Sock::send`], [`sleep`], [`timeout`], [`spawn`]. The runtime below
//! is compio, pinned to one version; nothing of it shows in this crate's signatures, so that it can
//! be exchanged without touching a session.
//!
//! Invariants: what runs on a core stays on it (futures are not `Send`); messages are the only way
//! in from another thread; a socket has at most one receive and one send in flight.
//!
//! Cancellation: dropping a future that waits in [`Sock::recv`] or [`Sock::send`] is memory-safe, but
//! bytes that the kernel had already moved are lost. So after a dropped or timed-out call the only
//! thing to do with that socket is to close it.
//!
//! Must not know: MySQL, pools, sessions, the farm.

mod cores;
mod listen;
mod sock;

pub use crate::cores::{Dealer, Inbox, Io, Reactor, Task, sleep, spawn, timeout};
pub use crate::listen::Acceptor;
pub use crate::sock::{Closer, Sock};
