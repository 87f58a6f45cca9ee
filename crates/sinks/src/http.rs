//! A connection to a server of HTTP/1.1 that is kept between requests.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderMap};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use crate::undelivered::{Undelivered, later};

/// A request takes no longer, from the connection to the end of the answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is read of an answer, for people.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// `http://HOST[:PORT]/PATH` or `https://HOST[:PORT]/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    pub is_secure: bool,
    pub host: String,
    pub port: u16,
    /// With the query.
    pub path: String,
}

impl Url {
    /// Reads a URL without user and password.
    ///
    /// # Errors
    /// It is none; the text says why.
    pub fn parse(text: &str) -> Result<Url, String> {
        let (is_secure, rest) = match text.split_once("://") {
            Some(("https", rest)) => (true, rest),
            Some(("http", rest)) => (false, rest),
            _ => return Err("it begins with neither http:// nor https://".to_owned()),
        };
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if authority.contains('@') {
            return Err("a user and a password do not belong into it".to_owned());
        }
        if text.bytes().any(|byte| !(0x21..0x7F).contains(&byte)) || text.contains('#') {
            return Err("there are characters in it that URLs do not have".to_owned());
        }
        let default = if is_secure { 443 } else { 80 };
        let (host, port) = match authority.rsplit_once(':') {
            // The colons of an address of IPv6.
            Some((_, port)) if port.ends_with(']') => (authority, default),
            Some((host, port)) => {
                let port = port.parse().map_err(|_| "its port is no number")?;
                (host, port)
            }
            None => (authority, default),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("it names no host".to_owned());
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Ok(Url {
            is_secure,
            host: host.to_owned(),
            port,
            path: format!("{slash}{path}"),
        })
    }

    fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

/// What came back.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    /// The pause that the server asks for.
    pub fn retry_after(&self) -> Option<Duration> {
        let value = self.headers.get("retry-after")?.to_str().ok()?;
        value.trim().parse().ok().map(Duration::from_secs)
    }
}

/// The files of a certificate that a server is shown.
#[derive(Clone, Copy)]
pub(crate) struct Shown<'a> {
    pub(crate) certificate: &'a str,
    pub(crate) key: &'a str,
}

/// By what a server inside TLS is known: the certificates of this file, or those of the Web without one.
///
/// # Errors
/// The file cannot be read, or something in it is no certificate.
pub fn trust(ca: &str) -> Result<Arc<ClientConfig>, Undelivered> {
    trust_showing(ca, None)
}

/// The same, for a server that wants to see a certificate.
pub(crate) fn trust_showing(
    ca: &str,
    shown: Option<Shown<'_>>,
) -> Result<Arc<ClientConfig>, Undelivered> {
    let mut roots = RootCertStore::empty();
    if ca.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    } else {
        for certificate in certificates(ca)? {
            let added = roots.add(certificate);
            added.map_err(|error| later(format!("{ca}: {error}")))?;
        }
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| later(error.to_string()))?
        .with_root_certificates(roots);
    Ok(Arc::new(match shown {
        None => config.with_no_client_auth(),
        Some(Shown { certificate, key }) => {
            let failed = |error: String| later(format!("{key}: {error}"));
            let read = PrivateKeyDer::from_pem_file(Path::new(key));
            let read = read.map_err(|error| failed(error.to_string()))?;
            let config = config.with_client_auth_cert(certificates(certificate)?, read);
            config.map_err(|error| failed(error.to_string()))?
        }
    }))
}

/// The certificates of a file.
fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, Undelivered> {
    let unread = |error: String| later(format!("{file}: {error}"));
    let found = CertificateDer::pem_file_iter(Path::new(file));
    let found = found.map_err(|error| unread(error.to_string()))?;
    let all: Result<Vec<_>, _> = found.collect();
    all.map_err(|error| unread(error.to_string()))
}

/// Posts to one place.
pub struct Poster {
    url: Url,
    trust: Option<Arc<ClientConfig>>,
    kept: Option<Kept>,
}

struct Kept {
    sender: SendRequest<Full<Bytes>>,
    /// What moves the bytes.
    _connection: JoinSet<()>,
}

