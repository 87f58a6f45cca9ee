//! The summary of a statement, as spans are named: what it does, and with which tables.
//!
//! It is made of the normal form, which has no literals, by its words alone: what no word announces is not in it.

/// A longer summary is cut at a word; the conventions of OpenTelemetry say so.
const BYTES_MAX: usize = 255;

/// Words behind which a table stands.
const BEFORE_TABLES: [&str; 4] = ["FROM", "JOIN", "INTO", "TABLE"];

/// Words that may stand between them and the table.
const FILLING: [&str; 8] = [
    "IF",
    "NOT",
    "EXISTS",
    "IGNORE",
    "LOW_PRIORITY",
    "HIGH_PRIORITY",
    "DELAYED",
    "LATERAL",
];

/// First words that name their subject themselves.
const NAMING: [&str; 4] = ["CALL", "HANDLER", "UPDATE", "USE"];

/// The first word of a normal form, in capitals; empty where it begins with none.
pub fn operation(text: &str) -> String {
    words(text)
        .find(|word| is_name(word))
        .unwrap_or_default()
        .to_ascii_uppercase()
}

/// The operation and the tables, in the order of the text.
pub fn summary(text: &str) -> String {
    let mut words = words(text).peekable();
    let mut summary = operation(text);
    let mut expects = NAMING.contains(&&*summary);
    while let Some(word) = words.next() {
        let upper = word.to_ascii_uppercase();
        if BEFORE_TABLES.contains(&&*upper) {
            expects = true;
            continue;
        }
        if expects && FILLING.contains(&&*upper) {
            continue;
        }
        let is_operation = upper == summary;
        let names = expects && !is_operation && is_name(word);
        if names {
            if summary.len() + 1 + word.len() > BYTES_MAX {
                return summary;
            }
            summary.push(' ');
            summary.extend(word.chars().filter(|c| *c != '`'));
        }
        // A list of tables goes on behind a comma.
        expects = (expects && is_operation) || (names && words.peek() == Some(&","));
        if expects && words.peek() == Some(&",") {
            words.next();
        }
    }
    summary
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '`'))
}

/// The words of a text without its comments. A quoted name with blanks is as many words.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            rest = rest.trim_start();
            let Some(comment) = rest.strip_prefix("/*") else {
                break;
            };
            rest = comment.split_once("*/").map_or("", |(_, behind)| behind);
        }
        let first = rest.chars().next()?;
        let in_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '`' | '.' | '$');
        let end = match in_word(first) {
            true => rest.find(|c| !in_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, behind) = rest.split_at(end);
        rest = behind;
        Some(word)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_and_tables_make_the_summary() {
        for (text, expected) in [
            ("SELECT ?", "SELECT"),
            ("SELECT a FROM t WHERE b = ?", "SELECT t"),
            ("/*ms=master*/ select a from `d`.`t` x", "SELECT d.t"),
            ("SELECT * FROM a, b JOIN c ON ? = ?", "SELECT a b c"),
            ("SELECT * FROM (SELECT x FROM t) y", "SELECT t"),
            ("INSERT INTO t VALUES (?)", "INSERT t"),
            ("INSERT IGNORE INTO t SELECT * FROM u", "INSERT t u"),
            ("UPDATE t SET a = ?", "UPDATE t"),
            (
                "INSERT INTO t VALUES (?) ON DUPLICATE KEY UPDATE a = ?",
                "INSERT t",
            ),
            ("DELETE FROM t", "DELETE t"),
            ("CREATE TABLE IF NOT EXISTS t (a INT)", "CREATE t"),
            ("CALL p (?)", "CALL p"),
            ("COMMIT", "COMMIT"),
            ("( SELECT a FROM t )", "SELECT t"),
            ("", ""),
            ("/* open", ""),
        ] {
            assert_eq!(summary(text), expected, "{text}");
        }
    }

    #[test]
    fn a_long_summary_ends_with_a_word() {
        let tables: Vec<String> = (0..100).map(|number| format!("table{number}")).collect();
        let summary = summary(&format!("SELECT * FROM {}", tables.join(", ")));
        assert!(summary.len() <= BYTES_MAX && summary.len() > 240);
        assert!(tables.contains(&summary.rsplit(' ').next().unwrap_or_default().to_owned()));
    }
}
