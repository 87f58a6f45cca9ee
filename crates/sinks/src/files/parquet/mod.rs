//! Lines of events as files of Parquet: one of each table, and one of what is no row.
//!
//! Invariants: the same lines give the same files, so that a conversion which a death cut short is done once more;
//! nothing in a line is left out: a value that its column cannot have stands in the column `unmapped`; a table whose
//! columns change goes on in another file.

mod columns;
mod format;
mod raw;
mod thrift;

use std::collections::BTreeMap;
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::spec::Compression;
use columns::{Described, Kind};
use format::{Column, Logical, Node, Physical, Writer};

/// Rows that wait for their row groups, over all tables.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// After so many rows it is counted how much waits.
const ROWS_UNCOUNTED: u64 = 64;

/// The directory of what is no row. No database's directory has files in it.
const EVENTS: &str = "_events";

/// What becomes of one file of lines.
pub(super) struct Conversion<'a> {
    /// Where the tables' directories are.
    pub(super) dir: &'a Path,
    /// The name of the files without their end.
    pub(super) name: &'a str,
    pub(super) compress: Compression,
}

/// A file that was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Written {
    /// Below the directory.
    pub(super) path: String,
    pub(super) rows: u64,
    pub(super) bytes: u64,
}

/// A table's columns, and the file that has its rows now.
struct Table {
    database: String,
    name: String,
    columns: Vec<(String, Kind)>,
    /// As the stream told them.
    told: String,
    /// How many files were begun.
    part: u32,
    writer: Option<Writer>,
}

/// The files of one conversion.
struct Files<'a> {
    of: &'a Conversion<'a>,
    tables: BTreeMap<(String, String), Table>,
    events: Option<Writer>,
    done: Vec<Written>,
    rows: u64,
    /// The token of the last line.
    token: String,
}

impl Conversion<'_> {
    /// Writes the files.
    pub(super) fn run(&self, mut lines: impl BufRead) -> io::Result<Vec<Written>> {
        let mut files = Files {
            of: self,
            tables: BTreeMap::new(),
            events: None,
            done: Vec::new(),
            rows: 0,
            token: String::new(),
        };
        let mut line = String::new();
        loop {
            line.clear();
            if lines.read_line(&mut line)? == 0 {
                return files.finish();
            }
            files.take(line.trim_end())?;
        }
    }
}

/// A line's members, each as it stands there.
struct Members<'a>(BTreeMap<String, &'a str>);

impl<'a> Members<'a> {
    fn of(line: &'a str) -> io::Result<Members<'a>> {
        let members =
            raw::members(line).ok_or_else(|| io::Error::other("a line that is no event"))?;
        Ok(Members(members.into_iter().collect()))
    }

    fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied().filter(|it| *it != "null")
    }

    fn text(&self, name: &str) -> Option<String> {
        serde_json::from_str(self.raw(name)?).ok()
    }
}

