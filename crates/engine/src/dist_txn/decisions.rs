//! The rows by which transactions over several groups are decided: `heddle.mark`, on each group.
//!
//! What the rows and routines are, and how a client's connection calls them, is in [`enginesql::decision`].
//! Here is what Heddle's account does with them: it makes them, reads rows, bars transactions, and removes
//! what nobody will ask for.
//!
//! A row has the time at which it was written by the server's clock, whatever its session's `timestamp`
//! says. Ages of rows are the server's word, too: no router's clock has a say in them.
//!
//! A client's own XA transaction over several groups writes its row by `heddle.hold`, before it is
//! prepared, and passes no commit barrier there: it may stay so for long ([`crate::dist_txn::held`]). Whoever commits it
//! holds the commit barrier meanwhile ([`crate::dist_txn::barriers::pass`]).
//!
//! A transaction that writes on one group only, and reads on others, has such a row there: without
//! branches, it says what became of a COMMIT whose answer was lost. `heddle.view`
//! opens the view of one that is to see a snapshot over all groups ([`crate::dist_txn::barriers`]).
//!
//! A row that says abort takes the place of one that says commit, by the primary key: [`bar`].

use enginesql::decision::{self, FARM_BYTES};
use enginesql::seal::Key;
use farm::dist_txn::{GlobalId, ID_BYTES, MAGIC, Verdict};
use mysql_async::Row;

use crate::error::Error;
use crate::link::{Link, bytes_at, text_at};
use crate::replication::writes::{expect_writes, of_no_writes};
use crate::requirements::binlog_filters;

/// ER_NO_SUCH_TABLE and ER_BAD_DB_ERROR.
const MISSING: [u16; 2] = [1146, 1049];
/// ER_DUP_ENTRY.
const TAKEN: u16 = 1062;
/// ER_LOCK_WAIT_TIMEOUT and ER_LOCK_DEADLOCK.
const LOCKED: [u16; 2] = [1205, 1213];
/// ER_SP_ALREADY_EXISTS: another router was faster.
const THERE: u16 = 1304;

/// A decision, or the row that stands where it would have to stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: GlobalId,
    pub verdict: Verdict,
    /// The numbers of the groups that have branches; none where it says abort.
    pub groups: Vec<u32>,
    /// Since it was written, by the server's clock; `None` where that is not the time at which it was.
    pub age_ms: Option<u64>,
}

/// What came of the attempt to write a row that says abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// It stands; the transaction can never be decided.
    Stands,
    /// Another row stands there: read it.
    Taken,
    /// The coordinator group's transaction is open, with its row in it: nobody knows yet.
    Open,
}

/// Makes what is missing of the tables and the routines, on a primary, for the farm of this number and
/// key. True when something was. A server whose binlog leaves these tables out cannot decide: a failover
/// would lose its decisions.
pub async fn make(link: &mut Link, farm: u64, key: &Key, timeout_ms: u64) -> Result<bool, Error> {
    const OPERATION: &str = "make the tables of transactions over groups";
    let [only, never] = binlog_filters(link, OPERATION, timeout_ms).await?;
    let is_heddle = |name: &String| name == "heddle";
    if never.iter().any(is_heddle) || !(only.is_empty() || only.iter().any(is_heddle)) {
        unless_missing(link.run(OPERATION, decision::DROP, timeout_ms).await)?;
        return Err(Error::Replication {
            server: link.address().to_owned(),
            reason: "its binlog leaves out the database heddle, where decisions are".to_owned(),
            cure: "take it out of binlog_ignore_db, or into binlog_do_db".to_owned(),
            error: None,
        });
    }
    let sql = "SELECT ROUTINE_COMMENT FROM information_schema.ROUTINES \
               WHERE ROUTINE_SCHEMA='heddle' AND ROUTINE_NAME='decide'";
    let form = link.cell(OPERATION, sql, timeout_ms).await?;
    if form.as_deref() == Some(decision::FORM) {
        return keep_key(link, farm, key, timeout_ms).await;
    }
    let tables = format!("{}; {}", expect_writes(), decision::tables());
    let made = link.run(OPERATION, &tables, timeout_ms).await;
    made.map_err(|error| of_no_writes(error, OPERATION, link.address()))?;
    keep_key(link, farm, key, timeout_ms).await?;
    for routine in decision::routines() {
        match link.run(OPERATION, &routine, timeout_ms).await {
            Err(error) if error.number() == Some(THERE) => {}
            other => other?,
        }
    }
    flush(link, timeout_ms).await?;
    Ok(true)
}

