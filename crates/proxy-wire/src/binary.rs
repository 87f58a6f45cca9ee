//! Version 2: a signature, the command, the kind of addresses, a length; then the addresses and
//! extensions, each with its type and length.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::checksum::crc32c;
use crate::{BINARY_BYTES_MAX, Found, Malformed, Origin, malformed};

pub(crate) const BEGINNING: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";

/// Signature, version with command, kind, length.
const HEAD_BYTES: usize = 16;

/// The version in the upper half of its byte, and the commands in the lower half.
const VERSION: u8 = 0x20;
const LOCAL: u8 = 0x0;
const PROXY: u8 = 0x1;

/// Kinds of addresses: family in the upper half, a stream in the lower.
const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX: u8 = 0x31;

/// The extension with a checksum of the whole header.
const CRC32C: u8 = 0x03;

/// Reads a header that begins as one.
pub(crate) fn read(bytes: &[u8]) -> Result<Found, Malformed> {
    let Some(head) = bytes.first_chunk::<HEAD_BYTES>() else {
        return Ok(Found::Part {
            needed: HEAD_BYTES,
            sure: true,
        });
    };
    if head[12] & 0xF0 != VERSION {
        return malformed("the version is not 2");
    }
    let command = head[12] & 0x0F;
    if command != LOCAL && command != PROXY {
        return malformed("the command is neither LOCAL nor PROXY");
    }
    let needed = HEAD_BYTES + usize::from(u16::from_be_bytes([head[14], head[15]]));
    if needed > BINARY_BYTES_MAX {
        return malformed("it has more than 4096 bytes");
    }
    let Some(header) = bytes.get(..needed) else {
        return Ok(Found::Part { needed, sure: true });
    };
    // What a LOCAL header says of addresses is to be ignored, whatever it is.
    let origin = match command {
        LOCAL => Origin::Own,
        _ => origin(header)?,
    };
    Ok(Found::Header {
        origin,
        bytes: needed,
    })
}

fn origin(header: &[u8]) -> Result<Origin, Malformed> {
    let body = &header[HEAD_BYTES..];
    let (origin, addresses) = match header[13] {
        // Of what length its addresses are is not said, so nothing behind them can be found.
        UNSPECIFIED => return Ok(Origin::Own),
        TCP4 => match body.first_chunk::<12>() {
            Some(&[a, b, c, d, _, _, _, _, high, low, _, _]) => {
                let port = u16::from_be_bytes([high, low]);
                let client = SocketAddr::from((Ipv4Addr::new(a, b, c, d), port));
                (Origin::Client(client), 12)
            }
            None => return malformed("its length leaves no room for the addresses"),
        },
        TCP6 => match (body.first_chunk::<16>(), body.get(32..36)) {
            (Some(&ip), Some(ports)) => {
                let port = u16::from_be_bytes([ports[0], ports[1]]);
                let client = SocketAddr::from((Ipv6Addr::from(ip), port));
                (Origin::Client(client), 36)
            }
            _ => return malformed("its length leaves no room for the addresses"),
        },
        // A socket of the balancer's machine has no address that means anything here.
        UNIX if body.len() >= 216 => (Origin::Own, 216),
        UNIX => return malformed("its length leaves no room for the addresses"),
        _ => return malformed("its addresses are of no stream of IPv4, IPv6 or Unix"),
    };
    extensions(header, HEAD_BYTES + addresses)?;
    Ok(origin)
}

/// Walks the extensions: they fill the header exactly, and a checksum is right.
fn extensions(header: &[u8], mut at: usize) -> Result<(), Malformed> {
    while at < header.len() {
        let Some(&[kind, high, low]) = header[at..].first_chunk::<3>() else {
            return malformed("an extension is cut off");
        };
        let value = at + 3;
        at = value + usize::from(u16::from_be_bytes([high, low]));
        let Some(value_bytes) = header.get(value..at) else {
            return malformed("an extension is longer than the header");
        };
        if kind != CRC32C {
            continue;
        }
        let Some(&told) = value_bytes.first_chunk::<4>().filter(|_| at == value + 4) else {
            return malformed("the checksum has not four bytes");
        };
        // It counts as zero in its own sum.
        let mut summed = header.to_vec();
        summed[value..at].fill(0);
        if crc32c(&summed) != u32::from_be_bytes(told) {
            return malformed("the checksum is wrong");
        }
    }
    Ok(())
}

/// Both ends as addresses of one family, the client's. The server's is not known in another one.
pub(crate) fn pair(client: SocketAddr, server: SocketAddr) -> (SocketAddr, SocketAddr) {
    let from = SocketAddr::new(client.ip().to_canonical(), client.port());
    let to = match (from.ip(), server.ip().to_canonical()) {
        (IpAddr::V4(_), to @ IpAddr::V4(_)) | (IpAddr::V6(_), to @ IpAddr::V6(_)) => to,
        (IpAddr::V4(_), IpAddr::V6(_)) => Ipv4Addr::UNSPECIFIED.into(),
        (IpAddr::V6(_), IpAddr::V4(_)) => Ipv6Addr::UNSPECIFIED.into(),
    };
    (from, SocketAddr::new(to, server.port()))
}

/// Appends a header. Without a client the sender speaks for itself.
pub fn write(out: &mut Vec<u8>, client: Option<SocketAddr>, server: SocketAddr) {
    out.extend_from_slice(&BEGINNING);
    let Some(client) = client else {
        return out.extend_from_slice(&[VERSION | LOCAL, UNSPECIFIED, 0, 0]);
    };
    let (from, to) = pair(client, server);
    out.push(VERSION | PROXY);
    match (from.ip(), to.ip()) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            out.extend_from_slice(&[TCP4, 0, 12]);
            out.extend_from_slice(&from.octets());
            out.extend_from_slice(&to.octets());
        }
        (from, to) => {
            let octets = |ip: IpAddr| match ip {
                IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
                IpAddr::V6(ip) => ip.octets(),
            };
            out.extend_from_slice(&[TCP6, 0, 36]);
            out.extend_from_slice(&octets(from));
            out.extend_from_slice(&octets(to));
        }
    }
    out.extend_from_slice(&from.port().to_be_bytes());
    out.extend_from_slice(&to.port().to_be_bytes());
}
