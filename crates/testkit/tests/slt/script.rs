//! Files of sqllogictest, in the format of SQLite's corpus: records with the statements and what is
//! expected of them. What a record means for two servers is not known here.

use std::fs;
use std::path::{Path, PathBuf};

/// One file.
#[derive(Debug)]
pub struct Script {
    pub path: PathBuf,
    pub records: Vec<Record>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Of the record's first word, from 1.
    pub line: usize,
    pub conditions: Vec<Condition>,
    pub what: What,
}

/// `skipif` and `onlyif`, with the name of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    Skip(String),
    Only(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    Statement { text: String, succeeds: bool },
    Query(Query),
    Halt,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    pub text: String,
    pub kinds: Vec<Kind>,
    pub sort: Sort,
    /// Queries of one label have the same answer.
    pub label: Option<String>,
    pub expected: Option<Expected>,
}

/// How the values of a column are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Integer,
    Real,
    Text,
}

/// What is done with an answer before it is compared with what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    No,
    Rows,
    Values,
}

/// What stands behind `----`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    Values(Vec<String>),
    Hash { values: usize, md5: String },
}

impl Record {
    /// A database of these names runs it.
    pub fn is_for(&self, names: &[&str]) -> bool {
        self.conditions.iter().all(|condition| match condition {
            Condition::Skip(name) => !names.contains(&&**name),
            Condition::Only(name) => names.contains(&&**name),
        })
    }
}

/// The `.test` files of a folder and of those in it, or the one file, by their names.
pub fn read_all(place: &Path) -> Result<Vec<Script>, String> {
    let mut paths = Vec::new();
    find(place, &mut paths).map_err(|error| format!("{}: {error}", place.display()))?;
    paths.sort();
    paths.into_iter().map(read).collect()
}

fn find(place: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !place.is_dir() {
        found.push(place.to_owned());
        return Ok(());
    }
    for entry in fs::read_dir(place)? {
        let path = entry?.path();
        let is_script = path.extension().is_some_and(|suffix| suffix == "test");
        if path.is_dir() || is_script {
            find(&path, found)?;
        }
    }
    Ok(())
}

fn read(path: PathBuf) -> Result<Script, String> {
    let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let records = parse(&String::from_utf8_lossy(&bytes));
    let records = records.map_err(|error| format!("{}:{error}", path.display()))?;
    Ok(Script { path, records })
}

/// The records of a text. The error begins with the number of its line.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let mut lines = text.lines().map(str::trim_end).enumerate();
    let mut records = Vec::new();
    let mut conditions = Vec::new();
    while let Some((at, line)) = lines.next() {
        // A comment may stand behind the words of a record, too.
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'))
            .collect();
        let mut rest = lines.by_ref().map(|(_, line)| line);
        let what = match words[..] {
            [] | ["hash-threshold", _] => continue,
            ["skipif", name] => {
                conditions.push(Condition::Skip(name.to_owned()));
                continue;
            }
            ["onlyif", name] => {
                conditions.push(Condition::Only(name.to_owned()));
                continue;
            }
            ["halt"] => What::Halt,
            ["statement", outcome @ ("ok" | "error")] => What::Statement {
                text: block(&mut rest).join("\n"),
                succeeds: outcome == "ok",
            },
            ["query", kinds, ref how @ ..] if how.len() <= 2 => {
                query(kinds, how, &mut rest).map_err(|what| format!("{}: {what}", at + 1))?
            }
            _ => return Err(format!("{}: no record: {line}", at + 1)),
        };
        records.push(Record {
            line: at + 1,
            conditions: std::mem::take(&mut conditions),
            what,
        });
    }
    Ok(records)
}

/// The lines up to an empty one.
fn block<'a>(lines: &mut impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    lines.take_while(|line| !line.is_empty()).collect()
}

