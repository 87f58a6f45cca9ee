//! What the applier says of itself: progress on stdout, and on stderr what was found otherwise than the stream says.

use std::time::{Duration, Instant};

use crate::printing;

/// Progress is said so often, while there is some.
const PERIOD: Duration = Duration::from_secs(10);

pub(super) struct Report {
    transactions: u64,
    rows: u64,
    conflicts: u64,
    said: u64,
    at: Instant,
}

impl Report {
    pub(super) fn new() -> Report {
        Report {
            transactions: 0,
            rows: 0,
            conflicts: 0,
            said: 0,
            at: Instant::now(),
        }
    }

    pub(super) fn begins(&self, http: &str, goes_on: bool) {
        let how = if goes_on { "goes on" } else { "begins" };
        printing::say(format!("apply {how} with the router at {http}"));
    }

    pub(super) fn complete(&self, group: &str) {
        printing::say(format!("the rows of group {group} are read"));
    }

    pub(super) fn applied(&mut self, rows: usize) {
        self.transactions += 1;
        self.rows += rows as u64;
    }

    /// What the target had otherwise.
    pub(super) fn found(&mut self, what: &[String]) {
        self.conflicts += what.len() as u64;
        for text in what {
            printing::complain(&format!("conflict: {text}"));
        }
    }

    /// A definition that is not for the target.
    pub(super) fn left_out(&self, group: &str, gtid: &str, sql: &str) {
        printing::complain(&format!("left out: group {group}, {gtid}: {sql}"));
    }

    /// Says how far it is, now and then.
    pub(super) fn speak(&mut self) {
        if self.at.elapsed() < PERIOD || self.said == self.transactions {
            return;
        }
        self.at = Instant::now();
        self.said = self.transactions;
        let (transactions, rows, conflicts) = (self.transactions, self.rows, self.conflicts);
        printing::say(format!(
            "applied {transactions} transactions with {rows} changes; {conflicts} conflicts"
        ));
    }
}
