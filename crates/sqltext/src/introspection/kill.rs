//! KILL in all its forms, and the statements that list whom it could be for.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::{Dialect, Mode};
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;
use crate::session_state::word::{is_end, unquote};

/// A KILL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Only the statement that runs, not the connection.
    pub query: bool,
    /// Not where that could leave a table damaged (MariaDB).
    pub soft: bool,
    pub victim: Victim,
    /// Where the statement ends: at its semicolon, or with the text.
    pub end: usize,
}

/// Whom a KILL is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Victim {
    /// The connection with this id.
    Id(u64),
    /// An expression whose value is the id; an empty one is an error of the client's.
    Expression(Span),
    /// MariaDB's KILL USER: all connections of the user; `host` is the pattern of an account.
    User { user: Vec<u8>, host: Vec<u8> },
    /// MariaDB's KILL USER CURRENT_USER.
    CurrentUser,
    /// MariaDB's KILL QUERY ID: the statement with the server's own number.
    Statement,
}

/// Reads a KILL; `None` for another statement.
pub fn kill(text: &[u8], mode: &Mode) -> Option<Kill> {
    let mut lexer = Lexer::new(text, mode);
    if lexer.next().kw != Kw::KILL {
        return None;
    }
    let mariadb = mode.dialect == Dialect::MariaDb;
    let (mut query, mut soft) = (false, false);
    let mut token = lexer.next();
    if mariadb && matches!(token.kw, Kw::HARD | Kw::SOFT) {
        soft = token.kw == Kw::SOFT;
        token = lexer.next();
    }
    if matches!(token.kw, Kw::CONNECTION | Kw::QUERY) {
        query = token.kw == Kw::QUERY;
        token = lexer.next();
    }
    let victim = match token.kw {
        Kw::ID if mariadb && query => Victim::Statement,
        Kw::USER if mariadb => user(text, mode, &mut lexer),
        _ => id(text, &token, &mut lexer),
    };
    let mut last = Lexer::new(text, mode);
    let mut token = last.next();
    while !is_end(&token) {
        token = last.next();
    }
    #[rustfmt::skip]
    let kill = Kill { query, soft, victim, end: token.start as usize };
    Some(kill)
}

fn id(text: &[u8], first: &Token, lexer: &mut Lexer<'_>) -> Victim {
    let number = str::from_utf8(first.bytes(text)).map(str::parse);
    let mut last = *first;
    let mut next = *first;
    while !is_end(&next) {
        last = next;
        next = lexer.next();
    }
    match number {
        Ok(Ok(id)) if last.start == first.start => Victim::Id(id),
        _ if is_end(first) => Victim::Expression(Span::default()),
        _ => Victim::Expression(Span {
            start: first.start,
            end: last.end,
        }),
    }
}

fn user(text: &[u8], mode: &Mode, lexer: &mut Lexer<'_>) -> Victim {
    let name = lexer.next();
    let host = lexer.next();
    if name.kw == Kw::CURRENT_USER {
        return Victim::CurrentUser;
    }
    let named = matches!(name.kind, Kind::Word | Kind::Quoted | Kind::Literal);
    let host = match host.kind {
        Kind::UserVariable => unquote(&host.bytes(text)[1..], mode).into_owned(),
        _ => b"%".to_vec(),
    };
    match named {
        true => Victim::User {
            user: unquote(name.bytes(text), mode).into_owned(),
            host,
        },
        false => Victim::Expression(Span::default()),
    }
}

/// Whether `SHOW [FULL] PROCESSLIST` is FULL; `None` for another statement.
pub fn processlist(text: &[u8], mode: &Mode) -> Option<bool> {
    let mut lexer = Lexer::new(text, mode);
    let mut words = Vec::with_capacity(WORDS_MAX);
    let mut token = lexer.next();
    while !is_end(&token) && words.len() < WORDS_MAX {
        words.push(token.bytes(text).to_ascii_lowercase());
        token = lexer.next();
    }
    match words.iter().map(|word| &word[..]).collect::<Vec<_>>()[..] {
        [b"show", b"processlist"] => Some(false),
        [b"show", b"full", b"processlist"] => Some(true),
        _ => None,
    }
}

/// One more than SHOW FULL PROCESSLIST has.
const WORDS_MAX: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    const MARIADB: Mode = Mode::new(Dialect::MariaDb, 101_106);
    const MYSQL: Mode = Mode::new(Dialect::MySql, 80_012);

    fn victim(text: &str, mode: &Mode) -> Option<Victim> {
        kill(text.as_bytes(), mode).map(|kill| kill.victim)
    }

    fn expression(text: &str, mode: &Mode) -> String {
        match victim(text, mode) {
            Some(Victim::Expression(span)) => {
                String::from_utf8_lossy(span.of(text.as_bytes())).into_owned()
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn ids_and_their_options() {
        let plain = kill(b"/* a */ kill hard connection 7;", &MARIADB);
        #[rustfmt::skip]
        let wanted = Kill { query: false, soft: false, victim: Victim::Id(7), end: 30 };
        assert_eq!(plain, Some(wanted));
        let soft = kill(b"KILL SOFT QUERY 18446744073709551615", &MARIADB);
        #[rustfmt::skip]
        let wanted = Kill { query: true, soft: true, victim: Victim::Id(u64::MAX), end: 36 };
        assert_eq!(soft, Some(wanted));
        assert_eq!(victim("SELECT 1", &MYSQL), None);
        assert_eq!(victim("KILL QUERY 8", &MYSQL), Some(Victim::Id(8)));
    }

    #[test]
    fn expressions_end_with_their_statement() {
        assert_eq!(expression("KILL 1+1 ;", &MYSQL), "1+1");
        assert_eq!(expression("KILL QUERY @a", &MARIADB), "@a");
        assert_eq!(expression("KILL CONNECTION ?", &MYSQL), "?");
        assert_eq!(expression("KILL", &MYSQL), "");
        assert_eq!(
            expression("KILL 18446744073709551616", &MYSQL),
            "18446744073709551616"
        );
        // MySQL knows none of these words, and will say so.
        assert_eq!(expression("KILL SOFT 5", &MYSQL), "SOFT 5");
        assert_eq!(expression("KILL USER a", &MYSQL), "USER a");
    }

    #[test]
    fn mariadb_kills_users_and_statements() {
        let user = |user: &str, host: &str| {
            let (user, host) = (user.into(), host.into());
            Some(Victim::User { user, host })
        };
        assert_eq!(victim("KILL USER app", &MARIADB), user("app", "%"));
        assert_eq!(
            victim("KILL QUERY USER 'a''b'@`10.%`", &MARIADB),
            user("a'b", "10.%")
        );
        assert_eq!(
            victim("KILL USER a@localhost", &MARIADB),
            user("a", "localhost")
        );
        assert_eq!(
            victim("KILL USER CURRENT_USER()", &MARIADB),
            Some(Victim::CurrentUser)
        );
        assert_eq!(victim("KILL QUERY ID 5", &MARIADB), Some(Victim::Statement));
    }

    #[test]
    fn lists_of_processes() {
        assert_eq!(
            processlist(b"show /* a */ processlist;", &MYSQL),
            Some(false)
        );
        assert_eq!(processlist(b"SHOW FULL PROCESSLIST", &MYSQL), Some(true));
        assert_eq!(processlist(b"SHOW FULL PROCESSLIST x", &MYSQL), None);
        assert_eq!(processlist(b"SHOW TABLES", &MYSQL), None);
    }
}
