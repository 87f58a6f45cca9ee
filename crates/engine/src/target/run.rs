//! A statement whose rows were not logged, run again with what it was run with.
//!
//! Invariants: it is a part of the transaction that writes down that it is done, so it is run once; a setting that the
//! target does not have is a refusal, since the statement may give something else without it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use changes::apply::{Loading, Run};
use enginesql::quoted;
use mysql_wire::charset::collation;
use serde_json::{Map, Value};
use sqltext::ticked;

use super::carry::Refusal;
use super::context::settings;
use super::{DEFINITION_MS, STATEMENT_MS, Target};
use crate::error::Error;
use crate::link::text_at;

const OPERATION: &str = "run a statement again";

/// Settings of definitions: a statement that changes rows gives the same without them.
const OF_DEFINITIONS: [&str; 2] = [
    "explicit_defaults_for_timestamp",
    "default_collation_for_utf8mb4",
];

/// ER_UNKNOWN_SYSTEM_VARIABLE, ER_INCORRECT_GLOBAL_LOCAL_VAR, ER_SPECIFIC_ACCESS_DENIED_ERROR.
const LACKS: [u16; 3] = [1193, 1238, 1227];

/// ER_NOT_ALLOWED_COMMAND, ER_CLIENT_LOCAL_FILES_DISABLED, MariaDB's ER_LOAD_INFILE_CAPABILITY_DISABLED.
const NO_LOCAL: [u16; 3] = [1148, 3948, 4166];

/// What the statement's own values were, forgotten.
const AS_BEFORE: &str = "SET INSERT_ID=0; SET LAST_INSERT_ID=0; \
                         SET SESSION auto_increment_increment=DEFAULT, auto_increment_offset=DEFAULT";

/// The values that a statement was given beside its text, one statement each.
fn values(context: &Map<String, Value>) -> Result<Vec<String>, String> {
    let mut all = Vec::new();
    let types = context.get("variable_types");
    if let Some(Value::Object(variables)) = context.get("variables") {
        for (name, value) in variables {
            let literal = literal(value, types.and_then(|it| it.get(name)));
            let literal = literal.ok_or_else(|| format!("the value of @{name} cannot be told"))?;
            all.push(format!("SET @{}:={literal}", ticked(name)));
        }
    }
    let number = |name: &str| {
        let value = context.get(name)?;
        let digits = value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned);
        digits.parse::<u64>().ok()
    };
    for (name, setting) in [
        ("insert_id", "INSERT_ID"),
        ("last_insert_id", "LAST_INSERT_ID"),
        (
            "auto_increment_increment",
            "SESSION auto_increment_increment",
        ),
        ("auto_increment_offset", "SESSION auto_increment_offset"),
    ] {
        all.extend(number(name).map(|it| format!("SET {setting}={it}")));
    }
    if let Some(Value::Array(seeds)) = context.get("rand_seeds") {
        let seeds: Vec<u64> = seeds
            .iter()
            .filter_map(|it| it.as_str()?.parse().ok())
            .collect();
        let [one, two] = seeds[..] else {
            return Err("the seeds of RAND() cannot be told".to_owned());
        };
        all.push(format!("SET SESSION rand_seed1={one}, rand_seed2={two}"));
    }
    Ok(all)
}

/// A client's variable as SQL; `of` is its type, or the number of its collation, where the value does not say it.
fn literal(value: &Value, of: Option<&Value>) -> Option<String> {
    let is_digits = |text: &str| {
        text.bytes()
            .all(|it| it.is_ascii_digit() || b"-.".contains(&it))
    };
    let of_collation = || {
        let number = of.and_then(Value::as_u64)?;
        collation(u16::try_from(number).ok()?)
    };
    Some(match value {
        Value::Null => "NULL".to_owned(),
        Value::Number(number) if number.is_f64() => format!("{:e}", number.as_f64()?),
        Value::Number(number) => number.to_string(),
        Value::String(digits) if of.is_some_and(Value::is_string) => {
            is_digits(digits).then(|| digits.clone())?
        }
        Value::String(text) => {
            let of = of_collation()?;
            format!(
                "CONVERT(_utf8mb4{} USING {}) COLLATE {}",
                quoted(text),
                of.charset,
                of.name
            )
        }
        Value::Object(bytes) => {
            let bytes = BASE64.decode(bytes.get("base64")?.as_str()?).ok()?;
            let of = of_collation()?;
            format!(
                "_{} X'{}' COLLATE {}",
                of.charset,
                hex::encode_upper(bytes),
                of.name
            )
        }
        _ => return None,
    })
}

impl Target {
    /// The tables of the target that know no rollback, in upper case: names alone, without their databases.
    ///
    /// # Errors
    /// The server cannot be asked.
    pub async fn without_rollback(&mut self) -> Result<Vec<String>, Error> {
        let sql = "SELECT UPPER(TABLE_NAME) FROM information_schema.TABLES WHERE TABLE_TYPE='BASE TABLE' \
                   AND ENGINE NOT IN (SELECT ENGINE FROM information_schema.ENGINES WHERE TRANSACTIONS='YES') \
                   AND TABLE_SCHEMA NOT IN ('mysql','information_schema','performance_schema','sys')";
        let rows = self.link.rows(OPERATION, sql, STATEMENT_MS).await?;
        Ok(rows.iter().filter_map(|row| text_at(row, 0)).collect())
    }

