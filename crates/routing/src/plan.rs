//! The decision itself, in the order of its questions: held? hint? read? how new? else the primary.

use farm::{ClientError, Group, GroupKind, Server, ServerId, Snapshot, error};
use sqltext::MsHint;

use crate::balance::{Balance, Turn};
use crate::level::{Level, Need, Proof};
use crate::rules::Servers;

/// What the session knows that matters for the choice.
#[derive(Clone, Copy, Debug)]
pub struct Standing<'a> {
    /// The group that the statement is for.
    pub group: Option<&'a Group>,
    /// A server whose connection the session holds: a transaction or a pin. Nothing moves then.
    pub held: Option<ServerId>,
    /// The server that served the statement before, for the hint `ms=last_used`.
    pub last_used: Option<ServerId>,
    /// The replica that served the read before, for balance that stays with it.
    pub last_replica: Option<ServerId>,
    /// Without autocommit any statement may open a transaction that later writes.
    pub autocommit: bool,
    /// What a read of this statement needs. A hint may ask for another level.
    pub need: Need<'a>,
    /// Reads go to these only, and to the primary where none of them can serve.
    pub among: Option<&'a Servers>,
}

/// Why the plan is what it is; shown by EXPLAIN and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Held,
    Hint,
    Read,
    /// A read for which a rule names the servers.
    Rule,
    /// A read at the level strong.
    Strong,
    /// A read without autocommit.
    NoAutocommit,
    /// A read that no replica has the rows for: they lack what the session wrote or saw, or are too
    /// far behind.
    TooOld,
    /// A read, but no replica can serve.
    NoReplica,
    NotARead,
}

/// One server for one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub server: ServerId,
    /// The connection must be a READ ONLY session: the server is a replica, or one of all that are asked.
    pub read_only: bool,
    /// The server does not surely have the required GTID: it is asked to wait for it before the statement runs.
    pub wait: bool,
    /// More servers could have served if newer positions of them were known.
    pub narrowed: bool,
    pub reason: Reason,
}

impl Plan {
    /// What the server refuses to write goes to the primary. In a transaction of the client's own
    /// that is READ ONLY the refusal is its answer.
    pub fn guards(&self) -> bool {
        self.read_only && self.reason != Reason::Held
    }
}

/// No server can serve the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: ClientError,
    /// What fills the gap in the error's text.
    pub detail: String,
}

/// Chooses the server for a statement. `read`: it surely reads, or begins a transaction that does
/// nothing else; then the replica that serves it keeps the transaction. `avoid` names the servers that have just
/// failed this statement, or that were waited for in vain. Refuses only when no server that may serve
/// it is alive.
pub fn plan(
    snapshot: &Snapshot,
    read: bool,
    hint: Option<MsHint>,
    standing: &Standing<'_>,
    avoid: &[ServerId],
    balance: &mut Balance,
    in_use: &dyn Fn(ServerId) -> usize,
) -> Result<Plan, Refusal> {
    if let Some(server) = standing.held {
        return Ok(Plan {
            server,
            read_only: snapshot.server(server).is_some_and(|s| !s.serves_writes()),
            wait: false,
            narrowed: false,
            reason: Reason::Held,
        });
    }
    let group = standing.group.ok_or_else(|| Refusal {
        error: error::NO_GROUP,
        detail: String::new(),
    })?;
    let turn = Turn {
        now_us: standing.need.now_us,
        last: standing.last_replica,
        in_use,
    };
    let reads = Reads::of(snapshot, group, standing, avoid, turn);
    if read && group.kind == GroupKind::Media {
        return reads.plan(&standing.need, balance, Reason::Read);
    }
    match hint {
        Some(MsHint::Master) => return primary(group, read, Reason::Hint),
        Some(MsHint::Strong) if read => return primary(group, true, Reason::Hint),
        Some(MsHint::LastUsed) => {
            let last = standing.last_used.and_then(|id| group.server(id));
            let last = last.filter(|s| !read || standing.among.is_none_or(|a| a.contain(s)));
            if let Some(server) = last.filter(|s| group.writes_to(s) || (read && s.serves_reads()))
            {
                return Ok(on(group, server, Reason::Hint));
            }
        }
        Some(MsHint::Slave) if read => {
            // Its author has chosen the server himself, whatever it has.
            let any = Need {
                level: Level::Eventual { max_lag_us: None },
                last_read: None,
                ..standing.need
            };
            return reads.plan(&any, balance, Reason::Hint);
        }
        Some(hint) if hint.asks_level() && read && standing.autocommit => {
            return reads.plan(&standing.need, balance, Reason::Hint);
        }
        _ => {}
    }
    if !read {
        return primary(group, false, Reason::NotARead);
    }
    if !standing.autocommit {
        return primary(group, true, Reason::NoAutocommit);
    }
    if standing.need.level == Level::Strong {
        return primary(group, true, Reason::Strong);
    }
    let reason = standing.among.map_or(Reason::Read, |_| Reason::Rule);
    reads.plan(&standing.need, balance, reason)
}

