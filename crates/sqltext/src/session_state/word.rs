//! Closer looks at single statements, off the hot path: USE, SET TRANSACTION, HEDDLE.

use std::borrow::Cow;

use crate::classify::statement::Statement;
use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Past, Token};
use crate::scan::Span;

/// The database that `USE name` names, without quotes.
pub fn use_database<'a>(text: &'a [u8], mode: &Mode) -> Option<Cow<'a, [u8]>> {
    let mut lexer = Lexer::new(text, mode);
    if lexer.next().kw != Kw::USE {
        return None;
    }
    let name = lexer.next();
    let named = matches!(name.kind, Kind::Word | Kind::Quoted) && is_end(&lexer.next());
    named.then(|| unquote(name.bytes(text), mode))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

impl Isolation {
    /// As SET TRANSACTION wants it.
    pub fn text(self) -> &'static str {
        match self {
            Isolation::ReadUncommitted => "READ UNCOMMITTED",
            Isolation::ReadCommitted => "READ COMMITTED",
            Isolation::RepeatableRead => "REPEATABLE READ",
            Isolation::Serializable => "SERIALIZABLE",
        }
    }
}

/// What SET TRANSACTION sets; None stays as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Characteristics {
    pub isolation: Option<Isolation>,
    pub read_only: Option<bool>,
}

/// Reads `SET [SESSION | LOCAL | GLOBAL] TRANSACTION …`. None: another statement, or a word in it
/// that is not understood.
pub fn transaction(text: &[u8], mode: &Mode) -> Option<Characteristics> {
    let mut words = Words::new(text, mode);
    if !words.eat("SET") {
        return None;
    }
    let _ = words.eat("SESSION") || words.eat("LOCAL") || words.eat("GLOBAL");
    if !words.eat("TRANSACTION") {
        return None;
    }
    let mut set = Characteristics::default();
    loop {
        if words.eat("ISOLATION") && words.eat("LEVEL") {
            set.isolation = Some(isolation(&mut words)?);
        } else if words.eat("READ") {
            let only = words.eat("ONLY");
            if !only && !words.eat("WRITE") {
                return None;
            }
            set.read_only = Some(only);
        } else {
            return None;
        }
        if words.token.kind != Kind::Comma {
            return is_end(&words.token).then_some(set);
        }
        words.step();
    }
}

fn isolation(words: &mut Words<'_>) -> Option<Isolation> {
    if words.eat("SERIALIZABLE") {
        Some(Isolation::Serializable)
    } else if words.eat("REPEATABLE") && words.eat("READ") {
        Some(Isolation::RepeatableRead)
    } else if words.eat("READ") {
        let committed = words.eat("COMMITTED");
        let uncommitted = !committed && words.eat("UNCOMMITTED");
        match (committed, uncommitted) {
            (true, _) => Some(Isolation::ReadCommitted),
            (_, true) => Some(Isolation::ReadUncommitted),
            _ => None,
        }
    } else {
        None
    }
}

/// A lexer with one token of foresight.
struct Words<'a> {
    text: &'a [u8],
    lexer: Lexer<'a>,
    token: Token,
}

