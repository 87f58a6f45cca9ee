//! The hash under which caches file texts: SipHash-1-3 with 128 bits, over words of 64 bits.
//!
//! Who does not know the key cannot make two texts meet, and the key leaves the process in no form: it is made
//! at the first use, and hashes are shown to nobody. Names for people are [`crate::Digest`]s.
//!
//! Source: Aumasson and Bernstein, «SipHash: a fast short-input PRF», and their reference code for 128 bits.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::OnceLock;

/// A hash under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keyed {
    state: [u64; 4],
    words: u64,
}

impl Keyed {
    /// Begins with the key of this process.
    pub fn new() -> Keyed {
        static BLANK: OnceLock<Keyed> = OnceLock::new();
        *BLANK.get_or_init(|| {
            // The standard library draws its keys from the system.
            let draw = || RandomState::new().hash_one(0);
            Keyed::with([draw(), draw()])
        })
    }

    fn with(key: [u64; 2]) -> Keyed {
        Keyed {
            state: [
                key[0] ^ 0x736F_6D65_7073_6575,
                key[1] ^ 0x646F_7261_6E64_6F6D ^ 0xEE,
                key[0] ^ 0x6C79_6765_6E65_7261,
                key[1] ^ 0x7465_6462_7974_6573,
            ],
            words: 0,
        }
    }

    #[inline(always)]
    pub fn mix(&mut self, word: u64) {
        self.state[3] ^= word;
        self.round();
        self.state[0] ^= word;
        self.words += 1;
    }

    /// Mixes in bytes of any length; no other bytes give the same words.
    pub fn mix_bytes(&mut self, bytes: &[u8]) {
        self.mix(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            // No copy of a length that is not known: that would be a call.
            let last = rest
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.mix(last);
        }
    }

    /// Mixes in all that another hash has taken up.
    #[inline]
    pub fn mix_hash(&mut self, other: &Keyed) {
        for word in other.state {
            self.mix(word);
        }
    }

    /// One number for two; shorter and quicker than a hash.
    #[inline]
    pub fn pair(one: u64, other: u64) -> u64 {
        let mut hash = Keyed::new();
        hash.mix(one);
        hash.mix(other);
        hash.end()
    }

    pub fn finish(mut self) -> u128 {
        // The reference mixes the length in bytes into the last word; there is no rest behind whole words.
        self.mix(self.words << 59);
        self.state[2] ^= 0xEE;
        let low = self.end();
        self.state[1] ^= 0xDD;
        u128::from(self.end()) << 64 | u128::from(low)
    }

    /// The first half of [`Keyed::finish`].
    fn finish_short(mut self) -> u64 {
        self.mix(self.words << 59);
        self.state[2] ^= 0xEE;
        self.end()
    }

    fn end(&mut self) -> u64 {
        for _ in 0..3 {
            self.round();
        }
        let [a, b, c, d] = self.state;
        a ^ b ^ c ^ d
    }

    #[inline(always)]
    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.state;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.state = [a, b, c, d];
    }
}

impl Default for Keyed {
    fn default() -> Keyed {
        Keyed::new()
    }
}

/// A map whose keys clients may choose: they cannot make them meet.
pub type KeyedMap<K, V> = HashMap<K, V, KeyedState>;

/// A set of values that clients may choose.
pub type KeyedSet<V> = HashSet<V, KeyedState>;

/// Makes the standard library's kind of hashers from [`Keyed`]. All have the key of this process, so two tables have
/// one order. As safe as the standard library's own, and quicker for names of several short parts.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyedState;

/// A hasher of [`KeyedState`].
#[derive(Clone, Copy, Debug)]
pub struct KeyedHasher(Keyed);

impl BuildHasher for KeyedState {
    type Hasher = KeyedHasher;

    #[inline]
    fn build_hasher(&self) -> KeyedHasher {
        KeyedHasher(Keyed::new())
    }
}

impl Hasher for KeyedHasher {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        self.0.mix_bytes(bytes);
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.0.mix(u64::from(number));
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0.mix(u64::from(number));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        self.0.mix(number);
    }

    #[inline]
    fn write_u128(&mut self, number: u128) {
        self.0.mix(number as u64);
        self.0.mix((number >> 64) as u64);
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.0.mix(number as u64);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0.finish_short()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference's state for 64 bits, which the standard library computes, too.
    #[test]
    fn rounds_are_those_of_the_standard_library() {
        use std::hash::{DefaultHasher, Hasher};
        let mut theirs = DefaultHasher::new();
        let mut ours = Keyed::with([0, 0]);
        ours.state[1] ^= 0xEE;
        for word in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF] {
            theirs.write_u64(word);
            ours.mix(word);
        }
        ours.mix(ours.words << 59);
        ours.state[2] ^= 0xFF;
        assert_eq!(ours.end(), theirs.finish());
    }

    #[test]
    fn the_key_decides() {
        let of = |key| {
            let mut hash = Keyed::with(key);
            hash.mix_bytes(b"SELECT");
            hash.finish()
        };
        assert_eq!(of([1, 2]), of([1, 2]));
        assert_ne!(of([1, 2]), of([1, 3]));
        assert_ne!(of([1, 2]), of([2, 2]));
    }

    #[test]
    fn lengths_count() {
        let of = |parts: &[&[u8]]| {
            let mut hash = Keyed::new();
            parts.iter().for_each(|part| hash.mix_bytes(part));
            hash.finish()
        };
        assert_ne!(of(&[b"a\0"]), of(&[b"a"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }

    #[test]
    fn tables_tell_keys_apart_that_differ_in_parts_and_lengths() {
        let of = |key: (&[u8], &str)| KeyedState.hash_one(key);
        let keys: [(&[u8], &str); 7] = [
            (b"", ""),
            (b"a", ""),
            (b"", "a"),
            (b"a\0", ""),
            (b"12345678", ""),
            (b"12345678\0", ""),
            (b"1234567", "8"),
        ];
        let hashes: KeyedSet<u64> = keys.into_iter().map(of).collect();
        assert_eq!(hashes.len(), keys.len());
        assert_eq!(of((b"12345678", "x")), of((b"12345678", "x")));
        let mut map: KeyedMap<Box<[u8]>, u32> = KeyedMap::default();
        map.insert(Box::from(&b"key"[..]), 1);
        assert_eq!(
            map.get(&b"key"[..]),
            Some(&1),
            "borrowed keys find owned ones"
        );
    }
}
