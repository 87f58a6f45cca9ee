//! The steps of a change of primary on one server, each in as few trips as it can be done.
//!
//! Who gets which role, and in which order the steps are taken, is the callers' matter; the rules at
//! the top of [`crate::replication`] hold here, too. Every step may be repeated.

use std::time::{Duration, Instant};

use enginesql::position::{executed, wait_for};
use enginesql::quoted;
use enginesql::words;
use farm::Position;
use mysql_async::Row;

use crate::error::Error;
use crate::link::watch::WATCHES;
use crate::link::{Link, Login, text, text_at};
use crate::probe::{Replica, Thread, is_on, replica};
use crate::replication::{AcksSet, acks_sql, follows, semi_sync_side};

/// A wait for a position looks again so often whether the applier still runs.
const SLICE_MS: u64 = 200;

/// ER_BAD_SLAVE and its kin: the server follows nobody, so there is nothing to stop.
const FOLLOWS_NOBODY: [u16; 2] = [1200, 3074];

/// What a replica has, once it receives no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Halted {
    /// Everything that its relay log or its data hold.
    pub received: Position,
    /// What its data hold.
    pub executed: Position,
    pub read_only: bool,
    /// How long its process has been up, in whole seconds.
    pub up_s: Option<u64>,
    /// Its data cannot be changed at all (a read-only medium).
    pub frozen: bool,
    /// Its own word; `None` when it follows nobody.
    pub replica: Option<Replica>,
}

/// Stops receiving and tells what was received: from then on no commit of the primary is
/// acknowledged by this replica. The applier goes on.
pub async fn halt(link: &mut Link, timeout_ms: u64) -> Result<Halted, Error> {
    const OPERATION: &str = "stop receiving";
    let look = look_sql(link);
    let stop = format!("{}; {look}", words::STOP_RECEIVER.of(link.version()));
    let sets = match link.sets(OPERATION, &stop, timeout_ms).await {
        Err(error) if error.number().is_some_and(|n| FOLLOWS_NOBODY.contains(&n)) => {
            link.sets(OPERATION, &look, timeout_ms).await?
        }
        other => other?,
    };
    halted(link, OPERATION, &sets)
}

/// Tells what a server has, changing nothing.
pub async fn look(link: &mut Link, timeout_ms: u64) -> Result<Halted, Error> {
    const OPERATION: &str = "say what it has";
    let sets = link.sets(OPERATION, &look_sql(link), timeout_ms).await?;
    halted(link, OPERATION, &sets)
}

const UPTIME: &str = "SHOW GLOBAL STATUS LIKE 'Uptime'";

/// What the server has is read first: its applier goes on meanwhile, and nothing that it applies
/// between two looks was received after the second.
fn look_sql(link: &Link) -> String {
    let executed = executed(link.version().engine);
    let status = words::SHOW_STATUS.of(link.version());
    format!("SELECT {executed}, @@global.read_only, @@global.innodb_read_only; {UPTIME}; {status}")
}

fn halted(link: &Link, operation: &'static str, sets: &[Vec<Row>]) -> Result<Halted, Error> {
    // A statement without rows before them may or may not leave an empty set.
    let at = sets.iter().position(|rows| !rows.is_empty());
    let rows = at.and_then(|at| sets.get(at)?.first());
    let cell = |index| rows.and_then(|row| text_at(row, index));
    let is_on = |index| cell(index).is_some_and(|value| is_on(&value));
    let up = at.and_then(|at| text_at(sets.get(at + 1)?.first()?, 1));
    let replica = at.and_then(|at| sets.get(at + 2)?.first()).map(replica);
    let executed = read(link, operation, &cell(0).unwrap_or_default())?;
    let mut received = executed.clone();
    if let Some(replica) = &replica {
        received.join(&read(link, operation, &replica.received)?);
    }
    Ok(Halted {
        received,
        executed,
        read_only: is_on(1),
        up_s: up.and_then(|seconds| seconds.parse().ok()),
        frozen: is_on(2),
        replica,
    })
}

