//! Certificates for tests: an authority of the test's own and what it signs, as files.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use tempfile::TempDir;

/// An authority with a directory for what it signs.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// The PEM files of one certificate.
#[derive(Clone, Debug)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    /// A new authority of this name.
    ///
    /// # Panics
    /// When nothing can be written.
    pub fn new(name: &str) -> Authority {
        let dir = tempfile::Builder::new()
            .prefix("heddle-certificates-")
            .tempdir();
        let dir = dir.expect("a temporary directory");
        let key = KeyPair::generate().expect("a key");
        let mut parameters = named(name, &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let certificate = parameters.self_signed(&key).expect("signed");
        fs::write(dir.path().join("ca.pem"), certificate.pem()).expect("written");
        let issuer = Issuer::new(parameters, key);
        Authority { dir, issuer }
    }

    /// The authority's own certificate.
    pub fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    /// The directory, for files of the test.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Signs a new certificate for these host names; its files are called after `name`.
    ///
    /// # Panics
    /// When nothing can be written.
    pub fn sign(&self, name: &str, hosts: &[&str]) -> Pair {
        self.sign_those(name, named(name, hosts))
    }

    /// The same of one that has ended.
    ///
    /// # Panics
    /// When nothing can be written.
    pub fn sign_expired(&self, name: &str, hosts: &[&str]) -> Pair {
        let mut parameters = named(name, hosts);
        parameters.not_before = rcgen::date_time_ymd(2019, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(2020, 1, 1);
        self.sign_those(name, parameters)
    }

    fn sign_those(&self, name: &str, parameters: CertificateParams) -> Pair {
        let key = KeyPair::generate().expect("a key");
        let certificate = parameters.signed_by(&key, &self.issuer);
        let pair = Pair {
            certificate: self.dir.path().join(format!("{name}.pem")),
            key: self.dir.path().join(format!("{name}-key.pem")),
        };
        fs::write(&pair.certificate, certificate.expect("signed").pem()).expect("written");
        fs::write(&pair.key, key.serialize_pem()).expect("written");
        pair
    }
}

fn named(name: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
    let mut parameters = CertificateParams::new(hosts).expect("host names");
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters
        .distinguished_name
        .push(DnType::OrganizationName, "Heddle tests");
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters
}
