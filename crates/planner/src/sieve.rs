//! Texts for a group that has rows which are not its shard's, because a part of their map is on its way:
//! they get a condition that leaves these rows out.
//!
//! A table that is read becomes a derived table of the same name, which servers merge; what an UPDATE
//! or DELETE changes gets the condition itself. A text in which that cannot be done is refused: it would
//! count rows twice.

use farm::Sharding;
use farm::sharding::Placed;
use sqltext::{Mode, Piece, PieceKind, TableName, pieces, spliced, tables, ticked};

use crate::belongs::belongs;
use crate::gather::follows_table;
use crate::text::Cut;

/// Whose text it is and where it goes.
#[derive(Clone, Copy)]
pub struct Sieve<'a> {
    pub sharding: &'a Sharding,
    /// The session's; empty when it has none.
    pub database: &'a str,
    pub mode: &'a Mode,
    pub group: &'a str,
}

/// A table in a text whose rows are to be told apart.
struct Mixed {
    place: usize,
    span: (usize, usize),
    name: String,
    database: String,
    /// True for the rows that are the group's.
    only: String,
    /// A view that does not show the key by which they could be told apart.
    hidden: bool,
    /// All columns, where `*` would leave some out.
    columns: Option<Vec<String>>,
}

/// The text as the group gets it; `None` where it can stay as it is.
///
/// # Errors
/// Why the condition cannot be put in.
pub fn sieved(text: &[u8], sieve: &Sieve<'_>) -> Result<Option<Vec<u8>>, String> {
    let all = tables(text, sieve.mode);
    let named = all.iter().enumerate();
    let mixed: Vec<Mixed> = named.filter_map(|(at, it)| mixed(at, it, sieve)).collect();
    if mixed.is_empty() {
        return Ok(None);
    }
    if mixed.iter().any(|table| table.hidden) {
        return Err("it reads a view that does not show its shard key".to_owned());
    }
    let unread = || "its words are not sure to be read right".to_owned();
    let text = std::str::from_utf8(text).map_err(|_| unread())?;
    let found = pieces(text.as_bytes(), sieve.mode).ok_or_else(unread)?;
    let is = |at: usize, word: &str| found.get(at).is_some_and(|it| it.is(text.as_bytes(), word));
    let mut cuts = Vec::new();
    let mut read = &mixed[..];
    if is(0, "UPDATE") || is(0, "DELETE") {
        let changed = all.first().map(|it| it.span.start as usize);
        if let Some(first) = mixed.first().filter(|it| Some(it.span.0) == changed) {
            change(text, &found, first, is(0, "UPDATE"), &mut cuts)?;
            read = &mixed[1..];
        } else if mixed.iter().any(|it| it.place > 0) && all.len() > mixed.len() + 1 {
            return Err("it changes rows of several tables".to_owned());
        }
    } else if is(0, "INSERT") || is(0, "REPLACE") {
        // What it writes to is no matter of the rows that are there.
        read = match mixed.first() {
            Some(first) if first.place == 0 => &mixed[1..],
            _ => read,
        };
    } else if is(0, "TABLE") {
        return Err("write SELECT * FROM in place of TABLE".to_owned());
    }
    for table in read {
        derive(text, &found, table, sieve.mode, &mut cuts);
    }
    Ok(Some(spliced(text, cuts).into_bytes()))
}

fn mixed(place: usize, table: &TableName<'_>, sieve: &Sieve<'_>) -> Option<Mixed> {
    let database = table.database.as_deref().map(String::from_utf8_lossy);
    let database = database.as_deref().unwrap_or(sieve.database);
    let name = String::from_utf8_lossy(&table.name);
    let Placed::Sharded(of) = sieve.sharding.placed(database, &name) else {
        return None;
    };
    if !sieve.sharding.is_mixed(of.map, sieve.group) {
        return None;
    }
    let map = &sieve.sharding.map(of.map)?.map;
    let at = map
        .places()
        .find(|at| *map.shard(*at).group == *sieve.group);
    let only = at.map_or("FALSE".to_owned(), |at| {
        belongs(map, at, &of.column, of.key)
    });
    let schema = sieve.sharding.schema(database, &name);
    let columns = schema.filter(|it| it.columns.iter().any(|column| column.invisible));
    let columns = columns.map(|schema| {
        let names = schema.columns.iter().map(|column| column.name.to_string());
        names.collect()
    });
    Some(Mixed {
        place,
        span: (table.span.start as usize, table.span.end as usize),
        name: name.into_owned(),
        database: database.to_owned(),
        hidden: at.is_some() && of.column.is_empty(),
        only,
        columns,
    })
}

