//! The order of one client's requests: what it asked first takes effect first, although reads and changes
//! of rows go different ways.
//!
//! A store keeps the order of changes of one key and lets a read wait for changes that were submitted
//! before it. What is left is kept here: a change waits for its client's reads of the same key, emptying
//! a container waits for everything that the client has under way, and everything waits for that.

use std::hash::Hasher;

use memcache_wire::{KEY_BYTES_MAX, Key, Request};
use rustc_hash::FxHasher;

/// Bits for keys. Two keys may share one: then a change waits in vain, once.
const BITS: u64 = 1024;

/// What a client has under way, as far as the order needs to know.
#[derive(Default)]
pub(crate) struct Order {
    reading: [u64; (BITS / 64) as usize],
    flushing: bool,
}

impl Order {
    /// Nothing is under way any more.
    pub fn forget(&mut self) {
        *self = Order::default();
    }

    /// A row is being read. The key is that of the row, without a container's name.
    pub fn read(&mut self, key: &[u8]) {
        let (word, bit) = spot(key);
        self.reading[word] |= bit;
    }

    /// A container is being emptied.
    pub fn flush(&mut self) {
        self.flushing = true;
    }

    /// Whether a request may begin while others are under way. `row_key` takes a container's name off.
    pub fn admits<'k>(
        &self,
        request: &'k Request<'_>,
        row_key: impl Fn(&'k [u8]) -> &'k [u8],
    ) -> bool {
        if self.flushing {
            return false;
        }
        let reads = |key: &'k Key<'_>| match key.is_base64() {
            false => self.is_read(row_key(key.word())),
            true => {
                let mut decoded = [0; KEY_BYTES_MAX];
                self.is_read(key.bytes(&mut decoded))
            }
        };
        match request {
            Request::FlushAll { .. } => false,
            Request::Get(get) => get.touch.is_none() || self.reading == [0; _],
            Request::MetaGet(meta) => {
                (meta.expiry.is_none() && meta.vivify.is_none()) || !reads(&meta.key)
            }
            Request::Store(store) => !reads(&store.key),
            Request::Count(count) => !reads(&count.key),
            Request::Delete { key, .. } | Request::Touch { key, .. } => !reads(key),
            Request::MetaStore { meta, .. }
            | Request::MetaDelete(meta)
            | Request::MetaCount { meta, .. } => !reads(&meta.key),
            _ => true,
        }
    }

    fn is_read(&self, key: &[u8]) -> bool {
        let (word, bit) = spot(key);
        self.reading[word] & bit != 0
    }
}

fn spot(key: &[u8]) -> (usize, u64) {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    let at = hasher.finish() % BITS;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use memcache_wire::{Limits, Parsed, parse};

    use super::*;

    fn admits(order: &Order, line: &str) -> bool {
        let limits = Limits::default();
        let Parsed::Request { request, .. } = parse(line.as_bytes(), 0, &limits) else {
            panic!("{line:?} is no request");
        };
        order.admits(&request, |key| key)
    }

    #[test]
    fn changes_wait_for_reads_of_their_key() {
        let mut order = Order::default();
        assert!(admits(&order, "set k 0 0 1\r\nx\r\n"));
        order.read(b"k");
        for line in [
            "set k 0 0 1\r\nx\r\n",
            "incr k 1\r\n",
            "delete k\r\n",
            "touch k 1\r\n",
            "gat 1 k\r\n",
            "ms k 1\r\nx\r\n",
            "md k\r\n",
            "ma k\r\n",
            "mg k v T30\r\n",
            // The same key in base64.
            "ms aw== 1 b\r\nx\r\n",
            "flush_all\r\n",
        ] {
            assert!(!admits(&order, line), "{line:?}");
        }
        for line in ["get k\r\n", "mg k v\r\n", "set l 0 0 1\r\nx\r\n", "mn\r\n"] {
            assert!(admits(&order, line), "{line:?}");
        }
        order.forget();
        assert!(admits(&order, "delete k\r\n"));
    }

    #[test]
    fn all_wait_for_a_flush() {
        let mut order = Order::default();
        order.flush();
        assert!(!admits(&order, "get k\r\n"));
        assert!(!admits(&order, "set k 0 0 1\r\nx\r\n"));
    }
}
