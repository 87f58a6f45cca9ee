//! Which texts mean the same key.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

/// Which texts mean the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyForm {
    /// Integers, of which each has one text.
    Integer,
    /// Those of the same bytes, but for blanks at the end.
    Bytes,
    /// The collation says; no two rows have the same key by it.
    Collated,
}

/// A form that may change; none at first.
#[derive(Debug, Default)]
pub(super) struct Known(AtomicU8);

impl Known {
    pub fn set(&self, form: Option<KeyForm>) {
        let number = match form {
            None => 0,
            Some(KeyForm::Integer) => 1,
            Some(KeyForm::Bytes) => 2,
            Some(KeyForm::Collated) => 3,
        };
        self.0.store(number, Relaxed);
    }

    pub fn get(&self) -> Option<KeyForm> {
        match self.0.load(Relaxed) {
            1 => Some(KeyForm::Integer),
            2 => Some(KeyForm::Bytes),
            3 => Some(KeyForm::Collated),
            _ => None,
        }
    }
}

/// A key without the blanks at its end, which most collations take for the same.
pub fn trimmed(key: &[u8]) -> &[u8] {
    let blanks = key.iter().rev().take_while(|byte| **byte == b' ').count();
    &key[..key.len() - blanks]
}
