//! What the clients of a round write down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::client::Failure;
use crate::history::{Ended, Key, Transaction};

/// Texts of trouble that are kept; all are counted.
const TEXTS_MAX: usize = 10;

/// One transaction, and what it did to balances.
#[derive(Clone, Debug)]
pub struct Entry {
    pub transaction: Transaction,
    pub moves: Vec<(Key, i64)>,
    /// How it was written, and how it failed.
    pub story: String,
}

/// The books of one round.
#[derive(Default)]
pub struct Books {
    entries: Mutex<Vec<Entry>>,
    trouble: Mutex<Vec<String>>,
    /// Transfers that were acknowledged, audits that were done, and their sums that were wrong.
    pub acknowledged: AtomicU64,
    pub audits: AtomicU64,
    pub troubles: AtomicU64,
    /// Its clients end.
    pub over: AtomicBool,
    /// A router was struck: its clients lose their connections.
    pub struck: AtomicBool,
}

impl Books {
    pub fn enter(&self, entry: Entry) {
        if entry.transaction.ended == Ended::Committed && !entry.moves.is_empty() {
            self.acknowledged.fetch_add(1, Ordering::Relaxed);
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.push(entry);
    }

    /// Something that no client should see.
    pub fn complain(&self, text: String) {
        self.troubles.fetch_add(1, Ordering::Relaxed);
        let mut texts = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if texts.len() < TEXTS_MAX {
            texts.push(text);
        }
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// All entries, and texts of trouble.
    pub fn close(self) -> (Vec<Entry>, Vec<String>) {
        let entries = self.entries.into_inner();
        let trouble = self.trouble.into_inner();
        (
            entries.unwrap_or_else(PoisonError::into_inner),
            trouble.unwrap_or_else(PoisonError::into_inner),
        )
    }
}

/// How a transaction ended whose statement failed so; `ending`: it was the one that commits.
pub(super) fn ended(failure: &Failure, ending: bool) -> Ended {
    match failure {
        // Of which Heddle promises that nothing stays.
        Failure::Server { number: 1213, .. } => Ended::Undone,
        _ if ending => Ended::Unknown,
        // It was never asked to commit.
        _ => Ended::Undone,
    }
}

/// An error that a client may see: its transaction is to be tried again, or its router died.
pub(super) fn is_usual(failure: &Failure, books: &Books) -> bool {
    match failure {
        Failure::Server { number: 1213, .. } => true,
        Failure::Io(_) => books.struck.load(Ordering::Relaxed),
        _ => false,
    }
}
