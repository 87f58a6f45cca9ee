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
        let origin = hex::encode(salt::random::<8>());
        WriteTags { origin }
    }

    /// The write tag of a connection.
    pub fn of(&self, connection: &Connection) -> String {
        format!("{}-{:x}", self.origin, connection.id)
    }

    /// The comment that carries it.
    pub fn comment(&self, connection: &Connection) -> String {
        format!("/*heddle:{}-{:x}*/ ", self.origin, connection.id)
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
    fn only_single_writes_are_marked() {
        let none = Facts::empty();
        assert!(is_taggable(Class::Write, Verb::Insert, none));
        assert!(!is_taggable(Class::Write, Verb::Insert, Facts::MULTIPLE));
        assert!(!is_taggable(Class::Write, Verb::LoadData, none));
        assert!(!is_taggable(Class::Read, Verb::Select, none));
    }
}
