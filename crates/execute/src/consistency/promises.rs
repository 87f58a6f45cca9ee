//! What a session's reads are promised: its level, what it has written, what it has read, its token.
//!
//! A write's GTID comes with the server's OK packet and joins the session's required GTID: what every later
//! read at the level `session` must have. At the level `client` the required GTID takes in what any connection
//! of the same client has had acknowledged ([`crate::consistency::client_level`]). Where a write has told none though it may have changed
//! something (it failed half-way, its server was lost), the required GTID is unproved, and the primary is
//! asked for its position before a replica serves again.

pub mod keeping;

use backend::Connection;
use enginesql::position;
use farm::dist_txn::Atomic;
use farm::{Position, ServerId};
use routing::{LastRead, Level};

use crate::consistency::defaults::Consistency;
use crate::execution::exec::Shape;

/// A session asks its server no more often where it stands.
const ASK_EVERY_US: u64 = 50_000;

bitflags::bitflags! {
    /// Which promises a session has chosen for itself.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Own: u8 {
        const LEVEL = 1;
        const MAX_LAG = 2;
        const MONOTONIC = 4;
        const FAILOVER_WAIT = 8;
    }
}

/// One session's promises.
#[derive(Debug)]
pub struct Promises {
    pub level: Level,
    pub max_lag_ms: u64,
    pub monotonic: bool,
    /// Its writes are marked.
    pub(crate) tags_on: bool,
    /// Eventual reads may be answered from the cache; 0 is not.
    pub(crate) cache_ttl_s: u32,
    /// Point SELECTs may be answered by the row cache.
    pub(crate) row_cache: bool,
    /// When the cache last answered; 0 for never.
    pub(crate) recalled_us: u64,
    /// The session's statements wait so long for a primary.
    pub failover_wait_ms: u64,
    /// What its transactions over several groups are; `None` is its user's or the farm's default.
    pub atomic: Option<Atomic>,
    /// What it has set itself, and so does not follow the defaults.
    pub own: Own,
    /// The version of the settings that the defaults are of.
    pub version: u32,
    /// What of the required GTID the read under way needs, where that is known to be less.
    pub narrowed: Option<Box<Position>>,
    /// It has written at all.
    wrote: bool,
    /// When the read under way was planned; 0 for none.
    pub(crate) began_us: u64,
    /// The group has more than one server; else none of this matters.
    pub counts: bool,
}

/// What a session has written to and read from one group.
#[derive(Debug, Default)]
pub struct Seen {
    pub required: Option<Box<Position>>,
    /// It may have written more than `required` says.
    pub unproved: bool,
    /// It has written where no GTID tells of it.
    pub unlogged: bool,
    pub last_read: Option<LastRead>,
    /// The group's timeline when the required GTID was last looked at; 0 before that.
    timeline: u32,
    /// What of the client's writes is in the required GTID: their version, and how often they were not known.
    pub(crate) client_version: u64,
    pub(crate) client_doubts: u64,
    last_replica: Option<ServerId>,
    /// When the session's server was last asked where it stands, so that others may serve.
    asked_us: u64,
}

impl Promises {
    pub fn new(defaults: &Consistency, tags_on: bool, failover_wait_ms: u64) -> Promises {
        Promises {
            tags_on,
            level: defaults.level,
            max_lag_ms: defaults.max_lag_ms,
            monotonic: defaults.monotonic,
            cache_ttl_s: 0,
            row_cache: false,
            recalled_us: 0,
            failover_wait_ms,
            atomic: None,
            own: Own::empty(),
            version: 0,
            narrowed: None,
            wrote: false,
            began_us: 0,
            counts: false,
        }
    }

    /// The session has written at all.
    pub fn wrote(&self) -> bool {
        self.wrote
    }

    /// What the read under way needs of a group of which the session has seen this.
    pub fn required<'a>(&'a self, seen: &'a Seen) -> Option<&'a Position> {
        self.narrowed.as_deref().or(seen.required.as_deref())
    }
}

impl Seen {
    /// True while nothing is required of reads.
    pub fn is_empty(&self) -> bool {
        self.required.is_none() && !self.unproved && !self.unlogged && self.last_read.is_none()
    }

    /// The replica that served the last read of a replica.
    pub(crate) fn last_replica(&self) -> Option<ServerId> {
        self.last_replica
    }

    /// Reads of the group must have this from now on.
    fn raise(&mut self, position: &Position, executed: Option<&Position>) {
        match &mut self.required {
            Some(required) => required.join_among(position, executed),
            None => self.required = Some(Box::new(position.clone())),
        }
    }

    /// The group may have lost a primary since. What was lost with it never comes, so the new primary
    /// is asked what there is.
    pub fn turn(&mut self, timeline: u32) {
        if self.timeline < timeline {
            if self.timeline > 0 && self.required.take().is_some() {
                self.unproved = true;
            }
            self.timeline = timeline;
        }
    }

    /// Nothing is promised any more of what was written and read so far.
    pub fn forget(&mut self) {
        self.required = None;
        self.unproved = false;
        self.last_read = None;
    }
}

impl Promises {
    /// The level that this statement is asked to have, if it is a read: its own, or the session's.
    pub fn level_of(&self, shape: &Shape) -> Level {
        shape.level.unwrap_or(self.level)
    }
}

/// What the server of this connection has executed.
pub async fn executed(connection: &mut Connection) -> Option<Position> {
    let engine = connection.engine();
    let ask = format!("SELECT {}", position::executed(engine));
    let answer = connection.ask(ask.as_bytes()).await.ok()?;
    Position::parse(engine, &String::from_utf8_lossy(answer.first()?))
}
