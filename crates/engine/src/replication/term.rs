//! The term register: what keeps a router that was replaced as the leader from opening a server.
//!
//! A router that is paused between its last look at the state store and its next statement would
//! still send it. So each server keeps, in memory, the greatest number of a leadership that it was
//! told: a comment at the end of `init_slave`, a text that the server runs when its applier starts.
//! What stood there stays; `DO 0` goes before the comment where nothing did. The number is only ever
//! raised, and a server takes writes for the leadership whose number is there and for no other.
//!
//! Reading and setting a variable are two steps for a server. A user lock makes them one; it is taken
//! and let go in the same packet, so no router that stops in the middle keeps it. Any account may take a
//! lock of this name: the connection of another account than the routers' that keeps it is ended.
//!
//! A server that is restarted has forgotten the number, and then opens for nobody until it is raised
//! again: restarted servers are read-only.

use std::time::Duration;

use enginesql::Version;
use enginesql::position::TAKES_WRITES;
use enginesql::words::INIT_APPLIER;

use crate::binlog;
use crate::error::Error;
use crate::link::{Guard, Link, text_at};

/// Before the number. `*/` ends it.
const MARK: &str = "/*heddle:";

/// Serialises all who read or raise the number of one server.
const LOCK: &str = "heddle.term";

/// The server's clock in seconds.
const CLOCK: &str = "UNIX_TIMESTAMP(NOW(6))";

/// How long one waits for the lock, in seconds: whoever has it holds it for microseconds.
const LOCK_S: u32 = 2;

/// Tells a server that this leadership acts now.
///
/// # Errors
/// [`Error::Deposed`] when it was told a greater number: another router leads.
pub async fn raise(link: &mut Link, number: u64, timeout_ms: u64) -> Result<(), Error> {
    let (name, now) = (INIT_APPLIER.of(link.version()), number_sql(link.version()));
    let stays = format!("SUBSTRING_INDEX(@@global.{name}, '{MARK}', 1)");
    let set = format!(
        "SET GLOBAL {name} = IF({MINE} AND {now} < {number}, \
         CONCAT(IF({stays} = '', 'DO 0 ', {stays}), '{MARK}{number}*/'), @@global.{name})"
    );
    let told = locked(link, "be told who leads", &set, &now, timeout_ms).await?;
    expect(link, number, told)
}

/// Tells a server that this leadership acts now, and lets the server check that before each statement
/// that the link sends from now on: none of them is run once it was told of a greater number. Ends
/// with [`Link::act_for_all`].
///
/// # Errors
/// [`Error::Deposed`], as every statement afterwards, when another router leads.
pub async fn act(link: &mut Link, number: u64, timeout_ms: u64) -> Result<(), Error> {
    link.act_for_all();
    raise(link, number, timeout_ms).await?;
    let now = number_sql(link.version());
    // The exponential of a great number is an error, everywhere and in every mode.
    let sql = format!("SELECT EXP(IF({now} = {number}, 0, 10000))");
    link.set_guard(Some(Guard { number, sql }));
    Ok(())
}

/// Lets clients write, if this leadership is the last one that the server was told of, and only while
/// it `remains`; otherwise nothing is changed. A server that the next leader cannot reach was told of
/// no other leadership: there the end of this one, by the server's own clock, keeps a router that was
/// paused just before the statement from opening it.
///
/// # Errors
/// [`Error::Deposed`] when it is not, or not any more.
pub async fn open(
    link: &mut Link,
    number: u64,
    remains: impl Fn() -> Duration,
    timeout_ms: u64,
) -> Result<(), Error> {
    let operation = "take writes";
    let sql = format!("SELECT {CLOCK}");
    let clock = link.cell(operation, &sql, timeout_ms).await?;
    let clock_s: f64 = clock.and_then(|cell| cell.parse().ok()).unwrap_or(0.0);
    // Asked after the server's clock was read, so that it ends there no later than here.
    let ends_s = clock_s + remains().as_secs_f64();
    let now = number_sql(link.version());
    // `super_read_only` is cleared with it.
    let set = format!(
        "SET GLOBAL read_only = \
         IF({MINE} AND {now} = {number} AND {CLOCK} < {ends_s:.6} OR {TAKES_WRITES}, 0, 1)"
    );
    let opened = format!("IF({TAKES_WRITES}, {now}, 0)");
    let told = locked(link, operation, &set, &opened, timeout_ms).await?;
    expect(link, number, told)
}

