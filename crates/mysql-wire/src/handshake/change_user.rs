//! COM_CHANGE_USER: another login on the same connection, which resets the session.

use crate::Malformed;
use crate::capability::Capabilities;
use crate::scalar::{Reader, put_lenenc_bytes, put_nul_bytes, put_u16};

/// Who the client wants to be now. Both functions leave the command byte to the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeUser<'a> {
    /// The user's name.
    pub user: &'a [u8],
    /// The answer to the salt of the greeting, by `plugin`; at most 255 bytes.
    pub auth: &'a [u8],
    /// The database to use; None and an empty name are the same on the wire.
    pub database: Option<&'a [u8]>,
    /// The collation that the session starts with; 0 when the client left it out.
    pub collation: u16,
    /// The plugin that `auth` was made with; None without PLUGIN_AUTH.
    pub plugin: Option<&'a [u8]>,
    /// Connection attributes as they travel; None without CONNECT_ATTRS.
    pub attributes: Option<&'a [u8]>,
}

impl<'a> ChangeUser<'a> {
    /// Reads what follows the command byte, under the capabilities of the connection. What is left
    /// out at the end counts as empty.
    pub fn decode(bytes: &'a [u8], caps: Capabilities) -> Result<ChangeUser<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let user = reader.nul_bytes()?;
        let auth = if caps.contains(Capabilities::SECURE_CONNECTION) {
            let length = usize::from(reader.u8()?);
            reader.bytes(length)?
        } else {
            reader.nul_bytes()?
        };
        let database = Some(reader.nul_bytes_or_rest()).filter(|name| !name.is_empty());
        let collation = if reader.is_empty() { 0 } else { reader.u16()? };
        let plugin = caps
            .contains(Capabilities::PLUGIN_AUTH)
            .then(|| reader.nul_bytes_or_rest());
        let attributes = match caps.contains(Capabilities::CONNECT_ATTRS) {
            true if reader.is_empty() => Some(&[][..]),
            true => Some(reader.lenenc_bytes()?),
            false => None,
        };
        Ok(ChangeUser {
            user,
            auth,
            database,
            collation,
            plugin,
            attributes,
        })
    }

    /// Appends what follows the command byte. Fields that `caps` has no flag for are left out.
    pub fn encode(&self, out: &mut Vec<u8>, caps: Capabilities) {
        put_nul_bytes(out, self.user);
        if caps.contains(Capabilities::SECURE_CONNECTION) {
            super::exchange::put_short_bytes(out, self.auth);
        } else {
            put_nul_bytes(out, self.auth);
        }
        put_nul_bytes(out, self.database.unwrap_or_default());
        put_u16(out, self.collation);
        if caps.contains(Capabilities::PLUGIN_AUTH) {
            put_nul_bytes(out, self.plugin.unwrap_or_default());
        }
        if caps.contains(Capabilities::CONNECT_ATTRS) {
            put_lenenc_bytes(out, self.attributes.unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPS: Capabilities = Capabilities::SECURE_CONNECTION
        .union(Capabilities::PLUGIN_AUTH)
        .union(Capabilities::CONNECT_ATTRS);

    #[test]
    fn a_change_of_user_reads_back() {
        let change = ChangeUser {
            user: b"anna",
            auth: &[0, 1, 2, 0],
            database: Some(b"shop"),
            collation: 2304,
            plugin: Some(b"mysql_native_password"),
            attributes: Some(b"\x01a\x01b"),
        };
        let mut out = Vec::new();
        change.encode(&mut out, CAPS);
        assert_eq!(ChangeUser::decode(&out, CAPS), Ok(change));
    }

    #[test]
    fn old_clients_end_after_the_database() {
        let change = ChangeUser::decode(b"anna\0\0\0", CAPS).expect("the short form is read");
        assert_eq!((change.collation, change.database), (0, None));
        assert_eq!(
            (change.plugin, change.attributes),
            (Some(&[][..]), Some(&[][..]))
        );
        let plain = ChangeUser::decode(b"anna\0pw\0shop\0", Capabilities::empty());
        let plain = plain.expect("the form without a length is read");
        assert_eq!(
            (plain.auth, plain.database),
            (&b"pw"[..], Some(&b"shop"[..]))
        );
        assert_eq!((plain.plugin, plain.attributes), (None, None));
    }

    #[test]
    fn half_a_collation_is_malformed() {
        assert!(ChangeUser::decode(b"anna\0\0\0\x2d", CAPS).is_err());
        assert!(ChangeUser::decode(b"anna\0\x05abc", CAPS).is_err());
    }
}
