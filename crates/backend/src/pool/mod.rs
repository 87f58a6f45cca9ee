//! Pools: the connections of one core, by server and login profile.
//!
//! Everything here is single-threaded; borrows of the inner cell never live across an `await`.

mod by_socket;
mod closing;
mod cutting;
mod entered;
pub(crate) mod lease;
pub(crate) mod limits;
pub(crate) mod line;
mod login_states;
pub(crate) mod openings;
mod warm;

use std::cell::{Cell, OnceCell, RefCell};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use farm::ServerId;
use futures_channel::oneshot;
use reactor::rarely;
use recorder::{Awaited, Step, note};
use rustc_hash::FxHashMap;

use crate::connection::cut::Ends;
use crate::connection::target::Target;
use crate::connection::{Connection, ConnectionError};
use crate::login::pass::{Pass, Passes, Profile};
use crate::login::seen::Seen;
use crate::login::terms::Terms;
use crate::login::{self, account};
use crate::pool::by_socket::Sockets;
use crate::pool::cutting::cut_off;
use crate::pool::entered::Entered;
use crate::pool::lease::Lease;
use crate::pool::limits::Limits;
use crate::pool::line::Line;
use crate::pool::login_states::LoginStates;
use crate::pool::openings::Openings;
use crate::state::SessionState;
use crate::state::defaults::Defaults;
use crate::state::servers_own::ServersOwn;

/// Connections of one pool are alike for every session of the same profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    pub server: ServerId,
    pub read_only: bool,
    profile: u32,
}

/// No connection could be had.
#[derive(Debug)]
pub enum PoolError {
    /// All connections stayed in use for `wait_ms`.
    WaitTimeout { waited_ms: u64 },
    /// The server could not be reached, or refused the login or the state.
    Connection(ConnectionError),
}

impl From<ConnectionError> for PoolError {
    fn from(error: ConnectionError) -> PoolError {
        PoolError::Connection(error)
    }
}

/// What the pools of one core hold, for metrics and leak checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub in_use: usize,
    pub idle: usize,
    pub waiting: usize,
    /// Connections opened since the start.
    pub opened: Openings,
    /// Connections ended since the start because Heddle cut itself off from their servers.
    pub ended: u64,
    /// Times that a server refused to set a variable as a session had it.
    pub variables_refused: u64,
}

/// All pools of one core.
pub struct Pools {
    pub(crate) limits: Cell<Limits>,
    terms: Arc<Terms>,
    defaults: Arc<Defaults>,
    now_s: Cell<u64>,
    pub(crate) next_id: Cell<u64>,
    opened: Cell<Openings>,
    /// Connections ended because Heddle cut itself off from their servers.
    pub(crate) ended: Cell<u64>,
    passes: Passes,
    pub(crate) servers: RefCell<FxHashMap<ServerId, PerServer>>,
    seen: RefCell<FxHashMap<ServerId, Rc<Seen>>>,
    servers_own: RefCell<FxHashMap<ServerId, Rc<ServersOwn>>>,
    sockets: Sockets,
    entered: Entered,
    login_states: LoginStates,
    /// All open connections, also those that are in use.
    pub(crate) ends: Rc<Ends>,
    /// Called before a session waits: somebody may hold a connection of this server without need.
    when_dry: OnceCell<WhenDry>,
}

type WhenDry = Box<dyn Fn(ServerId)>;

#[derive(Default)]
pub(crate) struct PerServer {
    /// The connection returned last is at the back: it is warm, and what is not needed grows old.
    pub idle: Vec<(Key, Box<Connection>)>,
    /// In use, idle, and being opened.
    pub count: usize,
    pub line: Line,
    /// Places promised to waiters that have been woken but have not run yet.
    pub promised: usize,
    /// Connections from before this term are not handed out any more.
    pub term: u32,
    /// Dropped, they end the openings that wait for them; those of finished ones are stale.
    pub openings: Vec<oneshot::Sender<()>>,
}

impl Pools {
    /// Pools without connections.
    pub fn new(limits: Limits, terms: Arc<Terms>, defaults: Arc<Defaults>) -> Rc<Pools> {
        Rc::new(Pools {
            limits: Cell::new(limits),
            terms,
            defaults,
            now_s: Cell::new(0),
            next_id: Cell::new(1),
            opened: Cell::default(),
            ended: Cell::default(),
            passes: Passes::default(),
            servers: RefCell::default(),
            seen: RefCell::default(),
            servers_own: RefCell::default(),
            sockets: Sockets::default(),
            entered: Entered::default(),
            login_states: LoginStates::default(),
            ends: Rc::default(),
            when_dry: OnceCell::new(),
        })
    }

