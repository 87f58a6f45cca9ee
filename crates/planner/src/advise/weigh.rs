//! Proposals for a farm: which changes save most of the bytes that its statements move.
//!
//! Statements weigh by what they moved, as far as that was counted, else by the sizes of their tables. The
//! best change comes first, and each following one counts what it saves once those in front of it are made.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use farm::sharding::{Placed, Sharding};
use sqltext::{Mode, PieceKind, pieces, spliced};

use super::cure::sets;
use super::terms::Terms;
use super::way::{Moved, Text, Way};
use super::{Change, To, changed};

/// Statements that are looked at: those that weigh most.
const STATEMENTS_MAX: usize = 200;

/// Proposals at most.
const PROPOSALS_MAX: usize = 20;

/// What a group more costs a statement, in bytes that could be moved instead.
const TRIP_BYTES: u64 = 4096;

/// A table may become global unless it has more than this part of all bytes and of all rows.
const GLOBAL_PART: u64 = 10;

/// A table without a place becomes global at first if it has no more than this part of them.
const SMALL_PART: u64 = 100;

/// A statement, as it was counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    /// In its normal form, or as a client sent it.
    pub text: String,
    pub database: String,
    pub calls: u64,
    /// What all calls together brought from servers to a router; 0 where nobody counted.
    pub rows_read: u64,
    pub bytes_read: u64,
    pub rows_changed: u64,
}

/// How much a table holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub rows: u64,
    pub bytes: u64,
}

/// Tables by database and name.
pub type Sizes = BTreeMap<(String, String), Size>;

/// What there is to look at.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Where tables are, with the columns of all of them.
    pub sharding: &'a Sharding,
    pub home: &'a Arc<str>,
    /// The map that tables go to.
    pub map: u32,
    pub mode: &'a Mode,
    pub sizes: &'a Sizes,
    pub statements: &'a [Counted],
    /// Nothing is declared yet: every table wants a place.
    pub fresh: bool,
}

/// What to do, and what it saves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    pub changes: Vec<Change>,
    /// Of all calls that were counted.
    pub bytes_saved: u64,
    pub rows_saved: u64,
    pub calls: u64,
    /// So many shapes of statements move less.
    pub statements: usize,
    /// One that moves less: the one that saves most.
    pub text: String,
}

/// Proposes changes, the one that saves most first.
pub fn advise(work: &Work<'_>) -> Vec<Proposal> {
    let mut weighed = Weighed::of(work);
    let mut now = Places::new();
    if work.fresh {
        weighed.settle(&mut now);
    }
    let begun = now.clone();
    let mut proposals = Vec::new();
    while proposals.len() < PROPOSALS_MAX {
        let Some((proposal, then)) = weighed.best(&now) else {
            break;
        };
        now = then;
        proposals.push(proposal);
    }
    match work.fresh {
        true => whole(&weighed, &begun, &now, proposals),
        false => proposals,
    }
}

/// Tables that are placed otherwise than the farm has them.
type Places = BTreeMap<(String, String), To>;

/// What all calls of a statement cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    bytes: f64,
    rows: f64,
}

struct Weighed<'a> {
    work: &'a Work<'a>,
    all: Vec<Statement>,
    /// All tables that are named, together.
    whole: Size,
    /// What statements cost where their tables are so placed.
    known: HashMap<(usize, Places), Cost>,
}

struct Statement {
    text: String,
    counted: Counted,
    terms: Terms,
    writes: bool,
    /// What was counted, by what the sizes of its tables say.
    scale: f64,
}

