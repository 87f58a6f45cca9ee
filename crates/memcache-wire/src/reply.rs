//! Replies of the classic protocol. Meta replies stand in [`crate::meta`].

use crate::number::push_number;

/// The replies that are always the same, without line end.
pub const STORED: &str = "STORED";
pub const NOT_STORED: &str = "NOT_STORED";
pub const EXISTS: &str = "EXISTS";
pub const NOT_FOUND: &str = "NOT_FOUND";
pub const DELETED: &str = "DELETED";
pub const TOUCHED: &str = "TOUCHED";
pub const OK: &str = "OK";
pub const END: &str = "END";
pub const RESET: &str = "RESET";
pub const META_NOOP: &str = "MN";
pub const META_MISS: &str = "EN";

/// One of the lines above.
pub fn line(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// One item of a `get`; its number only if asked for.
pub fn value(out: &mut Vec<u8>, key: &[u8], flags: u32, data: &[u8], cas: Option<u64>) {
    out.reserve(key.len() + data.len() + 64);
    out.extend_from_slice(b"VALUE ");
    out.extend_from_slice(key);
    out.push(b' ');
    push_number(out, u64::from(flags));
    out.push(b' ');
    push_number(out, data.len() as u64);
    if let Some(cas) = cas {
        out.push(b' ');
        push_number(out, cas);
    }
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// The reply to a count.
pub fn number(out: &mut Vec<u8>, number: u64) {
    push_number(out, number);
    out.extend_from_slice(b"\r\n");
}

/// One line of `stats`.
pub fn stat(out: &mut Vec<u8>, name: &str, value: &str) {
    out.extend_from_slice(b"STAT ");
    push_text(out, name);
    out.push(b' ');
    push_text(out, value);
    out.extend_from_slice(b"\r\n");
}

/// The client is at fault.
pub fn client_error(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"CLIENT_ERROR ");
    push_text(out, text);
    out.extend_from_slice(b"\r\n");
}

/// The client is not at fault.
pub fn server_error(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"SERVER_ERROR ");
    push_text(out, text);
    out.extend_from_slice(b"\r\n");
}

/// A text of somebody else's, which must not end the line.
fn push_text(out: &mut Vec<u8>, text: &str) {
    out.extend(text.bytes().map(|byte| match byte {
        0..b' ' | 0x7f => b' ',
        byte => byte,
    }));
}
