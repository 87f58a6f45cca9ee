//! Puts values into a text where it asks for what only the router knows: the session's id, or
//! diagnostics whose connection is gone.
//!
//! A column that would change its name with its text gets the old one as an alias.

use crate::lexer::keyword::Kw;
use crate::lexer::mode::Mode;
use crate::lexer::token::{Kind, Lexer, Token};

/// What a text asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// CONNECTION_ID()
    ConnectionId,
    /// `@@pseudo_thread_id`
    PseudoThreadId,
    /// `@@socket`
    Socket,
    /// FOUND_ROWS()
    FoundRows,
    /// ROW_COUNT()
    RowCount,
    /// `@@warning_count`
    WarningCount,
    /// `@@error_count`
    ErrorCount,
}

/// Servers refuse longer aliases.
const ALIAS_BYTES_MAX: usize = 200;

/// The text with every question replaced for which `value` has an expression; `None` when there is
/// none of them. Only for statements that are run at once: in a routine or a view the questions
/// must stay (see [`crate::identify`]).
pub fn replace(
    text: &[u8],
    mode: &Mode,
    mut value: impl FnMut(Ask) -> Option<String>,
) -> Option<Vec<u8>> {
    let mut lexer = Lexer::new(text, mode);
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next();
        tokens.push(token);
        if token.kind == Kind::End {
            break;
        }
    }
    let mut edits = Edits {
        text,
        tokens: &tokens,
        frames: vec![Frame::default()],
        pieces: Vec::new(),
    };
    let mut skip = 0;
    for at in 0..tokens.len() {
        if at < skip {
            continue;
        }
        edits.step(at);
        let Some((ask, last)) = asked(text, &tokens, at) else {
            continue;
        };
        if let Some(value) = value(ask) {
            let (start, end) = (tokens[at].start as usize, tokens[last].end as usize);
            edits.pieces.push((start, end, value));
            if let Some(frame) = edits.frames.last_mut() {
                frame.replaced = true;
            }
        }
        skip = last + 1;
    }
    edits.finish()
}

/// The question that begins with this token, and its last token.
fn asked(text: &[u8], tokens: &[Token], at: usize) -> Option<(Ask, usize)> {
    let kind = |at: usize| tokens.get(at).map_or(Kind::End, |token| token.kind);
    let token = &tokens[at];
    let bytes = token.bytes(text);
    match token.kind {
        Kind::Word | Kind::Quoted => {
            let called = kind(at + 1) == Kind::Open && kind(at + 2) == Kind::Close;
            if !called || (at > 0 && kind(at - 1) == Kind::Dot) {
                return None;
            }
            let name = match bytes {
                [b'`' | b'"', name @ .., b'`' | b'"'] => name,
                _ => bytes,
            };
            let ask = match Kw::find(name) {
                Kw::CONNECTION_ID => Ask::ConnectionId,
                Kw::FOUND_ROWS => Ask::FoundRows,
                Kw::ROW_COUNT => Ask::RowCount,
                _ => return None,
            };
            Some((ask, at + 2))
        }
        Kind::SystemVariable => {
            let next = tokens
                .get(at + 1)
                .map_or(&b""[..], |token| token.bytes(text));
            let set = tokens[0].kw == Kw::SET && matches!(next, b"=" | b":=");
            if set || kind(at + 1) == Kind::Dot {
                return None;
            }
            let name = String::from_utf8_lossy(&bytes[2..]).to_ascii_lowercase();
            let plain = name
                .strip_prefix("session.")
                .or(name.strip_prefix("local."));
            let ask = match plain.unwrap_or(&name) {
                "pseudo_thread_id" => Ask::PseudoThreadId,
                "warning_count" => Ask::WarningCount,
                "error_count" => Ask::ErrorCount,
                "socket" | "global.socket" => Ask::Socket,
                _ => return None,
            };
            Some((ask, at))
        }
        _ => None,
    }
}

/// A query, or the parentheses around part of an expression.
#[derive(Default)]
struct Frame {
    /// Between SELECT and FROM.
    lists: bool,
    /// The first token of the item at hand.
    item: Option<usize>,
    /// The item has lost its text.
    replaced: bool,
}