/// Waits until the server has applied all of `position`; an applier that stopped is told at once.
pub async fn apply(link: &mut Link, position: &Position, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "apply what it received";
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    let engine = link.version().engine;
    let look = words::SHOW_STATUS.of(link.version());
    let wait = wait_for(engine, &position.to_string(), SLICE_MS);
    // MariaDB's wait knows what the applier did, not what the server itself once wrote.
    let sql = format!("SELECT {}; SELECT {wait}; {look}", executed(engine));
    loop {
        let sets = link.sets(OPERATION, &sql, SLICE_MS + timeout_ms).await?;
        let first = |index: usize| sets.get(index).and_then(|rows: &Vec<_>| rows.first());
        let has = first(0).and_then(|row| text_at(row, 0)).unwrap_or_default();
        let waited = first(1).and_then(|row| text_at(row, 0));
        if waited.as_deref() == Some("0") || read(link, OPERATION, &has)?.covers(position) {
            return Ok(());
        }
        let applier = first(2).map(replica);
        if applier.as_ref().is_none_or(|it| it.sql == Thread::Stopped) {
            let error = applier.and_then(|it| it.sql_error);
            let said = error.as_ref().map_or("", |error| &error.text);
            return Err(Error::Replication {
                server: link.address().to_owned(),
                reason: format!("its SQL thread is stopped {said}"),
                cure: "mend what stopped it, then START SLAVE SQL_THREAD".to_owned(),
                error,
            });
        }
        if Instant::now() >= deadline {
            return Err(Error::Timeout {
                operation: OPERATION,
                server: link.address().to_owned(),
                timeout_ms,
            });
        }
    }
}

/// Lets a drained server follow nobody and wait for replicas as a primary does, still read-only.
/// `strict` makes each of its commits reach the disk. Gives what it has then, which is where its
/// timeline begins.
pub async fn prepare_primary(
    link: &mut Link,
    ack_wait_ms: Option<u64>,
    strict: bool,
    timeout_ms: u64,
) -> Result<(Position, AcksSet), Error> {
    const OPERATION: &str = "become the primary";
    let side = semi_sync_side(link, "master", "source", timeout_ms).await?;
    let (acks, set) = match side {
        None => (String::new(), AcksSet::Unavailable),
        Some(side) => {
            let (sql, set) = acks_sql(side, ack_wait_ms);
            (format!("{sql}; "), set)
        }
    };
    let disk = if strict {
        format!("{STRICT}; ")
    } else {
        String::new()
    };
    let executed = executed(link.version().engine);
    let rest = format!("{acks}{disk}SELECT {executed}");
    let (stop, reset) = (
        words::STOP.of(link.version()),
        words::RESET.of(link.version()),
    );
    let whole = format!("{stop}; {reset}; {rest}");
    let sets = match link.sets(OPERATION, &whole, timeout_ms).await {
        Err(error) if error.number().is_some_and(|n| FOLLOWS_NOBODY.contains(&n)) => {
            link.sets(OPERATION, &rest, timeout_ms).await?
        }
        other => other?,
    };
    let cell = sets.last().and_then(|rows| rows.first());
    let text = cell.and_then(|row| text_at(row, 0)).unwrap_or_default();
    Ok((read(link, OPERATION, &text)?, set))
}

/// Lets clients write.
pub async fn open(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    // `super_read_only` is cleared with it.
    link.run("take writes", "SET GLOBAL read_only=0", timeout_ms)
        .await
}

/// Lets a server follow another primary, without waiting until it does. What its relay log holds is
/// fetched again from the new primary, which must have it. `relaxed` lets it write to disk once in a
/// second instead of at each commit.
pub async fn repoint(
    link: &mut Link,
    primary: &Login,
    relaxed: bool,
    timeout_ms: u64,
) -> Result<(), Error> {
    let (point, start) = (
        point_sql(link, primary, relaxed),
        words::START.of(link.version()),
    );
    let sql = format!("{point}; {start}");
    link.run("follow another primary", &sql, timeout_ms).await
}

