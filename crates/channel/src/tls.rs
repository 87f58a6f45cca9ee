//! One TLS connection on our own buffers: rustls keeps the keys, and the bytes stay here.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus,
    WriteTraffic,
};
use rustls::{CipherSuite, ClientConfig, ProtocolVersion, ServerConfig};

/// Room for a receive during the handshake.
const HANDSHAKE_BYTES: usize = 2048;

/// The longest plain content of one record.
const RECORD_BYTES_MAX: usize = 16_384;

/// More than a record adds to its content, in any version: header, nonce, tag, type.
const RECORD_OVERHEAD_BYTES: usize = 64;

/// A TLS failure as an error of the stream.
pub(crate) fn broken(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

enum End {
    Server(UnbufferedServerConnection),
    Client(UnbufferedClientConnection),
}

/// One end of a TLS connection.
pub(crate) struct Tls {
    end: End,
    /// Records as they came, the last one perhaps not whole; those before `at` are done with.
    raw: Vec<u8>,
    at: usize,
    /// Answers of TLS itself, which go out before the next plain bytes.
    queued: Vec<u8>,
}

/// What [`Tls::open`] found.
pub(crate) enum Opened {
    Bytes,
    More,
    Closed,
}

/// Where opened bytes go: into the first buffer as far as it has room, the rest into the second.
pub(crate) struct Sink<'a> {
    first: Option<&'a mut Vec<u8>>,
    rest: &'a mut Vec<u8>,
}

impl<'a> Sink<'a> {
    pub fn first(first: &'a mut Vec<u8>, rest: &'a mut Vec<u8>) -> Sink<'a> {
        Sink {
            first: Some(first),
            rest,
        }
    }

    pub fn all(rest: &'a mut Vec<u8>) -> Sink<'a> {
        Sink { first: None, rest }
    }

    fn put(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        if let Some(first) = &mut self.first
            && self.rest.is_empty()
        {
            let room = first.capacity() - first.len();
            let (fits, over) = bytes.split_at(room.min(bytes.len()));
            first.extend_from_slice(fits);
            rest = over;
        }
        self.rest.extend_from_slice(rest);
    }
}

/// How far one step came.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There may be more to do.
    Again,
    /// Plain bytes came.
    Bytes,
    /// The handshake needs more bytes.
    Blocked,
    /// Nothing is left to do but to send and receive; what was to be sealed is.
    Ready,
    Closed,
}

/// What to do once plain bytes may be sent.
#[derive(Clone, Copy)]
enum Wish<'a> {
    Nothing,
    Seal(&'a [u8]),
    Farewell,
}

impl Tls {
    pub fn server(config: Arc<ServerConfig>, early: &[u8]) -> Result<Tls, rustls::Error> {
        let end = End::Server(UnbufferedServerConnection::new(config)?);
        Ok(Tls::new(end, early.to_vec()))
    }

    pub fn client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Tls, rustls::Error> {
        let end = End::Client(UnbufferedClientConnection::new(config, name)?);
        Ok(Tls::new(end, Vec::new()))
    }

    fn new(end: End, raw: Vec<u8>) -> Tls {
        let queued = Vec::new();
        Tls {
            end,
            raw,
            at: 0,
            queued,
        }
    }

    /// Goes on with the handshake; true when it is complete. What is in `out` must be sent in every
    /// case: after an error it is the alert that tells the peer. A peer may send on at once: what it
    /// said first is put into `plain`.
    pub fn shake(&mut self, out: &mut Vec<u8>, plain: &mut Vec<u8>) -> Result<bool, rustls::Error> {
        let mut sink = Sink::all(plain);
        loop {
            match self.step(Wish::Nothing, out, &mut sink) {
                Ok(Step::Again | Step::Bytes) => {}
                Ok(Step::Blocked | Step::Ready) => return Ok(!self.is_handshaking()),
                Ok(Step::Closed) => return Err(rustls::Error::HandshakeNotComplete),
                Err(error) => {
                    // The alert; a second error adds nothing to the first.
                    let _ = self.step(Wish::Nothing, out, &mut sink);
                    return Err(error);
                }
            }
        }
    }

