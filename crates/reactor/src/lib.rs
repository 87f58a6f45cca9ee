//! The data plane's runtime seam: cores, sockets, timers, on io_uring or epoll.
//!
//! Job: run one thread per core, each with its own tasks, timers and sockets, and give sessions plain
//! `async` calls: [`Sock::recv`], [`Sock::send`], [`sleep`], [`timeout`], [`spawn`]. Nothing of the
//! kernel's interface shows in these.
//!
//! How a core works (`runtime`): it runs the tasks that were woken (`tasks`), then asks the kernel
//! once, by `ring` or `epoll` (`driver` says by which), for all that has happened, waiting only when no task can
//! run; then it moves the time (`timers`) and takes the wakings of other threads (`remote`). On io_uring all
//! that the tasks of a turn have started is handed over by that one call.
//!
//! Invariants: what runs on a core stays on it (futures are not `Send`); messages and wakers are the
//! only way in from another thread; a socket has at most one receive and one send in flight; the
//! kernel works only on buffers that an operation's slot owns; a descriptor is closed only when no
//! operation has it; a panic ends its task and nothing else; a core ends after all its operations.
//!
//! Cancellation: dropping a future that waits in [`Sock::recv`] or [`Sock::send`] is memory-safe, but
//! bytes that the kernel had already moved are lost. So after a dropped or timed-out call the only
//! thing to do with that socket is to say a last word and close it.
//!
//! A task must not block its thread: besides holding up the others, what it has sent just before may
//! not have left yet.
//!
//! Must not know: MySQL, pools, sessions, the farm.

mod clock;
mod connect;
mod cores;
mod counting;
mod credentials;
mod descriptor;
mod driver;
mod epoll;
mod listening;
mod mapped;
mod pooled;
mod remote;
mod ring;
mod runtime;
mod sock;
mod spare;
mod stream;
mod tasks;
mod time;
mod timers;

pub use crate::clock::{since_origin_us, turn, turn_us};
pub use crate::cores::{Dealer, Inbox, Io, Reactor, STACK_BYTES};
pub use crate::counting::Counting;
pub use crate::credentials::{Credentials, user_name};
pub use crate::listening::{
    Acceptor, Address, CoreAcceptor, Listener, SOCKET_PATH_BYTES_MAX, Watcher, inherited, listen,
};
pub use crate::mapped::mapped;
pub use crate::pooled::{Pooled, pooled, rarely};
pub use crate::runtime::recall_idle_receives;
pub use crate::sock::{Closer, Sock};
pub use crate::spare::{give_spare_back, spare_bytes};
pub use crate::stream::Stream;
pub use crate::tasks::{Task, contain, panics, spawn};
pub use crate::time::{sleep, timeout};