/// The same as far as it can be done before the new primary takes writes: [`start`] is left to do. A server
/// that follows nobody is left as it is, and so is one that was pointed there already: it may have been started
/// since, and this step comes late.
pub async fn point(
    link: &mut Link,
    primary: &Login,
    relaxed: bool,
    timeout_ms: u64,
) -> Result<(), Error> {
    match crate::replication::status(link, timeout_ms).await? {
        None => return Ok(()),
        Some(now) if follows(&now, primary) => return Ok(()),
        Some(_) => {}
    }
    let sql = point_sql(link, primary, relaxed);
    link.run("be pointed at another primary", &sql, timeout_ms)
        .await
}

fn point_sql(link: &Link, primary: &Login, relaxed: bool) -> String {
    let change = words::change_primary(link.version(), primary.as_source());
    let stop = words::STOP.of(link.version());
    match relaxed {
        true => format!("{RELAXED}; {stop}; {change}"),
        false => format!("{stop}; {change}"),
    }
}

/// Lets a replica go on where it was halted.
pub async fn start(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    let start = words::START.of(link.version());
    link.run("start replicating", start, timeout_ms).await
}

/// What a replica may do that its primary must not: a crash of the machine may lose its last second,
/// which it fetches again.
const RELAXED: &str = "SET GLOBAL sync_binlog=0; SET GLOBAL innodb_flush_log_at_trx_commit=2";

/// What makes each commit reach the disk before it is answered.
const STRICT: &str = "SET GLOBAL sync_binlog=1; SET GLOBAL innodb_flush_log_at_trx_commit=1";

/// Lets a replica write to disk once in a second instead of at each commit.
pub async fn relax(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    link.run("flush less often", RELAXED, timeout_ms).await
}

/// Makes each commit of a server reach the disk before it is answered.
pub async fn be_strict(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    link.run("flush at each commit", STRICT, timeout_ms).await
}

/// Makes a server refuse writes. It waits while statements that write run, which may wait for the row locks
/// of an idle transaction, and while commits wait for acknowledgements; on MariaDB accounts with READ ONLY
/// ADMIN write on. [`kill_clients`] helps with all of them.
pub async fn refuse_writes(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    let variable = words::READ_ONLY.of(link.version());
    // The wish keeps commits out while it waits. A server does not notice that the connection of a waiting
    // statement was closed, so the wait ends by itself when the caller has given up. It has two locks to
    // wait for.
    let wait_s = (timeout_ms / 2000).max(1);
    let sql = format!(
        "SET SESSION lock_wait_timeout={wait_s}; SET GLOBAL {variable}=1; \
         SET SESSION lock_wait_timeout=DEFAULT"
    );
    link.run("become read-only", &sql, timeout_ms).await
}

/// A client's connection, as the server lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    pub id: u64,
    pub user: String,
    /// `Sleep` between two statements.
    pub command: String,
    /// For how long it has been doing that, in seconds.
    pub time_s: u64,
}

impl Client {
    /// True while a statement runs.
    pub fn is_busy(&self) -> bool {
        self.command != "Sleep"
    }
}

/// The connections of clients: not those of replication, of the server itself, of this process, or
/// those on which another router waits for the server's end.
pub async fn clients(link: &mut Link, timeout_ms: u64) -> Result<Vec<Client>, Error> {
    let rows = link
        .rows("list its clients", "SHOW FULL PROCESSLIST", timeout_ms)
        .await?;
    let own = link.own_ids();
    let client = |row: &Row| {
        let client = Client {
            id: text(row, "Id")?.parse().ok()?,
            user: text(row, "User")?,
            command: text(row, "Command").unwrap_or_default(),
            time_s: text(row, "Time")
                .and_then(|time| time.parse().ok())
                .unwrap_or(0),
        };
        let inner = matches!(client.user.as_str(), "system user" | "event_scheduler")
            || client.command.starts_with("Binlog Dump")
            || client.command.starts_with("Slave_")
            || client.command == "Daemon"
            || client.command == "Killed"
            || text(row, "Info").is_some_and(|sql| sql.starts_with(WATCHES));
        (!inner && !own.contains(&client.id)).then_some(client)
    };
    Ok(rows.iter().filter_map(client).collect())
}

