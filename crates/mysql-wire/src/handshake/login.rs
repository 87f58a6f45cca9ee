//! HandshakeResponse41: the client's answer to the greeting, and its short form before TLS.

use crate::Malformed;
use crate::capability::Capabilities;
use crate::scalar::{Reader, put_lenenc_bytes, put_nul_bytes, put_u32};

/// Bytes of the fixed part, which alone is the request for TLS.
const FIXED_BYTES: usize = 32;

/// The fixed part of a login, sent alone by a client that wants TLS before it says who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsRequest {
    /// What the client can do, with [`Capabilities::SSL`].
    pub capabilities: Capabilities,
    /// The longest payload that the client takes.
    pub packet_bytes_max: u32,
    /// The collation that the session starts with.
    pub collation: u8,
}

/// Whether a payload in the place of a login is the request for TLS.
pub fn is_tls_request(payload: &[u8]) -> bool {
    payload.len() == FIXED_BYTES && TlsRequest::decode(payload).is_ok()
}

impl TlsRequest {
    /// Reads a request for TLS.
    pub fn decode(payload: &[u8]) -> Result<TlsRequest, Malformed> {
        let request = TlsRequest::read(&mut Reader::new(payload))?;
        if !request.capabilities.contains(Capabilities::SSL) {
            return Err(Malformed::new("a request for TLS without its capability"));
        }
        Ok(request)
    }

    /// Appends the request.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.capabilities.low());
        put_u32(out, self.packet_bytes_max);
        out.push(self.collation);
        out.extend_from_slice(&[0; 19]);
        let speaks_extended = !self.capabilities.contains(Capabilities::LONG_PASSWORD);
        put_u32(
            out,
            if speaks_extended {
                self.capabilities.extended()
            } else {
                0
            },
        );
    }

    /// Reads the fixed part, which every login of 4.1 starts with.
    fn read(reader: &mut Reader<'_>) -> Result<TlsRequest, Malformed> {
        let low = reader.u32()?;
        let packet_bytes_max = reader.u32()?;
        let collation = reader.u8()?;
        reader.bytes(19)?;
        let capabilities = Capabilities::from_halves(low, reader.u32()?);
        if !capabilities.contains(Capabilities::PROTOCOL_41) {
            return Err(Malformed::new(
                "the client does not speak the protocol of 4.1",
            ));
        }
        Ok(TlsRequest {
            capabilities,
            packet_bytes_max,
            collation,
        })
    }
}

/// Who the client is, and what it can do.
///
/// The capabilities CONNECT_WITH_DB, PLUGIN_AUTH, CONNECT_ATTRS and ZSTD_COMPRESSION announce the
/// optional fields. [`Login::decode`] makes a field that was announced and left out at the end
/// empty; [`Login::encode`] sets these four flags by the fields, so that they cannot disagree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login<'a> {
    /// What the client can do; the connection uses what the server can do as well.
    pub capabilities: Capabilities,
    /// The longest payload that the client takes. Servers ignore it.
    pub packet_bytes_max: u32,
    /// The collation that the session starts with.
    pub collation: u8,
    /// The user's name, in that collation's character set.
    pub user: &'a [u8],
    /// The answer to the salt, by `plugin`. At most 255 bytes without PLUGIN_AUTH_LENENC.
    pub auth: &'a [u8],
    /// The database to use; an empty one means none.
    pub database: Option<&'a [u8]>,
    /// The plugin that `auth` was made with.
    pub plugin: Option<&'a [u8]>,
    /// Connection attributes as they travel; see [`attributes`](super::attributes).
    pub attributes: Option<&'a [u8]>,
    /// The level of zstd compression, 1 to 22.
    pub zstd_level: Option<u8>,
}

impl<'a> Login<'a> {
    /// Reads a login of the protocol of 4.1.
    pub fn decode(payload: &'a [u8]) -> Result<Login<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let fixed = TlsRequest::read(&mut reader)?;
        let has = |flag| fixed.capabilities.contains(flag);
        let user = reader.nul_bytes()?;
        let auth = if has(Capabilities::PLUGIN_AUTH_LENENC) {
            reader.lenenc_bytes()?
        } else if has(Capabilities::SECURE_CONNECTION) {
            let bytes = usize::from(reader.u8()?);
            reader.bytes(bytes)?
        } else {
            reader.nul_bytes_or_rest()
        };
        let mut name = |flag| has(flag).then(|| reader.nul_bytes_or_rest());
        let database = name(Capabilities::CONNECT_WITH_DB);
        let plugin = name(Capabilities::PLUGIN_AUTH);
        let attributes = match has(Capabilities::CONNECT_ATTRS) {
            true if reader.is_empty() => Some(&[][..]),
            true => Some(reader.lenenc_bytes()?),
            false => None,
        };
        let zstd_level = match has(Capabilities::ZSTD_COMPRESSION) {
            true => Some(reader.u8()?),
            false => None,
        };
        Ok(Login {
            capabilities: fixed.capabilities,
            packet_bytes_max: fixed.packet_bytes_max,
            collation: fixed.collation,
            user,
            auth,
            database,
            plugin,
            attributes,
            zstd_level,
        })
    }

