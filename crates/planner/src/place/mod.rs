//! Where a statement goes: which groups have the tables that it names, and the keys that it means.
//!
//! A [`Plan`] is made once per shape of a text and says which of the text's values decide; what those
//! values are is looked up with every statement ([`Plan::spot`]), without reading the text again.

mod calls;
mod computed;
mod fits;
mod given;
mod insert;
mod make;
mod misplaced;
mod others;
mod tables;
mod values;
mod varying;

use std::sync::Arc;

use farm::shard::{KeyType, ShardMap};
use farm::sharding::Mapped;
use farm::{ClientError, Sharding, error};
use routing::Refusal;
use routing::shard::{Nowhere, ShardSet, compared, locate, shard_of};
use sqltext::Mode;

use crate::analysis::{Analysis, Unread};
use crate::keys::Term;
pub use calls::{OwnCall, own_call};
pub(crate) use fits::Fits;
pub use insert::{Auto, InsertPlan};
pub use make::{Asked, plan};
pub use misplaced::{Whose, misplaced};
pub(crate) use others::reads_others;
pub use tables::Tables;
use values::Named;
pub use values::{Literals, Value, Values, literal};

/// Where the statements of a shape go.
#[derive(Clone, Debug)]
pub struct Plan {
    pub goes: Goes,
    /// It changes rows, or locks them.
    pub writes: bool,
    /// So many values a text of the shape has.
    values: usize,
}

/// What decides where a statement goes.
#[derive(Clone, Debug)]
pub enum Goes {
    /// It names no table.
    Nowhere,
    /// All its tables are on this group.
    Group(Arc<str>),
    /// Its tables are on every group of the map. `limited`: by a LIMIT, a write could choose other
    /// rows on each.
    Global { map: u32, limited: bool },
    /// The one value that a sharded table's key is equal to.
    Key(Point),
    /// Sharded tables, and others.
    Tables(Box<Tabled>),
    /// An INSERT or REPLACE into a sharded or global table.
    Insert(Box<InsertPlan>),
    /// A write whose rows depend on those of other groups, whatever its values are.
    Steps {
        /// It is an INSERT.
        inserts: bool,
    },
    /// What the parser does not know, and which names sharded tables: all rows may be meant.
    Unread(Unread),
    /// It can run nowhere.
    Refused(Refusal),
}

/// `key = value`.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    pub(crate) map: u32,
    pub(crate) key: KeyType,
    pub(crate) value: Named,
}

/// A statement with sharded tables. Terms of its conditions are places in `terms`.
#[derive(Clone, Debug)]
pub struct Tabled {
    pub analysis: Analysis,
    pub(crate) terms: Vec<Named>,
    /// It is an INSERT of what a query gives.
    pub(crate) selects: bool,
}

/// Why a statement is not run.
pub(crate) fn refusal(error: ClientError, detail: impl Into<String>) -> Refusal {
    let detail = detail.into();
    Refusal { error, detail }
}

/// Where one statement goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// To any group: it names no table.
    Anywhere,
    Group(Arc<str>),
    /// To any group of this map.
    AnyOf(u32),
    /// As it is, to each of these. Each answers for itself.
    Each(Vec<Arc<str>>),
    /// As it is, to each of these, which have copies of the same rows; the first one's answer counts.
    Same(Vec<Arc<str>>),
    /// To these, whose answers are to be put together; the first level tells how.
    Read(Vec<Arc<str>>),
    /// Rows of an INSERT, by their numbers, to each of these.
    Rows(Vec<(Arc<str>, Vec<u32>)>),
    /// The values of these parts of the text must be known first: expressions that a server computes.
    Evaluate(Vec<sqltext::Span>),
    /// So many ids are to be put in first; 0 for an INSERT that brings its own.
    Ids(u32),
    /// UPDATE of a shard key to one that lives elsewhere.
    Moves(Vec<Arc<str>>),
    /// UPDATE or DELETE … LIMIT over several groups.
    Limited(Vec<Arc<str>>),
    /// An INSERT of what queries give, which is to be had first.
    Select,
    /// UPDATE or DELETE whose rows, or their values, depend on rows of other groups.
    ByKeys,
    Refused(Refusal),
}

/// One statement that is to go somewhere.
#[derive(Clone, Copy)]
pub struct Statement<'a> {
    pub text: &'a [u8],
    pub mode: &'a Mode,
    pub values: &'a dyn Values,
    /// A zero in an AUTO_INCREMENT column is no wish for an id (NO_AUTO_VALUE_ON_ZERO).
    pub zero_is_value: bool,
}

