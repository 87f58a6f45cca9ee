//! Tables that a statement names twice and that have the same rows each time: they are fetched once.
//!
//! The rows are the same where the same conditions and the same other tables choose them. Only MariaDB
//! opens a temporary table twice in one statement.

use sqltext::{Dialect, Mode, PieceKind, pieces, spliced};

use super::references::Reference;
use crate::answer::{Asked, Reduction};

/// For each reference the first one that has the same rows: itself, as a rule.
pub(crate) fn same(found: &[Reference], by: &[Vec<Reduction>], asked: &Asked<'_>) -> Vec<usize> {
    if asked.mode.dialect != Dialect::MariaDb || asked.changing.is_some() {
        return (0..found.len()).collect();
    }
    let chosen = found
        .iter()
        .zip(by)
        .map(|(it, by)| Chosen::of(it, by, asked.mode));
    let chosen: Vec<Chosen<'_>> = chosen.collect();
    let first = |at: usize| {
        let locks = found[at].lock.is_some();
        let same = chosen[..at]
            .iter()
            .position(|it| !locks && *it == chosen[at]);
        same.unwrap_or(at)
    };
    (0..found.len()).map(first).collect()
}

/// What chooses the rows of a reference, by whatever name it is called.
#[derive(PartialEq)]
struct Chosen<'r> {
    database: &'r str,
    table: &'r str,
    lock: Option<&'static str>,
    once: bool,
    pushed: Vec<String>,
    by: Vec<Reduction>,
}

impl<'r> Chosen<'r> {
    fn of(reference: &'r Reference, by: &[Reduction], mode: &Mode) -> Chosen<'r> {
        let neutral = |text: &str| neutral(text, reference.called(), mode);
        let neutral_by = |one: &Reduction| Reduction {
            to: neutral(&one.to),
            there: one.there.as_deref().map(neutral),
            ..one.clone()
        };
        Chosen {
            database: &reference.database,
            table: &reference.table,
            lock: reference.lock,
            once: reference.once,
            pushed: reference.pushed.iter().map(|it| neutral(it)).collect(),
            by: by.iter().map(neutral_by).collect(),
        }
    }
}

/// A condition without the name of its table in front of columns. Within a query a column without it may
/// be another table's, so there the names stay, and the table's is put in front of all.
fn neutral(text: &str, called: &str, mode: &Mode) -> String {
    let bytes = text.as_bytes();
    let all = pieces(bytes, mode).unwrap_or_default();
    if all.is_empty() || all.iter().any(|it| it.is(bytes, "SELECT")) {
        return format!("{called}: {text}");
    }
    let is = |at: usize| {
        let dotted = |at: usize| all.get(at).is_some_and(|it| it.kind == PieceKind::Dot);
        let name = all[at].name(bytes, mode);
        name.is_some_and(|it| *it == *called.as_bytes())
            && dotted(at + 1)
            && !(at > 0 && dotted(at - 1))
    };
    let cut = |at: usize| {
        let span = (all[at].span.start as usize, all[at + 1].span.end as usize);
        (span, String::new())
    };
    let cuts = (0..all.len()).filter(|at| is(*at)).map(cut).collect();
    spliced(text, cuts)
}
