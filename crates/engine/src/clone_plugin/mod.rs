//! Filling a MySQL server with another one's files, by the servers' own clone plugin.
//!
//! Order: both servers get the plugin; the donor gets an account for this one clone; the recipient is
//! emptied and told `CLONE INSTANCE`; it ends, somebody starts it again, and then it holds the donor's
//! data, accounts and GTIDs. The caller waits with [`look_again`] and ends with [`settle`].
//!
//! Invariants: nothing here gets into a binary log. The recipient never sees a password that is worth
//! anything later: the account may do nothing but be cloned from, has a password of its own, and is
//! dropped on both servers. A recipient that was emptied and not filled holds no data and no GTIDs.
//!
//! Must not know: jobs, groups, who starts the server again.

mod fitness;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use enginesql::quoted;
use farm::{Engine, Position};
use mysql_async::prelude::Queryable;

pub use fitness::{Side, look, objection};

use crate::copy::{Progress, prepare_to_fill};
use crate::error::Error;
use crate::link::{Link, LinkTls, Login, text_at};
use crate::replication::detach;

/// How the names of the accounts begin that exist for one clone each.
pub const ACCOUNT_PREFIX: &str = "heddle_clone_";

/// Pause between two looks at how far a clone is.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// ER_RESTART_SERVER_FAILED: nobody starts the server again by itself.
const NO_SUPERVISOR: u16 = 3707;

/// ER_UNKNOWN_SYSTEM_VARIABLE: releases differ in the plugin's variables.
const NO_SUCH_VARIABLE: u16 = 1193;

/// One clone to be made.
#[derive(Clone, Debug)]
pub struct Order {
    pub donor: Login,
    pub recipient: Login,
    /// The account that the recipient uses at the donor, for this clone only.
    pub account: String,
    pub password: String,
    /// 0 for no limit.
    pub mib_per_s_max: u64,
}

/// How the statement ended; whether the data are there is seen after the restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server starts again by itself, or it died.
    Restarts,
    /// It has ended and waits for somebody to start it.
    MustBeStarted,
}

/// What a look at the recipient shows after the statement has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It has the donor's data.
    Filled,
    /// The process that ran the statement still answers.
    NotYet,
    /// It was started anew without the donor's data.
    Empty,
}

/// Makes the plugin active. An error says why it cannot be.
pub async fn install(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "load the clone plugin";
    let sql = "SELECT PLUGIN_STATUS FROM information_schema.PLUGINS WHERE PLUGIN_NAME='clone'";
    if link.cell(OPERATION, sql, timeout_ms).await?.as_deref() == Some("ACTIVE") {
        return Ok(());
    }
    let sql = "INSTALL PLUGIN clone SONAME 'mysql_clone.so'";
    unlocked(link, OPERATION, sql, timeout_ms).await
}

/// Runs a statement that `super_read_only` forbids; the server stays closed for clients.
async fn unlocked(
    link: &mut Link,
    operation: &'static str,
    sql: &str,
    timeout_ms: u64,
) -> Result<(), Error> {
    let state = "SELECT @@global.super_read_only";
    let closed = link.cell(operation, state, timeout_ms).await?.as_deref() == Some("1");
    if closed {
        let open = "SET GLOBAL super_read_only=0";
        link.run(operation, open, timeout_ms).await?;
    }
    let sql = format!("SET SESSION sql_log_bin=0; {sql}");
    let done = link.run(operation, &sql, timeout_ms).await;
    let back = if closed {
        "SET GLOBAL super_read_only=1; SET SESSION sql_log_bin=1"
    } else {
        "SET SESSION sql_log_bin=1"
    };
    link.run(operation, back, timeout_ms).await?;
    done
}

