//! What this router serves per second, from the same numbers that `/metrics` shows.
//!
//! Nothing is counted for the console: two looks at the sums of before and now give what happened in between.

use std::collections::VecDeque;

use serde_json::{Map, Value, json};

use crate::metrics::Family;

/// Ten minutes, of a sample a second at most.
const KEPT_MS: u64 = 600_000;
const SAMPLES_MAX: usize = 600;

/// Sums since the router's start, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sums {
    pub(super) at_ms: u64,
    statements: f64,
    errors: f64,
    /// How many took no longer than so many seconds, by the bound; the last bound is infinite.
    buckets: Vec<(f64, f64)>,
    sessions: f64,
    held: f64,
    waiting: f64,
}

impl Sums {
    /// What these families say. Who has none of them has served nothing.
    pub(super) fn of(families: &[Family], at_ms: u64) -> Sums {
        let mut sums = Sums {
            at_ms,
            ..Sums::default()
        };
        for family in families {
            let sum = || family.samples.iter().map(|sample| sample.value).sum();
            match family.name {
                "heddle_statement_seconds" => sums.add_times(family),
                "heddle_statement_errors_total" => sums.errors = sum(),
                "heddle_sessions" => sums.sessions = sum(),
                "heddle_statements_held" => sums.held = sum(),
                "heddle_pool_waiting" => sums.waiting = sum(),
                _ => {}
            }
        }
        sums
    }

    /// Over all kinds and doors.
    fn add_times(&mut self, family: &Family) {
        for sample in &family.samples {
            match sample.suffix {
                "_count" => self.statements += sample.value,
                "_bucket" => {
                    let bound = sample.labels.iter().find(|(name, _)| *name == "le");
                    let bound = bound.map_or(f64::INFINITY, |(_, text)| seconds(text));
                    match self.buckets.iter_mut().find(|(other, _)| *other == bound) {
                        Some((_, count)) => *count += sample.value,
                        None => self.buckets.push((bound, sample.value)),
                    }
                }
                _ => {}
            }
        }
        self.buckets.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    }

    /// What happened since `before`: rates per second, and times in milliseconds where there were any.
    fn since(&self, before: &Sums) -> Value {
        let seconds = self.at_ms.saturating_sub(before.at_ms).max(1) as f64 / 1000.0;
        let rate = |now: f64, then: f64| rounded((now - then).max(0.0) / seconds);
        let mut sample = json!({
            "statements": rate(self.statements, before.statements),
            "errors": rate(self.errors, before.errors),
            "sessions": self.sessions,
            "held": self.held,
            "waiting": self.waiting,
        });
        for (name, part) in [("p50_ms", 0.5), ("p99_ms", 0.99)] {
            if let Some(seconds) = self.quantile(before, part) {
                sample[name] = rounded(seconds * 1000.0).into();
            }
        }
        sample
    }

    /// The time that this part of the statements since `before` did not exceed, in seconds; between two bounds it is
    /// taken to grow evenly.
    fn quantile(&self, before: &Sums, part: f64) -> Option<f64> {
        let then = |bound: f64| {
            let found = before.buckets.iter().find(|(other, _)| *other == bound);
            found.map_or(0.0, |(_, count)| *count)
        };
        let counts = self.buckets.iter();
        let counts: Vec<_> = counts
            .map(|&(bound, now)| (bound, now - then(bound)))
            .collect();
        let all = counts.last().map(|(_, count)| *count)?;
        if all <= 0.0 {
            return None;
        }
        let (mut below, mut counted) = (0.0, 0.0);
        for (bound, count) in counts {
            if count >= all * part {
                // Nothing is known of what lies above the last bound.
                if bound.is_infinite() {
                    return Some(below);
                }
                let inside = (all * part - counted) / (count - counted).max(1.0);
                return Some(below + (bound - below) * inside.clamp(0.0, 1.0));
            }
            (below, counted) = (bound, count);
        }
        None
    }
}

