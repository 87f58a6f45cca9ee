//! The rows. A new check is one row here, one function in `checks`, and one scenario in `testdata`.

use super::Look::{Follower, Group, Members, Router, Server};
use super::{Check, Look};
use crate::checks::{
    accounts, alike, binlog, durability, group, limits, positions, replication, router, schema,
    semi_sync, server, tls,
};
use crate::finding::Fix::{self, Asks, Refused, Safe};
use crate::finding::Severity::{self, Error, Info, Warning};

/// Why something is never done by itself.
const RESTART: Fix = Refused("the server has to be restarted");
const HOST: Fix = Refused("it is done outside Heddle");
const PEOPLE: Fix = Refused("somebody has to decide what is right");
const REJOIN: Fix = Refused("data could be lost");

const fn check(
    name: &'static str,
    severity: Severity,
    look: Look,
    fix: Fix,
    breaks: &'static str,
    cure: &'static str,
) -> Check {
    Check {
        name,
        severity,
        look,
        fix,
        breaks,
        cure,
    }
}

/// Every check there is, in the order of the documentation.
#[rustfmt::skip]
pub const TABLE: &[Check] = &[
    // Servers: whether Heddle can do its work there.
    check("reach", Error, Members(server::reach), HOST,
        "nothing can be done on the server", "see the evidence"),
    check("privileges", Error, Members(server::privileges), PEOPLE,
        "what the feature does with the account of Heddle", "the GRANT statements of the finding"),
    check("engine_version", Error, Server(server::engine_version), RESTART,
        "what Heddle needs of a server is not there", "upgrade it"),
    check("unsafe_xa", Warning, Server(server::unsafe_xa), RESTART,
        "prepared transactions do not survive every crash, so transactions over groups are refused there", "upgrade it to MySQL 8.0.30 or newer"),
    check("server_faulty", Warning, Server(server::faulty), REJOIN,
        "the server takes no part in its group", "see why (`group events`), then `server set_status ADDRESS SPARE`"),
    check("server_clock", Warning, Server(server::clock_differs), HOST,
        "NOW() jumps at a failover, and rows expire at other times", "let the machines of servers and routers follow one clock (NTP)"),
    check("server_disk", Warning, Server(server::low_disk), HOST,
        "a server whose disk is full takes no write", "make room, or `PURGE BINARY LOGS` that no replica needs"),
    check("time_zone_tables", Info, Server(server::time_zone_tables), HOST,
        "CONVERT_TZ gives NULL, and SET time_zone takes no names", "mariadb-tzinfo-to-sql /usr/share/zoneinfo | mariadb mysql (mysql_tzinfo_to_sql), on the primary"),
    check("local_infile", Info, Server(server::local_infile), Asks("clients' LOAD DATA LOCAL is refused then, and a scratch server is filled by INSERTs"),
        "a server may ask clients for files", "SET GLOBAL local_infile = OFF"),

    // Binary log.
    check("log_bin", Error, Follower(binlog::log_bin), RESTART,
        "nothing can replicate from the server", "log_bin = ON in its configuration"),
    check("log_replica_updates", Error, Follower(binlog::log_replica_updates), RESTART,
        "a replica that is promoted cannot hand on what it received", "log_slave_updates = ON in its configuration"),
    check("binlog_format", Warning, Follower(binlog::binlog_format), Safe,
        "statements can have other effects on a replica", "SET GLOBAL binlog_format = ROW"),
    check("binlog_row_image", Warning, Follower(binlog::binlog_row_image), Safe,
        "saved transactions, remembered rows and the change stream lack columns", "SET GLOBAL binlog_row_image = FULL"),
    check("binlog_statements", Warning, Follower(binlog::binlog_statements), Safe,
        "a write whose answer was lost is not found by its comment", "SET GLOBAL binlog_annotate_row_events = ON (MySQL: binlog_rows_query_log_events)"),
    check("replicate_annotations", Warning, Follower(binlog::replicate_annotations), RESTART,
        "a promoted replica does not know the comments of what it received", "replicate_annotate_row_events = ON in its configuration"),
    check("binlog_filters", Error, Follower(binlog::binlog_filters), RESTART,
        "what is filtered is on no replica and is lost by a failover", "remove binlog_do_db and binlog_ignore_db from its configuration"),
    check("binlog_expires_early", Warning, Follower(binlog::binlog_expires_early), Safe,
        "a replica that was away for longer has to be filled anew", "SET GLOBAL binlog_expire_logs_seconds = 86400 or more"),
    check("binlog_never_expires", Info, Follower(binlog::binlog_never_expires), PEOPLE,
        "logs fill the disk", "SET GLOBAL binlog_expire_logs_seconds = 604800"),
    check("binlog_fills_disk", Warning, Follower(binlog::binlog_fills_disk), PEOPLE,
        "the disk is full before the logs expire", "PURGE BINARY LOGS BEFORE …, once all replicas have them; a shorter binlog_expire_logs_seconds"),

    // GTIDs.
    check("gtid_mode", Error, Follower(positions::gtid_mode), RESTART,
        "replicas do not find their place after a failover", "gtid_mode = ON in its configuration"),
    check("gtid_consistency", Error, Follower(positions::gtid_consistency), RESTART,
        "statements without a GTID break replicas", "enforce_gtid_consistency = ON in its configuration"),
    check("gtid_strict", Warning, Follower(positions::gtid_strict), Safe,
        "a replica that diverged goes on in silence", "SET GLOBAL gtid_strict_mode = ON"),
    check("gtid_domain", Warning, Members(positions::domains), RESTART,
        "positions of before and after a failover cannot be compared", "one gtid_domain_id for all servers of the group"),
    check("errant_gtids", Error, Follower(positions::errant), REJOIN,
        "a failover to it brings transactions that nobody else has; another primary cannot fill it", "`server clone GROUP ADDRESS`, after what it has more was saved (docs/REJOIN.md)"),
    check("gtid_gaps", Info, Follower(positions::gaps), PEOPLE,
        "a failover while there are gaps loses what is missing in them", "let the replica catch up; replica_preserve_commit_order = ON"),

    // Durability and read-only.
    check("sync_binlog", Warning, Follower(durability::sync_binlog), Safe,
        "a crash of the machine loses acknowledged commits", "SET GLOBAL sync_binlog = 1"),
    check("flush_log_at_commit", Warning, Follower(durability::flush_log_at_commit), Safe,
        "a crash of the machine loses acknowledged commits", "SET GLOBAL innodb_flush_log_at_trx_commit = 1"),
    check("doublewrite", Warning, Follower(durability::doublewrite), RESTART,
        "a crash in the middle of a page's write destroys the page", "innodb_doublewrite = ON in its configuration"),
    check("relay_log_recovery", Warning, Follower(durability::relay_log_recovery), RESTART,
        "a replica that crashed can read a torn relay log", "relay_log_recovery = ON in its configuration"),
    check("relay_log_info", Warning, Follower(durability::relay_log_info), RESTART,
        "a replica that crashed can apply transactions twice", "relay_log_info_repository = TABLE in its configuration"),
    check("init_rpl_role", Warning, Follower(durability::init_rpl_role), RESTART,
        "a primary that crashed keeps what no replica acknowledged, and cannot rejoin", "init_rpl_role = SLAVE in its configuration"),
    check("starts_writable", Warning, Follower(durability::starts_writable), RESTART,
        "a server that starts takes writes before it is told to", "read_only = ON in its configuration"),
    check("replica_writable", Error, Follower(durability::replica_writable), Safe,
        "clients that go past Heddle write to a replica, which diverges", "SET GLOBAL read_only = ON"),
    check("super_writable", Warning, Follower(durability::super_writable), Safe,
        "administrators can write to a replica, which diverges", "SET GLOBAL super_read_only = ON"),
    check("primary_read_only", Error, Follower(durability::primary_read_only), PEOPLE,
        "the group takes no writes", "`group health`, `group events`; Heddle opens a primary that it knows to be the right one"),

    check("innodb_read_only", Error, Follower(durability::engine_read_only), RESTART,
        "a failover can choose a server that takes no write", "innodb_read_only = OFF in its configuration; or `server set_status ADDRESS SECONDARY --promotable=false`"),

    // Semi-sync.
    check("semi_sync_missing", Info, Follower(semi_sync::missing), PEOPLE,
        "the router waits for a replica itself, and only for clients that come through it", "INSTALL PLUGIN rpl_semi_sync_source SONAME 'semisync_source.so'; INSTALL PLUGIN rpl_semi_sync_replica SONAME 'semisync_replica.so'"),
    check("semi_sync_replica", Warning, Follower(semi_sync::replica_off), Safe,
        "a replica that does not acknowledge protects no commit", "SET GLOBAL rpl_semi_sync_slave_enabled = ON (MySQL: rpl_semi_sync_replica_enabled), then restart its receiver"),
    check("semi_sync_primary", Error, Follower(semi_sync::primary_off), PEOPLE,
        "acknowledged commits are on one server only", "`group health` and `group events` say why; Heddle switches it on when it adds a replica"),
    check("semi_sync_unacknowledged", Error, Follower(semi_sync::unacknowledged), PEOPLE,
        "commits wait, or are on one server only", "see why the replicas do not acknowledge: replica_broken, replica_stopped, semi_sync_replica"),
    check("semi_sync_wait_point", Warning, Follower(semi_sync::wait_point), Safe,
        "other sessions see rows that a failover may take back", "SET GLOBAL rpl_semi_sync_master_wait_point = AFTER_SYNC"),

    // Replication.
    check("replica_unconfigured", Error, Follower(replication::unconfigured), REJOIN,
        "the replica gets nothing", "`server set_status ADDRESS FAULTY`, then SPARE, has it rejoin"),
    check("replica_broken", Error, Follower(replication::broken), REJOIN,
        "the replica falls behind, and cannot be promoted", "mend what the error names, then START SLAVE; or `server clone GROUP ADDRESS`"),
    check("replica_stopped", Error, Follower(replication::stopped), Asks("somebody may have stopped it on purpose"),
        "the replica falls behind, and cannot be promoted", "START SLAVE (MySQL: START REPLICA)"),
    check("replica_by_position", Error, Follower(replication::by_position), REJOIN,
        "the replica does not find its place behind another primary", "CHANGE MASTER TO MASTER_USE_GTID = slave_pos (MySQL: SOURCE_AUTO_POSITION = 1)"),
    check("replica_of_other", Error, Follower(replication::other_source), REJOIN,
        "the replica has other data than its group", "`server set_status ADDRESS FAULTY`, then SPARE, has it follow the primary"),
    check("replica_of_several", Warning, Follower(replication::several_sources), PEOPLE,
        "what comes from outside the group is on this server only", "RESET SLAVE ALL for the channels that are not the group's"),
    check("primary_follows", Warning, Follower(replication::primary_follows), PEOPLE,
        "what comes from there is no write of the farm's, and its locks are nobody's", "STOP SLAVE; RESET SLAVE ALL, when the import is over"),
    check("replica_filters", Error, Follower(replication::filters), RESTART,
        "the replica lacks what is filtered, and a failover to it loses that", "remove replicate_… from its configuration"),
    check("replica_delayed", Info, Follower(replication::delayed), PEOPLE,
        "reads from it are old, and a failover to it has to wait", "CHANGE MASTER TO MASTER_DELAY = 0; or `server set_status ADDRESS SPARE`"),
    check("replica_lags", Warning, Follower(replication::lags), PEOPLE,
        "the replica answers no eventual reads, and a failover to it has to wait", "more appliers (replica_parallel_workers, slave_parallel_threads), smaller transactions, a faster disk"),
    check("replica_skips_errors", Error, Follower(replication::skips_errors), RESTART,
        "the replica goes on with other rows than its primary's", "remove slave_skip_errors from its configuration"),
    check("replica_idempotent", Error, Follower(replication::idempotent), Safe,
        "the replica hides that its rows differ from its primary's", "SET GLOBAL slave_exec_mode = STRICT"),
    check("single_applier", Info, Follower(replication::single_applier), PEOPLE,
        "the replica applies one transaction at a time, and lags under load", "slave_parallel_threads = 4 (MySQL: replica_parallel_workers = 4) in its configuration"),
    check("commit_order", Warning, Follower(replication::commit_order), RESTART,
        "reads see a later commit before an earlier one, and positions have gaps", "replica_preserve_commit_order = ON in its configuration"),
    check("dependency_tracking", Info, Follower(replication::dependency_tracking), Safe,
        "replicas apply little in parallel unless many commit at the same time", "SET GLOBAL binlog_transaction_dependency_tracking = WRITESET"),
    check("parallel_mode", Warning, Follower(replication::parallel_mode), RESTART,
        "threads for parallel apply are there and wait for each other", "slave_parallel_mode = optimistic in its configuration"),

    // Equal on all servers of a group.
    check("server_id", Error, Members(group::server_ids), RESTART,
        "replicas ignore each other's events, or throw each other out", "a server_id of its own in its configuration"),
    check("server_uuid", Error, Members(group::server_uuids), RESTART,
        "GTIDs of two servers are taken for one another's", "remove auto.cnf from its data directory, and restart it"),
    check("engines_mixed", Error, Members(group::engines_mixed), PEOPLE,
        "the GTIDs of one mean nothing to the other", "a group of its own for each engine"),
    check("versions_mixed", Info, Group(group::versions_mixed), PEOPLE,
        "a statement that the newer ones know breaks the older ones", "finish the upgrade (docs/ENGINES.md)"),
    check("older_than_primary", Error, Members(group::older_than_primary), PEOPLE,
        "the replica may not understand what its primary writes", "upgrade it"),
    check("packets_differ", Warning, Members(alike::packets), Safe,
        "a row that the primary takes stops the replica", "SET GLOBAL max_allowed_packet to the group's greatest"),
    check("lower_case_differs", Error, Members(|_, group| alike::differs(group, &["lower_case_table_names"])), RESTART,
        "a table is found on one server and not on another", "one lower_case_table_names for all, before data are there"),
    check("sql_mode_differs", Warning, Members(|_, group| alike::differs(group, &["sql_mode"])), PEOPLE,
        "a statement is refused or means something else after a failover", "SET GLOBAL sql_mode to the primary's"),
    check("charset_differs", Warning, Members(|_, group| alike::differs(group, &["character_set_server"])), PEOPLE,
        "databases and tables that are made after a failover have another character set", "SET GLOBAL character_set_server to the primary's"),
    check("collation_differs", Warning, Members(|_, group| alike::differs(group, &["collation_server"])), PEOPLE,
        "texts are compared in another way after a failover", "SET GLOBAL collation_server to the primary's"),
    check("time_zone_differs", Warning, Members(|_, group| alike::differs(group, &["time_zone"])), PEOPLE,
        "NOW() and TIMESTAMPs jump after a failover", "SET GLOBAL time_zone to the primary's"),
    check("system_time_zone_differs", Warning, Members(|_, group| alike::differs(group, &["system_time_zone"])), HOST,
        "NOW() and TIMESTAMPs jump after a failover where time_zone is SYSTEM", "one time zone for the machines; or time_zone = '+00:00'"),
    check("page_size_differs", Warning, Members(|_, group| alike::differs(group, &["innodb_page_size"])), RESTART,
        "a row that fits on one server is too long for another", "fill the server anew with the group's innodb_page_size"),
    check("isolation_differs", Warning, Members(|_, group| alike::differs(group, &["transaction_isolation", "tx_isolation"])), PEOPLE,
        "transactions see other rows and hold other locks after a failover", "SET GLOBAL transaction_isolation to the primary's"),
    check("timestamps_differ", Warning, Members(|_, group| alike::differs(group, &["explicit_defaults_for_timestamp"])), PEOPLE,
        "the same CREATE TABLE makes another table", "one explicit_defaults_for_timestamp for all"),
    check("buffer_pool_differs", Info, Members(alike::buffer_pools), PEOPLE,
        "the group is slow once this server leads", "SET GLOBAL innodb_buffer_pool_size to the primary's, where there is memory"),

    // Limits of servers.
    check("max_connections", Warning, Server(limits::connections), Asks("each connection takes memory"),
        "clients hear error 1040 while the router would have room", "SET GLOBAL max_connections, or a smaller pool_connections_max"),
    check("wait_timeout", Warning, Server(limits::wait_timeout), Safe,
        "servers close pooled connections before the router does, and statements run into it", "SET GLOBAL wait_timeout = 28800, or a smaller pool_idle_s"),
    check("prepared_statements", Warning, Server(limits::prepared_statements), Safe,
        "clients hear error 1461", "SET GLOBAL max_prepared_stmt_count, or a smaller server_statements_max"),
    check("max_packet", Info, Server(limits::packet), Asks("each connection may take so much memory then"),
        "the router takes a packet that the server refuses, and the client's connection ends", "SET GLOBAL max_allowed_packet, or a smaller packet_bytes_max"),

    // TLS of servers.
    check("tls_missing", Warning, Server(tls::missing), RESTART,
        "rows and proofs of passwords cross the network in clear", "ssl_cert, ssl_key in its configuration"),
    check("tls_optional", Info, Server(tls::clear_allowed), Asks("clients and replicas without TLS are refused then"),
        "who reaches the server may talk to it in clear", "SET GLOBAL require_secure_transport = ON"),
    check("tls_old_versions", Warning, Server(tls::old_versions), PEOPLE,
        "connections can be talked down to a TLS that is broken", "tls_version = TLSv1.2,TLSv1.3 in its configuration"),
    check("server_certificate", Warning, Server(tls::certificate), HOST,
        "connections that verify the server's certificate fail", "a new certificate, then FLUSH SSL (MySQL: ALTER INSTANCE RELOAD TLS)"),

    // Accounts.
    check("account_anonymous", Warning, Server(accounts::anonymous), PEOPLE,
        "clients from these hosts get the account without a name in place of their own", "DROP USER"),
    check("account_shadowed", Warning, Server(accounts::shadowed), PEOPLE,
        "a client that comes from this host is refused with the right password", "one password for all hosts of a user; or DROP USER for the host"),
    check("account_missing", Warning, Members(accounts::missing), PEOPLE,
        "clients cannot log in, or go on, once they are sent to this server", "make the account on the primary with SET SESSION sql_log_bin = 1, or here with 0"),
    check("account_differs", Warning, Members(accounts::differs), PEOPLE,
        "clients cannot log in, or go on, once they are sent to this server", "ALTER USER on the server that is wrong, with SET SESSION sql_log_bin = 0"),
    check("account_needs_credential", Info, Server(accounts::needs_credential), PEOPLE,
        "Heddle can log in for their clients with a backend credential only (1524 without)", "a [[backend_credential]] (docs/ACCOUNTS.md), or another plugin"),
    check("account_expired", Info, Server(accounts::expired), PEOPLE,
        "their clients can do nothing but set a password", "ALTER USER … IDENTIFIED BY, or PASSWORD EXPIRE NEVER"),
    check("replication_account", Error, Server(accounts::replication_account), PEOPLE,
        "replicas cannot follow this server once it leads", "CREATE USER … and GRANT REPLICATION SLAVE"),
    check("own_password", Error, Server(accounts::own_password), PEOPLE,
        "who reaches the servers has what Heddle has there", "ALTER USER … IDENTIFIED BY on the servers, and admin_password_file"),

    // Tables, events, triggers.
    check("keyless_tables", Warning, Server(schema::keyless), PEOPLE,
        "a replica looks through the whole table for each changed row; their rows cannot be remembered or moved", "ALTER TABLE … ADD PRIMARY KEY"),
    check("keyless_order", Info, Server(schema::keyless_order), PEOPLE,
        "without ORDER BY this replica gives their rows in another order than the primary", "a primary key; or apply in one thread"),
    check("memory_tables", Warning, Server(schema::memory_tables), PEOPLE,
        "a server that restarts has lost their rows, and the others have not", "ALTER TABLE … ENGINE = InnoDB"),
    check("other_engines", Warning, Server(schema::other_engines), PEOPLE,
        "their changes belong to no transaction: nothing is rolled back, replayed or resolved", "ALTER TABLE … ENGINE = InnoDB"),
    check("default_engine", Warning, Server(schema::default_engine), Safe,
        "new tables have an engine without transactions", "SET GLOBAL default_storage_engine = InnoDB"),
    check("events_double", Error, Server(schema::events_double), PEOPLE,
        "a replica runs events that its primary runs, too: rows come twice, or it diverges", "ALTER EVENT … DISABLE ON SLAVE, or event_scheduler = OFF on replicas"),
    check("events_idle", Info, Server(schema::events_idle), Asks("events begin to run"),
        "enabled events do not run", "SET GLOBAL event_scheduler = ON"),
    check("triggers_double", Warning, Server(schema::triggers_double), Asks("rows that triggers made on this replica alone stop coming"),
        "triggers run on the replica though the rows that they made on the primary come, too", "SET GLOBAL slave_run_triggers_for_rbr = NO"),
    check("function_creators", Info, Server(schema::function_creators), Asks("accounts with TRIGGER or CREATE ROUTINE may make functions that replicas run"),
        "triggers and functions are not carried to other groups of the shard map (1419)", "SET GLOBAL log_bin_trust_function_creators = ON"),
    check("foreign_keys_cross", Warning, Server(schema::foreign_keys), PEOPLE,
        "a row and the one that it refers to are on different groups, where no server checks them", "one map for both tables, a global table, or no foreign key (docs/SHARDING.md)"),

    // Groups.
    check("group_empty", Info, Group(group::empty), PEOPLE,
        "statements that go there fail", "`group add GROUP ADDRESS`, or `group destroy GROUP`"),
    check("group_without_primary", Error, Group(group::no_primary), REJOIN,
        "the group takes no writes", "`group health`, `group events`; `group promote GROUP`"),
    check("group_of_one", Info, Group(group::single), PEOPLE,
        "there is no failover, and a lost disk is lost data", "`group add GROUP ADDRESS` of two more servers"),
    check("group_of_two", Warning, Group(group::pair), PEOPLE,
        "with either server gone commits are on one server only, and there is no further failover", "`group add GROUP ADDRESS` of a third server"),
    check("galera_majority", Warning, Group(group::no_majority), PEOPLE,
        "when the network parts the cluster in two halves, both stop", "a further node, or an arbitrator (garbd)"),
    check("group_without_candidate", Warning, Group(group::no_candidate), PEOPLE,
        "nothing can take over from the primary", "`group health` says which servers are promotable"),
    check("shard_map_uneven", Info, Group(group::overfull), PEOPLE,
        "the group has more rows and work than the others, and is too small first", "a map of the kind SLOTS for new tables gives all groups alike; `sharding split_shard SHARD GROUP` moves hashes of the large shard to a group without one"),
    check("group_inactive", Warning, Group(group::inactive), PEOPLE,
        "a primary that dies is not replaced", "`group activate GROUP`"),

    // Routers and their machines.
    check("router_silent", Warning, Router(router::unreachable), HOST,
        "nothing is known of the router, nor of its clients", "see its log; the address that it registered (peer_url) must be reachable for the others"),
    check("router_versions_mixed", Info, Router(router::versions_mixed), HOST,
        "the routers do only what the oldest one can", "finish the upgrade"),
    check("router_settings_differ", Warning, Router(router::settings_differ), PEOPLE,
        "a client finds another farm, by the router that it comes to", "`config set` for settings of the farm; the same heddle.toml for the others"),
    check("router_needs_restart", Warning, Router(router::needs_restart), HOST,
        "what the file says is not in force", "systemctl reload heddle (docs/DEPLOYING.md)"),
    check("router_clock", Warning, Router(router::clock_differs), HOST,
        "events, certificates and expiries of routers contradict each other", "let the machines follow one clock (NTP)"),
    check("sinks", Warning, Router(router::sinks), PEOPLE,
        "a target lacks changes, and binlogs may be purged before it has them", "mend the target, then `sink resume`, or `sink letters` and `sink resend` (docs/SINKS.md)"),
    check("consumer_late", Warning, Router(router::late_consumers), PEOPLE,
        "its stream ends with a gap, and it has to read the tables anew", "have the consumer go on, or the servers keep more (subscription_binlogs_h); behind a gap drop it, and create it anew with --snapshot (docs/CHANGES.md)"),
    check("router_alone", Info, Router(router::alone), PEOPLE,
        "with this router gone clients reach nothing", "a second router, with etcd (docs/ROUTERS.md)"),
    check("router_certificate", Warning, Router(router::certificates), HOST,
        "clients that verify the certificate are turned away", "a new certificate in the file; routers read it anew"),
    check("secret_files", Error, Router(router::secret_files), HOST,
        "users of the machine can read what Heddle logs in with", "chmod o= FILE"),
    check("public_in_clear", Warning, Router(router::public_in_clear), PEOPLE,
        "passwords and rows cross the network in clear", "tls_clients (SQL) or http_tls, with a certificate; or listen on a private address"),
    check("public_clear_allowed", Info, Router(router::public_clear_allowed), PEOPLE,
        "clients may talk in clear over a network", "tls_clients = required, http_tls = required"),
    check("public_without_login", Error, Router(router::public_without_login), PEOPLE,
        "who reaches the address reads and writes", "kv_auth = on; or listen on a private address"),
    check("kv_acks_before_commit", Warning, Router(router::acks_before_commit), PEOPLE,
        "memcached clients are told that values are stored which may be lost", "kv_ack_before_commit = off; or live with it (docs/KV.md#before-the-commit)"),
    check("open_files", Warning, Router(router::open_files), HOST,
        "clients are refused though clients_max has room for them", "LimitNOFILE in the unit, or ulimit -n"),
    check("router_memory", Warning, Router(router::memory), PEOPLE,
        "the kernel ends the router before its own limit holds", "a smaller memory_bytes_max"),
    check("overcommit", Warning, Router(router::overcommit), HOST,
        "the kernel refuses memory while there is some, and the router ends", "sysctl vm.overcommit_memory=0"),
    check("state_disk", Warning, Router(router::state_disk), HOST,
        "the farm cannot be changed, and no failover is written down", "make room where state_dir is"),
    check("store_silent", Error, Router(router::store_silent), HOST,
        "no failover, and no change of the farm", "bring the state store back (docs/STORE.md)"),
    check("store_slow", Warning, Router(router::store_slow), HOST,
        "leases run out, and the leadership changes for nothing", "faster disks for etcd, or a longer router_lease_ms"),
    check("store_in_clear", Warning, Router(router::store_in_clear), HOST,
        "the key of the farm's authority crosses the network in clear", "https:// URLs and etcd_ca"),
    check("store_members", Info, Router(router::store_members), HOST,
        "with one member of etcd gone the router may find no other", "all members' URLs in etcd; three members or five"),
];

#[cfg(test)]
mod tests {
    use super::TABLE;

    #[test]
    fn names_are_words_of_their_own() {
        let mut names: Vec<&str> = TABLE.iter().map(|it| it.name).collect();
        let legal = |name: &&str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
        assert!(names.iter().all(legal));
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(count > 60);
    }
}
