//! Chance that a seed repeats.

use fastrand::Rng;

/// A source of numbers.
pub struct Dice(Rng);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(Rng::with_seed(seed))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit)
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}
