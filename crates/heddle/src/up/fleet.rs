//! The servers of `heddle up`: which there are, starting or adopting all at once, stopping all.

use std::collections::BTreeSet;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use farm::{Engine, Snapshot};
use mysqld::{Binary, Options, Server};
use serde_json::{Value, json};

use super::place::{Place, replace};
use super::supervisor::Addresses;
use crate::failure::Failure;
use crate::printing::say;
use crate::settings::Listens;

/// From the start of a process to its first greeting; crash recovery of a big farm takes its time.
pub const READY_PATIENCE: Duration = Duration::from_secs(120);

/// A server that runs already answers at once, or it hangs.
const ADOPT_PATIENCE: Duration = Duration::from_secs(5);

/// For an orderly shutdown; after that the server is killed, which costs a recovery only.
pub const STOP_PATIENCE: Duration = Duration::from_secs(60);

/// Ports for servers, below those that the kernel hands out for outgoing connections.
const PORTS: std::ops::Range<u16> = 21_000..32_000;

/// What outlives a restart of one server. Kept in its `server.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub name: String,
    pub group: String,
    pub port: u16,
    pub server_id: u32,
    /// Whose data files these are; the other engine cannot read them.
    pub engine: Engine,
}

/// A server with its identity and its process.
pub struct Member {
    pub identity: Identity,
    pub server: Server,
}

/// How servers are started; the same for all of a farm.
#[derive(Clone)]
pub struct Recipe {
    pub binary: Binary,
    pub template: PathBuf,
}

/// The servers that the directory has and those that the flags ask for, in order of group and number.
///
/// # Errors
/// The directory cannot be written, it holds another engine's servers, or a server's file is damaged.
pub fn plan(
    place: &Place,
    engine: Engine,
    groups: u32,
    replicas: u32,
) -> Result<Vec<Identity>, Failure> {
    let mut identities = recorded(place)?;
    if let Some(other) = identities.iter().find(|identity| identity.engine != engine) {
        let (dir, holds) = (place.dir.display(), other.engine.name());
        return Err(Failure::new(format!(
            "{dir} holds {holds} servers, whose data {} cannot read; start it with --engine {holds}, \
             or choose another directory with --data DIR",
            engine.name()
        )));
    }
    let mut taken: BTreeSet<u16> = identities.iter().map(|identity| identity.port).collect();
    for group in 1..=groups {
        for number in 1..=replicas + 1 {
            let name = format!("g{group}-{number}");
            if identities.iter().any(|identity| identity.name == name) {
                continue;
            }
            let port = free_port(&taken)?;
            taken.insert(port);
            let server_id = group * 100 + number;
            let identity = Identity {
                name,
                group: format!("g{group}"),
                port,
                server_id,
                engine,
            };
            record(place, &identity)?;
            identities.push(identity);
        }
    }
    identities.sort_by_key(|identity| identity.server_id);
    Ok(identities)
}

fn recorded(place: &Place) -> Result<Vec<Identity>, Failure> {
    let Ok(entries) = fs::read_dir(place.dir.join("servers")) else {
        return Ok(Vec::new());
    };
    let mut identities = Vec::new();
    for entry in entries.flatten() {
        let path = entry.path().join("server.json");
        let Ok(text) = fs::read_to_string(&path) else {
            continue; // A directory whose server was never planned to its end holds no data.
        };
        let identity = identity(&text).ok_or_else(|| {
            let path = path.display();
            Failure::new(format!(
                "{path} is damaged; write name, group, port, server_id and engine into it"
            ))
        })?;
        identities.push(identity);
    }
    Ok(identities)
}

fn identity(text: &str) -> Option<Identity> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(Identity {
        name: value["name"].as_str()?.to_owned(),
        group: value["group"].as_str()?.to_owned(),
        port: u16::try_from(value["port"].as_u64()?).ok()?,
        server_id: u32::try_from(value["server_id"].as_u64()?).ok()?,
        engine: match value["engine"].as_str()? {
            "mysql" => Engine::MySql,
            "mariadb" => Engine::MariaDb,
            _ => return None,
        },
    })
}

fn record(place: &Place, identity: &Identity) -> Result<(), Failure> {
    let dir = place.server(&identity.name);
    fs::create_dir_all(&dir)
        .map_err(|error| Failure::new(format!("cannot make {}: {error}", dir.display())))?;
    let Identity {
        name,
        group,
        port,
        server_id,
        engine,
    } = identity;
    let engine = engine.name();
    let value = json!({
        "name": name, "group": group, "port": port, "server_id": server_id, "engine": engine,
    });
    replace(&dir.join("server.json"), &format!("{value}\n"))
}

