//! What `/metrics` has of the data plane: counters, and what statements took.

use std::sync::atomic::Ordering;

use door_http::{Family, Kind, Metrics, Sample};
use statistics::{BUCKETS, Door, Exemplar, Kind as StatementKind, Latency, Measured, above_us};

use super::{DataPlane, cores, counted};

/// The bounds of the histograms are these powers of two, in microseconds: from 64 us to 67 s.
const BOUNDS: std::ops::RangeInclusive<u32> = 6..=26;

/// Counters that may fall, though their names do not say so.
const GAUGES: [&str; 7] = [
    "pool_in_use",
    "pool_idle",
    "pool_waiting",
    "pool_masters_total",
    "pool_slaves_total",
    "pool_masters_active",
    "pool_slaves_active",
];

/// The metric of a counter. What is true «now» may fall again; the rest only grows.
pub(super) fn metric(counter: &str) -> (&'static str, Kind) {
    let gauge = counter.ends_with("_now") || GAUGES.contains(&counter);
    let stem = counter.trim_end_matches("_now").trim_end_matches("_total");
    let (name, kind) = match gauge {
        true => (format!("heddle_{stem}"), Kind::Gauge),
        false => (format!("heddle_{stem}_total"), Kind::Counter),
    };
    (Box::leak(name.into_boxed_str()), kind)
}

impl Metrics for DataPlane {
    fn families(&self) -> Vec<Family> {
        let Some(open) = self.open.get() else {
            return Vec::new();
        };
        let sums = counted(&open.shared, open.kv.as_ref());
        let families = sums.into_iter().zip(&open.names);
        let rules = open.rules.load();
        let matched = rules.list.iter().map(|rule| {
            let count = rule.matched.load(Ordering::Relaxed) as f64;
            Sample::labelled(&[("rule", &rule.name)], count)
        });
        let of_rules = Family {
            name: "heddle_rule_matches_total",
            help: "Statements that a rule matched.",
            kind: Kind::Counter,
            samples: matched.collect(),
        };
        let of_rules = (!of_rules.samples.is_empty()).then_some(of_rules);
        let of_statements = of_statements(&open.shared.measured);
        families
            .map(|((_, help, value), &(name, kind))| Family {
                name,
                help,
                kind,
                samples: vec![Sample::plain(value as f64)],
            })
            .chain(of_rules)
            .chain(of_statements)
            .chain(cores::families(&self.delays))
            .collect()
    }
}

/// What is counted apart.
type Of<'a> = (StatementKind, Door, &'a str);

fn labels((kind, door, group): Of<'_>) -> [(&'static str, &str); 3] {
    [
        ("kind", kind.name()),
        ("door", door.name()),
        ("group", group),
    ]
}

/// How long statements took, what they sent, and the errors that they ended with.
fn of_statements(measured: &Measured) -> [Family; 5] {
    let groups = measured.groups();
    let of_each = |samples: &dyn Fn(Of<'_>, &Latency) -> Vec<Sample>| {
        let mut all = Vec::new();
        for kind in StatementKind::ALL {
            for door in Door::ALL {
                for group in &groups {
                    let latency = measured.latency(kind, door, group);
                    all.extend(samples((kind, door, group), &latency));
                }
            }
        }
        all
    };
    let times = |of: Of<'_>, latency: &Latency| {
        let stands = |from_us, to_us| {
            let found = measured.exemplars.within(of, from_us, to_us);
            found.map(|it| exemplar(&it))
        };
        buckets_of(&latency.times, latency.total_us, &labels(of), stands)
    };
    let waits = |of: Of<'_>, latency: &Latency| {
        buckets_of(&latency.waits, latency.waiting_us, &labels(of), |_, _| None)
    };
    let sum = |of: Of<'_>, sum: u64| {
        let sample = (sum > 0).then(|| Sample::labelled(&labels(of), sum as f64));
        sample.into_iter().collect()
    };
    let errors = measured.errors().into_iter().map(|(number, count)| {
        let number = match number {
            0 => "other".to_owned(),
            number => number.to_string(),
        };
        Sample::labelled(&[("number", &number)], count as f64)
    });
    [
        Family {
            name: "heddle_statement_seconds",
            help: "What statements took, their waits included, by kind, door and group.",
            kind: Kind::Histogram,
            samples: of_each(&times),
        },
        Family {
            name: "heddle_statement_wait_seconds",
            help: "What statements waited before they were sent to a server, by kind, door and group.",
            kind: Kind::Histogram,
            samples: of_each(&waits),
        },
        Family {
            name: "heddle_statement_rows_total",
            help: "Rows that statements sent to clients, by kind, door and group.",
            kind: Kind::Counter,
            samples: of_each(&|of, latency| sum(of, latency.rows)),
        },
        Family {
            name: "heddle_statement_bytes_total",
            help: "Bytes that statements sent to clients, by kind, door and group.",
            kind: Kind::Counter,
            samples: of_each(&|of, latency| sum(of, latency.bytes)),
        },
        Family {
            name: "heddle_statement_errors_total",
            help: "Errors that statements ended with, by number.",
            kind: Kind::Counter,
            samples: errors.collect(),
        },
    ]
}

