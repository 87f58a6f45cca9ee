//! Which transactions have to be done before another one may begin, and up to where all are done.

use std::collections::{BTreeSet, HashMap};

use super::claims::Claim;

/// The transactions of one stream, by their numbers from 1.
#[derive(Debug, Default)]
pub struct Order {
    /// The last one that was given.
    last: u64,
    /// All up to this one are done.
    low: u64,
    /// Those above that are done.
    done: BTreeSet<u64>,
    /// By a claim the last transaction with it, if that is not done for sure.
    claimed: HashMap<Claim, u64>,
}

/// With so many claims, the order forgets those of transactions that are done.
const CLAIMED_MAX: usize = 100_000;

impl Order {
    /// A transaction that comes next: its number, and up to which number all have to be done before it begins.
    pub fn give(&mut self, claims: &BTreeSet<Claim>, is_alone: bool) -> (u64, u64) {
        let before = self.last;
        self.last += 1;
        if is_alone {
            return (self.last, before);
        }
        let waits_for = claims.iter().filter_map(|claim| self.claimed.get(claim));
        let waits_for = waits_for.copied().max().unwrap_or(0);
        if self.claimed.len() > CLAIMED_MAX {
            let low = self.low;
            self.claimed.retain(|_, number| *number > low);
        }
        let number = self.last;
        self.claimed
            .extend(claims.iter().map(|claim| (*claim, number)));
        (number, waits_for)
    }

    /// This one is done. Gives up to where all are.
    pub fn end(&mut self, number: u64) -> u64 {
        self.done.insert(number);
        while self.done.remove(&(self.low + 1)) {
            self.low += 1;
        }
        self.low
    }

    /// The number of the last one.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// All up to this one are done.
    pub fn low(&self) -> u64 {
        self.low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn give(order: &mut Order, claims: &[Claim]) -> (u64, u64) {
        order.give(&claims.iter().copied().collect(), false)
    }

    #[test]
    fn transactions_wait_for_those_that_claim_the_same() {
        let mut order = Order::default();
        assert_eq!(give(&mut order, &[1, 2]), (1, 0));
        assert_eq!(give(&mut order, &[3]), (2, 0));
        assert_eq!(give(&mut order, &[2, 4]), (3, 1));
        assert_eq!(give(&mut order, &[1]), (4, 1));
        assert_eq!(order.give(&BTreeSet::new(), true), (5, 4));
        assert_eq!(give(&mut order, &[4, 3]), (6, 3));
    }

    #[test]
    fn all_up_to_a_number_are_done_when_each_of_them_is() {
        let mut order = Order::default();
        for _ in 0..4 {
            order.give(&BTreeSet::new(), false);
        }
        assert_eq!(order.end(2), 0);
        assert_eq!(order.end(4), 0);
        assert_eq!(order.end(1), 2);
        assert_eq!(order.end(3), 4);
        assert_eq!((order.low(), order.last()), (4, 4));
    }
}
