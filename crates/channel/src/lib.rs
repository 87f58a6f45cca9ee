//! A byte stream over a socket of the data plane: plain, inside TLS, compressed, or compressed inside
//! TLS.
//!
//! Job: give sessions and server connections the owned-buffer calls of [`reactor::Sock`] whatever
//! lies underneath, and what must be known of a peer's certificate. A plain channel costs one branch.
//!
//! Invariants: a receive gives plain bytes or an error, never bytes of a layer; what a peer claims
//! about lengths costs memory only as far as bytes came; an idle channel keeps no more than a small
//! receive buffer; a layer once put on stays to the end. A failed or dropped call leaves the channel
//! fit only for being closed.
//!
//! Must not know: messages of the protocol beyond packet headers, logins, sessions, the farm.

mod authority;
mod certificate;
mod duplex;
mod ending;
mod packing;
mod subject;
mod terms;
mod tls;
mod wrapped;

use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use memory::{Budget, Reservation};
use reactor::{Closer, Credentials, Sock};
pub use rustls::pki_types::ServerName;
pub use rustls::{ClientConfig, ServerConfig};

pub use crate::authority::{Authority, CLOCK_ALLOWANCE, Mutual};
pub use crate::certificate::{CertificateError, Fingerprint};
pub use crate::duplex::Duplex;
pub use crate::ending::certificate_ends_s;
pub use crate::packing::{Algorithm, PackError, Packing, Side};
pub use crate::subject::PeerCertificate;
pub use crate::terms::{Presented, ServerTls, Trust, is_other_key, key_of};
use crate::tls::Tls;
use crate::wrapped::{Pull, Wrapped};

/// Plain bytes that are sealed and sent at a time: it bounds what a slow peer costs.
const SEND_BYTES: usize = 65_536;

/// Bytes that are received at a time from a peer whose bytes nobody wants any more.
const DISCARD_BYTES: usize = 16_384;

/// A connection of this core.
pub struct Channel {
    sock: Sock,
    wrapped: Option<Box<Wrapped>>,
}

impl Channel {
    /// A plain channel.
    pub fn new(sock: Sock) -> Channel {
        Channel {
            sock,
            wrapped: None,
        }
    }

    /// Receives at least one byte behind what `buffer` holds; it must have spare capacity, and is
    /// not made larger. `Ok(0)` means that the peer closed its side. The buffer comes back in every
    /// case.
    pub async fn recv(&mut self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let Some(wrapped) = &mut self.wrapped else {
            return self.sock.recv(buffer).await;
        };
        loop {
            match wrapped.pull(&mut buffer) {
                Ok(Pull::Bytes(bytes)) => return (Ok(bytes), buffer),
                Ok(Pull::Closed) => return (Ok(0), buffer),
                Ok(Pull::More) => {}
                Err(error) => return (Err(error), buffer),
            }
            let (received, raw) = self.sock.recv(wrapped.lend()).await;
            let received = wrapped.restore(raw, received);
            match received {
                Ok(0) => return (Ok(0), buffer),
                Ok(_) => {}
                Err(error) => return (Err(error), buffer),
            }
        }
    }

    /// Sends the bytes of `buffer` in `range`, all of them. The buffer comes back in every case.
    pub async fn send(
        &mut self,
        buffer: Vec<u8>,
        range: Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        let Some(wrapped) = &mut self.wrapped else {
            return self.sock.send(buffer, range).await;
        };
        send_sealed(&self.sock, buffer, range, |part| wrapped.seal(part)).await
    }

    /// Ends the sending side and discards what the peer still sends, until it closes its side or has sent
    /// `bytes_max` more bytes. Without this a close with unread bytes resets the connection, and the peer
    /// may lose the last word that was sent to it. The caller limits the time.
    pub async fn part(&mut self, bytes_max: usize) {
        self.say_farewell();
        self.sock.end_sending();
        let mut left = bytes_max;
        let mut buffer = Vec::with_capacity(DISCARD_BYTES);
        while left > 0 {
            let (received, mut full) = self.sock.recv(buffer).await;
            match received {
                Ok(0) | Err(_) => return,
                Ok(bytes) => left = left.saturating_sub(bytes),
            }
            full.clear();
            buffer = full;
        }
    }

    /// The peer hears the end of TLS, if there is room for it; nothing can be done else.
    fn say_farewell(&mut self) {
        if let Some(wrapped) = &mut self.wrapped
            && let Some(notice) = wrapped.farewell()
        {
            let _ = self.sock.send_ready(&notice);
        }
    }

    /// True while the peer has neither closed nor sent anything unasked. Meant for a pooled
    /// connection that has been idle for a while. Messages of TLS itself, as session tickets, are
    /// taken in here.
    pub fn is_quiet(&mut self) -> bool {
        let Some(wrapped) = &mut self.wrapped else {
            return self.sock.is_quiet();
        };
        loop {
            let mut none = Vec::new();
            if wrapped.holds_bytes() || !matches!(wrapped.pull(&mut none), Ok(Pull::More)) {
                return false;
            }
            let mut raw = wrapped.lend();
            let received = self.sock.recv_ready(&mut raw);
            match wrapped.restore(raw, received) {
                Ok(0) => return false,
                Ok(_) => {}
                // Half a record may be on its way, and what it will be cannot be known.
                Err(error) => {
                    return error.kind() == io::ErrorKind::WouldBlock && !wrapped.holds_raw();
                }
            }
        }
    }

