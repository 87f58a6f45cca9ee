//! The rule on settings: something reads each row of the settings table, and each field of the structs
//! by which its values reach the crates that obey them.
//!
//! A field of the same name in another struct hides one that nothing reads: the rule may miss one, and
//! never names one that is read.

use std::sync::LazyLock;

use regex::Regex;

use crate::rules::Violation;
use crate::source::{Source, find_words, line_of};

/// The layers of a session, the lowest first: those above obey what one of them declares.
const LAYERS: [&str; 4] = ["execute", "dist-txn", "dist-query", "session"];

/// Where the table of settings is.
const TABLE: &str = "crates/heddle/src/settings/mod.rs";

/// A row of the table: `name: Type = "default" …`.
static ROW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?m)^    ([a-z][a-z0-9_]*): [A-Za-z0-9]+ = ""#));
/// A struct that carries values to another crate.
static STRUCT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?ms)^pub struct [A-Z][A-Za-z]* \{\n.*?^\}"));
static FIELD: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?m)^    pub ([a-z][a-z0-9_]*):"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file")
}

/// A name, and the file and line that declare it.
pub struct Declared {
    name: String,
    path: String,
    line: usize,
}

/// The rows of the table, and the public fields of the structs in files called `settings.rs` or of the
/// name `Settings`.
pub fn declared(source: &Source) -> Vec<Declared> {
    let names = |of: &Regex, text: &str, from: usize| -> Vec<Declared> {
        let each = of.captures_iter(text).map(|row| {
            let name = row.get(1).expect("the pattern has a group");
            Declared {
                name: name.as_str().to_owned(),
                path: source.path.clone(),
                line: line_of(&source.text, from + name.start()),
            }
        });
        each.collect()
    };
    if source.path == TABLE {
        return names(&ROW, &source.text, 0);
    }
    if !is_obeying(source) {
        return Vec::new();
    }
    let carries =
        |it: &str| source.path.ends_with("/settings.rs") || it.starts_with("pub struct Settings {");
    let structs = STRUCT.find_iter(&source.code);
    structs
        .filter(|it| carries(it.as_str()))
        .flat_map(|it| names(&FIELD, it.as_str(), it.start()))
        .collect()
}

/// Of a crate that obeys settings, and not for tests.
fn is_obeying(source: &Source) -> bool {
    let crate_name = source.crate_name();
    source.path.contains("/src/")
        && !source.is_test
        && !["", "heddle", "testkit"].contains(&crate_name)
}

/// The names that nothing of their own crate reads, nor of a layer above it.
pub fn unread(declared: &[Declared], sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for one in declared {
        let mut folder = one.path.split("/src/");
        let folder = folder.next().unwrap_or_default();
        let layers = match LAYERS
            .iter()
            .position(|name| folder == format!("crates/{name}"))
        {
            Some(at) => &LAYERS[at..],
            None => &[],
        };
        let mut own = sources.iter().filter(|source| {
            let inside = source.path.strip_prefix(folder).unwrap_or_default();
            inside.starts_with("/src/") || layers.contains(&source.crate_name())
        });
        if !own.any(|source| reads(source, &one.name)) {
            let rule = format!("nothing reads {}", one.name);
            let instead = "obey it where it belongs, or remove it";
            found.push(Violation::new(&one.path, one.line, rule, instead));
        }
    }
    found
}

/// A field is read by `.name`, or taken out by a pattern: `{ name, .. }`.
fn reads(source: &Source, name: &str) -> bool {
    find_words(&source.code, name).into_iter().any(|at| {
        let before = source.code[..at].trim_end();
        let behind = source.code[at + name.len()..].trim_start();
        let is_assigned = behind.starts_with('=') && !behind.starts_with("==");
        let is_field = before.ends_with('.') && !behind.starts_with('(') && !is_assigned;
        let is_pattern = before.ends_with(['{', ',']) && behind.starts_with([',', '}']);
        (is_field || is_pattern) && !source.is_test_line(line_of(&source.code, at))
    })
}
