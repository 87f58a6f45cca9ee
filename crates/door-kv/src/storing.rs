//! Values that clients send: those that are being stored count towards the router's memory, and a request
//! that there is no memory for is refused before the whole of it has come.

use kv::{Change, Refusal, Store};
use memcache_wire::{Limits, Parsed, parse};
use memory::{Purpose, Reservation};

use crate::counts::count;
use crate::intake::{Cursor, Exchange};
use crate::pending::Reply;

/// As memcached says it.
const NO_MEMORY: &str = "out of memory storing object";

/// The values of one client that are being stored.
pub(crate) struct Storing {
    bytes: usize,
    reservation: Reservation,
}

impl Storing {
    /// None yet; `budget` is any reservation of the budget that they are taken from.
    pub fn new(budget: &Reservation) -> Storing {
        Storing {
            bytes: 0,
            reservation: budget.another(Purpose::Values),
        }
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// One more.
    ///
    /// # Errors
    /// There is no memory for it.
    pub fn add(&mut self, bytes: usize) -> Result<(), Refusal> {
        let covered = self.reservation.cover(self.bytes + bytes);
        covered.map_err(|_| Refusal::server(NO_MEMORY))?;
        self.bytes += bytes;
        Ok(())
    }

    /// All are stored.
    pub fn clear(&mut self) {
        self.bytes = 0;
        self.reservation.shrink(0);
    }
}

impl Exchange {
    /// Whether a value is not too large for its container, and there is memory for it.
    pub fn fits(&mut self, store: &Store, change: &Change) -> Result<(), Refusal> {
        let Change::Store { value, .. } = change.plain() else {
            return Ok(());
        };
        if value.len() > store.declared().value_bytes_max as usize {
            count(&self.counts().store_too_large);
            return Err(Refusal::server("object too large for cache"));
        }
        self.storing.add(value.len())
    }

    /// There is no memory for the rest of the request at the cursor: it is refused, and its value is
    /// dropped as it comes. False when nobody can say where it ends.
    pub fn refuse_incomplete(&mut self, inbox: &[u8], cursor: &mut Cursor) -> bool {
        let nothing = Limits {
            value_bytes_max: 0,
            ..self.limits
        };
        let (at, swallow, quiet) = match parse(&inbox[cursor.at..], 0, &nothing) {
            Parsed::Bad {
                used,
                swallow,
                quiet,
                ..
            } if swallow > 0 => (cursor.at + used, swallow, quiet),
            _ => (cursor.at, 0, false),
        };
        if !quiet {
            let line = format!("SERVER_ERROR {NO_MEMORY}\r\n");
            self.pending.push(Reply::Text(line.into_bytes()));
        }
        *cursor = Cursor {
            at,
            swallow,
            ..Cursor::default()
        };
        swallow > 0
    }
}