    /// Appends the login. Without PLUGIN_AUTH_LENENC an `auth` of over 255 bytes is cut off, and
    /// the server refuses it.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let capabilities = self.announced();
        TlsRequest {
            capabilities,
            packet_bytes_max: self.packet_bytes_max,
            collation: self.collation,
        }
        .encode(out);
        put_nul_bytes(out, self.user);
        if capabilities.contains(Capabilities::PLUGIN_AUTH_LENENC) {
            put_lenenc_bytes(out, self.auth);
        } else if capabilities.contains(Capabilities::SECURE_CONNECTION) {
            super::exchange::put_short_bytes(out, self.auth);
        } else {
            put_nul_bytes(out, self.auth);
        }
        if let Some(database) = self.database {
            put_nul_bytes(out, database);
        }
        if let Some(plugin) = self.plugin {
            put_nul_bytes(out, plugin);
        }
        if let Some(attributes) = self.attributes {
            put_lenenc_bytes(out, attributes);
        }
        if let Some(level) = self.zstd_level {
            out.push(level);
        }
    }

    /// The capabilities as they go out: those of the optional fields follow the fields.
    fn announced(&self) -> Capabilities {
        let mut capabilities = self.capabilities;
        capabilities.set(Capabilities::CONNECT_WITH_DB, self.database.is_some());
        capabilities.set(Capabilities::PLUGIN_AUTH, self.plugin.is_some());
        capabilities.set(Capabilities::CONNECT_ATTRS, self.attributes.is_some());
        capabilities.set(Capabilities::ZSTD_COMPRESSION, self.zstd_level.is_some());
        capabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Login<'static> {
        Login {
            capabilities: Capabilities::PROTOCOL_41
                | Capabilities::SECURE_CONNECTION
                | Capabilities::CONNECT_WITH_DB
                | Capabilities::PLUGIN_AUTH
                | Capabilities::PLUGIN_AUTH_LENENC
                | Capabilities::CONNECT_ATTRS
                | Capabilities::MARIADB_CACHE_METADATA,
            packet_bytes_max: 1 << 24,
            collation: 45,
            user: b"anna",
            auth: b"01234567890123456789",
            database: Some(b"shop"),
            plugin: Some(b"mysql_native_password"),
            attributes: Some(b"\x03_os\x05Linux"),
            zstd_level: None,
        }
    }

    fn round(login: &Login<'_>) {
        let mut out = Vec::new();
        login.encode(&mut out);
        assert_eq!(Login::decode(&out).as_ref(), Ok(login));
    }

    #[test]
    fn logins_read_back_in_every_shape() {
        let mut login = sample();
        round(&login);
        login.capabilities -= Capabilities::PLUGIN_AUTH_LENENC;
        round(&login);
        login.capabilities -= Capabilities::SECURE_CONNECTION;
        round(&login);
        login.capabilities |= Capabilities::ZSTD_COMPRESSION | Capabilities::LONG_PASSWORD;
        login.capabilities -= Capabilities::MARIADB_ALL;
        login.zstd_level = Some(3);
        round(&login);
    }

    #[test]
    fn the_flags_follow_the_fields() {
        let mut login = sample();
        login.database = None;
        login.attributes = None;
        let mut out = Vec::new();
        login.encode(&mut out);
        login.capabilities -= Capabilities::CONNECT_WITH_DB | Capabilities::CONNECT_ATTRS;
        assert_eq!(Login::decode(&out), Ok(login));
    }

    #[test]
    fn announced_fields_that_are_left_out_are_empty() {
        let mut login = sample();
        (login.database, login.plugin, login.attributes) = (None, None, None);
        let mut out = Vec::new();
        login.encode(&mut out);
        let announced = sample().capabilities;
        out[..4].copy_from_slice(&announced.low().to_le_bytes());
        let decoded = Login::decode(&out).expect("a short login is read");
        let empty = Some(&[][..]);
        assert_eq!(decoded.capabilities, announced);
        assert_eq!(
            (decoded.database, decoded.plugin, decoded.attributes),
            (empty, empty, empty)
        );
        round(&decoded);
    }

    #[test]
    fn a_request_for_tls_is_told_from_a_login() {
        let request = TlsRequest {
            capabilities: Capabilities::PROTOCOL_41 | Capabilities::SSL,
            packet_bytes_max: 1 << 30,
            collation: 255,
        };
        let mut out = Vec::new();
        request.encode(&mut out);
        assert!(is_tls_request(&out));
        assert_eq!(TlsRequest::decode(&out), Ok(request));
        let mut login = Vec::new();
        sample().encode(&mut login);
        assert!(!is_tls_request(&login) && !is_tls_request(&login[..32]));
    }

    #[test]
    fn a_login_older_than_4_1_is_refused() {
        assert!(Login::decode(b"\x05\x24\0\0\0root\0secret").is_err());
        assert!(Login::decode(&[0; 64]).is_err());
    }
}
