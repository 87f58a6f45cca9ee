//! What Heddle itself answers, to whoever takes the reply. The one place where an error of ours gets its words
//! and its number.

use backend::{ConnectionError, PoolError, Target};
use farm::{ClientError, error};
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::reply::{EofPacket, ErrPacket, OkPacket};
use mysql_wire::result::ColumnCount;
use mysql_wire::status::Status;

use crate::client::Client;
use crate::client::end::End;
use crate::client::refuse::ServerRefusal;
use crate::client::sink::ReplySink;

/// Short answers.
// A session stays on its core: nobody needs these futures to be `Send`.
#[allow(async_fn_in_trait)]
pub trait Answers: ReplySink {
    /// An OK without rows.
    async fn ok(&mut self, status: Status) -> Result<(), End> {
        self.answer_ok(&OkPacket::new(status)).await
    }

    /// One of Heddle's own errors.
    async fn error(&mut self, error: &ClientError, details: &[&str]) -> Result<(), End> {
        self.error_text(error, &error.text(details)).await
    }

    /// One of Heddle's own errors, whose details stand in the text.
    async fn error_text(&mut self, error: &ClientError, text: &str) -> Result<(), End> {
        let mut sqlstate = [b' '; 5];
        sqlstate.copy_from_slice(error.sqlstate.as_bytes());
        let refusal = ErrPacket {
            number: error.number,
            sqlstate,
            message: text.as_bytes(),
        };
        self.answer_error(&refusal).await
    }

    /// An error that a server gave to Heddle on the client's behalf.
    async fn pass_refusal(&mut self, refusal: &ServerRefusal) -> Result<(), End> {
        let refusal = ErrPacket {
            number: refusal.number,
            sqlstate: refusal.sqlstate,
            message: &refusal.message,
        };
        self.answer_error(&refusal).await
    }

    /// The answer to a command for which no connection could be had.
    async fn pool_error(&mut self, error: &PoolError, target: &Target) -> Result<(), End> {
        match error {
            PoolError::WaitTimeout { waited_ms } => {
                self.error(&error::POOL_WAIT_TIMEOUT, &[&waited_ms.to_string()]).await
            }
            PoolError::Connection(ConnectionError::Refused {
                number,
                sqlstate,
                message,
            }) => {
                let refusal = ErrPacket {
                    number: *number,
                    sqlstate: *sqlstate,
                    message,
                };
                self.answer_error(&refusal).await
            }
            PoolError::Connection(ConnectionError::Credential { plugin }) => {
                self.error(&error::AUTH_PLUGIN_UNSUPPORTED, &[plugin]).await
            }
            PoolError::Connection(ConnectionError::Untrusted { plugin }) => {
                self.error(&error::SERVER_UNTRUSTED, &[plugin]).await
            }
            PoolError::Connection(cause) => {
                let server = format!("{}:{}", target.host, target.port);
                tracing::debug!(server, %cause, "server unreachable");
                self.error(&error::SERVER_UNREACHABLE, &[&format!("{server} ({cause})")]).await
            }
        }
    }
}

impl<S: ReplySink> Answers for S {}

impl Client {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::sink::buffer::{now, refusal};
    use crate::connections::target::nowhere;

    #[test]
    fn a_servers_refusal_is_passed_on_as_it_came() {
        let mut sink = Vec::<u8>::new();
        let told = ServerRefusal::in_read_only_transaction();
        now(sink.pass_refusal(&told)).expect("a buffer takes all");
        assert_eq!(refusal(&sink).0, 1792);
    }

    #[test]
    fn who_has_no_connection_hears_why() {
        let mut sink = Vec::<u8>::new();
        let error = PoolError::WaitTimeout { waited_ms: 250 };
        now(sink.pool_error(&error, &nowhere())).expect("a buffer takes all");
        let (number, text) = refusal(&sink);
        assert_eq!(number, error::POOL_WAIT_TIMEOUT.number);
        assert!(text.contains("250"), "{text}");
    }
}
