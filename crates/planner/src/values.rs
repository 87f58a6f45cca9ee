//! What only the session knows, in a query that other servers are to run: `@@variables`, USER(),
//! LAST_INSERT_ID() and their like. The session is asked for them, and what it says stands in their
//! places, under the names that columns would have had.

mod scalars;

use sqlparser::ast::{Query, Select, SelectItem, SetExpr};
use sqltext::{Mode, Piece, PieceKind, pieces, spliced, ticked};

use crate::functions;
use crate::parse;

pub use scalars::{Scalar, scalars, with_scalars};

/// An expression that the session is to be asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionValue {
    /// As it is written.
    pub expression: String,
    span: (usize, usize),
    /// Where its column gets a name, and which.
    name: Option<(usize, String)>,
}

/// Finds them; none where it is not sure what the text says.
pub fn session_values(text: &str, mode: &Mode) -> Vec<SessionValue> {
    let Some(all) = pieces(text.as_bytes(), mode) else {
        return Vec::new();
    };
    let spans = spans(text, &all);
    if spans.is_empty() {
        return Vec::new();
    }
    let items = items(text, &all, mode);
    let mut found: Vec<SessionValue> = Vec::new();
    for span in spans {
        let item = items.iter().find(|it| it.0 <= span.0 && span.1 <= it.1);
        let named = item.filter(|it| {
            // One name for all that stand in it.
            found
                .iter()
                .all(|other| other.name.as_ref().is_none_or(|name| name.0 != it.1))
        });
        found.push(SessionValue {
            expression: text[span.0..span.1].to_owned(),
            span,
            name: named.map(|it| (it.1, text[it.0..it.1].to_owned())),
        });
    }
    found
}

/// The text with these values, as literals, in their places.
pub fn with_values(text: &str, values: &[SessionValue], literals: &[String]) -> String {
    let mut cuts = Vec::new();
    for (value, literal) in values.iter().zip(literals) {
        cuts.push((value.span, literal.clone()));
        if let Some((at, name)) = &value.name {
            cuts.push(((*at, *at), format!(" AS {}", ticked(name))));
        }
    }
    spliced(text, cuts)
}

fn spans(text: &str, all: &[Piece]) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(piece) = all.get(at) {
        let behind_dot = at > 0 && all[at - 1].kind == PieceKind::Dot;
        let mut last = at;
        let is_value = match piece.kind {
            PieceKind::SystemVariable => {
                // `@@global.name` and `@@instance.name`.
                while all
                    .get(last + 1)
                    .is_some_and(|it| it.kind == PieceKind::Dot)
                {
                    last += 2;
                }
                true
            }
            PieceKind::Word | PieceKind::Reserved if !behind_dot => {
                let word = &text[piece.span.start as usize..piece.span.end as usize];
                let kind = |at: usize| all.get(at).map(|it| it.kind);
                let called = kind(at + 1) == Some(PieceKind::Open);
                let empty = called && kind(at + 2) == Some(PieceKind::Close);
                if empty {
                    last += 2;
                }
                let bare = !called && functions::is_bare(word);
                (empty || bare) && functions::is_known_to_session(word)
            }
            _ => false,
        };
        if let Some(end) = all.get(last).filter(|_| is_value) {
            found.push((piece.span.start as usize, end.span.end as usize));
        }
        at = last + 1;
    }
    found
}

