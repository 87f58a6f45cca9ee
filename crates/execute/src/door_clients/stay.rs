//! The time of one client of another door on its core.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;

use reactor::Closer;

use crate::door_clients::DoorClient;
use crate::per_core::Core;

/// A client's time on its core; it is gone when this is dropped.
pub struct Stay {
    core: Rc<Core>,
    door_client: Rc<DoorClient>,
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
        core.shared.registry.enter(id, core.index, b"", peer);
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
