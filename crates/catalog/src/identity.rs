//! Identities that Heddle makes itself: for the farm, for servers without a UUID, for procedures.

use std::fs::File;
use std::io::{self, Read};

use channel::Authority;
use uuid::Builder;

use crate::secret::Secret;

/// What a new farm begins with.
pub struct Fresh {
    pub id: String,
    /// What routers of releases without TLS between routers show each other.
    pub secret: Secret,
    /// The private key of the authority that signs routers' certificates, as PEM.
    pub authority: Secret,
}

/// All of it, made now.
pub fn fresh() -> io::Result<Fresh> {
    Ok(Fresh {
        id: uuid()?,
        secret: secret()?,
        authority: authority()?,
    })
}

/// The private key of an authority, as PEM.
pub fn authority() -> io::Result<Secret> {
    let key = Authority::new_key().map_err(io::Error::other)?;
    Ok(Secret::new(&key))
}

/// A random UUID (version 4).
pub fn uuid() -> io::Result<String> {
    let mut bytes = [0u8; 16];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Builder::from_random_bytes(bytes).into_uuid().to_string())
}

/// 32 random bytes in hexadecimal.
pub fn secret() -> io::Result<Secret> {
    let mut bytes = [0u8; 32];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(Secret::new(&hex::encode(bytes)))
}

#[cfg(test)]
mod tests {
    use uuid::{Uuid, Variant};

    use super::*;

    #[test]
    fn uuids_have_the_form_and_differ() {
        let id = uuid().expect("every machine has /dev/urandom");
        let id = Uuid::parse_str(&id).expect("it is one");
        assert_eq!(
            (id.get_version_num(), id.get_variant()),
            (4, Variant::RFC4122)
        );
        let read = || uuid().expect("every machine has /dev/urandom");
        assert_ne!(read(), read());
    }
}
