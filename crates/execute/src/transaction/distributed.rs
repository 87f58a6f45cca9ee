//! What a session knows of its open transaction in a farm with several groups: the groups that it touched, the
//! name that it has once there are two, and what recovery still has to end. The data alone: what begins and ends
//! such a transaction is in `dist_txn`.
//!
//! Must not know: what a server is asked, and in which order a transaction ends.

use std::sync::Arc;

use farm::dist_txn::{Branch, GlobalId};
use farm::{Group, Xid};
use machines::xa::commit::{Commit, Work};
use mysql_wire::status::Status;
use sqltext::{Class, Facts, Verb};

use crate::execution::exec::Shape;
use crate::variables::session_variables::SessionVariables;

/// A transaction that is open, or will be with its first statement.
#[derive(Default)]
pub struct DistTxn {
    /// The client's BEGIN, which no server has seen.
    pub begun: Option<Begun>,
    /// It says READ ONLY.
    pub read_only: bool,
    /// What its client has set for it alone, as texts: on the first group's connection it stands.
    pub next: Vec<Box<[u8]>>,
    /// Each group has a view of the same moment.
    pub snapshot: bool,
    /// The second group that it writes on is refused.
    pub one_writer: bool,
    /// Heddle began it for one SELECT.
    pub of_read: bool,
    /// What groups had executed before their views were opened, by their numbers; of MySQL.
    pub executed: Vec<(u32, String)>,
    /// The groups that it touched, in this order; the first decides.
    pub parts: Vec<Part>,
    /// Once it touched a second group.
    pub id: Option<GlobalId>,
    /// The texts of the savepoints that are set, in this order.
    pub savepoints: Vec<Vec<u8>>,
    /// It is an XA transaction of the client's own.
    pub own: Option<Box<Own>>,
    /// A part was lost behind a statement that had been answered with OK, and nothing of it is left.
    pub lost: bool,
    /// The last statement's error.
    pub failed: Option<u16>,
}

/// A BEGIN that was answered.
pub struct Begun {
    pub shape: Shape,
    pub frame: Vec<u8>,
    /// The session's flags before it.
    pub before: Status,
}

/// What one group has of the transaction.
pub struct Part {
    /// The group's number and name.
    pub group: u32,
    pub name: Arc<str>,
    pub work: Work,
    /// `None` for the coordinator group, and where all parts are plain transactions.
    pub branch: Option<Branch>,
    /// Its connection waits for locks no longer than a transaction over groups may.
    pub hurried: bool,
}

impl Part {
    /// One that has done nothing yet, in a plain transaction.
    pub fn plain(group: &Group) -> Part {
        Part {
            group: group.number,
            name: group.name.clone(),
            work: Work::default(),
            branch: None,
            hurried: false,
        }
    }
}

impl DistTxn {
    /// It is as its BEGIN left it.
    pub fn only_begun(begun: Begun, read_only: bool) -> DistTxn {
        DistTxn {
            begun: Some(begun),
            read_only,
            ..DistTxn::default()
        }
    }

    /// It has reached a group.
    pub(crate) fn has_begun(&self) -> bool {
        !self.parts.is_empty()
    }

    /// It touched a second group.
    pub fn has_crossed(&self) -> bool {
        self.parts.len() > 1
    }

    /// Heddle began it for one SELECT: its client is in no transaction.
    pub(crate) fn is_of_read(&self) -> bool {
        self.of_read
    }

    /// It is a plain transaction of this group and of no other.
    pub(crate) fn is_alone_on(&self, group: u32) -> bool {
        let plain = self.own.is_none() && !(self.snapshot || self.one_writer || self.lost);
        plain && matches!(&self.parts[..], [only] if only.group == group)
    }

    /// No group but this one has changed anything.
    pub fn writes_only_on(&self, group: u32) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|part| part.group == group || !part.work.wrote)
    }

    /// What this group has of it.
    pub fn part(&mut self, group: u32) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.group == group)
    }
}

/// What a statement may do to its group.
pub fn work_of(shape: &Shape, serializable: bool) -> Work {
    let quiet = matches!(
        shape.class,
        Class::Read | Class::Set | Class::Use | Class::Show | Class::Local | Class::Empty
    );
    let harmless = quiet || shape.class == Class::Transaction || !shape.writes;
    Work {
        wrote: !harmless && shape.verb != Verb::Savepoint,
        locked: serializable || shape.facts.contains(Facts::LOCKING_READ),
    }
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XaState {
    Active,
    Idle,
    Prepared,
    /// A server has rolled its part back, or a part was lost: nothing of it is left.
    Undone,
}

impl XaState {
    /// As servers name it.
    pub fn name(self) -> &'static str {
        match self {
            XaState::Active => "ACTIVE",
            XaState::Idle => "IDLE",
            XaState::Prepared => "PREPARED",
            XaState::Undone => "ROLLBACK ONLY",
        }
    }
}

/// The client's own XA transaction.
pub struct Own {
    pub xid: Xid,
    pub state: XaState,
    /// Once it is prepared.
    pub machine: Option<Commit>,
}

/// A branch that recovery is to end, before the session reads its group again.
pub struct Unfinished {
    pub id: GlobalId,
    pub group: u32,
    pub name: Arc<str>,
}

/// Plain reads take locks.
pub fn is_serializable(variables: &SessionVariables) -> bool {
    ["transaction_isolation", "tx_isolation"]
        .iter()
        .any(|name| variables.state.variable(name) == Some(b"SERIALIZABLE"))
}
