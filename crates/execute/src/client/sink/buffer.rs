//! A buffer in the place of a client, for unit tests of those who answer.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::result::{ColumnKind, write_text_result};

use super::*;

pub const CAPABILITIES: Capabilities = Capabilities::PROTOCOL_41.union(Capabilities::DEPRECATE_EOF);

/// The value of a future that has nobody to wait for.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

/// The error that a reply is.
pub fn refusal(reply: &[u8]) -> (u16, String) {
    let payload = packet::payloads(reply).next().expect("a packet");
    let refusal = ErrPacket::decode(payload, CAPABILITIES).expect("an error");
    let text = String::from_utf8_lossy(refusal.message).into_owned();
    (refusal.number, text)
}

/// The OK that a reply is: rows, the last insert id, the status.
pub fn ok(reply: &[u8]) -> (u64, u64, Status) {
    let payload = packet::payloads(reply).next().expect("a packet");
    let ok = OkPacket::decode(payload, CAPABILITIES).expect("an OK");
    (ok.affected_rows, ok.last_insert_id, ok.status)
}

/// What a client with PROTOCOL_41 and DEPRECATE_EOF would get, but for the packets' numbers.
impl ReplySink for Vec<u8> {
    async fn send(&mut self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>) {
        self.extend_from_slice(&buffer[range]);
        (Ok(()), buffer)
    }

    async fn answer_ok(&mut self, ok: &OkPacket<'_>) -> Result<(), End> {
        packet::write_with(self, &mut 1, |payload| ok.encode(payload, CAPABILITIES));
        Ok(())
    }

    async fn answer_error(&mut self, refusal: &ErrPacket<'_>) -> Result<(), End> {
        packet::write_with(self, &mut 1, |payload| refusal.encode(payload, CAPABILITIES));
        Ok(())
    }

    async fn answer_rows(
        &mut self,
        columns: &[&str],
        rows: &[Row],
        status: Status,
    ) -> Result<(), End> {
        let columns: Vec<_> = columns.iter().map(|name| (*name, ColumnKind::VarString)).collect();
        write_text_result(self, &mut 1, &columns, rows, status, CAPABILITIES);
        Ok(())
    }
}
