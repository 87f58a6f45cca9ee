//! Acknowledgements that the router holds: where the servers cannot make a commit wait for a replica,
//! its OK goes to the client when a replica is known to have it.
//!
//! One question per replica and core is under way at a time. It is for everything that is waited for
//! when it is asked, so many writers cost as many questions as one, and the replica that has it first
//! releases them. A commit that is still held when its primary is cut off counts as one whose answer
//! was lost.

pub mod wait;

use std::cell::RefCell;
use std::time::Duration;

use backend::Pass;
use farm::{Acks, Group, Position, Server, ServerId, Snapshot, Status};
use futures_channel::oneshot;
use rustc_hash::FxHashSet;

use crate::connections::home::group_of;

/// A replica that does not have what is asked for says so after this time, and how far it is.
const ASK_MS: u64 = 50;

/// A replica that failed is asked again after this time.
const PAUSE: Duration = Duration::from_millis(20);

/// The commits of one core that are held.
#[derive(Default)]
pub struct Held {
    waiters: RefCell<Vec<Waiter>>,
    /// The replicas that are being asked.
    asked: RefCell<FxHashSet<ServerId>>,
}

struct Waiter {
    session: u32,
    /// The number of the group that the commit is in, as sessions know it.
    seat: u32,
    position: Position,
    primary: (ServerId, u32),
    /// By which replicas can be asked.
    pass: Pass,
    tell: oneshot::Sender<bool>,
}

impl Held {
    /// Everything that is waited for in a group.
    fn wanted(&self, seat: u32) -> Option<Position> {
        let waiters = self.waiters.borrow();
        let of_group = waiters.iter().filter(|waiter| waiter.seat == seat);
        let mut positions = of_group.map(|waiter| &waiter.position);
        let mut all = positions.next()?.clone();
        positions.for_each(|position| all.join(position));
        Some(all)
    }

    /// Ends the waits of which this is so.
    fn release(&self, safe: bool, over: impl Fn(&Waiter) -> bool) {
        let mut waiters = self.waiters.borrow_mut();
        for waiter in waiters.extract_if(.., |waiter| over(waiter)) {
            // Its session may be gone.
            let _ = waiter.tell.send(safe);
        }
    }

    /// Ends the wait of a session that is killed.
    pub fn interrupt(&self, session: u32) {
        self.release(false, |waiter| waiter.session == session);
    }
}

/// The servers of a group that a commit may be on besides its primary.
fn followers(group: &Group) -> impl Iterator<Item = &Server> {
    let servers = group.servers.iter().map(|server| &**server);
    servers.filter(|s| matches!(s.status, Status::Replica | Status::Spare) && s.health.alive)
}

/// For how long commits of a group are held; `None` where they are not.
fn limit(snapshot: &Snapshot, seat: u32) -> Option<Duration> {
    match group_of(snapshot, seat)?.acks {
        Acks::Router { wait_ms } => Some(Duration::from_millis(wait_ms)),
        Acks::Servers => None,
    }
}
