//! Bytes and what they may begin: the class table, numbers, and the search for a closing quote.

use crate::lexer::keyword::{load_padded, load8};
use crate::lexer::mode::Multibyte;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    Space,
    Word,
    Digit,
    /// A letter that makes a literal when a quote follows: N, X, B.
    Prefix,
    Quote,
    Open,
    Close,
    Comma,
    Dot,
    /// `=` begins no longer operator.
    Equals,
    Question,
    Semicolon,
    /// Everything else, looked at byte by byte.
    Rare,
}

pub(crate) static CLASS: [Class; 256] = classes();

static WORD: [bool; 256] = word_bytes();

const fn classes() -> [Class; 256] {
    let mut table = [Class::Rare; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = match byte as u8 {
            b' ' | 0x09..=0x0D => Class::Space,
            b'n' | b'N' | b'x' | b'X' | b'b' | b'B' => Class::Prefix,
            b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$' | 0x80..=0xFF => Class::Word,
            b'0'..=b'9' => Class::Digit,
            b'\'' => Class::Quote,
            b'(' => Class::Open,
            b')' => Class::Close,
            b',' => Class::Comma,
            b'.' => Class::Dot,
            b'=' => Class::Equals,
            b'?' => Class::Question,
            b';' => Class::Semicolon,
            _ => Class::Rare,
        };
        byte += 1;
    }
    table
}

const fn word_bytes() -> [bool; 256] {
    let classes = classes();
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(classes[byte], Class::Word | Class::Digit | Class::Prefix);
        byte += 1;
    }
    table
}

/// May stand in a name without quotes.
#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    WORD[byte as usize]
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = ONES << 7;

/// The high bit of each of eight bytes tells whether it is in `first..=last`, for ASCII bounds and
/// bytes below 0x80; `low` holds the bytes without their high bits.
#[inline]
const fn in_range(low: u64, first: u8, last: u8) -> u64 {
    let from_first = low + ONES * (0x80 - first as u64);
    let after_last = low + ONES * (0x7F - last as u64);
    from_first & !after_last & HIGH
}

/// How many of the eight bytes of `chunk`, from the lowest on, may stand in a name. The lengths of
/// words are hard to foresee for a processor, so this goes without a loop.
#[inline]
const fn word_run(chunk: u64) -> usize {
    let low = chunk & !HIGH;
    let letters = in_range(low | (ONES * 0x20), b'a', b'z');
    let rest = in_range(low, b'0', b'9') | in_range(low, b'_', b'_') | in_range(low, b'$', b'$');
    let others = !(letters | rest | chunk) & HIGH;
    (others.trailing_zeros() / 8) as usize
}

#[inline]
const fn digit_run(chunk: u64) -> usize {
    let digits = in_range(chunk & !HIGH, b'0', b'9') & !chunk;
    ((!digits & HIGH).trailing_zeros() / 8) as usize
}

/// The end of the word at `at`, and its first eight bytes with zeros behind it.
#[inline]
pub(crate) fn word_end(text: &[u8], at: usize) -> (usize, u64) {
    let chunk = load_padded(text, at);
    let run = word_run(chunk);
    if run < 8 {
        return (at + run, chunk & ((1 << (8 * run)) - 1));
    }
    (long_word_end(text, at + 8), chunk)
}

fn long_word_end(text: &[u8], mut at: usize) -> usize {
    loop {
        let run = word_run(load_padded(text, at));
        at += run;
        if run < 8 {
            return at;
        }
    }
}

/// Could be the second byte of a character in some charset and means something by itself. A single
/// quote never is one.
pub(crate) fn may_trail(byte: u8) -> bool {
    matches!(byte, b'\\' | b'`')
}

/// Length of a whole number of up to seven digits at `at`, which begins with a digit. None: it may
/// still be a longer number or a name.
#[inline]
pub(crate) fn short_integer(text: &[u8], at: usize) -> Option<usize> {
    let chunk = load_padded(text, at);
    let run = digit_run(chunk);
    let next = chunk.checked_shr(8 * run as u32)? as u8;
    (!is_word(next) && next != b'.').then_some(run)
}

