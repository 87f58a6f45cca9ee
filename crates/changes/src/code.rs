//! Kinds of events as the servers number them.
//!
//! Invariants: an event is passed over only where it is known to hold no change, or where its server says so.

use farm::Engine;

pub const QUERY: u8 = 2;
/// The server stopped.
pub const STOP: u8 = 3;
pub const ROTATE: u8 = 4;
/// Values that a statement is given beside its text: of AUTO_INCREMENT, of RAND(), of a client's variable.
pub const INTVAR: u8 = 5;
pub const RAND: u8 = 13;
pub const USER_VAR: u8 = 14;
pub const FORMAT: u8 = 15;
pub const XID: u8 = 16;
/// A piece of the file of a LOAD DATA whose rows are not logged; the first one, and those that follow.
pub const BEGIN_LOAD: u8 = 17;
pub const APPEND_BLOCK: u8 = 9;
/// Its statement, behind all pieces.
pub const EXECUTE_LOAD: u8 = 18;
pub const TABLE_MAP: u8 = 19;
pub const INCIDENT: u8 = 26;
pub const HEARTBEAT: [u8; 2] = [27, 41];
/// The client's own text of the rows that follow, on MySQL.
pub const ROWS_QUERY: u8 = 29;
/// Begins a transaction of MySQL.
pub const GTID: u8 = 33;
pub const ANONYMOUS: u8 = 34;
/// The transactions of the files before.
pub const PREVIOUS_GTIDS: u8 = 35;
pub const XA_PREPARE: u8 = 38;
/// Rows of which the log has only what changed in their JSON documents.
pub const PARTIAL_UPDATE: u8 = 39;
/// A whole transaction of MySQL, compressed (`binlog_transaction_compression`).
pub const TRANSACTION_PAYLOAD: u8 = 40;
/// From MySQL 8.3 on: begins a transaction with a tag.
pub const GTID_TAGGED: u8 = 42;
/// The client's own text of the rows that follow, on MariaDB.
pub const ANNOTATE_ROWS: u8 = 160;
/// Up to which file the engines need the log.
pub const CHECKPOINT: u8 = 161;
pub const MARIADB_GTID: u8 = 162;
/// The last transactions of the files before.
pub const GTID_LIST: u8 = 163;
pub const START_ENCRYPTION: u8 = 164;
pub const QUERY_COMPRESSED: u8 = 165;
/// From MariaDB 12.3 on: a piece of an event of rows.
pub const PARTIAL_ROWS: u8 = 172;

/// LOAD DATA in the form of MySQL 4.
pub(crate) const OLD_LOADS: [u8; 5] = [6, 8, 10, 11, 12];
/// What stands beside a statement, and LOAD DATA.
pub(crate) const BESIDE: [u8; 11] = [5, 6, 8, 9, 10, 11, 12, 13, 14, 17, 18];
/// Each of the two versions of a row event.
pub(crate) const WRITE: [u8; 2] = [23, 30];
pub(crate) const UPDATE: [u8; 2] = [24, 31];
pub(crate) const DELETE: [u8; 2] = [25, 32];
/// Row events that MariaDB has compressed: those of version 1, then those of version 2.
pub(crate) const COMPRESSED_ROWS: [u8; 6] = [166, 167, 168, 169, 170, 171];

/// A server sets it in the header of an event that it has made for its reader, and that is not in its file.
pub const ARTIFICIAL_FLAG: u16 = 0x20;

/// A server sets it in the header of an event that readers who do not know it may pass over.
pub const IGNORABLE_FLAG: u16 = 0x80;

/// What of both engines tells nothing of changes: that the server stopped, and what is made to be passed over.
const HARMLESS: [u8; 2] = [STOP, 28];

/// The same of MySQL alone: names of transactions before; of Group Replication, what a transaction read and which servers
/// there are. A compressed transaction counts here, because its events come one by one behind it.
const HARMLESS_OF_MYSQL: [u8; 4] = [PREVIOUS_GTIDS, 36, 37, TRANSACTION_PAYLOAD];

/// The same of MariaDB alone: up to which file the engines need the log, names of transactions before, and that the
/// file is encrypted, which the server undoes.
const HARMLESS_OF_MARIADB: [u8; 3] = [CHECKPOINT, GTID_LIST, START_ENCRYPTION];

/// True for an event that readers may ignore: it holds no change, or its server says so.
pub fn is_passed_over(engine: Engine, kind: u8, flags: u16) -> bool {
    let of_engine = match engine {
        Engine::MySql => HARMLESS_OF_MYSQL.contains(&kind),
        Engine::MariaDb => HARMLESS_OF_MARIADB.contains(&kind),
    };
    flags & IGNORABLE_FLAG != 0 || HARMLESS.contains(&kind) || of_engine
}
