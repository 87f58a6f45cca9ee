//! Views. One of which each group has its part stands as a table where it is read; of the others the
//! body stands in place of the name, so that they are gathered from their tables.
//!
//! Who reads a view of the first kind needs rights on it only, as on one server. One of the second kind
//! is read with the client's own rights on its tables.

pub(crate) mod behind;

use std::borrow::Cow;
use std::sync::Arc;

use farm::Sharding;
use farm::sharding::{Look, Placement, TableSchema};
use sqlparser::ast::{SelectItem, SetExpr};
use sqltext::{Dialect, Mode, Piece, PieceKind, pieces, spliced, tables, ticked};

use crate::answer::{Asked, Unanswered};
use crate::catalog::{Catalog, Kind};
use crate::gather::locks_rows;
use crate::parse;
use crate::place::Tables;
use crate::push;
use crate::views::behind::DEPTH_MAX;

/// Behind a view's name: what the text of its body is called by a WITH.
pub(crate) const GIVEN: &str = " of heddle";

/// Finds out what all views of the farm are like.
pub fn see(sharding: &mut Sharding) {
    // A view of views is known after them.
    for _ in 0..DEPTH_MAX {
        let unseen = |(database, name, schema): (&Arc<str>, &Arc<str>, &Arc<TableSchema>)| {
            let look = match (schema.view, sharding.look(database, name)) {
                (true, None) => look(database, name, schema, sharding)?,
                _ => return None,
            };
            Some((database.clone(), name.clone(), look))
        };
        let found: Vec<_> = sharding.described().filter_map(unseen).collect();
        if found.is_empty() {
            return;
        }
        for (database, name, look) in found {
            sharding.see(&database, &name, look);
        }
    }
}

/// What a view is like, if it is like anything.
fn look(database: &str, view: &str, schema: &TableSchema, sharding: &Sharding) -> Option<Look> {
    let body = schema.body.as_deref()?;
    let mode = Mode::new(Dialect::MariaDb, 101_100);
    // What is there only is no matter of its name.
    let home: Arc<str> = "".into();
    let catalog = Tables {
        sharding,
        home: &home,
    };
    let own = sharding.database(database).unwrap_or(&home);
    let whole = |map: u32| {
        sharding
            .map(map)
            .is_some_and(|it| it.groups == [own.clone()])
    };
    let (mut sharded, mut alone, mut maps) = (false, false, Vec::new());
    let mut lone_views = false;
    for table in tables(body.as_bytes(), &mode) {
        let of = table.database.as_deref().map(String::from_utf8_lossy);
        let of = of.as_deref().unwrap_or(database);
        let name = String::from_utf8_lossy(&table.name);
        lone_views |= sharding.look(of, &name) == Some(&Look::Alone);
        match catalog.table(of, &name) {
            Kind::Opaque => return None,
            Kind::Single { group } if group == own => alone = true,
            Kind::Single { .. } => return None,
            Kind::Global { map } => maps.push(map),
            Kind::Sharded(table) => {
                sharded = true;
                maps.push(table.map);
            }
        }
    }
    if maps.iter().all(|map| whole(*map)) && (lone_views || !maps.is_empty()) {
        return Some(Look::Alone);
    }
    maps.dedup();
    let there = sharding.groups_of(database, &home);
    let everywhere = |map: u32| {
        let mapped = sharding.map(map);
        mapped.is_some_and(|it| it.groups.iter().all(|group| there.contains(group)))
    };
    match (maps[..].as_ref(), alone, sharded) {
        ([], _, _) => Some(Look::Plain),
        ([map], false, false) if everywhere(*map) => {
            Some(Look::Placed(Placement::Global { map: *map }))
        }
        // Global tables are on the global group, too.
        (_, true, false) => {
            let has = |map: &u32| sharding.map(*map).is_some_and(|it| it.groups.contains(own));
            maps.iter().all(has).then_some(Look::Plain)
        }
        ([map], false, true) if everywhere(*map) => {
            let query = parse::query(body, &mode).ok()?;
            let asked = Asked {
                sharding,
                home: &home,
                database,
                mode: &mode,
                scratch: "",
                changing: None,
            };
            let table = push::sharded_view(view, schema, &query, &asked)?;
            Some(Look::Placed(Placement::Sharded(table)))
        }
        _ => None,
    }
}

