//! What a session's prepared statements take, so that neither one session nor all of them keep too much.
//!
//! A statement owns its portion, wherever it is kept: among the session's, or with a transaction that may
//! have to run it once more. Its text counts for each session, though sessions of a core share it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use farm::{ClientError, error};
use memory::{Budget, Purpose, Reservation};

use crate::client::refuse::out_of_memory;
use crate::prepared::statements::Statement;

/// The bytes of one session's statements.
pub struct PreparedBytes(Rc<Total>);

struct Total {
    bytes: Cell<usize>,
    reservation: RefCell<Reservation>,
}

/// One statement's part of them; given back when it is dropped.
pub struct Portion {
    total: Rc<Total>,
    bytes: usize,
}

impl PreparedBytes {
    /// None yet.
    pub fn new(memory: &Arc<Budget>) -> PreparedBytes {
        PreparedBytes(Rc::new(Total {
            bytes: Cell::new(0),
            reservation: RefCell::new(Reservation::new(memory, Purpose::Prepared)),
        }))
    }

    /// From now on they count for the account with this budget, if it has room for them.
    pub fn move_to(&self, memory: &Arc<Budget>) {
        self.0.reservation.borrow_mut().move_to(memory);
    }

    /// The portion of a statement with these texts.
    ///
    /// # Errors
    /// The session would have more than `bytes_max`, or all clients or those of the account more than their ceiling.
    pub fn take(&self, texts: [&[u8]; 2], bytes_max: usize) -> Result<Portion, ClientError> {
        // The type of a parameter takes two bytes.
        let of_text = |text: &[u8]| text.len() + 2 * text.iter().filter(|it| **it == b'?').count();
        let texts: usize = texts.into_iter().map(of_text).sum();
        let bytes = texts + size_of::<Statement>();
        let then = self.0.bytes.get() + bytes;
        if then > bytes_max {
            return Err(error::STATEMENTS_TOO_LARGE);
        }
        let covered = self.0.reservation.borrow_mut().cover(then);
        covered.map_err(out_of_memory)?;
        self.0.bytes.set(then);
        Ok(Portion {
            total: self.0.clone(),
            bytes,
        })
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        let left = self.total.bytes.get() - self.bytes;
        self.total.bytes.set(left);
        self.total.reservation.borrow_mut().shrink(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_gives_back_what_it_took() {
        let memory = Arc::new(Budget::new(1 << 20));
        let session = PreparedBytes::new(&memory);
        let long = vec![b'?'; 100_000];
        let one = session.take([&long, b""], 1 << 20);
        assert!(one.is_ok() && memory.reserved() >= 300_000);
        let two = session.take([&long, &long], 800_000).err();
        assert_eq!(two, Some(error::STATEMENTS_TOO_LARGE));
        let other = PreparedBytes::new(&memory);
        let two = other.take([&long, &long], 1 << 20);
        assert!(two.is_ok());
        assert_eq!(session.take([&long, b""], 1 << 20).err(), Some(error::OUT_OF_MEMORY));
        drop(one);
        // Nothing was taken by those that were refused.
        assert_eq!(session.0.bytes.get(), 0);
        drop(two);
        assert_eq!(memory.reserved(), 0);
    }
}
