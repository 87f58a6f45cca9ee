//! A connection to a broker, in clear or inside TLS.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::http::{Shown, trust_showing};
use crate::spec::Spec;
use crate::undelivered::Undelivered;

/// What bytes come from and go to.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin> Bytes for T {}

/// A connection.
pub(crate) type Stream = Box<dyn Bytes>;

/// By what a broker inside TLS is known, and what it is shown; `None` for one that is spoken to in clear. The files are
/// read now.
pub(crate) fn trust_of(spec: &Spec) -> Result<Option<Arc<ClientConfig>>, Undelivered> {
    if !spec.tls {
        return Ok(None);
    }
    let shown = (!spec.certificate.is_empty()).then_some(Shown {
        certificate: &spec.certificate,
        key: &spec.key,
    });
    trust_showing(&spec.ca, shown).map(Some)
}

/// A connection to `HOST:PORT` in clear.
pub(crate) async fn connect(address: &str) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// The connection inside TLS, to the server that is known as the host of this address.
pub(crate) async fn secure<S: Bytes + 'static>(
    stream: S,
    address: &str,
    trust: &Arc<ClientConfig>,
) -> io::Result<Stream> {
    let name = ServerName::try_from(host(address).to_owned()).map_err(io::Error::other)?;
    let connector = TlsConnector::from(Arc::clone(trust));
    Ok(Box::new(connector.connect(name, stream).await?))
}

/// The host of `HOST:PORT`, without the brackets of IPv6.
fn host(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_stands_in_front_of_the_port() {
        assert_eq!(host("h.example:1"), "h.example");
        assert_eq!(host("[::1]:9092"), "::1");
    }
}
