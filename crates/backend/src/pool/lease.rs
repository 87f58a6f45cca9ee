//! One connection of a pool while somebody uses it.

use std::rc::Rc;

use crate::connection::Connection;
use crate::pool::{Key, Pools};

/// A connection in use. [`Lease::release`] gives it back; dropping closes it.
pub struct Lease {
    pub(crate) key: Key,
    /// Boxed: it goes from hand to hand, and every step of a statement would make room for it.
    pub(crate) connection: Option<Box<Connection>>,
    pub(crate) pools: Rc<Pools>,
    /// The lease holds a place of the pool; false once the connection was given back.
    pub(crate) holds_place: bool,
}

impl Lease {
    /// Gives the connection back. It must be outside transactions and pins, with its reply read.
    /// A condemned one is closed instead.
    pub fn release(mut self) {
        if self.connection().is_condemned() {
            return;
        }
        if let Some(connection) = self.connection.take() {
            self.holds_place = false;
            self.pools.put(self.key, connection);
        }
    }

    /// The key of the pool that the connection belongs to.
    pub fn key(&self) -> Key {
        self.key
    }

    /// The connection.
    pub fn connection(&self) -> &Connection {
        self.connection
            .as_ref()
            .expect("a lease has its connection until it is released")
    }

    /// The connection, to use it.
    pub fn connection_mut(&mut self) -> &mut Connection {
        self.connection
            .as_mut()
            .expect("a lease has its connection until it is released")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.holds_place {
            self.pools.give_up_place(self.key.server);
        }
    }
}
