//! Stored functions and sequences in statements that name no table: they are where their database is,
//! and so are the tables that a function reads.

use sqltext::{Mode, Piece, PieceKind, pieces};

use crate::functions;

/// A routine or a sequence of somebody's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnCall {
    /// Where the statement names one.
    pub database: Option<String>,
}

/// The first that a text calls, or may call.
pub fn own_call(text: &[u8], mode: &Mode) -> Option<OwnCall> {
    let has = |word: &[u8]| {
        let mut parts = text.windows(word.len());
        parts.any(|it| it.eq_ignore_ascii_case(word))
    };
    if !text.contains(&b'(') && !has(b"value") && !has(b"call") {
        return None;
    }
    let all = pieces(text, mode)?;
    let name = |at: usize| {
        let name = all.get(at)?.name(text, mode)?;
        Some(String::from_utf8_lossy(&name).into_owned())
    };
    let kind = |at: usize| all.get(at).map(|piece: &Piece| piece.kind);
    // `name`, or `database.name`, which begins here.
    let named = |at: usize| OwnCall {
        database: name(at).filter(|_| kind(at + 1) == Some(PieceKind::Dot)),
    };
    let is = |at: usize, word: &str| all.get(at).is_some_and(|piece| piece.is(text, word));
    if is(0, "call") {
        return Some(named(1));
    }
    (0..all.len()).find_map(|at| {
        if is(at, "value") && is(at + 1, "for") {
            return Some(named(at + 2));
        }
        let called = matches!(kind(at)?, PieceKind::Word | PieceKind::Quoted);
        if !called || kind(at + 1) != Some(PieceKind::Open) {
            return None;
        }
        let called = name(at)?;
        if at >= 2 && kind(at - 1) == Some(PieceKind::Dot) {
            return Some(named(at - 2));
        }
        let sequence = ["nextval", "lastval", "setval"];
        if sequence.iter().any(|it| called.eq_ignore_ascii_case(it)) {
            return Some(named(at + 2));
        }
        (!functions::is_built_in(&called)).then_some(OwnCall { database: None })
    })
}

#[cfg(test)]
mod tests {
    use sqltext::Dialect;

    use super::*;

    #[test]
    fn what_the_servers_have_is_nobodys() {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let call = |text: &str| own_call(text.as_bytes(), &mode).map(|it| it.database);
        let none = "SELECT 1, NOW(), CONCAT('f(', ?), COUNT(*), LAST_INSERT_ID(), (1 + 2) IN (3)";
        assert_eq!(call(none), None);
        assert_eq!(call("SELECT 'value for a'"), None);
        assert_eq!(call("SELECT next_number(1)"), Some(None));
        assert_eq!(call("SET @a = abs(`f`(2))"), Some(None));
        assert_eq!(call("SELECT shop.abs(2)"), Some(Some("shop".to_owned())));
        assert_eq!(call("SELECT NEXTVAL(s)"), Some(None));
        assert_eq!(
            call("SELECT NEXT VALUE FOR shop.s"),
            Some(Some("shop".to_owned()))
        );
        assert_eq!(call("DO setval(shop.s, 7)"), Some(Some("shop".to_owned())));
        assert_eq!(call("CALL p"), Some(None));
        assert_eq!(call("/* c */ CALL `shop`.p"), Some(Some("shop".to_owned())));
    }
}
