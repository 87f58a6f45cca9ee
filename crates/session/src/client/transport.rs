//! How clients reach the router: with TLS or without, and what they are shown.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use backend::Terms;
use channel::{Algorithm, Presented};
use farm::{TlsFacts, error};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::is_tls_request;
use routing::rules::Network;

use crate::client::Client;
use crate::client::end::End;
use crate::per_core::Core;

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
        self.balancers.iter().any(|network| network.contains(peer))
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
pub(crate) fn compression(agreed: Capabilities, zstd_level: Option<u8>) -> Option<Algorithm> {
    if agreed.contains(Capabilities::COMPRESS) {
        return Some(Algorithm::Zlib);
    }
    let zstd = agreed.contains(Capabilities::ZSTD_COMPRESSION);
    zstd_level.filter(|_| zstd).map(Algorithm::Zstd)
}

impl Client {
    /// What the client's account may have demands on; None outside TLS.
    pub(crate) fn tls_facts(&self) -> Option<TlsFacts> {
        self.is_secure().then(|| {
            let certificate = self.channel().peer_certificate();
            TlsFacts {
                cipher: self.channel().cipher(),
                certificate: certificate.map(|names| (names.issuer, names.subject)),
            }
        })
    }
}

impl Core {
    /// Follows the client's request for TLS, if that is what it answered the greeting with; its
    /// login is then the current packet as it would have been without. `offered` is what the
    /// greeting promised. The client has been told when this fails, unless nobody could read it.
    pub(crate) async fn secure(
        &self,
        client: &mut Client,
        offered: Option<Arc<Presented>>,
    ) -> Result<(), End> {
        if !is_tls_request(client.payload()) {
            if self.shared.transport.tls == ClientTls::Required {
                client.capabilities = Capabilities::PROTOCOL_41;
                let refusal = error::SECURE_TRANSPORT_REQUIRED;
                return Err(client.refuse(&refusal, &[]).await);
            }
            return Ok(());
        }
        let Some(presented) = offered else {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        };
        client.owes = true;
        // Boxed: the handshake needs room that a session does not need afterwards.
        if let Err(error) = Box::pin(client.start_tls(&presented)).await {
            tracing::info!(%error, "a client's TLS handshake failed");
            return Err(End::Gone);
        }
        client.read_login(2).await?;
        if is_tls_request(client.payload()) {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        }
        Ok(())
    }
}
