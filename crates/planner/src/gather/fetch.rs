//! One table of a gathered statement: what its rows are asked for with, and what takes them up.

use std::sync::Arc;

use farm::sharding::{Column, Placed, TableSchema};
use sqltext::{Dialect, ticked};

use super::filters::from;
use super::keys::Keys;
use super::references::Reference;
use super::{Words, unknown};
use crate::answer::{Asked, Fragment, Part, Reduced, Unanswered, Written};
use crate::catalog::{Catalog, Kind};
use crate::columns::{asked as asked_for, declared, engine, length, load};
use crate::shards::{global_groups, groups};

pub(crate) fn fetched(
    asked: &Asked<'_>,
    reference: &Reference,
    words: &Words<'_>,
    at: usize,
) -> Result<(Fragment, Part, Reduced), Unanswered> {
    let schema = schema(asked, reference)?;
    let primary = words.groups && asked.mode.dialect == Dialect::MySql;
    let columns = wanted(schema, words, primary);
    let chosen: Vec<&Column> = columns.iter().map(|at| &schema.columns[*at]).collect();
    let (list, written): (Vec<String>, Vec<Written>) =
        chosen.iter().map(|column| asked_for(column)).unzip();
    let mut from = from_where(reference);
    let (groups, any) = sources(asked, reference, &format!("SELECT 1 {from}"))?;
    let begin = format!("{} {}", word(reference, schema, &columns), list.join(", "));
    let reduced = Reduced {
        by: Vec::new(),
        at: begin.len() + 1 + from.len(),
        word: match reference.pushed.is_empty() {
            true => "WHERE",
            false => "AND",
        },
        called: reference.called().to_owned(),
    };
    if let Some(lock) = reference.lock {
        from.push(' ');
        from.push_str(lock);
    }
    let name = format!("`heddle`.{}", ticked(&format!("{}{at}", asked.scratch)));
    let kind = match words.kept {
        true => "TABLE",
        false => "TEMPORARY TABLE",
    };
    let create = |keys: Vec<String>| {
        let all = chosen
            .iter()
            .map(|column| declared(column, words.all_columns));
        let parts: Vec<String> = all.chain(keys).collect();
        let engine = engine(asked.mode.dialect);
        format!("CREATE {kind} {name} ({}) {engine}", parts.join(", "))
    };
    let keys = Keys {
        schema,
        columns: &columns,
        joined: &words.joined.joined,
        primary,
    };
    let unique = keys.unique(shard_key(asked, reference));
    let part = Part {
        create: create(keys.with(&unique)),
        loose: (!unique.is_empty()).then(|| create(keys.with(&[]))),
        sorts_keys: asked.mode.dialect == Dialect::MariaDb,
        drop: format!("DROP {kind} IF EXISTS {name}"),
        is_temporary: !words.kept,
        into: into(&name, schema, &columns),
        load: Some(load(&name, &chosen)),
        name,
        columns: written,
    };
    let fragment = Fragment {
        text: format!("{begin} {from}"),
        groups,
        any,
    };
    Ok((fragment, part, reduced))
}

/// The columns that are fetched, as they are in the table that takes them up.
pub(crate) fn chosen(
    asked: &Asked<'_>,
    reference: &Reference,
    words: &Words<'_>,
) -> Result<Vec<Column>, Unanswered> {
    let schema = schema(asked, reference)?;
    let primary = words.groups && asked.mode.dialect == Dialect::MySql;
    let columns = wanted(schema, words, primary).into_iter();
    let column = |at: usize| Column {
        invisible: schema.columns[at].invisible && words.all_columns,
        ..schema.columns[at].clone()
    };
    Ok(columns.map(column).collect())
}

/// The column by which the rows of a table are told apart between groups; `None` for one that comes as
/// a whole from one of them.
fn shard_key<'a>(asked: &Asked<'a>, reference: &Reference) -> Option<&'a str> {
    match asked.sharding.placed(&reference.database, &reference.table) {
        Placed::Sharded(table) => Some(&*table.column),
        _ => None,
    }
}

