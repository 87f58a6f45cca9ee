//! The Fabric door as the settings want it.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use control::{Control, Node};
use door_fabric::{Counts, Door, MysqlDoor, Options};
use farm::Published;

use crate::data_plane::{DataPlane, count};
use crate::failure::Failure;
use crate::settings::{FabricAddresses, Settings};

/// What carries calls out; `None` where the settings want no door.
///
/// # Errors
/// A setting names no address, or a user has no password.
pub fn door(
    settings: &Settings,
    published: &Arc<Published>,
    control: &Control,
    data_plane: &Arc<DataPlane>,
) -> Result<Option<Arc<Door>>, Failure> {
    if settings.fabric_listen.0.is_none() && settings.fabric_mysql_listen.0.is_none() {
        return Ok(None);
    }
    let counts = Arc::clone(data_plane) as Arc<dyn Counts>;
    let published = Arc::clone(published);
    let door = Door::new(options(settings)?, published, control.commander(), counts);
    Ok(Some(Arc::new(door)))
}

/// The paths of XML-RPC, and where they are.
///
/// # Errors
/// There are no random bytes.
pub fn guest(
    settings: &Settings,
    door: Option<&Arc<Door>>,
    listener: Option<TcpListener>,
) -> Result<Option<door_http::Guest>, Failure> {
    let (Some(listen), Some(door)) = (settings.fabric_listen.0, door) else {
        return Ok(None);
    };
    let paths = door_fabric::paths(Arc::clone(door));
    let paths =
        paths.map_err(|error| Failure::new(format!("cannot read /dev/urandom: {error}")))?;
    Ok(Some(door_http::Guest {
        listen,
        listener: listener.map(Arc::new),
        paths,
        connections_max: count(settings.fabric_connections_max),
    }))
}

/// The door for CALLs; `given` is its listening socket where there is one already.
///
/// # Errors
/// Its address cannot be had.
pub fn mysql(
    settings: &Settings,
    door: Option<&Arc<Door>>,
    given: Option<TcpListener>,
) -> Result<Option<MysqlDoor>, Failure> {
    let (Some(listen), Some(door)) = (settings.fabric_mysql_listen.0, door) else {
        return Ok(None);
    };
    let clients_max = count(settings.fabric_connections_max);
    let bound = || reactor::listen(&listen.into(), 0).and_then(reactor::Listener::into_tcp);
    let listener = given.map_or_else(bound, Ok);
    let opened =
        listener.and_then(|listener| MysqlDoor::open(listener, Arc::clone(door), clients_max));
    let opened = opened.map_err(|error| {
        Failure::new(format!(
            "cannot serve CALLs of Fabric's clients on {listen}: {error}; choose another address \
             (fabric_mysql_listen)"
        ))
    })?;
    Ok(Some(opened))
}

fn options(settings: &Settings) -> Result<Options, Failure> {
    let wrong = |name: &str, text: &str| {
        Failure::new(format!(
            "{name}: {text:?} is no HOST:PORT; write for example db.example:3306"
        ))
    };
    if let Some(text) = settings
        .fabric_nodes
        .iter()
        .find(|text| place(text).is_none())
    {
        return Err(wrong("fabric_nodes", text));
    }
    let user = &settings.fabric_user;
    if !user.is_empty() && settings.fabric_password.is_empty() {
        return Err(Failure::new(
            "fabric_user has no password; set fabric_password or fabric_password_file",
        ));
    }
    let router = match settings.fabric_addresses {
        FabricAddresses::Servers => None,
        FabricAddresses::Routers if settings.fabric_router.is_empty() => {
            let tcp = settings.sql_listen.tcp.map(parts);
            Some(tcp.ok_or_else(|| wrong("fabric_router", ""))?)
        }
        FabricAddresses::Routers => {
            let text = &settings.fabric_router;
            Some(place(text).ok_or_else(|| wrong("fabric_router", text))?)
        }
    };
    Ok(Options {
        user: (!user.is_empty()).then(|| (user.clone(), settings.fabric_password.clone())),
        open: settings.fabric_open.0,
        ttl_s: u32::try_from(settings.fabric_ttl_s).unwrap_or(u32::MAX),
        replies: settings.fabric_replies.0,
        router,
        nodes: nodes(settings),
    })
}

/// What `dump fabric_nodes` answers: the doors for XML-RPC, then this router's door for CALLs.
pub fn nodes(settings: &Settings) -> Vec<Node> {
    let mut places = Vec::new();
    if let Some(own) = settings.fabric_listen.0 {
        places.extend(settings.fabric_nodes.iter().filter_map(|text| place(text)));
        if places.is_empty() {
            places.push(parts(own));
        }
    }
    let node = |protocol: &str, (host, port)| Node {
        protocol: format!("protocol.{protocol}"),
        host,
        port,
    };
    let calls = settings.fabric_mysql_listen.0.map(parts);
    let own = places.into_iter().map(|place| node("xmlrpc", place));
    own.chain(calls.map(|place| node("mysql", place))).collect()
}

fn parts(address: SocketAddr) -> (String, u16) {
    (address.ip().to_string(), address.port())
}

fn place(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = port.parse().ok().filter(|port| *port != 0)?;
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

impl Counts for DataPlane {
    fn looked_up(&self, found: bool, us: u64, bytes: u64) {
        // Before the doors are open there is nobody to count for.
        let Some(counters) = self.counters() else {
            return;
        };
        let outcome = match found {
            true => &counters.fabric_sharding_lookup_servers_success,
            false => &counters.fabric_sharding_lookup_servers_failure,
        };
        outcome.fetch_add(1, Ordering::Relaxed);
        let (time, sent) = (
            &counters.fabric_sharding_lookup_servers_time_total,
            &counters.fabric_sharding_lookup_servers_bytes_total,
        );
        time.fetch_add(us, Ordering::Relaxed);
        sent.fetch_add(bytes, Ordering::Relaxed);
    }

    fn unreadable(&self) {
        if let Some(counters) = self.counters() {
            let failed = &counters.fabric_sharding_lookup_servers_xml_failure;
            failed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let host = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(place("db.example:3306"), host("db.example", 3306));
        assert_eq!(place("[::1]:32274"), host("::1", 32274));
        assert_eq!(place("db.example"), None);
        assert_eq!(place(":1"), None);
        assert_eq!(place("h:0"), None);
    }

    #[test]
    fn a_user_needs_a_password_and_addresses_are_addresses() {
        let with = |name: &str, value: &str| {
            let mut settings = Settings::default();
            settings.preset(name, value, "a test");
            options(&settings).map_err(|failure| failure.text)
        };
        // The options hold a password and are not for showing.
        let wrong = |name: &str, value: &str| with(name, value).err().expect("wrong");
        assert!(wrong("fabric_user", "admin").contains("fabric_password"));
        assert!(wrong("fabric_nodes", "here").contains("fabric_nodes"));
        let routers = with("fabric_addresses", "routers").ok();
        let routers = routers.expect("sql_listen is there");
        assert_eq!(routers.router, Some(("127.0.0.1".to_owned(), 6306)));
    }
}
