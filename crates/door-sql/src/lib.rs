//! The SQL door: accepts MySQL clients and runs their sessions on the data plane's cores.
//!
//! Job: one thread per core, which takes clients and has their sessions and pools, their start and their end.
//!
//! Invariants: a client is counted from its acceptance to the end of its task, so the limit holds
//! and a drained door has nobody left; every core ends before [`Door::drain`] returns.
//!
//! Must not know: how the farm is kept, what other doors there are, what statements mean.

mod spread;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use farm::local::LOCAL;
use farm::{Kill, Killed, Published};
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::ErrPacket;
use reactor::{Address, CoreAcceptor, Dealer, Inbox, Io, Listener, Reactor, Stream};
use routing::rules::Rulebook;
use rowcache::ReadState;
use session::{
    AccountPlaces, BackendCredential, Core, Counters, Entrance, Entry, How, Lister, Live, Locks,
    LoginWork, Message, Operator, Peers, Refusal, RsaKey, Scratch, Secrets, SessionView, Shared,
    Transport, Verifiers, Visit,
};
use statistics::{Measured, SlowQueue, TraceQueue};

use crate::spread::Spread;

/// For how long a list of sessions may be waited for.
const LIST_WAIT_MAX: Duration = Duration::from_secs(1);

/// One thread verifies passwords for so many cores: whoever keeps these threads busy leaves the cores
/// most of the machine.
const CORES_PER_VERIFIER: usize = 2;

/// All that the door needs to know.
pub struct Options {
    /// Where clients come; made by [`reactor::listen`] or taken over from elsewhere.
    pub listeners: Vec<Listener>,
    /// Cores of the data plane.
    pub threads: usize,
    pub io: Io,
    /// What an operator may change at any time.
    pub live: Arc<Live>,
    pub transport: Arc<Transport>,
    pub published: Arc<Published>,
    /// What reads ask for beside the snapshot.
    pub reads: Arc<ReadState>,
    /// What an operator wants done with statements; may change at any time.
    pub rules: Arc<Rulebook>,
    pub operator: Arc<dyn Operator>,
    /// The farm's other routers.
    pub peers: Arc<dyn Peers>,
    /// Where SELECTs run whose rows come from several groups.
    pub scratch: Arc<Scratch>,
    /// What the configuration gives to log in to servers with.
    pub backend_credentials: Vec<BackendCredential>,
    /// Where slow statements go; `None` where nobody writes them down.
    pub slow_log: Option<SlowQueue>,
    /// Where traced statements go; `None` where nobody exports them.
    pub traces: Option<TraceQueue>,
}

/// The running door.
pub struct Door {
    acceptor: CoreAcceptor,
    reactor: Reactor<Message>,
    /// Joined behind the cores, whose sessions wait for them.
    verifiers: Verifiers,
    shared: Arc<Shared>,
}

/// Opens the door. Fails when the kernel lacks the interface that was asked for; then nothing is left
/// behind.
pub fn start(options: Options) -> io::Result<Door> {
    let threads = options.threads.max(1);
    let verifiers = Verifiers::start(threads.div_ceil(CORES_PER_VERIFIER))?;
    let memory = options.live.memory().clone();
    let shared = Arc::new(Shared {
        published: options.published,
        reads: options.reads,
        rules: options.rules,
        live: options.live,
        transport: options.transport,
        registry: Default::default(),
        entrance: Entrance::default(),
        operator: options.operator,
        peers: options.peers,
        scratch: options.scratch,
        login_work: LoginWork {
            rsa_key: RsaKey::default(),
            verifiers: verifiers.queue(),
        },
        secrets: Secrets::default(),
        locks: Locks::default(),
        defaults: Default::default(),
        changes: Default::default(),
        claimed_ids: Default::default(),
        backend_credentials: options.backend_credentials,
        account_places: Arc::new(AccountPlaces::new(memory)),
        counters: (0..threads)
            .map(|_| Arc::new(Counters::default()))
            .collect(),
        measured: Arc::new(Measured::new(threads, options.slow_log).traced(options.traces)),
    });
    let for_cores = shared.clone();
    // The cores exist before anyone can deal to them; each learns of the others by this cell.
    let dealer = Arc::new(std::sync::OnceLock::new());
    let late = dealer.clone();
    let reactor = Reactor::start(threads, options.io, move |index, inbox| {
        let (shared, late) = (for_cores.clone(), late.clone());
        async move { run_core(index, inbox, shared, &late).await }
    })?;
    let _ = dealer.set(reactor.dealer());
    match accept(options.listeners, &reactor, &shared) {
        Ok(acceptor) => Ok(Door {
            acceptor,
            reactor,
            verifiers,
            shared,
        }),
        Err(error) => {
            stop(reactor);
            Err(error)
        }
    }
}

