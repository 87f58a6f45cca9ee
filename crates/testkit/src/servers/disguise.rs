//! A MySQL 8.0 or a MariaDB 10.11 that passes for another release.
//!
//! Other servers cannot be had where these tests run; what they refuse can. A relay in front of a server
//! says their version, lets the server answer what they refuse with their errors, and says what they renamed
//! in the server's words. What only they can do, such as tagged GTIDs, it cannot show.
//! Connections are neither compressed nor encrypted.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::handshake::Greeting;
use mysql_wire::packet::{self, HEADER_BYTES, Header};
use regex::Regex;

use crate::servers::ports::free_port;
use crate::wait::wait_until;

/// ER_PARSE_ERROR, ER_UNKNOWN_SYSTEM_VARIABLE, ER_PLUGIN_IS_NOT_LOADED, ER_UNKNOWN_TABLE.
const SYNTAX: u16 = 1064;
const VARIABLE: u16 = 1193;
const PLUGIN: u16 = 1524;
const TABLE: u16 = 1109;

/// What 8.4 and all later releases refuse; words in upper case with one blank between them.
const GONE: [(&str, u16); 43] = [
    ("CHANGE MASTER TO", SYNTAX),
    ("MASTER_HOST", SYNTAX),
    ("MASTER_PORT", SYNTAX),
    ("MASTER_USER", SYNTAX),
    ("MASTER_PASSWORD", SYNTAX),
    ("MASTER_SSL", SYNTAX),
    ("MASTER_LOG_FILE", SYNTAX),
    ("MASTER_LOG_POS", SYNTAX),
    ("MASTER_CONNECT_RETRY", SYNTAX),
    ("MASTER_AUTO_POSITION", SYNTAX),
    ("GET_MASTER_PUBLIC_KEY", SYNTAX),
    ("RESET MASTER", SYNTAX),
    ("SHOW MASTER STATUS", SYNTAX),
    ("SHOW MASTER LOGS", SYNTAX),
    ("PURGE MASTER LOGS", SYNTAX),
    ("SHOW SLAVE STATUS", SYNTAX),
    ("SHOW SLAVE HOSTS", SYNTAX),
    ("START SLAVE", SYNTAX),
    ("STOP SLAVE", SYNTAX),
    ("RESET SLAVE", SYNTAX),
    ("FLUSH HOSTS", SYNTAX),
    ("WAIT_UNTIL_SQL_THREAD_AFTER_GTIDS", SYNTAX),
    ("AVOID_TEMPORAL_UPGRADE", VARIABLE),
    ("BINLOG_TRANSACTION_DEPENDENCY_TRACKING", VARIABLE),
    ("DEFAULT_AUTHENTICATION_PLUGIN", VARIABLE),
    ("EXPIRE_LOGS_DAYS", VARIABLE),
    ("LOG_BIN_USE_V1_ROW_EVENTS", VARIABLE),
    ("MASTER_INFO_REPOSITORY", VARIABLE),
    ("RELAY_LOG_INFO_REPOSITORY", VARIABLE),
    ("SHOW_OLD_TEMPORALS", VARIABLE),
    ("HAVE_SSL", VARIABLE),
    ("HAVE_OPENSSL", VARIABLE),
    ("MYSQL_NATIVE_PASSWORD_PROXY_USERS", VARIABLE),
    ("AUTHENTICATION_FIDO", VARIABLE),
    ("GROUP_REPLICATION_IP_WHITELIST", VARIABLE),
    ("GROUP_REPLICATION_PRIMARY_MEMBER", VARIABLE),
    ("GROUP_REPLICATION_RECOVERY_COMPLETE_AT", VARIABLE),
    ("INFORMATION_SCHEMA.TABLESPACES", TABLE),
    ("KEYRING_FILE_DATA", VARIABLE),
    ("SLAVE_ROWS_SEARCH_ALGORITHMS", VARIABLE),
    ("TRANSACTION_WRITE_SET_EXTRACTION", VARIABLE),
    ("IDENTIFIED WITH MYSQL_NATIVE_PASSWORD", PLUGIN),
    ("IDENTIFIED WITH 'MYSQL_NATIVE_PASSWORD'", PLUGIN),
];

