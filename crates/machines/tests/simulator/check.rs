//! What must hold after every history, whatever went wrong in it.

use std::collections::{BTreeMap, BTreeSet};

use super::servers::{Server, Txn};

/// What clients were told, and what went against the rules.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Acknowledged writes, with the moment.
    acknowledged: BTreeMap<Txn, u64>,
    /// The youngest reign under which something was acknowledged.
    reign: u32,
    pub violations: Vec<String>,
    /// Where each write was made.
    origins: BTreeMap<Txn, usize>,
    next_txn: Txn,
}

impl Ledger {
    pub fn new_txn(&mut self) -> Txn {
        self.next_txn += 1;
        self.next_txn
    }

    /// A server gave a GTID to a write: nobody may hold another write of that server under it, since
    /// that would never be found.
    pub fn wrote(&mut self, servers: &[Server], at: usize, sequence: usize, txn: Txn) {
        self.origins.insert(txn, at);
        for (other, server) in servers.iter().enumerate() {
            let applied = server.log.len();
            let held = match sequence <= applied {
                true => server.log.get(sequence - 1),
                false => server.relay.get(sequence - 1 - applied),
            };
            if let Some(held) = held
                && *held != txn
                && self.origins.get(held) == Some(&at)
            {
                let text = format!("s{at} and s{other} have two writes under one GTID");
                self.violation(text);
            }
        }
    }

    pub fn told(&mut self, txn: Txn, now_us: u64) {
        self.acknowledged.insert(txn, now_us);
    }

    pub fn told_since(&self, since_us: u64) -> usize {
        self.acknowledged
            .values()
            .filter(|at| **at >= since_us)
            .count()
    }

    /// A server acknowledges under a reign; nobody may do so once a later one has.
    pub fn acknowledges(&mut self, now_us: u64, server: usize, reign: u32) {
        if reign < self.reign {
            let text = format!(
                "s{server} acknowledges a write at {} ms, after its successor did",
                now_us / 1000
            );
            self.violation(text);
        }
        self.reign = self.reign.max(reign);
    }

    pub fn violation(&mut self, text: String) {
        if self.violations.len() < 5 {
            self.violations.push(text);
        }
    }

    /// Looks at the primary, and at those that follow it, when all is calm.
    pub fn judge(&mut self, servers: &[Server], primary: Option<usize>) {
        let Some(primary) = primary else {
            return self.violation("no primary although all is well again".to_owned());
        };
        let log = &servers[primary].log;
        let present: BTreeSet<Txn> = log.iter().copied().collect();
        if present.len() != log.len() {
            self.violation(format!("s{primary} has a write twice"));
        }
        let lost: Vec<Txn> = self
            .acknowledged
            .keys()
            .filter(|txn| !present.contains(txn))
            .copied()
            .collect();
        if !lost.is_empty() {
            self.violation(format!(
                "acknowledged, but not on s{primary}: {} writes, the first is {}",
                lost.len(),
                lost[0]
            ));
        }
        for (at, server) in servers.iter().enumerate() {
            if server.source == Some(primary)
                && !server.diverged
                && server.log[..] != log[..server.log.len().min(log.len())]
            {
                self.violation(format!(
                    "s{at} follows s{primary} with other writes than its"
                ));
            }
        }
    }
}
