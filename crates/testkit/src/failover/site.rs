//! The farm under proof, its servers by name and by their own addresses, and its state as the HTTP
//! doors of its routers tell it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

use ::farm::Engine;
use serde_json::Value;
use tempfile::TempDir;

use crate::client::{Client, Failure, Login};
use crate::farm::Farm;
use crate::holds_within;
use crate::servers::etcd::Etcd;
use crate::servers::network::{Host, Network};
use crate::servers::server::{Release, Server};

use super::relay::Relay;
use super::report::{Steps, steps};
use super::verdict::text;

/// The group under proof.
pub const GROUP: &str = "g1";

/// For an answer of the HTTP door on a loaded machine. A router that is stopped takes this long, too.
const HTTP_PATIENCE: Duration = Duration::from_secs(2);

/// From the end of a fault until every server follows again; a clone is within.
const SETTLE_PATIENCE: Duration = Duration::from_secs(120);

/// Room for one server of a farm on small disks.
const DISK: &str = "size=600M";

/// Settings of servers that Heddle does not start. A killed process loses no commit: what is only in its
/// own memory would be in its binary log, but not in its tables.
pub(super) const OWN: [(&str, &str); 3] = [
    ("read_only", "ON"),
    ("max_connections", "600"),
    ("innodb_flush_log_at_trx_commit", "2"),
];

/// One server of the farm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    pub name: String,
    /// Where clients reach it past Heddle and past everything.
    pub direct: SocketAddr,
    /// Where the farm reaches it.
    pub address: SocketAddr,
    pub pid: u32,
}

impl Node {
    /// Sends a signal by its name.
    pub fn signal(&self, name: &str) {
        crate::farm::send_signal(self.pid, name);
    }
}

/// A farm of one group: a primary and two replicas.
pub struct Site {
    /// One, or several that share a store.
    pub routers: Vec<Farm>,
    pub release: Release,
    /// The servers of a `heddle serve`; none for `heddle up`.
    pub behind: Vec<Behind>,
    /// File systems that were mounted for the servers.
    pub(super) disks: Vec<PathBuf>,
    /// What several routers share, and where its members run.
    pub store: Option<(Etcd, Vec<Arc<Host>>)>,
    /// The numbers of the servers' processes, in files named by address, for the fence command of
    /// several routers.
    pub(super) fence: Option<TempDir>,
    /// The network between hosts of their own, where this user may make one.
    pub network: Option<Arc<Network>>,
}

/// A server that `heddle serve` did not start.
pub struct Behind {
    pub server: Server,
    /// The network between Heddle and the server, where it is a relay.
    pub relay: Option<Relay>,
}

impl Behind {
    /// Where the farm reaches it.
    pub fn address(&self) -> SocketAddr {
        let relay = self.relay.as_ref().map(Relay::address);
        relay.unwrap_or_else(|| self.server.address())
    }

    /// Lets the fence command find the process.
    pub(super) fn tell_fence(&self, fence: &TempDir) {
        let file = fence.path().join(self.address().to_string());
        std::fs::write(file, self.server.pid().to_string()).expect("a directory takes files");
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for disk in &self.disks {
            // Lazily: the servers are killed when the farm is dropped, right after this.
            let _ = Command::new("umount").arg("-l").arg(disk).status();
        }
    }
}

impl Site {
    /// A `heddle up` that sees deaths as soon as users' own does, or none where there is no such server.
    pub fn start(release: Release) -> Option<Site> {
        let farm = Farm::start_on(release, &["--set", "detection_timeout_ms=100"])?;
        farm.json(&["group", "activate", GROUP]);
        Some(Site::of(release, vec![farm]))
    }

    /// These routers and nothing else yet.
    pub(super) fn of(release: Release, routers: Vec<Farm>) -> Site {
        Site {
            routers,
            release,
            behind: Vec::new(),
            disks: Vec::new(),
            store: None,
            fence: None,
            network: None,
        }
    }