/// The types, then perhaps the way of sorting and a label.
fn query<'a>(
    kinds: &str,
    how: &[&str],
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<What, String> {
    let kind = |letter: char| match letter {
        'I' => Ok(Kind::Integer),
        'R' => Ok(Kind::Real),
        'T' => Ok(Kind::Text),
        _ => Err(format!("no type of a column: {letter}")),
    };
    let sort = match how.first() {
        None | Some(&"nosort") => Sort::No,
        Some(&"rowsort") => Sort::Rows,
        Some(&"valuesort") => Sort::Values,
        Some(other) => return Err(format!("no way of sorting: {other}")),
    };
    let lines = block(lines);
    let mut parts = lines.splitn(2, |&line| line == "----");
    let text = parts.next().unwrap_or_default().join("\n");
    Ok(What::Query(Query {
        text,
        kinds: kinds.chars().map(kind).collect::<Result<_, _>>()?,
        sort,
        label: how.get(1).map(|&label| label.to_owned()),
        expected: parts.next().map(expected),
    }))
}

/// `30 values hashing to 3c13dee48d9356ae19af2515e05e6b54`, or the values themselves.
fn expected(lines: &[&str]) -> Expected {
    if let [line] = lines
        && let Some((values, md5)) = line.split_once(" values hashing to ")
        && let Ok(values) = values.parse()
    {
        let md5 = md5.to_owned();
        return Expected::Hash { values, md5 };
    }
    Expected::Values(lines.iter().map(|&line| line.to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(text: &str) -> What {
        let records = parse(text).expect("it is well formed");
        assert_eq!(records.len(), 1, "{records:?}");
        records[0].what.clone()
    }

    #[test]
    fn statements_end_at_an_empty_line() {
        let text =
            "# a comment\n\nstatement ok\nCREATE TABLE t(\n  a INT)\n\nstatement error\nNONE\n";
        let records = parse(text).unwrap();
        let lines: Vec<usize> = records.iter().map(|record| record.line).collect();
        assert_eq!(lines, [3, 7]);
        let expected = What::Statement {
            text: "CREATE TABLE t(\n  a INT)".to_owned(),
            succeeds: true,
        };
        assert_eq!(records[0].what, expected);
        let expected = What::Statement {
            text: "NONE".to_owned(),
            succeeds: false,
        };
        assert_eq!(records[1].what, expected);
    }

    #[test]
    fn queries_have_types_an_order_a_label_and_values() {
        let What::Query(query) =
            only("query IRT rowsort x-1\r\nSELECT 1,\r\n2\r\n----\r\n1\r\n# 2\r\n")
        else {
            panic!("it is a query");
        };
        assert_eq!(query.text, "SELECT 1,\n2");
        assert_eq!(query.kinds, [Kind::Integer, Kind::Real, Kind::Text]);
        assert_eq!(
            (query.sort, query.label.as_deref()),
            (Sort::Rows, Some("x-1"))
        );
        let values = ["1", "# 2"].map(str::to_owned).to_vec();
        assert_eq!(query.expected, Some(Expected::Values(values)));
    }

    #[test]
    fn answers_may_be_empty_hashed_or_left_out() {
        let answer = |text: &str| match only(text) {
            What::Query(query) => query.expected,
            other => panic!("{other:?}"),
        };
        assert_eq!(answer("query I\nSELECT 1"), None);
        let none = Expected::Values(Vec::new());
        assert_eq!(answer("query I nosort\nSELECT 1\n----\n"), Some(none));
        let hashed = Expected::Hash {
            values: 30,
            md5: "3c13".to_owned(),
        };
        let text = "query I valuesort\nSELECT 1\n----\n30 values hashing to 3c13\n";
        assert_eq!(answer(text), Some(hashed));
    }

    #[test]
    fn conditions_are_of_the_next_record() {
        let text = "hash-threshold 8\n\nskipif mysql # not there\nonlyif sqlite\nstatement ok\nA\n\nhalt\n";
        let records = parse(text).unwrap();
        assert!(!records[0].is_for(&["mysql"]));
        assert!(!records[0].is_for(&["oracle"]));
        assert!(records[0].is_for(&["sqlite"]));
        assert_eq!(records[1].what, What::Halt);
        assert!(records[1].is_for(&["mysql"]));
    }

    #[test]
    fn what_is_no_record_is_named_by_its_line() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("\nloop i 0 3\n"), "2: no record: loop i 0 3");
        assert!(error("query X nosort\nSELECT 1\n").starts_with("1: no type"));
        assert!(error("query I sorted\nSELECT 1\n").starts_with("1: no way"));
        assert!(error("statement perhaps\nSELECT 1\n").starts_with("1: no record"));
    }
}
