//! A connected stream socket whose reads and writes own their buffers while they run.

use std::io;
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::ops::Range;

use compio::BufResult;
use compio::buf::{IntoInner, IoBuf, IoBufMut};
use compio::io::{AsyncRead, AsyncWrite};
use socket2::SockRef;

/// A TCP connection of this core.
pub struct Sock {
    stream: compio::net::TcpStream,
}

/// Ends a connection from outside the task that serves it: the pending receive sees end of stream.
/// Holds the descriptor open until it is dropped, so it can never reach a reused one.
pub struct Closer {
    stream: compio::net::TcpStream,
}

impl Closer {
    /// Shuts both directions. Bytes already given to the kernel are still sent.
    pub fn close(&self) {
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Both);
    }

    /// Shuts the receiving direction only: the peer's task sees end of stream at its next receive
    /// and can still send a last word.
    pub fn close_receive(&self) {
        let _ = SockRef::from(&self.stream).shutdown(std::net::Shutdown::Read);
    }
}

impl Sock {
    /// Takes over an accepted socket. Small writes go out at once (TCP_NODELAY) and a vanished peer
    /// is found by keepalive.
    pub fn adopt(stream: TcpStream) -> io::Result<Sock> {
        let sock = SockRef::from(&stream);
        sock.set_tcp_nodelay(true)?;
        sock.set_keepalive(true)?;
        Ok(Sock {
            stream: compio::net::TcpStream::from_std(stream)?,
        })
    }

    /// Connects to `host:port`; names are resolved on a thread of their own.
    pub async fn connect(host: &str, port: u16) -> io::Result<Sock> {
        let stream = compio::net::TcpStream::connect((host, port)).await?;
        let sock = SockRef::from(&stream);
        sock.set_tcp_nodelay(true)?;
        sock.set_keepalive(true)?;
        Ok(Sock { stream })
    }

    /// Receives at least one byte behind what `buffer` holds; it must have spare capacity. `Ok(0)`
    /// means that the peer closed its side. The buffer comes back in every case.
    ///
    /// Dropped while it waits: see the crate's word on cancellation.
    pub async fn recv(&mut self, buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        debug_assert!(buffer.len() < buffer.capacity(), "a receive needs room");
        let BufResult(result, spare) = self.stream.read(buffer.uninit()).await;
        (result, spare.into_inner())
    }

    /// Sends the bytes of `buffer` in `range`, all of them. The buffer comes back in every case.
    ///
    /// Dropped while it waits: see the crate's word on cancellation.
    pub async fn send(
        &mut self,
        buffer: Vec<u8>,
        range: Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        let mut buffer = buffer;
        let mut at = range.start;
        while at < range.end {
            let BufResult(result, slice) = self.stream.write(buffer.slice(at..range.end)).await;
            buffer = slice.into_inner();
            match result {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(sent) => at += sent,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (Err(error), buffer),
            }
        }
        (Ok(()), buffer)
    }

    /// True while the peer has neither closed nor sent anything unasked. One system call; meant for
    /// a pooled connection that has been idle for a while.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [MaybeUninit::<u8>::uninit(); 1];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match SockRef::from(&self.stream).recv_with_flags(&mut byte, flags) {
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Receives what has come already, behind what `buffer` holds, without waiting: `WouldBlock` when
    /// there is nothing. `Ok(0)` means that the peer closed its side. Not while another receive runs.
    pub fn recv_ready(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let room = buffer.spare_capacity_mut();
        debug_assert!(!room.is_empty(), "a receive needs room");
        let bytes = SockRef::from(&self.stream).recv_with_flags(room, libc::MSG_DONTWAIT)?;
        // SAFETY: the kernel has written this many bytes behind the buffer's length.
        #[allow(unsafe_code)]
        unsafe {
            buffer.set_len(buffer.len() + bytes);
        }
        Ok(bytes)
    }

    /// Sends what fits into the kernel's buffer without waiting, for a last word before the end.
    pub fn send_ready(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        SockRef::from(&self.stream).send_with_flags(bytes, flags)
    }

    /// A handle that ends this connection from elsewhere on the core.
    pub fn closer(&self) -> Closer {
        Closer {
            stream: self.stream.clone(),
        }
    }

    /// The other end's address.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}
