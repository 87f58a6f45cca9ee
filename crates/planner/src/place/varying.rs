//! What would be another value on each of the groups that a statement changes copies of the same
//! rows on.

use sqltext::{Mode, PieceKind, pieces};

use crate::functions;

/// The first function called in a text whose value varies; `None` when there is none.
pub(super) fn varying(text: &[u8], mode: &Mode) -> Option<String> {
    let all = pieces(text, mode)?;
    let mut pairs = all.windows(2);
    let call = pairs.find(|two| {
        let word = matches!(two[0].kind, PieceKind::Word | PieceKind::Reserved);
        let name = String::from_utf8_lossy(two[0].span.of(text));
        word && two[1].kind == PieceKind::Open && functions::varies(&name)
    })?;
    Some(String::from_utf8_lossy(call[0].span.of(text)).to_uppercase())
}

/// True for a text with a LIMIT.
pub(super) fn limits(text: &[u8], mode: &Mode) -> bool {
    let all = pieces(text, mode).unwrap_or_default();
    all.iter().any(|piece| piece.is(text, "LIMIT"))
}

/// Why a write to tables of all groups is not run.
pub(super) fn differs(call: &str) -> String {
    format!("{call}() would give each group another value: SELECT it first, and write what it gave")
}
