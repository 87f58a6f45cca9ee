//! A server's binlog as it grows: transactions with the rows that they changed.
//!
//! What is read is in the order in which the server committed it, and begins behind a position, so
//! it goes on at any server of a group that has the position. An event may arrive before the server
//! itself shows the change (it waits for a replica in between), and a transaction that was begun
//! counts only when its end has arrived.
//!
//! The statements behind rows are told by MySQL. MariaDB has them in events that its servers send only
//! to those who ask in a way that the driver cannot.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

use enginesql::quoted;
use farm::{Engine, Position};
use futures_util::StreamExt;
use mysql_async::binlog::events::TransactionPayloadEvent;
use mysql_async::{BinlogStream, BinlogStreamRequest};

use super::gtid::{Gtid, sids};
use super::rows::{Rows, are_rows, inflated, table_id};
use super::table::{Bytes, Table, table};
use super::{OPERATION, query_of, unreadable};
use crate::error::Error;
use crate::link::{Link, Login};

/// So many heartbeats may fail to come.
const SILENT_HEARTBEATS: u32 = 3;

/// Table maps that are kept: those of one statement, which joins no more tables than this.
const TABLES_MAX: usize = 256;

/// The name of a branch of a distributed transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Xid {
    pub format: i32,
    pub transaction: Vec<u8>,
    pub branch: Vec<u8>,
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    Commit,
    /// It changed tables that know no rollback, or nothing.
    RolledBack,
    /// What it did counts only when the branch is committed, by another transaction.
    Prepared(Xid),
    /// What the branch did when it was prepared.
    BranchCommitted(Xid),
    BranchRolledBack(Xid),
}

/// A statement in the binlog: DDL, or a change whose rows are not told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// The session's current one.
    pub database: String,
    pub text: Vec<u8>,
}

/// What comes from a reader. Every transaction is a `Begin`, what it did, and an `End`.
#[derive(Clone, Debug)]
pub enum Event {
    /// What was begun before and has no end is void: the reader began it anew.
    Begin(Gtid),
    Rows(Rows),
    Statement(Statement),
    /// The client's own text of the rows that follow, on MySQL.
    Source(Vec<u8>),
    End(End),
    /// The server is there and has no more.
    Alive,
}

/// A reader of one server's binlog.
pub struct Reader {
    stream: BinlogStream,
    server: String,
    engine: Engine,
    /// All transactions whose end was told.
    position: Position,
    /// The transaction that has begun.
    open: Option<Open>,
    tables: HashMap<u64, Arc<Table>>,
    /// The file that events come from, and where the last one ended.
    place: (String, u64),
    silence: Duration,
}

/// What is known of a transaction when it begins.
struct Open {
    gtid: Gtid,
    /// It is one statement, which has no end of its own.
    standalone: bool,
    /// That statement has been told.
    told: bool,
}

/// Kinds of events as the servers number them.
mod code {
    pub const QUERY: u8 = 2;
    pub const ROTATE: u8 = 4;
    pub const FORMAT: u8 = 15;
    pub const XID: u8 = 16;
    pub const TABLE_MAP: u8 = 19;
    pub const INCIDENT: u8 = 26;
    pub const HEARTBEAT: [u8; 2] = [27, 41];
    pub const ROWS_QUERY: u8 = 29;
    pub use super::super::gtid::code::{MYSQL, MYSQL_TAGGED};
    pub const ANONYMOUS: u8 = 34;
    pub const XA_PREPARE: u8 = 38;
    pub const TRANSACTION_PAYLOAD: u8 = 40;
    pub const MARIADB_GTID: u8 = 162;
    pub const QUERY_COMPRESSED: u8 = 165;
    /// Statements in parts: LOAD DATA, and values that a statement was run with.
    pub const LOADED: [u8; 4] = [8, 9, 17, 18];
}

/// A number by which a server knows a reader. Two readers with one number end each other, also those
/// of other routers, so it is made by chance, and far from what people give their servers.
pub(super) fn reader_id() -> u32 {
    let chance = RandomState::new().hash_one(std::process::id());
    0xF000_0000 | u32::try_from(chance & 0x0FFF_FFFF).unwrap_or(0)
}

/// True when a reader cannot begin at its position on this server: the server has purged what comes
/// behind it, or has not got it itself.
pub fn is_gap(error: &Error) -> bool {
    /// ER_MASTER_FATAL_ERROR_READING_BINLOG.
    const FATAL: u16 = 1236;
    error.number() == Some(FATAL)
}

