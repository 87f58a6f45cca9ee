//! Answers that nobody is sent: kept whole for whoever runs a statement of Heddle's own.

use memory::{Full, Purpose, Reservation, STEP_BYTES};
use mysql_wire::capability::Capabilities;
use mysql_wire::reply::{ErrPacket, OkPacket};

use crate::client::heard::{self, Heard};
use crate::client::refuse::{ServerRefusal, out_of_memory};
use crate::client::sink::Row;

/// More bytes than this are not kept.
const BYTES_MAX: usize = 64 << 20;

/// One answer: what Heddle itself said, or the packets of a server's.
#[derive(Default)]
pub struct Transcript {
    /// What Heddle itself said. Nothing that comes behind it is kept.
    said: Option<Heard>,
    /// Whole packets, but for an answer of [`BYTES_MAX`] and more.
    bytes: Vec<u8>,
    /// For them, once they are more than a few.
    reservation: Option<Reservation>,
}

impl Transcript {
    /// No answer has come.
    pub fn is_empty(&self) -> bool {
        self.said.is_none() && self.bytes.is_empty()
    }

    /// Keeps an OK of Heddle's own; false behind a part of an answer, where it has to be a packet.
    pub(crate) fn keep_ok(&mut self, ok: &OkPacket<'_>) -> bool {
        self.keep(|| Heard::ok(ok))
    }

    /// The same for an error.
    pub(crate) fn keep_error(&mut self, refusal: &ErrPacket<'_>) -> bool {
        self.keep(|| Heard::refused(refusal))
    }

    /// The same for rows; `budget` is any reservation of the budget that they are taken from.
    pub(crate) fn keep_rows(
        &mut self,
        columns: &[&str],
        rows: &[Row],
        budget: &Reservation,
    ) -> bool {
        let values = rows.iter().flatten().flatten();
        let bytes: usize = values.map(Vec::len).sum();
        let mut reservation = budget.another(Purpose::Results);
        if bytes > STEP_BYTES
            && let Err(full) = reservation.cover(bytes)
        {
            self.fail(full);
            return true;
        }
        self.keep(|| Heard::rows(columns, rows, reservation))
    }

    fn keep(&mut self, heard: impl FnOnce() -> Heard) -> bool {
        if !self.bytes.is_empty() {
            return false;
        }
        self.said.get_or_insert_with(heard);
        true
    }

    /// Keeps a part of a server's answer; `budget` is any reservation of the budget that it is taken from.
    pub fn add(&mut self, part: &[u8], budget: &Reservation) {
        if self.said.is_some() || self.bytes.len() >= BYTES_MAX {
            return;
        }
        let then = self.bytes.len() + part.len();
        if then > STEP_BYTES {
            let fresh = || budget.another(Purpose::Results);
            let reservation = self.reservation.get_or_insert_with(fresh);
            if let Err(full) = reservation.cover(then) {
                return self.fail(full);
            }
        }
        self.bytes.extend_from_slice(part);
    }

    /// There is no memory for the rest: the answer is an error that says so.
    fn fail(&mut self, full: Full) {
        let row = out_of_memory(full);
        let mut sqlstate = [b' '; 5];
        sqlstate.copy_from_slice(row.sqlstate.as_bytes());
        let said = Heard::Refused(ServerRefusal {
            number: row.number,
            sqlstate,
            message: row.message.as_bytes().to_vec(),
        });
        *self = Transcript {
            said: Some(said),
            ..Transcript::default()
        };
    }

    /// The answer to a statement in text. `capabilities` are those by which it was asked.
    pub fn heard(self, capabilities: Capabilities) -> Heard {
        self.understood(capabilities, false)
    }

    /// The answer to an EXECUTE. Its values become texts.
    pub fn executed(self, capabilities: Capabilities) -> Heard {
        self.understood(capabilities, true)
    }

