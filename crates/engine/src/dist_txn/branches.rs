//! Prepared XA branches: those that a server lists, how one is ended by somebody else than its owner,
//! and those that a crash took from a server although its binary log has them.
//!
//! A branch has ended when its server does not list it any more. Where commits wait for replicas, so
//! do XA PREPARE, XA COMMIT and XA ROLLBACK; MariaDB lists a branch from the end of the first wait to
//! the end of the second, and refuses it meanwhile to everybody but its owner (1397).
//!
//! MariaDB logs an XA PREPARE before its engine prepares the branch, and waits for a replica between
//! the two. A crash there leaves the event without the branch, and the cut of the log at the next
//! start (`init_rpl_role`) spares such events. GTIDs cannot tell: the position is that of the others,
//! until the branch's XA COMMIT comes and finds nothing (1397).

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use farm::dist_txn::{Branch, Verdict};
use farm::{Engine, Xid};
use mysql_async::Row;

use crate::binlog;
use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};
use crate::replication::heartbeat::position;
use crate::replication::writes::{expect_writes, of_no_writes};

/// XAER_NOTA: there is no such branch, or somebody else is at it.
pub(crate) const NOT_THERE: u16 = 1397;

/// XA_RBROLLBACK: MariaDB's answer for a branch that changed nothing. It is gone then.
const ROLLED_BACK: u16 = 1402;

/// Pause between two looks at a position.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The same at statements that run.
const XA_LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Whether a replica lacks a branch that its primary keeps prepared. Asked of a replica that runs; one
/// that does not reach the primary's position in time is not found out here.
pub async fn lost_branches(
    replica: &mut Link,
    primary: &mut Link,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let before = branches(primary, timeout_ms).await?;
    if before.is_empty() {
        return Ok(false);
    }
    let goal = position(primary, timeout_ms).await?;
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    while !position(replica, timeout_ms).await?.covers(&goal) {
        if Instant::now() > deadline {
            return Ok(false);
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    let there = branches(replica, timeout_ms).await?;
    // Those that were finished meanwhile do not count.
    let after = branches(primary, timeout_ms).await?;
    Ok(before.intersection(&after).any(|it| !there.contains(it)))
}

/// What a server lists as prepared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// The branches of this farm.
    pub ours: Vec<Branch>,
    /// Applications' own.
    pub own: Vec<Xid>,
    /// How many others there are: another farm's branches.
    pub others: usize,
}

/// What the server lists as prepared, sorted into this farm's and others'.
pub async fn prepared(link: &mut Link, farm: u64, timeout_ms: u64) -> Result<Prepared, Error> {
    let mut prepared = Prepared::default();
    for row in listed(link, timeout_ms).await? {
        match branch(&row).filter(|branch| branch.id.farm == farm) {
            Some(branch) => prepared.ours.push(branch),
            None => match xid(&row).filter(|xid| !xid.is_reserved()) {
                Some(xid) => prepared.own.push(xid),
                None => prepared.others += 1,
            },
        }
    }
    Ok(prepared)
}

/// The names of all branches that the server lists as prepared, whoever's they are, as its binlog has them.
///
/// # Errors
/// The statements that prepare or end branches right now do not end in time: MariaDB has logged some of them already,
/// and lists the branch otherwise. It can be asked again.
pub async fn prepared_names(link: &mut Link, timeout_ms: u64) -> Result<Vec<changes::Xid>, Error> {
    let name = |row: &Row| {
        let format: u32 = text_at(row, 0)?.parse().ok()?;
        let data = bytes_at(row, 3)?;
        let (transaction, branch) = data.split_at_checked(text_at(row, 1)?.parse().ok()?)?;
        Some(changes::Xid {
            format: format as i32,
            transaction: transaction.to_vec(),
            branch: branch.to_vec(),
        })
    };
    let_xa_end(link, timeout_ms).await?;
    let rows = listed(link, timeout_ms).await?;
    // A branch that was not listed because it was being committed: that stands in the log now.
    let_xa_end(link, timeout_ms).await?;
    Ok(rows.iter().filter_map(name).collect())
}

/// Waits until the XA statements have ended that MariaDB runs now.
async fn let_xa_end(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "wait for XA statements that run";
    const RUNNING: &str = "SELECT id, query_id FROM information_schema.processlist \
                           WHERE id <> CONNECTION_ID() AND info REGEXP '(^|[ ;/])XA (PREPARE|COMMIT|ROLLBACK)'";
    if link.version().engine != Engine::MariaDb {
        return Ok(());
    }
    let deadline = Instant::now() + Duration::from_millis(timeout_ms);
    let mut of_now: Option<BTreeSet<(String, String)>> = None;
    loop {
        let rows = link.rows(OPERATION, RUNNING, timeout_ms).await?;
        let name = |row: &Row| Some((text_at(row, 0)?, text_at(row, 1)?));
        let mut running: BTreeSet<_> = rows.iter().filter_map(name).collect();
        if let Some(of_now) = &of_now {
            running.retain(|it| of_now.contains(it));
        }
        if running.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(Error::Timeout {
                operation: OPERATION,
                server: link.address().to_owned(),
                timeout_ms,
            });
        }
        of_now = Some(running);
        tokio::time::sleep(XA_LOOK_AGAIN).await;
    }
}

