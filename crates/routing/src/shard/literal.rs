//! Literals as keys: in a comparison, and in a row that is stored.
//!
//! The servers compare a literal with a column after converting one of them, and what they convert
//! depends on both types. Only forms for which the outcome is the equality of values are keys; for
//! everything else `None`: all shards, or a question to a server.

use farm::shard::{Key, KeyType};
use uuid::Uuid;

/// A literal of a statement, or a prepared statement's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Literal<'a> {
    Null,
    /// A number as it is written, with its sign.
    Number(&'a str),
    /// A string's bytes without quotes and escapes, in UTF-8.
    Text(&'a [u8]),
    /// A string of bytes.
    Binary(&'a [u8]),
    /// `0x…`: a number to integers, to others a string of bytes.
    Hex(&'a [u8]),
}

/// Above this a double does not hold every integer, and a string compared with an integer column is
/// compared as a double.
const EXACT_DOUBLE_MAX: i128 = 1 << 53;

/// The key that `column = literal` asks for.
pub fn compared(literal: Literal<'_>, key: KeyType) -> Option<Key> {
    match (key, literal) {
        (KeyType::Integer, Literal::Number(text)) => integer(text),
        (KeyType::Integer, Literal::Text(bytes)) => {
            let number = digits(bytes)?;
            (number.unsigned_abs() <= EXACT_DOUBLE_MAX.unsigned_abs()).then_some(Key::Int(number))
        }
        // Compared as doubles: '1', '01' and '1e0' are all equal to 1.
        (KeyType::Text { .. } | KeyType::Bytes | KeyType::Binary { .. }, Literal::Number(_)) => {
            None
        }
        (KeyType::Uuid, Literal::Number(_)) => None,
        (KeyType::Uuid, Literal::Binary(bytes) | Literal::Hex(bytes)) => {
            let id = Uuid::from_slice(bytes).ok()?;
            Some(Key::Bytes(id.to_string().into_bytes()))
        }
        (KeyType::Date | KeyType::Datetime, Literal::Number(_)) => None,
        (_, Literal::Text(bytes)) => text(bytes, key),
        (KeyType::Bytes | KeyType::Binary { .. }, Literal::Binary(bytes) | Literal::Hex(bytes)) => {
            Some(Key::Bytes(bytes.to_vec()))
        }
        (KeyType::Integer, Literal::Hex(bytes)) if bytes.len() <= 8 => {
            let number = bytes
                .iter()
                .fold(0, |sum, byte| sum * 256 + i128::from(*byte));
            Some(Key::Int(number))
        }
        // A column of text is compared with bytes as bytes, whatever its collation is.
        (_, Literal::Null | Literal::Binary(_) | Literal::Hex(_)) => None,
    }
}

/// The key of a row that is stored with this value. What the server would have to round or to cut
/// is no key.
pub fn stored(literal: Literal<'_>, key: KeyType) -> Option<Key> {
    match (key, literal) {
        (KeyType::Integer, Literal::Text(bytes)) => digits(bytes).map(Key::Int),
        (KeyType::Binary { bytes: wide }, literal) => {
            let Key::Bytes(mut bytes) = stored(literal, KeyType::Bytes)? else {
                return None;
            };
            bytes.resize(bytes.len().max(wide.into()), 0);
            Some(Key::Bytes(bytes))
        }
        (KeyType::Text { .. } | KeyType::Bytes, Literal::Number(number)) => {
            integer(number)?;
            text(number.as_bytes(), key)
        }
        _ => compared(literal, key),
    }
}

/// An integer as SQL writes it: decimal digits, perhaps with zeros behind a point.
fn integer(text: &str) -> Option<Key> {
    let (whole, rest) = text.split_once('.').unwrap_or((text, ""));
    let exact = rest.bytes().all(|digit| digit == b'0');
    exact
        .then(|| digits(whole.as_bytes()))
        .flatten()
        .map(Key::Int)
}

fn digits(bytes: &[u8]) -> Option<i128> {
    let text = std::str::from_utf8(bytes).ok()?;
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = (1..=20).contains(&unsigned.len()) && unsigned.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok()).flatten()
}

fn text(bytes: &[u8], key: KeyType) -> Option<Key> {
    match key {
        KeyType::Integer => None,
        KeyType::Bytes | KeyType::Binary { .. } => Some(Key::Bytes(bytes.to_vec())),
        KeyType::Uuid => uuid(bytes),
        // What a collation makes of letters beyond ASCII only a server can say.
        KeyType::Text { folds: true, .. } if !bytes.is_ascii() => None,
        KeyType::Text { folds, pads } => {
            let end = match pads {
                true => bytes
                    .iter()
                    .rposition(|byte| *byte != b' ')
                    .map_or(0, |at| at + 1),
                false => bytes.len(),
            };
            let kept = &bytes[..end];
            // Control characters have no weight in some collations.
            let ignored = folds && kept.iter().any(u8::is_ascii_control);
            (!ignored).then(|| {
                Key::Bytes(match folds {
                    true => kept.to_ascii_lowercase(),
                    false => kept.to_vec(),
                })
            })
        }
        KeyType::Date => moment(bytes)
            .filter(|key| key.ends_with(b" 00:00:00.000000"))
            .map(Key::Bytes),
        KeyType::Datetime => moment(bytes).map(Key::Bytes),
    }
}

/// 32 digits, with the hyphens or without any, as the server shows them.
fn uuid(text: &[u8]) -> Option<Key> {
    // The crate reads further forms, all of them longer.
    if text.len() > uuid::fmt::Hyphenated::LENGTH {
        return None;
    }
    let id = Uuid::try_parse_ascii(text).ok()?;
    Some(Key::Bytes(id.to_string().into_bytes()))
}

/// `YYYY-MM-DD`, and perhaps ` HH:MM:SS` (or with a `T`) and a fraction, in the full form.
fn moment(bytes: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00:00"),
    };
    let (time, fraction) = time.split_once('.').unwrap_or((time, ""));
    let year_first = fields(date, '-', &[4, 2, 2])?;
    let hour_first = fields(time, ':', &[2, 2, 2])?;
    let (month, day) = (year_first[1], year_first[2]);
    let real = (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour_first[0] < 24
        && hour_first[1] < 60
        && hour_first[2] < 60;
    let digits = fraction.len() <= 6 && fraction.bytes().all(|digit| digit.is_ascii_digit());
    (real && digits).then(|| format!("{date} {time}.{fraction:0<6}").into_bytes())
}

fn fields(text: &str, between: char, lengths: &[usize; 3]) -> Option<[u32; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, length) in numbers.iter_mut().zip(lengths) {
        let part = parts.next()?;
        let plain = part.len() == *length && part.bytes().all(|digit| digit.is_ascii_digit());
        *number = plain.then(|| part.parse().ok()).flatten()?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CI: KeyType = KeyType::Text {
        folds: true,
        pads: true,
    };
    const BIN: KeyType = KeyType::Text {
        folds: false,
        pads: false,
    };

    fn int(number: i128) -> Option<Key> {
        Some(Key::Int(number))
    }

    fn bytes(text: &str) -> Option<Key> {
        Some(Key::Bytes(text.as_bytes().to_vec()))
    }

    #[test]
    fn integers() {
        let number = |text| compared(Literal::Number(text), KeyType::Integer);
        assert_eq!(
            (number("42"), number("-7"), number("007")),
            (int(42), int(-7), int(7))
        );
        assert_eq!(
            (number("4.0"), number("4.5"), number("4e0")),
            (int(4), None, None)
        );
        assert_eq!(number("18446744073709551615"), int(u64::MAX.into()));
        let text = |text: &'static str| compared(Literal::Text(text.as_bytes()), KeyType::Integer);
        assert_eq!(
            (text("42"), text("42a"), text(" 42"), text("")),
            (int(42), None, None, None)
        );
        assert_eq!(text("9007199254740993"), None, "a double would round it");
        let stored = stored(Literal::Text(b"9007199254740993"), KeyType::Integer);
        assert_eq!(stored, int(9_007_199_254_740_993));
    }

    #[test]
    fn text_is_folded_as_its_collation_does() {
        let key = |text: &'static str, key| compared(Literal::Text(text.as_bytes()), key);
        assert_eq!(key("Abc  ", CI), bytes("abc"));
        assert_eq!(key("Abc ", BIN), bytes("Abc "));
        assert_eq!(key("Käse", CI), None);
        assert_eq!(key("Käse", BIN), bytes("Käse"));
        assert_eq!(key("a\u{1}", CI), None);
        assert_eq!(compared(Literal::Number("1"), BIN), None);
        assert_eq!(stored(Literal::Number("1"), BIN), bytes("1"));
        assert_eq!(compared(Literal::Null, BIN), None);
    }

    #[test]
    fn bytes_of_a_length_and_uuids() {
        let binary = KeyType::Binary { bytes: 4 };
        let key = |bytes: &[u8]| Some(Key::Bytes(bytes.to_vec()));
        assert_eq!(stored(Literal::Text(b"ab"), binary), key(b"ab\0\0"));
        assert_eq!(stored(Literal::Number("7"), binary), key(b"7\0\0\0"));
        assert_eq!(
            stored(Literal::Hex(b"\xff\0\0\x01"), binary),
            key(b"\xff\0\0\x01")
        );
        assert_eq!(compared(Literal::Text(b"ab"), binary), key(b"ab"));
        assert_eq!(compared(Literal::Number("7"), binary), None);
        let shown = bytes("6ccd780c-baba-1026-9564-5b8c656024db");
        for text in [
            "6CCD780C-BABA-1026-9564-5B8C656024DB",
            "6ccd780cbaba102695645b8c656024db",
        ] {
            assert_eq!(
                compared(Literal::Text(text.as_bytes()), KeyType::Uuid),
                shown
            );
        }
        let raw = 0x6ccd_780c_baba_1026_9564_5b8c_6560_24db_u128.to_be_bytes();
        assert_eq!(stored(Literal::Binary(&raw), KeyType::Uuid), shown);
        for odd in [
            "6ccd780c",
            "6ccd780cbaba-1026-9564-5b8c656024db00",
            "{6ccd780cbaba102695645b8c65602}",
        ] {
            assert_eq!(compared(Literal::Text(odd.as_bytes()), KeyType::Uuid), None);
        }
    }

    #[test]
    fn moments() {
        let key = |text: &'static str| compared(Literal::Text(text.as_bytes()), KeyType::Datetime);
        assert_eq!(key("2026-11-22"), bytes("2026-11-22 00:00:00.000000"));
        assert_eq!(
            key("2026-11-22T01:02:03.5"),
            bytes("2026-11-22 01:02:03.500000")
        );
        for odd in [
            "26-11-22",
            "2026-13-01",
            "2026-11-22 24:00:00",
            "2026-11-22 1:2:3",
            "x",
        ] {
            assert_eq!(key(odd), None, "{odd}");
        }
        let date = compared(Literal::Text(b"2026-11-22 00:00:01"), KeyType::Date);
        assert_eq!(date, None);
    }
}
