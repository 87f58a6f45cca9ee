//! Transactions in a stream of binlog events: by which connection of a router, and how many rows of
//! which table.

use std::collections::HashMap;
use std::sync::Arc;

use changes::code::is_passed_over;
use changes::{AlterStep, Gtid, GtidDetails, query_inflated, query_of};
use farm::{Engine, Position};
use mysql_async::Value;
use mysql_async::binlog::events::{Event, EventData, RowsEventData, TableMapEvent};
use mysql_async::binlog::row::BinlogRow;
use mysql_async::binlog::value::BinlogValue;

/// Integer columns of a row that are kept; an AUTO_INCREMENT column behind them is not found.
const INTEGERS_MAX: usize = 8;

/// What one transaction did to one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
    pub database: String,
    pub table: String,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// The integers of the first row that was inserted, or else of the first that was changed: the
    /// column's place from 1, and its value, sign-extended.
    pub integers: Vec<(u32, i64)>,
    /// `integers` are of an inserted row.
    from_insert: bool,
}

/// One transaction of a binlog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// In the engine's notation.
    pub gtid: String,
    /// In the order in which the tables were touched.
    pub tables: Vec<Touched>,
    /// False where the events do not tell all rows (statement format, compressed or partial events).
    pub counted: bool,
    /// The write tag that its statements carried.
    pub tag: Option<String>,
    /// True when it changed rows whose statements the log does not keep, so that nobody can say
    /// whether they carried a write tag.
    pub mute: bool,
}

/// Collects transactions from events.
pub(super) struct Trace {
    engine: Engine,
    current: Option<Written>,
    pub(super) written: Vec<Written>,
    tables: HashMap<u64, Arc<(String, String)>>,
    /// The text of the statement whose rows come was told.
    said: bool,
    /// What the transaction is of an ALTER in two phases.
    alter: Option<AlterStep>,
    /// Of those that have begun and whose end was not read: the sequence number, and the place in `written`.
    begun: Vec<(u64, usize)>,
}

/// Events that `mysql_common` does not name or that are only looked at raw.
mod code {
    pub const QUERY: u8 = 2;
    pub const XID: u8 = 16;
    pub const TABLE_MAP: u8 = 19;
    pub const ROWS: [u8; 6] = [23, 24, 25, 30, 31, 32];
    pub const ROWS_QUERY: u8 = 29;
    pub const PREPARE: u8 = 38;
    /// They say nothing of transactions, or stand beside a statement: rotate, format, heartbeats; values, and LOAD DATA,
    /// whose statement is another event.
    pub const BESIDE: [u8; 10] = [4, 15, 27, 41, 5, 13, 14, 9, 17, 18];
    pub use changes::code::{ANNOTATE_ROWS, GTID, GTID_TAGGED, QUERY_COMPRESSED};
    /// A transaction without a GTID.
    pub const ANONYMOUS: u8 = 34;
    pub const PARTIAL_UPDATE: u8 = 39;
    /// A whole transaction of MySQL, compressed (`binlog_transaction_compression`).
    pub const PAYLOAD: u8 = 40;
    pub const MARIADB_GTID: u8 = 162;
    /// Compressed rows of MariaDB.
    pub const COMPRESSED_ROWS: std::ops::RangeInclusive<u8> = 166..=171;
}

impl Trace {
    pub(super) fn new(engine: Engine) -> Trace {
        Trace {
            engine,
            current: None,
            written: Vec::new(),
            tables: HashMap::new(),
            said: false,
            alter: None,
            begun: Vec::new(),
        }
    }

