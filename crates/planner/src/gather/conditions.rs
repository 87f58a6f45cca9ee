//! The conditions of a WHERE, with the words that they are in a text.
//!
//! The parser tells what a condition means and the tokenizer where it stands. Both take a condition
//! apart at the same signs; where they do not agree, nothing is told.

use sqlparser::ast::{BinaryOperator, Expr};
use sqltext::{Piece, PieceKind};

use crate::parse::conjuncts;

/// What ends a WHERE.
const ENDS: [&str; 13] = [
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "WINDOW",
    "FOR",
    "LOCK",
    "INTO",
    "PROCEDURE",
    "FETCH",
];

/// A condition and its words.
pub(super) type Part<'e, 'p> = (&'e Expr, &'p [Piece]);

/// A sign between two conditions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    And,
    Or,
}

/// The WHERE of the SELECT that begins at a byte; `None` when there is none.
pub(super) fn filter<'p>(all: &'p [Piece], text: &[u8], select: usize) -> Option<&'p [Piece]> {
    let first = all
        .iter()
        .position(|piece| piece.span.start as usize == select)?;
    behind_where(&all[first..], text)
}

/// The ON behind the name of a table that ends at a byte; `None` where it is not the next clause. Whether
/// it is the one that is meant, and whole, is to be compared.
pub(super) fn behind_on<'p>(all: &'p [Piece], text: &[u8], byte: usize) -> Option<&'p [Piece]> {
    const JOINS: [&str; 8] = [
        "JOIN",
        "INNER",
        "CROSS",
        "LEFT",
        "RIGHT",
        "STRAIGHT_JOIN",
        "NATURAL",
        "WHERE",
    ];
    let behind = &all[all.partition_point(|piece| (piece.span.start as usize) < byte)..];
    let mut depth = 0usize;
    let mut from = None;
    for (at, piece) in behind.iter().enumerate() {
        let is_call = behind
            .get(at + 1)
            .is_some_and(|it| it.kind == PieceKind::Open);
        let ends = match piece.kind {
            PieceKind::Open => {
                depth += 1;
                false
            }
            PieceKind::Close if depth > 0 => {
                depth -= 1;
                false
            }
            PieceKind::Close | PieceKind::Semicolon => true,
            _ if depth > 0 => false,
            PieceKind::Comma => true,
            _ if piece.is(text, "ON") && from.is_none() => {
                from = Some(at + 1);
                false
            }
            _ => {
                let mut words = JOINS.iter().filter(|_| !is_call).chain(&ENDS);
                words.any(|word| piece.is(text, word))
            }
        };
        if ends {
            return from.map(|from| &behind[from..at]);
        }
    }
    from.map(|from| &behind[from..])
}

/// The conditions that AND joins, whatever parentheses are around them; `None` when it is not sure
/// which they are.
pub(super) fn parts<'e, 'p>(
    (condition, words): Part<'e, 'p>,
    text: &[u8],
) -> Option<Vec<Part<'e, 'p>>> {
    let mut found = Vec::new();
    take_apart((condition, words), text, &mut found)?;
    Some(found)
}

fn take_apart<'e, 'p>(
    part: Part<'e, 'p>,
    text: &[u8],
    found: &mut Vec<Part<'e, 'p>>,
) -> Option<()> {
    let (condition, words) = bare(part);
    let parts = conjuncts(condition);
    if parts.len() == 1 {
        // What stands between ANDs for the tokenizer is one condition for the parser, too.
        let whole = split(words, text, Sign::And)?.len() == 1;
        found.push((condition, words));
        return whole.then_some(());
    }
    let split = split(words, text, Sign::And)?;
    if parts.len() != split.len() {
        return None;
    }
    let mut both = parts.into_iter().zip(split);
    both.try_for_each(|part| take_apart(part, text, found))
}

/// The conditions that OR joins: one when there is no OR.
pub(super) fn branches<'e, 'p>(part: Part<'e, 'p>, text: &[u8]) -> Option<Vec<Part<'e, 'p>>> {
    let (condition, words) = bare(part);
    let parts = disjuncts(condition);
    let split = split(words, text, Sign::Or)?;
    (parts.len() == split.len()).then(|| parts.into_iter().zip(split).collect())
}

/// The conditions that OR joins.
pub(super) fn disjuncts(condition: &Expr) -> Vec<&Expr> {
    match condition {
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Or,
            right,
        } => {
            let mut all = disjuncts(left);
            all.extend(disjuncts(right));
            all
        }
        other => vec![other],
    }
}

/// Without the parentheses around it. Those that stand for a sign that binds tightly are no words.
fn bare<'e, 'p>((mut condition, mut words): Part<'e, 'p>) -> Part<'e, 'p> {
    while let Expr::Nested(inner) = condition {
        let Some(inside) = inside(words) else { break };
        (condition, words) = (inner, inside);
    }
    (condition, words)
}

/// What one pair of parentheses encloses.
fn inside(words: &[Piece]) -> Option<&[Piece]> {
    let [first, inside @ .., last] = words else {
        return None;
    };
    if first.kind != PieceKind::Open || last.kind != PieceKind::Close {
        return None;
    }
    let mut depth = 1usize;
    for piece in inside {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return None;
        }
    }
    Some(inside)
}

