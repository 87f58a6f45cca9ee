//! What the door counts, by the names that memcached's `stats` has for it. Each core has its own
//! counters; readers add them up.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! counts {
    ($($field:ident $help:literal;)*) => {
        /// One core's counters. Written by that core alone, so relaxed adds are exact.
        #[derive(Debug, Default)]
        pub struct Counts {
            $(#[doc = $help] pub $field: AtomicU64,)*
        }

        impl Counts {
            fn list(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($field), $help, self.$field.load(Ordering::Relaxed)),)*]
            }
        }
    };
}

counts! {
    curr_connections "Key-value clients that are connected now.";
    total_connections "Key-value clients that have connected.";
    auth_cmds "Logins of key-value clients.";
    auth_errors "Logins of key-value clients that were refused.";
    cmd_get "Keys that were asked for.";
    cmd_set "Values that were to be stored.";
    cmd_touch "Keys that were to get another time of expiry.";
    cmd_flush "Containers that were to be emptied.";
    cmd_meta "Requests of the meta protocol.";
    get_hits "Keys that were asked for and found.";
    get_misses "Keys that were asked for and not found.";
    delete_hits "Keys that were deleted.";
    delete_misses "Keys that were to be deleted and not found.";
    incr_hits "Numbers that were added to.";
    incr_misses "Numbers that were to be added to and not found.";
    decr_hits "Numbers that were taken from.";
    decr_misses "Numbers that were to be taken from and not found.";
    cas_hits "Values that were stored because the item had not changed.";
    cas_misses "Values that were to be stored over an item that is gone.";
    cas_badval "Values that were not stored because the item had changed.";
    touch_hits "Keys that got another time of expiry.";
    touch_misses "Keys that were to get one and not found.";
    store_too_large "Values that were too large.";
    refusals_client "Requests that were refused as the client's mistake.";
    refusals_server "Requests that could not be carried out.";
    bytes_read "Bytes received from key-value clients.";
    bytes_written "Bytes sent to key-value clients.";
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    add(counter, 1);
}

/// So many more.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    let before = counter.load(Ordering::Relaxed);
    counter.store(before.wrapping_add(more), Ordering::Relaxed);
}

/// One less.
pub(crate) fn uncount(counter: &AtomicU64) {
    counter.fetch_sub(1, Ordering::Relaxed);
}

/// All cores together.
pub(crate) fn sum(all: &[Counts]) -> Vec<(&'static str, &'static str, u64)> {
    let mut sum = Counts::default().list();
    for counts in all {
        for (into, (_, _, value)) in sum.iter_mut().zip(counts.list()) {
            into.2 += value;
        }
    }
    sum
}
