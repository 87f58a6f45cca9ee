//! Clients of other doors on a core: they stand in lists of sessions, KILL ends them, and a drain does.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use reactor::Closer;
use rustc_hash::FxHashMap;

use crate::introspection::registry::Entry;
use crate::introspection::view::{Door, SessionView};
use crate::per_core::Core;

/// Those of one core.
#[derive(Default)]
pub(crate) struct DoorClients(RefCell<FxHashMap<u32, Rc<DoorClient>>>);

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

/// A client's time on its core; it is gone when this is dropped.
pub struct Stay {
    core: Rc<Core>,
    door_client: Rc<DoorClient>,
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
    pub fn end_quiet(&self, since_s: u64) {
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
            held_s: 0,
        }));
    }
}

impl Stay {
    /// A client that is not logged in yet, or need not log in.
    pub fn new(core: &Rc<Core>, peer: SocketAddr, closer: Closer) -> Stay {
        let door_client = Rc::new(DoorClient {
            id: core.shared.registry.next_id(),
            peer: Cell::new(peer),
            user: RefCell::default(),
            closer,
            active_s: Cell::new(core.now_s.get()),
            busy: Cell::new(false),
            ended: Cell::new(false),
        });
        let id = door_client.id;
        core.door_clients.0.borrow_mut().insert(id, door_client.clone());
        core.shared.registry.enter(Entry {
            id,
            core: core.index,
            user: String::new(),
            peer,
        });
        let core = core.clone();
        Stay { core, door_client }
    }

    /// Its number among the sessions of the farm.
    pub fn id(&self) -> u32 {
        self.door_client.id
    }

    /// A load balancer has said where its client is.
    pub fn is_at(&self, peer: SocketAddr) {
        self.door_client.peer.set(peer);
        self.core.shared.registry.relocate(self.door_client.id, peer);
    }

    /// It has logged in.
    pub fn is_user(&self, user: &[u8]) {
        *self.door_client.user.borrow_mut() = user.to_vec();
        self.core.shared.registry.rename(self.door_client.id, user);
    }

    /// Requests of its are under way, or no longer.
    pub fn busy(&self, busy: bool) {
        if busy {
            self.door_client.active_s.set(self.core.now_s.get());
        }
        self.door_client.busy.set(busy);
    }

    /// Somebody wants it to go, now that it waits for nothing.
    pub fn must_go(&self) -> bool {
        self.door_client.ended.get() || self.core.hurries()
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let id = self.door_client.id;
        self.core.door_clients.0.borrow_mut().remove(&id);
        self.core.shared.registry.leave(id);
    }
}