/// What stands between signs that are in no parentheses; all of it where another sign binds more
/// loosely. `None` when signs mean what sql_mode says.
fn split<'p>(words: &'p [Piece], text: &[u8], by: Sign) -> Option<Vec<&'p [Piece]>> {
    let mut found = Vec::new();
    let mut depth = 0usize;
    // Within BETWEEN … AND, and within CASE … END.
    let (mut between, mut cases) = (false, 0usize);
    let mut start = 0;
    for (at, piece) in words.iter().enumerate() {
        let is = |word: &str| piece.is(text, word);
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ if is("CASE") => cases += 1,
            _ if is("END") && cases > 0 => cases -= 1,
            _ if cases > 0 => {}
            PieceKind::Operator if piece.span.of(text) == b"||" => return None,
            _ if is("XOR") => return Some(vec![words]),
            _ if is("OR") && by == Sign::And => return Some(vec![words]),
            _ if is("BETWEEN") => between = true,
            _ if is("OR") => {
                found.push(&words[start..at]);
                start = at + 1;
            }
            _ if !is("AND") && piece.span.of(text) != b"&&" => {}
            _ if between => between = false,
            _ if by == Sign::And => {
                found.push(&words[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(&words[start..]);
    (!found.iter().any(|it| it.is_empty())).then_some(found)
}

/// The bytes of these words.
pub(super) fn span(words: &[Piece]) -> Option<(usize, usize)> {
    Some((
        words.first()?.span.start as usize,
        words.last()?.span.end as usize,
    ))
}

/// What follows the WHERE of a SELECT, of whose pieces the first is the SELECT.
fn behind_where<'p>(pieces: &'p [Piece], text: &[u8]) -> Option<&'p [Piece]> {
    let mut depth = 0usize;
    let mut from = None;
    for (at, piece) in pieces.iter().enumerate() {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close if depth == 0 => return from.map(|from| &pieces[from..at]),
            PieceKind::Close => depth -= 1,
            PieceKind::Semicolon => return from.map(|from| &pieces[from..at]),
            _ if depth > 0 => {}
            _ if piece.is(text, "WHERE") && from.is_none() => from = Some(at + 1),
            _ if from.is_some() && ENDS.iter().any(|end| piece.is(text, end)) => {
                return from.map(|from| &pieces[from..at]);
            }
            _ => {}
        }
    }
    from.map(|from| &pieces[from..])
}

#[cfg(test)]
mod tests {
    use sqlparser::ast::SetExpr;
    use sqltext::{Dialect, Mode, pieces};

    use super::*;
    use crate::parse;

    /// The parts of the WHERE of a text, those of an OR with strokes between them.
    fn shown(text: &str) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let all = pieces(text.as_bytes(), &mode).expect("it ends");
        let query = parse::query(text, &mode).expect("it is read");
        let SetExpr::Select(select) = &*query.body else {
            panic!("no SELECT");
        };
        let condition = select.selection.as_ref().expect("it has a WHERE");
        let words = filter(&all, text.as_bytes(), 0).expect("it has a WHERE");
        let Some(parts) = parts((condition, words), text.as_bytes()) else {
            return "not sure".to_owned();
        };
        let of = |(_, words): Part<'_, '_>| {
            let (start, end) = span(words).expect("some words");
            text[start..end].to_owned()
        };
        let shown = parts.into_iter().map(|part| {
            let branches = branches(part, text.as_bytes()).expect("as many as the parser sees");
            let branches: Vec<String> = branches.into_iter().map(of).collect();
            branches.join("|")
        });
        shown.collect::<Vec<_>>().join(" & ")
    }

    #[test]
    fn conditions_of_joins_are_found() {
        for (from, expected) in [
            ("t ON a = b WHERE c", Some("a = b")),
            ("t AS x ON (a = b) AND c", Some("(a = b) AND c")),
            ("t USE INDEX (k) ON a JOIN u ON b", Some("a")),
            (
                "t ON LEFT(a, 2) = b LEFT JOIN u ON c",
                Some("LEFT(a, 2) = b"),
            ),
            (
                "t ON a AND EXISTS (SELECT 1 FROM u JOIN v ON d)) WHERE c",
                Some("a AND EXISTS (SELECT 1 FROM u JOIN v ON d)"),
            ),
            ("t ON a, u JOIN v ON b", Some("a")),
            ("t JOIN u ON a", None),
            ("t, u JOIN v ON a", None),
            ("t", None),
        ] {
            let text = format!("SELECT 1 FROM s JOIN {from}");
            let mode = Mode::new(Dialect::MariaDb, 101_100);
            let all = pieces(text.as_bytes(), &mode).expect("it ends");
            let end = text.len() - from.len() + 1;
            let found = behind_on(&all, text.as_bytes(), end).and_then(span);
            assert_eq!(found.map(|(start, end)| &text[start..end]), expected);
        }
    }

    #[test]
    fn conditions_are_found() {
        for (filter, expected) in [
            (
                "a = 1 AND b BETWEEN 1 AND 2 AND (c OR d)",
                "a = 1 & b BETWEEN 1 AND 2 & c|d",
            ),
            ("a = 1 OR b = 2 AND c", "a = 1|b = 2 AND c"),
            (
                "CASE WHEN a AND b OR d THEN 1 END = 1 AND c GROUP BY d",
                "CASE WHEN a AND b OR d THEN 1 END = 1 & c",
            ),
            ("z LIMIT 1", "z"),
            ("((a AND (b)) AND ((c)))", "a & b & c"),
            ("(a) = (b) AND (a)", "(a) = (b) & a"),
            ("!a AND (!(b AND c))", "!a & !(b AND c)"),
            (
                "(a AND b) OR (c BETWEEN 1 AND 2)",
                "(a AND b)|(c BETWEEN 1 AND 2)",
            ),
            (
                "a IN (SELECT b FROM u WHERE c AND d) && e",
                "a IN (SELECT b FROM u WHERE c AND d) & e",
            ),
        ] {
            assert_eq!(
                shown(&format!(
                    "SELECT CASE WHEN x AND y THEN 1 END FROM t WHERE {filter}"
                )),
                expected
            );
        }
    }
}