fn seconds(text: &str) -> f64 {
    text.parse().unwrap_or(f64::INFINITY)
}

fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The last samples.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    last: Option<Sums>,
    samples: VecDeque<(u64, Value)>,
}

impl Traffic {
    /// Takes the sums of now.
    pub(super) fn add(&mut self, now: Sums) {
        if let Some(before) = &self.last
            && before.at_ms < now.at_ms
        {
            self.samples.push_back((now.at_ms, now.since(before)));
        }
        let is_old = |at: u64| at.saturating_add(KEPT_MS) < now.at_ms;
        while self.samples.len() > SAMPLES_MAX
            || self.samples.front().is_some_and(|(at, _)| is_old(*at))
        {
            self.samples.pop_front();
        }
        self.last = Some(now);
    }

    /// The samples by their times.
    pub(super) fn json(&self) -> Map<String, Value> {
        let samples = self.samples.iter();
        samples
            .map(|(at, it)| (at.to_string(), it.clone()))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Kind, Sample};

    fn sums(at_ms: u64, buckets: &[(&str, f64)], errors: f64) -> Sums {
        let bucket = |(le, value): &(&str, f64)| Sample {
            suffix: "_bucket",
            ..Sample::labelled(&[("kind", "read"), ("le", le)], *value)
        };
        let count = Sample {
            suffix: "_count",
            ..Sample::plain(buckets.last().map_or(0.0, |(_, count)| *count))
        };
        let family = |name, samples| Family {
            name,
            help: "",
            kind: Kind::Counter,
            samples,
        };
        let times = buckets.iter().map(bucket).chain([count]).collect();
        let families = [
            family("heddle_statement_seconds", times),
            family(
                "heddle_statement_errors_total",
                vec![Sample::plain(errors), Sample::plain(0.0)],
            ),
            family("heddle_sessions", vec![Sample::plain(7.0)]),
        ];
        Sums::of(&families, at_ms)
    }

    #[test]
    fn rates_and_times_are_of_what_came_in_between() {
        let mut traffic = Traffic::default();
        traffic.add(sums(
            1_000,
            &[("0.001", 10.0), ("0.002", 10.0), ("+Inf", 10.0)],
            1.0,
        ));
        assert!(traffic.json().is_empty(), "one look says nothing");
        traffic.add(sums(
            3_000,
            &[("0.001", 10.0), ("0.002", 110.0), ("+Inf", 110.0)],
            5.0,
        ));
        let samples = traffic.json();
        let sample = &samples["3000"];
        assert_eq!(sample["statements"], 50.0);
        assert_eq!(sample["errors"], 2.0);
        assert_eq!(sample["p50_ms"], 1.5);
        assert_eq!(sample["p99_ms"], 1.99);
        assert_eq!(sample["sessions"], 7.0);
        traffic.add(sums(
            4_000,
            &[("0.001", 10.0), ("0.002", 110.0), ("+Inf", 110.0)],
            5.0,
        ));
        let samples = traffic.json();
        assert_eq!(samples["4000"]["statements"], 0.0);
        assert_eq!(samples["4000"].get("p99_ms"), None, "nothing ran");
    }

    #[test]
    fn what_is_above_the_last_bound_is_told_as_that_bound() {
        let before = sums(0, &[], 0.0);
        let now = sums(1_000, &[("0.001", 0.0), ("67", 1.0), ("+Inf", 100.0)], 0.0);
        assert_eq!(now.quantile(&before, 0.99), Some(67.0));
    }

    #[test]
    fn samples_are_bounded_by_number_and_age() {
        let mut traffic = Traffic::default();
        for at in 0..700 {
            traffic.add(sums(at * 500, &[], 0.0));
        }
        assert_eq!(traffic.json().len(), SAMPLES_MAX);
        traffic.add(sums(10_000_000, &[], 0.0));
        let left: Vec<_> = traffic.json().into_iter().map(|(at, _)| at).collect();
        assert_eq!(left, ["10000000"]);
    }
}
