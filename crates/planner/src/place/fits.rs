//! What values a column takes as they are.

use farm::shard::Key;

/// What a key's column can hold. A server that is not strict cuts other values to fit, behind the
/// router's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fits {
    Any,
    Integers(i128, i128),
    /// So many characters.
    Length(usize),
    Bytes(usize),
}

impl Fits {
    /// By the column's full type: `int(10) unsigned`, `varchar(20)`.
    pub(crate) fn of(full_type: &str) -> Fits {
        let full_type = full_type.to_ascii_lowercase();
        let name = full_type.split(['(', ' ']).next().unwrap_or_default();
        let bits = match name {
            "tinyint" => 8,
            "smallint" => 16,
            "mediumint" => 24,
            "int" => 32,
            "bigint" => 64,
            "char" | "varchar" | "binary" | "varbinary" => {
                let length = full_type
                    .split(['(', ')'])
                    .nth(1)
                    .and_then(|it| it.parse().ok());
                let most = match name.ends_with("binary") {
                    true => Fits::Bytes,
                    false => Fits::Length,
                };
                return length.map_or(Fits::Any, most);
            }
            _ => return Fits::Any,
        };
        match full_type.contains("unsigned") {
            true => Fits::Integers(0, (1i128 << bits) - 1),
            false => Fits::Integers(-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        }
    }

    pub(crate) fn holds(self, key: &Key) -> bool {
        match (self, key) {
            (Fits::Integers(low, high), Key::Int(number)) => (low..=high).contains(number),
            (Fits::Length(most), Key::Bytes(bytes)) => match std::str::from_utf8(bytes) {
                Ok(text) => text.chars().count() <= most,
                Err(_) => bytes.len() <= most,
            },
            (Fits::Bytes(most), Key::Bytes(bytes)) => bytes.len() <= most,
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_are_counted_in_texts_and_bytes_in_bytes() {
        let key = Key::Bytes("h\u{e9}".as_bytes().to_vec());
        assert!(Fits::of("varchar(2)").holds(&key));
        assert!(!Fits::of("varbinary(2)").holds(&key));
        assert!(Fits::of("binary(3)").holds(&key));
    }
}
