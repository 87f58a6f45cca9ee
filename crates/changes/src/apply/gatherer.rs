//! Lines of the stream, gathered to transactions.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use super::{Change, Described, Loading, RowChange, Run, Shape, Transaction};
use crate::rows::Kind;

/// The most bytes that the lines of one transaction take.
const TRANSACTION_BYTES_MAX: usize = 1 << 30;

/// What came of a line.
#[derive(Debug, PartialEq)]
pub enum Heard {
    /// Part of something, or nothing to do.
    Nothing,
    Transaction(Transaction),
    /// Nothing is between this token and what came before.
    Alive(String),
    /// The snapshot of this group is complete.
    Complete {
        group: String,
        token: String,
    },
    /// The last line: what cannot be told, and what to do.
    Over(String),
}

/// Gathers the lines of one stream.
#[derive(Default)]
pub struct Gatherer {
    tables: HashMap<(String, String), Arc<Described>>,
    open: Option<Transaction>,
    /// The rows of a transaction over several groups: the hash of each, the group that told it, its place in the
    /// transaction. Every group tells the rows of a global table.
    told: Option<HashMap<u64, (String, usize)>>,
    /// Of the transaction, what came of the files of LOAD DATA, by their numbers.
    files: HashMap<u64, Vec<u8>>,
}

impl Gatherer {
    /// Takes a line without its end.
    ///
    /// # Errors
    /// It is no line of a stream, or tells less than can be carried out; the text says which and why.
    pub fn take(&mut self, line: &[u8]) -> Result<Heard, String> {
        let parsed: Result<Value, _> = serde_json::from_slice(line);
        let Ok(Value::Object(mut event)) = parsed else {
            let text = String::from_utf8_lossy(&line[..line.len().min(200)]).into_owned();
            return Err(format!(
                "a line that is no event of a change stream: {text}"
            ));
        };
        let token = text(&mut event, "token");
        let group = text(&mut event, "group");
        let name = text(&mut event, "event");
        if let Some(open) = &mut self.open {
            open.bytes += line.len();
            if open.bytes > TRANSACTION_BYTES_MAX {
                return Err(format!(
                    "the transaction {} of group {group} has more than {TRANSACTION_BYTES_MAX} bytes",
                    open.gtid.as_deref().unwrap_or_default()
                ));
            }
        }
        match &*name {
            "begin" => {
                self.told = event.get("groups").map(|_| HashMap::new());
                self.open = Some(begun(group, &mut event));
                self.files.clear();
            }
            "columns" => self.describe(&mut event)?,
            "row" => self.row(group, &mut event)?,
            "ddl" => self.add(Change::Definition {
                database: text(&mut event, "database"),
                sql: text(&mut event, "sql"),
                context: match event.get_mut("context").map(Value::take) {
                    Some(Value::Object(context)) => context,
                    _ => Map::new(),
                },
            })?,
            "statement" => self.statement(&mut event)?,
            "block" => {
                let bytes = event["data"]["base64"].as_str().unwrap_or_default();
                let bytes = BASE64.decode(bytes).map_err(|it| it.to_string())?;
                let file = self.files.entry(event["file"].as_u64().unwrap_or(0));
                file.or_default().extend(bytes);
            }
            "table" => {
                let made = Change::Made {
                    database: text(&mut event, "database"),
                    sql: text(&mut event, "sql"),
                };
                return Ok(Heard::Transaction(Transaction {
                    group,
                    gtid: None,
                    is_move: false,
                    changes: vec![made],
                    token,
                    bytes: line.len(),
                }));
            }
            "commit" => {
                let open = self.open.take();
                let mut open = open.ok_or("a commit without a beginning")?;
                open.token = token;
                return Ok(Heard::Transaction(open));
            }
            "snapshot" => return Ok(Heard::Complete { group, token }),
            "gap" | "undone" | "error" => return Ok(Heard::Over(text(&mut event, "error"))),
            _ if !token.is_empty() && self.open.is_none() => return Ok(Heard::Alive(token)),
            _ => {}
        }
        Ok(Heard::Nothing)
    }

    fn add(&mut self, change: Change) -> Result<(), String> {
        let open = self.open.as_mut();
        open.ok_or("a change outside of a transaction")?
            .changes
            .push(change);
        Ok(())
    }

