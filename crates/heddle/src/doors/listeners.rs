//! The listening sockets that this process does not make itself: those of the process before it, or
//! systemd's; and those that it adds to them.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::time::Duration;

use reactor::{Address, Listener};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::settings::{Listens, Settings};

/// So long an address in use is waited for. The kernel takes the ring of a process that was killed apart behind the process's
/// end, and until then the ring holds the sockets at which it waited for clients.
const GIVEN_BACK: Duration = Duration::from_secs(2);

/// Pause between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Sockets for the doors; a door without one of a kind binds the address of the settings.
#[derive(Debug, Default)]
pub struct Listeners {
    pub sql: Vec<Listener>,
    pub kv: Vec<Listener>,
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

    /// Takes a socket for the door that it is for, if it has none of its kind yet. False when that cannot
    /// be told.
    ///
    /// # Errors
    /// It is none that listens, or a Unix socket for a door that has none.
    pub fn take(
        &mut self,
        settings: &Settings,
        name: &str,
        socket: OwnedFd,
    ) -> Result<bool, Failure> {
        let unfit = |_| {
            Failure::new(format!(
                "the socket {name} that this process was given does not listen for TCP, nor as a Unix \
                 socket at one of the doors sql and kv; correct the unit (ListenStream=)"
            ))
        };
        let listener = Listener::take(socket).map_err(unfit)?;
        match door_of(settings, name, listener.address()) {
            For::Sql => keep(&mut self.sql, listener),
            For::Kv => keep(&mut self.kv, listener),
            For::Http => drop(self.http.get_or_insert(listener.into_tcp().map_err(unfit)?)),
            For::Fabric => drop(
                self.fabric
                    .get_or_insert(listener.into_tcp().map_err(unfit)?),
            ),
            For::FabricMysql => {
                let listener = listener.into_tcp().map_err(unfit)?;
                let _ = self.fabric_mysql.get_or_insert(listener);
            }
            For::Nobody => {}
            For::Unknown => return Ok(false),
        }
        Ok(true)
    }
}

/// A door has one listener of a kind: the first.
fn keep(listeners: &mut Vec<Listener>, listener: Listener) {
    if !has_kind(listeners, listener.address()) {
        listeners.push(listener);
    }
}

fn has_kind(listeners: &[Listener], address: &Address) -> bool {
    let is_tcp = |it: &Address| matches!(it, Address::Tcp(_));
    let mut all = listeners.iter();
    all.any(|listener| is_tcp(listener.address()) == is_tcp(address))
}

/// The listeners of a door: those that were given, and what the settings want besides.
///
/// # Errors
/// The first address that cannot be had.
pub fn open(
    given: Vec<Listener>,
    wanted: &Listens,
    settings: &Settings,
) -> io::Result<Vec<Listener>> {
    let mut all = given;
    for address in wanted.addresses() {
        if !has_kind(&all, &address) {
            all.push(reactor::listen(&address, settings.socket_permissions.0)?);
        }
    }
    Ok(all)
}

/// Binds each address that has no listener yet and lets it go: a port in use is told before anything
/// is started. One that a killed process may still hold is waited for, [`GIVEN_BACK`] in all.
///
/// # Errors
/// The first address that cannot be had.
pub async fn addresses_are_free(settings: &Settings, listeners: &Listeners) -> Result<(), Failure> {
    let deadline = Instant::now() + GIVEN_BACK;
    let wanted = |given: bool, address: Option<SocketAddr>| {
        let address = address.filter(|_| !given).map(Address::Tcp);
        Vec::from_iter(address)
    };
    let of_door = |given: &[Listener], wanted: &Listens| {
        let mut addresses = wanted.addresses();
        addresses.retain(|address| !has_kind(given, address));
        addresses
    };
    let http = wanted(listeners.http.is_some(), Some(settings.http_listen));
    let fabric = wanted(listeners.fabric.is_some(), settings.fabric_listen.0);
    let calls = wanted(
        listeners.fabric_mysql.is_some(),
        settings.fabric_mysql_listen.0,
    );
    let doors = [
        (
            "SQL",
            "--sql",
            of_door(&listeners.sql, &settings.sql_listen),
        ),
        (
            "memcached",
            "--kv",
            of_door(&listeners.kv, &settings.kv_listen.0),
        ),
        ("HTTP", "--http", http),
        ("Fabric", "--fabric", fabric),
        ("Fabric's CALLs", "fabric_mysql_listen", calls),
    ];
    for (door, flag, addresses) in doors {
        for address in addresses {
            let free = until_free(&address, settings, deadline).await;
            free.map_err(|error| match address {
                Address::Tcp(_) => Failure::new(format!(
                    "cannot listen for {door} on {address}: {error}; end the program that uses it, or \
                     choose another address ({flag})"
                )),
                Address::Socket(_) => Failure::new(format!("{error} ({flag})")),
            })?;
        }
    }
    Ok(())
}

/// Waits while the address is in use.
async fn until_free(address: &Address, settings: &Settings, deadline: Instant) -> io::Result<()> {
    loop {
        match is_free(address, settings) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < deadline => {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            other => return other,
        }
    }
}

