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
}

impl Sample {
    /// A value without suffix and labels.
    pub fn plain(value: f64) -> Sample {
        Sample {
            suffix: "",
            labels: Vec::new(),
            value,
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
        let kind = match family.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        let name = family.name;
        let help = family.help.replace('\\', "\\\\").replace('\n', "\\n");
        text.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
        for sample in &family.samples {
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
            text.push_str(&format!("{name}{}{labels} {value}\n", sample.suffix));
        }
    }
    text
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
            labels: vec![("le", le.to_owned())],
            value,
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
}
