//! What fetches of gathered statements gave, by their shapes: for all cores of a router.
//!
//! Invariants: what is kept is of one state of the farm's declarations, and of tables whose rows servers count much as
//! they did then; it is bounded, and forgotten after a while. It chooses how statements are answered, never what the answer
//! is.
//!
//! Must not know: how a choice is made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use faults::Plant;
use planner::{Ran, Seen, Volume};
use rustc_hash::FxHashMap;
use sqltext::Digest;

/// Of so many shapes what they gave is kept.
const SHAPES_MAX: usize = 4096;

/// Of so many ways to send tables it is kept what groups gave then.
const RESTS_MAX: usize = 8;

/// Statements of more fetches are not looked at.
const FETCHES_MAX: usize = 32;

/// What was learned is believed for so long.
const KEPT_S: u64 = 3600;

/// Small tables may change by so many rows.
const ROWS_OFF: u64 = 1000;

/// What fetches gave.
#[derive(Debug, Default)]
pub struct Learned(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Of the declarations that all of it is about.
    epoch: u64,
    shapes: FxHashMap<Digest, Shape>,
}

/// What the fetches of one shape gave, each.
#[derive(Debug)]
struct Shape {
    each: Vec<(Seen, Basis)>,
    /// The rows of a statement that is gathered so.
    result: Option<Seen>,
    /// What groups gave for it that had been sent the rows of these fetches.
    rests: Vec<(Vec<usize>, Seen)>,
    /// By the cores' clock.
    made_s: u64,
}

/// What a fetch was asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// So many groups.
    pub groups: usize,
    /// The rows of its table on them, as their statistics say; `None` where they have not been measured.
    pub rows: Option<u64>,
}

impl Learned {
    /// Fetches of a shape gave so much, and so did the statement that was gathered by them.
    pub fn learn(
        &self,
        epoch: u64,
        shape: Digest,
        each: &[(Volume, Basis)],
        result: Option<Volume>,
        now_s: u64,
    ) {
        let mut state = self.lock();
        if epoch < state.epoch || each.len() > FETCHES_MAX {
            return;
        }
        state.begin(epoch);
        if state.shapes.len() >= SHAPES_MAX && !state.shapes.contains_key(&shape) {
            state.shapes.clear();
        }
        let before =
            state.shapes.remove(&shape).filter(|it| it.fits(each.iter().map(|it| it.1), now_s));
        let seen = |(at, (volume, basis)): (usize, &(Volume, Basis))| {
            let seen = match before.as_ref().map(|it| it.each[at]) {
                Some((seen, of)) => seen.scaled(of.groups, basis.groups).and(*volume),
                None => Seen::of(*volume),
            };
            (seen, *basis)
        };
        let each = each.iter().enumerate().map(seen).collect();
        let result_before = before.as_ref().and_then(|it| it.result);
        let result = result.map(|volume| and(result_before, volume)).or(result_before);
        let learned = Shape {
            each,
            result,
            rests: before.map_or(Vec::new(), |it| it.rests),
            made_s: now_s,
        };
        state.shapes.insert(shape, learned);
    }

    /// Groups gave so much for a statement of this shape that had been sent the rows of some of its fetches.
    pub fn learn_rest(&self, epoch: u64, shape: &Digest, places: &[usize], volume: Volume) {
        let mut state = self.lock();
        let is_current = state.epoch == epoch;
        let Some(known) = state.shapes.get_mut(shape).filter(|_| is_current) else {
            return;
        };
        let before = known.rests.iter().position(|(of, _)| of == places);
        let before = before.map(|at| known.rests.swap_remove(at).1);
        if known.rests.len() >= RESTS_MAX {
            known.rests.remove(0);
        }
        known.rests.push((places.to_vec(), and(before, volume)));
    }

