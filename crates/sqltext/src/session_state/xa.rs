//! XA statements.

use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};
use crate::session_state::word::unquote;

/// An XA statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Xa {
    /// START and BEGIN.
    Start(XaName, XaWay),
    End(XaName, XaWay),
    Prepare(XaName),
    Commit(XaName, XaWay),
    Rollback(XaName),
    Recover,
}

/// The words behind a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XaWay {
    Plain,
    /// START … JOIN and END … SUSPEND, which no server carries out.
    Unsupported,
    /// START … RESUME.
    Resume,
    /// COMMIT … ONE PHASE.
    OnePhase,
}

/// A name as it is written; its parts may be longer than servers allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XaName {
    pub gtrid: Vec<u8>,
    pub bqual: Vec<u8>,
    pub format: Option<u32>,
}

/// Reads one statement; `None` for another one, and for what a server would refuse as bad syntax.
pub fn xa(text: &[u8], mode: &Mode) -> Option<Xa> {
    let tokens = Lexer::new(text, mode).statement()?;
    let mut reader = Reader {
        text,
        mode,
        tokens: &tokens,
    };
    reader.is("xa").then_some(())?;
    let verb = reader.word()?;
    if verb == "recover" {
        return Some(Xa::Recover);
    }
    let name = reader.name()?;
    let rest: Vec<String> = reader.rest()?;
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    Some(match (verb.as_str(), &rest[..]) {
        ("start" | "begin", []) => Xa::Start(name, XaWay::Plain),
        ("start" | "begin", ["join"]) => Xa::Start(name, XaWay::Unsupported),
        ("start" | "begin", ["resume"]) => Xa::Start(name, XaWay::Resume),
        ("end", []) => Xa::End(name, XaWay::Plain),
        ("end", ["suspend"] | ["suspend", "for", "migrate"]) => Xa::End(name, XaWay::Unsupported),
        ("prepare", []) => Xa::Prepare(name),
        ("commit", []) => Xa::Commit(name, XaWay::Plain),
        ("commit", ["one", "phase"]) => Xa::Commit(name, XaWay::OnePhase),
        ("rollback", []) => Xa::Rollback(name),
        _ => return None,
    })
}

struct Reader<'a> {
    text: &'a [u8],
    mode: &'a Mode,
    tokens: &'a [Token],
}

impl Reader<'_> {
    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<String> {
        let token = self.next()?;
        let word = String::from_utf8_lossy(token.bytes(self.text)).to_ascii_lowercase();
        (token.kind == Kind::Word).then_some(word)
    }

    fn is(&mut self, word: &str) -> bool {
        self.word().is_some_and(|it| it == word)
    }

    fn rest(&mut self) -> Option<Vec<String>> {
        let mut words = Vec::new();
        while !self.tokens.is_empty() {
            words.push(self.word()?);
        }
        Some(words)
    }

    /// `'gtrid'[, 'bqual'[, formatID]]`.
    fn name(&mut self) -> Option<XaName> {
        let gtrid = self.part()?;
        let bqual = match self.comma() {
            true => Some(self.part()?),
            false => None,
        };
        let format = match bqual.is_some() && self.comma() {
            true => Some(self.number()?),
            false => None,
        };
        Some(XaName {
            gtrid,
            bqual: bqual.unwrap_or_default(),
            format,
        })
    }

    fn comma(&mut self) -> bool {
        let there = self.tokens.first().is_some_and(|it| it.kind == Kind::Comma);
        if there {
            self.tokens = &self.tokens[1..];
        }
        there
    }

    fn part(&mut self) -> Option<Vec<u8>> {
        let token = self.next()?;
        if token.kind != Kind::Literal {
            return None;
        }
        match token.bytes(self.text) {
            [b'\'' | b'"', ..] => Some(unquote(token.bytes(self.text), self.mode).into_owned()),
            [b'x' | b'X', b'\'', digits @ .., b'\''] if digits.len().is_multiple_of(2) => {
                bytes(digits, 16)
            }
            [b'0', b'x', digits @ ..] => bytes(digits, 16),
            [b'b' | b'B', b'\'', digits @ .., b'\''] | [b'0', b'b', digits @ ..] => {
                bytes(digits, 2)
            }
            _ => None,
        }
    }

    fn number(&mut self) -> Option<u32> {
        let token = self.next()?;
        let digits = str::from_utf8(token.bytes(self.text)).ok()?;
        match digits.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16).ok(),
            None => digits.parse().ok(),
        }
    }
}

/// The bytes of digits, of which the first byte may lack some.
fn bytes(digits: &[u8], radix: u32) -> Option<Vec<u8>> {
    let per_byte = if radix == 16 { 2 } else { 8 };
    let byte = |digits: &[u8]| {
        let digits = str::from_utf8(digits).ok()?;
        let plain = digits.bytes().all(|it| it.is_ascii_alphanumeric());
        u8::from_str_radix(digits, radix).ok().filter(|_| plain)
    };
    digits.rchunks(per_byte).rev().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn read(text: &str) -> Option<Xa> {
        xa(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_106))
    }

    fn name(gtrid: &[u8], bqual: &[u8], format: Option<u32>) -> XaName {
        XaName {
            gtrid: gtrid.to_vec(),
            bqual: bqual.to_vec(),
            format,
        }
    }

    #[test]
    fn statements_and_names_in_every_spelling() {
        let a = || name(b"a", b"", None);
        let cases = [
            ("XA START 'a'", Xa::Start(a(), XaWay::Plain)),
            (" xa /* c */ begin \"a\" ;", Xa::Start(a(), XaWay::Plain)),
            ("XA START 'a' JOIN", Xa::Start(a(), XaWay::Unsupported)),
            ("XA START 'a' resume", Xa::Start(a(), XaWay::Resume)),
            (
                "XA END 0x61,X'00ff',4711",
                Xa::End(name(b"a", b"\0\xff", Some(4711)), XaWay::Plain),
            ),
            (
                "XA END 'a' SUSPEND FOR MIGRATE",
                Xa::End(a(), XaWay::Unsupported),
            ),
            (
                "XA PREPARE 'it''s',b'101',0x1F",
                Xa::Prepare(name(b"it's", b"\x05", Some(31))),
            ),
            (
                "XA COMMIT 0x161",
                Xa::Commit(name(b"\x01a", b"", None), XaWay::Plain),
            ),
            ("XA COMMIT 'a' ONE PHASE", Xa::Commit(a(), XaWay::OnePhase)),
            ("XA ROLLBACK 'a',''", Xa::Rollback(a())),
            ("XA RECOVER", Xa::Recover),
            ("XA RECOVER CONVERT XID", Xa::Recover),
            ("XA RECOVER FORMAT='SQL'", Xa::Recover),
        ];
        for (text, wanted) in cases {
            assert_eq!(read(text), Some(wanted), "{text}");
        }
    }

    #[test]
    fn what_a_server_would_not_read_is_not_read() {
        for text in [
            "",
            "XA",
            "XA START",
            "XA START a",
            "XA START @a",
            "XA START 'a','b',",
            "XA START 'a','b','c'",
            "XA START 'a','b',-1",
            "XA START 'a','b',99999999999",
            "XA START X'123'",
            "XA START 'a' ONE PHASE",
            "XA COMMIT 'a' TWO PHASE",
            "XA PREPARE 'a'; SELECT 1",
            "XA COMMIT 7",
            "SELECT 'a'",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