impl<'a> Weighed<'a> {
    fn of(work: &'a Work<'a>) -> Weighed<'a> {
        let mut heavy: Vec<&Counted> = work.statements.iter().collect();
        heavy.sort_by_key(|it| std::cmp::Reverse((it.bytes_read, it.calls)));
        heavy.truncate(STATEMENTS_MAX);
        let mut weighed = Weighed {
            work,
            all: Vec::new(),
            whole: Size::default(),
            known: HashMap::new(),
        };
        weighed.all = heavy
            .into_iter()
            .filter_map(|it| weighed.statement(it))
            .collect();
        let tables: BTreeSet<&(String, String)> =
            weighed.all.iter().flat_map(|it| &it.terms.tables).collect();
        let sizes: Vec<Size> = tables.iter().map(|it| weighed.size(it)).collect();
        weighed.whole = Size {
            rows: sizes.iter().map(|it| it.rows).sum(),
            bytes: sizes.iter().map(|it| it.bytes).sum(),
        };
        weighed
    }

    /// `None` for one that is not read, or names no table.
    fn statement(&self, counted: &Counted) -> Option<Statement> {
        let text = filled(&counted.text, self.work.mode);
        let verb = pieces(text.as_bytes(), self.work.mode)?;
        let first = verb.first()?;
        let is = |word: &&str| first.is(text.as_bytes(), word);
        let writes = ["INSERT", "REPLACE", "UPDATE", "DELETE"].iter().any(is);
        let of = self.text(&text, &counted.database, writes);
        let terms = Terms::of(&text, &of.asked(self.work.sharding))?;
        if terms.tables.is_empty() {
            return None;
        }
        let (way, calls) = (of.way(self.work.sharding), counted.calls.max(1) as f64);
        let thought = self.moved(&way).bytes * calls;
        let scale = match (&way, thought > 0.0, counted.bytes_read) {
            (Way::Gather(_), true, read) if read > 0 => read as f64 / thought,
            _ => 1.0,
        };
        Some(Statement {
            text,
            counted: counted.clone(),
            terms,
            writes,
            scale,
        })
    }

    fn text<'t>(&'t self, text: &'t str, database: &'t str, writes: bool) -> Text<'t> {
        Text {
            text,
            database,
            mode: self.work.mode,
            home: self.work.home,
            writes,
        }
    }

    fn size(&self, table: &(String, String)) -> Size {
        self.work.sizes.get(table).copied().unwrap_or_default()
    }

    /// What one call moves, by the sizes of tables.
    fn moved(&self, way: &Way) -> Cost {
        let Way::Gather(all) = way else {
            return Cost::default();
        };
        let of = |moved: &Moved| {
            let name = (moved.database.clone(), moved.table.clone());
            let size = self.size(&name);
            let schema = self.work.sharding.schema(&moved.database, &moved.table);
            let columns = schema.map_or(1, |it| it.columns.len()).max(1);
            Cost {
                bytes: size.bytes as f64 * moved.columns.min(columns) as f64 / columns as f64,
                rows: size.rows as f64,
            }
        };
        all.iter().map(of).fold(Cost::default(), |all, one| Cost {
            bytes: all.bytes + one.bytes,
            rows: all.rows + one.rows,
        })
    }

    fn cost(&mut self, at: usize, places: &Places) -> Cost {
        let statement = &self.all[at];
        let tables = &statement.terms.tables;
        let own = places.iter().filter(|(name, _)| tables.contains(name));
        let own: Places = own.map(|(name, to)| (name.clone(), to.clone())).collect();
        if let Some(known) = self.known.get(&(at, own.clone())) {
            return *known;
        }
        let changes = as_changes(&own);
        let cost = match changed(self.work.sharding, self.work.map, &changes) {
            Some(then) => self.cost_on(statement, &then),
            None => Cost {
                bytes: f64::INFINITY,
                rows: 0.0,
            },
        };
        self.known.insert((at, own), cost);
        cost
    }

    fn cost_on(&self, statement: &Statement, then: &Sharding) -> Cost {
        let counted = &statement.counted;
        let calls = counted.calls.max(1) as f64;
        let text = self.text(&statement.text, &counted.database, statement.writes);
        let trips = |groups: usize| groups.saturating_sub(1) as f64 * TRIP_BYTES as f64 * calls;
        match text.way(then) {
            Way::One => Cost::default(),
            Way::Each(groups) | Way::Same(groups) => Cost {
                bytes: trips(groups),
                rows: 0.0,
            },
            way @ Way::Gather(_) => {
                let moved = self.moved(&way);
                let groups = then.map(self.work.map).map_or(1, |it| it.groups.len());
                Cost {
                    bytes: moved.bytes * calls * statement.scale + trips(groups + 1),
                    rows: moved.rows * calls * statement.scale,
                }
            }
            // What cannot run at all is no way out.
            Way::Refused => Cost {
                bytes: self.whole.bytes as f64 * calls,
                rows: 0.0,
            },
        }
    }

    /// The changes that save most, and where tables are then.
    fn best(&mut self, now: &Places) -> Option<(Proposal, Places)> {
        let mut best: Option<(Proposal, Places)> = None;
        for changes in self.candidates(now) {
            let mut then = now.clone();
            for change in &changes {
                let name = (change.database.clone(), change.table.clone());
                then.insert(name, change.to.clone());
            }
            let Some(proposal) = self.saving(now, &then, changes) else {
                continue;
            };
            let better = |known: &Proposal| self.net(&proposal) > self.net(known);
            if best.as_ref().is_none_or(|(known, _)| better(known)) {
                best = Some((proposal, then));
            }
        }
        best
    }

    /// What it saves without the bytes that the changes themselves move once; of equal ones the smaller change.
    fn net(&self, proposal: &Proposal) -> (i128, std::cmp::Reverse<usize>) {
        let mapped = self.work.sharding.map(self.work.map);
        let others = mapped.map_or(1, |it| it.groups.len().saturating_sub(1));
        let moved = proposal.changes.iter().map(|change| {
            let size = self.size(&(change.database.clone(), change.table.clone()));
            match change.to {
                To::Global => i128::from(size.bytes) * others as i128,
                To::Key(_) => i128::from(size.bytes),
            }
        });
        let net = i128::from(proposal.bytes_saved) - moved.sum::<i128>();
        (net, std::cmp::Reverse(proposal.changes.len()))
    }

    fn saving(&mut self, now: &Places, then: &Places, changes: Vec<Change>) -> Option<Proposal> {
        let touched = |it: &Statement| {
            let mut tables = it.terms.tables.iter();
            tables.any(|name| now.get(name) != then.get(name))
        };
        let touched: Vec<usize> = (0..self.all.len())
            .filter(|at| touched(&self.all[*at]))
            .collect();
        let (mut saved, mut calls, mut statements) = (Cost::default(), 0, 0);
        let mut most: Option<(f64, usize)> = None;
        for at in touched {
            let (before, after) = (self.cost(at, now), self.cost(at, then));
            let bytes = before.bytes - after.bytes;
            saved.bytes += bytes;
            saved.rows += before.rows - after.rows;
            if bytes > 0.0 {
                statements += 1;
                calls += self.all[at].counted.calls;
                if most.is_none_or(|(known, _)| bytes > known) {
                    most = Some((bytes, at));
                }
            }
        }
        let (_, at) = most.filter(|_| saved.bytes >= 1.0)?;
        Some(Proposal {
            changes,
            bytes_saved: saved.bytes as u64,
            rows_saved: saved.rows.max(0.0) as u64,
            calls,
            statements,
            text: self.all[at].counted.text.clone(),
        })
    }

    /// Sets of changes that statements suggest which move something now.
    fn candidates(&mut self, now: &Places) -> BTreeSet<Vec<Change>> {
        let mut all = BTreeSet::new();
        let Some(here) = changed(self.work.sharding, self.work.map, &as_changes(now)) else {
            return all;
        };
        for at in 0..self.all.len() {
            if self.cost(at, now).bytes <= 0.0 {
                continue;
            }
            let terms = &self.all[at].terms;
            let mut suggested = sets(terms, &here);
            suggested.extend(points(terms, &here));
            let global: Vec<Change> = terms
                .tables
                .iter()
                .filter(|name| !matches!(here.placed(&name.0, &name.1), Placed::Global(_)))
                .map(|name| to(name, To::Global))
                .filter(|it| self.may_be(it))
                .collect();
            suggested.push(global.clone());
            let keys = suggested
                .iter()
                .filter(|it| it.iter().all(|it| it.to != To::Global));
            let keys: Vec<Vec<Change>> = keys.filter(|it| !it.is_empty()).cloned().collect();
            suggested.extend(keys.into_iter().map(|key| {
                let rest = global
                    .iter()
                    .filter(|it| key.iter().all(|of| of.table != it.table));
                key.iter().chain(rest).cloned().collect()
            }));
            for mut changes in suggested {
                changes.sort();
                changes.dedup();
                if !changes.is_empty() && changes.iter().all(|it| self.may_be(it)) {
                    all.insert(changes);
                }
            }
        }
        all
    }

    /// Copies of a large table are too many.
    fn may_be(&self, change: &Change) -> bool {
        let size = self.size(&(change.database.clone(), change.table.clone()));
        change.to != To::Global || self.is_small(size, GLOBAL_PART)
    }

    fn is_small(&self, size: Size, part: u64) -> bool {
        size.bytes <= self.whole.bytes / part || size.rows <= self.whole.rows / part
    }

    /// Gives every table a place to begin with: small ones are global, the others lie by the first column of
    /// their primary keys.
    fn settle(&self, now: &mut Places) {
        for name in self.all.iter().flat_map(|it| &it.terms.tables) {
            let Some(schema) = self.work.sharding.schema(&name.0, &name.1) else {
                continue;
            };
            let small = self.is_small(self.size(name), SMALL_PART);
            let first = schema.primary.first().map(|at| usize::from(*at));
            let first = first.and_then(|at| schema.columns.get(at));
            let key = first.map(|column| To::Key(column.name.to_string()));
            let fits = |it: &To| to(name, it.clone()).placement(self.work.sharding, self.work.map);
            let place = match small {
                true => [Some(To::Global), key],
                false => [key, Some(To::Global)],
            };
            if let Some(place) = place.into_iter().flatten().find(|it| fits(it).is_some()) {
                now.insert(name.clone(), place);
            }
        }
    }
}

