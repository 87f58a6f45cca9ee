//! Whether a batch that could go out waits a moment for more commands.
//!
//! Clients that have their answers ask again soon. Where there are many of them, a short wait makes one
//! batch of what would be many small ones, and it is batches that cost the servers: a commit costs them
//! as much as thirty rows, a read as much as five. Where there are few, or where they do not come back,
//! nothing waits.

use std::time::Duration;

/// What a wait is worth.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Worth {
    /// Fewer commands are not worth one.
    least: usize,
    /// Larger batches are hardly cheaper for each command.
    enough: usize,
    /// One of so many that are expected is not waited for.
    late: usize,
}

/// Of batches that read, and of batches that commit.
pub(crate) const READS: Worth = Worth {
    least: 4,
    enough: 48,
    late: 4,
};
pub(crate) const COMMITS: Worth = Worth {
    least: 2,
    enough: 192,
    late: 16,
};

/// Of batches of cores that have one commit together.
pub(crate) const CORES: Worth = Worth {
    least: 2,
    enough: 64,
    late: 4,
};

/// A wait is not longer than what the last batch took, within these bounds. The reactor's clock may add
/// a millisecond.
const LONGEST: (Duration, Duration) = (Duration::from_micros(500), Duration::from_millis(4));

/// So many batches go out at once after a wait in vain, and up to so many when that happens again.
const SKIPS: (u32, u32) = (8, 1024);

/// What was learned from the waits so far.
#[derive(Debug)]
pub(crate) struct Linger {
    worth: Worth,
    skips: u32,
    next_skips: u32,
}

impl Linger {
    pub fn new(worth: Worth) -> Linger {
        Linger {
            worth,
            skips: 0,
            next_skips: SKIPS.0,
        }
    }

    /// How many commands the next batch waits for, when the last one had `answered` and `waiting` are
    /// there now; `None` when it goes out as it is.
    pub fn wanted(&mut self, answered: usize, waiting: usize) -> Option<usize> {
        let expected = (answered + waiting).min(self.worth.enough);
        let wanted = expected - expected / self.worth.late;
        if expected < self.worth.least || waiting >= wanted {
            return None;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return None;
        }
        Some(wanted)
    }

    /// How long to wait when the last batch took so long.
    pub fn longest(last: Duration) -> Duration {
        last.clamp(LONGEST.0, LONGEST.1)
    }

    /// A wait has ended for which so many commands were missing; so many came.
    pub fn ended(&mut self, missing: usize, came: usize) {
        if came * 2 >= missing {
            *self = Linger::new(self.worth);
            return;
        }
        self.skips = self.next_skips;
        self.next_skips = (self.next_skips * 2).min(SKIPS.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_clients_wait_for_nobody() {
        let mut linger = Linger::new(READS);
        assert_eq!(linger.wanted(1, 0), None);
        assert_eq!(linger.wanted(2, 1), None);
        assert_eq!(linger.wanted(0, 100), None);
        let mut linger = Linger::new(COMMITS);
        assert_eq!(linger.wanted(1, 0), None);
        assert_eq!(linger.wanted(0, 1), None);
        assert_eq!(linger.wanted(1, 1), Some(2));
        assert_eq!(linger.wanted(1, 3), Some(4));
    }

    #[test]
    fn who_was_answered_is_expected_back() {
        let mut linger = Linger::new(READS);
        assert_eq!(linger.wanted(32, 0), Some(24));
        assert_eq!(linger.wanted(24, 8), Some(24));
        assert_eq!(linger.wanted(8, 24), None);
        assert_eq!(linger.wanted(200, 10), Some(36));
        let mut linger = Linger::new(COMMITS);
        assert_eq!(linger.wanted(32, 0), Some(30));
        assert_eq!(linger.wanted(3, 0), Some(3));
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut linger = Linger::new(READS);
        let mut waits = 0;
        for _ in 0..1000 {
            if linger.wanted(10, 0).is_some() {
                waits += 1;
                linger.ended(8, 3);
            }
        }
        assert!(waits < 9, "{waits}");
        linger.ended(8, 4);
        assert!(linger.wanted(10, 0).is_some());
    }
}
