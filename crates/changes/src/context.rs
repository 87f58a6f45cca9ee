//! With what a statement was run: what its session had, and the values that it was given beside its text.

use crate::charset::charset_of;
use crate::code;
use crate::table::Bytes;

/// Bits of a session's switches.
const NO_FOREIGN_KEY_CHECKS: u32 = 1 << 26;
const RELAXED_UNIQUE_CHECKS: u32 = 1 << 27;
const AUTO_IS_NULL: u32 = 1 << 14;
const NOT_AUTOCOMMIT: u32 = 1 << 19;

/// A variable of the client's.
#[derive(Clone, Debug, PartialEq)]
pub struct UserVariable {
    pub name: String,
    pub value: UserValue,
}

/// What it had.
#[derive(Clone, Debug, PartialEq)]
pub enum UserValue {
    Null,
    /// Bytes, and the number of their collation.
    Text(Vec<u8>, u32),
    Real(f64),
    Integer(i64),
    Unsigned(u64),
    Decimal(String),
}

/// What the log says of a statement's session. What it does not say is `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Context {
    /// What NOW() was: seconds since 1970, and microseconds.
    pub timestamp: Option<(u32, u32)>,
    /// The client's connection on the server that logged it.
    pub thread: u32,
    switches: Option<u32>,
    /// The bits that servers number its modes by.
    pub sql_mode: Option<u64>,
    /// `auto_increment_increment` and `auto_increment_offset`.
    pub auto_increment: Option<(u16, u16)>,
    /// Collations by their numbers: of `character_set_client`, `collation_connection`, `collation_server`.
    pub collations: Option<(u16, u16, u16)>,
    pub time_zone: Option<String>,
    /// `lc_time_names`, by its number.
    pub time_names: Option<u16>,
    /// Of the session's database, by its number.
    pub collation_database: Option<u16>,
    /// Whose rights it had: the user and the host.
    pub invoker: Option<(String, String)>,
    pub explicit_defaults_for_timestamp: Option<bool>,
    /// By its number.
    pub default_collation_for_utf8mb4: Option<u16>,
    pub sql_require_primary_key: Option<bool>,
    pub default_table_encryption: Option<bool>,
    pub insert_id: Option<u64>,
    pub last_insert_id: Option<u64>,
    /// The two seeds of RAND().
    pub rand: Option<(u64, u64)>,
    pub variables: Vec<UserVariable>,
}

/// What the log numbers of a session's variables.
mod status {
    pub const SWITCHES: u64 = 0;
    pub const SQL_MODE: u64 = 1;
    pub const CATALOG_WITH_ZERO: u64 = 2;
    pub const AUTO_INCREMENT: u64 = 3;
    pub const COLLATIONS: u64 = 4;
    pub const TIME_ZONE: u64 = 5;
    pub const CATALOG: u64 = 6;
    pub const TIME_NAMES: u64 = 7;
    pub const COLLATION_DATABASE: u64 = 8;
    pub const TABLES_OF_UPDATE: u64 = 9;
    pub const MASTER_DATA_WRITTEN: u64 = 10;
    pub const INVOKER: u64 = 11;
    pub const DATABASES: u64 = 12;
    pub const MICROSECONDS: u64 = 13;
    pub const EXPLICIT_DEFAULTS: u64 = 16;
    pub const LOGGED_WITH_XID: u64 = 17;
    pub const UTF8MB4: u64 = 18;
    pub const REQUIRES_KEY: u64 = 19;
    pub const ENCRYPTION: u64 = 20;
    /// MariaDB's own.
    pub const MARIADB_MICROSECONDS: u64 = 128;
    pub const MARIADB_XID: u64 = 129;
    pub const MARIADB_FLAGS: u64 = 130;
    pub const MARIADB_COLLATIONS: u64 = 131;
}

/// More databases than are named.
const DATABASES_OVER: u64 = 254;

