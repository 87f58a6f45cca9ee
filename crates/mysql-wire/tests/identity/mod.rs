//! Checks that decoding, encoding and decoding again gives the same message, for any bytes. The
//! tests run them on the captures in `corpus`, and the fuzz targets on whatever they think of.
//!
//! An input is a letter for the kind of message, the connection's capabilities in 8 bytes, what
//! else the decoder has to know, and the payload. Each check returns what the encoder made of the
//! message, or None when the payload was malformed.

pub mod compressed;
pub mod handshake;
pub mod packet;
pub mod reply;
pub mod result;

use mysql_wire::capability::Capabilities;
use mysql_wire::scalar::Reader;

/// Splits an input into the letter, the capabilities, and the rest.
pub fn split(input: &[u8]) -> Option<(u8, Capabilities, &[u8])> {
    let mut reader = Reader::new(input);
    let kind = reader.u8().ok()?;
    let caps = Capabilities::from_bits_retain(reader.u64().ok()?);
    Some((kind, caps, reader.rest()))
}

/// Encodes into a fresh buffer.
pub fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    encode(&mut out);
    out
}

/// Decodes, encodes and decodes again; both messages must be equal.
macro_rules! round {
    ($payload:expr, $decode:expr, $encode:expr) => {{
        let first = $decode($payload).ok()?;
        let out = $crate::identity::encoded(|out| $encode(&first, out));
        assert_eq!($decode(&out), Ok(first.clone()));
        Some(out)
    }};
}
pub(crate) use round;
