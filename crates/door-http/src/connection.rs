//! One client's connection, and for how long it is waited for: for a request's head from its first byte,
//! for the next request, and for the client to take its answer.
//!
//! The stream sees bytes only; where a request begins and an answer ends, the service says by the [`Seat`]
//! that both share. A body's deadline stands in [`Arriving`].

use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use proxy_wire::{Found, Origin, Unfit};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep};

use crate::census::{Census, Full, Id};
use crate::counted::{Counted, Deadline};

/// How long a client is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    pub(crate) head: Duration,
    pub(crate) body: Duration,
    pub(crate) idle: Duration,
    pub(crate) write: Duration,
}

/// All connections of the door.
pub(crate) type Connections = Mutex<Census<Arc<Notify>>>;

/// What a connection's stream and its service share: its place, which is free again when the last of them is
/// dropped, and where the conversation stands.
#[derive(Clone)]
pub(crate) struct Seat(Arc<Taken>);

struct Taken {
    id: Id,
    connections: Arc<Connections>,
    counted: Arc<Counted>,
    phase: AtomicU8,
    /// Requests that are under way: with HTTP/1.1 one at most.
    running: AtomicUsize,
    rests: Notify,
}

/// Where the conversation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The head of a request is on its way; so it is from the beginning.
    Head = 0,
    /// A request is read, carried out or answered.
    Busy = 1,
    /// The last request has its answer.
    Idle = 2,
}

impl Seat {
    /// The place of this number.
    pub(crate) fn new(id: Id, connections: &Arc<Connections>, counted: &Arc<Counted>) -> Seat {
        Seat(Arc::new(Taken {
            id,
            connections: Arc::clone(connections),
            counted: Arc::clone(counted),
            phase: AtomicU8::new(Phase::Head as u8),
            running: AtomicUsize::new(0),
            rests: Notify::new(),
        }))
    }

    /// Its client is at this address. A connection of the address that waits has to give way where there
    /// are too many.
    ///
    /// # Errors
    /// All of them are at work.
    pub(crate) fn is_at(&self, address: IpAddr) -> Result<(), Full> {
        let ended = lock(&self.0.connections).is_at(self.0.id, address)?;
        if let Some(other) = ended {
            self.0.counted.displaced();
            other.notify_one();
        }
        Ok(())
    }

    /// A request's head is there.
    pub(crate) fn begins(&self) {
        self.0.counted.request();
        self.0.running.fetch_add(1, Relaxed);
        self.set(Phase::Busy);
        self.works();
    }

    /// A request is on its way, and nothing of it is done yet.
    pub(crate) fn is_asking(&self) -> bool {
        self.phase() == Phase::Head
    }

    /// The answer is all in the hands of the stream.
    fn is_answered(&self) {
        if self.0.running.fetch_sub(1, Relaxed) == 1 {
            self.set(Phase::Idle);
            self.rest();
        }
    }

    /// Waits for the next request. The stream learns of it when it is read again.
    fn rest(&self) {
        self.waits();
        self.0.rests.notify_one();
    }

    /// Until the next request is waited for: then the stream is to be read, so that its deadline runs. Who
    /// serves it has perhaps found before that nothing is there, and looks no more by itself.
    pub(crate) async fn rests(&self) {
        self.0.rests.notified().await;
    }

    fn works(&self) {
        lock(&self.0.connections).works(self.0.id);
    }

    fn waits(&self) {
        lock(&self.0.connections).waits(self.0.id);
    }

    fn set(&self, phase: Phase) {
        self.0.phase.store(phase as u8, Relaxed);
    }

    fn phase(&self) -> Phase {
        match self.0.phase.load(Relaxed) {
            0 => Phase::Head,
            1 => Phase::Busy,
            _ => Phase::Idle,
        }
    }

    fn overdue(&self, deadline: Deadline) -> io::Error {
        self.0.counted.overdue(deadline);
        io::Error::new(io::ErrorKind::TimedOut, deadline.text())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut census = lock(&self.connections);
        census.leaves(self.id);
        self.counted.connections(census.len());
    }
}

/// Takes the lock; each step leaves the census whole.
pub(crate) fn lock(connections: &Connections) -> MutexGuard<'_, Census<Arc<Notify>>> {
    connections.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The stream of bytes, with deadlines.
pub(crate) struct Connection {
    stream: TcpStream,
    /// What was received to see whether it is a load balancer's word, and is not; it is read first.
    early: Vec<u8>,
    seat: Seat,
    patience: Patience,
    reading: Pin<Box<Sleep>>,
    /// What `reading` runs for.
    armed: Option<Phase>,
    writing: Pin<Box<Sleep>>,
    /// The client takes nothing just now; then `writing` runs.
    is_stuck: bool,
    /// HTTP/2 is spoken: what comes between requests need not be the head of one.
    is_shared: bool,
}

impl Connection {
    pub(crate) fn new(stream: TcpStream, seat: Seat, patience: Patience) -> Connection {
        Connection {
            stream,
            early: Vec::new(),
            seat,
            patience,
            reading: Box::pin(sleep(patience.head)),
            armed: Some(Phase::Head),
            writing: Box::pin(sleep(patience.write)),
            is_stuck: false,
            is_shared: false,
        }
    }

    /// Several requests share it from here on.
    pub(crate) fn share(&mut self) {
        self.is_shared = true;
    }

