//! Whether an answer is what a file of sqllogictest expects.
//!
//! Values are written as SQLite's own runner writes them: integers without decimals, real numbers with
//! three, NULL, `(empty)` for a text without characters, `@` for a byte that is no printable ASCII.

use md5::{Digest, Md5};
use testkit::client::{Rows, Value};

use crate::script::{Expected, Kind, Query, Sort};

/// What differs from the expected answer, in words.
pub fn difference(query: &Query, rows: &Rows) -> Option<String> {
    let columns = query.kinds.len();
    if rows.columns.len() != columns {
        let given = rows.columns.len();
        return Some(format!("{columns} columns expected, {given} given"));
    }
    let values = written(query, rows);
    match query.expected.as_ref()? {
        Expected::Values(expected) if *expected == values => None,
        Expected::Values(expected) => Some(format!(
            "expected: {}\n   given: {}",
            expected.join(" | "),
            values.join(" | ")
        )),
        Expected::Hash { values: count, md5 } => {
            let given = format!("{} values hashing to {}", values.len(), hash(&values));
            let expected = format!("{count} values hashing to {md5}");
            (given != expected).then(|| format!("expected: {expected}\n   given: {given}"))
        }
    }
}

/// All values in the order in which the query has them compared.
pub fn written(query: &Query, rows: &Rows) -> Vec<String> {
    let row = |row: &Vec<Value>| -> Vec<String> {
        let kinds = query.kinds.iter().chain(std::iter::repeat(&Kind::Text));
        let values = row.iter().zip(kinds);
        values.map(|(value, &kind)| word(value, kind)).collect()
    };
    let mut all: Vec<Vec<String>> = rows.rows.iter().map(row).collect();
    if query.sort == Sort::Rows {
        all.sort();
    }
    let mut values: Vec<String> = all.into_iter().flatten().collect();
    if query.sort == Sort::Values {
        values.sort();
    }
    values
}

/// Of each value and a line's end.
fn hash(values: &[String]) -> String {
    let mut digest = Md5::new();
    for value in values {
        digest.update(value);
        digest.update("\n");
    }
    format!("{:x}", digest.finalize())
}

fn word(value: &Value, kind: Kind) -> String {
    let Some(text) = value.text() else {
        return "NULL".to_owned();
    };
    match kind {
        Kind::Integer => {
            let digits = |letter: &char| letter.is_ascii_digit() || *letter == '-';
            let whole: String = text.chars().take_while(digits).collect();
            let number = whole.parse::<i128>();
            number.unwrap_or_default().to_string()
        }
        Kind::Real => format!("{:.3}", text.parse::<f64>().unwrap_or_default()),
        Kind::Text if text.is_empty() => "(empty)".to_owned(),
        Kind::Text => text
            .bytes()
            .map(|byte| match byte {
                b' '..=b'~' => char::from(byte),
                _ => '@',
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use mysql_wire::status::Status;
    use testkit::client::Column;

    use super::*;
    use crate::script::{What, parse};

    fn query(text: &str) -> Query {
        match parse(text).unwrap().remove(0).what {
            What::Query(query) => query,
            other => panic!("{other:?}"),
        }
    }

    fn rows(values: &[&[Option<&str>]]) -> Rows {
        let value = |text: &Option<&str>| text.map_or(Value::Null, Value::from);
        Rows {
            columns: vec![Column::default(); values.first().map_or(0, |row| row.len())],
            rows: values
                .iter()
                .map(|row| row.iter().map(value).collect())
                .collect(),
            status: Status::empty(),
            warnings: 0,
        }
    }

    #[test]
    fn values_are_written_by_their_types() {
        let query = query("query IRTTT\nSELECT\n");
        let given = rows(&[&[Some("-7.90"), Some("1e1"), Some(""), Some("a\té"), None]]);
        assert_eq!(
            written(&query, &given),
            ["-7", "10.000", "(empty)", "a@@@", "NULL"]
        );
    }

    #[test]
    fn rows_or_values_are_sorted_as_text() {
        let given = rows(&[&[Some("9"), Some("1")], &[Some("10"), Some("2")]]);
        let sorted = |how: &str| written(&query(&format!("query II {how}\nSELECT\n")), &given);
        assert_eq!(sorted("nosort"), ["9", "1", "10", "2"]);
        assert_eq!(sorted("rowsort"), ["10", "2", "9", "1"]);
        assert_eq!(sorted("valuesort"), ["1", "10", "2", "9"]);
    }

    #[test]
    fn answers_are_compared_by_values_or_by_their_hash() {
        let given = rows(&[&[Some("1")], &[Some("2")]]);
        let told = |text: &str| difference(&query(text), &given);
        assert_eq!(told("query I nosort\nSELECT\n----\n1\n2\n"), None);
        assert!(told("query I nosort\nSELECT\n----\n2\n1\n").is_some());
        assert_eq!(told("query I nosort\nSELECT\n"), None);
        assert!(told("query II nosort\nSELECT\n").is_some());
        // `printf '1\n2\n' | md5sum`
        let hash = "6ddb4095eb719e2a9f0a3f95677d24e0";
        let with = |md5: &str| {
            told(&format!(
                "query I\nSELECT\n----\n2 values hashing to {md5}\n"
            ))
        };
        assert_eq!(with(hash), None);
        assert!(with("0").is_some());
    }
}