/// The clients that have a transaction open. The engine makes this list anew only when nobody asked
/// for it in the last 0.1 s.
pub async fn in_transactions(link: &mut Link, timeout_ms: u64) -> Result<Vec<u64>, Error> {
    let sql = "SELECT trx_mysql_thread_id FROM information_schema.INNODB_TRX \
               WHERE trx_mysql_thread_id > 0";
    let rows = link.rows("list transactions", sql, timeout_ms).await?;
    let id = |row: &Row| text_at(row, 0).and_then(|id| id.parse().ok());
    Ok(rows.iter().filter_map(id).collect())
}

/// Ends these connections, all in one packet; one that has ended by itself is as good. Gives how many there
/// were.
pub async fn kill(link: &mut Link, ids: &[u64], timeout_ms: u64) -> Result<u64, Error> {
    let mut killed = 0;
    let mut left = ids;
    // The first that is gone already ends the packet: the rest is sent again.
    while !left.is_empty() {
        let each: Vec<String> = left.iter().map(|id| format!("KILL {id}")).collect();
        let sql = each.join("; ");
        let there = match link.run("end connections", &sql, timeout_ms).await {
            Ok(()) => left.len(),
            Err(Error::Refused {
                number: NO_SUCH_THREAD,
                message,
                ..
            }) => place_in(left, &message),
            Err(error) => return Err(error),
        };
        killed += there as u64;
        left = left.get(there + 1..).unwrap_or_default();
    }
    Ok(killed)
}

/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;

/// The place of the connection that a refusal names; the first where it names none.
fn place_in(ids: &[u64], refusal: &str) -> usize {
    let mut numbers = refusal.split(|c: char| !c.is_ascii_digit());
    let named = numbers.find_map(|number| number.parse::<u64>().ok());
    ids.iter().position(|id| Some(*id) == named).unwrap_or(0)
}

async fn client_ids(link: &mut Link, timeout_ms: u64) -> Result<Vec<u64>, Error> {
    let clients = clients(link, timeout_ms).await?;
    Ok(clients.iter().map(|client| client.id).collect())
}

/// What this process's own links write with, a heartbeat for example.
const WRITES: [&str; 8] = [
    "INSERT", "REPLACE", "UPDATE", "DELETE", "XA", "CREATE", "DROP", "ALTER",
];

