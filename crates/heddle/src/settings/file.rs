//! `heddle.toml`: keys are the table's names; anything else is an error with its line.

use std::path::Path;

use routing::rules::Rules;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::Raw;
use super::{Settings, find, unknown};
use super::{credential, rules};

/// Tells the line of a place in a file.
pub(super) type LineOf<'a> = &'a dyn Fn(usize) -> usize;

/// Reads a file. All its errors are given, one per line, each as `FILE:LINE: what is wrong`.
pub fn read(path: &Path) -> Result<Settings, String> {
    let mut settings = read_with(path, "name another with --config FILE", parse)?;
    place(&mut settings.rules, path);
    for given in settings.given.values_mut() {
        given.from = format!("{}:{}", path.display(), given.from);
    }
    settings.config_file = Some(path.to_owned());
    Ok(settings)
}

/// Reads a file of nothing but rules, with errors as those of [`read`].
pub fn read_rules(path: &Path) -> Result<Rules, String> {
    let mut rules = read_with(path, "name another with rules_file", parse_rules)?;
    place(&mut rules, path);
    Ok(rules)
}

fn read_with<T>(
    path: &Path,
    cure: &str,
    parse: impl Fn(&str) -> Result<T, Vec<(usize, String)>>,
) -> Result<T, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("cannot read {shown}: {error}; {cure}"))?;
    parse(&text).map_err(|errors| {
        let lines: Vec<String> = errors
            .into_iter()
            .map(|(line, what)| format!("{shown}:{line}: {what}"))
            .collect();
        lines.join("\n")
    })
}

/// Puts the file's name before the lines.
fn place(rules: &mut Rules, path: &Path) {
    for rule in &mut rules.list {
        rule.place = format!("{}:{}", path.display(), rule.place);
    }
}

/// All wrong lines with what is wrong, or the rules.
pub(super) fn parse_rules(text: &str) -> Result<Rules, Vec<(usize, String)>> {
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let table = parse_toml(text, &line_of)?;
    let mut found = Rules::default();
    let mut errors = Vec::new();
    for (key, value) in table.get_ref() {
        match &**key.get_ref() {
            name @ (rules::RULE | rules::USER) => {
                rules::read(name, value, &line_of, &mut found, &mut errors);
            }
            name => {
                let text = format!("`{name}` is no rule; here are [[rule]] and [[user]] only");
                errors.push((line_of(key.span().start), text));
            }
        }
    }
    errors.sort();
    if errors.is_empty() {
        Ok(found)
    } else {
        Err(errors)
    }
}

pub(super) fn parse_toml<'a>(
    text: &'a str,
    line_of: LineOf<'_>,
) -> Result<Spanned<DeTable<'a>>, Vec<(usize, String)>> {
    DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_of(span.start));
        vec![(line, error.message().to_owned())]
    })
}

/// All wrong lines with what is wrong, or the settings.
pub(super) fn parse(text: &str) -> Result<Settings, Vec<(usize, String)>> {
    let line_of = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let table = parse_toml(text, &line_of)?;
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
        if matches!(name, rules::RULE | rules::USER) {
            rules::read(name, value, &line_of, &mut settings.rules, &mut errors);
            continue;
        }
        let result = match find(name) {
            None => Err(unknown(name)),
            Some(setting) => raw(value.get_ref())
                .and_then(|raw| settings.give(setting, &raw, line.to_string()))
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

pub(super) fn raw<'a>(value: &'a DeValue<'_>) -> Result<Raw<'a>, String> {
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
        assert_eq!(settings.sql_listen.tcp.map(|tcp| tcp.port()), Some(3306));
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
