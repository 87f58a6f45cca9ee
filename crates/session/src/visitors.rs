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
pub(crate) struct Visitors(RefCell<FxHashMap<u32, Rc<Visitor>>>);

struct Visitor {
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
    visitor: Rc<Visitor>,
}

impl Visitors {
    /// KILL.
    pub fn end(&self, id: u32) {
        if let Some(visitor) = self.0.borrow().get(&id) {
            visitor.ended.set(true);
            visitor.closer.close();
        }
    }

    /// Ends those that wait for their clients since `since_s` or longer.
    pub fn end_quiet(&self, since_s: u64) {
        for visitor in self.0.borrow().values() {
            if !visitor.busy.get() && visitor.active_s.get() < since_s {
                visitor.ended.set(true);
                visitor.closer.close_receive();
            }
        }
    }

    /// Adds all of them.
    pub fn view(&self, now_s: u64, views: &mut Vec<SessionView>) {
        views.extend(self.0.borrow().values().map(|visitor| SessionView {
            id: visitor.id,
            user: visitor.user.borrow().clone(),
            peer: visitor.peer.get(),
            door: Door::Keys,
            database: None,
            command: visitor.busy.get().then_some("memcached"),
            time_s: now_s.saturating_sub(visitor.active_s.get()),
            digest: None,
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
        let visitor = Rc::new(Visitor {
            id: core.shared.registry.next_id(),
            peer: Cell::new(peer),
            user: RefCell::default(),
            closer,
            active_s: Cell::new(core.now_s.get()),
            busy: Cell::new(false),
            ended: Cell::new(false),
        });
        let id = visitor.id;
        core.visitors.0.borrow_mut().insert(id, visitor.clone());
        core.shared.registry.enter(Entry {
            id,
            core: core.index,
            user: String::new(),
            peer,
        });
        let core = core.clone();
        Stay { core, visitor }
    }

    /// Its number among the sessions of the farm.
    pub fn id(&self) -> u32 {
        self.visitor.id
    }

    /// A load balancer has said where its client is.
    pub fn is_at(&self, peer: SocketAddr) {
        self.visitor.peer.set(peer);
        self.core.shared.registry.relocate(self.visitor.id, peer);
    }

    /// It has logged in.
    pub fn is_user(&self, user: &[u8]) {
        *self.visitor.user.borrow_mut() = user.to_vec();
        self.core.shared.registry.rename(self.visitor.id, user);
    }

    /// Requests of its are under way, or no longer.
    pub fn busy(&self, busy: bool) {
        if busy {
            self.visitor.active_s.set(self.core.now_s.get());
        }
        self.visitor.busy.set(busy);
    }

    /// Somebody wants it to go, now that it waits for nothing.
    pub fn must_go(&self) -> bool {
        self.visitor.ended.get() || self.core.hurries()
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        let id = self.visitor.id;
        self.core.visitors.0.borrow_mut().remove(&id);
        self.core.shared.registry.leave(id);
    }
}