/// Empties the recipient and has it clone the donor. Progress is written while it runs; `thread` of it
/// is the connection that [`give_up`] ends.
///
/// # Errors
/// Whatever a server refuses. The recipient is empty then.
pub async fn run(order: &Order, progress: &Progress, timeout_ms: u64) -> Result<Ended, Error> {
    let mut donor = Link::open(&order.donor, timeout_ms).await?;
    let total = look(&mut donor, timeout_ms).await?.bytes;
    let (account, password) = (quoted(&order.account), quoted(&order.password));
    // An account that outlives its clone, because the router died, is of no use after a day.
    let sql = format!(
        "CREATE USER {account} IDENTIFIED BY {password} PASSWORD EXPIRE INTERVAL 1 DAY; \
         GRANT BACKUP_ADMIN ON *.* TO {account}"
    );
    unlocked(&mut donor, "make an account for a clone", &sql, timeout_ms).await?;
    drop(donor);
    progress.enter("empties the destination");
    let mut link = Link::open(&order.recipient, timeout_ms).await?;
    prepare_to_fill(&mut link, timeout_ms).await?;
    settings(&mut link, order, timeout_ms).await?;
    let login = &order.donor;
    let tls = match login.tls {
        LinkTls::Off | LinkTls::Preferred => "",
        LinkTls::Required | LinkTls::VerifyCa(_) | LinkTls::VerifyIdentity(_) => " REQUIRE SSL",
    };
    let sql = format!(
        "CLONE INSTANCE FROM {account}@{}:{} IDENTIFIED BY {password}{tls}",
        quoted(&login.host),
        login.port
    );
    progress.enter("clones the files");
    progress.begin_bytes(total);
    progress.thread.store(link.id(), Relaxed);
    let address = link.address().to_owned();
    let outcome = tokio::select! {
        outcome = link.conn().query_drop(sql) => outcome,
        never = follow(&order.recipient, progress, timeout_ms) => match never {},
    };
    progress.thread.store(0, Relaxed);
    let thread = link.id();
    match outcome.map_err(|error| Error::from_driver("clone its donor", &address, &error)) {
        Ok(()) => Ok(Ended::Restarts),
        Err(error) if error.number() == Some(NO_SUPERVISOR) => Ok(Ended::MustBeStarted),
        // The server goes away, or only the connection did: then its clone would go on unseen.
        Err(error @ Error::Lost { .. }) => {
            match give_up(&order.recipient, thread, timeout_ms).await {
                Ok(true) => Err(error),
                Ok(false) | Err(_) => Ok(Ended::Restarts),
            }
        }
        Err(error) => Err(error),
    }
}

/// Tells the recipient from whom it may clone and how fast. The donor stands twice in the list: nobody
/// else writes it so, and by that the process is known again.
async fn settings(link: &mut Link, order: &Order, timeout_ms: u64) -> Result<(), Error> {
    const OPERATION: &str = "be told whom to clone";
    let rate = order.mib_per_s_max;
    let sql = format!(
        "SET GLOBAL clone_valid_donor_list={}; SET GLOBAL clone_max_data_bandwidth={rate}; \
         SET GLOBAL clone_max_network_bandwidth={rate}",
        quoted(&donors(&order.donor))
    );
    link.run(OPERATION, &sql, timeout_ms).await?;
    // In minutes: a donor that is gone for longer does not go on where it was.
    let sql = "SET GLOBAL clone_donor_timeout_after_network_failure=1";
    match link.run(OPERATION, sql, timeout_ms).await {
        Err(error) if error.number() == Some(NO_SUCH_VARIABLE) => Ok(()),
        other => other,
    }
}

fn donors(donor: &Login) -> String {
    let Login { host, port, .. } = donor;
    format!("{host}:{port},{host}:{port}")
}

/// Writes down how far the clone is, for ever.
async fn follow(
    recipient: &Login,
    progress: &Progress,
    timeout_ms: u64,
) -> std::convert::Infallible {
    let mut link = None;
    let mut before = None;
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let mut now = match link.take() {
            Some(link) => link,
            // The server may be about to end: the statement tells.
            None => match Link::open(recipient, timeout_ms).await {
                Ok(link) => link,
                Err(_) => continue,
            },
        };
        if let Ok((bytes, total)) = how_far(&mut now, &mut before, timeout_ms).await {
            progress.bytes.store(bytes, Relaxed);
            if total > 0 {
                progress.bytes_total.store(total, Relaxed);
            }
            link = Some(now);
        }
    }
}

