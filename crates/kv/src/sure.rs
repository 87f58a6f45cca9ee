//! Whether a table surely takes a row, told without asking it: pure.
//!
//! A write that is acknowledged before its commit must not be one that the table refuses. So this says yes
//! only where types leave no doubt, and a table that may refuse for other reasons has no [`Sure`] at all.

use crate::item::Row;
use crate::table::Found;

/// What the columns of a container take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sure {
    pub key: Takes,
    /// For each column of the value, and whether it may be NULL.
    pub values: Vec<(Takes, bool)>,
    /// Of flags, cas and expiry, where there are such columns.
    pub sides: [Option<Takes>; 3],
}

/// What one column takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    Integers { least: i128, most: i128 },
    Text { chars: u64, bytes: u64, set: Set },
    Bytes { bytes: u64 },
}

/// Which characters a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    All,
    /// Those that utf8mb3 has.
    ThreeBytes,
    Ascii,
}

impl Takes {
    /// What the column takes; `None` where this cannot be told by its type.
    pub fn of(found: &Found) -> Option<Takes> {
        let full = found.full_type.to_ascii_lowercase();
        let word: String = full.chars().take_while(char::is_ascii_alphabetic).collect();
        let length = || -> Option<u64> {
            let digits = full.get(word.len() + 1..)?.split(')').next()?;
            digits.parse().ok()
        };
        let bits = match &*word {
            "tinyint" => 8,
            "smallint" => 16,
            "mediumint" => 24,
            "int" => 32,
            "bigint" => 64,
            _ => 0,
        };
        if bits > 0 {
            return (!full.contains("zerofill")).then(|| integers(bits, full.contains("unsigned")));
        }
        let bytes = match &*word {
            "tinytext" | "tinyblob" => 255,
            "text" | "blob" => 65_535,
            "mediumtext" | "mediumblob" => (1 << 24) - 1,
            "longtext" | "longblob" => (1 << 32) - 1,
            "char" | "varchar" => u64::MAX,
            "binary" | "varbinary" => return length().map(|bytes| Takes::Bytes { bytes }),
            _ => return None,
        };
        if word.ends_with("blob") {
            return Some(Takes::Bytes { bytes });
        }
        let chars = if bytes == u64::MAX {
            length()?
        } else {
            u64::MAX
        };
        let set = match found.collation.split('_').next()? {
            "utf8mb4" | "uca1400" => Set::All,
            "utf8" | "utf8mb3" => Set::ThreeBytes,
            "latin1" | "ascii" => Set::Ascii,
            _ => return None,
        };
        Some(Takes::Text { chars, bytes, set })
    }

    fn takes(self, value: &[u8]) -> bool {
        let text = std::str::from_utf8(value);
        match self {
            Takes::Bytes { bytes } => value.len() as u64 <= bytes,
            Takes::Integers { .. } => text
                .ok()
                .and_then(|digits| digits.parse().ok())
                .is_some_and(|number| self.counts(number)),
            Takes::Text { chars, bytes, set } => text.is_ok_and(|text| {
                let known = match set {
                    Set::All => true,
                    Set::ThreeBytes => text.chars().all(|c| c <= '\u{ffff}'),
                    Set::Ascii => text.is_ascii(),
                };
                known && text.len() as u64 <= bytes && text.chars().count() as u64 <= chars
            }),
        }
    }

    fn counts(self, number: i128) -> bool {
        matches!(self, Takes::Integers { least, most } if (least..=most).contains(&number))
    }
}

fn integers(bits: u32, unsigned: bool) -> Takes {
    let (least, most) = match unsigned {
        true => (0, (1_i128 << bits) - 1),
        false => (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1),
    };
    Takes::Integers { least, most }
}

