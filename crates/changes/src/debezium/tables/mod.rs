//! What definitions make of tables, as `tableChanges` of Debezium's schema changes tell it, and as `ddl` events do.
//!
//! A binlog has the text of a definition, and not the table that it leads to. So a table becomes known by its CREATE TABLE, or by
//! the columns of its rows. Each ALTER TABLE changes the known table. A table that is not known, or a definition that cannot be
//! read, is left out: nothing is guessed.

mod column;
mod parts;
mod plain;

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::table::Table;
use crate::words::{Token, tokens};
use column::{Column, Defined, Place, column};
use parts::{enclosed, parts};

/// A table by its database and its name.
type Name = (String, String);

/// What is known of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    columns: Vec<Column>,
    key: Vec<String>,
    charset: Option<String>,
    comment: Option<String>,
}

/// What became of a table; `None` where it is gone.
struct Changed {
    kind: &'static str,
    name: Name,
    known: Option<Known>,
}

/// The tables that are known.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables(HashMap<Name, Known>);

/// With what table specifications begin that are no columns.
const NO_COLUMNS: [&str; 10] = [
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "KEY",
    "INDEX",
    "FULLTEXT",
    "SPATIAL",
    "FOREIGN",
    "CHECK",
    "PERIOD",
];

impl Tables {
    /// Rows of a table came: what it is, if that was not known.
    pub(crate) fn note(&mut self, table: &Table) {
        let name = (table.database.clone(), table.name.clone());
        self.0.entry(name).or_insert_with(|| Known::of(table));
    }

    /// Carries a definition out on what is known; gives what became of tables, as Debezium tells it.
    pub(crate) fn define(&mut self, database: &str, sql: &str) -> Vec<Value> {
        let changes = self.carry_out(database, sql);
        changes.iter().map(Changed::told).collect()
    }

    fn carry_out(&mut self, database: &str, sql: &str) -> Vec<Changed> {
        let all = tokens(sql);
        let words =
            [all.first(), all.get(1)].map(|it| it.and_then(Token::name).unwrap_or_default());
        let verb = words.map(str::to_ascii_uppercase);
        let changes = match [&*verb[0], &*verb[1]] {
            ["CREATE", _] => self.create(database, &all),
            ["ALTER", _] => self.alter(database, &all),
            ["DROP", "TABLE" | "TABLES"] => Some(self.drop(database, &all[2..])),
            ["RENAME", "TABLE" | "TABLES"] => self.rename(database, &all[2..]),
            ["DROP", "DATABASE" | "SCHEMA"] => {
                let name = all.iter().rev().find_map(Token::name).unwrap_or_default();
                self.0.retain(|of, _| of.0 != name);
                None
            }
            _ => None,
        };
        changes.unwrap_or_default()
    }

    fn create(&mut self, database: &str, all: &[Token]) -> Option<Vec<Changed>> {
        let at = all
            .iter()
            .position(|it| it.is("TABLE"))
            .filter(|at| *at <= 3)?;
        if all[..at].iter().any(|it| it.is("TEMPORARY")) {
            return None;
        }
        let (name, rest) = named(database, conditional(&all[at + 1..]))?;
        // One that was there is another one now, or the same, as the statement was logged.
        self.0.remove(&name);
        let known = match rest {
            [like, rest @ ..] if like.is("LIKE") => {
                let (of, _) = named(database, rest)?;
                self.0.get(&of)?.clone()
            }
            rest => {
                let (inner, behind) = enclosed(rest)?;
                if inner.first().is_some_and(|it| it.is("LIKE")) {
                    let (of, _) = named(database, &inner[1..])?;
                    self.0.get(&of)?.clone()
                } else {
                    Known::read(inner, behind)?
                }
            }
        };
        let told = known.changed("CREATE", &name);
        self.0.insert(name, known);
        Some(vec![told])
    }

    fn alter(&mut self, database: &str, all: &[Token]) -> Option<Vec<Changed>> {
        let at = all
            .iter()
            .position(|it| it.is("TABLE"))
            .filter(|at| *at <= 3)?;
        let (name, rest) = named(database, conditional(&all[at + 1..]))?;
        let mut known = self.0.remove(&name)?;
        let mut new_name = name;
        for part in parts(rest) {
            match renamed(part) {
                Some(behind) => new_name = named(database, behind)?.0,
                // What cannot be read leaves nothing that is known.
                None => known.alter(part)?,
            }
        }
        let told = known.changed("ALTER", &new_name);
        self.0.insert(new_name, known);
        Some(vec![told])
    }

    fn drop(&mut self, database: &str, rest: &[Token]) -> Vec<Changed> {
        let mut told = Vec::new();
        for part in parts(conditional(rest)) {
            if let Some((name, _)) = named(database, part) {
                self.0.remove(&name);
                told.push(Changed {
                    kind: "DROP",
                    name,
                    known: None,
                });
            }
        }
        told
    }

