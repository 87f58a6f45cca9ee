//! Write tags: comments in front of statements that change data, by which the log of a later primary tells
//! whether a write has happened whose answer was lost.
//!
//! A write tag names the server connection, for ever. One connection runs one statement at a time and says
//! under which GTID its last change was committed, so the write tag and that GTID together name the write
//! that came next. Text statements get it when they are sent, prepared ones when they are prepared.
//! Nothing else of the statement changes, and what is no write costs nothing.

pub(crate) mod tagging;

use auth::salt;
use backend::Connection;
use sqltext::{Class, Facts, Verb};

/// The names of one core's connections.
pub(crate) struct WriteTags {
    /// Nobody else, at any time, begins with the same.
    origin: String,
}

impl WriteTags {
    pub fn new() -> WriteTags {
        let origin = hex::encode(salt::random::<ORIGIN_BYTES>());
        WriteTags { origin }
    }

    /// The write tag of a connection.
    pub fn of(&self, connection: &Connection) -> String {
        format!("{}-{:x}", self.origin, connection.id)
    }

    /// The comment that carries it.
    pub fn comment(&self, connection: &Connection) -> Comment {
        Comment::new(&self.origin, connection.id)
    }
}

/// A comment, made for each write: it stands where it is, and formats nothing.
#[derive(Clone, Copy)]
pub(crate) struct Comment {
    bytes: [u8; COMMENT_BYTES_MAX],
    len: usize,
}

/// What stands around the tag, the origin, a hyphen, and the digits of an id.
pub(crate) const COMMENT_BYTES_MAX: usize = 9 + 2 * ORIGIN_BYTES + 1 + 16 + 3;

/// Random bytes of an origin, which is their digits.
const ORIGIN_BYTES: usize = 8;

impl Comment {
    fn new(origin: &str, id: u64) -> Comment {
        let mut comment = Comment::NONE;
        comment.push(b"/*heddle:");
        comment.push(origin.as_bytes());
        comment.push(b"-");
        let digits = (64 - id.leading_zeros()).div_ceil(4).max(1);
        for digit in (0..digits).rev() {
            let digit = (id >> (4 * digit) & 15) as usize;
            comment.push(&b"0123456789abcdef"[digit..=digit]);
        }
        comment.push(b"*/ ");
        comment
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// That of a statement which gets none.
    pub const NONE: Comment = Comment {
        bytes: [0; COMMENT_BYTES_MAX],
        len: 0,
    };

    /// Its text; empty for a statement that has none.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// The same as text.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

/// True for one statement that changes rows and may have a comment in front.
pub(crate) fn is_taggable(class: Class, verb: Verb, facts: Facts) -> bool {
    let writes = matches!(verb, Verb::Insert | Verb::Replace | Verb::Update | Verb::Delete);
    class == Class::Write && writes && !facts.intersects(Facts::MULTIPLE | Facts::COMPOUND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_names_its_connection() {
        let origin = "0123456789abcdef";
        for id in [0, 1, 15, 16, 0xabc, u64::MAX] {
            let comment = Comment::new(origin, id);
            assert_eq!(comment.as_bytes(), format!("/*heddle:{origin}-{id:x}*/ ").as_bytes());
        }
        assert_eq!(Comment::NONE.as_bytes(), b"");
    }

    #[test]
    fn only_single_writes_are_marked() {
        let none = Facts::empty();
        assert!(is_taggable(Class::Write, Verb::Insert, none));
        assert!(!is_taggable(Class::Write, Verb::Insert, Facts::MULTIPLE));
        assert!(!is_taggable(Class::Write, Verb::LoadData, none));
        assert!(!is_taggable(Class::Read, Verb::Select, none));
    }
}