impl Sure {
    /// True when the table takes the row for sure, unless somebody changes the table.
    pub fn takes(&self, key: &[u8], row: &Row) -> bool {
        let part = |(part, (takes, nullable)): (&Option<Vec<u8>>, &(Takes, bool))| match part {
            Some(part) => takes.takes(part),
            None => *nullable,
        };
        let numbers = [u64::from(row.flags), row.cas, row.expiry];
        let side = |(takes, number): (&Option<Takes>, u64)| {
            takes.is_none_or(|takes| takes.counts(i128::from(number)))
        };
        self.key.takes(key)
            && row.parts.len() == self.values.len()
            && row.parts.iter().zip(&self.values).all(part)
            && self.sides.iter().zip(numbers).all(side)
    }
}

/// True when a table made by this statement may refuse rows whatever their columns take: by a foreign key, a
/// CHECK, a generated column, or because no partition has the row.
pub(crate) fn may_refuse(create_table: &str) -> bool {
    let text = create_table.to_ascii_uppercase();
    let words = ["FOREIGN KEY", "CHECK", "PARTITION BY", "GENERATED", " AS ("];
    words.iter().any(|word| text.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::kind_of;

    fn takes(full_type: &str, collation: &str) -> Option<Takes> {
        Takes::of(&Found {
            name: "c".to_owned(),
            kind: kind_of(full_type),
            nullable: false,
            collation: collation.to_owned(),
            full_type: full_type.to_owned(),
            demands: false,
        })
    }

    #[test]
    fn a_column_takes_what_its_type_holds() {
        let cases: [(&str, &str, &[&str], &[&str]); 7] = [
            (
                "int(11)",
                "",
                &["2147483647", "-5"],
                &["2147483648", "x", "", "1.0"],
            ),
            ("tinyint unsigned", "", &["255", "0"], &["256", "-1"]),
            ("varchar(3)", "utf8mb4_bin", &["äöü", "", "abc"], &["abcd"]),
            ("char(2)", "utf8mb3_general_ci", &["äö"], &["😀"]),
            ("varchar(9)", "latin1_swedish_ci", &["abc"], &["ä"]),
            ("varbinary(3)", "", &["abc"], &["äö"]),
            ("tinytext", "uca1400_as_cs", &["abc"], &[&"a".repeat(256)]),
        ];
        for (full_type, collation, good, bad) in cases {
            let takes = takes(full_type, collation).expect("a type that is known");
            for value in good {
                assert!(takes.takes(value.as_bytes()), "{full_type}: {value}");
            }
            for value in bad {
                assert!(!takes.takes(value.as_bytes()), "{full_type}: {value}");
            }
        }
        for (full_type, collation) in [
            ("decimal(5,2)", ""),
            ("int(5) unsigned zerofill", ""),
            ("datetime", ""),
            ("bit(3)", ""),
            ("varchar(3)", "sjis_japanese_ci"),
            ("json", ""),
        ] {
            assert_eq!(takes(full_type, collation), None, "{full_type}");
        }
    }

    #[test]
    fn all_columns_of_a_row_have_to_fit() {
        let sure = Sure {
            key: takes("varchar(3)", "utf8mb4_bin").expect("it is known"),
            values: vec![(integers(8, true), true), (integers(8, true), false)],
            sides: [Some(integers(8, false)), None, None],
        };
        let part = |text: &str| (text != "NULL").then(|| text.into());
        let row = |one: &str, other: &str, flags| Row {
            parts: vec![part(one), part(other)],
            flags,
            ..Row::default()
        };
        assert!(sure.takes(b"k", &row("NULL", "7", 127)));
        assert!(!sure.takes(b"long", &row("NULL", "7", 0)));
        assert!(!sure.takes(b"k", &row("7", "NULL", 0)));
        assert!(!sure.takes(b"k", &row("7", "7", 128)));
    }

    #[test]
    fn tables_that_may_refuse_are_seen() {
        assert!(!may_refuse(
            "CREATE TABLE `t` (`k` int NOT NULL, PRIMARY KEY (`k`)) ENGINE=InnoDB"
        ));
        for part in [
            "FOREIGN KEY (`a`) REFERENCES",
            "CHECK (`a` > 0)",
            "GENERATED ALWAYS AS (1)",
        ] {
            assert!(may_refuse(&format!("CREATE TABLE `t` (`a` int, {part})")));
        }
    }
}
