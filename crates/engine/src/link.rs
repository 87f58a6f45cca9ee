//! One administrative connection to one server.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder, Row, SslOpts, Value};

use crate::error::Error;
use crate::version::Version;

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

impl LinkTls {
    /// The driver's options for a server at this address; None for no TLS.
    fn options(&self, host: &str) -> Option<SslOpts> {
        let local = host == "localhost"
            || host
                .parse::<IpAddr>()
                .is_ok_and(|ip| ip.to_canonical().is_loopback());
        let verified = |authorities: &PathBuf| {
            SslOpts::default()
                .with_disable_built_in_roots(true)
                .with_root_certs(vec![authorities.clone().into()])
        };
        match self {
            LinkTls::Off => None,
            LinkTls::Preferred if local => None,
            LinkTls::Preferred | LinkTls::Required => {
                Some(SslOpts::default().with_danger_accept_invalid_certs(true))
            }
            LinkTls::VerifyCa(authorities) => {
                Some(verified(authorities).with_danger_skip_domain_validation(true))
            }
            LinkTls::VerifyIdentity(authorities) => Some(verified(authorities)),
        }
    }
}

/// Where a server is and as whom to log in there.
#[derive(Clone, Debug)]
pub struct Login {
    /// Host name or IP address, without brackets.
    pub host: String,
    pub port: u16,
    pub user: String,
    pub password: String,
    pub tls: LinkTls,
}

/// The ids of this process's links, by server, so that it does not take them for clients'.
static OWN: Mutex<BTreeMap<String, BTreeSet<u64>>> = Mutex::new(BTreeMap::new());

fn own() -> MutexGuard<'static, BTreeMap<String, BTreeSet<u64>>> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A link's place among this process's own.
struct OwnId {
    address: String,
    id: u64,
}

impl OwnId {
    fn new(address: &str, id: u64) -> OwnId {
        let address = address.to_owned();
        own().entry(address.clone()).or_default().insert(id);
        OwnId { address, id }
    }
}

impl Drop for OwnId {
    fn drop(&mut self) {
        if let Some(ids) = own().get_mut(&self.address) {
            ids.remove(&self.id);
        }
    }
}

/// An open connection. Not safe to use after [`Error::Timeout`] or [`Error::Lost`]: drop it then.
pub struct Link {
    conn: Conn,
    version: Version,
    address: String,
    login: Login,
    own: OwnId,
    /// What the server checks before each statement; see [`crate::term::act`].
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

    async fn open_sized(
        login: &Login,
        packet_bytes_max: usize,
        timeout_ms: u64,
    ) -> Result<Link, Error> {
        let address = format!("{}:{}", login.host, login.port);
        let options = OptsBuilder::default()
            .ip_or_hostname(login.host.clone())
            .tcp_port(login.port)
            .user(Some(login.user.clone()))
            .pass((!login.password.is_empty()).then(|| login.password.clone()))
            // The address that was asked for is the one that is probed, not a socket beside it.
            .prefer_socket(false)
            .max_allowed_packet(Some(packet_bytes_max))
            .wait_timeout(Some(IDLE_S))
            .stmt_cache_size(0);
        let connecting = async {
            let mut conn = connect(options, login).await?;
            // An empty mode makes backslash an escape, as our quoting needs.
            conn.query_drop("SET SESSION sql_mode=''").await?;
            let version: Option<String> = conn.query_first("SELECT @@version").await?;
            Ok::<_, mysql_async::Error>((conn, version.unwrap_or_default()))
        };
        let (conn, text) = within(timeout_ms, connecting)
            .await
            .ok_or_else(|| Error::Connect {
                server: address.clone(),
                reason: format!("no answer within {timeout_ms} ms"),
                cure: "check the address, and whether the server hangs or is overloaded",
            })?
            .map_err(|error| Error::from_connect(&address, &error))?;
        let version = Version::parse(&text).ok_or_else(|| Error::Reply {
            operation: "ask for the version",
            server: address.clone(),
            what: format!("@@version is {text:?}"),
        })?;
        let own = OwnId::new(&address, conn.id().into());
        Ok(Link {
            conn,
            version,
            address,
            login: login.clone(),
            own,
            guard: None,
        })
    }

    /// The server's id of the connection.
    pub fn id(&self) -> u64 {
        self.own.id
    }

    /// The ids of this process's links to the same server.
    pub(crate) fn own_ids(&self) -> BTreeSet<u64> {
        own().get(&self.address).cloned().unwrap_or_default()
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
    pub(crate) fn login(&self) -> &Login {
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

/// Connects on the login's terms. What is only preferred keeps no server away.
async fn connect(options: OptsBuilder, login: &Login) -> Result<Conn, mysql_async::Error> {
    let tls = login.tls.options(&login.host);
    let secured = Conn::new(options.clone().ssl_opts(tls.clone())).await;
    match secured {
        Err(mysql_async::Error::Server(refusal)) => Err(mysql_async::Error::Server(refusal)),
        Err(_) if tls.is_some() && login.tls == LinkTls::Preferred => Conn::new(options).await,
        other => other,
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

/// A string literal for a session whose `sql_mode` is empty.
pub(crate) fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('\'');
    for c in text.chars() {
        match c {
            '\'' => literal.push_str("\\'"),
            '\\' => literal.push_str("\\\\"),
            '\0' => literal.push_str("\\0"),
            c => literal.push(c),
        }
    }
    literal.push('\'');
    literal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_cannot_be_left() {
        assert_eq!(quoted(r"a'b\c"), r"'a\'b\\c'");
        assert_eq!(quoted("\0"), "'\\0'");
    }

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
        };
        let error = Link::open(&login, 50)
            .await
            .err()
            .expect("no greeting")
            .to_string();
        assert!(error.contains("no answer within 50 ms"), "{error}");
    }
}
