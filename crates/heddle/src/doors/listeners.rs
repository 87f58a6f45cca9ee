//! The listening sockets that this process does not make itself: those of the process before it, or
//! systemd's.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};

use crate::failure::Failure;
use crate::settings::Settings;

/// Sockets for the doors; a door without one binds the address of the settings.
#[derive(Debug, Default)]
pub struct Listeners {
    pub sql: Option<TcpListener>,
    pub kv: Option<TcpListener>,
    pub http: Option<TcpListener>,
    pub fabric: Option<TcpListener>,
    pub fabric_mysql: Option<TcpListener>,
    /// The process that had them still serves its clients.
    pub are_shared: bool,
    /// The last client id of that process.
    pub last_id: u32,
}

/// A socket that was given, as far as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Sql,
    Kv,
    Http,
    Fabric,
    FabricMysql,
    /// For a door whose address has changed since.
    Nobody,
    /// It has no name, and its address is in no setting.
    Unknown,
}

impl Listeners {
    /// Takes the sockets of systemd: of a socket unit, or those that were kept over a restart.
    ///
    /// # Errors
    /// A socket unit has one that belongs to no door.
    pub fn take_all(
        &mut self,
        settings: &Settings,
        sockets: Vec<(String, OwnedFd)>,
    ) -> Result<(), Failure> {
        for (name, socket) in sockets {
            if !self.take(settings, &name, socket)? {
                return Err(Failure::new(format!(
                    "systemd gave a socket ({name}) that none of sql_listen, kv_listen, http_listen, fabric_listen \
                     and fabric_mysql_listen is; write FileDescriptorName=sql, =kv, =http, =fabric or =fabric-mysql in \
                     its unit, or correct the address"
                )));
            }
        }
        Ok(())
    }

    /// Takes a socket for the door that it is for, if it has none yet. False when that cannot be
    /// told.
    ///
    /// # Errors
    /// It is none that listens for TCP.
    pub fn take(
        &mut self,
        settings: &Settings,
        name: &str,
        socket: OwnedFd,
    ) -> Result<bool, Failure> {
        let listens = rustix::net::sockopt::socket_acceptconn(socket.as_fd());
        let listener = TcpListener::from(socket);
        let address = listener.local_addr();
        let (Ok(true), Ok(address)) = (listens, address) else {
            return Err(Failure::new(format!(
                "the socket {name} that this process was given does not listen for TCP; correct \
                 the unit (ListenStream=)"
            )));
        };
        match door_of(settings, name, address) {
            For::Sql => drop(self.sql.get_or_insert(listener)),
            For::Kv => drop(self.kv.get_or_insert(listener)),
            For::Http => drop(self.http.get_or_insert(listener)),
            For::Fabric => drop(self.fabric.get_or_insert(listener)),
            For::FabricMysql => drop(self.fabric_mysql.get_or_insert(listener)),
            For::Nobody => {}
            For::Unknown => return Ok(false),
        }
        Ok(true)
    }
}

/// Binds each address that has no listener yet and lets it go: a port in use is told before anything
/// is started.
///
/// # Errors
/// The first address that cannot be had.
pub fn addresses_are_free(settings: &Settings, listeners: &Listeners) -> Result<(), Failure> {
    let wanted = |given: &Option<TcpListener>, address: Option<SocketAddr>| {
        address.filter(|_| given.is_none())
    };
    let (sql, http) = (Some(settings.sql_listen), Some(settings.http_listen));
    let (fabric, calls) = (settings.fabric_listen.0, settings.fabric_mysql_listen.0);
    let addresses = [
        ("SQL", "--sql", wanted(&listeners.sql, sql)),
        (
            "memcached",
            "--kv",
            wanted(&listeners.kv, settings.kv_listen.0),
        ),
        ("HTTP", "--http", wanted(&listeners.http, http)),
        ("Fabric", "--fabric", wanted(&listeners.fabric, fabric)),
        (
            "Fabric's CALLs",
            "fabric_mysql_listen",
            wanted(&listeners.fabric_mysql, calls),
        ),
    ];
    for (door, flag, address) in addresses {
        let Some(address) = address else { continue };
        TcpListener::bind(address).map_err(|error| {
            Failure::new(format!(
                "cannot listen for {door} on {address}: {error}; end the program that uses it, or \
                 choose another address ({flag})"
            ))
        })?;
    }
    Ok(())
}

/// Names of sockets that a heddle gave itself begin so: their address may be an old one.
pub const OWN: &str = "heddle-";

fn door_of(settings: &Settings, name: &str, address: SocketAddr) -> For {
    let is = |wanted: SocketAddr| match wanted.port() {
        // Any port will do, so the one that there is.
        0 => wanted.ip() == address.ip(),
        _ => wanted == address,
    };
    let own = name.strip_prefix(OWN);
    match own.unwrap_or(name) {
        "sql" if own.is_none() || is(settings.sql_listen) => For::Sql,
        "kv" if own.is_none() || settings.kv_listen.0.is_some_and(is) => For::Kv,
        "http" if own.is_none() || is(settings.http_listen) => For::Http,
        "fabric" if own.is_none() || settings.fabric_listen.0.is_some_and(is) => For::Fabric,
        "fabric-mysql" if own.is_none() || settings.fabric_mysql_listen.0.is_some_and(is) => {
            For::FabricMysql
        }
        _ if own.is_some() => For::Nobody,
        _ if settings.sql_listen == address => For::Sql,
        _ if settings.kv_listen.0 == Some(address) => For::Kv,
        _ if settings.http_listen == address => For::Http,
        _ if settings.fabric_listen.0 == Some(address) => For::Fabric,
        _ if settings.fabric_mysql_listen.0 == Some(address) => For::FabricMysql,
        _ => For::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_find_their_doors() {
        let settings = Settings {
            sql_listen: "127.0.0.1:6306".parse().expect("an address"),
            http_listen: "127.0.0.1:0".parse().expect("an address"),
            ..Settings::default()
        };
        let of = |name, address: &str| {
            let address = address.parse().expect("an address");
            door_of(&settings, name, address)
        };
        assert_eq!(of("heddle-sql", "127.0.0.1:6306"), For::Sql);
        assert_eq!(of("heddle-sql", "127.0.0.1:6307"), For::Nobody);
        assert_eq!(of("heddle-http", "127.0.0.1:41234"), For::Http);
        assert_eq!(of("heddle-kv", "127.0.0.1:6306"), For::Nobody);
        assert_eq!(of("sql", "10.0.0.1:3306"), For::Sql);
        assert_eq!(of("heddle.socket", "127.0.0.1:6306"), For::Sql);
        assert_eq!(of("heddle.socket", "127.0.0.1:6080"), For::Unknown);
    }

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let client = std::net::TcpStream::connect(address).expect("accepts");
        let settings = Settings {
            sql_listen: address,
            ..Settings::default()
        };
        let mut listeners = Listeners::default();
        let wrong = listeners.take(&settings, "sql", client.into());
        assert!(wrong.expect_err("refused").text.contains("ListenStream"));
        let right = listeners.take(&settings, "", listener.into());
        assert_eq!(right, Ok(true));
        assert!(listeners.sql.is_some());
    }
}
