//! Seals: what tells the id of a transaction over several groups that a router of the farm gave from one
//! that somebody made up.
//!
//! A seal is the HMAC-SHA256 of an id under the farm's key, cut to [`SEAL_BYTES`]. The key comes from the
//! secret of the farm's routers. Servers have it in `heddle.secret`, where only the routines of
//! [`crate::decision`] read it. An id has its coordinator group's connection in it, so the seal is of use on that
//! connection only.
//!
//! Must not know: who asks for a seal, and what the routines do with it.

use std::fmt;

use farm::dist_txn::GlobalId;
use sha2::{Digest, Sha256};

/// An id and its seal fill at most 64 bytes, as XA's names do.
pub const SEAL_BYTES: usize = 16;

/// The block of SHA-256.
const BLOCK_BYTES: usize = 64;

/// The key that this farm's ids are sealed with.
#[derive(Clone, PartialEq, Eq)]
pub struct Key {
    /// The key in each of HMAC's two pads: servers hash with them.
    inner: [u8; BLOCK_BYTES],
    outer: [u8; BLOCK_BYTES],
}

impl Key {
    /// The key of the farm with this id, whose routers share this secret.
    pub fn new(secret: &str, farm_id: &str) -> Key {
        let purpose = ["heddle decisions ", farm_id].concat();
        Key::of(&Key::of(secret.as_bytes()).digest(purpose.as_bytes()))
    }

    fn of(key: &[u8]) -> Key {
        let mut block = [0; BLOCK_BYTES];
        match key.len() {
            0..=BLOCK_BYTES => block[..key.len()].copy_from_slice(key),
            _ => block[..32].copy_from_slice(&Sha256::digest(key)),
        }
        Key {
            inner: block.map(|byte| byte ^ 0x36),
            outer: block.map(|byte| byte ^ 0x5C),
        }
    }

    fn digest(&self, message: &[u8]) -> [u8; 32] {
        let inner = Sha256::new().chain_update(self.inner).chain_update(message);
        let outer = Sha256::new().chain_update(self.outer);
        outer.chain_update(inner.finalize()).finalize().into()
    }

    /// Seals an id that this router has given.
    pub fn seal(&self, id: GlobalId) -> Sealed {
        let [seal @ .., _, _, _, _, _, _, _, _, _, _, _, _, _, _, _, _] = self.digest(&id.encode());
        Sealed { id, seal }
    }

    /// The pads as SQL writes them: the inner one, the outer one.
    pub(crate) fn pads(&self) -> [String; 2] {
        [&self.inner, &self.outer].map(hex::encode)
    }
}

/// It stays out of logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// An id with its seal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sealed {
    pub id: GlobalId,
    seal: [u8; SEAL_BYTES],
}

/// Hexadecimal digits, as SQL's `X'…'` reads them.
impl fmt::Display for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.id, hex::encode(self.seal))
    }
}

/// The seal stays out of logs.
impl fmt::Debug for Sealed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sealed({})", self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second case of RFC 4231, and the sixth, whose key is longer than a block.
    #[test]
    fn digests_are_those_of_hmac() {
        let short = Key::of(b"Jefe").digest(b"what do ya want for nothing?");
        let told = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(short), told);
        let long =
            Key::of(&[0xAA; 131]).digest(b"Test Using Larger Than Block-Size Key - Hash Key First");
        let told = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        assert_eq!(hex::encode(long), told);
    }

    #[test]
    fn farms_have_keys_of_their_own() {
        let key = Key::new("s", "f");
        assert_eq!(key, Key::new("s", "f"));
        assert_ne!(key, Key::new("s", "g"));
        assert_ne!(key, Key::new("t", "f"));
        assert_eq!(format!("{key:?}"), "Key");
    }
}
