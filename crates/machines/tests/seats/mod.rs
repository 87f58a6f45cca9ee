//! What a transaction over groups leaves at its seats.

use machines::xa::Verdict;
use machines::xa::commit::Work;

use crate::dice::Dice;

/// A seat's data on its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    Working,
    Prepared,
    Committed,
    Undone,
}

impl Data {
    /// What a verdict makes of it.
    pub fn by(verdict: Verdict) -> Data {
        match verdict {
            Verdict::Commit => Data::Committed,
            Verdict::Abort => Data::Undone,
        }
    }

    /// The server closes the seat's connection: what is not prepared is undone.
    pub fn cut(&mut self) {
        if *self == Data::Working {
            *self = Data::Undone;
        }
    }
}

/// What was done at one to four seats.
pub fn works(dice: &mut Dice) -> Vec<Work> {
    let seats = 1 + dice.below(4);
    let work = |_| Work {
        wrote: !dice.one_in(3),
        locked: dice.one_in(2),
    };
    (0..seats).map(work).collect()
}