    /// Opens records until plain bytes come out.
    pub fn open(&mut self, sink: &mut Sink<'_>) -> Result<Opened, rustls::Error> {
        let mut queued = std::mem::take(&mut self.queued);
        let opened = loop {
            match self.step(Wish::Nothing, &mut queued, sink) {
                Ok(Step::Bytes) => break Ok(Opened::Bytes),
                Ok(Step::Again) => {}
                Ok(Step::Blocked | Step::Ready) => break Ok(Opened::More),
                Ok(Step::Closed) => break Ok(Opened::Closed),
                Err(error) => break Err(error),
            }
        };
        self.queued = queued;
        opened
    }

    /// Seals plain bytes. Records that have come are opened on the way.
    pub fn seal(&mut self, plain: &[u8], sink: &mut Sink<'_>) -> Result<Vec<u8>, rustls::Error> {
        self.fulfil(Wish::Seal(plain), plain.len(), sink)
    }

    /// The notice that nothing follows.
    pub fn farewell(&mut self) -> Option<Vec<u8>> {
        let mut none = Vec::new();
        self.fulfil(Wish::Farewell, 0, &mut Sink::all(&mut none))
            .ok()
    }

    fn fulfil(
        &mut self,
        wish: Wish<'_>,
        plain_bytes: usize,
        sink: &mut Sink<'_>,
    ) -> Result<Vec<u8>, rustls::Error> {
        let mut out = std::mem::take(&mut self.queued);
        out.reserve_exact(sealed_bytes_max(plain_bytes));
        let mut closed = false;
        loop {
            match self.step(wish, &mut out, sink)? {
                Step::Ready => return Ok(out),
                Step::Again | Step::Bytes => {}
                // A peer that sends no more may still listen; said once by rustls.
                Step::Closed if !closed => closed = true,
                Step::Blocked | Step::Closed => return Err(rustls::Error::HandshakeNotComplete),
            }
        }
    }

    fn step(
        &mut self,
        wish: Wish<'_>,
        out: &mut Vec<u8>,
        sink: &mut Sink<'_>,
    ) -> Result<Step, rustls::Error> {
        let incoming = &mut self.raw[self.at..];
        let (discard, step) = match &mut self.end {
            End::Server(server) => take(server.process_tls_records(incoming), wish, out, sink),
            End::Client(client) => take(client.process_tls_records(incoming), wish, out, sink),
        };
        self.at += discard;
        if self.at == self.raw.len() {
            self.raw.clear();
            self.at = 0;
        }
        step
    }

    /// The buffer that the socket's bytes go into; give it back with [`Tls::restore`].
    pub fn lend(&mut self) -> Vec<u8> {
        self.raw.drain(..std::mem::take(&mut self.at));
        let mut raw = std::mem::take(&mut self.raw);
        if self.is_handshaking() {
            raw.reserve(HANDSHAKE_BYTES);
        }
        raw
    }

    /// Takes the lent buffer back.
    pub fn restore(&mut self, raw: Vec<u8>) {
        self.raw = raw;
    }

    /// The handshake is over: its buffer is given up.
    pub fn rest(&mut self) {
        self.raw.drain(..std::mem::take(&mut self.at));
        self.raw.shrink_to_fit();
    }

    /// True when part of a record has come.
    pub fn holds_raw(&self) -> bool {
        self.at < self.raw.len()
    }

    pub fn is_handshaking(&self) -> bool {
        match &self.end {
            End::Server(server) => server.is_handshaking(),
            End::Client(client) => client.is_handshaking(),
        }
    }

    /// The peer's own certificate.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        let chain = match &self.end {
            End::Server(server) => server.peer_certificates(),
            End::Client(client) => client.peer_certificates(),
        };
        chain?.first()
    }

    /// OpenSSL's name of the cipher suite, which accounts and people use.
    pub fn cipher(&self) -> &'static str {
        let suite = match &self.end {
            End::Server(server) => server.negotiated_cipher_suite(),
            End::Client(client) => client.negotiated_cipher_suite(),
        };
        suite.map_or("", |suite| openssl_name(suite.suite()))
    }

    /// The servers' name of the protocol.
    pub fn protocol(&self) -> &'static str {
        let version = match &self.end {
            End::Server(server) => server.protocol_version(),
            End::Client(client) => client.protocol_version(),
        };
        match version {
            Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "",
        }
    }
}

