//! Which tables are best sent, by the bytes that move: those of their rows, once to the router and once to each group,
//! or to one of them where they are divided, against those of all rows of a gather, once to the router and once to the
//! scratch server.
//!
//! Tables are sent only where the most that this may move is clearly less than the least that a gather moves. So a
//! statement is gathered until fetches of its shape have told what they give, or tables without conditions say enough.

use super::sizes::{Expected, Ran, Sizes};
use super::tables::Place;
use super::{SENT_BYTES_LEAST, Statement};
use crate::answer::{Answer, Fragment, Reduced, Scratch, Source};
use crate::gather::cost::Costs;
use crate::shards::global_groups;

/// Of more tables not all sets are looked at: none is sent.
const TABLES_MAX: usize = 10;

/// Of a set with more ways to divide some of its tables, the others are not divided.
const CHOICES_MAX: usize = 8;

/// A column of a row has so many bytes at least: its length, and a letter.
const COLUMN_BYTES_LEAST: u64 = 2;

/// Less is not worth the making of tables on each group.
const SAVED_BYTES_LEAST: u64 = 4096;

/// Sending has to move so much less than the least that a gather moves.
const SAVED_SHARE: f64 = 0.25;

/// Rows of a gather come to the router and go to the scratch server.
const GATHERED_TIMES: u64 = 2;

/// What a gather moves in any case.
///
/// # Errors
/// Sending cannot save as much as it has to; why.
pub(super) fn gathers_enough(
    fragments: &[Fragment],
    scratch: &Scratch,
    sizes: &Sizes<'_>,
) -> Result<u64, String> {
    let learned = sizes.ran.fetches.len() == scratch.tables.len();
    let bytes: u64 = match learned {
        true => sizes.ran.fetches.iter().map(|it| it.least.bytes).sum(),
        false => certain(fragments, scratch, sizes),
    };
    let least = bytes.saturating_mul(GATHERED_TIMES);
    match (least >= SAVED_BYTES_LEAST, learned) {
        (true, _) => Ok(least),
        (false, true) => Err(format!(
            "a gather moves little: some {least} bytes (learned)"
        )),
        (false, false) => {
            Err("what a gather of it moves is not known before it has run".to_owned())
        }
    }
}

/// The bytes that fetches give in any case: those that no condition and no value of another one bounds, and the first.
fn certain(fragments: &[Fragment], scratch: &Scratch, sizes: &Sizes<'_>) -> u64 {
    let first = scratch.order.first().copied();
    let of = |(at, fragment): (usize, &Fragment)| {
        let reduced = &scratch.reduced[at];
        let free = reduced.by.is_empty() || Some(at) == first;
        match sizes.rows.get(at).copied().flatten() {
            Some(rows) if free && comes_whole(fragment, reduced) => {
                let row = COLUMN_BYTES_LEAST * scratch.tables[at].columns.len() as u64;
                Expected::told(rows, rows, (row, row), true).least
            }
            _ => 0,
        }
    };
    fragments.iter().enumerate().map(of).sum()
}

/// All rows of the table come where no values of others are put in.
fn comes_whole(fragment: &Fragment, reduced: &Reduced) -> bool {
    !fragment.text.starts_with("SELECT DISTINCT") && reduced.is_whole()
}

/// What is expected of a statement.
pub(super) struct Cost<'s, 't> {
    statement: &'s Statement<'t>,
    /// What each table has when it is sent.
    tables: Vec<Expected>,
    /// The bytes that the gather moves at least, and those that are likely; its result among them, where that is known.
    gathered: (u64, u64),
    source: Source,
    ran: &'s Ran,
    bytes_max: u64,
}

