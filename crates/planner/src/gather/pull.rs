//! A SELECT that no parser reads: its tables are found by the words in front of their names, and
//! fetched whole.

use sqltext::{Piece, PieceKind, pieces, tables};

use super::references::Reference;
use super::{TABLES_MAX, Told, behind, put_together};
use crate::answer::{Answer, Asked, Tier, Unanswered};
use crate::parse::Traits;
use crate::views::GIVEN;

/// Words that follow a table's name and are no alias of it, besides the reserved ones.
const NO_ALIAS: [&str; 12] = [
    "FULL",
    "OFFSET",
    "WINDOW",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "PARTITION",
    "ROWS",
    "SYSTEM",
    "NATURAL",
    "END",
    "LOCK",
];

/// A word behind a table's name that is no alias of it.
pub(crate) fn follows_table(piece: &Piece, text: &str) -> bool {
    NO_ALIAS.iter().any(|word| piece.is(text.as_bytes(), word))
}

/// Whether a query locks the rows that it reads.
pub(crate) fn locks_rows(pieces: &[Piece], text: &[u8]) -> bool {
    pieces.windows(2).any(|two| {
        let [first, second] = two else { return false };
        first.is(text, "FOR") && (second.is(text, "UPDATE") || second.is(text, "SHARE"))
            || first.is(text, "LOCK") && second.is(text, "IN")
    })
}

/// Answers a text that is not read.
///
/// # Errors
/// It names what cannot be fetched.
pub(crate) fn pull(text: &str, asked: &Asked<'_>) -> Result<Answer, Unanswered> {
    let bytes = text.as_bytes();
    let unknown = |reason: &str| Unanswered::Unknown(reason.to_owned());
    let Some(all) = pieces(bytes, asked.mode) else {
        return Err(unknown("the text's quotes are not sure to end"));
    };
    let refused = ["PARTITION", "SYSTEM_TIME", "OUTFILE", "DUMPFILE"];
    for window in all.windows(2) {
        let [piece, next] = window else { continue };
        let clause = next.kind == PieceKind::Open || !piece.is(bytes, "PARTITION");
        if let Some(word) = refused.iter().find(|word| piece.is(bytes, word))
            && clause
        {
            return Err(unknown(&format!("{word} is not known over several groups")));
        }
    }
    let mut found = Vec::new();
    let given = |name: &[u8]| name.ends_with(GIVEN.as_bytes());
    let named = tables(bytes, asked.mode).into_iter();
    // One too many is refused where the answer is put together.
    for table in named.filter(|it| !given(&it.name)).take(TABLES_MAX + 1) {
        let name = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let database = table.database.as_deref().map(name);
        let span = (table.span.start as usize, table.span.end as usize);
        let mut rest = behind(&all, span.1).iter();
        let next = rest.next();
        let alias = match next {
            Some(next) if next.is(bytes, "AS") => rest.next(),
            Some(next) if follows_table(next, text) => None,
            next => next,
        };
        let alias = alias.and_then(|alias| alias.name(bytes, asked.mode));
        // A function or JSON_TABLE(…).
        if next.is_some_and(|next| next.kind == PieceKind::Open) {
            continue;
        }
        found.push(Reference {
            database: database.unwrap_or_else(|| asked.database.to_owned()),
            table: name(&table.name),
            span,
            alias: alias.map(|alias| name(&alias)),
            pushed: Vec::new(),
            lock: None,
            padded: false,
            once: false,
        });
    }
    if locks_rows(&all, bytes) {
        return Err(unknown(
            "locks are not known in a text over several groups that is not read",
        ));
    }
    let traits = Traits {
        all_columns: true,
        ..Traits::default()
    };
    let told = Told {
        by: vec![Vec::new(); found.len()],
        same: (0..found.len()).collect(),
        found: &found,
        met: &[],
        query: None,
    };
    put_together(text, asked, &told, &traits, Tier::Pull)
}
