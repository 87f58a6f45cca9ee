//! MariaDB's `parsec`: the client signs a scramble of the server's and one of its own. The signing key's
//! seed is drawn from the password by PBKDF2 with SHA-512, under a salt that the server keeps and tells.
//!
//! Source: MariaDB documentation, «Authentication Plugin - PARSEC»; RFC 8018 (PBKDF2), RFC 8032 (Ed25519).

use ed25519_dalek::{Signature, Signer, SigningKey, Verifier};
use sha2::{Digest, Sha512};
use zeroize::Zeroizing;

use super::base64;

/// Bytes of each side's scramble.
pub const PARSEC_SCRAMBLE_BYTES: usize = 32;
/// Bytes of an account's salt.
pub const PARSEC_SALT_BYTES: usize = 18;
/// Bytes of the client's answer: its scramble and the signature.
const ANSWER_BYTES: usize = PARSEC_SCRAMBLE_BYTES + 64;
/// The only function that a key is drawn with: PBKDF2.
const PBKDF2: u8 = b'P';
/// Rounds of an account without doublings, and how often they can be doubled.
const ROUNDS: u32 = 1024;
const DOUBLINGS_MAX: u8 = 3;
/// Bytes that SHA-512 takes at a time.
const BLOCK_BYTES: usize = 128;

/// How a key is drawn from the password of an account: what the server tells whoever wants to log in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsecTerms {
    /// How often the 1024 rounds are doubled; 3 at most.
    pub doublings: u8,
    pub salt: [u8; PARSEC_SALT_BYTES],
}

impl ParsecTerms {
    /// Reads what is stored of an account, as in `P0:SALT:KEY`; gives its public key, too.
    pub fn parse(stored: &[u8]) -> Option<(ParsecTerms, [u8; 32])> {
        let mut parts = stored.split(|&byte| byte == b':');
        let (&[PBKDF2, digit], salt, key, None) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next())
        else {
            return None;
        };
        let doublings = digit.checked_sub(b'0')?;
        let terms = ParsecTerms {
            doublings,
            salt: base64::decode(salt)?,
        };
        (doublings <= DOUBLINGS_MAX).then_some((terms, base64::decode(key)?))
    }

    /// The server's second message.
    pub fn encode(&self) -> [u8; 2 + PARSEC_SALT_BYTES] {
        let mut message = [PBKDF2; 2 + PARSEC_SALT_BYTES];
        message[1] = self.doublings;
        message[2..].copy_from_slice(&self.salt);
        message
    }

    /// Reads the server's second message; `None` for what asks for another function, or for more rounds
    /// than any server does.
    pub fn decode(message: &[u8]) -> Option<ParsecTerms> {
        let (&PBKDF2, rest) = message.split_first()? else {
            return None;
        };
        let (&doublings, salt) = rest.split_first()?;
        let terms = ParsecTerms {
            doublings,
            salt: salt.try_into().ok()?,
        };
        (doublings <= DOUBLINGS_MAX).then_some(terms)
    }

    /// The public key that belongs to a password. Takes a millisecond on purpose.
    pub fn public(&self, password: &[u8]) -> [u8; 32] {
        self.key(password).verifying_key().to_bytes()
    }

    /// What a client answers: `own` is its scramble, of random bytes. Takes a millisecond on purpose.
    pub fn answer(
        &self,
        password: &[u8],
        servers: &[u8],
        own: &[u8; PARSEC_SCRAMBLE_BYTES],
    ) -> Vec<u8> {
        let signature = self.key(password).sign(&[servers, own].concat());
        [&own[..], &signature.to_bytes()].concat()
    }

    fn key(&self, password: &[u8]) -> SigningKey {
        let rounds = ROUNDS << self.doublings.min(DOUBLINGS_MAX);
        SigningKey::from_bytes(&pbkdf2(password, &self.salt, rounds))
    }
}

/// Checks what a client answered to the scramble `servers` against the stored public key.
pub fn parsec_verify(answer: &[u8], servers: &[u8], public: &[u8; 32]) -> bool {
    if answer.len() != ANSWER_BYTES || servers.len() != PARSEC_SCRAMBLE_BYTES {
        return false;
    }
    let (own, signature) = answer.split_at(PARSEC_SCRAMBLE_BYTES);
    let key = ed25519_dalek::VerifyingKey::from_bytes(public);
    let (Ok(signature), Ok(key)) = (Signature::from_slice(signature), key) else {
        return false;
    };
    key.verify(&[servers, own].concat(), &signature).is_ok()
}

