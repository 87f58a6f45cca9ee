//! Seats: what a session has of each group.
//!
//! A statement runs on the session's *current* seat: the held connection, the log of the open
//! transaction, what was written and read, are of that seat's group, and everything in this crate means
//! them. The seats of other groups wait aside; [`Session::sit`] exchanges them. A session of a farm
//! with one group never leaves its first seat, that of the home group, and pays nothing.
//!
//! Invariant: a seat that holds a connection is either the current one or in `Session::seats`, and no
//! group has two.

use std::sync::Arc;

use backend::{ConnectionError, PoolError, SessionState};
use farm::{Group, ServerId, Snapshot};

use crate::consistency::Seen;
use crate::replay::Log;
use crate::session::{Held, Session};

/// The number of a seat that was never left: that of the home group, whichever it is.
pub(crate) const HOME: u32 = 0;

/// What a session has of a group that is not its current one.
pub(crate) struct Seat {
    /// The group's number.
    pub group: u32,
    pub held: Option<Held>,
    pub replay: Option<Box<Log>>,
    pub seen: Seen,
    pub last_server: Option<ServerId>,
    pub last_connection: u64,
}

/// The group of a seat; `None` when it has left the farm.
pub(crate) fn group_of(snapshot: &Snapshot, seat: u32) -> Option<&Arc<Group>> {
    match seat {
        HOME => snapshot.home(),
        number => snapshot.groups.iter().find(|group| group.number == number),
    }
}

impl Session {
    /// The group of the current seat.
    pub(crate) fn group<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Arc<Group>> {
        group_of(snapshot, self.seat)
    }

    /// Makes the seat of this group the current one. Nothing is sent.
    pub(crate) fn sit(&mut self, group: &Group) {
        let number = group.number;
        if self.seat == number {
            return;
        }
        if self.seat == HOME {
            let snapshot = self.core.shared.published.load();
            // From now on the first seat is known by its group's number.
            match snapshot.home().map(|home| home.number) {
                Some(home) if home == number => {
                    self.seat = number;
                    return;
                }
                home => self.seat = home.unwrap_or(HOME),
            }
        }
        let at = self.seats.iter().position(|seat| seat.group == number);
        let mut other = match at {
            Some(at) => self.seats.swap_remove(at),
            None => Seat {
                group: number,
                held: None,
                replay: None,
                seen: Seen::default(),
                last_server: None,
                last_connection: 0,
            },
        };
        self.exchange(&mut other);
        self.seats.push(other);
    }

    /// Exchanges the current seat with this one.
    fn exchange(&mut self, other: &mut Seat) {
        std::mem::swap(&mut self.seat, &mut other.group);
        std::mem::swap(&mut self.held, &mut other.held);
        std::mem::swap(&mut self.replay, &mut other.replay);
        std::mem::swap(&mut self.promises.seen, &mut other.seen);
        std::mem::swap(&mut self.last_server, &mut other.last_server);
        std::mem::swap(&mut self.last_connection, &mut other.last_connection);
    }

    /// Takes the connection that the current seat holds. What the session set while another seat was the
    /// current one is brought to it first.
    ///
    /// # Errors
    /// It cannot be brought there, as into a database that is gone: the seat keeps the connection.
    pub(crate) async fn take_held(&mut self) -> Result<Option<Held>, PoolError> {
        let Some(mut held) = self.held.take() else {
            return Ok(None);
        };
        let connection = held.lease.connection_mut();
        if self.seats.is_empty() || SessionState::same(connection.state(), &self.state) {
            return Ok(Some(held));
        }
        let brought = Box::pin(connection.become_state(&self.state)).await;
        let Err(error) = brought else {
            return Ok(Some(held));
        };
        if !matches!(error, ConnectionError::Refused { .. }) {
            connection.condemn();
        }
        self.held = Some(held);
        Err(error.into())
    }

    /// The session starts anew, in the home group. Of each group it keeps what its reads must have,
    /// and nothing else; no connection is held any more.
    pub(crate) fn keep_required(&mut self) {
        let snapshot = self.core.shared.published.load_full();
        if let Some(home) = snapshot.home() {
            self.sit(home);
        }
        self.replay = None;
        self.seats.retain(|seat| !seat.seen.is_empty());
        for seat in &mut self.seats {
            seat.replay = None;
            (seat.last_server, seat.last_connection) = (None, 0);
        }
    }

    /// True while the session keeps no connection of any group.
    pub(crate) fn holds_none(&self) -> bool {
        self.held.is_none() && self.seats.iter().all(|seat| seat.held.is_none())
    }

    /// Takes away what the session holds, of all groups.
    pub(crate) fn take_all_held(&mut self) -> Vec<Held> {
        let others = self.seats.iter_mut().filter_map(|seat| seat.held.take());
        let others: Vec<Held> = others.collect();
        self.held.take().into_iter().chain(others).collect()
    }
}
