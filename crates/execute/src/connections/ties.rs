//! What ties a session to its connection, by name, so that the tie ends with the last of them.
//!
//! Whatever cannot be followed from the text ties the session until it ends: several statements in
//! one text, names that are computed, statements prepared from values that nobody saw.

pub(crate) mod note;

use std::collections::{BTreeMap, BTreeSet};

use sqltext::Tie;

use crate::connections::pin::Pins;

/// What stands on the session's connection.
#[derive(Debug, Default)]
pub struct Ties {
    /// Temporary tables, with their databases.
    tables: BTreeSet<Vec<u8>>,
    handlers: BTreeSet<Vec<u8>>,
    /// Statements prepared as text; true when to execute them leaves nothing.
    prepared: BTreeMap<Vec<u8>, bool>,
    locks: BTreeSet<Vec<u8>>,
    /// There is more, or may be.
    unsure: Pins,
}

/// The pins that are followed here.
const FOLLOWED: Pins = Pins::TEMPORARY_TABLE
    .union(Pins::HANDLER)
    .union(Pins::TEXT_PREPARE)
    .union(Pins::USER_LOCK)
    .union(Pins::XA);

impl Ties {
    /// The session has ended its XA transaction.
    pub fn forget_xa(&mut self) {
        self.unsure -= Pins::XA;
    }

    /// The pins for which there is nothing any more.
    fn ended(&self) -> Pins {
        let mut ended = Pins::empty();
        ended.set(Pins::TEMPORARY_TABLE, self.tables.is_empty());
        ended.set(Pins::HANDLER, self.handlers.is_empty());
        ended.set(Pins::TEXT_PREPARE, self.prepared.is_empty());
        ended.set(Pins::USER_LOCK, self.locks.is_empty());
        ended.insert(Pins::XA);
        ended - self.unsure
    }

    /// Takes note of a statement that was carried out.
    fn note(&mut self, tie: Tie, harmless: bool) {
        match tie {
            Tie::MakesTable(name) => drop(self.tables.insert(name)),
            Tie::DropsTables(names) => {
                for name in names {
                    self.tables.remove(&name);
                }
            }
            Tie::OpensHandler(name) => drop(self.handlers.insert(name)),
            Tie::ClosesHandler(name) => drop(self.handlers.remove(&name)),
            Tie::Prepares(name, _) => drop(self.prepared.insert(name, harmless)),
            Tie::Executes(name) => {
                let harmless = self.prepared.get(&name) == Some(&true);
                self.unsure
                    .set(Pins::TEXT_PREPARE, !harmless || self.unsure.contains(Pins::TEXT_PREPARE));
            }
            Tie::Deallocates(name) => drop(self.prepared.remove(&name)),
            Tie::Locks(names) => self.locks.extend(names),
            Tie::ReleasesAllLocks => {
                self.locks.clear();
                self.unsure -= Pins::USER_LOCK;
            }
            Tie::EndsXa => self.unsure -= Pins::XA,
        }
    }
}