    /// Takes one event; `map` is the table map that a rows event refers to.
    pub(super) fn take<'a>(
        &mut self,
        event: &Event,
        map: impl FnOnce(u64) -> Option<&'a TableMapEvent<'static>>,
    ) {
        let kind = event.header().event_type_raw();
        let data = event.data();
        match kind {
            code::MARIADB_GTID if self.engine == Engine::MariaDb => {
                let gtid = mariadb_gtid(event.header().server_id(), data);
                match gtid.zip(GtidDetails::of_mariadb(data)) {
                    Some((gtid, details)) => {
                        self.begin(gtid);
                        self.alter(details.alter, data);
                    }
                    None => self.unnamed(),
                }
            }
            code::GTID | code::GTID_TAGGED => match Gtid::of_mysql(kind, data) {
                Some(gtid) => self.begin(gtid.to_string()),
                None => self.unnamed(),
            },
            code::ANONYMOUS => self.unnamed(),
            code::QUERY => self.query(data),
            code::ROWS_QUERY => {
                self.said = true;
                self.tag(data.get(1..).unwrap_or_default());
            }
            code::ANNOTATE_ROWS if self.engine == Engine::MariaDb => {
                self.said = true;
                self.tag(data);
            }
            code::QUERY_COMPRESSED if self.engine == Engine::MariaDb => {
                match query_inflated(data) {
                    Some(whole) => self.query(&whole),
                    None => self.unread(),
                }
            }
            code::TABLE_MAP => {}
            kind if code::BESIDE.contains(&kind) => {}
            code::XID => self.end(),
            code::PAYLOAD => self.unread(),
            code::PARTIAL_UPDATE => {
                self.heard(data);
                self.uncounted();
            }
            kind if code::COMPRESSED_ROWS.contains(&kind) => {
                self.heard(data);
                self.uncounted();
            }
            kind if code::ROWS.contains(&kind) => {
                self.heard(data);
                self.rows(event, map);
            }
            code::PREPARE => {}
            kind if is_passed_over(self.engine, kind, event.header().flags_raw()) => {}
            // It may hold changes of any statement.
            _ => self.unread(),
        }
    }

    /// The stream is over.
    pub(super) fn end(&mut self) {
        self.written.extend(self.current.take());
    }

    fn begin(&mut self, gtid: String) {
        self.end();
        self.tables.clear();
        self.said = false;
        self.alter = None;
        self.current = Some(Written {
            gtid,
            counted: true,
            ..Written::default()
        });
    }

    /// The transaction that has begun is this of an ALTER.
    fn alter(&mut self, step: Option<AlterStep>, gtid: &[u8]) {
        self.alter = step;
        match step {
            Some(AlterStep::Begins) => {
                let sequence = gtid.first_chunk().map_or(0, |it| u64::from_le_bytes(*it));
                self.begun.push((sequence, self.written.len()));
                // Until its end was read nobody can say whether it counts.
                self.mute();
            }
            Some(AlterStep::Commits(of) | AlterStep::RollsBack(of)) => {
                let begun = self.begun.iter().rposition(|it| it.0 == of);
                if let Some((_, at)) = begun.map(|at| self.begun.swap_remove(at)) {
                    self.written[at].mute = false;
                }
            }
            None => {}
        }
    }

    /// A transaction begins whose name cannot be read: whether it is one that somebody looks for,
    /// nobody can say.
    fn unnamed(&mut self) {
        self.begin(String::new());
        self.mute();
        self.uncounted();
    }

    fn uncounted(&mut self) {
        if let Some(current) = &mut self.current {
            current.counted = false;
        }
    }

    /// What is in the event cannot be told.
    fn unread(&mut self) {
        self.mute();
        self.uncounted();
    }

    fn mute(&mut self) {
        if let Some(current) = &mut self.current {
            current.mute = true;
        }
    }

    /// Rows came: was their statement told?
    fn heard(&mut self, data: &[u8]) {
        /// Of a rows event: the table id, and the flags behind it.
        const FLAGS_AT: usize = 6;
        /// STMT_END_F: the last rows of a statement.
        const ENDS_STATEMENT: u8 = 1;
        if !self.said {
            self.mute();
        }
        let flags = data.get(FLAGS_AT).copied().unwrap_or(ENDS_STATEMENT);
        self.said &= flags & ENDS_STATEMENT == 0;
    }

    fn tag(&mut self, text: &[u8]) {
        // It has done nothing.
        if let Some(AlterStep::Begins | AlterStep::RollsBack(_)) = self.alter {
            return;
        }
        // By what has no name no write can be known.
        if let Some(current) = self.current.as_mut().filter(|it| !it.gtid.is_empty())
            && let Some(tag) = tag_of(text)
        {
            current.tag = Some(tag.to_owned());
        }
    }

    fn query(&mut self, data: &[u8]) {
        let Some(text) = query_of(data) else {
            return self.unread();
        };
        match text {
            b"COMMIT" | b"ROLLBACK" => self.end(),
            b"BEGIN" => {}
            text if text.starts_with(b"SAVEPOINT ") => {}
            text => {
                self.tag(text);
                self.uncounted();
            }
        }
    }

    fn rows<'a>(
        &mut self,
        event: &Event,
        map: impl FnOnce(u64) -> Option<&'a TableMapEvent<'static>>,
    ) {
        let Some(current) = &mut self.current else {
            return;
        };
        let Ok(Some(EventData::RowsEvent(rows))) = event.read_data() else {
            current.counted = false;
            return;
        };
        let id = rows.table_id();
        let Some(map) = map(id) else {
            current.counted = false;
            return;
        };
        let name = self.tables.entry(id).or_insert_with(|| {
            let (database, table) = (map.database_name(), map.table_name());
            Arc::new((database.into_owned(), table.into_owned()))
        });
        let at = current
            .tables
            .iter()
            .position(|t| (&t.database, &t.table) == (&name.0, &name.1));
        let at = at.unwrap_or_else(|| {
            current.tables.push(Touched {
                database: name.0.clone(),
                table: name.1.clone(),
                ..Touched::default()
            });
            current.tables.len() - 1
        });
        current.counted &= count_rows(&rows, map, &mut current.tables[at]);
    }
}

