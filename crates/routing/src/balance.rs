//! Whose turn it is: smooth weighted round robin over the servers that may serve a read.
//!
//! Every server earns its weight at each turn and the richest one serves and pays the sum of all
//! weights; so shares follow the weights and no server gets its share in one burst.

use farm::{Server, ServerId};

/// The credit of each server seen so far. One per core; cheap to rebuild, so nothing is shared.
#[derive(Debug, Default)]
pub struct Balance {
    credit: Vec<(ServerId, f64)>,
}

impl Balance {
    /// Chooses among `servers`, which may differ from call to call. `None` when there are none.
    pub fn choose<'a, I>(&mut self, servers: I) -> Option<&'a Server>
    where
        I: Iterator<Item = &'a Server> + Clone,
    {
        let total: f64 = servers.clone().map(|server| server.weight).sum();
        let mut best: Option<(&'a Server, usize)> = None;
        for server in servers {
            let at = self.slot(server.id);
            self.credit[at].1 += server.weight;
            if best.is_none_or(|(_, richest)| self.credit[at].1 > self.credit[richest].1) {
                best = Some((server, at));
            }
        }
        let (server, at) = best?;
        self.credit[at].1 -= total;
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
