//! An open socket of a core, and its waits on either interface; the socket, its closers and its
//! operations in flight share it.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::net::Shutdown;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use socket2::Socket;

use crate::driver::Driver;
use crate::epoll::{Direction, SourceId};
use crate::pooled::rarely;
use crate::ring::{OpId, Ring};
use crate::runtime::{self, Runtime};
use crate::stream::Stream;
use crate::tasks::Waiter;

/// Sends of up to this many bytes are copied and not waited for: a piece of a reply, and what sealing
/// adds to it.
const SOON_BYTES_MAX: usize = 16_384 + 1_024;

/// Receives of a socket on io_uring before it is registered with epoll. A client that logs in and falls silent, or goes,
/// is never worth its place there.
pub(crate) const RECEIVES_UNREGISTERED: u8 = 16;

/// A descriptor, closed when nobody needs it any more.
pub(crate) struct Descriptor {
    socket: Socket,
    /// It is a Unix socket.
    pub(crate) is_local: bool,
    runtime: Rc<Runtime>,
    /// Its registration with epoll; on io_uring `None` until a receive waits there.
    source: Cell<Option<SourceId>>,
    /// How many receives it had before that.
    received: Cell<u8>,
    /// On io_uring: the send under way that nobody waits for.
    pub(crate) sending: Cell<Option<OpId>>,
    /// The error number of such a send that failed; the next send tells it.
    send_error: Cell<Option<i32>>,
    /// On io_uring: the last receive may have left bytes behind.
    pub(crate) more: Cell<bool>,
}

/// By what the socket works.
enum Interface<'a> {
    Ring(&'a RefCell<Ring>),
    Epoll(SourceId),
}

/// What ends a wait for something to receive.
enum Wanted {
    /// There is something, as far as is known.
    Ready,
    /// Receives go by the ring now.
    Elsewhere,
    /// It has waited for long, and is to give up its buffer.
    Idle,
}

impl AsRawFd for Descriptor {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        if let Some(source) = self.source.get() {
            let waiters = self.driver().epoll.borrow_mut().forget(source);
            drop(waiters);
        }
    }
}

impl Descriptor {
    /// Takes a connected socket over for this core.
    pub(crate) fn new(stream: Stream) -> io::Result<Rc<Descriptor>> {
        Descriptor::with(stream, true)
    }

    /// Takes over a non-blocking socket whose connection is under way, and waits until it is made or
    /// has failed.
    pub(crate) async fn connected(stream: Stream) -> io::Result<Rc<Descriptor>> {
        let descriptor = Descriptor::with(stream, false)?;
        match descriptor.interface() {
            Interface::Ring(ring) => {
                let id = ring.borrow_mut().writable(&descriptor);
                descriptor.flight(id).await;
            }
            Interface::Epoll(source) => descriptor.ready(source, Direction::Send).await,
        }
        match descriptor.socket.take_error()? {
            Some(error) => return Err(error),
            None => descriptor.socket.peer_addr()?,
        };
        descriptor.settle()?;
        Ok(descriptor)
    }

    fn with(stream: Stream, connected: bool) -> io::Result<Rc<Descriptor>> {
        let runtime = runtime::current().ok_or_else(|| io::Error::other("not on a core"))?;
        let Stream {
            socket,
            is_local,
            is_prepared,
        } = stream;
        let source = match &runtime.driver.ring {
            Some(_) => None,
            None => {
                let mut epoll = runtime.driver.epoll.borrow_mut();
                Some(epoll.register(socket.as_fd(), connected)?)
            }
        };
        let descriptor = Descriptor {
            socket,
            is_local,
            runtime,
            source: Cell::new(source),
            received: Cell::new(0),
            sending: Cell::new(None),
            more: Cell::new(false),
            send_error: Cell::new(None),
        };
        if connected && !is_prepared {
            descriptor.settle()?;
        }
        Ok(Rc::new(descriptor))
    }

    /// On io_uring the socket must be blocking: an operation that finds nothing to do would fail
    /// instead of waiting. Calls of our own say themselves that they must not wait.
    fn settle(&self) -> io::Result<()> {
        match self.driver().ring {
            Some(_) => self.socket.set_nonblocking(false),
            None => Ok(()),
        }
    }

    fn driver(&self) -> &Driver {
        &self.runtime.driver
    }