/// Where a farm's first tables go: one proposal for each of them, with what its place saves against its
/// first one.
fn whole(
    weighed: &Weighed<'_>,
    begun: &Places,
    now: &Places,
    steps: Vec<Proposal>,
) -> Vec<Proposal> {
    let mut all = Vec::new();
    for (name, place) in now {
        let change = to(name, place.clone());
        let moved = begun.get(name) != Some(place);
        let step = steps
            .iter()
            .rfind(|it| moved && it.changes.contains(&change));
        let named = |it: &&Statement| it.terms.tables.contains(name);
        let named: Vec<&Statement> = weighed.all.iter().filter(named).collect();
        let most = named.iter().max_by_key(|it| it.counted.calls);
        let (bytes_saved, rows_saved) = step.map_or((0, 0), |it| (it.bytes_saved, it.rows_saved));
        all.push(Proposal {
            changes: vec![change],
            bytes_saved,
            rows_saved,
            calls: named.iter().map(|it| it.counted.calls).sum(),
            statements: named.len(),
            text: match step {
                Some(step) => step.text.clone(),
                None => most.map_or(String::new(), |it| it.counted.text.clone()),
            },
        });
    }
    let size = |it: &Proposal| {
        let change = &it.changes[0];
        weighed
            .size(&(change.database.clone(), change.table.clone()))
            .bytes
    };
    all.sort_by_key(|it| std::cmp::Reverse((it.bytes_saved, size(it))));
    all
}

