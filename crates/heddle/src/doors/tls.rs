//! The router's certificate: the operator's, or one that it makes for itself; read anew when the
//! files change.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use channel::{Presented, ServerTls, Trust};
use control::LinkTls;
use meta::private;
use session::{ClientTls, Terms, Transport};

use crate::configuration::stamp::{LOOK, Stamp};
use crate::failure::Failure;
use crate::settings::Settings;

/// The pair that the router makes, in its state directory.
pub const OWN_CERTIFICATE: &str = "tls-certificate.pem";
const OWN_KEY: &str = "tls-key.pem";

/// The files that clients' TLS is made of.
#[derive(Clone, Debug)]
pub struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
}

impl Files {
    /// The files of the settings; None when clients are not to have TLS by any door. Makes the router's own pair
    /// where none is named and none was made before.
    ///
    /// # Errors
    /// Certificate and key are not named together, or the state directory cannot be written.
    pub fn find(settings: &Settings, state: &Path) -> Result<Option<Files>, Failure> {
        if [settings.tls_clients.0, settings.http_tls.0] == [ClientTls::Off; 2] {
            return Ok(None);
        }
        let named = (&settings.tls_certificate.0, &settings.tls_key.0);
        let (certificate, key) = match named {
            (Some(certificate), Some(key)) => (certificate.clone(), key.clone()),
            (None, None) => own_pair(state)?,
            _ => {
                let text = "set tls_certificate and tls_key together, or neither";
                return Err(Failure::new(text));
            }
        };
        Ok(Some(Files {
            certificate,
            key,
            client_ca: settings.tls_client_ca.0.clone(),
        }))
    }

    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    pub fn key(&self) -> &Path {
        &self.key
    }

    /// Reads the files and makes them what clients are shown.
    ///
    /// # Errors
    /// A file cannot be read, or is not what it should be; the text names it.
    pub fn load(&self) -> Result<Presented, Failure> {
        let certificate = read(&self.certificate)?;
        let key = read(&self.key)?;
        let client_ca = self.client_ca.as_deref().map(read).transpose()?;
        Presented::from_pem(&certificate, &key, client_ca.as_deref()).map_err(|error| {
            let (certificate, key) = (self.certificate.display(), self.key.display());
            let ca = self.client_ca.as_ref().map_or(String::new(), |ca| {
                format!(" and tls_client_ca {}", ca.display())
            });
            Failure::new(format!(
                "tls_certificate {certificate}, tls_key {key}{ca}: {error}"
            ))
        })
    }

    fn stamp(&self) -> Stamp {
        let all = [
            Some(&self.certificate),
            Some(&self.key),
            self.client_ca.as_ref(),
        ];
        Stamp::of(all.into_iter().flatten())
    }

    /// Looks at the files for ever, and shows clients what they have become. Files that cannot be
    /// used change nothing but the log.
    pub async fn follow(self, transport: Arc<Transport>) {
        let mut seen = self.stamp();
        loop {
            tokio::time::sleep(LOOK).await;
            let now = self.stamp();
            if now == seen {
                continue;
            }
            match self.load() {
                Ok(presented) => {
                    transport.presented.store(Some(Arc::new(presented)));
                    tracing::info!("the TLS certificate was read anew");
                }
                Err(failure) => {
                    let error = failure.text;
                    tracing::error!(%error, "the TLS certificate stays as it was");
                }
            }
            seen = now;
        }
    }
}

/// The same certificate for the HTTP door.
struct OverHttp(Arc<Transport>);

impl door_http::Certificate for OverHttp {
    fn now(&self) -> Option<Arc<channel::ServerConfig>> {
        let presented = self.0.presented.load();
        presented.as_ref().map(|it| Arc::clone(&it.config))
    }
}

/// What the HTTP door has to show and to demand.
pub fn over_http(
    settings: &Settings,
    transport: &Arc<Transport>,
) -> (Option<Arc<dyn door_http::Certificate>>, door_http::Demand) {
    let certificate = || Some(Arc::new(OverHttp(Arc::clone(transport))) as Arc<_>);
    match settings.http_tls.0 {
        ClientTls::Off => (None, door_http::Demand::Welcome),
        ClientTls::Preferred => (certificate(), door_http::Demand::Welcome),
        ClientTls::Required => (certificate(), door_http::Demand::Required),
    }
}