/// A derived table in place of a name.
fn derive(text: &str, found: &[Piece], table: &Mixed, mode: &Mode, cuts: &mut Vec<Cut>) {
    let bytes = text.as_bytes();
    let is = |at: usize, word: &str| found.get(at).is_some_and(|it| it.is(bytes, word));
    let behind = found
        .iter()
        .position(|it| it.span.start as usize >= table.span.1);
    let mut at = behind.unwrap_or(found.len());
    let alias = found.get(at).is_some_and(|next| {
        let word = next.kind == PieceKind::Word && !follows_table(next, text);
        next.kind == PieceKind::Quoted || is(at, "AS") || word
    });
    if alias {
        at += 1 + usize::from(is(at, "AS"));
    }
    // Hints about indexes belong to the table itself.
    let mut hints = String::new();
    while (is(at, "USE") || is(at, "FORCE") || is(at, "IGNORE"))
        && (is(at + 1, "INDEX") || is(at + 1, "KEY"))
    {
        let close = found[at..]
            .iter()
            .position(|it| it.kind == PieceKind::Close);
        let Some(close) = close else { break };
        let (start, end) = (
            found[at].span.start as usize,
            found[at + close].span.end as usize,
        );
        hints.push_str(&format!(" {}", &text[start..end]));
        cuts.push(((start, end), String::new()));
        at += close + 1;
    }
    let columns = match &table.columns {
        None => "*".to_owned(),
        Some(names) => {
            let names: Vec<String> = names.iter().map(|name| ticked(name)).collect();
            names.join(", ")
        }
    };
    let mut with = format!(
        "(SELECT {columns} FROM {}.{}{hints} WHERE ({}){})",
        ticked(&table.database),
        ticked(&table.name),
        table.only,
        locks(text, found)
    );
    if !alias {
        with.push_str(&format!(" AS {}", ticked(&table.name)));
    }
    cuts.push((table.span, with));
    // `database.table.column` becomes `table.column`.
    for four in found.windows(4) {
        let name = |at: usize| four[at].name(bytes, mode);
        let dots = four[1].kind == PieceKind::Dot && four[3].kind == PieceKind::Dot;
        let same = name(0).is_some_and(|it| *it == *table.database.as_bytes())
            && name(2).is_some_and(|it| *it == *table.name.as_bytes());
        if dots && same {
            let (start, end) = (four[0].span.start as usize, four[2].span.start as usize);
            cuts.push(((start, end), String::new()));
        }
    }
}

/// What the text locks rows by.
fn locks(text: &str, found: &[Piece]) -> &'static str {
    let pair = |first: &str, second: &str| {
        found
            .windows(2)
            .any(|two| two[0].is(text.as_bytes(), first) && two[1].is(text.as_bytes(), second))
    };
    match () {
        () if pair("FOR", "UPDATE") => " FOR UPDATE",
        () if pair("FOR", "SHARE") => " FOR SHARE",
        () if pair("LOCK", "IN") => " LOCK IN SHARE MODE",
        () => "",
    }
}

