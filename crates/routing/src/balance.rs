//! Whose turn it is: smooth weighted round robin over the servers that may serve reads.
//!
//! Every server earns its weight at each turn, and the one that serves pays the sum of all weights.
//! The richest one serves, of those that can serve this read; the others keep what they have earned.
//! So shares follow the weights, no server gets its share in one burst, and a session that must stay
//! with a server for a while is made up for by others.

use farm::{Server, ServerId};

/// The credit of each server seen so far. One per core; cheap to rebuild, so nothing is shared.
#[derive(Debug, Default)]
pub struct Balance {
    credit: Vec<(ServerId, f64)>,
}

/// A server that could not serve for long is not made up for without end: its credit stays below
/// what so many turns earn, and its debt too.
const TURNS_MAX: f64 = 1024.0;

impl Balance {
    /// Chooses among those of `servers` that are `fit` for this read. `None` when there are none;
    /// then nobody has earned anything.
    pub fn choose<'a, I>(&mut self, servers: I, fit: impl Fn(&Server) -> bool) -> Option<&'a Server>
    where
        I: Iterator<Item = &'a Server> + Clone,
    {
        if !servers.clone().any(&fit) {
            return None;
        }
        let total: f64 = servers.clone().map(|server| server.weight).sum();
        let most = total * TURNS_MAX;
        let mut best: Option<(&'a Server, usize)> = None;
        for server in servers {
            let at = self.slot(server.id);
            let earned = self.credit[at].1 + server.weight;
            self.credit[at].1 = earned.min(most);
            let richer = best.is_none_or(|(_, richest)| earned > self.credit[richest].1);
            if richer && fit(server) {
                best = Some((server, at));
            }
        }
        let (server, at) = best?;
        self.credit[at].1 = (self.credit[at].1 - total).max(-most);
        Some(server)
    }

    fn slot(&mut self, id: ServerId) -> usize {
        match self.credit.iter().position(|(known, _)| *known == id) {
            Some(at) => at,
            None => {
                self.credit.push((id, 0.0));
                self.credit.len() - 1
            }
        }
    }
}
