//! On what terms TLS is spoken: what we show to clients, and what we demand of servers.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};
use sha2::{Digest, Sha256};

use crate::certificate::{self, CertificateError, Fingerprint};

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// What clients are shown: a certificate with its key, and whose certificates of theirs are taken.
#[derive(Clone, Debug)]
pub struct Presented {
    pub config: Arc<ServerConfig>,
    pub fingerprint: Fingerprint,
}

impl Presented {
    /// Reads the contents of PEM files. With `authorities` a client may show a certificate, which is
    /// then verified; one without stays welcome.
    pub fn from_pem(
        certificates: &[u8],
        key: &[u8],
        authorities: Option<&[u8]>,
    ) -> Result<Presented, CertificateError> {
        let chain = certificate::chain(certificates)?;
        let key = certificate::key(key)?;
        let fingerprint = Sha256::digest(&chain[0]).into();
        let builder = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| CertificateError::Pair(error.to_string()))?;
        let builder = match authorities {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let roots = Arc::new(certificate::authorities(pem)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider())
                    .allow_unauthenticated()
                    .build()
                    .map_err(|error| CertificateError::Authority(error.to_string()))?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let mut config = builder
            .with_single_cert(chain, key)
            .map_err(|error| CertificateError::Pair(error.to_string()))?;
        // Who shows its ticket at the next login is spared the exchange of certificates. The keys of tickets
        // live as long as what is shown: a changed certificate or authority ends them.
        config.ticketer =
            ring::Ticketer::new().map_err(|error| CertificateError::Pair(error.to_string()))?;
        config.send_tls13_tickets = 1;
        Ok(Presented {
            config: Arc::new(config),
            fingerprint,
        })
    }
}

/// Whether connections to servers use TLS, and what is demanded of a server's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerTls {
    /// Never.
    Disabled,
    /// Where the server offers it and is not on this machine; any certificate will do, and without
    /// a common cipher it goes on without TLS.
    Preferred,
    /// Always; any certificate will do.
    Required,
    /// Always, with a certificate that a known authority has signed.
    VerifyCa,
    /// The same, and it must be the server's own by its name.
    VerifyIdentity,
}

/// How servers are met.
#[derive(Clone, Debug)]
pub struct Trust {
    pub mode: ServerTls,
    /// Preferred leaves servers on this machine out, since bytes that never leave it gain nothing.
    pub spares_loopback: bool,
    pub config: Arc<ClientConfig>,
}

impl Trust {
    /// `authorities` are the contents of a PEM file; the verifying modes need them.
    pub fn new(mode: ServerTls, authorities: Option<&[u8]>) -> Result<Trust, CertificateError> {
        let roots = match authorities {
            Some(pem) => certificate::authorities(pem)?,
            None => RootCertStore::empty(),
        };
        let verifier: Arc<dyn ServerCertVerifier> = match mode {
            ServerTls::VerifyIdentity => {
                let verifier =
                    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider());
                verifier
                    .build()
                    .map_err(|error| CertificateError::Authority(error.to_string()))?
            }
            ServerTls::VerifyCa if roots.is_empty() => {
                return Err(CertificateError::NoCertificate);
            }
            ServerTls::VerifyCa => verifier(Taken::SignedBy(roots)),
            _ => verifier(Taken::Any),
        };
        Ok(Trust {
            mode,
            spares_loopback: true,
            config: client_config(verifier)?,
        })
    }

    /// TLS with one server only: the one that proves to hold this key ([`key_of`]).
    pub fn pinned(pin: Fingerprint) -> Result<Arc<ClientConfig>, CertificateError> {
        client_config(verifier(Taken::OfKey(pin)))
    }

    /// TLS with a router: its certificate is one of this PEM file, or one of them is an authority that
    /// signed it under the router's name.
    pub fn with_router(pem: &[u8]) -> Result<Arc<ClientConfig>, CertificateError> {
        let known = certificate::chain(pem)?;
        let roots = Arc::new(certificate::authorities(pem)?);
        let signed = WebPkiServerVerifier::builder_with_provider(roots, provider());
        let signed = signed
            .build()
            .map_err(|error| CertificateError::Authority(error.to_string()))?;
        client_config(verifier(Taken::OneOf { known, signed }))
    }

    /// Whether TLS is to be used with a server at this address that offers it, or not. The error is
    /// for a server that does not offer what must be.
    pub fn wants(
        &self,
        mode: ServerTls,
        address: Option<IpAddr>,
        offered: bool,
    ) -> Result<bool, &'static str> {
        match mode {
            ServerTls::Disabled => Ok(false),
            ServerTls::Preferred => {
                let local = address.is_some_and(|ip| ip.to_canonical().is_loopback());
                Ok(offered && !(local && self.spares_loopback))
            }
            _ if offered => Ok(true),
            _ => Err("the server offers no TLS, which tls_servers demands"),
        }
    }
}

fn client_config(
    verifier: Arc<dyn ServerCertVerifier>,
) -> Result<Arc<ClientConfig>, CertificateError> {
    let config = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| CertificateError::Pair(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

/// By this text an error of TLS says that a server's key is not the one that is known.
const OTHER_KEY: &str = "the certificate is not the one that the farm knows the server by";

/// Whether TLS failed because the server's key is not the one that is known.
pub fn is_other_key(error: &std::io::Error) -> bool {
    error.to_string().contains(OTHER_KEY)
}

/// SHA-256 of the public key in a certificate: it stays when a certificate is renewed with its key. None
/// for what cannot be read.
pub fn key_of(certificate: &CertificateDer<'_>) -> Option<Fingerprint> {
    let certificate = ParsedCertificate::try_from(certificate).ok()?;
    Some(Sha256::digest(certificate.subject_public_key_info()).into())
}

/// Which certificates of servers are taken, where not the usual rules decide.
#[derive(Debug)]
enum Taken {
    /// Any: an impostor could show one, too, so nothing about it is looked at. Servers that made their
    /// own certificate are met like this.
    Any,
    /// The one with this key. The server proves that it holds the key; what the certificate says of
    /// itself is not looked at.
    OfKey(Fingerprint),
    /// One of these, whatever it says of itself; or what the usual rules take.
    OneOf {
        known: Vec<CertificateDer<'static>>,
        signed: Arc<WebPkiServerVerifier>,
    },
    /// Those that one of these authorities has signed, whatever name is in them.
    SignedBy(RootCertStore),
}

/// Takes servers by their certificates alone.
#[derive(Debug)]
struct Verifier {
    taken: Taken,
    algorithms: WebPkiSupportedAlgorithms,
}

fn verifier(taken: Taken) -> Arc<dyn ServerCertVerifier> {
    let algorithms = ring::default_provider().signature_verification_algorithms;
    Arc::new(Verifier { taken, algorithms })
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.taken {
            Taken::OneOf { known, .. } if known.contains(end_entity) => {}
            Taken::OneOf { signed, .. } => {
                return signed.verify_server_cert(end_entity, intermediates, name, ocsp, now);
            }
            Taken::Any => {}
            Taken::OfKey(pin) if key_of(end_entity) == Some(*pin) => {}
            Taken::OfKey(_) => return Err(Error::General(OTHER_KEY.to_owned())),
            Taken::SignedBy(roots) => verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                roots,
                intermediates,
                now,
                self.algorithms.all,
            )?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if matches!(self.taken, Taken::Any) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if matches!(self.taken, Taken::Any) {
            return Ok(HandshakeSignatureValid::assertion());
        }
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
