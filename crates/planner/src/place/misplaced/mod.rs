//! A second opinion on a statement that goes to one group: each of its tables over shards must be bound
//! to that group itself, also those that views are made of. It shares the parser and the maps with what
//! placed the statement, and nothing else: bodies of views are looked through here, and each shard of
//! each table is struck out only where a condition that its rows must meet cannot be true of its keys.
//!
//! For debug builds and tests; a release asks nobody twice.

mod conditions;
mod parts;
mod walk;

use std::ops::Bound as End;
use std::rc::Rc;
use std::sync::Arc;

use farm::Sharding;
use farm::shard::{ShardIx, ShardMap, ShardedTable};
use farm::sharding::Placed;
use routing::shard::{between, compared, with_key};
use sqlparser::ast::Statement as Parsed;
use sqltext::{Dialect, Mode, slots, tables};

use super::{Statement, Value};
use crate::parse;
use crate::read::binds_oddly;
use crate::text::Lines;
use conditions::{Comparison, Filter, Operand, Text};

/// Views' bodies are written in the servers' own words.
const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

/// Views of views are looked through so deep.
const VIEWS_MAX: usize = 50;

/// Whose statement it is.
#[derive(Clone, Copy, Debug)]
pub struct Whose<'a> {
    pub sharding: &'a Sharding,
    /// The farm's first group.
    pub home: &'a Arc<str>,
    /// The session's; empty when it has none.
    pub database: &'a str,
}

/// What of a statement may have rows that matter on other groups than this one; `None` when nothing
/// has.
pub fn misplaced(statement: &Statement<'_>, whose: Whose<'_>, group: &str) -> Option<String> {
    let slots = slots(statement.text, statement.mode);
    let all = std::str::from_utf8(statement.text).ok();
    let mut witness = Witness {
        whose,
        group,
        seen: Vec::new(),
        wrong: None,
        depth: 0,
    };
    let insert = sqltext::insert(statement.text, statement.mode).is_some();
    match all.and_then(|text| Some((text, parsed(text)?))) {
        Some((text, parsed)) => {
            let text = Text {
                lines: Lines::new(text),
                slots: &slots,
                values: statement.values,
                database: whose.database,
                odd: binds_oddly(&parsed),
            };
            witness.statement(&parsed, &text);
        }
        // The table that rows are put into is a matter of the rows.
        None => witness.names(statement.text, statement.mode, whose.database, insert),
    }
    witness.verdict()
}

/// A statement on tables.
fn parsed(text: &str) -> Option<Parsed> {
    use Parsed::{Delete, Insert, Query, Update};
    let found = parse::one(text).ok()?;
    matches!(&found, Query(_) | Update(_) | Delete(_) | Insert(_)).then_some(found)
}

/// A table over shards, as often as it is named.
struct Seen<'a> {
    table: &'a ShardedTable,
    map: &'a ShardMap,
    /// Shards whose rows may matter.
    left: Vec<ShardIx>,
    filters: Vec<Rc<Filter>>,
    /// NULLs may stand for its rows.
    padded: bool,
}

struct Witness<'a> {
    whose: Whose<'a>,
    group: &'a str,
    seen: Vec<Seen<'a>>,
    wrong: Option<String>,
    depth: usize,
}