    /// Sets what is called, once, before a session waits for a connection of a server. It must not
    /// give anything back by itself: only a task that it starts may.
    pub fn when_dry(&self, call: impl Fn(ServerId) + 'static) {
        let _ = self.when_dry.set(Box::new(call));
    }

    /// The key for this server and profile.
    pub fn key(&self, server: ServerId, read_only: bool, pass: &Pass) -> Key {
        Key {
            server,
            read_only,
            profile: pass.number(),
        }
    }

    /// The right to use this profile's connections. They are few: one per account, collation and set
    /// of flags; and per address of clients where servers are told of these.
    pub fn pass(&self, profile: Profile) -> Pass {
        let told = |client: IpAddr| self.terms.proxy.map(|_| client.to_canonical());
        let client = profile.client.and_then(told);
        self.passes.pass(Profile { client, ..profile })
    }

    /// Hands out a connection in state `wanted`: the one with id `prefer` if it is idle, else an
    /// idle one with the fewest differences (the user variables of others are one), else a new one,
    /// else the next that comes free. Dropped while it waits, it leaves nothing behind.
    pub async fn take(
        self: &Rc<Self>,
        target: &Target,
        key: Key,
        wanted: &Rc<SessionState>,
        prefer: u64,
    ) -> Result<Lease, PoolError> {
        if let Some(lease) = self.take_idle(target, key, wanted, prefer, false) {
            let connection = lease.connection();
            let fresh = connection.is_fresh(self.now_s.get());
            let current = connection.defaults == self.defaults.now();
            if fresh && current && SessionState::same(&connection.state, wanted) {
                return Ok(lease);
            }
            return rarely(self.take_slowly(target, key, wanted, prefer, Some(lease))).await;
        }
        // Boxed, so that a session's task does not carry the room for a login all its life.
        rarely(self.take_slowly(target, key, wanted, prefer, None)).await
    }

    /// Everything but the common case; `found` is an idle connection to look at first.
    async fn take_slowly(
        self: &Rc<Self>,
        target: &Target,
        key: Key,
        wanted: &Rc<SessionState>,
        prefer: u64,
        mut found: Option<Lease>,
    ) -> Result<Lease, PoolError> {
        let mut first_in_line = false;
        loop {
            if !self.is_current(target) {
                if first_in_line {
                    self.pass_on(key.server);
                }
                return Err(cut_off().into());
            }
            let idle = || self.take_idle(target, key, wanted, prefer, first_in_line);
            if let Some(mut lease) = found.take().or_else(idle) {
                let connection = lease.connection_mut();
                let fresh = connection.is_fresh(self.now_s.get());
                if !fresh && !connection.sock.is_quiet() {
                    continue;
                }
                if connection.catch_up(&self.defaults).await.is_err() {
                    continue;
                }
                let Err(error) = connection.become_state(wanted).await else {
                    return Ok(lease);
                };
                if matches!(error, ConnectionError::Variables { .. }) {
                    lease.release();
                    return Err(error.into());
                }
                let refused = matches!(error, ConnectionError::Refused { .. });
                if matches!(error, ConnectionError::Broken { .. }) {
                    // It died while it was idle; the server itself may be well.
                    continue;
                }
                if refused && connection.state.database() != wanted.database() {
                    // Only the database was refused: the connection is as sound as before.
                    lease.release();
                }
                return Err(error.into());
            }
            if self.reserve(key, first_in_line) {
                return self.note_opening(target, self.open(target, key, wanted).await);
            }
            self.wait(key, target.session).await?;
            first_in_line = true;
        }
    }

    /// What this server said of itself when it greeted last; it is asked where nobody has been yet.
    /// None when it cannot be reached.
    pub async fn seen(&self, target: &Target) -> Option<Rc<Seen>> {
        if let Some(seen) = self.seen.borrow().get(&target.server) {
            return Some(seen.clone());
        }
        let limit = Duration::from_millis(self.limits.get().connect_ms);
        let looking = rarely(login::look(target));
        let seen = Rc::new(reactor::timeout(limit, looking).await?.ok()?);
        self.seen.borrow_mut().insert(target.server, seen.clone());
        Some(seen)
    }

    /// Takes note of what a server says now: it may be another release than before.
    fn note_seen(&self, server: ServerId, seen: &Seen) {
        let mut all = self.seen.borrow_mut();
        let known = all.get(&server);
        if known.is_some_and(|known| **known == *seen) {
            return;
        }
        if let Some(own) = self.servers_own.borrow_mut().get_mut(&server) {
            *own = Rc::new(own.of_another_release());
        }
        all.insert(server, Rc::new(seen.clone()));
    }

