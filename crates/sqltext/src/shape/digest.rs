//! The name of a statement's shape, for people, rules and statistics.
//!
//! The digest is stable over processes, machines and restarts, as long as [`crate::normalise`] writes the same.
//! Nobody finds two normal forms with one digest, so a rule may let statements pass by it.

use std::fmt::{self, Display};
use std::str::FromStr;

use sha2::{Digest as _, Sha256};

use crate::lexer::mode::Mode;
use crate::shape::normal::normalise;

/// The first half of the SHA-256 of a normal form. Written as 32 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(u128);

impl Digest {
    /// Of a text. The time is that of [`normalise`] and more: not for the hot path.
    pub fn of(text: &[u8], mode: &Mode) -> Digest {
        let mut normal = String::new();
        normalise(text, mode, &mut normal);
        Digest::of_normal(&normal)
    }

    /// Of what [`normalise`] wrote.
    pub fn of_normal(normal: &str) -> Digest {
        let hash: [u8; 32] = Sha256::digest(normal).into();
        let half = hash.first_chunk().expect("32 bytes have 16");
        Digest(u128::from_be_bytes(*half))
    }

    /// The same for files.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// What [`Digest::to_bytes`] gave.
    pub fn from_bytes(bytes: [u8; 16]) -> Digest {
        Digest(u128::from_be_bytes(bytes))
    }

    /// The first 16 of its digits, where there is no room for more.
    pub fn half(self) -> u64 {
        (self.0 >> 64) as u64
    }
}

impl Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

/// What is no digest.
#[derive(Debug)]
pub struct NotADigest;

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Digest, NotADigest> {
        let whole = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| whole);
        number.map(Digest).ok_or(NotADigest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexer::mode::Dialect;

    /// Rules in people's files name statements so: the number may not change.
    #[test]
    fn digests_are_stable() {
        let mode = Mode::new(Dialect::MariaDb, 101_100);
        let digest = Digest::of(b"select  a from t /* here */ where b in (1, 2, 3)", &mode);
        let normal = "SELECT a FROM t WHERE b IN (?)";
        assert_eq!(digest, Digest::of_normal(normal));
        assert_eq!(digest.to_string(), "f10fe2749952c51edb1cf640f0d37c70");
        assert_eq!(digest.to_string().parse::<Digest>().ok(), Some(digest));
        assert_eq!(Digest::from_bytes(digest.to_bytes()), digest);
    }

    #[test]
    fn other_texts_are_no_digests() {
        for text in [
            "",
            "12",
            "+2345678901234567890123456789012",
            &"g".repeat(32),
            &"0".repeat(33),
        ] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