    /// Both directions at the same time, for as long as the channel is lent.
    pub fn duplex(&mut self) -> Duplex<'_> {
        Duplex::new(&self.sock, self.wrapped.as_deref_mut())
    }

    /// A handle that ends this connection from elsewhere on the core.
    pub fn closer(&self) -> Closer {
        self.sock.closer()
    }

    /// The other end's address; that of a Unix socket is none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.sock.peer()
    }

    /// The other end is on this machine, as far as addresses say.
    pub fn is_near(&self) -> bool {
        self.sock.is_near()
    }

    /// A Unix socket: nobody is between the two ends, though it may be outside TLS.
    pub fn is_local(&self) -> bool {
        self.sock.is_local()
    }

    /// Who is at the other end of a Unix socket.
    pub fn peer_credentials(&self) -> io::Result<Credentials> {
        self.sock.peer_credentials()
    }

    /// Takes the server's part in a TLS handshake. `early` is what came behind the request for TLS:
    /// it must be the beginning of the handshake, and anything else fails it.
    pub async fn accept_tls(&mut self, config: Arc<ServerConfig>, early: &[u8]) -> io::Result<()> {
        let tls = Tls::server(config, early).map_err(tls::broken)?;
        self.shake(tls).await
    }

    /// Takes the client's part in a TLS handshake with the server of this name.
    pub async fn connect_tls(
        &mut self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<()> {
        let tls = Tls::client(config, name).map_err(tls::broken)?;
        self.shake(tls).await
    }

    async fn shake(&mut self, mut tls: Tls) -> io::Result<()> {
        let mut plain = Vec::new();
        loop {
            let mut out = Vec::new();
            let step = tls.shake(&mut out, &mut plain);
            let bytes = out.len();
            if bytes > 0 {
                self.sock.send(out, 0..bytes).await.0?;
            }
            if step.map_err(tls::broken)? {
                tls.rest();
                self.wrapped = Some(Box::new(Wrapped::tls(tls, plain)));
                return Ok(());
            }
            let (received, raw) = self.sock.recv(tls.lend()).await;
            tls.restore(raw);
            if received? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// From here on both directions are compressed.
    pub fn compress(&mut self, packing: Packing) {
        match &mut self.wrapped {
            Some(wrapped) => wrapped.compress(packing),
            None => self.wrapped = Some(Box::new(Wrapped::packed(packing))),
        }
    }

    /// What layers keep of a peer's bytes counts there from now on, beyond the reservation's free bytes. A
    /// receive that would need more fails with [`io::ErrorKind::OutOfMemory`].
    pub fn keep_within(&mut self, reservation: Reservation) {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.keep_within(reservation);
        }
    }

    /// What layers keep is taken from this budget from now on, if it has room for it.
    pub fn move_to(&mut self, memory: &Arc<Budget>) {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.move_to(memory);
        }
    }

    /// The next bytes received begin a new command: frames are counted anew. Only the server's side
    /// says this; a client's side sees it in what it sends.
    pub fn new_command(&mut self) {
        if let Some(wrapped) = &mut self.wrapped {
            wrapped.new_command();
        }
    }

    /// True inside TLS.
    pub fn is_secure(&self) -> bool {
        self.tls().is_some()
    }

    /// True once frames are compressed: then the numbers of packets mean nothing.
    pub fn is_compressed(&self) -> bool {
        self.wrapped.as_ref().is_some_and(|w| w.is_compressed())
    }

    /// The cipher suite by the name that OpenSSL gives it; empty outside TLS.
    pub fn cipher(&self) -> &'static str {
        self.tls().map_or("", Tls::cipher)
    }

    /// The cipher suites that are offered, by OpenSSL's names, with colons between them; empty outside
    /// TLS.
    pub fn ciphers(&self) -> String {
        self.tls().map_or_else(String::new, |_| tls::ciphers())
    }

    /// TLSv1.3 or TLSv1.2; empty outside TLS.
    pub fn protocol(&self) -> &'static str {
        self.tls().map_or("", Tls::protocol)
    }

    /// The peer's certificate, verified; None outside TLS and for a client without one.
    pub fn peer_certificate(&self) -> Option<PeerCertificate> {
        PeerCertificate::read(self.tls()?.peer_certificate()?)
    }

    fn tls(&self) -> Option<&Tls> {
        self.wrapped.as_ref()?.as_tls()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        self.say_farewell();
    }
}

/// Sends a range in pieces, each as `seal` makes it.
async fn send_sealed(
    sock: &Sock,
    buffer: Vec<u8>,
    range: Range<usize>,
    mut seal: impl FnMut(&[u8]) -> io::Result<Vec<u8>>,
) -> (io::Result<()>, Vec<u8>) {
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + SEND_BYTES);
        let sealed = match seal(&buffer[at..end]) {
            Ok(sealed) => sealed,
            Err(error) => return (Err(error), buffer),
        };
        let bytes = sealed.len();
        let (sent, _) = sock.send(sealed, 0..bytes).await;
        if let Err(error) = sent {
            return (Err(error), buffer);
        }
        at = end;
    }
    (Ok(()), buffer)
}
