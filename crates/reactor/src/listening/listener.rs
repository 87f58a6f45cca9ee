//! Where clients come: a TCP address, or a Unix socket by its path.
//!
//! Invariants: the socket file of a live process is never taken or removed, whoever that process is; one
//! that a dead process left is replaced. A listener that goes removes its file, unless somebody else still
//! listens there: a process that took the socket over, or systemd, which keeps it.
//!
//! Must not know: whose door it is.

use std::fmt;
use std::fs::{self, File, Permissions};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use crate::stream::{Stream, prepare};

/// Connections that the kernel keeps for us while the acceptor is busy.
const BACKLOG: i32 = 4096;

/// The longest path of a Unix socket, in bytes: the kernel's `sun_path` without its NUL.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;

/// Where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    Tcp(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

impl Address {
    pub(super) fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Address::Tcp(address) => Some(*address),
            Address::Socket(_) => None,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(address) => address.fmt(f),
            Address::Socket(path) => path.display().fmt(f),
        }
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Address {
        Address::Tcp(address)
    }
}

/// A listening socket. It may be shared with another process.
#[derive(Debug)]
pub struct Listener {
    /// Taken when the listener goes.
    socket: Option<Socket>,
    address: Address,
}

/// Listens on an address. `mode` are the permissions of a Unix socket's file. The error names the address
/// and, for the common causes, the cure.
pub fn listen(address: &Address, mode: u32) -> io::Result<Listener> {
    let bound = match address {
        Address::Tcp(address) => bind(*address),
        Address::Socket(path) => bind_file(path, mode),
    };
    bound
        .and_then(Listener::of)
        .map_err(|error| explain(address, &error))
}

impl Listener {
    /// Takes over a socket that listens already.
    ///
    /// # Errors
    /// It does not listen, or for something else than TCP and Unix sockets.
    pub fn take(socket: OwnedFd) -> io::Result<Listener> {
        if !rustix::net::sockopt::socket_acceptconn(socket.as_fd())? {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Listener::of(socket.into())
    }

    fn of(socket: Socket) -> io::Result<Listener> {
        let local = socket.local_addr()?;
        let address = match (local.as_socket(), local.as_pathname()) {
            (Some(address), _) => Address::Tcp(address),
            (None, Some(path)) => Address::Socket(path.to_owned()),
            (None, None) => return Err(io::ErrorKind::InvalidInput.into()),
        };
        Ok(Listener {
            socket: Some(socket),
            address,
        })
    }

    /// The bound address: the port is the real one where 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The socket once more, to be given to another process.
    pub fn socket(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }

    /// The same as the standard library has it, for doors that are not the data plane's.
    ///
    /// # Errors
    /// It is a Unix socket's.
    pub fn into_tcp(mut self) -> io::Result<TcpListener> {
        match (&self.address, self.socket.take()) {
            (Address::Tcp(_), Some(socket)) => Ok(socket.into()),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Makes it fit for [`Listener::accept`]: it does not block, and what it accepts has the options of a client's
    /// socket from here on.
    pub(crate) fn prepare(&self) -> io::Result<()> {
        self.open().set_nonblocking(true)?;
        prepare(self.open(), matches!(self.address, Address::Socket(_)))
    }

    /// The next client and its address; one that comes by a Unix socket has none.
    pub(crate) fn accept(&self) -> io::Result<(Stream, Option<SocketAddr>)> {
        let (socket, peer) = self.open().accept()?;
        let is_local = matches!(self.address, Address::Socket(_));
        Ok((Stream::accepted(socket, is_local), peer.as_socket()))
    }

    fn open(&self) -> &Socket {
        self.socket
            .as_ref()
            .expect("the socket is taken by what consumes the listener")
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.open().as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Closed first: what is found alive then is somebody else.
        drop(self.socket.take());
        if let Address::Socket(path) = &self.address
            && let Ok(_held) = hold(path)
            && is_left_behind(path)
        {
            // Another user's directory keeps the file; the next start replaces it.
            let _ = fs::remove_file(path);
        }
    }
}

fn bind(address: SocketAddr) -> io::Result<Socket> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

fn bind_file(path: &Path, mode: u32) -> io::Result<Socket> {
    let address = SockAddr::unix(path)?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    let _held = hold(path)?;
    if is_left_behind(path) {
        fs::remove_file(path)?;
    }
    socket.bind(&address)?;
    // Before anybody can connect: who listens is asked for later.
    fs::set_permissions(path, Permissions::from_mode(mode))?;
    socket.listen(BACKLOG)?;
    Ok(socket)
}

/// Keeps two processes from judging one file at the same time: holds the lock of its directory while the
/// value lives.
fn hold(path: &Path) -> io::Result<File> {
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let directory = File::open(directory)?;
    rustix::fs::flock(&directory, FlockOperation::LockExclusive)?;
    Ok(directory)
}

/// The file is a socket's, and nobody listens on it any more.
fn is_left_behind(path: &Path) -> bool {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    let refused = || -> io::Result<bool> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        match socket.connect(&SockAddr::unix(path)?) {
            Err(error) => Ok(error.kind() == io::ErrorKind::ConnectionRefused),
            Ok(()) => Ok(false),
        }
    };
    is_socket && refused().unwrap_or(false)
}

fn explain(address: &Address, error: &io::Error) -> io::Error {
    let is_file = matches!(address, Address::Socket(_));
    let cure = match error.kind() {
        io::ErrorKind::AddrInUse if is_file => {
            "another process listens there, or the file is no socket; stop that process, remove the \
             file, or choose another path"
        }
        io::ErrorKind::InvalidInput if is_file => "a socket's path has at most 107 bytes",
        io::ErrorKind::NotFound if is_file => "make the directory",
        io::ErrorKind::PermissionDenied if is_file => {
            "the router's user must be allowed to read and write the directory"
        }
        io::ErrorKind::AddrInUse => "another process has this port; stop it or choose another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need the right to bind them",
        io::ErrorKind::AddrNotAvailable => "this machine has no such address",
        _ => "check the address",
    };
    io::Error::new(
        error.kind(),
        format!("cannot listen on {address}: {error}; {cure}"),
    )
}
