//! One server's binlog, event by event: transactions with the rows that they changed.
//!
//! What is told is in the order in which the server committed it. A transaction that was begun counts only
//! when its end was told.

use std::collections::HashMap;
use std::sync::Arc;

use farm::{Engine, Position};

use crate::code;
use crate::context::Context;
use crate::event::{Block, End, Event, Load, Logged, Note, Statement, Xid, defines};
use crate::fixed::{Hidden, Types};
use crate::gtid::{AlterStep, Gtid, GtidDetails};
use crate::rows::{Rows, are_rows, table_id};
use crate::table::{Bytes, Table, table};

mod query;

use query::{HEAD_BYTES, Head};
pub use query::{query_inflated, query_of};

/// Table maps that are kept: those of one statement, which joins no more tables than this.
const TABLES_MAX: usize = 256;

/// An event as it stands in a binlog, without its header and its checksum.
#[derive(Clone, Copy, Debug)]
pub struct RawEvent<'a> {
    /// One of [`code`].
    pub kind: u8,
    /// The server that logged it first.
    pub server_id: u32,
    /// When the statement began, by its server's clock; seconds since 1970.
    pub time_s: u32,
    /// Where the next event begins in the file; 0 where the server does not say it.
    pub end: u32,
    /// Those of its header.
    pub flags: u16,
    pub data: &'a [u8],
}

/// Why an event cannot be told. The decoder is of no more use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    #[error("{0}")]
    Unreadable(String),
    #[error("it has lost events itself, as it says in its binlog")]
    Incident,
}

/// Follows one binlog.
pub struct Decoder {
    engine: Engine,
    /// All transactions whose end was told.
    position: Position,
    /// The transaction that has begun.
    open: Option<Open>,
    /// Values for the statement that comes.
    values: Context,
    tables: HashMap<u64, Arc<Table>>,
    hidden: Hidden,
    /// The file that events come from, and where the last one ended.
    place: (String, u64),
    time_s: u32,
    /// What the log said of itself since notes were taken last; `None` for a caller that wants none.
    notes: Option<Vec<Note>>,
    /// Of the transaction that began last.
    logged: Logged,
    /// The number of the server that wrote the log.
    writer: Option<u32>,
}

/// What is known of a transaction when it begins.
struct Open {
    gtid: Gtid,
    /// It is one statement, which has no end of its own.
    standalone: bool,
    /// That statement has been told.
    told: bool,
    /// Its statement does nothing: an ALTER that has only begun, or that was rolled back.
    is_void: bool,
    /// What its first event says.
    logged: Logged,
}

impl Decoder {
    /// For the events behind this position.
    pub fn new(engine: Engine, from: Position) -> Decoder {
        Decoder {
            engine,
            position: from,
            open: None,
            values: Context::default(),
            tables: HashMap::new(),
            hidden: Hidden::default(),
            place: (String::new(), 0),
            time_s: 0,
            notes: None,
            logged: Logged::default(),
            writer: None,
        }
    }

    /// Takes note of what the log says of itself, too.
    #[must_use]
    pub fn with_notes(mut self) -> Decoder {
        self.notes = Some(Vec::new());
        self
    }

    /// What the log has said of itself in front of the last event that told something.
    pub fn take_notes(&mut self) -> Vec<Note> {
        self.notes.as_mut().map_or(Vec::new(), std::mem::take)
    }

    /// All transactions whose end was told: where to go on, here or elsewhere.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// The file from which events come, and where in it the last one ended; a server may not say it of
    /// events within a transaction.
    pub fn place(&self) -> (&str, u64) {
        (&self.place.0, self.place.1)
    }

    /// When the last event was logged, by its server's clock; seconds since 1970.
    pub fn time_s(&self) -> u32 {
        self.time_s
    }

    /// What the log says of the transaction that began last. Its connection may be known only when its first change is.
    pub fn logged(&self) -> Logged {
        self.logged
    }

