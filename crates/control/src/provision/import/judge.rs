//! What a replication setup that somebody else made is, by what its servers say: who leads it, who follows,
//! and what speaks against taking it over as it is.
//!
//! Decides only: no server is asked here.

use std::collections::BTreeSet;

use engine::topology::{self, Place, Upstream};
use engine::{Thread, Version};
use serde_json::Value;

/// A heartbeat that is younger than this was written by a router that lives.
const ALIVE_S: u64 = 60;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// What is there.
    Found,
    /// What `--apply` does.
    Change,
    /// What is weaker than it could be.
    Warning,
    /// What has to be mended before.
    Error,
    /// What was done.
    Done,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Found => "found",
            Kind::Change => "change",
            Kind::Warning => "warning",
            Kind::Error => "error",
            Kind::Done => "done",
        }
    }
}

/// One row of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) kind: Kind,
    pub(super) server: String,
    pub(super) text: String,
    /// The statement that mends or makes it, to be run on the server, or what to write into its configuration;
    /// empty where none does.
    pub(super) cure: String,
}

impl Finding {
    pub(super) fn new(kind: Kind, server: &str, text: impl Into<String>) -> Finding {
        Finding {
            kind,
            server: server.to_owned(),
            text: text.into(),
            cure: String::new(),
        }
    }

    pub(super) fn by(self, cure: impl Into<String>) -> Finding {
        Finding {
            cure: cure.into(),
            ..self
        }
    }

    pub(super) fn cells(&self) -> Vec<Value> {
        let Finding {
            server, text, cure, ..
        } = self;
        vec![
            server.as_str().into(),
            self.kind.name().into(),
            text.as_str().into(),
            cure.as_str().into(),
        ]
    }
}

/// A server that the operator named, and what it says of itself.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) place: Place,
}

impl Named {
    pub(super) fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// True when this upstream of another server is this one. A server's UUID is its own, a `server_id` need
    /// not be, so the id counts only while the server is known to be followed by the other one.
    fn is(&self, upstream: &Upstream, follower_id: u64) -> bool {
        let seen = &self.place.observation;
        if let (Some(theirs), Some(own)) = (&upstream.uuid, &seen.uuid) {
            return theirs.eq_ignore_ascii_case(own);
        }
        let replica = &upstream.replica;
        if (replica.primary_host.as_str(), replica.primary_port) == (&self.host, self.port) {
            return true;
        }
        let followers = self.place.followers.iter().flatten();
        let mut ids = followers.map(|follower| follower.server_id);
        upstream.server_id == seen.server_id && ids.any(|id| id == follower_id)
    }
}

/// Which of the named servers lead to which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// This one follows nobody, and the asked one follows it or is it.
    Primary(usize),
    /// Nobody can be made out; why.
    None(Finding),
}

/// Walks from the server that the operator asked about to the one that follows nobody.
pub(super) fn head(named: &[Named]) -> Head {
    let mut at = 0;
    let mut passed = BTreeSet::from([0]);
    loop {
        let server = &named[at];
        let id = server.place.observation.server_id;
        let Some(upstream) = server.place.follows.first() else {
            return Head::Primary(at);
        };
        let Some(next) = named.iter().position(|it| it.is(upstream, id)) else {
            let replica = &upstream.replica;
            let primary = format!("{}:{}", replica.primary_host, replica.primary_port);
            return Head::None(Finding::new(
                Kind::Error,
                &server.address(),
                format!(
                    "it follows {primary}, where Heddle has not logged in, as nobody named it; name it in \
                     --servers (as {primary}, or as it is reached from this router)"
                ),
            ));
        };
        if !passed.insert(next) {
            let circle: Vec<_> = passed.iter().map(|&at| named[at].address()).collect();
            let (_, forget) = topology::start_and_forget(&server.place.version);
            return Head::None(
                Finding::new(
                    Kind::Error,
                    &named[next].address(),
                    format!(
                        "the servers {} follow each other in a circle, and a group has one primary; have \
                         the one that is to take the writes follow nobody",
                        circle.join(", ")
                    ),
                )
                .by(forget),
            );
        }
        at = next;
    }
}

/// What speaks against the setup as a group, and what is to be said of it. `without` are the `server_id`s of
/// replicas that stay outside; `farm` is the id of this farm.
pub(super) fn judge(
    named: &[Named],
    primary: usize,
    without: &BTreeSet<u64>,
    farm: &str,
) -> Vec<Finding> {
    let mut all = Vec::new();
    for (at, server) in named.iter().enumerate() {
        alone(server, farm, &mut all);
        twins(named, at, &mut all);
        if at == primary {
            leads(server, &mut all);
        } else {
            follows(server, &named[primary], &mut all);
        }
        followers(named, at, at == primary, without, &mut all);
    }
    all
}

