//! When loops look again.
//!
//! Job: let all loops whose periods go into each other wake their thread together. A thread that was woken for one of them does the
//! work of the others at next to no cost, and to be woken is most of what an idle router costs.
//!
//! Invariant: a look comes after one period at the latest, as it would by itself.
//!
//! Must not know: what is looked at.

use std::time::{Duration, Instant};

/// Sleeps until the next multiple of `period` since `origin`, which is the same for all who are to wake together.
pub async fn next_look(origin: Instant, period: Duration) {
    let us = u64::try_from(period.as_micros()).unwrap_or(u64::MAX);
    until_us(origin, next_us(us_since(origin), us)).await;
}

/// Sleeps until this moment, in microseconds since `origin`.
pub(crate) async fn until_us(origin: Instant, at_us: u64) {
    tokio::time::sleep_until((origin + Duration::from_micros(at_us)).into()).await;
}

/// The first multiple of `period_us` behind `now_us`.
pub(crate) fn next_us(now_us: u64, period_us: u64) -> u64 {
    let period_us = period_us.max(1);
    (now_us / period_us)
        .saturating_add(1)
        .saturating_mul(period_us)
}

/// By the runtime's own clock, which a test may have stopped.
fn us_since(origin: Instant) -> u64 {
    let since = tokio::time::Instant::now().saturating_duration_since(origin.into());
    u64::try_from(since.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_that_go_into_each_other_meet() {
        assert_eq!(next_us(0, 50), 50);
        assert_eq!(next_us(99, 50), 100);
        assert_eq!(next_us(99, 20), 100);
        assert_eq!(next_us(100, 50), 150, "never at once");
        assert_eq!(next_us(7, 0), 8);
    }

    #[tokio::test]
    async fn a_look_comes_within_its_period() {
        let origin = Instant::now();
        next_look(origin, Duration::from_millis(2)).await;
        let first = origin.elapsed();
        assert!(first >= Duration::from_millis(2), "{first:?}");
        next_look(origin, Duration::from_millis(2)).await;
        assert!(origin.elapsed() >= Duration::from_millis(4));
    }
}