impl<'s, 't> Cost<'s, 't> {
    /// `least`: what a gather moves in any case.
    pub(super) fn of(
        statement: &'s Statement<'t>,
        scratch: &Scratch,
        sizes: &Sizes<'s>,
        least: u64,
    ) -> Cost<'s, 't> {
        let rows = sizes.rows.iter().map(|it| it.unwrap_or_default());
        let rows: Vec<u64> = rows.collect();
        let costs = Costs::of(scratch, &rows, sizes.filtered, &[]);
        let expected = |(at, table): (usize, &super::Table)| {
            if let Some(seen) = sizes.whole.get(at).copied().flatten() {
                return Expected::learned(seen);
            }
            let row = (
                COLUMN_BYTES_LEAST * table.schema.columns.len() as u64,
                table.row_bytes,
            );
            let whole = sizes.rows[at].unwrap_or(u64::MAX);
            let sure =
                comes_whole(&table.fragment, &scratch.reduced[at]) && sizes.rows[at].is_some();
            Expected::told(whole, costs.first(at) as u64, row, sure)
        };
        let tables: Vec<Expected> = statement.tables.iter().enumerate().map(expected).collect();
        let ran = sizes.ran;
        let (likely, source) = match ran.fetches.len() == tables.len() {
            true => {
                let bytes = ran.fetches.iter().map(|it| it.last.bytes);
                (bytes.sum::<u64>(), Source::Learned)
            }
            false => {
                let each = costs.rows_each(&scratch.order);
                let bytes = statement
                    .tables
                    .iter()
                    .zip(each)
                    .map(|(it, rows)| it.row_bytes as f64 * rows);
                let sure = tables.iter().all(|it| it.source > Source::Guessed);
                let source = if sure {
                    Source::Statistics
                } else {
                    Source::Guessed
                };
                (bytes.sum::<f64>() as u64, source)
            }
        };
        let result = ran
            .result
            .map_or((0, 0), |it| (it.least.bytes, it.last.bytes));
        let likely = likely.saturating_mul(GATHERED_TIMES).max(least);
        Cost {
            statement,
            tables,
            gathered: (
                least.saturating_add(result.0),
                likely.saturating_add(result.1),
            ),
            source,
            ran,
            bytes_max: sizes.bytes_max,
        }
    }

    /// Ways that surely move less than the gather, the one that is likely to move least first.
    pub(super) fn ways(&self) -> Vec<Way> {
        let pays = |way: &Way| {
            let rest = self.ran.rest(&way.set).map_or(0, |it| it.most.bytes);
            let (least, most) = (
                self.gathered.0,
                self.moved(way, |it| it.most).saturating_add(rest),
            );
            let saved = least.saturating_sub(most);
            saved >= SAVED_BYTES_LEAST
                && saved as f64 >= least as f64 * SAVED_SHARE
                && self.of_group(way, |it| it.most) <= self.bytes_max
        };
        let mut sized: Vec<(u64, Way)> = every_way(self.statement)
            .into_iter()
            .filter(pays)
            .map(|way| (self.likely(&way), way))
            .collect();
        sized.sort_by_key(|(moved, _)| *moved);
        sized.into_iter().map(|(_, way)| way).collect()
    }

    /// The bytes that are likely to move when these are sent, with what the groups give then.
    fn likely(&self, way: &Way) -> u64 {
        let rest = self.ran.rest(&way.set).map_or(0, |it| it.last.bytes);
        self.moved(way, |it| it.likely.bytes).saturating_add(rest)
    }

    /// The bytes of the tables that move when these are sent: a row that is one group's goes to no other.
    fn moved(&self, way: &Way, of: impl Fn(&Expected) -> u64) -> u64 {
        let groups = groups(self.statement, &way.set) as u64;
        let each = way.tables().map(|(at, by)| {
            let times = by.map_or(1 + groups, |_| 2);
            of(&self.tables[at]).saturating_mul(times)
        });
        each.fold(0, u64::saturating_add)
    }

