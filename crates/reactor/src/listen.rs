//! The listening side: one thread that accepts and hands sockets on.
//!
//! One acceptor deals connections to the cores in turn. A listener per core (SO_REUSEPORT) would let
//! the kernel hash eight connections six to two, and one busy core decides the tail latency.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Connections that the kernel keeps for us while the acceptor is busy.
const BACKLOG: i32 = 4096;

/// A listening socket with its thread.
pub struct Acceptor {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Acceptor {
    /// Binds `address` and calls `take` on the acceptor's thread for every connection. The error
    /// names the address and, for the common causes, the cure.
    pub fn start(
        address: SocketAddr,
        mut take: impl FnMut(TcpStream, SocketAddr) + Send + 'static,
    ) -> io::Result<Acceptor> {
        let listener = Arc::new(bind(address).map_err(|error| explain(address, &error))?);
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let (socket, stop) = (listener.clone(), stopping.clone());
        let thread = std::thread::Builder::new()
            .name("acceptor".to_owned())
            .spawn(move || {
                while !stop.load(Ordering::Acquire) {
                    match socket.accept() {
                        Ok((stream, peer)) => take(stream, peer),
                        Err(error) if out_of_descriptors(&error) => {
                            // Nothing to take until a client goes; without a pause this would spin.
                            std::thread::park_timeout(std::time::Duration::from_millis(10));
                        }
                        Err(_) => {}
                    }
                }
            })?;
        Ok(Acceptor {
            listener,
            address,
            stopping,
            thread: Some(thread),
        })
    }

    /// The bound address: the port is the real one where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting and closes the socket. Waits for the thread.
    pub fn stop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        // shutdown(2) on a listening socket wakes accept(2) on Linux.
        let _ = SockRef::from(&*self.listener).shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

fn explain(address: SocketAddr, error: &io::Error) -> io::Error {
    let cure = match error.kind() {
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

fn out_of_descriptors(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
