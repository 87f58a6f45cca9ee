//! The key-value door: memcached clients on the data plane's cores, next to those of the SQL door.
//!
//! Job: accept clients, log them in where that is asked for, read their requests in batches, hand these
//! to the containers of their core ([`kv::Kv`]), and write the replies in the order of the requests.
//!
//! Invariants: what a client has under way is bounded in number and bytes, and while the bound is
//! reached nothing is read from it; a request is answered once, unless it asked for silence; bytes
//! that are no request end the connection or are skipped, as memcached does, and are never carried
//! out in part. Clients count in `clients_max` together with those of the SQL door.
//!
//! Must not know: SQL, tables, where keys lie.

mod answer;
mod change;
mod client;
mod counts;
mod early;
mod gets;
mod intake;
mod naming;
mod order;
mod pending;
mod rights;
mod stats;
mod storing;
mod turns;

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Instant;

use farm::error;
use farm::local::LOCAL;
use reactor::{Acceptor, Address, Dealer, Listener, Stream};
use session::{Message, Own, Refusal, Shared, Visit};

pub use crate::counts::Counts;
pub use crate::early::EarlyCommit;

/// What does not change while the door is open.
#[derive(Clone)]
pub struct Settings {
    /// Clients must log in with the name and password of an account.
    pub auth: bool,
    /// Naming a container in front of a key chooses it for the requests that follow, too.
    pub sticky: bool,
    /// Between the name of a container and a key.
    pub delimiter: String,
    /// The largest value that is read; containers may allow less.
    pub value_bytes_max: usize,
    /// The account that the containers' statements run by.
    pub own: Own,
}

/// All that the door needs to know.
pub struct Options {
    /// Where clients come; made by [`reactor::listen`] or taken over from elsewhere.
    pub listeners: Vec<Listener>,
    /// The cores.
    pub dealer: Dealer<Message>,
    pub shared: Arc<Shared>,
    pub settings: Settings,
}

/// The open door.
pub struct Door {
    acceptor: Acceptor,
    house: Arc<House>,
    dealer: Dealer<Message>,
}

/// What all clients of the door share.
pub(crate) struct House {
    pub settings: Settings,
    pub shared: Arc<Shared>,
    /// One for each core.
    pub counts: Vec<Counts>,
    pub turns: turns::Turns,
    pub opened: Instant,
}

/// Opens the door.
///
/// # Errors
/// The listening socket cannot be used.
pub fn start(options: Options) -> io::Result<Door> {
    let house = Arc::new(House {
        settings: options.settings,
        counts: (0..options.dealer.cores())
            .map(|_| Counts::default())
            .collect(),
        shared: options.shared,
        turns: turns::Turns::default(),
        opened: Instant::now(),
    });
    let (of_acceptor, of_door) = (house.clone(), options.dealer.clone());
    let dealer = options.dealer;
    let acceptor = Acceptor::start(options.listeners, move |stream, peer| {
        take(&of_acceptor, &dealer, stream, peer.unwrap_or(LOCAL));
    })?;
    Ok(Door {
        acceptor,
        house,
        dealer: of_door,
    })
}

/// On the acceptor's thread: one client more, or one too many.
fn take(house: &Arc<House>, dealer: &Dealer<Message>, stream: Stream, peer: SocketAddr) {
    // Whose client it is, a load balancer has still to say.
    let is_balancer = house.shared.transport.is_balancer(peer.ip());
    let known = (!is_balancer).then_some(peer.ip());
    let places = match house.shared.let_in(known, house.settings.auth) {
        Ok(places) => places,
        Err(refusal) => return turn_away(stream, &refusal),
    };
    // The places go with the visit, so they are given up wherever the visit ends.
    let house = house.clone();
    let visit = Visit::new(move |core| {
        let life = client::serve(core, house, stream, peer, places);
        reactor::spawn(life).detach();
    });
    dealer.deal(Message::Visit(visit));
}

/// memcached's own words where it has any. They fit any fresh socket's buffer, so the acceptor does not
/// wait.
fn turn_away(stream: Stream, refusal: &Refusal) {
    let words = match *refusal.error {
        error::TOO_MANY_CONNECTIONS => "Too many open connections".to_owned(),
        _ => refusal.text(),
    };
    stream.turn_away(format!("ERROR {words}\r\n").as_bytes());
}

impl Door {
    /// Where clients connect.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.acceptor.addresses()
    }

    /// The listening sockets once more, to be given to another process.
    pub fn sockets(&self) -> io::Result<Vec<OwnedFd>> {
        self.acceptor.sockets()
    }

    /// Takes no more clients, and serves those that are there as before, but acknowledges nothing before its
    /// commit any more.
    pub fn rest(&self) {
        self.acceptor.rest();
        self.house.shared.reads.early.rest(true);
    }

    /// Takes clients again after a rest.
    pub fn resume(&self) {
        self.acceptor.resume();
        self.house.shared.reads.early.rest(false);
    }

    /// What commits the early writes that there are, for a thread that may wait.
    pub fn early_commit(&self) -> EarlyCommit {
        EarlyCommit {
            dealer: self.dealer.clone(),
            own: self.house.settings.own.clone(),
        }
    }

    /// What the door's clients did, for metrics: names, what they count, numbers.
    pub fn counted(&self) -> Vec<(&'static str, &'static str, u64)> {
        counts::sum(&self.house.counts)
    }

    /// A handle that tells the counters for as long as anybody asks.
    pub fn counter(&self) -> Counter {
        Counter(self.house.clone())
    }

    /// Takes no more clients. Those that are there end with the cores' drain.
    pub fn close(self) {
        drop(self.acceptor);
    }
}

/// Tells what the door's clients did.
#[derive(Clone)]
pub struct Counter(Arc<House>);

impl Counter {
    /// As [`Door::counted`].
    pub fn counted(&self) -> Vec<(&'static str, &'static str, u64)> {
        counts::sum(&self.0.counts)
    }
}
