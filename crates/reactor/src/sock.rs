//! A connected stream socket whose reads and writes own their buffers while they run.

use std::io;
use std::mem::MaybeUninit;
use std::net::{Shutdown, SocketAddr};
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

use crate::connect;
use crate::credentials::{self, Credentials};
use crate::descriptor::Descriptor;
use crate::stream::{Stream, prepare};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::net::{RecvFlags, SendFlags};

/// A connection of this core, by TCP or by a Unix socket.
pub struct Sock {
    descriptor: Rc<Descriptor>,
}

/// Ends a connection from outside the task that serves it: the pending receive sees end of stream.
/// Holds the descriptor open until it is dropped, so it can never reach a reused one.
pub struct Closer {
    descriptor: Rc<Descriptor>,
}

impl Drop for Sock {
    fn drop(&mut self) {
        self.descriptor.give_up();
    }
}

impl Closer {
    /// Shuts both directions. Bytes already given to the kernel are still sent.
    pub fn close(&self) {
        let _ = self.descriptor.flush();
        let _ = self.descriptor.socket().shutdown(Shutdown::Both);
    }

    /// Shuts the receiving direction only: the peer's task sees end of stream at its next receive
    /// and can still send a last word.
    pub fn close_receive(&self) {
        let _ = self.descriptor.socket().shutdown(Shutdown::Read);
    }
}

impl Closer {
    /// True when the peer has closed its side, whether or not what it sent before has been read.
    pub fn peer_is_gone(&self) -> bool {
        let mut looked = [PollFd::new(&*self.descriptor, PollFlags::RDHUP)];
        let now = Timespec::default();
        let found = rustix::event::poll(&mut looked, Some(&now));
        found.is_ok_and(|found| found > 0)
    }
}

impl Sock {
    /// Takes over an accepted socket.
    pub fn adopt(stream: impl Into<Stream>) -> io::Result<Sock> {
        let stream = stream.into();
        if !stream.is_prepared {
            prepare(&stream.socket, stream.is_local)?;
        }
        Ok(Sock {
            descriptor: Descriptor::new(stream)?,
        })
    }

    /// Connects to `host:port`; names are resolved on a thread of their own.
    pub async fn connect(host: &str, port: u16) -> io::Result<Sock> {
        let descriptor = connect::connect(host, port).await?;
        prepare(descriptor.socket(), false)?;
        Ok(Sock { descriptor })
    }

    /// Connects to the Unix socket at this path, without waiting.
    pub fn connect_local(path: &Path) -> io::Result<Sock> {
        let descriptor = connect::connect_local(path)?;
        Ok(Sock { descriptor })
    }

    /// Receives at least one byte behind what `buffer` holds; it must have spare capacity. `Ok(0)`
    /// means that the peer closed its side. The buffer comes back in every case. One at a time; a send
    /// may run beside it.
    ///
    /// Dropped while it waits: see the crate's word on cancellation.
    // No future of its own around the one below: an idle session is as large as what it waits in.
    pub fn recv(&self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<usize>, Vec<u8>)> {
        debug_assert!(buffer.len() < buffer.capacity(), "a receive needs room");
        self.descriptor.receive(buffer)
    }

    /// Sends the bytes of `buffer` in `range`, all of them. The buffer comes back in every case.
    /// `Ok` says that the bytes are on their way, as ever with a socket: that the peer has gone may be
    /// told only by the next call. One at a time; a receive may run beside it.
    ///
    /// Dropped while it waits: see the crate's word on cancellation.
    pub fn send(
        &self,
        buffer: Vec<u8>,
        range: Range<usize>,
    ) -> impl Future<Output = (io::Result<()>, Vec<u8>)> {
        self.descriptor.send(buffer, range)
    }

    /// True while the peer has neither closed nor sent anything unasked. One system call; meant for
    /// a pooled connection that has been idle for a while.
    pub fn is_quiet(&self) -> bool {
        let mut byte = [MaybeUninit::<u8>::uninit(); 1];
        let flags = libc::MSG_PEEK | libc::MSG_DONTWAIT;
        match self.descriptor.socket().recv_with_flags(&mut byte, flags) {
            Ok(_) => false,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        }
    }

    /// Receives what has come already, behind what `buffer` holds, without waiting: `WouldBlock` when
    /// there is nothing. `Ok(0)` means that the peer closed its side. Not while another receive runs.
    pub fn recv_ready(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        debug_assert!(buffer.len() < buffer.capacity(), "a receive needs room");
        let spare = rustix::buffer::spare_capacity(buffer);
        let (bytes, _) = rustix::net::recv(&*self.descriptor, spare, RecvFlags::DONTWAIT)?;
        Ok(bytes)
    }

    /// Sends what fits into the kernel's buffer without waiting, for a last word before the end.
    pub fn send_ready(&self, bytes: &[u8]) -> io::Result<usize> {
        if !self.descriptor.flush() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        Ok(rustix::net::send(&*self.descriptor, bytes, flags)?)
    }

    /// The peer sees end of stream behind what was sent, and can still send.
    pub fn end_sending(&self) {
        self.descriptor.flush();
        let _ = self.descriptor.socket().shutdown(Shutdown::Write);
    }

    /// A handle that ends this connection from elsewhere on the core.
    pub fn closer(&self) -> Closer {
        Closer {
            descriptor: self.descriptor.clone(),
        }
    }

    /// The other end's address; that of a Unix socket is none.
    pub fn peer(&self) -> io::Result<SocketAddr> {
        let peer = self.descriptor.socket().peer_addr()?;
        peer.as_socket()
            .ok_or_else(|| io::ErrorKind::Unsupported.into())
    }

    /// The other end is on this machine, as far as addresses say: it has the one that this end has.
    pub fn is_near(&self) -> bool {
        let here = self.descriptor.socket().local_addr().ok();
        let here = here.and_then(|here| here.as_socket());
        let there = self.peer().ok();
        self.is_local()
            || here
                .zip(there)
                .is_some_and(|(here, there)| here.ip() == there.ip())
    }

    /// It is a Unix socket: the other end is on this machine, and nobody is between.
    pub fn is_local(&self) -> bool {
        self.descriptor.is_local
    }

    /// Who is at the other end of a Unix socket.
    pub fn peer_credentials(&self) -> io::Result<Credentials> {
        match self.descriptor.is_local {
            true => credentials::of_peer(self.descriptor.as_fd()),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }
}
