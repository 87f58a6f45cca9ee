//! A connection to a server on another machine: Heddle itself connects, speaks TLS and logs in, and the
//! driver is given what comes after.
//!
//! The driver gives the password to whoever asks for it, and takes any key for the server's. Here it never
//! has one: it logs in without at this end of the tunnel, a socket that nobody but this process can use,
//! while [`login`] decides what the server may be shown.

mod asking;
mod login;
mod preface;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use channel::{CertificateError, Fingerprint, ServerName, ServerTls, Trust, is_other_key, key_of};
use mysql_wire::Malformed;
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{Greeting, TlsRequest};
use mysql_wire::packet::{self, HEADER_BYTES, Header};
use mysql_wire::reply::{self, ErrPacket};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::link::{Known, LinkTls, Login};
use asking::Rewriter;

pub(crate) use asking::Asks;
pub use preface::proxy_objection;

/// A greeting, a key or an OK: far above what any server sends while a client logs in.
const LOGIN_BYTES_MAX: usize = 65_536;
/// What is carried at a time.
const CARRIED_BYTES: usize = 65_536;
/// Names of this process's tunnels that others may have taken before.
const NAMES_MAX: u32 = 64;

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// One side of a login: where packets go, and the number of the next.
struct End {
    stream: Box<dyn Stream>,
    sequence: u8,
}

/// Why a tunnel did not come about.
enum Trouble {
    Io(std::io::Error),
    Tls(std::io::Error),
    Malformed(Malformed),
    Trust(CertificateError),
    /// No TLS where there must be.
    Plain,
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Trouble {
        Trouble::Io(error)
    }
}

impl From<Malformed> for Trouble {
    fn from(error: Malformed) -> Trouble {
        Trouble::Malformed(error)
    }
}

/// A server that has greeted, and the socket at which the driver is awaited.
pub(crate) struct Tunnel {
    server: End,
    greeting: Vec<u8>,
    listener: UnixListener,
    name: String,
    asks: Asks,
    is_secure: bool,
    /// The server may have the password itself, if it asks.
    is_trusted: bool,
}

/// Why a tunnel came to its end before the driver was logged in.
pub(crate) struct Ended {
    pub(crate) error: Error,
    /// TLS failed with a server that need not have it.
    pub(crate) may_be_plain: bool,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended {
            error,
            may_be_plain: false,
        }
    }
}

/// How a tunnel's login ended: with the key that the server showed, or with what the driver cannot say.
type Said = Result<Option<Fingerprint>, Ended>;

impl Tunnel {
    /// Connects, and waits for the greeting.
    pub(crate) async fn open(
        to: &Login,
        addresses: &[SocketAddr],
        asks: Asks,
    ) -> Result<Tunnel, Error> {
        let opened = async {
            let (server, greeting) = greeted(addresses).await?;
            let (listener, name) = listen()?;
            Ok::<_, Trouble>(Tunnel {
                server,
                greeting,
                listener,
                name,
                asks,
                is_secure: false,
                is_trusted: false,
            })
        };
        opened.await.map_err(|trouble| trouble.told(to))
    }

    /// Where the driver finds the tunnel, in the form of a socket's path.
    pub(crate) fn path(&self) -> String {
        format!("\0{}", self.name)
    }

    /// Begins to log the driver in as this user; then what both say is carried, until either ends.
    pub(crate) fn serve(
        self,
        to: Login,
    ) -> (oneshot::Receiver<Said>, impl Future<Output = ()> + Send) {
        let (tell, told) = oneshot::channel();
        (told, self.carry_all(to, tell))
    }

    async fn carry_all(mut self, to: Login, tell: oneshot::Sender<Said>) {
        let Ok(driver) = driver_of(&self.listener).await else {
            return;
        };
        let mut driver = End::new(driver);
        let logged_in = login::log_in(&mut self, &mut driver, &to).await;
        let (is_in, said) = match logged_in {
            Ok(Some(key)) => (true, Ok(key)),
            // The driver was told.
            Ok(None) => return,
            Err(trouble) => {
                let may_be_plain = matches!(trouble, Trouble::Tls(_))
                    && to.tls == LinkTls::Preferred
                    && !is_pinned(&to);
                let error = trouble.told(&to);
                (
                    false,
                    Err(Ended {
                        error,
                        may_be_plain,
                    }),
                )
            }
        };
        // Who does not wait for it any more has dropped the driver, too.
        let _ = tell.send(said);
        if !is_in {
            return;
        }
        let (from_driver, to_driver) = tokio::io::split(driver.stream);
        let (from_server, to_server) = tokio::io::split(self.server.stream);
        tokio::select! {
            () = carry(from_driver, to_server, self.asks.rewriter()) => {}
            () = carry(from_server, to_driver, Asks::AsDriver.rewriter()) => {}
        }
    }