impl Context {
    /// Takes over what stands in front of a statement's text: the session's variables of a query event. What is not
    /// known here, and everything behind it, is passed over.
    pub(crate) fn take_status(&mut self, time_s: u32, status: &[u8]) {
        self.timestamp = Some((time_s, 0));
        let mut rest = Bytes(status);
        while !rest.0.is_empty() && self.variable(&mut rest).is_some() {}
    }

    fn variable(&mut self, rest: &mut Bytes<'_>) -> Option<()> {
        use status as s;
        let small = |number: u64| u16::try_from(number).ok();
        match rest.number(1)? {
            s::SWITCHES => self.switches = u32::try_from(rest.number(4)?).ok(),
            s::SQL_MODE => self.sql_mode = Some(rest.number(8)?),
            s::CATALOG_WITH_ZERO => {
                rest.counted(1)?;
                rest.take(1)?;
            }
            s::CATALOG => drop(rest.counted(1)?),
            s::AUTO_INCREMENT => {
                self.auto_increment = small(rest.number(2)?).zip(small(rest.number(2)?));
            }
            s::COLLATIONS => {
                let numbers = (rest.number(2)?, rest.number(2)?, rest.number(2)?);
                self.collations = Some((small(numbers.0)?, small(numbers.1)?, small(numbers.2)?));
            }
            s::TIME_ZONE => self.time_zone = Some(text(rest.counted(1)?)),
            s::TIME_NAMES => self.time_names = small(rest.number(2)?),
            s::COLLATION_DATABASE => self.collation_database = small(rest.number(2)?),
            s::TABLES_OF_UPDATE | s::LOGGED_WITH_XID | s::MARIADB_XID => drop(rest.number(8)?),
            s::MASTER_DATA_WRITTEN => drop(rest.number(4)?),
            s::INVOKER => {
                self.invoker = Some((text(rest.counted(1)?), text(rest.counted(1)?)));
            }
            s::DATABASES => {
                let count = rest.number(1)?;
                for _ in 0..if count == DATABASES_OVER { 0 } else { count } {
                    let end = rest.0.iter().position(|&byte| byte == 0)?;
                    rest.take(end + 1)?;
                }
            }
            s::MICROSECONDS | s::MARIADB_MICROSECONDS => {
                let micros = u32::try_from(rest.number(3)?).ok()?;
                self.timestamp = self.timestamp.map(|(seconds, _)| (seconds, micros));
            }
            s::EXPLICIT_DEFAULTS => {
                self.explicit_defaults_for_timestamp = Some(rest.number(1)? != 0);
            }
            s::UTF8MB4 => self.default_collation_for_utf8mb4 = small(rest.number(2)?),
            s::REQUIRES_KEY => self.sql_require_primary_key = Some(rest.number(1)? != 0),
            s::ENCRYPTION => self.default_table_encryption = Some(rest.number(1)? != 0),
            s::MARIADB_FLAGS => {
                /// The end of an ALTER that was logged when it began has its number here.
                const ENDS_ALTER: u64 = 4 | 8;
                if rest.number(1)? & ENDS_ALTER != 0 {
                    rest.number(8)?;
                }
            }
            s::MARIADB_COLLATIONS => {
                let count = usize::try_from(rest.number(1)?).ok()?;
                rest.take(count * 4)?;
            }
            _ => return None,
        }
        Some(())
    }

    /// Takes over an event that stands in front of a statement's: INTVAR, RAND, USER_VAR. False for any other, and for
    /// what ends too early.
    pub(crate) fn take_event(&mut self, kind: u8, data: &[u8]) -> bool {
        let mut rest = Bytes(data);
        let mut taken = || match kind {
            code::INTVAR => {
                const LAST_INSERT_ID: u64 = 1;
                let (which, number) = (rest.number(1)?, rest.number(8)?);
                match which {
                    LAST_INSERT_ID => self.last_insert_id = Some(number),
                    _ => self.insert_id = Some(number),
                }
                Some(())
            }
            code::RAND => {
                self.rand = Some((rest.number(8)?, rest.number(8)?));
                Some(())
            }
            code::USER_VAR => {
                let variable = variable(&mut rest)?;
                self.variables.retain(|it| it.name != variable.name);
                self.variables.push(variable);
                Some(())
            }
            _ => None,
        };
        taken().is_some()
    }