impl Poster {
    /// Posts to this place; inside TLS it has to satisfy `trust`.
    pub fn new(url: Url, trust: Option<Arc<ClientConfig>>) -> Poster {
        Poster {
            url,
            trust,
            kept: None,
        }
    }

    /// One request and its answer, within half a minute. A connection that was kept is made anew where it has been closed.
    ///
    /// # Errors
    /// There was no answer, or none in time.
    pub async fn post(
        &mut self,
        headers: &[(&str, String)],
        body: impl Into<Bytes>,
    ) -> Result<Answer, Undelivered> {
        let body = body.into();
        let kept = self.kept.take();
        let exchange = self.exchange(kept, headers, body);
        let answered = tokio::time::timeout(PATIENCE, exchange).await;
        let place = self.url.authority();
        let (answer, kept) = match answered {
            Ok(Ok(done)) => done,
            Ok(Err(error)) => return Err(later(format!("{place}: {error}"))),
            Err(_) => {
                let seconds = PATIENCE.as_secs();
                return Err(later(format!("{place} did not answer in {seconds} s")));
            }
        };
        self.kept = Some(kept);
        Ok(answer)
    }

    async fn exchange(
        &self,
        kept: Option<Kept>,
        headers: &[(&str, String)],
        body: Bytes,
    ) -> io::Result<(Answer, Kept)> {
        let (mut kept, is_new) = match kept {
            Some(kept) => (kept, false),
            None => (self.connect().await?, true),
        };
        let request = self.request(headers, &body)?;
        let mut answer = kept.sender.send_request(request).await;
        // The server may have closed what was kept for long.
        if answer.is_err() && !is_new {
            kept = self.connect().await?;
            let request = self.request(headers, &body)?;
            answer = kept.sender.send_request(request).await;
        }
        let (head, body) = answer.map_err(io::Error::other)?.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
        let answer = Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            // What the answer says besides its status is of no consequence.
            body: body.map(|it| it.to_bytes()).unwrap_or_default(),
        };
        Ok((answer, kept))
    }

    fn request(
        &self,
        headers: &[(&str, String)],
        body: &Bytes,
    ) -> io::Result<Request<Full<Bytes>>> {
        let host = match (self.url.is_secure, self.url.port) {
            (true, 443) | (false, 80) => self.url.host.clone(),
            _ => self.url.authority(),
        };
        let mut request = Request::post(&self.url.path).header(HOST, host);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body.clone()));
        request.map_err(io::Error::other)
    }

    async fn connect(&self) -> io::Result<Kept> {
        let stream = TcpStream::connect((&*self.url.host, self.url.port)).await?;
        stream.set_nodelay(true)?;
        match &self.trust {
            Some(trust) if self.url.is_secure => {
                let name = ServerName::try_from(self.url.host.clone()).map_err(io::Error::other)?;
                let connector = TlsConnector::from(Arc::clone(trust));
                begin(connector.connect(name, stream).await?).await
            }
            _ => begin(stream).await,
        }
    }
}

async fn begin<S>(stream: S) -> io::Result<Kept>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let begun = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = begun.map_err(io::Error::other)?;
    let mut moving = JoinSet::new();
    // How it ended is seen by the next request.
    moving.spawn(async move { drop(connection.await) });
    Ok(Kept {
        sender,
        _connection: moving,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read() {
        let read = |text: &str| Url::parse(text).map(|it| (it.authority(), it.path));
        let of = |authority: &str, path: &str| Ok((authority.to_owned(), path.to_owned()));
        assert_eq!(
            read("https://h.example/a?b=c"),
            of("h.example:443", "/a?b=c")
        );
        assert_eq!(read("http://h:8080"), of("h:8080", "/"));
        assert_eq!(read("http://[::1]:8080?x"), of("[::1]:8080", "/?x"));
        assert_eq!(read("http://[::1]/"), of("[::1]:80", "/"));
        for wrong in [
            "h/a",
            "http://",
            "http://h:x/",
            "http://u@h/",
            "http://h/ a",
            "http://h/#a",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
    }
}