/// OpenSSL's names of the cipher suites, as a list.
pub fn ciphers() -> String {
    let suites = rustls::crypto::ring::default_provider().cipher_suites;
    let names: Vec<&str> = suites
        .iter()
        .map(|suite| openssl_name(suite.suite()))
        .collect();
    names.join(":")
}

fn openssl_name(suite: CipherSuite) -> &'static str {
    match suite {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => {
            "ECDHE-ECDSA-CHACHA20-POLY1305"
        }
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "unknown",
    }
}

/// Handles what one call of rustls gave. Returns how many bytes at the front of the incoming ones
/// are done with.
fn take<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    wish: Wish<'_>,
    out: &mut Vec<u8>,
    sink: &mut Sink<'_>,
) -> (usize, Result<Step, rustls::Error>) {
    let mut discard = status.discard;
    let state = match status.state {
        Ok(state) => state,
        Err(error) => return (discard, Err(error)),
    };
    let step = match state {
        ConnectionState::ReadTraffic(mut traffic) => {
            let mut step = Ok(Step::Again);
            while let Some(record) = traffic.next_record() {
                match record {
                    Ok(record) => {
                        discard += record.discard;
                        sink.put(record.payload);
                        if !record.payload.is_empty() {
                            step = Ok(Step::Bytes);
                        }
                    }
                    Err(error) => step = Err(error),
                }
            }
            step
        }
        ConnectionState::EncodeTlsData(mut data) => put(out, HANDSHAKE_BYTES, |room| {
            data.encode(room).map_err(|error| match error {
                EncodeError::InsufficientSize(lack) => Put::Lack(lack),
                EncodeError::AlreadyEncoded => Put::Failed(rustls::Error::EncryptError),
            })
        })
        .map(|()| Step::Again),
        ConnectionState::TransmitTlsData(transmit) => {
            // Whoever asked for the step sends what is in `out`.
            transmit.done();
            Ok(Step::Again)
        }
        ConnectionState::BlockedHandshake => Ok(Step::Blocked),
        ConnectionState::WriteTraffic(traffic) => wished(traffic, wish, out).map(|()| Step::Ready),
        ConnectionState::PeerClosed | ConnectionState::Closed => Ok(Step::Closed),
        // Early data is not offered; a state that a later rustls has is not understood.
        _ => Err(rustls::Error::HandshakeNotComplete),
    };
    (discard, step)
}

fn wished<Data>(
    mut traffic: WriteTraffic<'_, Data>,
    wish: Wish<'_>,
    out: &mut Vec<u8>,
) -> Result<(), rustls::Error> {
    let failed = |error| match error {
        EncryptError::InsufficientSize(lack) => Put::Lack(lack),
        EncryptError::EncryptExhausted => Put::Failed(rustls::Error::EncryptError),
    };
    match wish {
        Wish::Nothing => Ok(()),
        Wish::Seal(plain) => {
            let room = sealed_bytes_max(plain.len());
            put(out, room, |room| {
                traffic.encrypt(plain, room).map_err(failed)
            })
        }
        Wish::Farewell => put(out, RECORD_OVERHEAD_BYTES, |room| {
            traffic.queue_close_notify(room).map_err(failed)
        }),
    }
}

/// Enough for so many plain bytes in records.
fn sealed_bytes_max(plain_bytes: usize) -> usize {
    plain_bytes + (plain_bytes / RECORD_BYTES_MAX + 1) * RECORD_OVERHEAD_BYTES
}

/// Why nothing was written.
enum Put {
    Lack(InsufficientSizeError),
    Failed(rustls::Error),
}

/// Appends what `write` puts into `room` bytes, or into as many as it turns out to need.
fn put(
    out: &mut Vec<u8>,
    room: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Put>,
) -> Result<(), rustls::Error> {
    let start = out.len();
    let mut room = room;
    loop {
        out.resize(start + room, 0);
        match write(&mut out[start..]) {
            Ok(bytes) => {
                out.truncate(start + bytes);
                return Ok(());
            }
            Err(Put::Lack(lack)) if lack.required_size > room => room = lack.required_size,
            Err(Put::Lack(_)) => return Err(rustls::Error::EncryptError),
            Err(Put::Failed(error)) => return Err(error),
        }
    }
}
