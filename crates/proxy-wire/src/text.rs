//! Version 1: `PROXY TCP4 CLIENT SERVER PORT PORT` and an end of line.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::{Found, Malformed, Origin, TEXT_BYTES_MAX, malformed};

pub(crate) const BEGINNING: &[u8] = b"PROXY ";

/// Reads a header that begins as one.
pub(crate) fn read(bytes: &[u8]) -> Result<Found, Malformed> {
    let most = &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
    let Some(end) = most.windows(2).position(|two| two == b"\r\n") else {
        if bytes.len() >= TEXT_BYTES_MAX {
            return malformed("no end of line within 107 bytes");
        }
        return Ok(Found::Part {
            needed: bytes.len() + 1,
            sure: true,
        });
    };
    let Ok(line) = std::str::from_utf8(&bytes[BEGINNING.len()..end]) else {
        return malformed("the line is no text");
    };
    let origin = match line.split_once(' ').unwrap_or((line, "")) {
        // Whatever stands behind it counts for nothing.
        ("UNKNOWN", _) => Origin::Own,
        ("TCP4", rest) => Origin::Client(client::<Ipv4Addr>(rest)?),
        ("TCP6", rest) => Origin::Client(client::<Ipv6Addr>(rest)?),
        _ => return malformed("the protocol is none of TCP4, TCP6 and UNKNOWN"),
    };
    Ok(Found::Header {
        origin,
        bytes: end + 2,
    })
}

/// The first of two addresses with the first of two ports.
fn client<A: std::str::FromStr + Into<IpAddr>>(rest: &str) -> Result<SocketAddr, Malformed> {
    let parts: Vec<&str> = rest.split(' ').collect();
    let [from, to, from_port, to_port] = parts[..] else {
        return malformed("the line has not two addresses and two ports");
    };
    let (Ok(from), Ok(_)) = (from.parse::<A>(), to.parse::<A>()) else {
        return malformed("an address is not of the protocol");
    };
    let (Some(port), Some(_)) = (port(from_port), port(to_port)) else {
        return malformed("a port is no number up to 65535");
    };
    Ok(SocketAddr::new(from.into(), port))
}

/// Digits only: the standard library takes a sign, too.
fn port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    let plain = text == "0" || !text.starts_with('0');
    (digits && plain).then(|| text.parse().ok()).flatten()
}

/// Appends a header. Without a client the sender speaks for itself.
pub fn write(out: &mut Vec<u8>, client: Option<SocketAddr>, server: SocketAddr) {
    let line = match client.map(|client| crate::binary::pair(client, server)) {
        None => "PROXY UNKNOWN\r\n".to_owned(),
        Some((from, to)) => {
            let family = if from.is_ipv4() { "TCP4" } else { "TCP6" };
            let (ip, at) = (from.ip(), to.ip());
            format!("PROXY {family} {ip} {at} {} {}\r\n", from.port(), to.port())
        }
    };
    out.extend_from_slice(line.as_bytes());
}
