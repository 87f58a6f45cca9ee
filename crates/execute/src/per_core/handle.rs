//! What a core knows of one session, and what others on the core may do to it while its task waits.
//!
//! Must not know: the core, and what a session is.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use backend::{Pass, SessionState};
use farm::ServerId;
use reactor::Closer;
use sqltext::{Digest, Origin};

use crate::client::stall::{Progress, Running};
use crate::connections::parked::Parked;
use crate::connections::pin::Pins;

/// What others on the core may do to a session while its task waits.
pub struct Handle {
    pub id: u32,
    pub user: RefCell<Rc<[u8]>>,
    pub peer: SocketAddr,
    pub pass: RefCell<Pass>,
    /// Its database among the rest.
    pub state: RefCell<Rc<SessionState>>,
    /// The byte of the last command, and what is known of the last statement's text.
    pub command: Cell<u8>,
    pub asked: RefCell<Asked>,
    /// Ends the client's connection; `None` of an internal session.
    pub closer: Option<Closer>,
    pub killed: Cell<bool>,
    /// The number of its wait for a primary; 0 while it does not wait for one.
    pub waiting: Cell<u64>,
    pub progress: Rc<Progress>,
    /// Of an internal session: it has been given a command. `None` of a client's session.
    pub internal_runs: Cell<Option<bool>>,
    /// The session passes on a stream that has no end.
    pub streams: Cell<bool>,
    /// The epoch of the tables by which the session's statement or transaction began; 0 between them.
    pub entered: Cell<u64>,
    pub at_servers: AtServers,
    pub idle: Idle,
    pub kept: Kept,
}

/// Where the session's statement runs right now.
#[derive(Default)]
pub struct AtServers {
    /// The server, and its own id of the connection.
    pub running: Cell<Option<(ServerId, u32)>>,
    /// The other servers and connections that it runs on, when it runs on several.
    pub running_elsewhere: RefCell<Vec<(ServerId, u32)>>,
    /// The statement changes nothing: it ends when its client is gone.
    pub(crate) ends_with_client: Cell<bool>,
    /// More of the session's statements wait at that server behind the running one.
    pub(crate) in_pipeline: Cell<bool>,
    pub started: Running,
    /// KILLs that have been sent to a server for this session and not been answered.
    pub(crate) killing: Cell<u32>,
}

/// How long the session waits for its client, and how long it may.
#[derive(Default)]
pub struct Idle {
    /// When it last heard of its client, by the core's clock.
    pub active_s: Cell<u64>,
    /// The session's own `wait_timeout` in seconds; 0 while it has set none.
    pub(crate) wait_timeout_s: Cell<u64>,
    /// What its login took over from the last server that it used; 0 before that.
    pub(crate) login_timeout_s: Cell<u64>,
    /// The client said nothing for so long that the session ends.
    pub timed_out: Cell<bool>,
    /// The session waits for its client, not for a server.
    pub waits_for_client: Cell<bool>,
}

/// The connections that the session keeps between its statements.
#[derive(Default)]
pub struct Kept {
    /// One for a transaction that is open, or for something that is pinned.
    pub holds: Cell<Option<Hold>>,
    pub held_since_s: Cell<u64>,
    /// The connection of the last statement, while something that it left there may be wanted.
    pub parked: RefCell<Parked>,
    /// The handle is in the core's line.
    pub(crate) in_line: Cell<bool>,
}

impl Handle {
    /// Ends the client's connection.
    pub fn end(&self) {
        if let Some(closer) = &self.closer {
            closer.close();
        }
    }

    /// Nothing more is received from the client, which may hear a last word.
    pub(crate) fn end_receive(&self) {
        if let Some(closer) = &self.closer {
            closer.close_receive();
        }
    }

    /// True when the client has closed its side.
    pub(crate) fn client_is_gone(&self) -> bool {
        self.closer.as_ref().is_some_and(Closer::peer_is_gone)
    }
}

/// The sessions that have put a connection aside, the oldest first. An entry may be out of date.
#[derive(Default)]
pub struct Line(pub RefCell<VecDeque<Rc<Handle>>>);

/// A connection that a session keeps between its statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hold {
    pub server: ServerId,
    pub thread_id: u32,
    pub pins: Pins,
    /// A transaction is open, or may be.
    pub transaction: bool,
}

/// What is known of the text of a session's last statement.
#[derive(Clone, Debug, Default)]
pub struct Asked {
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