    fn rename(&mut self, database: &str, rest: &[Token]) -> Option<Vec<Changed>> {
        let mut told = Vec::new();
        for part in parts(conditional(rest)) {
            let (from, rest) = named(database, part)?;
            let at = rest.iter().position(|it| it.is("TO"))?;
            let (to, _) = named(database, &rest[at + 1..])?;
            if let Some(known) = self.0.remove(&from) {
                told.push(known.changed("ALTER", &to));
                self.0.insert(to, known);
            }
        }
        Some(told)
    }
}

impl Known {
    /// By the columns that its rows have.
    fn of(table: &Table) -> Known {
        let name = |at: usize| table.columns.get(at).and_then(|it| it.name.clone());
        let columns = table.columns.iter().map(|it| {
            let sizes = it.sizes();
            let size = |at: usize| sizes.get(at).map(|(_, size)| u64::from(*size));
            let sign = match it.unsigned {
                Some(true) => " UNSIGNED",
                _ => "",
            };
            let plain = |label: &Vec<u8>| String::from_utf8_lossy(label).replace('\'', "''");
            let label = |label: &Vec<u8>| format!("'{}'", plain(label));
            Column {
                name: it.name.clone().unwrap_or_default(),
                type_name: it.type_name().to_ascii_uppercase() + sign,
                charset: it.charset().map(|it| it.name().to_owned()),
                length: size(0),
                scale: size(1),
                nullable: it.nullable,
                members: it.members.iter().map(label).collect(),
                ..Column::default()
            }
        });
        Known {
            columns: columns.collect(),
            key: table.key.iter().filter_map(|at| name(*at)).collect(),
            ..Known::default()
        }
    }

    /// Of what stands in the parentheses of CREATE TABLE, and behind them.
    fn read(inner: &[Token], behind: &[Token]) -> Option<Known> {
        let selects = |it: &Token| it.is("SELECT") || it.is("AS") || it.is("VALUES");
        let mut known = Known::default();
        for part in parts(inner) {
            known.add(part)?;
        }
        known.options(behind);
        // The SELECT of a CREATE TABLE may have more columns; options have none of these words.
        let of_partitions = behind.iter().position(|it| it.is("PARTITION"));
        let options = &behind[..of_partitions.unwrap_or(behind.len())];
        (!options.iter().any(selects)).then_some(known)
    }

    /// A column, or what else a table has.
    fn add(&mut self, part: &[Token]) -> Option<()> {
        let first = part.first()?;
        if NO_COLUMNS.iter().any(|word| first.is(word)) {
            let key = part
                .windows(2)
                .position(|it| it[0].is("PRIMARY") && it[1].is("KEY"));
            if let Some(at) = key {
                let open = part[at..].iter().position(|it| *it == Token::Other('('))?;
                let (inner, _) = enclosed(&part[at + open..])?;
                let names = parts(inner).into_iter().map(|it| it.first()?.name());
                let names: Option<Vec<&str>> = names.collect();
                self.set_key(names?.into_iter().map(str::to_owned).collect());
            }
            return Some(());
        }
        let defined = column(part)?;
        self.put(defined, None)
    }

    fn set_key(&mut self, key: Vec<String>) {
        for column in &mut self.columns {
            if key.iter().any(|it| it.eq_ignore_ascii_case(&column.name)) {
                column.nullable = false;
            }
        }
        self.key = key;
    }

    /// A column that is new, or comes in place of another one.
    fn put(&mut self, defined: Defined, old: Option<&str>) -> Option<()> {
        let name = defined.column.name.clone();
        if old.is_none() && self.position(&name).is_some() {
            return None;
        }
        let mut at = self.columns.len();
        if let Some(old) = old {
            at = self.position(old)?;
            self.columns.remove(at);
            for of_key in self
                .key
                .iter_mut()
                .filter(|it| it.eq_ignore_ascii_case(old))
            {
                of_key.clone_from(&name);
            }
        }
        let at = match &defined.place {
            Place::Stays => at,
            Place::First => 0,
            Place::After(other) => self.position(other)? + 1,
        };
        self.columns.insert(at, defined.column);
        if defined.is_key {
            self.set_key(vec![name]);
        } else if self.key.contains(&name) {
            self.columns[at].nullable = false;
        }
        Some(())
    }

    fn position(&self, name: &str) -> Option<usize> {
        let mut columns = self.columns.iter();
        columns.position(|it| it.name.eq_ignore_ascii_case(name))
    }

