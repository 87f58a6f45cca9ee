//! How many connections there may be, and how long anybody waits for one.

use crate::pool::{Pools, ends_with_sessions, wake_next};

/// The limits of all cores' pools together, or of one core's.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Connections per server, in use and idle together.
    pub connections_max: usize,
    /// Prepared statements that one connection keeps at its server.
    pub statements_max: usize,
    /// An idle connection is closed after this many seconds.
    pub idle_s: u64,
    /// How long a session waits for a connection.
    pub wait_ms: u64,
    /// How long opening a connection, login included, may take.
    pub connect_ms: u64,
}

impl Limits {
    /// The part of one core out of `cores`. The parts add up to the whole, but each core has a
    /// connection at least: without one it could serve nobody.
    pub fn share(self, core: usize, cores: usize) -> Limits {
        let extra = usize::from(core < self.connections_max % cores);
        Limits {
            connections_max: (self.connections_max / cores + extra).max(1),
            ..self
        }
    }
}

impl Pools {
    /// Other limits from now on. Idle connections beyond them are closed, those in use when they
    /// come back; room that there is now is for those who wait.
    pub fn set_limits(&self, limits: Limits) {
        self.limits.set(limits);
        for server in self.servers.borrow_mut().values_mut() {
            let surplus = server.count.saturating_sub(limits.connections_max);
            let mut closed = 0;
            server.idle.retain(|(_, connection)| {
                let stays = closed >= surplus || ends_with_sessions(connection);
                closed += usize::from(!stays);
                stays
            });
            server.count -= closed;
            let room = limits.connections_max.saturating_sub(server.count);
            while server.promised < room + server.idle.len() {
                let before = server.promised;
                wake_next(server, None);
                if server.promised == before {
                    break;
                }
            }
        }
    }
}