/// What a server says of itself alone.
fn alone(server: &Named, farm: &str, all: &mut Vec<Finding>) {
    let (address, place) = (server.address(), &server.place);
    let mut error = |text: String| all.push(Finding::new(Kind::Error, &address, text));
    if let Some(objection) = place.version.objection() {
        error(objection);
    }
    if let Some(cluster) = place.cluster {
        error(format!(
            "it is a member of {cluster}, whose members take each other's writes; for Galera make a group \
             by `group create GROUP_ID --kind=galera` and `group add`"
        ));
    }
    if place.observation.server_id == 0 {
        error(
            "its server_id is 0; give it one of its own in its configuration and restart it"
                .to_owned(),
        );
    }
    for (router, age_s) in &place.heartbeats {
        let of = router.split(':').next().unwrap_or_default();
        if of == farm {
            continue;
        }
        let (kind, text) = match *age_s < ALIVE_S {
            true => (
                Kind::Error,
                format!(
                    "it belongs to another farm: a router of farm {of} wrote its heartbeat {age_s} s ago; \
                     take the server out of that farm first (`group remove` there)"
                ),
            ),
            false => (
                Kind::Warning,
                format!(
                    "it belonged to farm {of}, whose router wrote its last heartbeat {age_s} s ago; see to \
                     it that no router of that farm comes back"
                ),
            ),
        };
        let forget = format!(
            "DELETE FROM heddle.heartbeat WHERE router = '{}'",
            router.replace('\'', "''")
        );
        let forget = if kind == Kind::Error {
            String::new()
        } else {
            forget
        };
        all.push(Finding::new(kind, &address, text).by(forget));
    }
}

/// Two names of one server, or two servers that replication takes for one.
fn twins(named: &[Named], at: usize, all: &mut Vec<Finding>) {
    let seen = &named[at].place.observation;
    for other in &named[..at] {
        let others = &other.place.observation;
        let text = if seen.uuid.is_some() && seen.uuid == others.uuid {
            format!(
                "it has the UUID of {}: it is the same server under another name, or a copy of its data; name \
                 it once, or remove auto.cnf from the copy's data directory and restart it",
                other.address()
            )
        } else if seen.server_id == others.server_id {
            format!(
                "it has the server_id {} of {}: it is the same server under another name, or replicas would \
                 ignore its events; name it once, or give it another server_id and restart it",
                seen.server_id,
                other.address()
            )
        } else {
            continue;
        };
        all.push(Finding::new(Kind::Error, &named[at].address(), text));
    }
}

/// The server at the head.
fn leads(server: &Named, all: &mut Vec<Finding>) {
    let address = server.address();
    all.push(Finding::new(
        Kind::Found,
        &address,
        format!(
            "primary: it follows nobody and runs {}",
            server.place.version
        ),
    ));
    if server.place.observation.read_only {
        all.push(
            Finding::new(
                Kind::Error,
                &address,
                "it is read-only, so nobody can write to it and it can be no group's primary",
            )
            .by("SET GLOBAL read_only=0"),
        );
    }
}

/// A server that should follow the head.
fn follows(server: &Named, primary: &Named, all: &mut Vec<Finding>) {
    let (address, leader) = (server.address(), primary.address());
    let place = &server.place;
    let error = |text: String| Finding::new(Kind::Error, &address, text);
    let (_, forget) = topology::start_and_forget(&place.version);
    if engines_differ(&place.version, &primary.place.version, &address, all) {
        return;
    }
    let upstream = match place.follows.as_slice() {
        [] => {
            let text = format!(
                "it follows nobody, so it is no part of the setup of {leader}; leave it out of --servers, \
                 and have `group add` take it afterwards"
            );
            return all.push(error(text));
        }
        [upstream] => upstream,
        several => {
            let names = several
                .iter()
                .map(|it| format!("{}:{}", it.replica.primary_host, it.replica.primary_port));
            let names: Vec<_> = names.collect();
            let text = format!(
                "it follows several servers ({}), and a server of a group follows its primary only; have it \
                 forget the others",
                names.join(", ")
            );
            return all.push(error(text).by(forget));
        }
    };
    let replica = &upstream.replica;
    let theirs = format!("{}:{}", replica.primary_host, replica.primary_port);
    if !primary.is(upstream, place.observation.server_id) {
        let text = format!(
            "it follows {theirs} and not the primary {leader}: a chain, or another setup; have it follow the \
             primary, or leave it out of --servers"
        );
        return all.push(error(text));
    }
    all.push(Finding::new(
        Kind::Found,
        &address,
        format!("replica of {theirs}: it runs {}", place.version),
    ));
    keeps_up(upstream, &place.version, &address, all);
}

