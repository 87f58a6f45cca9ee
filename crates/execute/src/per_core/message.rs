//! What other threads tell a core, and the work that they have for it.

use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

use auth::entrance::Places;

use crate::per_core::Core;
use crate::per_core::view::Lister;

/// What other threads tell a core.
#[derive(Debug)]
pub enum Message {
    /// An accepted client.
    Accept(reactor::Stream, SocketAddr, Places),
    /// Another door has work for the core.
    Visit(Visit),
    /// KILL for a session of this core.
    Kill { id: u32, how: How },
    /// Somebody wants to see the core's sessions.
    List(Lister),
    /// The snapshot has a new primary, a paused group, or a server whose connections are to be cut; or
    /// other settings are in force.
    Turned,
    /// Somebody wants to know how many sessions work by a snapshot of tables from before this epoch.
    UnitsOfWork(u64, std::sync::mpsc::Sender<usize>),
    /// Somebody wants to know that the core lives.
    Answer(std::sync::mpsc::Sender<()>),
    /// End idle sessions now and the others after their statement.
    Drain,
    /// End the core, with whatever it still holds.
    Stop,
}

/// Work of another door, done on a core.
pub struct Visit(Box<dyn FnOnce(Rc<Core>) + Send>);

impl Visit {
    /// To be done by the core that gets it; it may spawn tasks and must not block.
    pub fn new(work: impl FnOnce(Rc<Core>) + Send + 'static) -> Visit {
        Visit(Box::new(work))
    }

    /// Does it.
    pub fn pay(self, core: Rc<Core>) {
        (self.0)(core);
    }
}

impl fmt::Debug for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Visit")
    }
}

/// How a session is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct How {
    /// Only its statement.
    pub query: bool,
    /// Not where that could leave a table damaged (MariaDB).
    pub soft: bool,
}

impl How {
    /// The whole session.
    pub const CONNECTION: How = How {
        query: false,
        soft: false,
    };
    pub const QUERY: How = How {
        query: true,
        soft: false,
    };
}
