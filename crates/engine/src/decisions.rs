//! The rows by which transactions over several groups are decided: `heddle.mark`, on each group.
//!
//! A transaction's row is written by its decider's connection, within its own transaction, just before
//! the COMMIT: `CALL heddle.decide(id, groups); COMMIT`. The routine runs with the rights of Heddle's
//! account, so a client's account needs nothing but EXECUTE on it ([`grant`]). It writes no other row
//! than one that says commit, and none on a server that is read-only. The id must have the seal that a
//! router of the farm gave it ([`crate::seal`]), and must name the connection that calls: nobody decides
//! another's transaction, or takes the place of one to come. Before these are proved nothing is locked
//! but the farm's row of `heddle.secret`.
//! Before it writes it share-locks the row of `heddle.gate`: who holds that row exclusively holds up
//! the transactions that this group decides, and no others.
//!
//! A row has the time at which it was written by the server's clock, whatever its session's `timestamp`
//! says. Ages of rows are the server's word, too: no router's clock has a say in them.
//!
//! A client's own XA transaction over several groups writes its row by `heddle.hold`, before it is
//! prepared, and passes no gate there: it may stay so for long ([`crate::held`]). Whoever commits it
//! holds the gate meanwhile ([`crate::gates::pass`]).
//!
//! A transaction that writes on one group only, and reads on others, has such a row there: without
//! branches, it says what became of a COMMIT whose answer was lost. `heddle.view`
//! opens the view of one that is to see a snapshot over all groups ([`crate::gates`]).
//!
//! A row that says abort takes the place of one that says commit, by the primary key: [`bar`].
//!
//! The table is never empty: MariaDB may load rows into an empty one in a way that looks for
//! duplicates late.

use farm::Xid;
use farm::crossing::{GlobalId, ID_BYTES, MAGIC, Verdict};
use mysql_async::Row;

use crate::error::Error;
use crate::link::{Link, bytes_at, quoted, text_at};
use crate::probe::TAKES_WRITES;
use crate::requirements::binlog_filters;
use crate::seal::{Key, SEAL_BYTES, Sealed};

/// ER_NO_SUCH_TABLE and ER_BAD_DB_ERROR.
const MISSING: [u16; 2] = [1146, 1049];
/// ER_DUP_ENTRY.
const TAKEN: u16 = 1062;
/// ER_LOCK_WAIT_TIMEOUT and ER_LOCK_DEADLOCK.
const LOCKED: [u16; 2] = [1205, 1213];
/// ER_SP_ALREADY_EXISTS: another router was faster.
const THERE: u16 = 1304;

/// The comment of the routines. Those of another form are made anew.
///
/// Routers whose form is an older one give ids without a seal. They are refused with the number of a
/// missing right, so that such a router makes its own form again, and so does this one: while a farm
/// is upgraded, all of its routers can decide.
const FORM: &str = "Heddle: form 4";

/// Comma-separated group numbers; a transaction over hundreds of groups fits.
const GROUPS_BYTES_MAX: usize = 4096;

/// The number of a farm stands behind [`MAGIC`] in its ids.
const FARM_BYTES: usize = 8;

/// An id and its seal.
const SEALED_BYTES: usize = ID_BYTES + SEAL_BYTES;

/// ER_PROCACCESS_DENIED_ERROR, for an id that is not proved; see [`FORM`].
const UNPROVED: u16 = 1370;

/// ER_SIGNAL_EXCEPTION: what a routine of another form says to an id that has a seal, and each of a server
/// that is read-only.
pub const SIGNALLED: u16 = 1644;