/// Ends the connections of all clients of a server that is read-only, and waits until they are gone: a
/// commit that has begun ends as a commit, killed or not. A write of this process's own that began while
/// the server was not read-only is waited for as well: on MariaDB it is committed behind the change. What
/// is there after `patience_ms` rolls back, which writes nothing, or has its place in the log already.
pub async fn end_clients(link: &mut Link, patience_ms: u64, timeout_ms: u64) -> Result<(), Error> {
    const PAUSE: Duration = Duration::from_millis(1);
    let ids = client_ids(link, timeout_ms).await?;
    kill(link, &ids, timeout_ms).await?;
    let deadline = Instant::now() + Duration::from_millis(patience_ms);
    loop {
        let rows = link
            .rows("list its threads", "SHOW PROCESSLIST", timeout_ms)
            .await?;
        let own = link.own_ids();
        let may_commit = |row: &Row| {
            let Some(id) = text(row, "Id").and_then(|id| id.parse().ok()) else {
                return false;
            };
            let sql = text(row, "Info").unwrap_or_default();
            let writes = || WRITES.iter().any(|word| sql.starts_with(word));
            ids.contains(&id) || own.contains(&id) && writes()
        };
        if !rows.iter().any(may_commit) || Instant::now() >= deadline {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Ends the connections of all clients. Gives how many there were.
pub async fn kill_clients(link: &mut Link, timeout_ms: u64) -> Result<u64, Error> {
    let ids = client_ids(link, timeout_ms).await?;
    kill(link, &ids, timeout_ms).await
}

/// Ends the clients whose commits wait for a replica's acknowledgement, and says how many there were.
/// One that is ended already is not counted: it waits on, but its client will hear of no success.
pub async fn kill_waiting(link: &mut Link, timeout_ms: u64) -> Result<u64, Error> {
    let waiting = commits_waiting(link, timeout_ms).await?;
    let alive = waiting.iter().filter(|it| !it.killed);
    let ids: Vec<u64> = alive.map(|it| it.id).collect();
    kill(link, &ids, timeout_ms).await
}

/// A connection whose commit waits for a replica's acknowledgement.
pub(crate) struct WaitingCommit {
    id: u64,
    killed: bool,
}

pub(crate) async fn commits_waiting(
    link: &mut Link,
    timeout_ms: u64,
) -> Result<Vec<WaitingCommit>, Error> {
    let rows = link
        .rows("list its threads", "SHOW FULL PROCESSLIST", timeout_ms)
        .await?;
    let waits = |row: &&Row| {
        let state = text(row, "State").unwrap_or_default().to_lowercase();
        state.contains("waiting for semi-sync ack")
    };
    let waiting = |row: &Row| {
        Some(WaitingCommit {
            id: text(row, "Id")?.parse().ok()?,
            killed: text(row, "Command").is_none_or(|it| it == "Killed"),
        })
    };
    Ok(rows.iter().filter(waits).filter_map(waiting).collect())
}

/// Whether a MySQL commits in the order of its binary log and lets nobody see a commit that still waits for
/// a replica: `binlog_order_commits`, and the wait point AFTER_SYNC.
pub(crate) async fn commits_in_order(link: &mut Link, timeout_ms: u64) -> Result<bool, Error> {
    const OPERATION: &str = "look how commits wait";
    let Some(side) = semi_sync_side(link, "master", "source", timeout_ms).await? else {
        return Ok(false);
    };
    let sql = format!(
        "SELECT @@global.binlog_order_commits=1 AND @@global.rpl_semi_sync_{side}_wait_point='AFTER_SYNC'"
    );
    let cell = link.cell(OPERATION, &sql, timeout_ms).await?;
    Ok(cell.as_deref() == Some("1"))
}

/// True when a write of this process waits for a replica's acknowledgement or for a lock, as the
/// server's list of processes says it; or when none of its writes is there any more.
pub async fn waits_for_others(link: &mut Link, timeout_ms: u64) -> Result<bool, Error> {
    let rows = link
        .rows("list its threads", "SHOW FULL PROCESSLIST", timeout_ms)
        .await?;
    let own = link.own_ids();
    let writes = rows.iter().filter(|row| {
        let ours = text(row, "Id").and_then(|id| id.parse().ok());
        let is_write = text(row, "Info").is_some_and(|sql| sql.starts_with("INSERT INTO heddle."));
        ours.is_some_and(|id| own.contains(&id)) && is_write
    });
    let mut states = writes.map(|row| text(row, "State").unwrap_or_default().to_lowercase());
    Ok(states.all(|state| state.contains("lock") || state.contains("ack")))
}

/// Reads a position; MySQL breaks long ones into lines.
fn read(link: &Link, operation: &'static str, text: &str) -> Result<Position, Error> {
    let text = text.replace('\n', "");
    Position::parse(link.version().engine, &text).ok_or_else(|| Error::Reply {
        operation,
        server: link.address().to_owned(),
        what: format!("the position is {}", quoted(&text)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_connection_that_was_gone() {
        assert_eq!(place_in(&[7, 17, 1], "Unknown thread id: 17"), 1);
        assert_eq!(place_in(&[7, 17, 1], "Unbekannte Thread-ID: 1"), 2);
        assert_eq!(place_in(&[7], "somebody has gone"), 0);
    }
}
