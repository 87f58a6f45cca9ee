//! When a server is asked for a sign of life.
//!
//! Invariant: between the moment at which a server falls silent and the next question there is as much time as where nobody but
//! the detector asks it: half of an interval on average, and a whole one at most.
//!
//! Must not know: how it is asked, and what follows from silence.

use crate::pace;

/// However much a server says to clients, it is asked so often: whether it takes writes, it says to the detector alone.
const ASKED_US: u64 = 200_000;

/// When a server is to be asked again that answered its last question at `asked_us`, and of which clients know that it lived at
/// `answered_us` (0: they know nothing). All in microseconds of one clock.
pub(crate) fn due_us(asked_us: u64, answered_us: u64, interval_us: u64) -> u64 {
    // At the same moment as the others: the thread is woken once for all of them.
    let turn_us = pace::next_us(asked_us, interval_us);
    let spared_us = answered_us.saturating_add(interval_us / 2);
    turn_us.max(spared_us.min(asked_us.saturating_add(ASKED_US)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 30_000;

    #[test]
    fn who_says_nothing_to_clients_is_asked_each_interval() {
        assert_eq!(due_us(61_000, 0, INTERVAL), 90_000);
        assert_eq!(due_us(89_999, 0, INTERVAL), 90_000);
        assert_eq!(due_us(90_000, 0, INTERVAL), 120_000);
        // What clients knew long ago is no news.
        assert_eq!(due_us(61_000, 60_000, INTERVAL), 90_000);
    }

    #[test]
    fn who_answers_clients_is_asked_when_it_falls_silent() {
        assert_eq!(due_us(61_000, 85_000, INTERVAL), 100_000);
        assert_eq!(due_us(61_000, 200_000, INTERVAL), 215_000);
    }

    #[test]
    fn no_client_spares_it_the_question_for_long() {
        let asked = 61_000;
        assert_eq!(due_us(asked, 10_000_000, INTERVAL), asked + ASKED_US);
        // Whoever wants it asked seldom has it asked seldom.
        assert_eq!(due_us(asked, 10_000_000, 1_000_000), 1_000_000);
    }

    #[test]
    fn a_silence_is_met_within_an_interval_wherever_it_begins() {
        for asked in (0..INTERVAL).step_by(700) {
            for silent in (asked..asked + 100_000).step_by(900) {
                let due = due_us(asked, silent, INTERVAL);
                assert!(
                    due <= (asked + INTERVAL).max(silent + INTERVAL / 2),
                    "{asked} {silent}"
                );
            }
        }
    }
}
