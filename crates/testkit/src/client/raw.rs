//! Packets and bytes as they are, for tests that break the protocol on purpose.

use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::time::Duration;

use mysql_wire::command::Command;
use mysql_wire::packet::{self, Header};

use super::{Client, Failure, Reply};

/// The frames of these texts, one after the other.
pub fn frames(texts: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for text in texts {
        packet::write_with(&mut bytes, &mut 0, |payload| {
            payload.push(Command::Query as u8);
            payload.extend_from_slice(text.as_bytes());
        });
    }
    bytes
}

impl Client {
    /// Sends these texts all at once and reads as many answers.
    ///
    /// # Panics
    /// When they cannot be sent.
    #[track_caller]
    pub fn pipelined(&mut self, texts: &[&str]) -> Vec<Result<Vec<Reply>, Failure>> {
        self.send_bytes(&frames(texts)).expect("sent");
        texts.iter().map(|_| self.answer(false)).collect()
    }

    /// The answer to a command that was sent before.
    pub fn answer(&mut self, binary: bool) -> Result<Vec<Reply>, Failure> {
        self.sequence = 1;
        self.read_results(binary)
    }

    /// Starts a new exchange: sequence 0, the command byte, the payload.
    pub fn send_command(&mut self, command: Command, payload: &[u8]) -> Result<(), Failure> {
        self.sequence = 0;
        let mut whole = Vec::with_capacity(payload.len() + 1);
        whole.push(command as u8);
        whole.extend_from_slice(payload);
        self.send_packet(&whole)
    }

    /// Sends a payload under the next sequence number, split where it must be.
    pub fn send_packet(&mut self, payload: &[u8]) -> Result<(), Failure> {
        let mut bytes = Vec::with_capacity(payload.len() + packet::HEADER_BYTES);
        packet::write(&mut bytes, &mut self.sequence, payload);
        self.send_bytes(&bytes)
    }

    /// Sends bytes without a header of ours.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stream.write_all(bytes)?)
    }

    /// Sends bytes without a header of ours and without the frames of compression.
    pub fn send_frames(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stream.write_below(bytes)?)
    }

    /// From here on frames of compression are bytes like others.
    pub fn forget_compression(&mut self) {
        self.stream.forget_compression();
    }

    /// Sends bytes past TLS and everything else.
    pub fn send_raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        Ok(self.stream.tcp.write_all(bytes)?)
    }

    /// Goes on in TLS; the request for it must have been sent.
    pub fn start_tls(&mut self, config: Arc<rustls::ClientConfig>) -> Result<(), Failure> {
        Ok(self.stream.start_tls(config)?)
    }

    /// What is known of the TLS connection; None without one.
    pub fn tls(&self) -> Option<&rustls::ClientConnection> {
        self.stream.tls()
    }

    /// Reads one payload, joined where it was split; checks the sequence numbers.
    pub fn read_packet(&mut self) -> Result<Vec<u8>, Failure> {
        let mut payload = Vec::new();
        loop {
            let mut start = [0; packet::HEADER_BYTES];
            self.stream.read_exact(&mut start)?;
            let header = Header::parse(&start).expect("four bytes are a header");
            if header.sequence != self.sequence && !self.stream.is_compressed() {
                return Err(Failure::Protocol(format!(
                    "packet {} came where {} was due",
                    header.sequence, self.sequence
                )));
            }
            self.sequence = self.sequence.wrapping_add(1);
            let from = payload.len();
            payload.resize(from + header.payload_bytes, 0);
            self.stream.read_exact(&mut payload[from..])?;
            if header.payload_bytes < packet::PAYLOAD_BYTES_MAX {
                return Ok(payload);
            }
        }
    }

    /// Waits until an answer has begun, and reads none of it. Without TLS and compression.
    pub fn wait_for_answer(&mut self) -> Result<(), Failure> {
        loop {
            match self.stream.tcp.peek(&mut [0]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
                Ok(_) => return Ok(()),
            }
        }
    }

    /// Reads whatever comes next, at most `bytes_max`; empty when the server has closed.
    pub fn read_bytes(&mut self, bytes_max: usize) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; bytes_max];
        loop {
            match self.stream.read(&mut bytes) {
                // The kernel wakes threads of a process that has rings.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
                Ok(count) => {
                    bytes.truncate(count);
                    return Ok(bytes);
                }
            }
        }
    }

    /// True when the server has closed the connection; waits for it up to `patience`. Bytes that
    /// come before the end are dropped.
    pub fn is_closed_within(&mut self, patience: Duration) -> bool {
        let begin = std::time::Instant::now();
        let mut sink = [0; 4096];
        loop {
            let left = patience.saturating_sub(begin.elapsed());
            if left.is_zero() || self.stream.tcp.set_read_timeout(Some(left)).is_err() {
                return false;
            }
            match self.stream.read(&mut sink) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == ErrorKind::ConnectionReset,
            }
        }
    }

    /// Ends our half: the server reads the end of the stream.
    pub fn close_send(&mut self) -> Result<(), Failure> {
        Ok(self.stream.tcp.shutdown(std::net::Shutdown::Write)?)
    }

    /// Longest wait of one read; `None` waits for ever.
    pub fn set_read_timeout(&mut self, limit: Option<Duration>) -> Result<(), Failure> {
        Ok(self.stream.tcp.set_read_timeout(limit)?)
    }
}