    /// Whether the client begins HTTP/2 without having asked; what was looked at stays to be read.
    pub(crate) async fn begins_http2(&mut self) -> io::Result<bool> {
        const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        if self.first_byte().await? != PREFACE[0] {
            return Ok(false);
        }
        let limit = self.patience.head;
        let (stream, early) = (&mut self.stream, &mut self.early);
        let looking = async {
            loop {
                let bytes = early.len().min(PREFACE.len());
                if early[..bytes] != PREFACE[..bytes] {
                    return Ok(false);
                }
                if bytes == PREFACE.len() {
                    return Ok(true);
                }
                if stream.read_buf(early).await? == 0 {
                    return Ok(false);
                }
            }
        };
        let looked = tokio::time::timeout(limit, looking).await;
        looked.unwrap_or_else(|_| Err(self.seat.overdue(Deadline::Head)))
    }

    /// The first byte that the client sends, which stays to be read.
    pub(crate) async fn first_byte(&self) -> io::Result<u8> {
        if let Some(first) = self.early.first() {
            return Ok(*first);
        }
        let mut first = [0];
        let peeked = tokio::time::timeout(self.patience.head, self.stream.peek(&mut first));
        match peeked.await {
            Ok(Ok(1)) => Ok(first[0]),
            Ok(Ok(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(self.seat.overdue(Deadline::Head)),
        }
    }

    /// Takes a PROXY header off the connection, if it begins with one. It has the time of a head.
    pub(crate) async fn preface(
        &mut self,
        trusted: bool,
    ) -> io::Result<Result<Option<Origin>, Unfit>> {
        if !matches!(self.first_byte().await?, b'P' | b'\r') {
            return Ok(Ok(None));
        }
        let limit = self.patience.head;
        let (stream, early) = (&mut self.stream, &mut self.early);
        let looking = async {
            loop {
                match proxy_wire::take(early, trusted) {
                    Ok(Found::Nothing) => return Ok(Ok(None)),
                    Ok(Found::Part { .. }) => {
                        if stream.read_buf(early).await? == 0 {
                            return Err(io::ErrorKind::UnexpectedEof.into());
                        }
                    }
                    Ok(Found::Header { origin, bytes }) => {
                        early.drain(..bytes);
                        return Ok(Ok(Some(origin)));
                    }
                    Err(unfit) => return Ok(Err(unfit)),
                }
            }
        };
        let looked = tokio::time::timeout(limit, looking).await;
        looked.unwrap_or_else(|_| Err(self.seat.overdue(Deadline::Head)))
    }

    /// The socket, for a last word.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    fn arm(&mut self, phase: Phase, limit: Duration) {
        self.reading.as_mut().reset(Instant::now() + limit);
        self.armed = Some(phase);
    }

    /// Nothing has come: whether that has gone on for too long.
    fn wait_to_read(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let deadline = match self.seat.phase() {
            Phase::Busy => return Poll::Pending,
            // The rest of the answer comes first, which has its own deadline.
            Phase::Idle if self.is_stuck => {
                self.armed = None;
                return Poll::Pending;
            }
            Phase::Idle => {
                if self.armed != Some(Phase::Idle) {
                    self.arm(Phase::Idle, self.patience.idle);
                }
                Deadline::Idle
            }
            Phase::Head => Deadline::Head,
        };
        let overdue = self.reading.as_mut().poll(context);
        overdue.map(|()| self.seat.overdue(deadline))
    }

    /// The client takes nothing: whether that has gone on for too long.
    fn wait_to_write(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        if !self.is_stuck {
            self.is_stuck = true;
            let limit = Instant::now() + self.patience.write;
            self.writing.as_mut().reset(limit);
            self.seat.waits();
        }
        let overdue = self.writing.as_mut().poll(context);
        overdue.map(|()| self.seat.overdue(Deadline::Write))
    }

    /// The client has taken something.
    fn goes_on(&mut self) {
        if !std::mem::take(&mut self.is_stuck) {
            return;
        }
        match self.seat.phase() {
            Phase::Busy => self.seat.works(),
            Phase::Head | Phase::Idle => self.seat.rest(),
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = match self.early.is_empty() {
            true => Pin::new(&mut self.stream).poll_read(context, buffer),
            false => {
                let bytes = self.early.len().min(buffer.remaining());
                buffer.put_slice(&self.early[..bytes]);
                self.early.drain(..bytes);
                Poll::Ready(Ok(()))
            }
        };
        if read.is_pending() {
            return self.wait_to_read(context).map(Err);
        }
        if self.is_shared {
            self.armed = None;
        } else if self.seat.phase() == Phase::Idle {
            self.seat.set(Phase::Head);
            let limit = self.patience.head;
            self.arm(Phase::Head, limit);
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        if written.is_pending() {
            return self.wait_to_write(context).map(Err);
        }
        self.goes_on();
        written
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// A request's body, which must be there in time.
pub(crate) struct Arriving {
    body: Incoming,
    seat: Seat,
    limit: Duration,
    /// Runs from the first look that found nothing.
    overdue: Option<Pin<Box<Sleep>>>,
}

impl Arriving {
    pub(crate) fn new(body: Incoming, seat: Seat, limit: Duration) -> Arriving {
        Arriving {
            body,
            seat,
            limit,
            overdue: None,
        }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(frame) = frame {
            if self.overdue.is_some() {
                self.seat.works();
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let limit = self.limit;
        let overdue = self.overdue.get_or_insert_with(|| Box::pin(sleep(limit)));
        let overdue = overdue.as_mut().poll(context);
        if overdue.is_ready() {
            let error = self.seat.overdue(Deadline::Body);
            return Poll::Ready(Some(Err(error.into())));
        }
        self.seat.waits();
        Poll::Pending
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// An answer's body: the conversation rests when the stream has all of it.
pub(crate) struct Leaving {
    body: axum::body::Body,
    seat: Seat,
}

impl Leaving {
    pub(crate) fn new(body: axum::body::Body, seat: Seat) -> Leaving {
        Leaving { body, seat }
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        self.seat.is_answered();
    }
}

impl Body for Leaving {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