impl<'a> Words<'a> {
    fn new(text: &'a [u8], mode: &Mode) -> Words<'a> {
        let mut lexer = Lexer::new(text, mode);
        let token = lexer.next();
        Words { text, lexer, token }
    }

    fn step(&mut self) {
        self.token = self.lexer.next();
    }

    /// Steps over `word` if it comes next.
    fn eat(&mut self, word: &str) -> bool {
        let bytes = self.token.bytes(self.text);
        let found = self.token.kind == Kind::Word && bytes.eq_ignore_ascii_case(word.as_bytes());
        if found {
            self.step();
        }
        found
    }
}

pub(crate) fn is_end(token: &Token) -> bool {
    matches!(token.kind, Kind::End | Kind::Semicolon)
}

/// The statements of a text, without the semicolons between them and the white space around them.
/// Comments stay with the statement behind them. Empty statements are left out. An executable comment
/// that holds a semicolon is cut in two.
pub fn statements(text: &[u8], mode: &Mode) -> Vec<Span> {
    let mut lexer = Lexer::new(text, mode);
    let mut spans = Vec::new();
    let mut statement = Statement::new();
    let mut past = Past::new();
    let mut start = 0;
    loop {
        let token = lexer.next();
        let ends = match token.kind {
            Kind::End => true,
            Kind::Semicolon => !statement.has_body(),
            _ => false,
        };
        if !ends {
            statement.see(&token, &past, text);
            past.push(&token);
            continue;
        }
        let end = if token.kind == Kind::End {
            text.len()
        } else {
            token.start as usize
        };
        if !statement.is_empty() {
            let whole = &text[start..end];
            let from = start + (whole.len() - whole.trim_ascii_start().len());
            spans.push(Span::new(from, start + whole.trim_ascii_end().len()));
        }
        if token.kind == Kind::End {
            return spans;
        }
        start = token.end as usize;
        past.push(&token);
        statement = Statement::new();
    }
}

/// The words behind HEDDLE, divided by white space. A word in quotes may hold spaces and loses its
/// quotes. Leading comments and a trailing semicolon do not count. Empty when the text is no
/// `HEDDLE …`.
pub fn heddle_words(text: &[u8], mode: &Mode) -> Vec<String> {
    let mut words = Vec::new();
    let mut at = match behind_heddle(text, mode) {
        Some(at) => at,
        None => return words,
    };
    while let Some(word) = next_word(text, at, mode) {
        let bytes = unquote(word.of(text), mode);
        words.push(String::from_utf8_lossy(&bytes).into_owned());
        at = word.end as usize;
    }
    words
}

/// What stands behind HEDDLE and its first `count` words, as it is written: the statement of
/// `HEDDLE EXPLAIN statement` with `count` 1.
pub fn heddle_rest<'a>(text: &'a [u8], mode: &Mode, count: usize) -> &'a [u8] {
    let Some(mut at) = behind_heddle(text, mode) else {
        return b"";
    };
    for _ in 0..count {
        match next_word(text, at, mode) {
            Some(word) => at = word.end as usize,
            None => return b"",
        }
    }
    text[at..].trim_ascii()
}

fn behind_heddle(text: &[u8], mode: &Mode) -> Option<usize> {
    let first = Lexer::new(text, mode).next();
    (first.kw == Kw::HEDDLE).then_some(first.end as usize)
}

fn next_word(text: &[u8], mut at: usize, mode: &Mode) -> Option<Span> {
    while text.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    let first = *text.get(at)?;
    let end = if matches!(first, b'\'' | b'"' | b'`') {
        let escapes = first != b'`' && !mode.no_backslash_escapes;
        crate::lexer::byte::quoted(text, at, escapes, mode.multibyte).end
    } else {
        let rest = &text[at..];
        let length = rest
            .iter()
            .position(|b| b.is_ascii_whitespace() || *b == b';');
        at + length.unwrap_or(rest.len())
    };
    (end > at).then(|| Span::new(at, end))
}

/// The content of a string literal or a name in quotes: doubled quotes and escapes are resolved, an N
/// before the quote is dropped. Everything else comes back as it is.
pub fn unquote<'a>(token: &'a [u8], mode: &Mode) -> Cow<'a, [u8]> {
    let body = match token {
        [b'n' | b'N', rest @ ..] if rest.first() == Some(&b'\'') => rest,
        _ => token,
    };
    let (quote, inner) = match body {
        [a @ (b'\'' | b'"' | b'`'), inner @ .., b] if a == b => (*a, inner),
        _ => return Cow::Borrowed(token),
    };
    let name = quote == b'`' || quote == b'"' && mode.ansi_quotes;
    let escapes = !name && !mode.no_backslash_escapes;
    if !inner
        .iter()
        .any(|byte| *byte == quote || escapes && *byte == b'\\')
    {
        return Cow::Borrowed(inner);
    }
    let mut out = Vec::with_capacity(inner.len());
    let mut at = 0;
    while at < inner.len() {
        let bytes = mode.multibyte.char_bytes(inner, at);
        let byte = inner[at];
        if bytes > 1 {
            out.extend_from_slice(&inner[at..at + bytes]);
        } else if byte == quote {
            out.push(quote);
            at += 1;
        } else if escapes && byte == b'\\' && at + 1 < inner.len() {
            escaped(inner[at + 1], &mut out);
            at += 1;
        } else {
            out.push(byte);
        }
        at += bytes;
    }
    Cow::Owned(out)
}

