//! Statements on the shop that nobody wrote down: a seed makes them up.
//!
//! Each is definite: servers that agree on SQL give equal answers, whatever the order in which they find
//! rows. So LIMIT stands only behind an order of all rows; texts that may be equal with other bytes are
//! no group's or DISTINCT's value; unsigned columns are not subtracted from, and texts are compared
//! with literals, so that what fails does not depend on a plan.

mod beside;
mod expression;
mod names;
mod select;
mod tables;
mod views;
mod write;

pub use views::definitions;

use crate::corpus::{Order, Step};
use crate::dice::Dice;

/// What a made up SELECT leaves open.
#[derive(Clone, Debug)]
pub struct Made {
    pub text: String,
    pub order: Order,
    /// Columns, from 0, of floating point aggregates.
    pub about: Vec<usize>,
}

/// The statement of this number of a seed.
pub fn statement(seed: u64, number: usize) -> Step {
    let mut dice = Dice::new(seed.wrapping_mul(0x1_0000_01B3) ^ number as u64);
    // Neighbouring numbers begin alike.
    dice.bits();
    if dice.percent(12) {
        return Step {
            order: Order::Free,
            ..Step::plain(number, &write::write(&mut dice, number))
        };
    }
    let made = match dice.percent(20) {
        true => names::any(&mut dice),
        false => select::any(&mut dice),
    };
    Step {
        order: made.order,
        about: made.about,
        ..Step::plain(number, &made.text)
    }
}

#[cfg(test)]
mod tests {
    use super::statement;

    #[test]
    fn a_seed_says_it_all() {
        let texts = |seed| -> Vec<String> { (0..50).map(|n| statement(seed, n).text).collect() };
        assert_eq!(texts(1), texts(1));
        assert_ne!(texts(1), texts(2));
    }
}
