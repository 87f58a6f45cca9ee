//! Taking connections and serving each in a task of its own, until that is not wished any more.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::{HOST, HeaderValue};
use axum::http::{Request, Response, Version};
use control::peers::TLS_NAME;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use proxy_wire::Origin;
use routing::rules::Network;
use rustls::ServerConfig;
use rustls::server::Acceptor;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_rustls::LazyConfigAcceptor;
use tokio_rustls::server::TlsStream;

use crate::census::{Admission, Census, Full, Limits};
use crate::connection::{Arriving, Connection, Connections, Leaving, Patience, Seat, lock};
use crate::counted::Counted;

/// How long running requests may take after the shutdown began.
const DRAIN: Duration = Duration::from_secs(3);

/// The process is out of file descriptors: so long until it is tried again.
const PAUSE: Duration = Duration::from_millis(100);

/// Longest head of a request.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// What clients inside TLS ask for by this name.
const HTTP2: &[u8] = b"h2";

/// Requests of one connection at the same time.
const REQUESTS_MAX: u32 = 100;

/// The first byte of TLS; no method of HTTP begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// The alert `unrecognized_name`, for TLS that is not offered.
const NO_SUCH_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Of one whose handshake failed so much more is read, so that the end of the connection does not overtake
/// what it was told.
const HEARD_OUT_BYTES_MAX: u64 = 64 << 10;

const PROXY_CURE: &str =
    "name the load balancer's network in proxy_protocol_networks, or have it send no PROXY header";

/// Who has a certificate to be shown to clients inside TLS.
pub trait Certificate: Send + Sync {
    /// What a client that connects now is shown; `None` where TLS is not offered.
    fn now(&self) -> Option<Arc<ServerConfig>>;
}

/// Whether clients of other machines must use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    Welcome,
    Required,
}

/// Put into requests that came over a network as plain text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InClear;

/// Put into requests of other routers of the farm: their end showed a certificate that the farm's authority
/// signed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FromPeer;

/// By which way a connection's requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Nobody else could read or write them.
    Closed,
    InClear,
    Peer,
}

/// What is shown inside TLS.
#[derive(Clone)]
pub(crate) struct Certificates {
    /// To clients, where TLS is offered to them.
    pub(crate) clients: Option<Arc<dyn Certificate>>,
    /// To those who ask for [`TLS_NAME`], and whom it takes.
    pub(crate) peers: Arc<dyn Certificate>,
}

/// What all connections share.
#[derive(Clone)]
pub(crate) struct Served {
    router: Router,
    certificates: Certificates,
    connections: Arc<Connections>,
    counted: Arc<Counted>,
    patience: Patience,
    balancers: Arc<[Network]>,
}

impl Served {
    /// These paths, with these limits.
    pub(crate) fn new(
        router: Router,
        certificates: Certificates,
        counted: Arc<Counted>,
        limits: Limits,
        patience: Patience,
    ) -> Served {
        Served {
            router,
            certificates,
            connections: Arc::new(Mutex::new(Census::new(limits))),
            counted,
            patience,
            balancers: Arc::default(),
        }
    }

    /// The same behind load balancers of these networks.
    pub(crate) fn behind(self, balancers: Vec<Network>) -> Served {
        Served {
            balancers: balancers.into(),
            ..self
        }
    }

    fn is_balancer(&self, peer: IpAddr) -> bool {
        self.balancers.iter().any(|network| network.contains(peer))
    }

