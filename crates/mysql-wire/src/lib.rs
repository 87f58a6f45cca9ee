//! The messages of the MySQL and MariaDB client/server protocol: packets, handshakes, replies,
//! result sets, prepared statements, and the vocabularies that they use.
//!
//! Invariants:
//! - A decoder takes the payload of one packet, without its 4-byte header, and borrows from it. It
//!   never panics, whatever the bytes are: bad input is [`Malformed`].
//! - An encoder appends one payload to a `Vec<u8>`; [`packet`] puts payloads into packets.
//! - Decoding what was encoded gives the same value again.
//! - Unknown bits of capabilities and status are kept, so that a message can be passed on whole.
//!
//! Must not know: sockets, time, servers, what a statement means, and who is allowed to log in.

pub mod auth;
pub mod binlog;
pub mod capability;
pub mod charset;
pub mod command;
pub mod compressed;
pub mod error;
pub mod handshake;
pub mod local_file;
pub mod packet;
pub mod query;
pub mod relay;
pub mod reply;
pub mod result;
pub mod scalar;
pub mod series;
pub mod statement;
pub mod status;
mod value;

/// Bytes that do not form the message which the caller expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed MySQL message: {what}")]
pub struct Malformed {
    /// The part that was wrong, in words: `"user name without its NUL"`.
    pub what: &'static str,
}

impl Malformed {
    /// Shorthand for the many places that refuse something.
    pub(crate) const fn new(what: &'static str) -> Malformed {
        Malformed { what }
    }
}
