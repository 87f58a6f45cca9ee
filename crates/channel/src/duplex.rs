//! A channel whose two directions are used at the same time: one receive and one send may be under
//! way. Layers are shared by both, and never borrowed while a socket is waited for.

use std::cell::RefCell;
use std::io;
use std::ops::Range;

use reactor::Sock;

use crate::send_sealed;
use crate::wrapped::{Pull, Wrapped};

/// Made by [`crate::Channel::duplex`]. At most one receive and one send at a time.
pub struct Duplex<'a> {
    sock: &'a Sock,
    wrapped: Option<RefCell<&'a mut Wrapped>>,
}

impl<'a> Duplex<'a> {
    pub(crate) fn new(sock: &'a Sock, wrapped: Option<&'a mut Wrapped>) -> Duplex<'a> {
        Duplex {
            sock,
            wrapped: wrapped.map(RefCell::new),
        }
    }

    /// As [`crate::Channel::recv`].
    pub async fn recv(&self, mut buffer: Vec<u8>) -> (io::Result<usize>, Vec<u8>) {
        let Some(wrapped) = &self.wrapped else {
            return self.sock.recv(buffer).await;
        };
        loop {
            let pulled = wrapped.borrow_mut().pull(&mut buffer);
            match pulled {
                Ok(Pull::Bytes(bytes)) => return (Ok(bytes), buffer),
                Ok(Pull::Closed) => return (Ok(0), buffer),
                Ok(Pull::More) => {}
                Err(error) => return (Err(error), buffer),
            }
            let raw = wrapped.borrow_mut().lend();
            let (received, raw) = self.sock.recv(raw).await;
            let received = wrapped.borrow_mut().restore(raw, received);
            match received {
                Ok(0) => return (Ok(0), buffer),
                Ok(_) => {}
                Err(error) => return (Err(error), buffer),
            }
        }
    }

    /// As [`crate::Channel::send`].
    pub async fn send(&self, buffer: Vec<u8>, range: Range<usize>) -> (io::Result<()>, Vec<u8>) {
        let Some(wrapped) = &self.wrapped else {
            return self.sock.send(buffer, range).await;
        };
        let seal = |part: &[u8]| wrapped.borrow_mut().seal(part);
        send_sealed(self.sock, buffer, range, seal).await
    }
}
