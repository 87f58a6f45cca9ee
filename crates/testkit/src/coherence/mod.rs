//! The checker of the row cache: rows whose values are growing versions, written by every way that there
//! is, and readers of all routers who find whatever is older than its promise, goes back, or was never
//! written.
//!
//! Each key has one writer at a time, so its versions grow in the order in which they are acknowledged. A
//! router that is killed takes its clients with it; they come back, and promises begin anew for them.

mod keys;
mod load;
mod readers;
mod writers;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

pub use keys::Kv;
pub use load::{cache, fill, load, place, prepare, remembered};

/// No answer is older than this; the farms say so of their replicas, too.
pub const BOUND: Duration = Duration::from_secs(1);

/// Keys of all ways to write.
pub const KEYS: usize = 400;

/// How many ways to write there are; each has keys of its own.
const WAYS: usize = 9;

/// Where the clients of one router go.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub sql: SocketAddr,
    pub kv: SocketAddr,
}

/// One who reads.
struct Reader<'r> {
    name: &'r str,
    /// Of the level `eventual`: nothing is older than the bound, whoever answers. At the level `session` a
    /// server may be as late as it likes with what others have written.
    bounded: bool,
}

/// The keys of one way.
fn keys_of(way: usize) -> impl Iterator<Item = usize> {
    (way..KEYS).step_by(WAYS)
}

/// What is known of one key: versions that were sent, and when which was acknowledged.
#[derive(Default)]
struct Known {
    sent: AtomicU64,
    latest: AtomicU64,
    acknowledged: Mutex<VecDeque<(Instant, u64)>>,
}

impl Known {
    fn next(&self) -> u64 {
        self.sent.fetch_add(1, SeqCst) + 1
    }

    fn acknowledge(&self, version: u64) {
        let mut all = self
            .acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        all.push_back((now, version));
        self.latest.store(version, SeqCst);
        while all.len() > 1 && now.duration_since(all[1].0) > 30 * BOUND {
            all.pop_front();
        }
    }

    /// The last version that was acknowledged before this moment.
    fn before(&self, moment: Instant) -> u64 {
        let all = self
            .acknowledged
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let known = all.partition_point(|(at, _)| *at <= moment);
        known.checked_sub(1).map_or(0, |last| all[last].1)
    }
}

/// Readers and writers of one farm, and what they found.
pub struct Proof {
    keys: Vec<Known>,
    over: AtomicBool,
    reads: AtomicU64,
    writes: AtomicU64,
    handed: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Proof {
    fn new() -> Arc<Proof> {
        Arc::new(Proof {
            keys: (0..KEYS).map(|_| Known::default()).collect(),
            over: AtomicBool::new(false),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            handed: AtomicU64::new(0),
            wrong: Mutex::default(),
        })
    }

    /// Rows that were read and checked.
    pub fn reads(&self) -> u64 {
        self.reads.load(SeqCst)
    }

    fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    fn wrong(&self, what: String) {
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        if wrong.len() < 20 {
            wrong.push(what);
        }
    }

    /// What was wrong so far.
    pub fn found(&self) -> Vec<String> {
        let wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.clone()
    }

    /// One value that was read by somebody who asked at `began` and had `seen` this version before.
    fn check(&self, by: &Reader<'_>, key: usize, value: &[u8], began: Instant, seen: &mut u64) {
        let whom = by.name;
        let text = std::str::from_utf8(value).ok();
        let Some(version) = text.and_then(|text| text.parse::<u64>().ok()) else {
            return self.wrong(format!("{whom}, key {key}: {value:?} is no version"));
        };
        let known = &self.keys[key];
        // A replica may show what its primary does not show yet; whoever reads at the primary then goes back,
        // but never behind what had been acknowledged.
        if version < *seen && version < known.before(began) {
            self.wrong(format!("{whom}, key {key}: {version} after {seen}"));
        }
        if version > known.sent.load(SeqCst) {
            self.wrong(format!("{whom}, key {key}: {version} was never written"));
        }
        if by.bounded && version < known.latest.load(SeqCst) {
            let least = began.checked_sub(BOUND).map_or(0, |at| known.before(at));
            if version < least {
                self.wrong(format!(
                    "{whom}, key {key}: {version} a second after {least} was acknowledged"
                ));
            }
        }
        *seen = (*seen).max(version);
    }

    /// Somebody who wrote `version`, or has the token of who did, has read this.
    fn must_be(&self, whom: &str, key: usize, version: u64, got: &str) {
        if got != version.to_string() {
            self.wrong(format!(
                "{whom}, key {key}: {version} was written, and {got:?} read"
            ));
        }
    }
}
