//! The user variables (`@name`) that a text names, and what it does with them.

use std::borrow::Cow;

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::scan::Span;
use crate::session_state::word::unquote;

/// One variable of a text. It may do both: `@a := @a + 1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserVariable {
    /// In lower case, without `@` and quotes.
    pub name: Box<str>,
    /// Its value from before the text may be asked for.
    pub read: bool,
    /// The text may give it a value.
    pub assigned: bool,
}

/// See [`user_variables`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserVariables {
    /// Each variable once, in the order in which they come up.
    pub list: Vec<UserVariable>,
    /// A name is there whose spelling alone does not tell which variable it is: the servers compare
    /// names by a collation, so letters beyond ASCII, escapes and spaces at the end are not sure.
    pub odd: bool,
}

/// Finds the variables of all statements in `text`. A variable may be said to be read or assigned
/// without being so, and the host of an account may be taken for one; none is missed but those that
/// the text hides (statements in strings, the bodies of routines).
pub fn user_variables(text: &[u8], mode: &Mode) -> UserVariables {
    let mut lexer = Lexer::new(text, mode);
    let mut found = UserVariables::default();
    // The first word of the statement, and whether a list of variables behind INTO goes on.
    let (mut head, mut into) = (Kw::NONE, false);
    let mut starts = true;
    let mut token = lexer.next();
    while token.kind != Kind::End {
        let next = lexer.next();
        match token.kind {
            Kind::Semicolon => starts = true,
            Kind::UserVariable => {
                found.add(&token, &next, text, head, into);
                starts = false;
            }
            Kind::Open => {}
            _ if starts => (head, starts) = (token.kw, false),
            _ => {}
        }
        into = match token.kind {
            Kind::UserVariable | Kind::Comma => into,
            _ => token.kw == Kw::INTO,
        };
        token = next;
    }
    found
}

impl UserVariables {
    fn add(&mut self, token: &Token, next: &Token, text: &[u8], head: Kw, into: bool) {
        let Some(name) = plain_name(&token.bytes(text)[1..]) else {
            self.odd = true;
            return;
        };
        let operator = if next.kind == Kind::Operator {
            next.bytes(text)
        } else {
            b""
        };
        let set = into || operator == b":=" || (head == Kw::SET && operator == b"=");
        // Arguments may be IN or OUT, columns of LOAD DATA are targets or sources.
        let both = matches!(head, Kw::CALL | Kw::LOAD | Kw::GET)
            || matches!(
                head,
                Kw::BEGIN | Kw::IF | Kw::CASE | Kw::WHILE | Kw::LOOP | Kw::REPEAT | Kw::FOR
            );
        let (read, assigned) = (!set || both, set || both);
        match self.list.iter_mut().find(|known| *known.name == *name) {
            Some(known) => {
                known.read |= read;
                known.assigned |= assigned;
            }
            None => self.list.push(UserVariable {
                name: name.into(),
                read,
                assigned,
            }),
        }
    }
}

/// The name in lower case; `None` for one that a spelling does not identify.
fn plain_name(bytes: &[u8]) -> Option<String> {
    let name = match bytes {
        [b'`', inner @ .., b'`'] | [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => bytes,
    };
    let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"`'\"\\".contains(byte);
    if name.is_empty() || name.ends_with(b" ") || !name.iter().all(plain) {
        return None;
    }
    Some(String::from_utf8_lossy(name).to_ascii_lowercase())
}

/// A value that a text spells out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal<'a> {
    /// A number with its sign, NULL, TRUE or FALSE, hexadecimal and binary literals: they mean the
    /// same in every session.
    Plain(&'a [u8]),
    /// The content of a string of ASCII without escapes, in the charset of the connection.
    Text(&'a [u8]),
}

/// The literal that `value` is, if it is one and nothing else.
pub fn literal<'a>(text: &'a [u8], value: Span, mode: &Mode) -> Option<Literal<'a>> {
    let value = value.of(text);
    let (sign, token) = only_token(value, mode)?;
    let word = token.bytes(value);
    let digit = word.first().is_some_and(u8::is_ascii_digit);
    if !sign.is_empty() && (token.kind != Kind::Literal || !digit) {
        return None;
    }
    match literal_token(word, token.kind) {
        // With its sign.
        Some(Literal::Plain(_)) if token.kind == Kind::Literal => {
            Some(Literal::Plain(value.trim_ascii()))
        }
        other => other,
    }
}