impl<'a> Witness<'a> {
    /// Strikes shards out until no more can be, and looks at what is left.
    fn verdict(mut self) -> Option<String> {
        loop {
            let mut struck = false;
            for at in 0..self.seen.len() {
                let one = &self.seen[at];
                let matters = |shard: &ShardIx| {
                    let mut filters = one.filters.iter();
                    filters.all(|filter| self.can_be(filter, at, *shard))
                };
                let left: Vec<ShardIx> = one.left.iter().copied().filter(matters).collect();
                struck |= left.len() < one.left.len();
                self.seen[at].left = left;
            }
            if !struck {
                break;
            }
        }
        let elsewhere = |seen: &&Seen<'_>| {
            let mut left = seen.left.iter();
            left.any(|at| *seen.map.shard(*at).group != *self.group)
        };
        let found = self.seen.iter().find(elsewhere);
        let told = found.map(|seen| format!("{}.{}", seen.table.database, seen.table.table));
        self.wrong.or(told)
    }

    /// A condition may be true of a row of this table whose key lies in this shard.
    fn can_be(&self, filter: &Filter, of: usize, shard: ShardIx) -> bool {
        match filter {
            Filter::Unknown => true,
            Filter::All(all) => all.iter().all(|it| self.can_be(it, of, shard)),
            Filter::Any(any) => any.iter().any(|it| self.can_be(it, of, shard)),
            Filter::Compared(how, one, other) => match (one, other) {
                (Operand::Key(at), other) if *at == of => self.meets(*how, false, other, of, shard),
                (one, Operand::Key(at)) if *at == of => self.meets(*how, true, one, of, shard),
                _ => true,
            },
        }
    }

    /// The same of `key how other`; `turned`: of `other how key`.
    fn meets(
        &self,
        how: Comparison,
        turned: bool,
        other: &Operand,
        of: usize,
        shard: ShardIx,
    ) -> bool {
        let own = &self.seen[of];
        match (other, how) {
            (Operand::Unknown, _) => true,
            (Operand::Value(Value::Null), _) => false,
            (Operand::Value(value), _) => {
                let Some(key) = compared(value.literal(), own.table.key) else {
                    return true;
                };
                let found = match (how, turned) {
                    (Comparison::Equal, _) => with_key(own.map, &key),
                    (Comparison::Less(true), false) => {
                        between(own.map, End::Unbounded, End::Included(&key))
                    }
                    (Comparison::Less(false), false) => {
                        between(own.map, End::Unbounded, End::Excluded(&key))
                    }
                    (Comparison::Less(true), true) => {
                        between(own.map, End::Included(&key), End::Unbounded)
                    }
                    (Comparison::Less(false), true) => {
                        between(own.map, End::Excluded(&key), End::Unbounded)
                    }
                };
                found.iter().any(|at| at == shard)
            }
            (Operand::Key(at), Comparison::Equal) => {
                let theirs = &self.seen[*at];
                let comparable =
                    theirs.table.map == own.table.map && theirs.table.key == own.table.key;
                !comparable || theirs.left.contains(&shard)
            }
            (Operand::Key(_), Comparison::Less(_)) => true,
        }
    }

    /// Names of a text that is not parsed.
    fn names(&mut self, text: &[u8], mode: &Mode, database: &str, insert: bool) {
        if self.depth > VIEWS_MAX {
            return;
        }
        for table in tables(text, mode).iter().skip(usize::from(insert)) {
            let of = table.database.as_deref().map(String::from_utf8_lossy);
            let of = of.as_deref().unwrap_or(database);
            let name = String::from_utf8_lossy(&table.name);
            let schema = self.whose.sharding.schema(of, &name);
            if let Some(schema) = schema.filter(|schema| schema.view) {
                self.depth += 1;
                match &schema.body {
                    Some(body) => self.names(body.as_bytes(), &MODE, of, false),
                    None => self.wrong = Some(format!("{of}.{name}")),
                }
                self.depth -= 1;
            } else {
                self.base(of, &name);
            }
        }
    }

    /// A table that is no view.
    fn base(&mut self, database: &str, name: &str) -> Option<usize> {
        let sharding = self.whose.sharding;
        let here = match sharding.placed(database, name) {
            Placed::Sharded(table) => {
                let map = &sharding.map(table.map)?.map;
                self.seen.push(Seen {
                    table,
                    map,
                    left: map.places().collect(),
                    filters: Vec::new(),
                    padded: false,
                });
                return Some(self.seen.len() - 1);
            }
            Placed::Global(map) => {
                let mapped = sharding.map(map)?;
                mapped.groups.iter().any(|group| **group == *self.group)
            }
            Placed::Group(group) => **group == *self.group,
            Placed::Home => **self.whose.home == *self.group,
        };
        if !here {
            self.wrong = Some(format!("{database}.{name}"));
        }
        None
    }
}
