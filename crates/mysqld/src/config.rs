//! The text of one server's `my.cnf`.
//!
//! Every setting that decides whether acknowledged data survives stands here with its reason; what a
//! role changes (read_only, semi-sync on the primary) is set at run time by a promotion, never here.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use farm::Engine;

use crate::Binary;

/// A semi-sync wait that is as good as endless: 49 days, the most that 32 bits of milliseconds hold.
/// A shorter one would let the server acknowledge commits that no replica has.
const SEMI_SYNC_WAIT_MS: u64 = u32::MAX as u64;

/// Threads with which a replica of MySQL applies.
const APPLIERS: &str = "4";

/// What distinguishes one server from the others on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// For messages, for example `g1-1`.
    pub name: String,
    /// Everything of this server is below it. Absolute.
    pub dir: PathBuf,
    /// TCP port on 127.0.0.1.
    pub port: u16,
    /// Unique in the farm, above 0.
    pub server_id: u32,
    /// MariaDB's GTID domain; one per group keeps their histories apart.
    pub gtid_domain: u32,
    /// What crash recovery does with commits that stand in the binary log but that no replica has
    /// acknowledged: keeps them (true), or undoes them, so that the server can follow a new primary
    /// that never had them (false). MariaDB only.
    pub keeps_unacknowledged: bool,
    /// InnoDB's buffer pool.
    pub buffer_pool_bytes: u64,
    /// It holds nothing but tables of statements under way: no replication, and nothing that is worth
    /// being kept over a crash.
    pub scratch: bool,
    /// More lines for `my.cnf`, after all others, so that they win.
    pub extra: Vec<(String, String)>,
}

