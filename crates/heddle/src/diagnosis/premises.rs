//! What this router is, for its own look at itself: limits, doors, files with secrets, certificates, disks.
//!
//! Invariant: no secret leaves its file; of a file only its permissions are read, of a certificate its end.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control::Premises;
use doctor::RouterFacts;
use doctor::facts::{CertificateFacts, DiskFacts, DoorFacts, FileFacts, HostFacts, StoreFacts};
use farm::Access;
use rustix::process::{Resource, getrlimit};
use session::ClientTls;

use crate::configuration::Configuration;
use crate::doors::tls::Files;
use crate::host::machine;
use crate::settings::{Applies, Settings, TABLE, is_secret};
use crate::store::crosses_in_clear;

/// This process, with what its settings said at its start.
pub struct ThisRouter {
    at_start: Settings,
    state: PathBuf,
    tls: Option<Files>,
    configuration: Arc<Configuration>,
}

impl ThisRouter {
    pub fn of(
        settings: &Settings,
        state: &Path,
        tls: &Option<Files>,
        configuration: &Arc<Configuration>,
    ) -> ThisRouter {
        ThisRouter {
            at_start: settings.clone(),
            state: state.to_owned(),
            tls: tls.clone(),
            configuration: Arc::clone(configuration),
        }
    }
}

impl Premises for ThisRouter {
    fn router(&self) -> RouterFacts {
        RouterFacts {
            waiting: waiting(&self.at_start, &self.configuration.own_settings()),
            doors: doors(&self.at_start),
            files: self.files(),
            certificates: self.certificates(),
            store: store(&self.at_start),
            host: self.host(),
            ..RouterFacts::default()
        }
    }

    fn disk(&self, directory: &str) -> Option<DiskFacts> {
        disk(Path::new(directory))
    }

    fn look_every(&self) -> Option<Duration> {
        let seconds = self.configuration.doctor_interval_s();
        (seconds > 0).then(|| Duration::from_secs(seconds))
    }
}

impl ThisRouter {
    fn files(&self) -> Vec<FileFacts> {
        let settings = &self.at_start;
        let mut all = vec![("the state directory", Some(self.state.clone()))];
        if names_secrets(settings) {
            all.push(("the settings file", settings.config_file.clone()));
        }
        let key = self.tls.as_ref().map(|it| it.key().to_owned());
        all.extend([
            ("the password file", settings.admin_password_file.0.clone()),
            (
                "the password file",
                settings.replication_password_file.0.clone(),
            ),
            (
                "the password file",
                settings.scratch_password_file.0.clone(),
            ),
            ("the password file", settings.fabric_password_file.0.clone()),
            ("the password file", settings.etcd_password_file.0.clone()),
            ("the private key", settings.etcd_key.0.clone()),
            ("the private key", key),
        ]);
        let facts = all.into_iter().filter_map(|(what, path)| {
            let path = path?;
            let mode = fs::metadata(&path).ok()?.permissions().mode();
            Some(FileFacts {
                what: what.to_owned(),
                path: path.display().to_string(),
                mode,
            })
        });
        facts.collect()
    }

    fn certificates(&self) -> Vec<CertificateFacts> {
        let shown = self.tls.as_ref().map(|it| it.certificate().to_owned());
        let all = [
            ("the certificate that clients are shown", shown),
            (
                "the certificate for etcd",
                self.at_start.etcd_certificate.0.clone(),
            ),
        ];
        let facts = all.into_iter().filter_map(|(what, path)| {
            let path = path?;
            let ends_s = channel::certificate_ends_s(&fs::read(&path).ok()?).ok()?;
            Some(CertificateFacts {
                what: format!("{what} ({})", path.display()),
                ends_s,
            })
        });
        // One that cannot be read says nothing.
        facts.filter(|it| it.ends_s > 0).collect()
    }

    fn host(&self) -> HostFacts {
        let memory_bytes = machine::memory_bytes();
        let overcommit = fs::read_to_string("/proc/sys/vm/overcommit_memory").ok();
        HostFacts {
            files_max: getrlimit(Resource::Nofile).current,
            memory_bytes,
            memory_bytes_max: match self.at_start.memory_bytes_max {
                0 => memory_bytes.map(|bytes| bytes / 2),
                bytes => Some(bytes),
            },
            overcommit: overcommit.and_then(|text| text.trim().parse().ok()),
            state_disk: disk(&self.state),
        }
    }
}