impl Plan {
    /// A write that answers with rows.
    pub fn returns(&self) -> bool {
        match &self.goes {
            Goes::Insert(insert) => insert.returns,
            Goes::Tables(tabled) => tabled.analysis.writes.returns,
            _ => false,
        }
    }

    /// Where a statement of the plan's shape goes, with its values.
    pub fn spot(&self, statement: &Statement<'_>, sharding: &Sharding) -> Spot {
        if statement.values.count() != self.values {
            // Another shape after all.
            return refused(
                error::NOT_OVER_GROUPS,
                "the statement's values are not understood",
            );
        }
        match &self.goes {
            Goes::Nowhere => Spot::Anywhere,
            Goes::Group(group) => Spot::Group(group.clone()),
            Goes::Global { map, .. } if !self.writes => Spot::AnyOf(*map),
            Goes::Global { map, limited } => match sharding.map(*map).map(|it| every(it)) {
                Some(Spot::Same(groups)) if *limited => Spot::Limited(groups),
                Some(spot) => spot,
                None => Spot::Anywhere,
            },
            Goes::Key(point) => point.spot(self.writes, statement, sharding),
            Goes::Tables(tabled) => tabled.spot(self.writes, statement, sharding),
            Goes::Insert(insert) => insert.spot(statement, sharding),
            Goes::Steps { inserts: true } => Spot::Select,
            Goes::Steps { inserts: false } => Spot::ByKeys,
            Goes::Unread(unread) if self.writes => {
                let reason = format!("the statement is not understood: {}", unread.reason);
                refused(error::NOT_OVER_GROUPS, reason)
            }
            Goes::Unread(_) => Spot::Read(Vec::new()),
            Goes::Refused(refusal) => Spot::Refused(refusal.clone()),
        }
    }
}

fn refused(error: ClientError, detail: impl Into<String>) -> Spot {
    Spot::Refused(refusal(error, detail))
}

/// A write that all groups of a map must have.
pub(crate) fn every(mapped: &Mapped) -> Spot {
    match &mapped.groups[..] {
        [only] => Spot::Group(only.clone()),
        groups => Spot::Same(groups.to_vec()),
    }
}

fn disabled(shard: u32) -> Spot {
    refused(error::SHARD_DISABLED, shard.to_string())
}

/// A group that has the tables of a map, for a statement that no row can match.
fn some_group(map: &ShardMap) -> Spot {
    let first = map.shards.iter().find(|shard| shard.enabled);
    Spot::Group(
        first
            .map_or(&map.global_group, |shard| &shard.group)
            .clone(),
    )
}

impl Point {
    fn spot(&self, writes: bool, statement: &Statement<'_>, sharding: &Sharding) -> Spot {
        let Some(mapped) = sharding.map(self.map) else {
            return Spot::Anywhere;
        };
        let map = &mapped.map;
        let value = self.value.of(statement.values);
        if value == Some(Value::Null) {
            return some_group(map);
        }
        let key = value.and_then(|value| compared(value.literal(), self.key));
        let Some(key) = key else {
            let all: ShardSet = map.places().collect();
            return together(map, &all, writes);
        };
        match locate(map, &key) {
            Ok(at) => Spot::Group(map.shard(at).group.clone()),
            Err(Nowhere::OutOfRange) => some_group(map),
            Err(Nowhere::Disabled { shard }) => disabled(shard),
        }
    }
}

/// The groups of some shards of a map, each of which answers for itself.
fn together(map: &ShardMap, shards: &ShardSet, writes: bool) -> Spot {
    let mut groups = Vec::new();
    if let Err(shard) = collect(map, shards, &mut groups) {
        return disabled(shard);
    }
    match (groups.len(), writes) {
        (0, _) => some_group(map),
        (1, _) => Spot::Group(groups.remove(0)),
        (_, true) => Spot::Each(groups),
        (_, false) => Spot::Read(groups),
    }
}

/// Adds the groups of some shards that are not there yet.
///
/// # Errors
/// The number of a shard that is disabled.
fn collect(map: &ShardMap, shards: &ShardSet, groups: &mut Vec<Arc<str>>) -> Result<(), u32> {
    for at in shards.iter() {
        let shard = map.shard(at);
        if !shard.enabled {
            return Err(shard.id);
        }
        if !groups.contains(&shard.group) {
            groups.push(shard.group.clone());
        }
    }
    Ok(())
}

