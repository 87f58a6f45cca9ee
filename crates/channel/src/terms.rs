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

fn provider() -> Arc<CryptoProvider> {
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
        // Few clients of MySQL resume sessions, and a ticket costs every one of them.
        config.send_tls13_tickets = 0;
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
        let algorithms = ring::default_provider().signature_verification_algorithms;
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
            ServerTls::VerifyCa => Arc::new(AnyName { roots, algorithms }),
            _ => Arc::new(AnyCertificate(algorithms)),
        };
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| CertificateError::Pair(error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        let config = Arc::new(config);
        Ok(Trust {
            mode,
            spares_loopback: true,
            config,
        })
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

/// Takes any certificate: whoever stands between could show one too, so nothing about it is looked
/// at. Servers that made their own certificate are met like this.
#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

/// Takes any certificate that an authority has signed, whatever name is in it.
#[derive(Debug)]
struct AnyName {
    roots: RootCertStore,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(
            &certificate,
            &self.roots,
            intermediates,
            now,
            self.algorithms.all,
        )?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