/// The text with the bodies of views that are like no table in place of their names.
///
/// # Errors
/// A view's body is not known, or its rows are to be locked.
pub(crate) fn expanded<'t>(text: &'t str, asked: &Asked<'_>) -> Result<Cow<'t, str>, Unanswered> {
    let mut text = Cow::Borrowed(text);
    for _ in 0..DEPTH_MAX {
        match expand(&text, asked)? {
            Some(more) => text = Cow::Owned(more),
            None => return Ok(text),
        }
    }
    Err(unknown("its views are made of each other too deeply"))
}

/// Puts in the views that the text itself names; `None` when there are none.
fn expand(text: &str, asked: &Asked<'_>) -> Result<Option<String>, Unanswered> {
    let bytes = text.as_bytes();
    let catalog = asked.tables();
    let mut cuts: Vec<((usize, usize), String)> = Vec::new();
    let mut names: Vec<(String, String)> = Vec::new();
    let all = pieces(bytes, asked.mode).unwrap_or_default();
    let given = given(&all, bytes, asked.mode);
    for table in tables(bytes, asked.mode) {
        if table.database.is_none() && given.contains(&table.name.to_ascii_lowercase()) {
            continue;
        }
        let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let database = table.database.as_deref().map(name);
        let database = database.unwrap_or_else(|| asked.database.to_owned());
        let view = name(&table.name);
        if !matches!(catalog.table(&database, &view), Kind::Opaque) {
            continue;
        }
        let schema = asked.sharding.schema(&database, &view);
        let body = schema.and_then(|schema| Some((schema, schema.body.as_deref()?)));
        let (schema, body) = body.ok_or_else(|| {
            unknown(&format!(
                "what the view {database}.{view} is made of is not known here: use its tables"
            ))
        })?;
        let (start, end) = (table.span.start as usize, table.span.end as usize);
        let body = sayable(body, asked.mode);
        let mut with = format!("({})", named(&body, &view, schema, asked.mode));
        if !has_alias(text, end, asked.mode) {
            with.push_str(&format!(" AS {}", ticked(&view)));
        }
        cuts.push(((start, end), with));
        names.push((database, view));
    }
    if cuts.is_empty() {
        return Ok(None);
    }
    let Some(all) = pieces(bytes, asked.mode) else {
        return Err(unknown("the text's quotes are not sure to end"));
    };
    if locks_rows(&all, bytes) {
        return Err(unknown(
            "the rows of a view over several groups cannot be locked: lock those of its tables",
        ));
    }
    // `database.view.column` becomes `view.column`.
    for four in all.windows(4) {
        let [database, dot, view, second] = four else {
            continue;
        };
        let name = |at: usize| four[at].name(bytes, asked.mode);
        let is = |both: &(String, String)| {
            name(0).is_some_and(|it| *it == *both.0.as_bytes())
                && name(2).is_some_and(|it| *it == *both.1.as_bytes())
        };
        if dot.kind == PieceKind::Dot && second.kind == PieceKind::Dot && names.iter().any(is) {
            let (start, end) = (database.span.start as usize, view.span.start as usize);
            cuts.push(((start, end), String::new()));
        }
    }
    Ok(Some(spliced(text, cuts)))
}

/// What a WITH anywhere in a text may name, in lower case: `name AS (` and `name (…) AS (`. A view of such
/// a name is left where it is, for those who know which of the two is meant.
fn given(all: &[Piece], text: &[u8], mode: &Mode) -> Vec<Vec<u8>> {
    let named = |at: usize| {
        let opens = all.get(at + 1)?.kind == PieceKind::Open && all[at].is(text, "AS");
        let mut before = at.checked_sub(1).filter(|_| opens)?;
        if all[before].kind == PieceKind::Close {
            let open = all[..before]
                .iter()
                .rposition(|it| it.kind == PieceKind::Open);
            before = open?.checked_sub(1)?;
        }
        Some(all[before].name(text, mode)?.to_ascii_lowercase())
    };
    (0..all.len()).filter_map(named).collect()
}

fn unknown(reason: &str) -> Unanswered {
    Unanswered::Unknown(reason.to_owned())
}