    /// The bytes that each group gets.
    fn of_group(&self, way: &Way, of: impl Fn(&Expected) -> u64) -> u64 {
        let groups = groups(self.statement, &way.set) as u64;
        let each = way.tables().map(|(at, by)| {
            let parts = by.map_or(1, |_| groups);
            of(&self.tables[at]).div_ceil(parts)
        });
        each.fold(0, u64::saturating_add)
    }

    /// So many bytes of rows each group may get before a gather would have moved less in any case.
    fn worth(&self, way: &Way) -> u64 {
        let groups = groups(self.statement, &way.set) as u64;
        let times = match way.divides() {
            true => 2 * groups,
            false => 1 + groups,
        };
        self.gathered.0 / times
    }

    /// What is sent, for people.
    fn told(&self, way: &Way) -> String {
        let called = |at: usize| &*self.statement.tables[at].called;
        let whole = way.tables().filter(|(_, by)| by.is_none());
        let whole: Vec<&str> = whole.map(|(at, _)| called(at)).collect();
        let parted = way.tables().filter_map(|(at, by)| {
            let column = &self.statement.tables[at].schema.columns[by?].name;
            let table = called(at);
            Some(format!("{table} is divided among the groups by {column}"))
        });
        let sent = format!("{} is sent to the groups", whole.join(", "));
        let sent = (!whole.is_empty()).then_some(sent);
        let all: Vec<String> = sent.into_iter().chain(parted).collect();
        all.join(", ")
    }

    /// The answer, with what is expected of it, and how else the statement is answered.
    pub(super) fn weighed(&self, mut answer: Answer, way: &Way, gathered: &Answer) -> Answer {
        let told = self.told(way);
        let expected: Vec<Expected> = way.set.iter().map(|at| self.tables[*at]).collect();
        let rows: u64 = expected.iter().map(|it| it.likely.rows).sum();
        let source = expected.iter().map(|it| it.source).min();
        let reason = format!(
            "{told}: some {rows} rows, {} bytes moved in all ({}), where a gather moves {} ({})",
            self.likely(way),
            source.unwrap_or(Source::Guessed),
            self.gathered.1,
            self.source,
        );
        let mut reasons = gathered.reasons.clone();
        for why in std::mem::take(&mut answer.reasons) {
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        reasons.push(reason);
        answer.reasons = reasons;
        let worth = self.worth(way);
        if let Some(sending) = &mut answer.sending {
            sending.expected = expected.iter().map(Expected::estimate).collect();
            sending.bytes_max = worth.max(SENT_BYTES_LEAST).min(self.bytes_max);
            *sending.instead = gathered.clone();
        }
        answer
    }

    /// Why nothing is sent, where no set surely moves less.
    pub(super) fn reason(&self) -> String {
        let (least, likely) = self.gathered;
        match self.source {
            Source::Learned => {
                format!(
                    "no table is small enough to be sent to the groups: a gather moves some {likely} bytes (learned)"
                )
            }
            Source::Guessed | Source::Statistics => format!(
                "no table is surely small enough to be sent to the groups: a gather moves {least} bytes at least, and \
                 some {likely} ({})",
                self.source
            ),
        }
    }
}

/// The groups that rows are sent to, at most.
fn groups(statement: &Statement<'_>, set: &[usize]) -> usize {
    let mut rest = statement
        .tables
        .iter()
        .enumerate()
        .filter(|(at, _)| !set.contains(at));
    let map = rest.find_map(|(_, table)| match table.place {
        Place::Parted(map) => Some(map),
        _ => None,
    });
    map.map_or(1, |map| {
        global_groups(statement.asked.sharding, map).len().max(1)
    })
}

/// Tables that are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub set: Vec<usize>,
    /// The place of the column by which each of them is divided; `None`: each group gets all rows.
    pub by: Vec<Option<usize>>,
}

impl Way {
    /// The tables, and by which column they are divided.
    pub(super) fn tables(&self) -> impl Iterator<Item = (usize, Option<usize>)> {
        self.set.iter().copied().zip(self.by.iter().copied())
    }

