//! The prepared statements that one connection knows, found again by text.
//!
//! A client's statement lives under the client's own id in its session; what stands here is the
//! server's id for the same text on one connection. The number per connection is bounded: the least
//! recently used statement is closed when another needs the place.

use std::rc::Rc;

use rustc_hash::FxHashMap;

/// Statements that one connection keeps prepared. Servers allow 16,382 over all connections by
/// default (`max_prepared_stmt_count`).
const STATEMENTS_MAX: usize = 200;

/// What makes two prepared statements the same: the text and the state under which it was parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Prepared {
    pub text: Rc<[u8]>,
    /// Hash of the part of the session state that decides what the text means, at PREPARE.
    pub state: u64,
    /// Tells statements of one client with the same text apart: each has its own cursor and its own
    /// long data. 0 for the first.
    pub copy: u32,
}

/// A statement as the server knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    pub server_id: u32,
    /// Hash of the parameter types that were last bound; an EXECUTE without types relies on them.
    pub types: u64,
    used: u64,
}

/// All statements of one connection.
#[derive(Default)]
pub(crate) struct Statements {
    known: FxHashMap<Prepared, Known>,
    clock: u64,
}

impl Statements {
    /// Finds a statement and marks it as used.
    pub(crate) fn find(&mut self, prepared: &Prepared) -> Option<&mut Known> {
        self.clock += 1;
        let known = self.known.get_mut(prepared)?;
        known.used = self.clock;
        Some(known)
    }

    /// Remembers a statement; returns the server's ids that are to be closed for it.
    pub(crate) fn insert(&mut self, prepared: Prepared, server_id: u32) -> Vec<u32> {
        self.clock += 1;
        let mut closed = Vec::new();
        let known = Known {
            server_id,
            types: 0,
            used: self.clock,
        };
        if let Some(old) = self.known.insert(prepared, known) {
            closed.push(old.server_id);
        }
        while self.known.len() > STATEMENTS_MAX {
            let oldest = self
                .known
                .iter()
                .min_by_key(|(_, k)| k.used)
                .map(|(p, _)| p.clone());
            let Some(gone) = oldest.and_then(|p| self.known.remove(&p)) else {
                break;
            };
            closed.push(gone.server_id);
        }
        closed
    }

    /// Forgets a statement; returns the server's id when there was one.
    pub(crate) fn remove(&mut self, prepared: &Prepared) -> Option<u32> {
        self.known.remove(prepared).map(|known| known.server_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statement(n: usize) -> Prepared {
        Prepared {
            text: Rc::from(format!("SELECT {n}").as_bytes()),
            state: 0,
            copy: 0,
        }
    }

    #[test]
    fn the_least_recently_used_statement_makes_room() {
        let mut statements = Statements::default();
        for n in 0..STATEMENTS_MAX {
            assert!(statements.insert(statement(n), n as u32).is_empty());
        }
        assert!(statements.find(&statement(0)).is_some());
        assert_eq!(statements.insert(statement(9999), 9999), vec![1]);
        assert!(statements.find(&statement(0)).is_some());
        assert!(statements.find(&statement(1)).is_none());
    }

    #[test]
    fn the_same_text_prepared_again_closes_the_older_one() {
        let mut statements = Statements::default();
        assert!(statements.insert(statement(1), 7).is_empty());
        assert_eq!(statements.insert(statement(1), 8), vec![7]);
        assert_eq!(
            statements.find(&statement(1)).map(|known| known.server_id),
            Some(8)
        );
    }
}
