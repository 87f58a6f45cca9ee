//! The decision itself, in the order of its questions: held? hint? read? else the primary.

use farm::{ClientError, Group, Server, ServerId, Snapshot, error};
use sqltext::{Class, MsHint};

use crate::Balance;

/// What the session knows that matters for the choice.
#[derive(Clone, Copy, Debug)]
pub struct Standing {
    /// A server whose connection the session holds: a transaction or a pin. Nothing moves then.
    pub held: Option<ServerId>,
    /// The server that served the statement before, for the hint `ms=last_used`.
    pub last_used: Option<ServerId>,
    /// The session has written; its reads stay on the primary.
    pub wrote: bool,
    /// Without autocommit any statement may open a transaction that later writes.
    pub autocommit: bool,
}

/// Why the plan is what it is; shown by EXPLAIN and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Held,
    Hint,
    Read,
    /// A read, but this session has written or has no autocommit.
    OwnWrites,
    /// A read, but no replica can serve.
    NoReplica,
    NotARead,
}

/// One server for one statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub server: ServerId,
    /// The connection must be a READ ONLY session: the server is a replica.
    pub read_only: bool,
    pub reason: Reason,
}

/// No server can serve the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: ClientError,
    /// What fills the gap in the error's text.
    pub detail: String,
}

/// Chooses the server for a statement of class `class`. `avoid` names the servers that have just
/// failed this statement. Refuses only when no server that may serve it is alive.
pub fn plan(
    snapshot: &Snapshot,
    class: Class,
    hint: Option<MsHint>,
    standing: &Standing,
    avoid: &[ServerId],
    balance: &mut Balance,
) -> Result<Plan, Refusal> {
    if let Some(server) = standing.held {
        let read_only = snapshot.server(server).is_some_and(|s| !s.serves_writes());
        return Ok(Plan {
            server,
            read_only,
            reason: Reason::Held,
        });
    }
    let group = snapshot.home().ok_or_else(|| Refusal {
        error: error::NO_GROUP,
        detail: String::new(),
    })?;
    let read = class == Class::Read;
    match hint {
        Some(MsHint::Master | MsHint::Strong) => return primary(group, read, Reason::Hint),
        Some(MsHint::LastUsed) => {
            let last = standing.last_used.and_then(|id| group.server(id));
            if let Some(server) = last.filter(|s| s.serves_writes() || (read && s.serves_reads())) {
                return Ok(on(server, Reason::Hint));
            }
        }
        Some(MsHint::Slave | MsHint::Eventual) if read => {
            return replica(group, avoid, balance, Reason::Hint);
        }
        _ => {}
    }
    if !read {
        return primary(group, false, Reason::NotARead);
    }
    if standing.wrote || !standing.autocommit {
        return primary(group, true, Reason::OwnWrites);
    }
    replica(group, avoid, balance, Reason::Read)
}

fn on(server: &Server, reason: Reason) -> Plan {
    Plan {
        server: server.id,
        read_only: !server.serves_writes(),
        reason,
    }
}

/// The primary; for a read also one that takes no writes at the moment.
fn primary(group: &Group, read: bool, reason: Reason) -> Result<Plan, Refusal> {
    group
        .primary()
        .filter(|server| server.serves_writes() || (read && server.serves_reads()))
        .map(|server| on(server, reason))
        .ok_or_else(|| Refusal {
            error: error::NO_PRIMARY,
            detail: group.name.to_string(),
        })
}

/// A replica in its turn; the primary when there is none.
fn replica(
    group: &Group,
    avoid: &[ServerId],
    balance: &mut Balance,
    reason: Reason,
) -> Result<Plan, Refusal> {
    let fit = |server: &&Server| {
        server.status == farm::Status::Replica && server.serves_reads() && replicates(server)
    };
    let servers = group.servers.iter().map(|server| &**server).filter(fit);
    let others = servers.clone().filter(|server| !avoid.contains(&server.id));
    if let Some(server) = balance.choose(others) {
        return Ok(on(server, reason));
    }
    // A server that has just failed is better than none, when no other is left.
    primary(group, true, Reason::NoReplica)
        .or_else(|refusal| {
            balance
                .choose(servers)
                .map(|s| on(s, reason))
                .ok_or(refusal)
        })
        .map_err(|_| Refusal {
            error: error::NO_SERVER,
            detail: group.name.to_string(),
        })
}

/// A replica whose applier stands still would serve ever older rows.
fn replicates(server: &Server) -> bool {
    server.health.sql_running != Some(false)
}
