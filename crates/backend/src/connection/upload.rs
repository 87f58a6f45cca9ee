//! A file that Heddle itself is the client of: a LOAD DATA LOCAL of its own, which the server answers by
//! asking for the file. The file is sent piece by piece, while it is made.
//!
//! Between [`Connection::begin_upload`] and the end of [`Connection::end_upload`] the connection can do
//! nothing else; a connection that is left in between must be closed.

use mysql_wire::Malformed;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::{self, HEADER_BYTES};
use mysql_wire::relay::{Expect, Outcome, Relay};
use mysql_wire::status::Status;

use super::{Connection, ConnectionError, OWN_REPLY_BYTES, last_error, request_of};

/// The longest piece of a file in one packet, in bytes: servers bound packets, not files.
const PACKET_BYTES_MAX: usize = 1 << 20;

const SENDING: &str = "sending a file";
const READING: &str = "reading the reply to a file";

/// A file that the server has asked for.
pub struct Upload {
    relay: Relay,
    /// The number of the next packet.
    sequence: u8,
}

impl Connection {
    /// Runs a LOAD DATA LOCAL up to the server's question for the file.
    ///
    /// # Errors
    /// `Refused` when the server takes no files, or not this statement: the connection is sound.
    pub async fn begin_upload(&mut self, statement: &[u8]) -> Result<Upload, ConnectionError> {
        let attributes = self.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
        let request = request_of(&[(Command::Query, statement)], attributes);
        self.send_whole(request).await?;
        let own = self.capabilities | Capabilities::DEPRECATE_EOF;
        let mut relay = Relay::new(Expect::Results, own, own, Status::AUTOCOMMIT);
        match (self.reply_or_wish(&mut relay).await?, relay.next_sequence()) {
            (true, Some(sequence)) => Ok(Upload { relay, sequence }),
            _ => Err(ConnectionError::Protocol {
                operation: READING,
                source: Malformed {
                    what: "a LOAD DATA LOCAL that asks for no file",
                },
            }),
        }
    }

    /// Sends the next piece of the file.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn upload(
        &mut self,
        upload: &mut Upload,
        piece: &[u8],
    ) -> Result<(), ConnectionError> {
        let mut packets = Vec::with_capacity(piece.len() + 2 * HEADER_BYTES);
        for part in piece.chunks(PACKET_BYTES_MAX) {
            packet::write(&mut packets, &mut upload.sequence, part);
        }
        self.send_whole(packets).await
    }

    /// Ends the file, and tells what the server made of it.
    ///
    /// # Errors
    /// `Refused` when the server could not store it: the connection is sound.
    pub async fn end_upload(&mut self, mut upload: Upload) -> Result<Outcome, ConnectionError> {
        let mut end = Vec::new();
        packet::write(&mut end, &mut upload.sequence, b"");
        self.send_whole(end).await?;
        match self.reply_or_wish(&mut upload.relay).await? {
            false => Ok(upload.relay.outcome().clone()),
            true => Err(ConnectionError::Protocol {
                operation: READING,
                source: Malformed {
                    what: "a file that is asked for twice",
                },
            }),
        }
    }

    async fn send_whole(&mut self, packets: Vec<u8>) -> Result<(), ConnectionError> {
        let bytes = packets.len();
        let (sent, _) = self.send(packets, 0..bytes).await;
        sent.map_err(|source| ConnectionError::Broken {
            operation: SENDING,
            source,
        })
    }

    /// Reads a reply to its end, or up to the wish for a file: true.
    async fn reply_or_wish(&mut self, relay: &mut Relay) -> Result<bool, ConnectionError> {
        let own = self.capabilities | Capabilities::DEPRECATE_EOF;
        let mut buffer = Vec::with_capacity(OWN_REPLY_BYTES);
        let mut packets = Vec::new();
        loop {
            let progress = relay
                .advance(&mut buffer, 0, &mut |_| ())
                .map_err(|source| ConnectionError::Protocol {
                    operation: READING,
                    source,
                })?;
            packets.extend(buffer.drain(..progress.forward));
            if progress.wants_file {
                return Ok(true);
            }
            if progress.done {
                return match relay.outcome().error {
                    Some(_) => Err(last_error(&packets, own)),
                    None => Ok(false),
                };
            }
            buffer.reserve(
                progress
                    .need
                    .saturating_sub(buffer.len())
                    .max(OWN_REPLY_BYTES),
            );
            let (received, filled) = self.recv(buffer).await;
            buffer = filled;
            received.map_err(|source| ConnectionError::Broken {
                operation: READING,
                source,
            })?;
        }
    }
}
