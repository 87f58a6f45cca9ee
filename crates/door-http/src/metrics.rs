//! Metrics in Prometheus' text form, from whoever has some.

/// What a family's values mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    /// Samples carry the suffixes `_bucket`, `_sum` and `_count` and the label `le` themselves.
    Histogram,
}

/// One value.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Appended to the family's name; empty but for histograms.
    pub suffix: &'static str,
    pub labels: Vec<(&'static str, String)>,
    pub value: f64,
    /// Of a bucket: one of those that it has counted.
    pub exemplar: Option<Exemplar>,
}

/// What stands for others that were counted with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Exemplar {
    /// In hexadecimal digits.
    pub trace_id: String,
    pub value: f64,
    /// Seconds since 1970.
    pub at_s: f64,
}

impl Exemplar {
    fn text(&self) -> String {
        let (value, at_s) = (number(self.value), self.at_s);
        format!(" # {{trace_id=\"{}\"}} {value} {at_s:.3}", self.trace_id)
    }
}

impl Sample {
    /// A value without suffix and labels.
    pub fn plain(value: f64) -> Sample {
        Sample {
            suffix: "",
            labels: Vec::new(),
            value,
            exemplar: None,
        }
    }

    /// A value with labels.
    pub fn labelled(labels: &[(&'static str, &str)], value: f64) -> Sample {
        let labels = labels
            .iter()
            .map(|&(name, text)| (name, text.to_owned()))
            .collect();
        Sample {
            suffix: "",
            labels,
            value,
            exemplar: None,
        }
    }
}

/// All values of one name.
#[derive(Clone, Debug, PartialEq)]
pub struct Family {
    /// Begins with `heddle_`; counters end in `_total`.
    pub name: &'static str,
    pub help: &'static str,
    pub kind: Kind,
    pub samples: Vec<Sample>,
}

/// Somebody who has metrics. Called at each scrape, on the HTTP door's thread, where other requests
/// wait for it; and each second on the thread `console` while somebody looks at it.
pub trait Metrics: Send + Sync {
    /// The values now.
    fn families(&self) -> Vec<Family>;
}

/// The text form, version 0.0.4.
pub(crate) fn write(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        head(&mut text, family.name, &help, kind(family));
        for sample in &family.samples {
            put(&mut text, family.name, sample);
            text.push('\n');
        }
    }
    text
}

/// The form of OpenMetrics 1.0.0: the same, with exemplars.
pub(crate) fn write_open(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        let stem = family.name.strip_suffix("_total");
        // Here a counter has its name without the ending, which may not be that of another family.
        let taken = |stem: &str| families.iter().any(|other| other.name == stem);
        let (name, kind) = match (family.kind, stem) {
            (Kind::Counter, Some(stem)) if !taken(stem) => (stem, "counter"),
            (Kind::Counter, _) => (family.name, "unknown"),
            _ => (family.name, kind(family)),
        };
        head(&mut text, name, &escaped(family.help), kind);
        for sample in &family.samples {
            put(&mut text, family.name, sample);
            if let Some(exemplar) = &sample.exemplar {
                text.push_str(&exemplar.text());
            }
            text.push('\n');
        }
    }
    text.push_str("# EOF\n");
    text
}

fn kind(family: &Family) -> &'static str {
    match family.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    }
}

fn head(text: &mut String, name: &str, help: &str, kind: &str) {
    text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
}

/// A sample without the end of its line.
fn put(text: &mut String, name: &str, sample: &Sample) {
    let labels: Vec<String> = sample
        .labels
        .iter()
        .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
        .collect();
    let labels = if labels.is_empty() {
        labels.concat()
    } else {
        format!("{{{}}}", labels.join(","))
    };
    let value = number(sample.value);
    text.push_str(&format!("{name}{}{labels} {value}", sample.suffix));
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Prometheus writes infinities and NaN its own way.
fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()
    } else {
        value.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_prometheus_reads_them() {
        let bucket = |le: &str, value| Sample {
            suffix: "_bucket",
            ..Sample::labelled(&[("le", le)], value)
        };
        let families = [
            Family {
                name: "heddle_a",
                help: "One\nline.",
                kind: Kind::Gauge,
                samples: vec![
                    Sample::plain(1.5),
                    Sample::labelled(&[("x", "a\"b\\c")], 2e15),
                ],
            },
            Family {
                name: "heddle_b",
                help: "H.",
                kind: Kind::Histogram,
                samples: vec![bucket("0.1", 3.0), bucket("+Inf", f64::INFINITY)],
            },
        ];
        let expected = "# HELP heddle_a One\\nline.\n# TYPE heddle_a gauge\nheddle_a 1.5\n\
            heddle_a{x=\"a\\\"b\\\\c\"} 2000000000000000\n\
            # HELP heddle_b H.\n# TYPE heddle_b histogram\n\
            heddle_b_bucket{le=\"0.1\"} 3\nheddle_b_bucket{le=\"+Inf\"} +Inf\n";
        assert_eq!(write(&families), expected);
    }

    #[test]
    fn open_metrics_have_exemplars_and_an_end() {
        let family = |name, kind, samples| Family {
            name,
            help: "H.",
            kind,
            samples,
        };
        let bucket = Sample {
            suffix: "_bucket",
            exemplar: Some(Exemplar {
                trace_id: "ab".to_owned(),
                value: 0.05,
                at_s: 1_770_000_000.1,
            }),
            ..Sample::labelled(&[("le", "0.1")], 3.0)
        };
        let families = [
            family("heddle_a_total", Kind::Counter, vec![Sample::plain(2.0)]),
            family("heddle_b_total", Kind::Counter, vec![Sample::plain(1.0)]),
            family("heddle_b", Kind::Gauge, vec![Sample::plain(0.0)]),
            family("heddle_c", Kind::Histogram, vec![bucket]),
        ];
        let expected = "# HELP heddle_a H.\n# TYPE heddle_a counter\nheddle_a_total 2\n\
            # HELP heddle_b_total H.\n# TYPE heddle_b_total unknown\nheddle_b_total 1\n\
            # HELP heddle_b H.\n# TYPE heddle_b gauge\nheddle_b 0\n\
            # HELP heddle_c H.\n# TYPE heddle_c histogram\n\
            heddle_c_bucket{le=\"0.1\"} 3 # {trace_id=\"ab\"} 0.05 1770000000.100\n# EOF\n";
        assert_eq!(write_open(&families), expected);
        assert!(!write(&families).contains("trace_id"));
    }
}