    /// What statements and fetches of a shape are expected to give, by what they gave; `None` where too little is known.
    pub fn look(&self, epoch: u64, shape: &Digest, of: &[Basis], now_s: u64) -> Option<Ran> {
        if Plant::MisjudgesSizes.is_made() {
            return Some(Ran {
                fetches: misjudged(shape, of.len()),
                ..Ran::default()
            });
        }
        let state = self.lock();
        let known = state.shapes.get(shape).filter(|_| state.epoch == epoch)?;
        if !known.fits(of.iter().copied(), now_s) {
            return None;
        }
        let each = known.each.iter().zip(of);
        let fetches = each.map(|((seen, then), now)| seen.scaled(then.groups, now.groups));
        Some(Ran {
            fetches: fetches.collect(),
            result: known.result,
            rests: known.rests.clone(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn and(before: Option<Seen>, volume: Volume) -> Seen {
    before.map_or(Seen::of(volume), |seen| seen.and(volume))
}

/// Of a fetch by itself little, none or very much; of all fetches of a statement rather more.
fn misjudged(shape: &Digest, count: usize) -> Vec<Seen> {
    static OFTEN: AtomicU64 = AtomicU64::new(0);
    let mixed = shape.half() ^ OFTEN.fetch_add(1, Ordering::Relaxed);
    let seen = |at: usize| {
        let bytes = match (count, (mixed >> (at % 32)) & 3) {
            (1, 0) => 0,
            (1, 1) => 7,
            (1, 2) => 300,
            (_, 3) => 1 << 40,
            _ => 1 << 20,
        };
        let rows = bytes / 8;
        Seen::of(Volume { rows, bytes })
    };
    (0..count).map(seen).collect()
}

impl State {
    fn begin(&mut self, epoch: u64) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.shapes.clear();
        }
    }
}

impl Shape {
    /// It says something of these, now.
    fn fits(&self, of: impl ExactSizeIterator<Item = Basis>, now_s: u64) -> bool {
        let alike = |(then, now): (&(Seen, Basis), Basis)| match (then.1.rows, now.rows) {
            (Some(then), Some(now)) => {
                let bound = |rows: u64| rows.saturating_mul(2).saturating_add(ROWS_OFF);
                now <= bound(then) && then <= bound(now)
            }
            _ => true,
        };
        self.made_s + KEPT_S >= now_s
            && self.each.len() == of.len()
            && self.each.iter().zip(of).all(alike)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::{Dialect, Mode};

    fn shape(text: &str) -> Digest {
        Digest::of(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100))
    }

    fn volume(rows: u64) -> Volume {
        Volume {
            rows,
            bytes: rows * 10,
        }
    }

    fn basis(groups: usize, rows: u64) -> Basis {
        Basis {
            groups,
            rows: Some(rows),
        }
    }

    #[test]
    fn what_was_learned_is_of_one_state_of_the_farm() {
        let (learned, text) = (Learned::default(), shape("SELECT a FROM t WHERE b = 1"));
        let of = [basis(3, 10_000)];
        learned.learn(7, text, &[(volume(30), of[0])], None, 100);
        let rows = |epoch, of: &[Basis], now_s| {
            let seen = learned.look(epoch, &shape("SELECT a FROM t WHERE b = 2"), of, now_s)?;
            Some(seen.fetches[0].last.rows)
        };
        assert_eq!(rows(7, &of, 100), Some(30));
        // Fewer groups have fewer of the rows.
        assert_eq!(rows(7, &[basis(1, 10_000)], 100), Some(10));
        assert_eq!(rows(7, &of, 100 + KEPT_S), Some(30));
        assert_eq!(rows(7, &of, 101 + KEPT_S), None);
        assert_eq!(rows(8, &of, 100), None);
        assert_eq!(rows(7, &[basis(3, 21_001)], 100), None);
        assert_eq!(rows(7, &[basis(3, 4499)], 100), None);
        assert_eq!(rows(7, &[basis(3, 4500)], 100), Some(30));
        assert_eq!(rows(7, &[], 100), None);
        // A core that knows older declarations has nothing to say.
        learned.learn(6, text, &[(volume(99), of[0])], None, 100);
        assert_eq!(rows(7, &of, 100), Some(30));
        learned.learn(8, text, &[(volume(50), of[0])], None, 100);
        assert_eq!((rows(7, &of, 100), rows(8, &of, 100)), (None, Some(50)));
    }

    #[test]
    fn it_is_bounded() {
        let learned = Learned::default();
        for number in 0..SHAPES_MAX + 5 {
            let text = shape(&format!("SELECT c{number}"));
            learned.learn(1, text, &[(volume(1), basis(1, 1))], None, 0);
        }
        assert_eq!(learned.lock().shapes.len(), 5);
        let many = vec![(volume(1), basis(1, 1)); FETCHES_MAX + 1];
        learned.learn(1, shape("SELECT 1"), &many, None, 0);
        assert_eq!(learned.lock().shapes.len(), 5);
    }

    #[test]
    fn another_number_of_rows_begins_anew() {
        let (learned, text) = (Learned::default(), shape("SELECT a FROM t"));
        learned.learn(1, text, &[(volume(9000), basis(1, 9000))], None, 0);
        learned.learn(1, text, &[(volume(10), basis(1, 10))], None, 0);
        let seen = learned.look(1, &text, &[basis(1, 10)], 0).expect("it is known");
        assert_eq!(seen.fetches, [Seen::of(volume(10))]);
    }

    #[test]
    fn what_groups_gave_stands_beside_the_gather() {
        let (learned, text) = (Learned::default(), shape("SELECT a FROM t; SELECT b FROM u"));
        learned.learn_rest(1, &text, &[0], volume(5));
        let each = [(volume(10), basis(1, 10)), (volume(20), basis(1, 20))];
        learned.learn(1, text, &each, Some(volume(3)), 0);
        learned.learn_rest(1, &text, &[0], volume(5));
        learned.learn_rest(1, &text, &[0], volume(9));
        learned.learn_rest(1, &text, &[1], volume(7));
        learned.learn(1, text, &each, Some(volume(3)), 1);
        let ran = learned.look(1, &text, &each.map(|it| it.1), 1).expect("it is known");
        assert_eq!(ran.result, Some(Seen::of(volume(3))));
        let rests = [
            (vec![0], Seen::of(volume(5)).and(volume(9))),
            (vec![1], Seen::of(volume(7))),
        ];
        assert_eq!(ran.rests, rests);
        for at in 0..20 {
            learned.learn_rest(1, &text, &[at, at + 1], volume(1));
        }
        let ran = learned.look(1, &text, &each.map(|it| it.1), 1).expect("it is known");
        assert_eq!(ran.rests.len(), RESTS_MAX);
    }
}
