//! A small blocking MySQL client that shows everything a server says and can send anything.
//!
//! It speaks every plugin that Heddle speaks (`caching_sha2_password` fast and full), text and binary
//! results. It decodes rows by itself, so that a mistake in the product's decoder shows.

mod connect;
mod raw;
mod reply;
mod statement;
mod stream;

pub use connect::Login;
pub use raw::frames;
pub use reply::{Column, Done, Reply, Rows};
pub use statement::{Statement, Value};
pub use stream::any_certificate;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::status::Status;

/// Long enough for a failover on a loaded machine; a test that waits longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a call did not give what was asked for.
#[derive(Debug)]
pub enum Failure {
    /// The server's own error.
    Server {
        number: u16,
        sqlstate: String,
        message: String,
    },
    /// The connection broke or the server was silent.
    Io(io::Error),
    /// The server said something that does not belong here.
    Protocol(String),
}

impl Failure {
    /// The server's error number; 0 for anything else.
    pub fn number(&self) -> u16 {
        match self {
            Failure::Server { number, .. } => *number,
            _ => 0,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Server {
                number,
                sqlstate,
                message,
            } => {
                write!(f, "{number} ({sqlstate}): {message}")
            }
            Failure::Io(error) => write!(f, "connection: {error}"),
            Failure::Protocol(what) => write!(f, "protocol: {what}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

impl From<mysql_wire::Malformed> for Failure {
    fn from(error: mysql_wire::Malformed) -> Failure {
        Failure::Protocol(error.to_string())
    }
}

/// One connection. Fields are what the server said last.
#[derive(Debug)]
pub struct Client {
    stream: stream::Stream,
    /// Sequence number of the next packet in either direction.
    pub sequence: u8,
    /// What both sides agreed on.
    pub capabilities: Capabilities,
    /// `@@version` as the greeting has it.
    pub version: String,
    pub connection_id: u32,
    /// The greeting's, or that of the last switch of the plugin.
    salt: Vec<u8>,
    /// From the last OK or EOF packet.
    pub status: Status,
    /// The files that LOAD DATA LOCAL gets, one after the other, each as the packets it is sent in;
    /// an empty file when there is none left.
    pub files: VecDeque<Vec<Vec<u8>>>,
    /// Progress reports so far (MariaDB).
    pub progress: usize,
    /// What a result without column definitions has: those of the last statement executed.
    known_columns: Vec<Column>,
}

impl Client {
    /// Logs in without a default database, with the capabilities of a usual client.
    pub fn connect(address: SocketAddr, user: &str, password: &str) -> Result<Client, Failure> {
        Client::login(
            address,
            &Login {
                user,
                password,
                ..Login::default()
            },
        )
    }

    /// Runs the text and gives all its results; the first error ends them.
    pub fn query(&mut self, sql: impl AsRef<[u8]>) -> Result<Vec<Reply>, Failure> {
        self.send_command(Command::Query, sql.as_ref())?;
        self.read_results(false)
    }

    /// All rows of a text that gives one result set, NULL as `None`.
    ///
    /// # Panics
    /// On an error or on anything but one result set.
    #[track_caller]
    pub fn rows(&mut self, sql: &str) -> Vec<Vec<Option<String>>> {
        match self.query(sql) {
            Ok(mut replies) if replies.len() == 1 => match replies.remove(0) {
                Reply::Rows(rows) => rows.text(),
                other => panic!("{sql}: expected rows, got {other:?}"),
            },
            Ok(replies) => panic!("{sql}: expected one result, got {replies:?}"),
            Err(failure) => panic!("{sql}: {failure}"),
        }
    }

    /// The only value of a result of one row and one column; NULL gives `NULL`.
    ///
    /// # Panics
    /// On anything else.
    #[track_caller]
    pub fn value(&mut self, sql: &str) -> String {
        let rows = self.rows(sql);
        assert!(
            rows.len() == 1 && rows[0].len() == 1,
            "{sql}: expected one value, got {rows:?}"
        );
        rows[0][0].clone().unwrap_or_else(|| "NULL".to_owned())
    }

    /// The server's own id of the connection that serves this, which a client of Heddle is not told:
    /// only beside a list of such ids does the function mean them.
    ///
    /// # Panics
    /// On an error.
    #[track_caller]
    pub fn server_id(&mut self) -> String {
        self.value("SELECT CONNECTION_ID() + 0 * COUNT(*) FROM information_schema.innodb_trx")
    }

    /// Runs a text whose only result is an OK.
    ///
    /// # Panics
    /// On an error or on rows.
    #[track_caller]
    pub fn run(&mut self, sql: &str) -> Done {
        match self.query(sql) {
            Ok(mut replies) => match replies.pop() {
                Some(Reply::Done(done)) => done,
                other => panic!("{sql}: expected OK, got {other:?}"),
            },
            Err(failure) => panic!("{sql}: {failure}"),
        }
    }

    /// The error number of a text that must fail.
    ///
    /// # Panics
    /// When it succeeds, or the connection breaks.
    #[track_caller]
    pub fn error(&mut self, sql: &str) -> u16 {
        match self.query(sql) {
            Err(Failure::Server { number, .. }) => number,
            other => panic!("{sql}: expected an error, got {other:?}"),
        }
    }

    /// COM_PING.
    pub fn ping(&mut self) -> Result<Done, Failure> {
        self.send_command(Command::Ping, b"")?;
        self.read_done()
    }

    /// COM_INIT_DB.
    pub fn use_database(&mut self, name: &str) -> Result<Done, Failure> {
        self.send_command(Command::InitDb, name.as_bytes())?;
        self.read_done()
    }

    /// COM_RESET_CONNECTION.
    pub fn reset(&mut self) -> Result<Done, Failure> {
        self.send_command(Command::ResetConnection, b"")?;
        self.read_done()
    }

    /// COM_QUIT, and waits until the server has closed.
    pub fn quit(mut self) {
        if self.send_command(Command::Quit, b"").is_ok() {
            let _ = self.read_packet();
        }
    }
}