/// Has the cores take clients.
fn accept(
    listeners: Vec<Listener>,
    reactor: &Reactor<Message>,
    shared: &Arc<Shared>,
) -> io::Result<CoreAcceptor> {
    let (deal, shared) = (reactor.dealer(), shared.clone());
    let mut spread = Spread::new(reactor.cores(), Instant::now());
    let acceptor = CoreAcceptor::new(listeners, move |stream, peer, here| {
        let peer = peer.unwrap_or(LOCAL);
        // Whose client it is, a load balancer has still to say.
        let known = (!shared.transport.is_balancer(peer.ip())).then_some(peer.ip());
        match shared.let_in(known, true) {
            // The places go with the message, wherever it ends.
            Ok(places) => {
                let core = spread.core(here, Instant::now());
                let places = places.on_core(spread.of(core));
                deal.send(core, Message::Accept(stream, peer, places));
            }
            Err(refusal) => turn_away(stream, &refusal),
        }
    })?;
    for core in 0..reactor.cores() {
        let watcher = acceptor.watcher(core);
        let watch = move |_| reactor::spawn(watcher.run()).detach();
        reactor.send(core, Message::Visit(Visit::new(watch)));
    }
    Ok(acceptor)
}

impl Door {
    /// Where clients connect.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.acceptor.addresses()
    }

    /// Where they connect by TCP, if they do.
    pub fn tcp(&self) -> Option<SocketAddr> {
        self.acceptor.tcp()
    }

    /// The listening sockets once more, to be given to another process.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        self.acceptor.sockets()
    }

    /// Takes no more clients, and serves those that are there as before. Others may take them from
    /// [`Door::sockets`]; otherwise they wait in the kernel.
    pub fn rest(&self) {
        self.acceptor.rest();
    }

    /// Takes clients again after a rest.
    pub fn resume(&self) {
        self.acceptor.resume();
    }

    /// How many clients there are, those at their login included.
    pub fn clients(&self) -> usize {
        self.shared.entrance.clients.now()
    }

    /// The kernel interface in use.
    pub fn io(&self) -> Io {
        self.reactor.io()
    }

    /// Counters, sessions and settings, for those who show them.
    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Deals work to the cores on behalf of other doors.
    pub fn dealer(&self) -> Dealer<Message> {
        self.reactor.dealer()
    }

    /// A handle that kills sessions by their ids from any thread.
    pub fn killer(&self) -> Killer {
        Killer {
            shared: self.shared.clone(),
            dealer: self.reactor.dealer(),
        }
    }

    /// Takes no more clients, ends idle ones (of other doors, too, which have to be closed before), lets statements and transactions finish for at most
    /// `limit`, then ends what is left. Blocks.
    pub fn drain(self, limit: Duration) {
        // Dropped, it closes the listening sockets too.
        drop(self.acceptor);
        let tell_all = || {
            for core in 0..self.reactor.cores() {
                self.reactor.send(core, Message::Drain);
            }
        };
        tell_all();
        // Half of the time is given to clients that can be let go without one of them noticing.
        let mut gone = self.shared.entrance.clients.wait_empty(limit / 2);
        for wait in [limit / 2, LAST_WORD] {
            if !gone {
                tell_all();
                gone = self.shared.entrance.clients.wait_empty(wait);
            }
        }
        if !gone {
            tracing::warn!(
                clients = self.shared.entrance.clients.now(),
                "clients left at the end of the drain"
            );
        }
        stop(self.reactor);
        drop(self.verifiers);
    }
}

/// At the end of a drain, for the word that the router ends.
const LAST_WORD: Duration = Duration::from_millis(300);

/// Ends sessions on behalf of operators.
#[derive(Clone)]
pub struct Killer {
    shared: Arc<Shared>,
    dealer: Dealer<Message>,
}

impl Killer {
    /// Ends sessions, or only their statements: all that are meant or, when one of them may not be
    /// ended, none.
    pub fn kill(&self, kill: &Kill) -> Killed {
        let victims = self.shared.registry.victims(&kill.victim);
        let accounts = self.shared.published.load().accounts.clone();
        let foreign = |entry: &&Entry| {
            let another = kill.only.as_ref().is_some_and(|user| *user != entry.user);
            another || (kill.spares_system && accounts.is_system(&entry.user, entry.peer.ip()))
        };
        if let Some(entry) = victims.iter().find(foreign) {
            return Killed::Foreign(entry.id);
        }
        let how = How {
            query: kill.query,
            soft: kill.soft,
        };
        let mut ended = 0;
        for Entry { id, core, .. } in victims {
            ended += u32::from(self.dealer.send(core, Message::Kill { id, how }));
        }
        Killed::Sessions(ended)
    }

    /// The ids of new sessions belong to this slot from now on.
    pub fn place(&self, slot: u8) {
        self.shared.registry.place(slot);
    }

    /// Has every core look at the published snapshot.
    pub fn turned(&self) {
        for core in 0..self.dealer.cores() {
            self.dealer.send(core, Message::Turned);
        }
    }

