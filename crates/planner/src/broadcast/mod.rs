//! Small tables that are sent to the shards, so that each of them answers the rest of a statement for its own rows.
//!
//! Job: of a statement that is gathered, choose tables whose rows are fetched first and put on each group as a
//! temporary table; ask the pushdown what it makes of the statement with these tables in place of the ones that it
//! names; and weigh the bytes that move against those of the gather.
//!
//! Invariants: a table that is sent as a whole is on every group, as a global table is, so a statement is answered so
//! only where the pushdown proves it of global tables: joins, semi-joins, the side of an outer join for which NULLs may
//! stand. A table that is divided lies on the groups by one of its columns, as a sharded table does, and the pushdown
//! proves it of sharded tables: each row is one group's, that of the rows with equal shard keys.
//! What rows of it may stay away is what a gather leaves away. Sizes choose whether a table is sent, never what the
//! answer is.
//!
//! Must not know: servers, connections, what becomes of the rows on their way.

mod choice;
mod divide;
mod sizes;
mod tables;

use farm::shard::{KeyType, ShardedTable};
use farm::sharding::{Placed, Placement};
use sqlparser::ast::Query;
use sqltext::{Piece, pieces, spliced, tables as named};

use crate::answer::{Answer, Asked, Division, Finish, Scratch, Sending, Tier};
use crate::gather::labels::labels;
use crate::gather::references::{Finder, Reference};
use crate::gather::{Met, qualifiers, renamed};
use crate::parse::{self, Traits};
use crate::push::{self, Not};
use crate::views;

pub use sizes::{Ran, Seen, Sizes};

use choice::{Cost, Way};
use divide::Compared;
use tables::Table;

/// The database of the tables that are sent.
const DATABASE: &str = "heddle";

/// Statements of more tables are gathered as they are.
const REFERENCES_MAX: usize = 16;

/// So many ways to send tables are tried of one statement.
const TRIED_MAX: usize = 16;

/// So many bytes may always be sent, however little a gather would move.
const SENT_BYTES_LEAST: u64 = 64 << 10;

/// Answers a statement that is gathered by sending tables, where that moves fewer bytes.
///
/// # Errors
/// Why it is better gathered; for people.
pub fn by_broadcast(
    text: &str,
    asked: &Asked<'_>,
    gathered: &Answer,
    sizes: &Sizes<'_>,
) -> Result<Answer, String> {
    let Finish::Scratch(scratch) = &gathered.finish else {
        return Err("it is not gathered".to_owned());
    };
    let least = choice::gathers_enough(&gathered.fragments, scratch, sizes)?;
    with_statement(text, asked, gathered, |statement, scratch| {
        let count = statement.tables.len();
        if sizes.rows.len() != count || scratch.tables.len() != count {
            return Err("its tables have changed".to_owned());
        }
        let cost = Cost::of(statement, scratch, sizes, least);
        let mut last = None;
        for way in cost.ways().into_iter().take(TRIED_MAX) {
            match statement.sent(&way) {
                Ok(answer) => return Ok(cost.weighed(answer, &way, gathered)),
                Err(why) => last = Some(why),
            }
        }
        Err(last.unwrap_or_else(|| cost.reason()))
    })
}

/// All ways to answer a statement that is gathered by sending tables, whatever they move: for those who compare them.
pub fn every_broadcast(text: &str, asked: &Asked<'_>, gathered: &Answer) -> Vec<Answer> {
    let all = with_statement(text, asked, gathered, |statement, _| {
        let ways = choice::every_way(statement).into_iter();
        let answers = ways.filter_map(|way| {
            let mut answer = statement.sent(&way).ok()?;
            if let Some(sending) = &mut answer.sending {
                sending.bytes_max = u64::MAX;
                *sending.instead = gathered.clone();
            }
            Some(answer)
        });
        Ok(answers.collect())
    });
    all.unwrap_or_default()
}

fn with_statement<T>(
    text: &str,
    asked: &Asked<'_>,
    gathered: &Answer,
    then: impl FnOnce(&Statement<'_>, &Scratch) -> Result<T, String>,
) -> Result<T, String> {
    let Finish::Scratch(scratch) = &gathered.finish else {
        return Err("it is not gathered".to_owned());
    };
    if gathered.tier != Tier::Gather || gathered.fragments.len() < 2 || gathered.locks {
        return Err("nothing can be sent of what is gathered".to_owned());
    }
    let moves = asked.sharding.moves().iter();
    if asked.changing.is_some() || moves.into_iter().any(|it| it.mixed.is_some()) {
        return Err("rows are changed or on their way".to_owned());
    }
    let whole = views::expanded(text, asked).map_err(|_| "a view is not known".to_owned())?;
    if parse::counts_rows(&whole, asked.mode) {
        return Err("one server counts all rows".to_owned());
    }
    let query = parse::query(&whole, asked.mode)?;
    let statement = Statement::of(&whole, &query, asked)?;
    then(&statement, scratch)
}

/// A statement, its tables, and what of them can be sent.
struct Statement<'t> {
    text: &'t str,
    query: &'t Query,
    asked: &'t Asked<'t>,
    all: Vec<Piece>,
    found: Vec<Reference>,
    /// One for each fragment of the gather, in its order.
    tables: Vec<Table>,
    compared: Compared,
}

