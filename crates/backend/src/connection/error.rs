//! What can go wrong on a connection to a server.

use std::io;
use std::sync::Arc;

use mysql_wire::Malformed;

/// What went wrong on a connection.
#[derive(Debug)]
pub enum ConnectionError {
    /// The server answered with an error packet; the connection itself is sound.
    Refused {
        number: u16,
        sqlstate: [u8; 5],
        message: Vec<u8>,
    },
    /// The server refused to set these variables as the session has them; the connection is sound.
    Variables { names: Vec<Arc<str>> },
    /// The server did not answer in time.
    Timeout { operation: &'static str },
    /// The connection broke.
    Broken {
        operation: &'static str,
        source: io::Error,
    },
    /// The server said something that the protocol does not have here.
    Protocol {
        operation: &'static str,
        source: Malformed,
    },
    /// TLS with the server cannot be had on the terms that are set.
    Tls { source: io::Error },
    /// The server wants a proof of identity that Heddle does not hold for this account.
    Credential { plugin: String },
    /// The server wants the password itself, and it is not known who answers there.
    Untrusted { plugin: String },
}

impl std::fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConnectionError::Refused {
                number, message, ..
            } => {
                write!(f, "error {number}: {}", String::from_utf8_lossy(message))
            }
            ConnectionError::Variables { names } => {
                write!(f, "the server does not set {} so", names.join(", "))
            }
            ConnectionError::Timeout { operation } => write!(f, "{operation}: no answer in time"),
            ConnectionError::Broken { operation, source } => write!(f, "{operation}: {source}"),
            ConnectionError::Protocol { operation, source } => write!(f, "{operation}: {source}"),
            ConnectionError::Tls { source } => write!(f, "TLS: {source}"),
            ConnectionError::Credential { plugin } => {
                write!(f, "login: no credential for the server's {plugin}")
            }
            ConnectionError::Untrusted { plugin } => {
                write!(f, "login: {plugin} shows passwords to strangers")
            }
        }
    }
}

impl std::error::Error for ConnectionError {}