impl Reader {
    /// Begins behind `from`. The server says that it is there every `heartbeat_ms`.
    ///
    /// # Errors
    /// It cannot be reached or asked. That the position cannot be had there is said by
    /// [`Reader::next`]; see [`is_gap`].
    pub async fn open(
        login: &Login,
        from: &Position,
        heartbeat_ms: u64,
        timeout_ms: u64,
    ) -> Result<Reader, Error> {
        let mut link = Link::open_for_rows(login, timeout_ms).await?;
        let (server, engine) = (link.address().to_owned(), link.version().engine);
        let nanos = heartbeat_ms.saturating_mul(1_000_000);
        let mut settings =
            format!("SET @master_heartbeat_period={nanos}, @source_heartbeat_period={nanos}");
        if engine == Engine::MariaDb {
            let position = quoted(&from.to_string());
            settings.push_str(&format!(
                ", @mariadb_slave_capability=4, @slave_gtid_strict_mode=1, \
                 @slave_gtid_ignore_duplicates=0, @slave_connect_state={position}"
            ));
        }
        link.run(OPERATION, &settings, timeout_ms).await?;
        let mut request = BinlogStreamRequest::new(reader_id()).with_pos(4);
        if engine == Engine::MySql {
            let sids = sids(from).map_err(|error| unreadable(&server, &error))?;
            request = request.with_gtid().with_gtid_set(sids);
        }
        let failed = |error: &mysql_async::Error| Error::from_driver(OPERATION, &server, error);
        let stream = link.into_driver().get_binlog_stream(request).await;
        let stream = stream.map_err(|error| failed(&error))?;
        Ok(Reader {
            stream,
            server,
            engine,
            position: from.clone(),
            open: None,
            tables: HashMap::new(),
            place: (String::new(), 0),
            silence: Duration::from_millis(heartbeat_ms) * SILENT_HEARTBEATS,
        })
    }

    /// All transactions whose end was told: where to go on, here or elsewhere.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The file of the server's from which events come, and where in it the last one ended; a server
    /// may not say it of events within a transaction.
    pub fn place(&self) -> (&str, u64) {
        (&self.place.0, self.place.1)
    }

    /// What comes next. Dropped before it is done, nothing is lost.
    ///
    /// # Errors
    /// After an error the reader is of no more use: [`Error::Timeout`] when the server said nothing for
    /// three heartbeats, [`Error::Reply`] for what cannot be read, others as the server told them.
    pub async fn next(&mut self) -> Result<Event, Error> {
        loop {
            if self.open.as_ref().is_some_and(|open| open.told)
                && let Some(end) = self.end(End::Commit)
            {
                return Ok(end);
            }
            let raw = match tokio::time::timeout(self.silence, self.stream.next()).await {
                Ok(Some(raw)) => raw,
                Ok(None) => return Err(self.lost("the server ended the stream")),
                Err(_) => {
                    return Err(Error::Timeout {
                        operation: OPERATION,
                        server: self.server.clone(),
                        timeout_ms: u64::try_from(self.silence.as_millis()).unwrap_or(u64::MAX),
                    });
                }
            };
            let raw = raw.map_err(|error| Error::from_driver(OPERATION, &self.server, &error))?;
            let header = raw.header();
            let kind = header.event_type_raw();
            if header.log_pos() > 0 && !code::HEARTBEAT.contains(&kind) && kind != code::ROTATE {
                self.place.1 = u64::from(header.log_pos());
            }
            // The driver passes over what it cannot unpack.
            if kind == code::TRANSACTION_PAYLOAD
                && raw.read_event::<TransactionPayloadEvent<'_>>().is_err()
            {
                return Err(self.unread("a compressed transaction that is none"));
            }
            if let Some(event) = self.take(kind, header.server_id(), raw.data())? {
                return Ok(event);
            }
        }
    }

    fn lost(&self, reason: &str) -> Error {
        Error::Lost {
            operation: OPERATION,
            server: self.server.clone(),
            reason: reason.to_owned(),
        }
    }

    fn unread(&self, what: &str) -> Error {
        unreadable(&self.server, &what)
    }