/// Sees to it that the server has this farm's key. True when it had not.
async fn keep_key(link: &mut Link, farm: u64, key: &Key, timeout_ms: u64) -> Result<bool, Error> {
    const OPERATION: &str = "keep the key of the farm's ids";
    let sql = decision::has_key(farm, key);
    let there = unless_missing(link.cell(OPERATION, &sql, timeout_ms).await)?.flatten();
    if there.as_deref() == Some("1") {
        return Ok(false);
    }
    let sql = decision::keep_key(farm, key);
    link.run(OPERATION, &sql, timeout_ms).await?;
    Ok(true)
}

/// Closes a window in which a crash would keep MariaDB from starting: with `init_rpl_role=SLAVE` it
/// cannot cut a change of a routine or of privileges out of its log, and gives up, if a commit before
/// it is not on its disk yet.
async fn flush(link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
    match link.version().engine {
        farm::Engine::MariaDb => {
            let sql = "FLUSH NO_WRITE_TO_BINLOG ENGINE LOGS";
            link.run("write commits to disk", sql, timeout_ms).await
        }
        farm::Engine::MySql => Ok(()),
    }
}

/// Lets an account decide, in transactions of its own. The account must be there.
pub async fn grant(link: &mut Link, user: &str, host: &str, timeout_ms: u64) -> Result<(), Error> {
    let sql = decision::grants(link.version().engine, user, host);
    link.run("let an account decide", &sql, timeout_ms).await?;
    flush(link, timeout_ms).await
}

/// What the row of a transaction says, on the coordinator group's primary.
pub async fn look(
    link: &mut Link,
    id: &GlobalId,
    timeout_ms: u64,
) -> Result<Option<Verdict>, Error> {
    const OPERATION: &str = "read a decision";
    let sql = format!("SELECT state FROM heddle.mark WHERE id = X'{id}'");
    let Some(state) = unless_missing(link.cell(OPERATION, &sql, timeout_ms).await)?.flatten()
    else {
        return Ok(None);
    };
    match Verdict::parse(&state) {
        Some(verdict) => Ok(Some(verdict)),
        None => Err(Error::Reply {
            operation: OPERATION,
            server: link.address().to_owned(),
            what: format!("the state is {state:?}"),
        }),
    }
}

/// Writes a row that says abort, on the coordinator group's primary. While the coordinator group's own transaction is open
/// with its row in it this waits, for a second.
///
/// A server that becomes read-only meanwhile gets no row: the next primary gets one of its own, and this server could not
/// follow it.
///
/// # Errors
/// The server fails, or takes no writes any more. A row that it has all the same is found by the next question.
pub async fn bar(link: &mut Link, id: &GlobalId, key: &Key, timeout_ms: u64) -> Result<Bar, Error> {
    const OPERATION: &str = "bar a transaction from being decided";
    let sql = format!(
        "SET SESSION innodb_lock_wait_timeout = 1; {}",
        at_a_primary(&format!(
            "INSERT INTO heddle.mark (id, state, branches) VALUES (X'{id}', 'abort', '')"
        ))
    );
    let mut answer = unless_missing(link.run(OPERATION, &sql, timeout_ms).await);
    if let Ok(None) = answer {
        make(link, id.farm, key, timeout_ms).await?;
        answer = link.run(OPERATION, &sql, timeout_ms).await.map(Some);
    }
    let Err(error) = answer else {
        return Ok(Bar::Stands);
    };
    let error = undo(link, OPERATION, error, timeout_ms).await?;
    match error.number() {
        Some(TAKEN) => Ok(Bar::Taken),
        Some(number) if LOCKED.contains(&number) => Ok(Bar::Open),
        _ => Err(error),
    }
}

/// Changes of rows in one transaction, which is committed where the server takes writes.
fn at_a_primary(changes: &str) -> String {
    let expected = expect_writes();
    format!("BEGIN; {changes}; {expected}; COMMIT; {expected}")
}

/// Ends the transaction in which a server refused a statement; gives the refusal.
async fn undo(
    link: &mut Link,
    operation: &'static str,
    error: Error,
    timeout_ms: u64,
) -> Result<Error, Error> {
    if error.number().is_some() {
        link.run(operation, "ROLLBACK", timeout_ms).await?;
    }
    Ok(of_no_writes(error, operation, link.address()))
}

/// Seconds since a row was written, as both engines write them to the row and read them.
const AGE_S: &str = "CAST(UNIX_TIMESTAMP() AS SIGNED) - CAST(FLOOR(UNIX_TIMESTAMP(at)) AS SIGNED)";

