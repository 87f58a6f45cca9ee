//! What goes to and fro while a plugin authenticates the client. The client's packets in this
//! phase are bare answers without any structure.

use super::text;
use crate::Malformed;
use crate::auth::SALT_BYTES;
use crate::scalar::{Reader, put_nul_bytes};

/// First byte of a request to switch; the same byte opens EOF packets later.
const SWITCH: u8 = 0xFE;
/// First byte of more data.
const MORE: u8 = 0x01;
/// First byte of a request for another factor.
const NEXT_FACTOR: u8 = 0x02;

/// The server asks the client to answer again, with another plugin and salt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthSwitch<'a> {
    /// The plugin to use.
    pub plugin: &'a str,
    /// The new salt, without the NUL behind it; other plugins have salts of other lengths.
    pub salt: &'a [u8],
}

impl<'a> AuthSwitch<'a> {
    /// Whether a payload, in the place where the server answers a login, asks to switch.
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&SWITCH)
    }

    /// Reads the request. Its form of before 4.1, a lone 0xFE, is refused.
    pub fn decode(payload: &'a [u8]) -> Result<AuthSwitch<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != SWITCH {
            return Err(Malformed::new("not a request to switch the plugin"));
        }
        if reader.is_empty() {
            return Err(Malformed::new(
                "the server asks for a password of before 4.1",
            ));
        }
        let plugin = text(reader.nul_bytes_or_rest(), "the plugin's name is not UTF-8")?;
        let salt = reader.rest();
        // The NUL belongs to the salts of 20 bytes; other plugins' data end as they end.
        let salt = match salt.strip_suffix(b"\0") {
            Some(shorter) if shorter.len() == SALT_BYTES => shorter,
            _ => salt,
        };
        Ok(AuthSwitch { plugin, salt })
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(SWITCH);
        put_nul_bytes(out, self.plugin.as_bytes());
        out.extend_from_slice(self.salt);
        if self.salt.len() == SALT_BYTES {
            out.push(0);
        }
    }

    /// The salt for the functions of [`auth`](crate::auth); None when it has another length.
    pub fn salt_array(&self) -> Option<[u8; SALT_BYTES]> {
        self.salt.try_into().ok()
    }
}

/// The server's part of a plugin's conversation: for `caching_sha2_password` one of
/// [`FAST_OK`](crate::auth::FAST_OK) and [`FULL`](crate::auth::FULL), or its RSA key as PEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthMore<'a>(pub &'a [u8]);

impl<'a> AuthMore<'a> {
    /// Whether a payload, in the place where the server answers a login, is such a part.
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&MORE)
    }

    /// Reads the part.
    pub fn decode(payload: &'a [u8]) -> Result<AuthMore<'a>, Malformed> {
        match payload.split_first() {
            Some((&MORE, data)) => Ok(AuthMore(data)),
            _ => Err(Malformed::new("not the data of an authentication plugin")),
        }
    }

    /// Appends the part.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(MORE);
        out.extend_from_slice(self.0);
    }
}

/// The server took one proof and wants another one, of another plugin: MySQL's accounts with several factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextFactor;

impl NextFactor {
    /// Whether a payload, in the place where the server answers a login, asks for another proof.
    pub fn is(payload: &[u8]) -> bool {
        payload.first() == Some(&NEXT_FACTOR)
    }

    /// The plugin of the next proof.
    pub fn plugin(payload: &[u8]) -> String {
        let name = payload.split(|&byte| byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(name.get(1..).unwrap_or_default()).into_owned()
    }
}

/// Appends a string behind a length of one byte, cut at 255 bytes.
pub(super) fn put_short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(255)];
    out.push(bytes.len() as u8);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_reads_back_with_and_without_its_last_nul() {
        let switch = AuthSwitch {
            plugin: "caching_sha2_password",
            salt: b"abcdefghijklmnopqrst",
        };
        let mut out = Vec::new();
        switch.encode(&mut out);
        assert!(AuthSwitch::is(&out));
        assert_eq!(AuthSwitch::decode(&out), Ok(switch));
        out.pop();
        assert_eq!(AuthSwitch::decode(&out), Ok(switch));
        assert_eq!(switch.salt_array(), Some(*b"abcdefghijklmnopqrst"));
        assert_eq!(
            AuthSwitch {
                plugin: "x",
                salt: b"short"
            }
            .salt_array(),
            None
        );
    }

    #[test]
    fn the_switch_of_before_4_1_is_refused() {
        assert!(AuthSwitch::decode(&[0xFE]).is_err());
        assert!(AuthSwitch::decode(&[]).is_err());
        assert!(AuthSwitch::decode(b"\x01x").is_err());
    }

    #[test]
    fn another_factor_names_its_plugin() {
        let payload = b"\x02authentication_webauthn\0challenge";
        assert!(NextFactor::is(payload) && !NextFactor::is(b"\x01"));
        assert_eq!(NextFactor::plugin(payload), "authentication_webauthn");
        assert_eq!(NextFactor::plugin(b"\x02"), "");
    }

    #[test]
    fn more_data_reads_back() {
        let mut out = Vec::new();
        AuthMore(&[crate::auth::FAST_OK]).encode(&mut out);
        assert_eq!(out, [1, 3]);
        assert_eq!(AuthMore::decode(&out), Ok(AuthMore(&[3])));
        assert!(AuthMore::decode(&[]).is_err() && AuthMore::decode(&[3]).is_err());
    }
}