/// What MariaDB 10.6 does not know yet.
const LATER_THAN_10_6: [(&str, u16); 7] = [
    ("UCA1400", 1273),
    ("RANDOM_BYTES", 1305),
    ("JSON_EQUALS", 1305),
    ("NATURAL_SORT_KEY", 1305),
    ("MASTER_DEMOTE_TO_SLAVE", SYNTAX),
    ("TO PUBLIC", SYNTAX),
    ("SLAVE_MAX_STATEMENT_TIME", VARIABLE),
];

/// What MariaDB took away between 11.0 and 12, or says that it will.
const GONE_FROM_MARIADB: [(&str, u16); 9] = [
    ("INNODB_CHANGE_BUFFER", VARIABLE),
    ("INNODB_DEFRAGMENT", VARIABLE),
    ("WSREP_CAUSAL_READS", VARIABLE),
    ("@@DATE_FORMAT", VARIABLE),
    ("@@STORAGE_ENGINE", VARIABLE),
    ("BIG_TABLES", VARIABLE),
    ("LARGE_PAGE_SIZE", VARIABLE),
    ("TX_ISOLATION", VARIABLE),
    ("TX_READ_ONLY", VARIABLE),
];

/// What 8.2 gave a new name, and the server's own word for it.
const RENAMED: [(&str, &str); 2] = [
    ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS"),
    ("RESET BINARY LOGS AND GTIDS", "RESET MASTER"),
];

/// From 12 on MariaDB says whether it is read-only in a word.
static READ_ONLY: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)@@(global\.)?read_only\b").expect("a pattern"));
const READ_ONLY_12: &str = "(ELT(@@global.read_only + 1, 'OFF', 'ON'))";

/// A server that was killed is not missed for longer.
const PATIENCE: Duration = Duration::from_secs(600);

/// A question for the version, and what comes behind its name.
static VERSION: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?i)@@(global\.)?version\b([^_(]|$)").expect("a pattern"));

/// A release that is played.
#[derive(Clone, Copy)]
struct Release {
    version: &'static str,
    /// The greatest number of MariaDB's version; `None` for MySQL.
    mariadb: Option<u32>,
}

impl Release {
    fn new(version: &'static str) -> Release {
        let major = version.split('.').next().and_then(|it| it.parse().ok());
        let mariadb = major.filter(|_| version.contains("MariaDB"));
        Release { version, mariadb }
    }

    fn gone(self) -> &'static [(&'static str, u16)] {
        match self.mariadb {
            None => &GONE,
            Some(..11) => &LATER_THAN_10_6,
            Some(_) => &GONE_FROM_MARIADB,
        }
    }

    /// As it greets: up to 10, MariaDB says a version in front that old replicas understand.
    fn greeting(self) -> String {
        match self.mariadb {
            Some(..11) => format!("5.5.5-{}", self.version),
            _ => self.version.to_owned(),
        }
    }

    /// Its words in those of the server behind.
    fn translated(self, text: &str) -> String {
        let mut text = text.to_owned();
        if self.mariadb.is_none() {
            for (new, old) in RENAMED {
                text = text.replace(new, old);
            }
        }
        if self.mariadb.is_some_and(|major| major >= 12) {
            text = READ_ONLY.replace_all(&text, READ_ONLY_12).into_owned();
        }
        let version = format!("'{}'$2", self.version);
        VERSION.replace_all(&text, version).into_owned()
    }
}

/// A way to a server on which it looks like one of another release.
pub struct Disguise {
    pub address: SocketAddr,
    refused: Arc<Mutex<Vec<String>>>,
}

impl Disguise {
    /// In front of a server of the same engine; `version` as in `8.4.6` and `11.8.3-MariaDB`.
    ///
    /// # Panics
    /// Without a free port.
    pub fn new(behind: SocketAddr, version: &'static str) -> Disguise {
        let release = Release::new(version);
        // It is let go while nobody listens behind, and is to be there afterwards.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, free_port())).expect("a port");
        let address = listener.local_addr().expect("bound");
        let refused: Arc<Mutex<Vec<String>>> = Arc::default();
        let all = Arc::clone(&refused);
        std::thread::spawn(move || {
            let mut listener = listener;
            while let Ok((client, _)) = listener.accept() {
                let Ok(server) = TcpStream::connect(behind) else {
                    // Where nobody listens behind, nobody listens here.
                    drop((client, listener));
                    wait_until(PATIENCE, "the server is back", || {
                        TcpStream::connect(behind).is_ok()
                    });
                    listener = TcpListener::bind(address).expect("its own port");
                    continue;
                };
                let refused = Arc::clone(&all);
                std::thread::spawn(move || {
                    let _ = pass(client, server, release, &refused);
                });
            }
        });
        Disguise { address, refused }
    }