/// The first 32 bytes of PBKDF2 with HMAC-SHA-512, which are in its first block.
fn pbkdf2(password: &[u8], salt: &[u8], rounds: u32) -> Zeroizing<[u8; 32]> {
    let mut key = Zeroizing::new([0; BLOCK_BYTES]);
    if password.len() > BLOCK_BYTES {
        key[..64].copy_from_slice(&Sha512::digest(password));
    } else {
        key[..password.len()].copy_from_slice(password);
    }
    let under = |pad: u8| {
        let padded = Zeroizing::new(key.map(|byte| byte ^ pad));
        Sha512::new_with_prefix(*padded)
    };
    let (inner, outer) = (under(0x36), under(0x5C));
    let hmac = |message: &[u8]| -> [u8; 64] {
        let hashed = inner.clone().chain_update(message).finalize();
        outer.clone().chain_update(hashed).finalize().into()
    };
    let mut last = hmac(&[salt, &1u32.to_be_bytes()].concat());
    let mut sum = last;
    for _ in 1..rounds {
        last = hmac(&last);
        sum.iter_mut()
            .zip(last)
            .for_each(|(sum, byte)| *sum ^= byte);
    }
    let mut seed = Zeroizing::new([0; 32]);
    seed.copy_from_slice(&sum[..32]);
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The account of the documentation's example, whose password is `MyPassword123!`.
    const STORED: &[u8] =
        b"P0:lhXyNv1cIxpB8EnTxR7ON7S7:1l3rWRW1/jw45yrvYXB8eh02wzk7lcJcz4CMcWw2b+8";

    /// Salt 1, 2, … 18; computed with Python's `hashlib.pbkdf2_hmac` and a text-book Ed25519: what is stored
    /// of «secret», and its signature of 32 bytes of 7 and 32 of 9.
    const VECTORS: [(&[u8], &str); 2] = [
        (
            b"P0:AQIDBAUGBwgJCgsMDQ4PEBES:Gnd4wCHlzSphQI3fTActL1GTImv1fKdOXzucRojTOsw",
            "4b594862c47812dd2fe36d30fec5e0f2ea47c23661994b9f12a8c52c8b9f6abc\
             92e460cf5210b08adef30a244a6c3481cb7d0a11d916ff6d252995a34ac8990f",
        ),
        (
            b"P2:AQIDBAUGBwgJCgsMDQ4PEBES:b55y1egfICt4j4e5DgxYgK+rSsRizyPzREjIQmkhZnw",
            "371946aba25abf2fc850e9de95d93b73d6ba2df419472b1860fe83d2dab57e16\
             32f0cc79e9be85d341c1cf0eca3f671f964f6d5d1bb31fa8d78d0c90c0e4ec05",
        ),
    ];

    #[test]
    fn the_public_key_is_what_the_server_stores() {
        let (terms, public) = ParsecTerms::parse(STORED).expect("a stored password");
        assert_eq!(terms.doublings, 0);
        assert_eq!(terms.public(b"MyPassword123!"), public);
        assert_ne!(terms.public(b"MyPassword123"), public);
    }

    #[test]
    fn signatures_are_those_of_another_implementation() {
        let (servers, own) = ([7; 32], [9; 32]);
        for (stored, signature) in VECTORS {
            let (terms, public) = ParsecTerms::parse(stored).expect("a stored password");
            assert_eq!(terms.salt[17], 18);
            assert_eq!(terms.public(b"secret"), public);
            let mut answer = terms.answer(b"secret", &servers, &own);
            assert_eq!(hex::encode(&answer[32..]), signature);
            assert!(parsec_verify(&answer, &servers, &public));
            assert!(!parsec_verify(&answer[1..], &servers, &public));
            assert!(!parsec_verify(&answer, &own, &public), "another scramble");
            answer[0] ^= 1;
            assert!(!parsec_verify(&answer, &servers, &public));
            assert!(!parsec_verify(&[], &servers, &public));
        }
    }

    /// Computed with Python, too.
    #[test]
    fn passwords_may_be_longer_than_a_block() {
        let key = pbkdf2(&[b'x'; 200], b"salt", 2);
        let expected = "87c9db0b7c12b94bec5039ae603028ec5076234596401c3a2899f16dfe93479f";
        assert_eq!(hex::encode(*key), expected);
    }

    #[test]
    fn what_no_server_says_is_refused() {
        let (terms, _) = ParsecTerms::parse(STORED).expect("a stored password");
        assert_eq!(ParsecTerms::decode(&terms.encode()), Some(terms));
        let changed = |at: usize, to: u8| {
            let mut message = terms.encode();
            message[at] = to;
            ParsecTerms::decode(&message)
        };
        assert_eq!([changed(0, b'Q'), changed(1, 4)], [None; 2]);
        assert_eq!(
            [ParsecTerms::decode(b""), ParsecTerms::decode(b"P")],
            [None; 2]
        );
        for stored in ["", "P0", "P0::", "P4:lhXyNv1cIxpB8EnTxR7ON7S7:"] {
            assert_eq!(ParsecTerms::parse(stored.as_bytes()), None, "{stored}");
        }
        assert_eq!(ParsecTerms::parse(&[STORED, b":"].concat()), None);
        assert_eq!(ParsecTerms::parse(&[b"P4", &STORED[2..]].concat()), None);
    }
}
