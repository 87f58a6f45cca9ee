//! Transactions as lines of JSON: what the change stream says, without the tokens.
//!
//! A change's number in its transaction counts all changes, wanted or not, so that a token holds for every filter. A
//! transaction of which nothing is wanted has no line.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use farm::dist_txn::Branch;
use sqltext::Origin as Origins;

use crate::debezium::{Tables, Types};
use crate::event::{Logged, Xid};
use crate::gtid::Gtid;
use crate::json;
use crate::own::{DATABASE as OWN_DATABASE, decided, is_of_move, may_decide};
use crate::replication::Filter;
use crate::rows::{Change, Kind, Rows};
use crate::table::Table;
use crate::transactions::Part;

mod chunk;
mod description;
mod over_groups;
mod records;
mod statements;
mod wanted;

pub use chunk::Rows as ReadRows;
use description::{Described, shown};
pub use over_groups::BranchOf;
use records::Origin;
pub use wanted::{KeyRange, Wanted};

/// So much a row's line takes at first, besides what all rows of its event begin with.
const ROW_BYTES: usize = 256;

/// One line, without its token and its braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    pub line: String,
    /// So many changes of the transaction are told with it; `None` when that is the whole transaction.
    pub index: Option<u32>,
}

/// Tells the transactions of one group.
pub struct Teller<F = Wanted> {
    group: String,
    wanted: F,
    /// Nothing of the group is told; its changes count all the same.
    is_hidden: bool,
    /// Columns that the log does not name are told by their places.
    numbers_columns: bool,
    types: Types,
    /// Milliseconds since 1970.
    now_ms: u64,
    /// Definitions that were told, and how.
    described: HashMap<(String, String), (Arc<Table>, Described)>,
    /// What definitions made of tables, for the form that tells it.
    defined: Tables,
    /// That images lack columns was told.
    has_warned: bool,
    current: Current,
}

/// How far a transaction has been told.
#[derive(Clone, Debug, Default)]
pub struct Progress {
    /// Changes.
    pub index: u32,
    /// Wanted rows, those among them that were told before.
    rows: u64,
    /// The same as records of another form, and by table.
    records: u64,
    tables: BTreeMap<String, u64>,
}

/// The transaction that is being told.
#[derive(Default)]
struct Current {
    gtid: String,
    logged: Logged,
    /// Of a transaction over several groups, or a client's own XA transaction.
    xid: Option<String>,
    /// Those over which it is told as one.
    groups: Vec<String>,
    /// A move did it.
    is_move: bool,
    origin: Origin,
    so_far: Progress,
    /// So many changes were told before.
    skip: u32,
    begun: bool,
    /// The client's text of the rows that come, until it was told.
    source: Option<String>,
    /// Where the application says that text comes from; it stays for all its rows.
    tag: String,
}

impl<F: Filter> Teller<F> {
    /// For the lines of this group.
    pub fn new(group: &str, wanted: F) -> Teller<F> {
        Teller {
            group: group.to_owned(),
            wanted,
            is_hidden: false,
            numbers_columns: false,
            types: Types::Heddle,
            now_ms: 0,
            described: HashMap::new(),
            defined: Tables::default(),
            has_warned: false,
            current: Current::default(),
        }
    }

    /// Tells nothing from here on.
    pub fn hide(&mut self) {
        self.is_hidden = true;
    }

    /// A transaction begins, of which so many changes were told before; `None` when not even its beginning
    /// was.
    pub fn begin(
        &mut self,
        gtid: &Gtid,
        logged: impl Into<Logged>,
        xid: Option<&Xid>,
        told: Option<u32>,
    ) {
        self.current = Current {
            gtid: gtid.to_string(),
            logged: logged.into(),
            origin: Origin::of(gtid),
            xid: xid.map(name),
            skip: told.unwrap_or(0),
            begun: told.is_some(),
            ..Current::default()
        };
    }

