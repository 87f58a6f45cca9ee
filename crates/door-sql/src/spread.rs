//! Which core serves a client.
//!
//! Job: few clients that stay are spread evenly over the cores. A client that another core than the one that took it
//! is to serve costs a message and the waking of that core, which is much beside a short life: while many clients
//! leave, those who come stay where they came, though a core may have some more than another.
//!
//! Must not know: the cores themselves, and what a client is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Who left is counted for so long.
const PERIOD: Duration = Duration::from_secs(1);

/// So many clients that left within a period let the cores' counts differ by one.
const LEFT_PER_SLACK: usize = 64;

/// How many clients each core has, and how many left of late.
pub(crate) struct Spread {
    /// Each client counts itself out.
    clients: Vec<Arc<AtomicUsize>>,
    period: Period,
    /// Who left in the period before.
    left: usize,
}

struct Period {
    began: Instant,
    /// How many clients there were when it began.
    there: usize,
    came: usize,
}

impl Spread {
    pub fn new(cores: usize, now: Instant) -> Spread {
        Spread {
            clients: (0..cores).map(|_| Arc::default()).collect(),
            period: Period {
                began: now,
                there: 0,
                came: 0,
            },
            left: 0,
        }
    }

    /// The core for a client that core `here` has taken.
    pub fn core(&mut self, here: usize, now: Instant) -> usize {
        let clients: Vec<usize> = self.clients.iter().map(|it| it.load(Relaxed)).collect();
        self.turn(clients.iter().sum(), now);
        self.period.came += 1;
        choose(&clients, here, self.left)
    }

    /// The count of a core's clients.
    pub fn of(&self, core: usize) -> &Arc<AtomicUsize> {
        &self.clients[core]
    }

    /// Begins another period where this one is over; `there` are now.
    fn turn(&mut self, there: usize, now: Instant) {
        let since = now.saturating_duration_since(self.period.began);
        if since < PERIOD {
            return;
        }
        let left = (self.period.there + self.period.came).saturating_sub(there);
        // Nobody came for the rest of a longer time.
        self.left = left / since.as_secs().max(1) as usize;
        self.period = Period {
            began: now,
            there,
            came: 0,
        };
    }
}

/// The core with the fewest clients. Of equals the one that has the client already, and so it is while it has hardly
/// more and `left` clients went within a period.
fn choose(clients: &[usize], here: usize, left: usize) -> usize {
    let least = clients.iter().copied().min().unwrap_or(0);
    let slack = (left / LEFT_PER_SLACK).min(1 + least / 8);
    match clients.get(here) {
        Some(&own) if own > least + slack => {
            let fewest = clients.iter().position(|&count| count == least);
            fewest.unwrap_or(here)
        }
        _ => here,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_spread_evenly_and_stay_where_they_came() {
        let now = Instant::now();
        let mut spread = Spread::new(3, now);
        let take = |spread: &mut Spread, here| {
            let core = spread.core(here, now);
            spread.of(core).fetch_add(1, Relaxed);
            core
        };
        // One after the other: each is served by the core that took it.
        assert_eq!([2, 0, 1].map(|here| take(&mut spread, here)), [2, 0, 1]);
        // All at once at one core.
        for _ in 0..9 {
            take(&mut spread, 1);
        }
        assert!((0..3).all(|core| spread.of(core).load(Relaxed) == 4));
    }

    #[test]
    fn while_many_leave_a_core_may_have_some_more() {
        assert_eq!(choose(&[3, 4], 1, LEFT_PER_SLACK - 1), 0);
        assert_eq!(choose(&[3, 4], 1, LEFT_PER_SLACK), 1);
        // However many leave.
        assert_eq!(choose(&[3, 5], 1, 1000 * LEFT_PER_SLACK), 0);
        assert_eq!(choose(&[16, 19], 1, 3 * LEFT_PER_SLACK), 1);
        assert_eq!(choose(&[16, 20], 1, 9 * LEFT_PER_SLACK), 0);
    }

    #[test]
    fn who_left_is_counted_by_the_period() {
        let began = Instant::now();
        let mut spread = Spread::new(2, began);
        for _ in 0..2 * LEFT_PER_SLACK {
            // It leaves at once.
            spread.core(0, began);
        }
        spread.of(0).store(1, Relaxed);
        assert_eq!(spread.core(0, began), 1, "who left is not counted yet");
        assert_eq!(spread.core(0, began + PERIOD), 0);
        assert_eq!(
            spread.core(0, began + 2 * PERIOD),
            1,
            "nobody has left since"
        );
        let mut quiet = Spread::new(2, began);
        for _ in 0..2 * LEFT_PER_SLACK {
            quiet.core(0, began);
        }
        quiet.of(0).store(1, Relaxed);
        assert_eq!(quiet.core(0, began + 3 * PERIOD), 1, "that was long ago");
    }
}
