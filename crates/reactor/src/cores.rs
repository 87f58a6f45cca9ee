//! Cores: one OS thread and one runtime each, started together and joined together.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use futures_channel::mpsc;
use futures_util::StreamExt;

use crate::runtime::Runtime;

/// The stack of a core. The kernel gives it page by page, so what is not used costs nothing.
pub const STACK_BYTES: usize = 16 << 20;

/// Which kernel interface carries the data plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// io_uring where the kernel has it, else epoll.
    Auto,
    IoUring,
    Epoll,
}

impl Io {
    /// Reads the value of `--io`.
    pub fn parse(text: &str) -> Option<Io> {
        match text {
            "auto" => Some(Io::Auto),
            "io_uring" => Some(Io::IoUring),
            "epoll" => Some(Io::Epoll),
            _ => None,
        }
    }

    /// The name as `--io` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Io::Auto => "auto",
            Io::IoUring => "io_uring",
            Io::Epoll => "epoll",
        }
    }
}

/// The receiving end of a core's messages from other threads.
pub struct Inbox<M> {
    receiver: mpsc::UnboundedReceiver<M>,
}

impl<M> Inbox<M> {
    /// The next message; `None` when the reactor is being stopped.
    pub async fn next(&mut self) -> Option<M> {
        self.receiver.next().await
    }
}

/// All cores of the data plane. Dropping it without [`Reactor::join`] leaves the threads to end on
/// their own once their inboxes close.
pub struct Reactor<M: Send + 'static> {
    senders: Vec<mpsc::UnboundedSender<M>>,
    threads: Vec<JoinHandle<()>>,
    io: Io,
    turn: Arc<AtomicUsize>,
}

impl<M: Send + 'static> Reactor<M> {
    /// Starts `threads` cores. Each runs `main(core, inbox)` to its end; a core's end is the end of
    /// every task that it still holds. Fails when the kernel refuses the interface that was asked
    /// for; `Io::Auto` falls back to epoll and [`Reactor::io`] tells which one runs.
    pub fn start<F, Fut>(threads: usize, io: Io, main: F) -> io::Result<Reactor<M>>
    where
        F: Fn(usize, Inbox<M>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = ()> + 'static,
    {
        let io = choose(io)?;
        let main = Arc::new(main);
        let mut senders = Vec::with_capacity(threads);
        let mut handles = Vec::with_capacity(threads);
        for core in 0..threads.max(1) {
            let (sender, receiver) = mpsc::unbounded();
            let main = main.clone();
            let (ready, started) = std::sync::mpsc::channel();
            let thread = std::thread::Builder::new()
                .name(format!("core-{core}"))
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    // The ring must be made by the thread that uses it (SINGLE_ISSUER).
                    let runtime = match Runtime::new(io) {
                        Ok(runtime) => runtime,
                        Err(error) => return drop(ready.send(Err(error))),
                    };
                    let _ = ready.send(Ok(()));
                    let inbox = Inbox { receiver };
                    runtime.run(main(core, inbox));
                })?;
            started
                .recv()
                .map_err(|_| io::Error::other("a core ended while it started"))??;
            senders.push(sender);
            handles.push(thread);
        }
        Ok(Reactor {
            senders,
            threads: handles,
            io,
            turn: Arc::new(AtomicUsize::new(0)),
        })
    }

    /// The interface in use: never `Auto`.
    pub fn io(&self) -> Io {
        self.io
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.senders.len()
    }

    /// Gives a message to one core. False when that core has ended.
    pub fn send(&self, core: usize, message: M) -> bool {
        self.senders[core].unbounded_send(message).is_ok()
    }

    /// A handle for other threads that deals messages to the cores in turn.
    pub fn dealer(&self) -> Dealer<M> {
        Dealer {
            senders: self.senders.clone(),
            turn: self.turn.clone(),
        }
    }

    /// Closes the inboxes and waits for the cores to end. Every [`Dealer`] must be gone by then, or
    /// the cores have to end by themselves.
    pub fn join(self) {
        drop(self.senders);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

/// Deals messages to the cores in turn, so that few connections spread evenly.
pub struct Dealer<M> {
    senders: Vec<mpsc::UnboundedSender<M>>,
    turn: Arc<AtomicUsize>,
}

impl<M> Clone for Dealer<M> {
    fn clone(&self) -> Dealer<M> {
        Dealer {
            senders: self.senders.clone(),
            turn: self.turn.clone(),
        }
    }
}

impl<M> Dealer<M> {
    /// Gives the message to the next core. False when that core has ended.
    pub fn deal(&self, message: M) -> bool {
        let core = self.turn.fetch_add(1, Ordering::Relaxed) % self.senders.len();
        self.senders[core].unbounded_send(message).is_ok()
    }

    /// Gives the message to this core. False when that core has ended.
    pub fn send(&self, core: usize, message: M) -> bool {
        self.senders[core].unbounded_send(message).is_ok()
    }

    /// How many cores there are.
    pub fn cores(&self) -> usize {
        self.senders.len()
    }
}

/// Tries the ring once on this thread, so that a refusal is an error of `start`, not of a core.
fn choose(io: Io) -> io::Result<Io> {
    match io {
        Io::Epoll => Ok(Io::Epoll),
        Io::IoUring => Runtime::probe(io).map(|()| io).map_err(|error| {
            let text = format!("io_uring is not to be had here ({error}); use --io epoll");
            io::Error::new(error.kind(), text)
        }),
        Io::Auto => Ok(Runtime::probe(Io::IoUring).map_or(Io::Epoll, |()| Io::IoUring)),
    }
}