    /// Appends the lines of a part.
    ///
    /// # Errors
    /// The log does not say what the rows are; the text says why, and how to mend it.
    pub fn part(&mut self, part: &Part, out: &mut Vec<Told>) -> Result<(), String> {
        match part {
            Part::Source(text) => {
                let mut origin = Origins::default();
                origin.read(text);
                self.current.tag = origin.tag;
                self.current.source = Some(String::from_utf8_lossy(text).into_owned());
            }
            Part::Rows(rows) if rows.table.database == OWN_DATABASE => self.own_rows(rows)?,
            Part::Rows(rows) => self.rows(rows, out)?,
            Part::Statement(statement) => self.statement(statement, out),
            Part::Block(block) => self.block(block, out),
        }
        Ok(())
    }

    /// The transaction is over. `None` when nothing of it was told.
    pub fn end(&mut self) -> Option<Told> {
        let current = std::mem::take(&mut self.current);
        if !current.begun {
            return None;
        }
        let mut line = self.head("commit", &current);
        self.circumstances(&current, &mut line);
        line.push_str(&format!(",\"rows\":{}", current.so_far.rows));
        line.push_str(&self.record_end(&current));
        Some(Told { line, index: None })
    }

    /// What all lines of a transaction have.
    fn head(&self, event: &str, of: &Current) -> String {
        let mut line = format!("\"event\":\"{event}\",\"group\":");
        json::text(&self.group, &mut line);
        line.push_str(&format!(
            ",\"gtid\":\"{}\",\"time\":{}",
            of.gtid, of.logged.time_s
        ));
        if let Some(xid) = &of.xid {
            line.push_str(",\"xid\":");
            json::text(xid, &mut line);
        }
        if of.is_move {
            line.push_str(",\"move\":true");
        }
        line
    }

    /// Tells that the transaction has begun, if it was not told.
    fn ensure_begun(&mut self, index: u32, out: &mut Vec<Told>) {
        if !std::mem::replace(&mut self.current.begun, true) {
            let mut line = self.head("begin", &self.current);
            self.circumstances(&self.current, &mut line);
            if !self.current.groups.is_empty() {
                let groups = serde_json::Value::from(self.current.groups.clone());
                line.push_str(&format!(",\"groups\":{groups}"));
            }
            line.push_str(&self.record_begin());
            out.push(Told {
                line,
                index: Some(index),
            });
        }
    }

    /// Rows of Heddle's own are not told, but a decision names the transaction, and a move says that it is one.
    fn own_rows(&mut self, rows: &Rows) -> Result<(), String> {
        for change in rows.changes() {
            let change = change?;
            self.current.so_far.index += 1;
            let after = change.after.as_ref();
            self.current.is_move |= after.is_some_and(|it| is_of_move(rows, it));
            if may_decide(rows)
                && let Some(id) = change.after.as_ref().and_then(decided)
            {
                self.current.xid = Some(id.to_string());
            }
        }
        Ok(())
    }

    fn rows(&mut self, rows: &Rows, out: &mut Vec<Told>) -> Result<(), String> {
        let table = &rows.table;
        // Records have nothing that says where a row is: one that moves stays what it is.
        let stays = self.current.is_move && self.debezium().is_some();
        let is_wanted = !self.is_hidden
            && !stays
            && self.wanted.has_table(&table.database, &table.name)
            && self.wanted.has_rows(rows.kind, &self.current.tag);
        let is_named = self.numbers_columns || table.is_named();
        let mut front = None;
        for change in rows.changes() {
            let before = self.current.so_far.index;
            self.current.so_far.index += 1;
            if !is_wanted {
                continue;
            }
            let change = change?;
            if is_named && !self.wanted.has_change(table, &change)? {
                continue;
            }
            self.count(table, &change);
            if self.current.so_far.index <= self.current.skip {
                continue;
            }
            if !is_named {
                return Err(format!(
                    "the binlog does not name the columns of {}.{}; set binlog_row_metadata=FULL in the \
                     configuration of every server of the group, and begin anew, without a token",
                    table.database, table.name
                ));
            }
            self.ensure_begun(before, out);
            if self.debezium().is_some() {
                self.records(rows, &change, before, out)?;
                continue;
            }
            let front = match &front {
                Some(front) => front,
                None => {
                    let schema = self.describe(table, before, out);
                    self.warn(table, &change, before, out);
                    front.insert(self.front(rows, &schema))
                }
            };
            let line = self.row(front, table, &change);
            let index = Some(self.current.so_far.index);
            out.push(Told { line, index });
        }
        Ok(())
    }