    /// A `heddle up` whose servers have a small file system each; none, too, where this user may not
    /// mount one.
    pub fn on_small_disks(release: Release) -> Option<Site> {
        let mut disks = Vec::new();
        let mount = |dir: &std::path::Path| {
            for number in 1..=3 {
                let disk = dir.join("servers").join(format!("{GROUP}-{number}"));
                std::fs::create_dir_all(&disk).expect("a temporary directory takes directories");
                let mut command = Command::new("mount");
                command
                    .args(["-t", "tmpfs", "-o", DISK, "heddle-test"])
                    .arg(&disk);
                let output = command.output();
                if output.is_ok_and(|output| output.status.success()) {
                    disks.push(disk);
                }
            }
        };
        let farm = Farm::start_prepared(release, &[], mount)?;
        let mut site = Site::of(release, vec![farm]);
        site.disks = disks;
        if site.disks.len() < 3 {
            crate::skip(&"a full disk needs the right to mount file systems");
            return None;
        }
        Some(site)
    }

    /// A `heddle serve` with these settings, in front of servers whose network can be cut.
    ///
    /// # Panics
    /// When a command fails that makes the group.
    pub fn behind_relays(release: Release, settings: &[&str]) -> Option<Site> {
        let mut behind = Vec::new();
        for _ in 0..3 {
            let server = Server::start_with(release, &OWN)?;
            let relay = Some(Relay::start(server.address()));
            behind.push(Behind { server, relay });
        }
        let mut site = Site::of(release, vec![Farm::serve(settings)]);
        site.behind = behind;
        site.make_group();
        Some(site)
    }

    /// Makes the group of the servers that Heddle did not start.
    ///
    /// # Panics
    /// When a command fails.
    pub(super) fn make_group(&self) {
        let farm = &self.routers[0];
        farm.json(&["group", "create", GROUP]);
        for (number, behind) in self.behind.iter().enumerate() {
            farm.json(&["group", "add", GROUP, &behind.address().to_string()]);
            if number == 0 {
                let mut primary = behind.server.client();
                primary.run("CREATE USER 'heddle_replication'@'%'");
                primary.run("GRANT REPLICATION SLAVE ON *.* TO 'heddle_replication'@'%'");
            }
        }
        farm.json(&["group", "activate", GROUP]);
    }

    /// A connection as `root` through a router that can be reached.
    ///
    /// # Panics
    /// When there is none.
    pub fn client(&self) -> Client {
        let mut tried = self.routers.iter().map(|router| {
            Client::connect(router.sql, "root", "").map_err(|failure| failure.to_string())
        });
        let found = tried.find_map(Result::ok);
        found.expect("a router lets root in")
    }

    /// Runs a command by the first router that lets it succeed; else what the last one said.
    pub fn command(&self, words: &[&str]) -> Output {
        let mut answers = self.routers.iter().map(|router| router.command(words));
        let last = answers.next().expect("there is a router");
        if last.status.success() {
            return last;
        }
        answers.fold(
            last,
            |last, answer| if last.status.success() { last } else { answer },
        )
    }

    pub fn engine(&self) -> Engine {
        match self.release {
            Release::MySql80 | Release::MySqlNewer => Engine::MySql,
            Release::Installed | Release::MariaDb114 => Engine::MariaDb,
        }
    }

    /// The servers, in the order of their names.
    pub fn nodes(&self) -> Vec<Node> {
        let relayed = self.behind.iter().enumerate().map(|(number, behind)| Node {
            name: format!("{GROUP}-{}", number + 1),
            direct: behind.server.address(),
            address: behind.address(),
            pid: behind.server.pid(),
        });
        let members = self.routers[0].members().into_iter().map(|member| {
            let address = SocketAddr::from((Ipv4Addr::LOCALHOST, member.port));
            Node {
                name: member.name,
                direct: address,
                address,
                pid: member.pid,
            }
        });
        let mut nodes: Vec<Node> = relayed.chain(members).collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// Where clients reach each server past Heddle, in the order of their names.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes().iter().map(|node| node.direct).collect()
    }

    /// The place of the primary among [`Site::nodes`], as most routers have it that answer; `None`
    /// while there is none.
    pub fn primary(&self) -> Option<usize> {
        let views: Vec<usize> = self
            .routers
            .iter()
            .filter_map(|router| self.primary_at(router))
            .collect();
        let votes = |place: usize| views.iter().filter(|&&one| one == place).count();
        views.iter().copied().max_by_key(|&place| votes(place))
    }

