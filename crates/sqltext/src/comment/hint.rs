//! Hints for the router, in comments before the first token of a text.
//!
//! `/*ms=master*/` and its kin are those of mysqlnd_ms: the comment's trimmed content in any case,
//! followed by its end or a blank; several may precede, the last one counts. `/*heddle key=value …*/`
//! is our own. A comment that is neither is skipped. Nothing behind the first token is a hint.

use crate::Span;

/// Where mysqlnd_ms's hints send a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MsHint {
    Master,
    Slave,
    LastUsed,
    All,
    Strong,
    Session,
    Client,
    Eventual,
}

impl MsHint {
    /// It asks for a level, and leaves the choice of a server to it.
    pub fn asks_level(self) -> bool {
        matches!(self, MsHint::Eventual | MsHint::Session | MsHint::Client)
    }
}

const MS: [(&str, MsHint); 8] = [
    ("ms=master", MsHint::Master),
    ("ms=slave", MsHint::Slave),
    ("ms=last_used", MsHint::LastUsed),
    ("ms=all", MsHint::All),
    ("ms=strong", MsHint::Strong),
    ("ms=session", MsHint::Session),
    ("ms=client", MsHint::Client),
    ("ms=eventual", MsHint::Eventual),
];

/// One `key=value` of a `/*heddle …*/` comment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    pub key: Span,
    /// With its quotes when it has them; see [`Hints::get`].
    pub value: Span,
}

/// What the leading comments of a text ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub ms: Option<MsHint>,
    /// In order; a later pair overrides an earlier one of the same key.
    pub heddle: Vec<Pair>,
    /// The first word in a `/*heddle …*/` comment that is no `key=value`, whose quote is not closed, or that
    /// comes behind [`HINTS_MAX`] others.
    pub malformed: Option<Span>,
}

/// More pairs than this in one text are malformed: no text needs them.
pub const HINTS_MAX: usize = 32;

/// The keys of `/*heddle key=value …*/`. The last two declare a table in its CREATE TABLE and mean nothing
/// elsewhere.
pub const HINT_KEYS: [&str; 8] = [
    "consistency",
    "max_lag_ms",
    "cache_ttl_s",
    "shard_table",
    "shard_key",
    "global_table",
    "shard_map",
    "global_map",
];

impl Hints {
    pub fn is_empty(&self) -> bool {
        self.ms.is_none() && self.heddle.is_empty() && self.malformed.is_none()
    }

    /// The value of `key` (in any case), without quotes. The last one counts.
    pub fn get<'a>(&self, text: &'a [u8], key: &str) -> Option<&'a [u8]> {
        let pair = self
            .heddle
            .iter()
            .rev()
            .find(|pair| pair.key.of(text).eq_ignore_ascii_case(key.as_bytes()))?;
        let value = pair.value.of(text);
        Some(match value {
            [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
            _ => value,
        })
    }

    /// Reads the comments at the front of `text`, which may be any part of a statement: those that declare a table
    /// may stand behind its first word.
    pub fn of_comments(text: &[u8]) -> Hints {
        let mut hints = Hints::default();
        hints.read_comments(text);
        hints
    }

    /// Reads the comments that lead `text`. Allocates only for pairs, and keeps the room.
    #[inline]
    pub(crate) fn read(&mut self, text: &[u8]) {
        self.ms = None;
        self.heddle.clear();
        self.malformed = None;
        if !text.first().is_some_and(u8::is_ascii_alphabetic) {
            self.read_comments(text);
        }
    }

    fn read_comments(&mut self, text: &[u8]) {
        let mut at = 0;
        while let Some((start, end)) = next_comment(text, at) {
            self.comment(text, start, end);
            at = end + 2;
        }
    }

    fn comment(&mut self, text: &[u8], start: usize, end: usize) {
        let body = text[start..end].trim_ascii_start();
        let start = end - body.len();
        for (word, hint) in MS {
            if begins_with_word(body, word) {
                self.ms = Some(hint);
                return;
            }
        }
        if begins_with_word(body, "heddle") {
            self.pairs(text, start + "heddle".len(), end);
        }
    }

    fn pairs(&mut self, text: &[u8], mut at: usize, end: usize) {
        loop {
            while at < end && (text[at].is_ascii_whitespace() || text[at] == b',') {
                at += 1;
            }
            if at >= end {
                return;
            }
            let start = at;
            while at < end && is_key(text[at]) {
                at += 1;
            }
            let key = Span::new(start, at);
            if at < end && at > start && text[at] == b'=' {
                let value = Span::new(at + 1, value_end(text, at + 1, end));
                match self.heddle.len() < HINTS_MAX && is_closed(value.of(text)) {
                    true => self.heddle.push(Pair { key, value }),
                    false => {
                        let pair = Span::new(start, value.end as usize);
                        self.malformed.get_or_insert(pair);
                    }
                }
                at = value.end as usize;
            } else {
                while at < end && !text[at].is_ascii_whitespace() {
                    at += 1;
                }
                self.malformed.get_or_insert(Span::new(start, at));
            }
        }
    }

    /// Writes the hints in normal form: their kinds and keys, no values.
    pub(crate) fn write(&self, text: &[u8], out: &mut Vec<u8>) {
        if let Some(ms) = self.ms {
            let (word, _) = MS[ms as usize];
            out.extend_from_slice(b"/*");
            out.extend_from_slice(word.as_bytes());
            out.extend_from_slice(b"*/");
        }
        if self.heddle.is_empty() {
            return;
        }
        out.extend_from_slice(if out.is_empty() {
            b"/*heddle"
        } else {
            b" /*heddle"
        });
        for pair in &self.heddle {
            out.push(b' ');
            out.extend(pair.key.of(text).iter().map(u8::to_ascii_lowercase));
            out.extend_from_slice(b"=?");
        }
        out.extend_from_slice(b"*/");
    }
}

