//! ORDER BY of statements that change rows, where a SELECT of their rows would read it otherwise.

use sqltext::{Mode, PieceKind, pieces};

/// ORDER BY has a number, alone or in parentheses, which means a column in a SELECT only.
pub fn orders_by_place(clause: &str, mode: &Mode) -> bool {
    let all = pieces(clause.as_bytes(), mode).unwrap_or_default();
    let is = |at: usize, word: &str| all.get(at).is_some_and(|it| it.is(clause.as_bytes(), word));
    let begins = |at: usize| {
        let front = all[..at].iter().rposition(|it| it.kind != PieceKind::Open);
        front.is_some_and(|it| is(it, "BY") || all[it].kind == PieceKind::Comma)
    };
    let ends = |at: usize| {
        let behind = all[at + 1..]
            .iter()
            .position(|it| it.kind != PieceKind::Close);
        behind.is_none_or(|it| {
            let it = at + 1 + it;
            let words = ["ASC", "DESC", "LIMIT"];
            all[it].kind == PieceKind::Comma || words.iter().any(|word| is(it, word))
        })
    };
    let is_number = |at: usize| {
        let digits = all[at].span.of(clause.as_bytes());
        all[at].kind == PieceKind::Literal && digits.iter().all(u8::is_ascii_digit)
    };
    let limit = (0..all.len())
        .find(|at| is(*at, "LIMIT"))
        .unwrap_or(all.len());
    (0..limit).any(|at| is_number(at) && begins(at) && ends(at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::Dialect;

    #[test]
    fn a_number_alone_is_a_place() {
        let mode = Mode::new(Dialect::MySql, 80_045);
        for (clause, expected) in [
            ("ORDER BY 1", true),
            ("ORDER BY a, (2) DESC LIMIT 3", true),
            ("ORDER BY 2 LIMIT 3", true),
            ("ORDER BY a LIMIT 1, 2", false),
            ("ORDER BY a + 1, 1 + b, f(1), -1, '1', 0.5, ?", false),
            ("LIMIT 1", false),
        ] {
            assert_eq!(orders_by_place(clause, &mode), expected, "{clause}");
        }
    }
}
