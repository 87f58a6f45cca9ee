//! Which groups have the rows of a table that a condition leaves.

use std::sync::Arc;

use farm::sharding::Sharding;
use routing::shard::Literal;
use sqltext::{Mode, PieceKind, Span, pieces};

use crate::answer::{Asked, Unanswered};
use crate::keys::Term;
use crate::parse::shared;

/// The groups that can have rows of a text's sharded tables that matter; each once.
///
/// # Errors
/// One of the shards is disabled.
pub(crate) fn groups(text: &str, asked: &Asked<'_>) -> Result<Vec<Arc<str>>, Unanswered> {
    let mut found: Vec<Arc<str>> = Vec::new();
    let unread = |reason| Unanswered::Unknown(reason);
    let text = &*shared(text, asked.mode);
    let analysis = crate::read(text, asked.database, &asked.tables())
        .map_err(|it| unread(format!("the tables' shards are not found: {}", it.reason)))?;
    let literals = Literals::of(text, asked.mode);
    let mut maps: Vec<u32> = analysis.references.iter().map(|it| it.table.map).collect();
    maps.dedup();
    for id in maps {
        let Some(mapped) = asked.sharding.map(id) else {
            return Err(unread(format!("shard map {id} is not known")));
        };
        let sets = analysis.shards(&mapped.map, &|term| literals.value(term));
        let own = analysis.references.iter().zip(&sets);
        for (_, set) in own.filter(|(reference, _)| reference.table.map == id) {
            for at in set.iter() {
                let shard = mapped.map.shard(at);
                if !shard.enabled {
                    return Err(Unanswered::Disabled(shard.id));
                }
                if !found.contains(&shard.group) {
                    found.push(shard.group.clone());
                }
            }
        }
    }
    Ok(found)
}

/// The same of a text that has been planned already; `None` where they are not found.
pub fn groups_of(text: &str, asked: &Asked<'_>) -> Option<Vec<Arc<str>>> {
    groups(text, asked).ok()
}

/// All groups of a table that has no key to be bound.
pub(crate) fn global_groups(sharding: &Sharding, map: u32) -> Vec<Arc<str>> {
    sharding.map(map).map_or(Vec::new(), |it| it.groups.clone())
}

/// The literals of a text by where they stand.
struct Literals<'t> {
    text: &'t str,
    mode: &'t Mode,
    spans: Vec<Span>,
}

impl<'t> Literals<'t> {
    fn of(text: &'t str, mode: &'t Mode) -> Literals<'t> {
        let all = pieces(text.as_bytes(), mode).unwrap_or_default();
        let literals = all.iter().filter(|it| it.kind == PieceKind::Literal);
        Literals {
            text,
            mode,
            spans: literals.map(|it| it.span).collect(),
        }
    }

    fn value(&self, term: Term) -> Option<Literal<'t>> {
        // The tokenizer takes a minus that touches its number along.
        let has = |span: &Span| (span.start..span.end).contains(&term.at);
        let at = self.spans.partition_point(|span| span.end <= term.at);
        let span = *self.spans.get(at).filter(|span| has(span))?;
        let signed = span.start < term.at;
        if term.negative != signed {
            return None;
        }
        match sqltext::literal(self.text.as_bytes(), span, self.mode)? {
            sqltext::Literal::Plain(number) => {
                let number = std::str::from_utf8(number).ok()?;
                let digits = number.strip_prefix('-').unwrap_or(number);
                let plain = |c: char| c.is_ascii_digit() || c == '.';
                digits.chars().all(plain).then_some(Literal::Number(number))
            }
            sqltext::Literal::Text(text) => Some(Literal::Text(text)),
        }
    }
}
