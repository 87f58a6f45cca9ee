//! One request to a router's HTTP door, plain or inside TLS: the command line's, and other routers'.

use std::io;
use std::sync::Arc;

use axum::BoxError;
use axum::body::Bytes;
use axum::http::Request;
use axum::http::request::Builder;
use axum::http::response::Parts;
use channel::ServerName;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

/// Longest answer that is read; one row for each client of a full router is shorter.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Where a router's HTTP door is.
#[derive(Clone, Debug)]
pub struct Place {
    /// `HOST:PORT`.
    address: String,
    /// It is asked inside TLS.
    pub is_secure: bool,
}

impl Place {
    /// Reads `HOST:PORT`, `http://HOST:PORT` or `https://HOST:PORT`.
    pub fn of(url: &str) -> Place {
        let (is_secure, rest) = match url.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => (false, url),
        };
        Place {
            address: rest.trim_end_matches('/').to_owned(),
            is_secure,
        }
    }

    /// Posts JSON, and gives the status and body of the answer. Inside TLS the router must satisfy `trust`.
    ///
    /// # Errors
    /// It cannot be reached, is not whom `trust` knows, or answers no HTTP.
    pub async fn post(
        &self,
        path: &str,
        headers: &[(&str, String)],
        body: Vec<u8>,
        trust: Option<Arc<ClientConfig>>,
    ) -> io::Result<(u16, Bytes)> {
        let answer = self.post_as("application/json", path, headers, body, trust);
        let (head, body) = answer.await?;
        Ok((head.status.as_u16(), body))
    }

    /// The same with a body of another type; gives the whole head of the answer.
    ///
    /// # Errors
    /// As above.
    pub async fn post_as(
        &self,
        content_type: &str,
        path: &str,
        headers: &[(&str, String)],
        body: Vec<u8>,
        trust: Option<Arc<ClientConfig>>,
    ) -> io::Result<(Parts, Bytes)> {
        let body = Full::new(Bytes::from(body));
        let request = Request::post(path).header(CONTENT_TYPE, content_type);
        self.send(request, headers, body, trust).await
    }

    /// Gets what is at a path.
    ///
    /// # Errors
    /// As above.
    pub async fn get(
        &self,
        path: &str,
        headers: &[(&str, String)],
        trust: Option<Arc<ClientConfig>>,
    ) -> io::Result<(u16, Bytes)> {
        let answer = self.send(Request::get(path), headers, Full::default(), trust);
        let (head, body) = answer.await?;
        Ok((head.status.as_u16(), body))
    }

    async fn send(
        &self,
        request: Builder,
        headers: &[(&str, String)],
        body: Full<Bytes>,
        trust: Option<Arc<ClientConfig>>,
    ) -> io::Result<(Parts, Bytes)> {
        let invalid = |error: BoxError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let mut request = request.header(HOST, &self.address);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(body).map_err(|error| invalid(error.into()))?;
        let stream = TcpStream::connect(&self.address).await?;
        let answer = match (self.is_secure, trust) {
            (false, _) => exchange(stream, request).await,
            (true, None) => return Err(invalid("nothing to know the router by".into())),
            (true, Some(trust)) => {
                let name = self.name().map_err(|error| invalid(error.into()))?;
                let stream = TlsConnector::from(trust).connect(name, stream).await?;
                exchange(stream, request).await
            }
        };
        answer.map_err(io::Error::other)
    }

    /// Asks for an answer that does not end. Inside TLS the router must satisfy `trust`.
    ///
    /// # Errors
    /// It cannot be reached, is not whom `trust` knows, or answers no HTTP.
    pub async fn stream(
        &self,
        path: &str,
        headers: &[(&str, String)],
        trust: Option<Arc<ClientConfig>>,
    ) -> io::Result<Streaming> {
        let invalid = |error: BoxError| io::Error::new(io::ErrorKind::InvalidInput, error);
        let mut request = Request::get(path).header(HOST, &self.address);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(Bytes::new()));
        let request = request.map_err(|error| invalid(error.into()))?;
        let stream = TcpStream::connect(&self.address).await?;
        let begun = match (self.is_secure, trust) {
            (false, _) => begin(stream, request).await,
            (true, None) => return Err(invalid("nothing to know the router by".into())),
            (true, Some(trust)) => {
                let name = self.name().map_err(|error| invalid(error.into()))?;
                let stream = TlsConnector::from(trust).connect(name, stream).await?;
                begin(stream, request).await
            }
        };
        begun.map_err(io::Error::other)
    }

    /// The name that the router's certificate must have.
    fn name(&self) -> Result<ServerName<'static>, impl std::error::Error + Send + Sync + use<>> {
        let host = self
            .address
            .rsplit_once(':')
            .map_or(&*self.address, |it| it.0);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        ServerName::try_from(host.to_owned())
    }
}

/// An answer that goes on. Dropped, it ends the connection.
pub struct Streaming {
    pub status: u16,
    body: Incoming,
    /// What moves the bytes.
    _connection: JoinSet<()>,
}

impl Streaming {
    /// The next bytes; `None` at the end.
    ///
    /// # Errors
    /// The connection broke.
    pub async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while let Some(frame) = self.body.frame().await {
            let frame = frame.map_err(io::Error::other)?;
            if let Ok(bytes) = frame.into_data() {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

async fn begin<S>(stream: S, request: Request<Full<Bytes>>) -> Result<Streaming, BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let mut moving = JoinSet::new();
    // How it ended is seen by who reads the body.
    moving.spawn(async move { drop(connection.await) });
    let (head, body) = sender.send_request(request).await?.into_parts();
    Ok(Streaming {
        status: head.status.as_u16(),
        body,
        _connection: moving,
    })
}

/// One request over this connection, and its whole answer.
pub(crate) async fn exchange<S>(
    stream: S,
    request: Request<Full<Bytes>>,
) -> Result<(Parts, Bytes), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    let answer = async {
        let response = sender.send_request(request).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX);
        Ok((head, body.collect().await?.to_bytes()))
    };
    // The connection moves the bytes; its own end is no news once there is an answer.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_with_and_without_a_scheme() {
        let read = |url: &str| {
            let place = Place::of(url);
            (place.address, place.is_secure)
        };
        let address = || "10.0.0.1:6080".to_owned();
        assert_eq!(read("10.0.0.1:6080"), (address(), false));
        assert_eq!(read("http://10.0.0.1:6080/"), (address(), false));
        assert_eq!(read("https://10.0.0.1:6080"), (address(), true));
        let name = |url: &str| Place::of(url).name().map(|name| name.to_str().into_owned());
        assert_eq!(name("https://[::1]:6080").ok().as_deref(), Some("::1"));
        assert_eq!(
            name("https://db.example:6080").ok().as_deref(),
            Some("db.example")
        );
        assert!(name("https://no host:1").is_err());
    }
}