    /// Takes connections until `over` says true, then gives running requests a few seconds to end.
    pub(crate) async fn serve(&self, listener: TcpListener, over: watch::Receiver<bool>) {
        let mut ending = over.clone();
        let mut tasks = JoinSet::new();
        loop {
            tokio::select! {
                () = is_over(&mut ending) => break,
                Some(_) = tasks.join_next() => {}
                (stream, client) = next_client(&listener) => {
                    self.take(stream, client, &mut tasks, &over);
                }
            }
        }
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN, ended).await.is_err() {
            tracing::warn!("HTTP requests did not end in time and were cut");
        }
    }

    /// Gives a client a place, or tells it that there is none.
    fn take(
        &self,
        stream: TcpStream,
        client: SocketAddr,
        tasks: &mut JoinSet<()>,
        over: &watch::Receiver<bool>,
    ) {
        // Answers are written whole; nothing is to wait for a second packet.
        let _ = stream.set_nodelay(true);
        let end = Arc::new(Notify::new());
        let mut census = lock(&self.connections);
        // Whose client it is, a load balancer has still to say.
        let known = (!self.is_balancer(client.ip())).then(|| client.ip().to_canonical());
        let admission = census.admit(known, Arc::clone(&end));
        self.counted.connections(census.len());
        drop(census);
        let id = match admission {
            Admission::Welcome(id) => id,
            Admission::InPlaceOf(other, id) => {
                self.counted.displaced();
                other.notify_one();
                id
            }
            Admission::Refused(full) => {
                self.counted.refused(full);
                return refuse(&stream, full);
            }
        };
        let seat = Seat::new(id, &self.connections, &self.counted);
        let served = self.clone();
        let over = over.clone();
        tasks.spawn(async move {
            tokio::select! {
                () = end.notified() => {}
                () = served.attend(stream, seat, over) => {}
            }
        });
    }

    /// One connection's life.
    async fn attend(self, stream: TcpStream, seat: Seat, mut over: watch::Receiver<bool>) {
        let Ok((peer, own)) = ends(&stream) else {
            return;
        };
        let connection = Connection::new(stream, seat.clone(), self.patience);
        let entering = async {
            let (connection, client) = self.introduced(connection, peer, &seat).await?;
            // What comes through a load balancer has come to it over a network, unless both are here.
            let is_here = stays_here(peer.ip(), own.ip()) && stays_here(client, own.ip());
            let plain = match is_here {
                true => Way::Closed,
                false => Way::InClear,
            };
            Ok::<_, io::Error>((self.enter(connection).await?, plain))
        };
        let entered = tokio::select! {
            entered = entering => entered,
            () = is_over(&mut over) => return,
        };
        // An error is the client's: it left, was too slow, or does not take the certificate.
        let Ok((entered, plain)) = entered else {
            return;
        };
        match entered {
            Entered::Plain(mut stream) => match stream.begins_http2().await {
                Ok(true) => {
                    stream.share();
                    self.converse_at_once(stream, seat, over, plain).await;
                }
                Ok(false) => self.converse(stream, seat, over, plain).await,
                // It left, or was too slow.
                Err(_) => {}
            },
            Entered::Secure(mut stream, way) => {
                let (connection, tls) = stream.get_mut();
                match tls.alpn_protocol() == Some(HTTP2) {
                    true => {
                        connection.share();
                        self.converse_at_once(*stream, seat, over, way).await;
                    }
                    false => self.converse(*stream, seat, over, way).await,
                }
            }
        }
    }

    /// Takes what a load balancer says of its client. The connection counts for that address from now on.
    async fn introduced(
        &self,
        mut connection: Connection,
        peer: SocketAddr,
        seat: &Seat,
    ) -> io::Result<(Connection, IpAddr)> {
        let trusted = self.is_balancer(peer.ip());
        let client = match connection.preface(trusted).await? {
            Ok(None) => peer.ip(),
            Ok(Some(origin)) => {
                self.counted.proxy_header(false);
                match origin {
                    Origin::Own => peer.ip(),
                    Origin::Client(client) => client.ip(),
                }
            }
            Err(unfit) => {
                self.counted.proxy_header(true);
                tracing::warn!(peer = %peer, "an HTTP client is refused: {unfit}; {PROXY_CURE}");
                let refused = unfit.to_string();
                answer(connection.stream(), "400 Bad Request", &refused, PROXY_CURE);
                return Err(io::ErrorKind::InvalidData.into());
            }
        };
        let client = client.to_canonical();
        if trusted && let Err(full) = seat.is_at(client) {
            self.counted.refused(full);
            refuse(connection.stream(), full);
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        Ok((connection, client))
    }

    /// Takes the server's part in a handshake, where the client begins one.
    async fn enter(&self, connection: Connection) -> io::Result<Entered> {
        if connection.first_byte().await? != TLS_HANDSHAKE {
            return Ok(Entered::Plain(connection));
        }
        let mut begun = LazyConfigAcceptor::new(Acceptor::default(), connection).await?;
        let (way, offered) = match begun.client_hello().server_name() == Some(TLS_NAME) {
            true => (Way::Peer, self.certificates.peers.now()),
            false => {
                let clients = self.certificates.clients.as_ref();
                (Way::Closed, clients.and_then(|it| it.now()).map(with_http2))
            }
        };
        let Some(offered) = offered else {
            begun.io.write_all(&NO_SUCH_NAME).await?;
            hear_out(begun.io).await;
            return Err(io::ErrorKind::ConnectionAborted.into());
        };
        match begun.into_stream(offered).into_fallible().await {
            Ok(stream) => Ok(Entered::Secure(Box::new(stream), way)),
            Err((error, connection)) => {
                if way == Way::Peer {
                    self.counted.peer_refused();
                    tracing::debug!(%error, "no router of this farm");
                }
                hear_out(connection).await;
                Err(error)
            }
        }
    }

    /// Requests and answers, one after the other.
    async fn converse<S>(&self, stream: S, seat: Seat, over: watch::Receiver<bool>, way: Way)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let serving = http1::Builder::new()
            .timer(TokioTimer::new())
            // The stream has deadlines of its own.
            .header_read_timeout(None)
            .max_buf_size(HEAD_BYTES_MAX)
            .serve_connection(
                TokioIo::new(stream),
                service(self.router.clone(), self.patience.body, seat.clone(), way),
            );
        carry(serving, |it| it.graceful_shutdown(), seat, over).await;
    }

    /// The same with HTTP/2, several at the same time.
    async fn converse_at_once<S>(
        &self,
        stream: S,
        seat: Seat,
        over: watch::Receiver<bool>,
        way: Way,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let serving = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(REQUESTS_MAX)
            .max_header_list_size(u32::try_from(HEAD_BYTES_MAX).unwrap_or(u32::MAX))
            // A client that takes nothing of an answer may still be there.
            .keep_alive_interval(self.patience.write)
            .keep_alive_timeout(self.patience.write)
            .serve_connection(
                TokioIo::new(stream),
                service(self.router.clone(), self.patience.body, seat.clone(), way),
            );
        carry(serving, |it| it.graceful_shutdown(), seat, over).await;
    }
}

