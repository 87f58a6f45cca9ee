//! Transactions in a farm with several groups: lazily begun, atomic over all that they touch.
//!
//! BEGIN is answered here and sent in front of the first statement that reaches a group. That group
//! keeps the client's plain transaction and is the *coordinator group*; from the second group on, each has a
//! branch of an XA transaction on the connection of its seat. COMMIT and ROLLBACK of a transaction that
//! crossed are carried out by `machines::xa::commit`; one that stayed in its group goes through as it
//! is, and costs what it cost before.
//!
//! Invariants: of a distributed transaction every part's seat holds a connection; when one is lost, or a
//! server has rolled its part back, all others are rolled back before the next command is read. No
//! statement that a server would end the transaction with reaches one.

pub(crate) mod admit;
pub(crate) mod branch;
pub(crate) mod dist_txn_name;
pub(crate) mod drive;
pub(crate) mod end;
pub(crate) mod held;
pub(crate) mod keeper;
pub(crate) mod own;
pub(crate) mod positions;
pub(crate) mod question;
pub(crate) mod routine;
pub(crate) mod savepoint;
pub(crate) mod snapshot;
pub(crate) mod terms;
pub(crate) mod verb;
pub(crate) mod waits;
pub(crate) mod xa;
pub(crate) mod xa_elsewhere;

use std::sync::Arc;

use backend::ConnectionError;
use farm::dist_txn::{Branch, GlobalId};
use farm::{Group, Xid, error};
use machines::xa::commit::{Commit, Work};
use mysql_wire::status::Status;
use sqltext::{Class, Facts, Verb};

use crate::execution::exec::Shape;

pub use enginesql::seal::Sealed;
pub use keeper::{
    Allowed, BarrierPassed, BarriersHeld, Keeper, LetGo, OwnEnded, OwnFound, Pass, Settled,
    Verified,
};
pub(crate) use own::Across;
pub(crate) use question::{COMMIT, ROLLBACK};
pub use terms::DistTxnTerms;

/// A transaction that is open, or will be with its first statement.
#[derive(Default)]
pub(crate) struct DistTxn {
    /// The client's BEGIN, which no server has seen.
    begun: Option<Begun>,
    /// It says READ ONLY.
    read_only: bool,
    /// What its client has set for it alone, as texts: on the first group's connection it stands.
    next: Vec<Box<[u8]>>,
    /// Each group has a view of the same moment.
    snapshot: bool,
    /// The second group that it writes on is refused.
    one_writer: bool,
    /// Heddle began it for one SELECT.
    of_read: bool,
    /// What groups had executed before their views were opened, by their numbers; of MySQL.
    executed: Vec<(u32, String)>,
    /// The groups that it touched, in this order; the first decides.
    parts: Vec<Part>,
    /// Once it touched a second group.
    id: Option<GlobalId>,
    /// The texts of the savepoints that are set, in this order.
    savepoints: Vec<Vec<u8>>,
    /// It is an XA transaction of the client's own.
    own: Option<Box<Own>>,
    /// A part was lost behind a statement that had been answered with OK, and nothing of it is left.
    lost: bool,
    /// The last statement's error.
    failed: Option<u16>,
}

/// A BEGIN that was answered.
struct Begun {
    shape: Shape,
    frame: Vec<u8>,
    /// The session's flags before it.
    before: Status,
}

/// What one group has of the transaction.
struct Part {
    /// The group's number and name.
    group: u32,
    name: Arc<str>,
    work: Work,
    /// `None` for the coordinator group, and where all parts are plain transactions.
    branch: Option<Branch>,
    /// Its connection waits for locks no longer than a transaction over groups may.
    hurried: bool,
}

impl Part {
    /// One that has done nothing yet, in a plain transaction.
    fn plain(group: &Group) -> Part {
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
    /// It has reached a group.
    pub(crate) fn has_begun(&self) -> bool {
        !self.parts.is_empty()
    }

    /// It touched a second group.
    fn has_crossed(&self) -> bool {
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
    fn writes_only_on(&self, group: u32) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|part| part.group == group || !part.work.wrote)
    }

    fn part(&mut self, group: u32) -> Option<&mut Part> {
        self.parts.iter_mut().find(|part| part.group == group)
    }
}

/// What a statement may do to its group.
fn work_of(shape: &Shape, serializable: bool) -> Work {
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
enum XaState {
    Active,
    Idle,
    Prepared,
    /// A server has rolled its part back, or a part was lost: nothing of it is left.
    Undone,
}

impl XaState {
    /// As servers name it.
    fn name(self) -> &'static str {
        match self {
            XaState::Active => "ACTIVE",
            XaState::Idle => "IDLE",
            XaState::Prepared => "PREPARED",
            XaState::Undone => "ROLLBACK ONLY",
        }
    }
}

/// The client's own XA transaction.
struct Own {
    pub xid: Xid,
    pub state: XaState,
    /// Once it is prepared.
    pub machine: Option<Commit>,
}

/// A branch that recovery is to end, before the session reads its group again.
pub(crate) struct Unfinished {
    id: GlobalId,
    group: u32,
    name: Arc<str>,
}

/// The first release of MySQL whose XA survives crashes at every step.
const MYSQL_SAFE: u32 = 80_030;

fn refused(message: String) -> ConnectionError {
    ConnectionError::Refused {
        number: error::DIST_TXN_REFUSED.number,
        sqlstate: *b"HY000",
        message: message.into_bytes(),
    }
}

/// Views show one moment only at this level.
const REPEATABLE: &[u8] = b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
