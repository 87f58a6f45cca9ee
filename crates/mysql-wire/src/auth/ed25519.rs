//! MariaDB's `client_ed25519`: the client signs the salt. The signing key is SHA-512 of the password
//! and not of a seed of 32 bytes, else the signatures are ordinary ones.
//!
//! Source: MariaDB Knowledge Base, «Authentication Plugin - ed25519»; the plugin's `ref10/sign.c`.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, Verifier, VerifyingKey};
use sha2::{Digest, Sha512};

use super::base64;

/// Bytes of the salt, all of them significant: no NUL follows.
pub const ED25519_SALT_BYTES: usize = 32;

/// The public key that belongs to a password: what the server stores.
pub fn ed25519_public(password: &[u8]) -> [u8; 32] {
    VerifyingKey::from(&key(password)).to_bytes()
}

/// What a client answers to `salt`.
pub fn ed25519_sign(password: &[u8], salt: &[u8]) -> [u8; 64] {
    let key = key(password);
    let public = VerifyingKey::from(&key);
    raw_sign::<Sha512>(&key, salt, &public).to_bytes()
}

/// Checks what a client answered against the stored public key.
pub fn ed25519_verify(response: &[u8], salt: &[u8], public: &[u8; 32]) -> bool {
    let (Ok(signature), Ok(public)) = (
        Signature::from_slice(response),
        VerifyingKey::from_bytes(public),
    ) else {
        return false;
    };
    public.verify(salt, &signature).is_ok()
}

/// Reads a public key from `mysql.global_priv`: 43 characters of Base64 without its padding.
pub fn ed25519_public_parse(text: &[u8]) -> Option<[u8; 32]> {
    base64::decode(text)
}

fn key(password: &[u8]) -> ExpandedSecretKey {
    ExpandedSecretKey::from_bytes(&Sha512::digest(password).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_public_key_is_what_the_server_stores() {
        // SELECT ed25519_password('secret')
        let stored = b"ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY";
        assert_eq!(
            ed25519_public_parse(stored),
            Some(ed25519_public(b"secret"))
        );
        assert_eq!(ed25519_public_parse(&stored[1..]), None);
        assert_eq!(ed25519_public_parse(&[b'!'; 43]), None);
    }

    #[test]
    fn verifies_its_own_signature_and_no_other() {
        let salt = [7; ED25519_SALT_BYTES];
        let public = ed25519_public(b"secret");
        let mut response = ed25519_sign(b"secret", &salt);
        assert!(ed25519_verify(&response, &salt, &public));
        assert!(!ed25519_verify(
            &response,
            &[8; ED25519_SALT_BYTES],
            &public
        ));
        assert!(!ed25519_verify(&response[1..], &salt, &public));
        assert!(!ed25519_verify(&[], &salt, &public));
        response[3] ^= 1;
        assert!(!ed25519_verify(&response, &salt, &public));
    }
}
