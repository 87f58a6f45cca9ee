//! Makes the plan of a shape from one text of it.

use std::sync::Arc;

use farm::{Sharding, error};
use sqltext::{Mode, Slot, slots};

use super::calls::own_call;
use super::insert::InsertPlan;
use super::tables::Tables;
use super::values::Named;
use super::varying::{differs, limits, varying};
use super::{Goes, Plan, Point, Tabled, refusal};
use crate::analysis::{Analysis, Unread};
use crate::catalog::{Catalog, Kind};
use crate::fold::Constant;
use crate::keys::{Condition, Term};
use crate::read::read;

/// A value that no statement has.
const UNKNOWN: Constant = Constant::Value(Term {
    at: u32::MAX,
    negative: false,
    computed: false,
});

/// What a plan depends on besides the text.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    pub sharding: &'a Sharding,
    /// The farm's first group.
    pub home: &'a Arc<str>,
    /// The session's; empty when it has none.
    pub database: &'a str,
    pub mode: &'a Mode,
    /// The statement changes rows.
    pub writes: bool,
    /// It locks the rows that it reads.
    pub locks: bool,
}

/// The plan for texts of this text's shape.
pub fn plan(text: &[u8], asked: &Asked<'_>) -> Plan {
    let slots = slots(text, asked.mode);
    let maker = Maker {
        text,
        asked,
        tables: Tables {
            sharding: asked.sharding,
            home: asked.home,
        },
        slots: &slots,
    };
    Plan {
        goes: maker.goes(text),
        writes: asked.writes,
        values: slots.len(),
    }
}

pub(super) struct Maker<'a> {
    text: &'a [u8],
    pub asked: &'a Asked<'a>,
    pub tables: Tables<'a>,
    pub slots: &'a [Slot],
}