/// The same for one token.
pub(crate) fn literal_token(word: &[u8], kind: Kind) -> Option<Literal<'_>> {
    match (kind, word) {
        (Kind::Word, _) => {
            let known = [&b"null"[..], b"true", b"false"];
            let known = known.iter().any(|known| word.eq_ignore_ascii_case(known));
            known.then_some(Literal::Plain(word))
        }
        (Kind::Literal, [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"']) => {
            let plain = |byte: &u8| matches!(byte, b' '..=b'~') && !b"'\"\\".contains(byte);
            inner.iter().all(plain).then_some(Literal::Text(inner))
        }
        (Kind::Literal, [b'n' | b'N', ..]) => None,
        (Kind::Literal, _) => Some(Literal::Plain(word)),
        _ => None,
    }
}

/// The one token that `value` is, and the sign that stands in front of it as a token of its own.
fn only_token<'a>(value: &'a [u8], mode: &Mode) -> Option<(&'a [u8], Token)> {
    let mut lexer = Lexer::new(value, mode);
    let first = lexer.next();
    let signed = first.kind == Kind::Operator && matches!(first.bytes(value), b"-" | b"+");
    let (sign, token) = match signed {
        true => (first.bytes(value), lexer.next()),
        false => (&b""[..], first),
    };
    (lexer.next().kind == Kind::End).then_some((sign, token))
}

