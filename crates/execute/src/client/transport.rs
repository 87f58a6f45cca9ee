//! How clients reach the router: with TLS or without, and what they are shown.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use backend::Terms;
use channel::{Algorithm, Presented};
use farm::TlsFacts;
use farm::local::is_local;
use mysql_wire::capability::Capabilities;
use routing::rules::Network;

use crate::client::Client;

/// Whether clients may, must, or cannot use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientTls {
    Off,
    /// Offered; a client decides.
    Preferred,
    /// A client without it is refused.
    Required,
}

/// The terms of clients' connections. What is shown may be exchanged at any time: it counts from the
/// next login on.
#[derive(Debug)]
pub struct Transport {
    pub tls: ClientTls,
    pub presented: ArcSwapOption<Presented>,
    /// From where load balancers may say by the PROXY protocol where their clients are.
    pub balancers: Vec<Network>,
    /// How servers are met.
    pub servers: Arc<Terms>,
}

impl Transport {
    /// TLS with clients on these terms; without anything to show it cannot be offered.
    pub fn new(tls: ClientTls, presented: Option<Presented>, servers: Terms) -> Transport {
        Transport {
            tls,
            presented: ArcSwapOption::new(presented.map(Arc::new)),
            balancers: Vec::new(),
            servers: Arc::new(servers),
        }
    }

    /// No TLS anywhere.
    pub fn plain() -> Transport {
        Transport::new(ClientTls::Off, None, Terms::plain())
    }

    /// The same behind load balancers of these networks.
    pub fn behind(self, balancers: Vec<Network>) -> Transport {
        Transport { balancers, ..self }
    }

    /// Whether somebody at this address may say where its client is.
    pub fn is_balancer(&self, peer: IpAddr) -> bool {
        !is_local(peer) && self.balancers.iter().any(|network| network.contains(peer))
    }

    /// What to show to a client that logs in now; None when TLS is not offered.
    pub fn offer(&self) -> Option<Arc<Presented>> {
        match self.tls {
            ClientTls::Off => None,
            ClientTls::Preferred | ClientTls::Required => self.presented.load_full(),
        }
    }
}

/// What a client that may do both gets: zlib before zstd, as the servers choose.
pub fn compression(agreed: Capabilities, zstd_level: Option<u8>) -> Option<Algorithm> {
    if agreed.contains(Capabilities::COMPRESS) {
        return Some(Algorithm::Zlib);
    }
    let zstd = agreed.contains(Capabilities::ZSTD_COMPRESSION);
    zstd_level.filter(|_| zstd).map(Algorithm::Zstd)
}

impl Client {
    /// What the client's account may have demands on; None outside TLS.
    pub fn tls_facts(&self) -> Option<TlsFacts> {
        let channel = self.channel().filter(|channel| channel.is_secure())?;
        let certificate = channel.peer_certificate();
        Some(TlsFacts {
            cipher: channel.cipher(),
            certificate: certificate.map(|names| (names.issuer, names.subject)),
        })
    }
}
