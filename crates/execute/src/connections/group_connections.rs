//! The map of group connections: what a session has of each group.
//!
//! A statement runs on the session's *current* group connection: the held connection, the log of the
//! open transaction, what was written and read, are of that group, and everything in this crate means
//! them. What the session has of other groups waits; [`GroupConnections::switch_to`] exchanges the two. A
//! session of a farm with one group never leaves the first one, that of the home group, and pays nothing.
//!
//! Invariant: no group is there twice. Must not know: what a transaction over groups is.

use std::rc::Rc;
use std::sync::Arc;

use backend::{Connection, ConnectionError, Lease, PoolError, SessionState};
use farm::{Group, ServerId, Snapshot};

use reactor::rarely;

use crate::connections::home::{HOME, group_of};
use crate::connections::pin::Pins;
use crate::connections::ties::Ties;
use crate::consistency::promises::Seen;
use crate::per_core::Core;
use crate::transaction::replay_log::Log;

/// A connection that this session keeps: for a transaction, or for what cannot move.
pub struct Held {
    pub lease: Lease,
    pub pins: Pins,
}

/// What a session has of one group.
#[derive(Default)]
pub struct GroupConnection {
    /// The group's number; [`HOME`] until another group was spoken to.
    pub group: u32,
    pub held: Option<Held>,
    /// The open transaction, so that it can be done again.
    pub replay: Option<Box<Log>>,
    /// What was written to the group and read from it.
    pub seen: Seen,
    pub last_server: Option<ServerId>,
    /// The connection that ran the last statement; 0 for none.
    pub last_connection: u64,
}

/// What a session has of all groups.
#[derive(Default)]
pub struct GroupConnections {
    /// That of the statement under way.
    pub current: GroupConnection,
    pub others: Vec<GroupConnection>,
    /// What ties the session to its connection, once anything has.
    pub ties: Option<Box<Ties>>,
    /// The group that the account's sessions begin in, where that is not the home group.
    pub begun: Option<Box<str>>,
    /// The first group that was spoken to, and which primary of it has answered.
    pub(crate) met: Option<(u32, ServerId)>,
}

impl GroupConnections {
    /// The group of the current connection; `None` when it has left the farm.
    pub fn group<'s>(&self, snapshot: &'s Snapshot) -> Option<&'s Arc<Group>> {
        group_of(snapshot, self.current.group)
    }

    /// Makes this group's connection the current one. Nothing is sent.
    pub fn switch_to(&mut self, group: &Group, core: &Core) {
        let number = group.number;
        if self.current.group == number {
            return;
        }
        if self.current.group == HOME {
            let snapshot = core.glance();
            // From now on the first group is known by its number.
            match snapshot.home().map(|home| home.number) {
                Some(home) if home == number => {
                    self.current.group = number;
                    return;
                }
                home => self.current.group = home.unwrap_or(HOME),
            }
        }
        let at = self.others.iter().position(|other| other.group == number);
        let mut next = match at {
            Some(at) => self.others.swap_remove(at),
            None => GroupConnection {
                group: number,
                ..GroupConnection::default()
            },
        };
        std::mem::swap(&mut self.current, &mut next);
        self.others.push(next);
    }

    /// Takes the connection that is held of the current group. What the session set while another group was
    /// the current one is brought to it first.
    ///
    /// # Errors
    /// It cannot be brought there, as into a database that is gone: the connection stays held.
    pub(crate) async fn take_held(
        &mut self,
        state: &Rc<SessionState>,
    ) -> Result<Option<Held>, PoolError> {
        let Some(mut held) = self.current.held.take() else {
            return Ok(None);
        };
        let connection = held.lease.connection_mut();
        if self.others.is_empty() || SessionState::same(connection.state(), state) {
            return Ok(Some(held));
        }
        let brought = rarely(connection.become_state(state)).await;
        let Err(error) = brought else {
            return Ok(Some(held));
        };
        if !matches!(error, ConnectionError::Refused { .. }) {
            connection.condemn();
        }
        self.current.held = Some(held);
        Err(error.into())
    }

    /// The session begins in this group, or in the home group. The name may be of no group.
    pub fn begin_in(&mut self, group: Option<&str>, core: &Core) {
        let snapshot = core.glance();
        if let Some(group) = group.and_then(|name| snapshot.group(name)) {
            self.switch_to(group, core);
        }
        self.begun = group.map(Box::from);
        self.met = None;
    }

    /// Notes which primary of the current group was the first to answer.
    pub fn meet(&mut self, connection: &Connection) {
        if self.met.is_none() && !connection.is_guarded() {
            self.met = Some((self.current.group, connection.server));
        }
    }

    /// The primary that has answered before, where that is another one than this.
    pub fn led_before(&self, server: ServerId) -> Option<ServerId> {
        let (group, before) = self.met?;
        (group == self.current.group && before != server).then_some(before)
    }

    /// The session starts anew, in the home group. Of each group it keeps what its reads must have,
    /// and nothing else; no connection is held any more.
    pub fn keep_required(&mut self, core: &Core) {
        if let Some(home) = core.shared.published.load_full().home() {
            self.switch_to(home, core);
        }
        self.current.replay = None;
        self.others.retain(|other| !other.seen.is_empty());
        for other in &mut self.others {
            other.replay = None;
            (other.last_server, other.last_connection) = (None, 0);
        }
    }

    /// True while the session keeps no connection of any group.
    pub fn holds_none(&self) -> bool {
        self.current.held.is_none() && self.others.iter().all(|other| other.held.is_none())
    }

    /// Takes away what the session holds, of all groups.
    pub fn take_all_held(&mut self) -> Vec<Held> {
        let others = self.others.iter_mut().filter_map(|other| other.held.take());
        let others: Vec<Held> = others.collect();
        self.current.held.take().into_iter().chain(others).collect()
    }

    /// No connection of the session has an XA transaction any more.
    pub fn forget_xa(&mut self) {
        if let Some(ties) = &mut self.ties {
            ties.forget_xa();
        }
    }
}

/// The number of the current seat's group.
pub fn seat_number(core: &Core, connections: &GroupConnections) -> u32 {
    let snapshot = core.glance();
    connections.group(&snapshot).map_or(connections.current.group, |group| group.number)
}
