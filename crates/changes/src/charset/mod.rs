//! Character sets by the numbers of their collations, and texts of them as Unicode.
//!
//! Both servers give their collations the same numbers, but for those that only one of them has. Texts come
//! out as the server itself converts them. What cannot be converted so is said, never guessed: characters
//! beyond ASCII of the East Asian sets, and bytes that are no character.

mod single_bytes;

use std::borrow::Cow;

/// The only character set of single bytes in which ASCII does not mean itself.
const SWE7: &str = "swe7";

/// A character set of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    Binary,
    /// utf8mb3, utf8mb4 and ascii.
    Utf8(&'static str),
    /// A character has two bytes, or four as a surrogate pair. The higher byte of each two comes first.
    Utf16(&'static str),
    /// The lower byte comes first.
    Utf16Le,
    Utf32,
    /// One byte a character.
    Single(&'static str),
    /// One byte or more, of which only ASCII is known here.
    Multiple(&'static str),
}

impl Charset {
    /// The server's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Charset::Binary => "binary",
            Charset::Utf16Le => "utf16le",
            Charset::Utf32 => "utf32",
            Charset::Utf8(name)
            | Charset::Utf16(name)
            | Charset::Single(name)
            | Charset::Multiple(name) => name,
        }
    }

    /// The text that these bytes are; `None` where that is not known.
    pub fn decode(self, bytes: &[u8]) -> Option<Cow<'_, str>> {
        match self {
            Charset::Binary => None,
            Charset::Utf8(_) => std::str::from_utf8(bytes).ok().map(Cow::Borrowed),
            Charset::Utf16(_) => utf16(bytes, u16::from_be_bytes),
            Charset::Utf16Le => utf16(bytes, u16::from_le_bytes),
            Charset::Utf32 => {
                let (units, rest) = bytes.as_chunks::<4>();
                let units = units.iter().map(|unit| u32::from_be_bytes(*unit));
                let text = units.map(char::from_u32).collect::<Option<String>>()?;
                rest.is_empty().then_some(Cow::Owned(text))
            }
            // What nearly all texts are needs no table.
            Charset::Single(name) if name != SWE7 && bytes.is_ascii() => {
                std::str::from_utf8(bytes).ok().map(Cow::Borrowed)
            }
            Charset::Single(name) => single(single_bytes::table(name)?, bytes),
            Charset::Multiple(_) => {
                let ascii = bytes.is_ascii().then_some(bytes)?;
                std::str::from_utf8(ascii).ok().map(Cow::Borrowed)
            }
        }
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Cow<'_, str>> {
    let (units, rest) = bytes.as_chunks::<2>();
    let units = units.iter().map(|pair| unit(*pair));
    let text = char::decode_utf16(units)
        .collect::<Result<String, _>>()
        .ok()?;
    rest.is_empty().then_some(Cow::Owned(text))
}

/// By a table of the upper 128 bytes, or of all.
fn single(table: &str, bytes: &[u8]) -> Option<Cow<'static, str>> {
    let characters: Vec<char> = table.chars().collect();
    let is_whole = characters.len() > 128;
    let character = |&byte: &u8| {
        let at = match is_whole {
            true => usize::from(byte),
            false if byte < 128 => return Some(char::from(byte)),
            false => usize::from(byte) - 128,
        };
        let found = characters.get(at).copied();
        found.filter(|&character| character != char::REPLACEMENT_CHARACTER)
    };
    let text = bytes.iter().map(character).collect::<Option<String>>()?;
    Some(Cow::Owned(text))
}

