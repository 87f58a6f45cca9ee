//! One table of a gathered statement: what its rows are asked for with, and what takes them up.

use std::sync::Arc;

use farm::sharding::{Column, TableSchema};
use sqltext::{Dialect, ticked};

use super::reduce::Reduced;
use super::references::Reference;
use super::{Words, unknown};
use crate::answer::{Asked, Fragment, Part, Unanswered, Written};
use crate::catalog::{Catalog, Kind};
use crate::columns::{asked as asked_for, can_be_key, declared, engine};
use crate::shards::{global_groups, groups};

/// A scratch table has so many keys at most.
const KEYS_MAX: usize = 16;

pub(super) fn fetched(
    text: &str,
    asked: &Asked<'_>,
    reference: &Reference,
    words: &Words<'_>,
    at: usize,
) -> Result<(Fragment, Part, Reduced), Unanswered> {
    let schema = schema(asked, reference)?;
    let primary = words.groups && asked.mode.dialect == Dialect::MySql;
    let columns = wanted(schema, words, primary);
    let (list, written): (Vec<String>, Vec<Written>) = columns
        .iter()
        .map(|at| asked_for(&schema.columns[*at]))
        .unzip();
    let mut from = format!(
        "FROM {}.{} AS {}",
        ticked(&reference.database),
        ticked(&reference.table),
        ticked(reference.called())
    );
    for (at, (start, end)) in reference.pushed.iter().enumerate() {
        let word = if at == 0 { "WHERE" } else { "AND" };
        // A comment at the end must not take the parenthesis along.
        from.push_str(&format!(" {word} ({}\n)", &text[*start..*end]));
    }
    let (groups, any) = sources(asked, reference, &format!("SELECT 1 {from}"))?;
    let list = list.join(", ");
    let reduced = Reduced {
        by: Vec::new(),
        at: "SELECT ".len() + list.len() + 1 + from.len(),
        word: match reference.pushed.is_empty() {
            true => "WHERE",
            false => "AND",
        },
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
    let part = Part {
        create: format!(
            "CREATE {kind} {name} ({}) {}",
            definition(schema, &columns, words, primary),
            engine(asked.mode.dialect)
        ),
        drop: format!("DROP {kind} IF EXISTS {name}"),
        is_temporary: !words.kept,
        into: into(&name, schema, &columns),
        name,
        columns: written,
    };
    let fragment = Fragment {
        text: format!("SELECT {list} {from}"),
        groups,
        any,
    };
    Ok((fragment, part, reduced))
}

/// The columns and keys of the scratch table.
fn definition(schema: &TableSchema, columns: &[usize], words: &Words<'_>, primary: bool) -> String {
    let columns_of = columns.iter().map(|at| &schema.columns[*at]);
    let mut parts: Vec<String> = columns_of
        .map(|column| declared(column, words.all_columns))
        .collect();
    if primary {
        parts.extend(primary_key(schema));
    }
    parts.extend(keys(schema, columns, words));
    parts.join(", ")
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

/// MySQL looks at it to see which columns depend on those of a group.
fn primary_key(schema: &TableSchema) -> Option<String> {
    let columns: Vec<&Column> = schema
        .primary
        .iter()
        .map(|at| &schema.columns[usize::from(*at)])
        .collect();
    let can = !columns.is_empty() && columns.iter().all(|column| can_be_key(column));
    let names: Vec<String> = columns.iter().map(|column| ticked(&column.name)).collect();
    can.then(|| format!("PRIMARY KEY ({})", names.join(", ")))
}

/// A key for each column that is compared with another one: without it a join would try all pairs.
fn keys(schema: &TableSchema, columns: &[usize], words: &Words<'_>) -> Vec<String> {
    let all = columns.iter().map(|at| &schema.columns[*at]);
    let joined = |column: &&Column| {
        can_be_key(column) && words.joined.joined.contains(&column.name.to_lowercase())
    };
    all.filter(joined)
        .take(KEYS_MAX)
        .map(|column| format!("KEY ({})", ticked(&column.name)))
        .collect()
}
