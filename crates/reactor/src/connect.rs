//! Connecting to a host by name or address, and to a Unix socket by its path.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::Path;
use std::rc::Rc;

use futures_channel::oneshot;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::descriptor::Descriptor;
use crate::stream::Stream;

/// A connection to the first address of the host that takes one.
pub(crate) async fn connect(host: &str, port: u16) -> io::Result<Rc<Descriptor>> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in resolve(host, port).await? {
        match connect_to(address).await {
            Ok(descriptor) => return Ok(descriptor),
            Err(error) => last = error,
        }
    }
    Err(last)
}

async fn connect_to(address: SocketAddr) -> io::Result<Rc<Descriptor>> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM.nonblocking(), Some(Protocol::TCP))?;
    match socket.connect(&address.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
        Err(error) => return Err(error),
    }
    Descriptor::connected(Stream::new(socket, false)).await
}

/// A connection to whoever listens there. The kernel makes it at once or, when too many wait there
/// already, refuses it (`WouldBlock`).
pub(crate) fn connect_local(path: &Path) -> io::Result<Rc<Descriptor>> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Descriptor::new(Stream::new(socket, true))
}

/// The host's addresses. A name is looked up on a thread of its own, since the system's resolver
/// blocks, and no other has the rules of this machine.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    let (answer, answered) = oneshot::channel();
    let host = host.to_owned();
    std::thread::Builder::new()
        .name("resolver".to_owned())
        .spawn(move || {
            let found = (host.as_str(), port).to_socket_addrs();
            // Nobody may be waiting any more.
            let _ = answer.send(found.map(Vec::from_iter));
        })?;
    answered
        .await
        .unwrap_or_else(|_| Err(io::Error::other("the resolver's thread ended")))
}
