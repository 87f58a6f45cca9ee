//! Which statements give elsewhere what they gave: those that depend on nothing but their context and the rows.
//!
//! A statement may be refused that would have been right, never the other way round, as far as its text tells: what
//! triggers, functions and views do is not in it.

use super::Run;
use crate::words::{Token, tokens};

/// Functions whose values are those of one server, one session or one moment.
const FUNCTIONS: [&str; 26] = [
    "BENCHMARK",
    "CONNECTION_ID",
    "CURRENT_ROLE",
    "CURRENT_USER",
    "FOUND_ROWS",
    "GET_LOCK",
    "IS_FREE_LOCK",
    "IS_USED_LOCK",
    "LASTVAL",
    "LOAD_FILE",
    "MASTER_GTID_WAIT",
    "MASTER_POS_WAIT",
    "NEXTVAL",
    "RANDOM_BYTES",
    "RELEASE_ALL_LOCKS",
    "RELEASE_LOCK",
    "ROW_COUNT",
    "SESSION_USER",
    "SETVAL",
    "SLEEP",
    "SYSDATE",
    "SYSTEM_USER",
    "USER",
    "UUID",
    "UUID_SHORT",
    "VERSION",
];

/// In front of them a word is the name of a table.
const BEFORE_TABLES: [&str; 6] = ["INTO", "TABLE", "UPDATE", "FROM", "JOIN", "REPLACE"];

/// Why a statement may not be run elsewhere; `None` where nothing speaks against it.
pub fn objection(run: &Run) -> Option<String> {
    if !run.is_exact {
        return Some("its text has bytes that are no characters of its character set".to_owned());
    }
    let tokens = tokens(&run.sql);
    let words: Vec<String> = tokens.iter().map(Token::upper).collect();
    for (at, word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |at| &*words[at]);
        let calls = tokens.get(at + 1) == Some(&Token::Other('('));
        let is_table = BEFORE_TABLES.contains(&before);
        let is_bare = word == "CURRENT_USER" || word == "CURRENT_ROLE";
        if FUNCTIONS.contains(&&**word) && !is_table && (calls || is_bare) {
            return Some(format!("{word} gives another value at another server"));
        }
        if word == "LIMIT" {
            return Some("LIMIT may choose other rows at another server".to_owned());
        }
        if word == "VALUE" && before == "NEXT" {
            return Some("NEXT VALUE gives another value at another server".to_owned());
        }
    }
    let is_at = |token: &Token| *token == Token::Other('@');
    let reads_setting = tokens.windows(2).any(|two| two.iter().all(is_at));
    reads_setting.then(|| "it reads a server's or a session's setting (@@)".to_owned())
}

/// The names and words of a statement, in upper case, and what stands in double quotes, which may be a name.
pub fn names(sql: &str) -> Vec<String> {
    let tokens = tokens(sql);
    let names = tokens.iter().filter_map(Token::name);
    names.map(str::to_ascii_uppercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn objects(sql: &str) -> bool {
        let run = Run {
            sql: sql.to_owned(),
            is_exact: true,
            ..Run::default()
        };
        objection(&run).is_some()
    }

    #[test]
    fn what_depends_on_the_server_is_refused() {
        for sql in [
            "INSERT INTO t VALUES (UUID())",
            "INSERT INTO t SELECT uuid ()",
            "UPDATE t SET a = CURRENT_USER",
            "UPDATE t SET a = @@server_id",
            "DELETE FROM t LIMIT 1",
            "INSERT INTO t VALUES (NEXT VALUE FOR s)",
            "UPDATE t SET a = sysdate(6)",
        ] {
            assert!(objects(sql), "{sql}");
        }
        for sql in [
            "INSERT INTO t VALUES (NOW(), RAND(), @a, LAST_INSERT_ID())",
            "INSERT INTO user (a) VALUES ('UUID()')",
            "UPDATE t SET a = 1 /* LIMIT */ WHERE b = 'LIMIT 1'",
            "INSERT INTO t VALUES ('a@@b')",
        ] {
            assert!(!objects(sql), "{sql}");
        }
        assert!(names("INSERT INTO \"log\" SELECT a FROM `b`").contains(&"LOG".to_owned()));
        let torn = Run::default();
        assert!(objection(&torn).is_some_and(|why| why.contains("bytes")));
    }
}