/// Adds the rows of an event. False when they cannot be read.
fn count_rows(rows: &RowsEventData<'_>, map: &TableMapEvent<'_>, touched: &mut Touched) -> bool {
    for row in rows.rows(map) {
        let Ok((before, after)) = row else {
            return false;
        };
        let inserted = before.is_none();
        match (&before, &after) {
            (None, Some(_)) => touched.inserted += 1,
            (Some(_), Some(_)) => touched.updated += 1,
            (Some(_), None) => touched.deleted += 1,
            (None, None) => {}
        }
        let first = touched.integers.is_empty() || (inserted && !touched.from_insert);
        if let Some(after) = after.filter(|_| first) {
            touched.integers = integers(&after);
            touched.from_insert = inserted;
        }
    }
    true
}

/// The first integers of a row, with the places of their columns.
fn integers(row: &BinlogRow) -> Vec<(u32, i64)> {
    let places = 0..row.len();
    let found = places.filter_map(|at| {
        let value = match row.as_ref(at)? {
            BinlogValue::Value(Value::Int(value)) => *value,
            // The bits are what counts: the column's type says later what they mean.
            BinlogValue::Value(Value::UInt(value)) => *value as i64,
            _ => return None,
        };
        Some((u32::try_from(at).ok()? + 1, value))
    });
    found.take(INTEGERS_MAX).collect()
}

/// `domain-server-sequence` of a MariaDB GTID event.
fn mariadb_gtid(server_id: u32, data: &[u8]) -> Option<String> {
    let sequence = u64::from_le_bytes(data.get(..8)?.try_into().ok()?);
    let domain = u32::from_le_bytes(data.get(8..12)?.try_into().ok()?);
    Some(format!("{domain}-{server_id}-{sequence}"))
}

