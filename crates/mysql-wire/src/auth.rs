//! What passwords are proved with: the scrambles of `mysql_native_password` and
//! `caching_sha2_password`, the signatures of `client_ed25519` and `parsec`, and what servers store, for
//! both sides.
//!
//! Of a password, stage 1 is its hash and stage 2 the hash of that. A server stores stage 2; a
//! client proves that it knows stage 1; whoever verified a client knows stage 1 and can log in
//! elsewhere with it. An empty password has an empty response and none of these functions is asked.

mod base64;
mod ed25519;
mod parsec;
mod stored;

pub use ed25519::{
    ED25519_SALT_BYTES, ed25519_public, ed25519_public_parse, ed25519_sign, ed25519_verify,
};
pub use parsec::{PARSEC_SALT_BYTES, PARSEC_SCRAMBLE_BYTES, ParsecTerms, parsec_verify};
pub use stored::{sha2_stored_verify, sha256_stored_verify};

use sha1::Sha1;
use sha2::{Digest, Sha256};

/// SHA-1 scramble; the only one that every server and client knows.
pub const NATIVE: &str = "mysql_native_password";
/// SHA-256 scramble with a cache in the server; the default of MySQL 8.
pub const CACHING_SHA2: &str = "caching_sha2_password";
/// The password itself, under TLS or the server's RSA key; MySQL.
pub const SHA256: &str = "sha256_password";
/// The password itself, for servers that ask PAM or LDAP.
pub const CLEAR: &str = "mysql_clear_password";
/// Questions and answers in clear, the first of which is for the password; MariaDB with PAM.
pub const DIALOG: &str = "dialog";
/// The first question of `dialog`, as PAM asks it: the byte says that the answer is a password.
pub const DIALOG_PROMPT: &[u8] = b"\x04Password: ";
/// Signatures; MariaDB.
pub const ED25519: &str = "client_ed25519";
/// Signatures with a key that is drawn from the password under a salt; MariaDB 11.6.
pub const PARSEC: &str = "parsec";
/// The user of the operating system behind a Unix socket; MariaDB's name is `unix_socket`.
pub const SOCKET: &str = "auth_socket";

/// Bytes of the random salt in a greeting, without the NUL behind it.
pub const SALT_BYTES: usize = 20;

/// In front of the proof of a certificate, in the text of an OK.
const CERTIFICATE_PROOF: u8 = 1;

/// `caching_sha2_password`, client: asks for the server's RSA key (a payload of this one byte).
pub const REQUEST_KEY: u8 = 2;
/// `sha256_password`, client: asks for the server's RSA key, in place of a password.
pub const SHA256_REQUEST_KEY: u8 = 1;
/// `caching_sha2_password`, server: the scramble was right (in [`AuthMore`](crate::handshake)).
pub const FAST_OK: u8 = 3;
/// `caching_sha2_password`, server: not cached, send the password.
pub const FULL: u8 = 4;

/// SHA-1 of the password.
pub fn native_stage1(password: &[u8]) -> [u8; 20] {
    Sha1::digest(password).into()
}

/// SHA-1 of stage 1: what the server stores, as 40 hex digits behind `*`.
pub fn native_stage2(stage1: &[u8; 20]) -> [u8; 20] {
    Sha1::digest(stage1).into()
}

/// What a client answers to `salt`.
pub fn native_scramble(stage1: &[u8; 20], salt: &[u8; SALT_BYTES]) -> [u8; 20] {
    xor(stage1, &native_pad(&native_stage2(stage1), salt))
}

/// Checks what a client answered against the stored stage 2; gives stage 1 when it is right.
pub fn native_verify(
    response: &[u8],
    salt: &[u8; SALT_BYTES],
    stage2: &[u8; 20],
) -> Option<[u8; 20]> {
    let response: &[u8; 20] = response.try_into().ok()?;
    let stage1 = xor(response, &native_pad(stage2, salt));
    equal(&native_stage2(&stage1), stage2).then_some(stage1)
}

/// What MariaDB's OK of a login says under TLS: that whoever shows this certificate knows the account's
/// password, so that a client need not know who signed it. `stored` is what the servers keep of the
/// password, `salt` the greeting's, `fingerprint` SHA-256 of the certificate.
pub fn certificate_proof(
    stored: &[u8],
    salt: &[u8; SALT_BYTES],
    fingerprint: &[u8; 32],
) -> Vec<u8> {
    let digest = Sha256::new()
        .chain_update(stored)
        .chain_update(salt)
        .chain_update(fingerprint)
        .finalize();
    [&[CERTIFICATE_PROOF], hex::encode_upper(digest).as_bytes()].concat()
}

/// Reads stage 2 from `mysql.user`, as `PASSWORD()` prints it: `*` and 40 hex digits.
pub fn native_stage2_parse(text: &[u8]) -> Option<[u8; 20]> {
    let (b'*', digits) = text.split_first()? else {
        return None;
    };
    let digits: &[u8; 40] = digits.try_into().ok()?;
    let mut stage2 = [0; 20];
    for (byte, pair) in stage2.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = (high << 4 | low) as u8;
    }
    Some(stage2)
}