/// Length of the number at the start of `bytes`, which begins with a digit. None: it is a name.
pub(crate) fn number(bytes: &[u8]) -> Option<usize> {
    let at = |index: usize| bytes.get(index).copied().unwrap_or(0);
    if at(0) == b'0' && matches!(at(1), b'x' | b'b') {
        // Lower case only: the servers take `0X1` for a name.
        let hex = at(1) == b'x';
        let mut end = 2;
        while if hex {
            at(end).is_ascii_hexdigit()
        } else {
            matches!(at(end), b'0' | b'1')
        } {
            end += 1;
        }
        return (end > 2 && !is_word(at(end))).then_some(end);
    }
    let end = digits(bytes, 0);
    if at(end) == b'.' {
        return Some(fraction(&bytes[end..]) + end);
    }
    if !is_word(at(end)) {
        return Some(end);
    }
    exponent(bytes, end)
}

/// Length of a dot, its digits and an exponent at the start of `bytes`.
pub(crate) fn fraction(bytes: &[u8]) -> usize {
    let end = digits(bytes, 1);
    exponent(bytes, end).unwrap_or(end)
}

/// The end of the digits at `at`; there may be none.
#[inline]
pub(crate) fn digits(bytes: &[u8], mut at: usize) -> usize {
    loop {
        let run = digit_run(load_padded(bytes, at));
        at += run;
        if run < 8 {
            return at;
        }
    }
}

/// The end of an exponent at `at`; None when there is no whole one.
fn exponent(bytes: &[u8], at: usize) -> Option<usize> {
    if !matches!(bytes.get(at), Some(b'e' | b'E')) {
        return None;
    }
    let sign = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
    let first = at + 1 + sign;
    let end = digits(bytes, first);
    (end > first).then_some(end)
}

pub(crate) struct Quoted {
    /// Behind the closing quote, or the end of the text.
    pub end: usize,
    pub closed: bool,
    /// The charset decides what a byte in it means, and is not known.
    pub doubtful: bool,
}

/// Finds the end of what the quote at `open` begins. A doubled quote stands for itself; with
/// `escapes` a backslash protects the byte behind it (the byte, not the character: as servers do).
pub(crate) fn quoted(text: &[u8], open: usize, escapes: bool, multibyte: Multibyte) -> Quoted {
    let quote = text[open];
    // Without escapes the backslash is searched as the quote itself.
    let escape = if escapes { b'\\' } else { quote };
    let mut doubtful = false;
    let mut at = open + 1;
    loop {
        at = if multibyte.has_low_trail() {
            find_in_charset(text, at, quote, escape, multibyte)
        } else {
            find(text, at, quote, escape)
        };
        let Some(&byte) = text.get(at) else {
            return Quoted {
                end: text.len(),
                closed: false,
                doubtful,
            };
        };
        if multibyte == Multibyte::Unknown && may_trail(byte) && text[at - 1] >= 0x80 {
            doubtful = true;
        }
        if byte == quote && text.get(at + 1) != Some(&quote) {
            return Quoted {
                end: at + 1,
                closed: true,
                doubtful,
            };
        }
        // A doubled quote, or an escape and the byte that it protects.
        at += 2;
    }
}

fn find_in_charset(text: &[u8], mut at: usize, a: u8, b: u8, multibyte: Multibyte) -> usize {
    while at < text.len() {
        let bytes = multibyte.char_bytes(text, at);
        if bytes == 1 && (text[at] == a || text[at] == b) {
            break;
        }
        at += bytes;
    }
    at
}

/// The end of the string in single quotes that begins at `open`, if it does, and has no quotes, escapes or bytes beyond
/// ASCII in it: no mode and no charset reads it otherwise. Eight bytes a step.
pub(crate) fn plain_string(text: &[u8], open: usize) -> Option<usize> {
    if text.get(open) != Some(&b'\'') {
        return None;
    }
    let mut at = open + 1;
    while at < text.len() {
        let chunk = load_padded(text, at);
        let hits = zero(chunk ^ (ONES * 0x27)) | zero(chunk ^ (ONES * 0x5C)) | chunk & HIGH;
        if hits != 0 {
            at += (hits.trailing_zeros() / 8) as usize;
            let ends = text[at] == b'\'' && text.get(at + 1) != Some(&b'\'');
            return ends.then_some(at + 1);
        }
        at += 8;
    }
    None
}

/// Looks for the place where a literal may begin, from one eight bytes to the next: a digit behind a mark or a space, or
/// a single quote. It errs where a `$` is a part of a name.
#[derive(Default)]
pub(crate) struct LiteralStarts {
    /// The high bit of the lowest byte: the byte before is a mark or a space.
    behind_mark: u64,
}

