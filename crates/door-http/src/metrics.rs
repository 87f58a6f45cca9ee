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

/// Somebody who has metrics. Called at each scrape, on the control thread; must not block.
pub trait Metrics: Send + Sync {
    /// The values now.
    fn families(&self) -> Vec<Family>;
}