    /// Goes on inside TLS where that is to be, on these flags; gives the server's key.
    async fn go_inside(
        &mut self,
        to: &Login,
        request: TlsRequest,
    ) -> Result<Option<Fingerprint>, Trouble> {
        let said = Greeting::decode(&self.greeting)?;
        let offers = said.capabilities.contains(Capabilities::SSL);
        let must = is_pinned(to) || !matches!(to.tls, LinkTls::Off | LinkTls::Preferred);
        if must && !offers {
            return Err(Trouble::Plain);
        }
        if !offers || to.tls == LinkTls::Off {
            return Ok(None);
        }
        let key = secure(&mut self.server, to, request).await?;
        self.is_secure = true;
        self.is_trusted = may_have_password(&to.tls, to.known);
        Ok(key)
    }
}

/// Connects, and reads what the server says first.
async fn greeted(addresses: &[SocketAddr]) -> Result<(End, Vec<u8>), Trouble> {
    let stream = TcpStream::connect(addresses).await?;
    stream.set_nodelay(true)?;
    let mut server = End::new(stream);
    let greeting = server.read().await?;
    Ok((server, greeting))
}

/// The driver's end: of all who may find the socket only this process.
async fn driver_of(listener: &UnixListener) -> std::io::Result<UnixStream> {
    let own = i32::try_from(std::process::id()).ok();
    loop {
        let (stream, _) = listener.accept().await?;
        if stream.peer_cred()?.pid() == own {
            return Ok(stream);
        }
    }
}

fn is_pinned(to: &Login) -> bool {
    to.tls == LinkTls::Preferred && matches!(to.known, Known::Key(_))
}

/// Whether a server on another machine may have the password itself inside TLS. Where certificates are
/// not verified, one that is known by its key may, and one that an operator has just named.
fn may_have_password(tls: &LinkTls, known: Known) -> bool {
    match tls {
        LinkTls::Off => false,
        LinkTls::Preferred => known != Known::Nothing,
        LinkTls::Required | LinkTls::VerifyCa(_) | LinkTls::VerifyIdentity(_) => true,
    }
}

/// Asks for TLS and goes on in it; gives the server's key.
async fn secure(
    server: &mut End,
    to: &Login,
    request: TlsRequest,
) -> Result<Option<Fingerprint>, Trouble> {
    let read = |file: &std::path::Path| std::fs::read(file).map_err(Trouble::Io);
    let (mode, authorities) = match &to.tls {
        LinkTls::Off | LinkTls::Preferred => (ServerTls::Preferred, None),
        LinkTls::Required => (ServerTls::Required, None),
        LinkTls::VerifyCa(file) => (ServerTls::VerifyCa, Some(read(file)?)),
        LinkTls::VerifyIdentity(file) => (ServerTls::VerifyIdentity, Some(read(file)?)),
    };
    let config = match to.known {
        Known::Key(pin) if mode == ServerTls::Preferred => Trust::pinned(pin),
        _ => Trust::new(mode, authorities.as_deref()).map(|trust| trust.config),
    };
    let config = config.map_err(Trouble::Trust)?;
    let name = ServerName::try_from(to.host.clone())
        .map_err(|error| Trouble::Io(std::io::Error::other(error)))?;
    server.write(|out| request.encode(out)).await?;
    let plain = std::mem::replace(&mut server.stream, Box::new(tokio::io::empty()));
    let stream = TlsConnector::from(config).connect(name, plain).await;
    let stream = stream.map_err(Trouble::Tls)?;
    let chain = stream.get_ref().1.peer_certificates();
    let key = chain.and_then(|chain| key_of(chain.first()?));
    server.stream = Box::new(stream);
    Ok(key)
}

