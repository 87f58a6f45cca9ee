//! CONNECTION_ID(), `@@pseudo_thread_id` and `@@socket` in a text, for a client whose id is not the
//! server's, and that reaches the router by no socket.

use crate::introspection::rewrite::{Ask, replace};
use crate::lexer::keyword::Kw;
use crate::lexer::mode::{Dialect, Mode};
use crate::lexer::token::{Kind, Lexer, Token};
use crate::session_state::word::statements;

/// Tables of the servers that name connections by the servers' own ids.
const SERVER_IDS: [&[u8]; 8] = [
    b"general_log",
    b"innodb_lock_waits",
    b"innodb_locks",
    b"innodb_trx",
    b"metadata_lock_info",
    b"processlist",
    b"slow_log",
    b"thread_pool_queues",
];

/// The text with `id` where it asks for its connection's id; `None` when it does not, or may not be
/// changed.
///
/// The function stays where it is kept and run later (routines, views, defaults), and in a statement
/// that compares it with ids of the server's own: with IS_USED_LOCK(), or in a table that lists them.
/// There the server's id is the right one. What is put in has the type that the server's answer has,
/// and columns keep their names.
pub fn identify(text: &[u8], mode: &Mode, id: u32) -> Option<Vec<u8>> {
    let (mut out, mut done) = (Vec::new(), 0);
    for span in statements(text, mode) {
        let Some(from) = begins(span.of(text), mode) else {
            continue;
        };
        let from = span.start as usize + from;
        let Some(new) = in_place(&text[from..span.end as usize], mode, id) else {
            continue;
        };
        out.extend_from_slice(&text[done..from]);
        out.extend_from_slice(&new);
        done = span.end as usize;
    }
    if out.is_empty() {
        return None;
    }
    out.extend_from_slice(&text[done..]);
    Some(out)
}

/// The same of a statement that is run at once and compares with no other ids.
pub(crate) fn in_place(statement: &[u8], mode: &Mode, id: u32) -> Option<Vec<u8>> {
    // MariaDB takes a literal's zeros for its length; MySQL's function has the longest one.
    let function = match mode.dialect {
        Dialect::MariaDb => format!("CAST({id:010} AS UNSIGNED)"),
        Dialect::MySql => format!("({id}|0)"),
    };
    let variable = format!("NULLIF({id}|0,-1)");
    let value = |ask| match ask {
        Ask::ConnectionId => Some(function.clone()),
        Ask::PseudoThreadId => Some(variable.clone()),
        // A client on the server's own machine would go on there, past the router.
        Ask::Socket => Some("''".to_owned()),
        _ => None,
    };
    replace(statement, mode, value)
}

/// Where the part of a statement begins that is run at once; `None` when nothing may be changed.
fn begins(statement: &[u8], mode: &Mode) -> Option<usize> {
    let tokens = tokens(statement, mode);
    let shares = (0..tokens.len()).any(|at| is_server_id(&tokens, at, statement));
    runs_from(&tokens).filter(|_| !shares)
}

/// Where the part of a statement begins that is run at once; `None` when all of it is kept.
pub(crate) fn runs_from(tokens: &[Token]) -> Option<usize> {
    let first = tokens.iter().position(|token| token.kind != Kind::Open)?;
    let kw = |at: usize| tokens.get(at).map_or(Kw::NONE, |token: &Token| token.kw);
    let keeps = [
        Kw::ALTER,
        Kw::BEGIN,
        Kw::IF,
        Kw::CASE,
        Kw::WHILE,
        Kw::LOOP,
        Kw::REPEAT,
        Kw::FOR,
        Kw::DECLARE,
    ];
    let stored = |token: &Token| matches!(token.kw, Kw::CREATE | Kw::ALTER);
    if keeps.contains(&kw(first)) || tokens[first + 1..].iter().any(stored) {
        return None;
    }
    if kw(first) != Kw::CREATE {
        return Some(0);
    }
    let or_replace = if matches!(kw(first + 1), Kw::OR) {
        2
    } else {
        0
    };
    let mut what = first + 1 + or_replace;
    what += usize::from(kw(what) == Kw::TEMPORARY);
    let query = tokens.iter().find(|token| token.kw == Kw::SELECT)?;
    (kw(what) == Kw::TABLE).then_some(query.start as usize)
}

pub(crate) fn tokens(text: &[u8], mode: &Mode) -> Vec<Token> {
    let mut lexer = Lexer::new(text, mode);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        if token.kind == Kind::End {
            return tokens;
        }
        tokens.push(token);
    }
}