fn to(name: &(String, String), to: To) -> Change {
    Change {
        database: name.0.clone(),
        table: name.1.clone(),
        to,
    }
}

fn as_changes(places: &Places) -> Vec<Change> {
    places
        .iter()
        .map(|(name, place)| to(name, place.clone()))
        .collect()
}

/// Keys that statements say to be equal to values.
fn points(terms: &Terms, here: &Sharding) -> Vec<Vec<Change>> {
    let change = |(at, column): &(usize, String)| to(&terms.tables[*at], To::Key(column.clone()));
    let all = terms.points.iter().map(change);
    all.filter(|it| !it.is_done(here))
        .map(|it| vec![it])
        .collect()
}

/// A normal form with values in place of its marks, so that it can be planned.
fn filled(text: &str, mode: &Mode) -> String {
    let all = pieces(text.as_bytes(), mode).unwrap_or_default();
    let is = |at: usize, word: &&str| all[at].is(text.as_bytes(), word);
    let mark = |(at, piece): (usize, &sqltext::Piece)| {
        let typed = at > 0
            && ["DATE", "TIME", "TIMESTAMP"]
                .iter()
                .any(|it| is(at - 1, it));
        let value = match typed {
            true => "'2000-01-01'",
            false => "1",
        };
        let span = (piece.span.start as usize, piece.span.end as usize);
        (piece.kind == PieceKind::Placeholder).then(|| (span, value.to_owned()))
    };
    spliced(text, all.iter().enumerate().filter_map(mark).collect())
}
