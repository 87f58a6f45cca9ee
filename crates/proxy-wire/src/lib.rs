//! The PROXY protocol: how a load balancer says, in front of the first bytes of a connection, where
//! its client is.
//!
//! Job: recognise a header of version 1 (text) or 2 (binary) at the beginning of what was received, and
//! write one of either version.
//!
//! Invariants: pure. A header that is not whole says how many bytes are needed, never more than the
//! longest that is taken. Lengths that a header claims are checked against what it has; nothing is kept
//! of it but an address. Every header that is written is read as the same.
//!
//! Must not know: sockets, who is trusted, what follows the header.
//!
//! Source: «The PROXY protocol, versions 1 & 2», HAProxy.

mod binary;
mod checksum;
mod text;

use std::net::SocketAddr;

pub use crate::binary::write as write_v2;
pub use crate::text::write as write_v1;

/// Longest header of version 1, its end of line included.
pub const TEXT_BYTES_MAX: usize = 107;
/// Longest header of version 2. Addresses take 216 bytes at most; the rest are extensions.
pub const BINARY_BYTES_MAX: usize = 4096;

/// Which form a header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Text,
    Binary,
}

/// Where the connection comes from, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The sender speaks for itself, or does not know: the connection's own address counts.
    Own,
    Client(SocketAddr),
}

/// What the first bytes of a connection are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Not a header, nor the beginning of one.
    Nothing,
    /// It cannot be told before there are so many bytes in all. `sure` says that it is a header.
    Part { needed: usize, sure: bool },
    /// A whole one of so many bytes.
    Header { origin: Origin, bytes: usize },
}

/// A header that is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub what: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "malformed PROXY header: {}", self.what)
    }
}

impl std::error::Error for Malformed {}

fn malformed<T>(what: &'static str) -> Result<T, Malformed> {
    Err(Malformed { what })
}

/// Looks at the first bytes of a connection.
///
/// # Errors
/// They are a header that is wrong.
pub fn find(bytes: &[u8]) -> Result<Found, Malformed> {
    if let Some(found) = begins(bytes, text::BEGINNING) {
        return match found {
            Found::Header { .. } => text::read(bytes),
            part => Ok(part),
        };
    }
    match begins(bytes, &binary::BEGINNING) {
        Some(Found::Header { .. }) => binary::read(bytes),
        Some(part) => Ok(part),
        None => Ok(Found::Nothing),
    }
}

/// Why a header does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Nobody said that whoever connects from there may send one.
    Foreign,
    Malformed(Malformed),
}

impl std::fmt::Display for Unfit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Unfit::Foreign => f.write_str("a PROXY header is not accepted from this address"),
            Unfit::Malformed(malformed) => malformed.fmt(f),
        }
    }
}

/// As [`find`], for a peer that may send a header (`trusted`), or may not. Of one that may not, a few
/// bytes that are perhaps the beginning of a binary header are taken for what they are otherwise: two
/// ends of line, which other protocols have, too.
///
/// # Errors
/// They are a header that does not count.
pub fn take(bytes: &[u8], trusted: bool) -> Result<Found, Unfit> {
    match find(bytes) {
        Ok(Found::Part { sure: false, .. }) if !trusted && bytes.starts_with(b"\r") => {
            Ok(Found::Nothing)
        }
        Ok(found @ (Found::Nothing | Found::Part { sure: false, .. })) => Ok(found),
        _ if !trusted => Err(Unfit::Foreign),
        found => found.map_err(Unfit::Malformed),
    }
}

/// Whether the bytes begin so, or may once there are more. A whole beginning is told as a header
/// without an origin, which the version's own reader replaces.
fn begins(bytes: &[u8], beginning: &[u8]) -> Option<Found> {
    let there = bytes.len().min(beginning.len());
    if bytes[..there] != beginning[..there] {
        return None;
    }
    Some(match there == beginning.len() {
        true => Found::Header {
            origin: Origin::Own,
            bytes: there,
        },
        false => Found::Part {
            needed: there + 1,
            sure: false,
        },
    })
}
