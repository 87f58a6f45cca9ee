//! What was counted by digest in each minute of the last day, in so many bytes: the oldest minutes go first.
//!
//! A core counts its minute beside the rest; whoever keeps the history takes the minutes of all cores away, so that
//! the next one begins. Times are in buckets that double: a quantile is off by a half at most.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use sqltext::Digest;

use crate::counts::{Call, Counts};
use crate::row::Row;

/// Doublings from a microsecond to two minutes.
const DOUBLINGS: usize = 28;

/// Older minutes go.
const KEPT_MS: u64 = 24 * 3600 * 1000;

/// What one row has counted in a minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Minute {
    pub calls: u32,
    pub(crate) errors: u32,
    pub(crate) rows_sent: u64,
    pub(crate) rows_changed: u64,
    pub(crate) bytes: u64,
    pub(crate) total_us: u64,
    pub(crate) waiting_us: u64,
    pub(crate) most_us: u64,
    pub(crate) times: [u16; DOUBLINGS],
}

impl Minute {
    /// Counts a statement.
    #[inline]
    pub fn add(&mut self, call: &Call) {
        let total_us = call.total_us();
        self.calls = self.calls.saturating_add(1);
        self.errors = self.errors.saturating_add(u32::from(call.error.is_some()));
        self.rows_sent += call.rows_sent;
        self.rows_changed += call.rows_changed;
        self.bytes += call.bytes;
        self.total_us += total_us;
        self.waiting_us += call.waiting_us;
        self.most_us = self.most_us.max(total_us);
        let at = usize::try_from(total_us.max(1).ilog2()).unwrap_or(DOUBLINGS);
        let count = &mut self.times[at.min(DOUBLINGS - 1)];
        if *count == u16::MAX {
            return self.halve();
        }
        *count += 1;
    }

    /// A bucket is full: what counts from here on is how the times are spread.
    #[cold]
    fn halve(&mut self) {
        for count in &mut self.times {
            *count /= 2;
        }
    }

    /// Adds it to what was counted before, as a statement that ended then.
    fn add_to(&self, counts: &mut Counts, at_ms: u64) {
        if counts.calls == 0 {
            counts.first_ms = at_ms;
        }
        counts.calls += u64::from(self.calls);
        counts.other_errors += u64::from(self.errors);
        counts.rows_sent += self.rows_sent;
        counts.rows_changed += self.rows_changed;
        counts.bytes += self.bytes;
        counts.first_ms = counts.first_ms.min(at_ms);
        counts.last_ms = counts.last_ms.max(at_ms);
        counts.total_us += self.total_us;
        counts.waiting_us += self.waiting_us;
        counts.most_us = counts.most_us.max(self.most_us);
        for (at, &count) in self.times.iter().enumerate() {
            // A half of the times of a doubling in each half of it.
            let (low, high) = (1u64 << at, (1u64 << at) + (1u64 << at) / 2);
            counts.times.add_many(low, u32::from(count - count / 2));
            counts.times.add_many(high, u32::from(count / 2));
        }
    }
}

/// What a row is about, and what it has counted in one minute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    pub digest: Digest,
    pub user: Arc<[u8]>,
    pub database: Arc<[u8]>,
    pub group: Arc<str>,
    pub tag: Arc<str>,
    pub text: Arc<str>,
    pub minute: Minute,
}

impl Past {
    fn bytes(&self) -> usize {
        let strings = [
            self.user.len(),
            self.database.len(),
            self.group.len(),
            self.tag.len(),
            self.text.len(),
        ];
        size_of::<Past>() + strings.iter().sum::<usize>()
    }
}

/// The minutes of the last day.
#[derive(Debug, Default)]
pub struct History {
    /// Their ends in milliseconds since 1970, the newest behind.
    minutes: VecDeque<(u64, Vec<Past>)>,
    bytes: usize,
}

impl History {
    /// Keeps what was counted since the call before; `at_ms` is now.
    pub fn keep(&mut self, at_ms: u64, rows: Vec<Past>, bytes_max: usize) {
        if !rows.is_empty() {
            self.bytes += rows.iter().map(Past::bytes).sum::<usize>();
            self.minutes.push_back((at_ms, rows));
        }
        let old = |minutes: &VecDeque<(u64, Vec<Past>)>| {
            let oldest = minutes.front();
            oldest.is_some_and(|(end_ms, _)| end_ms + KEPT_MS < at_ms)
        };
        while self.bytes > bytes_max || old(&self.minutes) {
            let Some((_, gone)) = self.minutes.pop_front() else {
                return;
            };
            self.bytes -= gone.iter().map(Past::bytes).sum::<usize>();
        }
    }

