//! Complete replies whose boxes are used again: each statement ends with one.
//!
//! Invariant: what is taken says nothing of a reply before.
//!
//! Must not know: what a reply says.

use std::cell::RefCell;

use crate::execution::exec::Done;

/// Boxes that are kept; more are freed.
const SPARES_MAX: usize = 32;

/// The boxes of one core.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "answers hold them in boxes, which are what is to be kept"
)]
pub(crate) struct SpareReplies(RefCell<Vec<Box<Done>>>);

impl SpareReplies {
    /// One that says nothing.
    #[inline]
    pub fn take(&self) -> Box<Done> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    /// Takes one back.
    #[inline]
    pub fn give(&self, mut done: Box<Done>) {
        let mut spares = self.0.borrow_mut();
        if spares.len() < SPARES_MAX {
            done.empty();
            spares.push(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    #[test]
    fn what_is_taken_says_nothing_of_a_reply_before() {
        let spares = SpareReplies::default();
        let mut done = spares.take();
        done.outcome.error = Some(1062);
        done.outcome.rows = 7;
        done.changes.gtid = Some(b"0-1-7".to_vec());
        assert!(done.changes.position(Engine::MariaDb).is_some());
        done.changes.told.push("autocommit".to_owned());
        (done.changes.pins, done.changes.held) = (true, 5);
        let place: *const Done = &*done;
        spares.give(done);
        let mut again = spares.take();
        assert!(std::ptr::eq(place, &*again));
        assert_eq!((again.outcome.error, again.outcome.rows), (None, 0));
        assert!(again.changes.gtid.is_none() && again.changes.told.is_empty());
        assert!(!again.changes.pins && again.changes.held == 0 && !again.changes.is_news());
        assert!(again.changes.position(Engine::MariaDb).is_none());
    }

    #[test]
    fn more_than_are_kept_are_freed() {
        let spares = SpareReplies::default();
        let all: Vec<_> = (0..2 * SPARES_MAX).map(|_| spares.take()).collect();
        all.into_iter().for_each(|done| spares.give(done));
        assert_eq!(spares.0.borrow().len(), SPARES_MAX);
    }
}
