//! The client's stream of bytes: TCP, with TLS and compressed frames on it where a test wants them.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use channel::{Algorithm, Packing, ServerTls, Side, Trust};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

/// The layers, the outermost last.
pub(super) struct Stream {
    pub tcp: TcpStream,
    tls: Option<Box<ClientConnection>>,
    packing: Option<Packing>,
    /// Frames that are not whole yet, and plain bytes that nobody has read.
    frames: Vec<u8>,
    plain: Vec<u8>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("tcp", &self.tcp).finish()
    }
}

/// A client that takes any certificate.
///
/// # Panics
/// Never: without authorities nothing can be wrong with them.
pub fn any_certificate() -> Arc<ClientConfig> {
    let trust = Trust::new(ServerTls::Required, None);
    trust.expect("no file is read").config
}

impl Stream {
    pub fn new(tcp: TcpStream) -> Stream {
        Stream {
            tcp,
            tls: None,
            packing: None,
            frames: Vec::new(),
            plain: Vec::new(),
        }
    }

    /// Shakes hands as a client of `localhost`.
    pub fn start_tls(&mut self, config: Arc<ClientConfig>) -> io::Result<()> {
        let name = ServerName::try_from("localhost").map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        while tls.is_handshaking() {
            tls.complete_io(&mut self.tcp)?;
        }
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    pub fn compress(&mut self, algorithm: Algorithm) {
        self.packing = Some(Packing::new(algorithm, Side::Client));
    }

    pub fn forget_compression(&mut self) {
        self.packing = None;
    }

    pub fn is_compressed(&self) -> bool {
        self.packing.is_some()
    }

    /// The version of TLS, and the certificates that the server showed.
    pub fn tls(&self) -> Option<&ClientConnection> {
        self.tls.as_deref()
    }

    /// Sends bytes as they are below the compression.
    pub fn write_below(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.tls {
            Some(tls) => {
                let mut stream = rustls::Stream::new(&mut **tls, &mut self.tcp);
                stream.write_all(bytes)?;
                stream.flush()
            }
            None => self.tcp.write_all(bytes),
        }
    }

    fn read_below(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match &mut self.tls {
            Some(tls) => match rustls::Stream::new(&mut **tls, &mut self.tcp).read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
                other => other,
            },
            None => self.tcp.read(bytes),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.packing.is_none() {
            return self.read_below(bytes);
        }
        loop {
            if !self.plain.is_empty() {
                let count = bytes.len().min(self.plain.len());
                bytes[..count].copy_from_slice(&self.plain[..count]);
                self.plain.drain(..count);
                return Ok(count);
            }
            if let Some(packing) = &mut self.packing
                && let Some(frame) = packing.unpack(&self.frames, &mut self.plain)?
            {
                self.frames.drain(..frame);
                continue;
            }
            let mut more = [0; 16_384];
            let count = self.read_below(&mut more)?;
            if count == 0 {
                return Ok(0);
            }
            self.frames.extend_from_slice(&more[..count]);
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(packing) = &mut self.packing else {
            self.write_below(bytes)?;
            return Ok(bytes.len());
        };
        let mut frames = Vec::new();
        packing.pack(bytes, &mut frames)?;
        self.write_below(&frames)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