fn on(group: &Group, server: &Server, reason: Reason) -> Plan {
    Plan {
        server: server.id,
        read_only: !group.writes_to(server),
        wait: false,
        narrowed: false,
        reason,
    }
}

/// The primary; for a read also one that takes no writes at the moment. There is none while it is
/// being exchanged.
fn primary(group: &Group, read: bool, reason: Reason) -> Result<Plan, Refusal> {
    group
        .primary()
        .filter(|_| !group.paused)
        .filter(|server| server.serves_writes() || (read && server.serves_reads()))
        .map(|server| on(group, server, reason))
        .ok_or_else(|| Refusal {
            error: error::NO_PRIMARY,
            detail: group.name.to_string(),
        })
}

/// A group's replicas, for one read.
struct Reads<'a> {
    snapshot: &'a Snapshot,
    group: &'a Group,
    avoid: &'a [ServerId],
    among: Option<&'a Servers>,
    turn: Turn<'a>,
}

impl<'a> Reads<'a> {
    fn of(
        snapshot: &'a Snapshot,
        group: &'a Group,
        standing: &'a Standing<'_>,
        avoid: &'a [ServerId],
        turn: Turn<'a>,
    ) -> Reads<'a> {
        Reads {
            snapshot,
            group,
            avoid,
            among: standing.among,
            turn,
        }
    }

    /// A replica that takes reads, or a node of a Galera group besides the one that takes the writes;
    /// of servers that a rule names also the primary.
    fn serves(&self, server: &Server) -> bool {
        let node = || {
            self.group.kind == GroupKind::Galera
                && is_primary(server)
                && !self.group.writes_to(server)
        };
        match self.among {
            None => serves(server) || node(),
            Some(among) => among.contain(server) && (is_primary(server) || serves(server)),
        }
    }

    /// How the server stands to the need; the primary has everything, and so has, once it is asked,
    /// every node of a Galera group. What is on read-only storage never changes: whatever is asked of it, there
    /// is nothing newer.
    fn proof(&self, need: &Need<'_>, server: &Server) -> Proof {
        match is_primary(server) || self.group.kind == GroupKind::Media {
            true => Proof::Has,
            false => need.proof(server, self.snapshot),
        }
    }

    /// A replica in its turn that has what is needed; one that may have it and can be waited for;
    /// the primary.
    fn plan(
        &self,
        need: &Need<'_>,
        balance: &mut Balance,
        reason: Reason,
    ) -> Result<Plan, Refusal> {
        let servers = self.group.servers.iter().map(|server| &**server);
        let serving = servers.filter(|server| self.serves(server));
        let tried = |server: &Server| self.avoid.contains(&server.id);
        let with = |proof: Proof| {
            move |server: &Server| !tried(server) && self.proof(need, server) == proof
        };
        let found = balance.choose(serving.clone(), with(Proof::Has), &self.turn);
        let (found, wait) = match found {
            Some(server) => (Some(server), false),
            None => (
                balance.choose(serving.clone(), with(Proof::MayHave), &self.turn),
                true,
            ),
        };
        let lacks = |server: &Server| self.proof(need, server) != Proof::Has;
        if let Some(server) = found {
            return Ok(Plan {
                wait,
                narrowed: need.last_read.is_some() || wait || serving.clone().any(lacks),
                ..on(self.group, server, reason)
            });
        }
        let none = serving.clone().all(tried);
        let reason = if none {
            Reason::NoReplica
        } else {
            Reason::TooOld
        };
        primary(self.group, true, reason)
            .map(|plan| Plan {
                narrowed: !none,
                ..plan
            })
            // A server that has just failed is better than none, and so are old rows where any age
            // is allowed; what was promised is kept even then.
            .or_else(|refusal| {
                let kept = |server: &Server| self.proof(need, server) == Proof::Has;
                let server = balance.choose(serving, kept, &self.turn);
                server.map(|s| on(self.group, s, reason)).ok_or(refusal)
            })
            .map_err(|_| Refusal {
                error: error::NO_SERVER,
                detail: self.group.name.to_string(),
            })
    }
}

fn is_primary(server: &Server) -> bool {
    server.status == farm::Status::Primary && server.serves_reads()
}

/// A replica takes reads while its applier runs: standing still, it would serve ever older rows.
fn serves(server: &Server) -> bool {
    server.status == farm::Status::Replica
        && server.serves_reads()
        && server.health.sql_running != Some(false)
}