    /// The same as one router has it.
    pub fn primary_at(&self, router: &Farm) -> Option<usize> {
        let servers = servers(router)?;
        let mut primaries = servers.iter().filter(|s| s["status"] == "primary");
        let (primary, None) = (primaries.next()?, primaries.next()) else {
            return None;
        };
        let nodes = self.nodes();
        nodes
            .iter()
            .position(|node| primary["address"] == node.address.to_string())
    }

    /// What keeps the group from being whole, in the eyes of every router: a primary that takes writes
    /// and all others following.
    pub fn unsettled(&self) -> Option<String> {
        let lacks = self
            .routers
            .iter()
            .enumerate()
            .find_map(|(number, router)| {
                let lack = lack(servers(router))?;
                Some(format!("router {number}: {lack}"))
            });
        if lacks.is_some() {
            return lacks;
        }
        let mut views = self.routers.iter().map(|router| self.primary_at(router));
        let first = views.next().flatten();
        if first.is_none() || views.any(|view| view != first) {
            return Some("the routers do not agree on the primary".to_owned());
        }
        // What the routers know may be older than a death.
        self.nodes().iter().find_map(|node| {
            let login = Login {
                patience: Duration::from_secs(2),
                ..Login::default()
            };
            let answer = Client::login(node.direct, &login);
            Some(format!("{}: {}", node.name, answer.err()?))
        })
    }

    /// Waits until the group is whole; else says what it lacks. Whatever died is started again, as
    /// its machine would.
    pub fn settle(&mut self) -> Result<(), String> {
        let mut lacking = None;
        let mut filled = Vec::new();
        let whole = holds_within(SETTLE_PATIENCE, || {
            // What was killed a moment ago may still be there at the first look.
            self.revive();
            self.fill_anew(&mut filled);
            lacking = self.unsettled();
            lacking.is_none()
        });
        match lacking {
            Some(lacking) if !whole => Err(format!(
                "after {SETTLE_PATIENCE:?} the group is not whole: {lacking}"
            )),
            _ => Ok(()),
        }
    }

    /// Starts what died: servers, members of the store, routers.
    pub fn revive(&mut self) {
        for behind in &mut self.behind {
            if !behind.server.is_running() {
                behind.server.restart();
                if let Some(fence) = &self.fence {
                    behind.tell_fence(fence);
                }
            }
        }
        if let Some((store, _)) = &mut self.store {
            for member in 0..store.members() {
                if !store.is_running(member) {
                    store.restart(member);
                }
            }
        }
        for router in &mut self.routers {
            if !router.is_running() {
                router.start_again();
            }
        }
    }

    /// What a `heddle serve` leaves to its operator: to drop what a lost primary holds and its group
    /// does not. Each server at most once in a wait.
    fn fill_anew(&self, filled: &mut Vec<String>) {
        if self.behind.is_empty() {
            return;
        }
        // What one router cannot reach another one may.
        for server in self.routers.iter().filter_map(servers).flatten() {
            let address = server["address"].as_str().unwrap_or_default();
            let is_back = server["status"] == "faulty" && server["health"]["alive"] == true;
            if is_back && !filled.iter().any(|one| one == address) {
                let output = self.command(&["server", "clone", GROUP, address]);
                // Refused while Heddle still brings it back by itself.
                if output.status.success() {
                    filled.push(address.to_owned());
                }
            }
        }
    }

    /// Waits until every server has what the primary has now; else says who lacks what.
    pub fn catch_up(&self) -> Result<(), String> {
        let primary = self.primary().ok_or("there is no primary")?;
        let (position, wait) = match self.engine() {
            Engine::MariaDb => ("SELECT @@gtid_binlog_pos", "MASTER_GTID_WAIT"),
            Engine::MySql => ("SELECT @@gtid_executed", "WAIT_FOR_EXECUTED_GTID_SET"),
        };
        let addresses = self.addresses();
        let ask = |address: SocketAddr, sql: &str| -> Result<String, String> {
            let answer = Client::connect(address, "root", "").and_then(|mut c| text(&mut c, sql));
            answer.map_err(|failure: Failure| format!("{address}: {failure}"))
        };
        let position = ask(addresses[primary], position)?;
        for (index, &address) in addresses.iter().enumerate() {
            if index == primary {
                continue;
            }
            let answer = ask(address, &format!("SELECT {wait}('{position}', 50)"))?;
            if answer != "0" {
                return Err(format!(
                    "server {index} does not reach {position}: {answer}"
                ));
            }
        }
        Ok(())
    }

