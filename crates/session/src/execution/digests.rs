//! The digests of the shapes that a core has seen: writing a normal form takes longer than reading a text.

use std::cell::RefCell;

use rustc_hash::FxHashMap;
use sqltext::{Digest, Mode};

/// Beyond this many shapes the table starts anew.
const DIGESTS_MAX: usize = 10_000;

/// Digests by the hash of the shape.
#[derive(Default)]
pub(crate) struct Digests(RefCell<FxHashMap<u128, Digest>>);

impl Digests {
    /// The digest of a text whose shape has this hash.
    pub fn of(&self, hash: u128, text: &[u8], mode: &Mode) -> Digest {
        let known = self.0.borrow().get(&hash).copied();
        known.unwrap_or_else(|| self.learn(hash, Digest::of(text, mode)))
    }

    #[cold]
    fn learn(&self, hash: u128, digest: Digest) -> Digest {
        let mut digests = self.0.borrow_mut();
        if digests.len() >= DIGESTS_MAX {
            digests.clear();
        }
        digests.insert(hash, digest);
        digest
    }
}