    /// Whether foreign keys, and unique keys, were checked; where the log says it.
    pub fn checks(&self) -> Option<(bool, bool)> {
        let switches = self.switches?;
        Some((
            switches & NO_FOREIGN_KEY_CHECKS == 0,
            switches & RELAXED_UNIQUE_CHECKS == 0,
        ))
    }

    /// `sql_auto_is_null` and `autocommit`, where the log says them.
    pub fn habits(&self) -> Option<(bool, bool)> {
        let switches = self.switches?;
        Some((switches & AUTO_IS_NULL != 0, switches & NOT_AUTOCOMMIT == 0))
    }

    /// The statement's text, which is in the client's character set; what cannot be converted is replaced.
    pub fn words(&self, text: &[u8]) -> String {
        self.exact_words(text)
            .unwrap_or_else(|| String::from_utf8_lossy(text).into_owned())
    }

    /// The same; `None` for a text with bytes that cannot be converted surely.
    pub fn exact_words(&self, text: &[u8]) -> Option<String> {
        let client = self.collations.map(|(client, _, _)| u32::from(client));
        match client.and_then(charset_of) {
            Some(charset) => charset.decode(text).map(|words| words.into_owned()),
            None => String::from_utf8(text.to_vec()).ok(),
        }
    }

    /// The modes of `sql_mode` by their names, in the order of their numbers.
    pub fn modes(&self) -> Option<Vec<&'static str>> {
        let bits = self.sql_mode?;
        let named = MODES.iter().filter(|(bit, _)| bits >> bit & 1 == 1);
        Some(named.map(|(_, name)| *name).collect())
    }
}

