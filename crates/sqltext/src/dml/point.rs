//! SELECTs of one row by its key: columns of one table and `WHERE name = 7`, `= 'text'` or `= ?`, and
//! nothing else.

use std::borrow::Cow;

use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::session_state::word::unquote;

/// What stands behind the `=`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PointKey<'t> {
    /// Digits as a server writes them.
    Number(&'t [u8]),
    /// What a string in quotes says.
    Text(Cow<'t, [u8]>),
    /// `?`
    Mark,
}

/// Which row is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point<'t> {
    /// The session's where it is not named.
    pub database: Option<Vec<u8>>,
    pub table: Vec<u8>,
    pub column: Vec<u8>,
    pub key: PointKey<'t>,
}

/// Words that look like a column and are a function.
const FUNCTIONS: [&[u8]; 12] = [
    b"current_date",
    b"current_role",
    b"current_time",
    b"current_timestamp",
    b"current_user",
    b"localtime",
    b"localtimestamp",
    b"rownum",
    b"sysdate",
    b"utc_date",
    b"utc_time",
    b"utc_timestamp",
];

/// Reads a SELECT of one row; `None` for any other statement.
pub fn point<'t>(text: &'t [u8], mode: &Mode) -> Option<Point<'t>> {
    let mut lexer = Lexer::new(text, mode);
    if !is_word(&lexer.next(), text, b"select") {
        return None;
    }
    let mut token = lexer.next();
    loop {
        if token.bytes(text) == b"*" {
            token = lexer.next();
        } else {
            (_, token) = names(text, &mut lexer, token)?;
        }
        if token.kind != Kind::Comma {
            break;
        }
        token = lexer.next();
    }
    if !is_word(&token, text, b"from") {
        return None;
    }
    let first = lexer.next();
    let (mut table, token) = names(text, &mut lexer, first)?;
    if !is_word(&token, text, b"where") {
        return None;
    }
    let first = lexer.next();
    let (mut column, token) = names(text, &mut lexer, first)?;
    if token.bytes(text) != b"=" {
        return None;
    }
    let value = lexer.next();
    let key = key(value.kind, value.bytes(text), mode)?;
    let mut last = lexer.next();
    if last.kind == Kind::Semicolon {
        last = lexer.next();
    }
    // A name in front of the column's is the table's, or the server says that it is wrong.
    if last.kind != Kind::End || lexer.doubtful() || table.len() > 2 {
        return None;
    }
    Some(Point {
        table: table.pop()?,
        database: table.pop(),
        column: column.pop()?,
        key,
    })
}

fn key<'t>(kind: Kind, bytes: &'t [u8], mode: &Mode) -> Option<PointKey<'t>> {
    match (kind, bytes.first()?) {
        (Kind::Placeholder, _) => Some(PointKey::Mark),
        (Kind::Literal, b'\'' | b'"') => Some(PointKey::Text(unquote(bytes, mode))),
        (Kind::Literal, _) => is_written_so(bytes).then_some(PointKey::Number(bytes)),
        _ => None,
    }
}

/// Digits as a server writes a number of 64 bits.
pub fn is_written_so(digits: &[u8]) -> bool {
    let plain = digits == b"0" || (digits.first() != Some(&b'0') && digits.len() <= 20);
    plain && !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}

fn is_word(token: &Token, text: &[u8], word: &[u8]) -> bool {
    token.kind == Kind::Word && token.bytes(text).eq_ignore_ascii_case(word)
}

/// One to three names with dots between them, and the token behind them.
fn names(text: &[u8], lexer: &mut Lexer<'_>, first: Token) -> Option<(Vec<Vec<u8>>, Token)> {
    let mode = *lexer.mode();
    let mut all = Vec::new();
    let mut token = first;
    loop {
        let bytes = token.bytes(text);
        let name = match token.kind {
            Kind::Quoted => unquote(bytes, &mode).into_owned(),
            Kind::Word => bytes.to_vec(),
            _ if bytes == b"*" && !all.is_empty() => b"*".to_vec(),
            _ => return None,
        };
        let function = FUNCTIONS.iter().any(|word| name.eq_ignore_ascii_case(word));
        if token.kind == Kind::Word && function {
            return None;
        }
        all.push(name);
        token = lexer.next();
        if token.kind != Kind::Dot || all.len() == 3 {
            return Some((all, token));
        }
        token = lexer.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn read(text: &str) -> Option<String> {
        let point = point(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100))?;
        let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let database = point.database.as_deref().map_or("-".to_owned(), shown);
        let (table, column) = (shown(&point.table), shown(&point.column));
        let key = match &point.key {
            PointKey::Number(digits) => shown(digits),
            PointKey::Text(text) => format!("'{}'", shown(text)),
            PointKey::Mark => "?".to_owned(),
        };
        Some(format!("{database} {table} {column} {key}"))
    }

    #[test]
    fn rows_by_a_key_are_recognised() {
        for (text, expected) in [
            ("SELECT * FROM t WHERE id = 7", "- t id 7"),
            ("select a, `b`, t.c from d.t where t.id=0;", "d t id 0"),
            (
                "SELECT t.* FROM `d`.`t` WHERE `id` = 18446744073709551615",
                "d t id 18446744073709551615",
            ),
            ("SELECT a FROM t WHERE id = ?", "- t id ?"),
            ("SELECT a FROM t WHERE id = '7'", "- t id '7'"),
            ("SELECT a FROM t WHERE k = \"it''s\";", "- t k 'it''s'"),
            (r"SELECT a FROM t WHERE k = 'it\'s '", "- t k 'it's '"),
        ] {
            assert_eq!(read(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn everything_else_is_not() {
        for text in [
            "SELECT a FROM t WHERE id = 07",
            "SELECT a FROM t WHERE id = -7",
            "SELECT a FROM t WHERE id = 0x37",
            "SELECT a FROM t WHERE id = X'37'",
            "SELECT a FROM t WHERE id = N'a'",
            "SELECT a FROM t WHERE id = 'a' 'b'",
            "SELECT a FROM t WHERE id = _utf8mb4'a'",
            "SELECT a FROM t WHERE id = 'a' COLLATE utf8mb4_bin",
            "SELECT a FROM t WHERE id = BINARY 'a'",
            "SELECT a FROM t WHERE id = ? AND b = 1",
            "SELECT a FROM t WHERE id = 7.0",
            "SELECT a FROM t WHERE id = 7 OR 1",
            "SELECT a FROM t WHERE id = 7 FOR UPDATE",
            "SELECT a FROM t WHERE id > 7",
            "SELECT a FROM t, u WHERE id = 7",
            "SELECT a FROM t x WHERE id = 7",
            "SELECT a b FROM t WHERE id = 7",
            "SELECT NOW() FROM t WHERE id = 7",
            "SELECT CURRENT_TIMESTAMP FROM t WHERE id = 7",
            "SELECT @a FROM t WHERE id = 7",
            "SELECT DISTINCT a FROM t WHERE id = 7",
            "SELECT 1 FROM t WHERE id = 7",
            "SELECT a FROM t WHERE id = 7; SELECT 2",
            "UPDATE t SET a = 1 WHERE id = 7",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
