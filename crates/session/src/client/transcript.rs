//! Answers that nobody is sent: kept whole for whoever runs a statement of Heddle's own.

use memory::{Full, Purpose, Reservation, STEP_BYTES};
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::ErrPacket;

use crate::client::refuse::out_of_memory;

/// More bytes than this are not kept.
pub(crate) const BYTES_MAX: usize = 64 << 20;

/// The packets of an answer.
#[derive(Default)]
pub(crate) struct Transcript {
    bytes: Vec<u8>,
    /// For them, once they are more than a few.
    reservation: Option<Reservation>,
    /// There was no memory for the rest: the packets are an error that says so.
    failed: bool,
}

impl Transcript {
    /// Whole packets, but for an answer of [`BYTES_MAX`] and more.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// What is read of the bytes is kept in their place.
    pub fn into_reservation(self) -> Option<Reservation> {
        self.reservation
    }

    /// Keeps a part; `budget` is any reservation of the budget that it is taken from.
    pub fn add(&mut self, part: &[u8], budget: &Reservation, capabilities: Capabilities) {
        if self.failed || self.bytes.len() >= BYTES_MAX {
            return;
        }
        let then = self.bytes.len() + part.len();
        if then > STEP_BYTES {
            let fresh = || budget.another(Purpose::Results);
            let reservation = self.reservation.get_or_insert_with(fresh);
            if let Err(full) = reservation.cover(then) {
                return self.fail(full, capabilities);
            }
        }
        self.bytes.extend_from_slice(part);
    }

    fn fail(&mut self, full: Full, capabilities: Capabilities) {
        let row = &out_of_memory(full);
        let mut sqlstate = [b' '; 5];
        sqlstate.copy_from_slice(row.sqlstate.as_bytes());
        let told = ErrPacket {
            number: row.number,
            sqlstate,
            message: row.message.as_bytes(),
        };
        let mut bytes = Vec::with_capacity(256);
        packet::write_with(&mut bytes, &mut 1, |out| told.encode(out, capabilities));
        *self = Transcript {
            bytes,
            reservation: None,
            failed: true,
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use farm::error;
    use memory::Budget;

    use super::*;

    #[test]
    fn what_there_is_no_memory_for_becomes_an_error() {
        let memory = Arc::new(Budget::new(4 * STEP_BYTES));
        let budget = Reservation::new(&memory, Purpose::Packets);
        let capabilities = Capabilities::PROTOCOL_41;
        let mut transcript = Transcript::default();
        for _ in 0..4 {
            transcript.add(&[7; STEP_BYTES], &budget, capabilities);
        }
        assert_eq!(transcript.bytes().len(), 4 * STEP_BYTES);
        assert_eq!(memory.reserved(), 4 * STEP_BYTES);
        transcript.add(b"x", &budget, capabilities);
        transcript.add(b"y", &budget, capabilities);
        assert_eq!(memory.reserved(), 0);
        let told = transcript.bytes();
        assert_eq!(told[4..7], [0xFF, 0x11, 0x04], "1041");
        assert!(told.ends_with(error::OUT_OF_MEMORY.message.as_bytes()));
    }
}
