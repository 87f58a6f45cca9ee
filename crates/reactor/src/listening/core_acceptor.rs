//! The listening side of a door whose cores take the clients themselves: no thread stands between a client that has
//! connected and the core that serves it.
//!
//! Each core waits at all of the listeners, and the kernel wakes one of those that wait. That core takes the client and
//! hands it to whom `take` chooses.
//!
//! A listening socket may be shared with another process, which takes clients over while this one rests. Whoever waits
//! could be woken in the other's place, so no core of a process that rests waits. The sockets are never shut down, only
//! closed, and do not block: a client that two see coming may be the other's.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_util::future::{Either, select};

use crate::listening::acceptor::out_of_descriptors;
use crate::listening::listener::{Address, Listener};
use crate::listening::watch::Watch;
use crate::stream::Stream;
use crate::time::sleep;

/// Pause when nobody can be taken until a client goes; without it a core would spin.
const NO_DESCRIPTORS_PAUSE: Duration = Duration::from_millis(10);

/// Gets each client with its address, which whoever comes by a Unix socket has not, and the core that took it.
type Take = Box<dyn FnMut(Stream, Option<SocketAddr>, usize) + Send>;

/// The listening sockets of a door. Each of its cores runs [`Watcher::run`].
pub struct CoreAcceptor {
    shared: Arc<Shared>,
}

/// A core's part of the work.
pub struct Watcher {
    shared: Arc<Shared>,
    core: usize,
}

struct Shared {
    addresses: Vec<Address>,
    state: Mutex<State>,
    /// Locked alone, or behind `state`.
    take: Mutex<Take>,
    /// Nobody waits for clients any more.
    left: Condvar,
}

struct State {
    /// Gone with the acceptor. Who waits has one in hand, and nobody else.
    listeners: Vec<Arc<Listener>>,
    phase: Phase,
    /// So many wait for clients, or are about to.
    watching: usize,
    /// Who wants to know of another phase: for each core one place for each listener.
    waiting: Vec<Option<Waker>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Accepts,
    Rests,
    Ends,
}

/// What came of a look at a listener.
enum Looked {
    /// There may be more.
    Took,
    Empty,
    NoDescriptors,
    /// It is not the time to take anybody.
    Over,
}

impl CoreAcceptor {
    /// Calls `take` for every connection to one of these listening sockets, on the core that took it, once cores
    /// watch. `take` must not wait.
    pub fn new(
        listeners: Vec<Listener>,
        take: impl FnMut(Stream, Option<SocketAddr>, usize) + Send + 'static,
    ) -> io::Result<CoreAcceptor> {
        for listener in &listeners {
            listener.prepare()?;
        }
        let addresses = listeners.iter().map(Listener::address).cloned().collect();
        let state = State {
            listeners: listeners.into_iter().map(Arc::new).collect(),
            phase: Phase::Accepts,
            watching: 0,
            waiting: Vec::new(),
        };
        let shared = Arc::new(Shared {
            addresses,
            state: Mutex::new(state),
            take: Mutex::new(Box::new(take)),
            left: Condvar::new(),
        });
        Ok(CoreAcceptor { shared })
    }

    /// The part of this core.
    pub fn watcher(&self, core: usize) -> Watcher {
        let shared = self.shared.clone();
        Watcher { shared, core }
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.shared.addresses.iter()
    }

    /// The bound TCP address: the port is the real one where 0 was asked for. `None` where clients come by
    /// Unix sockets only.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.addresses().find_map(Address::tcp)
    }

    /// The sockets once more, to be given to another process.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        let state = self.shared.lock();
        state
            .listeners
            .iter()
            .map(|listener| listener.socket())
            .collect()
    }

    /// Takes nobody from now on until [`CoreAcceptor::resume`]: connections wait in the kernel, or are taken by another
    /// process that has the socket. Waits until no core waits for clients; not to be called on one.
    pub fn rest(&self) {
        let mut state = self.shared.lock();
        if state.phase == Phase::Accepts {
            state.turn(Phase::Rests);
        }
        drop(self.shared.wait_until_left(state));
    }

    /// Takes connections again after a rest.
    pub fn resume(&self) {
        let mut state = self.shared.lock();
        if state.phase == Phase::Rests {
            state.turn(Phase::Accepts);
        }
    }

    /// Takes those who have connected already, unless it rests, and then nobody; waits for the cores, and is not to be
    /// called on one. The sockets are closed when the acceptor is dropped.
    pub fn stop(&mut self) {
        let mut state = self.shared.lock();
        if state.phase == Phase::Accepts {
            for listener in state.listeners.clone() {
                while let Ok((stream, peer)) = listener.accept() {
                    self.shared.hand_over(stream, peer, 0);
                }
            }
        }
        state.turn(Phase::Ends);
        drop(self.shared.wait_until_left(state));
    }
}

