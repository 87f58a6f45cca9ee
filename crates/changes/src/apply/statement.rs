//! What an applier has to know of a statement that defines something: its object, and its databases.

use crate::words::{behind_comment, quoted};

/// What an applier does with a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Definition {
    /// It makes or changes a table, a view, a routine, a database.
    Apply,
    /// It takes rows away besides: where several groups have rows in one table of the target, those of all.
    Empties,
    /// It would change rows that the stream tells anyway: triggers and events.
    Acts,
    /// It is about accounts or the server itself.
    OfServer,
}

/// What a statement is; the second value is false when it is about none of these databases. No databases stand for
/// all.
pub fn definition(text: &str, database: &str, wanted: &[String]) -> (Definition, bool) {
    let tokens = tokens(text);
    let words: Vec<String> = tokens.iter().map(Token::word).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let kind = kind(&words);
    let is_wanted =
        wanted.is_empty() || databases(&tokens, &words, database).any(|it| wanted.contains(&it));
    (kind, is_wanted)
}

fn kind(words: &[&str]) -> Definition {
    let verb = words.first().copied().unwrap_or_default();
    // What it is about: the first word of a kind of things.
    let mut rest = words.iter().skip(1);
    let of = rest
        .find(|word| OBJECTS.contains(word) || OTHERS.contains(word))
        .copied();
    let replaces = words.get(1) == Some(&"OR") && words.get(2) == Some(&"REPLACE");
    match (verb, of.unwrap_or_default()) {
        ("CREATE" | "ALTER" | "DROP", "TRIGGER" | "EVENT") => Definition::Acts,
        ("TRUNCATE", _) => Definition::Empties,
        ("RENAME", "TABLE" | "TABLES") => Definition::Empties,
        ("DROP", "TABLE" | "TABLES" | "DATABASE" | "SCHEMA") => Definition::Empties,
        ("CREATE", "TABLE" | "DATABASE" | "SCHEMA") if replaces => Definition::Empties,
        ("ALTER", "TABLE") if is_renaming(words) => Definition::Empties,
        ("ALTER", "TABLE") if words.contains(&"PARTITION") && words.contains(&"TRUNCATE") => {
            Definition::Empties
        }
        ("CREATE" | "ALTER" | "DROP", of) if OBJECTS.contains(&of) => Definition::Apply,
        _ => Definition::OfServer,
    }
}

/// ALTER TABLE … RENAME [TO|AS] name; RENAME COLUMN and RENAME INDEX leave the table where it is.
fn is_renaming(words: &[&str]) -> bool {
    let mut pairs = words.windows(2);
    pairs.any(|pair| pair[0] == "RENAME" && !["COLUMN", "INDEX", "KEY"].contains(&pair[1]))
}

/// What belongs to a database: an applier carries out what defines it.
const OBJECTS: [&str; 10] = [
    "TABLE",
    "TABLES",
    "VIEW",
    "INDEX",
    "DATABASE",
    "SCHEMA",
    "PROCEDURE",
    "FUNCTION",
    "SEQUENCE",
    "PACKAGE",
];

/// What else a statement may define.
const OTHERS: [&str; 8] = [
    "TRIGGER",
    "EVENT",
    "USER",
    "ROLE",
    "SERVER",
    "TABLESPACE",
    "LOGFILE",
    "UNDO",
];

/// The databases that a statement names, and the session's.
fn databases<'a>(
    tokens: &'a [Token],
    words: &'a [&str],
    database: &'a str,
) -> impl Iterator<Item = String> + 'a {
    let named = tokens.windows(2).filter_map(|pair| match pair {
        [Token::Name(name), Token::Other('.')] => Some(name.clone()),
        _ => None,
    });
    let at = words
        .iter()
        .position(|word| *word == "DATABASE" || *word == "SCHEMA");
    let behind = at.filter(|at| *at <= 3).and_then(|at| {
        let mut rest = tokens[at + 1..].iter().filter_map(|token| match token {
            Token::Name(name) => Some(name),
            _ => None,
        });
        rest.find(|name| !["IF", "NOT", "EXISTS"].contains(&&*name.to_ascii_uppercase()))
            .cloned()
    });
    // A database that is made or dropped is not the session's.
    let own = (behind.is_none() && !database.is_empty()).then(|| database.to_owned());
    named.chain(behind).chain(own)
}

