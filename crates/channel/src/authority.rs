//! An authority of one's own, and TLS in which both ends show a certificate that it signed.
//!
//! Job: make the authority's key, sign short-lived certificates by it, and turn one into the configurations
//! of both ends of a connection.
//!
//! Invariants: each end takes only what this authority signed, for the name that was asked for, and valid
//! now; a connection is never resumed, so each one is verified; the key of a signed certificate is in
//! memory only, and no key is in any `Debug`.
//!
//! Must not know: where the authority is kept, who connects, when a certificate is made anew.

use std::fmt::{self, Debug};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};
use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sha2::{Digest, Sha256};

use crate::certificate::CertificateError;
use crate::terms::provider;

/// The clocks of two ends may differ by so much.
pub const CLOCK_ALLOWANCE: Duration = Duration::from_secs(24 * 3600);

/// A certificate is used for so long. At its end it is valid for [`CLOCK_ALLOWANCE`] more.
const USED_FOR: Duration = Duration::from_secs(24 * 3600);

/// No clock of a machine is later than this (the year 5138); dates have an end.
const LATEST: Duration = Duration::from_secs(100_000_000_000);

/// Bytes of the hash of the authority's public key that are in its name.
const NAME_BYTES: usize = 8;

/// Whoever holds its key signs in its name.
pub struct Authority {
    certificate: CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// One end of a connection, whichever it is: what it shows, and whom it takes.
pub struct Mutual {
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
    made: SystemTime,
}

impl Authority {
    /// The PEM text of a new authority's private key. All else of it follows from this key.
    pub fn new_key() -> Result<String, CertificateError> {
        let key = KeyPair::generate().map_err(unfit)?;
        Ok(key.serialize_pem())
    }

    /// The authority with this key, as PEM.
    pub fn from_key(pem: &str) -> Result<Authority, CertificateError> {
        let key =
            KeyPair::from_pem(pem).map_err(|error| CertificateError::Pem(error.to_string()))?;
        let digest = Sha256::digest(key.public_key_raw());
        let digits = hex::encode(&digest[..NAME_BYTES]);
        // Two authorities never share a name: a stranger's is told from a signature that is wrong.
        let mut parameters = named(&format!("authority {digits}"), &[])?;
        parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let certificate = parameters.self_signed(&key).map_err(unfit)?;
        Ok(Authority {
            certificate: certificate.der().clone(),
            issuer: Issuer::new(parameters, key),
        })
    }

    /// Makes a key pair, signs it for this name at this time of the own clock, and gives both
    /// configurations.
    pub fn sign(&self, name: &str, now: SystemTime) -> Result<Mutual, CertificateError> {
        let since_epoch = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let date = date_time_ymd(1970, 1, 1) + since_epoch.min(LATEST);
        let mut parameters = named(name, &[name])?;
        parameters.not_before = date - CLOCK_ALLOWANCE;
        parameters.not_after = date + USED_FOR + CLOCK_ALLOWANCE;
        parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        parameters.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = KeyPair::generate().map_err(unfit)?;
        let signed = parameters.signed_by(&key, &self.issuer).map_err(unfit)?;
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.clone())
            .map_err(|error| CertificateError::Authority(error.to_string()))?;
        let chain = vec![signed.der().clone()];
        let key = || PrivatePkcs8KeyDer::from(key.serialize_der()).into();
        Ok(Mutual {
            server: server(roots.clone(), chain.clone(), key())?,
            client: client(roots, chain, key())?,
            made: now,
        })
    }
}

impl Mutual {
    /// Whether it may be used at this time of the own clock; then everybody takes it whose clock differs by
    /// no more than [`CLOCK_ALLOWANCE`]. One whose making lies in the future is of a clock that was set.
    pub fn is_fresh(&self, now: SystemTime) -> bool {
        now.duration_since(self.made)
            .is_ok_and(|age| age < USED_FOR)
    }
}

impl Debug for Mutual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Mutual")
    }
}

impl Debug for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Authority")
    }
}

/// Takes connections.
fn server(
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: rustls::pki_types::PrivateKeyDer<'static>,
) -> Result<Arc<ServerConfig>, CertificateError> {
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| CertificateError::Authority(error.to_string()))?;
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(pair)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)
        .map_err(pair)?;
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(Arc::new(config))
}

/// Makes connections.
fn client(
    roots: RootCertStore,
    chain: Vec<CertificateDer<'static>>,
    key: rustls::pki_types::PrivateKeyDer<'static>,
) -> Result<Arc<ClientConfig>, CertificateError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(pair)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(pair)?;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

fn named(name: &str, hosts: &[&str]) -> Result<CertificateParams, CertificateError> {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut parameters = CertificateParams::new(hosts).map_err(unfit)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::CommonName, format!("Heddle {name}"));
    Ok(parameters)
}

fn unfit(error: rcgen::Error) -> CertificateError {
    CertificateError::Pair(error.to_string())
}

fn pair(error: rustls::Error) -> CertificateError {
    CertificateError::Pair(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_used_for_a_day_and_not_before_it_was_made() {
        let key = Authority::new_key().expect("a key");
        let authority = Authority::from_key(&key).expect("an authority");
        let made = SystemTime::now();
        let mutual = authority.sign("a.internal", made).expect("signed");
        assert!(mutual.is_fresh(made) && mutual.is_fresh(made + USED_FOR / 2));
        assert!(!mutual.is_fresh(made + USED_FOR));
        assert!(!mutual.is_fresh(made - Duration::from_secs(1)));
        // Whatever the clock says, no panic.
        authority.sign("a.internal", UNIX_EPOCH).expect("signed");
        let never = UNIX_EPOCH + Duration::from_secs(1 << 50);
        authority.sign("a.internal", never).expect("signed");
    }

    #[test]
    fn what_is_no_key_is_told_without_showing_it() {
        for garbage in ["", "garbage", "-----BEGIN PRIVATE KEY-----\nMA==\n-----END"] {
            let error = Authority::from_key(garbage).expect_err("no key");
            assert!(!error.to_string().contains("MA=="), "{error}");
        }
        let key = Authority::new_key().expect("a key");
        let authority = Authority::from_key(&key).expect("an authority");
        let mutual = authority.sign("a.internal", SystemTime::now());
        let mutual = mutual.expect("signed");
        assert_eq!(format!("{authority:?} {mutual:?}"), "Authority Mutual");
    }
}