/// A port for one more server.
///
/// # Errors
/// There is none.
pub fn another_port(all: &[Identity]) -> Result<u16, Failure> {
    free_port(&all.iter().map(|identity| identity.port).collect())
}

/// A port that nothing listens on and that is not planned for another server. The search starts at a
/// place that depends on the process, so that farms which start side by side rarely meet.
fn free_port(taken: &BTreeSet<u16>) -> Result<u16, Failure> {
    let count = PORTS.len();
    let start = std::process::id() as usize * 37 % count;
    let ports = (0..count).map(|step| PORTS.start + ((start + step) % count) as u16);
    ports
        .filter(|port| !taken.contains(port))
        .find(|&port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok())
        .ok_or_else(|| Failure::new("no free port between 21000 and 32000 on 127.0.0.1"))
}

/// The server's configuration. Crash recovery of the recorded primary keeps commits that no replica
/// acknowledged where commits may go on without one: in groups of one or two servers.
pub fn options(
    place: &Place,
    identity: &Identity,
    all: &[Identity],
    snapshot: &Snapshot,
) -> Options {
    let Identity {
        name,
        group,
        port,
        server_id,
        ..
    } = identity;
    let mut options = Options::new(name, &place.server(name), *port, *server_id);
    options.gtid_domain = server_id / 100;
    let servers = all.iter().filter(|other| other.group == *group).count();
    let primary = snapshot
        .group(group)
        .and_then(|group| group.primary().map(|p| p.port == *port));
    options.keeps_unacknowledged = servers == 1 || (servers == 2 && primary.unwrap_or(false));
    options
}

/// Starts every server that does not run yet, all at once, and waits until each answers.
///
/// # Errors
/// The first server's that does not come up; the others that were started are stopped again.
pub fn start(recipe: &Recipe, all: Vec<(Identity, Options)>) -> Result<Vec<Member>, Failure> {
    let threads: Vec<_> = all
        .into_iter()
        .map(|(identity, options)| {
            let recipe = recipe.clone();
            thread::spawn(move || bring_up(&recipe, identity, options))
        })
        .collect();
    let mut members = Vec::new();
    let mut failure = None;
    for thread in threads {
        match thread.join() {
            Ok(Ok(member)) => members.push(member),
            Ok(Err(error)) => failure = failure.or(Some(Failure::from(error))),
            Err(_) => failure = failure.or(Some(Failure::new("a starting thread panicked"))),
        }
    }
    match failure {
        None => Ok(members),
        Some(failure) => {
            stop(members);
            Err(failure)
        }
    }
}

/// Adopts or starts one server.
fn bring_up(
    recipe: &Recipe,
    identity: Identity,
    options: Options,
) -> Result<Member, mysqld::Error> {
    if let Some(mut server) = Server::adopt(options.clone()) {
        // One that was stopped (SIGSTOP) together with the last router runs on.
        server.signal(mysqld::Signal::CONT);
        if server.wait_ready(ADOPT_PATIENCE).is_ok() {
            say(format!(
                "{} runs already (pid {})",
                identity.name,
                server.pid()
            ));
            return Ok(Member { identity, server });
        }
        server.kill()?;
    }
    let server = launch(recipe, options)?;
    let (name, port, pid) = (&identity.name, identity.port, server.pid());
    let engine = recipe.binary.engine.name();
    say(format!(
        "{name} is up: {engine} {} on 127.0.0.1:{port} (pid {pid})",
        recipe.binary.version
    ));
    Ok(Member { identity, server })
}

/// Starts one server and waits until it answers; one that does not is ended again. One that cannot cut
/// its log starts with all of it: it is found out when it is to follow, and filled anew.
///
/// # Errors
/// Those of `mysqld`.
pub fn launch(recipe: &Recipe, options: Options) -> Result<Server, mysqld::Error> {
    match launch_once(recipe, options.clone()) {
        Err(error) if error.is_uncut_log() && !options.keeps_unacknowledged => {
            say(format!(
                "{} cannot take from its binary log what nobody acknowledged: it starts with it",
                options.name
            ));
            let keeps_unacknowledged = true;
            let options = Options {
                keeps_unacknowledged,
                ..options
            };
            launch_once(recipe, options)
        }
        other => other,
    }
}

fn launch_once(recipe: &Recipe, options: Options) -> Result<Server, mysqld::Error> {
    let mut server = Server::start(&recipe.binary, &recipe.template, options)?;
    if let Err(error) = server.wait_ready(READY_PATIENCE) {
        server.kill()?;
        return Err(error);
    }
    Ok(server)
}