    /// Where the disk of a server is mounted, by its place; `None` on the machine's own disk.
    pub fn disk(&self, node: usize) -> Option<&PathBuf> {
        self.disks.get(node)
    }

    /// The time of the group's latest event, to ask for those after it.
    pub fn latest_event(&self) -> String {
        let events = self.events_after("");
        let latest = events.last().and_then(|event| event["when"].as_str());
        latest.unwrap_or_default().to_owned()
    }

    /// The routers' events of the group after this time, which is another event's, by their times;
    /// each says which `router` told it.
    pub fn events_after(&self, when: &str) -> Vec<Value> {
        let mut all = Vec::new();
        for (number, router) in self.routers.iter().enumerate() {
            let output = router.command(&["group", "events", GROUP, "--json"]);
            let events: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap_or_default();
            for mut event in events {
                event["router"] = number.into();
                all.push(event);
            }
        }
        all.retain(|event| event["when"].as_str().is_some_and(|at| at > when));
        all.sort_by_key(|event| event["when"].as_str().map(str::to_owned));
        all
    }

    /// What Heddle says of the steps of the changes of the primary after this time.
    pub fn steps_after(&self, when: &str) -> Vec<Steps> {
        let events = self.events_after(when).into_iter();
        let timed = events.filter(|event| event["event"] == "failover_timed");
        timed
            .filter_map(|event| steps(event["detail"].as_str()?))
            .collect()
    }

    /// The servers that were primary after this time, in their order, as places among the nodes.
    pub fn terms_after(&self, first: usize, when: &str) -> Vec<usize> {
        let nodes = self.nodes();
        let mut terms = vec![first];
        for event in self.events_after(when) {
            let address = event["address"].as_str().and_then(|text| text.parse().ok());
            let place = nodes.iter().position(|one| Some(one.address) == address);
            if event["event"] == "primary_changed"
                && let Some(place) = place
            {
                terms.push(place);
            }
        }
        terms.extend(self.primary());
        terms.dedup();
        terms
    }
}

/// The servers of the group as `/v1/farm` shows them; `None` when the router does not answer or the
/// group is between two primaries.
fn servers(router: &Farm) -> Option<Vec<Value>> {
    let farm = get(router, "/v1/farm")?;
    let group = farm["groups"]
        .as_array()?
        .iter()
        .find(|g| g["name"] == GROUP)?;
    if group["paused"] == true {
        return None;
    }
    Some(group["servers"].as_array()?.clone())
}

/// What the HTTP door of a router answers; `None` when it does not.
pub(super) fn get(router: &Farm, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect_timeout(&router.http, HTTP_PATIENCE).ok()?;
    stream.set_read_timeout(Some(HTTP_PATIENCE)).ok()?;
    let host = router.http.ip();
    let token = std::fs::read_to_string(router.dir().join("monitor-token")).ok()?;
    let token = token.trim();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()
}

/// What a group lacks with these servers.
fn lack(servers: Option<Vec<Value>>) -> Option<String> {
    let Some(servers) = servers else {
        return Some("the group is paused or the router does not answer".to_owned());
    };
    let whole = |server: &Value| {
        let health = &server["health"];
        health["alive"] == true
            && match server["status"].as_str() {
                Some("primary") => health["read_only"] == false,
                Some("replica") => health["io_running"] == true && health["sql_running"] == true,
                _ => false,
            }
    };
    let primaries = servers.iter().filter(|s| s["status"] == "primary").count();
    match servers.iter().find(|server| !whole(server)) {
        Some(server) => Some(server.to_string()),
        None => (primaries != 1).then(|| format!("{primaries} primaries")),
    }
}
