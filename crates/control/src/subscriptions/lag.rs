//! How far a consumer is behind a group, from positions that the group had at known moments.
//!
//! Nothing here reads a clock.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use farm::{Position, ServerId};

/// With more samples the older half is thinned.
const SAMPLES_MAX: usize = 4096;

/// How far a consumer is behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The age of the oldest change that may not be acknowledged.
    pub ms: u64,
    /// So much of the binlogs was written since.
    pub bytes: u64,
}

/// A position, and when it was seen first and last.
struct Sample {
    from: Duration,
    at: Duration,
    position: Position,
    /// Bytes of the binlog that were written since the first sample.
    written: u64,
}

/// What one group's primaries had.
#[derive(Default)]
pub(super) struct Samples {
    all: VecDeque<Sample>,
    written: u64,
    /// Whose files were seen, and their bytes.
    seen: Option<(ServerId, HashMap<String, u64>)>,
}

impl Samples {
    /// At a moment a server had this position, and these files.
    pub(super) fn add(
        &mut self,
        at: Duration,
        server: ServerId,
        position: Position,
        files: Vec<(String, u64)>,
    ) {
        let files: HashMap<String, u64> = files.into_iter().collect();
        if let Some((_, before)) = self.seen.as_ref().filter(|(of, _)| *of == server) {
            let grown = files.iter().map(|(name, bytes)| {
                let before = before.get(name).copied().unwrap_or(0);
                bytes.saturating_sub(before)
            });
            self.written += grown.sum::<u64>();
        }
        self.seen = Some((server, files));
        if self.all.len() >= SAMPLES_MAX {
            let mut index = 0;
            self.all.retain(|_| {
                index += 1;
                index > SAMPLES_MAX / 2 || index % 2 == 0
            });
        }
        let is_news = self.all.back().is_none_or(|last| last.position != position);
        match self.all.back_mut() {
            // Nothing was committed in between.
            Some(last) if !is_news => last.at = at,
            _ => self.all.push_back(Sample {
                from: at,
                at,
                position,
                written: self.written,
            }),
        }
    }

    /// How far a consumer with this position is behind, at this moment at the latest. What was before the first
    /// sample is not counted.
    pub(super) fn lag(&self, acknowledged: &Position, now: Duration) -> Lag {
        let reached = self
            .all
            .partition_point(|sample| acknowledged.covers(&sample.position));
        // The first position that is not acknowledged was reached after the sample in front of it.
        let Some(missing) = self.all.get(reached) else {
            return Lag::default();
        };
        let before = reached.checked_sub(1).and_then(|at| self.all.get(at));
        let since = before.map_or(missing.from, |it| it.at);
        let written = before.map_or(0, |it| it.written);
        Lag {
            ms: u64::try_from(now.saturating_sub(since).as_millis()).unwrap_or(u64::MAX),
            bytes: self.written.saturating_sub(written),
        }
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    fn at(text: &str) -> Position {
        Position::parse(Engine::MariaDb, text).expect("a position")
    }

    fn sample(
        samples: &mut Samples,
        second: u64,
        server: u32,
        position: &str,
        files: &[(&str, u64)],
    ) {
        let files = files
            .iter()
            .map(|(name, bytes)| ((*name).to_owned(), *bytes));
        let moment = Duration::from_secs(second);
        samples.add(moment, ServerId(server), at(position), files.collect());
    }

    #[test]
    fn a_consumer_is_behind_by_time_and_bytes() {
        let mut samples = Samples::default();
        sample(&mut samples, 1, 1, "0-1-5", &[("b.1", 100)]);
        sample(&mut samples, 2, 1, "0-1-5", &[("b.1", 100)]);
        sample(&mut samples, 3, 1, "0-1-9", &[("b.1", 150)]);
        sample(&mut samples, 4, 1, "0-1-12", &[("b.1", 160), ("b.2", 40)]);
        let lag = |position: &str| {
            let lag = samples.lag(&at(position), Duration::from_secs(10));
            (lag.ms, lag.bytes)
        };
        assert_eq!(lag("0-1-12"), (0, 0));
        assert_eq!(lag("0-1-11"), (7000, 50), "behind the sample of second 3");
        assert_eq!(lag("0-1-5"), (8000, 100));
        assert_eq!(lag("0-1-1"), (9000, 100), "no more than what was seen");
    }

    #[test]
    fn files_of_another_server_and_purged_ones_count_for_nothing() {
        let mut samples = Samples::default();
        sample(&mut samples, 1, 1, "0-1-5", &[("b.1", 100), ("b.2", 10)]);
        sample(&mut samples, 2, 1, "0-1-6", &[("b.2", 30)]);
        sample(&mut samples, 3, 2, "0-1-7", &[("c.1", 900)]);
        sample(&mut samples, 4, 2, "0-1-8", &[("c.1", 905)]);
        let lag = samples.lag(&at("0-1-5"), Duration::from_secs(4));
        assert_eq!(lag.bytes, 25);
    }
}
