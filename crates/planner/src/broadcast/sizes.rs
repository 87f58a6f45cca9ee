//! What is known of how much a fetch gives, and how sure that is.
//!
//! Job: keep what fetches really gave, as the bounds between which the next one of the shape is expected; and make such
//! bounds of what servers' statistics say where nothing has run yet.
//!
//! Invariants: a size is a guess, whoever told it. It chooses how a statement is answered, never what the answer is.
//!
//! Must not know: where sizes are kept, and for how long.

use crate::answer::{Estimate, Source, Volume};

/// Servers' statistics are off by this factor at most, where no condition is guessed at.
const STATISTICS_OFF: u64 = 2;

/// What fetches of one shape gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The last one.
    pub last: Volume,
    /// The next one is expected to give no less, and no more.
    pub least: Volume,
    pub most: Volume,
}

impl Seen {
    pub fn of(volume: Volume) -> Seen {
        Seen {
            last: volume,
            least: volume,
            most: volume,
        }
    }

    /// The same, and one more. A bound that was passed moves at once, and one that was not comes half the way closer.
    pub fn and(self, volume: Volume) -> Seen {
        let each = |of: fn(u64, u64) -> u64, bound: Volume| Volume {
            rows: of(volume.rows, bound.rows.midpoint(volume.rows)),
            bytes: of(volume.bytes, bound.bytes.midpoint(volume.bytes)),
        };
        Seen {
            last: volume,
            least: each(u64::min, self.least),
            most: each(u64::max, self.most),
        }
    }

    /// Of `to` groups, where this is of `from`.
    #[must_use]
    pub fn scaled(self, from: usize, to: usize) -> Seen {
        let of = |number: u64| number.saturating_mul(to as u64) / from.max(1) as u64;
        let scaled = |volume: Volume| Volume {
            rows: of(volume.rows),
            bytes: of(volume.bytes),
        };
        match from == to {
            true => self,
            false => Seen {
                last: scaled(self.last),
                least: scaled(self.least),
                most: scaled(self.most),
            },
        }
    }
}

/// What statements of one shape moved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ran {
    /// What each fragment of the gather gave, with the values of others in its conditions; empty where it has not run.
    pub fetches: Vec<Seen>,
    /// The rows of the statement itself, as the scratch server gave them.
    pub result: Option<Seen>,
    /// What the groups gave together that had been sent the rows of these fragments.
    pub rests: Vec<(Vec<usize>, Seen)>,
}

impl Ran {
    /// The bytes that the groups are thought to give with the rows of these fragments: no less than the result, where they
    /// have not been asked yet.
    pub(super) fn rest(&self, set: &[usize]) -> Option<Seen> {
        let found = self.rests.iter().find(|(of, _)| of == set);
        found.map(|it| it.1).or(self.result)
    }
}

/// What is known of how much there is.
#[derive(Clone, Copy, Debug)]
pub struct Sizes<'s> {
    /// The rows that the servers think each fragment of the gather looks at.
    pub rows: &'s [Option<u64>],
    /// They take conditions that no index serves into account.
    pub filtered: bool,
    /// What statements of the shape moved before.
    pub ran: &'s Ran,
    /// What each of them gave when it was fetched without values of others, where that is known.
    pub whole: &'s [Option<Seen>],
    /// More bytes of rows are not sent to a group.
    pub bytes_max: u64,
}

/// Bytes between which a fetch is expected to give, and the likely volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    pub likely: Volume,
    pub least: u64,
    pub most: u64,
    pub source: Source,
}

impl Expected {
    pub(super) fn learned(seen: Seen) -> Expected {
        Expected {
            likely: seen.last,
            least: seen.least.bytes,
            most: seen.most.bytes,
            source: Source::Learned,
        }
    }

    /// Of a table of `whole` rows, `likely` of which come, with so many bytes each at most. `sure`: no condition leaves any
    /// of them out.
    pub(super) fn told(whole: u64, likely: u64, row_bytes: (u64, u64), sure: bool) -> Expected {
        let (least, most) = row_bytes;
        Expected {
            likely: Volume {
                rows: likely,
                bytes: likely.saturating_mul(most),
            },
            least: match sure {
                true => (whole / STATISTICS_OFF).saturating_mul(least),
                false => 0,
            },
            most: whole.saturating_mul(STATISTICS_OFF).saturating_mul(most),
            source: match sure {
                true => Source::Statistics,
                false => Source::Guessed,
            },
        }
    }

    pub(super) fn estimate(&self) -> Estimate {
        Estimate {
            rows: self.likely.rows,
            bytes: Some(self.likely.bytes),
            source: self.source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn volume(rows: u64) -> Volume {
        Volume {
            rows,
            bytes: rows * 10,
        }
    }

    #[test]
    fn bounds_widen_at_once_and_close_slowly() {
        let seen = Seen::of(volume(100)).and(volume(900)).and(volume(500));
        assert_eq!(seen.last, volume(500));
        assert_eq!((seen.least, seen.most), (volume(500), volume(700)));
        let settled = (0..12).fold(seen, |seen, _| seen.and(volume(500)));
        assert!(
            settled.most.rows < 502 && settled.least.rows > 497,
            "{settled:?}"
        );
    }

    #[test]
    fn groups_have_their_share() {
        let seen = Seen::of(volume(90)).scaled(3, 1);
        assert_eq!(seen, Seen::of(volume(30)));
        assert_eq!(Seen::of(volume(7)).scaled(2, 2), Seen::of(volume(7)));
        assert_eq!(Seen::of(volume(7)).scaled(0, 2), Seen::of(volume(14)));
    }

    #[test]
    fn what_conditions_leave_is_not_sure() {
        let sure = Expected::told(100, 100, (4, 8), true);
        assert_eq!((sure.least, sure.most), (200, 1600));
        let unsure = Expected::told(100, 10, (4, 8), false);
        assert_eq!((unsure.least, unsure.most), (0, 1600));
        assert_eq!(unsure.source, Source::Guessed);
    }
}
