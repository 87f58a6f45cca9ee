//! Hand-over: a heddle that starts beside one of the same state directory takes its clients' addresses
//! over, and nobody is refused in between.
//!
//! The two speak over `handover.sock` in the state directory. The listening sockets themselves go to
//! the new process, so a connection that has come is served by one of the two. In this order:
//!
//! 1. the new process ([`take`]) gets the sockets, and reads its own settings;
//! 2. the embedded state store's file is closed by the old process and opened by the new one, which
//!    learns how the farm is; the old one still serves, on what it knows, and changes nothing;
//! 3. the new process serves, and says so; the old one ([`offer`]) stops accepting and goes on with the
//!    clients that it has until they leave, or `handover_s` has passed ([`life`]).
//!
//! If the new process dies before its word, or after it while the old one is still there, the old one
//! takes the file and the addresses back. So there is no moment at which nobody listens.

pub mod life;
pub mod line;
pub mod offer;
pub mod take;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The socket's name in the state directory.
const SOCKET: &str = "handover.sock";

/// The version of what is said over it; a process of another version is refused.
const PROTOCOL: u64 = 1;

/// For an answer of the other process that needs no work.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// From the moment that the file is given away to the new process' word that it serves. Its own start
/// waits for the farm at most [`crate::router::FARM_WAIT_MAX`].
const START_MAX: Duration = Duration::from_secs(60);

/// A directory by a path that is short whatever its name: a unix socket's may have 107 bytes.
struct Directory(File);

impl Directory {
    fn open(dir: &Path) -> std::io::Result<Directory> {
        File::open(dir).map(Directory)
    }

    fn join(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.0.as_raw_fd()))
    }
}