fn is_free(address: &Address, settings: &Settings) -> io::Result<()> {
    match address {
        Address::Tcp(address) => TcpListener::bind(address).map(drop),
        Address::Socket(_) => reactor::listen(address, settings.socket_permissions.0).map(drop),
    }
}

/// Names of sockets that a heddle gave itself begin so: their address may be an old one.
pub const OWN: &str = "heddle-";

fn door_of(settings: &Settings, name: &str, address: &Address) -> For {
    let is = |wanted: SocketAddr| match address {
        // Any port will do, so the one that there is.
        Address::Tcp(address) if wanted.port() == 0 => wanted.ip() == address.ip(),
        Address::Tcp(address) => wanted == *address,
        Address::Socket(_) => false,
    };
    let among = |wanted: &Listens| match address {
        Address::Tcp(_) => wanted.tcp.is_some_and(is),
        Address::Socket(path) => wanted.socket.as_ref() == Some(path),
    };
    let exactly = |wanted: &Listens| wanted.addresses().contains(address);
    let own = name.strip_prefix(OWN);
    match own.unwrap_or(name) {
        "sql" if own.is_none() || among(&settings.sql_listen) => For::Sql,
        "kv" if own.is_none() || among(&settings.kv_listen.0) => For::Kv,
        "http" if own.is_none() || is(settings.http_listen) => For::Http,
        "fabric" if own.is_none() || settings.fabric_listen.0.is_some_and(is) => For::Fabric,
        "fabric-mysql" if own.is_none() || settings.fabric_mysql_listen.0.is_some_and(is) => {
            For::FabricMysql
        }
        _ if own.is_some() => For::Nobody,
        _ if exactly(&settings.sql_listen) => For::Sql,
        _ if exactly(&settings.kv_listen.0) => For::Kv,
        _ if exactly(&settings.http_listen.into()) => For::Http,
        _ if settings
            .fabric_listen
            .0
            .is_some_and(|it| exactly(&it.into())) =>
        {
            For::Fabric
        }
        _ if settings
            .fabric_mysql_listen
            .0
            .is_some_and(|it| exactly(&it.into())) =>
        {
            For::FabricMysql
        }
        _ => For::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_find_their_doors() {
        let settings = Settings {
            sql_listen: "127.0.0.1:6306,/run/heddle/sql.sock".parse().expect("both"),
            http_listen: "127.0.0.1:0".parse().expect("an address"),
            ..Settings::default()
        };
        let of = |name, address: &str| {
            let address = match address.parse() {
                Ok(address) => Address::Tcp(address),
                Err(_) => Address::Socket(address.into()),
            };
            door_of(&settings, name, &address)
        };
        assert_eq!(of("heddle-sql", "127.0.0.1:6306"), For::Sql);
        assert_eq!(of("heddle-sql", "127.0.0.1:6307"), For::Nobody);
        assert_eq!(of("heddle-http", "127.0.0.1:41234"), For::Http);
        assert_eq!(of("heddle-kv", "127.0.0.1:6306"), For::Nobody);
        assert_eq!(of("sql", "10.0.0.1:3306"), For::Sql);
        assert_eq!(of("heddle-sql", "/run/heddle/sql.sock"), For::Sql);
        assert_eq!(of("heddle-sql", "/run/heddle/old.sock"), For::Nobody);
        assert_eq!(of("heddle.socket", "/run/heddle/sql.sock"), For::Sql);
        assert_eq!(of("heddle.socket", "/run/heddle/old.sock"), For::Unknown);
        assert_eq!(of("heddle.socket", "127.0.0.1:6306"), For::Sql);
        assert_eq!(of("heddle.socket", "127.0.0.1:6080"), For::Unknown);
    }

    #[test]
    fn a_socket_that_does_not_listen_is_refused() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let client = std::net::TcpStream::connect(address).expect("accepts");
        let settings = Settings {
            sql_listen: address.into(),
            ..Settings::default()
        };
        let mut listeners = Listeners::default();
        let wrong = listeners.take(&settings, "sql", client.into());
        assert!(wrong.expect_err("refused").text.contains("ListenStream"));
        let right = listeners.take(&settings, "", listener.into());
        assert_eq!(right, Ok(true));
        assert_eq!(listeners.sql.len(), 1);
    }

    #[tokio::test]
    async fn an_address_that_is_given_back_is_waited_for() {
        let home = tempfile::tempdir().expect("a directory");
        let address = Address::Socket(home.path().join("sql.sock"));
        let settings = Settings::default();
        let held = reactor::listen(&address, 0o600).expect("nobody has it");
        let now = Instant::now();
        let refused = until_free(&address, &settings, now).await;
        assert_eq!(
            refused.expect_err("in use").kind(),
            io::ErrorKind::AddrInUse
        );
        // Looked at first, and given back then.
        let (free, ()) = tokio::join!(until_free(&address, &settings, now + GIVEN_BACK), async {
            drop(held)
        });
        free.expect("it is waited for");
    }
}
