//! Traced statements that stand for others: of each kind, door, group and doubling of the time the newest one, so that who
//! sees a slow bucket of a histogram finds a trace of what is slow.
//!
//! Invariants: a core that finds the place taken goes on without; the number of exemplars is bounded by that of the
//! histograms' series.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::measured::{Door, GROUPS_MAX, Kind};

/// Of the last doubling there is no end.
const DOUBLINGS: u32 = 28;

/// A statement, and its trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    pub trace: [u8; 16],
    /// What it took.
    pub us: u64,
    /// Its end, in milliseconds since 1970.
    pub at_ms: u64,
}

/// By group; then by kind, door and doubling.
type ByGroup = BTreeMap<String, BTreeMap<(usize, usize, u32), Exemplar>>;

/// The newest of each.
#[derive(Debug, Default)]
pub struct Exemplars(Mutex<ByGroup>);

impl Exemplars {
    /// Takes the place of the one before.
    pub fn keep(&self, (kind, door, group): (Kind, Door, &str), exemplar: Exemplar) {
        let Ok(mut all) = self.0.try_lock() else {
            // Somebody reads them, or another core is faster.
            return;
        };
        if !all.contains_key(group) {
            if all.len() >= GROUPS_MAX {
                // Their statements are counted as those of other groups.
                return;
            }
            all.insert(group.to_owned(), BTreeMap::new());
        }
        if let Some(of_group) = all.get_mut(group) {
            let key = (kind as usize, door as usize, doubling(exemplar.us));
            of_group.insert(key, exemplar);
        }
    }

    /// The newest one that took at least `from_us`, and less than `to_us` where that is given.
    pub fn within(
        &self,
        (kind, door, group): (Kind, Door, &str),
        from_us: u64,
        to_us: Option<u64>,
    ) -> Option<Exemplar> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_group = all.get(group)?;
        let (kind, door) = (kind as usize, door as usize);
        let range = of_group.range((kind, door, 0)..=(kind, door, DOUBLINGS));
        let fits = |it: &&Exemplar| it.us >= from_us && to_us.is_none_or(|end| it.us < end);
        let fitting = range.map(|(_, it)| it).filter(fits);
        fitting.max_by_key(|it| it.at_ms).copied()
    }
}

fn doubling(us: u64) -> u32 {
    us.max(1).ilog2().min(DOUBLINGS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_of_each_doubling_is_kept() {
        let exemplars = Exemplars::default();
        let of = (Kind::Read, Door::Sql, "g1");
        let exemplar = |us, at_ms| Exemplar {
            trace: [1; 16],
            us,
            at_ms,
        };
        for (us, at_ms) in [(0, 1), (70, 2), (90, 3), (200, 4)] {
            exemplars.keep(of, exemplar(us, at_ms));
        }
        let us = |from, to| exemplars.within(of, from, to).map(|it| it.us);
        assert_eq!(us(64, Some(128)), Some(90));
        assert_eq!(us(0, Some(64)), Some(0));
        assert_eq!(us(0, None), Some(200));
        assert_eq!(us(1 << 20, None), None);
        let other = (Kind::Write, Door::Sql, "g1");
        assert_eq!(exemplars.within(other, 0, None), None);
    }

    #[test]
    fn groups_are_bounded() {
        let exemplars = Exemplars::default();
        for number in 0..GROUPS_MAX + 1 {
            let group = format!("g{number}");
            let exemplar = Exemplar {
                trace: [1; 16],
                us: 1,
                at_ms: 1,
            };
            exemplars.keep((Kind::Read, Door::Sql, &group), exemplar);
        }
        let last = format!("g{GROUPS_MAX}");
        let of = |group| exemplars.within((Kind::Read, Door::Sql, group), 0, None);
        assert!(of("g0").is_some() && of(&last).is_none());
    }
}