impl Drop for CoreAcceptor {
    fn drop(&mut self) {
        self.stop();
        self.shared.lock().listeners.clear();
    }
}

impl Watcher {
    /// Waits at all listeners and takes clients, until the acceptor stops. On a core.
    pub async fn run(self) {
        let places = self.shared.addresses.len();
        let all = (0..places).map(|at| {
            let (shared, core) = (self.shared.clone(), self.core);
            async move { shared.watch(at, core).await }
        });
        // Dropped with this one.
        let others: Vec<_> = all.map(crate::spawn).collect();
        drop(self);
        for other in others {
            other.join().await;
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_over(&self, stream: Stream, peer: Option<SocketAddr>, core: usize) {
        let mut take = self.take.lock().unwrap_or_else(PoisonError::into_inner);
        take(stream, peer, core);
    }

    fn wait_until_left<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.watching > 0 {
            state = self
                .left
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// Waits at one listener on one core.
    async fn watch(&self, at: usize, core: usize) {
        let place = core * self.addresses.len() + at;
        while let Some((watching, listener)) = self.enter(at, place).await {
            let Ok(mut watch) = Watch::new(listener) else {
                return;
            };
            while self.is_wanted(&mut watch, place).await {
                match self.look(watch.listener(), core) {
                    Looked::Took => {}
                    Looked::Empty => watch.is_empty(),
                    Looked::NoDescriptors => sleep(NO_DESCRIPTORS_PAUSE).await,
                    Looked::Over => break,
                }
            }
            // The kernel must not wake it any more when somebody hears that it has left.
            drop(watch);
            drop(watching);
        }
    }

    /// Waits until there may be a client; false when another phase begins first.
    async fn is_wanted(&self, watch: &mut Watch, place: usize) -> bool {
        let (ready, changed) = (pin!(watch.ready()), pin!(self.changed(place)));
        let first = select(ready, changed).await;
        matches!(first, Either::Left(_))
    }

    /// Counts this place among those that watch, and gives it its listener, once it is the time to take clients; `None`
    /// at the end.
    async fn enter(&self, at: usize, place: usize) -> Option<(Watching<'_>, Arc<Listener>)> {
        poll_fn(|context| {
            let mut state = self.lock();
            match state.phase {
                Phase::Accepts => {
                    state.watching += 1;
                    Poll::Ready(Some((Watching(self), state.listeners[at].clone())))
                }
                Phase::Ends => Poll::Ready(None),
                Phase::Rests => state.wait(place, context),
            }
        })
        .await
    }

    /// Waits for another phase than that in which clients are taken.
    async fn changed(&self, place: usize) {
        poll_fn(|context| {
            let mut state = self.lock();
            match state.phase {
                Phase::Accepts => state.wait(place, context),
                Phase::Rests | Phase::Ends => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Takes the next client of a listener, unless another core or process did, or the client has gone. The kernel makes
    /// the client's socket while nothing is locked: cores would wait for each other. Whoever begins another phase waits
    /// until this core watches no more.
    fn look(&self, listener: &Listener, core: usize) -> Looked {
        if self.lock().phase != Phase::Accepts {
            return Looked::Over;
        }
        match listener.accept() {
            Ok((stream, peer)) => {
                self.hand_over(stream, peer, core);
                Looked::Took
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Looked::Empty,
            Err(error) if out_of_descriptors(&error) => Looked::NoDescriptors,
            Err(_) => Looked::Took,
        }
    }
}

impl State {
    fn turn(&mut self, phase: Phase) {
        self.phase = phase;
        self.waiting
            .iter_mut()
            .filter_map(Option::take)
            .for_each(Waker::wake);
    }

    fn wait<T>(&mut self, place: usize, context: &Context<'_>) -> Poll<T> {
        if self.waiting.len() <= place {
            self.waiting.resize_with(place + 1, || None);
        }
        self.waiting[place] = Some(context.waker().clone());
        Poll::Pending
    }
}

/// One that watches. Dropped in any way, it does no more.
struct Watching<'a>(&'a Shared);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.watching -= 1;
        if state.watching == 0 {
            self.0.left.notify_all();
        }
    }
}