    fn take(&mut self, kind: u8, server_id: u32, data: &[u8]) -> Result<Option<Event>, Error> {
        let short = || self.unread(&format!("an event of kind {kind} that ends too early"));
        Ok(match kind {
            kind if code::HEARTBEAT.contains(&kind) => Some(Event::Alive),
            code::ROTATE => {
                self.rotate(data);
                None
            }
            code::FORMAT => {
                self.tables.clear();
                None
            }
            code::MARIADB_GTID if self.engine == Engine::MariaDb => {
                let open = mariadb_begin(server_id, data).ok_or_else(short)?;
                Some(self.begin(open))
            }
            code::MYSQL | code::MYSQL_TAGGED => {
                let open = mysql_begin(kind, data).ok_or_else(short)?;
                Some(self.begin(open))
            }
            code::ANONYMOUS => {
                return Err(self.unread("a transaction without a GTID; set gtid_mode=ON"));
            }
            code::TABLE_MAP => {
                let (id, table) = table(data).map_err(|why| self.unread(&why))?;
                if self.tables.len() >= TABLES_MAX {
                    self.tables.clear();
                }
                self.tables.insert(id, Arc::new(table));
                None
            }
            kind if are_rows(kind) => self.rows(kind, data)?,
            code::QUERY => self.query(data)?,
            code::QUERY_COMPRESSED => {
                let whole = query_inflated(data).ok_or_else(short)?;
                self.query(&whole)?
            }
            code::ROWS_QUERY => Some(Event::Source(data.get(1..).unwrap_or_default().to_vec())),
            code::XID => self.end(End::Commit),
            code::XA_PREPARE => {
                let (one_phase, xid) = prepared(data).ok_or_else(short)?;
                self.end(if one_phase {
                    End::Commit
                } else {
                    End::Prepared(xid)
                })
            }
            kind if code::LOADED.contains(&kind) => self.statement("", b"LOAD DATA"),
            code::INCIDENT => {
                return Err(self.lost("it has lost events itself, as it says in its binlog"));
            }
            _ => None,
        })
    }

    fn rotate(&mut self, data: &[u8]) {
        /// Of the number in a file's name.
        const DIGITS: usize = 6;
        let mut name = data.get(8..).unwrap_or_default();
        // Before the server has said that there are checksums, four bytes of one stand behind the name.
        if let Some(dot) = name.iter().rposition(|&byte| byte == b'.') {
            name = &name[..name.len().min(dot + 1 + DIGITS)];
        }
        self.place = (String::from_utf8_lossy(name).into_owned(), 4);
    }

    fn begin(&mut self, open: Open) -> Event {
        let gtid = open.gtid.clone();
        self.open = Some(open);
        Event::Begin(gtid)
    }

    /// The open transaction is over. What no GTID began is none.
    fn end(&mut self, end: End) -> Option<Event> {
        let open = self.open.take()?;
        open.gtid.add_to(&mut self.position);
        Some(Event::End(end))
    }

    fn rows(&mut self, kind: u8, data: &[u8]) -> Result<Option<Event>, Error> {
        /// Ends a statement that had no rows to tell.
        const NO_TABLE: u64 = 0xFF_FFFF;
        let id = table_id(data).ok_or_else(|| self.unread("rows of no table"))?;
        let Some(table) = self.tables.get(&id) else {
            return match id {
                NO_TABLE => Ok(None),
                _ => Err(self.unread("rows without a table map")),
            };
        };
        let rows = Rows::of(kind, data, table.clone());
        let rows = rows.ok_or_else(|| self.unread("rows that do not fit their table map"))?;
        Ok(Some(Event::Rows(rows)))
    }

    fn query(&mut self, data: &[u8]) -> Result<Option<Event>, Error> {
        let short = || self.unread("a statement that ends too early");
        let text = query_of(data).ok_or_else(short)?;
        let database = query_database(data).ok_or_else(short)?;
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        if let Some(end) = branch_end(text) {
            return Ok(self.end(end));
        }
        match text {
            b"BEGIN" => {
                open.standalone = false;
                return Ok(None);
            }
            b"COMMIT" => return Ok(self.end(End::Commit)),
            b"ROLLBACK" => return Ok(self.end(End::RolledBack)),
            text if text.starts_with(b"XA START ") => {
                open.standalone = false;
                return Ok(None);
            }
            text if text.starts_with(b"XA END ") => return Ok(None),
            text if text.starts_with(b"SAVEPOINT ") => return Ok(None),
            _ => {}
        }
        Ok(self.statement(&database, text))
    }