/// A socket that has a name but stands in no directory.
fn listen() -> std::io::Result<(UnixListener, String)> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let mut last = std::io::Error::other("no name for a socket");
    for _ in 0..NAMES_MAX {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("heddle-{}-{number}", std::process::id());
        match UnixListener::bind(format!("\0{name}")) {
            Ok(listener) => return Ok((listener, name)),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Carries bytes until there are no more.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut rewriter: Option<Rewriter>,
) {
    let mut buffer = vec![0; CARRIED_BYTES];
    while let Ok(bytes) = from.read(&mut buffer).await {
        if let Some(rewriter) = &mut rewriter {
            rewriter.take(&mut buffer[..bytes]);
        }
        let sent = async {
            to.write_all(&buffer[..bytes]).await?;
            to.flush().await
        };
        if bytes == 0 || sent.await.is_err() {
            break;
        }
    }
    // The other side may be gone already.
    let _ = to.shutdown().await;
}

impl End {
    fn new(stream: impl Stream + 'static) -> End {
        End {
            stream: Box::new(stream),
            sequence: 0,
        }
    }

    /// The payload of the next packet.
    async fn read(&mut self) -> Result<Vec<u8>, Trouble> {
        let mut header = [0; HEADER_BYTES];
        self.stream.read_exact(&mut header).await?;
        let Some(header) = Header::parse(&header).filter(|it| it.payload_bytes <= LOGIN_BYTES_MAX)
        else {
            let what = "a login packet";
            return Err(Malformed { what }.into());
        };
        let mut payload = vec![0; header.payload_bytes];
        self.stream.read_exact(&mut payload).await?;
        self.sequence = header.sequence.wrapping_add(1);
        Ok(payload)
    }

    async fn write(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<(), Trouble> {
        let mut out = zeroize::Zeroizing::new(Vec::with_capacity(512));
        packet::write_with(&mut out, &mut self.sequence, encode);
        self.stream.write_all(&out).await?;
        self.stream.flush().await?;
        Ok(())
    }

    /// Ends the other side's login with an error of Heddle's own.
    async fn refuse(&mut self, number: u16, message: &str) -> Result<(), Trouble> {
        let error = ErrPacket::new(number, message.as_bytes());
        self.write(|out| error.encode(out, Capabilities::PROTOCOL_41))
            .await
    }
}

impl Trouble {
    fn told(self, to: &Login) -> Error {
        let server = format!("{}:{}", to.host, to.port);
        let nobody_listens = matches!(
            &self,
            Trouble::Io(error) if error.kind() == std::io::ErrorKind::ConnectionRefused
        );
        let (reason, cure) = match self {
            Trouble::Tls(error) if is_other_key(&error) => {
                return Error::Certificate {
                    server,
                    reason: error.to_string(),
                };
            }
            Trouble::Plain if is_pinned(to) => {
                return Error::Certificate {
                    server,
                    reason: "it offers no TLS any more".to_owned(),
                };
            }
            Trouble::Plain => (
                "it offers no TLS, which tls_servers demands".to_owned(),
                "give the server a certificate",
            ),
            Trouble::Io(error) => (error.to_string(), crate::error::cure_of_io(error.kind())),
            Trouble::Tls(error) => (
                format!("TLS: {error}"),
                "see the server's certificate, and tls_servers",
            ),
            Trouble::Malformed(error) => (
                error.to_string(),
                "check that a MySQL or MariaDB server listens there",
            ),
            Trouble::Trust(error) => (error.to_string(), "see tls_servers_ca"),
        };
        Error::Connect {
            server,
            reason,
            cure,
            nobody_listens,
        }
    }
}

/// Shows the key of whoever answers at an address, without a login. None where there is no TLS.
pub async fn key_at(to: &Login, timeout_ms: u64) -> Result<Option<Fingerprint>, Error> {
    let looking = async {
        let addresses = crate::link::resolve(to).await?;
        let looked = async {
            let (mut server, greeting) = greeted(&addresses).await?;
            if reply::is_err(&greeting) {
                return Ok(None);
            }
            let said = Greeting::decode(&greeting)?;
            if !said.capabilities.contains(Capabilities::SSL) {
                return Ok(None);
            }
            let anybody = Login {
                known: Known::Nothing,
                tls: LinkTls::Preferred,
                ..to.clone()
            };
            let wanted = Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::PLUGIN_AUTH;
            let request = TlsRequest {
                capabilities: wanted & said.capabilities | Capabilities::SSL,
                packet_bytes_max: 1 << 30,
                collation: said.collation,
            };
            secure(&mut server, &anybody, request).await
        };
        looked.await.map_err(|trouble: Trouble| trouble.told(to))
    };
    let limit = std::time::Duration::from_millis(timeout_ms);
    let looked = tokio::time::timeout(limit, looking).await;
    looked.unwrap_or_else(|_| Err(Error::silent(to, timeout_ms)))
}