struct Edits<'a> {
    text: &'a [u8],
    tokens: &'a [Token],
    frames: Vec<Frame>,
    /// What is put in for which bytes, in order.
    pieces: Vec<(usize, usize, String)>,
}

impl Edits<'_> {
    fn step(&mut self, at: usize) {
        let token = self.tokens[at];
        match (token.kind, token.kw) {
            (Kind::Open, _) => {
                self.begin_item(at);
                self.frames.push(Frame::default());
            }
            (Kind::Close, _) => {
                self.end_item(at);
                let inner = self.frames.pop().unwrap_or_default();
                if self.frames.is_empty() {
                    self.frames.push(Frame::default());
                }
                // What was replaced inside is part of the item outside.
                if let Some(outer) = self.frames.last_mut() {
                    outer.replaced |= inner.replaced;
                }
            }
            (Kind::Comma, _) => self.end_item(at),
            (Kind::End | Kind::Semicolon, _) => {
                self.end_item(at);
                self.frames = vec![Frame::default()];
            }
            (Kind::Word, Kw::SELECT) => {
                if let Some(frame) = self.frames.last_mut() {
                    *frame = Frame {
                        lists: true,
                        ..Frame::default()
                    };
                }
            }
            (Kind::Word, kw) if ends_list(kw) => {
                self.end_item(at);
                if let Some(frame) = self.frames.last_mut() {
                    frame.lists = false;
                }
            }
            (Kind::Word, kw) if is_modifier(kw) => {}
            _ => self.begin_item(at),
        }
    }

    fn begin_item(&mut self, at: usize) {
        if let Some(frame) = self.frames.last_mut()
            && frame.lists
            && frame.item.is_none()
        {
            (frame.item, frame.replaced) = (Some(at), false);
        }
    }

    /// The token `at` is the first behind the item.
    fn end_item(&mut self, at: usize) {
        let Some(frame) = self.frames.last_mut() else {
            return;
        };
        let Some(first) = frame.item.take() else {
            return;
        };
        if !frame.replaced || self.has_alias(first, at) {
            return;
        }
        let (start, end) = (self.tokens[first].start, self.tokens[at - 1].end);
        let name = &self.text[start as usize..end as usize];
        let Ok(name) = str::from_utf8(name) else {
            return;
        };
        if name.len() <= ALIAS_BYTES_MAX {
            let alias = format!(" AS {}", crate::ticked(name));
            self.pieces.push((end as usize, end as usize, alias));
        }
    }

    /// The tokens from `first` up to `end` end in a name of their own.
    fn has_alias(&self, first: usize, end: usize) -> bool {
        if end - first < 2 || self.ends_case(first, end) {
            return false;
        }
        let (before, last) = (&self.tokens[end - 2], &self.tokens[end - 1]);
        let name = matches!(last.kind, Kind::Word | Kind::Quoted | Kind::Literal);
        let operand = matches!(
            before.kind,
            Kind::Word | Kind::Quoted | Kind::Literal | Kind::Close | Kind::SystemVariable
        ) && (!before.kw.is_reserved() || before.kw == Kw::AS);
        name && operand
    }

    /// The last token from `first` up to `end` is the END of a CASE.
    fn ends_case(&self, first: usize, end: usize) -> bool {
        let is = |token: &Token, word: &[u8]| token.bytes(self.text).eq_ignore_ascii_case(word);
        let (last, before) = (&self.tokens[end - 1], &self.tokens[first..end - 1]);
        let open = before.iter().filter(|token| token.kw == Kw::CASE).count();
        let closed = before.iter().filter(|token| is(token, b"end")).count();
        is(last, b"end") && open > closed
    }

    fn finish(mut self) -> Option<Vec<u8>> {
        if self.pieces.is_empty() {
            return None;
        }
        self.pieces.sort_by_key(|(start, ..)| *start);
        let mut out = Vec::with_capacity(self.text.len() + 64);
        let mut at = 0;
        for (start, end, value) in &self.pieces {
            out.extend_from_slice(self.text.get(at..*start).unwrap_or_default());
            out.extend_from_slice(value.as_bytes());
            at = *end;
        }
        out.extend_from_slice(self.text.get(at..).unwrap_or_default());
        Some(out)
    }
}