    /// A statement whose rows were not logged.
    fn statement(&mut self, event: &mut Map<String, Value>) -> Result<(), String> {
        let load = match event.get_mut("load").map(Value::take) {
            Some(Value::Object(mut load)) => {
                let file = event.get("file").and_then(Value::as_u64).unwrap_or(0);
                let duplicates = text(&mut load, "duplicates");
                Some(Loading {
                    head: text(&mut load, "head"),
                    tail: text(&mut load, "tail"),
                    replaces: duplicates == "replace",
                    refuses: duplicates == "error",
                    data: self.files.remove(&file).unwrap_or_default(),
                })
            }
            _ => None,
        };
        self.add(Change::Statement(Box::new(Run {
            database: text(event, "database"),
            sql: text(event, "sql"),
            context: match event.get_mut("context").map(Value::take) {
                Some(Value::Object(context)) => context,
                _ => Map::new(),
            },
            is_exact: !event.contains_key("bytes"),
            load,
        })))
    }

    fn describe(&mut self, event: &mut Map<String, Value>) -> Result<(), String> {
        let (database, name) = (text(event, "database"), text(event, "table"));
        let columns = event.get("columns").and_then(Value::as_array);
        let columns = columns.ok_or("columns that are no list")?;
        let shape = |column: &Value| {
            let word = |name| column[name].as_str().unwrap_or_default().to_owned();
            Shape {
                name: word("name"),
                data_type: word("type"),
                charset: column["charset"].as_str().map(str::to_owned),
            }
        };
        let described = Described {
            database: database.clone(),
            name: name.clone(),
            columns: columns.iter().map(shape).collect(),
        };
        self.tables.insert((database, name), Arc::new(described));
        Ok(())
    }

    fn row(&mut self, group: String, event: &mut Map<String, Value>) -> Result<(), String> {
        let name = (text(event, "database"), text(event, "table"));
        if event.get("partial").is_some() {
            return Err(format!(
                "rows of {}.{} are told only in part; set binlog_row_image=FULL on every server",
                name.0, name.1
            ));
        }
        let table = self.tables.get(&name).cloned();
        let table = table.ok_or("a row whose columns were not described")?;
        let kind = match &*text(event, "kind") {
            "insert" => Some(Kind::Insert),
            "update" => Some(Kind::Update),
            "delete" => Some(Kind::Delete),
            "read" => None,
            other => return Err(format!("a row of the kind {other:?}")),
        };
        let mut image = |name| match event.get_mut(name).map(Value::take) {
            Some(Value::Object(image)) => Some(image),
            _ => None,
        };
        let (key, before, after) = (image("key"), image("before"), image("after"));
        let is_whole = match kind {
            None | Some(Kind::Insert) => after.is_some(),
            Some(Kind::Update) => before.is_some() && after.is_some(),
            Some(Kind::Delete) => before.is_some(),
        };
        if !is_whole {
            return Err(format!("a row of {}.{} without its values", name.0, name.1));
        }
        let change = Change::Row(RowChange {
            table,
            kind,
            key,
            before,
            after,
        });
        match self.is_told_elsewhere(group, &change) {
            true => Ok(()),
            false => self.add(change),
        }
    }

    /// Another group of the transaction has told the same change of the same row: the table is a global one.
    fn is_told_elsewhere(&mut self, group: String, change: &Change) -> bool {
        let (Some(told), Some(open), Change::Row(row)) = (&mut self.told, &self.open, change)
        else {
            return false;
        };
        let first = told.entry(hashed(row));
        let (by, at) = first.or_insert_with(|| (group.clone(), open.changes.len()));
        *by != group && open.changes.get(*at) == Some(change)
    }
}

fn hashed(row: &RowChange) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&row.table.database, &row.table.name).hash(&mut hasher);
    for image in [&row.key, &row.before, &row.after] {
        let text = image.as_ref().map(|it| Value::from(it.clone()).to_string());
        text.hash(&mut hasher);
    }
    hasher.finish()
}

fn begun(group: String, event: &mut Map<String, Value>) -> Transaction {
    let gtid = text(event, "gtid");
    Transaction {
        group,
        gtid: (!gtid.is_empty()).then_some(gtid),
        is_move: event.get("move").is_some(),
        changes: Vec::new(),
        token: String::new(),
        bytes: 0,
    }
}