impl Options {
    /// A server with the defaults for a farm on one machine.
    pub fn new(name: &str, dir: &Path, port: u16, server_id: u32) -> Options {
        Options {
            name: name.to_owned(),
            dir: dir.to_owned(),
            port,
            server_id,
            gtid_domain: 0,
            keeps_unacknowledged: false,
            buffer_pool_bytes: 128 << 20,
            scratch: false,
            extra: Vec::new(),
        }
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Temporary files. A server that starts removes what it takes for its own leftovers, so that a
    /// directory shared with others would lose the tables of their running queries.
    pub fn temporary(&self) -> PathBuf {
        self.dir.join("tmp")
    }

    pub(crate) fn my_cnf(&self) -> PathBuf {
        self.dir.join("my.cnf")
    }

    /// What a scratch server runs at its start, a statement a line.
    pub fn init_file(&self) -> PathBuf {
        self.dir.join("init.sql")
    }

    pub(crate) fn pid_file(&self) -> PathBuf {
        self.dir.join("mysqld.pid")
    }

    /// The server's error log.
    pub fn error_log(&self) -> PathBuf {
        self.dir.join("error.log")
    }

    /// The server's Unix socket. The kernel allows 107 bytes for its path, so a deep directory gets
    /// a socket in the temporary directory, named after the port, which is unique on a machine.
    pub fn socket(&self) -> PathBuf {
        let own = self.dir.join("mysqld.sock");
        if own.as_os_str().len() <= 100 {
            return own;
        }
        std::env::temp_dir().join(format!("heddle-{}.sock", self.port))
    }

    /// The whole file.
    pub(crate) fn render(&self, binary: &Binary, as_root: bool) -> String {
        let mut text = String::from("# Written by heddle at every start; changes here are lost.\n");
        text.push_str("[mysqld]\n");
        let mut put = |key: &str, value: &str| {
            let line = if value.is_empty() {
                writeln!(text, "{key}")
            } else {
                writeln!(text, "{key} = {value}")
            };
            line.expect("writing to a String cannot fail");
        };
        self.place(binary, as_root, &mut put);
        if self.scratch {
            self.scratch(binary.engine, &mut put);
        } else {
            durability(&mut put);
            match binary.engine {
                Engine::MariaDb => self.mariadb(&mut put),
                Engine::MySql => self.mysql(binary, &mut put),
            }
        }
        self.size(&mut put);
        for (key, value) in &self.extra {
            put(key, value);
        }
        text
    }

    fn place(&self, binary: &Binary, as_root: bool, put: &mut dyn FnMut(&str, &str)) {
        let share = quoted(&binary.share());
        put("basedir", &quoted(binary.base()));
        put("lc_messages_dir", &share);
        put(
            "character_sets_dir",
            &quoted(&binary.share().join("charsets")),
        );
        put("datadir", &quoted(&self.data()));
        put("tmpdir", &quoted(&self.temporary()));
        put("socket", &quoted(&self.socket()));
        put("pid_file", &quoted(&self.pid_file()));
        put("log_error", &quoted(&self.error_log()));
        put("port", &self.port.to_string());
        put("bind_address", "127.0.0.1");
        if as_root {
            // The servers refuse to run as root unless told to.
            put("user", "root");
        }
        put("server_id", &self.server_id.to_string());
        put("report_host", "127.0.0.1");
        put("report_port", &self.port.to_string());
    }

    fn mariadb(&self, put: &mut dyn FnMut(&str, &str)) {
        put("gtid_domain_id", &self.gtid_domain.to_string());
        // A diverged replica stops with an error instead of going on in silence.
        put("gtid_strict_mode", "ON");
        // By the comments in front of statements Heddle finds out what became of a lost COMMIT.
        put("binlog_annotate_row_events", "ON");
        put("replicate_annotate_row_events", "ON");
        put(
            "loose_init_rpl_role",
            if self.keeps_unacknowledged {
                "MASTER"
            } else {
                "SLAVE"
            },
        );
        put("loose_rpl_semi_sync_slave_enabled", "ON");
        // With the default (AFTER_COMMIT) other sessions would see rows that a failover may lose.
        put("loose_rpl_semi_sync_master_wait_point", "AFTER_SYNC");
        put(
            "loose_rpl_semi_sync_master_timeout",
            &SEMI_SYNC_WAIT_MS.to_string(),
        );
        // Tables without a primary key are read in the order in which their rows were inserted. Parallel
        // threads would insert them in another order than the primary did.
        put("slave_parallel_threads", "0");
        // From 11.4 a server without a certificate makes one at every start, which takes seconds.
        put("skip_ssl", "");
        put("performance_schema", "OFF");
        put("aria_log_file_size", "8M");
    }

    fn mysql(&self, binary: &Binary, put: &mut dyn FnMut(&str, &str)) {
        put("gtid_mode", "ON");
        put("enforce_gtid_consistency", "ON");
        // By the comments in front of statements Heddle finds out what became of a lost COMMIT.
        put("binlog_rows_query_log_events", "ON");
        parallel_apply(put);
        put("performance_schema", "OFF");
        put("loose_mysqlx", "OFF");
        let Some((dir, plugins)) = binary.semi_sync_plugins() else {
            return;
        };
        put("plugin_dir", &quoted(&dir));
        for plugin in plugins {
            put("plugin_load_add", plugin);
        }
        let wait_ms = SEMI_SYNC_WAIT_MS.to_string();
        // The variables are named after the plugins; those of the other pair are unknown.
        for (primary, replica) in [("master", "slave"), ("source", "replica")] {
            put(&format!("loose_rpl_semi_sync_{replica}_enabled"), "ON");
            put(&format!("loose_rpl_semi_sync_{primary}_timeout"), &wait_ms);
        }
    }

    /// What is lost with this server is made again by whoever needs it.
    fn scratch(&self, engine: Engine, put: &mut dyn FnMut(&str, &str)) {
        put("skip_log_bin", "");
        put("innodb_flush_log_at_trx_commit", "0");
        put("innodb_doublewrite", "OFF");
        put("performance_schema", "OFF");
        put("event_scheduler", "OFF");
        put("init_file", &quoted(&self.init_file()));
        // Rows come as files; its account reads none of the machine's.
        put("local_infile", "ON");
        match engine {
            Engine::MariaDb => {
                put("skip_ssl", "");
                put("aria_log_file_size", "8M");
                put("aria_pagecache_buffer_size", "64M");
            }
            Engine::MySql => put("loose_mysqlx", "OFF"),
        }
    }

    fn size(&self, put: &mut dyn FnMut(&str, &str)) {
        put(
            "innodb_buffer_pool_size",
            &self.buffer_pool_bytes.to_string(),
        );
        put("innodb_log_file_size", crate::template::REDO_LOG);
        put("max_connections", "512");
        put("max_allowed_packet", "64M");
        // A replica notices a primary that went away without a word within seconds.
        put("slave_net_timeout", "10");
    }
}

/// Replicas of MySQL apply in several threads what the primary found to touch different rows, and commit in its
/// order, so that a position has no gaps. A transaction on a table without a primary key comes behind all that were
/// committed before it, so its rows keep their order. Older releases have other names for the same.
fn parallel_apply(put: &mut dyn FnMut(&str, &str)) {
    for word in ["slave", "replica"] {
        put(&format!("loose_{word}_parallel_type"), "LOGICAL_CLOCK");
        put(&format!("loose_{word}_parallel_workers"), APPLIERS);
        put(&format!("loose_{word}_preserve_commit_order"), "ON");
    }
    // What a transaction has to wait for, by its rows and not by who committed beside it. From 8.4 on there is
    // nothing else.
    put("loose_binlog_transaction_dependency_tracking", "WRITESET");
}

/// What makes an acknowledged commit survive a crash of the server and of the machine.
fn durability(put: &mut dyn FnMut(&str, &str)) {
    put("log_bin", "binlog");
    put("log_slave_updates", "ON");
    put("binlog_format", "ROW");
    put("binlog_row_image", "FULL");
    // Whoever reads the log knows the columns by their names.
    put("binlog_row_metadata", "FULL");
    put("sync_binlog", "1");
    put("innodb_flush_log_at_trx_commit", "1");
    put("relay_log", "relaylog");
    put("relay_log_recovery", "ON");
    // Two servers that take writes are worse than none: only a promotion clears this.
    put("read_only", "ON");
}

/// Option files treat `#` as a comment and a backslash as an escape unless quoted.
fn quoted(path: &Path) -> String {
    format!(
        "\"{}\"",
        path.display()
            .to_string()
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(engine: Engine) -> String {
        let binary = Binary {
            path: "/usr/sbin/mariadbd".into(),
            engine,
            version: "10.11.19-MariaDB".to_owned(),
        };
        let mut options = Options::new("g1-1", Path::new("/tmp/a #1/g1-1"), 23306, 7);
        options
            .extra
            .push(("sync_binlog".to_owned(), "0".to_owned()));
        options.render(&binary, true)
    }

    #[test]
    fn a_server_starts_as_a_read_only_replica_on_loopback() {
        let text = rendered(Engine::MariaDb);
        for line in [
            "read_only = ON",
            "loose_init_rpl_role = SLAVE",
            "bind_address = 127.0.0.1",
            "loose_rpl_semi_sync_master_wait_point = AFTER_SYNC",
            "datadir = \"/tmp/a #1/g1-1/data\"",
            "tmpdir = \"/tmp/a #1/g1-1/tmp\"",
            "user = root",
        ] {
            assert!(
                text.lines().any(|l| l == line),
                "{line} is missing in\n{text}"
            );
        }
    }

    #[test]
    fn extra_lines_come_last_so_that_they_win() {
        let text = rendered(Engine::MySql);
        assert!(text.ends_with("sync_binlog = 0\n"), "{text}");
        assert!(text.contains("gtid_mode = ON"));
        assert!(text.contains("loose_replica_parallel_workers = 4"));
        assert!(text.contains("loose_replica_preserve_commit_order = ON"));
        assert!(!text.contains("init_rpl_role"));
    }

    #[test]
    fn a_scratch_server_writes_no_log_and_takes_writes() {
        let binary = Binary {
            path: "/usr/sbin/mariadbd".into(),
            engine: Engine::MariaDb,
            version: "10.11.19-MariaDB".to_owned(),
        };
        let mut options = Options::new("scratch", Path::new("/tmp/scratch"), 23306, 7);
        options.scratch = true;
        let text = options.render(&binary, false);
        assert!(text.contains("skip_log_bin") && !text.contains("read_only"));
        assert!(text.contains("local_infile = ON"));
        assert!(!text.contains("\nlog_bin") && !text.contains("semi_sync"));
        assert!(text.contains("init_file = \"/tmp/scratch/init.sql\""));
    }

    #[test]
    fn a_deep_directory_gets_a_socket_path_that_the_kernel_takes() {
        let deep = format!("/tmp/{}", "d/".repeat(80));
        let options = Options::new("g1-1", Path::new(&deep), 23306, 7);
        assert!(options.socket().as_os_str().len() < 107);
    }
}
