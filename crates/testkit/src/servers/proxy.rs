//! A way to a server that breaks where a test wants it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// An address of this machine that is not loopback: what listens there counts as another machine. None, and
/// the test is skipped, where the machine has no network.
pub fn outer_address() -> Option<IpAddr> {
    let asked = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        // Nothing is sent: the kernel only says from where it would be.
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    let found = asked.ok().map(|address| address.ip());
    let outer = found.filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
    if outer.is_none() {
        crate::skip(&"this machine has no address but loopback");
    }
    outer
}

/// What breaks a connection.
#[derive(Clone)]
pub enum Trap {
    /// The command with this text does not reach the server.
    Request(&'static str),
    /// Its reply does not reach the door.
    Reply(&'static str),
    /// The beginning of its reply reaches the door.
    Middle(&'static str),
}

/// A way to a server that can break once.
pub struct Proxy {
    pub address: SocketAddr,
    trap: Arc<Mutex<Option<Trap>>>,
    delay: Arc<Mutex<Duration>>,
}

impl Proxy {
    /// In front of this server.
    ///
    /// # Panics
    /// Without a free port.
    pub fn new(server: SocketAddr) -> Proxy {
        Proxy::on(Ipv4Addr::LOCALHOST.into(), server)
    }

    /// The same at an address of this machine; see [`outer_address`].
    ///
    /// # Panics
    /// Without a free port there.
    pub fn on(ip: IpAddr, server: SocketAddr) -> Proxy {
        Proxy::at((ip, 0).into(), server)
    }

    /// The same at this address and port, as where another server was.
    ///
    /// # Panics
    /// When somebody has the port.
    pub fn at(address: SocketAddr, server: SocketAddr) -> Proxy {
        let listener = TcpListener::bind(address).expect("a port");
        let address = listener.local_addr().expect("bound");
        let trap: Arc<Mutex<Option<Trap>>> = Arc::default();
        let delay: Arc<Mutex<Duration>> = Arc::default();
        let (own, later) = (trap.clone(), delay.clone());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { return };
                let (trap, delay) = (own.clone(), *later.lock().expect("whole"));
                std::thread::spawn(move || {
                    crate::holds_within(delay, || delay.is_zero());
                    let server = TcpStream::connect(server).expect("the server listens");
                    pass(client, server, &trap);
                });
            }
        });
        Proxy {
            address,
            trap,
            delay,
        }
    }

    /// Each connection from now on reaches the server so much later, as at one that is overloaded.
    ///
    /// # Panics
    /// Never.
    pub fn delay(&self, delay: Duration) {
        *self.delay.lock().expect("whole") = delay;
    }

    /// The next connection that carries such a text breaks.
    pub fn set(&self, trap: Trap) {
        *self.trap.lock().expect("whole") = Some(trap);
    }

    /// The trap has gone off.
    pub fn is_sprung(&self) -> bool {
        self.trap.lock().expect("whole").is_none()
    }
}

/// Carries bytes both ways until one side ends or the trap goes off.
fn pass(mut client: TcpStream, mut server: TcpStream, trap: &Mutex<Option<Trap>>) {
    let mut to_client = client.try_clone().expect("a socket");
    let mut from_server = server.try_clone().expect("a socket");
    // So many pieces of replies still pass.
    let pieces = Arc::new(AtomicUsize::new(usize::MAX));
    let left = pieces.clone();
    let back = std::thread::spawn(move || {
        let mut buffer = [0; 65_536];
        while let Ok(bytes) = from_server.read(&mut buffer) {
            let left = left.fetch_update(SeqCst, SeqCst, |left| match left {
                usize::MAX => Some(left),
                left => left.checked_sub(1),
            });
            let lost = left.is_err();
            if bytes == 0 || lost || to_client.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
        let _ = from_server.shutdown(Shutdown::Both);
    });
    let mut buffer = [0; 65_536];
    while let Ok(bytes) = client.read(&mut buffer) {
        if bytes == 0 {
            break;
        }
        let has = |text: &str| {
            let text = text.as_bytes();
            buffer[..bytes].windows(text.len()).any(|part| part == text)
        };
        let mut trap = trap.lock().expect("whole");
        match trap.clone() {
            Some(Trap::Request(text)) if has(text) => {
                *trap = None;
                break;
            }
            Some(Trap::Reply(text)) if has(text) => {
                *trap = None;
                pieces.store(0, SeqCst);
            }
            Some(Trap::Middle(text)) if has(text) => {
                *trap = None;
                pieces.store(1, SeqCst);
            }
            _ => {}
        }
        drop(trap);
        if server.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = server.shutdown(Shutdown::Both);
    let _ = back.join();
}
