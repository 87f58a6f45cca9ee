//! The kit itself: its servers are what it says of them, and nothing of theirs stays.

mod etcd;
mod orphans;
mod servers;
