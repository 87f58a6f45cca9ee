//! A binlog on its way from a server to its reader, until either side ends it.
//!
//! Four things go on at the same time: the server's bytes are received, the server is asked what it shows, what
//! may go on is sent, and the reader is listened to. They meet in [`Withheld`].

use std::cell::{Cell, RefCell};
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::Ordering::Relaxed;
use std::task::Poll;
use std::time::Duration;

use changes::Shown;
use channel::Duplex;
use execute::client::stall::{Progress, Wait};
use execute::counters::Counters;
use execute::execution::pipe::make_room;
use mysql_wire::binlog::acknowledgements;
use mysql_wire::binlog::sync::Declined;

use super::source::Source;
use super::withheld::Withheld;

/// Receive room for what a reader says within a stream.
const CLIENT_BYTES: usize = 1024;

/// So much may a reader send ahead of the stream's end; then it is not read from any more.
const AHEAD_BYTES_MAX: usize = 65_536;

/// With so much on its way to the reader, or waiting, nothing more is received.
const WITHHELD_BYTES_MAX: usize = 2 << 20;

/// Once a stream has filled this many buffers it goes on in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// Between two questions what the server shows.
const ASK: Duration = Duration::from_millis(5);

/// Why a stream is over.
pub(super) enum Over {
    /// This is the server's last packet, an EOF or an error.
    Ended(Vec<u8>),
    /// The server's connection broke, or the server is the primary no longer. What was not safe has not gone on.
    ServerGone,
    /// The client's did, or it was shut from here.
    ClientGone,
}

/// The two connections of a stream, and how far it has come.
pub(super) struct Stream<'a> {
    pub client: Duplex<'a>,
    pub server: Duplex<'a>,
    pub progress: &'a Progress,
    pub counters: &'a Counters,
    pub withheld: RefCell<Withheld>,
    /// The reader asked to acknowledge what it receives, as a replica does; it is never asked to.
    pub declined: Option<RefCell<Declined>>,
    /// What the client sent and is no acknowledgement: commands for the time behind the stream.
    pub ahead: RefCell<Vec<u8>>,
    pub server_gone: Cell<bool>,
    /// A send is under way: nobody knows how much of it has left.
    pub sends: Cell<bool>,
    /// Goes up whenever one of the four may have something for another to do.
    pub turn: Cell<u64>,
}

impl Stream<'_> {
    /// The number of the next packet to the reader; `None` in the middle of an event.
    pub fn next_sequence(&self) -> Option<u8> {
        let between = self.withheld.borrow().next_sequence().filter(|_| !self.sends.get());
        match &self.declined {
            Some(declined) => between.and_then(|_| declined.borrow().next_sequence()),
            None => between,
        }
    }

    /// Passes the stream on until either side ends it. Without a source everything goes on at once.
    pub async fn run(&self, buffer: Vec<u8>, source: Option<&mut Source>) -> Over {
        let mut receive = pin!(self.receive(buffer));
        let mut release = pin!(self.release(source));
        let mut send = pin!(self.send());
        let mut hear = pin!(self.hear_client());
        poll_fn(|context| {
            loop {
                let turn = self.turn.get();
                let ended = [
                    receive.as_mut().poll(context),
                    release.as_mut().poll(context),
                    send.as_mut().poll(context),
                    hear.as_mut().poll(context),
                ];
                if let Some(over) = ended.into_iter().find(Poll::is_ready) {
                    return over;
                }
                if self.turn.get() == turn {
                    return Poll::Pending;
                }
            }
        })
        .await
    }

    /// Waits for one of the others: each is polled again when another has made its turn.
    async fn until(&self, is_so: impl Fn() -> bool) {
        poll_fn(|_| match is_so() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
    }

    fn make_turn(&self) {
        self.turn.set(self.turn.get() + 1);
    }

    /// From the server.
    async fn receive(&self, mut buffer: Vec<u8>) -> Over {
        let mut pieces = 0;
        while !self.withheld.borrow().has_ended() {
            self.until(|| self.withheld.borrow().bytes() < WITHHELD_BYTES_MAX).await;
            buffer.clear();
            make_room(&mut buffer, 0, pieces > SMALL_BUFFERS_MAX);
            let (received, filled) = self.server.recv(buffer).await;
            buffer = filled;
            if !matches!(received, Ok(1..)) {
                self.server_gone.set(true);
                self.make_turn();
                break;
            }
            pieces += 1;
            self.withheld.borrow_mut().take(&buffer);
            self.make_turn();
        }
        pending().await
    }

    /// Has transactions go on once they are safe.
    async fn release(&self, source: Option<&mut Source>) -> Over {
        let Some(source) = source else {
            return pending().await;
        };
        let mut shown: Option<Shown> = None;
        loop {
            self.until(|| self.withheld.borrow().waits()).await;
            let due = shown.as_ref().and_then(|shown| self.withheld.borrow().shown(shown));
            let Some((number, position)) = due else {
                if shown.is_some() {
                    reactor::sleep(ASK).await;
                }
                shown = source.shown().await;
                if shown.is_none() {
                    return Over::ServerGone;
                }
                continue;
            };
            if !source.is_safe(&position).await {
                return Over::ServerGone;
            }
            let passed = &self.counters.binlog_transactions_passed;
            passed.fetch_add(number as u64, Relaxed);
            self.withheld.borrow_mut().release(number);
            self.make_turn();
        }
    }

    /// To the client. The last packet is not sent: before it is, nobody may be receiving from the client any
    /// more, or its next command would be lost.
    async fn send(&self) -> Over {
        loop {
            let passed = self.withheld.borrow_mut().pass();
            let Some(mut bytes) = passed else {
                if let Some(last) = self.withheld.borrow_mut().last() {
                    return Over::Ended(last);
                }
                if self.server_gone.get() {
                    return Over::ServerGone;
                }
                let turn = self.turn.get();
                self.until(|| self.turn.get() != turn).await;
                continue;
            };
            if let Some(declined) = &self.declined {
                let straight = std::mem::take(&mut bytes);
                declined.borrow_mut().take(&straight, &mut bytes);
            }
            let range = 0..bytes.len();
            self.sends.set(true);
            self.progress.begin(Wait::Send);
            let (sent, _) = self.client.send(bytes, range).await;
            self.progress.end();
            self.sends.set(sent.is_err());
            if sent.is_err() {
                return Over::ClientGone;
            }
            self.make_turn();
        }
    }

    /// From the client. Acknowledgements are for nobody: the stream asks for none. Anything else is a command,
    /// which has to wait for the stream's end.
    async fn hear_client(&self) -> Over {
        let mut buffer = Vec::with_capacity(CLIENT_BYTES);
        loop {
            let (received, filled) = self.client.recv(buffer).await;
            buffer = filled;
            if !matches!(received, Ok(1..)) {
                return Over::ClientGone;
            }
            if self.keep_ahead(&mut buffer) > AHEAD_BYTES_MAX {
                return pending().await;
            }
        }
    }

    /// Keeps what is no acknowledgement for after the stream. How many bytes are kept.
    fn keep_ahead(&self, heard: &mut Vec<u8>) -> usize {
        let mut ahead = self.ahead.borrow_mut();
        ahead.append(heard);
        let told = acknowledgements(&ahead);
        ahead.drain(..told);
        ahead.len()
    }
}
