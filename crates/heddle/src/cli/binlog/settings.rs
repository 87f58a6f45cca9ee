//! With what a statement was run, as SET statements in front of it: what mariadb-binlog and mysqlbinlog print.

use std::collections::HashMap;

use changes::{Context, Statement, UserValue, UserVariable};
use mysql_wire::charset::collation;

/// What rows need, whose values are told in UTC and in no mode.
const OF_ROWS: [(&str, &str); 3] = [
    ("names", "SET NAMES utf8mb4"),
    ("time_zone", "SET @@session.time_zone='+00:00'"),
    ("sql_mode", "SET @@session.sql_mode=''"),
];

/// What the session that runs the statements has, as far as it was printed.
#[derive(Default)]
pub(super) struct Session(HashMap<&'static str, String>);

impl Session {
    /// What has to be set in front of rows.
    pub(super) fn of_rows(&mut self) -> Vec<String> {
        let settings = OF_ROWS.map(|(name, text)| (name, text.to_owned()));
        self.changed(settings.to_vec())
    }

    /// What has to be set in front of a statement.
    pub(super) fn of(&mut self, statement: &Statement) -> Vec<String> {
        let context = &statement.context;
        let mut lines = Vec::new();
        if let Some((user, host)) = &context.invoker {
            // Nobody else can be made of a session; a DEFINER stands in the text.
            lines.push(format!("-- by {}@{}", ticked(user), ticked(host)));
        }
        lines.extend(self.changed(session(context)));
        if let Some((seconds, micros)) = context.timestamp {
            let fraction = match micros {
                0 => String::new(),
                micros => format!(".{micros:06}"),
            };
            lines.push(format!("SET TIMESTAMP={seconds}{fraction}"));
        }
        if let Some(number) = context.last_insert_id {
            lines.push(format!("SET LAST_INSERT_ID={number}"));
        }
        if let Some(number) = context.insert_id {
            lines.push(format!("SET INSERT_ID={number}"));
        }
        if let Some((one, two)) = context.rand {
            lines.push(format!("SET @@RAND_SEED1={one}, @@RAND_SEED2={two}"));
        }
        lines.extend(context.variables.iter().map(variable));
        lines
    }

    /// Those that the session does not have.
    fn changed(&mut self, settings: Vec<(&'static str, String)>) -> Vec<String> {
        let mut lines = Vec::new();
        for (name, line) in settings {
            if self.0.get(name) == Some(&line) {
                continue;
            }
            // Both are about the client's character set.
            match name {
                "names" => drop(self.0.remove("collations")),
                "collations" => drop(self.0.remove("names")),
                _ => {}
            }
            self.0.insert(name, line.clone());
            lines.push(line);
        }
        lines
    }
}

/// What stays in a session.
fn session(context: &Context) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let mut add = |name, line: Option<String>| {
        if let Some(line) = line {
            all.push((name, line));
        }
    };
    let bit = u8::from;
    let thread = Some(context.thread).filter(|it| *it > 0);
    let thread = thread.map(|it| format!("SET @@session.pseudo_thread_id={it}"));
    add("pseudo_thread_id", thread);
    let switches = context.checks().zip(context.habits());
    let switches = switches.map(|((foreign, unique), (is_null, autocommit))| {
        format!(
            "SET @@session.foreign_key_checks={}, @@session.sql_auto_is_null={}, @@session.unique_checks={}, \
             @@session.autocommit={}",
            bit(foreign),
            bit(is_null),
            bit(unique),
            bit(autocommit)
        )
    });
    add("switches", switches);
    let number =
        |name: &str, number: Option<u64>| number.map(|it| format!("SET @@session.{name}={it}"));
    let small = |it: Option<u16>| it.map(u64::from);
    let flag = |it: Option<bool>| it.map(u64::from);
    add("sql_mode", number("sql_mode", context.sql_mode));
    add(
        "auto_increment",
        context.auto_increment.map(|(increment, offset)| {
            format!(
                "SET @@session.auto_increment_increment={increment}, @@session.auto_increment_offset={offset}"
            )
        }),
    );
    add(
        "collations",
        context.collations.map(|(client, connection, server)| {
            format!(
                "SET @@session.character_set_client={client}, @@session.collation_connection={connection}, \
                 @@session.collation_server={server}"
            )
        }),
    );
    let zone = context.time_zone.as_ref();
    add(
        "time_zone",
        zone.map(|it| format!("SET @@session.time_zone={}", quoted(it))),
    );
    add(
        "lc_time_names",
        number("lc_time_names", small(context.time_names)),
    );
    let database = small(context.collation_database);
    add("collation_database", number("collation_database", database));
    let explicit = flag(context.explicit_defaults_for_timestamp);
    let name = "explicit_defaults_for_timestamp";
    add(name, number(name, explicit));
    let name = "default_collation_for_utf8mb4";
    add(
        name,
        number(name, small(context.default_collation_for_utf8mb4)),
    );
    let name = "sql_require_primary_key";
    add(name, number(name, flag(context.sql_require_primary_key)));
    let name = "default_table_encryption";
    add(name, number(name, flag(context.default_table_encryption)));
    all
}

/// A client's variable gets its value.
fn variable(variable: &UserVariable) -> String {
    let value = match &variable.value {
        UserValue::Null => "NULL".to_owned(),
        UserValue::Real(number) => format!("{number:e}"),
        UserValue::Integer(number) => number.to_string(),
        UserValue::Unsigned(number) => number.to_string(),
        UserValue::Decimal(text) => text.clone(),
        UserValue::Text(bytes, of) => {
            let bytes = hex::encode_upper(bytes);
            match u16::try_from(*of).ok().and_then(collation) {
                Some(it) => format!("_{} X'{bytes}' COLLATE {}", it.charset, it.name),
                None => format!("X'{bytes}'"),
            }
        }
    };
    format!("SET @{}:={value}", ticked(&variable.name))
}

fn ticked(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_the_same_is_set_once() {
        let mut statement = Statement::default();
        statement.context.time_zone = Some("SYSTEM".to_owned());
        statement.context.insert_id = Some(5);
        statement.context.variables = vec![UserVariable {
            name: "a`b".to_owned(),
            value: UserValue::Text(b"x".to_vec(), 45),
        }];
        let mut session = Session::default();
        let first = session.of(&statement);
        let expected = [
            "SET @@session.time_zone='SYSTEM'",
            "SET INSERT_ID=5",
            "SET @`a``b`:=_utf8mb4 X'78' COLLATE utf8mb4_general_ci",
        ];
        assert_eq!(first, expected);
        assert_eq!(session.of(&statement), expected[1..]);
        assert_eq!(session.of_rows().len(), 3);
        assert!(session.of_rows().is_empty());
        assert_eq!(session.of(&statement), expected);
    }
}