/// Shuts all servers down side by side.
pub fn stop(members: Vec<Member>) {
    let threads: Vec<_> = members
        .into_iter()
        .map(|mut member| {
            thread::spawn(move || {
                if let Err(error) = member.server.stop(STOP_PATIENCE) {
                    crate::printing::complain(&error.to_string());
                }
            })
        })
        .collect();
    for thread in threads {
        let _ = thread.join();
    }
}

/// The text of `farm.json`.
pub fn describe(
    addresses: Addresses,
    servers: &[(Identity, u32)],
    scratch: Option<(u16, u32)>,
    place: &Place,
    binary: &Binary,
) -> String {
    let shown = |address: Option<SocketAddr>| address.map(|address| address.to_string());
    let socket = |of: &Listens| of.socket.as_ref().map(|path| path.display().to_string());
    let (sql, sql_socket) = (shown(addresses.sql.tcp), socket(&addresses.sql));
    let (kv, kv_socket) = (shown(addresses.kv.tcp), socket(&addresses.kv));
    let (http, fabric) = (addresses.http.to_string(), shown(addresses.fabric));
    let servers: Vec<Value> = servers
        .iter()
        .map(|(identity, pid)| {
            let Identity {
                name,
                group,
                port,
                server_id,
                ..
            } = identity;
            let options = Options::new(name, &place.server(name), *port, *server_id);
            json!({
                "name": name,
                "group": group,
                "address": format!("127.0.0.1:{port}"),
                "port": port,
                "socket": options.socket().display().to_string(),
                "pid": pid,
                "engine": binary.engine.name(),
                "version": binary.version,
            })
        })
        .collect();
    let scratch = scratch.map(
        |(port, pid)| json!({"address": format!("127.0.0.1:{port}"), "port": port, "pid": pid}),
    );
    let farm = json!({"sql": sql, "sql_socket": sql_socket, "kv": kv, "kv_socket": kv_socket, "http": http,
        "fabric": fabric, "servers": servers, "scratch": scratch});
    format!("{farm:#}\n")
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn place() -> (tempfile::TempDir, Place) {
        let home = tempfile::tempdir().expect("a temporary directory");
        let place = Place::open(home.path()).expect("writable");
        (home, place)
    }

    #[test]
    fn a_plan_is_kept_and_only_grows() {
        let (_home, place) = place();
        let first = plan(&place, Engine::MariaDb, 1, 1).expect("planned");
        assert_eq!(
            first.iter().map(|i| i.name.as_str()).collect::<Vec<_>>(),
            ["g1-1", "g1-2"]
        );
        assert_ne!(first[0].port, first[1].port);
        assert_eq!(plan(&place, Engine::MariaDb, 1, 1).expect("read"), first);
        let more = plan(&place, Engine::MariaDb, 2, 0).expect("planned");
        assert_eq!(more[..2], first[..], "servers with data are never dropped");
        assert_eq!(more[2].name, "g2-1");
        assert_eq!(more[2].server_id, 201);
    }

    #[test]
    fn the_other_engine_s_data_is_refused() {
        let (_home, place) = place();
        plan(&place, Engine::MySql, 1, 0).expect("planned");
        let failure = plan(&place, Engine::MariaDb, 1, 0).expect_err("MySQL's data");
        assert!(failure.text.contains("--engine mysql"), "{failure:?}");
    }

    #[test]
    fn a_damaged_record_is_named() {
        let (_home, place) = place();
        plan(&place, Engine::MariaDb, 1, 0).expect("planned");
        fs::write(place.server("g1-1").join("server.json"), "{").expect("written");
        let failure = plan(&place, Engine::MariaDb, 1, 0).expect_err("damaged");
        assert!(
            failure.text.contains("g1-1/server.json is damaged"),
            "{failure:?}"
        );
    }

    #[test]
    fn only_commits_that_may_go_unacknowledged_are_kept_by_recovery() {
        let (_home, place) = place();
        let keeps = |replicas| {
            let all = plan(&place, Engine::MariaDb, 1, replicas).expect("planned");
            let snapshot = Snapshot::empty("test", Instant::now());
            all.iter()
                .map(|one| options(&place, one, &all, &snapshot).keeps_unacknowledged)
                .collect::<Vec<_>>()
        };
        assert_eq!(keeps(0), [true]);
        assert_eq!(keeps(1), [false, false]);
        assert_eq!(keeps(2), [false, false, false]);
    }
}