/// How a replica of the head replicates: by which connection, whether it runs, what it leaves out, how late.
fn keeps_up(upstream: &Upstream, version: &Version, address: &str, all: &mut Vec<Finding>) {
    let replica = &upstream.replica;
    let error = |text: String| Finding::new(Kind::Error, address, text);
    let (start, forget) = topology::start_and_forget(version);
    if !upstream.channel.is_empty() {
        let text = format!(
            "it follows by the named connection {:?}, which Heddle's statements do not name; have it forget \
             that one and follow by the one without a name",
            upstream.channel
        );
        all.push(error(text).by(forget));
    }
    if (replica.io, replica.sql) != (Thread::Running, Thread::Running) {
        let said = replica.io_error.iter().chain(&replica.sql_error).next();
        let said = said.map_or(String::new(), |error| format!(": {}", error.text));
        all.push(error(format!("its replication does not run{said}")).by(start));
    }
    for filter in &upstream.filters {
        let text = format!(
            "it does not take over everything that it receives ({filter}), so it cannot be read or promoted \
             like its primary; leave it out, or take the filter out of its configuration, restart it and fill \
             it anew"
        );
        all.push(error(text));
    }
    if upstream.delay_s > 0 {
        let text = format!(
            "it holds back what it received for {} s; it serves reads that late, and a failover to it waits",
            upstream.delay_s
        );
        all.push(Finding::new(Kind::Warning, address, text));
    }
}

/// Adds what differs in a way that no replication bears.
fn engines_differ(own: &Version, leaders: &Version, address: &str, all: &mut Vec<Finding>) -> bool {
    if own.engine != leaders.engine {
        let text = format!(
            "it runs {} and the primary {}: as their GTIDs differ, neither could follow the other after a \
             failover; put it into a group of its own",
            own.engine.name(),
            leaders.engine.name()
        );
        all.push(Finding::new(Kind::Error, address, text));
        return true;
    }
    if leaders.release() > own.release() {
        let text = format!(
            "it runs {own}, older than the primary's {leaders}, whose statements it may not understand; \
             upgrade it"
        );
        all.push(Finding::new(Kind::Error, address, text));
    }
    false
}

/// Those who follow a server and were not named.
fn followers(
    named: &[Named],
    at: usize,
    is_primary: bool,
    without: &BTreeSet<u64>,
    all: &mut Vec<Finding>,
) {
    let server = &named[at];
    let address = server.address();
    let Some(followers) = &server.place.followers else {
        let privilege = match server.place.version.engine {
            farm::Engine::MariaDb => "REPLICATION MASTER ADMIN",
            farm::Engine::MySql => "REPLICATION SLAVE",
        };
        let text = format!(
            "Heddle's account may not ask who follows it, so a replica could be left behind unseen; it needs \
             the privilege {privilege} for this"
        );
        let grant = format!("GRANT {privilege} ON *.* TO {}", server.place.account);
        return all.push(Finding::new(Kind::Error, &address, text).by(grant));
    };
    for follower in followers {
        let id = follower.server_id;
        let is_named = |it: &Named| it.place.observation.server_id == id;
        let known = named.iter().any(is_named);
        if without.contains(&id) || (known && is_primary) {
            continue;
        }
        let text = match (is_primary, follower.address()) {
            (false, _) => format!(
                "the server with the server_id {id} follows it: a chain; have that one follow the primary, or \
                 say --without={id} to leave it outside of the group"
            ),
            (true, Some(found)) => format!(
                "it is followed by {found} (server_id {id}), where Heddle has not logged in, as nobody named \
                 it; name it in --servers, or say --without={id} to leave it outside of the group"
            ),
            (true, None) => format!(
                "it is followed by a server that does not say where it is (server_id {id}, port {}); its \
                 binary log is read by {}; name it in --servers, or say --without={id}",
                follower.port,
                server.place.readers.join(", ")
            ),
        };
        all.push(Finding::new(Kind::Error, &address, text));
    }
    if server.place.readers.len() > followers.len() {
        let text = format!(
            "more clients read its binary log ({}) than replicas are registered: programs, or replicas that \
             hide; see to it that none is left behind at a failover",
            server.place.readers.join(", ")
        );
        all.push(Finding::new(Kind::Warning, &address, text));
    }
}

#[cfg(test)]
mod tests;
