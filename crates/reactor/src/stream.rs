//! An accepted connection before a core has it: by TCP, or by a Unix socket.

use std::io::{self, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use socket2::Socket;

/// An accepted connection. It blocks.
#[derive(Debug)]
pub struct Stream {
    pub(crate) socket: Socket,
    pub(crate) is_local: bool,
    /// It blocks and has its options, so that no call need see to that.
    pub(crate) is_prepared: bool,
}

impl Stream {
    pub(crate) fn new(socket: Socket, is_local: bool) -> Stream {
        Stream {
            socket,
            is_local,
            is_prepared: false,
        }
    }

    /// One that a prepared listener has accepted: Linux gives it the options of the listening socket, but for
    /// `O_NONBLOCK`.
    pub(crate) fn accepted(socket: Socket, is_local: bool) -> Stream {
        Stream {
            is_prepared: true,
            ..Stream::new(socket, is_local)
        }
    }

    /// Says a last word to somebody who is not taken, as far as the kernel has room for it.
    pub fn turn_away(mut self, word: &[u8]) {
        let said = self.socket.set_nonblocking(true);
        // Who has gone need not hear it.
        let _ = said.and_then(|()| self.socket.write_all(word));
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream::new(stream.into(), false)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Stream {
        Stream::new(stream.into(), true)
    }
}

/// Small writes go out at once and a vanished peer is found by keepalive. A Unix socket has neither need.
pub(crate) fn prepare(socket: &Socket, is_local: bool) -> io::Result<()> {
    if !is_local {
        socket.set_tcp_nodelay(true)?;
        socket.set_keepalive(true)?;
    }
    Ok(())
}