/// What a backslash and `byte` stand for. `\%` and `\_` keep the backslash, for LIKE.
fn escaped(byte: u8, out: &mut Vec<u8>) {
    match byte {
        b'0' => out.push(0),
        b'b' => out.push(8),
        b'n' => out.push(b'\n'),
        b'r' => out.push(b'\r'),
        b't' => out.push(b'\t'),
        b'Z' => out.push(26),
        b'%' | b'_' => out.extend_from_slice(&[b'\\', byte]),
        _ => out.push(byte),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::{Dialect, Multibyte};

    const MODE: Mode = Mode::new(Dialect::MariaDb, 101_106);

    #[test]
    fn use_names_a_database() {
        let database = |text: &str| {
            use_database(text.as_bytes(), &MODE).map(|n| String::from_utf8(n.to_vec()).unwrap())
        };
        assert_eq!(database("USE db1"), Some("db1".into()));
        assert_eq!(database("use `a``b`;"), Some("a`b".into()));
        assert_eq!(database("USE 1a"), Some("1a".into()));
        assert_eq!(database("USE"), None);
        assert_eq!(database("USE a b"), None);
        assert_eq!(database("SELECT 1"), None);
    }

    #[test]
    fn transaction_characteristics() {
        let read = |text: &str| transaction(text.as_bytes(), &MODE);
        let set =
            read("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY").unwrap();
        assert_eq!(set.isolation, Some(Isolation::ReadCommitted));
        assert_eq!(set.read_only, Some(true));
        let set = read("set transaction read write;").unwrap();
        assert_eq!((set.isolation, set.read_only), (None, Some(false)));
        for level in ["READ UNCOMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
            let set = read(&format!("SET TRANSACTION ISOLATION LEVEL {level}")).unwrap();
            assert_eq!(set.isolation.map(Isolation::text), Some(level));
        }
        assert_eq!(read("SET TRANSACTION READ"), None);
        assert_eq!(read("SET TRANSACTION"), None);
        assert_eq!(read("SET a = 1"), None);
    }

    #[test]
    fn texts_are_split_at_their_own_semicolons() {
        let split = |text: &str| -> Vec<String> {
            let spans = statements(text.as_bytes(), &MODE);
            let piece = |s: &Span| String::from_utf8(s.of(text.as_bytes()).to_vec()).unwrap();
            spans.iter().map(piece).collect()
        };
        assert_eq!(
            split(" SELECT ';' ;; /* a;b */ DO 1 ; "),
            ["SELECT ';'", "/* a;b */ DO 1"]
        );
        assert_eq!(split("-- nothing"), [""; 0]);
        let body = "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END";
        assert_eq!(split(body), [body]);
        assert_eq!(split("BEGIN; COMMIT"), ["BEGIN", "COMMIT"]);
    }

    #[test]
    fn heddle_words_keep_what_quotes_hold() {
        let words = |text: &str| heddle_words(text.as_bytes(), &MODE);
        assert_eq!(words("HEDDLE GROUP CREATE g1"), ["GROUP", "CREATE", "g1"]);
        assert_eq!(
            words("/* x */ heddle server add g1 127.0.0.1:3306 --weight=2;"),
            ["server", "add", "g1", "127.0.0.1:3306", "--weight=2"]
        );
        assert_eq!(
            words("HEDDLE group create 'a b' \"c\" `d` ''"),
            ["group", "create", "a b", "c", "d", ""]
        );
        assert_eq!(words("SELECT 1"), [""; 0]);
        let text = b"HEDDLE EXPLAIN SELECT * FROM t";
        assert_eq!(heddle_rest(text, &MODE, 1), b"SELECT * FROM t");
        assert_eq!(heddle_rest(text, &MODE, 9), b"");
    }

    #[test]
    fn unquoting_resolves_what_the_mode_allows() {
        let plain = |token: &str, mode: &Mode| {
            String::from_utf8(unquote(token.as_bytes(), mode).to_vec()).unwrap()
        };
        let mut strict = MODE;
        strict.no_backslash_escapes = true;
        assert_eq!(plain("'it''s'", &MODE), "it's");
        assert_eq!(plain(r"'a\n\'\\\%'", &MODE), "a\n'\\\\%");
        assert_eq!(plain(r"'a\n'", &strict), r"a\n");
        assert_eq!(plain("N'x'", &MODE), "x");
        assert_eq!(plain(r"`a\``", &MODE), r"a\`");
        assert_eq!(plain("`a``b`", &MODE), "a`b");
        assert_eq!(plain("42", &MODE), "42");
        assert_eq!(plain("'", &MODE), "'");
        let mut gbk = MODE;
        gbk.multibyte = Multibyte::Gbk;
        assert_eq!(&*unquote(b"'\x81\x5cn'", &gbk), b"\x81\x5cn");
    }
}
