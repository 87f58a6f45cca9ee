//! A consistent snapshot of a server, with its position and the definitions that belong to it.

use std::time::{Duration, Instant};

use farm::{Engine, Position};

use super::catalog::{self, Catalog};
use crate::accounts::needed::Feature;
use crate::accounts::own_privileges::demand;
use crate::error::Error;
use crate::exchange::{commits_in_order, commits_waiting};
use crate::link::{Link, Login, text_at};

/// Definitions are read twice; so often they may differ before the copy gives up.
const TRIES: u32 = 10;

/// How long the lock for the snapshot may wait for running statements: others wait behind it.
const LOCK_WAIT_S: u64 = 5;

/// The error of a lock that was waited for too long (ER_LOCK_WAIT_TIMEOUT).
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// Pause between two looks at prepared transactions.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// An open snapshot; it ends when this is dropped.
pub(super) struct Snapshot {
    /// The connection whose transaction is the snapshot.
    pub(super) data: Link,
    pub(super) lock: Lock,
    pub(super) catalog: Catalog,
    /// What the snapshot holds.
    pub(super) position: Position,
    /// MariaDB's memory of which server wrote what, up to the position.
    pub(super) binlog_state: String,
}

/// A connection that may hold a lock over the whole server. Nothing else runs on it: some versions
/// show no definitions to who holds the lock.
pub(super) struct Lock {
    link: Link,
    held: bool,
}

impl Lock {
    async fn take(&mut self, timeout_ms: u64) -> Result<(), Error> {
        let patience_ms = timeout_ms + LOCK_WAIT_S * 1000;
        let sql = "FLUSH TABLES WITH READ LOCK";
        self.link.run("lock its tables", sql, patience_ms).await?;
        self.held = true;
        Ok(())
    }

    /// Lets writes of tables without transactions go on. Idempotent.
    pub(super) async fn release(&mut self, timeout_ms: u64) -> Result<(), Error> {
        if self.held {
            self.link.run("unlock", "UNLOCK TABLES", timeout_ms).await?;
            self.held = false;
        }
        Ok(())
    }
}

pub(super) async fn open(source: &Login, timeout_ms: u64) -> Result<Snapshot, Error> {
    let mut data = Link::open_for_rows(source, timeout_ms).await?;
    let mut side = Link::open_for_rows(source, timeout_ms).await?;
    demand(&mut side, Feature::Clone, "be copied", timeout_ms).await?;
    let as_stored = "SET NAMES utf8mb4, SESSION time_zone='+00:00', character_set_results=NULL, \
                     SESSION net_write_timeout=3600";
    for link in [&mut data, &mut side] {
        link.run("set up the copy", as_stored, timeout_ms).await?;
    }
    let mut lock = Lock {
        link: Link::open(source, timeout_ms).await?,
        held: false,
    };
    let wait = format!("SET SESSION lock_wait_timeout={LOCK_WAIT_S}");
    lock.link.run("set up the copy", &wait, timeout_ms).await?;
    let mut before = catalog::read(&mut side, timeout_ms).await?;
    for _ in 0..TRIES {
        none_prepared(&mut side, timeout_ms).await?;
        let keep = before
            .tables_in_order()
            .iter()
            .any(|table| !table.transactional && table.has_rows);
        let (position, binlog_state) = take(&mut data, &mut lock, keep, timeout_ms).await?;
        let after = catalog::read(&mut side, timeout_ms).await?;
        if after.equals(&before) && prepared(&mut side, timeout_ms).await? == 0 {
            return Ok(Snapshot {
                data,
                lock,
                catalog: after,
                position,
                binlog_state,
            });
        }
        lock.release(timeout_ms).await?;
        before = after;
    }
    Err(Error::Refused {
        operation: "hold still for a snapshot",
        server: data.address().to_owned(),
        number: 1412,
        message: format!("tables or accounts changed during each of {TRIES} looks"),
        cure: "; clone it when no DDL runs".to_owned(),
    })
}