impl<'t> Statement<'t> {
    fn of(text: &'t str, query: &'t Query, asked: &'t Asked<'t>) -> Result<Statement<'t>, String> {
        let traits = Traits::of(query);
        let mut finder = Finder::new(text, asked, &traits);
        finder.query(query, None)?;
        let Finder {
            found,
            reductions,
            met,
            ..
        } = finder;
        if found.len() > REFERENCES_MAX {
            return Err("it names many tables".to_owned());
        }
        if found.iter().any(|it| it.database == DATABASE) {
            return Err("it names tables of Heddle's own".to_owned());
        }
        let all = pieces(text.as_bytes(), asked.mode)
            .ok_or_else(|| "the text's quotes are not sure to end".to_owned())?;
        if all.iter().any(|it| it.is(text.as_bytes(), "ROLLUP")) {
            // MySQL gives its columns types that depend on the plan, a join's on that of all its tables.
            return Err("it has a ROLLUP".to_owned());
        }
        let tables = tables::tables(
            text,
            &all,
            asked,
            &traits,
            (&found[..], &reductions[..], &met[..]),
        )?;
        Ok(Statement {
            text,
            query,
            asked,
            all,
            found,
            tables,
            compared: Compared::of(query),
        })
    }

    /// The columns of one of the tables that are sent, by which it may be divided among the groups of the others.
    fn columns_to_divide_by(&self, set: &[usize], at: usize) -> Vec<usize> {
        let rest = self.tables.iter().enumerate();
        let rest = rest.filter(|(other, _)| !set.contains(other));
        let keys = rest.flat_map(|(_, table)| &table.references);
        let keys = keys.filter_map(|reference| {
            let reference = &self.found[*reference];
            let sharding = self.asked.sharding;
            match sharding.placed(&reference.database, &reference.table) {
                Placed::Sharded(table) if table.key == KeyType::Integer => Some(table),
                _ => None,
            }
        });
        let keys: Vec<&ShardedTable> = keys.collect();
        let map = keys.first().and_then(|it| self.asked.sharding.map(it.map));
        let Some(mapped) = map else {
            return Vec::new();
        };
        let names = keys.iter().map(|it| it.column.to_lowercase()).collect();
        let schema = &self.tables[at].schema;
        self.compared.columns(schema, mapped.map.kind, names)
    }

    /// The statement with these tables sent, as the groups answer it.
    fn sent(&self, way: &Way) -> Result<Answer, String> {
        let set = &way.set[..];
        let is_sent = |reference: usize| {
            let mut sent = set.iter();
            sent.any(|at| self.tables[*at].references.contains(&reference))
        };
        self.names_are_apart(&is_sent)?;
        let map = self.map_of_rest(&is_sent)?;
        let text = self.text_with(set);
        let names = named(text.as_bytes(), self.asked.mode);
        let names: Vec<(String, String)> = names
            .iter()
            .map(|it| {
                let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let database = it.database.as_deref().map(name);
                let database = database.unwrap_or_else(|| self.asked.database.to_owned());
                (database, name(&it.name))
            })
            .collect();
        let rest = names
            .iter()
            .map(|(database, table)| (&**database, &**table));
        let mut sharding = self.asked.sharding.only(rest);
        for (at, by) in way.tables() {
            let table = &self.tables[at];
            let placement = match by {
                None => Placement::Global { map },
                Some(column) => Placement::Sharded(ShardedTable {
                    database: DATABASE.into(),
                    table: (&*table.name).into(),
                    column: table.schema.columns[column].name.clone(),
                    key: KeyType::Integer,
                    map,
                }),
            };
            sharding.declare(DATABASE, &table.name, placement);
            sharding.describe(DATABASE, &table.name, table.schema.clone());
        }
        let asked = Asked {
            sharding: &sharding,
            ..*self.asked
        };
        let query = parse::query(&text, asked.mode)?;
        let mut answer = push::push(&text, &query, &asked).map_err(|not| match not {
            Not::Known(why) => why,
            Not::Unanswered(_) => "a shard is disabled".to_owned(),
        })?;
        self.opens_once(set, &answer)?;
        answer.sending = Some(Box::new(Sending {
            fragments: set
                .iter()
                .map(|at| self.tables[*at].fragment.clone())
                .collect(),
            tables: set.iter().map(|at| self.tables[*at].part.clone()).collect(),
            divided: self.divided(way, map, &answer)?,
            places: set.to_vec(),
            expected: Vec::new(),
            bytes_max: 0,
            instead: Box::new(answer.clone()),
        }));
        Ok(answer)
    }

    /// How the tables are divided among the groups that answer.
    fn divided(
        &self,
        way: &Way,
        map: u32,
        answer: &Answer,
    ) -> Result<Vec<Option<Division>>, String> {
        let [fragment] = &answer.fragments[..] else {
            return Err("the groups are asked for several things".to_owned());
        };
        if way.divides() && fragment.any {
            return Err("no row can be meant".to_owned());
        }
        let mapped = self.asked.sharding.map(map);
        let mapped = mapped.ok_or_else(|| "its map is not known".to_owned())?;
        let division = |(at, by): (usize, Option<usize>)| {
            let column = by?;
            Some(Division {
                column,
                name: self.tables[at].schema.columns[column].name.clone(),
                key: KeyType::Integer,
                mapped: mapped.clone(),
                groups: fragment.groups.clone(),
            })
        };
        Ok(way.tables().map(division).collect())
    }

    /// `database.table.column` must not mean a table that is sent and one that is not.
    fn names_are_apart(&self, is_sent: &dyn Fn(usize) -> bool) -> Result<(), String> {
        for (at, one) in self.found.iter().enumerate() {
            let like = |other: &Reference| {
                other.database == one.database && other.called() == one.called()
            };
            let mut others = self.found.iter().enumerate().skip(at + 1);
            if others.any(|(other, it)| like(it) && is_sent(at) != is_sent(other)) {
                return Err(format!("{} is named twice", one.called()));
            }
        }
        Ok(())
    }

    /// The one map of the tables that stay where they are.
    fn map_of_rest(&self, is_sent: &dyn Fn(usize) -> bool) -> Result<u32, String> {
        let mut map = None;
        for (at, reference) in self.found.iter().enumerate() {
            if is_sent(at) {
                continue;
            }
            let placed = self
                .asked
                .sharding
                .placed(&reference.database, &reference.table);
            let own = match placed {
                Placed::Sharded(table) => table.map,
                Placed::Global(_) => continue,
                Placed::Group(_) | Placed::Home => {
                    return Err(format!("{} is on one group only", reference.called()));
                }
            };
            match map {
                Some(map) if map != own => {
                    return Err("its tables are on several maps".to_owned());
                }
                _ => map = Some(own),
            }
        }
        map.ok_or_else(|| "no table is left whose rows the groups share".to_owned())
    }

    /// The text that names the tables which are sent. Conditions that all their rows meet are not asked once more.
    fn text_with(&self, set: &[usize]) -> String {
        let sent = set.iter().map(|at| &self.tables[*at]);
        let references: Vec<(usize, &Table)> = sent
            .clone()
            .flat_map(|table| table.references.iter().map(move |it| (*it, table)))
            .collect();
        let met: Vec<(usize, usize)> = sent.flat_map(|table| table.met.clone()).collect();
        let met = Met::of(&met);
        let (text, all, asked) = (self.text, &self.all, self.asked);
        let mut cuts = Vec::new();
        for (at, table) in &references {
            cuts.extend(renamed(
                text,
                all,
                asked,
                &self.found[*at],
                &table.part.name,
            ));
        }
        let own: Vec<&Reference> = references.iter().map(|(at, _)| &self.found[*at]).collect();
        cuts.extend(qualifiers(text, all, asked, &own));
        cuts.retain(|(place, _)| !met.covers(*place));
        cuts.extend(met.0.iter().map(|place| (*place, "TRUE".to_owned())));
        let more = labels(text, self.query, asked.mode, &cuts);
        cuts.extend(more);
        spliced(text, cuts)
    }

    /// MySQL opens a temporary table once in a statement.
    fn opens_once(&self, set: &[usize], answer: &Answer) -> Result<(), String> {
        if self.asked.mode.dialect != sqltext::Dialect::MySql {
            return Ok(());
        }
        let often = |at: &&usize| {
            let name = &*self.tables[**at].part.name;
            let mut texts = answer.fragments.iter();
            texts.any(|it| it.text.matches(name).count() > 1)
        };
        match set.iter().find(often) {
            None => Ok(()),
            Some(at) => Err(format!("{} is opened twice", self.tables[*at].called)),
        }
    }
}
