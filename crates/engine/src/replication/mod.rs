//! How a server becomes a primary, a replica, or neither. The callers choose who; this is the how.
//!
//! The order of steps is not free. What breaks otherwise, found by experiment on real servers:
//! - MariaDB throws an undrained relay log away at `STOP SLAVE; START SLAVE`. To keep what a replica
//!   received, [`drain`] it while its SQL thread runs, and only then stop it.
//! - Waiting for acknowledgements must not be switched on before a candidate is drained: its own
//!   appliers would wait for a replica that it does not have.
//! - A replica may be pointed at a new primary only when that one has drained, or it stops with 1236.
//! - Switching the wait for acknowledgements off answers all waiting commits with success. That is
//!   only done where no client's commit can wait ([`make_replica`] of a server that restarted) or
//!   where the operator asked for a group that does not wait.

use std::time::{Duration, Instant};

use enginesql::words;
use farm::Engine;

use crate::error::Error;
use crate::link::{Link, Login, text_at};
use crate::probe::{Replica, Thread, replica};

pub mod clock;
pub(crate) mod divergence;
pub mod errant;
pub mod exchange;
pub mod heartbeat;
pub mod log_end;
pub(crate) mod retirement;
pub mod term;
pub mod topology;
pub(crate) mod writes;

/// «As long as it takes»: 49 days, the most that the servers' 32 bits of milliseconds hold.
pub const ACK_WAIT_FOREVER_MS: u64 = u32::MAX as u64;

/// Pause between two looks at a state that a server reaches by itself.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What became of the wish that commits wait for a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcksSet {
    On,
    Off,
    /// The server has no semi-sync (MySQL without its plugin): commits do not wait.
    Unavailable,
}

/// Makes a server take writes. With `ack_wait_ms` its commits wait so long for a replica's
/// acknowledgement (AFTER_SYNC); `None` lets them not wait. A server that followed another one must
/// be drained before. Idempotent.
pub async fn make_primary(
    link: &mut Link,
    ack_wait_ms: Option<u64>,
    timeout_ms: u64,
) -> Result<AcksSet, Error> {
    detach(link, timeout_ms).await?;
    let acks = set_acks(link, ack_wait_ms, timeout_ms).await?;
    // Last: from here on clients write. `super_read_only` is cleared with it.
    link.run("take writes", "SET GLOBAL read_only=0", timeout_ms)
        .await?;
    Ok(acks)
}

/// Has the statements of changed rows logged, by connections and appliers that begin from now on: a
/// write whose answer was lost is found by its statement's comment. Changes nothing where they are
/// logged.
pub async fn keep_statements(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "log statements";
    let variable = words::KEEP_STATEMENTS.of(link.version());
    let sql = format!("SELECT @@global.{variable}");
    if link.cell(OPERATION, &sql, timeout_ms).await?.as_deref() == Some("1") {
        return Ok(());
    }
    let sql = format!("SET GLOBAL {variable}=1");
    link.run(OPERATION, &sql, timeout_ms).await
}

/// Has the names, keys and character sets of columns logged with rows, from the next statement on: without
/// them a reader of the binlog knows columns by their places only. Changes nothing where they are logged.
pub async fn keep_columns(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "log what columns are called (binlog_row_metadata)";
    let sql = "SELECT @@global.binlog_row_metadata";
    let said = link.cell(OPERATION, sql, timeout_ms).await?;
    if said.is_some_and(|value| value.eq_ignore_ascii_case("FULL")) {
        return Ok(());
    }
    let sql = "SET GLOBAL binlog_row_metadata='FULL'";
    link.run(OPERATION, sql, timeout_ms).await
}

/// Makes commits of a primary wait for a replica for `ack_wait_ms`, or not wait. Idempotent.
pub async fn set_acks(
    link: &mut Link,
    ack_wait_ms: Option<u64>,
    timeout_ms: u64,
) -> Result<AcksSet, Error> {
    const OPERATION: &str = "set semi-sync";
    let Some(side) = semi_sync_side(link, "master", "source", timeout_ms).await? else {
        return Ok(AcksSet::Unavailable);
    };
    let (sql, set) = acks_sql(side, ack_wait_ms);
    link.run(OPERATION, &sql, timeout_ms).await?;
    Ok(set)
}