/// Opens the snapshot on `data`; gives what it holds. With `keep` the lock is held afterwards.
async fn take(
    data: &mut Link,
    lock: &mut Lock,
    keep: bool,
    timeout_ms: u64,
) -> Result<(Position, String), Error> {
    const OPERATION: &str = "open a snapshot";
    const OPEN: &str = "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; \
                        START TRANSACTION WITH CONSISTENT SNAPSHOT";
    data.run(OPERATION, "ROLLBACK", timeout_ms).await?;
    match data.version().engine {
        Engine::MariaDb => {
            if keep {
                lock.take(timeout_ms).await?;
            }
            data.run(OPERATION, OPEN, timeout_ms).await?;
            mariadb_position(data, timeout_ms).await
        }
        Engine::MySql => {
            // The server knows no position of a snapshot, so nothing may be committed beside it.
            match lock.take(timeout_ms).await {
                Ok(()) => {}
                Err(error) if lock_wait_ended(&error) && !keep => {
                    let position = between_commits(data, lock, OPEN, timeout_ms).await?;
                    return position.map(|it| (it, String::new())).ok_or(error);
                }
                Err(error) => return Err(error),
            }
            data.run(OPERATION, OPEN, timeout_ms).await?;
            let position = executed(data, timeout_ms).await?;
            if !keep {
                lock.release(timeout_ms).await?;
            }
            Ok((position, String::new()))
        }
    }
}

fn lock_wait_ended(error: &Error) -> bool {
    matches!(error, Error::Refused { number, .. } if *number == LOCK_WAIT_TIMEOUT)
}

/// Opens the snapshot on `data` while a commit waits for a replica, which no read lock outlasts: a primary
/// that has lost all of its replicas can be copied only so.
///
/// With `AFTER_SYNC` and `binlog_order_commits` the commit that waits holds the server's lock of commits, and
/// whatever became visible before it has its GTID in `gtid_executed`. The snapshot therefore holds exactly
/// that set when the set is the same before it and behind a look that finds such a commit. `None` when there
/// is none, or when something was committed meanwhile.
async fn between_commits(
    data: &mut Link,
    lock: &mut Lock,
    open: &str,
    timeout_ms: u64,
) -> Result<Option<Position>, Error> {
    let side = &mut lock.link;
    if !commits_in_order(side, timeout_ms).await? {
        return Ok(None);
    }
    let before = executed(side, timeout_ms).await?;
    data.run("open a snapshot", open, timeout_ms).await?;
    if commits_waiting(side, timeout_ms).await?.is_empty() {
        return Ok(None);
    }
    let after = executed(side, timeout_ms).await?;
    Ok((before == after).then_some(before))
}

async fn executed(link: &mut Link, timeout_ms: u64) -> Result<Position, Error> {
    let sql = "SELECT @@global.gtid_executed";
    let cell = link.cell("open a snapshot", sql, timeout_ms).await?;
    parse(link, &cell.unwrap_or_default().replace('\n', ""))
}