    /// The end of a transaction that has no event of its own. To be asked before the next event is taken.
    pub fn due(&mut self) -> Option<Event> {
        match self.open.as_ref().is_some_and(|open| open.told) {
            true => self.end(End::Commit),
            false => None,
        }
    }

    /// The database and the name of a table whose columns may be UUID, INET4 or INET6, which a log does not tell. Callers may ask
    /// behind each event; untold columns stay BINARY.
    pub fn untold(&self) -> Option<(&str, &str)> {
        let table = self.tables.get(&self.hidden.untold?)?;
        Some((&table.database, &table.name))
    }

    /// The types of the columns of the table that is [untold](Decoder::untold). They hold until a definition is changed.
    pub fn tell_types(&mut self, types: Types) {
        let id = self.hidden.untold.take();
        if let Some(table) = id.and_then(|id| self.tables.get_mut(&id)) {
            self.hidden.tell(Arc::make_mut(table), types);
        }
    }

    /// What an event tells, if it does.
    ///
    /// # Errors
    /// It cannot be read, or the server says that events are missing.
    pub fn take(&mut self, raw: RawEvent<'_>) -> Result<Option<Event>, Trouble> {
        let RawEvent { kind, data, .. } = raw;
        if raw.end > 0 && !code::HEARTBEAT.contains(&kind) && kind != code::ROTATE {
            self.place.1 = u64::from(raw.end);
        }
        if raw.time_s > 0 {
            self.time_s = raw.time_s;
        }
        if let Some(notes) = &mut self.notes
            && raw.flags & code::ARTIFICIAL_FLAG == 0
        {
            notes.extend(Note::of(kind, data));
        }
        let short = || unread(&format!("an event of kind {kind} that ends too early"));
        Ok(match kind {
            kind if code::HEARTBEAT.contains(&kind) => Some(Event::Alive),
            code::ROTATE => {
                self.rotate(data);
                None
            }
            code::FORMAT => {
                self.tables.clear();
                self.writer = Some(raw.server_id);
                None
            }
            code::MARIADB_GTID if self.engine == Engine::MariaDb => {
                let open = mariadb_begin(raw.server_id, data).ok_or_else(short)?;
                Some(self.begin(open))
            }
            code::GTID | code::GTID_TAGGED => {
                let open = mysql_begin(raw.server_id, kind, data).ok_or_else(short)?;
                Some(self.begin(open))
            }
            code::ANONYMOUS => {
                return Err(unread("a transaction without a GTID; set gtid_mode=ON"));
            }
            code::TABLE_MAP => {
                self.table(data)?;
                None
            }
            kind if are_rows(kind) => self.rows(kind, data)?,
            code::QUERY => self.query(data)?,
            code::QUERY_COMPRESSED => {
                let whole = query_inflated(data).ok_or_else(short)?;
                self.query(&whole)?
            }
            code::ROWS_QUERY => Some(Event::Source(data.get(1..).unwrap_or_default().to_vec())),
            code::ANNOTATE_ROWS if self.engine == Engine::MariaDb => {
                Some(Event::Source(data.to_vec()))
            }
            code::XID => self.end(End::Commit),
            code::XA_PREPARE => {
                let (one_phase, xid) = prepared(data).ok_or_else(short)?;
                self.end(match one_phase {
                    true => End::Commit,
                    false => End::Prepared(xid),
                })
            }
            kind if code::BESIDE.contains(&kind) => self.beside(kind, data)?,
            code::INCIDENT => return Err(Trouble::Incident),
            kind if code::is_passed_over(self.engine, kind, raw.flags) => None,
            kind => return Err(unknown(self.engine, kind)),
        })
    }

    /// A table whose rows come.
    fn table(&mut self, data: &[u8]) -> Result<(), Trouble> {
        let (id, mut table) = table(data, self.engine).map_err(Trouble::Unreadable)?;
        if self.engine == Engine::MariaDb {
            self.hidden.take(id, &mut table);
        }
        if self.tables.len() >= TABLES_MAX {
            self.tables.clear();
        }
        self.tables.insert(id, Arc::new(table));
        Ok(())
    }

