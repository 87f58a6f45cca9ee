//! What the stress tests stand on: a core for a test, connected pairs, seeded numbers.

use std::cell::RefCell;
use std::future::Future;
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use reactor::{Inbox, Io, Reactor, Sock};

/// Both interfaces, where the machine has both.
pub const BOTH: [Io; 2] = [Io::Epoll, Io::Auto];

/// The tests run one at a time: some count descriptors or use them up.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// A seeded source of numbers.
#[derive(Clone)]
pub struct Random(Rc<RefCell<Rng>>);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Rc::new(RefCell::new(Rng::with_seed(seed))))
    }

    pub fn below(&self, limit: u64) -> u64 {
        self.0.borrow_mut().u64(..limit)
    }
}

/// Runs `main` on a core of its own to its end.
pub fn on_core<F, Fut>(io: Io, main: F)
where
    F: Fn() -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let reactor = Reactor::start(1, io, move |_, _: Inbox<()>| {
        let tell: Sender<()> = tell.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let main = main();
        async move {
            main.await;
            let _ = tell.send(());
        }
    })
    .expect("a core starts");
    assert!(io == Io::Auto || reactor.io() == io);
    let over = told.recv_timeout(Duration::from_secs(120));
    assert!(
        over.is_ok(),
        "{io:?}: the core's task hangs or has panicked"
    );
    reactor.join();
}

/// Runs `main` with the random numbers of so many seeds, on a core of each interface. No descriptor is left open.
pub fn on_both<F, Fut>(seeds: u64, main: F)
where
    F: Fn(Random) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = ()> + 'static,
{
    let _alone = alone();
    let before = descriptors();
    for io in BOTH {
        for seed in 1..=seeds {
            let main = main.clone();
            on_core(io, move || main(Random::new(seed)));
        }
    }
    assert_eq!(descriptors(), before);
}

/// A connected pair, both of this core.
pub async fn pair(listener: &TcpListener) -> (Sock, Sock) {
    let address = listener.local_addr().expect("bound");
    let near = Sock::connect("127.0.0.1", address.port()).await;
    let (far, _) = listener.accept().expect("connects");
    let far = Sock::adopt(far).expect("a fresh socket");
    (near.expect("listens"), far)
}

/// Runs what blocks on a thread of its own: a core that blocks sends nothing.
pub async fn elsewhere<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (tell, told) = futures_channel::oneshot::channel();
    std::thread::spawn(move || tell.send(work()).map_err(|_| ()));
    told.await.expect("the thread is well")
}

pub fn listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}