/// What a statement is made of, as far as it counts here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A word, or a name in quotes.
    Name(String),
    Other(char),
}

impl Token {
    /// In upper case; empty for anything else.
    pub(super) fn word(&self) -> String {
        match self {
            Token::Name(name) => name.to_ascii_uppercase(),
            Token::Other(_) => String::new(),
        }
    }
}

/// Words and names without comments and texts. What stands in `/*!…*/` counts.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$' || !c.is_ascii();
        if let Some(behind) = behind_comment(rest) {
            rest = behind;
        } else if c == '`' {
            let (name, behind) = quoted(&rest[1..], '`');
            tokens.push(Token::Name(name));
            rest = behind;
        } else if c == '\'' || c == '"' {
            rest = quoted(&rest[1..], c).1;
            tokens.push(Token::Other('\''));
        } else if is_word(c) {
            let end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(Token::Name(rest[..end].to_owned()));
            rest = &rest[end..];
        } else {
            tokens.push(Token::Other(c));
            rest = &rest[c.len_utf8()..];
        }
        rest = rest.trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(text: &str) -> Definition {
        definition(text, "d", &[]).0
    }

    #[test]
    fn statements_are_known_by_what_they_are_about() {
        for text in [
            "CREATE TABLE t (a INT)",
            "/*heddle:1*/ alter table d.t add b int",
            "ALTER TABLE t RENAME COLUMN a TO b",
            "CREATE UNIQUE INDEX i ON t (a)",
            "CREATE DEFINER=`root`@`localhost` PROCEDURE p() BEGIN END",
            "CREATE DATABASE d",
            "/*!40000 ALTER TABLE t DISABLE KEYS */",
            "CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW v AS SELECT 1",
        ] {
            assert_eq!(kind_of(text), Definition::Apply, "{text}");
        }
        for text in [
            "TRUNCATE TABLE t",
            "truncate t",
            "DROP TABLE IF EXISTS `t` /* generated by server */",
            "RENAME TABLE a TO b",
            "CREATE OR REPLACE TABLE t (a INT)",
            "ALTER TABLE t RENAME TO u",
            "DROP DATABASE d",
        ] {
            assert_eq!(kind_of(text), Definition::Empties, "{text}");
        }
        let trigger = "CREATE DEFINER=`a`@`%` TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET @a=1";
        assert_eq!(kind_of(trigger), Definition::Acts);
        assert_eq!(
            kind_of("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SET @a=1"),
            Definition::Acts
        );
        for text in [
            "GRANT SELECT ON d.* TO a",
            "CREATE USER a",
            "DROP ROLE r",
            "FLUSH TABLES",
        ] {
            assert_eq!(kind_of(text), Definition::OfServer, "{text}");
        }
    }

    #[test]
    fn statements_are_wanted_by_their_databases() {
        let wanted = ["shop".to_owned()];
        let is_wanted = |text, database| definition(text, database, &wanted).1;
        assert!(is_wanted("CREATE TABLE t (a INT)", "shop"));
        assert!(is_wanted("CREATE TABLE `shop`.t (a INT)", "other"));
        assert!(is_wanted("CREATE DATABASE IF NOT EXISTS shop", ""));
        assert!(!is_wanted("CREATE DATABASE other", "shop"));
        assert!(!is_wanted(
            "CREATE TABLE other.t (a VARCHAR(9) DEFAULT 'shop.')",
            "other"
        ));
    }

    #[test]
    fn texts_that_end_too_early_are_read_to_their_end() {
        for text in [
            "CREATE TABLE `a",
            "x '\\",
            "/* a",
            "/*!",
            "'",
            "\u{f6}`\u{f6}",
        ] {
            let _ = definition(text, "", &["d".to_owned()]);
        }
    }
}
