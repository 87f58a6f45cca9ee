//! A session that keeps moving the pool's connections into other states between a scenario's steps.

use testkit::client::Failure;
use testkit::{Client, Door, Server};

use crate::play::POOL_WAIT;

/// Where the noise runs; made once per server.
pub const SETUP: &str = "CREATE DATABASE IF NOT EXISTS noise; \
     CREATE TABLE IF NOT EXISTS noise.t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(20))";

/// None of them pins its session or leaves a transaction open.
const TEXTS: [&str; 17] = [
    "SET NAMES latin1",
    "SELECT 'noise' AS x UNION ALL SELECT 'more' UNION ALL SELECT 'rows'",
    "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES'",
    "INSERT INTO noise.t (s) VALUES ('a'), ('b'), ('c')",
    "SET time_zone = '+05:00', lc_time_names = 'de_DE'",
    "SELECT no_such_column FROM noise.t",
    "SET character_set_results = NULL, sql_select_limit = 2",
    "SELECT * FROM noise.t",
    "SET autocommit = 0",
    "DO 1",
    "SET autocommit = 1, sql_safe_updates = 1, group_concat_max_len = 20",
    "SET sql_mode = '', foreign_key_checks = 0, unique_checks = 0",
    "SELECT CAST('x' AS SIGNED)",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "SET div_precision_increment = 9, max_sort_length = 16, sql_auto_is_null = 1",
    "SET lock_wait_timeout = 7, innodb_lock_wait_timeout = 7, sql_select_limit = DEFAULT",
    "SET NAMES utf8mb4 COLLATE utf8mb4_bin, character_set_results = latin1",
];

/// After a statement that got no connection, this many steps pass without noise: somebody holds it.
const SKIP: usize = 2;

pub struct Noise {
    client: Client,
    at: usize,
    skip: usize,
}

impl Noise {
    /// A noisy session behind this door.
    pub fn new(door: &Door) -> Noise {
        Noise {
            client: door.client_in("noise"),
            at: 0,
            skip: 0,
        }
    }

    /// One statement; where no connection is free, none.
    pub fn make(&mut self) {
        if self.skip > 0 {
            self.skip -= 1;
            return;
        }
        if self.run(TEXTS[self.at % TEXTS.len()]) {
            self.at += 1;
            // Diagnostics of the text before hold its connection; those of this one are nothing.
            self.run("DO 1");
        } else {
            self.skip = SKIP;
        }
    }

    /// False when there was no connection for it.
    fn run(&mut self, text: &str) -> bool {
        match self.client.query(text) {
            Err(failure) if failure.number() == POOL_WAIT => false,
            Ok(_) | Err(Failure::Server { .. }) => true,
            Err(failure) => panic!("{text}: {failure}"),
        }
    }
}

/// What the noise needs on this server.
pub fn prepare(server: &Server) {
    server
        .client()
        .query(SETUP)
        .expect("the noise has its table");
}
