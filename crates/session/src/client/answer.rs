//! What Heddle itself says to a client: OK, errors, small result sets. The one place where an error
//! of ours becomes bytes.

use farm::ClientError;
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::{EofPacket, ErrPacket, OkPacket};
use mysql_wire::result::{ColumnCount, ColumnKind, write_text_result};
use mysql_wire::status::Status;

use crate::client::Client;
use crate::client::end::End;
use crate::client::sink::ReplySink;

impl Client {
    /// Sends an OK without rows.
    pub async fn ok(&mut self, status: Status) -> Result<(), End> {
        self.ok_with(&OkPacket::new(status)).await
    }

    /// Sends this OK.
    pub async fn ok_with(&mut self, ok: &OkPacket<'_>) -> Result<(), End> {
        let mut out = Vec::with_capacity(16);
        let capabilities = self.capabilities;
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            ok.encode(payload, capabilities);
        });
        self.say(out).await
    }

    /// Sends the EOF that ends a reply without rows (COM_SET_OPTION).
    pub async fn eof(&mut self, status: Status) -> Result<(), End> {
        let mut out = Vec::with_capacity(16);
        let capabilities = self.capabilities;
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            EofPacket {
                warnings: 0,
                status,
            }
            .encode_end_of_rows(payload, capabilities);
        });
        self.say(out).await
    }

    /// Sends one of Heddle's own errors.
    pub async fn error(&mut self, error: &ClientError, details: &[&str]) -> Result<(), End> {
        self.error_text(error, &error.text(details)).await
    }

    /// Sends one of Heddle's own errors, whose details stand in the text.
    pub(crate) async fn error_text(&mut self, error: &ClientError, text: &str) -> Result<(), End> {
        let mut state = [b' '; 5];
        state.copy_from_slice(error.sqlstate.as_bytes());
        self.server_error(error.number, state, text.as_bytes()).await
    }

    /// Sends an error that a server gave to Heddle on the client's behalf.
    pub async fn server_error(
        &mut self,
        number: u16,
        sqlstate: [u8; 5],
        message: &[u8],
    ) -> Result<(), End> {
        self.refused = number;
        let mut out = Vec::with_capacity(16 + message.len());
        let capabilities = self.capabilities;
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            ErrPacket {
                number,
                sqlstate,
                message,
            }
            .encode(payload, capabilities);
        });
        self.say(out).await
    }

    /// Sends a result set of text columns.
    pub async fn rows(
        &mut self,
        columns: &[&str],
        rows: &[Vec<Option<Vec<u8>>>],
        status: Status,
    ) -> Result<(), End> {
        let columns: Vec<(&str, ColumnKind)> =
            columns.iter().map(|name| (*name, ColumnKind::VarString)).collect();
        self.typed_rows(&columns, rows, status).await
    }

    /// Sends a result set of columns of these types.
    pub async fn typed_rows(
        &mut self,
        columns: &[(&str, ColumnKind)],
        rows: &[Vec<Option<Vec<u8>>>],
        status: Status,
    ) -> Result<(), End> {
        let mut out = Vec::with_capacity(256);
        let capabilities = self.capabilities;
        write_text_result(&mut out, &mut self.sequence, columns, rows, status, capabilities);
        self.say(out).await
    }

    /// Sends a result set of definitions and rows that are encoded already.
    pub async fn raw_rows(
        &mut self,
        columns: &[Box<[u8]>],
        rows: &[Vec<u8>],
        status: Status,
    ) -> Result<(), End> {
        let (mut out, caps) = (Vec::with_capacity(256), self.capabilities);
        let count = ColumnCount {
            columns: columns.len() as u64,
            defined: true,
        };
        let end = EofPacket {
            warnings: 0,
            status,
        };
        let sequence = &mut self.sequence;
        packet::write_with(&mut out, sequence, |out| count.encode(out, caps));
        for column in columns {
            packet::write_with(&mut out, sequence, |out| out.extend_from_slice(column));
        }
        if !caps.contains(Capabilities::DEPRECATE_EOF) {
            packet::write_with(&mut out, sequence, |out| end.encode(out));
        }
        for row in rows {
            packet::write_with(&mut out, sequence, |out| out.extend_from_slice(row));
        }
        packet::write_with(&mut out, sequence, |out| end.encode_end_of_rows(out, caps));
        self.say(out).await
    }
}