/// What `value` sets a variable to, without asking a server: the content of one string, one word (`strong`,
/// which servers take for a string, too), or one decimal number with its sign. `None` for everything else:
/// expressions, variables, marks, strings that follow each other, and bytes (`0x41`, `X'41'`, `B'1'`), of
/// which only a server knows what they are here.
pub fn written<'a>(text: &'a [u8], value: Span, mode: &Mode) -> Option<Cow<'a, [u8]>> {
    let value = value.of(text);
    let (apart, token) = only_token(value, mode)?;
    let bytes = token.bytes(value);
    let (sign, digits) = match bytes {
        [b'-' | b'+', digits @ ..] if apart.is_empty() => (&bytes[..1], digits),
        _ => (apart, bytes),
    };
    let decimal = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let number = digits.iter().all(decimal) && digits.iter().any(u8::is_ascii_digit);
    match (token.kind, bytes) {
        (Kind::Literal, _) if number => match sign {
            b"-" => Some(Cow::Owned([sign, digits].concat())),
            _ => Some(Cow::Borrowed(digits)),
        },
        _ if !apart.is_empty() => None,
        (Kind::Word | Kind::Quoted, _) => Some(unquote(bytes, mode)),
        (Kind::Literal, [b'\'' | b'"', ..] | [b'n' | b'N', b'\'', ..]) => {
            Some(unquote(bytes, mode))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn read(text: &str) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let found = user_variables(text.as_bytes(), &mode);
        let mut said: Vec<String> = Vec::new();
        for variable in found.list {
            let read = if variable.read { "r" } else { "" };
            let assigned = if variable.assigned { "w" } else { "" };
            said.push(format!("{} {read}{assigned}", variable.name));
        }
        if found.odd {
            said.push("odd".to_owned());
        }
        said.join(", ")
    }

    #[test]
    fn names_in_every_spelling() {
        assert_eq!(read("SELECT @A, @`a`, @'a', @\"A\""), "a r");
        assert_eq!(read("SELECT @a.b$c, @`x y`"), "a.b$c r, x y r");
        assert_eq!(read("SELECT @é"), "odd");
        assert_eq!(read("SELECT @'a\\'b', @`a `"), "odd");
        assert_eq!(read("SELECT '@a', `@b`, @@c /* @d */ -- @e"), "");
    }

    #[test]
    fn what_is_assigned_and_what_is_read() {
        assert_eq!(read("SET @a = 1, @b := @a + @c"), "a rw, b w, c r");
        assert_eq!(
            read("/*!40101 SET @OLD_SQL_MODE=@@SQL_MODE, SQL_MODE='x' */"),
            "old_sql_mode w"
        );
        assert_eq!(read("SELECT @n := @n + 1, @m = 2"), "n rw, m r");
        assert_eq!(
            read("SELECT a, @c INTO @a, @b FROM t WHERE x = @d"),
            "c r, a w, b w, d r"
        );
        assert_eq!(read("CALL p(@a, 1, @b)"), "a rw, b rw");
        assert_eq!(read("GET DIAGNOSTICS @n = NUMBER"), "n rw");
        assert_eq!(
            read("LOAD DATA INFILE 'x' INTO TABLE t (a, @v) SET b = @v"),
            "v rw"
        );
        assert_eq!(read("INSERT INTO t VALUES (@a)"), "a r");
        assert_eq!(read("EXECUTE s USING @a"), "a r");
        assert_eq!(read("SELECT 1; SET @a = @b"), "a w, b r");
        assert_eq!(read("SELECT @a = 1; SELECT (@b := 2)"), "a r, b w");
    }

    #[test]
    fn values_that_a_text_spells_out() {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let one = |text: &'static str| {
            let span = Span {
                start: 0,
                end: text.len() as u32,
            };
            literal(text.as_bytes(), span, &mode)
        };
        for text in [
            "1", "-5", "- 5", "1.50", "1e3", ".5", "NULL", "true", "0xFF", "x'41'",
        ] {
            assert_eq!(one(text), Some(Literal::Plain(text.as_bytes())), "{text}");
        }
        assert_eq!(one("'abc'"), Some(Literal::Text(b"abc")));
        assert_eq!(one("''"), Some(Literal::Text(b"")));
        for text in [
            "'a\\'b'", "'a''b'", "'é'", "N'a'", "'a' 'b'", "1+1", "@a", "-'5'", "a", "?",
        ] {
            assert_eq!(one(text), None, "{text}");
        }
    }

    #[test]
    fn values_that_variables_are_set_to() {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let one = |text: &'static str| {
            let span = Span::new(0, text.len());
            let value = written(text.as_bytes(), span, &mode)?;
            Some(String::from_utf8(value.into_owned()).expect("UTF-8"))
        };
        for (text, value) in [
            ("'abc'", "abc"),
            (" 'abc' ", "abc"),
            ("''", ""),
            ("'O''Brien'", "O'Brien"),
            (r"'O\'Brien'", "O'Brien"),
            (r"'a\\b'", r"a\b"),
            ("\"O'Brien\"", "O'Brien"),
            ("'Zürich'", "Zürich"),
            ("N'abc'", "abc"),
            ("strong", "strong"),
            ("`strong`", "strong"),
            ("42", "42"),
            ("-42", "-42"),
            ("- 42", "-42"),
            ("+42", "42"),
            ("1.50", "1.50"),
            ("'0x41'", "0x41"),
        ] {
            assert_eq!(one(text).as_deref(), Some(value), "{text}");
        }
        for text in [
            "0x41",
            "x'41'",
            "b'1'",
            "1e3",
            "1+1",
            "@a",
            "@@b",
            "?",
            "'a' 'b'",
            "_latin1'a'",
            "-'5'",
            "-a",
            "CONCAT('a', 'b')",
            "('a')",
            "a.b",
            "",
            "'a' COLLATE utf8mb4_bin",
            "(SELECT 1)",
        ] {
            assert_eq!(one(text), None, "{text}");
        }
    }
}
