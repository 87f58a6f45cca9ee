//! A part of tables on its way from one group to another: which rows, by what they are known, and how
//! they are copied, followed, compared and deleted.
//!
//! Rows are known by their primary keys. A copy reads the source in the order of the key, a piece at a
//! time and each for itself; what changes meanwhile is known by its keys from the binary log, and these
//! rows are fetched again ([`Ferry::bring`]). So nothing is locked for long, and whatever was read too
//! early is read once more; when the source stands still and all its changes have been brought, both
//! sides are equal, which [`Ferry::sum`] proves.
//!
//! Invariants: nothing is written on the source but heartbeats and, when all is over, deletions; at the
//! target only rows of the part are touched.

mod ferry;
mod key;
mod prepared;
mod writers;

use std::collections::BTreeMap;

pub use ferry::{Ferry, Piece};
pub use key::{Key, KeyPart};
pub(crate) use key::{compared, parts};
pub use prepared::prepared_now;
pub use writers::await_writers;

use enginesql::quoted;
use sqltext::ticked;

use crate::copy::{Column, columns};
use crate::error::Error;
use crate::link::{Link, text_at};

/// A table, and which of its rows are meant.
pub struct PartTable {
    pub database: String,
    pub name: String,
    /// True for the rows that are meant, in SQL.
    pub only: String,
    /// What is written: all but what servers compute.
    pub(crate) columns: Vec<Column>,
    /// The columns of the primary key, in its order.
    pub keys: Vec<KeyPart>,
    /// What a deleted or renumbered row takes along in other tables, past the binary log.
    pub cascades: Vec<Cascade>,
}

/// A foreign key whose rows follow those of the table that it names.
pub struct Cascade {
    pub database: String,
    pub table: String,
    /// Its columns, in the order of the primary key that they name.
    pub columns: Vec<String>,
}

/// What a table has that cannot be moved, for people.
pub type Objections = Vec<String>;

impl PartTable {
    /// Reads how a table is made. Empty objections: its rows can be moved.
    pub async fn read(
        link: &mut Link,
        database: &str,
        name: &str,
        only: &str,
        timeout_ms: u64,
    ) -> Result<(PartTable, Objections), Error> {
        let mut table = PartTable {
            database: database.to_owned(),
            name: name.to_owned(),
            only: only.to_owned(),
            columns: columns(link, database, name, false, timeout_ms).await?,
            keys: key::parts(link, database, name, timeout_ms).await?,
            cascades: Vec::new(),
        };
        let mut objections = Vec::new();
        let full = format!("{database}.{name}");
        if table.keys.is_empty() {
            objections.push(format!("{full} has no primary key: add one"));
        }
        for part in table.keys.iter().filter(|part| !part.is_known()) {
            objections.push(format!(
                "{full} has {} of the type {} in its primary key, by which rows cannot be told apart \
                 here: use an integer, text, bytes or a date",
                part.name, part.data_type
            ));
        }
        let sql = format!(
            "SELECT TABLE_TYPE FROM information_schema.TABLES WHERE TABLE_SCHEMA={} AND TABLE_NAME={}",
            quoted(database),
            quoted(name)
        );
        let kind = link.cell("look at a table", &sql, timeout_ms).await?;
        if kind.as_deref() == Some("SYSTEM VERSIONED") {
            objections.push(format!(
                "{full} keeps its history (WITH SYSTEM VERSIONING), which would be lost: drop it first"
            ));
        }
        table
            .read_cascades(link, timeout_ms, &mut objections)
            .await?;
        Ok((table, objections))
    }

