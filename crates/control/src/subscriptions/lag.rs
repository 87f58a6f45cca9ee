//! How far a consumer is behind a group, from positions that the group had at known moments, and how near that is to what
//! the servers keep.
//!
//! Nothing here reads a clock.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use engine::binlog::{Expiry, First};
use farm::{Position, ServerId};

use crate::change_stream::Gap;

/// With more samples the older half is thinned.
const SAMPLES_MAX: usize = 4096;

/// How far a consumer is behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// The age of the oldest change that may not be acknowledged.
    pub ms: u64,
    /// So much of the binlogs was written since.
    pub bytes: u64,
    /// How much that is of what the servers keep, by age or by bytes: at 100 they may remove what is not acknowledged.
    /// `None` where they remove nothing by themselves.
    pub expiry_percent: Option<u64>,
    /// What no server of this group has any more.
    pub gap: Option<(String, Gap)>,
}

impl Lag {
    /// What is missing, behind the name of the group that lacks it; `None` where nothing is.
    pub(crate) fn gap_text(&self) -> Option<String> {
        let (group, gap) = self.gap.as_ref()?;
        Some(format!("{group}: {gap}"))
    }

    /// This much behind a group whose servers remove logs so.
    pub(super) fn within(self, expiry: &Expiry) -> Lag {
        let percent = |now: u64, all: u64| now.saturating_mul(100) / all.max(1);
        let by_age = expiry.seconds.map(|all| percent(self.ms / 1000, all));
        let by_bytes = expiry.bytes.map(|all| percent(self.bytes, all));
        Lag {
            expiry_percent: by_age.max(by_bytes),
            ..self
        }
    }

    /// Behind both groups.
    pub(super) fn and(self, other: Lag) -> Lag {
        Lag {
            ms: self.ms.max(other.ms),
            bytes: self.bytes + other.bytes,
            expiry_percent: self.expiry_percent.max(other.expiry_percent),
            gap: self.gap.or(other.gap),
        }
    }
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

/// Where what a consumer has not acknowledged begins in a binlog, as a server said at a known moment.
pub(super) struct Beginning {
    at: Duration,
    /// What was acknowledged then.
    pub(super) behind: Position,
    age: Duration,
    /// Bytes from there to the end, and those that all samples had then.
    bytes: u64,
    written: u64,
}

impl Beginning {
    /// How far a consumer is behind that has not come further since.
    fn lag(&self, now: Duration, written: u64) -> Lag {
        Lag {
            ms: ms(self.age + now.saturating_sub(self.at)),
            bytes: self.bytes + written.saturating_sub(self.written),
            ..Lag::default()
        }
    }

    /// It was asked for so long ago.
    pub(super) fn asked_before(&self, now: Duration) -> Duration {
        now.saturating_sub(self.at)
    }
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

    /// What this consumer has not acknowledged begins in front of the first sample: when that was only the log knows.
    pub(super) fn is_older(&self, acknowledged: &Position) -> bool {
        let first = self.all.front();
        first.is_some_and(|first| !acknowledged.covers(&first.position))
    }

    /// What a server said about a consumer that has acknowledged so much.
    pub(super) fn beginning(&self, at: Duration, behind: Position, first: &First) -> Beginning {
        let (file, place) = &first.place;
        let files = self.seen.iter().flat_map(|(_, files)| files);
        // Names of one server's files are of one length: they have their order.
        let later = files.filter(|(name, _)| *name >= file);
        let bytes: u64 = later.map(|(_, bytes)| bytes).sum();
        Beginning {
            at,
            behind,
            age: Duration::from_secs(first.age_s),
            bytes: bytes.saturating_sub(*place),
            written: self.written,
        }
    }

    /// How far a consumer with this position is behind, at this moment at the latest. What was before the first
    /// sample is counted where its beginning is known.
    pub(super) fn lag(
        &self,
        acknowledged: &Position,
        beginning: Option<&Beginning>,
        now: Duration,
    ) -> Lag {
        let known = beginning.filter(|it| acknowledged.covers(&it.behind));
        if let Some(known) = known.filter(|_| self.is_older(acknowledged)) {
            return known.lag(now, self.written);
        }
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
            ms: ms(now.saturating_sub(since)),
            bytes: self.written.saturating_sub(written),
            ..Lag::default()
        }
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
            let lag = samples.lag(&at(position), None, Duration::from_secs(10));
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
        let lag = samples.lag(&at("0-1-5"), None, Duration::from_secs(4));
        assert_eq!(lag.bytes, 25);
    }

    #[test]
    fn what_began_before_the_first_sample_is_counted_where_the_log_was_asked() {
        let mut samples = Samples::default();
        let files = [("b.1", 1000), ("b.2", 500), ("b.3", 70)];
        sample(&mut samples, 100, 1, "0-1-50", &files);
        assert!(samples.is_older(&at("0-1-5")) && !samples.is_older(&at("0-1-50")));
        let first = First {
            age_s: 3600,
            place: ("b.2".to_owned(), 200),
        };
        let second = Duration::from_secs(100);
        let known = samples.beginning(second, at("0-1-5"), &first);
        sample(
            &mut samples,
            110,
            1,
            "0-1-60",
            &[("b.2", 500), ("b.3", 100)],
        );
        let lag = |position: &str| {
            let lag = samples.lag(&at(position), Some(&known), Duration::from_secs(110));
            (lag.ms, lag.bytes)
        };
        assert_eq!(lag("0-1-5"), (3_610_000, 300 + 70 + 30));
        assert_eq!(lag("0-1-7"), (3_610_000, 400), "no more than that");
        assert_eq!(lag("0-1-50"), (10_000, 30), "what was seen is better");
        assert_eq!(lag("0-1-1").0, 10_000, "it is about a later one");
    }

    #[test]
    fn lags_are_compared_with_what_servers_keep() {
        let lag = Lag {
            ms: 450_000,
            bytes: 90,
            ..Lag::default()
        };
        let expiry = |seconds, bytes| Expiry {
            seconds,
            bytes,
            ..Expiry::default()
        };
        let percent = |expiry| lag.clone().within(&expiry).expiry_percent;
        assert_eq!(percent(expiry(Some(600), None)), Some(75));
        assert_eq!(percent(expiry(Some(600), Some(100))), Some(90));
        assert_eq!(percent(expiry(None, None)), None);
        let both = lag
            .clone()
            .within(&expiry(Some(600), None))
            .and(lag.clone());
        assert_eq!(
            (both.ms, both.bytes, both.expiry_percent),
            (450_000, 180, Some(75))
        );
    }
}