/// The columns of the outermost query that have no name of their own, as bytes of the text.
fn items(text: &str, all: &[Piece], mode: &Mode) -> Vec<(usize, usize)> {
    let bytes = text.as_bytes();
    let Ok(query) = parse::query(text, mode) else {
        return Vec::new();
    };
    let Some(select) = first(&query.body) else {
        return Vec::new();
    };
    let mut depth = 0usize;
    let base = all
        .iter()
        .take_while(|it| it.kind == PieceKind::Open)
        .count();
    let mut begun = None;
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for (at, piece) in all.iter().enumerate() {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close if depth == base && begun.is_some() => break,
            PieceKind::Close => depth = depth.saturating_sub(1),
            _ if depth != base => {}
            _ if begun.is_none() && piece.is(bytes, "SELECT") => begun = Some(at),
            _ if begun.is_some() && ends_items(piece, bytes) => break,
            _ => {}
        }
        let Some(select) = begun.filter(|begun| at > *begun) else {
            continue;
        };
        let (start, end) = (piece.span.start as usize, piece.span.end as usize);
        let separates = piece.kind == PieceKind::Comma && depth == base;
        match spans.last_mut() {
            None if at <= select + words(&all[select + 1..], bytes) => {}
            None => spans.push((start, end)),
            Some(_) if separates => spans.push((end, end)),
            Some(last) => {
                if last.0 == last.1 {
                    last.0 = start;
                }
                last.1 = end;
            }
        }
    }
    if spans.len() != select.projection.len() {
        return Vec::new();
    }
    let unnamed = |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_));
    let both = spans.into_iter().zip(&select.projection);
    both.filter(|(_, item)| unnamed(item))
        .map(|it| it.0)
        .collect()
}

/// Words between SELECT and its first column.
fn words(behind: &[Piece], text: &[u8]) -> usize {
    const WORDS: [&str; 10] = [
        "ALL",
        "DISTINCT",
        "DISTINCTROW",
        "HIGH_PRIORITY",
        "STRAIGHT_JOIN",
        "SQL_SMALL_RESULT",
        "SQL_BIG_RESULT",
        "SQL_BUFFER_RESULT",
        "SQL_NO_CACHE",
        "SQL_CALC_FOUND_ROWS",
    ];
    let is = |piece: &&Piece| WORDS.iter().any(|word| piece.is(text, word));
    behind.iter().take_while(is).count()
}

fn ends_items(piece: &Piece, text: &[u8]) -> bool {
    const ENDS: [&str; 12] = [
        "FROM",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "UNION",
        "EXCEPT",
        "INTERSECT",
        "INTO",
        "FOR",
        "LOCK",
    ];
    piece.kind == PieceKind::Semicolon || ENDS.iter().any(|word| piece.is(text, word))
}

fn first(body: &SetExpr) -> Option<&Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::Query(query) => inner(query),
        SetExpr::SetOperation { left, .. } => first(left),
        _ => None,
    }
}

fn inner(query: &Query) -> Option<&Select> {
    first(&query.body)
}

#[cfg(test)]
mod tests {
    use sqltext::Dialect;

    use super::*;

    fn put(text: &str, literals: &[&str]) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let values = session_values(text, &mode);
        let literals: Vec<String> = literals.iter().map(|&it| it.to_owned()).collect();
        assert_eq!(values.len(), literals.len(), "{values:?}");
        with_values(text, &values, &literals)
    }

    #[test]
    fn values_stand_where_they_were_asked_for_under_their_names() {
        for (text, literals, expected) in [
            (
                "SELECT a, USER(), @@global.port AS p FROM t WHERE b = LAST_INSERT_ID()",
                &["'u'", "1", "7"][..],
                "SELECT a, 'u' AS `USER()`, 1 AS p FROM t WHERE b = 7",
            ),
            (
                "SELECT DISTINCT CONCAT(USER(), CURRENT_USER) FROM t",
                &["'u'", "'v'"],
                "SELECT DISTINCT CONCAT('u', 'v') AS `CONCAT(USER(), CURRENT_USER)` FROM t",
            ),
            (
                "SELECT @@sql_mode x, t.user, current_user FROM t",
                &["'m'", "'v'"],
                "SELECT 'm' x, t.user, 'v' AS `current_user` FROM t",
            ),
            (
                "WITH c AS (SELECT 1 FROM u) SELECT DATABASE() FROM t UNION SELECT SCHEMA()",
                &["'d'", "'d'"],
                "WITH c AS (SELECT 1 FROM u) SELECT 'd' AS `DATABASE()` FROM t UNION SELECT 'd'",
            ),
            (
                "SELECT last_insert_id(3), user FROM t",
                &[],
                "SELECT last_insert_id(3), user FROM t",
            ),
        ] {
            assert_eq!(put(text, literals), expected);
        }
    }
}
