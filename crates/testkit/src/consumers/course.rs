//! What the threads of a proof tell each other.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::client::Failure;
use crate::holds_within;

use super::PATIENCE;

/// Texts of trouble that are kept; all are counted.
const TEXTS_MAX: usize = 20;

/// The state of a proof.
#[derive(Debug, Default)]
pub struct Course {
    over: AtomicBool,
    paused: AtomicBool,
    /// Clients that stand still.
    pub resting: AtomicU64,
    /// A router was killed: connections to it break.
    pub struck: AtomicBool,
    last: AtomicU64,
    acknowledged: Mutex<BTreeSet<u64>>,
    /// How many there were in all.
    pub count: AtomicU64,
    trouble: Mutex<Vec<String>>,
    pub troubles: AtomicU64,
}

impl Course {
    pub fn is_over(&self) -> bool {
        self.over.load(Relaxed)
    }

    pub fn end(&self) {
        self.over.store(true, Relaxed);
    }

    pub fn is_paused(&self) -> bool {
        self.paused.load(Relaxed)
    }

    pub fn pause(&self, paused: bool) {
        self.paused.store(paused, Relaxed);
    }

    /// Stands still while clients should not write.
    pub fn rest_if_asked(&self) {
        if self.is_paused() {
            self.resting.fetch_add(1, Relaxed);
            while !holds_within(PATIENCE, || !self.is_paused() || self.is_over()) {}
            self.resting.fetch_sub(1, Relaxed);
        }
    }

    /// A number that no transaction has had.
    pub fn next_transaction(&self) -> u64 {
        self.last.fetch_add(1, Relaxed) + 1
    }

    pub fn acknowledge(&self, transaction: u64) {
        self.count.fetch_add(1, Relaxed);
        let acknowledged = self.acknowledged.lock();
        let mut acknowledged = acknowledged.unwrap_or_else(PoisonError::into_inner);
        acknowledged.insert(transaction);
    }

    /// What was acknowledged since this was asked last.
    pub fn take_acknowledged(&self) -> BTreeSet<u64> {
        let acknowledged = self.acknowledged.lock();
        std::mem::take(&mut *acknowledged.unwrap_or_else(PoisonError::into_inner))
    }

    /// An error that a client may see: its transaction is to be tried again, or its router died.
    pub fn is_usual(&self, failure: &Failure) -> bool {
        match failure {
            Failure::Server { number: 1213, .. } => true,
            Failure::Io(error) => {
                let is_silent =
                    [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind());
                !is_silent && self.struck.load(Relaxed)
            }
            _ => false,
        }
    }

    /// Something that must not be.
    pub fn complain(&self, text: String) {
        self.troubles.fetch_add(1, Relaxed);
        let mut texts = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() < TEXTS_MAX {
            texts.push(text);
        }
    }

    /// What was complained about since this was asked last.
    pub fn take_trouble(&self) -> Vec<String> {
        let texts = self.trouble.lock();
        std::mem::take(&mut *texts.unwrap_or_else(PoisonError::into_inner))
    }
}