impl Tabled {
    /// The shards of each reference, with a statement's values.
    pub fn shards(&self, values: &dyn Values, sharding: &Sharding) -> Vec<ShardSet> {
        let known: Vec<Option<Value<'_>>> = self.terms.iter().map(|term| term.of(values)).collect();
        let value = |term: Term| known.get(term.at as usize)?.as_ref().map(Value::literal);
        let map = |id: u32| sharding.map(id).map(|mapped| &mapped.map);
        self.analysis.shards_on(map, &value)
    }

    /// What a term of the plan's is in a statement.
    fn value<'v>(&self, term: Term, values: &'v dyn Values) -> Option<Value<'v>> {
        let named = |term: Term| self.terms.get(term.at as usize)?.of(values);
        if !term.computed {
            return named(term);
        }
        let constant = self.analysis.constants.get(term.at as usize)?;
        let leaves: Vec<Option<Value<'v>>> = self.terms.iter().map(|it| it.of(values)).collect();
        constant.value(&|term| leaves.get(term.at as usize)?.as_ref().map(Value::literal))
    }

    fn spot(&self, writes: bool, statement: &Statement<'_>, sharding: &Sharding) -> Spot {
        let analysis = &self.analysis;
        let sets = self.shards(statement.values, sharding);
        let mut groups = Vec::new();
        for (reference, set) in analysis.references.iter().zip(&sets) {
            if let Some(mapped) = sharding.map(reference.table.map)
                && let Err(shard) = collect(&mapped.map, set, &mut groups)
            {
                return disabled(shard);
            }
        }
        for group in &analysis.singles {
            if !groups.contains(group) {
                groups.push(group.clone());
            }
        }
        if analysis.names_opaque {
            // No key of another table says where its rows are.
            return match writes {
                false => Spot::Read(groups),
                true if self.selects => Spot::Select,
                true => Spot::ByKeys,
            };
        }
        if writes && analysis.writes.global {
            return Spot::ByKeys;
        }
        if let Some(spot) = self.moves(&sets, &groups, statement, sharding) {
            return spot;
        }
        match (groups.len(), writes) {
            (0, _) => match analysis.references.first() {
                Some(one) => {
                    let mapped = sharding.map(one.table.map);
                    mapped.map_or(Spot::Anywhere, |mapped| some_group(&mapped.map))
                }
                None => Spot::Anywhere,
            },
            (1, _) if self.has_globals(&groups[0], sharding) => Spot::Group(groups.remove(0)),
            (_, false) => Spot::Read(groups),
            _ if self.selects => Spot::Select,
            _ if !self.changes_sharded() || !analysis.is_colocated() => Spot::ByKeys,
            _ if analysis.writes.limited => Spot::Limited(groups),
            _ => Spot::Each(groups),
        }
    }

    /// The statement changes sharded tables only, and reads no table of one group.
    fn changes_sharded(&self) -> bool {
        let writes = &self.analysis.writes;
        let others = writes.global || writes.single || writes.unknown;
        !others && !writes.references.is_empty() && self.analysis.singles.is_empty()
    }

    /// Every global table of the statement is on this group.
    fn has_globals(&self, group: &Arc<str>, sharding: &Sharding) -> bool {
        let maps = self.analysis.globals.iter();
        let mut mapped = maps.filter_map(|map| sharding.map(*map));
        mapped.all(|mapped| mapped.groups.contains(group))
    }

    /// What an UPDATE of shard keys comes to, when its rows do not stay where they are.
    fn moves(
        &self,
        sets: &[ShardSet],
        groups: &[Arc<str>],
        statement: &Statement<'_>,
        sharding: &Sharding,
    ) -> Option<Spot> {
        for moved in &self.analysis.writes.moves {
            let table = &self.analysis.references[moved.reference].table;
            let map = &sharding.map(table.map)?.map;
            let value = moved.to.and_then(|term| self.value(term, statement.values));
            if value == Some(Value::Null) {
                let column = table.column.to_string();
                return Some(refused(error::SHARD_KEY_NULL, column));
            }
            let key = value.and_then(|value| routing::shard::stored(value.literal(), table.key));
            let stays = key.is_some_and(|key| {
                let from = sets[moved.reference].only();
                from.is_some() && shard_of(map, &key) == from
            });
            if !stays {
                return Some(Spot::Moves(groups.to_vec()));
            }
        }
        None
    }
}
