//! A bank over four shards on three groups and a global table: clients move money, auditors add it up,
//! and processes die between the steps of the transactions.
//!
//! Every transfer appends its own number to the log of each row that it changes, so that the rows at
//! the end, and every reading of them, say what happened in which order: [`crate::history`] judges it.

mod auditor;
mod books;
mod rounds;
mod strike;
mod teller;
mod verdict;

pub use books::{Books, Entry};
pub use rounds::{Report, finds, prove, table};
pub use strike::{Kind, Strike, Target};

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use faults::Plant;

use crate::client::Client;
use crate::farm::Farm;
use crate::history::{Key, Reads};
use crate::{Release, wait_until};

/// Clients that move money, and those that add it up.
pub const CLIENTS: u64 = 32;
const AUDITORS: [Reads; 3] = [Reads::Snapshot, Reads::Snapshot, Reads::Locked];

/// Rows of `bank.account`, spread over three groups, and of `safe.account`, all on the second.
const ACCOUNTS: u64 = 32;
const SAFES: u64 = 8;

/// The first key of the rows of `safe.account`, and of those of the global table.
const FIRST_SAFE: Key = 1000;
const FIRST_NOTE: Key = 2000;

/// What every account has at first.
const START: i64 = 1000;

const GROUPS: [&str; 3] = ["g1", "g2", "g3"];

/// For what a loaded machine must do before a round can go on.
const PATIENCE: Duration = Duration::from_secs(120);

/// The proof is run for its own sake, not among all other tests.
fn is_long() -> bool {
    std::env::var_os("BANK_ROUNDS").is_some()
}

/// The table and id of a key.
fn row_of(key: Key) -> (&'static str, u64) {
    match key {
        FIRST_NOTE.. => ("bank.note", key - FIRST_NOTE),
        FIRST_SAFE.. => ("safe.account", key - FIRST_SAFE),
        _ => ("bank.account", key),
    }
}

/// A farm with the tables, and what is counted over all rounds.
pub struct Bank {
    pub farm: Farm,
    /// Groups have replicas: who kills a server sees another one take over.
    pub replicas: bool,
    next: Arc<AtomicU64>,
    /// A mistake that is made while a round's strikes come.
    planted: Option<Plant>,
}

impl Bank {
    /// A farm of three groups with so many replicas each; or says why the test is skipped.
    ///
    /// # Panics
    /// When something does not start, or the tables cannot be made.
    pub fn open(release: Release, replicas: u32) -> Option<Bank> {
        let replicas_text = replicas.to_string();
        let mut flags = vec!["--groups", "3", "--replicas", &replicas_text];
        flags.extend(["--set", "cross_lock_wait_ms=1000"]);
        flags.extend(release.xa_flags());
        let farm = Farm::start_on(release, &flags)?;
        let bank = Bank {
            farm,
            replicas: replicas > 0,
            next: Arc::new(AtomicU64::new(1)),
            planted: None,
        };
        bank.make_tables();
        Some(bank)
    }

    fn make_tables(&self) {
        let mut root = self.farm.client();
        root.rows("HEDDLE sharding create_definition SLOTS g1 bank");
        root.rows("HEDDLE sharding add_shard bank 'g1,g2,g3' ENABLED");
        root.rows("HEDDLE sharding create_definition RANGE g2 safe");
        root.rows("HEDDLE sharding add_shard safe 'g2/0' ENABLED");
        let columns = "id BIGINT PRIMARY KEY, balance BIGINT NOT NULL, log MEDIUMTEXT NOT NULL";
        root.run("CREATE DATABASE bank");
        root.run("CREATE DATABASE safe");
        root.run(&format!(
            "CREATE TABLE bank.account ({columns}) /*heddle shard_map=bank shard_key=id*/"
        ));
        root.run(&format!(
            "CREATE TABLE bank.note ({columns}) /*heddle global_map=bank*/"
        ));
        root.run(&format!(
            "CREATE TABLE safe.account ({columns}) /*heddle shard_map=safe shard_key=id*/"
        ));
        for (name, count, start) in [
            ("bank.account", ACCOUNTS, START),
            ("safe.account", SAFES, START),
            ("bank.note", CLIENTS, 0),
        ] {
            for id in 0..count {
                root.run(&format!("INSERT INTO {name} VALUES ({id}, {start}, '')"));
            }
        }
        root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
        root.run("GRANT ALL ON bank.* TO app@'%'");
        root.run("GRANT ALL ON safe.* TO app@'%'");
    }

    /// All is as at first; nothing else runs.
    fn clear(&self) {
        let mut root = self.farm.client();
        for (name, start) in [
            ("bank.account", START),
            ("safe.account", START),
            ("bank.note", 0),
        ] {
            wait_until(PATIENCE, "empty logs", || {
                let sql = format!("UPDATE {name} SET balance = {start}, log = ''");
                let cleared = root.query(sql);
                if cleared.is_err()
                    && let Ok(other) = Client::connect(self.farm.sql, "root", "")
                {
                    root = other;
                }
                cleared.is_ok()
            });
        }
    }

    fn address(&self) -> SocketAddr {
        self.farm.sql
    }
}