/// The modes that a session may have, by their bits. Those that stand for several others are left out, since these
/// have bits of their own.
const MODES: &[(u32, &str)] = &[
    (0, "REAL_AS_FLOAT"),
    (1, "PIPES_AS_CONCAT"),
    (2, "ANSI_QUOTES"),
    (3, "IGNORE_SPACE"),
    (5, "ONLY_FULL_GROUP_BY"),
    (6, "NO_UNSIGNED_SUBTRACTION"),
    (7, "NO_DIR_IN_CREATE"),
    (9, "ORACLE"),
    (19, "NO_AUTO_VALUE_ON_ZERO"),
    (20, "NO_BACKSLASH_ESCAPES"),
    (21, "STRICT_TRANS_TABLES"),
    (22, "STRICT_ALL_TABLES"),
    (23, "NO_ZERO_IN_DATE"),
    (24, "NO_ZERO_DATE"),
    (25, "ALLOW_INVALID_DATES"),
    (26, "ERROR_FOR_DIVISION_BY_ZERO"),
    (29, "HIGH_NOT_PRECEDENCE"),
    (30, "NO_ENGINE_SUBSTITUTION"),
    (31, "PAD_CHAR_TO_FULL_LENGTH"),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A variable of the client's, as its event has it.
fn variable(rest: &mut Bytes<'_>) -> Option<UserVariable> {
    const UNSIGNED: u64 = 1;
    let name = text(rest.counted(4)?);
    if rest.number(1)? != 0 {
        let value = UserValue::Null;
        return Some(UserVariable { name, value });
    }
    let (kind, collation) = (rest.number(1)?, u32::try_from(rest.number(4)?).ok()?);
    let raw = rest.counted(4)?;
    let flags = rest.number(1).unwrap_or(0);
    let value = match kind {
        0 => UserValue::Text(raw.to_vec(), collation),
        1 => UserValue::Real(f64::from_le_bytes(raw.try_into().ok()?)),
        2 => {
            let number = i64::from_le_bytes(raw.try_into().ok()?);
            match flags & UNSIGNED {
                0 => UserValue::Integer(number),
                _ => UserValue::Unsigned(number as u64),
            }
        }
        4 => {
            let (&[precision, scale], bytes) = raw.split_first_chunk()?;
            let mut bytes = Bytes(bytes);
            let (precision, scale) = (usize::from(precision), usize::from(scale));
            UserValue::Decimal(crate::cell::decimal(&mut bytes, precision, scale)?)
        }
        _ => return None,
    };
    Some(UserVariable { name, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sessions_variables_are_read() {
        let mut status = vec![0, 0, 0, 0, 4];
        status.push(1);
        status.extend((1_u64 << 2 | 1 << 22).to_le_bytes());
        status.extend([6, 3]);
        status.extend(b"std");
        status.extend([3, 2, 0, 1, 0]);
        status.extend([4, 8, 0, 45, 0, 45, 0]);
        status.extend([5, 6]);
        status.extend(b"+02:00");
        status.extend([11, 1, b'u', 1, b'h', 12, 1, b'd', 0, 128, 5, 0, 0]);
        let mut context = Context::default();
        context.take_status(7, &status);
        assert_eq!(context.timestamp, Some((7, 5)));
        assert_eq!(context.checks(), Some((false, true)));
        assert_eq!(context.habits(), Some((false, true)));
        let modes = context.modes().expect("it says them");
        assert_eq!(modes, ["ANSI_QUOTES", "STRICT_ALL_TABLES"]);
        assert_eq!(context.auto_increment, Some((2, 1)));
        assert_eq!(context.collations, Some((8, 45, 45)));
        assert_eq!(context.time_zone.as_deref(), Some("+02:00"));
        assert_eq!(context.invoker, Some(("u".to_owned(), "h".to_owned())));
        assert_eq!(context.words(b"sm\xF6r"), "sm\u{f6}r", "latin1");
        for end in 0..status.len() {
            Context::default().take_status(7, &status[..end]);
        }
        let mut unknown = Context::default();
        unknown.take_status(7, &[200, 1, 5, 1, b'x']);
        assert_eq!(unknown.time_zone, None);
    }

    #[test]
    fn values_beside_a_statement_are_read() {
        let mut context = Context::default();
        let mut number = vec![2];
        number.extend(9_u64.to_le_bytes());
        assert!(context.take_event(code::INTVAR, &number));
        number[0] = 1;
        assert!(context.take_event(code::INTVAR, &number));
        assert_eq!(
            (context.insert_id, context.last_insert_id),
            (Some(9), Some(9))
        );
        assert!(!context.take_event(code::RAND, &[1; 15]));
        assert!(context.take_event(code::RAND, &[1; 16]));
        let mut text = vec![1, 0, 0, 0, b'a', 0, 0, 45, 0, 0, 0, 2, 0, 0, 0, b'x', b'y'];
        assert!(context.take_event(code::USER_VAR, &text));
        text[5] = 1;
        text[4] = b'b';
        assert!(context.take_event(code::USER_VAR, &text[..6]));
        let mut unsigned = vec![1, 0, 0, 0, b'c', 0, 2, 8, 0, 0, 0, 8, 0, 0, 0];
        unsigned.extend([0xFF; 8]);
        unsigned.push(1);
        assert!(context.take_event(code::USER_VAR, &unsigned));
        let values: Vec<_> = context
            .variables
            .iter()
            .map(|it| it.value.clone())
            .collect();
        let expected = [
            UserValue::Text(b"xy".to_vec(), 45),
            UserValue::Null,
            UserValue::Unsigned(u64::MAX),
        ];
        assert_eq!(values, expected);
        assert!(!context.take_event(code::QUERY, &[]));
    }
}
