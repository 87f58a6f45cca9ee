//! One administrative connection to one server.
//!
//! Job: log in, ask, and be told ([`Link`]); reach servers that want more than the driver can do ([`tunnel`]);
//! notice a server's death ([`watch`]).
//!
//! Invariants: every question has a deadline in milliseconds; after a timeout the link is dropped.
//!
//! Must not know: what the statements mean, groups, roles.

mod own_id;
pub(crate) mod tunnel;
pub mod watch;

use std::collections::BTreeSet;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use channel::Fingerprint;
use enginesql::Version;
use enginesql::words::Source;
use futures_util::{StreamExt, stream};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, DriverError, InfileData, OptsBuilder, Row, Value};
use mysql_wire::auth;
use tokio::task::JoinHandle;

use crate::error::{Error, cure_of_io};
use crate::link::own_id::OwnId;
use crate::link::tunnel::{Asks, Ended, Tunnel};

/// Rows of administrative answers are small; an account table of a large farm fits.
const PACKET_BYTES_MAX: usize = 64 << 20;

/// A server's own limit for one packet.
const ROW_BYTES_MAX: usize = 1 << 30;

/// How long the server may keep the connection without a word from us, in seconds. Only the driver
/// uses it, to save a question at connect.
const IDLE_S: usize = 28_800;

/// Whether a link uses TLS, and what a server's certificate must prove. The file names hold PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LinkTls {
    #[default]
    Off,
    /// Where the server has it and is not on this machine; any certificate will do.
    Preferred,
    /// Always; any certificate will do.
    Required,
    /// Always, with a certificate that one of these authorities has signed.
    VerifyCa(PathBuf),
    /// The same, and it must be the server's own by its name.
    VerifyIdentity(PathBuf),
}

/// What is known of whoever answers at an address. It counts where certificates are not verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Known {
    /// Nothing: it gets proofs of a password, never the password.
    #[default]
    Nothing,
    /// An operator has just named the address: its first certificate is believed.
    FirstUse,
    /// SHA-256 of its public key: whoever has another one is refused.
    Key(Fingerprint),
}

/// Where a server is and as whom to log in there.
#[derive(Clone)]
pub struct Login {
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub tls: LinkTls,
    pub known: Known,
    /// What is known to run there: another engine is another server, and is refused.
    pub engine: Option<farm::Engine>,
}

/// Secrets stay out of logs.
impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({:?}@{}:{})", self.user, self.host, self.port)
    }
}

impl Login {
    /// As a replica is told of it.
    pub(crate) fn as_source(&self) -> Source<'_> {
        Source {
            host: &self.host,
            port: self.port,
            user: &self.user,
            password: &self.password,
        }
    }

    /// Whether the driver may log in by itself: on this machine without TLS, where it is known who answers.
    fn is_near(&self, addresses: &[SocketAddr]) -> bool {
        let is_plain = matches!(self.tls, LinkTls::Off | LinkTls::Preferred);
        let is_here = |address: &SocketAddr| address.ip().to_canonical().is_loopback();
        is_plain && addresses.iter().all(is_here)
    }
}

/// The driver does not speak the account's plugin, or not one plugin after the other.
fn is_over_its_head(error: &DriverError) -> bool {
    matches!(
        error,
        DriverError::UnknownAuthPlugin { .. } | DriverError::UnexpectedPacket { .. }
    )
}

impl Login {
    /// The same to a server on this machine, where the driver failed: a plugin that gets the password itself
    /// gets it inside TLS.
    fn spoken_by_us(&self, error: &DriverError) -> Login {
        let in_clear = |name: &str| matches!(name, auth::SHA256 | auth::CLEAR | auth::DIALOG);
        let tls = match error {
            DriverError::UnknownAuthPlugin { name } if in_clear(name) => LinkTls::Required,
            _ => LinkTls::Off,
        };
        Login {
            tls,
            ..self.clone()
        }
    }
}