    /// What stands beside a statement: its values, and the file of a LOAD DATA.
    fn beside(&mut self, kind: u8, data: &[u8]) -> Result<Option<Event>, Trouble> {
        let short = || unread(&format!("an event of kind {kind} that ends too early"));
        Ok(match kind {
            code::INTVAR | code::RAND | code::USER_VAR => {
                let is_taken = self.values.take_event(kind, data);
                is_taken.then_some(None).ok_or_else(short)?
            }
            code::BEGIN_LOAD | code::APPEND_BLOCK => {
                let mut rest = Bytes(data);
                let file = rest.number(4).and_then(|it| u32::try_from(it).ok());
                Some(Event::Block(Block {
                    file: file.ok_or_else(short)?,
                    data: rest.0.to_vec(),
                }))
            }
            code::EXECUTE_LOAD => self.load(data).ok_or_else(short)?,
            kind if code::OLD_LOADS.contains(&kind) => {
                return Err(unread("a LOAD DATA as MySQL 4 logged it"));
            }
            _ => None,
        })
    }

    fn rotate(&mut self, data: &[u8]) {
        self.place = (file_of(data), 4);
    }

    fn begin(&mut self, open: Open) -> Event {
        self.values = Context::default();
        let gtid = open.gtid.clone();
        self.logged = Logged {
            time_s: self.time_s,
            ..open.logged
        };
        if !self.is_first_log() {
            self.logged.connection = None;
        }
        self.open = Some(open);
        Event::Begin(gtid)
    }

    /// The log is that of the server that committed the transaction first. Others may write connections of their own there.
    fn is_first_log(&self) -> bool {
        self.writer == Some(self.logged.server_id)
    }

    /// The open transaction is over. What no GTID began is none.
    fn end(&mut self, end: End) -> Option<Event> {
        let open = self.open.take()?;
        open.gtid.add_to(&mut self.position);
        Some(Event::End(end))
    }

    fn rows(&mut self, kind: u8, data: &[u8]) -> Result<Option<Event>, Trouble> {
        /// Ends a statement that had no rows to tell.
        const NO_TABLE: u64 = 0xFF_FFFF;
        let id = table_id(data).ok_or_else(|| unread("rows of no table"))?;
        let Some(table) = self.tables.get(&id) else {
            return match id {
                NO_TABLE => Ok(None),
                _ => Err(unread("rows without a table map")),
            };
        };
        let rows = Rows::of(kind, data, table.clone());
        let rows = rows.ok_or_else(|| unread("rows that do not fit their table map"))?;
        Ok(Some(Event::Rows(rows)))
    }