    fn interface(&self) -> Interface<'_> {
        match (&self.driver().ring, self.source.get()) {
            (Some(ring), _) => Interface::Ring(ring),
            (None, Some(source)) => Interface::Epoll(source),
            (None, None) => unreachable!("without a ring every socket is registered with epoll"),
        }
    }

    /// By what the next receive waits.
    fn receives_by(&self) -> Interface<'_> {
        let driver = self.driver();
        let Some(ring) = &driver.ring else {
            return self.interface();
        };
        if ring.borrow().messages_come_together() {
            return Interface::Ring(ring);
        }
        let received = self.received.get();
        if received < RECEIVES_UNREGISTERED {
            self.received.set(received + 1);
            return Interface::Ring(ring);
        }
        let mut epoll = driver.epoll.borrow_mut();
        let source = self.source.get();
        let source = source.or_else(|| epoll.register_receives(self.socket.as_fd()).ok());
        self.source.set(source);
        // The system has no room for it.
        let Some(source) = source else {
            return Interface::Ring(ring);
        };
        if self.more.get() {
            epoll.may_receive(source);
        }
        Interface::Epoll(source)
    }

    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Receives at least one byte into the buffer's room, or none at the end of the stream.
    pub(crate) async fn receive(
        self: &Rc<Self>,
        mut buffer: Vec<u8>,
    ) -> (io::Result<usize>, Vec<u8>) {
        if buffer.len() == buffer.capacity() {
            // It would look like the end of the stream.
            return (Err(io::ErrorKind::InvalidInput.into()), buffer);
        }
        loop {
            let received = match self.receives_by() {
                Interface::Ring(ring) => {
                    let id = ring.borrow_mut().receive(self, buffer);
                    let (result, back) = self.flight(id).await;
                    buffer = back;
                    let received = usize::try_from(result);
                    received.map_err(|_| Errno::from_raw_os_error(-result))
                }
                Interface::Epoll(source) => self.receive_at_once(source, &mut buffer).await,
            };
            match received {
                Ok(bytes) => return (Ok(bytes), buffer),
                Err(Errno::INTR | Errno::AGAIN) => {}
                // It has waited for long: the buffer is another one from here on.
                Err(Errno::CANCELED) if buffer.is_empty() => {
                    let room = std::mem::take(&mut buffer).capacity();
                    self.wait_without_buffer().await;
                    buffer.reserve_exact(room);
                }
                Err(error) => return (Err(error.into()), buffer),
            }
        }
    }

    /// Waits until there is something to receive, or the end.
    async fn wait_without_buffer(self: &Rc<Self>) {
        match self.interface() {
            Interface::Ring(ring) => {
                let id = ring.borrow_mut().readable(self);
                self.flight(id).await;
                self.more.set(true);
            }
            Interface::Epoll(source) => self.ready(source, Direction::Receive).await,
        }
    }

    /// Receives once there is something, as far as is known: a call in vain costs as much as one
    /// that brings bytes.
    async fn receive_at_once(
        &self,
        source: SourceId,
        buffer: &mut Vec<u8>,
    ) -> Result<usize, Errno> {
        match self.readable(source).await {
            Wanted::Ready => {}
            Wanted::Idle if buffer.is_empty() => return Err(Errno::CANCELED),
            Wanted::Idle | Wanted::Elsewhere => return Err(Errno::AGAIN),
        }
        let room = buffer.capacity() - buffer.len();
        let received = rustix::net::recv(self, spare_capacity(buffer), RecvFlags::DONTWAIT);
        let received = received.map(|(bytes, _)| bytes);
        let driver = self.driver();
        match received {
            Err(Errno::AGAIN) => {
                self.more.set(false);
                let mut epoll = driver.epoll.borrow_mut();
                epoll.must_wait(source, Direction::Receive);
            }
            Ok(bytes) if bytes < room => driver.epoll.borrow_mut().drained(source),
            _ => {}
        }
        if let Ok(bytes) = received {
            self.more.set(bytes == room);
        }
        received
    }

    /// Sends these bytes of the buffer, all of them. On io_uring a short send of a busy core is copied,
    /// goes out with the core's next turn, and is not waited for: what became of it is told by what
    /// comes next on this socket, as with bytes that lie in the kernel's buffer.
    pub(crate) async fn send(
        self: &Rc<Self>,
        buffer: Vec<u8>,
        mut range: Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        match self.interface() {
            Interface::Ring(ring) => match self.send_now(ring, &buffer, &mut range) {
                Some(sent) => (sent, buffer),
                None => rarely(self.send_later(ring, buffer, range)).await,
            },
            Interface::Epoll(source) => {
                let sent = self.send_at_once(source, &buffer[range]).await;
                (sent, buffer)
            }
        }
    }

    /// Sends by the ring what need not be waited for, which is nearly every send; `None` leaves `range` to be sent.
    fn send_now(
        self: &Rc<Self>,
        ring: &RefCell<Ring>,
        buffer: &[u8],
        range: &mut Range<usize>,
    ) -> Option<io::Result<()>> {
        // Two sends in flight could overtake one another.
        if self.sending.get().is_some() {
            return None;
        }
        if let Some(number) = self.send_error.take() {
            return Some(Err(io::Error::from_raw_os_error(number)));
        }
        // With nothing to share the next call to the kernel with, a call of its own is cheaper than
        // an operation, and the peer works while we go on.
        if range.start < range.end && self.runtime.is_alone(ring) {
            #[cfg(test)]
            {
                ring.borrow_mut().direct += 1;
            }
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(self, &buffer[range.clone()], flags) {
                Ok(sent) => range.start += sent,
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(error) => return Some(Err(error.into())),
            }
        }
        if range.len() > SOON_BYTES_MAX {
            return None;
        }
        if range.start < range.end {
            ring.borrow_mut().send_soon(self, &buffer[range.clone()]);
        }
        Some(Ok(()))
    }

    /// The same where something is to be waited for: the send before, or the kernel's room for a long one.
    async fn send_later(
        self: &Rc<Self>,
        ring: &RefCell<Ring>,
        mut buffer: Vec<u8>,
        mut range: Range<usize>,
    ) -> (io::Result<()>, Vec<u8>) {
        if self.sending.get().is_some() {
            poll_fn(|context| {
                let Some(id) = self.sending.get() else {
                    return Poll::Ready(());
                };
                let before = ring.borrow_mut().wait(&id, Waiter::of(context));
                drop(before);
                Poll::Pending
            })
            .await;
            if let Some(sent) = self.send_now(ring, &buffer, &mut range) {
                return (sent, buffer);
            }
        }
        while !range.is_empty() {
            let id = ring.borrow_mut().send(self, buffer, range.clone());
            let (result, back) = self.flight(id).await;
            buffer = back;
            match usize::try_from(result).map_err(|_| Errno::from_raw_os_error(-result)) {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), buffer),
                Ok(bytes) => range.start += bytes,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(error) => return (Err(error.into()), buffer),
            }
        }
        (Ok(()), buffer)
    }

    /// The peer's buffer nearly always has room, so the call comes first and the wait only after it.
    async fn send_at_once(&self, source: SourceId, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.ready(source, Direction::Send).await;
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            match rustix::net::send(self, bytes, flags) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    let mut epoll = self.driver().epoll.borrow_mut();
                    epoll.must_wait(source, Direction::Send);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// A send that nobody waited for has failed: who receives here must not wait for an answer.
    pub(crate) fn break_send(&self, number: i32) {
        self.send_error.set(Some(number));
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    /// Sees to it that what was sent before has gone out as far as there is room for it. True when
    /// all of it has.
    pub(crate) fn flush(&self) -> bool {
        if let (Some(ring), Some(_)) = (&self.driver().ring, self.sending.get()) {
            ring.borrow_mut().flush();
        }
        self.sending.get().is_none()
    }

    /// The socket's owner has gone: what is being sent goes out as far as there is room for it.
    pub(crate) fn give_up(&self) {
        if let (Some(ring), Some(id)) = (&self.driver().ring, self.sending.get()) {
            ring.borrow_mut().give_up(id);
        }
    }

    /// Waits by epoll until the socket can go on, as far as is known.
    async fn ready(&self, source: SourceId, direction: Direction) {
        poll_fn(|context| {
            let mut epoll = self.driver().epoll.borrow_mut();
            if epoll.is_ready(source, direction) {
                return self.runtime.poll_call(context);
            }
            let before = epoll.wait(source, direction, Waiter::of(context));
            drop(epoll);
            drop(before);
            Poll::Pending
        })
        .await;
    }

    /// The same for something to receive, unless the receive is to go on in another way.
    async fn readable(&self, source: SourceId) -> Wanted {
        poll_fn(|context| {
            let driver = self.driver();
            let mut epoll = driver.epoll.borrow_mut();
            if epoll.is_ready(source, Direction::Receive) {
                return self.runtime.poll_call(context).map(|()| Wanted::Ready);
            }
            if driver
                .ring
                .as_ref()
                .is_some_and(|ring| ring.borrow().messages_come_together())
            {
                return Poll::Ready(Wanted::Elsewhere);
            }
            if epoll.is_idle(source) {
                return Poll::Ready(Wanted::Idle);
            }
            let before = epoll.wait_to_receive(source, Waiter::of(context));
            drop(epoll);
            drop(before);
            Poll::Pending
        })
        .await
    }

    fn flight(&self, id: OpId) -> Flight<'_> {
        Flight {
            runtime: &self.runtime,
            id: Some(id),
        }
    }
}

/// Waits for an operation on the ring. Dropped before its end, it gives the operation up.
struct Flight<'a> {
    runtime: &'a Runtime,
    id: Option<OpId>,
}

impl Future for Flight<'_> {
    type Output = (i32, Vec<u8>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(i32, Vec<u8>)> {
        let this = &mut *self;
        let (Some(ring), Some(id)) = (&this.runtime.driver.ring, &this.id) else {
            return Poll::Pending;
        };
        let taken = ring.borrow_mut().take(id);
        if let Some(done) = taken {
            this.id = None;
            return Poll::Ready(done);
        }
        let waiter = Waiter::of(context);
        let before = ring.borrow_mut().wait(id, waiter);
        drop(before);
        Poll::Pending
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let (Some(ring), Some(id)) = (&self.runtime.driver.ring, self.id.take()) {
            let left = ring.borrow_mut().abandon(id);
            drop(left);
        }
    }
}
