//! `heddle.toml`: keys are the table's names; anything else is an error with its line.

use std::path::Path;

use toml::de::{DeTable, DeValue};

use super::credential;
use super::value::Raw;
use super::{Settings, find, unknown};

/// Reads a file. All its errors are given, one per line, each as `FILE:LINE: what is wrong`.
pub fn read(path: &Path) -> Result<Settings, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| {
        format!("cannot read {shown}: {error}; name another with --config FILE")
    })?;
    parse(&text).map_err(|errors| {
        let lines: Vec<String> = errors
            .into_iter()
            .map(|(line, what)| format!("{shown}:{line}: {what}"))
            .collect();
        lines.join("\n")
    })
}

/// All wrong lines with what is wrong, or the settings.
pub(super) fn parse(text: &str) -> Result<Settings, Vec<(usize, String)>> {
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        vec![(line, error.message().to_owned())]
    })?;
    let mut settings = Settings::default();
    let mut errors = Vec::new();
    for (key, value) in table.get_ref() {
        let line = line_of(key.span().start);
        let name: &str = key.get_ref();
        if name == credential::KEY {
            let read = credential::read(value, &line_of);
            errors.extend(read.map(|all| settings.backend_credentials = all).err());
            continue;
        }
        let result = match find(name) {
            None => Err(unknown(name)),
            Some(setting) => raw(value.get_ref())
                .and_then(|raw| settings.put(setting, &raw))
                .map_err(|wrong| format!("{name}: {wrong}")),
        };
        if let Err(what) = result {
            errors.push((line, what));
        }
    }
    errors.sort();
    if errors.is_empty() {
        Ok(settings)
    } else {
        Err(errors)
    }
}

fn raw<'a>(value: &'a DeValue<'_>) -> Result<Raw<'a>, String> {
    match value {
        DeValue::String(text) => Ok(Raw::Text(text)),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Raw::Number)
            .map_err(|_| "the number is too big".to_owned()),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Ok(&**text),
                _ => Err("the list may hold texts only".to_owned()),
            });
            texts.collect::<Result<_, _>>().map(Raw::List)
        }
        DeValue::Float(_) => Err("write a whole number".to_owned()),
        DeValue::Boolean(_) => Err("true and false are no values here".to_owned()),
        DeValue::Datetime(_) => Err("a date is no value here".to_owned()),
        DeValue::Table(_) => {
            Err("is a table; settings stand at the top, without [sections]".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(text: &str) -> Vec<(usize, String)> {
        parse(text).expect_err("it is wrong")
    }

    #[test]
    fn a_good_file() {
        let settings = parse(
            "# a farm\nsql_listen = \"0.0.0.0:3306\"\npool_wait_ms = 1_000\nhttp_hosts = [\"db\"]\n",
        )
        .expect("nothing is wrong");
        assert_eq!(settings.sql_listen.port(), 3306);
        assert_eq!(settings.pool_wait_ms, 1000);
        assert_eq!(settings.http_hosts, ["db"]);
        assert_eq!(settings.clients_max, 10_000);
    }

    #[test]
    fn unknown_keys_are_named_with_line_and_nearest() {
        let wrong = errors("threads = 1\n\npool_conections_max = 3\nzzz = 1\n");
        assert_eq!(wrong.len(), 2);
        assert_eq!(wrong[0].0, 3);
        assert!(
            wrong[0].1.ends_with("did you mean `pool_connections_max`?"),
            "{wrong:?}"
        );
        assert_eq!(wrong[1].0, 4);
        assert!(wrong[1].1.contains("`zzz`"), "{wrong:?}");
    }

    #[test]
    fn wrong_values_are_named_with_line_and_reason() {
        for (text, part) in [
            ("threads = \"4\"", "without quotes"),
            ("threads = -1", "0 to 1024"),
            ("threads = 1.5", "whole number"),
            ("sql_listen = 3306", "in quotes"),
            ("sql_listen = \"nowhere\"", "127.0.0.1:6306"),
            ("io = \"iocp\"", "io_uring"),
            ("log_format = \"xml\"", "text, json"),
            ("http_hosts = \"a\"", "not a list"),
            ("[threads]\nx = 1", "without [sections]"),
        ] {
            let wrong = errors(text);
            assert!(wrong[0].1.contains(part), "{text}: {wrong:?}");
        }
    }

    #[test]
    fn broken_toml_is_named_with_its_line() {
        let wrong = errors("threads = 1\nio = \n");
        assert_eq!(wrong[0].0, 2, "{wrong:?}");
    }
}
