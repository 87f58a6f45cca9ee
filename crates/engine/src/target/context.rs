//! With what a definition was run, as the stream tells it, given to the target's session; and that session as it was.
//!
//! The text itself comes in UTF-8, so the client's character set stays what it is. What belongs to statements whose rows
//! were not logged (`insert_id`, `rand_seeds`, `variables`) is set by [`super::run`].

use enginesql::quoted;
use serde_json::{Map, Value};

use super::{OPERATION, STATEMENT_MS, Target};
use crate::error::Error;

/// Numbers, by the names under which the stream and the servers have them.
const NUMBERS: [&str; 7] = [
    "collation_server",
    "collation_database",
    "lc_time_names",
    "foreign_key_checks",
    "unique_checks",
    "explicit_defaults_for_timestamp",
    "default_collation_for_utf8mb4",
];

/// A server of another engine or release lacks it: ER_UNKNOWN_SYSTEM_VARIABLE, ER_UNKNOWN_CHARACTER_SET,
/// ER_UNKNOWN_COLLATION, ER_UNKNOWN_LOCALE, ER_INCORRECT_GLOBAL_LOCAL_VAR, ER_INVALID_CHARACTER_STRING and
/// ER_SPECIFIC_ACCESS_DENIED_ERROR.
const LACKS: [u16; 7] = [1193, 1115, 1273, 1649, 1238, 1300, 1227];

/// What of it a definition may have changed, as [`Target::open`] makes it.
const AS_BEFORE: [&str; 3] = [
    super::SETTINGS,
    "SET TIMESTAMP=DEFAULT; SET SESSION foreign_key_checks=1, unique_checks=1, lc_time_names='en_US'",
    "SET SESSION collation_server=DEFAULT",
];

/// The settings, one statement each.
pub(super) fn settings(context: &Map<String, Value>) -> Vec<String> {
    let mut all = Vec::new();
    let text = |name: &str| context.get(name).and_then(Value::as_str);
    for name in ["sql_mode", "time_zone"] {
        if let Some(value) = text(name) {
            all.push(format!("SET SESSION {name}={}", quoted(value)));
        }
    }
    let number = |value: &Value| match value {
        Value::Bool(is_on) => Some(u64::from(*is_on)),
        value => value.as_u64(),
    };
    // The first one makes the connection's character set, too.
    for name in ["collation_connection"].into_iter().chain(NUMBERS) {
        if let Some(value) = context.get(name).and_then(number) {
            all.push(format!("SET SESSION {name}={value}"));
        }
    }
    let timestamp = context.get("timestamp");
    let is_number = |text: &str| text.bytes().all(|it| it.is_ascii_digit() || it == b'.');
    let timestamp = match timestamp {
        Some(Value::Number(seconds)) => seconds.as_u64().map(|it| it.to_string()),
        Some(Value::String(text)) if is_number(text) => Some(text.clone()),
        _ => None,
    };
    all.extend(timestamp.map(|it| format!("SET TIMESTAMP={it}")));
    all
}

impl Target {
    /// Gives the session what a definition was run with, as far as the server has such things.
    pub(super) async fn enter_context(
        &mut self,
        context: &Map<String, Value>,
    ) -> Result<(), Error> {
        for setting in settings(context) {
            match self.link.run(OPERATION, &setting, STATEMENT_MS).await {
                Err(error) if error.number().is_some_and(|it| LACKS.contains(&it)) => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// The session as it was.
    pub(super) async fn leave_context(&mut self) -> Result<(), Error> {
        for setting in AS_BEFORE {
            self.link.run(OPERATION, setting, STATEMENT_MS).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_is_settings() {
        let context = serde_json::json!({
            "timestamp": "7.000005",
            "sql_mode": "ANSI_QUOTES",
            "time_zone": "it's",
            "collation_connection": 45,
            "foreign_key_checks": false,
            "insert_id": "5",
            "collation_server": "x",
        });
        let context = context.as_object().expect("an object");
        let expected = [
            "SET SESSION sql_mode='ANSI_QUOTES'",
            "SET SESSION time_zone='it\\'s'",
            "SET SESSION collation_connection=45",
            "SET SESSION foreign_key_checks=0",
            "SET TIMESTAMP=7.000005",
        ];
        assert_eq!(settings(context), expected);
        let wrong = serde_json::json!({ "timestamp": "1; DROP TABLE t" });
        assert!(settings(wrong.as_object().expect("an object")).is_empty());
    }
}