/// What rows of these columns are inserted into.
fn into(name: &str, schema: &TableSchema, columns: &[usize]) -> String {
    let columns = columns.iter().map(|at| &schema.columns[*at]);
    match columns.clone().any(|column| column.invisible) {
        false => name.to_owned(),
        true => {
            let names: Vec<String> = columns.map(|column| ticked(&column.name)).collect();
            format!("{name} ({})", names.join(", "))
        }
    }
}

/// FROM the table, and its conditions.
fn from_where(reference: &Reference) -> String {
    let mut text = from(reference);
    for (at, condition) in reference.pushed.iter().enumerate() {
        let word = if at == 0 { "WHERE" } else { "AND" };
        // A comment at the end must not take the parenthesis along.
        text.push_str(&format!(" {word} ({condition}\n)"));
    }
    text
}

/// What the query of a fragment begins with.
fn word(reference: &Reference, schema: &TableSchema, columns: &[usize]) -> &'static str {
    match reference.once && reference.lock.is_none() && repeats(schema, columns) {
        true => "SELECT DISTINCT",
        false => "SELECT",
    }
}

/// Rows may be equal in these columns, and a server tells exactly which are.
fn repeats(schema: &TableSchema, columns: &[usize]) -> bool {
    const TEXT_MAX: usize = 255;
    let is_exact = |column: &Column| match &*column.data_type {
        "tinyint" | "smallint" | "mediumint" | "int" | "integer" | "bigint" | "decimal"
        | "numeric" | "year" | "date" | "datetime" | "enum" => true,
        // They come as bytes.
        "char" | "varchar" => length(column).is_some_and(|it| it <= TEXT_MAX),
        _ => false,
    };
    let has = |key: &[u16]| {
        let mut places = key.iter().map(|at| usize::from(*at));
        !key.is_empty() && places.all(|at| columns.contains(&at))
    };
    columns.iter().all(|at| is_exact(&schema.columns[*at]))
        && !has(&schema.primary)
        && !schema.unique.iter().any(|key| has(key))
}

/// The columns of the table.
fn schema<'a>(
    asked: &Asked<'a>,
    reference: &Reference,
) -> Result<&'a Arc<TableSchema>, Unanswered> {
    let told = format!("{}.{}", reference.database, reference.table);
    let (database, table) = (&reference.database, &reference.table);
    match asked.sharding.schema(database, table) {
        Some(schema) if schema.view && asked.sharding.look(database, table).is_none() => {
            Err(unknown(&format!(
                "what the view {told} is made of is not known here: use its tables"
            )))
        }
        Some(schema) if !schema.columns.is_empty() => Ok(schema),
        _ => Err(unknown(&format!(
            "the columns of {told} are not known here: SELECT from it by itself"
        ))),
    }
}

/// The places of the columns that the statement can mean; one at least, since rows are counted, too.
fn wanted(schema: &TableSchema, words: &Words<'_>, primary: bool) -> Vec<usize> {
    let is = |at: &usize| {
        let column = &schema.columns[*at];
        let key = u16::try_from(*at).is_ok_and(|at| schema.primary.contains(&at));
        (words.all_columns && !column.invisible)
            || words.names.contains(&column.name.to_lowercase())
            || (primary && key)
    };
    let mut columns: Vec<usize> = (0..schema.columns.len()).filter(is).collect();
    if columns.is_empty() {
        columns.push(schema.primary.first().map_or(0, |at| usize::from(*at)));
    }
    columns
}

/// The groups that have the rows that `counting` would count; true when each has all of them.
fn sources(
    asked: &Asked<'_>,
    reference: &Reference,
    counting: &str,
) -> Result<(Vec<Arc<str>>, bool), Unanswered> {
    match asked.tables().table(&reference.database, &reference.table) {
        Kind::Sharded(_) => Ok((groups(counting, asked)?, false)),
        Kind::Global { map } => Ok((global_groups(asked.sharding, map), true)),
        Kind::Single { group } => Ok((vec![group.clone()], true)),
        Kind::Opaque => Err(unknown("a view over several groups")),
    }
}