/// What a server said of a transaction that it was told to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    Ended,
    /// It had changed nothing, and is gone.
    RolledBack,
    /// There is none, or its owner's connection lives.
    NotThere,
}

/// Tells a primary how a prepared transaction ends, whoever began it. `name` is as XA statements have it. One that takes no
/// writes any more is left as it is: it gets the end from the next primary.
pub(crate) async fn end_transaction(
    link: &mut Link,
    name: &str,
    verdict: Verdict,
    timeout_ms: u64,
) -> Result<Told, Error> {
    let verb = match verdict {
        Verdict::Commit => "COMMIT",
        Verdict::Abort => "ROLLBACK",
    };
    const OPERATION: &str = "end a prepared transaction";
    let sql = format!("{}; XA {verb} {name}", expect_writes());
    match link.run(OPERATION, &sql, timeout_ms).await {
        Ok(()) => Ok(Told::Ended),
        Err(error) => match error.number() {
            Some(ROLLED_BACK) => Ok(Told::RolledBack),
            Some(NOT_THERE) => Ok(Told::NotThere),
            _ => Err(of_no_writes(error, OPERATION, link.address())),
        },
    }
}

/// Ends a prepared branch, whoever began it. True when the server says that it has now; false when it
/// has no such branch, or does not let us have it.
pub async fn end_branch(
    link: &mut Link,
    branch: &Branch,
    verdict: Verdict,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let told = end_transaction(link, &branch.to_string(), verdict, timeout_ms).await?;
    Ok(told == Told::Ended)
}

/// True while the connection is on this server that had this id there `age_s` seconds ago. After a
/// restart the id may be somebody else's.
pub async fn is_still_connected(
    link: &mut Link,
    connection: u64,
    age_s: u64,
    timeout_ms: u64,
) -> Result<bool, Error> {
    // Ids are longer on the wire than servers give them away.
    let Ok(thread_id) = u32::try_from(connection) else {
        return Ok(false);
    };
    if link.own_ids().contains(&connection) || binlog::uptime_s(link, timeout_ms).await? < age_s {
        return Ok(false);
    }
    binlog::is_connected(link, thread_id, timeout_ms).await
}

/// Ends the connection that owns a branch, if [`is_still_connected`], so that others can end the
/// branch. True when there was one.
pub async fn free_branch(
    link: &mut Link,
    branch: &Branch,
    age_s: u64,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let owner = branch.owner.connection;
    if !is_still_connected(link, owner, age_s, timeout_ms).await? {
        return Ok(false);
    }
    if let Ok(thread_id) = u32::try_from(owner) {
        binlog::kill(link, thread_id, timeout_ms).await?;
    }
    Ok(true)
}

fn branch(row: &Row) -> Option<Branch> {
    let number = |at| text_at(row, at)?.parse::<usize>().ok();
    let format = u64::try_from(number(0)?).ok()?;
    let data = bytes_at(row, 3)?;
    let (gtrid, bqual) = data.split_at_checked(number(1)?)?;
    Branch::read(format, gtrid, bqual)
}

fn xid(row: &Row) -> Option<Xid> {
    let format = text_at(row, 0)?.parse().ok()?;
    let data = bytes_at(row, 3)?;
    let (gtrid, bqual) = data.split_at_checked(text_at(row, 1)?.parse().ok()?)?;
    Xid::new(gtrid, bqual, Some(format))
}

async fn listed(link: &mut Link, timeout_ms: u64) -> Result<Vec<Row>, Error> {
    link.rows("list prepared transactions", "XA RECOVER", timeout_ms)
        .await
}

async fn branches(link: &mut Link, timeout_ms: u64) -> Result<BTreeSet<Vec<u8>>, Error> {
    let rows = listed(link, timeout_ms).await?;
    Ok(rows.iter().filter_map(|row| bytes_at(row, 3)).collect())
}
