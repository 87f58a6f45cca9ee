//! Character sets and collations by id and name, as both servers know them.

use std::sync::OnceLock;

/// A collation. Its id travels in handshakes and column definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Collation {
    /// The same id is the same collation on both servers.
    pub id: u16,
    /// The character set, by its name of today: `utf8mb3`, never `utf8`.
    pub charset: &'static str,
    /// MariaDB's name where the servers differ.
    pub name: &'static str,
    /// The most bytes that a character takes.
    pub character_bytes_max: u8,
}

/// The id that means bytes without a character set.
pub const BINARY: u16 = 63;
/// The id of `utf8mb4_general_ci`, which every server since 5.5 knows.
pub const UTF8MB4: u16 = 45;

/// The list, one collation a line; see its head.
const LIST: &str = include_str!("charset.txt");

/// Character sets whose characters take more than one byte.
const WIDE: [(&str, u8); 16] = [
    ("big5", 2),
    ("cp932", 2),
    ("eucjpms", 3),
    ("euckr", 2),
    ("gb18030", 4),
    ("gb2312", 2),
    ("gbk", 2),
    ("sjis", 2),
    ("ucs2", 2),
    ("ujis", 3),
    ("utf16", 4),
    ("utf16le", 4),
    ("utf32", 4),
    ("utf8", 3),
    ("utf8mb3", 3),
    ("utf8mb4", 4),
];

/// The default collation of each character set. For `utf8mb4` it is the one that both servers
/// have; MySQL 8 itself would take 255.
const DEFAULTS: [(&str, u16); 42] = [
    ("armscii8", 32),
    ("ascii", 11),
    ("big5", 1),
    ("binary", BINARY),
    ("cp1250", 26),
    ("cp1251", 51),
    ("cp1256", 57),
    ("cp1257", 59),
    ("cp850", 4),
    ("cp852", 40),
    ("cp866", 36),
    ("cp932", 95),
    ("dec8", 3),
    ("eucjpms", 97),
    ("euckr", 19),
    ("gb18030", 248),
    ("gb2312", 24),
    ("gbk", 28),
    ("geostd8", 92),
    ("greek", 25),
    ("hebrew", 16),
    ("hp8", 6),
    ("keybcs2", 37),
    ("koi8r", 7),
    ("koi8u", 22),
    ("latin1", 8),
    ("latin2", 9),
    ("latin5", 30),
    ("latin7", 41),
    ("macce", 38),
    ("macroman", 39),
    ("sjis", 13),
    ("swe7", 10),
    ("tis620", 18),
    ("ucs2", 35),
    ("ujis", 12),
    ("utf16", 54),
    ("utf16le", 56),
    ("utf32", 60),
    ("utf8", 33),
    ("utf8mb3", 33),
    ("utf8mb4", UTF8MB4),
];

/// The collation of an id; None when neither server has it.
pub fn collation(id: u16) -> Option<Collation> {
    let list = collations();
    let at = list
        .binary_search_by_key(&id, |collation| collation.id)
        .ok()?;
    Some(list[at])
}

/// The collation of a name, in any case; the old prefix `utf8_` is `utf8mb3_`.
pub fn collation_by_name(name: &str) -> Option<Collation> {
    let lower = name.to_ascii_lowercase();
    let name = match lower.strip_prefix("utf8_") {
        Some(rest) => format!("utf8mb3_{rest}"),
        None => lower,
    };
    collations()
        .iter()
        .find(|collation| collation.name == name)
        .copied()
}

/// The id of a character set's default collation. The name is taken in any case.
pub fn default_collation(charset: &str) -> Option<u16> {
    let row = DEFAULTS
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(charset));
    row.map(|(_, id)| *id)
}

/// Whether every ASCII character is its own byte, and no other character has such a byte at its
/// beginning: SQL in this character set can be read as bytes. Servers refuse the others as a
/// client's character set.
pub fn is_ascii_safe(charset: &str) -> bool {
    !["ucs2", "utf16", "utf16le", "utf32"]
        .iter()
        .any(|name| name.eq_ignore_ascii_case(charset))
}

/// Whether the second byte of a character may be `\`, so that quoted strings cannot be read byte
/// by byte.
pub fn has_backslash_inside(charset: &str) -> bool {
    let such = ["big5", "cp932", "gb18030", "gbk", "sjis"];
    such.iter().any(|name| name.eq_ignore_ascii_case(charset))
}

/// All collations, by id. They are constants, read once from the list.
fn collations() -> &'static [Collation] {
    static COLLATIONS: OnceLock<Vec<Collation>> = OnceLock::new();
    COLLATIONS.get_or_init(|| LIST.lines().filter_map(parse_line).collect())
}

fn parse_line(line: &'static str) -> Option<Collation> {
    let mut words = line.split(' ');
    let id = words.next()?.parse().ok()?;
    let (charset, name) = (words.next()?, words.next()?);
    let wide = WIDE.iter().find(|(listed, _)| *listed == charset);
    Some(Collation {
        id,
        charset,
        name,
        character_bytes_max: wide.map_or(1, |(_, bytes)| *bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_read_in_order() {
        let lines = LIST.lines().filter(|line| !line.starts_with('#')).count();
        let list = collations();
        assert_eq!(list.len(), lines);
        assert!(list.len() > 1300);
        assert!(list.is_sorted_by(|left, right| left.id < right.id));
    }

    #[test]
    fn well_known_ids_are_found() {
        let mut utf8mb4 = collation(45).expect("utf8mb4_general_ci");
        assert_eq!(
            (utf8mb4.charset, utf8mb4.character_bytes_max),
            ("utf8mb4", 4)
        );
        utf8mb4 = collation(255).expect("the default of MySQL 8");
        assert_eq!(utf8mb4.name, "utf8mb4_0900_ai_ci");
        assert_eq!(
            collation(8).map(|latin1| latin1.name),
            Some("latin1_swedish_ci")
        );
        assert_eq!(collation(2304).map(|uca| uca.charset), Some("utf8mb4"));
        assert_eq!((collation(0), collation(17)), (None, None));
    }

    #[test]
    fn names_are_found_in_any_case_and_by_their_old_prefix() {
        assert_eq!(
            collation_by_name("UTF8MB4_BIN").map(|found| found.id),
            Some(46)
        );
        assert_eq!(
            collation_by_name("utf8_general_ci").map(|found| found.id),
            Some(33)
        );
        assert_eq!(collation_by_name("klingon_ci"), None);
    }

    #[test]
    fn every_charset_has_a_default_of_its_own() {
        for collation in collations() {
            let default = default_collation(collation.charset).and_then(super::collation);
            let default = default.unwrap_or_else(|| panic!("{} has no default", collation.charset));
            assert_eq!(default.charset, collation.charset);
        }
        assert_eq!(default_collation("UTF8"), Some(33));
        assert_eq!(default_collation("klingon"), None);
    }

    #[test]
    fn wide_charsets_are_not_ascii_safe() {
        assert!(is_ascii_safe("utf8mb4") && is_ascii_safe("latin1") && !is_ascii_safe("UTF16"));
        assert!(has_backslash_inside("gbk") && !has_backslash_inside("utf8mb4"));
    }
}
