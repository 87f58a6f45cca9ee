//! Identities that Heddle makes itself: for the farm, for servers without a UUID, for procedures.

use std::fs::File;
use std::io::{self, Read};

use channel::Authority;

use crate::peers::Secret;

/// What a new farm begins with.
pub(crate) struct Fresh {
    pub(crate) id: String,
    /// What routers of releases without TLS between routers show each other.
    pub(crate) secret: Secret,
    /// The private key of the authority that signs routers' certificates, as PEM.
    pub(crate) authority: Secret,
}

/// All of it, made now.
pub(crate) fn fresh() -> io::Result<Fresh> {
    Ok(Fresh {
        id: uuid()?,
        secret: secret()?,
        authority: authority()?,
    })
}

/// The private key of an authority, as PEM.
pub(crate) fn authority() -> io::Result<Secret> {
    let key = Authority::new_key().map_err(io::Error::other)?;
    Ok(Secret::new(&key))
}

/// A random UUID (version 4).
pub(crate) fn uuid() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format_uuid(bytes))
}

/// 32 random bytes in hexadecimal.
fn secret() -> io::Result<Secret> {
    let mut bytes = [0u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(Secret::new(&text))
}

fn format_uuid(mut bytes: [u8; 16]) -> String {
    // RFC 9562: version 4, variant 10.
    bytes[6] = bytes[6] & 0x0F | 0x40;
    bytes[8] = bytes[8] & 0x3F | 0x80;
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form_and_differ() {
        assert_eq!(
            format_uuid([0xFF; 16]),
            "ffffffff-ffff-4fff-bfff-ffffffffffff"
        );
        assert_eq!(format_uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
        let read = || uuid().expect("every machine has /dev/urandom");
        assert_ne!(read(), read());
    }
}
