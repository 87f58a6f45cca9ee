//! When a server is asked for a sign of life.
//!
//! Invariant: the detector asks a silent server within one interval, even where clients have just heard from it.
//!
//! Must not know: how it is asked, and what follows from silence.

use crate::pace;

/// However much a server says to clients, it is asked so often: whether it takes writes, it says to the detector alone.
const ASKED_US: u64 = 200_000;

/// A server that has answered clients within this part of an interval is not asked now. The next look comes after the rest of the
/// interval. A greater part would mean more looks, and each look wakes the thread.
const LATELY: u64 = 6;

/// What is due for a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Question,
    /// Nothing before this moment.
    Look {
        at_us: u64,
    },
}

/// What is due now for a server. It answered its last question at `asked_us` and clients at `answered_us` (0: not known).
/// All in microseconds of one clock.
pub(crate) fn due(asked_us: u64, answered_us: u64, now_us: u64, interval_us: u64) -> Due {
    let first_us = pace::next_us(asked_us, interval_us);
    let last_us = first_us.max(asked_us.saturating_add(ASKED_US));
    if now_us < first_us {
        return Due::Look { at_us: first_us };
    }
    let lately_us = interval_us / LATELY;
    if now_us >= last_us || now_us >= answered_us.saturating_add(lately_us) {
        return Due::Question;
    }
    // At the same moments as others: the thread is woken once for all of them.
    let look_us = pace::next_us(now_us, interval_us - lately_us);
    Due::Look {
        at_us: look_us.min(last_us),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: u64 = 30_000;

    /// When the question comes, where clients hear from the server at these moments.
    fn asked_at(asked_us: u64, answers: &dyn Fn(u64) -> u64, interval_us: u64) -> u64 {
        let mut now_us = asked_us;
        loop {
            match due(asked_us, answers(now_us), now_us, interval_us) {
                Due::Question => return now_us,
                Due::Look { at_us } => {
                    assert!(at_us > now_us, "{at_us} is not after {now_us}");
                    now_us = at_us;
                }
            }
        }
    }

    #[test]
    fn who_says_nothing_to_clients_is_asked_each_interval() {
        let never = |_| 0;
        assert_eq!(asked_at(61_000, &never, INTERVAL), 90_000);
        assert_eq!(asked_at(89_999, &never, INTERVAL), 90_000);
        assert_eq!(asked_at(90_000, &never, INTERVAL), 120_000);
        // What clients knew long ago is no news.
        assert_eq!(asked_at(61_000, &|_| 60_000, INTERVAL), 90_000);
    }

    #[test]
    fn no_client_spares_it_the_question_for_long() {
        let always = |now_us| now_us;
        assert_eq!(asked_at(61_000, &always, INTERVAL), 61_000 + ASKED_US);
        // Whoever wants it asked seldom has it asked seldom.
        assert_eq!(asked_at(61_000, &always, 1_000_000), 1_000_000);
    }

    #[test]
    fn a_silence_is_met_within_an_interval_wherever_it_begins() {
        for asked in (0..INTERVAL).step_by(700) {
            for silent in (asked..asked + 100_000).step_by(900) {
                let met = asked_at(asked, &|now_us| silent.min(now_us), INTERVAL);
                assert!(
                    met <= (asked + INTERVAL).max(silent + INTERVAL),
                    "{asked} {silent} {met}"
                );
            }
        }
    }

    #[test]
    fn who_answers_clients_is_looked_at_less_often_than_who_is_asked() {
        let (mut now_us, mut looks) = (0, 0);
        while let Due::Look { at_us } = due(0, now_us, now_us, INTERVAL) {
            (now_us, looks) = (at_us, looks + 1);
        }
        assert_eq!((now_us, looks), (ASKED_US, 8));
    }
}
