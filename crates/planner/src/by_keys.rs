//! UPDATE and DELETE whose rows are chosen, or whose values are computed, by rows of other groups.
//!
//! The keys of the rows that are meant are read first, with the values that they shall have, from rows
//! that are gathered and locked until the transaction ends; then the rows are changed by their keys.

mod order;
mod sets;

use farm::sharding::{Column, Placed, TableSchema};
use sqlparser::ast::{
    Assignment, AssignmentTarget, Delete, Expr, FromTable, Ident, ObjectName, Statement,
    TableFactor, TableWithJoins, Update, Visit,
};
use sqltext::{Piece, PieceKind, pieces, ticked};

use crate::answer::{Answer, Asked, Changing, Unanswered};
use crate::columns::charset;
use crate::gather;
use crate::parse;
pub use order::orders_by_place;
use sets::{Before, Uses};

/// A write that is done by the keys of its rows.
#[derive(Clone, Debug, PartialEq)]
pub struct ByKeys {
    /// Gives a row for each that is meant: the keys of all targets in their order, then the values.
    pub read: Answer,
    /// What `read` answers, for people, and for what is told of it.
    pub text: String,
    pub targets: Vec<Target>,
    pub delete: bool,
}

/// A table whose rows are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The statement in front of its assignments or its WHERE.
    pub head: String,
    /// The shard key, if it is not among them, and the columns of the primary key.
    pub keys: Vec<KeyPart>,
    /// So many of them, the last ones, are the primary key.
    pub primary: usize,
    pub set: Vec<(String, To)>,
}

/// A column by which rows are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPart {
    /// In quotes, with its table where that is needed.
    pub column: String,
    /// Its values come as bytes in this character set.
    pub charset: Option<String>,
    /// The place of its values in a row.
    pub at: usize,
}

/// What a column is set to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// As it is written.
    Text(String),
    /// The value at this place of the row that was read.
    Value(usize),
}

/// Takes such a statement apart. `shares`: rows that are only read are locked, too, so that they say at
/// the end what they said here.
///
/// # Errors
/// It does what is not known over several groups.
pub fn by_keys(text: &str, asked: &Asked<'_>, shares: bool) -> Result<ByKeys, Unanswered> {
    let statement = parse::statement(text, asked.mode).map_err(|why| unknown(&why))?;
    let all = pieces(text.as_bytes(), asked.mode)
        .ok_or_else(|| unknown("the text's quotes are not sure to end"))?;
    let clauses = Clauses::of(text, &all).map_err(unknown)?;
    let maker = Maker {
        text,
        asked,
        clauses,
        shares,
    };
    match &statement {
        Statement::Update(update) => maker.update(update),
        Statement::Delete(delete) => maker.delete(delete),
        _ => Err(unknown("it is no UPDATE or DELETE")),
    }
}

fn unknown(reason: &str) -> Unanswered {
    Unanswered::Unknown(format!(
        "the rows that this statement changes depend on rows of other groups, and {reason}"
    ))
}

/// Bytes of the text.
type Place = (usize, usize);

/// Where the clauses stand. Places do not have the words that lead to them.
#[derive(Default)]
struct Clauses {
    /// The tables, with their joins.
    tables: Place,
    /// What each column is set to.
    values: Vec<Place>,
    filter: Option<Place>,
    /// ORDER BY and LIMIT, with their words.
    rest: Option<Place>,
    /// It has IGNORE.
    ignores: bool,
}

