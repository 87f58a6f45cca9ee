//! Certificates and keys as they stand in files.

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// SHA-256 of a certificate.
pub type Fingerprint = [u8; 32];

/// Why certificates or a key cannot be used. The text says which; the caller knows the files.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CertificateError {
    #[error("no certificate in PEM form is in it")]
    NoCertificate,
    #[error("no private key in PEM form is in it")]
    NoKey,
    #[error("not PEM: {0}")]
    Pem(String),
    #[error("certificate and key cannot be used: {0}")]
    Pair(String),
    #[error("the authority's certificate cannot be used: {0}")]
    Authority(String),
}

/// All certificates of a file, the own one first.
pub(crate) fn chain(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, CertificateError> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let all = all.map_err(|error| CertificateError::Pem(error.to_string()))?;
    if all.is_empty() {
        return Err(CertificateError::NoCertificate);
    }
    Ok(all)
}

/// The first private key of a file.
pub(crate) fn key(pem: &[u8]) -> Result<PrivateKeyDer<'static>, CertificateError> {
    use rustls::pki_types::pem::Error;
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        Error::NoItemsFound => CertificateError::NoKey,
        other => CertificateError::Pem(other.to_string()),
    })
}

/// The authorities of a file.
pub(crate) fn authorities(pem: &[u8]) -> Result<RootCertStore, CertificateError> {
    let mut roots = RootCertStore::empty();
    for certificate in chain(pem)? {
        roots
            .add(certificate)
            .map_err(|error| CertificateError::Authority(error.to_string()))?;
    }
    Ok(roots)
}