/// The condition on what an UPDATE or DELETE of one table changes.
fn change(
    text: &str,
    found: &[Piece],
    table: &Mixed,
    update: bool,
    cuts: &mut Vec<Cut>,
) -> Result<(), String> {
    let bytes = text.as_bytes();
    let several = || "it changes rows of several tables, or of a part of one".to_owned();
    let name = found
        .iter()
        .position(|it| it.span.start as usize >= table.span.0);
    let name = name.ok_or_else(several)?;
    let named = name.checked_sub(1).map(|before| &found[before]);
    if !update && !named.is_some_and(|word| word.is(bytes, "FROM")) {
        return Err(several());
    }
    let behind = found
        .iter()
        .position(|it| it.span.start as usize >= table.span.1);
    let mut at = behind.unwrap_or(found.len());
    let ends = |piece: &Piece| {
        ["ORDER", "LIMIT", "RETURNING"]
            .iter()
            .any(|word| piece.is(bytes, word))
    };
    let begins = |piece: &Piece| match update {
        true => piece.is(bytes, "SET"),
        false => piece.is(bytes, "WHERE") || ends(piece) || piece.kind == PieceKind::Semicolon,
    };
    if found.get(at).is_some_and(|it| !begins(it)) {
        at += 1 + usize::from(found[at].is(bytes, "AS"));
    }
    match found.get(at) {
        Some(piece) if begins(piece) => {}
        None if !update => {}
        _ => return Err(several()),
    }
    let (mut depth, mut condition, mut end) = (0usize, None, None);
    for piece in found.get(at..).unwrap_or_default() {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ if piece.is(bytes, "WHERE") => condition = Some(piece.span.end as usize),
            _ if end.is_none() && (ends(piece) || piece.kind == PieceKind::Semicolon) => {
                end = Some(piece.span.start as usize);
            }
            _ => {}
        }
    }
    let last = found.last().map_or(text.len(), |it| it.span.end as usize);
    let end = end.unwrap_or(last);
    match condition {
        Some(start) => {
            cuts.push(((start, start), format!(" ({}) AND (", table.only)));
            cuts.push(((end, end), ") ".to_owned()));
        }
        None => cuts.push(((end, end), format!(" WHERE ({}) ", table.only))),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use farm::samples;
    use farm::sharding::{Moving, Placement};
    use sqltext::Dialect;

    fn shown(text: &str) -> String {
        let map = samples::range_map(7, &[("g1", 0), ("g2", 100)]);
        let mut sharding = Sharding::new(1, vec![map]);
        for (name, column) in [("orders", "k"), ("items", "k"), ("a_view", "")] {
            sharding.declare("shop", name, samples::sharded("shop", name, column, 7));
        }
        sharding.declare("shop", "names", Placement::Global { map: 7 });
        sharding.moving(Moving {
            job: "j".into(),
            map: 7,
            from: "g1".into(),
            to: "g2".into(),
            held_since: None,
            defined: false,
            mixed: Some("g1".into()),
        });
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let sieve = Sieve {
            sharding: &sharding,
            database: "shop",
            mode: &mode,
            group: "g1",
        };
        match sieved(text.as_bytes(), &sieve) {
            Ok(None) => "same".to_owned(),
            Ok(Some(text)) => String::from_utf8(text).expect("a text"),
            Err(why) => format!("error: {why}"),
        }
    }

    const ONLY: &str = "(`k` >= 0 AND `k` < 100)";

    fn derived(table: &str) -> String {
        format!("(SELECT * FROM `shop`.`{table}` WHERE {ONLY})")
    }

    #[test]
    fn tables_that_are_read_become_derived_ones() {
        let (orders, items) = (derived("orders"), derived("items"));
        for (text, wanted) in [
            (
                "SELECT COUNT(*) FROM orders",
                format!("SELECT COUNT(*) FROM {orders} AS `orders`"),
            ),
            (
                "SELECT o.a, shop.items.b FROM orders o JOIN shop.items USING (k) WHERE o.a=1",
                format!(
                    "SELECT o.a, items.b FROM {orders} o JOIN {items} AS `items` USING (k) WHERE o.a=1"
                ),
            ),
            (
                "SELECT 1 FROM orders AS o FORCE INDEX (PRIMARY), names",
                format!(
                    "SELECT 1 FROM {} AS o , names",
                    orders.replace(" WHERE", " FORCE INDEX (PRIMARY) WHERE")
                ),
            ),
            (
                "SELECT 1 FROM orders WHERE a=1 FOR UPDATE",
                format!(
                    "SELECT 1 FROM {} AS `orders` WHERE a=1 FOR UPDATE",
                    orders.replace("100))", "100) FOR UPDATE)")
                ),
            ),
            ("SELECT 1 FROM names", "same".to_owned()),
            (
                "INSERT INTO orders (k) VALUES (1)",
                "INSERT INTO orders (k) VALUES (1)".to_owned(),
            ),
            (
                "INSERT INTO orders SELECT * FROM items",
                format!("INSERT INTO orders SELECT * FROM {items} AS `items`"),
            ),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn a_view_without_its_key_cannot_be_told_apart() {
        let why = shown("SELECT 1 FROM orders JOIN a_view");
        assert_eq!(
            why,
            "error: it reads a view that does not show its shard key"
        );
    }

    #[test]
    fn what_is_changed_gets_the_condition() {
        for (text, wanted) in [
            (
                "UPDATE orders SET a=1",
                format!("UPDATE orders SET a=1 WHERE {ONLY} "),
            ),
            (
                "UPDATE orders o SET a=(1) WHERE b=2 OR c=3 ORDER BY k LIMIT 1",
                format!(
                    "UPDATE orders o SET a=(1) WHERE {ONLY} AND ( b=2 OR c=3 ) ORDER BY k LIMIT 1"
                ),
            ),
            (
                "DELETE FROM orders",
                format!("DELETE FROM orders WHERE {ONLY} "),
            ),
            (
                "DELETE FROM orders WHERE k IN (SELECT k FROM items WHERE a=1)",
                format!(
                    "DELETE FROM orders WHERE {ONLY} AND ( k IN (SELECT k FROM {} AS `items` WHERE \
                     a=1)) ",
                    derived("items")
                ),
            ),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
        for text in [
            "UPDATE orders JOIN items USING (k) SET a=1",
            "DELETE o FROM orders o JOIN items USING (k)",
        ] {
            assert!(shown(text).starts_with("error:"), "{text}: {}", shown(text));
        }
    }
}