/// The addresses that a login's host stands for; at least one.
pub(crate) async fn resolve(login: &Login) -> Result<Vec<SocketAddr>, Error> {
    let found = tokio::net::lookup_host((&*login.host, login.port)).await;
    let error = match found.map(Iterator::collect::<Vec<SocketAddr>>) {
        Ok(all) if !all.is_empty() => return Ok(all),
        Ok(_) => std::io::Error::other("the name has no address"),
        Err(error) => error,
    };
    Err(Error::Connect {
        server: format!("{}:{}", login.host, login.port),
        reason: error.to_string(),
        cure: cure_of_io(error.kind()),
        nobody_listens: false,
    })
}

/// An open connection. Not safe to use after [`Error::Timeout`] or [`Error::Lost`]: drop it then.
pub struct Link {
    conn: Conn,
    version: Version,
    address: String,
    login: Login,
    own: OwnId,
    /// SHA-256 of the public key that the server showed.
    key: Option<Fingerprint>,
    /// Where the server sees this end, once that was asked; see [`crate::accounts::seen_as`].
    pub(crate) seen_as: Option<Option<IpAddr>>,
    /// What the server checks before each statement; see [`crate::replication::term::act`].
    guard: Option<Guard>,
}

/// For which leadership a link's statements are.
pub(crate) struct Guard {
    pub(crate) number: u64,
    /// A statement that fails with [`Guard::ERROR`] when another leadership acts; one row otherwise.
    pub(crate) sql: String,
}

impl Guard {
    /// ER_DATA_OUT_OF_RANGE.
    const ERROR: u16 = 1690;
}

impl Link {
    /// Connects, logs in and asks for the version, all within `timeout_ms`.
    pub async fn open(login: &Login, timeout_ms: u64) -> Result<Link, Error> {
        Link::open_sized(login, PACKET_BYTES_MAX, timeout_ms).await
    }

    /// The same for rows of users, which can be as long as the protocol allows.
    pub(crate) async fn open_for_rows(login: &Login, timeout_ms: u64) -> Result<Link, Error> {
        Link::open_sized(login, ROW_BYTES_MAX, timeout_ms).await
    }

    /// The same, whose request for a MariaDB server's binlog asks for the statements behind rows.
    pub(crate) async fn open_for_sources(login: &Login, timeout_ms: u64) -> Result<Link, Error> {
        Link::open_by(login, ROW_BYTES_MAX, Asks::Sources, timeout_ms).await
    }

    async fn open_sized(
        login: &Login,
        packet_bytes_max: usize,
        timeout_ms: u64,
    ) -> Result<Link, Error> {
        Link::open_by(login, packet_bytes_max, Asks::AsDriver, timeout_ms).await
    }

    async fn open_by(
        login: &Login,
        packet_bytes_max: usize,
        asks: Asks,
        timeout_ms: u64,
    ) -> Result<Link, Error> {
        let address = format!("{}:{}", login.host, login.port);
        let connecting = async {
            let (mut conn, key) = connect(login, packet_bytes_max, asks).await?;
            // At once: the server lists the connection already, and it must not pass for a client's.
            let own = OwnId::new(&address, conn.id().into());
            let failed = |error| Error::from_connect(&address, &error);
            // An empty mode makes backslash an escape, as our quoting needs.
            let set = conn.query_drop("SET SESSION sql_mode=''").await;
            set.map_err(failed)?;
            let version: Option<String> =
                conn.query_first("SELECT @@version").await.map_err(failed)?;
            Ok::<_, Error>((conn, key, own, version.unwrap_or_default()))
        };
        let (conn, key, own, text) = within(timeout_ms, connecting)
            .await
            .unwrap_or_else(|| Err(Error::silent(login, timeout_ms)))?;
        let version = Version::parse(&text).ok_or_else(|| Error::Reply {
            operation: "ask for the version",
            server: address.clone(),
            what: format!("@@version is {text:?}"),
        })?;
        Error::unless_engine(login.engine, &version, &address)?;
        Ok(Link {
            conn,
            version,
            address,
            login: login.clone(),
            own,
            key,
            seen_as: None,
            guard: None,
        })
    }