fn ends_list(kw: Kw) -> bool {
    matches!(
        kw,
        Kw::FROM
            | Kw::INTO
            | Kw::WHERE
            | Kw::GROUP
            | Kw::HAVING
            | Kw::ORDER
            | Kw::LIMIT
            | Kw::UNION
            | Kw::PROCEDURE
            | Kw::FOR
            | Kw::LOCK
    )
}

/// Stands between SELECT and its first item.
fn is_modifier(kw: Kw) -> bool {
    matches!(
        kw,
        Kw::ALL
            | Kw::DISTINCT
            | Kw::DISTINCTROW
            | Kw::HIGH_PRIORITY
            | Kw::STRAIGHT_JOIN
            | Kw::SQL_SMALL_RESULT
            | Kw::SQL_BIG_RESULT
            | Kw::SQL_CALC_FOUND_ROWS
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    fn replaced(text: &str) -> String {
        let mode = Mode::new(Dialect::MariaDb, 101_106);
        let value = |ask| (ask != Ask::ErrorCount).then(|| "7".to_owned());
        let new = replace(text.as_bytes(), &mode, value);
        new.map_or("-".to_owned(), |new| String::from_utf8(new).unwrap())
    }

    #[test]
    fn columns_keep_their_names() {
        let cases = [
            ("SELECT CONNECTION_ID()", "SELECT 7 AS `CONNECTION_ID()`"),
            ("SELECT connection_id( ) AS x, 1", "SELECT 7 AS x, 1"),
            ("SELECT FOUND_ROWS() n FROM t", "SELECT 7 n FROM t"),
            (
                "SELECT DISTINCT a, ROW_COUNT()+1, b FROM t WHERE ROW_COUNT() > 1",
                "SELECT DISTINCT a, 7+1 AS `ROW_COUNT()+1`, b FROM t WHERE 7 > 1",
            ),
            (
                "SELECT IF(CONNECTION_ID() = 1, 'a', `b`) FROM t",
                "SELECT IF(7 = 1, 'a', `b`) AS `IF(CONNECTION_ID() = 1, 'a', ``b``)` FROM t",
            ),
            (
                "SELECT @@warning_count, @@session.error_count;",
                "SELECT 7 AS `@@warning_count`, @@session.error_count;",
            ),
            (
                "SELECT (SELECT CONNECTION_ID()) x UNION SELECT CONNECTION_ID()",
                "SELECT (SELECT 7 AS `CONNECTION_ID()`) x UNION SELECT 7 AS `CONNECTION_ID()`",
            ),
            (
                "SELECT a + CONNECTION_ID() LIMIT 1",
                "SELECT a + 7 AS `a + CONNECTION_ID()` LIMIT 1",
            ),
            (
                "SELECT CASE WHEN CONNECTION_ID() = 1 THEN 2 END, CASE ROW_COUNT() WHEN 1 THEN 2 END end",
                "SELECT CASE WHEN 7 = 1 THEN 2 END AS `CASE WHEN CONNECTION_ID() = 1 THEN 2 END`, CASE 7 WHEN 1 THEN 2 END end",
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(replaced(text), wanted, "{text}");
        }
    }

    #[test]
    fn elsewhere_the_value_alone_is_put_in() {
        let cases = [
            (
                "INSERT INTO t VALUES (CONNECTION_ID(), 1), (`connection_id`(), 2)",
                "INSERT INTO t VALUES (7, 1), (7, 2)",
            ),
            ("SET @a = CONNECTION_ID()", "SET @a = 7"),
            ("KILL QUERY CONNECTION_ID()", "KILL QUERY 7"),
            (
                "SELECT d.connection_id(), connection_id, '@@warning_count'",
                "-",
            ),
            ("SET @@pseudo_thread_id = 5", "-"),
            ("SELECT CONNECTION_ID", "-"),
            ("", "-"),
        ];
        for (text, wanted) in cases {
            assert_eq!(replaced(text), wanted, "{text}");
        }
    }
}