    fn understood(self, capabilities: Capabilities, binary: bool) -> Heard {
        if let Some(said) = self.said {
            return said;
        }
        if self.bytes.len() >= BYTES_MAX {
            return heard::odd("the rows that this statement needs are more than 64 MB");
        }
        match heard::read(&self.bytes, capabilities, binary) {
            Some(Heard::Rows(mut sheet)) => {
                sheet.hold(self.reservation);
                Heard::Rows(sheet)
            }
            Some(other) => other,
            None => heard::odd("an answer that is not understood"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use farm::error;
    use memory::Budget;
    use mysql_wire::packet;
    use mysql_wire::result::{ColumnKind, write_text_result};
    use mysql_wire::status::Status;

    use super::*;

    const CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);

    fn budget(bytes: usize) -> (Arc<Budget>, Reservation) {
        let memory = Arc::new(Budget::new(bytes));
        let budget = Reservation::new(&memory, Purpose::Packets);
        (memory, budget)
    }

    /// A server's reply of one row with one column.
    fn rows() -> Vec<u8> {
        let (mut out, columns) = (Vec::new(), [("a", ColumnKind::VarString)]);
        let rows = [vec![Some(b"x".to_vec())]];
        write_text_result(&mut out, &mut 1, &columns, &rows, Status::AUTOCOMMIT, CAPABILITIES);
        out
    }

    #[test]
    fn what_there_is_no_memory_for_becomes_an_error() {
        let (memory, budget) = budget(4 * STEP_BYTES);
        let mut transcript = Transcript::default();
        for _ in 0..4 {
            transcript.add(&[7; STEP_BYTES], &budget);
        }
        assert_eq!(memory.reserved(), 4 * STEP_BYTES);
        transcript.add(b"x", &budget);
        transcript.add(b"y", &budget);
        assert_eq!(memory.reserved(), 0);
        let Heard::Refused(refusal) = transcript.heard(CAPABILITIES) else {
            panic!("there was no memory");
        };
        assert_eq!(refusal.number, 1041);
        assert_eq!(refusal.message, error::OUT_OF_MEMORY.message.as_bytes());
    }

    #[test]
    fn the_rows_of_a_server_are_read_whatever_pieces_they_come_in() {
        let (_, budget) = budget(1 << 20);
        for bytes in [1, 3, 1000] {
            let mut transcript = Transcript::default();
            rows().chunks(bytes).for_each(|part| transcript.add(part, &budget));
            let Heard::Rows(sheet) = transcript.heard(CAPABILITIES) else {
                panic!("rows came");
            };
            assert_eq!(
                (sheet.names, sheet.rows),
                (vec!["a".to_owned()], vec![vec![Some(b"x".to_vec())]])
            );
        }
    }

    #[test]
    fn an_answer_of_our_own_is_kept_as_it_is() {
        let mut transcript = Transcript::default();
        assert!(transcript.is_empty());
        let mut ok = OkPacket::new(Status::AUTOCOMMIT);
        (ok.affected_rows, ok.last_insert_id, ok.info, ok.warnings) = (3, 7, b"Records: 3", 1);
        assert!(transcript.keep_ok(&ok));
        assert!(!transcript.is_empty());
        assert!(transcript.bytes.is_empty(), "no packet is made of it");
        let Heard::Ok {
            affected_rows: 3,
            insert_id: 7,
            info,
            warnings: 1,
        } = transcript.heard(CAPABILITIES)
        else {
            panic!("it is what was said");
        };
        assert_eq!(info, b"Records: 3");
    }

    #[test]
    fn rows_of_our_own_are_kept_as_they_are() {
        let (_, budget) = budget(1 << 20);
        let mut transcript = Transcript::default();
        let row = vec![Some(b"x".to_vec()), None];
        assert!(transcript.keep_rows(&["a", "b"], std::slice::from_ref(&row), &budget));
        let Heard::Rows(sheet) = transcript.heard(CAPABILITIES) else {
            panic!("rows were said");
        };
        assert_eq!((sheet.names, sheet.rows), (vec!["a".to_owned(), "b".to_owned()], vec![row]));
    }

    #[test]
    fn an_error_behind_rows_is_the_answer() {
        let (_, budget) = budget(1 << 20);
        let mut transcript = Transcript::default();
        // All but the packet that ends the rows.
        let mut begun = rows();
        let last = packet::payloads(&begun).last().expect("a last packet").len();
        begun.truncate(begun.len() - last - packet::HEADER_BYTES);
        transcript.add(&begun, &budget);
        let refusal = ErrPacket::new(1317, b"interrupted");
        assert!(!transcript.keep_error(&refusal), "it has to be a packet");
        let mut told = Vec::new();
        packet::write_with(&mut told, &mut 5, |out| refusal.encode(out, CAPABILITIES));
        transcript.add(&told, &budget);
        let Heard::Refused(heard) = transcript.heard(CAPABILITIES) else {
            panic!("the rows did not end");
        };
        assert_eq!(heard.number, 1317);
    }

    #[test]
    fn what_breaks_off_is_not_taken_for_an_answer() {
        let (_, budget) = budget(1 << 20);
        let mut transcript = Transcript::default();
        transcript.add(&rows()[..12], &budget);
        let Heard::Refused(heard) = transcript.heard(CAPABILITIES) else {
            panic!("the rows did not end");
        };
        assert_eq!(heard.number, 1105);
    }
}
