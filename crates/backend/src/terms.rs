//! On what terms servers are met: TLS, compression.

use std::io;
use std::net::SocketAddr;

use channel::{Algorithm, ServerTls, Trust};
use mysql_wire::capability::Capabilities;

use crate::connection::ConnectionError;

/// What every connection to a server is to have.
#[derive(Clone, Debug)]
pub struct Terms {
    pub trust: Trust,
    /// Used with servers that can do it.
    pub compress: Option<Algorithm>,
}

impl Terms {
    /// Neither TLS nor compression.
    pub fn plain() -> Terms {
        let trust = Trust::new(ServerTls::Disabled, None);
        Terms {
            trust: trust.expect("without authorities nothing can be wrong with them"),
            compress: None,
        }
    }

    /// The flags to ask this server for; `mode` may ask for less than the trust's own.
    pub(crate) fn layers(
        &self,
        mode: ServerTls,
        server: Option<SocketAddr>,
        offered: Capabilities,
    ) -> Result<Capabilities, ConnectionError> {
        let mut layers = match self.compress {
            None => Capabilities::empty(),
            Some(Algorithm::Zlib) => Capabilities::COMPRESS,
            Some(Algorithm::Zstd(_)) => Capabilities::ZSTD_COMPRESSION,
        };
        layers &= offered;
        let ip = server.map(|address| address.ip());
        let tls = self
            .trust
            .wants(mode, ip, offered.contains(Capabilities::SSL));
        let lacking = |what| ConnectionError::Tls {
            source: io::Error::other(what),
        };
        layers.set(Capabilities::SSL, tls.map_err(lacking)?);
        Ok(layers)
    }

    /// What a connection with these flags is compressed by.
    pub(crate) fn compression(&self, agreed: Capabilities) -> Option<Algorithm> {
        let any = Capabilities::COMPRESS | Capabilities::ZSTD_COMPRESSION;
        self.compress.filter(|_| agreed.intersects(any))
    }
}
