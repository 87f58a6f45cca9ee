//! The messages before the first command: the server's greeting, the client's login, the exchange
//! of an authentication plugin, and COM_CHANGE_USER, which starts that exchange again.

mod change_user;
mod exchange;
mod greeting;
mod login;

pub use change_user::ChangeUser;
pub use exchange::{AuthMore, AuthSwitch, NextFactor};
pub use greeting::Greeting;
pub use login::{Login, TlsRequest, is_tls_request};

use crate::Malformed;
use crate::scalar::{Reader, put_lenenc_bytes};

/// Walks through a block of connection attributes: names and values. Ends at the first error.
pub fn attributes(block: &[u8]) -> impl Iterator<Item = Result<(&[u8], &[u8]), Malformed>> {
    let mut reader = Reader::new(block);
    std::iter::from_fn(move || {
        if reader.is_empty() {
            return None;
        }
        let pair = reader
            .lenenc_bytes()
            .and_then(|name| Ok((name, reader.lenenc_bytes()?)));
        if pair.is_err() {
            reader.rest();
        }
        Some(pair)
    })
}

/// Appends one attribute to a block that a [`Login`] can carry.
pub fn put_attribute(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    put_lenenc_bytes(block, name);
    put_lenenc_bytes(block, value);
}

/// A name that has to be text because it is compared and logged.
fn text<'a>(bytes: &'a [u8], what: &'static str) -> Result<&'a str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed::new(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_read_back_and_stop_at_the_first_error() {
        let mut block = Vec::new();
        put_attribute(&mut block, b"_os", b"Linux");
        put_attribute(&mut block, b"_pid", b"");
        let pairs: Result<Vec<_>, _> = attributes(&block).collect();
        assert_eq!(
            pairs,
            Ok(vec![(&b"_os"[..], &b"Linux"[..]), (b"_pid", b"")])
        );
        block.pop();
        let torn: Vec<_> = attributes(&block).collect();
        assert_eq!(torn.len(), 2);
        assert!(torn[0].is_ok() && torn[1].is_err());
    }
}
