//! Transactions as records of Debezium's form, in place of lines of the stream's own.

use serde_json::Value;

use super::{Current, Teller, Told};
use crate::debezium::{Debezium, Of, Types, begun, definition, ended, row};
use crate::event::Logged;
use crate::gtid::Gtid;
use crate::json;
use crate::replication::Filter;
use crate::rows::{Change, Rows};
use crate::table::Table;

/// Where a transaction is from.
#[derive(Clone, Debug, Default)]
pub(super) struct Origin {
    is_of_mariadb: bool,
    file: String,
    end: u64,
}

impl Origin {
    pub(super) fn of(gtid: &Gtid) -> Origin {
        match gtid {
            Gtid::MariaDb { .. } => Origin {
                is_of_mariadb: true,
                ..Origin::default()
            },
            Gtid::MySql { .. } => Origin::default(),
        }
    }
}

impl<F: Filter> Teller<F> {
    /// Tells in this form from here on.
    pub fn tell_as(&mut self, types: Types) {
        self.types = types;
    }

    /// It is so late now; milliseconds since 1970.
    pub fn set_now(&mut self, now_ms: u64) {
        self.now_ms = now_ms;
    }

    /// Where the transaction that has begun ends in its server's binlog.
    pub fn set_place(&mut self, (file, end): (&str, u64)) {
        self.current.origin.file = file.to_owned();
        self.current.origin.end = end;
    }

    pub(super) fn debezium(&self) -> Option<&Debezium> {
        match &self.types {
            Types::Heddle => None,
            Types::Debezium(form) => Some(form),
        }
    }

    /// A wanted row's change; one that was told before counts all the same.
    pub(super) fn count(&mut self, table: &Table, change: &Change<'_>) {
        let is_counted = self.debezium().is_some();
        let so_far = &mut self.current.so_far;
        so_far.rows += 1;
        if is_counted {
            let records = if is_rekeyed(table, change) { 2 } else { 1 };
            let name = format!("{}.{}", table.database, table.name);
            so_far.records += records;
            *so_far.tables.entry(name).or_default() += records;
        }
    }

    /// The records of a change that was counted. The last one has its number, those in front of it that of the change before.
    pub(super) fn records(
        &mut self,
        rows: &Rows,
        change: &Change<'_>,
        before: u32,
        out: &mut Vec<Told>,
    ) -> Result<(), String> {
        let sql = self.current.source.take();
        let table = &rows.table;
        self.defined.note(table);
        let name = format!("{}.{}", table.database, table.name);
        let told = if is_rekeyed(table, change) { 1 } else { 0 };
        let so_far = &self.current.so_far;
        let in_table = so_far.tables.get(&name).copied().unwrap_or(1);
        let (id, order) = (self.current.id(), so_far.records);
        let Some(form) = self.debezium() else {
            return Ok(());
        };
        let of = Of {
            sql: sql.as_deref(),
            transaction: Some((&id, order - told, in_table - told)),
            ..self.of(form, Some(&self.current))
        };
        let records = row(&of, table, change)?;
        let last = records.len() - 1;
        for (at, record) in records.into_iter().enumerate() {
            let mut line = self.head("row", &self.current);
            super::of_table(table, &mut line);
            if at < last {
                line.push_str(&format!(",\"part\":{}", at + 1));
            }
            let index = if at < last {
                before
            } else {
                self.current.so_far.index
            };
            line.push_str(&record);
            out.push(Told {
                line,
                index: Some(index),
            });
        }
        Ok(())
    }

    /// A row that a snapshot read.
    pub(super) fn record_read(
        &mut self,
        table: &Table,
        change: &Change<'_>,
        time_s: u32,
    ) -> Result<String, String> {
        self.defined.note(table);
        let Some(form) = self.debezium() else {
            return Ok(String::new());
        };
        let of = Of {
            logged: time_s.into(),
            ..self.of(form, None)
        };
        Ok(row(&of, table, change)?.pop().unwrap_or_default())
    }

    /// What a definition makes of tables, for a record, and as a member of the stream's own line. Those that are not told
    /// count, too.
    pub(super) fn note_definition(&mut self, database: &str, sql: &str) -> (Vec<Value>, String) {
        if self.debezium().is_some() {
            return (self.defined.define(database, sql), String::new());
        }
        let tables = self.defined.define_plainly(database, sql);
        let member = match tables.is_empty() {
            true => String::new(),
            false => format!(",\"tables\":{}", Value::from(tables)),
        };
        (Vec::new(), member)
    }

    /// A definition, as the rest of its line.
    pub(super) fn record_definition(
        &self,
        (database, sql): (&str, &str),
        changes: &[Value],
        time_s: Option<u32>,
    ) -> String {
        let Some(form) = self.debezium() else {
            return String::new();
        };
        let of = self.of(form, time_s.is_none().then_some(&self.current));
        let of = Of {
            logged: time_s.map_or(of.logged, Logged::from),
            ..of
        };
        definition(&of, database, sql, changes)
    }

    pub(super) fn record_begin(&self) -> String {
        let form = self.debezium();
        let of = form.map(|form| self.of(form, Some(&self.current)));
        of.map_or(String::new(), |of| begun(&of, &self.current.id()))
    }

    pub(super) fn record_end(&self, current: &Current) -> String {
        let form = self.debezium();
        let Some(of) = form.map(|form| self.of(form, Some(current))) else {
            return String::new();
        };
        let tables = current.so_far.tables.iter();
        ended(
            &of,
            &current.id(),
            tables.map(|(name, count)| (&**name, *count)),
        )
    }

    fn of<'a>(&self, form: &'a Debezium, current: Option<&'a Current>) -> Of<'a> {
        let origin = current.map(|it| &it.origin);
        Of {
            form,
            connector: match origin.is_some_and(|it| it.is_of_mariadb) {
                true => "mariadb",
                false => "mysql",
            },
            gtid: current.map(|it| &*it.gtid),
            place: origin.map_or(("", 0), |it| (&it.file, it.end)),
            row: current.map_or(0, |it| u64::from(it.so_far.index.saturating_sub(1))),
            logged: current.map(|it| it.logged).unwrap_or_default(),
            now_ms: self.now_ms,
            sql: None,
            transaction: None,
        }
    }
}

impl Current {
    /// What the transaction is called.
    fn id(&self) -> String {
        self.xid.clone().unwrap_or_else(|| self.gtid.clone())
    }
}

/// The row has another primary key than before.
fn is_rekeyed(table: &Table, change: &Change<'_>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return false;
    };
    let key = |image| json::key_of(image, table);
    let (old, new) = (key(before), key(after));
    old.is_some() && new.is_some() && old != new
}
