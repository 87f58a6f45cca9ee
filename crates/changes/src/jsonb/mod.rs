//! JSON documents as MySQL stores them, and the text that the server makes of them.
//!
//! Every length and offset is measured before it is followed, and the depth is bounded: bytes that are no
//! document are refused, whatever they claim.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::cell::{decimal, point};
use crate::table::{Bytes, code as column};

mod diff;

pub(crate) use diff::changed;

/// The server takes no deeper document.
const DEPTH_MAX: usize = 100;

/// So many values are read of one document for each of its bytes, and these besides: a document that points at
/// one part of itself again and again must not become a text without end.
const VALUES_MIN: usize = 64;

/// A document of n bytes becomes at most `n * TEXT_FACTOR + TEXT_MIN` bytes of text. The documents that servers store stay
/// below that: a character of a string takes six bytes at most, and a value beside its type some twenty.
const TEXT_FACTOR: usize = 32;
const TEXT_MIN: usize = 1024;

mod code {
    pub const SMALL_OBJECT: u8 = 0;
    pub const LARGE_OBJECT: u8 = 1;
    pub const SMALL_ARRAY: u8 = 2;
    pub const LARGE_ARRAY: u8 = 3;
    pub const LITERAL: u8 = 4;
    pub const INT16: u8 = 5;
    pub const UINT16: u8 = 6;
    pub const INT32: u8 = 7;
    pub const UINT32: u8 = 8;
    pub const INT64: u8 = 9;
    pub const UINT64: u8 = 10;
    pub const DOUBLE: u8 = 11;
    pub const STRING: u8 = 12;
    pub const OPAQUE: u8 = 15;
}

/// The document as text, its members in the order in which the server shows them.
pub(crate) fn text(raw: &[u8]) -> Option<String> {
    let (kind, body) = root(raw);
    let mut printer = Printer::for_bytes(raw.len());
    printer.value(kind, body, DEPTH_MAX)?;
    Some(printer.out)
}

/// The kind of a document's value, and what stands behind it.
fn root(raw: &[u8]) -> (u8, &[u8]) {
    match raw.split_first() {
        Some((&kind, body)) => (kind, body),
        // What an UPDATE IGNORE left in a column without a default: null.
        None => (code::LITERAL, &[0]),
    }
}

struct Printer {
    out: String,
    values_left: usize,
    bytes_max: usize,
}

impl Printer {
    /// For documents of so many bytes.
    fn for_bytes(bytes: usize) -> Printer {
        Printer {
            out: String::new(),
            values_left: bytes + VALUES_MIN,
            bytes_max: bytes * TEXT_FACTOR + TEXT_MIN,
        }
    }

    fn value(&mut self, kind: u8, body: &[u8], depth: usize) -> Option<()> {
        self.count()?;
        if let Some(members) = Members::of(kind, body) {
            return self.container(members?, depth);
        }
        let mut rest = Bytes(body);
        let text = match kind {
            code::LITERAL => match rest.number(1)? {
                0 => "null".to_owned(),
                1 => "true".to_owned(),
                2 => "false".to_owned(),
                _ => return None,
            },
            code::INT16 => (rest.number(2)? as u16 as i16).to_string(),
            code::UINT16 => rest.number(2)?.to_string(),
            code::INT32 => (rest.number(4)? as u32 as i32).to_string(),
            code::UINT32 => rest.number(4)?.to_string(),
            code::INT64 => (rest.number(8)? as i64).to_string(),
            code::UINT64 => rest.number(8)?.to_string(),
            code::DOUBLE => number(f64::from_bits(rest.number(8)?)),
            code::STRING => {
                let length = varied(&mut rest)?;
                string(std::str::from_utf8(rest.take(length)?).ok()?)
            }
            code::OPAQUE => {
                let of = u8::try_from(rest.number(1)?).ok()?;
                let length = varied(&mut rest)?;
                opaque(of, rest.take(length)?)?
            }
            _ => return None,
        };
        self.out.push_str(&text);
        Some(())
    }

    /// One more value; `None` where there are more, or longer ones, than the document's bytes are worth.
    fn count(&mut self) -> Option<()> {
        self.values_left = self.values_left.checked_sub(1)?;
        self.bytes_max.checked_sub(self.out.len()).map(|_| ())
    }

