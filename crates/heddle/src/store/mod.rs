//! Which state store the settings ask for, and whether it is the farm's.
//!
//! A router that shares a store remembers the id of its farm in `state_dir`, so that a wrong prefix
//! or an etcd that lost its data is told instead of a new, empty farm being begun there.

pub(crate) mod state_dir;

use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use control::{Membership, check_layout};
use meta::{Access, Embedded, Etcd, Store, private};

use crate::failure::Failure;
use crate::settings::{Settings, WithoutStore};

/// In `state_dir`: the id of the farm that this router served last.
const FARM_ID: &str = "farm-id";

/// Whether the settings of the store agree with each other.
///
/// # Errors
/// What is missing or too much.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    access(settings)?;
    membership(settings)?;
    Ok(())
}

/// Takes over the flag `--etcd`.
///
/// # Errors
/// It is no list of URLs.
pub fn name_etcd(settings: &mut Settings, urls: Option<&str>) -> Result<(), Failure> {
    let Some(urls) = urls else { return Ok(()) };
    let assigned = settings.assign(&format!("etcd={urls}"));
    assigned.map_err(|wrong| Failure::usage(wrong.replace("--set etcd", "--etcd")))
}

/// How to reach the etcd of the settings; `None` without one.
///
/// # Errors
/// What is missing or too much.
pub fn access(settings: &Settings) -> Result<Option<Access>, Failure> {
    let urls = settings.etcd.0.clone();
    let Some(first) = urls.first() else {
        return Ok(None);
    };
    let authority = settings.etcd_ca.0.clone();
    let certificate = settings.etcd_certificate.0.clone();
    let identity = match (certificate, settings.etcd_key.0.clone()) {
        (Some(certificate), Some(key)) => Some((certificate, key)),
        (None, None) => None,
        _ => {
            return Err(Failure::new(
                "set etcd_certificate and etcd_key together, or neither",
            ));
        }
    };
    match (first.starts_with("https://"), &authority, &identity) {
        (true, None, _) => {
            return Err(Failure::new(
                "etcd has https:// URLs: set etcd_ca to the PEM file of the authority that signed \
                 its members' certificates",
            ));
        }
        (false, None, None) | (true, Some(_), _) => {}
        (false, ..) => {
            return Err(Failure::new(
                "etcd_ca, etcd_certificate and etcd_key are set, but etcd has http:// URLs; write \
                 https://, or leave them away",
            ));
        }
    }
    let (user, password) = (&settings.etcd_user, &settings.etcd_password);
    if user.is_empty() != password.is_empty() {
        return Err(Failure::new(
            "set etcd_user and etcd_password together, or neither",
        ));
    }
    Ok(Some(Access {
        urls,
        prefix: settings.etcd_prefix.0.clone(),
        account: (!user.is_empty()).then(|| (user.clone(), password.clone())),
        authority,
        identity,
    }))
}

/// Whether what is said to this member of etcd can be read on a network.
pub fn crosses_in_clear(url: &str) -> bool {
    let Some(place) = url.strip_prefix("http://") else {
        return false;
    };
    let place = place.trim_end_matches('/');
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let address = host.trim_start_matches('[').trim_end_matches(']').parse();
    host != "localhost" && !address.is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// How the router takes part in its farm; `None` when it is the only one.
///
/// # Errors
/// The others could not reach it.
pub fn membership(settings: &Settings) -> Result<Option<Membership>, Failure> {
    if settings.etcd.0.is_empty() {
        return Ok(None);
    }
    let listen = settings.http_listen;
    let http = match settings.peer_url.trim_end_matches('/') {
        "" if listen.ip().is_unspecified() => {
            return Err(Failure::new(format!(
                "http_listen is {listen}, which tells the farm's other routers nothing: set peer_url \
                 to where they reach this one, for example http://10.0.0.1:{}",
                listen.port()
            )));
        }
        "" => listen.to_string(),
        url => {
            // Routers speak TLS to each other whatever is written here.
            let bare = |scheme| url.strip_prefix(scheme);
            let place = bare("http://").or_else(|| bare("https://")).unwrap_or(url);
            let parts = place.rsplit_once(':');
            let is_right = parts.is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains('/') && port.parse::<u16>().is_ok()
            });
            if !is_right {
                return Err(Failure::new(format!(
                    "peer_url is {url:?}: write http://HOST:PORT"
                )));
            }
            place.to_owned()
        }
    };
    let name = Some(settings.router_name.clone()).filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| http.clone());
    let mut membership = Membership::new(&name, &http, &settings.sql_listen.to_string());
    membership.lease_ms = settings.router_lease_ms;
    membership.store_silence_ms = settings.store_silence_ms;
    membership.refuses_without_store = settings.without_store == WithoutStore::Refuse;
    Ok(Some(membership))
}

