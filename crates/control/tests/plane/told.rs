//! What a test that failed says of its farm: where tests run unattended, nobody can look any more.
//!
//! Invariant: nothing here panics, since a second panic would take the first one's message away.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

use farm::{Server, Snapshot};
use testkit::Client;
use testkit::client::{Login, Reply, Rows};

use super::Plane;

/// A server that does not answer by then is said to be silent: the test has failed already.
const PATIENCE: Duration = Duration::from_secs(3);

/// What each server is asked, as both engines understand it.
const QUESTIONS: [&str; 4] = [
    "SHOW SLAVE STATUS",
    "SHOW GLOBAL STATUS WHERE Variable_name LIKE 'Rpl_semi_sync%' OR Variable_name = 'Uptime'",
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'super_read_only', 'gtid_executed', \
     'gtid_purged', 'gtid_binlog_state', 'gtid_slave_pos') OR Variable_name LIKE 'rpl_semi_sync%'",
    "SHOW FULL PROCESSLIST",
];

/// Of SHOW SLAVE STATUS; the other columns say nothing about whether a server follows.
const OF_REPLICAS: [&str; 14] = [
    "Slave_IO_State",
    "Master_Port",
    "Slave_IO_Running",
    "Slave_SQL_Running",
    "Last_IO_Errno",
    "Last_IO_Error",
    "Last_SQL_Errno",
    "Last_SQL_Error",
    "Slave_SQL_Running_State",
    "Retrieved_Gtid_Set",
    "Executed_Gtid_Set",
    "Gtid_IO_Pos",
    "Gtid_Slave_Pos",
    "Seconds_Behind_Master",
];

/// What the plane has published, what the servers themselves say, the jobs, and all events.
pub fn of(plane: &Plane) -> String {
    let mut told = String::new();
    let snapshot = plane.published.load();
    of_groups(&mut told, &snapshot);
    let _ = match plane.answer(&["job", "list"], PATIENCE) {
        Some(Ok(jobs)) => writeln!(told, "jobs: {jobs}"),
        Some(Err(error)) => writeln!(told, "jobs: {error}"),
        None => writeln!(told, "the control plane answers no command"),
    };
    for event in plane.control.events() {
        let (when, kind) = (event.when(), event.kind);
        let (address, detail) = (&event.address, &event.detail);
        let _ = writeln!(told, "{when} {kind} {address} {detail}");
    }
    told
}

fn of_groups(told: &mut String, snapshot: &Snapshot) {
    for group in &snapshot.groups {
        let (name, acks) = (&group.name, &group.acks);
        let (active, paused) = (group.active, group.paused);
        let _ = writeln!(
            told,
            "group {name}: active {active}, paused {paused}, {acks:?}"
        );
        for server in &group.servers {
            let (address, status) = (server.address(), server.status);
            let (mode, term, health) = (server.mode, server.term, &server.health);
            let _ = writeln!(
                told,
                "  {address} {status:?} {mode:?} term {term} {health:?}"
            );
            of_server(told, server);
        }
    }
}

fn of_server(told: &mut String, server: &Server) {
    let login = Login {
        patience: PATIENCE,
        ..Login::default()
    };
    let address: Result<SocketAddr, _> = server.address().parse();
    let Ok(address) = address else { return };
    let mut client = match Client::login(address, &login) {
        Ok(client) => client,
        Err(failure) => {
            let _ = writeln!(told, "    lets nobody in: {failure}");
            return;
        }
    };
    for question in QUESTIONS {
        match client.query(question) {
            Ok(replies) => replies.iter().for_each(|reply| of_reply(told, reply)),
            Err(failure) => {
                let _ = writeln!(told, "    {question}: {failure}");
            }
        }
    }
}

fn of_reply(told: &mut String, reply: &Reply) {
    let Reply::Rows(table) = reply else { return };
    for row in table.text() {
        let _ = writeln!(told, "    {}", line(table, &row));
    }
}

/// One row; of a replica's status what matters, with its names.
fn line(table: &Rows, row: &[Option<String>]) -> String {
    let of_replica = table.columns.iter().any(|it| it.name == OF_REPLICAS[0]);
    let cells = table.columns.iter().zip(row);
    let cells = cells.filter(|(column, _)| !of_replica || OF_REPLICAS.contains(&&*column.name));
    let cells = cells.map(|(column, value)| {
        let value = value.as_deref().unwrap_or("NULL").replace('\n', "");
        match of_replica {
            true => format!("{}={value}", column.name),
            false => value,
        }
    });
    cells.collect::<Vec<String>>().join(" ")
}