/// A member that is a text; empty where it is none.
fn text(event: &mut Map<String, Value>, name: &str) -> String {
    match event.get_mut(name).map(Value::take) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(gatherer: &mut Gatherer, line: &str) -> Heard {
        gatherer
            .take(line.as_bytes())
            .unwrap_or_else(|why| panic!("{line}: {why}"))
    }

    const LINES: [&str; 4] = [
        r#"{"token":"a","event":"begin","group":"g","gtid":"0-1-5"}"#,
        r#"{"token":"a","event":"columns","group":"g","database":"d","table":"t","columns":[{"name":"a","type":"int","key":1},{"name":"b","type":"varchar","charset":"utf8mb4"}]}"#,
        r#"{"token":"b","event":"row","group":"g","database":"d","table":"t","kind":"update","key":{"a":1},"before":{"a":1,"b":"x"},"after":{"a":1,"b":null}}"#,
        r#"{"token":"c","event":"commit","group":"g","gtid":"0-1-5"}"#,
    ];

    #[test]
    fn lines_become_transactions() {
        let mut all = Gatherer::default();
        for line in &LINES[..3] {
            assert_eq!(heard(&mut all, line), Heard::Nothing);
        }
        let Heard::Transaction(transaction) = heard(&mut all, LINES[3]) else {
            panic!("it is whole");
        };
        assert_eq!((&*transaction.token, transaction.is_alone()), ("c", false));
        let [Change::Row(row)] = &transaction.changes[..] else {
            panic!("{transaction:?}");
        };
        assert_eq!((row.kind, row.table.columns.len()), (Some(Kind::Update), 2));
        let alive = r#"{"token":"d","event":"heartbeat"}"#;
        assert_eq!(heard(&mut all, alive), Heard::Alive("d".to_owned()));
        let over = r#"{"token":null,"event":"gap","error":"purged"}"#;
        assert_eq!(heard(&mut all, over), Heard::Over("purged".to_owned()));
    }

    #[test]
    fn what_every_group_tells_of_a_global_table_is_one_change() {
        let row = |group: &str, before: u32, after: u32| {
            format!(
                r#"{{"event":"row","group":"{group}","database":"d","table":"t","kind":"update","key":{{"a":1}},"before":{{"a":1,"b":{before}}},"after":{{"a":1,"b":{after}}}}}"#
            )
        };
        let mut all = Gatherer::default();
        for begin in [
            r#"{"token":"a","event":"begin","group":"g","gtid":"0-1-5","groups":["g","h"]}"#,
            r#"{"token":"a","event":"begin","group":"g","gtid":"0-1-6"}"#,
        ] {
            heard(&mut all, begin);
            heard(&mut all, LINES[1]);
            // There and back: the same group tells the same change twice.
            for group in ["g", "h"] {
                for (before, after) in [(1, 2), (2, 1), (1, 2)] {
                    heard(&mut all, &row(group, before, after));
                }
            }
            heard(&mut all, &row("h", 2, 3));
            let Heard::Transaction(transaction) = heard(&mut all, LINES[3]) else {
                panic!("it is whole");
            };
            let expected = if begin.contains("groups") { 4 } else { 7 };
            assert_eq!(transaction.changes.len(), expected, "{begin}");
        }
    }

    #[test]
    fn a_load_data_has_the_blocks_of_its_file() {
        let mut all = Gatherer::default();
        for line in [
            LINES[0],
            r#"{"event":"block","file":7,"data":{"base64":"YQ=="}}"#,
            r#"{"event":"block","file":8,"data":{"base64":"eA=="}}"#,
            r#"{"event":"block","file":7,"data":{"base64":"Yg=="}}"#,
            r#"{"event":"statement","database":"d","sql":"LOAD DATA x INTO TABLE t","file":7,"load":{"head":"LOAD DATA","tail":" TABLE t","duplicates":"error"}}"#,
        ] {
            assert_eq!(heard(&mut all, line), Heard::Nothing);
        }
        let Heard::Transaction(transaction) = heard(&mut all, LINES[3]) else {
            panic!("it is whole");
        };
        assert!(transaction.is_alone());
        let [Change::Statement(run)] = &transaction.changes[..] else {
            panic!("{transaction:?}");
        };
        let load = run.load.as_ref().expect("it loads");
        assert_eq!((&*load.data, &*load.tail), (&b"ab"[..], " TABLE t"));
        assert!(load.refuses && !load.replaces && run.is_exact);
    }

    #[test]
    fn what_is_told_in_part_is_an_error() {
        for lines in [
            vec!["x"],
            vec![LINES[3]],
            vec![LINES[0], LINES[2]],
            vec![r#"{"event":"ddl","sql":"x"}"#],
            vec![r#"{"event":"statement","sql":"x"}"#],
            vec![r#"{"event":"block","file":1,"data":{"base64":"!"}}"#],
            vec![
                LINES[0],
                LINES[1],
                r#"{"event":"row","database":"d","table":"t","kind":"update","after":{"a":1}}"#,
            ],
        ] {
            let mut all = Gatherer::default();
            let (last, first) = lines.split_last().expect("some");
            for line in first {
                assert_eq!(heard(&mut all, line), Heard::Nothing);
            }
            assert!(all.take(last.as_bytes()).is_err(), "{last}");
        }
    }
}