/// Bytes that were cloned, and all of them. A server without its performance schema knows only what
/// it received; nobody else talks to it.
async fn how_far(
    link: &mut Link,
    before: &mut Option<u64>,
    timeout_ms: u64,
) -> Result<(u64, u64), Error> {
    const OPERATION: &str = "say how far its clone is";
    let sql = "SELECT SUM(DATA), SUM(ESTIMATE) FROM performance_schema.clone_progress; \
               SHOW GLOBAL STATUS LIKE 'Bytes_received'";
    let sets = link.sets(OPERATION, sql, timeout_ms).await?;
    let number = |set: usize, index| {
        let row = sets.get(set).and_then(|rows| rows.first());
        let cell = row.and_then(|row| text_at(row, index));
        cell.and_then(|cell| cell.parse::<u64>().ok()).unwrap_or(0)
    };
    let (done, estimate, received) = (number(0, 0), number(0, 1), number(1, 1));
    if estimate > 0 {
        return Ok((done, estimate));
    }
    let before = *before.get_or_insert(received);
    Ok((received.saturating_sub(before), 0))
}

/// Looks what has become of the recipient.
///
/// # Errors
/// It does not answer, which is what a server does that restarts.
pub async fn look_again(order: &Order, timeout_ms: u64) -> Result<Look, Error> {
    const OPERATION: &str = "say what it holds";
    let mut link = Link::open(&order.recipient, timeout_ms).await?;
    let sql = format!(
        "SELECT COUNT(*) FROM mysql.user WHERE User={}",
        quoted(&order.account)
    );
    if link.cell(OPERATION, &sql, timeout_ms).await?.as_deref() != Some("0") {
        return Ok(Look::Filled);
    }
    let sql = "SHOW GLOBAL VARIABLES LIKE 'clone_valid_donor_list'";
    let rows = link.rows(OPERATION, sql, timeout_ms).await?;
    let list = rows.first().and_then(|row| text_at(row, 1));
    let same = list.is_some_and(|list| list == donors(&order.donor));
    Ok(if same { Look::NotYet } else { Look::Empty })
}

/// Ends the clone on a recipient that was filled: it follows nobody, whatever the donor followed, and
/// has no account of the clone any more. Gives its position.
pub async fn settle(order: &Order, timeout_ms: u64) -> Result<Position, Error> {
    const OPERATION: &str = "say its position";
    let mut link = Link::open(&order.recipient, timeout_ms).await?;
    detach(&mut link, timeout_ms).await?;
    drop_account(&mut link, &order.account, timeout_ms).await?;
    let sql = "SELECT @@global.gtid_executed";
    let gtids = link.cell(OPERATION, sql, timeout_ms).await?;
    let gtids = gtids.unwrap_or_default();
    Position::parse(Engine::MySql, &gtids).ok_or_else(|| Error::Reply {
        operation: OPERATION,
        server: link.address().to_owned(),
        what: format!("gtid_executed is {gtids:?}"),
    })
}

/// Takes the clone's account from the donor, where it still is.
pub async fn release_donor(donor: &Login, account: &str, timeout_ms: u64) -> Result<(), Error> {
    let mut link = Link::open(donor, timeout_ms).await?;
    drop_account(&mut link, account, timeout_ms).await
}

async fn drop_account(link: &mut Link, account: &str, timeout_ms: u64) -> Result<(), Error> {
    let sql = format!("DROP USER IF EXISTS {}", quoted(account));
    unlocked(link, "drop the account of a clone", &sql, timeout_ms).await
}

/// Ends a clone that nobody waits for any more; returns when the server has let go of it.
/// False when there was none.
pub async fn give_up(recipient: &Login, thread: u64, timeout_ms: u64) -> Result<bool, Error> {
    const OPERATION: &str = "end its clone";
    // ER_NO_SUCH_THREAD.
    const GONE: u16 = 1094;
    let mut link = Link::open(recipient, timeout_ms).await?;
    let sql = format!("KILL {thread}");
    let mut was_there = false;
    loop {
        match link.run(OPERATION, &sql, timeout_ms).await {
            Err(error) if error.number() == Some(GONE) => return Ok(was_there),
            other => other?,
        }
        was_there = true;
        tokio::time::sleep(LOOK_EVERY / 10).await;
    }
}
