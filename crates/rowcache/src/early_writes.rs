//! Early writes: those of key-value clients that were acknowledged and are not committed yet.
//!
//! A container's cores tell each other here where a key may have one, so that a command on the key waits for
//! it on whichever core it comes. A key is known by a spot, which other keys may share: then a command waits
//! in vain, and never the other way round.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use farm::container::trimmed;

/// Spots of a container on one core.
const SPOTS: usize = 1024;

/// Losses that are kept until somebody takes them; those of a container that has one are added to it.
const LOSSES_MAX: usize = 64;

/// The early writes of all containers of a router.
#[derive(Debug, Default)]
pub struct EarlyWrites {
    /// In milliseconds; 0 while there are to be none.
    commit_within_ms: AtomicU64,
    /// Another process takes the router's clients over.
    rests: AtomicBool,
    containers: RwLock<HashMap<String, Arc<Spots>>>,
    losses: Mutex<Vec<Loss>>,
}

/// Early writes of a container that are not known to be committed, and never will be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub container: String,
    pub writes: u64,
    /// Why the last of them was lost, for people.
    pub why: String,
}

impl EarlyWrites {
    /// Lets there be early writes, which are committed within so many milliseconds; 0 forbids new ones.
    pub fn allow(&self, commit_within_ms: u64) {
        self.commit_within_ms
            .store(commit_within_ms, Ordering::Release);
    }

    /// Forbids them while another process takes the clients over, whatever is allowed; or no longer.
    pub fn rest(&self, rests: bool) {
        self.rests.store(rests, Ordering::Release);
    }

    /// After how long a new early write has to be committed; `None` where there may be none.
    pub fn commit_within(&self) -> Option<Duration> {
        let within_ms = self.commit_within_ms.load(Ordering::Acquire);
        let allowed = within_ms > 0 && !self.rests.load(Ordering::Acquire);
        allowed.then(|| Duration::from_millis(within_ms))
    }

    /// Where the cores tell of the container's early writes. Without `wanted` only what is there already.
    pub fn spots(&self, container: &str, cores: usize, wanted: bool) -> Option<Arc<Spots>> {
        let known = self
            .containers
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(spots) = known.get(container) {
            return Some(Arc::clone(spots));
        }
        drop(known);
        if !wanted {
            return None;
        }
        let mut all = self
            .containers
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let spots = all.entry(container.to_owned());
        Some(Arc::clone(
            spots.or_insert_with(|| Arc::new(Spots::of(cores))),
        ))
    }

    /// So many early writes of a container are lost.
    pub fn lost(&self, container: &str, writes: u64, why: &str) {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = losses.iter_mut().find(|loss| loss.container == container) {
            known.writes += writes;
            why.clone_into(&mut known.why);
        } else if losses.len() < LOSSES_MAX {
            losses.push(Loss {
                container: container.to_owned(),
                writes,
                why: why.to_owned(),
            });
        }
    }

    /// What was lost since this was asked last.
    pub fn take_losses(&self) -> Vec<Loss> {
        let mut losses = self.losses.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *losses)
    }
}

/// How many early writes each core has of a container, by the spots of their keys.
#[derive(Debug)]
pub struct Spots {
    cores: Box<[OfCore]>,
}

#[derive(Debug)]
struct OfCore {
    all: AtomicU32,
    spots: [AtomicU32; SPOTS],
}

/// Where a key may have early writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spot(u16);

impl Spot {
    /// Keys that differ in the case of ASCII letters or in blanks at the end have the same spot.
    pub fn of(key: &[u8]) -> Spot {
        // FNV-1a: keys are short.
        let hash = trimmed(key)
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
                (hash ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x100_0000_01b3)
            });
        Spot(((hash ^ (hash >> 32)) % SPOTS as u64) as u16)
    }
}

impl Spots {
    fn of(cores: usize) -> Spots {
        let of_core = || OfCore {
            all: AtomicU32::new(0),
            spots: std::array::from_fn(|_| AtomicU32::new(0)),
        };
        Spots {
            cores: (0..cores).map(|_| of_core()).collect(),
        }
    }

    /// One more on this core, before its client hears of it.
    pub fn enter(&self, core: usize, spot: Spot) {
        if let Some(of_core) = self.cores.get(core) {
            of_core.spots[usize::from(spot.0)].fetch_add(1, Ordering::SeqCst);
            of_core.all.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// One of them is committed, or lost.
    pub fn leave(&self, core: usize, spot: Spot) {
        if let Some(of_core) = self.cores.get(core) {
            of_core.spots[usize::from(spot.0)].fetch_sub(1, Ordering::SeqCst);
            of_core.all.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// How many this core has: at one spot, or at all.
    pub fn at(&self, core: usize, spot: Option<Spot>) -> u32 {
        let number = |of_core: &OfCore| match spot {
            Some(spot) => of_core.spots[usize::from(spot.0)].load(Ordering::SeqCst),
            None => of_core.all.load(Ordering::SeqCst),
        };
        self.cores.get(core).map_or(0, number)
    }

    /// True while any core has one.
    pub fn any(&self, spot: Option<Spot>) -> bool {
        (0..self.cores.len()).any(|core| self.at(core, spot) > 0)
    }

    /// The number of cores.
    pub fn cores(&self) -> usize {
        self.cores.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_a_collation_may_take_for_the_same_share_a_spot() {
        assert_eq!(Spot::of(b"Key "), Spot::of(b"kEY"));
        let spots: std::collections::BTreeSet<u16> = (0..1000)
            .map(|number| Spot::of(format!("key{number}").as_bytes()).0)
            .collect();
        assert!(spots.len() > 500, "{}", spots.len());
    }

    #[test]
    fn what_is_early_is_seen_by_all_cores_until_it_is_committed() {
        let early = EarlyWrites::default();
        assert!(early.spots("c", 2, false).is_none());
        let spots = early.spots("c", 2, true).expect("it is wanted");
        let again = early.spots("c", 2, false).expect("it is there");
        let spot = Spot::of(b"k");
        spots.enter(1, spot);
        assert!(again.any(Some(spot)) && again.any(None));
        assert_eq!((again.at(0, Some(spot)), again.at(1, Some(spot))), (0, 1));
        again.leave(1, spot);
        assert!(!spots.any(None));
    }

    #[test]
    fn there_are_none_unless_somebody_allows_them() {
        let early = EarlyWrites::default();
        assert_eq!(early.commit_within(), None);
        early.allow(7);
        assert_eq!(early.commit_within(), Some(Duration::from_millis(7)));
        early.rest(true);
        assert_eq!(early.commit_within(), None);
        early.rest(false);
        early.allow(0);
        assert_eq!(early.commit_within(), None);
    }

    #[test]
    fn losses_are_added_up_until_they_are_taken() {
        let early = EarlyWrites::default();
        early.lost("a", 2, "x");
        early.lost("a", 3, "y");
        let [loss] = &early.take_losses()[..] else {
            panic!("one container lost writes")
        };
        assert_eq!((loss.writes, &*loss.why), (5, "y"));
        assert!(early.take_losses().is_empty());
    }
}