/// Opens the store of the settings and looks whether it holds this router's farm.
///
/// # Errors
/// It cannot be opened or read, or holds another farm, a newer layout, or something else.
pub async fn open(settings: &Settings, state: &Path) -> Result<Arc<dyn Store>, Failure> {
    let Some(access) = access(settings)? else {
        let store = Embedded::open(state).map_err(Failure::new)?;
        check_layout(&store).await?;
        return Ok(Arc::new(store));
    };
    if let Some(url) = access.urls.iter().find(|url| crosses_in_clear(url)) {
        tracing::warn!(
            %url,
            "what is in etcd, the private key of the farm's authority among it, crosses the network in clear; \
             let etcd speak TLS, write https:// and set etcd_ca"
        );
    }
    let place = format!("etcd ({}, keys {}/…)", access.urls.join(","), access.prefix);
    let store = Etcd::connect(access).await.map_err(Failure::new)?;
    let found = check_layout(&store).await?;
    let file = state.join(FARM_ID);
    let shown = file.display();
    match (remembered(&file)?, found) {
        (Some(own), Some(found)) if own != found => Err(Failure::new(format!(
            "{place} holds the farm {found}, and this router belongs to the farm {own} ({shown}); \
             check `etcd` and `etcd_prefix`, or remove that file to have it join the other farm"
        ))),
        (Some(own), None) => Err(Failure::new(format!(
            "{place} holds no farm, and this router belongs to the farm {own} ({shown}); check `etcd` \
             and `etcd_prefix`, restore the farm with `heddle meta import`, or remove that file to \
             begin a new farm"
        ))),
        (None, found) => {
            check_left_behind(state, found.as_deref()).await?;
            Ok(Arc::new(store))
        }
        (Some(_), Some(_)) => Ok(Arc::new(store)),
    }
}

/// A farm in the state file would silently be forgotten by a router that begins to use etcd.
async fn check_left_behind(state: &Path, found: Option<&str>) -> Result<(), Failure> {
    if !Embedded::is_in(state) {
        return Ok(());
    }
    let store = Embedded::open(state).map_err(Failure::new)?;
    let own = match check_layout(&store).await {
        // It was moved, so it is known to be left behind.
        Err(catalog::Error::Moved(_)) => return Ok(()),
        own => own?,
    };
    let servers = store.scan("/server/").await.map_err(Failure::new)?.entries;
    if servers.is_empty() || own.as_deref() == found {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{} holds a farm of {} servers, which etcd does not hold; move it there with `heddle meta \
         move --to=etcd`, or rename the file state.redb to leave that farm behind",
        state.display(),
        servers.len()
    )))
}

/// Remembers which farm this router belongs to. A router that has its store for itself needs no
/// memory.
///
/// # Errors
/// `state_dir` cannot be written.
pub fn remember(settings: &Settings, state: &Path, farm_id: &str) -> Result<(), Failure> {
    let file = state.join(FARM_ID);
    if settings.etcd.0.is_empty() || remembered(&file)?.as_deref() == Some(farm_id) {
        return Ok(());
    }
    let written = private::create_dir(state);
    let written = written.and_then(|()| private::write(&file, &format!("{farm_id}\n")));
    written.map_err(|error| {
        let shown = file.display();
        Failure::new(format!(
            "cannot write {shown}: {error}; make state_dir writable"
        ))
    })
}

fn remembered(file: &PathBuf) -> Result<Option<String>, Failure> {
    match std::fs::read_to_string(file) {
        Ok(id) => Ok(Some(id.trim().to_owned()).filter(|id| !id.is_empty())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Failure::new(format!(
            "cannot read {}: {error}",
            file.display()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_store_must_agree() {
        let url = "etcd=http://10.0.0.1:2379";
        let tls = "etcd=https://10.0.0.1:2379";
        let wrong: [(&[&str], &str); 6] = [
            (&[tls], "set etcd_ca"),
            (&[url, "etcd_ca=ca.pem"], "https://"),
            (&[tls, "etcd_ca=ca.pem", "etcd_key=k.pem"], "together"),
            (&[url, "etcd_user=heddle"], "together"),
            (&[url, "http_listen=0.0.0.0:6080"], "set peer_url"),
            (&[url, "peer_url=http://here"], "http://HOST:PORT"),
        ];
        for (assignments, words) in wrong {
            let error = check(&Settings::assigned(assignments)).expect_err("refused");
            assert!(error.text.contains(words), "{}", error.text);
        }
        check(&Settings::assigned(&[])).expect("alone");
        let right = Settings::assigned(&[
            "etcd=https://a:2379,https://b:2379/",
            "etcd_ca=ca.pem",
            "http_listen=0.0.0.0:6080",
            "peer_url=http://r1.example:6080/",
            "without_store=refuse",
        ]);
        check(&right).expect("it agrees");
        let membership = membership(&right).expect("told").expect("several");
        assert_eq!(membership.http, "r1.example:6080");
        assert_eq!(membership.name, "r1.example:6080");
        assert!(membership.refuses_without_store);
        let access = access(&right).expect("told").expect("etcd");
        assert_eq!(access.urls, ["https://a:2379", "https://b:2379"]);
    }

    #[test]
    fn only_plain_urls_of_other_machines_are_warned_of() {
        for clear in [
            "http://10.0.0.1:2379",
            "http://etcd.example:2379/",
            "http://[fe80::1]:2379",
        ] {
            assert!(crosses_in_clear(clear), "{clear}");
        }
        for closed in [
            "https://10.0.0.1:2379",
            "http://127.0.0.1:2379",
            "http://[::1]:2379/",
            "http://localhost:2379",
        ] {
            assert!(!crosses_in_clear(closed), "{closed}");
        }
    }

    #[test]
    fn urls_and_prefixes_are_checked() {
        let mut settings = Settings::default();
        for wrong in [
            "etcd=10.0.0.1:2379",
            "etcd=http://10.0.0.1",
            "etcd=http://10.0.0.1:2379/v3",
            "etcd=http://u:p@10.0.0.1:2379",
            "etcd=http://a:2379,https://b:2379",
            "etcd_prefix=heddle",
            "etcd_prefix=/",
            "etcd_prefix=/heddle/",
        ] {
            settings.assign(wrong).expect_err(wrong);
        }
    }
}