    /// How many sessions work by a snapshot of tables from before this epoch; `None` when a core does
    /// not answer within `limit`. Blocks.
    pub fn units_of_work_before(&self, epoch: u64, limit: Duration) -> Option<usize> {
        let (tell, told) = std::sync::mpsc::channel();
        for core in 0..self.dealer.cores() {
            self.dealer
                .send(core, Message::UnitsOfWork(epoch, tell.clone()));
        }
        let end = Instant::now() + limit;
        let answer = |_| {
            told.recv_timeout(end.saturating_duration_since(Instant::now()))
                .ok()
        };
        (0..self.dealer.cores()).map(answer).sum()
    }

    /// True when every core answers within `limit`. Blocks.
    pub fn cores_answer(&self, limit: Duration) -> bool {
        let (tell, told) = std::sync::mpsc::channel();
        for core in 0..self.dealer.cores() {
            self.dealer.send(core, Message::Answer(tell.clone()));
        }
        let end = Instant::now() + limit;
        let answer = |_| told.recv_timeout(end.saturating_duration_since(Instant::now()));
        (0..self.dealer.cores()).all(|core| answer(core).is_ok())
    }

    /// The sessions of all cores, by id. Waits for the cores, which answer between two events; one
    /// that does not within a second is left out.
    pub fn sessions(&self) -> Vec<SessionView> {
        let (tell, told) = std::sync::mpsc::channel();
        for core in 0..self.shared.counters.len() {
            let tell = tell.clone();
            let lister = Lister::new(move |sessions| drop(tell.send(sessions)));
            self.dealer.send(core, Message::List(lister));
        }
        drop(tell);
        let mut all = Vec::new();
        let end = Instant::now() + LIST_WAIT_MAX;
        while let Ok(sessions) = told.recv_timeout(end.saturating_duration_since(Instant::now())) {
            all.extend(sessions);
        }
        all.sort_by_key(|view| view.id);
        all
    }
}

fn stop(reactor: Reactor<Message>) {
    for core in 0..reactor.cores() {
        reactor.send(core, Message::Stop);
    }
    reactor.join();
}

/// One core's life: messages in, sessions as tasks, a tick a second.
async fn run_core(
    index: usize,
    mut inbox: Inbox<Message>,
    shared: Arc<Shared>,
    dealer: &std::sync::OnceLock<Dealer<Message>>,
) {
    let mut core: Option<Rc<Core>> = None;
    while let Some(message) = inbox.next().await {
        // The first message comes after the dealer was set.
        let core = core.get_or_insert_with(|| {
            let dealer = dealer
                .get()
                .expect("messages are dealt by the dealer that is set here");
            let core = Core::new(index, shared.clone(), dealer.clone());
            reactor::spawn(tick(core.clone())).detach();
            reactor::spawn(end_late_statements(core.clone())).detach();
            core
        });
        match message {
            Message::Accept(stream, peer, places) => {
                session::serve(core.clone(), stream, peer, places);
            }
            Message::Visit(visit) => visit.pay(core.clone()),
            Message::Kill { id, how } => core.kill(id, how),
            Message::List(lister) => lister.tell(session::views(core)),
            Message::Turned => core.turned(),
            Message::UnitsOfWork(epoch, tell) => {
                let _ = tell.send(session::units_of_work_before(core, epoch));
            }
            // Who asked may have stopped waiting.
            Message::Answer(tell) => {
                let _ = tell.send(());
            }
            Message::Drain => core.drain(),
            Message::Stop => break,
        }
    }
    if let Some(core) = core {
        core.pools.close_idle();
    }
}

async fn tick(core: Rc<Core>) {
    let mut now_s = 0;
    loop {
        reactor::sleep(Duration::from_secs(1)).await;
        now_s += 1;
        // A panic costs one round, and the core its clients no care.
        reactor::contain(|| core.tick(now_s));
        reactor::recall_idle_receives();
    }
}

/// Looks for late statements so often that none runs much longer than it may; while there is no limit,
/// so often that a new one holds soon.
async fn end_late_statements(core: Rc<Core>) {
    loop {
        let Some(limit) = session::statement_limit(&core) else {
            reactor::sleep(Duration::from_secs(1)).await;
            continue;
        };
        let interval = (limit / 8).clamp(Duration::from_millis(5), Duration::from_secs(1));
        reactor::sleep(interval).await;
        reactor::contain(|| session::end_late_statements(&core, limit));
    }
}

/// Says in place of the greeting why this client is not let in. The few bytes fit any fresh socket's
/// buffer, so the acceptor does not wait.
fn turn_away(stream: Stream, refusal: &Refusal) {
    let mut out = Vec::with_capacity(256);
    let text = refusal.text();
    packet::write_with(&mut out, &mut 0, |payload| {
        ErrPacket::new(refusal.error.number, text.as_bytes())
            .encode(payload, Capabilities::empty());
    });
    stream.turn_away(&out);
}