/// The character set of a collation; `None` for one that nobody here knows.
pub fn charset_of(collation: u32) -> Option<Charset> {
    use Charset::{Multiple, Single, Utf8, Utf16};
    Some(match collation {
        1 | 84 => Multiple("big5"),
        2 | 9 | 21 | 27 | 77 => Single("latin2"),
        3 | 69 => Single("dec8"),
        4 | 80 => Single("cp850"),
        5 | 8 | 15 | 31 | 47..=49 | 94 => Single("latin1"),
        6 | 72 => Single("hp8"),
        7 | 74 => Single("koi8r"),
        10 | 82 => Single(SWE7),
        11 | 65 => Utf8("ascii"),
        12 | 91 => Multiple("ujis"),
        13 | 88 => Multiple("sjis"),
        14 | 23 | 50..=52 => Single("cp1251"),
        16 | 71 => Single("hebrew"),
        18 | 89 => Single("tis620"),
        19 | 85 => Multiple("euckr"),
        20 | 41 | 42 | 79 => Single("latin7"),
        22 | 75 => Single("koi8u"),
        24 | 86 => Multiple("gb2312"),
        25 | 70 => Single("greek"),
        26 | 34 | 44 | 66 | 99 => Single("cp1250"),
        28 | 87 => Multiple("gbk"),
        29 | 58 | 59 => Single("cp1257"),
        30 | 78 => Single("latin5"),
        32 | 64 => Single("armscii8"),
        33 | 76 | 83 | 192..=223 | 576..=607 => Utf8("utf8mb3"),
        35 | 90 | 128..=159 | 640..=671 => Utf16("ucs2"),
        36 | 68 => Single("cp866"),
        37 | 73 => Single("keybcs2"),
        38 | 43 => Single("macce"),
        39 | 53 => Single("macroman"),
        40 | 81 => Single("cp852"),
        45 | 46 | 224..=247 | 255..=323 | 608..=639 => Utf8("utf8mb4"),
        54 | 55 | 101..=124 | 672..=703 => Utf16("utf16"),
        56 | 62 => Charset::Utf16Le,
        57 | 67 => Single("cp1256"),
        60 | 61 | 160..=191 | 736..=767 => Charset::Utf32,
        63 => Charset::Binary,
        92 | 93 => Single("geostd8"),
        95 | 96 => Multiple("cp932"),
        97 | 98 => Multiple("eucjpms"),
        248..=250 => Multiple("gb18030"),
        // MariaDB's collations that do not pad, and those of UCA 14.0.0.
        1024..=2047 => return charset_of(collation - 1024),
        2048..=2303 => Utf8("utf8mb3"),
        2304..=2559 => Utf8("utf8mb4"),
        2560..=2815 => Utf16("ucs2"),
        2816..=3071 => Utf16("utf16"),
        3072..=3327 => Charset::Utf32,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(collation: u32, bytes: &[u8]) -> Option<String> {
        charset_of(collation)?.decode(bytes).map(Cow::into_owned)
    }

    #[test]
    fn texts_become_unicode() {
        let smor = Some("smör€".to_owned());
        assert_eq!(decoded(45, "smör€".as_bytes()), smor);
        assert_eq!(decoded(8, b"sm\xF6r\x80"), smor);
        assert_eq!(decoded(35, b"\0s\0m\0\xF6\0r\x20\xAC"), smor);
        assert_eq!(decoded(56, b"s\0m\0\xF6\0r\0\xAC\x20"), smor);
        assert_eq!(
            decoded(60, b"\0\0\0s\0\x01\xF6\x00"),
            Some("s😀".to_owned())
        );
        assert_eq!(decoded(54, b"\xD8\x3D\xDE\x00"), Some("😀".to_owned()));
        assert_eq!(decoded(10, b"]"), Some("Å".to_owned()), "swe7 is not ASCII");
        assert_eq!(decoded(51, b"\xCF"), Some("П".to_owned()));
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(decoded(45, b"\xFF"), None);
        assert_eq!(decoded(63, b"a"), None);
        assert_eq!(decoded(28, b"abc"), Some("abc".to_owned()));
        assert_eq!(decoded(28, b"\xC4\xE3"), None);
        assert_eq!(decoded(54, b"\xD8\x3D"), None);
        assert_eq!(decoded(54, b"\0a\0"), None);
        assert_eq!(charset_of(100_000), None);
    }
}
