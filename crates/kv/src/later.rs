//! A container that is to be emptied at a later time.

use std::rc::Rc;
use std::time::Duration;

use crate::op::{Expiry, Outcome};
use crate::store::{Store, now};
use crate::ticket::Ticket;

impl Store {
    /// Deletes at this time all rows that there are then, where the container allows it, if its router is
    /// still there. What is said of emptying it on this core later on counts instead.
    pub fn flush_later(self: &Rc<Store>, when: Expiry) -> Ticket {
        let wait_s = when.stored(0).saturating_sub(match when {
            Expiry::At(_) => now().as_secs(),
            _ => 0,
        });
        if !self.declared().flush || wait_s == 0 {
            return self.flush();
        }
        let turn = self.flushes.get() + 1;
        self.flushes.set(turn);
        let store = Rc::downgrade(self);
        reactor::spawn(async move {
            reactor::sleep(Duration::from_secs(wait_s)).await;
            let store = store.upgrade();
            if let Some(store) = store.filter(|store| store.flushes.get() == turn) {
                drop(store.flush());
            }
        })
        .detach();
        Ticket::done(Outcome::Done)
    }
}