    /// With what the line of each of these rows begins.
    fn front(&self, rows: &Rows, schema: &str) -> String {
        let mut line = self.head("row", &self.current);
        of_table(&rows.table, &mut line);
        line.push_str(schema);
        line.push_str(match rows.kind {
            Kind::Insert => ",\"kind\":\"insert\",\"key\":",
            Kind::Update => ",\"kind\":\"update\",\"key\":",
            Kind::Delete => ",\"kind\":\"delete\",\"key\":",
        });
        line
    }

    fn row(&mut self, front: &str, table: &Table, change: &Change<'_>) -> String {
        let mut line = String::with_capacity(front.len() + ROW_BYTES);
        line.push_str(front);
        // By what the row was found before the change.
        let mut images = [&change.before, &change.after].into_iter().flatten();
        if !images.any(|image| json::key(image, table, &mut line)) {
            line.push_str("null");
        }
        let images = [
            (",\"before\":", &change.before),
            (",\"after\":", &change.after),
        ];
        for (name, image) in images {
            line.push_str(name);
            match image {
                Some(image) => json::image(&shown(&self.wanted, image, table), table, &mut line),
                None => line.push_str("null"),
            }
        }
        if change.is_partial() {
            line.push_str(",\"partial\":true");
        }
        if let Some(sql) = self.current.source.take() {
            line.push_str(",\"sql\":");
            json::text(&sql, &mut line);
            if !self.current.tag.is_empty() {
                line.push_str(",\"source\":");
                json::text(&self.current.tag, &mut line);
            }
        }
        line
    }
}

fn of_table(table: &Table, line: &mut String) {
    named(&table.database, &table.name, line);
}

fn named(database: &str, table: &str, line: &mut String) {
    line.push_str(",\"database\":");
    json::text(database, line);
    line.push_str(",\"table\":");
    json::text(table, line);
}

