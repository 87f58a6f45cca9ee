//! Connections for a statement on several servers, opened before it takes them one after the other.

use std::rc::Rc;

use super::{Key, Pools};
use crate::connection::target::Target;
use crate::state::SessionState;

impl Pools {
    /// An idle connection has this state already: to take one needs no word with the server.
    pub fn is_warm(&self, key: Key, wanted: &Rc<SessionState>) -> bool {
        let servers = self.servers.borrow();
        let Some(server) = servers.get(&key.server) else {
            return false;
        };
        let now_s = self.now_s.get();
        let defaults = self.defaults.now();
        server.idle.iter().any(|(found, connection)| {
            *found == key
                && connection.defaults == defaults
                && connection.is_fresh(now_s)
                && SessionState::same(&connection.state, wanted)
        })
    }

    /// Makes an idle connection of this state, if nobody has to be waited for: one that waits here
    /// while it keeps others could wait for ever. What fails is left to who takes the connection.
    pub async fn warm(self: &Rc<Self>, target: &Target, key: Key, wanted: &Rc<SessionState>) {
        if !self.is_current(target) {
            return;
        }
        if let Some(mut lease) = self.take_idle(target, key, wanted, 0, false) {
            let fresh = lease.connection().is_fresh(self.now_s.get());
            let connection = lease.connection_mut();
            if (fresh || connection.sock.is_quiet())
                && connection.catch_up(&self.defaults).await.is_ok()
                && connection.become_state(wanted).await.is_ok()
            {
                lease.release();
            }
        } else if self.reserve(key, false) {
            let opened = self.note_opening(target, self.open(target, key, wanted).await);
            if let Ok(lease) = opened {
                lease.release();
            }
        }
    }
}
