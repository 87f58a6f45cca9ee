//! HandshakeV10: the first packet of a connection, from the server.

use super::text;
use crate::Malformed;
use crate::auth::SALT_BYTES;
use crate::capability::Capabilities;
use crate::scalar::{Reader, put_nul_bytes, put_u16, put_u32};
use crate::status::Status;

/// The protocol version that every server since 3.21 speaks.
const PROTOCOL: u8 = 10;
/// The salt goes in two parts: 8 bytes, and 12 with a NUL behind them.
const SALT_HEAD_BYTES: usize = 8;

/// What a server says of itself. A server that refuses the connection sends an error packet
/// instead: ask [`reply::is_err`](crate::reply::is_err) first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// As sent; MariaDB before 11 puts `5.5.5-` in front, see [`Greeting::server_version`].
    pub version: &'a str,
    /// What `CONNECTION_ID()` gives and `KILL` takes.
    pub connection_id: u32,
    /// Random bytes without NUL that the password is scrambled with.
    pub salt: [u8; SALT_BYTES],
    /// What the server can do.
    pub capabilities: Capabilities,
    /// The server's default collation; ids over 255 do not fit and come as their low byte.
    pub collation: u8,
    /// The state of the new session.
    pub status: Status,
    /// The plugin that `salt` is for; empty without [`Capabilities::PLUGIN_AUTH`].
    pub plugin: &'a str,
}

impl<'a> Greeting<'a> {
    /// Reads the greeting of a server that speaks the protocol of 4.1.
    pub fn decode(payload: &'a [u8]) -> Result<Greeting<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != PROTOCOL {
            return Err(Malformed::new("the greeting is not of protocol version 10"));
        }
        let version = text(reader.nul_bytes()?, "the server's version is not UTF-8")?;
        let connection_id = reader.u32()?;
        let mut salt = [0; SALT_BYTES];
        salt[..SALT_HEAD_BYTES].copy_from_slice(reader.bytes(SALT_HEAD_BYTES)?);
        reader.u8()?;
        let low = u32::from(reader.u16()?);
        let collation = reader.u8()?;
        let status = Status::from_bits_retain(reader.u16()?);
        let low = low | u32::from(reader.u16()?) << 16;
        let salt_bytes = usize::from(reader.u8()?);
        reader.bytes(6)?;
        let capabilities = Capabilities::from_halves(low, reader.u32()?);
        if !capabilities.contains(Capabilities::PROTOCOL_41 | Capabilities::SECURE_CONNECTION) {
            return Err(Malformed::new(
                "the server does not speak the protocol of 4.1",
            ));
        }
        // The second part has at least 13 bytes on the wire, whatever the length byte says.
        let tail = reader.bytes(salt_bytes.saturating_sub(SALT_HEAD_BYTES).max(13))?;
        salt[SALT_HEAD_BYTES..].copy_from_slice(&tail[..SALT_BYTES - SALT_HEAD_BYTES]);
        let plugin = if capabilities.contains(Capabilities::PLUGIN_AUTH) {
            // MySQL 5.5.7 to 5.5.9 leave the NUL out.
            text(reader.nul_bytes_or_rest(), "the plugin's name is not UTF-8")?
        } else {
            ""
        };
        Ok(Greeting {
            version,
            connection_id,
            salt,
            capabilities,
            collation,
            status,
            plugin,
        })
    }

    /// Appends the greeting. `capabilities` should have PROTOCOL_41 and SECURE_CONNECTION, or no
    /// client understands it; extended capabilities go only without LONG_PASSWORD.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let low = self.capabilities.low();
        let has_plugin = self.capabilities.contains(Capabilities::PLUGIN_AUTH);
        out.push(PROTOCOL);
        put_nul_bytes(out, self.version.as_bytes());
        put_u32(out, self.connection_id);
        out.extend_from_slice(&self.salt[..SALT_HEAD_BYTES]);
        out.push(0);
        put_u16(out, low as u16);
        out.push(self.collation);
        put_u16(out, self.status.bits());
        put_u16(out, (low >> 16) as u16);
        out.push(if has_plugin { SALT_BYTES as u8 + 1 } else { 0 });
        out.extend_from_slice(&[0; 6]);
        let speaks_extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        put_u32(
            out,
            if speaks_extended {
                self.capabilities.extended()
            } else {
                0
            },
        );
        out.extend_from_slice(&self.salt[SALT_HEAD_BYTES..]);
        out.push(0);
        if has_plugin {
            put_nul_bytes(out, self.plugin.as_bytes());
        }
    }

    /// Whether the server is a MariaDB, by what it says of itself.
    pub fn is_mariadb(&self) -> bool {
        self.version.starts_with(REPLICATION_PREFIX) || self.version.contains("MariaDB")
    }

    /// The version without the `5.5.5-` that MariaDB shows to old replicas.
    pub fn server_version(&self) -> &'a str {
        self.version
            .strip_prefix(REPLICATION_PREFIX)
            .unwrap_or(self.version)
    }
}

/// What MariaDB 10 puts before its version, because replicas of 5.5 take `10` for `1`.
const REPLICATION_PREFIX: &str = "5.5.5-";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Greeting<'static> {
        Greeting {
            version: "5.5.5-10.11.6-MariaDB",
            connection_id: 77,
            salt: *b"abcdefghijklmnopqrst",
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::PLUGIN_AUTH
                | Capabilities::MARIADB_STMT_BULK,
            collation: 45,
            status: Status::AUTOCOMMIT,
            plugin: crate::auth::NATIVE,
        }
    }

    #[test]
    fn a_mariadb_greeting_carries_extended_capabilities() {
        let greeting = sample();
        let mut out = Vec::new();
        greeting.encode(&mut out);
        assert_eq!(Greeting::decode(&out), Ok(greeting.clone()));
        assert!(greeting.is_mariadb());
        assert_eq!(greeting.server_version(), "10.11.6-MariaDB");
    }

    #[test]
    fn a_mysql_greeting_has_no_extended_capabilities() {
        let mut greeting = sample();
        greeting.version = "8.0.36";
        greeting.capabilities |= Capabilities::LONG_PASSWORD;
        let mut out = Vec::new();
        greeting.encode(&mut out);
        greeting.capabilities -= Capabilities::MARIADB_ALL;
        assert_eq!(Greeting::decode(&out), Ok(greeting.clone()));
        assert!(!greeting.is_mariadb());
    }

    #[test]
    fn a_greeting_without_plugins_or_its_last_nul_is_read() {
        let mut greeting = sample();
        let mut out = Vec::new();
        greeting.encode(&mut out);
        out.pop();
        assert_eq!(Greeting::decode(&out), Ok(greeting.clone()));
        greeting.capabilities -= Capabilities::PLUGIN_AUTH;
        greeting.plugin = "";
        out.clear();
        greeting.encode(&mut out);
        assert_eq!(Greeting::decode(&out), Ok(greeting));
    }

    #[test]
    fn every_cut_of_a_greeting_is_malformed_or_lacks_the_end_of_the_plugin() {
        let mut out = Vec::new();
        sample().encode(&mut out);
        let fixed = out.len() - sample().plugin.len() - 1;
        for end in 0..fixed {
            assert!(Greeting::decode(&out[..end]).is_err(), "{end}");
        }
    }
}
