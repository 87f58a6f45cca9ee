//! What others may see of a core's sessions: for lists of sessions and for KILL USER.
//!
//! A session leaves notes in its [`Handle`] as it goes; they are read here only when somebody asks,
//! and other cores ask by a message. Seconds are those of the core's tick.

use std::net::SocketAddr;

use farm::ServerId;
use farm::local::{host_of, is_local};
use mysql_wire::command::Command;
use sqltext::{Digest, Origin};

use crate::Message;
use crate::connections::parked::Parked;
use crate::connections::pin::Pins;
use crate::per_core::{Core, Handle};

/// A connection that a session keeps between its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hold {
    pub server: ServerId,
    pub thread_id: u32,
    pub pins: Pins,
    /// A transaction is open, or may be.
    pub transaction: bool,
}

/// What is known of the text of a session's last statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub digest: Option<Digest>,
    /// Read while statements are counted by digest.
    pub origin: Origin,
}

impl Asked {
    /// A statement that is not counted.
    pub fn name(&mut self, digest: Option<Digest>) {
        self.digest = digest;
        self.origin.clear();
    }
}

/// What a session came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Sql,
    Keys,
    /// None: it is Heddle's own.
    Own,
}

impl Door {
    const ALL: [Door; 3] = [Door::Sql, Door::Keys, Door::Own];

    /// As lists have it.
    pub fn name(self) -> &'static str {
        match self {
            Door::Sql => "sql",
            Door::Keys => "kv",
            Door::Own => "own",
        }
    }

    /// The door of this name; a router that names none, or another, has told of a session of SQL.
    pub fn named(name: &str) -> Door {
        let named = Door::ALL.into_iter().find(|door| door.name() == name);
        named.unwrap_or(Door::Sql)
    }
}

/// One session as it was when its core was asked.
#[derive(Clone, Debug)]
pub struct SessionView {
    pub id: u32,
    pub user: Vec<u8>,
    pub peer: SocketAddr,
    pub door: Door,
    pub database: Option<Vec<u8>>,
    /// The name of the command that runs; `None` while the session waits for its client's next one.
    pub command: Option<&'static str>,
    /// Since its last command began, or since its client was last heard of.
    pub time_s: u64,
    /// Of the statement that runs.
    pub digest: Option<Digest>,
    /// Where that comes from, and the trace that it belongs to, as its comments say.
    pub tag: String,
    pub trace: String,
    /// The server that runs its statement, and the server's id of the connection.
    pub running: Option<(ServerId, u32)>,
    /// The same of the connection that the session keeps.
    pub held: Option<(ServerId, u32)>,
    /// Why it keeps one: `transaction`, or what is pinned. Empty when it keeps none.
    pub reasons: Vec<&'static str>,
    /// For how long it has kept one.
    pub held_s: u64,
}

/// Takes the sessions of one core.
pub struct Lister(Box<dyn FnOnce(Vec<SessionView>) + Send>);

impl Lister {
    /// Calls `take` once, on the core's thread; it must not block.
    pub fn new(take: impl FnOnce(Vec<SessionView>) + Send + 'static) -> Lister {
        Lister(Box::new(take))
    }

    /// Hands the sessions over.
    pub fn tell(self, sessions: Vec<SessionView>) {
        (self.0)(sessions);
    }
}

impl std::fmt::Debug for Lister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Lister")
    }
}

impl SessionView {
    /// What the servers' lists of processes have in the column Host.
    pub fn host(&self) -> String {
        match is_local(self.peer.ip()) {
            true => host_of(self.peer.ip()),
            false => format!("{}:{}", self.peer.ip().to_canonical(), self.peer.port()),
        }
    }
}

impl Core {
    /// The sessions of this core, and the clients of other doors.
    pub fn views(&self) -> Vec<SessionView> {
        let handles = self.handles.borrow();
        let sessions = handles.values().map(|handle| self.view(handle));
        let mut views: Vec<SessionView> = sessions.collect();
        self.door_clients.view(self.now_s.get(), &mut views);
        views
    }

    fn view(&self, handle: &Handle) -> SessionView {
        // A statement that waits for its client's file runs all the same.
        let waits = match handle.internal_runs.get() {
            Some(runs) => !runs,
            None => handle.waits_for_client.get(),
        };
        let busy = !waits || handle.running.get().is_some();
        let command = Command::try_from(handle.command.get()).unwrap_or(Command::Query);
        let now_s = self.now_s.get();
        let held = handle.holds.get();
        let mut reasons = held.map_or_else(Vec::new, |hold| hold.pins.reasons());
        if held.is_some_and(|hold| hold.transaction) {
            reasons.push("transaction");
        }
        let mut held_s = now_s.saturating_sub(handle.held_since_s.get());
        if let Parked::Kept(kept) = &*handle.parked.borrow() {
            reasons.push("diagnostics");
            held_s = now_s.saturating_sub(kept.since_s);
        }
        let asked = match busy {
            true => handle.asked.borrow().clone(),
            false => Asked::default(),
        };
        SessionView {
            id: handle.id,
            user: handle.user.borrow().to_vec(),
            peer: handle.peer,
            door: match handle.internal_runs.get() {
                Some(_) => Door::Own,
                None => Door::Sql,
            },
            database: handle.state.borrow().database().map(<[u8]>::to_vec),
            command: busy.then(|| command.name()),
            time_s: now_s.saturating_sub(handle.active_s.get()),
            digest: asked.digest,
            tag: asked.origin.tag,
            trace: asked.origin.trace,
            running: handle.running.get(),
            held: held.map(|hold| (hold.server, hold.thread_id)),
            held_s: if reasons.is_empty() { 0 } else { held_s },
            reasons,
        }
    }

    /// The sessions of all cores, ordered by id.
    pub(crate) async fn all_views(&self) -> Vec<SessionView> {
        let mut all = self.views();
        for core in (0..self.shared.counters.len()).filter(|core| *core != self.index) {
            let (tell, told) = futures_channel::oneshot::channel();
            let lister = Lister::new(move |sessions| drop(tell.send(sessions)));
            if self.dealer.send(core, Message::List(lister)) {
                // A core that ends has no sessions worth a word.
                all.extend(told.await.unwrap_or_default());
            }
        }
        all.sort_by_key(|view| view.id);
        all
    }
}