/// Room for every [`Xid::key`].
const XID_BYTES_MAX: usize = 140;

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
    /// The decider's transaction is open, with its row in it: nobody knows yet.
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
        let sql = "DROP PROCEDURE IF EXISTS heddle.hold; DROP PROCEDURE IF EXISTS heddle.decide";
        unless_missing(link.run(OPERATION, sql, timeout_ms).await)?;
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
    if form.as_deref() == Some(FORM) {
        return keep_key(link, farm, key, timeout_ms).await;
    }
    let tables = format!(
        "CREATE DATABASE IF NOT EXISTS heddle; \
         CREATE TABLE IF NOT EXISTS heddle.mark (\
         id VARBINARY({ID_BYTES}) NOT NULL PRIMARY KEY, \
         state ENUM('commit','abort') CHARACTER SET ascii NOT NULL, \
         branches VARCHAR({GROUPS_BYTES_MAX}) CHARACTER SET ascii NOT NULL, \
         at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)\
         ) ENGINE=InnoDB COMMENT='Decisions of transactions over several groups; never delete from it'; \
         CREATE TABLE IF NOT EXISTS heddle.xid (\
         id VARBINARY({ID_BYTES}) NOT NULL PRIMARY KEY, xid VARBINARY({XID_BYTES_MAX}) NOT NULL, KEY (xid)\
         ) ENGINE=InnoDB COMMENT='Clients'' names of XA transactions over several groups'; \
         CREATE TABLE IF NOT EXISTS heddle.secret (\
         farm BINARY({FARM_BYTES}) NOT NULL PRIMARY KEY, \
         inner_pad BINARY(64) NOT NULL, outer_pad BINARY(64) NOT NULL\
         ) ENGINE=InnoDB COMMENT='What ids of transactions over several groups are sealed with'; \
         CREATE TABLE IF NOT EXISTS heddle.gate (id INT NOT NULL PRIMARY KEY) \
         ENGINE=InnoDB COMMENT='Locked by transactions over several groups'; \
         INSERT IGNORE INTO heddle.gate (id) VALUES (1); \
         INSERT IGNORE INTO heddle.mark (id, state, branches) VALUES (X'00', 'commit', ''); \
         COMMIT; DROP PROCEDURE IF EXISTS heddle.pass; DROP PROCEDURE IF EXISTS heddle.view; \
         DROP PROCEDURE IF EXISTS heddle.hold; \
         DROP PROCEDURE IF EXISTS heddle.decide"
    );
    link.run(OPERATION, &tables, timeout_ms).await?;
    keep_key(link, farm, key, timeout_ms).await?;
    for routine in [view(), holding(), routine()] {
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
    let farm = hex::encode(farm.to_be_bytes());
    let [inner, outer] = key.pads();
    let sql = format!(
        "SELECT COUNT(*) FROM heddle.secret \
         WHERE farm = X'{farm}' AND inner_pad = X'{inner}' AND outer_pad = X'{outer}'"
    );
    let there = unless_missing(link.cell(OPERATION, &sql, timeout_ms).await)?.flatten();
    if there.as_deref() == Some("1") {
        return Ok(false);
    }
    let sql = format!(
        "SET SESSION innodb_lock_wait_timeout = 1; \
         REPLACE INTO heddle.secret (farm, inner_pad, outer_pad) \
         VALUES (X'{farm}', X'{inner}', X'{outer}'); COMMIT"
    );
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

/// What both routines begin with: the caller's transaction has this id, and a router of the farm gave it.
/// `bare` is the id without its seal then.
fn proof() -> String {
    let magic = hex::encode(MAGIC);
    format!(
        "DECLARE proved INT; \
         DECLARE bare VARBINARY(64) DEFAULT LEFT(of_id, {ID_BYTES}); \
         DECLARE written TIMESTAMP(3) DEFAULT SYSDATE(3); \
         IF NOT {TAKES_WRITES} THEN \
           SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'Heddle: nothing can be decided here'; \
         END IF; \
         IF LENGTH(of_id) <> {SEALED_BYTES} OR LEFT(of_id, 3) <> X'{magic}' \
           OR CAST(CONV(HEX(RIGHT(bare, 4)), 16, 10) AS UNSIGNED) <> CONNECTION_ID() % 4294967296 THEN \
           SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = {UNPROVED}, \
             MESSAGE_TEXT = 'Heddle: no transaction of this connection has this id'; \
         END IF; \
         SELECT COUNT(*) INTO proved FROM heddle.secret \
           WHERE farm = SUBSTRING(of_id, 4, {FARM_BYTES}) AND RIGHT(of_id, {SEAL_BYTES}) = LEFT(UNHEX(\
             SHA2(CONCAT(outer_pad, UNHEX(SHA2(CONCAT(inner_pad, bare), 256))), 256)), {SEAL_BYTES}) \
           LOCK IN SHARE MODE; \
         IF proved <> 1 THEN \
           SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = {UNPROVED}, \
             MESSAGE_TEXT = 'Heddle: no router of this farm gave this id'; \
         END IF;"
    )
}

fn routine() -> String {
    let proof = proof();
    format!(
        "CREATE PROCEDURE heddle.decide(IN of_id VARBINARY(64), \
         IN of_groups VARCHAR({GROUPS_BYTES_MAX}) CHARACTER SET ascii) \
         COMMENT '{FORM}' MODIFIES SQL DATA SQL SECURITY DEFINER \
         BEGIN \
           DECLARE held INT; \
           {proof} \
           SELECT id INTO held FROM heddle.gate WHERE id = 1 LOCK IN SHARE MODE; \
           INSERT INTO heddle.mark (id, state, branches, at) \
             VALUES (bare, 'commit', of_groups, written); \
         END"
    )
}

fn holding() -> String {
    let proof = proof();
    format!(
        "CREATE PROCEDURE heddle.hold(IN of_id VARBINARY(64), \
         IN of_groups VARCHAR({GROUPS_BYTES_MAX}) CHARACTER SET ascii, \
         IN of_xid VARBINARY({XID_BYTES_MAX})) \
         COMMENT '{FORM}' MODIFIES SQL DATA SQL SECURITY DEFINER \
         BEGIN \
           {proof} \
           INSERT INTO heddle.mark (id, state, branches, at) \
             VALUES (bare, 'commit', of_groups, written); \
           INSERT INTO heddle.xid (id, xid) VALUES (bare, of_xid); \
         END"
    )
}

fn view() -> String {
    format!(
        "CREATE PROCEDURE heddle.view() COMMENT '{FORM}' READS SQL DATA SQL SECURITY DEFINER \
         BEGIN \
           DECLARE seen INT; \
           SELECT COUNT(*) INTO seen FROM heddle.mark WHERE id = X'00'; \
         END"
    )
}

/// The statement by which a decider's connection writes its row; COMMIT follows it in one packet. It
/// refuses with 1370 while the account has not been given the right ([`grant`]), or the server does not
/// have the farm's key, with 1062 when the transaction was barred, and leaves the transaction open then.
pub fn decide(id: &Sealed, groups: impl IntoIterator<Item = u32>) -> String {
    let groups: Vec<String> = groups.into_iter().map(|group| group.to_string()).collect();
    format!("CALL heddle.decide(X'{id}','{}')", groups.join(","))
}

/// The same for a client's own XA transaction of this name, before its XA END.
pub fn hold(id: &Sealed, groups: impl IntoIterator<Item = u32>, xid: &Xid) -> String {
    let groups: Vec<String> = groups.into_iter().map(|group| group.to_string()).collect();
    let (groups, xid) = (groups.join(","), hex::encode(xid.key()));
    format!("CALL heddle.hold(X'{id}','{groups}',X'{xid}')")
}

/// Lets an account decide, in transactions of its own. The account must be there.
pub async fn grant(link: &mut Link, user: &str, host: &str, timeout_ms: u64) -> Result<(), Error> {
    // Without the mode MariaDB makes an account that is missing.
    let careful = match link.version().engine {
        farm::Engine::MariaDb => "SET STATEMENT sql_mode='NO_AUTO_CREATE_USER' FOR ",
        farm::Engine::MySql => "",
    };
    let (user, host) = (quoted(user), quoted(host));
    let grants = ["view", "hold", "decide"].map(|routine| {
        format!("{careful}GRANT EXECUTE ON PROCEDURE heddle.{routine} TO {user}@{host}")
    });
    link.run("let an account decide", &grants.join(";"), timeout_ms)
        .await?;
    flush(link, timeout_ms).await
}

/// What the row of a transaction says, on the decider's primary.
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

/// Writes a row that says abort, on the decider's primary. While the decider's own transaction is open
/// with its row in it this waits, for a second.
pub async fn bar(link: &mut Link, id: &GlobalId, key: &Key, timeout_ms: u64) -> Result<Bar, Error> {
    const OPERATION: &str = "bar a transaction from being decided";
    let sql = format!(
        "SET SESSION innodb_lock_wait_timeout = 1; \
         INSERT INTO heddle.mark (id, state, branches) VALUES (X'{id}', 'abort', ''); COMMIT"
    );
    let mut answer = unless_missing(link.run(OPERATION, &sql, timeout_ms).await);
    if let Ok(None) = answer {
        make(link, id.farm, key, timeout_ms).await?;
        answer = link.run(OPERATION, &sql, timeout_ms).await.map(Some);
    }
    match answer {
        Ok(_) => Ok(Bar::Stands),
        Err(error) if error.number() == Some(TAKEN) => Ok(Bar::Taken),
        Err(error) if error.number().is_some_and(|it| LOCKED.contains(&it)) => Ok(Bar::Open),
        Err(error) => Err(error),
    }
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
    let sql = format!(
        "DELETE FROM heddle.mark WHERE id IN ({ids}); DELETE FROM heddle.xid WHERE id IN ({ids}); \
         COMMIT",
        ids = ids.join(",")
    );
    link.run(operation, &sql, timeout_ms).await
}

/// `None` where there is no such table yet.
pub(crate) fn unless_missing<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.number().is_some_and(|it| MISSING.contains(&it)) => Ok(None),
        Err(error) => Err(error),
    }
}