    fn container(&mut self, mut members: Members<'_>, depth: usize) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        self.out.push(members.brackets().0);
        for at in 0..members.count {
            let (key, kind, body) = members.next()?;
            self.between(at, key);
            self.value(kind, body, depth)?;
        }
        self.out.push(members.brackets().1);
        Some(())
    }

    /// What stands in front of a member: a comma, and its key.
    fn between(&mut self, at: usize, key: Option<&str>) {
        if at > 0 {
            self.out.push_str(", ");
        }
        if let Some(key) = key {
            self.out.push_str(&string(key));
            self.out.push_str(": ");
        }
    }
}

/// What an object or an array holds.
struct Members<'a> {
    is_object: bool,
    count: usize,
    /// Counts and offsets have so many bytes.
    wide: usize,
    /// Offsets count from its beginning.
    body: &'a [u8],
    keys: Bytes<'a>,
    values: Bytes<'a>,
}

impl<'a> Members<'a> {
    /// `None` for a value that holds no others, and within it for bytes that are no container.
    fn of(kind: u8, body: &'a [u8]) -> Option<Option<Members<'a>>> {
        Some(match kind {
            code::SMALL_OBJECT => Members::open(body, true, 2),
            code::LARGE_OBJECT => Members::open(body, true, 4),
            code::SMALL_ARRAY => Members::open(body, false, 2),
            code::LARGE_ARRAY => Members::open(body, false, 4),
            _ => return None,
        })
    }

    fn open(body: &'a [u8], is_object: bool, wide: usize) -> Option<Members<'a>> {
        let mut rest = Bytes(body);
        let count = usize::try_from(rest.number(wide)?).ok()?;
        let bytes = usize::try_from(rest.number(wide)?).ok()?;
        let body = body.get(..bytes)?;
        let keys = Bytes(match is_object {
            true => rest.take(count.checked_mul(wide + 2)?)?,
            false => &[],
        });
        let values = Bytes(rest.take(count.checked_mul(wide + 1)?)?);
        Some(Members {
            is_object,
            count,
            wide,
            body,
            keys,
            values,
        })
    }

    fn brackets(&self) -> (char, char) {
        if self.is_object {
            ('{', '}')
        } else {
            ('[', ']')
        }
    }

    /// The key, where there are keys, and the value of the next of `count` members.
    fn next(&mut self) -> Option<(Option<&'a str>, u8, &'a [u8])> {
        let mut key = None;
        if self.is_object {
            let from = usize::try_from(self.keys.number(self.wide)?).ok()?;
            let length = usize::try_from(self.keys.number(2)?).ok()?;
            let bytes = self.body.get(from..from.checked_add(length)?)?;
            key = Some(std::str::from_utf8(bytes).ok()?);
        }
        let kind = u8::try_from(self.values.number(1)?).ok()?;
        let inlined = self.values.take(self.wide)?;
        if is_inlined(kind, self.wide) {
            return Some((key, kind, inlined));
        }
        let from = usize::try_from(Bytes(inlined).number(self.wide)?).ok()?;
        Some((key, kind, self.body.get(from..)?))
    }
}

/// The value stands where its offset would.
fn is_inlined(kind: u8, wide: usize) -> bool {
    match kind {
        code::LITERAL | code::INT16 | code::UINT16 => true,
        code::INT32 | code::UINT32 => wide == 4,
        _ => false,
    }
}

/// A length whose bytes have seven bits each, the lowest first; all but the last have the eighth.
fn varied(rest: &mut Bytes<'_>) -> Option<usize> {
    let mut length = 0_usize;
    for at in 0..5 {
        let byte = usize::try_from(rest.number(1)?).ok()?;
        length |= (byte & 0x7F) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(length);
        }
    }
    None
}

fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A double as JSON; there is none that JSON does not have in a document.
fn number(value: f64) -> String {
    serde_json::Number::from_f64(value).map_or("null".to_owned(), |number| number.to_string())
}

/// A value of a type of columns.
fn opaque(of: u8, data: &[u8]) -> Option<String> {
    Some(match of {
        column::DECIMAL => {
            let mut rest = Bytes(data);
            let precision = usize::try_from(rest.number(1)?).ok()?;
            let scale = usize::try_from(rest.number(1)?).ok()?;
            // A number, not the text that a reader might round.
            decimal(&mut rest, precision, scale)?
        }
        column::DATE | column::DATETIME | column::TIMESTAMP => {
            string(&moment(of, Bytes(data).number(8)? as i64))
        }
        column::TIME => string(&time(Bytes(data).number(8)? as i64)),
        other => string(&format!("base64:type{other}:{}", BASE64.encode(data))),
    })
}

/// Bits of a fraction of a second in a packed moment.
const FRACTION_BITS: u32 = 24;

fn split(packed: u64) -> (u64, String) {
    let fraction = packed & ((1 << FRACTION_BITS) - 1);
    (packed >> FRACTION_BITS, point(fraction, 6))
}

fn moment(of: u8, packed: i64) -> String {
    let (whole, fraction) = split(packed.unsigned_abs());
    let (day, time) = (whole >> 17, whole & 0x1_FFFF);
    let months = day >> 5;
    let date = format!("{:04}-{:02}-{:02}", months / 13, months % 13, day & 31);
    match of {
        column::DATE => date,
        _ => format!(
            "{date} {:02}:{:02}:{:02}{fraction}",
            time >> 12,
            time >> 6 & 63,
            time & 63
        ),
    }
}

fn time(packed: i64) -> String {
    let sign = if packed < 0 { "-" } else { "" };
    let (whole, fraction) = split(packed.unsigned_abs());
    format!(
        "{sign}{:02}:{:02}:{:02}{fraction}",
        whole >> 12 & 0x3FF,
        whole >> 6 & 63,
        whole & 63
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `{"a": [1, true], "bc": "x"}`, made by hand.
    pub(super) const DOCUMENT: [u8; 35] = [
        0, // a small object
        2, 0, 34, 0, // two members, 34 bytes
        18, 0, 1, 0, 19, 0, 2, 0, // the keys
        2, 21, 0, // an array at 21
        12, 31, 0, // a string at 31
        b'a', b'b', b'c', // 18 to 20
        2, 0, 10, 0, 5, 1, 0, 4, 1, 0, // the array
        1, b'x', 0, // the string
    ];

    #[test]
    fn documents_are_printed_as_the_server_does() {
        let shown = text(&DOCUMENT);
        assert_eq!(shown.as_deref(), Some(r#"{"a": [1, true], "bc": "x"}"#));
        assert_eq!(text(&[]).as_deref(), Some("null"));
        assert_eq!(text(&[5, 0xFE, 0xFF]).as_deref(), Some("-2"));
        assert_eq!(text(&[12, 2, b'"', 0xC3]), None, "no UTF-8");
        // DECIMAL(3,1) 12.5, and a time.
        let decimal = [15, 246, 4, 3, 1, 0x8C, 5];
        assert_eq!(text(&decimal).as_deref(), Some("12.5"));
        let mut late = vec![15, 11, 8];
        late.extend((((23_i64 << 12 | 59 << 6 | 58) << 24) | 5).to_le_bytes());
        assert_eq!(text(&late).as_deref(), Some("\"23:59:58.000005\""));
    }

    /// An array whose members are all the same string, half of the document for each power of two.
    fn again_and_again(power: u32) -> Vec<u8> {
        let members = 1_u16 << power;
        let string = usize::from(members) * 3;
        let from = 4 + members * 3;
        let length = u16::try_from(string).expect("short");
        let bytes = from + 2 + length;
        let mut document = vec![2];
        document.extend(members.to_le_bytes());
        document.extend(bytes.to_le_bytes());
        for _ in 0..members {
            document.push(12);
            document.extend(from.to_le_bytes());
        }
        document.extend([u8::try_from(length & 0x7F).expect("a byte") | 0x80]);
        document.extend([u8::try_from(length >> 7).expect("a byte")]);
        document.extend(vec![b'x'; string]);
        document
    }

    #[test]
    fn what_is_no_document_is_refused() {
        assert!(text(&again_and_again(2)).is_some(), "a short one may be");
        for end in 1..DOCUMENT.len() - 1 {
            assert_eq!(text(&DOCUMENT[..end]), None, "{end}");
        }
        assert_eq!(
            text(&again_and_again(8)),
            None,
            "one long string for many members"
        );
        // An array that holds itself.
        let within = [2, 1, 0, 7, 0, 2, 0, 0];
        assert_eq!(text(&within), None);
        let many = [3, 0xFF, 0xFF, 0xFF, 0xFF, 9, 0, 0, 0];
        assert_eq!(text(&many), None);
    }
}
