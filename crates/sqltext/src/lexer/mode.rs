//! What the meaning of a text depends on besides its bytes: dialect, server version, sql_mode, charset.

/// Which family of servers will run the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    MariaDb,
    MySql,
}

/// How characters of more than one byte are laid out in the client's character set.
///
/// It matters where a second byte may be `\`, a backtick or a quote: such a byte ends nothing.
/// Charsets whose further bytes are all above 0x7F (utf8, ujis, euckr, gb2312) are [`Multibyte::None`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Multibyte {
    /// Every byte below 0x80 means itself: utf8mb4, utf8mb3, ascii, binary, ujis, euckr, gb2312.
    #[default]
    None,
    /// One byte per character, where 0xA0 may be a space: latin1, cp1250, ….
    SingleByte,
    Gbk,
    /// sjis and cp932.
    Sjis,
    Big5,
    Gb18030,
    /// Not known. A high byte before `\` or a backtick makes the text [`crate::Facts::AMBIGUOUS`].
    Unknown,
}

impl Multibyte {
    /// The layout of the character set `name` as servers name it (`character_set_client`).
    pub fn of_charset(name: &str) -> Multibyte {
        const SAFE: [&str; 10] = [
            "utf8mb4", "utf8", "utf8mb3", "ascii", "binary", "ujis", "eucjpms", "euckr", "gb2312",
            "tis620",
        ];
        const SINGLE: [&str; 24] = [
            "latin1", "latin2", "latin5", "latin7", "cp1250", "cp1251", "cp1256", "cp1257",
            "cp850", "cp852", "cp866", "dec8", "hp8", "koi8r", "koi8u", "swe7", "hebrew", "greek",
            "armscii8", "keybcs2", "macce", "macroman", "geostd8", "latin3",
        ];
        let is = |known: &&str| known.eq_ignore_ascii_case(name);
        match name.to_ascii_lowercase().as_str() {
            "gbk" => Multibyte::Gbk,
            "sjis" | "cp932" => Multibyte::Sjis,
            "big5" => Multibyte::Big5,
            "gb18030" => Multibyte::Gb18030,
            _ if SAFE.iter().any(is) => Multibyte::None,
            _ if SINGLE.iter().any(is) => Multibyte::SingleByte,
            _ => Multibyte::Unknown,
        }
    }

    /// True when a character may have a further byte below 0x80, so that quotes need care.
    pub(crate) fn has_low_trail(self) -> bool {
        matches!(
            self,
            Multibyte::Gbk | Multibyte::Sjis | Multibyte::Big5 | Multibyte::Gb18030
        )
    }

    /// Bytes of the character that begins at `at`: 1 unless a whole valid longer one is there.
    pub(crate) fn char_bytes(self, text: &[u8], at: usize) -> usize {
        let byte = |offset: usize| text.get(at + offset).copied().unwrap_or(0);
        let (lead, trail) = (byte(0), byte(1));
        let pair = match self {
            Multibyte::Gbk | Multibyte::Gb18030 => {
                matches!(lead, 0x81..=0xFE) && matches!(trail, 0x40..=0x7E | 0x80..=0xFE)
            }
            Multibyte::Sjis => {
                matches!(lead, 0x81..=0x9F | 0xE0..=0xFC)
                    && matches!(trail, 0x40..=0x7E | 0x80..=0xFC)
            }
            Multibyte::Big5 => {
                matches!(lead, 0xA1..=0xF9) && matches!(trail, 0x40..=0x7E | 0xA1..=0xFE)
            }
            Multibyte::None | Multibyte::SingleByte | Multibyte::Unknown => false,
        };
        let four = self == Multibyte::Gb18030
            && matches!(lead, 0x81..=0xFE)
            && matches!(trail, 0x30..=0x39)
            && matches!(byte(2), 0x81..=0xFE)
            && matches!(byte(3), 0x30..=0x39);
        match (pair, four) {
            (_, true) => 4,
            (true, _) => 2,
            _ => 1,
        }
    }
}

/// All that the reading of a text depends on. A session keeps one and changes it with its sql_mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    pub dialect: Dialect,
    /// As servers number themselves: 101106 for MariaDB 10.11.6, 80012 for MySQL 8.0.12. It decides
    /// which executable comments count.
    pub version: u32,
    /// `"x"` is an identifier, not a string.
    pub ansi_quotes: bool,
    /// `\` is an ordinary character in strings.
    pub no_backslash_escapes: bool,
    pub multibyte: Multibyte,
}

impl Mode {
    /// The default sql_mode and a utf8 client.
    pub const fn new(dialect: Dialect, version: u32) -> Mode {
        Mode {
            dialect,
            version,
            ansi_quotes: false,
            no_backslash_escapes: false,
            multibyte: Multibyte::None,
        }
    }

    /// Takes up the value of `@@sql_mode`: names separated by commas. The combined modes that imply
    /// ANSI_QUOTES count as well, since a client may set them by their short name.
    pub fn set_sql_mode(&mut self, sql_mode: &str) {
        const ANSI: [&str; 7] = [
            "ANSI_QUOTES",
            "ANSI",
            "DB2",
            "MAXDB",
            "MSSQL",
            "ORACLE",
            "POSTGRESQL",
        ];
        let names = || sql_mode.split(',').map(str::trim);
        self.ansi_quotes = names().any(|name| ANSI.iter().any(|a| a.eq_ignore_ascii_case(name)));
        self.no_backslash_escapes = names().any(|n| n.eq_ignore_ascii_case("NO_BACKSLASH_ESCAPES"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sql_mode_sets_and_clears_both_quote_rules() {
        let mut mode = Mode::new(Dialect::MariaDb, 101_106);
        mode.set_sql_mode("STRICT_TRANS_TABLES, ansi,NO_BACKSLASH_ESCAPES");
        assert!(mode.ansi_quotes && mode.no_backslash_escapes);
        mode.set_sql_mode("STRICT_TRANS_TABLES");
        assert!(!mode.ansi_quotes && !mode.no_backslash_escapes);
    }

    #[test]
    fn charsets_map_to_their_layout() {
        assert_eq!(Multibyte::of_charset("UTF8MB4"), Multibyte::None);
        assert_eq!(Multibyte::of_charset("cp932"), Multibyte::Sjis);
        assert_eq!(Multibyte::of_charset("latin1"), Multibyte::SingleByte);
        assert_eq!(Multibyte::of_charset("klingon"), Multibyte::Unknown);
    }

    #[test]
    fn a_pair_needs_a_valid_second_byte() {
        assert_eq!(Multibyte::Gbk.char_bytes(b"\x81\x5c", 0), 2);
        assert_eq!(Multibyte::Gbk.char_bytes(b"\x81\x27", 0), 1);
        assert_eq!(Multibyte::Gb18030.char_bytes(b"\x81\x30\x81\x30", 0), 4);
        assert_eq!(Multibyte::Sjis.char_bytes(b"\xA0\x5c", 0), 1);
        assert_eq!(Multibyte::None.char_bytes(b"\x81\x5c", 0), 1);
    }
}