impl Clauses {
    fn of(text: &str, all: &[Piece]) -> Result<Clauses, &'static str> {
        let bytes = text.as_bytes();
        let mut found: Vec<(&str, usize)> = Vec::new();
        let mut depth = 0usize;
        let words = [
            "UPDATE",
            "DELETE",
            "FROM",
            "USING",
            "SET",
            "WHERE",
            "ORDER",
            "LIMIT",
            "RETURNING",
        ];
        let mut end = all.len();
        for (at, piece) in all.iter().enumerate() {
            match piece.kind {
                PieceKind::Open => depth += 1,
                PieceKind::Close => depth = depth.saturating_sub(1),
                PieceKind::Semicolon if depth == 0 => {
                    end = at;
                    break;
                }
                _ if depth > 0 => {}
                _ => {
                    let word = words.iter().find(|word| piece.is(bytes, word));
                    // JOIN … USING (…) has parentheses behind it.
                    let joins = word == Some(&"USING")
                        && all.get(at + 1).is_some_and(|it| it.kind == PieceKind::Open);
                    found.extend(word.filter(|_| !joins).map(|word| (*word, at)));
                }
            }
        }
        let behind = |number: usize| found.get(number + 1).map_or(end, |next| next.1);
        let place = |from: usize, to: usize| {
            let (first, last) = (all.get(from)?, all.get(to.checked_sub(1)?)?);
            (from < to).then_some((first.span.start as usize, last.span.end as usize))
        };
        let mut clauses = Clauses::default();
        for (number, (word, at)) in found.iter().enumerate() {
            let (from, to) = (at + 1, behind(number));
            match *word {
                "UPDATE" | "DELETE" => {
                    let first = clauses.modifiers(all, bytes, from);
                    if *word == "UPDATE" {
                        clauses.tables = place(first, to).unwrap_or_default();
                    }
                }
                "FROM" | "USING" => clauses.tables = place(from, to).unwrap_or_default(),
                "SET" => clauses.values = values(&all[from..to]),
                "WHERE" => clauses.filter = place(from, to),
                "ORDER" | "LIMIT" => {
                    let first = clauses.rest.map_or(all[*at].span.start as usize, |it| it.0);
                    clauses.rest = place(*at, to).map(|it| (first, it.1));
                }
                _ => return Err("it has RETURNING"),
            }
        }
        match clauses.tables {
            (0, 0) => Err("its tables are not found"),
            _ => Ok(clauses),
        }
    }

    /// Where the tables begin, behind the words that may stand in front of them.
    fn modifiers(&mut self, all: &[Piece], text: &[u8], from: usize) -> usize {
        let word = |piece: &&Piece| {
            let words = ["LOW_PRIORITY", "QUICK", "IGNORE"];
            words.iter().any(|word| piece.is(text, word))
        };
        let words: Vec<&Piece> = all[from..].iter().take_while(word).collect();
        self.ignores = words.iter().any(|piece| piece.is(text, "IGNORE"));
        from + words.len()
    }
}

/// What is assigned: between the first sign of equality and the comma.
fn values(all: &[Piece]) -> Vec<Place> {
    let mut found = Vec::new();
    let (mut depth, mut equals, mut last) = (0usize, None, 0);
    let mut whole = |equals: Option<u32>, last: u32| {
        if let Some(start) = equals {
            found.push((start as usize, last as usize));
        }
    };
    let mut assigned = false;
    for piece in all {
        match piece.kind {
            PieceKind::Comma if depth == 0 => {
                whole(equals.take(), last);
                assigned = false;
                continue;
            }
            // The first operator that stands by itself is the sign of equality.
            PieceKind::Operator if depth == 0 && !assigned => {
                assigned = true;
                continue;
            }
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth = depth.saturating_sub(1),
            _ => {}
        }
        if assigned && equals.is_none() {
            equals = Some(piece.span.start);
        }
        last = piece.span.end;
    }
    whole(equals, last);
    found
}

struct Maker<'a> {
    text: &'a str,
    asked: &'a Asked<'a>,
    clauses: Clauses,
    shares: bool,
}

/// A table of the statement's own block.
struct Named<'a> {
    database: String,
    table: String,
    alias: Option<String>,
    schema: &'a TableSchema,
}

impl Named<'_> {
    fn called(&self) -> &str {
        self.alias.as_deref().unwrap_or(&self.table)
    }

    fn has(&self, column: &str) -> bool {
        self.schema.column(column).is_some()
    }

    /// The table's name in front of its columns.
    fn column(&self, column: &str) -> String {
        format!("{}.{}", ticked(self.called()), ticked(column))
    }
}