/// The number that a server was told last; 0 when none.
pub async fn told(link: &mut Link, timeout_ms: u64) -> Result<u64, Error> {
    let sql = format!("SELECT {}", number_sql(link.version()));
    let cell = link.cell("say who leads", &sql, timeout_ms).await?;
    Ok(cell.and_then(|cell| cell.parse().ok()).unwrap_or(0))
}

/// This connection has the lock.
const MINE: &str = "IS_USED_LOCK('heddle.term') = CONNECTION_ID()";

/// Runs one statement under the lock; gives the number that the server holds then.
async fn locked(
    link: &mut Link,
    operation: &'static str,
    sql: &str,
    now: &str,
    timeout_ms: u64,
) -> Result<u64, Error> {
    let mut told = try_locked(link, operation, sql, now, timeout_ms).await?;
    if told.is_none() && dismiss_holder(link, operation, timeout_ms).await? {
        told = try_locked(link, operation, sql, now, timeout_ms).await?;
    }
    told.ok_or_else(|| Error::Reply {
        operation,
        server: link.address().to_owned(),
        what: format!("another router held the lock {LOCK} for {LOCK_S} s"),
    })
}

/// The same; `None` when somebody else kept the lock.
async fn try_locked(
    link: &mut Link,
    operation: &'static str,
    sql: &str,
    now: &str,
    timeout_ms: u64,
) -> Result<Option<u64>, Error> {
    let release = format!("DO RELEASE_LOCK('{LOCK}')");
    let whole = format!("DO GET_LOCK('{LOCK}', {LOCK_S}); {sql}; SELECT {now}, {MINE}; {release}");
    let sets = match link.sets(operation, &whole, timeout_ms).await {
        Err(error @ Error::Refused { .. }) => {
            // The rest of the packet was not run. Should this fail, the lock goes with the link.
            let _ = link.run(operation, &release, timeout_ms).await;
            return Err(error);
        }
        other => other?,
    };
    let row = sets.iter().find_map(|rows| rows.first());
    let cell = |at| row.and_then(|row| text_at(row, at));
    let number = cell(0).and_then(|cell| cell.parse().ok()).unwrap_or(0);
    Ok((cell(1).as_deref() == Some("1")).then_some(number))
}

/// Ends the connection that keeps the lock, if no router has it. True when it did.
async fn dismiss_holder(
    link: &mut Link,
    operation: &'static str,
    timeout_ms: u64,
) -> Result<bool, Error> {
    let sql = format!("SELECT IS_USED_LOCK('{LOCK}')");
    let holder = link.cell(operation, &sql, timeout_ms).await?;
    match holder.and_then(|id| id.parse().ok()) {
        Some(id) => binlog::dismiss(link, id, timeout_ms).await,
        // It was let go meanwhile.
        None => Ok(true),
    }
}

fn expect(link: &Link, number: u64, told: u64) -> Result<(), Error> {
    if told == number {
        return Ok(());
    }
    Err(Error::Deposed {
        server: link.address().to_owned(),
        number,
    })
}

/// The number that stands there, as an expression.
fn number_sql(version: &Version) -> String {
    let text = format!("@@global.{}", INIT_APPLIER.of(version));
    format!(
        "IF(LOCATE('{MARK}', {text}) = 0, 0, CAST(SUBSTRING_INDEX(SUBSTRING_INDEX({text}, \
         '{MARK}', -1), '*/', 1) AS UNSIGNED))"
    )
}