    async fn read_cascades(
        &mut self,
        link: &mut Link,
        timeout_ms: u64,
        objections: &mut Objections,
    ) -> Result<(), Error> {
        let (database, name) = (quoted(&self.database), quoted(&self.name));
        let sql = format!(
            "SELECT r.CONSTRAINT_SCHEMA, r.TABLE_NAME, r.CONSTRAINT_NAME, k.COLUMN_NAME, \
             k.REFERENCED_COLUMN_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS r \
             JOIN information_schema.KEY_COLUMN_USAGE k ON k.CONSTRAINT_SCHEMA=r.CONSTRAINT_SCHEMA \
             AND k.CONSTRAINT_NAME=r.CONSTRAINT_NAME AND k.TABLE_NAME=r.TABLE_NAME \
             WHERE r.UNIQUE_CONSTRAINT_SCHEMA={database} AND r.REFERENCED_TABLE_NAME={name} \
             AND (r.DELETE_RULE IN ('CASCADE','SET NULL','SET DEFAULT') \
             OR r.UPDATE_RULE IN ('CASCADE','SET NULL','SET DEFAULT')) ORDER BY k.ORDINAL_POSITION"
        );
        let mut all: BTreeMap<[String; 3], Vec<[String; 2]>> = BTreeMap::new();
        for row in link.rows("list foreign keys", &sql, timeout_ms).await? {
            let cell = |at| text_at(&row, at).unwrap_or_default();
            let of = all.entry([cell(0), cell(1), cell(2)]).or_default();
            of.push([cell(3), cell(4)]);
        }
        for ([database, table, constraint], pairs) in all {
            let by = |part: &KeyPart| {
                let mut pairs = pairs.iter();
                let found = pairs.find(|[_, named]| named.eq_ignore_ascii_case(&part.name));
                found.map(|[own, _]| own.clone())
            };
            let columns: Option<Vec<String>> = self.keys.iter().map(by).collect();
            match columns.filter(|columns| columns.len() == pairs.len()) {
                Some(columns) => self.cascades.push(Cascade {
                    database,
                    table,
                    columns,
                }),
                None => objections.push(format!(
                    "the foreign key {constraint} of {database}.{table} follows {}.{} by other columns \
                     than its primary key, and what it changes is in no binary log: drop it for the move",
                    self.database, self.name
                )),
            }
        }
        Ok(())
    }

    /// Foreign keys of this table that name others: their tables.
    pub async fn named_by(
        &self,
        link: &mut Link,
        timeout_ms: u64,
    ) -> Result<Vec<(String, String)>, Error> {
        let sql = format!(
            "SELECT DISTINCT UNIQUE_CONSTRAINT_SCHEMA, REFERENCED_TABLE_NAME FROM \
             information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA={} AND TABLE_NAME={}",
            quoted(&self.database),
            quoted(&self.name)
        );
        let rows = link.rows("list foreign keys", &sql, timeout_ms).await?;
        let pair = |row: &mysql_async::Row| {
            let cell = |at| text_at(row, at).unwrap_or_default();
            (cell(0), cell(1))
        };
        Ok(rows.iter().map(pair).collect())
    }

    /// The names of its triggers.
    pub async fn triggers(&self, link: &mut Link, timeout_ms: u64) -> Result<Vec<String>, Error> {
        let sql = format!(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA={} AND \
             EVENT_OBJECT_TABLE={}",
            quoted(&self.database),
            quoted(&self.name)
        );
        let rows = link.rows("list triggers", &sql, timeout_ms).await?;
        Ok(rows.iter().filter_map(|row| text_at(row, 0)).collect())
    }

    /// Takes its triggers away: what they do to rows was done where these come from.
    pub async fn drop_triggers(&self, link: &mut Link, timeout_ms: u64) -> Result<(), Error> {
        for trigger in self.triggers(link, timeout_ms).await? {
            let name = format!("{}.{}", ticked(&self.database), ticked(&trigger));
            let sql = format!("DROP TRIGGER IF EXISTS {name}");
            link.run("drop a trigger", &sql, timeout_ms).await?;
        }
        Ok(())
    }

    /// How its name is written.
    pub fn full(&self) -> String {
        format!("{}.{}", ticked(&self.database), ticked(&self.name))
    }
}

/// What the binary log of a server must say of rows: `None` when it says enough, else the cure.
pub async fn log_objection(link: &mut Link, timeout_ms: u64) -> Result<Option<String>, Error> {
    let sql = "SELECT @@global.log_bin, @@global.binlog_format";
    let rows = link.rows("look at the binary log", sql, timeout_ms).await?;
    let cell = |at| {
        rows.first()
            .and_then(|row| text_at(row, at))
            .unwrap_or_default()
    };
    if cell(0) != "1" {
        return Ok(Some("it writes no binary log: set log_bin".to_owned()));
    }
    Ok((cell(1) != "ROW").then(|| {
        format!(
            "binlog_format is {}: SET GLOBAL binlog_format='ROW', and connect anew",
            cell(1)
        )
    }))
}