impl Maker<'_> {
    fn goes(&self, text: &[u8]) -> Goes {
        if self.asked.writes
            && let Some(insert) = sqltext::insert(text, self.asked.mode)
            && let Some(goes) = InsertPlan::make(text, &insert, self)
        {
            return goes;
        }
        match self.read(text) {
            Ok(analysis) => match self.of_analysis(analysis) {
                Goes::Tables(mut tabled) => {
                    tabled.selects = self.inserts();
                    Goes::Tables(tabled)
                }
                goes => goes,
            },
            Err(unread) => self.of_unread(text, unread),
        }
    }

    /// Reads a text whose meaning for the parser is that for the servers.
    pub fn read(&self, text: &[u8]) -> Result<Analysis, Unread> {
        let unread = |reason: &str| Unread {
            reason: reason.to_owned(),
        };
        let Ok(text) = std::str::from_utf8(text) else {
            return Err(unread("it is not in UTF-8"));
        };
        let mode = self.asked.mode;
        if text.contains("/*!") || text.contains("/*M!") {
            return Err(unread("it has a comment that is executed"));
        }
        if mode.ansi_quotes && text.contains('"') {
            return Err(unread("it has names in double quotes"));
        }
        if mode.no_backslash_escapes && text.contains('\\') {
            return Err(unread("it has backslashes that escape nothing"));
        }
        read(text, self.asked.database, &self.tables)
    }

    pub fn of_analysis(&self, mut analysis: Analysis) -> Goes {
        if analysis.references.is_empty() && !analysis.names_opaque {
            return self.without_sharded(&analysis.singles, &analysis.globals, &analysis);
        }
        if analysis.references.is_empty() && analysis.singles.is_empty() {
            // Views, and tables that every group has: views are where the tables of their maps are.
            if self.asked.writes {
                return Goes::Steps {
                    inserts: self.inserts(),
                };
            }
            let reason = "it names a view, or something else that is not understood";
            let reason = reason.to_owned();
            return Goes::Unread(Unread { reason });
        }
        let mut terms = Vec::new();
        for constant in &mut analysis.constants {
            let known = constant.renamed(&mut |term| self.enter(term, &mut terms));
            // What stands for it bounds nothing, like a value that is not there.
            *constant = known.unwrap_or(UNKNOWN);
        }
        for reference in &mut analysis.references {
            let condition = std::mem::take(&mut reference.condition);
            reference.condition = condition.renamed(&mut |term| self.enter(term, &mut terms));
        }
        for moved in &mut analysis.writes.moves {
            moved.to = moved.to.and_then(|term| self.enter(term, &mut terms));
        }
        if let Some(point) = point(&analysis, &terms) {
            return Goes::Key(point);
        }
        Goes::Tables(Box::new(Tabled {
            analysis,
            terms,
            selects: false,
        }))
    }

    /// Gives a term its place among the plan's.
    fn enter(&self, term: Term, terms: &mut Vec<Named>) -> Option<Term> {
        if term.computed {
            return Some(term);
        }
        let named = self.named(term.at, term.negative)?;
        terms.push(named);
        Some(Term {
            at: u32::try_from(terms.len() - 1).ok()?,
            negative: false,
            computed: false,
        })
    }

    /// The value that begins at a byte, or behind its sign.
    pub fn named(&self, at: u32, negative: bool) -> Option<Named> {
        let behind = self.slots.partition_point(|slot| slot.span.start <= at);
        let place = behind.checked_sub(1)?;
        let slot = &self.slots[place];
        let signed = slot.span.start < at;
        // A sign may also be an operator between this value and another.
        if at >= slot.span.end || slot.joined || (signed && !negative) {
            return None;
        }
        Some(Named {
            place: u32::try_from(place).ok()?,
            // A sign that is a part of the literal is read with it.
            negative: negative && !signed,
        })
    }

    fn without_sharded(&self, singles: &[Arc<str>], globals: &[u32], analysis: &Analysis) -> Goes {
        if let ([], [] | [_]) = (singles, globals)
            && !self.asked.writes
            && let Some(call) = own_call(self.text, self.asked.mode)
        {
            let database = call.database.as_deref().unwrap_or(self.asked.database);
            let group = self.asked.sharding.database(database);
            let group = group.unwrap_or(self.asked.home);
            let map = globals.first().map(|map| self.asked.sharding.map(*map));
            // Where the tables are not, the call is the lesser evil.
            if map.is_none_or(|map| map.is_some_and(|it| it.groups.contains(group))) {
                return Goes::Group(group.clone());
            }
        }
        match (singles, globals) {
            ([], []) => Goes::Nowhere,
            ([], [map]) if self.asked.locks && !self.asked.writes => {
                // Locks that others shall meet are taken on one group only.
                let mapped = self.asked.sharding.map(*map);
                mapped.map_or(Goes::Nowhere, |mapped| {
                    Goes::Group(mapped.map.global_group.clone())
                })
            }
            ([], [map]) => self.global(*map, analysis),
            ([group], maps) => {
                let has = |map: &u32| {
                    let mapped = self.asked.sharding.map(*map);
                    mapped.is_some_and(|mapped| mapped.groups.contains(group))
                };
                let writes_global = self.asked.writes && !maps.is_empty();
                if writes_global && (analysis.writes.global || analysis.writes.unknown) {
                    return Goes::Steps { inserts: false };
                }
                match maps.iter().all(has) {
                    true => Goes::Group(group.clone()),
                    false => self.several(analysis),
                }
            }
            _ => self.several(analysis),
        }
    }

    /// Tables that every group of a map has.
    fn global(&self, map: u32, analysis: &Analysis) -> Goes {
        let (text, mode) = (self.text, self.asked.mode);
        let call = self.asked.writes.then(|| varying(text, mode)).flatten();
        if let Some(call) = call {
            return not_over_groups(&differs(&call));
        }
        let unread = self.asked.writes && analysis.writes.unknown && limits(text, mode);
        let limited = analysis.writes.limited || unread;
        Goes::Global { map, limited }
    }

    /// It is an INSERT.
    fn inserts(&self) -> bool {
        self.asked.writes && sqltext::insert(self.text, self.asked.mode).is_some()
    }

    /// Tables of several groups.
    fn several(&self, analysis: &Analysis) -> Goes {
        match self.asked.writes {
            true => Goes::Steps {
                inserts: self.inserts(),
            },
            false => Goes::Tables(Box::new(Tabled {
                analysis: analysis.clone(),
                terms: Vec::new(),
                selects: false,
            })),
        }
    }

    /// What a text's names tell that is not read.
    fn of_unread(&self, text: &[u8], unread: Unread) -> Goes {
        let (mut singles, mut globals): (Vec<Arc<str>>, Vec<u32>) = Default::default();
        for name in sqltext::tables(text, self.asked.mode) {
            let database = name.database.as_deref().map(String::from_utf8_lossy);
            let database = database.as_deref().unwrap_or(self.asked.database);
            match self
                .tables
                .table(database, &String::from_utf8_lossy(&name.name))
            {
                Kind::Sharded(_) | Kind::Opaque => return Goes::Unread(unread),
                Kind::Global { map } if !globals.contains(&map) => globals.push(map),
                Kind::Single { group } if !singles.contains(group) => singles.push(group.clone()),
                Kind::Global { .. } | Kind::Single { .. } => {}
            }
        }
        let mut analysis = Analysis::default();
        analysis.writes.unknown = true;
        match self.without_sharded(&singles, &globals, &analysis) {
            Goes::Tables(_) => Goes::Unread(unread),
            goes => goes,
        }
    }
}

pub(super) fn not_over_groups(reason: &str) -> Goes {
    Goes::Refused(refusal(error::NOT_OVER_GROUPS, reason))
}

/// One sharded table and nothing else, whose key is equal to one value.
fn point(analysis: &Analysis, terms: &[Named]) -> Option<Point> {
    let [one] = &analysis.references[..] else {
        return None;
    };
    let plain = analysis.singles.is_empty()
        && analysis.globals.is_empty()
        && !analysis.names_opaque
        && analysis.writes.moves.is_empty()
        && !analysis.writes.limited
        && !analysis.writes.returns;
    let term = match &one.condition {
        Condition::Equal(term) => Some(term),
        Condition::All(all) => all.iter().find_map(|one| match one {
            Condition::Equal(term) => Some(term),
            _ => None,
        }),
        _ => None,
    };
    let term = term.filter(|term| !term.computed)?;
    let value = *terms.get(term.at as usize)?;
    plain.then_some(Point {
        map: one.table.map,
        key: one.table.key,
        value,
    })
}