    pub(super) fn divides(&self) -> bool {
        self.by.iter().any(Option::is_some)
    }
}

/// All ways that leave tables on one map, each with a part of the rows on each group. Those come first that divide
/// none of a set.
pub(super) fn every_way(statement: &Statement<'_>) -> Vec<Way> {
    let places: Vec<Place> = statement.tables.iter().map(|it| it.place).collect();
    let each = sets(&places).into_iter().flat_map(|set| {
        let columns: Vec<Vec<usize>> = set
            .iter()
            .map(|at| statement.columns_to_divide_by(&set, *at))
            .collect();
        let ways = choices(&columns).into_iter();
        ways.map(move |by| Way {
            set: set.clone(),
            by,
        })
        .collect::<Vec<_>>()
    });
    each.collect()
}

/// One of these columns for each table, or none.
fn choices(columns: &[Vec<usize>]) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![Vec::new()];
    for own in columns {
        let mut longer = Vec::new();
        for begun in &all {
            // Of many choices few are left: what follows is sent whole.
            let open = own.iter().filter(|_| all.len() <= CHOICES_MAX);
            for choice in std::iter::once(None).chain(open.map(|at| Some(*at))) {
                longer.push(begun.iter().copied().chain([choice]).collect());
            }
        }
        all = longer;
    }
    all
}

fn sets(places: &[Place]) -> Vec<Vec<usize>> {
    if places.len() > TABLES_MAX {
        return Vec::new();
    }
    let mut maps: Vec<u32> = places
        .iter()
        .filter_map(|place| match place {
            Place::Parted(map) => Some(*map),
            _ => None,
        })
        .collect();
    maps.sort_unstable();
    maps.dedup();
    let mut found = Vec::new();
    for map in maps {
        let stays = |at: &usize| match places[*at] {
            Place::Parted(own) | Place::Everywhere(own) => own == map,
            Place::OneGroup => false,
        };
        // Those that may stay or be sent; the others must be sent, or stay for nothing.
        let open: Vec<usize> = (0..places.len())
            .filter(|at| places[*at] == Place::Parted(map))
            .collect();
        let sent: Vec<usize> = (0..places.len()).filter(|at| !stays(at)).collect();
        for mask in 0..(1usize << open.len()) - 1 {
            let chosen = open
                .iter()
                .enumerate()
                .filter(|(bit, _)| mask >> bit & 1 == 1);
            let mut set: Vec<usize> = chosen.map(|(_, at)| *at).chain(sent.clone()).collect();
            set.sort_unstable();
            if !set.is_empty() {
                found.push(set);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_left_for_the_groups() {
        use Place::{Everywhere, OneGroup, Parted};
        assert_eq!(sets(&[Parted(1), Parted(1)]), [vec![0], vec![1]]);
        assert_eq!(
            sets(&[Parted(1), Everywhere(1), Parted(1)]),
            [vec![0], vec![2]]
        );
        assert_eq!(sets(&[Parted(1), OneGroup]), [vec![1]]);
        assert_eq!(sets(&[Parted(1), Parted(2)]), [vec![1], vec![0]]);
        assert_eq!(sets(&[Parted(1), Everywhere(2)]), [vec![1]]);
        assert!(sets(&[Everywhere(1), OneGroup]).is_empty());
        assert!(sets(&[Parted(1)]).is_empty());
        assert!(sets(&[Parted(1); 11]).is_empty());
    }

    #[test]
    fn each_table_is_divided_or_sent_whole() {
        assert_eq!(choices(&[vec![], vec![]]), [[None, None]]);
        let all = choices(&[vec![3], vec![0, 1]]);
        assert_eq!((all.len(), &all[0]), (6, &vec![None, None]));
        assert!(all.contains(&vec![Some(3), Some(1)]));
        let many = choices(&vec![vec![0, 1]; 9]);
        assert!(many.len() < 30 && many.iter().all(|it| it.len() == 9));
    }
}
