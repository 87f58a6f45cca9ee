//! Servers as the machine's steps meet them: a binary log, a relay log, semi-sync AFTER_SYNC, and what
//! experiments on real servers showed of them.
//!
//! - A commit is acknowledged when one replica has received it; what waits is in the log already.
//! - A relay log that is not drained is thrown away when a replica is restarted, detached or pointed
//!   elsewhere.
//! - A primary that restarts cuts the tail that it had not finished, which may be more than was
//!   unacknowledged; it comes back read-only.
//! - Appliers of a server that waits for acknowledgements hang.
//! - A replica that has more than its primary stops with an error (1236).

use std::collections::VecDeque;

use farm::Position;
use farm::position::Last;

/// A transaction, by its number in the history.
pub type Txn = u32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Running,
    Stopped,
    Down,
}

/// A commit that waits for an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub sequence: usize,
    pub txn: Txn,
    pub client: usize,
    /// The connection's term at the router; `None` for a client that came past it.
    pub term: Option<u32>,
}

#[derive(Clone, Debug)]
pub struct Server {
    pub state: State,
    /// Grows with each start; what belongs to an earlier one is void.
    pub boot: u32,
    /// When it started; the history begins a minute after the first start.
    pub started_us: u64,
    pub log: Vec<Txn>,
    pub relay: VecDeque<Txn>,
    /// So many of the log's transactions are finished.
    pub finished: usize,
    pub read_only: bool,
    pub waits: bool,
    pub waiting: Vec<Waiting>,
    /// Whom it follows, and whether its receiver runs.
    pub source: Option<usize>,
    pub receives: bool,
    /// The reign under which it was told to follow.
    pub followed_under: u32,
    /// The receiver stopped with an error: histories differ.
    pub diverged: bool,
    pub apply_us: u64,
    pub applying: bool,
    /// When something last came from its source.
    pub heard_us: u64,
    /// The number of the reign under which it was opened.
    pub reign: u32,
    /// The greatest leadership that it was told of since it started.
    pub term: u64,
    /// It took writes at some time, so it may hold what nobody else has.
    pub ruled: bool,
}

impl Server {
    pub fn replica(source: usize) -> Server {
        Server {
            state: State::Running,
            boot: 0,
            started_us: 0,
            log: Vec::new(),
            relay: VecDeque::new(),
            finished: 0,
            read_only: true,
            waits: false,
            waiting: Vec::new(),
            source: Some(source),
            receives: true,
            followed_under: 1,
            diverged: false,
            apply_us: 300,
            applying: false,
            heard_us: 0,
            reign: 0,
            term: 0,
            ruled: false,
        }
    }

    pub fn primary() -> Server {
        Server {
            read_only: false,
            waits: true,
            source: None,
            receives: false,
            reign: 1,
            ruled: true,
            ..Server::replica(0)
        }
    }

    pub fn received(&self) -> usize {
        self.log.len() + self.relay.len()
    }

    /// The last transaction that it has, applied or not.
    pub fn last(&self) -> Option<Txn> {
        self.relay.back().or(self.log.last()).copied()
    }

    /// kill -9: connections break, nothing else is lost yet.
    pub fn kill(&mut self) {
        self.state = State::Down;
        self.waiting.clear();
        self.applying = false;
        self.boot += 1;
    }

    /// A start after a crash. `undone` finished commits are lost with the unfinished ones.
    pub fn start(&mut self, undone: usize) {
        self.state = State::Running;
        self.boot += 1;
        self.read_only = true;
        self.relay.clear();
        if self.source.is_none() {
            // Without semi-sync every commit is finished that a client was told of.
            let undone = if self.waits { undone } else { 0 };
            let keep = self.finished.saturating_sub(undone).min(self.log.len());
            self.log.truncate(keep);
        }
        self.finished = self.log.len();
        self.waits = false;
        self.term = 0;
        self.receives = self.source.is_some() && !self.diverged;
    }

    /// Follows nobody any more: an undrained relay log is gone.
    pub fn detach(&mut self) {
        self.relay.clear();
        self.source = None;
        self.receives = false;
    }

    pub fn follow(&mut self, source: usize, reign: u32) {
        self.followed_under = reign;
        self.read_only = true;
        self.relay.clear();
        self.source = Some(source);
        self.receives = true;
        self.diverged = false;
        self.waits = false;
    }

    /// Takes what its source has beyond its own. False when the two histories do not fit.
    pub fn receive(&mut self, source: &[Txn]) -> bool {
        let have = self.received();
        let fits = have <= source.len() && (have == 0 || self.last() == Some(source[have - 1]));
        if fits {
            self.relay.extend(&source[have..]);
        } else {
            self.diverged = true;
            self.receives = false;
        }
        fits
    }
}

/// A position of so many transactions.
pub fn position(sequence: usize) -> Position {
    let last = Last {
        server_id: 1,
        sequence: sequence as u64,
    };
    let domains = [(0, last)].into_iter().filter(|_| sequence > 0);
    Position::MariaDb(domains.collect())
}

/// The other way round.
pub fn sequence(position: &Position) -> usize {
    match position {
        Position::MariaDb(domains) => domains.get(0).map_or(0, |last| last.sequence as usize),
        Position::MySql(_) => 0,
    }
}