fn exemplar(of: &Exemplar) -> door_http::Exemplar {
    door_http::Exemplar {
        trace_id: hex::encode(of.trace),
        value: of.us as f64 / 1e6,
        at_s: of.at_ms as f64 / 1e3,
    }
}

/// The samples of one histogram; none where nothing was counted. `exemplar` gives one of at least so many microseconds,
/// and fewer than so many.
pub(super) fn buckets_of(
    buckets: &[u64; BUCKETS],
    sum_us: u64,
    labels: &[(&'static str, &str)],
    exemplar: impl Fn(u64, Option<u64>) -> Option<door_http::Exemplar>,
) -> Vec<Sample> {
    let count: u64 = buckets.iter().sum();
    if count == 0 {
        return Vec::new();
    }
    let sample = |suffix, value: u64, le: Option<&str>| {
        let le = le.map(|le| ("le", le));
        let labels: Vec<_> = labels.iter().copied().chain(le).collect();
        Sample {
            suffix,
            ..Sample::labelled(&labels, value as f64)
        }
    };
    let seconds = |us: u64| us as f64 / 1e6;
    let below = |bound_us: u64| -> u64 {
        let inside = buckets.iter().enumerate();
        let inside = inside.filter(|(at, _)| above_us(*at) <= bound_us);
        inside.map(|(_, count)| count).sum()
    };
    let mut from_us = 0;
    let mut samples = Vec::new();
    for us in BOUNDS.map(|power| 1u64 << power) {
        let le = seconds(us).to_string();
        samples.push(Sample {
            exemplar: exemplar(from_us, Some(us)),
            ..sample("_bucket", below(us), Some(&le))
        });
        from_us = us;
    }
    samples.push(Sample {
        exemplar: exemplar(from_us, None),
        ..sample("_bucket", count, Some("+Inf"))
    });
    samples.push(Sample {
        value: seconds(sum_us),
        ..sample("_sum", 0, None)
    });
    samples.push(sample("_count", count, None));
    samples
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::Call;

    #[test]
    fn metrics_say_what_grows_and_what_falls() {
        assert_eq!(
            metric("statements"),
            ("heddle_statements_total", Kind::Counter)
        );
        assert_eq!(metric("sessions_now"), ("heddle_sessions", Kind::Gauge));
        assert_eq!(metric("pool_idle"), ("heddle_pool_idle", Kind::Gauge));
        assert_eq!(
            metric("pool_masters_total"),
            ("heddle_pool_masters", Kind::Gauge)
        );
        assert_eq!(
            metric("fabric_sharding_lookup_servers_time_total"),
            (
                "heddle_fabric_sharding_lookup_servers_time_total",
                Kind::Counter
            )
        );
    }

    #[test]
    fn a_histogram_has_bounds_that_add_up() {
        let measured = Measured::new(1, None);
        for us in [10, 64, 100, 5_000, 200_000_000] {
            let call = Call {
                server_us: us,
                error: Some(1062),
                ..Call::default()
            };
            let core = measured.of_core(0).expect("there is one");
            core.add(StatementKind::Read, Door::Sql, "g1", &call);
        }
        let of = (StatementKind::Read, Door::Sql, "g1");
        let kept = Exemplar {
            trace: [0xAB; 16],
            us: 100,
            at_ms: 1_500,
        };
        measured.exemplars.keep(of, kept);
        let [times, waits, _, bytes, errors] = of_statements(&measured);
        assert!(bytes.samples.is_empty());
        let at = |suffix: &str, le: &str| {
            let found = times.samples.iter().find(|sample| {
                let bound = sample.labels.iter().find(|(name, _)| *name == "le");
                sample.suffix == suffix && bound.is_none_or(|(_, value)| value == le)
            });
            found.map(|sample| sample.value)
        };
        assert_eq!(at("_bucket", "0.000064"), Some(1.0));
        assert_eq!(at("_bucket", "0.000128"), Some(3.0));
        assert_eq!(at("_bucket", "0.008192"), Some(4.0));
        assert_eq!(at("_bucket", "67.108864"), Some(4.0));
        assert_eq!(at("_bucket", "+Inf"), Some(5.0));
        assert_eq!(at("_count", ""), Some(5.0));
        assert_eq!(at("_sum", ""), Some(200.005_174));
        assert_eq!(errors.samples[0].labels, [("number", "1062".to_owned())]);
        assert_eq!(errors.samples[0].value, 5.0);
        let standing = |family: &Family| -> Vec<_> {
            let all = family
                .samples
                .iter()
                .filter(|sample| sample.exemplar.is_some());
            all.map(|sample| sample.labels.clone()).collect()
        };
        let labels = [
            ("kind", "read"),
            ("door", "sql"),
            ("group", "g1"),
            ("le", "0.000128"),
        ];
        let labels = labels.map(|(name, value)| (name, value.to_owned()));
        assert_eq!(standing(&times), [labels.to_vec()]);
        assert!(standing(&waits).is_empty());
    }
}
