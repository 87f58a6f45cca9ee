//! Which tables are best sent, by the bytes that move: those of their rows, once to the router and once to each group,
//! against those of all rows of a gather, once to the router and once to the scratch server.

use super::tables::Place;
use super::{SENT_BYTES_LEAST, Sizes, Statement, Volume};
use crate::answer::{Answer, Scratch};
use crate::gather::cost::Costs;
use crate::shards::global_groups;

/// Of more tables not all sets are looked at: none is sent.
const TABLES_MAX: usize = 10;

/// What is guessed of a statement.
pub(super) struct Cost<'s, 't> {
    statement: &'s Statement<'t>,
    /// What each table has when it is sent.
    volumes: Vec<Volume>,
    /// The bytes that the gather moves.
    gathered: f64,
    bytes_max: u64,
}

impl<'s, 't> Cost<'s, 't> {
    pub(super) fn of(
        statement: &'s Statement<'t>,
        scratch: &Scratch,
        costs: &Costs<'_>,
        sizes: &Sizes<'_>,
    ) -> Cost<'s, 't> {
        let tables = statement.tables.iter().enumerate();
        let volume = |(at, table): (usize, &super::Table)| {
            let rows = (sizes.learnt)(&table.fragment).unwrap_or_else(|| costs.first(at) as u64);
            Volume {
                rows,
                bytes: (rows as f64 * table.row_bytes) as u64,
            }
        };
        let volumes = tables.clone().map(volume).collect();
        let each = costs.rows_each(&scratch.order);
        let moved = tables
            .zip(&each)
            .map(|((_, table), rows)| rows * table.row_bytes * 2.0);
        Cost {
            statement,
            volumes,
            gathered: moved.sum(),
            bytes_max: sizes.bytes_max,
        }
    }

    /// Sets of tables that move less than the gather, the one that moves least first.
    pub(super) fn sets(&self) -> Vec<Vec<usize>> {
        let mut sized: Vec<(f64, Vec<usize>)> = every_set(self.statement)
            .into_iter()
            .map(|set| (self.moved(&set), set))
            .filter(|(moved, set)| *moved < self.gathered && self.bytes(set) <= self.bytes_max)
            .collect();
        sized.sort_by(|one, other| one.0.total_cmp(&other.0));
        sized.into_iter().map(|(_, set)| set).collect()
    }

    /// The bytes that move when these are sent.
    fn moved(&self, set: &[usize]) -> f64 {
        self.bytes(set) as f64 * (1 + groups(self.statement, set)) as f64
    }

    fn bytes(&self, set: &[usize]) -> u64 {
        set.iter().map(|at| self.volumes[*at].bytes).sum()
    }

    /// The answer, with what is guessed of it, and how else the statement is answered.
    pub(super) fn weighed(&self, mut answer: Answer, set: &[usize], gathered: &Answer) -> Answer {
        let names = set.iter().map(|at| &*self.statement.tables[*at].called);
        let names = names.collect::<Vec<_>>().join(", ");
        let rows: u64 = set.iter().map(|at| self.volumes[*at].rows).sum();
        let reason = format!(
            "{names} is sent to the groups: some {rows} rows, {:.0} bytes moved in all, where a gather moves {:.0}",
            self.moved(set),
            self.gathered
        );
        let mut reasons = gathered.reasons.clone();
        for why in std::mem::take(&mut answer.reasons) {
            if !reasons.contains(&why) {
                reasons.push(why);
            }
        }
        reasons.push(reason);
        answer.reasons = reasons;
        let worth = self.gathered / (1 + groups(self.statement, set)) as f64;
        if let Some(sending) = &mut answer.sending {
            sending.expected = set.iter().map(|at| self.volumes[*at]).collect();
            sending.bytes_max = (worth as u64).max(SENT_BYTES_LEAST).min(self.bytes_max);
            *sending.instead = gathered.clone();
        }
        answer
    }

    /// Why nothing is sent, where no set moves less.
    pub(super) fn reason(&self) -> String {
        format!(
            "no table is small enough to be sent to the groups: a gather moves some {:.0} bytes",
            self.gathered
        )
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

/// All sets of tables that leave the others on one map, each with a part of the rows on each group.
pub(super) fn every_set(statement: &Statement<'_>) -> Vec<Vec<usize>> {
    let places: Vec<Place> = statement.tables.iter().map(|it| it.place).collect();
    sets(&places)
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
}
