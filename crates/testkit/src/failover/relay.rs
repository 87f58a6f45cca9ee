//! A network between Heddle and one server that can be cut: a TCP relay in this process.
//!
//! A cut direction passes nothing on; what was sent meanwhile arrives when the cut is mended, as TCP
//! would send it again. While any direction is cut no new connection gets through: its first packets
//! would be lost. Who connects then sees an open port that says nothing.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Which packets are lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    pub to_server: bool,
    pub from_server: bool,
}

/// What the threads of a relay share.
#[derive(Debug, Default)]
struct Line {
    cut: Mutex<(Cut, bool)>,
    mended: Condvar,
}

impl Line {
    /// The cut, and whether the relay has ended.
    fn state(&self) -> MutexGuard<'_, (Cut, bool)> {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits while `blocks` holds of the cut; false when the relay has ended.
    fn wait(&self, blocks: impl Fn(Cut) -> bool) -> bool {
        let state = self.state();
        let state = self
            .mended
            .wait_while(state, |(cut, ended)| !*ended && blocks(*cut));
        !state.unwrap_or_else(PoisonError::into_inner).1
    }
}

/// A listening relay; it ends when dropped.
#[derive(Debug)]
pub struct Relay {
    line: Arc<Line>,
    address: SocketAddr,
}

impl Relay {
    /// A relay to this server, on a port of its own.
    ///
    /// # Panics
    /// When no port is free.
    pub fn start(server: SocketAddr) -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let line = Arc::new(Line::default());
        let accepting = line.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if accepting.state().1 {
                    return;
                }
                let line = accepting.clone();
                std::thread::spawn(move || connect(&line, client, server));
            }
        });
        Relay { line, address }
    }

    /// Where Heddle and the other servers reach the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Cuts, or mends with a cut of nothing.
    pub fn cut(&self, cut: Cut) {
        self.line.state().0 = cut;
        self.line.mended.notify_all();
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.line.state().1 = true;
        self.line.mended.notify_all();
        // The accepting thread looks after the next connection.
        let _ = TcpStream::connect(self.address);
    }
}

/// One connection, from its first packet to its end.
fn connect(line: &Arc<Line>, client: TcpStream, server: SocketAddr) {
    if !line.wait(|cut| cut.to_server || cut.from_server) {
        return;
    }
    // A server that refuses: the client sees its connection closed.
    let Ok(server) = TcpStream::connect(server) else {
        return;
    };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (Ok(client_too), Ok(server_too)) = (client.try_clone(), server.try_clone()) else {
        return;
    };
    let back = line.clone();
    std::thread::spawn(move || {
        pass(&back, server_too, client_too, |cut| cut.from_server);
    });
    pass(line, client, server, |cut| cut.to_server);
}

/// Passes bytes on until either side ends.
fn pass(line: &Line, mut from: TcpStream, mut to: TcpStream, blocks: fn(Cut) -> bool) {
    let mut bytes = [0; 16_384];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        // The end of a connection is a packet, too.
        if !line.wait(blocks) || count == 0 || to.write_all(&bytes[..count]).is_err() {
            let _ = (to.shutdown(Shutdown::Both), from.shutdown(Shutdown::Both));
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_cut_holds_arrives_when_it_is_mended() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let relay = Relay::start(server.local_addr().expect("bound"));
        let mut client = TcpStream::connect(relay.address()).expect("it listens");
        let (mut served, _) = server.accept().expect("it passes on");
        let soon = Some(Duration::from_millis(50));
        let mut byte = [0];

        relay.cut(Cut {
            to_server: true,
            from_server: false,
        });
        client.write_all(b"a").expect("sent");
        served.write_all(b"b").expect("sent");
        client
            .read_exact(&mut byte)
            .expect("the other direction works");
        served.set_read_timeout(soon).expect("a timeout");
        assert!(
            served.read_exact(&mut byte).is_err(),
            "nothing gets through"
        );
        relay.cut(Cut::default());
        served.set_read_timeout(None).expect("no timeout");
        served.read_exact(&mut byte).expect("it arrives after all");
        assert_eq!(&byte, b"a");
    }
}