/// The name that a token is, without quotes.
pub(crate) fn name_of<'a>(token: &Token, text: &'a [u8]) -> Option<&'a [u8]> {
    match (token.kind, token.bytes(text)) {
        (Kind::Quoted, [_, name @ .., _]) => Some(name),
        (Kind::Word, name) => Some(name),
        _ => None,
    }
}

/// The token stands for ids that are the server's own.
pub(crate) fn is_server_id(tokens: &[Token], at: usize, text: &[u8]) -> bool {
    let Some(name) = name_of(&tokens[at], text) else {
        return false;
    };
    let next = tokens.get(at + 1).map_or(Kind::End, |token| token.kind);
    let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
    (next == Kind::Open && is(b"is_used_lock"))
        || (next == Kind::Dot && (is(b"performance_schema") || is(b"sys")))
        || SERVER_IDS.iter().any(|table| is(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identified(text: &str, dialect: Dialect) -> String {
        let mode = Mode::new(dialect, 101_106);
        let new = identify(text.as_bytes(), &mode, 5);
        new.map_or("-".to_owned(), |new| String::from_utf8(new).unwrap())
    }

    #[test]
    fn the_clients_id_has_the_servers_type() {
        let text = "SELECT CONNECTION_ID() AS id, @@pseudo_thread_id; SELECT 1";
        assert_eq!(
            identified(text, Dialect::MariaDb),
            "SELECT CAST(0000000005 AS UNSIGNED) AS id, \
             NULLIF(5|0,-1) AS `@@pseudo_thread_id`; SELECT 1"
        );
        assert_eq!(
            identified("SELECT 1 ; DO connection_id ( )", Dialect::MySql),
            "SELECT 1 ; DO (5|0)"
        );
        assert_eq!(
            identified(
                "SELECT @@max_allowed_packet, @@GLOBAL.socket",
                Dialect::MySql
            ),
            "SELECT @@max_allowed_packet, '' AS `@@GLOBAL.socket`"
        );
    }

    #[test]
    fn what_is_stored_keeps_the_function() {
        for text in [
            "CREATE VIEW v AS SELECT CONNECTION_ID()",
            "CREATE OR REPLACE DEFINER = u@h VIEW v AS SELECT CONNECTION_ID()",
            "CREATE PROCEDURE p() BEGIN SELECT CONNECTION_ID(); SELECT 1; END",
            "CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET NEW.a = CONNECTION_ID()",
            "CREATE TABLE t (a INT DEFAULT (CONNECTION_ID()))",
            "ALTER TABLE t ADD a INT DEFAULT (CONNECTION_ID())",
            "ALTER EVENT e DO INSERT INTO t VALUES (CONNECTION_ID())",
            "BEGIN NOT ATOMIC CREATE TABLE t (a INT DEFAULT (CONNECTION_ID())); END",
            "SET STATEMENT a = 1 FOR CREATE VIEW v AS SELECT CONNECTION_ID()",
            "PREPARE s FROM 'SELECT CONNECTION_ID()'",
            "SELECT 'CONNECTION_ID()', `CONNECTION_ID()` /* CONNECTION_ID() */",
            "",
        ] {
            assert_eq!(identified(text, Dialect::MySql), "-", "{text}");
        }
        let mixed = "CREATE VIEW v AS SELECT CONNECTION_ID(); SET @a = CONNECTION_ID()";
        assert_eq!(
            identified(mixed, Dialect::MySql),
            "CREATE VIEW v AS SELECT CONNECTION_ID(); SET @a = (5|0)"
        );
        let table = "CREATE OR REPLACE TEMPORARY TABLE t \
                     (a INT DEFAULT (CONNECTION_ID())) SELECT CONNECTION_ID() b";
        assert_eq!(
            identified(table, Dialect::MySql),
            "CREATE OR REPLACE TEMPORARY TABLE t \
             (a INT DEFAULT (CONNECTION_ID())) SELECT (5|0) b"
        );
    }

    #[test]
    fn ids_of_the_server_are_compared_with_its_own() {
        for text in [
            "SELECT IS_USED_LOCK('a') = CONNECTION_ID()",
            "SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_mysql_thread_id = CONNECTION_ID()",
            "SELECT 1 FROM `performance_schema`.threads WHERE PROCESSLIST_ID = CONNECTION_ID()",
        ] {
            assert_eq!(identified(text, Dialect::MySql), "-", "{text}");
        }
        let text = "SELECT COUNT(*) FROM information_schema.tables WHERE CONNECTION_ID() > 0";
        assert_ne!(identified(text, Dialect::MySql), "-");
    }
}
