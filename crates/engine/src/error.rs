//! What can go wrong between Heddle and one server; the text says what, where and how to mend it.

use enginesql::Version;
use farm::Engine;

use crate::probe::ThreadError;

/// Errors of this crate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("cannot connect to server {server}: {reason}; {cure}")]
    Connect {
        server: String,
        reason: String,
        cure: &'static str,
        /// The machine answers, and nobody listens at the port.
        nobody_listens: bool,
    },
    #[error(
        "whoever answers at {server} is not the server that the farm knows: {reason}; if the server has a new \
         certificate, tell the farm with `server accept_certificate {server}`"
    )]
    Certificate { server: String, reason: String },
    #[error(
        "whoever answers at {server} is not the server that the farm knows: {reason}; give it an address of its own, or \
         take the farm's server out of its group (`group remove`)"
    )]
    Stranger { server: String, reason: String },
    #[error("server {server} did not answer within {timeout_ms} ms ({operation})")]
    Timeout {
        operation: &'static str,
        server: String,
        timeout_ms: u64,
    },
    #[error("server {server} refused to {operation}: {message} (error {number}){cure}")]
    Refused {
        operation: &'static str,
        server: String,
        number: u16,
        message: String,
        cure: String,
    },
    #[error("the connection to server {server} was lost ({operation}): {reason}")]
    Lost {
        operation: &'static str,
        server: String,
        reason: String,
    },
    #[error("server {server} gave an answer that Heddle cannot read ({operation}): {what}")]
    Reply {
        operation: &'static str,
        server: String,
        what: String,
    },
    #[error("server {server} does not replicate: {reason}; {cure}")]
    Replication {
        server: String,
        reason: String,
        cure: String,
        /// What one of its threads stopped with.
        error: Option<ThreadError>,
    },
    #[error(
        "server {server} does nothing for leadership {number}: another router leads, the lease is over, \
         or the server was restarted"
    )]
    Deposed { server: String, number: u64 },
}

impl Error {
    /// Refuses a server that runs another engine than the one that is known to be there.
    pub(crate) fn unless_engine(
        known: Option<Engine>,
        version: &Version,
        server: &str,
    ) -> Result<(), Error> {
        match known.filter(|known| *known != version.engine) {
            None => Ok(()),
            Some(known) => Err(Error::Stranger {
                server: server.to_owned(),
                reason: format!(
                    "it runs {}, and the farm's server runs {}",
                    version.engine.name(),
                    known.name()
                ),
            }),
        }
    }

    /// From the driver's error on an open connection.
    pub(crate) fn from_driver(
        operation: &'static str,
        server: &str,
        error: &mysql_async::Error,
    ) -> Error {
        let server = server.to_owned();
        match error {
            mysql_async::Error::Server(refusal) => Error::Refused {
                operation,
                server,
                number: refusal.code,
                message: refusal.message.clone(),
                cure: cure_of(refusal.code).map_or(String::new(), |cure| format!("; {cure}")),
            },
            other => Error::Lost {
                operation,
                server,
                reason: other.to_string(),
            },
        }
    }

    /// From the driver's error while connecting.
    pub(crate) fn from_connect(server: &str, error: &mysql_async::Error) -> Error {
        let (reason, cure) = match error {
            mysql_async::Error::Server(refusal) => (
                format!("{} (error {})", refusal.message, refusal.code),
                cure_of(refusal.code).unwrap_or("see the server's error log"),
            ),
            mysql_async::Error::Io(mysql_async::IoError::Io(io)) => {
                (io.to_string(), cure_of_io(io.kind()))
            }
            other => (
                other.to_string(),
                "check that a MySQL or MariaDB server listens there",
            ),
        };
        Error::Connect {
            server: server.to_owned(),
            reason,
            cure,
            nobody_listens: matches!(
                error,
                mysql_async::Error::Io(mysql_async::IoError::Io(io))
                    if io.kind() == std::io::ErrorKind::ConnectionRefused
            ),
        }
    }

    /// Nobody answered a connection in time.
    pub(crate) fn silent(login: &crate::Login, timeout_ms: u64) -> Error {
        Error::Connect {
            server: format!("{}:{}", login.host, login.port),
            reason: format!("no answer within {timeout_ms} ms"),
            cure: "check the address, and whether the server hangs or is overloaded",
            nobody_listens: false,
        }
    }

    /// The server's error number, when it was the server that refused.
    pub fn number(&self) -> Option<u16> {
        match self {
            Error::Refused { number, .. } => Some(*number),
            _ => None,
        }
    }
}

fn cure_of(number: u16) -> Option<&'static str> {
    Some(match number {
        1040 => "raise max_connections on the server",
        1045 | 1698 => {
            "check user and password in Heddle's configuration, and the account on the server"
        }
        1044 | 1095 | 1142 | 1143 | 1227 | 1370 => {
            "give the account that Heddle uses the privileges of docs/PRIVILEGES.md; `heddle doctor` names \
             those that it lacks"
        }
        1401 => "grant XA_RECOVER_ADMIN ON *.* to the account that Heddle uses",
        1419 => {
            "set log_bin_trust_function_creators = ON on the server, or grant SUPER ON *.* to the account \
             that Heddle uses"
        }
        1129 => "run FLUSH HOSTS on the server",
        1130 => "create the account for the host from which Heddle connects",
        1236 => "the primary no longer has what the server lacks; clone the server anew",
        3159 => {
            "set tls_servers = verify_ca or verify_identity, or tell the farm the server's certificate with \
             `server accept_certificate`"
        }
        3 | 1021 | 1026 | 1114 => "free space on the server's disk",
        1153 => "raise max_allowed_packet on the server",
        3678 => {
            "a clone that was cut short left this directory behind: fill the server by `--method=clone`, or remove \
             the directory from the server's data directory"
        }
        _ => return None,
    })
}

pub(crate) fn cure_of_io(kind: std::io::ErrorKind) -> &'static str {
    use std::io::ErrorKind;
    match kind {
        ErrorKind::ConnectionRefused => "start the server, or correct the address",
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset => {
            "the server closed the connection; see its error log"
        }
        _ => "check the address, the network and the firewall",
    }
}
