//! The rows by which transactions over several groups are decided: `heddle.mark`, on each group.
//!
//! A transaction's row is written by its decider's connection, within its own transaction, just before
//! the COMMIT: `CALL heddle.decide(id, groups); COMMIT`. The routine runs with the rights of Heddle's
//! account, so a client's account needs nothing but EXECUTE on it ([`grant`]); it writes no other row
//! than one that says commit under an id of Heddle's form, and none on a server that is read-only.
//! Before it writes it share-locks the row of `heddle.gate`: who holds that row exclusively holds up
//! the transactions that this group decides, and no others.
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
use crate::held::hex;
use crate::link::{Link, bytes_at, quoted, text_at};
use crate::requirements::binlog_filters;

/// ER_NO_SUCH_TABLE and ER_BAD_DB_ERROR.
const MISSING: [u16; 2] = [1146, 1049];
/// ER_DUP_ENTRY.
const TAKEN: u16 = 1062;
/// ER_LOCK_WAIT_TIMEOUT and ER_LOCK_DEADLOCK.
const LOCKED: [u16; 2] = [1205, 1213];
/// ER_SP_ALREADY_EXISTS: another router was faster.
const THERE: u16 = 1304;

/// The comment of the routines. Those of another form are made anew.
const FORM: &str = "Heddle: form 3";

/// Comma-separated group numbers; a transaction over hundreds of groups fits.
const GROUPS_BYTES_MAX: usize = 4096;

/// Room for every [`Xid::key`].
const XID_BYTES_MAX: usize = 140;

/// A decision, or the row that stands where it would have to stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: GlobalId,
    pub verdict: Verdict,
    /// The numbers of the groups that have branches; none where it says abort.
    pub groups: Vec<u32>,
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

/// Makes what is missing of the tables and the routine, on a primary. True when something was. A server
/// whose binlog leaves these tables out cannot decide: a failover would lose its decisions.
pub async fn make(link: &mut Link, timeout_ms: u64) -> Result<bool, Error> {
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
        });
    }
    let sql = "SELECT ROUTINE_COMMENT FROM information_schema.ROUTINES \
               WHERE ROUTINE_SCHEMA='heddle' AND ROUTINE_NAME='decide'";
    let form = link.cell(OPERATION, sql, timeout_ms).await?;
    if form.as_deref() == Some(FORM) {
        return Ok(false);
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
         CREATE TABLE IF NOT EXISTS heddle.gate (id INT NOT NULL PRIMARY KEY) \
         ENGINE=InnoDB COMMENT='Locked by transactions over several groups'; \
         INSERT IGNORE INTO heddle.gate (id) VALUES (1); \
         INSERT IGNORE INTO heddle.mark (id, state, branches) VALUES (X'00', 'commit', ''); \
         COMMIT; DROP PROCEDURE IF EXISTS heddle.pass; DROP PROCEDURE IF EXISTS heddle.view; \
         DROP PROCEDURE IF EXISTS heddle.hold; \
         DROP PROCEDURE IF EXISTS heddle.decide"
    );
    link.run(OPERATION, &tables, timeout_ms).await?;
    for routine in [view(), holding(), routine()] {
        match link.run(OPERATION, &routine, timeout_ms).await {
            Err(error) if error.number() == Some(THERE) => {}
            other => other?,
        }
    }
    flush(link, timeout_ms).await?;
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

fn routine() -> String {
    let magic = hex(&MAGIC);
    format!(
        "CREATE PROCEDURE heddle.decide(IN of_id VARBINARY(64), \
         IN of_groups VARCHAR({GROUPS_BYTES_MAX}) CHARACTER SET ascii) \
         COMMENT '{FORM}' MODIFIES SQL DATA SQL SECURITY DEFINER \
         BEGIN \
           DECLARE held INT; \
           IF LENGTH(of_id) <> {ID_BYTES} OR LEFT(of_id, 3) <> X'{magic}' OR @@global.read_only THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'Heddle: nothing can be decided here'; \
           END IF; \
           SELECT id INTO held FROM heddle.gate WHERE id = 1 LOCK IN SHARE MODE; \
           INSERT INTO heddle.mark (id, state, branches) VALUES (of_id, 'commit', of_groups); \
         END"
    )
}

