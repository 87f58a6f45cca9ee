//! On what terms servers are met: TLS, compression.

use std::io;
use std::net::{IpAddr, SocketAddr};

use channel::{Algorithm, ServerTls, Trust};
use farm::ServerKey;
use mysql_wire::capability::Capabilities;
use proxy_wire::Version;

use crate::connection::ConnectionError;

/// What every connection to a server is to have.
#[derive(Clone, Debug)]
pub struct Terms {
    pub trust: Trust,
    /// Used with servers that can do it.
    pub compress: Option<Algorithm>,
    /// Connections for a client say by the PROXY protocol where it is.
    pub proxy: Option<Version>,
    /// Servers on this machine are reached by their Unix sockets, where these are theirs beyond doubt.
    pub sockets: bool,
}

impl Terms {
    /// Neither TLS nor compression.
    pub fn plain() -> Terms {
        let trust = Trust::new(ServerTls::Disabled, None);
        Terms {
            trust: trust.expect("without authorities nothing can be wrong with them"),
            compress: None,
            proxy: None,
            sockets: false,
        }
    }

    /// Whether connections may go by Unix sockets: where TLS is demanded, or servers are told where clients
    /// are, they do not.
    pub(crate) fn go_by_socket(&self) -> bool {
        let is_free = matches!(self.trust.mode, ServerTls::Disabled | ServerTls::Preferred);
        self.sockets && is_free && self.proxy.is_none() && self.compress.is_none()
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

/// The key that a server must prove to hold: the one that the farm knows, for a server on another machine
/// whose certificate is not verified otherwise. Such a server must offer TLS.
pub(crate) fn key_to_meet(
    trust: &Trust,
    server: Option<IpAddr>,
    known: Option<ServerKey>,
    agreed: Capabilities,
) -> Result<Option<ServerKey>, ConnectionError> {
    let is_near = server.is_some_and(|ip| ip.to_canonical().is_loopback());
    let is_spared = is_near && trust.spares_loopback;
    let key = known.filter(|_| trust.mode == ServerTls::Preferred && !is_spared);
    if key.is_some() && !agreed.contains(Capabilities::SSL) {
        let source = io::Error::other("the server offers no TLS any more");
        return Err(ConnectionError::Tls { source });
    }
    Ok(key)
}

/// Whether a server may be given a password itself, and not only a proof of it. It is known who answers on
/// this machine, and where a certificate was verified; `required` is the operator's word that any server
/// will do inside TLS. What is only preferred proves nothing, unless the server was met by its key
/// (`by_key`); and a key that a server sends proves nothing either.
pub(crate) fn may_have_password(
    mode: ServerTls,
    server: Option<IpAddr>,
    in_tls: bool,
    by_key: bool,
) -> bool {
    let is_local = server.is_some_and(|ip| ip.to_canonical().is_loopback());
    let is_agreed = match mode {
        ServerTls::Disabled => false,
        ServerTls::Preferred => by_key,
        ServerTls::Required | ServerTls::VerifyCa | ServerTls::VerifyIdentity => true,
    };
    is_local || in_tls && is_agreed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_get_no_password() {
        let ip = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        let (far, near) = (ip("10.0.0.1"), ip("127.0.0.1"));
        for by_key in [false, true] {
            let given = may_have_password(ServerTls::Preferred, far, true, by_key);
            assert_eq!(given, by_key);
            assert!(!may_have_password(ServerTls::Preferred, far, false, by_key));
        }
        for (mode, server, in_tls, may) in [
            (ServerTls::Preferred, far, false, false),
            (ServerTls::Preferred, far, true, false),
            (ServerTls::Preferred, None, true, false),
            (ServerTls::Preferred, near, false, true),
            (ServerTls::Preferred, ip("::ffff:127.0.0.1"), false, true),
            (ServerTls::Preferred, ip("::1"), true, true),
            (ServerTls::Disabled, far, false, false),
            (ServerTls::Disabled, near, false, true),
            (ServerTls::Required, far, true, true),
            (ServerTls::Required, far, false, false),
            (ServerTls::VerifyCa, far, true, true),
            (ServerTls::VerifyIdentity, far, true, true),
        ] {
            let given = may_have_password(mode, server, in_tls, false);
            assert_eq!(given, may, "{mode:?} {server:?} {in_tls}");
        }
    }
}