    /// The statements that the release would have refused.
    pub fn refused(&self) -> Vec<String> {
        let refused = self.refused.lock();
        refused.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// One packet: its sequence number and payload.
fn read(from: &mut TcpStream) -> std::io::Result<(u8, Vec<u8>)> {
    let mut header = [0; HEADER_BYTES];
    from.read_exact(&mut header)?;
    let header = Header::parse(&header).expect("four bytes");
    let mut payload = vec![0; header.payload_bytes];
    from.read_exact(&mut payload)?;
    Ok((header.sequence, payload))
}

/// A payload of 2^24-1 bytes goes on in the next packet, which then passes as it is.
fn write(to: &mut TcpStream, sequence: u8, payload: &[u8]) -> std::io::Result<()> {
    let header = Header {
        payload_bytes: payload.len(),
        sequence,
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(payload);
    to.write_all(&bytes)
}

/// Carries packets both ways until one side ends.
fn pass(
    mut client: TcpStream,
    mut server: TcpStream,
    release: Release,
    refused: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (sequence, first) = read(&mut server)?;
    write(
        &mut client,
        sequence,
        &greeting(&first, &release.greeting()),
    )?;
    let (sequence, mut login) = read(&mut client)?;
    // A server as a client says that it can what the other side has not offered.
    if let Some(low) = login.first_chunk_mut::<4>() {
        let said = Capabilities::from_halves(u32::from_le_bytes(*low), 0);
        *low = (said - hidden()).low().to_le_bytes();
    }
    write(&mut server, sequence, &login)?;
    let mut to_client = client.try_clone()?;
    let mut from_server = server.try_clone()?;
    let back = std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = from_server.shutdown(Shutdown::Both);
    });
    while let Ok((sequence, mut payload)) = read(&mut client) {
        // Packets of a login have other numbers.
        if sequence == 0 && payload.len() < packet::PAYLOAD_BYTES_MAX {
            payload = command(payload, release, refused);
        }
        if write(&mut server, sequence, &payload).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = back.join();
    Ok(())
}

/// What would hide texts from the relay.
fn hidden() -> Capabilities {
    Capabilities::SSL
        | Capabilities::COMPRESS
        | Capabilities::ZSTD_COMPRESSION
        | Capabilities::QUERY_ATTRIBUTES
}

/// The server's first packet with the other version, and without what would hide the packets behind it.
fn greeting(payload: &[u8], version: &str) -> Vec<u8> {
    let Ok(mut greeting) = Greeting::decode(payload) else {
        return payload.to_vec();
    };
    greeting.version = version;
    greeting.capabilities -= hidden();
    let mut out = Vec::new();
    greeting.encode(&mut out);
    out
}

/// A command as the server behind is to hear it.
fn command(payload: Vec<u8>, release: Release, refused: &Mutex<Vec<String>>) -> Vec<u8> {
    let Some((&kind, text)) = payload.split_first() else {
        return payload;
    };
    let is_query = kind == Command::Query as u8;
    let (true, Ok(text)) = (
        is_query || kind == Command::StmtPrepare as u8,
        std::str::from_utf8(text),
    ) else {
        return payload;
    };
    let words: Vec<&str> = text.split_whitespace().collect();
    let words = words.join(" ").to_uppercase();
    let mut text = text.to_owned();
    let mut gone = release.gone().iter();
    if let Some((gone, number)) = gone.find(|(gone, _)| words.contains(gone)) {
        let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push(text);
        text = match is_query {
            true => format!(
                "SIGNAL SQLSTATE '42000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = \
                 '{} does not know {}'",
                release.version,
                gone.replace('\'', "")
            ),
            false => gone.to_string() + " is not known",
        };
    }
    let text = release.translated(&text);
    let mut out = vec![kind];
    out.extend_from_slice(text.as_bytes());
    out
}
