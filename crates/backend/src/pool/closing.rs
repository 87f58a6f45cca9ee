//! Which idle connections are closed, and when.

use farm::ServerId;
use rustc_hash::FxHashMap;

use super::{Pools, ends_with_sessions, is_outdated};
use crate::login::pass::{Entitlement, Pass};

impl Pools {
    /// Once a second: closes what has been idle for long, and the idle connections of servers for
    /// which `alive` is false.
    pub fn tick(&self, now_s: u64, alive: impl Fn(ServerId) -> bool) {
        self.now_s.set(now_s);
        self.entered.tick();
        let mut servers = self.servers.borrow_mut();
        for (id, server) in servers.iter_mut() {
            let before = server.idle.len();
            let keep = alive(*id);
            let limit = self.limits.get().idle_s;
            // A stale session could not have another connection: it keeps what it has.
            server
                .idle
                .retain(|(_, c)| keep && (c.idle_since_s + limit > now_s || ends_with_sessions(c)));
            server.count -= before - server.idle.len();
        }
        drop(servers);
        self.close_unneeded();
        self.passes.prune();
    }

    /// After the accounts changed: connections whose account is not `valid` any more serve the
    /// sessions that have their pass, and are closed when there is none. Where the accounts are no more
    /// `alike` by which a server may have taken a login, they are closed at once: it may have taken it for one
    /// that may do something else now.
    pub fn review(
        &self,
        valid: impl Fn(&Entitlement) -> bool,
        alike: impl Fn(&Entitlement) -> bool,
    ) {
        self.passes.review(valid, alike);
        for server in self.servers.borrow_mut().values_mut() {
            let before = server.idle.len();
            server
                .idle
                .retain(|(_, connection)| !is_outdated(connection));
            server.count -= before - server.idle.len();
        }
        self.close_unneeded();
    }

    /// Closes idle connections that may not outlive the sessions they belong to. To be called when a
    /// session has ended, too.
    pub fn close_unneeded(&self) {
        let mut idle: FxHashMap<u32, usize> = FxHashMap::default();
        let mut servers = self.servers.borrow_mut();
        for server in servers.values() {
            for (key, connection) in &server.idle {
                if ends_with_sessions(connection) {
                    *idle.entry(key.profile).or_default() += 1;
                }
            }
        }
        if idle.is_empty() {
            return;
        }
        for server in servers.values_mut() {
            let before = server.idle.len();
            server.idle.retain(|(key, connection)| {
                let holders = connection.pass.as_ref().map_or(0, Pass::holders);
                idle.get(&key.profile).is_none_or(|&idle| holders > idle)
            });
            server.count -= before - server.idle.len();
        }
    }

    /// Closes the idle connections of a server that has too many prepared statements: theirs go
    /// with them. False when there was none.
    pub fn close_idle_of(&self, server: ServerId) -> bool {
        let mut servers = self.servers.borrow_mut();
        let Some(server) = servers.get_mut(&server) else {
            return false;
        };
        let closed = server.idle.len();
        server.count -= closed;
        server.idle.clear();
        closed > 0
    }

    /// Closes every idle connection.
    pub fn close_idle(&self) {
        for server in self.servers.borrow_mut().values_mut() {
            server.count -= server.idle.len();
            server.idle.clear();
        }
    }
}
