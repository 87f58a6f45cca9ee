//! Hosts of a test's own, each in a network namespace of the kernel and joined by a hub that the test
//! itself stands in. Between any two hosts packets can be dropped, in either direction or both.
//!
//! The namespaces live as long as their processes: nothing is left on the machine when a test ends,
//! however it ends. Making them needs root; where that is missing, [`Host::loopback`] still serves for
//! everything but cuts.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use socket2::{Domain, Protocol, Socket, Type};

/// Says that it lives in its namespace, and ends when the test does.
const HOLDER: [&str; 5] = ["--net", "--", "sh", "-c", "echo here; exec cat"];

/// Hosts get 10.213.N.2; the hub has the .1 of each.
const SUBNET: [u8; 2] = [10, 213];

/// A namespace, held by a process that does nothing.
#[derive(Debug)]
struct Space {
    holder: Child,
}

impl Space {
    /// The error says why this user may not make one.
    fn new() -> Result<Space, String> {
        let mut holder = Command::new("unshare")
            .args(HOLDER)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("unshare: {error}"))?;
        let stdout = holder.stdout.take().expect("stdout was asked for");
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        let space = Space { holder };
        match read {
            Ok(_) if line.trim() == "here" => Ok(space),
            _ => Err("this user may not make network namespaces".to_owned()),
        }
    }

    fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/ns/net", self.holder.id()))
    }

    /// Runs this on a thread of the namespace; threads and processes that it starts are there, too.
    fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let place = File::open(self.path()).expect("the holder runs");
        let entered = move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(place.as_fd(), kind).expect("it may be entered");
            work()
        };
        let outcome = std::thread::scope(|scope| scope.spawn(entered).join());
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Runs `ip` there.
    fn ip(&self, words: &str) {
        let output = self.within(|| Command::new("ip").args(words.split(' ')).output());
        let output = output.expect("the command ip is there");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {words}: {said}");
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // Whatever still runs in the namespace keeps it.
        let _ = (self.holder.kill(), self.holder.wait());
    }
}

/// Where a process runs and by which address others reach it.
#[derive(Debug)]
pub struct Host {
    pub ip: Ipv4Addr,
    space: Option<Space>,
}

impl Host {
    /// This machine itself; nothing can be cut.
    pub fn loopback() -> Arc<Host> {
        Arc::new(Host {
            ip: Ipv4Addr::LOCALHOST,
            space: None,
        })
    }

    /// Runs this on the host: sockets and processes that it makes are there.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        match &self.space {
            Some(space) => space.within(work),
            None => work(),
        }
    }

    /// The namespace, as `nsenter --net=` takes it; none for this machine itself.
    pub fn namespace(&self) -> Option<PathBuf> {
        self.space.as_ref().map(Space::path)
    }
}

/// Hosts and the hub between them.
#[derive(Debug)]
pub struct Network {
    hub: Space,
    hosts: Mutex<u8>,
    /// Rules of the hub that drop packets.
    cuts: Mutex<Vec<String>>,
}

impl Network {
    /// A network without hosts, or says why the test is skipped.
    pub fn start() -> Option<Network> {
        let program = Command::new("ip").arg("-V").output();
        if let Err(error) = program {
            crate::skip(&format!("no ip here: {error}; install iproute2"));
            return None;
        }
        let hub = match Space::new() {
            Ok(hub) => hub,
            Err(reason) => {
                crate::skip(&reason);
                return None;
            }
        };
        hub.ip("link set lo up");
        hub.within(|| std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))
            .expect("a namespace of one's own can be set up");
        Some(Network {
            hub,
            hosts: Mutex::new(0),
            cuts: Mutex::default(),
        })
    }

    /// Runs this in the hub, which reaches all hosts whatever is cut between them.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.hub.within(work)
    }

    /// One more host.
    ///
    /// # Panics
    /// When it cannot be joined to the hub, or there are 250 already.
    pub fn host(&self) -> Arc<Host> {
        let mut hosts = self.hosts.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(*hosts < 250, "the addresses of a network are few");
        *hosts += 1;
        let [a, b] = SUBNET;
        let (number, space) = (*hosts, Space::new().expect("the hub could be made"));
        let holder = space.holder.id();
        let at = |end: u8| Ipv4Addr::new(a, b, number, end);
        let link = format!("link add h{number} type veth peer name e0 netns {holder}");
        self.hub.ip(&link);
        self.hub.ip(&format!("addr add {}/24 dev h{number}", at(1)));
        self.hub.ip(&format!("link set h{number} up"));
        space.ip("link set lo up");
        space.ip(&format!("addr add {}/24 dev e0", at(2)));
        space.ip("link set e0 up");
        space.ip(&format!("route add default via {}", at(1)));
        Arc::new(Host {
            ip: at(2),
            space: Some(space),
        })
    }

    /// From now on packets of `from` do not reach `to`; nobody is told.
    pub fn cut(&self, from: &Host, to: &Host) {
        let rule = format!("from {} to {} blackhole", from.ip, to.ip);
        self.hub.ip(&format!("rule add {rule}"));
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        cuts.push(rule);
    }

    /// Every packet arrives again.
    pub fn mend(&self) {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        for rule in cuts.drain(..) {
            self.hub.ip(&format!("rule del {rule}"));
        }
    }
}

/// An address of this machine that is not loopback, or says why the test is skipped.
pub fn own_address() -> Option<Ipv4Addr> {
    // Nothing is sent: the kernel only chooses where it would be sent from.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a free port");
    let towards = (Ipv4Addr::new(198, 51, 100, 1), 9);
    let address = socket.connect(towards).and_then(|()| socket.local_addr());
    match address.map(|address| address.ip()) {
        Ok(IpAddr::V4(ip)) if !ip.is_loopback() => Some(ip),
        _ => {
            crate::skip(&"this machine has no address but loopback");
            None
        }
    }
}

/// Connects to an address of this machine, as a client that has this one.
///
/// # Errors
/// Nobody listens there, or `from` is not this machine's.
pub fn connect_from(from: Ipv4Addr, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, Some(Protocol::TCP))?;
    socket.bind(&SocketAddr::from((from, 0)).into())?;
    socket.connect(&to.into())?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_cut_drops_one_direction_until_it_is_mended() {
        let Some(network) = Network::start() else {
            return;
        };
        let (one, other) = (network.host(), network.host());
        let address = SocketAddr::from((other.ip, 4000));
        let listener = other.within(|| TcpListener::bind(address).expect("a free port"));
        let mut client = one.within(|| TcpStream::connect(address).expect("it is reached"));
        let (mut server, from) = listener.accept().expect("a connection");
        assert_eq!(from.ip(), one.ip);
        let soon = Some(Duration::from_millis(100));
        server.set_read_timeout(soon).expect("a timeout");
        client.set_read_timeout(soon).expect("a timeout");

        network.cut(&one, &other);
        let mut byte = [0];
        client.write_all(b"a").expect("the kernel takes it");
        assert!(server.read_exact(&mut byte).is_err(), "nothing arrives");
        network.mend();
        server.set_read_timeout(None).expect("no timeout");
        server.read_exact(&mut byte).expect("it is sent again");

        network.cut(&one, &other);
        server.write_all(b"b").expect("sent");
        client
            .read_exact(&mut byte)
            .expect("the other direction works");
        assert_eq!(&byte, b"b");
        network
            .within(|| TcpStream::connect_timeout(&address, Duration::from_secs(5)))
            .expect("the hub reaches every host");
    }
}