fn holding() -> String {
    let magic = hex(&MAGIC);
    format!(
        "CREATE PROCEDURE heddle.hold(IN of_id VARBINARY(64), \
         IN of_groups VARCHAR({GROUPS_BYTES_MAX}) CHARACTER SET ascii, \
         IN of_xid VARBINARY({XID_BYTES_MAX})) \
         COMMENT '{FORM}' MODIFIES SQL DATA SQL SECURITY DEFINER \
         BEGIN \
           IF LENGTH(of_id) <> {ID_BYTES} OR LEFT(of_id, 3) <> X'{magic}' OR @@global.read_only THEN \
             SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'Heddle: nothing can be decided here'; \
           END IF; \
           INSERT INTO heddle.mark (id, state, branches) VALUES (of_id, 'commit', of_groups); \
           INSERT INTO heddle.xid (id, xid) VALUES (of_id, of_xid); \
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
/// refuses with 1370 while the account has not been given the right ([`grant`]), with 1062 when the
/// transaction was barred, and leaves the transaction open then.
pub fn decide(id: &GlobalId, groups: impl IntoIterator<Item = u32>) -> String {
    let groups: Vec<String> = groups.into_iter().map(|group| group.to_string()).collect();
    format!("CALL heddle.decide(X'{id}','{}')", groups.join(","))
}

/// The same for a client's own XA transaction of this name, before its XA END.
pub fn hold(id: &GlobalId, groups: impl IntoIterator<Item = u32>, xid: &Xid) -> String {
    let groups: Vec<String> = groups.into_iter().map(|group| group.to_string()).collect();
    let (groups, xid) = (groups.join(","), hex(&xid.key()));
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
pub async fn bar(link: &mut Link, id: &GlobalId, timeout_ms: u64) -> Result<Bar, Error> {
    const OPERATION: &str = "bar a transaction from being decided";
    let sql = format!(
        "SET SESSION innodb_lock_wait_timeout = 1; \
         INSERT INTO heddle.mark (id, state, branches) VALUES (X'{id}', 'abort', ''); COMMIT"
    );
    let mut answer = unless_missing(link.run(OPERATION, &sql, timeout_ms).await);
    if let Ok(None) = answer {
        make(link, timeout_ms).await?;
        answer = link.run(OPERATION, &sql, timeout_ms).await.map(Some);
    }
    match answer {
        Ok(_) => Ok(Bar::Stands),
        Err(error) if error.number() == Some(TAKEN) => Ok(Bar::Taken),
        Err(error) if error.number().is_some_and(|it| LOCKED.contains(&it)) => Ok(Bar::Open),
        Err(error) => Err(error),
    }
}

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
    let first = hex(&first);
    let from = behind.map_or_else(|| format!("id >= X'{first}'"), |id| format!("id > X'{id}'"));
    let sql = format!(
        "SELECT id, state, branches FROM heddle.mark \
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
    })
}

/// Removes rows that nobody will ask for any more.
pub async fn remove(link: &mut Link, ids: &[GlobalId], timeout_ms: u64) -> Result<(), Error> {
    if ids.is_empty() {
        return Ok(());
    }
    let ids: Vec<String> = ids.iter().map(|id| format!("X'{id}'")).collect();
    let sql = format!(
        "DELETE FROM heddle.mark WHERE id IN ({ids}); DELETE FROM heddle.xid WHERE id IN ({ids}); \
         COMMIT",
        ids = ids.join(",")
    );
    link.run("remove decisions", &sql, timeout_ms).await
}

/// `None` where there is no such table yet.
pub(crate) fn unless_missing<T>(answer: Result<T, Error>) -> Result<Option<T>, Error> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.number().is_some_and(|it| MISSING.contains(&it)) => Ok(None),
        Err(error) => Err(error),
    }
}