    /// What was counted in the minutes that ended at this time or later, added up. Errors have no numbers, and waiting
    /// and serving no histograms.
    pub fn since(&self, from_ms: u64) -> Vec<Row> {
        let mut known: HashMap<_, usize> = HashMap::new();
        let mut all: Vec<Row> = Vec::new();
        for (end_ms, rows) in &self.minutes {
            for past in rows.iter().filter(|_| *end_ms >= from_ms) {
                let name = (
                    past.digest,
                    &past.user,
                    &past.database,
                    &past.group,
                    &past.tag,
                );
                let at = *known.entry(name).or_insert_with(|| {
                    all.push(Row {
                        digest: past.digest,
                        database: Arc::clone(&past.database),
                        user: Arc::clone(&past.user),
                        group: Arc::clone(&past.group),
                        tag: Arc::clone(&past.tag),
                        text: Arc::clone(&past.text),
                        example: None,
                        counts: Counts::default(),
                    });
                    all.len() - 1
                });
                past.minute.add_to(&mut all[at].counts, *end_ms);
            }
        }
        all
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        *self = History::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn past(tag: &str, times_us: &[u64]) -> Past {
        let mut minute = Minute::default();
        for &server_us in times_us {
            minute.add(&Call {
                server_us,
                rows_sent: 1,
                ..Call::default()
            });
        }
        Past {
            digest: Digest::of_normal("SELECT ?"),
            user: b"u"[..].into(),
            database: b""[..].into(),
            group: "g1".into(),
            tag: tag.into(),
            text: "SELECT ?".into(),
            minute,
        }
    }

    fn calls(history: &History, from_ms: u64) -> Vec<(String, u64)> {
        let rows = history.since(from_ms).into_iter();
        let mut all: Vec<_> = rows
            .map(|row| (row.tag.to_string(), row.counts.calls))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn minutes_add_up_from_a_time_on() {
        let mut history = History::default();
        history.keep(
            60_000,
            vec![past("a", &[100, 200]), past("b", &[5])],
            1 << 20,
        );
        history.keep(120_000, vec![past("a", &[300])], 1 << 20);
        let known = |all: &[(&str, u64)]| -> Vec<(String, u64)> {
            all.iter()
                .map(|(tag, calls)| ((*tag).to_owned(), *calls))
                .collect()
        };
        assert_eq!(calls(&history, 0), known(&[("a", 3), ("b", 1)]));
        assert_eq!(calls(&history, 60_001), known(&[("a", 1)]));
        let row = history.since(60_001).remove(0);
        assert_eq!(
            (
                row.counts.total_us,
                row.counts.most_us,
                row.counts.rows_sent
            ),
            (300, 300, 1)
        );
        let median = row.counts.times.quantile_us(0.5).expect("there is one");
        assert!((256.0..=384.0).contains(&median), "{median}");
        history.clear();
        assert!(history.since(0).is_empty());
    }

    #[test]
    fn a_day_is_kept_and_no_more_than_fits() {
        let mut history = History::default();
        for minute in 0..3000 {
            history.keep(minute * 60_000, vec![past("a", &[1])], usize::MAX);
        }
        assert_eq!(calls(&history, 0), [("a".to_owned(), 1441)]);
        history.keep(3000 * 60_000, Vec::new(), 10 * past("a", &[1]).bytes());
        assert_eq!(calls(&history, 0), [("a".to_owned(), 10)]);
        history.keep(9000 * 60_000, Vec::new(), usize::MAX);
        assert_eq!((calls(&history, 0).len(), history.bytes), (0, 0));
    }

    #[test]
    fn a_full_bucket_keeps_the_spread() {
        let mut minute = past("a", &[100]).minute;
        for _ in 0..70_000 {
            minute.add(&Call {
                server_us: 1000,
                ..Call::default()
            });
        }
        assert_eq!(minute.calls, 70_001);
        assert!(minute.times[9] > 30_000);
    }
}
