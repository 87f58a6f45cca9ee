//! A farm of several routers: their shared store, a host for each process, and who leads.

use std::sync::Arc;

use tempfile::TempDir;

use crate::farm::Farm;
use crate::servers::etcd::{Etcd, Options};
use crate::servers::network::{Host, Network};
use crate::servers::server::{Release, Server};

use super::site::{Behind, OWN, Site};

/// Routers, members of the store, servers.
const EACH: usize = 3;

/// How many there are of each.
struct Counts {
    members: usize,
    servers: usize,
    routers: usize,
}

/// Publications of one primary that are further apart are two changes, or one that a router which was
/// cut off heard of late.
const APART_MS: u64 = 1000;

/// Who leads, in the store.
const LEADER: &str = "/heddle/leader";

impl Site {
    /// One router with a store of its own, in front of three servers.
    ///
    /// # Panics
    /// When something does not start.
    pub fn with_one_router(release: Release, settings: &[&str]) -> Option<Site> {
        let mut site = Site::of(release, vec![Farm::serve(settings)]);
        for _ in 0..EACH {
            let server = Server::start_with(release, &OWN)?;
            site.behind.push(Behind {
                server,
                relay: None,
            });
        }
        site.make_group();
        Some(site)
    }

    /// Three routers of one farm on an etcd of three members, in front of three servers: each on a host
    /// of its own in this network, whose hub the caller is in, else all on this machine's loopback.
    /// `None` says that this machine has not what it takes.
    ///
    /// # Panics
    /// When something does not start.
    pub fn with_routers(
        release: Release,
        network: Option<Arc<Network>>,
        settings: &[&str],
    ) -> Option<Site> {
        let counts = Counts {
            members: EACH,
            servers: EACH,
            routers: EACH,
        };
        Site::with(release, network, settings, &counts)
    }

    /// Two routers of one farm on an etcd of one member, in front of three servers, all on this machine's
    /// loopback.
    ///
    /// # Panics
    /// When something does not start.
    pub fn with_two_routers(release: Release, settings: &[&str]) -> Option<Site> {
        let counts = Counts {
            members: 1,
            servers: EACH,
            routers: 2,
        };
        Site::with(release, None, settings, &counts)
    }

    fn with(
        release: Release,
        network: Option<Arc<Network>>,
        settings: &[&str],
        counts: &Counts,
    ) -> Option<Site> {
        let host = || match &network {
            Some(network) => network.host(),
            None => Host::loopback(),
        };
        let mut hosts = std::iter::repeat_with(host);
        let mut some = |count| -> Vec<Arc<Host>> { hosts.by_ref().take(count).collect() };
        let members = some(counts.members);
        let (servers, routers) = (some(counts.servers), some(counts.routers));
        let store = Etcd::start_with(Options {
            hosts: members.iter().map(|host| host.ip.to_string()).collect(),
            namespaces: members.iter().filter_map(|host| host.namespace()).collect(),
            ..Options::default()
        })?;
        let mut behind = Vec::new();
        for host in &servers {
            let server = Server::start_on(host, release, &OWN)?;
            let relay = None;
            behind.push(Behind { server, relay });
        }
        let fence = tempfile::Builder::new().prefix("heddle-fence-").tempdir();
        let fence = fence.expect("a temporary directory");
        behind.iter().for_each(|one| one.tell_fence(&fence));
        let command = format!("fence_command={}", fence_command(&fence));
        let etcd = format!("etcd={}", store.urls());
        let serve = |(number, host): (usize, &Arc<Host>)| {
            let name = format!("router_name=r{}", number + 1);
            let own = [etcd.as_str(), name.as_str(), command.as_str()];
            Farm::serve_on(Arc::clone(host), &[&own, settings].concat())
        };
        let mut site = Site::of(release, routers.iter().enumerate().map(serve).collect());
        site.behind = behind;
        site.store = Some((store, members));
        site.network = network;
        site.fence = Some(fence);
        site.make_group();
        Some(site)
    }

    /// Which router leads, as the store has it; `None` while none does or it does not answer.
    pub fn leader(&self) -> Option<usize> {
        let (store, _) = self.store.as_ref()?;
        let text = store.ctl(&["get", LEADER, "--print-value-only"]).ok()?;
        let row: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
        let key = format!("/heddle/router/{:03}", row["slot"].as_u64()?);
        let text = store.ctl(&["get", &key, "--print-value-only"]).ok()?;
        let row: serde_json::Value = serde_json::from_str(text.trim()).ok()?;
        let name = row["name"].as_str()?;
        name.strip_prefix('r')?
            .parse::<usize>()
            .ok()?
            .checked_sub(1)
    }

    /// A router that does not lead now, by a number that is drawn.
    pub fn follower(&self, drawn: u64) -> Option<usize> {
        let leader = self.leader()?;
        let mut others = (0..self.routers.len()).filter(|&one| one != leader);
        let count = self.routers.len() as u64 - 1;
        others.nth(usize::try_from(drawn % count).ok()?)
    }

    /// How long each change of the primary after this time took from the first router that published
    /// it to the last, in milliseconds. A router that could not know of it for longer than that is not
    /// waited for.
    pub fn known_ms(&self, after: &str) -> Vec<u64> {
        if self.routers.len() < 2 {
            return Vec::new();
        }
        let changes = self.events_after(after).into_iter();
        let changes = changes.filter(|event| event["event"] == "primary_changed");
        let mut all: Vec<(String, u64, u64)> = Vec::new();
        for event in changes {
            let address = event["address"].as_str().unwrap_or_default().to_owned();
            let at = event["when"]
                .as_str()
                .and_then(of_day_ms)
                .unwrap_or_default();
            match all.last_mut() {
                Some((last, from, to)) if *last == address && at < *from + APART_MS => *to = at,
                _ => all.push((address, at, at)),
            }
        }
        // At midnight the day begins anew.
        all.iter()
            .map(|(_, from, to)| to.saturating_sub(*from))
            .collect()
    }
}

/// Kills the server's process from wherever it is run, as a power switch would: a server that is cut
/// off and left alive may answer its own clients, past the routers, when its connections are ended.
fn fence_command(fence: &TempDir) -> String {
    format!(
        "pid=$(cat \"{}/$HEDDLE_ADDRESS\") || exit 1; kill -9 $pid 2>/dev/null; \
         while grep -qs '^State:.[^ZX]' /proc/$pid/status; do sleep 0.01; done",
        fence.path().display()
    )
}

/// A time such as `2026-02-01T12:30:00.123Z` as milliseconds of its day.
fn of_day_ms(when: &str) -> Option<u64> {
    let time = when.split_once('T')?.1.strip_suffix('Z')?;
    let mut parts = time.split([':', '.']).map(str::parse::<u64>);
    let mut next = || parts.next()?.ok();
    Some(((next()? * 60 + next()?) * 60 + next()?) * 1000 + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_events() {
        assert_eq!(of_day_ms("2026-02-01T00:01:02.003Z"), Some(62_003));
        assert_eq!(of_day_ms("yesterday"), None);
    }
}
