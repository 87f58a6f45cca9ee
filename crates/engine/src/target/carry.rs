//! The carrying out of one transaction.
//!
//! At first all of it is sent at once, as the rows should be found. When a row is not as the stream says, or another
//! transaction is in the way, everything is rolled back and done again row by row, when no transaction before it is
//! under way any more: then each row becomes what the stream says, and what was found otherwise is reported.

use std::collections::HashMap;

use changes::Kind;
use changes::apply::{Change, Described, RowChange, Transaction};
use serde_json::{Map, Value};
use sqltext::ticked;

use super::literal::literal;
use super::tables::TargetTable;
use super::{OPERATION, STATEMENT_MS, Target, full};
use crate::error::Error;
use crate::link::text_at;

/// Statements that are sent together have so many bytes; one may make it more.
const PACKET_BYTES: usize = 1 << 20;

/// Rows of one INSERT.
const ROWS_MAX: usize = 500;

/// ER_DUP_ENTRY, and what foreign keys refuse: ER_ROW_IS_REFERENCED_2, ER_NO_REFERENCED_ROW_2.
const DUPLICATE: u16 = 1062;
const OF_FOREIGN_KEYS: [u16; 2] = [1451, 1452];

/// ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK.
const OF_LOCKS: [u16; 2] = [1205, 1213];

/// So often a transaction begins again because of locks.
const TRIES: u32 = 10;

/// What became of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Carried {
    /// With what was found otherwise than the stream says, for people.
    Done(Vec<String>),
    /// It has to be done again by itself.
    NotYet,
}

/// Why a transaction cannot be carried out.
#[derive(Debug)]
pub enum Refusal {
    Server(Error),
    /// What does not fit, and what to do.
    Row(String),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Server(error)
    }
}

impl From<String> for Refusal {
    fn from(what: String) -> Refusal {
        Refusal::Row(what)
    }
}

/// The tables of a transaction, by database and name.
pub type Tables = HashMap<(String, String), TargetTable>;

/// A statement, and how many rows it changes.
type Counted = (String, usize);