    /// The server's id of the connection.
    pub fn id(&self) -> u64 {
        self.own.id
    }

    /// SHA-256 of the public key in the server's certificate; None without TLS, and on this machine.
    pub fn key(&self) -> Option<Fingerprint> {
        self.key
    }

    /// The ids of this process's links to the same server.
    pub(crate) fn own_ids(&self) -> BTreeSet<u64> {
        own_id::ids(&self.address)
    }

    /// What software the server said it runs when the connection was made.
    pub fn version(&self) -> &Version {
        &self.version
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The driver's connection, for what streams. The caller sees to its deadlines.
    pub(crate) fn conn(&mut self) -> &mut Conn {
        &mut self.conn
    }

    /// Where it leads and as whom it is logged in.
    pub fn login(&self) -> &Login {
        &self.login
    }

    /// The driver's connection, for what has no statement.
    pub(crate) fn into_driver(self) -> Conn {
        self.conn
    }

    /// Lets every statement from now on, or none, be checked by the server first.
    pub(crate) fn set_guard(&mut self, guard: Option<Guard>) {
        self.guard = guard;
    }

    /// Its statements are for nobody's leadership any more: whoever uses it next says so himself.
    pub fn act_for_all(&mut self) {
        self.guard = None;
    }

    /// Runs one or more statements whose rows do not matter.
    pub(crate) async fn run(
        &mut self,
        operation: &'static str,
        sql: &str,
        timeout_ms: u64,
    ) -> Result<(), Error> {
        self.sets(operation, sql, timeout_ms).await.map(drop)
    }

    /// Runs one or more statements; gives the rows of each.
    pub(crate) async fn sets(
        &mut self,
        operation: &'static str,
        sql: &str,
        timeout_ms: u64,
    ) -> Result<Vec<Vec<Row>>, Error> {
        let Some(guard) = &self.guard else {
            let answer = within(timeout_ms, fetch_all(&mut self.conn, sql)).await;
            return self.finish(operation, timeout_ms, answer);
        };
        // In one packet: a router that stops between the two sends neither.
        let (number, sql) = (guard.number, format!("{}; {sql}", guard.sql));
        let answer = within(timeout_ms, fetch_all(&mut self.conn, &sql)).await;
        match self.finish(operation, timeout_ms, answer) {
            Ok(mut sets) => {
                sets.drain(..1.min(sets.len()));
                Ok(sets)
            }
            Err(error) if error.number() == Some(Guard::ERROR) => Err(Error::Deposed {
                server: self.address.clone(),
                number,
            }),
            Err(error) => Err(error),
        }
    }

    /// Runs statements that need nothing of each other; gives the rows of each, or why the server refuses it. They share
    /// one trip unless one is refused, which ends those behind it: then each is asked for by itself. Fails when the server
    /// is lost.
    pub(crate) async fn each<const N: usize>(
        &mut self,
        operation: &'static str,
        texts: [&str; N],
        timeout_ms: u64,
    ) -> Result<[Result<Vec<Row>, Error>; N], Error> {
        let sets = self.sets(operation, &texts.join("; "), timeout_ms).await;
        if !sets.as_ref().is_err_and(|error| error.number().is_some()) {
            let mut sets = sets?.into_iter();
            return Ok(std::array::from_fn(|_| Ok(sets.next().unwrap_or_default())));
        }
        let mut each = std::array::from_fn(|_| Ok(Vec::new()));
        for (text, answer) in texts.iter().zip(&mut each) {
            *answer = match self.rows(operation, text, timeout_ms).await {
                Err(error) if error.number().is_none() => return Err(error),
                rows => rows,
            };
        }
        Ok(each)
    }

    /// Runs one statement; gives its rows.
    pub(crate) async fn rows(
        &mut self,
        operation: &'static str,
        sql: &str,
        timeout_ms: u64,
    ) -> Result<Vec<Row>, Error> {
        let sets = self.sets(operation, sql, timeout_ms).await?;
        Ok(sets.into_iter().next().unwrap_or_default())
    }

    /// Runs one statement; gives the first row's first cell as text.
    pub(crate) async fn cell(
        &mut self,
        operation: &'static str,
        sql: &str,
        timeout_ms: u64,
    ) -> Result<Option<String>, Error> {
        let rows = self.rows(operation, sql, timeout_ms).await?;
        Ok(rows.first().and_then(|row| text_at(row, 0)))
    }

    /// Runs a LOAD DATA LOCAL whose file has these bytes.
    pub(crate) async fn load(
        &mut self,
        operation: &'static str,
        sql: &str,
        data: &[u8],
        timeout_ms: u64,
    ) -> Result<(), Error> {
        const PIECE_BYTES: usize = 1 << 20;
        let pieces: Vec<Vec<u8>> = data.chunks(PIECE_BYTES).map(<[u8]>::to_vec).collect();
        self.conn.set_infile_handler(async move {
            let pieces = pieces.into_iter().map(|piece| Ok(piece.into()));
            let data: InfileData = stream::iter(pieces).boxed();
            Ok(data)
        });
        self.run(operation, sql, timeout_ms).await
    }

    fn finish<T>(
        &self,
        operation: &'static str,
        timeout_ms: u64,
        answer: Option<Result<T, mysql_async::Error>>,
    ) -> Result<T, Error> {
        match answer {
            None => Err(Error::Timeout {
                operation,
                server: self.address.clone(),
                timeout_ms,
            }),
            Some(Err(error)) => Err(Error::from_driver(operation, &self.address, &error)),
            Some(Ok(value)) => Ok(value),
        }
    }
}

/// Connects on the login's terms; gives the server's key, too, where it showed one.
async fn connect(
    login: &Login,
    packet_bytes_max: usize,
    asks: Asks,
) -> Result<(Conn, Option<Fingerprint>), Error> {
    let addresses = resolve(login).await?;
    let failed = |error| Error::from_connect(&format!("{}:{}", login.host, login.port), &error);
    let options = OptsBuilder::default()
        .user(Some(login.user.clone()))
        // The address that was asked for is the one that is probed, not a socket beside it.
        .prefer_socket(false)
        .max_allowed_packet(Some(packet_bytes_max))
        .wait_timeout(Some(IDLE_S))
        .stmt_cache_size(0);
    if login.is_near(&addresses) && asks == Asks::Sources {
        // The driver cannot ask so: what it sends has to come by here.
        let plain = Login {
            tls: LinkTls::Off,
            ..login.clone()
        };
        let told = through(&plain, options, &addresses, asks).await;
        return told.map_err(|ended| ended.error);
    }
    if login.is_near(&addresses) {
        let options = options
            .tcp_port(login.port)
            .pass((!login.password.is_empty()).then(|| login.password.clone()));
        let mut last = None;
        for address in addresses {
            match Conn::new(options.clone().ip_or_hostname(address.ip().to_string())).await {
                Ok(conn) => return Ok((conn, None)),
                Err(error @ mysql_async::Error::Server(_)) => return Err(failed(error)),
                Err(mysql_async::Error::Driver(error)) if is_over_its_head(&error) => {
                    let options = options.pass(None::<String>);
                    let told =
                        through(&login.spoken_by_us(&error), options, &[address], asks).await;
                    return told.map_err(|ended| ended.error);
                }
                Err(error) => last = Some(error),
            }
        }
        return Err(failed(last.expect("there is an address")));
    }
    match through(login, options.clone(), &addresses, asks).await {
        // As MySQL's clients: what is only preferred keeps no server away.
        Err(Ended { may_be_plain, .. }) if may_be_plain => {
            let plain = Login {
                tls: LinkTls::Off,
                ..login.clone()
            };
            through(&plain, options, &addresses, asks).await
        }
        other => other,
    }
    .map_err(|ended| ended.error)
}

/// Connects by a tunnel of Heddle's own.
async fn through(
    login: &Login,
    options: OptsBuilder,
    addresses: &[SocketAddr],
    asks: Asks,
) -> Result<(Conn, Option<Fingerprint>), Ended> {
    let tunnel = Tunnel::open(login, addresses, asks).await?;
    let path = tunnel.path();
    let (told, serving) = tunnel.serve(login.clone());
    let serving = Serving(Some(tokio::spawn(serving)));
    let conn = Conn::new(options.socket(Some(path))).await;
    // What the tunnel says is why, when the driver only sees an end.
    let key = match told.await {
        Ok(said) => said?,
        Err(_) => None,
    };
    let server = format!("{}:{}", login.host, login.port);
    let conn = conn.map_err(|error| Error::from_connect(&server, &error))?;
    serving.goes_on();
    Ok((conn, key))
}

/// A tunnel's task while it is not known whether somebody will use it.
struct Serving(Option<JoinHandle<()>>);

impl Serving {
    /// It ends with the connection from now on.
    fn goes_on(mut self) {
        self.0 = None;
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// Reads every result to its end, so that the error of any statement is seen.
async fn fetch_all(conn: &mut Conn, sql: &str) -> Result<Vec<Vec<Row>>, mysql_async::Error> {
    let mut result = conn.query_iter(sql).await?;
    let mut sets = Vec::new();
    while !result.is_empty() {
        sets.push(result.collect::<Row>().await?);
    }
    // The driver takes an error of any statement but the first for the end, and keeps it.
    result.drop_result().await?;
    Ok(sets)
}

async fn within<T>(timeout_ms: u64, work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(Duration::from_millis(timeout_ms), work)
        .await
        .ok()
}

/// A cell as text; `None` for NULL and for a column that the server does not have.
pub(crate) fn text(row: &Row, column: &str) -> Option<String> {
    let index = row
        .columns_ref()
        .iter()
        .position(|c| c.name_str() == column)?;
    text_at(row, index)
}

/// A cell as text, by its place.
pub(crate) fn text_at(row: &Row, index: usize) -> Option<String> {
    bytes_at(row, index).map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A cell as the bytes that the server sent.
pub(crate) fn bytes_at(row: &Row, index: usize) -> Option<Vec<u8>> {
    match row.as_ref(index)? {
        Value::NULL => None,
        Value::Bytes(bytes) => Some(bytes.clone()),
        // Text protocol sends nothing else; kept so that a driver's change is no panic.
        other => Some(other.as_sql(true).into_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nobody_there_is_said_with_a_cure() {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = free.local_addr().expect("bound").port();
        drop(free);
        let login = Login {
            host: "127.0.0.1".to_owned(),
            port,
            user: "root".to_owned(),
            password: String::new(),
            tls: LinkTls::Off,
            known: Known::Nothing,
            engine: None,
        };
        let error = Link::open(&login, 5000)
            .await
            .err()
            .expect("nobody listens")
            .to_string();
        assert!(
            error.contains("start the server, or correct the address"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_is_given_up() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let login = Login {
            host: "127.0.0.1".to_owned(),
            port: silent.local_addr().expect("bound").port(),
            user: "root".to_owned(),
            password: String::new(),
            tls: LinkTls::Off,
            known: Known::Nothing,
            engine: None,
        };
        let error = Link::open(&login, 50)
            .await
            .err()
            .expect("no greeting")
            .to_string();
        assert!(error.contains("no answer within 50 ms"), "{error}");
    }
}
