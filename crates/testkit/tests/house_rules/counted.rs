//! The rules on counters: each name that `HEDDLE STATUS` or `/metrics` shows has one row on the page of
//! statistics, each row there is the name of one, and each counter is counted somewhere.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;

use crate::rules::Violation;
use crate::source::{Source, find_words, line_of};

pub const PAGE: &str = "docs/STATISTICS.md";

/// The tables of the page that have names in their first column.
const HEAD: &str = "| name | counts |";

/// What `mysqlnd_ms_get_stats()` has and nothing counts. The page says of each that it stays 0.
const ALWAYS_0: [&str; 1] = ["xa_rollback_failure"];

/// A table of counters, as `counters! { … }` at the beginning of a line.
static TABLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?ms)^(?:counters|counts)! \{\n.*?^\}"));
/// A row of such a table.
static ROW: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?m)^    ([a-z][a-z0-9_]*) "[^"\n]*";$"#));
/// A name beside its help, which is a sentence.
static PAIR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#""([a-z][a-z0-9_]*)",\s*"[A-Z0-9][^"]*\.""#));
/// The name in the literal of a family of metrics.
static FAMILY: LazyLock<Regex> = LazyLock::new(|| pattern(r#"name: "(heddle_[a-z0-9_]*)""#));
/// A name in the first cell of a row, its labels behind it.
static LISTED: LazyLock<Regex> = LazyLock::new(|| pattern(r"`([a-z][a-z0-9_]*)(?:\{[a-z_,]*\})?`"));

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern of this file")
}

/// A name that operators see, and where the code says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    pub name: String,
    pub path: String,
    pub line: usize,
    /// It is a row of a table, so a field of its name counts it.
    pub in_table: bool,
}

/// The names in one file. What is compiled for tests only shows nothing to operators.
pub fn counters(source: &Source) -> Vec<Counter> {
    let shown = source.path.contains("/src/") && source.crate_name() != "testkit";
    if !shown {
        return Vec::new();
    }
    let mut found = Vec::new();
    let mut note = |name: &str, at: usize, in_table: bool| {
        let line = line_of(&source.text, at);
        let is_comment = source.comments.as_bytes()[at] != b' ';
        if !source.is_test_line(line) && !is_comment {
            let (name, path) = (name.to_owned(), source.path.clone());
            found.push(Counter {
                name,
                path,
                line,
                in_table,
            });
        }
    };
    for table in TABLE.find_iter(&source.text) {
        for row in ROW.captures_iter(table.as_str()) {
            let name = row.get(1).expect("the pattern has a group");
            note(name.as_str(), table.start() + name.start(), true);
        }
    }
    for pattern in [&PAIR, &FAMILY] {
        for name in pattern.captures_iter(&source.text) {
            let name = name.get(1).expect("the pattern has a group");
            note(name.as_str(), name.start(), false);
        }
    }
    found
}

/// The names in the first cells of the page's tables, with their lines.
pub fn listed(page: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    let mut in_table = false;
    for (index, line) in page.lines().enumerate() {
        in_table = line == HEAD || (in_table && line.starts_with('|'));
        let cell = line.split('|').nth(1).filter(|_| in_table);
        for name in LISTED.captures_iter(cell.unwrap_or("")) {
            found.push((name[1].to_owned(), index + 1));
        }
    }
    found
}

/// Names without a row, rows without a name, and rows that stand twice.
pub fn differences(counters: &[Counter], page: &str) -> Vec<Violation> {
    let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (name, line) in listed(page) {
        rows.entry(name).or_default().push(line);
    }
    let mut found = Vec::new();
    for counter in counters {
        if !rows.contains_key(&counter.name) {
            let rule = format!("{} has no row in {PAGE}", counter.name);
            let instead = "write one: what it counts, in what unit, what a rise means";
            found.push(Violation::new(&counter.path, counter.line, rule, instead));
        }
    }
    for (name, lines) in &rows {
        if !counters.iter().any(|counter| counter.name == *name) {
            let rule = format!("nothing in the code is called {name}");
            let instead = "take the name out of the table, or correct it";
            found.push(Violation::new(PAGE, lines[0], rule, instead));
        }
        if let [_, again, ..] = lines[..] {
            let rule = format!("{name} has two rows");
            found.push(Violation::new(PAGE, again, rule, "keep one"));
        }
    }
    found
}

/// Rows of the tables whose fields nothing uses, except those that are known to stay 0; and those of
/// these that something uses.
pub fn idle(counters: &[Counter], sources: &[Source]) -> Vec<Violation> {
    let mut found = Vec::new();
    for counter in counters.iter().filter(|counter| counter.in_table) {
        let field = format!(".{}", counter.name);
        let used = sources
            .iter()
            .filter(|source| source.path.contains("/src/") && source.crate_name() != "testkit")
            .any(|source| {
                let uses = find_words(&source.code, &field);
                uses.iter()
                    .any(|&at| !source.is_test_line(line_of(&source.code, at)))
            });
        let stays_0 = ALWAYS_0.contains(&counter.name.as_str());
        let wrong = match (used, stays_0) {
            (false, false) => Some(("is never counted", "count it, or remove it")),
            (true, true) => Some((
                "is counted",
                "take it out of ALWAYS_0, and say on the page what it counts",
            )),
            _ => None,
        };
        if let Some((what, instead)) = wrong {
            let rule = format!("{} {what}", counter.name);
            found.push(Violation::new(&counter.path, counter.line, rule, instead));
        }
    }
    found
}