    /// What is known of this server's variables.
    fn servers_own(&self, server: ServerId) -> Rc<ServersOwn> {
        self.servers_own
            .borrow_mut()
            .entry(server)
            .or_default()
            .clone()
    }

    /// Opens a connection outside the limit, for a KILL that must not wait.
    pub async fn open_extra(
        &self,
        target: &Target,
        pass: &Pass,
    ) -> Result<Connection, ConnectionError> {
        let opening = async {
            let mut connection = login::open(&self.terms, target, pass.profile(), None).await?;
            account::check(&mut connection, pass).await?;
            Ok(connection)
        };
        let mut connection = self.unless_cut(target, opening).await?;
        self.enter(target, &mut connection);
        Ok(connection)
    }

    fn take_idle(
        self: &Rc<Self>,
        target: &Target,
        key: Key,
        wanted: &Rc<SessionState>,
        prefer: u64,
        first_in_line: bool,
    ) -> Option<Lease> {
        let mut servers = self.servers.borrow_mut();
        let server = servers.entry(key.server).or_default();
        let room = self
            .limits
            .get()
            .connections_max
            .saturating_sub(server.count);
        if !first_in_line && room + server.idle.len() <= server.promised {
            return None;
        }
        if server.term != target.term {
            return None;
        }
        let at = choose(&server.idle, key, wanted, prefer)?;
        let (key, connection) = server.idle.remove(at);
        Some(self.lease(key, Some(connection)))
    }

    fn lease(self: &Rc<Self>, key: Key, connection: Option<Box<Connection>>) -> Lease {
        Lease {
            key,
            connection,
            pools: self.clone(),
            holds_place: true,
        }
    }

    /// Takes a place for a new connection; an idle connection of another profile makes room.
    fn reserve(&self, key: Key, first_in_line: bool) -> bool {
        let mut servers = self.servers.borrow_mut();
        let server = servers.entry(key.server).or_default();
        let room = self
            .limits
            .get()
            .connections_max
            .saturating_sub(server.count);
        if !first_in_line
            && (!server.line.is_empty() || room + server.idle.len() <= server.promised)
        {
            return false;
        }
        if room > 0 {
            server.count += 1;
            return true;
        }
        let spare = !server.idle.is_empty();
        if spare {
            server.idle.remove(0);
        }
        spare
    }

    async fn open(
        self: &Rc<Self>,
        target: &Target,
        key: Key,
        wanted: &Rc<SessionState>,
    ) -> Result<Lease, PoolError> {
        // The place is given back when this future is dropped or fails.
        let mut lease = self.lease(key, None);
        let pass = self.passes.find(key.profile);
        let pass = pass.expect("who takes a connection has the pass of its key");
        let defaults = self.defaults.now();
        let expired = pass.profile().entitlement.expired;
        // Of before the login: what changes meanwhile counts as later.
        let edition = pass.edition();
        let opening = async {
            let mut connection = self.log_in(target, key, &pass, wanted.database()).await?;
            self.note_seen(target.server, &connection.seen);
            connection.servers_own = self.servers_own(target.server);
            if expired {
                connection.condemn();
                return Ok(connection);
            }
            connection
                .prepare_session(target.read_only, target.causal)
                .await?;
            connection.become_state(wanted).await?;
            Ok(connection)
        };
        let mut connection = self.unless_cut(target, opening).await?;
        let step = Step::Opened {
            server: recorder::Server(target.server.0),
            connection: connection.thread_id,
        };
        note(target.session, step);
        connection.pass = Some(pass);
        connection.edition = edition;
        connection.defaults = defaults;
        self.enter(target, &mut connection);
        connection.statements_max = self.limits.get().statements_max.max(1);
        lease.connection = Some(Box::new(connection));
        Ok(lease)
    }

    fn note_opening<T>(
        &self,
        target: &Target,
        opened: Result<T, PoolError>,
    ) -> Result<T, PoolError> {
        if opened.is_err() {
            let server = recorder::Server(target.server.0);
            note(target.session, Step::OpeningFailed { server });
        }
        let mut openings = self.opened.get();
        openings.note(target, opened.is_ok());
        self.opened.set(openings);
        opened
    }

    /// The number of the profile's user.
    fn user(&self, key: Key) -> u32 {
        self.passes.find(key.profile).map_or(0, |pass| pass.user())
    }