/// SHA-256 of the password.
pub fn sha2_stage1(password: &[u8]) -> [u8; 32] {
    Sha256::digest(password).into()
}

/// SHA-256 of stage 1: what the server keeps in its cache.
pub fn sha2_stage2(stage1: &[u8; 32]) -> [u8; 32] {
    Sha256::digest(stage1).into()
}

/// What a client answers to `salt`.
pub fn sha2_scramble(stage1: &[u8; 32], salt: &[u8; SALT_BYTES]) -> [u8; 32] {
    xor(stage1, &sha2_pad(&sha2_stage2(stage1), salt))
}

/// Checks what a client answered against the cached stage 2; gives stage 1 when it is right.
pub fn sha2_verify(
    response: &[u8],
    salt: &[u8; SALT_BYTES],
    stage2: &[u8; 32],
) -> Option<[u8; 32]> {
    let response: &[u8; 32] = response.try_into().ok()?;
    let stage1 = xor(response, &sha2_pad(stage2, salt));
    equal(&sha2_stage2(&stage1), stage2).then_some(stage1)
}

/// XORs a password, with its closing NUL, with the salt over and over: what stands inside the RSA
/// encryption of a full `caching_sha2_password` login. Doing it again takes it off.
pub fn mask(password_with_nul: &mut [u8], salt: &[u8]) {
    for (byte, key) in password_with_nul.iter_mut().zip(salt.iter().cycle()) {
        *byte ^= key;
    }
}

/// Compares in a time that does not depend on where two secrets differ. Their lengths are public.
pub fn equal(left: &[u8], right: &[u8]) -> bool {
    if left.len() != right.len() {
        return false;
    }
    let pairs = left.iter().zip(right);
    let difference = pairs.fold(0, |seen, (l, r)| std::hint::black_box(seen | (l ^ r)));
    difference == 0
}

/// The pad over stage 1: SHA-1(salt, stage 2).
fn native_pad(stage2: &[u8; 20], salt: &[u8; SALT_BYTES]) -> [u8; 20] {
    Sha1::new()
        .chain_update(salt)
        .chain_update(stage2)
        .finalize()
        .into()
}

/// The pad over stage 1: SHA-256(stage 2, salt), in the other order than the native one.
fn sha2_pad(stage2: &[u8; 32], salt: &[u8; SALT_BYTES]) -> [u8; 32] {
    Sha256::new()
        .chain_update(stage2)
        .chain_update(salt)
        .finalize()
        .into()
}

fn xor<const N: usize>(left: &[u8; N], right: &[u8; N]) -> [u8; N] {
    std::array::from_fn(|at| left[at] ^ right[at])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SALT: &[u8; SALT_BYTES] = b"0123456789abcdefghij";

    #[test]
    fn native_stage2_is_what_the_server_prints() {
        // SELECT PASSWORD('secret')
        let stored = b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7";
        let stage2 = native_stage2(&native_stage1(b"secret"));
        assert_eq!(native_stage2_parse(stored), Some(stage2));
        let lower = stored.to_ascii_lowercase();
        assert_eq!(native_stage2_parse(&lower), Some(stage2));
        assert_eq!(native_stage2_parse(b"*14"), None);
        assert_eq!(native_stage2_parse(&stored[1..]), None);
        assert_eq!(
            native_stage2_parse(b"*14E65567ABDB5135D0CFD9A70B3032C179A49EEx"),
            None
        );
    }

    #[test]
    fn native_verifies_its_own_scramble_and_no_other() {
        let stage1 = native_stage1(b"secret");
        let stage2 = native_stage2(&stage1);
        let mut response = native_scramble(&stage1, SALT);
        assert_eq!(native_verify(&response, SALT, &stage2), Some(stage1));
        assert_eq!(native_verify(&response[1..], SALT, &stage2), None);
        assert_eq!(native_verify(&[], SALT, &stage2), None);
        response[19] ^= 1;
        assert_eq!(native_verify(&response, SALT, &stage2), None);
    }

    #[test]
    fn sha2_verifies_its_own_scramble_and_no_other() {
        let stage1 = sha2_stage1(b"secret");
        let stage2 = sha2_stage2(&stage1);
        let mut response = sha2_scramble(&stage1, SALT);
        assert_eq!(sha2_verify(&response, SALT, &stage2), Some(stage1));
        response[0] ^= 0x80;
        assert_eq!(sha2_verify(&response, SALT, &stage2), None);
        assert_eq!(sha2_verify(&response[..20], SALT, &stage2), None);
    }

    #[test]
    fn the_mask_repeats_the_salt_and_comes_off_again() {
        let plain = b"a password longer than twenty bytes\0";
        let mut masked = plain.to_vec();
        mask(&mut masked, SALT);
        assert_eq!(masked[20], plain[20] ^ SALT[0]);
        mask(&mut masked, SALT);
        assert_eq!(masked, plain);
    }

    #[test]
    fn equal_compares_every_byte() {
        assert!(equal(b"", b"") && equal(b"ab", b"ab"));
        assert!(!equal(b"ab", b"abc") && !equal(b"ab", b"ac") && !equal(b"bb", b"ab"));
    }
}