impl Files<'_> {
    fn take(&mut self, line: &str) -> io::Result<()> {
        let members = Members::of(line)?;
        if let Some(token) = members.text("token") {
            self.token = token;
        }
        let table = members.text("database").zip(members.text("table"));
        match (members.text("event").as_deref(), table) {
            (Some("begin" | "commit"), _) => Ok(()),
            (Some("columns"), Some(name)) => self.describe(name, &members),
            (Some("row"), Some(name)) if self.tables.contains_key(&name) => {
                self.row(&name, &members)
            }
            _ => self.event(&members, line),
        }
    }

    /// A table has these columns from here on.
    fn describe(&mut self, name: (String, String), members: &Members<'_>) -> io::Result<()> {
        let told = members.raw("columns").unwrap_or("[]").to_owned();
        let described: Vec<Described> = serde_json::from_str(&told).map_err(io::Error::other)?;
        let columns = described.into_iter().map(|it| (it.name.clone(), it.kind()));
        let columns = columns.collect();
        let Some(table) = self.tables.get_mut(&name) else {
            let table = Table {
                database: name.0.clone(),
                name: name.1.clone(),
                columns,
                told,
                part: 0,
                writer: None,
            };
            self.tables.insert(name, table);
            return Ok(());
        };
        if table.told == told {
            return Ok(());
        }
        let done = table.finish(self.of, &self.token)?;
        self.done.extend(done);
        table.columns = columns;
        table.told = told;
        Ok(())
    }

    fn row(&mut self, name: &(String, String), members: &Members<'_>) -> io::Result<()> {
        let Some(table) = self.tables.get_mut(name) else {
            return Ok(());
        };
        table.row(self.of, members)?;
        self.rows += 1;
        match self.rows % ROWS_UNCOUNTED {
            0 => self.flush_if_many(),
            _ => Ok(()),
        }
    }

    /// What is no row stands there as it was told.
    fn event(&mut self, members: &Members<'_>, line: &str) -> io::Result<()> {
        let writer = match &mut self.events {
            Some(writer) => writer,
            None => {
                let dir = self.of.dir.join(EVENTS);
                std::fs::create_dir_all(&dir)?;
                let path = dir.join(format!("{}.parquet", self.of.name));
                self.events
                    .insert(Writer::new(path, of_events(), self.of.compress))
            }
        };
        let mut cells = Cells::of(writer);
        cells.head(members);
        cells.text(members.text("event"));
        cells.text(Some(line.to_owned()));
        if writer.end_row() {
            writer.write_group()?;
        }
        Ok(())
    }

    /// Writes what waits if all tables together have much of it.
    fn flush_if_many(&mut self) -> io::Result<()> {
        let writers = self.tables.values().filter_map(|it| it.writer.as_ref());
        let waiting: usize = writers.map(Writer::bytes_waiting).sum();
        if waiting > WAITING_BYTES_MAX {
            for writer in self.tables.values_mut().filter_map(|it| it.writer.as_mut()) {
                writer.write_group()?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<Vec<Written>> {
        for table in self.tables.values_mut() {
            self.done.extend(table.finish(self.of, &self.token)?);
        }
        if let Some(writer) = self.events.take() {
            let (rows, bytes) = writer.finish(&[("heddle.token", self.token.clone())])?;
            let path = format!("{EVENTS}/{}.parquet", self.of.name);
            self.done.push(Written { path, rows, bytes });
        }
        Ok(self.done)
    }
}

impl Table {
    /// Below the directory of all tables.
    fn path(&self, of: &Conversion<'_>) -> String {
        let (database, table) = (piece(&self.database), piece(&self.name));
        let part = match self.part {
            1 => String::new(),
            part => format!("-{part}"),
        };
        format!("{database}/{table}/{}{part}.parquet", of.name)
    }

    fn row(&mut self, of: &Conversion<'_>, members: &Members<'_>) -> io::Result<()> {
        if self.writer.is_none() {
            self.part += 1;
            let path: PathBuf = of.dir.join(self.path(of));
            std::fs::create_dir_all(path.parent().unwrap_or(of.dir))?;
            self.writer = Some(Writer::new(path, of_rows(&self.columns), of.compress));
        }
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        let mut cells = Cells::of(writer);
        cells.head(members);
        cells.text(members.text("kind"));
        cells.text(members.text("sql"));
        let mut unmapped = Vec::new();
        for side in ["before", "after"] {
            let image = members.raw(side).and_then(raw::members);
            let odd = cells.image(&self.columns, image);
            if !odd.is_empty() {
                unmapped.push(format!("\"{side}\":{{{}}}", odd.join(",")));
            }
        }
        let unmapped = (!unmapped.is_empty()).then(|| format!("{{{}}}", unmapped.join(",")));
        cells.text(unmapped);
        if writer.end_row() {
            writer.write_group()?;
        }
        Ok(())
    }

    fn finish(&mut self, of: &Conversion<'_>, token: &str) -> io::Result<Option<Written>> {
        let path = self.path(of);
        let Some(writer) = self.writer.take() else {
            return Ok(None);
        };
        let said = [
            ("heddle.table", format!("{}.{}", self.database, self.name)),
            ("heddle.columns", self.told.clone()),
            ("heddle.token", token.to_owned()),
        ];
        let (rows, bytes) = writer.finish(&said)?;
        Ok(Some(Written { path, rows, bytes }))
    }
}

/// The columns of one row that get their values, one after the other.
struct Cells<'a>(std::slice::IterMut<'a, Node>);

impl Cells<'_> {
    fn of(writer: &mut Writer) -> Cells<'_> {
        Cells(writer.nodes().iter_mut())
    }

    fn one(&mut self, bytes: Option<&[u8]>) {
        if let Some(Node::One(column)) = self.0.next() {
            match bytes {
                Some(bytes) => column.put(bytes),
                None => column.put_none(0),
            }
        }
    }

    fn text(&mut self, text: Option<String>) {
        self.one(text.as_deref().map(str::as_bytes));
    }

    /// What all events have: [`HEAD`].
    fn head(&mut self, members: &Members<'_>) {
        for name in ["id", "group", "gtid", "xid"] {
            self.text(members.text(name));
        }
        let seconds = members.raw("time").and_then(|it| it.parse::<i64>().ok());
        let milliseconds = seconds.map(|it| (it * 1000).to_le_bytes());
        self.one(milliseconds.as_ref().map(|it| &it[..]));
    }

    /// An image of the row; gives the members that their columns cannot have.
    fn image(
        &mut self,
        columns: &[(String, Kind)],
        image: Option<Vec<(String, &str)>>,
    ) -> Vec<String> {
        let Some(Node::Several(_, cells)) = self.0.next() else {
            return Vec::new();
        };
        let Some(image) = image else {
            cells.iter_mut().for_each(|it| it.put_none(0));
            return Vec::new();
        };
        let image: BTreeMap<&str, &str> = image.iter().map(|(name, raw)| (&**name, *raw)).collect();
        let mut odd = Vec::new();
        for (cell, (name, kind)) in cells.iter_mut().zip(columns) {
            let raw = image.get(&**name).copied().filter(|it| *it != "null");
            let stored = raw.and_then(|raw| kind.stored(raw));
            match (&stored, raw) {
                (Some(bytes), _) => cell.put(bytes),
                (None, None) => cell.put_none(1),
                (None, Some(raw)) => {
                    cell.put_none(1);
                    odd.push(format!("{}:{raw}", Value::from(&**name)));
                }
            }
        }
        odd
    }
}