impl<'a> Maker<'a> {
    fn part(&self, (start, end): Place) -> &'a str {
        &self.text[start..end]
    }

    fn update(&self, update: &Update) -> Result<ByKeys, Unanswered> {
        if update.returning.is_some() || update.from.is_some() {
            return Err(unknown("it has RETURNING"));
        }
        let mut named = Vec::new();
        self.tables(&update.table, &mut named);
        if self.clauses.values.len() != update.assignments.len() {
            return Err(unknown("its assignments are not understood"));
        }
        let single = update.table.joins.is_empty()
            && matches!(update.table.relation, TableFactor::Table { .. });
        let mut read = Reading::default();
        let mut targets: Vec<(usize, Target)> = Vec::new();
        let mut values = Vec::new();
        let mut before = Before::default();
        for (assignment, place) in update.assignments.iter().zip(&self.clauses.values) {
            let (of, column) = self.assigned(assignment, &named)?;
            let column_of = named[of].schema.column(&column);
            let whole = column_of.is_none_or(|at| {
                let kind = &*named[of].schema.columns[at].data_type;
                !matches!(kind, "double" | "float" | "real")
            });
            let to = self.to(&assignment.value, *place, (single, whole), &mut values)?;
            let read_first = matches!(to, To::Value(_));
            if read_first && before.is_read(&assignment.value, &named, self.asked) {
                return Err(unknown("a value reads a column that is set in front of it"));
            }
            before.add(of, &column);
            let at = match targets.iter().position(|(table, _)| *table == of) {
                Some(at) => at,
                None => {
                    let target = self.target(&named[of], false, &mut read)?;
                    targets.push((of, target));
                    targets.len() - 1
                }
            };
            let set = (named[of].column(&column), to);
            targets[at].1.set.push(set);
        }
        let keys = read.items.len();
        for (_, target) in &mut targets {
            for (_, to) in &mut target.set {
                if let To::Value(at) = to {
                    *at += keys;
                }
            }
        }
        read.items.extend(values);
        self.finish(read, targets, &named, false)
    }

    fn delete(&self, delete: &Delete) -> Result<ByKeys, Unanswered> {
        if delete.returning.is_some() {
            return Err(unknown("it has RETURNING"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let mut named = Vec::new();
        for tables in delete.using.as_ref().unwrap_or(from) {
            self.tables(tables, &mut named);
        }
        let meant: Vec<String> = match (&delete.tables[..], &delete.using) {
            ([], Some(_)) => from.iter().filter_map(|it| called(&it.relation)).collect(),
            ([], None) => named.iter().map(|it| it.called().to_owned()).collect(),
            (tables, _) => tables.iter().filter_map(last_name).collect(),
        };
        let mut read = Reading::default();
        let mut targets = Vec::new();
        for name in &meant {
            let of = named.iter().position(|it| it.called() == name);
            let of = of.ok_or_else(|| unknown(&format!("the table {name} is not understood")))?;
            targets.push((of, self.target(&named[of], true, &mut read)?));
        }
        if targets.is_empty() {
            return Err(unknown("its table is not understood"));
        }
        self.finish(read, targets, &named, true)
    }

    /// The tables of a FROM whose columns are known.
    fn tables(&self, from: &TableWithJoins, named: &mut Vec<Named<'a>>) {
        self.factor(&from.relation, named);
        for join in &from.joins {
            self.factor(&join.relation, named);
        }
    }

    fn factor(&self, factor: &TableFactor, named: &mut Vec<Named<'a>>) {
        match factor {
            TableFactor::Table { name, alias, .. } => {
                let parts: Option<Vec<&Ident>> = name.0.iter().map(|it| it.as_ident()).collect();
                let (database, table) = match parts.as_deref() {
                    Some([table]) => (self.asked.database, *table),
                    Some([database, table]) => (&*database.value, *table),
                    _ => return,
                };
                if let Some(schema) = self.asked.sharding.schema(database, &table.value) {
                    named.push(Named {
                        database: database.to_owned(),
                        table: table.value.clone(),
                        alias: alias.as_ref().map(|alias| alias.name.value.clone()),
                        schema,
                    });
                }
            }
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => self.tables(table_with_joins, named),
            _ => {}
        }
    }

    /// The table whose column is set, and the column.
    fn assigned(
        &self,
        assignment: &Assignment,
        named: &[Named<'_>],
    ) -> Result<(usize, String), Unanswered> {
        let AssignmentTarget::ColumnName(name) = &assignment.target else {
            return Err(unknown("it sets several columns at once"));
        };
        let parts: Option<Vec<&Ident>> = name.0.iter().map(|it| it.as_ident()).collect();
        let parts = parts.unwrap_or_default();
        let found = match &parts[..] {
            [column] => {
                let mut having = (0..named.len()).filter(|at| named[*at].has(&column.value));
                having.next().filter(|_| having.next().is_none())
            }
            [.., table, _] => named.iter().position(|it| it.called() == table.value),
            [] => None,
        };
        match (found, parts.last()) {
            (Some(found), Some(column)) => Ok((found, column.value.clone())),
            _ => Err(unknown(&format!("the column {name} is not understood"))),
        }
    }

    /// What a column is set to: as it is written where the row's own table says all. `whole`: it is
    /// no column of floating point.
    fn to(
        &self,
        value: &Expr,
        place: Place,
        (single, whole): (bool, bool),
        values: &mut Vec<String>,
    ) -> Result<To, Unanswered> {
        let mut uses = Uses::default();
        let _ = value.visit(&mut uses);
        let text = self.part(place);
        let default = text.eq_ignore_ascii_case("DEFAULT");
        if default || !uses.queries && (single || !uses.columns) {
            return Ok(To::Text(text.to_owned()));
        }
        if uses.defaults {
            return Err(unknown("DEFAULT(…) is set from other tables"));
        }
        // A quotient has more digits than its text.
        let digits = if uses.divides && !whole { "+0e0" } else { "" };
        values.push(format!("({text}\n){digits}"));
        Ok(To::Value(values.len() - 1))
    }

    fn target(
        &self,
        named: &Named<'_>,
        delete: bool,
        read: &mut Reading,
    ) -> Result<Target, Unanswered> {
        let of = format!("{}.{}", named.database, named.table);
        let schema = named.schema;
        if schema.view {
            return Err(unknown(&format!("{of} is a view: change its tables")));
        }
        if schema.primary.is_empty() {
            return Err(unknown(&format!("the table {of} has no primary key")));
        }
        let primary = schema.primary.iter().map(|at| usize::from(*at));
        let mut columns: Vec<usize> = Vec::new();
        if let Placed::Sharded(table) = self.asked.sharding.placed(&named.database, &named.table) {
            let key = schema.column(&table.column);
            columns.extend(key.filter(|key| primary.clone().all(|at| at != *key)));
        }
        columns.extend(primary);
        let mut keys = Vec::new();
        for at in columns {
            let column = &schema.columns[at];
            let name = named.column(&column.name);
            let (item, charset) = key(column, &name)
                .ok_or_else(|| unknown(&format!("{of} has a FLOAT in its primary key")))?;
            let column = match delete {
                true => ticked(&column.name),
                false => name,
            };
            let at = read.items.len();
            read.items.push(item);
            keys.push(KeyPart {
                column,
                charset,
                at,
            });
        }
        read.targets.push(named.called().to_owned());
        let table = format!("{}.{}", ticked(&named.database), ticked(&named.table));
        let ignore = if self.clauses.ignores { "IGNORE " } else { "" };
        let head = match (delete, &named.alias) {
            (true, _) => format!("DELETE {ignore}FROM {table}"),
            (false, None) => format!("UPDATE {ignore}{table}"),
            (false, Some(alias)) => format!("UPDATE {ignore}{table} AS {}", ticked(alias)),
        };
        Ok(Target {
            head,
            keys,
            primary: schema.primary.len(),
            set: Vec::new(),
        })
    }

    fn finish(
        &self,
        read: Reading,
        targets: Vec<(usize, Target)>,
        named: &[Named<'_>],
        delete: bool,
    ) -> Result<ByKeys, Unanswered> {
        for (of, target) in &targets {
            let named = &named[*of];
            let placed = self.asked.sharding.placed(&named.database, &named.table);
            if let Placed::Sharded(table) = placed
                && target
                    .set
                    .iter()
                    .any(|(column, _)| column.eq_ignore_ascii_case(&named.column(&table.column)))
            {
                return Err(unknown("it changes the shard key"));
            }
        }
        let items = read.items.iter().enumerate();
        let items: Vec<String> = items
            .map(|(at, item)| format!("{item} AS `heddle {at}`"))
            .collect();
        let mut text = format!(
            "SELECT {} FROM {}",
            items.join(", "),
            self.part(self.clauses.tables)
        );
        if let Some(filter) = self.clauses.filter {
            text.push_str(&format!("\nWHERE {}", self.part(filter)));
        }
        if let Some(rest) = self.clauses.rest {
            if orders_by_place(self.part(rest), self.asked.mode) {
                return Err(unknown(
                    "it is ordered by a number, which is no column there",
                ));
            }
            text.push_str(&format!("\n{}", self.part(rest)));
        }
        let changing = Changing {
            targets: &read.targets,
            shares: self.shares,
        };
        let asked = Asked {
            changing: Some(changing),
            ..*self.asked
        };
        Ok(ByKeys {
            read: gather::to_change(&text, &asked)?,
            text,
            targets: targets.into_iter().map(|it| it.1).collect(),
            delete,
        })
    }
}

/// What is read.
#[derive(Default)]
struct Reading {
    items: Vec<String>,
    /// What the targets are called.
    targets: Vec<String>,
}

/// What a key is asked for with, and the character set of its bytes; `None` for a number that is not
/// found by its text.
fn key(column: &Column, name: &str) -> Option<(String, Option<String>)> {
    match &*column.data_type {
        "float" => None,
        "bit" => Some((format!("{name}+0"), None)),
        "uuid" | "inet4" | "inet6" => Some((format!("CAST({name} AS CHAR)"), None)),
        _ => Some(match charset(column) {
            Some(charset) => (format!("CAST({name} AS BINARY)"), Some(charset)),
            None => (name.to_owned(), None),
        }),
    }
}

fn called(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(alias.name.value.clone()),
            None => last_name(name),
        },
        _ => None,
    }
}

/// The last part of a name; `t.*` is `t`.
fn last_name(name: &ObjectName) -> Option<String> {
    let idents = name.0.iter().filter_map(|part| part.as_ident());
    let mut names = idents.map(|ident| ident.value.clone());
    names.rfind(|name| name != "*")
}