/// The snapshot knows its place in the binary log, and of what was replicated before that log began
/// the table of positions, which is read in the snapshot.
async fn mariadb_position(data: &mut Link, timeout_ms: u64) -> Result<(Position, String), Error> {
    const OPERATION: &str = "read the snapshot's position";
    let sql = "SELECT VARIABLE_VALUE FROM information_schema.SESSION_STATUS WHERE VARIABLE_NAME IN \
               ('BINLOG_SNAPSHOT_FILE','BINLOG_SNAPSHOT_POSITION') ORDER BY VARIABLE_NAME";
    let rows = data.rows(OPERATION, sql, timeout_ms).await?;
    let cell = |index: usize| rows.get(index).and_then(|row| text_at(row, 0));
    let (file, offset) = (cell(0).unwrap_or_default(), cell(1).unwrap_or_default());
    let sql = format!(
        "SELECT BINLOG_GTID_POS({}, {})",
        enginesql::quoted(&file),
        offset.parse::<u64>().unwrap_or(0)
    );
    let logged = data.cell(OPERATION, &sql, timeout_ms).await?;
    let Some(logged) = logged.filter(|_| !file.is_empty()) else {
        return Err(Error::Reply {
            operation: OPERATION,
            server: data.address().to_owned(),
            what: "it has no binary log".to_owned(),
        });
    };
    let sql = "SELECT CONCAT(p.domain_id, '-', p.server_id, '-', p.seq_no) FROM \
               mysql.gtid_slave_pos p JOIN (SELECT domain_id, MAX(sub_id) AS sub_id FROM \
               mysql.gtid_slave_pos GROUP BY domain_id) l USING (domain_id, sub_id)";
    let rows = data.rows(OPERATION, sql, timeout_ms).await?;
    let mut position = parse(data, &logged)?;
    for row in rows {
        position.join(&parse(data, &text_at(&row, 0).unwrap_or_default())?);
    }
    let state = data
        .cell(OPERATION, "SELECT @@global.gtid_binlog_state", timeout_ms)
        .await?;
    let state = state_until(&state.unwrap_or_default(), &position);
    Ok((position, state))
}

/// A binary log's state as it was at a position: per domain and server the last transaction, the
/// position's own last. What a server wrote both before and after it is left out.
fn state_until(state: &str, position: &Position) -> String {
    let Position::MariaDb(last) = position else {
        return String::new();
    };
    let mut kept: Vec<String> = Vec::new();
    for part in state.split(',').map(str::trim) {
        let numbers: Vec<u64> = part.split('-').filter_map(|n| n.parse().ok()).collect();
        let &[domain, server, sequence] = numbers.as_slice() else {
            continue;
        };
        let end = u32::try_from(domain)
            .ok()
            .and_then(|domain| last.get(domain));
        let before =
            end.is_some_and(|end| sequence < end.sequence && server != u64::from(end.server_id));
        if before {
            kept.push(part.to_owned());
        }
    }
    kept.extend(position.to_string().split(',').map(str::to_owned));
    kept.retain(|part| !part.is_empty());
    kept.join(",")
}

/// The rows of a prepared transaction are in no snapshot, though its preparation is in the position.
async fn none_prepared(side: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    loop {
        let count = prepared(side, timeout_ms).await?;
        if count == 0 {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Refused {
                operation: "give a snapshot",
                server: side.address().to_owned(),
                number: 1399,
                message: format!("it has {count} prepared XA transactions, which no copy can hold"),
                cure: "; see XA RECOVER there, and XA COMMIT or XA ROLLBACK them".to_owned(),
            });
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

async fn prepared(side: &mut Link, timeout_ms: u64) -> Result<usize, Error> {
    let rows = side.rows("list prepared transactions", "XA RECOVER", timeout_ms);
    Ok(rows.await?.len())
}

fn parse(link: &Link, text: &str) -> Result<Position, Error> {
    Position::parse(link.version().engine, text).ok_or_else(|| Error::Reply {
        operation: "read the snapshot's position",
        server: link.address().to_owned(),
        what: format!("{text:?} is no position"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_cut_at_the_position() {
        let cut = |state, position| {
            let position = Position::parse(Engine::MariaDb, position).expect("a position");
            state_until(state, &position)
        };
        assert_eq!(cut("0-1-98,0-2-105", "0-2-103"), "0-1-98,0-2-103");
        assert_eq!(cut("0-2-105,0-1-98", "0-1-98"), "0-1-98");
        assert_eq!(cut("0-1-98,1-7-3", "0-1-98,1-7-2"), "0-1-98,1-7-2");
        assert_eq!(cut("", "0-1-5"), "0-1-5");
        assert_eq!(cut("", ""), "");
    }
}