/// The write tag at the front of a statement: what stands between `/*heddle:` and `*/`. A server may have
/// put `use db;` in front of what it shows.
pub(super) fn tag_of(text: &[u8]) -> Option<&str> {
    const OPENS: &[u8] = b"/*heddle:";
    let text = match text.starts_with(OPENS) {
        true => text,
        false if text.starts_with(b"use `") => {
            let end = text.windows(3).position(|w| w == b"`; ")?;
            &text[end + 3..]
        }
        false => return None,
    };
    let text = text.strip_prefix(OPENS)?;
    let end = text.iter().take(64).position(|b| *b == b'*')?;
    std::str::from_utf8(&text[..end]).ok()
}

/// True when `gtid` comes after all of `after` that is of the same stream (a MariaDB domain, a MySQL
/// source with its tag): one transaction, and what a connection reported, in the engine's notation. What
/// has no name that can be read may be any.
pub fn is_after(gtid: &str, after: &str) -> bool {
    let engine = match gtid.contains(':') {
        true => Engine::MySql,
        false => Engine::MariaDb,
    };
    let read = |text| Position::parse(engine, text);
    match (read(gtid), read(after)) {
        (Some(Position::MariaDb(one)), Some(Position::MariaDb(reported))) => {
            one.iter().all(|(domain, last)| {
                let before = reported.get(domain);
                before.is_none_or(|before| last.sequence > before.sequence)
            })
        }
        (Some(Position::MySql(one)), Some(Position::MySql(reported))) => {
            let last = |intervals: &Vec<(u64, u64)>| intervals.last().map(|(_, to)| *to);
            one.iter().all(|(source, intervals)| {
                let before = reported.get(source).and_then(last);
                last(intervals) > before
            })
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_stand_at_the_front() {
        assert_eq!(tag_of(b"/*heddle:a1-7*/ INSERT"), Some("a1-7"));
        assert_eq!(tag_of(b"use `d`; /*heddle:a*/ INSERT"), Some("a"));
        assert_eq!(tag_of(b"INSERT /*heddle:a*/"), None);
        assert_eq!(tag_of(b"/*heddle:"), None);
    }

    #[test]
    fn gtids_are_compared_within_their_stream() {
        assert!(is_after("0-1-8", "0-1-7") && is_after("0-1-8", ""));
        assert!(!is_after("0-2-7", "0-1-7"));
        assert!(is_after("1-1-3", "0-1-7"), "another domain says nothing");
        assert!(!is_after("1-1-3", "0-1-7,1-1-3"));
        let mysql = |gtid: &str, after: &str| {
            let uuid = "3E11FA47-71CA-11E1-9E33-C80AA9429562";
            let gtid = gtid.replace('$', &uuid.to_ascii_lowercase());
            is_after(&gtid, &after.replace('$', uuid))
        };
        assert!(mysql("$:24", "$:23") && mysql("$:1", ""));
        assert!(!mysql("$:23", "$:1-23") && !mysql("$:6", "$:5:7"));
        assert!(mysql("$:tag:1", "$:23"), "another tag says nothing");
        assert!(!mysql("$:tag:1", "$:23:tag:1") && mysql("$:tag:2", "$:23:tag:1"));
        assert!(mysql("", "$:23"), "it may be any");
    }

    #[test]
    fn raw_events_are_read() {
        let mut gtid = 77_u64.to_le_bytes().to_vec();
        gtid.extend(3_u32.to_le_bytes());
        assert_eq!(mariadb_gtid(9, &gtid), Some("3-9-77".to_owned()));
        assert_eq!(mariadb_gtid(9, &gtid[..11]), None);
        let mut query = 42_u32.to_le_bytes().to_vec();
        query.extend([0, 0, 0, 0, 1, 0, 0, 2, 0, 9, 9, b'd', 0]);
        query.extend(b"BEGIN");
        assert_eq!(query_of(&query), Some(&b"BEGIN"[..]));
        assert_eq!(query_of(&query[..10]), None);
    }
}