    async fn wait(&self, key: Key, session: u32) -> Result<(), PoolError> {
        let server = key.server;
        let what = Some(Awaited::Connection);
        let awaited = recorder::Server(server.0);
        let began = Step::WaitBegins {
            what,
            server: awaited,
        };
        note(session, began);
        let (wake, woken) = oneshot::channel();
        let ticket = self.next_id.replace(self.next_id.get() + 1);
        self.servers
            .borrow_mut()
            .entry(server)
            .or_default()
            .line
            .push(self.user(key), ticket, wake);
        if let Some(call) = self.when_dry.get() {
            call(server);
        }
        let waited_ms = self.limits.get().wait_ms;
        let place = Place {
            pools: self,
            server,
            ticket,
        };
        let woken = reactor::timeout(Duration::from_millis(waited_ms), woken).await;
        let ended = Step::WaitEnds {
            what,
            server: awaited,
            came: woken.is_some(),
        };
        note(session, ended);
        if woken.is_none() {
            return Err(PoolError::WaitTimeout { waited_ms });
        }
        // The caller takes what was promised before anybody else can run.
        std::mem::forget(place);
        if let Some(server) = self.servers.borrow_mut().get_mut(&server) {
            server.promised -= 1;
        }
        Ok(())
    }

    pub(crate) fn put(&self, key: Key, mut connection: Box<Connection>) {
        connection.idle_since_s = self.now_s.get();
        let mut servers = self.servers.borrow_mut();
        let server = servers.entry(key.server).or_default();
        if connection.term < server.term || is_outdated(&connection) {
            server.count -= 1;
            wake_next(server, None);
            return;
        }
        if server.count > self.limits.get().connections_max && !ends_with_sessions(&connection) {
            // The limit was lowered while it was in use.
            server.count -= 1;
            return;
        }
        server.idle.push((key, connection));
        if !server.line.is_empty() {
            wake_next(server, Some(self.user(key)));
        }
    }

    pub(crate) fn give_up_place(&self, server: ServerId) {
        let mut servers = self.servers.borrow_mut();
        let server = servers.entry(server).or_default();
        server.count -= 1;
        wake_next(server, None);
    }

    /// True when a session waits for a connection of this server.
    pub fn wanted(&self, server: ServerId) -> bool {
        self.servers
            .borrow()
            .get(&server)
            .is_some_and(|s| !s.line.is_empty())
    }

    /// Connections to one server that are in use.
    pub fn in_use(&self, server: ServerId) -> usize {
        let servers = self.servers.borrow();
        let server = servers.get(&server);
        server.map_or(0, |server| server.count - server.idle.len())
    }

    /// What is in use now.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage {
            opened: self.opened.get(),
            ended: self.ended.get(),
            variables_refused: self
                .servers_own
                .borrow()
                .values()
                .map(|own| own.refused())
                .sum(),
            ..Usage::default()
        };
        for server in self.servers.borrow().values() {
            usage.idle += server.idle.len();
            usage.in_use += server.count - server.idle.len();
            usage.waiting += server.line.len();
        }
        usage
    }
}

/// It was opened when its login was taken for an account that was alike, and may be no more.
pub(crate) fn is_outdated(connection: &Connection) -> bool {
    let pass = connection.pass.as_ref();
    pass.is_some_and(|pass| pass.edition() != connection.edition)
}

pub(crate) fn ends_with_sessions(connection: &Connection) -> bool {
    let pass = connection.pass.as_ref();
    pass.is_some_and(Pass::ends_with_sessions)
}

fn choose(
    idle: &[(Key, Box<Connection>)],
    key: Key,
    wanted: &Rc<SessionState>,
    prefer: u64,
) -> Option<usize> {
    let mut best: Option<(usize, usize)> = None;
    for (at, (other, connection)) in idle.iter().enumerate().rev() {
        if *other != key {
            continue;
        }
        if connection.id == prefer && connection.state.can_become(wanted) {
            return Some(at);
        }
        let strange = usize::from(connection.variables.is_some());
        let distance = if SessionState::same(&connection.state, wanted) {
            if prefer == 0 && strange == 0 {
                return Some(at);
            }
            strange
        } else if connection.state.can_become(wanted) {
            connection.state.distance(wanted) + strange
        } else {
            continue;
        };
        if best.is_none_or(|(_, least)| distance < least) {
            best = Some((at, distance));
        }
    }
    best.map(|(at, _)| at)
}

pub(crate) fn wake_next(server: &mut PerServer, returned: Option<u32>) {
    while let Some(waiter) = server.line.next(returned) {
        if waiter.send(()).is_ok() {
            server.promised += 1;
            return;
        }
    }
}

/// A place in the line. Dropped, it leaves the line; if it had been woken already, the promise goes
/// to the next.
struct Place<'a> {
    pools: &'a Pools,
    server: ServerId,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut servers = self.pools.servers.borrow_mut();
        let Some(server) = servers.get_mut(&self.server) else {
            return;
        };
        if !server.line.leave(self.ticket) {
            server.promised -= 1;
            wake_next(server, None);
        }
    }
}