/// What answers the requests of a connection.
fn service(
    router: Router,
    body_limit: Duration,
    of_service: Seat,
    way: Way,
) -> impl Service<
    Request<Incoming>,
    Response = Response<Leaving>,
    Error = Infallible,
    Future = impl Future<Output = Result<Response<Leaving>, Infallible>> + Send + 'static,
> {
    let router = TowerToHyperService::new(router);
    service_fn(move |request: Request<Incoming>| {
        let seat = of_service.clone();
        seat.begins();
        let arriving = |body| Body::new(Arriving::new(body, seat.clone(), body_limit));
        let mut request = request.map(arriving);
        name_host(&mut request);
        match way {
            Way::Closed => {}
            Way::InClear => drop(request.extensions_mut().insert(InClear)),
            Way::Peer => drop(request.extensions_mut().insert(FromPeer)),
        }
        let answer = router.call(request);
        async move {
            let answer = answer.await?;
            Ok(answer.map(|body| Leaving::new(body, seat)))
        }
    })
}

/// HTTP/2 has the host in the address; everything here looks for the header.
fn name_host(request: &mut Request<Body>) {
    let authority = request.uri().authority().map(|it| it.as_str().to_owned());
    if request.version() == Version::HTTP_2
        && !request.headers().contains_key(HOST)
        && let Some(Ok(host)) = authority.map(HeaderValue::try_from)
    {
        request.headers_mut().insert(HOST, host);
    }
}