    /// One specification of ALTER TABLE.
    fn alter(&mut self, part: &[Token]) -> Option<()> {
        let Some((verb, rest)) = part.split_first() else {
            return Some(());
        };
        let is_column = rest.first().is_some_and(|it| it.is("COLUMN"));
        let rest = conditional(if is_column { &rest[1..] } else { rest });
        let first = rest.first();
        let is_other = !is_column
            && first
                .is_some_and(|it| NO_COLUMNS.iter().any(|word| it.is(word)) || it.is("PARTITION"));
        if verb.is("ADD") {
            return match enclosed(rest).filter(|_| !is_other) {
                Some((inner, _)) => parts(inner).into_iter().try_for_each(|it| self.add(it)),
                None if first.is_some_and(|it| it.is("PARTITION") || it.is("SYSTEM")) => Some(()),
                None => self.add(rest),
            };
        }
        if verb.is("DROP") {
            if first.is_some_and(|it| it.is("PRIMARY")) {
                self.key.clear();
            } else if !is_other && !first.is_some_and(|it| it.is("SYSTEM")) {
                let at = self.position(first?.name()?)?;
                let gone = self.columns.remove(at).name;
                self.key.retain(|it| !it.eq_ignore_ascii_case(&gone));
            }
            return Some(());
        }
        if verb.is("MODIFY") {
            let defined = column(rest)?;
            let old = defined.column.name.clone();
            return self.put(defined, Some(&old));
        }
        if verb.is("CHANGE") {
            let (old, rest) = rest.split_first()?;
            return self.put(column(rest)?, Some(old.name()?));
        }
        if verb.is("RENAME") && is_column {
            let at = self.position(first?.name()?)?;
            let new = rest.get(2)?.name()?.to_owned();
            let old = std::mem::replace(&mut self.columns[at].name, new.clone());
            for of_key in self
                .key
                .iter_mut()
                .filter(|it| it.eq_ignore_ascii_case(&old))
            {
                of_key.clone_from(&new);
            }
            return Some(());
        }
        if verb.is("CONVERT") {
            self.options(rest);
            let charset = self.charset.clone();
            for column in self.columns.iter_mut().filter(|it| it.is_text()) {
                column.charset.clone_from(&charset);
            }
            return Some(());
        }
        self.options(part);
        Some(())
    }

    /// The character set and the comment of a table.
    fn options(&mut self, tokens: &[Token]) {
        let is_set = |it: &Token| *it != Token::Other('=');
        let words: Vec<&Token> = tokens.iter().filter(|it| is_set(it)).collect();
        for (at, word) in words.iter().enumerate() {
            let next = |more: usize| words.get(at + more).and_then(|it| it.name());
            let is_character_set = word.is("SET") && at > 0 && words[at - 1].is("CHARACTER");
            if word.is("CHARSET") || is_character_set {
                self.charset = next(1).map(str::to_owned);
            } else if word.is("COMMENT")
                && let Some(Token::Text(text)) = words.get(at + 1)
            {
                self.comment = Some(text.clone());
            } else if word.is("PARTITION") {
                return;
            }
        }
    }

    fn changed(&self, kind: &'static str, name: &Name) -> Changed {
        Changed {
            kind,
            name: name.clone(),
            known: Some(self.clone()),
        }
    }

    fn told(&self, kind: &str, name: &Name) -> Value {
        let charset = self.charset.as_deref();
        let columns = self.columns.iter().enumerate();
        let columns: Vec<Value> = columns.map(|(at, it)| it.value(at + 1, charset)).collect();
        json!({
            "type": kind,
            "id": id(name),
            "table": {
                "defaultCharsetName": charset,
                "primaryKeyColumnNames": self.key,
                "columns": columns,
                "comment": self.comment,
            },
        })
    }
}

impl Changed {
    fn told(&self) -> Value {
        match &self.known {
            Some(known) => known.told(self.kind, &self.name),
            None => json!({ "type": self.kind, "id": id(&self.name), "table": null }),
        }
    }
}

/// What a table is called: `"DATABASE"."TABLE"`.
fn id(name: &Name) -> String {
    format!("\"{}\".\"{}\"", name.0, name.1)
}

/// Without IF EXISTS and IF NOT EXISTS.
fn conditional(tokens: &[Token]) -> &[Token] {
    match tokens {
        [one, two, three, rest @ ..] if one.is("IF") && two.is("NOT") && three.is("EXISTS") => rest,
        [one, two, rest @ ..] if one.is("IF") && two.is("EXISTS") => rest,
        all => all,
    }
}

/// The name of a table at the front, and what is behind it.
fn named<'a>(database: &str, tokens: &'a [Token]) -> Option<(Name, &'a [Token])> {
    match tokens {
        [of, Token::Other('.'), name, rest @ ..] => {
            Some(((of.name()?.to_owned(), name.name()?.to_owned()), rest))
        }
        [name, rest @ ..] => Some(((database.to_owned(), name.name()?.to_owned()), rest)),
        [] => None,
    }
}

/// What stands behind RENAME [TO|AS|=], where that is about the table.
fn renamed(part: &[Token]) -> Option<&[Token]> {
    let (verb, rest) = part.split_first()?;
    let first = rest.first()?;
    let others = ["COLUMN", "INDEX", "KEY"];
    if !verb.is("RENAME") || others.iter().any(|word| first.is(word)) {
        return None;
    }
    let is_between = first.is("TO") || first.is("AS") || *first == Token::Other('=');
    Some(if is_between { &rest[1..] } else { rest })
}

#[cfg(test)]
mod tests;
