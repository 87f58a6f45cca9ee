//! `heddle top --once`: the farm and what a router serves, once, for scripts.

use serde_json::{Value, json};

use super::state::{groups, traffic, verdict};
use crate::printing;

/// What `--once --json` prints: one object.
pub fn object(picture: &Value, at_ms: u64) -> Value {
    let (severity, text) = verdict(picture);
    let fields = [
        "statements",
        "errors",
        "p50_ms",
        "p99_ms",
        "sessions",
        "held",
        "waiting",
    ];
    let last = traffic(picture);
    let served = fields.map(|field| (field.to_owned(), last[field].clone()));
    json!({
        "time": catalog::event::when(at_ms),
        "severity": severity,
        "verdict": text,
        "in_doubt": picture["farm"]["in_doubt"],
        "traffic": Value::Object(served.into_iter().collect()),
        "groups": groups(picture),
    })
}

/// What `--once` prints for people.
pub fn table(picture: &Value) -> String {
    let (_, text) = verdict(picture);
    let last = traffic(picture);
    let shown = |field: &str| match &last[field] {
        Value::Null => "-".to_owned(),
        value => value.to_string(),
    };
    let served = [
        "statements",
        "errors",
        "p50_ms",
        "p99_ms",
        "sessions",
        "held",
    ];
    let served = served.map(|field| format!("{field}={}", shown(field)));
    let served = served.join(" ");
    let groups = printing::table(&groups(picture));
    format!("{text}\n{served}\n{groups}")
}