/// How the settings want servers to be met.
///
/// # Errors
/// The authorities' file is missing, cannot be read, or is no PEM; the text names it.
pub fn terms(settings: &Settings) -> Result<Terms, Failure> {
    let file = settings.tls_servers_ca.0.as_deref();
    let authorities = file.map(read).transpose()?;
    let mode = settings.tls_servers.0;
    let trust = Trust::new(mode, authorities.as_deref()).map_err(|error| match file {
        Some(file) => Failure::new(format!("tls_servers_ca {}: {error}", file.display())),
        None => Failure::new(
            "tls_servers is verify_ca or verify_identity: set tls_servers_ca to the PEM file of \
             the authority that signed the servers' certificates",
        ),
    })?;
    Ok(Terms {
        trust,
        compress: settings.compress_servers.0,
        proxy: settings.proxy_protocol_servers.0,
        sockets: settings.server_sockets.0,
    })
}

/// The same for the control plane's own connections. [`terms`] has found the file to be right.
pub fn link(settings: &Settings) -> LinkTls {
    let authorities = || settings.tls_servers_ca.0.clone().unwrap_or_default();
    match settings.tls_servers.0 {
        ServerTls::Disabled => LinkTls::Off,
        ServerTls::Preferred => LinkTls::Preferred,
        ServerTls::Required => LinkTls::Required,
        ServerTls::VerifyCa => LinkTls::VerifyCa(authorities()),
        ServerTls::VerifyIdentity => LinkTls::VerifyIdentity(authorities()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| Failure::new(format!("cannot read {}: {error}", path.display())))
}

/// The router's own certificate and key, made at its first start.
fn own_pair(state: &Path) -> Result<(PathBuf, PathBuf), Failure> {
    let (certificate, key) = (state.join(OWN_CERTIFICATE), state.join(OWN_KEY));
    if certificate.exists() && key.exists() {
        return Ok((certificate, key));
    }
    let failed = |error: rcgen::Error| Failure::new(format!("cannot make a certificate: {error}"));
    let mut parameters =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).map_err(failed)?;
    let name = "Heddle, self-signed";
    parameters
        .distinguished_name
        .push(rcgen::DnType::CommonName, name);
    let pair = rcgen::KeyPair::generate().map_err(failed)?;
    let signed = parameters.self_signed(&pair).map_err(failed)?;
    write(&key, &pair.serialize_pem())?;
    write(&certificate, &signed.pem())?;
    Ok((certificate, key))
}

/// Writes a new file: what stood there may be open in somebody's hands.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let failed =
        |error: std::io::Error| Failure::new(format!("cannot write {}: {error}", path.display()));
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    private::write(path, text).map_err(failed)
}

/// How clients come, and servers are reached.
///
/// # Errors
/// A certificate cannot be read, or the settings cannot be meant so.
pub fn transport(settings: &Settings, files: Option<&Files>) -> Result<Arc<Transport>, Failure> {
    let presented = files.map(Files::load).transpose()?;
    let servers = terms(settings)?;
    let transport = Transport::new(settings.tls_clients.0, presented, servers);
    let balancers = settings.proxy_protocol_networks.0.clone();
    Ok(Arc::new(transport.behind(balancers)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_own_pair_is_made_once_and_its_key_is_secret() {
        let dir = tempfile::tempdir().expect("a directory");
        let settings = Settings::default();
        let files = Files::find(&settings, dir.path()).expect("made");
        let files = files.expect("TLS is offered by default");
        let first = files.load().expect("a pair").fingerprint;
        let mode = fs::metadata(&files.key).expect("a file").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
        let again = Files::find(&settings, dir.path()).expect("found");
        let again = again.expect("TLS is offered by default");
        assert_eq!(again.load().expect("a pair").fingerprint, first);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut settings = Settings::default();
        settings.assign("tls_key=k.pem").expect("a path");
        let error = Files::find(&settings, dir.path()).expect_err("half a pair");
        assert!(error.text.contains("together"), "{}", error.text);
        settings.assign("tls_certificate=c.pem").expect("a path");
        let files = Files::find(&settings, dir.path()).expect("named");
        let error = files.expect("named").load().expect_err("no such file");
        assert!(error.text.contains("c.pem"), "{}", error.text);
        settings.assign("tls_clients=off").expect("a word");
        // The HTTP door still has it.
        assert!(Files::find(&settings, dir.path()).expect("on").is_some());
        settings.assign("http_tls=off").expect("a word");
        assert!(Files::find(&settings, dir.path()).expect("off").is_none());
    }
}