/// The rows of this farm's transactions behind an id (or from the beginning), the oldest first, at
/// most `limit`.
pub async fn decisions(
    link: &mut Link,
    farm: u64,
    behind: Option<&GlobalId>,
    limit: usize,
    timeout_ms: u64,
) -> Result<Vec<Decision>, Error> {
    // Ids begin with the farm, so that another farm's are not read.
    let first = [&MAGIC[..], &farm.to_be_bytes()].concat();
    let first = hex::encode(&first);
    let from = behind.map_or_else(|| format!("id >= X'{first}'"), |id| format!("id > X'{id}'"));
    let sql = format!(
        "SELECT id, state, branches, {AGE_S} FROM heddle.mark \
         WHERE {from} AND LEFT(id, 11) = X'{first}' ORDER BY id LIMIT {limit}"
    );
    let rows = link.rows("list decisions", &sql, timeout_ms).await;
    let rows = unless_missing(rows)?.unwrap_or_default();
    Ok(rows.iter().filter_map(decision).collect())
}

fn decision(row: &Row) -> Option<Decision> {
    let groups = text_at(row, 2)?;
    Some(Decision {
        id: GlobalId::decode(&bytes_at(row, 0)?)?,
        verdict: Verdict::parse(&text_at(row, 1)?)?,
        groups: groups.split(',').filter_map(|it| it.parse().ok()).collect(),
        age_ms: age_ms(text_at(row, 3)?.parse().ok()?),
    })
}

/// The age of a row in milliseconds. A server's clock may have been set back a little since it was written.
fn age_ms(age_s: i64) -> Option<u64> {
    const DAY_S: i64 = 24 * 3600;
    match u64::try_from(age_s) {
        Ok(age_s) => Some(age_s.saturating_mul(1000)),
        Err(_) => (age_s > -DAY_S).then_some(0),
    }
}

/// Removes rows that stand for so long under ids of nobody: of no form that this version knows, or of a farm
/// that has no key here. No transaction waits for them. At most `limit`; says how many there were.
pub async fn remove_foreign(
    link: &mut Link,
    farm: u64,
    kept_ms: u64,
    limit: usize,
    timeout_ms: u64,
) -> Result<u64, Error> {
    const OPERATION: &str = "remove decisions of nobody";
    let own = [&[0; 5][..], &MAGIC, &farm.to_be_bytes()].concat();
    let own = own.try_into().map_or(0, u128::from_be_bytes);
    // The first ids of this farm, and those behind its last: its own rows are not read.
    let (first, next, magic) = (own, own.saturating_add(1), hex::encode(MAGIC));
    let kept_s = kept_ms / 1000;
    let sql = format!(
        "SELECT id FROM heddle.mark m WHERE (id < X'{first:022x}' OR id >= X'{next:022x}') \
         AND id <> X'00' AND (LENGTH(id) <> {ID_BYTES} OR LEFT(id, 3) <> X'{magic}' OR NOT EXISTS \
         (SELECT 1 FROM heddle.secret s WHERE s.farm = SUBSTRING(m.id, 4, {FARM_BYTES}))) \
         AND {AGE_S} >= {kept_s} LIMIT {limit}"
    );
    let rows = link.rows(OPERATION, &sql, timeout_ms).await;
    let rows = unless_missing(rows)?.unwrap_or_default();
    let ids: Vec<String> = rows
        .iter()
        .filter_map(|row| bytes_at(row, 0))
        .map(|id| hex::encode(&id))
        .collect();
    delete(link, OPERATION, &ids, timeout_ms).await?;
    Ok(u64::try_from(ids.len()).unwrap_or(u64::MAX))
}

/// Removes rows that nobody will ask for any more.
pub async fn remove(link: &mut Link, ids: &[GlobalId], timeout_ms: u64) -> Result<(), Error> {
    let ids: Vec<String> = ids.iter().map(GlobalId::to_string).collect();
    delete(link, "remove decisions", &ids, timeout_ms).await
}

/// `ids` in hexadecimal.
async fn delete(
    link: &mut Link,
    operation: &'static str,
    ids: &[String],
    timeout_ms: u64,
) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = ids.iter().map(|id| format!("X'{id}'")).collect();
    let sql = at_a_primary(&format!(
        "DELETE FROM heddle.mark WHERE id IN ({ids}); DELETE FROM heddle.xid WHERE id IN ({ids})",
        ids = ids.join(",")
    ));
    match link.run(operation, &sql, timeout_ms).await {
        Ok(()) => Ok(()),
        Err(error) => Err(undo(link, operation, error, timeout_ms).await?),
    }
}

/// `None` where there is no such table yet.
pub(crate) fn unless_missing<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.number().is_some_and(|it| MISSING.contains(&it)) => Ok(None),
        Err(error) => Err(error),
    }
}
