//! Connections that can be ended from outside, whatever waits on them.
//!
//! Every open one has an entry here, by its server and the term under which it was opened.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use farm::ServerId;
use reactor::Closer;
use rustc_hash::FxHashMap;

/// The open connections of one core.
#[derive(Default)]
pub(crate) struct Ends(RefCell<FxHashMap<u64, Known>>);

struct Known {
    server: ServerId,
    term: u32,
    closer: Closer,
    cut: Rc<Cell<bool>>,
}

/// A connection's entry among the open ones; it ends with the connection.
pub(crate) struct Entry {
    ends: Rc<Ends>,
    id: u64,
    cut: Rc<Cell<bool>>,
}

impl Ends {
    /// Enters a connection that was opened under this term of its server.
    pub fn enter(self: &Rc<Ends>, id: u64, server: ServerId, term: u32, closer: Closer) -> Entry {
        let cut = Rc::new(Cell::new(false));
        let known = Known {
            server,
            term,
            closer,
            cut: cut.clone(),
        };
        self.0.borrow_mut().insert(id, known);
        let ends = self.clone();
        Entry { ends, id, cut }
    }

    /// Ends the server's connections from before this term. Returns how many there were.
    pub fn cut(&self, server: ServerId, term: u32) -> usize {
        let all = self.0.borrow();
        let of_server = all.values().filter(|known| known.server == server);
        let mut ended = 0;
        for known in of_server.filter(|known| known.term < term) {
            if !known.cut.replace(true) {
                known.closer.close();
                ended += 1;
            }
        }
        ended
    }
}

impl Entry {
    /// The connection was ended by Heddle.
    pub fn is_cut(&self) -> bool {
        self.cut.get()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.ends.0.borrow_mut().remove(&self.id);
    }
}
