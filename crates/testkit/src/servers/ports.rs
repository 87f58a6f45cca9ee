//! Ports for servers and routers of tests.
//!
//! A port that is taken by binding it and letting it go again may be handed out twice before the
//! first server binds it, and whoever asks at that port then talks to somebody else's server. So
//! ports come from a range that the kernel does not use for outgoing connections, and each is
//! reserved by a lock on a file until the process ends, on the whole machine.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use socket2::{Domain, Socket, Type};

/// Below the kernel's usual range of outgoing ports and beside that of `heddle up`.
const RANGE: std::ops::Range<u16> = 10_000..21_000;

/// The reserved ports of this process, with their locks.
static RESERVED: Mutex<BTreeMap<u16, File>> = Mutex::new(BTreeMap::new());

/// A port of loopback that nothing listens on and that no other test is given while this process
/// lives.
///
/// # Panics
/// When all are taken, or the lock files cannot be made.
pub fn free_port() -> u16 {
    let dir = std::env::temp_dir().join("heddle-test-ports");
    fs::create_dir_all(&dir).expect("the temporary directory takes files");
    let mut reserved = RESERVED.lock().unwrap_or_else(PoisonError::into_inner);
    let count = usize::from(RANGE.end - RANGE.start);
    // Processes that start side by side begin their search at different places.
    let start = std::process::id() as usize * 37 + reserved.len();
    for step in 0..count {
        let port = RANGE.start + ((start + step) % count) as u16;
        if reserved.contains_key(&port) {
            continue;
        }
        if let Some(lock) = reserve(&dir, port) {
            reserved.insert(port, lock);
            return port;
        }
    }
    panic!("all ports from {} to {} are taken", RANGE.start, RANGE.end);
}

/// The lock of a port that is free.
fn reserve(dir: &Path, port: u16) -> Option<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    let lock = options.open(dir.join(port.to_string()));
    let lock = lock.expect("the temporary directory takes files");
    lock.try_lock().ok()?;
    is_free(port).then_some(lock)
}

/// Nobody listens there. The socket that finds out does not listen itself: a process that another thread is about to
/// start may hold a copy of it for a while, and who wants the port is not in the way of that one.
fn is_free(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket
        .set_reuse_address(true)
        .expect("an option of every socket");
    socket.bind(&address.into()).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn nobody_is_given_the_same_port() {
        let threads: Vec<_> = (0..8)
            .map(|_| thread::spawn(|| (0..20).map(|_| free_port()).collect::<Vec<_>>()))
            .collect();
        let ports: Vec<u16> = threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("no panic"))
            .collect();
        let distinct: BTreeSet<u16> = ports.iter().copied().collect();
        assert_eq!(distinct.len(), 160);
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let taken = taken.local_addr().expect("bound").port();
        assert!(!RANGE.contains(&taken), "outgoing ports are apart");
    }
}