fn text(name: &str) -> Column {
    Column::new(name, Physical::Bytes, Logical::Text).optional()
}

/// The columns that all events have.
fn head() -> Vec<Node> {
    let time = Column::new("time", Physical::I64, Logical::Milliseconds).optional();
    let texts = ["id", "group", "gtid", "xid"].map(text);
    texts.into_iter().chain([time]).map(Node::One).collect()
}

fn of_rows(columns: &[(String, Kind)]) -> Vec<Node> {
    let image = || {
        columns
            .iter()
            .map(|(name, kind)| kind.column(name))
            .collect()
    };
    let mut nodes = head();
    nodes.extend(["kind", "sql"].map(text).map(Node::One));
    nodes.extend(["before", "after"].map(|side| Node::Several(side.to_owned(), image())));
    let unmapped = Column::new("unmapped", Physical::Bytes, Logical::Json).optional();
    nodes.push(Node::One(unmapped));
    nodes
}

fn of_events() -> Vec<Node> {
    let line = Column::new("line", Physical::Bytes, Logical::Json).optional();
    let mut nodes = head();
    nodes.extend([text("event"), line].map(Node::One));
    nodes
}

/// A name as a directory's: what means something in a path is written as in URLs.
fn piece(name: &str) -> String {
    let mut piece = String::new();
    for (at, c) in name.chars().enumerate() {
        match c {
            '/' | '%' | '\0' => piece.push_str(&format!("%{:02X}", c as u32)),
            '.' | '_' if at == 0 => piece.push_str(&format!("%{:02X}", c as u32)),
            c => piece.push(c),
        }
    }
    piece
}

/// A line of the files that a file of lines became, with the token behind them.
pub(super) fn manifest(token: &str, files: &[Written]) -> String {
    let files: Vec<Value> = files
        .iter()
        .map(|it| json!({ "path": it.path, "rows": it.rows, "bytes": it.bytes }))
        .collect();
    format!("{}\n", json!({ "token": token, "files": files }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = concat!(
        r#"{"event":"columns","database":"d","table":"t","columns":[{"name":"a","type":"int"}]}"#,
        "\n",
        r#"{"id":"1","token":"x","event":"row","group":"g","time":1,"database":"d","table":"t","kind":"insert","before":null,"after":{"a":1}}"#,
        "\n",
        r#"{"id":"2","token":"y","event":"ddl","group":"g","time":1,"database":"d","sql":"ALTER"}"#,
        "\n",
        r#"{"id":"3","token":"z","event":"columns","database":"d","table":"t","columns":[{"name":"b","type":"date"}]}"#,
        "\n",
        r#"{"id":"4","token":"z","event":"row","group":"g","time":1,"database":"d","table":"t","kind":"insert","before":null,"after":{"b":"0000-00-00"}}"#,
        "\n",
        r#"{"id":"5","token":"zz","event":"commit","group":"g","time":1}"#,
        "\n",
    );

    #[test]
    fn a_table_goes_on_in_another_file_when_its_columns_change() {
        let dir = tempfile::tempdir().expect("a directory");
        let convert = || {
            let conversion = Conversion {
                dir: dir.path(),
                name: "s-1",
                compress: Compression::Zstd,
            };
            conversion.run(LINES.as_bytes()).expect("it is written")
        };
        let written = convert();
        let paths: Vec<&str> = written.iter().map(|it| &*it.path).collect();
        let expected = [
            "d/t/s-1.parquet",
            "d/t/s-1-2.parquet",
            "_events/s-1.parquet",
        ];
        assert_eq!(paths, expected);
        assert!(written.iter().all(|it| it.rows == 1));
        let read = |path: &str| std::fs::read(dir.path().join(path)).expect("it is there");
        let first: Vec<Vec<u8>> = paths.iter().map(|path| read(path)).collect();
        assert_eq!(convert(), written);
        let second: Vec<Vec<u8>> = paths.iter().map(|path| read(path)).collect();
        assert_eq!(first, second, "the same lines give the same files");
    }

    #[test]
    fn names_are_pieces_of_a_path() {
        assert_eq!(piece("shop"), "shop");
        assert_eq!(piece("../a%"), "%2E.%2Fa%25");
        assert_eq!(piece("_events"), "%5Fevents");
    }
}