/// The comments in front of a text's first token, trimmed, in their order.
pub fn leading_comments(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, end) = next_comment(text, at)?;
        at = end + 2;
        Some(text[start..end].trim_ascii())
    })
}

/// Where the content of the comment lies that begins at `at` or behind blanks there.
fn next_comment(text: &[u8], mut at: usize) -> Option<(usize, usize)> {
    while text
        .get(at)
        .is_some_and(|byte| matches!(byte, b' ' | 0x09..=0x0D))
    {
        at += 1;
    }
    if !text[at..].starts_with(b"/*") {
        return None;
    }
    // Executable comments and optimizer hints are not for us; the first token may be inside.
    if matches!(text.get(at + 2), Some(b'!' | b'+')) || text[at + 2..].starts_with(b"M!") {
        return None;
    }
    let body = at + 2;
    let length = text[body..].windows(2).position(|pair| pair == b"*/")?;
    Some((body, body + length))
}

fn begins_with_word(body: &[u8], word: &str) -> bool {
    body.len() >= word.len()
        && body[..word.len()].eq_ignore_ascii_case(word.as_bytes())
        && body.get(word.len()).is_none_or(u8::is_ascii_whitespace)
}

fn is_key(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// A value in quotes ends with the quote that it begins with.
fn is_closed(value: &[u8]) -> bool {
    match value {
        [quote @ (b'\'' | b'"'), .., last] => quote == last,
        [b'\'' | b'"'] => false,
        _ => true,
    }
}

/// A value ends at a space or comma, or at its closing quote.
fn value_end(text: &[u8], start: usize, end: usize) -> usize {
    if let Some(quote @ (b'\'' | b'"')) = text[..end].get(start)
        && let Some(length) = text[start + 1..end].iter().position(|byte| byte == quote)
    {
        return start + 1 + length + 1;
    }
    let mut at = start;
    while at < end && !text[at].is_ascii_whitespace() && text[at] != b',' {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Hints {
        let mut hints = Hints::default();
        hints.read(text.as_bytes());
        hints
    }

    #[test]
    fn all_seven_texts_of_mysqlnd_ms_are_known() {
        for (word, hint) in MS {
            assert_eq!(read(&format!("/*{word}*/SELECT 1")).ms, Some(hint));
            assert_eq!(
                read(&format!("  /* {} why */ SELECT 1", word.to_uppercase())).ms,
                Some(hint)
            );
            assert_eq!(read(&format!("/*{word}x*/SELECT 1")).ms, None);
            assert_eq!(read(&format!("SELECT /*{word}*/ 1")).ms, None);
            assert_eq!(MS[hint as usize].1, hint);
        }
    }

    #[test]
    fn several_comments_may_precede_and_the_last_hint_counts() {
        let hints = read("/* app:7 */ /*ms=slave*/ /*ms=master*/ SELECT 1");
        assert_eq!(hints.ms, Some(MsHint::Master));
        assert_eq!(read("/*!ms=master*/ SELECT 1").ms, None);
        assert_eq!(read("/*ms=master").ms, None);
    }

    #[test]
    fn heddle_pairs_keep_order_and_the_last_counts() {
        let text =
            "/*heddle consistency=strong max_lag_ms=50, shard_key='a b' Max_Lag_Ms=7*/ SELECT 1";
        let hints = read(text);
        let get = |key| {
            hints
                .get(text.as_bytes(), key)
                .map(|v| str::from_utf8(v).unwrap())
        };
        assert_eq!(get("consistency"), Some("strong"));
        assert_eq!(get("max_lag_ms"), Some("7"));
        assert_eq!(get("shard_key"), Some("a b"));
        assert_eq!(get("other"), None);
        assert_eq!(hints.heddle.len(), 4);
        assert_eq!(hints.malformed, None);
    }

    #[test]
    fn words_without_a_value_are_reported() {
        let text = "/*heddle strong a=1*/ SELECT 1";
        let hints = read(text);
        assert_eq!(
            hints.malformed.map(|span| span.of(text.as_bytes())),
            Some(&b"strong"[..])
        );
        assert_eq!(hints.heddle.len(), 1);
        assert!(read("/*heddleX a=1*/ SELECT 1").is_empty());
    }

    #[test]
    fn endless_pairs_are_cut_off() {
        let text = format!("/*heddle {}b=2*/", "a=1 ".repeat(HINTS_MAX));
        let hints = read(&text);
        assert_eq!(hints.heddle.len(), HINTS_MAX);
        let beyond = hints.malformed.map(|span| span.of(text.as_bytes()));
        assert_eq!(beyond, Some(&b"b=2"[..]));
    }

    #[test]
    fn quotes_that_are_not_closed_are_reported() {
        for value in ["'", "'abc", "\"abc", "'abc\"", "'a'b'"] {
            let text = format!("/*heddle shard_key={value}*/ SELECT 1");
            assert!(read(&text).malformed.is_some(), "{value}");
        }
    }
}