/// Whether the settings file itself has a secret in it.
fn names_secrets(settings: &Settings) -> bool {
    let in_file = settings.given.keys().any(|name| is_secret(name));
    in_file || !settings.backend_credentials.is_empty()
}

/// Settings that wait for a restart.
fn waiting(at_start: &Settings, now: &Settings) -> Vec<String> {
    let value = |of: &Settings, name: &str| of.given.get(name).map(|it| it.value.clone());
    let rows = TABLE.iter().filter(|row| {
        row.applies == Applies::Restart && value(at_start, row.name) != value(now, row.name)
    });
    rows.map(|row| row.name.to_owned()).collect()
}

fn door(name: &str, address: SocketAddr, tls: ClientTls, authenticates: bool) -> DoorFacts {
    DoorFacts {
        name: name.to_owned(),
        address: address.to_string(),
        public: !address.ip().to_canonical().is_loopback(),
        tls: tls != ClientTls::Off,
        tls_only: tls == ClientTls::Required,
        authenticates,
    }
}

fn doors(settings: &Settings) -> Vec<DoorFacts> {
    // A Unix socket is reached by no network.
    let sql = settings.sql_listen.tcp;
    let sql = sql.map(|address| door("SQL", address, settings.tls_clients.0, true));
    let mut all: Vec<DoorFacts> = sql.into_iter().collect();
    all.push(door(
        "HTTP",
        settings.http_listen,
        settings.http_tls.0,
        true,
    ));
    let kv = settings.kv_listen.0.tcp;
    all.extend(kv.map(|address| door("KV", address, settings.tls_clients.0, settings.kv_auth.0)));
    // Who has no name there sees signs of life and no more.
    let asks = !settings.fabric_user.is_empty() || settings.fabric_open.0 == Access::Public;
    let fabric = [settings.fabric_listen.0, settings.fabric_mysql_listen.0];
    let fabric = fabric.into_iter().flatten();
    all.extend(fabric.map(|address| door("Fabric", address, ClientTls::Off, asks)));
    all
}

fn store(settings: &Settings) -> StoreFacts {
    let urls = settings.etcd.0.clone();
    StoreFacts {
        etcd: !urls.is_empty(),
        in_clear: urls.iter().any(|url| crosses_in_clear(url)),
        urls,
        ..StoreFacts::default()
    }
}

fn disk(directory: &Path) -> Option<DiskFacts> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(DiskFacts {
        path: directory.display().to_string(),
        free_bytes: found.f_bavail.saturating_mul(found.f_frsize),
        total_bytes: found.f_blocks.saturating_mul(found.f_frsize),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doors_say_who_may_come_in_and_how() {
        let all = doors(&Settings::assigned(&[
            "sql_listen=0.0.0.0:6306",
            "tls_clients=required",
            "kv_listen=127.0.0.1:6211",
            "kv_auth=off",
            "fabric_listen=10.0.0.1:32274",
            "fabric_open=admin",
        ]));
        let of = |name: &str| all.iter().find(|it| it.name == name).expect("a door");
        assert!(of("SQL").public && of("SQL").tls_only && of("SQL").authenticates);
        assert!(!of("HTTP").public && of("HTTP").tls && !of("HTTP").tls_only);
        assert!(!of("KV").public && of("KV").tls && !of("KV").authenticates);
        assert!(of("Fabric").public && !of("Fabric").authenticates);
    }

    #[test]
    fn what_changed_in_the_file_and_needs_a_restart_waits() {
        let now = Settings::assigned(&["threads=3", "max_lag_ms=5"]);
        assert_eq!(waiting(&Settings::assigned(&[]), &now), ["threads"]);
        assert_eq!(waiting(&now, &now), [""; 0]);
    }

    #[test]
    fn the_machine_is_looked_at() {
        let home = tempfile::tempdir().expect("a directory");
        let found = disk(home.path()).expect("a file system");
        assert!(found.total_bytes >= found.free_bytes && found.total_bytes > 0);
        assert_eq!(disk(&home.path().join("nothing")), None);
        assert!(names_secrets(&Settings::assigned(&["admin_password=x"])));
        assert!(!names_secrets(&Settings::assigned(&["threads=3"])));
    }
}