/// How a primary whose semi-sync variables have this name is told to wait, or not to.
pub(crate) fn acks_sql(side: &str, ack_wait_ms: Option<u64>) -> (String, AcksSet) {
    let prefix = format!("SET GLOBAL rpl_semi_sync_{side}");
    let Some(wait_ms) = ack_wait_ms else {
        return (format!("{prefix}_enabled=0"), AcksSet::Off);
    };
    let wait_ms = wait_ms.clamp(1, ACK_WAIT_FOREVER_MS);
    let sql =
        format!("{prefix}_wait_point='AFTER_SYNC'; {prefix}_timeout={wait_ms}; {prefix}_enabled=1");
    (sql, AcksSet::On)
}

/// Makes a server follow `primary` (whose user and password are those of the replication account)
/// by GTID, read-only and acknowledging, and waits until it replicates. A server that already does
/// is left alone. The server must hold nothing that the primary lacks; the caller checks.
pub async fn make_replica(link: &mut Link, primary: &Login, timeout_ms: u64) -> Result<(), Error> {
    let before = status(link, timeout_ms).await?;
    prepare_replica(link, timeout_ms).await?;
    if let Some(now) = &before
        && follows(now, primary)
        && (now.io, now.sql) == (Thread::Running, Thread::Running)
    {
        return acknowledge_now(link, timeout_ms).await;
    }
    let mut sql = Vec::new();
    if before.is_some() {
        // What the relay log still holds is fetched again from the primary, which is alive.
        sql.push(words::STOP.of(link.version()).to_owned());
    } else if link.version().engine == Engine::MariaDb {
        // A former primary starts after its own last commit, not after what it once received.
        let own = link
            .cell("read its position", "SELECT @@gtid_binlog_pos", timeout_ms)
            .await?;
        if own.is_some_and(|position| !position.is_empty()) {
            let position = "SET GLOBAL gtid_slave_pos=@@gtid_binlog_pos";
            sql.push(position.to_owned());
        }
    }
    sql.push(words::change_primary(link.version(), primary.as_source()));
    sql.push(words::START.of(link.version()).to_owned());
    // In one packet: what a router leaves stopped that dies in between would pass for what an operator stopped.
    let sql = sql.join("; ");
    link.run("follow a primary", &sql, timeout_ms).await?;
    wait_replicating(link, timeout_ms).await
}

/// Has a receiver that began before semi-sync was switched on begin anew: until then it acknowledges nothing,
/// and a primary that waits for it waits for ever. The applier runs on, so no relay log is lost.
async fn acknowledge_now(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    if topology::acknowledges(link, timeout_ms).await? != Some(false) {
        return Ok(());
    }
    let (stop, start) = (
        words::STOP_RECEIVER.of(link.version()),
        words::START.of(link.version()),
    );
    let sql = format!("{stop}; {start}");
    link.run("acknowledge what it receives", &sql, timeout_ms)
        .await?;
    wait_replicating(link, timeout_ms).await
}

/// Lets a server follow nobody. What it received but did not apply is lost: [`drain`] it first where
/// that matters. Idempotent.
pub async fn detach(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    if status(link, timeout_ms).await?.is_none() {
        return Ok(());
    }
    let (stop, reset) = (
        words::STOP.of(link.version()),
        words::RESET.of(link.version()),
    );
    let sql = format!("{stop}; {reset}");
    link.run("stop replicating", &sql, timeout_ms).await
}

/// Stops receiving and waits until all that was received is applied. A server that follows nobody
/// has nothing to wait for.
pub async fn drain(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    if status(link, timeout_ms).await?.is_none() {
        return Ok(());
    }
    let halted = exchange::halt(link, timeout_ms).await?;
    exchange::apply(link, &halted.received, timeout_ms).await
}

/// Tables outside the system schemas: what a server would bring along or lose by joining a group.
pub async fn user_tables(link: &mut Link, timeout_ms: u64) -> Result<u64, Error> {
    let sql = "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN \
               ('mysql','information_schema','performance_schema','sys','heddle')";
    let count = link.cell("count its tables", sql, timeout_ms).await?;
    Ok(count.and_then(|count| count.parse().ok()).unwrap_or(0))
}