    /// Runs a statement in the transaction that is open; gives what was found otherwise than where it ran first.
    pub(super) async fn run_again(&mut self, run: &Run) -> Result<Option<String>, Refusal> {
        let values = values(&run.context).map_err(|why| refused(run, &why))?;
        let entered = self.enter(run, values).await;
        let ran = match entered {
            Ok(()) => self.run_text(run).await,
            Err(refusal) => Err(refusal),
        };
        // Rows are told in the applier's own settings.
        let left = match self.leave_context().await {
            Ok(()) => self.link.run(OPERATION, AS_BEFORE, STATEMENT_MS).await,
            Err(error) => Err(error),
        };
        let found = ran?;
        left?;
        Ok(found)
    }

    async fn enter(&mut self, run: &Run, values: Vec<String>) -> Result<(), Refusal> {
        if !run.database.is_empty() {
            let enter = format!("USE {}", ticked(&run.database));
            self.link.run(OPERATION, &enter, STATEMENT_MS).await?;
        }
        for setting in values.into_iter().chain(settings(&run.context)) {
            match self.link.run(OPERATION, &setting, STATEMENT_MS).await {
                Err(error) if is_of_definitions(&setting, &error) => {}
                Err(error) if error.number().is_some() => {
                    return Err(refused(run, &format!("{setting}: {error}")));
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn run_text(&mut self, run: &Run) -> Result<Option<String>, Refusal> {
        let Some(load) = &run.load else {
            self.link.run(OPERATION, &run.sql, DEFINITION_MS).await?;
            return Ok(None);
        };
        let sql = loading(load);
        let loaded = self.link.load(OPERATION, &sql, &load.data, DEFINITION_MS);
        match loaded.await {
            Err(error) if error.number().is_some_and(|it| NO_LOCAL.contains(&it)) => {
                return Err(refused(
                    run,
                    &format!("{error}; set local_infile=ON at the target"),
                ));
            }
            other => other?,
        }
        let warnings = self
            .link
            .cell(OPERATION, "SELECT @@warning_count", STATEMENT_MS);
        // A file of the client's is read as with IGNORE: what would be an error is a warning.
        let warnings = warnings.await?.filter(|it| load.refuses && it != "0");
        Ok(warnings.map(|count| format!("{count} warnings of {}; see its rows", run.sql)))
    }
}

/// LOAD DATA that reads from the client.
fn loading(load: &Loading) -> String {
    let replace = if load.replaces { " REPLACE" } else { "" };
    format!(
        "{} LOCAL INFILE 'heddle'{replace} INTO{}",
        load.head, load.tail
    )
}

fn is_of_definitions(setting: &str, error: &Error) -> bool {
    let is_one = OF_DEFINITIONS.iter().any(|name| setting.contains(name));
    is_one && error.number().is_some_and(|it| LACKS.contains(&it))
}

fn refused(run: &Run, why: &str) -> Refusal {
    Refusal::Row(format!(
        "{}: it cannot be run here as it was run: {why}; set binlog_format=ROW on every server of the group",
        run.sql
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_beside_a_statement_are_settings() {
        let context = json!({
            "insert_id": "5",
            "rand_seeds": ["1", "2"],
            "auto_increment_increment": 2,
            "variables": {"a": 1, "b": "1.50", "c": "it's", "d": null, "e": 1.5, "f": {"base64": "9g=="}},
            "variable_types": {"b": "decimal", "c": 45, "f": 8},
        });
        let expected = [
            "SET @`a`:=1",
            "SET @`b`:=1.50",
            "SET @`c`:=CONVERT(_utf8mb4'it\\'s' USING utf8mb4) COLLATE utf8mb4_general_ci",
            "SET @`d`:=NULL",
            "SET @`e`:=1.5e0",
            "SET @`f`:=_latin1 X'F6' COLLATE latin1_swedish_ci",
            "SET INSERT_ID=5",
            "SET SESSION auto_increment_increment=2",
            "SET SESSION rand_seed1=1, rand_seed2=2",
        ];
        let all = values(context.as_object().expect("an object")).expect("they are told");
        assert_eq!(all, expected);
        for wrong in [
            json!({"variables": {"a": "x"}}),
            json!({"variables": {"a": "1; x"}, "variable_types": {"a": "decimal"}}),
            json!({"rand_seeds": ["1"]}),
        ] {
            assert!(
                values(wrong.as_object().expect("an object")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_load_data_reads_from_the_client() {
        let load = Loading {
            head: "LOAD DATA".to_owned(),
            tail: " TABLE t".to_owned(),
            replaces: true,
            ..Loading::default()
        };
        let expected = "LOAD DATA LOCAL INFILE 'heddle' REPLACE INTO TABLE t";
        assert_eq!(loading(&load), expected);
    }
}