    fn statement(&mut self, database: &str, text: &[u8]) -> Option<Event> {
        let open = self.open.as_mut()?;
        open.told = open.standalone;
        Some(Event::Statement(Statement {
            database: database.to_owned(),
            text: text.to_owned(),
        }))
    }
}

fn mariadb_begin(server_id: u32, data: &[u8]) -> Option<Open> {
    const STANDALONE: u64 = 1;
    let mut rest = Bytes(data);
    let sequence = rest.number(8)?;
    let domain = u32::try_from(rest.number(4)?).ok()?;
    let flags = rest.number(1)?;
    Some(Open {
        gtid: Gtid::MariaDb {
            domain,
            server_id,
            sequence,
        },
        standalone: flags & STANDALONE != 0,
        told: false,
    })
}

fn mysql_begin(kind: u8, data: &[u8]) -> Option<Open> {
    Some(Open {
        gtid: Gtid::of_mysql(kind, data)?,
        // Until a BEGIN comes.
        standalone: true,
        told: false,
    })
}

/// The branch that is prepared, and whether it is committed at once.
fn prepared(data: &[u8]) -> Option<(bool, Xid)> {
    let mut rest = Bytes(data);
    let one_phase = rest.number(1)? != 0;
    let format = rest.number(4)? as u32 as i32;
    let transaction = usize::try_from(rest.number(4)?).ok()?;
    let branch = usize::try_from(rest.number(4)?).ok()?;
    let xid = Xid {
        format,
        transaction: rest.take(transaction)?.to_vec(),
        branch: rest.take(branch)?.to_vec(),
    };
    Some((one_phase, xid))
}

/// What `XA COMMIT X'..',X'..',1` and its like say.
fn branch_end(text: &[u8]) -> Option<End> {
    let text = std::str::from_utf8(text).ok()?;
    let (xid, commits) = match text.strip_prefix("XA COMMIT ") {
        Some(xid) => (xid, true),
        None => (text.strip_prefix("XA ROLLBACK ")?, false),
    };
    let mut parts = xid.trim_end_matches(" ONE PHASE").split(',').map(str::trim);
    let mut name = || {
        let hex = parts.next()?.strip_prefix("X'")?.strip_suffix('\'')?;
        let pairs =
            (0..hex.len() / 2).map(|at| u8::from_str_radix(hex.get(2 * at..2 * at + 2)?, 16).ok());
        pairs.collect::<Option<Vec<u8>>>()
    };
    let (transaction, branch) = (name()?, name()?);
    let xid = Xid {
        format: parts.next()?.parse().ok()?,
        transaction,
        branch,
    };
    Some(match commits {
        true => End::BranchCommitted(xid),
        false => End::BranchRolledBack(xid),
    })
}

/// The session's database of a query event.
fn query_database(data: &[u8]) -> Option<String> {
    let bytes = usize::from(*data.get(8)?);
    let variables = usize::from(u16::from_le_bytes(data.get(11..13)?.try_into().ok()?));
    let name = data.get(13 + variables..13 + variables + bytes)?;
    Some(String::from_utf8_lossy(name).into_owned())
}

/// A query event whose text is not compressed any more.
fn query_inflated(data: &[u8]) -> Option<Vec<u8>> {
    let text = query_of(data)?;
    let mut whole = data[..data.len() - text.len()].to_vec();
    whole.extend(inflated(text)?);
    Some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_end_by_statements() {
        let xid = Xid {
            format: 1,
            transaction: b"ab".to_vec(),
            branch: Vec::new(),
        };
        let committed = branch_end(b"XA COMMIT X'6162',X'',1");
        assert_eq!(committed, Some(End::BranchCommitted(xid.clone())));
        let undone = branch_end(b"XA ROLLBACK X'6162',X'',1");
        assert_eq!(undone, Some(End::BranchRolledBack(xid.clone())));
        assert_eq!(branch_end(b"XA COMMIT 'ab'"), None);
        let mut event = vec![0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        event.extend(b"ab");
        assert_eq!(prepared(&event), Some((false, xid)));
        assert_eq!(prepared(&event[..14]), None);
    }

    #[test]
    fn transactions_have_names() {
        let mut data = 77_u64.to_le_bytes().to_vec();
        data.extend(3_u32.to_le_bytes());
        data.push(1);
        let open = mariadb_begin(9, &data).expect("a GTID");
        assert_eq!(open.gtid.to_string(), "3-9-77");
        assert!(open.standalone && mariadb_begin(9, &data[..12]).is_none());
    }
}
