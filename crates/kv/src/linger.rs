//! Whether a batch that could go out waits a moment for more commands.
//!
//! Clients that have their answers ask again soon. Where there are many of them, a short wait makes one
//! batch of what would be many small ones, and it is batches that cost the servers. Where there are few,
//! or where they do not come back, nothing waits.

use std::time::Duration;

/// Fewer commands are not worth a wait.
const WORTH: usize = 8;

/// Larger batches are hardly cheaper for each command.
const ENOUGH: usize = 48;

/// The longest wait; the reactor's clock makes it 1.5 ms at most.
pub(crate) const LONGEST: Duration = Duration::from_micros(500);

/// So many batches go out at once after a wait in vain, and up to so many when that happens again.
const SKIPS: (u32, u32) = (8, 1024);

/// What was learned from the waits so far.
#[derive(Debug)]
pub(crate) struct Linger {
    skips: u32,
    next_skips: u32,
}

impl Default for Linger {
    fn default() -> Linger {
        Linger {
            skips: 0,
            next_skips: SKIPS.0,
        }
    }
}

impl Linger {
    /// How many commands the next batch waits for, when the last one had `answered` and `waiting` are
    /// there now; `None` when it goes out as it is.
    pub fn wanted(&mut self, answered: usize, waiting: usize) -> Option<usize> {
        let expected = (answered + waiting).min(ENOUGH);
        let wanted = expected - expected / 4;
        if expected < WORTH || waiting >= wanted {
            return None;
        }
        if self.skips > 0 {
            self.skips -= 1;
            return None;
        }
        Some(wanted)
    }

    /// A wait has ended; `full` when what was wanted came.
    pub fn ended(&mut self, full: bool) {
        if full {
            *self = Linger::default();
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
        let mut linger = Linger::default();
        assert_eq!(linger.wanted(1, 0), None);
        assert_eq!(linger.wanted(4, 3), None);
        assert_eq!(linger.wanted(0, 100), None);
    }

    #[test]
    fn who_was_answered_is_expected_back() {
        let mut linger = Linger::default();
        assert_eq!(linger.wanted(32, 0), Some(24));
        assert_eq!(linger.wanted(24, 8), Some(24));
        assert_eq!(linger.wanted(8, 24), None);
        assert_eq!(linger.wanted(200, 10), Some(36));
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut linger = Linger::default();
        let mut waits = 0;
        for _ in 0..1000 {
            if linger.wanted(10, 0).is_some() {
                waits += 1;
                linger.ended(false);
            }
        }
        assert!(waits < 9, "{waits}");
        linger.ended(true);
        assert!(linger.wanted(10, 0).is_some());
    }
}
