//! The servers that have asked for a client's file: each takes its rows as fast as it can, while the client sends
//! more and the others take theirs.
//!
//! Rows of a server wait until they are worth a packet and the server has taken the packet before. When too
//! many wait, nothing is received until it has taken some; so memory is bounded. A connection that is sent to is in
//! the future that sends: what is dropped closes it, so that the server does not keep half a file.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use backend::Lease;
use mysql_wire::packet::{self, HEADER_BYTES, Header};

use crate::scatter::feed::Feed;
use crate::scatter::feeds::Feeds;

/// So many bytes of a group are worth a packet.
const PIECE_BYTES: usize = 64 << 10;

/// With so many bytes that wait for one server nothing more is received.
const WAITING_BYTES_MAX: usize = 512 << 10;

/// A packet has at most so many.
const PACKET_BYTES_MAX: usize = 1 << 20;

/// What a send gives back: whether it went well, the connection, the buffer.
type Sent = (bool, Lease, Vec<u8>);

enum Line {
    Ready(Lease),
    Sending(Pin<Box<dyn Future<Output = Sent>>>),
    /// Only while it changes.
    Between,
}

/// One server.
struct Sink {
    /// The place of its part.
    at: usize,
    line: Line,
    /// What its answer is received with.
    buffer: Vec<u8>,
    /// The number of its next packet.
    sequence: u8,
    /// Packets that were not sent yet; the last one is open, with room for its header.
    rows: Vec<u8>,
    /// Where the open one begins.
    open: usize,
    /// What the rows behind those are collected in.
    spare: Vec<u8>,
    /// It takes no more.
    broken: bool,
}

/// All servers, in the order of the parts.
pub(super) struct Sinks {
    all: Vec<Sink>,
}

impl Sinks {
    /// Takes the connections of those that have asked for the file.
    pub fn of(feeds: &mut Feeds) -> Sinks {
        let mut all = Vec::new();
        for (at, feed) in feeds.all.iter_mut().enumerate() {
            if !feed.wants_file || feed.failed() {
                continue;
            }
            let (lease, buffer) = feed.give_up();
            if let Some(lease) = lease {
                all.push(Sink {
                    at,
                    line: Line::Ready(lease),
                    buffer,
                    // Behind the server's wish, which is the first packet of its reply.
                    sequence: 2,
                    rows: vec![0; HEADER_BYTES],
                    open: 0,
                    spare: Vec::new(),
                    broken: false,
                });
            }
        }
        Sinks { all }
    }

    /// The first server's connection, while nothing is sent to it.
    pub fn first(&self) -> Option<&Lease> {
        match &self.all.first()?.line {
            Line::Ready(lease) => Some(lease),
            _ => None,
        }
    }

    /// Where the rows of this server go, at the end.
    pub fn rows(&mut self, server: usize) -> Option<&mut Vec<u8>> {
        self.all.get_mut(server).map(|sink| &mut sink.rows)
    }

    /// The same of each server.
    pub fn each(&mut self) -> impl Iterator<Item = &mut Vec<u8>> {
        self.all.iter_mut().map(|sink| &mut sink.rows)
    }

    /// Has servers take what is worth it, and waits while too much of one waits.
    pub async fn send_full(&mut self) {
        poll_fn(|context| {
            self.poll(context);
            let waits = |sink: &Sink| sink.rows.len() > WAITING_BYTES_MAX;
            match self.all.iter().any(waits) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
    }

    /// Has servers take what waits for them while something else is awaited.
    pub async fn beside<T>(&mut self, other: impl Future<Output = T>) -> T {
        let mut other = std::pin::pin!(other);
        poll_fn(|context| {
            self.poll(context);
            other.as_mut().poll(context)
        })
        .await
    }

    /// The file is over, and the servers may answer.
    pub async fn end(mut self, feeds: &mut Feeds) {
        poll_fn(|context| {
            self.poll(context);
            let sends = |sink: &Sink| matches!(sink.line, Line::Sending(_));
            match self.all.iter().any(sends) {
                true => Poll::Pending,
                false => Poll::Ready(()),
            }
        })
        .await;
        for mut sink in self.all {
            sink.close();
            let mut packets = std::mem::take(&mut sink.rows);
            packets.truncate(sink.open);
            packet::write(&mut packets, &mut sink.sequence, b"");
            if sink.broken {
                packets.clear();
            }
            if let Line::Ready(lease) = sink.line {
                feeds.all[sink.at] = Feed::resume(lease, packets, sink.buffer);
            }
        }
    }

    /// Goes on with all of them.
    fn poll(&mut self, context: &mut Context<'_>) {
        for sink in &mut self.all {
            while sink.goes_on(context) {}
        }
    }
}

impl Sink {
    /// Begins or ends a send. False when nothing is left to be done now.
    fn goes_on(&mut self, context: &mut Context<'_>) -> bool {
        if self.rows.len() - self.open >= PIECE_BYTES {
            self.close();
        }
        match std::mem::replace(&mut self.line, Line::Between) {
            Line::Sending(mut sending) => match sending.as_mut().poll(context) {
                Poll::Pending => {
                    self.line = Line::Sending(sending);
                    false
                }
                Poll::Ready((well, lease, sent)) => {
                    self.broken |= !well;
                    self.line = Line::Ready(lease);
                    self.spare = sent;
                    true
                }
            },
            Line::Ready(lease) if self.open > 0 && !self.broken => {
                self.line = Line::Sending(Box::pin(send(lease, self.take())));
                true
            }
            ready => {
                if self.broken {
                    self.take();
                }
                self.line = ready;
                false
            }
        }
    }

    /// Ends the open packet; none that is empty, for it would end the file.
    fn close(&mut self) {
        let start = self.open + HEADER_BYTES;
        let payload_bytes = self.rows.len() - start;
        if payload_bytes == 0 {
            return;
        }
        if payload_bytes <= PACKET_BYTES_MAX {
            let header = Header {
                payload_bytes,
                sequence: self.sequence,
            };
            self.sequence = self.sequence.wrapping_add(1);
            self.rows[self.open..start].copy_from_slice(&header.encode());
        } else {
            let long = self.rows.split_off(start);
            self.rows.truncate(self.open);
            for piece in long.chunks(PACKET_BYTES_MAX) {
                packet::write(&mut self.rows, &mut self.sequence, piece);
            }
        }
        self.open = self.rows.len();
        self.rows.resize(self.open + HEADER_BYTES, 0);
    }

    /// The packets so far.
    fn take(&mut self) -> Vec<u8> {
        self.close();
        let mut next = std::mem::take(&mut self.spare);
        next.clear();
        next.resize(HEADER_BYTES, 0);
        let mut packets = std::mem::replace(&mut self.rows, next);
        packets.truncate(self.open);
        self.open = 0;
        packets
    }
}

async fn send(mut lease: Lease, packets: Vec<u8>) -> Sent {
    let range = 0..packets.len();
    let (sent, packets) = lease.connection_mut().send(packets, range).await;
    (sent.is_ok(), lease, packets)
}
