//! Lines for people: progress on stdout, errors on stderr, tables.
//!
//! A reader that went away (a closed pipe) is no error: the farm goes on without being watched.

use std::io::Write;

use serde_json::Value;

/// One line of progress.
pub fn say(line: impl std::fmt::Display) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "heddle: {line}");
    let _ = out.flush();
}

/// Text on stdout as it is.
pub fn put(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

/// One error, on stderr.
pub fn complain(text: &str) {
    let mut err = std::io::stderr().lock();
    let _ = writeln!(err, "heddle: {text}");
}

/// Rows of objects as columns for people. Column order is that of the first row; a table without
/// rows says so.
pub fn table(rows: &[Value]) -> String {
    let Some(first) = rows.first().and_then(Value::as_object) else {
        return "(nothing)\n".to_owned();
    };
    let names: Vec<&String> = first.keys().collect();
    let mut lines = vec![
        names
            .iter()
            .map(|name| (*name).clone())
            .collect::<Vec<String>>(),
    ];
    for row in rows {
        lines.push(names.iter().map(|name| cell(&row[name.as_str()])).collect());
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..names.len())
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in &lines {
        let cells = line
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A text of lines that is the whole answer: it is printed as it is, so that it can be put into a file.
pub fn one_text(rows: &[Value]) -> Option<&str> {
    let [row] = rows else { return None };
    let row = row.as_object().filter(|row| row.len() == 1)?;
    let text = row.values().next()?.as_str()?;
    text.ends_with('\n').then_some(text)
}

/// Texts without quotes, everything else as JSON; line breaks would tear the table.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.replace(['\n', '\r', '\t'], " "),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_keep_their_order() {
        let rows = serde_json::json!([
            {"uuid": "a", "address": "127.0.0.1:23306", "weight": 1.0},
            {"uuid": "long", "address": "", "weight": null},
        ]);
        let text = table(rows.as_array().expect("an array"));
        assert_eq!(
            text,
            "uuid  address          weight\na     127.0.0.1:23306  1.0\nlong  -                -\n"
        );
        assert_eq!(table(&[]), "(nothing)\n");
    }
}