impl LiteralStarts {
    /// How many of the eight bytes of `chunk` stand before such a place.
    #[inline(always)]
    pub fn bytes_before(&mut self, chunk: u64) -> usize {
        let digits = in_range(chunk & !HIGH, b'0', b'9') & !chunk;
        // In ASCII these are below the letters, with the digits among them.
        let marks = !(chunk | chunk << 1) & HIGH & !digits;
        let quotes = zero(chunk ^ (ONES * 0x27));
        let starts = digits & (marks << 8 | self.behind_mark) | quotes;
        self.behind_mark = marks >> 56;
        (starts.trailing_zeros() / 8) as usize
    }
}

/// The lowest set bit marks the first zero byte; higher ones may be false.
#[inline]
const fn zero(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH
}

/// Position of the first `a` or `b` from `at` on, or the length of the text. Eight bytes a step.
fn find(text: &[u8], mut at: usize, a: u8, b: u8) -> usize {
    let (all_a, all_b) = (ONES * u64::from(a), ONES * u64::from(b));
    while at + 8 <= text.len() {
        let word = load8(text, at);
        let hits = zero(word ^ all_a) | zero(word ^ all_b);
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while at < text.len() && text[at] != a && text[at] != b {
        at += 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_agree_with_the_tables() {
        for byte in 0..=255u8 {
            for place in 0..8 {
                let mut chunk = [b'7'; 8];
                chunk[place] = byte;
                let word = u64::from_le_bytes(chunk);
                assert_eq!(
                    word_run(word),
                    if is_word(byte) { 8 } else { place },
                    "{byte:#x}"
                );
                assert_eq!(
                    digit_run(word),
                    if byte.is_ascii_digit() { 8 } else { place }
                );
            }
        }
        let (end, first) = word_end(b"ab_c$def9 x", 0);
        assert_eq!((end, first), (9, load8(b"ab_c$def", 0)));
        assert_eq!(word_end(b"xx ab", 3), (5, load_padded(b"ab", 0)));
    }

    #[test]
    fn numbers_end_where_the_servers_end_them() {
        let cases: [(&str, Option<usize>); 22] = [
            ("0", Some(1)),
            ("12 ", Some(2)),
            ("1.", Some(2)),
            ("1.5,", Some(3)),
            ("1e5", Some(3)),
            ("1E+10)", Some(5)),
            ("1e-3x", Some(4)),
            ("1.5e3", Some(5)),
            ("1.e", Some(2)),
            ("1e", None),
            ("1e+", None),
            ("1a", None),
            ("1$", None),
            ("0x1F", Some(4)),
            ("0X1F", None),
            ("0x", None),
            ("0xg", None),
            ("0x1g", None),
            ("0b101", Some(5)),
            ("0b12", None),
            ("0b", None),
            ("5é", None),
        ];
        for (text, expected) in cases {
            assert_eq!(number(text.as_bytes()), expected, "{text}");
        }
        assert_eq!(fraction(b".5e1 "), 4);
        assert_eq!(fraction(b".5e"), 2);
    }

    #[test]
    fn quotes_close_behind_doubles_and_escapes() {
        let end = |text: &[u8], escapes| {
            let found = quoted(text, 0, escapes, Multibyte::None);
            (found.end, found.closed)
        };
        assert_eq!(end(b"'a' 'b'", true), (3, true));
        assert_eq!(end(b"'a''b' c", true), (6, true));
        assert_eq!(end(br"'a\'b' c", true), (6, true));
        assert_eq!(end(br"'a\' c", false), (4, true));
        assert_eq!(end(br"'a\", true), (3, false));
        assert_eq!(end(br"'a\\' c", true), (5, true));
        assert_eq!(end(b"'0123456789012345' c", true), (18, true));
        assert_eq!(end(b"'0123456789012345", true), (17, false));
        assert_eq!(end(b"'", true), (1, false));
    }

    #[test]
    fn a_second_byte_ends_nothing() {
        // 0x81 0x5C is one character in gbk; in utf8 the backslash would protect the quote.
        let text = b"'\x81\x5c' OR 1 -- '";
        assert_eq!(quoted(text, 0, true, Multibyte::Gbk).end, 4);
        assert_eq!(quoted(text, 0, true, Multibyte::None).end, text.len());
        assert!(quoted(text, 0, true, Multibyte::Unknown).doubtful);
    }
}