/// What a server says of its own replication; `None` when it follows nobody.
pub async fn status(link: &mut Link, timeout_ms: u64) -> Result<Option<Replica>, Error> {
    let sql = words::SHOW_STATUS.of(link.version());
    let rows = link.rows("show its replication", sql, timeout_ms).await?;
    Ok(rows.first().map(replica))
}

/// What every replica needs, whomever it follows.
async fn prepare_replica(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    exchange::refuse_writes(link, timeout_ms).await?;
    keep_statements(link, timeout_ms).await?;
    set_acks(link, None, timeout_ms).await?;
    if let Some(side) = semi_sync_side(link, "slave", "replica", timeout_ms).await? {
        let sql = format!("SET GLOBAL rpl_semi_sync_{side}_enabled=1");
        link.run("acknowledge commits", &sql, timeout_ms).await?;
    }
    if link.version().engine == Engine::MariaDb {
        let on = link
            .cell("read its settings", "SELECT @@gtid_strict_mode", timeout_ms)
            .await?;
        if on.as_deref() != Some("1") {
            link.run(
                "be strict about GTIDs",
                "SET GLOBAL gtid_strict_mode=1",
                timeout_ms,
            )
            .await?;
        }
    }
    Ok(())
}

/// Which of the two names the server's semi-sync variables have; `None` when it has neither.
pub(crate) async fn semi_sync_side(
    link: &mut Link,
    old: &'static str,
    new: &'static str,
    timeout_ms: u64,
) -> Result<Option<&'static str>, Error> {
    // Every MariaDB that Heddle takes has it built in.
    if link.version().engine == Engine::MariaDb {
        return Ok(Some(old));
    }
    let sql = words::semi_sync_variables(old, new);
    let rows = link.rows("look for semi-sync", &sql, timeout_ms).await?;
    let name = rows
        .first()
        .and_then(|row| text_at(row, 0))
        .map(|name| name.to_ascii_lowercase());
    Ok(name.map(|name| if name.contains(new) { new } else { old }))
}

/// True when a server was pointed at this primary by GTID already, whether its threads run or not.
pub fn follows(now: &Replica, primary: &Login) -> bool {
    now.by_gtid && now.primary_host == primary.host && now.primary_port == primary.port
}

/// Waits until both threads run, or says why they do not.
async fn wait_replicating(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    let mut last = None;
    while Instant::now() < deadline {
        let Some(now) = status(link, timeout_ms).await? else {
            break;
        };
        if (now.io, now.sql) == (Thread::Running, Thread::Running) {
            return Ok(());
        }
        let stopped = now.io == Thread::Stopped || now.sql == Thread::Stopped;
        let error = now.io_error.or(now.sql_error);
        // A thread that stopped with an error does not start again by itself; one without may just
        // be starting.
        let failed = stopped && error.is_some();
        last = error.or(last);
        if failed {
            break;
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let reason = last
        .as_ref()
        .map_or("its threads do not start", |error| &error.text);
    Err(Error::Replication {
        server: link.address().to_owned(),
        reason: reason.to_owned(),
        cure: "check the replication account on the primary and that this server reaches it"
            .to_owned(),
        error: last,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primary(password: &str) -> Login {
        Login {
            host: "10.0.0.1".to_owned(),
            port: 3306,
            user: "repl".to_owned(),
            password: password.to_owned(),
            tls: crate::LinkTls::Off,
            known: crate::Known::Nothing,
            engine: None,
        }
    }

    #[test]
    fn a_replica_of_the_same_primary_is_recognised() {
        let now = Replica {
            primary_host: "10.0.0.1".to_owned(),
            primary_port: 3306,
            by_gtid: true,
            io: Thread::Running,
            sql: Thread::Running,
            io_error: None,
            sql_error: None,
            received: String::new(),
        };
        assert!(follows(&now, &primary("x")));
        assert!(!follows(
            &Replica {
                by_gtid: false,
                ..now.clone()
            },
            &primary("x")
        ));
        assert!(!follows(
            &Replica {
                primary_port: 3307,
                ..now
            },
            &primary("x")
        ));
    }
}