/// Serves a connection until it ends, or until no more clients are wished: then what is asked is answered.
async fn carry<C: Future>(
    serving: C,
    end: impl FnOnce(Pin<&mut C>),
    seat: Seat,
    mut over: watch::Receiver<bool>,
) {
    tokio::pin!(serving);
    // An error is the client's: it left, sent what is no HTTP, or was too slow.
    loop {
        tokio::select! {
            _ = serving.as_mut() => return,
            () = is_over(&mut over) => break,
            () = seat.rests() => {}
        }
    }
    if !seat.is_asking() {
        end(serving.as_mut());
        let _ = serving.await;
    }
}

/// The same for clients that speak HTTP/2, too. Other doors show the same certificate, and do not.
fn with_http2(config: Arc<ServerConfig>) -> Arc<ServerConfig> {
    let mut config = (*config).clone();
    config.alpn_protocols = vec![HTTP2.to_vec(), b"http/1.1".to_vec()];
    Arc::new(config)
}

/// A connection whose first bytes have been looked at.
enum Entered {
    Plain(Connection),
    Secure(Box<TlsStream<Connection>>, Way),
}

/// Lets one who was refused read why: a connection that ends with unread bytes takes with it what was sent.
async fn hear_out(mut connection: Connection) {
    // An error is the client's, which has gone.
    if connection.shutdown().await.is_ok() {
        let mut rest = connection.take(HEARD_OUT_BYTES_MAX);
        let _ = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    }
}

/// Where both ends are; an error says that the client has gone.
fn ends(stream: &TcpStream) -> io::Result<(SocketAddr, SocketAddr)> {
    Ok((stream.peer_addr()?, stream.local_addr()?))
}

/// Whether a client at this address is on the machine that has the other one.
fn stays_here(client: IpAddr, own: IpAddr) -> bool {
    let (client, own) = (client.to_canonical(), own.to_canonical());
    client.is_loopback() || client == own
}

/// Waits until no more clients are wished.
async fn is_over(over: &mut watch::Receiver<bool>) {
    // An error means that the door is gone: the end as well.
    let _ = over.wait_for(|&over| over).await;
}

/// The next connection. May be dropped at any time.
async fn next_client(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    loop {
        match listener.accept().await {
            Ok(client) => return client,
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::warn!("an HTTP client cannot be taken: {error}; raise LimitNOFILE");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The client was gone before it was taken.
fn is_of_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
    )
}

/// Tells a client why it is not served, if it takes that at once.
fn refuse(stream: &TcpStream, full: Full) {
    let (error, cure) = match full {
        Full::Address => (
            "all HTTP connections of this address are at work",
            "wait for their answers, or raise http_address_connections_max",
        ),
        Full::Door => (
            "all HTTP connections of this router are at work",
            "try again, or raise http_connections_max",
        ),
    };
    answer(stream, "503 Service Unavailable", error, cure);
}

/// A last word, if the client takes it at once.
fn answer(stream: &TcpStream, status: &str, error: &str, cure: &str) {
    let again = match status.starts_with("503") {
        true => "Retry-After: 1\r\n",
        false => "",
    };
    let body = json!({ "error": error, "cure": cure }).to_string();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         {again}Connection: close\r\n\r\n{body}",
        body.len()
    );
    // A new connection has room for it, unless the client has gone.
    let _ = stream.try_write(answer.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_on_this_machine_crosses_no_wire() {
        let here = |client: &str, own: &str| {
            let [client, own] = [client, own].map(|text| text.parse().expect("an address"));
            stays_here(client, own)
        };
        assert!(here("127.0.0.1", "127.0.0.1") && here("::1", "::1"));
        assert!(here("10.0.0.1", "10.0.0.1") && here("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(here("::ffff:127.0.0.1", "::ffff:127.0.0.1"));
        assert!(!here("10.0.0.2", "10.0.0.1") && !here("::ffff:10.0.0.2", "10.0.0.1"));
    }
}
