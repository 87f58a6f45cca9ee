//! Times in buckets that grow with them: two for each doubling, so a quantile is off by a quarter at most.

/// The buckets of a histogram: up to two minutes, and one for all that takes longer.
pub const BUCKETS: usize = 56;

/// The bucket of a time in microseconds.
#[inline]
pub fn bucket(us: u64) -> usize {
    let us = us.max(1);
    let exponent = us.ilog2();
    let half = if exponent == 0 {
        0
    } else {
        us >> (exponent - 1) & 1
    };
    let at = u64::from(exponent) * 2 + half;
    usize::try_from(at).map_or(BUCKETS - 1, |at| at.min(BUCKETS - 1))
}

/// The least time, in microseconds, that is above all of a bucket. The last bucket has no such time.
pub fn above_us(bucket: usize) -> u64 {
    match bucket {
        0 | 1 => 2,
        _ => floor_us(bucket + 1),
    }
}

/// The least time of a bucket.
fn floor_us(bucket: usize) -> u64 {
    let exponent = bucket / 2;
    match (exponent, bucket % 2) {
        (0, _) => 0,
        (_, 0) => 1 << exponent,
        _ => (1 << exponent) + (1 << (exponent - 1)),
    }
}

/// How often times fell into each bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u32; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: [0; BUCKETS],
        }
    }
}

impl Histogram {
    /// Counts one time.
    #[inline]
    pub fn add(&mut self, us: u64) {
        let count = &mut self.counts[bucket(us)];
        match count.checked_add(1) {
            Some(more) => *count = more,
            None => self.halve(),
        }
    }

    /// Counts several equal times.
    pub(crate) fn add_many(&mut self, us: u64, times: u32) {
        let at = bucket(us);
        while self.counts[at].checked_add(times).is_none() {
            self.halve();
        }
        self.counts[at] += times;
    }

    /// A bucket is full: what counts from here on is how the times are spread.
    #[cold]
    fn halve(&mut self) {
        for count in &mut self.counts {
            *count /= 2;
        }
    }

    /// Adds what another one has counted.
    pub fn join(&mut self, other: &Histogram) {
        while self
            .counts
            .iter()
            .zip(other.counts)
            .any(|(a, b)| a.checked_add(b).is_none())
        {
            self.halve();
        }
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(more);
        }
    }

    /// The time below which this part of all times lies, in microseconds; `None` while there are none.
    pub fn quantile_us(&self, part: f64) -> Option<f64> {
        let total: u64 = self.counts.iter().map(|&count| u64::from(count)).sum();
        if total == 0 {
            return None;
        }
        let wanted = part.clamp(0.0, 1.0) * total as f64;
        let mut before = 0.0;
        for (at, &count) in self.counts.iter().enumerate() {
            let count = f64::from(count);
            if count > 0.0 && before + count >= wanted {
                let (low, high) = (floor_us(at) as f64, above_us(at) as f64);
                return Some(low + (high - low) * ((wanted - before) / count).clamp(0.0, 1.0));
            }
            before += count;
        }
        None
    }

    /// The buckets that are not empty: the time that is above each, in microseconds, and its count.
    pub fn filled(&self) -> impl Iterator<Item = (u64, u32)> {
        let each = self.counts.iter().enumerate();
        each.filter(|(_, count)| **count > 0)
            .map(|(at, count)| (above_us(at), *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_between_the_bounds_of_its_bucket() {
        for us in (0..5000).chain([1 << 20, (1 << 20) + 1, 3 << 19, (1 << 27) - 1]) {
            let at = bucket(us);
            assert!(floor_us(at) <= us && us < above_us(at), "{us} in {at}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(bucket(1 << 27), 54);
    }

    #[test]
    fn quantiles_are_near() {
        let mut times = Histogram::default();
        assert_eq!(times.quantile_us(0.5), None);
        for us in 1..=1000 {
            times.add(us);
        }
        for (part, expected) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let told = times.quantile_us(part).expect("there are times");
            assert!((told - expected).abs() <= expected / 4.0, "{part}: {told}");
        }
        let filled: u32 = times.filled().map(|(_, count)| count).sum();
        assert_eq!(filled, 1000);
    }

    #[test]
    fn a_full_bucket_keeps_the_spread() {
        let mut times = Histogram::default();
        times.counts[10] = u32::MAX;
        times.counts[20] = 8;
        times.add(above_us(10) - 1);
        assert_eq!((times.counts[10], times.counts[20]), (u32::MAX / 2, 4));
        let mut other = Histogram::default();
        other.counts[10] = u32::MAX;
        times.join(&other);
        assert!(times.counts[10] > u32::MAX / 2);
    }
}
