//! Clients of other doors on a core: they stand in lists of sessions, KILL ends them, and a drain does.

pub mod stay;

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;

use reactor::Closer;
use rustc_hash::FxHashMap;

use crate::per_core::view::{Door, SessionView};

/// Those of one core.
#[derive(Default)]
pub struct DoorClients(RefCell<FxHashMap<u32, Rc<DoorClient>>>);

struct DoorClient {
    id: u32,
    peer: Cell<SocketAddr>,
    user: RefCell<Vec<u8>>,
    closer: Closer,
    /// When its last request began; when it came.
    active_s: Cell<u64>,
    /// A request of its is under way.
    busy: Cell<bool>,
    ended: Cell<bool>,
}

impl DoorClients {
    /// KILL.
    pub fn end(&self, id: u32) {
        if let Some(door_client) = self.0.borrow().get(&id) {
            door_client.ended.set(true);
            door_client.closer.close();
        }
    }

    /// Ends those that wait for their clients since `since_s` or longer.
    pub(crate) fn end_quiet(&self, since_s: u64) {
        for door_client in self.0.borrow().values() {
            if !door_client.busy.get() && door_client.active_s.get() < since_s {
                door_client.ended.set(true);
                door_client.closer.close_receive();
            }
        }
    }

    /// Adds all of them.
    pub fn view(&self, now_s: u64, views: &mut Vec<SessionView>) {
        views.extend(self.0.borrow().values().map(|door_client| SessionView {
            id: door_client.id,
            user: door_client.user.borrow().clone(),
            peer: door_client.peer.get(),
            door: Door::Keys,
            database: None,
            command: door_client.busy.get().then_some("memcached"),
            time_s: now_s.saturating_sub(door_client.active_s.get()),
            digest: None,
            tag: String::new(),
            trace: String::new(),
            running: None,
            held: None,
            reasons: Vec::new(),
            held_for_work: false,
            held_s: 0,
        }));
    }
}

/// Where the clients of internal sessions are.
pub const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