/// The id of a transaction over several groups, or an XA transaction's name as statements write it.
fn name(xid: &Xid) -> String {
    let format = u64::from(xid.format as u32);
    match Branch::read(format, &xid.transaction, &xid.branch) {
        Some(branch) => branch.id.to_string(),
        None => {
            let (transaction, branch) = (hex::encode(&xid.transaction), hex::encode(&xid.branch));
            format!("X'{transaction}',X'{branch}',{}", xid.format)
        }
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;
    use crate::event::Statement;
    use crate::table::table;

    /// A table map of `d.NAME (a INT, b VARCHAR(10))` with the key `a`, both columns named or not.
    fn map(database: &str, name: &str, is_named: bool) -> Arc<Table> {
        let mut data = vec![7, 0, 0, 0, 0, 0, 1, 0];
        for part in [database, name] {
            data.push(u8::try_from(part.len()).expect("short"));
            data.extend(part.as_bytes());
            data.push(0);
        }
        data.extend([2, 3, 15, 2, 10, 0, 0b10]);
        if is_named {
            data.extend([4, 4, 1, b'a', 1, b'b', 2, 1, 45, 8, 1, 0]);
        }
        Arc::new(table(&data, Engine::MySql).expect("a table map").1)
    }

    /// Inserts of `(1, 'x')` and `(2, NULL)`.
    fn inserts(table: &Arc<Table>) -> Part {
        let mut event = vec![7, 0, 0, 0, 0, 0, 1, 0, 2, 3];
        event.extend([0b00, 1, 0, 0, 0, 1, b'x', 0b10, 2, 0, 0, 0]);
        Part::Rows(Rows::of(23, &event, Arc::clone(table)).expect("inserts"))
    }

    fn wanted(databases: &[&str], tables: &[&str]) -> Wanted {
        let own = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect();
        Wanted {
            databases: own(databases),
            tables: own(tables),
            ..Wanted::default()
        }
    }

    /// The lines of one transaction, with the numbers of changes that are told with them.
    fn told(
        teller: &mut Teller,
        before: Option<u32>,
        parts: &[Part],
    ) -> Vec<(String, Option<u32>)> {
        let gtid = Gtid::parse(Engine::MariaDb, "0-1-5").expect("a GTID");
        teller.begin(&gtid, 9, None, before);
        let mut out = Vec::new();
        for part in parts {
            teller.part(part, &mut out).expect("it can be told");
        }
        out.extend(teller.end());
        out.into_iter().map(|it| (it.line, it.index)).collect()
    }

    const HEAD: &str = r#""group":"g","gtid":"0-1-5","time":9"#;
    /// It may not become another one for the same table.
    const SCHEMA: &str = r#""schema":"c38c11db92333a9f""#;

    #[test]
    fn a_transaction_is_told_line_by_line() {
        let mut teller = Teller::new("g", Wanted::default());
        let table = map("d", "t", true);
        let source = Part::Source(b"INSERT \"x\"".to_vec());
        let lines = told(&mut teller, None, &[source.clone(), inserts(&table)]);
        let expected = [
            (format!(r#""event":"begin",{HEAD}"#), Some(0)),
            (
                format!(
                    r#""event":"columns",{HEAD},"database":"d","table":"t","columns":[{{"name":"a","type":"int","nullable":false,"key":1}},{{"name":"b","type":"varchar","nullable":true,"charset":"utf8mb4"}}],{SCHEMA}"#
                ),
                Some(0),
            ),
            (
                format!(
                    r#""event":"row",{HEAD},"database":"d","table":"t",{SCHEMA},"kind":"insert","key":{{"a":1}},"before":null,"after":{{"a":1,"b":"x"}},"sql":"INSERT \"x\"""#
                ),
                Some(1),
            ),
            (
                format!(
                    r#""event":"row",{HEAD},"database":"d","table":"t",{SCHEMA},"kind":"insert","key":{{"a":2}},"before":null,"after":{{"a":2,"b":null}}"#
                ),
                Some(2),
            ),
            (format!(r#""event":"commit",{HEAD},"rows":2"#), None),
        ];
        assert_eq!(lines, expected);
        // The definition is told once, and what was told before not again.
        let again = told(&mut teller, Some(1), &[source, inserts(&table)]);
        let (events, indexes): (Vec<_>, Vec<_>) = again.into_iter().unzip();
        assert_eq!(indexes, [Some(2), None]);
        assert!(
            events[1].ends_with("\"rows\":2"),
            "all of the transaction count"
        );
        assert!(events[0].contains(r#""key":{"a":2}"#), "{events:?}");
        for line in events {
            let line = format!("{{{line}}}");
            serde_json::from_str::<serde_json::Value>(&line).expect("it is JSON");
        }
    }

    #[test]
    fn what_is_not_wanted_is_counted_and_not_told() {
        let parts = [
            inserts(&map("d", "t", true)),
            inserts(&map("heddle", "beat", true)),
            inserts(&map("e", "t", true)),
        ];
        for (databases, tables, count) in [
            (&[][..], &[][..], 4),
            (&["d"], &[], 2),
            (&["d", "e"], &["t"], 4),
            (&[], &["e.t"], 2),
            (&["d"], &["e.t"], 0),
            (&["heddle"], &[], 0),
        ] {
            let mut teller = Teller::new("g", wanted(databases, tables));
            let lines = told(&mut teller, None, &parts);
            let rows = lines.iter().filter(|it| it.0.contains("\"row\""));
            assert_eq!(rows.count(), count, "{databases:?} {tables:?}");
            assert_eq!(lines.is_empty(), count == 0, "{lines:?}");
        }
        let mut teller = Teller::new("g", wanted(&["e"], &[]));
        let lines = told(&mut teller, None, &parts);
        assert_eq!(lines[2].1, Some(5), "all changes count");
    }

    #[test]
    fn rows_are_chosen_by_kind_columns_keys_and_where_they_come_from() {
        let table = map("d", "t", true);
        let source = Part::Source(b"/*app='shop',route='cart'*/ INSERT".to_vec());
        let parts = [source, inserts(&table)];
        let rows = |wanted: Wanted| -> Vec<String> {
            let lines = told(&mut Teller::new("g", wanted), None, &parts);
            let lines = lines.into_iter().map(|it| it.0);
            lines.filter(|it| it.contains("\"row\"")).collect()
        };
        let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let all = rows(Wanted::default());
        assert!(
            all[0].ends_with(r#","source":"app=shop,route=cart""#),
            "{}",
            all[0]
        );
        let of = |kinds: &[Kind], sources: &[&str], columns: &[&str], keys: (&str, &str)| {
            let bound = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            rows(Wanted {
                kinds: kinds.to_vec(),
                sources: texts(sources),
                columns: texts(columns),
                keys: KeyRange {
                    from: bound(keys.0),
                    to: bound(keys.1),
                },
                ..Wanted::default()
            })
        };
        assert_eq!(of(&[Kind::Update], &[], &[], ("", "")).len(), 0);
        assert_eq!(of(&[Kind::Insert], &["x"], &[], ("", "")).len(), 0);
        assert_eq!(of(&[], &["app=shop,route=cart"], &[], ("", "")).len(), 2);
        assert_eq!(of(&[], &[], &[], ("2", "")).len(), 1);
        assert_eq!(of(&[], &[], &[], ("", "0")).len(), 0);
        let only_b = of(&[], &[], &["B"], ("1", "1"));
        assert!(only_b[0].contains(r#""key":{"a":1},"before":null,"after":{"b":"x"}"#));
        assert!(!only_b[0].contains("partial"));
    }

    #[test]
    fn rows_without_names_are_an_error_that_says_what_to_set() {
        let mut teller = Teller::new("g", wanted(&["d"], &[]));
        let gtid = Gtid::parse(Engine::MariaDb, "0-1-5").expect("a GTID");
        teller.begin(&gtid, 9, None, None);
        let mut out = Vec::new();
        let unwanted = inserts(&map("e", "t", false));
        assert_eq!(teller.part(&unwanted, &mut out), Ok(()));
        let error = teller.part(&inserts(&map("d", "t", false)), &mut out);
        assert!(error.is_err_and(|it| it.contains("binlog_row_metadata=FULL")));
        assert!(out.is_empty());
    }

    #[test]
    fn definitions_and_changes_without_rows_are_told_apart() {
        let mut teller = Teller::new("g", wanted(&["d"], &[]));
        let of = |database: &str, text: &str| {
            Part::Statement(Statement {
                database: database.to_owned(),
                text: text.as_bytes().to_vec(),
                ..Statement::default()
            })
        };
        let lines = told(
            &mut teller,
            None,
            &[of("x", "DROP TABLE d.t"), of("heddle", "DROP TABLE a")],
        );
        let text = format!(r#""event":"ddl",{HEAD},"database":"x","sql":"DROP TABLE d.t""#);
        let gone = r#","tables":[{"database":"d","table":"t","change":"drop"}]"#;
        assert_eq!(lines[1], (text + gone, Some(1)));
        assert_eq!(lines.len(), 3);
    }
}