impl Target {
    /// Carries a transaction out, if everything is as the stream says.
    ///
    /// # Errors
    /// The server fails, or another applier took over.
    pub async fn carry(
        &mut self,
        transaction: &Transaction,
        number: u64,
        tables: &Tables,
    ) -> Result<Carried, Refusal> {
        let Some(statements) = batched(transaction, tables)? else {
            return Ok(Carried::NotYet);
        };
        let begun = self.begin_sql(transaction, number);
        match self.send_all(&begun, &statements).await {
            Ok(true) => {
                self.link.run(OPERATION, "COMMIT", STATEMENT_MS).await?;
                Ok(Carried::Done(Vec::new()))
            }
            Ok(false) => {
                self.roll_back().await?;
                Ok(Carried::NotYet)
            }
            Err(error) if error.number().is_some() => {
                self.roll_back().await?;
                Ok(Carried::NotYet)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Carries a transaction out before which all are done, and makes each row what the stream says.
    ///
    /// # Errors
    /// A row's place is taken by another one, the server fails, or another applier took over.
    pub async fn carry_alone(
        &mut self,
        transaction: &Transaction,
        number: u64,
        tables: &Tables,
    ) -> Result<Vec<String>, Refusal> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.carry_rows(transaction, number, tables).await {
                Err(Refusal::Server(error)) if tries < TRIES && is_one_of(&error, &OF_LOCKS) => {
                    self.roll_back().await?;
                }
                Err(Refusal::Server(error)) if error.number().is_none() => return Err(error.into()),
                Err(refusal) => {
                    self.roll_back().await?;
                    return Err(refusal);
                }
                Ok(found) => return Ok(found),
            }
        }
    }

    /// Replaces rows by those that a snapshot read. They may be sent again.
    ///
    /// # Errors
    /// As with [`Target::carry_alone`].
    pub async fn carry_read(
        &mut self,
        transaction: &Transaction,
        tables: &Tables,
    ) -> Result<(), Refusal> {
        // Rows of other tables may follow.
        let begin = "SET SESSION foreign_key_checks=0; BEGIN";
        self.link.run(OPERATION, begin, STATEMENT_MS).await?;
        self.lead(OPERATION).await?;
        let statements = batched(transaction, tables)?.ok_or_else(|| {
            "a table of the target lacks a column of the rows that a snapshot read; add it there, or drop the table, \
             so that it is made anew"
                .to_owned()
        })?;
        for (sql, _) in statements {
            self.link.run(OPERATION, &sql, STATEMENT_MS).await?;
        }
        let end = "COMMIT; SET SESSION foreign_key_checks=1";
        Ok(self.link.run(OPERATION, end, STATEMENT_MS).await?)
    }

    async fn roll_back(&mut self) -> Result<(), Error> {
        let sql = "ROLLBACK; SET SESSION foreign_key_checks=1";
        self.link.run(OPERATION, sql, STATEMENT_MS).await
    }

    fn begin_sql(&self, transaction: &Transaction, number: u64) -> String {
        let gtid = transaction.gtid.as_deref().unwrap_or_default();
        let done = self.done(&transaction.group, gtid, number);
        format!("BEGIN; {}; {done}", self.leads())
    }

    /// Sends everything in few packets; true when each statement changed as many rows as it should.
    async fn send_all(&mut self, begun: &str, statements: &[Counted]) -> Result<bool, Error> {
        let mut packet = begun.to_owned();
        let mut expected: Vec<usize> = Vec::new();
        let mut is_first = true;
        for (at, (sql, rows)) in statements.iter().enumerate() {
            packet.push_str(&format!("; {sql}; SELECT 'rows', ROW_COUNT()"));
            expected.push(*rows);
            if packet.len() < PACKET_BYTES && at + 1 < statements.len() {
                continue;
            }
            let sets = self.link.sets(OPERATION, &packet, STATEMENT_MS).await?;
            packet = "DO 0".to_owned();
            let mut leads = !std::mem::take(&mut is_first);
            let mut counts = Vec::new();
            for row in sets.into_iter().flatten() {
                match text_at(&row, 0).as_deref() {
                    Some("leads") => leads = true,
                    Some("rows") => {
                        counts.push(text_at(&row, 1).and_then(|it| it.parse::<usize>().ok()));
                    }
                    _ => {}
                }
            }
            if !leads {
                return Err(self.deposed());
            }
            let expected = std::mem::take(&mut expected).into_iter().map(Some);
            if counts != expected.collect::<Vec<_>>() {
                return Ok(false);
            }
        }
        if statements.is_empty() {
            self.link.run(OPERATION, begun, STATEMENT_MS).await?;
        }
        Ok(true)
    }

    async fn carry_rows(
        &mut self,
        transaction: &Transaction,
        number: u64,
        tables: &Tables,
    ) -> Result<Vec<String>, Refusal> {
        self.link.run(OPERATION, "BEGIN", STATEMENT_MS).await?;
        self.lead(OPERATION).await?;
        let gtid = transaction.gtid.as_deref().unwrap_or_default();
        let done = self.done(&transaction.group, gtid, number);
        match self.link.run(OPERATION, &done, STATEMENT_MS).await {
            // An earlier applier's last transaction arrived after all.
            Err(error) if is_one_of(&error, &[DUPLICATE]) => {
                self.roll_back().await?;
                return Ok(Vec::new());
            }
            other => other?,
        }
        let mut found = Vec::new();
        for change in &transaction.changes {
            if let Change::Statement(run) = change {
                let what = self.run_again(run).await?;
                found.extend(what.map(|it| format!("group {}, {gtid}: {it}", transaction.group)));
            }
            let Change::Row(row) = change else { continue };
            let statements = Statements::of(row, tables)?;
            if let Some(what) = self.carry_row(row, &statements).await? {
                found.push(format!("group {}, {gtid}: {what}", transaction.group));
            }
            found.extend(statements.missing.iter().map(|column| {
                format!(
                    "group {}, {gtid}: {} has no column {column}, whose value is left out",
                    transaction.group, statements.name
                )
            }));
        }
        self.link.run(OPERATION, "COMMIT", STATEMENT_MS).await?;
        Ok(found)
    }

    /// Makes one row what the stream says; gives what was found otherwise.
    async fn carry_row(
        &mut self,
        row: &RowChange,
        statements: &Statements,
    ) -> Result<Option<String>, Refusal> {
        let Statements {
            name,
            insert,
            update,
            delete,
            was,
            is,
            ..
        } = statements;
        let which = || match &row.key {
            Some(key) => Value::from(key.clone()).to_string(),
            None => "without a primary key".to_owned(),
        };
        let taken = |error: Error| match is_one_of(&error, &[DUPLICATE]) {
            true => Refusal::Row(format!(
                "a row of {name} {} has its place in a unique key taken by another row of the target: {error}; \
                 remove that row there, and apply on",
                which()
            )),
            false => Refusal::Server(error),
        };
        match row.kind {
            None | Some(Kind::Insert) => match self.change(insert).await {
                Ok(_) => Ok(None),
                Err(error) if is_one_of(&error, &[DUPLICATE]) && row.key.is_some() => {
                    let changed = self.change(update).await.map_err(taken)?;
                    if changed == 0 && !self.has(is).await? {
                        return Err(taken(error));
                    }
                    let found = (changed > 0).then(|| {
                        format!("{name} had a row {} already; it was overwritten", which())
                    });
                    Ok(found)
                }
                Err(error) => Err(taken(error)),
            },
            Some(Kind::Update) => {
                if self.change(update).await.map_err(taken)? > 0 || self.has(was).await? {
                    return Ok(None);
                }
                if self.has(is).await? {
                    return Ok(Some(format!(
                        "{name} had no row {}, and the row that it becomes; nothing was changed",
                        which()
                    )));
                }
                self.change(insert).await.map_err(taken)?;
                Ok(Some(format!(
                    "{name} had no row {}; it was inserted",
                    which()
                )))
            }
            Some(Kind::Delete) => {
                let changed = self.change(delete).await?;
                let found = || format!("{name} had no row {} to delete", which());
                Ok((changed == 0).then(found))
            }
        }
    }

    /// How many rows a statement changed. What foreign keys refuse is done without them: the stream has the rows that
    /// they ask for, or will.
    async fn change(&mut self, sql: &str) -> Result<usize, Error> {
        let counted = format!("{sql}; SELECT 'rows', ROW_COUNT()");
        let sets = match self.link.sets(OPERATION, &counted, STATEMENT_MS).await {
            Err(error) if is_one_of(&error, &OF_FOREIGN_KEYS) => {
                let unchecked = format!(
                    "SET SESSION foreign_key_checks=0; {counted}; SET SESSION foreign_key_checks=1"
                );
                self.link.sets(OPERATION, &unchecked, STATEMENT_MS).await?
            }
            other => other?,
        };
        let mut rows = sets.into_iter().flatten();
        let count = rows.find(|row| text_at(row, 0).as_deref() == Some("rows"));
        let count = count.and_then(|row| text_at(&row, 1));
        Ok(count.and_then(|it| it.parse().ok()).unwrap_or(0))
    }

    async fn has(&mut self, select: &str) -> Result<bool, Error> {
        let rows = self.link.rows(OPERATION, select, STATEMENT_MS).await?;
        Ok(!rows.is_empty())
    }
}

fn is_one_of(error: &Error, numbers: &[u16]) -> bool {
    error.number().is_some_and(|it| numbers.contains(&it))
}

/// A transaction's rows as statements; INSERTs into one table that follow each other are one. `None` when a value has
/// no column.
fn batched(transaction: &Transaction, tables: &Tables) -> Result<Option<Vec<Counted>>, String> {
    let mut all: Vec<Counted> = Vec::new();
    // The table and columns of the last statement, while rows can be added to it.
    let mut open: Option<String> = None;
    for change in &transaction.changes {
        let Change::Row(row) = change else { continue };
        let statements = Statements::of(row, tables)?;
        if !statements.missing.is_empty() {
            return Ok(None);
        }
        let (head, values) = &statements.parts;
        let is_insert = matches!(row.kind, None | Some(Kind::Insert));
        match (&open, all.last_mut()) {
            (Some(last), Some((sql, rows)))
                if is_insert
                    && last == head
                    && *rows < ROWS_MAX
                    && sql.len() + values.len() < PACKET_BYTES =>
            {
                sql.push_str(&format!(",({values})"));
                *rows += 1;
                continue;
            }
            _ => {}
        }
        open = is_insert.then(|| head.clone());
        all.push((
            match row.kind {
                None | Some(Kind::Insert) => format!("{head} ({values})"),
                Some(Kind::Update) => statements.update,
                Some(Kind::Delete) => statements.delete,
            },
            1,
        ));
    }
    Ok(Some(all))
}

/// What may be done about one row.
struct Statements {
    name: String,
    /// The head and the values of its INSERT.
    parts: (String, String),
    insert: String,
    update: String,
    delete: String,
    /// A row is there that has the key before the change, and after it.
    was: String,
    is: String,
    /// Columns that the target's table does not have.
    missing: Vec<String>,
}

impl Statements {
    fn of(row: &RowChange, tables: &Tables) -> Result<Statements, String> {
        let table = &row.table;
        let target = tables.get(&(table.database.clone(), table.name.clone()));
        let target = target.ok_or_else(|| format!("the target has no table {}", full(table)))?;
        let name = full(table);
        let none = Map::new();
        let after = row.after.as_ref().unwrap_or(&none);
        let mut missing = Vec::new();
        let (mut columns, mut values, mut set) = (Vec::new(), Vec::new(), Vec::new());
        for (column, value) in after {
            match target.writes(column) {
                Some(true) => {
                    let (quoted, value) = (ticked(column), told(table, column, value, target)?);
                    set.push(format!("{quoted}={value}"));
                    columns.push(quoted);
                    values.push(value);
                }
                Some(false) => {}
                None => missing.push(column.clone()),
            }
        }
        let verb = match row.kind {
            None => "REPLACE",
            Some(_) => "INSERT",
        };
        let head = format!("{verb} INTO {name} ({}) VALUES", columns.join(","));
        let values = values.join(",");
        let was = condition(row, row.before.as_ref().unwrap_or(after), target)?;
        let is = condition(row, row.after.as_ref().unwrap_or(&none), target)?;
        let found = match row.before {
            Some(_) => &was,
            None => &is,
        };
        let one = if row.key.is_none() { " LIMIT 1" } else { "" };
        Ok(Statements {
            insert: format!("{head} ({values})"),
            parts: (head, values),
            update: format!("UPDATE {name} SET {} WHERE {found}{one}", set.join(",")),
            delete: format!("DELETE FROM {name} WHERE {was}{one}"),
            was: format!("SELECT 1 FROM {name} WHERE {was} LIMIT 1"),
            is: format!("SELECT 1 FROM {name} WHERE {is} LIMIT 1"),
            name,
            missing,
        })
    }
}

/// By the primary key, or by all columns that can be compared.
fn condition(
    row: &RowChange,
    image: &Map<String, Value>,
    target: &TargetTable,
) -> Result<String, String> {
    let is_compared = |column: &&String| {
        let shape = row.table.columns.iter().find(|it| it.name == **column);
        let kind = shape.map_or("", |it| &it.data_type);
        match &row.key {
            Some(key) => key.contains_key(&**column),
            None => !["float", "double", "json"].contains(&kind) && target.writes(column).is_some(),
        }
    };
    let mut parts = Vec::new();
    for (column, value) in image.iter().filter(|(column, _)| is_compared(column)) {
        let value = told(&row.table, column, value, target)?;
        parts.push(format!("{}<=>{value}", ticked(column)));
    }
    match parts.is_empty() {
        true => Ok("TRUE".to_owned()),
        false => Ok(parts.join(" AND ")),
    }
}

fn told(
    table: &Described,
    column: &str,
    value: &Value,
    target: &TargetTable,
) -> Result<String, String> {
    if value.is_object() && target.is_uuid(column) {
        return Err(format!(
            "{column} of {} is a UUID at the target, and bytes in the stream: its servers have no such UUID any more; leave \
             the table out (--table)",
            full(table)
        ));
    }
    let shape = table.columns.iter().find(|it| it.name == column);
    let shape = shape.ok_or_else(|| format!("{} has no column {column}", full(table)))?;
    literal(value, shape)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use changes::apply::Shape;
    use serde_json::json;

    use super::*;

    fn table() -> Arc<Described> {
        let columns = [("id", "int"), ("v", "varchar"), ("g", "int"), ("x", "int")];
        Arc::new(Described {
            database: "d".to_owned(),
            name: "t".to_owned(),
            columns: columns
                .map(|(name, data_type)| Shape {
                    name: name.to_owned(),
                    data_type: data_type.to_owned(),
                    charset: None,
                })
                .to_vec(),
        })
    }

    fn row(kind: Option<Kind>, key: Value, before: Value, after: Value) -> Change {
        let image = |value: Value| value.as_object().cloned();
        Change::Row(RowChange {
            table: table(),
            kind,
            key: image(key),
            before: image(before),
            after: image(after),
        })
    }

    fn sql(changes: Vec<Change>) -> Vec<(String, usize)> {
        let transaction = Transaction {
            group: "g".to_owned(),
            gtid: Some("0-1-1".to_owned()),
            is_move: false,
            changes,
            token: String::new(),
            bytes: 0,
        };
        let tables = Tables::from([(
            ("d".to_owned(), "t".to_owned()),
            TargetTable::of(&["id", "v"], &["g"]),
        )]);
        let batched = batched(&transaction, &tables).expect("it can be told");
        batched.expect("it has all columns")
    }

    #[test]
    fn rows_are_statements_and_inserts_are_joined() {
        let insert = |id: i64| {
            let after = json!({"id": id, "v": "a", "g": 1});
            row(Some(Kind::Insert), json!({"id": id}), json!(null), after)
        };
        let update = row(
            Some(Kind::Update),
            json!({"id": 1}),
            json!({"id": 1, "v": "a", "g": 1}),
            json!({"id": 2, "v": null, "g": 1}),
        );
        let delete = row(
            Some(Kind::Delete),
            json!(null),
            json!({"id": 1, "v": "a"}),
            json!(null),
        );
        let all = sql(vec![insert(1), insert(2), update, insert(3), delete]);
        let expected = [
            (
                "INSERT INTO `d`.`t` (`id`,`v`) VALUES (1,_utf8mb4'a'),(2,_utf8mb4'a')",
                2,
            ),
            ("UPDATE `d`.`t` SET `id`=2,`v`=NULL WHERE `id`<=>1", 1),
            ("INSERT INTO `d`.`t` (`id`,`v`) VALUES (3,_utf8mb4'a')", 1),
            (
                "DELETE FROM `d`.`t` WHERE `id`<=>1 AND `v`<=>_utf8mb4'a' LIMIT 1",
                1,
            ),
        ];
        let all: Vec<(&str, usize)> = all.iter().map(|(sql, rows)| (&**sql, *rows)).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn rows_of_a_snapshot_replace_what_is_there() {
        let read = row(
            None,
            json!({"id": 1}),
            json!(null),
            json!({"id": 1, "v": "a"}),
        );
        let all = sql(vec![read]);
        assert_eq!(
            all[0].0,
            "REPLACE INTO `d`.`t` (`id`,`v`) VALUES (1,_utf8mb4'a')"
        );
    }
}
