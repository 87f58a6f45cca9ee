//! Conditions on a shard key, and the shards that they leave.

use std::ops::Bound as End;

use farm::shard::{Key, KeyType, ShardMap};
use routing::shard::{Literal, ShardSet, between, compared, with_key};

/// Where a key's value stands: a literal of the text or a parameter's mark, by the byte at which it
/// begins; with a minus in front of it. Or a value that is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Term {
    pub at: u32,
    pub negative: bool,
    /// `at` is a place among [`Analysis::constants`](crate::Analysis::constants).
    pub computed: bool,
}

/// What a statement demands of a table's shard key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// Nothing that is understood.
    #[default]
    Any,
    /// No row can be meant.
    Never,
    Equal(Term),
    /// Each end may be open; `true` when the value itself is meant.
    Between(Option<(Term, bool)>, Option<(Term, bool)>),
    All(Vec<Condition>),
    Either(Vec<Condition>),
}

impl Condition {
    /// This and that.
    pub fn and(self, other: Condition) -> Condition {
        match (self, other) {
            (Condition::Any, one) | (one, Condition::Any) => one,
            (Condition::All(mut all), other) => {
                all.push(other);
                Condition::All(all)
            }
            (one, other) => Condition::All(vec![one, other]),
        }
    }

    /// This or that.
    pub fn or(self, other: Condition) -> Condition {
        match (self, other) {
            (Condition::Any, _) | (_, Condition::Any) => Condition::Any,
            (Condition::Never, one) | (one, Condition::Never) => one,
            (Condition::Either(mut all), other) => {
                all.push(other);
                Condition::Either(all)
            }
            (one, other) => Condition::Either(vec![one, other]),
        }
    }

    /// With other terms; what has none any more bounds nothing.
    pub fn renamed(self, name: &mut impl FnMut(Term) -> Option<Term>) -> Condition {
        match self {
            Condition::Any | Condition::Never => self,
            Condition::Equal(term) => name(term).map_or(Condition::Any, Condition::Equal),
            Condition::Between(low, high) => {
                let mut end = |end: Option<(Term, bool)>| match end {
                    None => Some(None),
                    Some((term, included)) => name(term).map(|term| Some((term, included))),
                };
                match (end(low), end(high)) {
                    (Some(low), Some(high)) => Condition::Between(low, high),
                    _ => Condition::Any,
                }
            }
            Condition::All(of) => {
                let of = of.into_iter().map(|one| one.renamed(name));
                of.fold(Condition::Any, Condition::and)
            }
            Condition::Either(of) => {
                let of = of.into_iter().map(|one| one.renamed(name));
                of.fold(Condition::Never, Condition::or)
            }
        }
    }

    /// The shards that can have rows for which it holds, with these values for its terms.
    pub fn shards<'v>(
        &self,
        map: &ShardMap,
        key: KeyType,
        value: &impl Fn(Term) -> Option<Literal<'v>>,
    ) -> ShardSet {
        let all = || map.places().collect::<ShardSet>();
        let known = |term: Term| value(term).map(|literal| (literal, compared(literal, key)));
        match self {
            Condition::Any => all(),
            Condition::Never => ShardSet::default(),
            Condition::Equal(term) => match known(*term) {
                // No row is equal to NULL.
                Some((Literal::Null, _)) => ShardSet::default(),
                Some((_, Some(key))) => with_key(map, &key),
                _ => all(),
            },
            Condition::Between(low, high) => {
                // `None` when no row can be meant; a value that is not known is no end.
                let end = |end: &Option<(Term, bool)>| match end {
                    None => Some(None),
                    Some((term, included)) => match known(*term) {
                        Some((Literal::Null, _)) => None,
                        Some((_, key)) => Some(key.map(|key| (key, *included))),
                        None => Some(None),
                    },
                };
                let (Some(low), Some(high)) = (end(low), end(high)) else {
                    return ShardSet::default();
                };
                between(map, bound(low.as_ref()), bound(high.as_ref()))
            }
            Condition::All(of) => {
                let mut shards = all();
                of.iter()
                    .for_each(|one| shards.meet(&one.shards(map, key, value)));
                shards
            }
            Condition::Either(of) => {
                let mut shards = ShardSet::default();
                of.iter()
                    .for_each(|one| shards.join(&one.shards(map, key, value)));
                shards
            }
        }
    }
}

fn bound(end: Option<&(Key, bool)>) -> End<&Key> {
    match end {
        None => End::Unbounded,
        Some((key, true)) => End::Included(key),
        Some((key, false)) => End::Excluded(key),
    }
}
