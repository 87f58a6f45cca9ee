//! Where the conditions of a WHERE stand in a text.

use sqltext::{Mode, Piece, PieceKind, pieces};

/// The conditions that AND joins in the WHERE of the SELECT that begins at a byte; `None` when it is
/// not sure.
pub(super) fn spans(text: &str, select: usize, mode: &Mode) -> Option<Vec<(usize, usize)>> {
    let bytes = text.as_bytes();
    let all = pieces(bytes, mode)?;
    let first = all
        .iter()
        .position(|piece| piece.span.start as usize == select)?;
    let mut filter = filter(&all[first..], bytes)?;
    let mut found = Vec::new();
    let mut depth = 0usize;
    // Within BETWEEN … AND, and within CASE … END.
    let (mut between, mut cases) = (false, 0usize);
    let mut start = 0;
    let whole = (
        filter.first()?.span.start as usize,
        filter.last()?.span.end as usize,
    );
    let mut at = 0;
    while let Some(piece) = filter.get(at) {
        match piece.kind {
            PieceKind::Open => depth += 1,
            PieceKind::Close => depth = depth.checked_sub(1)?,
            _ if depth > 0 => {}
            _ if piece.is(bytes, "CASE") => cases += 1,
            _ if piece.is(bytes, "END") && cases > 0 => cases -= 1,
            _ if cases > 0 => {}
            _ if ["OR", "XOR"].iter().any(|word| piece.is(bytes, word)) => {
                return Some(vec![whole]);
            }
            PieceKind::Operator if matches!(piece.span.of(bytes), b"||") => return None,
            _ if piece.is(bytes, "BETWEEN") => between = true,
            _ if !piece.is(bytes, "AND") && piece.span.of(bytes) != b"&&" => {}
            _ if between => between = false,
            _ => {
                found.push(ends(&filter[start..at])?);
                start = at + 1;
            }
        }
        at += 1;
    }
    filter = &filter[start..];
    found.push(ends(filter)?);
    Some(found)
}

fn ends(pieces: &[Piece]) -> Option<(usize, usize)> {
    Some((
        pieces.first()?.span.start as usize,
        pieces.last()?.span.end as usize,
    ))
}

/// What follows the WHERE of a SELECT, of whose pieces the first is the SELECT.
fn filter<'p>(pieces: &'p [Piece], text: &[u8]) -> Option<&'p [Piece]> {
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
    use sqltext::Dialect;

    use super::*;

    #[test]
    fn conditions_are_found() {
        for (text, expected) in [
            (
                "SELECT a FROM t WHERE a = 1 AND b BETWEEN 1 AND 2 AND (c OR d)",
                "a = 1|b BETWEEN 1 AND 2|(c OR d)",
            ),
            (
                "SELECT a FROM t WHERE a = 1 OR b = 2 AND c",
                "a = 1 OR b = 2 AND c",
            ),
            (
                "SELECT CASE WHEN a AND b THEN 1 END FROM t WHERE CASE WHEN a AND b THEN 1 END = 1 AND c GROUP BY d",
                "CASE WHEN a AND b THEN 1 END = 1|c",
            ),
            (
                "SELECT (SELECT 1 FROM u WHERE x AND y) FROM t WHERE z LIMIT 1",
                "z",
            ),
        ] {
            let mode = Mode::new(Dialect::MariaDb, 101_100);
            let spans = spans(text, 0, &mode).expect("it has some");
            let shown: Vec<&str> = spans
                .iter()
                .map(|(start, end)| &text[*start..*end])
                .collect();
            assert_eq!(shown.join("|"), expected);
        }
    }
}