    fn query(&mut self, data: &[u8]) -> Result<Option<Event>, Trouble> {
        let short = || unread("a statement that ends too early");
        let text = query_of(data).ok_or_else(short)?;
        let is_first_log = self.is_first_log();
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        if let Some(end) = branch_end(text) {
            return Ok(self.end(end));
        }
        if self.logged.connection.is_none() && is_first_log {
            let connection = Bytes(data).number(4).and_then(|it| u32::try_from(it).ok());
            // No connection has the number 0.
            self.logged.connection = connection.filter(|it| *it > 0);
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
        let head = Head::of(data, 0).ok_or_else(short)?;
        Ok(self.statement(&head, text, None))
    }

    /// A LOAD DATA whose blocks have come.
    fn load(&mut self, data: &[u8]) -> Option<Option<Event>> {
        /// The file, where its name stands, and what becomes of duplicates.
        const LOAD_BYTES: usize = 4 + 4 + 4 + 1;
        let head = Head::of(data, LOAD_BYTES)?;
        let mut rest = Bytes(data.get(HEAD_BYTES..)?);
        let mut number = || u32::try_from(rest.number(4)?).ok();
        let (file, name) = (number()?, (number()?, number()?));
        let load = Load {
            file,
            name,
            duplicates: u8::try_from(rest.number(1)?).ok()?,
        };
        Some(self.statement(&head, head.text, Some(load)))
    }

    fn statement(&mut self, head: &Head<'_>, text: &[u8], load: Option<Load>) -> Option<Event> {
        let mut context = std::mem::take(&mut self.values);
        context.thread = head.thread;
        context.take_status(self.time_s, head.status);
        if defines(text) {
            self.hidden.forget();
        }
        let open = self.open.as_mut()?;
        open.told = open.standalone;
        if open.is_void {
            return None;
        }
        Some(Event::Statement(Statement {
            database: String::from_utf8_lossy(head.database).into_owned(),
            text: text.to_owned(),
            context: Box::new(context),
            load,
        }))
    }
}

/// The error for an event that this decoder cannot read, and that may hold changes.
fn unknown(engine: Engine, kind: u8) -> Trouble {
    let why = match (engine, kind) {
        (Engine::MariaDb, code::PARTIAL_ROWS) => {
            " (a piece of an event of rows; raise binlog_row_event_fragment_threshold on every server of the group)"
        }
        _ => ", which is not known here and may hold changes",
    };
    unread(&format!("an event of kind {kind}{why}"))
}

fn unread(what: &str) -> Trouble {
    Trouble::Unreadable(what.to_owned())
}

/// The file that a rotate event names.
pub fn file_of(data: &[u8]) -> String {
    /// Of the number at the end of a file's name.
    const DIGITS: usize = 6;
    let name = data.get(8..).unwrap_or_default();
    // Before the server has said that there are checksums, four bytes of one stand behind the name. A dot may be among them.
    let is_number = |behind: &[u8]| matches!(behind, [b'.', number @ ..] if number.iter().all(u8::is_ascii_digit));
    let number = name.windows(1 + DIGITS).rposition(is_number);
    let end = number.map_or(name.len(), |dot| dot + 1 + DIGITS);
    String::from_utf8_lossy(&name[..end]).into_owned()
}

fn mariadb_begin(server_id: u32, data: &[u8]) -> Option<Open> {
    const STANDALONE: u8 = 1;
    let gtid = Gtid::of_mariadb(server_id, data)?;
    let flags = data.get(12)?;
    let GtidDetails { alter, connection } = GtidDetails::of_mariadb(data)?;
    Some(Open {
        gtid,
        standalone: flags & STANDALONE != 0,
        told: false,
        is_void: matches!(alter, Some(AlterStep::Begins | AlterStep::RollsBack(_))),
        logged: Logged {
            connection,
            server_id,
            ..Logged::default()
        },
    })
}

fn mysql_begin(server_id: u32, kind: u8, data: &[u8]) -> Option<Open> {
    Some(Open {
        gtid: Gtid::of_mysql(kind, data)?,
        // Until a BEGIN comes.
        standalone: true,
        told: false,
        is_void: false,
        logged: Logged {
            committed_us: (kind == code::GTID).then(|| committed_us(data)).flatten(),
            server_id,
            ..Logged::default()
        },
    })
}

/// When MySQL committed a transaction first, in microseconds since 1970. An event of before 8.0.1 does not say it.
fn committed_us(data: &[u8]) -> Option<u64> {
    /// Flags, the name, and what parallel appliers have to know.
    const FRONT_BYTES: usize = 1 + 16 + 8 + 1 + 8 + 8;
    const KIND_AT: usize = 1 + 16 + 8;
    const LOGICAL_CLOCK: u8 = 2;
    /// Another server committed it first: when that was follows.
    const TWO: u64 = 1 << 55;
    if *data.get(KIND_AT)? != LOGICAL_CLOCK {
        return None;
    }
    let mut rest = Bytes(data.get(FRONT_BYTES..)?);
    let here = rest.number(7)?;
    let first = match here & TWO {
        0 => here,
        _ => rest.number(7)?,
    };
    (first > 0).then_some(first)
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

#[cfg(test)]
mod tests;
