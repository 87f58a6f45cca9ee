//! What is known of the form of a space's keys.

use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::Relaxed;

use farm::container::KeyForm;

/// A form that may change; none at first.
#[derive(Debug, Default)]
pub(crate) struct Known(AtomicU8);

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
