//! Where each group's binary log stood when a snapshot was opened.
//!
//! MariaDB knows it of a plain transaction that began WITH CONSISTENT SNAPSHOT. Of a branch nobody
//! knows it, and MySQL says only what it had executed before.

use std::collections::BTreeMap;

use execute::client::Client;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::{Job, Shape};
use execute::per_core::Core;
use execute::per_core::operator::Answer;
use execute::session::{self, Session};
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use execute::variables::user_variables;
use farm::{Engine, error};
use sqltext::Verb;

use crate::held;

/// What MariaDB keeps of the moment.
const KEPT: &[u8] = b"SELECT BINLOG_GTID_POS(f.VARIABLE_VALUE, p.VARIABLE_VALUE), f.VARIABLE_VALUE, \
    p.VARIABLE_VALUE FROM information_schema.SESSION_STATUS f JOIN information_schema.SESSION_STATUS p \
    WHERE f.VARIABLE_NAME = 'BINLOG_SNAPSHOT_FILE' AND p.VARIABLE_NAME = 'BINLOG_SNAPSHOT_POSITION'";

/// How the question of dump tools begins.
const ASKED: &[u8] = b"select binlog_gtid_pos(";

/// One group's position.
struct Position {
    group: String,
    server: String,
    gtid: Option<String>,
    file: Option<String>,
    offset: Option<String>,
}

/// Answers a dump tool's question for the GTID position of its snapshot with the positions of all
/// groups. False: it is not asked, or one cannot be said.
pub async fn tell_positions(session: &mut Session, shape: &Shape, job: Job) -> Result<bool, End> {
    if shape.verb != Verb::Select
        || !session.transaction.dist_txn.as_ref().is_some_and(|it| it.snapshot)
    {
        return Ok(false);
    }
    let text = user_variables::text(&session.client.request, &session.prepared, job);
    let begins = text.get(..ASKED.len());
    if !begins.is_some_and(|begins| begins.eq_ignore_ascii_case(ASKED)) {
        return Ok(false);
    }
    let column = text["select ".len()..].trim_ascii().to_vec();
    let positions = positions(&session.core, &mut session.connections, &session.transaction).await;
    let all = positions.iter().map(|it| it.gtid.as_deref());
    let Some(all) = all.collect::<Option<Vec<&str>>>().and_then(|it| joined(&it)) else {
        return Ok(false);
    };
    let column = String::from_utf8_lossy(&column).into_owned();
    session::send_answer(
        &mut session.client,
        &session.variables,
        &session.transaction,
        Answer {
            columns: vec![column],
            rows: vec![vec![Some(all)]],
        },
    )
    .await?;
    Ok(true)
}

/// `HEDDLE SNAPSHOT`: the positions of the open snapshot.
pub async fn show_snapshot(
    core: &Core,
    client: &mut Client,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &Transaction,
) -> Result<(), End> {
    if !transaction.dist_txn.as_ref().is_some_and(|it| it.snapshot) {
        let text = "no snapshot over the groups is open in this session: START TRANSACTION WITH \
                    CONSISTENT SNAPSHOT opens one";
        return client.error(&error::COMMAND_REFUSED, &[text]).await;
    }
    let row = |it: Position| vec![Some(it.group), Some(it.server), it.gtid, it.file, it.offset];
    let rows = positions(core, connections, transaction).await.into_iter().map(row).collect();
    let columns = ["group", "server", "gtid", "file", "position"];
    session::send_answer(
        client,
        variables,
        transaction,
        Answer {
            columns: columns.map(str::to_owned).to_vec(),
            rows,
        },
    )
    .await
}

async fn positions(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &Transaction,
) -> Vec<Position> {
    let parts = transaction.dist_txn.iter().flat_map(|dist_txn| &dist_txn.parts);
    let parts: Vec<_> =
        parts.map(|part| (part.group, part.name.to_string(), part.branch.is_some())).collect();
    let snapshot = core.snapshot();
    let mut all = Vec::with_capacity(parts.len());
    for (number, group, is_branch) in parts {
        let executed = transaction.dist_txn.as_ref().and_then(|dist_txn| {
            let of_group = dist_txn.executed.iter().find(|(group, _)| *group == number);
            of_group.map(|(_, gtid)| gtid.clone())
        });
        let Some(held) = held::held_in(core, connections, number) else {
            continue;
        };
        let connection = held.lease.connection_mut();
        let server = snapshot.server(connection.server);
        let mut position = Position {
            group,
            server: server.map_or_else(String::new, |it| format!("{}:{}", it.host, it.port)),
            gtid: executed,
            file: None,
            offset: None,
        };
        if connection.engine() == Engine::MariaDb
            && !is_branch
            && let Ok(kept) = connection.ask(KEPT).await
        {
            let mut kept = kept
                .into_iter()
                .map(|value| String::from_utf8_lossy(&value).into_owned())
                .map(|value| Some(value).filter(|value| !value.is_empty()));
            let mut next = || kept.next().flatten();
            (position.gtid, position.file, position.offset) = (next(), next(), next());
        }
        all.push(position);
    }
    all
}

/// Before the views are opened: what MySQL servers have executed, which no view can be without.
pub(super) async fn note_what_ran(
    core: &Core,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
) {
    let parts = transaction.dist_txn.iter().flat_map(|dist_txn| &dist_txn.parts);
    let groups: Vec<u32> = parts.map(|part| part.group).collect();
    for group in groups {
        let Some(held) = held::held_in(core, connections, group) else {
            continue;
        };
        let connection = held.lease.connection_mut();
        if connection.engine() != Engine::MySql {
            continue;
        }
        let said = connection.ask(b"SELECT @@global.gtid_executed").await;
        let Some(gtid) = said.ok().and_then(|values| values.into_iter().next()) else {
            continue;
        };
        let gtid = String::from_utf8_lossy(&gtid).replace('\n', "");
        if let Some(dist_txn) = &mut transaction.dist_txn {
            dist_txn.executed.push((group, gtid));
        }
    }
}

/// The positions of all groups as one. `None` where two groups write in the same domain: one of them
/// would be taken for the other.
fn joined(all: &[&str]) -> Option<String> {
    let mut domains: BTreeMap<u32, &str> = BTreeMap::new();
    for gtid in all.iter().flat_map(|gtids| gtids.split(',')) {
        let gtid = gtid.trim();
        if gtid.is_empty() {
            continue;
        }
        let domain = gtid.split('-').next()?.parse().ok()?;
        if domains.insert(domain, gtid).is_some_and(|other| other != gtid) {
            return None;
        }
    }
    let all: Vec<&str> = domains.into_values().collect();
    Some(all.join(","))
}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn positions_of_different_domains_are_one() {
        assert_eq!(joined(&["2-5-9", "1-4-7"]).as_deref(), Some("1-4-7,2-5-9"));
        assert_eq!(joined(&["1-4-7", "1-4-7,3-1-1"]).as_deref(), Some("1-4-7,3-1-1"));
        assert_eq!(joined(&["0-5-9", "0-4-7"]), None);
        assert_eq!(joined(&["what"]), None);
    }
}
