//! What reading a statement gives: its sharded tables, what bounds their keys, which keys are equal.

use std::sync::Arc;

use farm::shard::{ShardMap, ShardedTable};
use routing::shard::{Literal, ShardSet};

use crate::fold::Constant;
use crate::keys::{Condition, Term};
use crate::place::Value;

/// Why a text was not read. It must then be taken to mean all rows of every table that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// For people.
    pub reason: String,
}

/// A sharded table as a statement names it; as often as it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub table: ShardedTable,
    /// What is demanded of its key by itself.
    pub condition: Condition,
    /// References whose keys each of its rows' key equals, where the row matters at all.
    pub equals: Vec<usize>,
}

/// What a statement is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Analysis {
    pub references: Vec<Reference>,
    /// The groups of tables that are on one group only; each once.
    pub singles: Vec<Arc<str>>,
    /// The maps of global tables; each once.
    pub globals: Vec<u32>,
    /// It names views whose rows are made of rows of several groups, or changes a view, or names
    /// something else that is not understood. Whatever the keys of its tables are, it is not for one
    /// group.
    pub names_opaque: bool,
    /// What an UPDATE or DELETE changes.
    pub writes: Writes,
    /// Expressions that terms stand for.
    pub constants: Vec<Constant>,
}

/// The tables that an UPDATE or DELETE changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Writes {
    /// Sharded ones, as [`Analysis::references`] has them.
    pub references: Vec<usize>,
    pub global: bool,
    /// Ones of one group.
    pub single: bool,
    /// It may change others.
    pub unknown: bool,
    /// It has a LIMIT.
    pub limited: bool,
    /// It has RETURNING.
    pub returns: bool,
    /// Shard keys that it sets.
    pub moves: Vec<Move>,
}

/// An UPDATE of a shard key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Move {
    pub reference: usize,
    /// The new key, when it is written out.
    pub to: Option<Term>,
}

impl Analysis {
    /// For each reference the shards that can have rows of it that matter. All tables are on `map`.
    pub fn shards<'v>(
        &self,
        map: &ShardMap,
        value: &impl Fn(Term) -> Option<Literal<'v>>,
    ) -> Vec<ShardSet> {
        self.shards_on(|_| Some(map), value)
    }

    /// The same, of tables on several maps, each of which `map` finds by its number. A table whose map
    /// is not there has no shards.
    pub fn shards_on<'m, 'v>(
        &self,
        map: impl Fn(u32) -> Option<&'m ShardMap>,
        value: &impl Fn(Term) -> Option<Literal<'v>>,
    ) -> Vec<ShardSet> {
        let constants = self.constants.iter().map(|it| it.value(value));
        let constants: Vec<Option<Value<'static>>> = constants.collect();
        let known = |term: Term| match term.computed {
            true => constants
                .get(term.at as usize)?
                .as_ref()
                .map(Value::literal),
            false => value(term),
        };
        let of = |one: &Reference| {
            let map = map(one.table.map);
            map.map_or_else(ShardSet::default, |map| {
                one.condition.shards(map, one.table.key, &known)
            })
        };
        let mut sets: Vec<ShardSet> = self.references.iter().map(of).collect();
        // Keys that are equal are on one shard; each round can only take shards away.
        loop {
            let before = sets.clone();
            for (at, one) in self.references.iter().enumerate() {
                for &other in &one.equals {
                    let theirs = sets[other].clone();
                    sets[at].meet(&theirs);
                }
            }
            if sets == before {
                return sets;
            }
        }
    }

    /// Every row belongs to rows of equal keys only: what each shard answers is complete.
    pub fn is_colocated(&self) -> bool {
        let mut reached = vec![false; self.references.len()];
        let Some(first) = reached.first_mut() else {
            return true;
        };
        *first = true;
        loop {
            let before = reached.clone();
            for (at, one) in self.references.iter().enumerate() {
                for &other in &one.equals {
                    let either = reached[at] || reached[other];
                    (reached[at], reached[other]) = (either, either);
                }
            }
            if reached == before {
                return reached.into_iter().all(|it| it);
            }
        }
    }
}
