//! What the clients of a round know: which of their writes were acknowledged and when, what went
//! wrong, which promises of reads did not hold.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::Instant;

use crate::client::Failure;

/// Texts kept of each kind of trouble; all are counted.
const TEXTS_MAX: usize = 8;

/// Microseconds of one monotonic clock, the same for all threads of this process.
pub fn now_us() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let since = START.get_or_init(Instant::now).elapsed();
    u64::try_from(since.as_micros()).expect("a process does not live for half a million years")
}

/// What a write was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A row of `single`, by autocommit.
    Insert,
    /// The writer's row of `counter`, one more, by autocommit.
    Bump,
    /// A row of `transfer` and two balances, in a transaction.
    Transfer,
}

/// What the client was told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Acknowledged,
    /// All of it or nothing may be there.
    Unanswered,
    /// Rolled back, never committed, or refused with an error after which clients try again: it must
    /// not be there.
    Undone,
}

/// One write.
#[derive(Clone, Debug)]
pub struct Write {
    pub kind: Kind,
    /// Names the row; for a bump, the writer.
    pub id: u64,
    /// What the OK packet said; 0 where nothing was said.
    pub insert_id: u64,
    /// When the answer came, in microseconds of [`now_us`].
    pub at_us: u64,
    pub outcome: Outcome,
}

/// Why a client saw an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// 1213: a transaction could not be replayed with the same results, or a deadlock. Counted apart.
    Replay,
    /// 1105 «outcome unknown». Counted apart.
    UnknownOutcome,
    /// Something that only the lost server had: a temporary table, a lock. Counted apart.
    LostPin,
    /// The router of the connection was killed. Counted apart.
    RouterDied,
    /// Any other error.
    Error,
    /// The connection broke.
    Broken,
}

impl Trouble {
    /// The kind of this failure.
    pub fn of(failure: &Failure) -> Trouble {
        match failure {
            Failure::Server { number: 1213, .. } => Trouble::Replay,
            Failure::Server {
                number, message, ..
            } => {
                let text = message.to_lowercase();
                if *number == 1105 && text.contains("outcome") && text.contains("unknown") {
                    Trouble::UnknownOutcome
                } else if text.contains("that held this session's") {
                    Trouble::LostPin
                } else {
                    Trouble::Error
                }
            }
            Failure::Io(_) | Failure::Protocol(_) => Trouble::Broken,
        }
    }

    /// True for what a held client may see.
    pub fn is_apart(self) -> bool {
        !matches!(self, Trouble::Error | Trouble::Broken)
    }
}

/// A count and the first texts.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub count: u64,
    pub texts: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, text: String) {
        self.count += 1;
        if self.texts.len() < TEXTS_MAX {
            self.texts.push(text);
        }
    }

    pub fn absorb(&mut self, other: Tally) {
        self.count += other.count;
        let room = TEXTS_MAX.saturating_sub(self.texts.len());
        self.texts.extend(other.texts.into_iter().take(room));
    }
}

/// One client's account of a round, or that of all together.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// In the order of their answers, for one client.
    pub writes: Vec<Write>,
    pub troubles: BTreeMap<Trouble, Tally>,
    /// Reads whose promise was checked.
    pub checked: u64,
    pub broken_promises: Tally,
}

impl Ledger {
    /// Notes a failed statement, by a router that was `killed` in this round or not.
    pub fn trouble(&mut self, who: &str, what: &str, failure: &Failure, killed: bool) {
        let at_ms = now_us() / 1000;
        let text = format!("{at_ms} ms, {who}, {what}: {failure}");
        let kind = match Trouble::of(failure) {
            Trouble::Broken if killed => Trouble::RouterDied,
            other => other,
        };
        self.troubles.entry(kind).or_default().add(text);
    }

    /// Notes the outcome of a check of what was read.
    pub fn promise(&mut self, kept: bool, text: impl FnOnce() -> String) {
        self.checked += 1;
        if !kept {
            let at_ms = now_us() / 1000;
            self.broken_promises.add(format!("{at_ms} ms, {}", text()));
        }
    }

    /// How many errors of these kinds there were.
    pub fn errors(&self, of: impl Fn(Trouble) -> bool) -> u64 {
        let chosen = self.troubles.iter().filter(|(kind, _)| of(**kind));
        chosen.map(|(_, tally)| tally.count).sum()
    }

    pub fn absorb(&mut self, other: Ledger) {
        self.writes.extend(other.writes);
        for (kind, tally) in other.troubles {
            self.troubles.entry(kind).or_default().absorb(tally);
        }
        self.checked += other.checked;
        self.broken_promises.absorb(other.broken_promises);
    }

    /// The longest time without an acknowledged write that ended between `from_us` and `to_us`, in
    /// microseconds.
    pub fn longest_gap_us(&self, from_us: u64, to_us: u64) -> u64 {
        let acknowledged = |write: &&Write| write.outcome == Outcome::Acknowledged;
        let times = self.writes.iter().filter(acknowledged).map(|w| w.at_us);
        let mut times: Vec<u64> = times.chain([from_us, to_us]).collect();
        times.sort_unstable();
        let before = times.partition_point(|&at| at <= from_us).saturating_sub(2);
        // The gap that `from_us` stands in is measured from the acknowledgement before it.
        let whole: Vec<u64> = times[before..]
            .iter()
            .copied()
            .filter(|&at| at != from_us && at <= to_us)
            .collect();
        whole
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .max()
            .unwrap_or(to_us - from_us)
    }
}

/// The value below which `percent` of the values are; 0 of none.
pub fn percentile(values: &[u64], percent: usize) -> u64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acknowledged(times: &[u64]) -> Ledger {
        let write = |&at_us: &u64| Write {
            kind: Kind::Insert,
            id: at_us,
            insert_id: 0,
            at_us,
            outcome: Outcome::Acknowledged,
        };
        Ledger {
            writes: times.iter().map(write).collect(),
            ..Ledger::default()
        }
    }

    #[test]
    fn a_gap_is_measured_from_the_acknowledgement_before_the_fault() {
        let ledger = acknowledged(&[10, 20, 30, 90, 95]);
        assert_eq!(ledger.longest_gap_us(50, 100), 60);
        assert_eq!(ledger.longest_gap_us(91, 100), 5);
        assert_eq!(acknowledged(&[10]).longest_gap_us(50, 100), 90);
        assert_eq!(acknowledged(&[]).longest_gap_us(50, 100), 50);
    }

    #[test]
    fn percentiles() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!(percentile(&values, 50), 50);
        assert_eq!(percentile(&values, 99), 99);
        assert_eq!(percentile(&[7, 9], 50), 7);
        assert_eq!(percentile(&[], 50), 0);
    }
}
