//! All servers of a group, for a read whose author asks each of them.

use farm::{Group, Server, Status, error};

use crate::plan::{Plan, Reason, Refusal};
use crate::rules::Servers;

/// A plan for each server of the group that has its data and takes reads: the one that takes the writes first, the
/// others in the group's order. All connections are READ ONLY sessions, the primary's too: what writes all the same
/// must fail everywhere, not everywhere but there. `among` narrows the servers, as it does for other reads. Refuses
/// when one of them is not alive: its answer would be missing without a word.
pub fn plan_all(group: &Group, among: Option<&Servers>) -> Result<Vec<Plan>, Refusal> {
    let asked = |server: &&Server| {
        matches!(server.status, Status::Primary | Status::Replica)
            && server.mode.reads()
            && among.is_none_or(|among| among.contain(server))
    };
    let servers = group.servers.iter().map(|server| &**server);
    let mut servers: Vec<&Server> = servers.filter(asked).collect();
    servers.sort_by_key(|server| !group.writes_to(server));
    let dead = servers.iter().find(|server| !server.health.alive);
    if let Some(dead) = dead {
        return Err(Refusal {
            error: error::ALL_SERVERS_MISSING,
            detail: format!("{} of group {}", dead.address(), group.name),
        });
    }
    if servers.is_empty() {
        return Err(Refusal {
            error: error::NO_SERVER,
            detail: group.name.to_string(),
        });
    }
    let plan = |server: &Server| Plan {
        server: server.id,
        read_only: true,
        wait: false,
        narrowed: false,
        reason: Reason::Hint,
    };
    Ok(servers.into_iter().map(plan).collect())
}