/// A name, or AS, follows.
fn has_alias(text: &str, end: usize, mode: &Mode) -> bool {
    let all = pieces(text.as_bytes(), mode).unwrap_or_default();
    let next = all.iter().find(|piece| piece.span.start as usize >= end);
    next.is_some_and(|next| {
        let word = next.kind == PieceKind::Word && !crate::gather::follows_table(next, text);
        next.kind == PieceKind::Quoted || next.is(text.as_bytes(), "AS") || word
    })
}

/// The body in words that a server understands: MySQL keeps a view with ROLLUP in words of its own,
/// `rollup_group_item(a, 0)` for `a` and `rollup_sum_switcher(count(0))` for `count(0)`.
fn sayable<'b>(body: &'b str, mode: &Mode) -> Cow<'b, str> {
    const ITEM: &str = "rollup_group_item";
    const SUM: &str = "rollup_sum_switcher";
    if !body.contains(ITEM) && !body.contains(SUM) {
        return Cow::Borrowed(body);
    }
    let all = pieces(body.as_bytes(), mode).unwrap_or_default();
    let mut cuts = Vec::new();
    for (at, piece) in all.iter().enumerate() {
        let (item, sum) = (
            piece.is(body.as_bytes(), ITEM),
            piece.is(body.as_bytes(), SUM),
        );
        let opens = all.get(at + 1).is_some_and(|it| it.kind == PieceKind::Open);
        if !opens || !(item || sum) {
            continue;
        }
        cuts.push((
            (piece.span.start as usize, piece.span.end as usize),
            String::new(),
        ));
        // The number of the group stands behind the last comma.
        let (mut depth, mut comma) = (0usize, None);
        for inner in &all[at + 1..] {
            match inner.kind {
                PieceKind::Open => depth += 1,
                PieceKind::Close => depth -= 1,
                PieceKind::Comma if depth == 1 => comma = Some(inner.span.start as usize),
                _ => {}
            }
            if depth == 0 {
                let end = inner.span.start as usize;
                cuts.extend(
                    comma
                        .filter(|_| item)
                        .map(|from| ((from, end), String::new())),
                );
                break;
            }
        }
    }
    Cow::Owned(spliced(body, cuts))
}

/// The body, with the columns called as the view's.
fn named<'b>(body: &'b str, view: &str, schema: &TableSchema, mode: &Mode) -> Cow<'b, str> {
    if columns(body, mode).is_some_and(|names| {
        let own = schema.columns.iter().map(|column| &*column.name);
        names.iter().map(String::as_str).eq(own)
    }) {
        return Cow::Borrowed(body);
    }
    let names: Vec<String> = schema.columns.iter().map(|it| ticked(&it.name)).collect();
    // Another name than the view's, which would be looked through again.
    let view = ticked(&format!("{view}{GIVEN}"));
    Cow::Owned(format!(
        "WITH {view} ({}) AS ({body}) SELECT * FROM {view}",
        names.join(", ")
    ))
}

/// What a query calls its columns, where it says so.
fn columns(body: &str, mode: &Mode) -> Option<Vec<String>> {
    let query = parse::query(body, mode).ok()?;
    let mut first = &*query.body;
    while let SetExpr::SetOperation { left, .. } = first {
        first = left;
    }
    let SetExpr::Select(select) = first else {
        return None;
    };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.clone()),
        _ => None,
    };
    select.projection.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mysql_keeps_of_a_rollup_can_be_said() {
        let mode = Mode::new(Dialect::MySql, 80_045);
        for (body, said) in [
            (
                "select rollup_group_item(`t`.`a`,0) AS `a`,rollup_sum_switcher(count(0)) AS `n` from `t`",
                "select (`t`.`a`) AS `a`,(count(0)) AS `n` from `t`",
            ),
            (
                "select rollup_group_item((f(`a`, 2)),1) AS `a`",
                "select ((f(`a`, 2))) AS `a`",
            ),
            (
                "select 'rollup_group_item(1,2)' AS `a`",
                "select 'rollup_group_item(1,2)' AS `a`",
            ),
        ] {
            assert_eq!(sayable(body, &mode), said);
        }
    }
}
