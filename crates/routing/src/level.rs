//! How new the rows of a read must be, and which servers are known to have them.

use farm::{Position, Server, ServerId, Snapshot};

/// The promise that a read is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Level {
    /// Any server that is behind by no more than `max_lag_us`; `None` allows any age.
    Eventual { max_lag_us: Option<u64> },
    /// A server that has all that this session has written, or that its token promises.
    Session,
    /// The same, and all that any connection of the session's client has had acknowledged.
    Client,
    /// The primary.
    Strong,
}

impl Level {
    /// The names of all, for people.
    pub const NAMES: &'static str = "eventual, session, client or strong";

    /// The level of this name, in any case; an eventual one without a bound.
    pub fn named(name: &[u8]) -> Option<Level> {
        let eventual = Level::Eventual { max_lag_us: None };
        let levels = [eventual, Level::Session, Level::Client, Level::Strong];
        let named = |level: &Level| name.eq_ignore_ascii_case(level.name().as_bytes());
        levels.into_iter().find(named)
    }

    /// What a session has written or taken up must be there.
    pub fn has_required(self) -> bool {
        matches!(self, Level::Session | Level::Client)
    }

    /// The name in settings and statements.
    pub fn name(self) -> &'static str {
        match self {
            Level::Eventual { .. } => "eventual",
            Level::Session => "session",
            Level::Client => "client",
            Level::Strong => "strong",
        }
    }
}

/// The read before, which the next one must not be older than.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastRead {
    pub server: ServerId,
    /// It had ended by then, by the clock of [`Snapshot::origin`].
    pub ended_us: u64,
}

/// What one read asks of a server's data.
#[derive(Clone, Copy, Debug)]
pub struct Need<'a> {
    pub level: Level,
    /// What the session has written or taken up, at the level client what its client has, as far as it is
    /// known.
    pub required: Option<&'a Position>,
    /// The session has written more than `required` says; only the primary surely has it.
    pub unproved: bool,
    /// `None` where reads may go back in time.
    pub last_read: Option<LastRead>,
    pub now_us: u64,
    /// A server is waited for that long; one that is known to be further behind is not.
    pub wait_us: u64,
}

/// How a server stands to a need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// It is known to have what is needed.
    Has,
    /// It may have it, or will soon: asked to wait, it can say so.
    MayHave,
    /// It lacks it, or nobody can say in time.
    Lacks,
}

impl Need<'_> {
    /// What is known of this replica.
    pub(crate) fn proof(&self, server: &Server, snapshot: &Snapshot) -> Proof {
        if self.level == Level::Strong || !self.no_step_back(server, snapshot) {
            return Proof::Lacks;
        }
        if let Level::Eventual { max_lag_us } = self.level {
            let complete_us = server.fresh.complete_us();
            let fits = max_lag_us.is_none_or(|max_us| {
                complete_us > 0 && self.now_us.saturating_sub(complete_us) <= max_us
            });
            return if fits { Proof::Has } else { Proof::Lacks };
        }
        if self.unproved {
            return Proof::Lacks;
        }
        let Some(required) = self.required else {
            return Proof::Has;
        };
        if server.fresh.covers(required) {
            return Proof::Has;
        }
        let far_behind = server.fresh.lag_us().is_some_and(|lag| lag > self.wait_us);
        if self.wait_us == 0 || far_behind {
            Proof::Lacks
        } else {
            Proof::MayHave
        }
    }

    /// The server has what the read before has seen: it is the same one, or it is known to hold a
    /// position which the other one had when that read was over.
    fn no_step_back(&self, server: &Server, snapshot: &Snapshot) -> bool {
        let Some(last) = self.last_read else {
            return true;
        };
        if last.server == server.id {
            return true;
        }
        // A server that has left the farm can tell nothing more.
        let Some(before) = snapshot.server(last.server) else {
            return false;
        };
        server.fresh.covers_later(&before.fresh, last.ended_us)
    }
}
