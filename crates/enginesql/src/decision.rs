//! The tables and routines by which transactions over several groups are decided, and the calls of them.
//!
//! Heddle's account makes them on each primary. A transaction's row of `heddle.mark` is written by its
//! coordinator group's connection, within its own transaction, just before the COMMIT: [`decide`], then COMMIT, in one
//! packet. The routine runs with the rights of Heddle's account, so a client's account needs nothing but
//! EXECUTE on it ([`grants`]). It writes no other row than one that says commit, and none on a server that is
//! read-only. The id must have the seal that a router of the farm gave it ([`crate::seal`]), and must name the
//! connection that calls: nobody decides another's transaction, or takes the place of one to come. Before
//! these are proved nothing is locked but the farm's row of `heddle.secret`.
//! Before it writes it share-locks the row of `heddle.gate`: who holds that row exclusively holds up
//! the transactions that this group decides, and no others.
//!
//! A client's own XA transaction over several groups writes its row by [`hold`], before it is prepared, and
//! passes no commit barrier there. [`VIEW`] opens the view of a transaction that is to see a snapshot over all groups.

use farm::dist_txn::{ID_BYTES, MAGIC};
use farm::{Engine, Xid};

use crate::literal::quoted;
use crate::position::TAKES_WRITES;
use crate::seal::{Key, SEAL_BYTES, Sealed};
use crate::words::GRANT_TO_EXISTING;

/// The comment of the routines. Those of another form are made anew.
///
/// Routers whose form is an older one give ids without a seal. They are refused with the number of a
/// missing right, so that such a router makes its own form again, and so does this one: while a farm
/// is upgraded, all of its routers can decide.
pub const FORM: &str = "Heddle: form 4";

/// Comma-separated group numbers; a transaction over hundreds of groups fits.
const GROUPS_BYTES_MAX: usize = 4096;

/// The number of a farm stands behind [`MAGIC`] in its ids.
pub const FARM_BYTES: usize = 8;

/// An id and its seal.
const SEALED_BYTES: usize = ID_BYTES + SEAL_BYTES;

/// ER_PROCACCESS_DENIED_ERROR, for an id that is not proved; see [`FORM`].
const UNPROVED: u16 = 1370;

/// ER_SIGNAL_EXCEPTION: what a routine of another form says to an id that has a seal, and each of a server
/// that is read-only.
pub const SIGNALLED: u16 = 1644;

/// Room for every [`Xid::key`].
const XID_BYTES_MAX: usize = 140;

/// Makes what is missing of the tables, with the rows that have to be there, and drops the routines of every
/// form.
///
/// `heddle.mark` is never empty: MariaDB may load rows into an empty table in a way that looks for duplicates
/// late.
pub fn tables() -> String {
    format!(
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
    )
}

/// What a server may not have whose binary log leaves the tables out: the routines that decide.
pub const DROP: &str =
    "DROP PROCEDURE IF EXISTS heddle.hold; DROP PROCEDURE IF EXISTS heddle.decide";

/// Makes the routines, one text for each. `heddle.decide` is the last one: where it has today's [`FORM`], all
/// of them have.
pub fn routines() -> [String; 3] {
    [view(), holding(), routine()]
}

/// Whether the server has this farm's key: 1 if so.
pub fn has_key(farm: u64, key: &Key) -> String {
    let farm = hex::encode(farm.to_be_bytes());
    let [inner, outer] = key.pads();
    format!(
        "SELECT COUNT(*) FROM heddle.secret \
         WHERE farm = X'{farm}' AND inner_pad = X'{inner}' AND outer_pad = X'{outer}'"
    )
}

/// Gives the server this farm's key.
pub fn keep_key(farm: u64, key: &Key) -> String {
    let farm = hex::encode(farm.to_be_bytes());
    let [inner, outer] = key.pads();
    format!(
        "SET SESSION innodb_lock_wait_timeout = 1; \
         REPLACE INTO heddle.secret (farm, inner_pad, outer_pad) \
         VALUES (X'{farm}', X'{inner}', X'{outer}'); COMMIT"
    )
}

/// Lets an account decide, in transactions of its own, hold and see. The account must be there.
pub fn grants(engine: Engine, user: &str, host: &str) -> String {
    let careful = GRANT_TO_EXISTING.of_engine(engine);
    let (user, host) = (quoted(user), quoted(host));
    let grants = ["view", "hold", "decide"].map(|routine| {
        format!("{careful}GRANT EXECUTE ON PROCEDURE heddle.{routine} TO {user}@{host}")
    });
    grants.join(";")
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

/// The statement by which a coordinator group's connection writes its row; COMMIT follows it in one packet. It
/// refuses with 1370 while the account has not been given the right ([`grants`]), or the server does not
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

/// Opens the read view of a transaction that has begun: its first consistent read. It refuses with 1370
/// while the account has not been given the right ([`grants`]).
pub const VIEW: &str = "CALL heddle.view()";
