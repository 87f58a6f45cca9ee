//! The rows of the table: each feature's privileges on both engines, on MariaDB and on MySQL.
//!
//! What each privilege allows stands in MySQL's manual, 8.2.2 «Privileges Provided by MySQL», and in
//! MariaDB's, «GRANT». That nothing is missing here is proved by tests which run a farm with exactly these.

use super::{Feature, Need, Scope};

use Feature::{
    Binlogs, Clients, Clone, Containers, Contents, Failover, OwnTables, Probes, RelaxedReplicas,
    Shards, Transactions,
};

const fn need(
    feature: Feature,
    scope: Scope,
    privilege: &'static str,
    purpose: &'static str,
) -> Need {
    Need {
        feature,
        scope,
        privilege,
        purpose,
        since: 0,
        before: u32::MAX,
    }
}

const fn server(feature: Feature, privilege: &'static str, purpose: &'static str) -> Need {
    need(feature, Scope::Everything, privilege, purpose)
}

const fn own(privilege: &'static str, purpose: &'static str) -> Need {
    need(OwnTables, Scope::Own, privilege, purpose)
}

const fn data(feature: Feature, privilege: &'static str, purpose: &'static str) -> Need {
    need(feature, Scope::Data, privilege, purpose)
}

const fn since(need: Need, since: u32) -> Need {
    Need { since, ..need }
}

const fn before(need: Need, before: u32) -> Need {
    Need { before, ..need }
}

const ROWS_IN: &str = "rows go in";
const ROWS_OUT: &str = "rows are replaced and removed";
const MADE: &str = "databases and tables are made";
const DROPPED: &str = "databases are dropped";
const ALTERED: &str = "a database has the collation for a moment that a routine was made with";
const KEYS: &str = "tables with foreign keys are made";
const TRIGGERS: &str = "triggers are shown and made; without it a server shows none";
const VIEWS: &str = "views are made";
const ROUTINES: &str = "routines are made";
const DEFINERS: &str = "views, routines, triggers and events keep the accounts that made them";
const OWN_TABLES: &str = "tables of heartbeats, decisions, commit barriers, ids";

/// The same on both engines.
pub(super) const COMMON: &[Need] = &[
    own("SELECT", OWN_TABLES),
    own("INSERT", OWN_TABLES),
    own("UPDATE", OWN_TABLES),
    own("DELETE", OWN_TABLES),
    own("CREATE", OWN_TABLES),
    own("CREATE ROUTINE", "routines by which clients decide"),
    own("ALTER ROUTINE", "routines of older forms are replaced"),
    own(
        "EXECUTE",
        "routines by which clients decide, and the right to call them",
    ),
    own(
        "GRANT OPTION",
        "clients' accounts get EXECUTE on these routines",
    ),
    server(Clone, "INSERT", ROWS_IN),
    server(Clone, "DELETE", "the tables of accounts are replaced"),
    server(Clone, "CREATE", MADE),
    server(Clone, "DROP", DROPPED),
    server(Clone, "ALTER", ALTERED),
    server(Clone, "REFERENCES", KEYS),
    server(Clone, "TRIGGER", TRIGGERS),
    server(Clone, "CREATE VIEW", VIEWS),
    server(Clone, "CREATE ROUTINE", ROUTINES),
    server(
        Clone,
        "EVENT",
        "events are shown and made; without it a server shows none",
    ),
    server(
        Clone,
        "CREATE TEMPORARY TABLES",
        "the account's own rows are kept meanwhile",
    ),
    data(Shards, "INSERT", ROWS_IN),
    data(Shards, "DELETE", ROWS_OUT),
    data(
        Shards,
        "LOCK TABLES",
        "a move waits for writers that no session has any more",
    ),
    data(Shards, "CREATE", MADE),
    data(Shards, "ALTER", ALTERED),
    data(Shards, "REFERENCES", KEYS),
    data(Shards, "TRIGGER", TRIGGERS),
    data(Shards, "CREATE VIEW", VIEWS),
    data(Shards, "CREATE ROUTINE", ROUTINES),
    server(
        Shards,
        "CREATE USER",
        "accounts that a group lacks are made",
    ),
    data(Containers, "INSERT", "keys are set"),
    data(Containers, "UPDATE", "keys are set"),
    data(
        Containers,
        "DELETE",
        "keys are deleted, and removed when they expire",
    ),
    data(Containers, "CREATE", "`kv create --make`"),
];

pub(super) const MARIADB: &[Need] = &[
    since(
        server(Probes, "SLAVE MONITOR", "SHOW SLAVE STATUS"),
        100_509,
    ),
    server(
        Contents,
        "SELECT",
        "the tables of accounts; which tables, columns and routines there are",
    ),
    server(
        Contents,
        "SHOW VIEW",
        "the definitions of views; foreign keys, of which a server shows none to who has SELECT alone",
    ),
    server(Failover, "READ_ONLY ADMIN", "SET GLOBAL read_only"),
    server(
        Failover,
        "REPLICATION MASTER ADMIN",
        "SET GLOBAL rpl_semi_sync_master_…, gtid_binlog_state",
    ),
    server(
        Failover,
        "REPLICATION SLAVE ADMIN",
        "CHANGE MASTER, START and STOP SLAVE; SET GLOBAL rpl_semi_sync_slave_…, gtid_slave_pos, \
         gtid_strict_mode, init_slave",
    ),
    server(Failover, "RELOAD", "RESET SLAVE, RESET MASTER, FLUSH"),
    server(
        Failover,
        "BINLOG ADMIN",
        "SET GLOBAL binlog_annotate_row_events, binlog_row_metadata; SET SESSION sql_log_bin",
    ),
    server(
        Clients,
        "PROCESS",
        "SHOW PROCESSLIST, INNODB_TRX; without it a server shows no client",
    ),
    server(Clients, "CONNECTION ADMIN", "KILL"),
    server(
        Binlogs,
        "BINLOG MONITOR",
        "SHOW BINARY LOGS, SHOW BINLOG EVENTS, SHOW MASTER STATUS",
    ),
    server(
        Binlogs,
        "REPLICATION SLAVE",
        "the stream of events: lost writes, remembered rows, errant transactions, moves",
    ),
    server(
        Transactions,
        "BINLOG REPLAY",
        "prepared transactions that a crash took out of the engine are made again (BINLOG)",
    ),
    server(Clone, "SET USER", DEFINERS),
    server(Shards, "SET USER", DEFINERS),
    server(
        RelaxedReplicas,
        "SUPER",
        "SET GLOBAL innodb_flush_log_at_trx_commit",
    ),
];

pub(super) const MYSQL: &[Need] = &[
    server(
        Probes,
        "REPLICATION CLIENT",
        "SHOW REPLICA STATUS, SHOW BINARY LOG STATUS, SHOW BINARY LOGS",
    ),
    server(
        Contents,
        "SELECT",
        "the tables of accounts; which tables, columns and routines there are; who keeps a lock",
    ),
    server(Contents, "SHOW VIEW", "the definitions of views"),
    server(
        Failover,
        "SYSTEM_VARIABLES_ADMIN",
        "SET GLOBAL super_read_only, read_only, rpl_semi_sync_…, init_replica, gtid_purged, \
         binlog_rows_query_log_events, binlog_row_metadata; SET SESSION sql_log_bin",
    ),
    server(
        Failover,
        "REPLICATION_SLAVE_ADMIN",
        "CHANGE REPLICATION SOURCE, START and STOP REPLICA",
    ),
    server(
        Failover,
        "RELOAD",
        "RESET REPLICA, RESET BINARY LOGS AND GTIDS, FLUSH",
    ),
    server(
        Clients,
        "PROCESS",
        "SHOW PROCESSLIST, INNODB_TRX; without it a server shows no client",
    ),
    server(
        Clients,
        "CONNECTION_ADMIN",
        "KILL; writes into a server that is read-only while it is filled",
    ),
    since(
        server(
            Clients,
            "SYSTEM_USER",
            "KILL of clients that have it, as root has; programs of such accounts in clones",
        ),
        80_016,
    ),
    server(
        Binlogs,
        "REPLICATION SLAVE",
        "the stream of events, SHOW BINLOG EVENTS: lost writes, remembered rows, errant transactions, moves",
    ),
    server(Transactions, "XA_RECOVER_ADMIN", "XA RECOVER"),
    before(server(Clone, "SET_USER_ID", DEFINERS), 80_200),
    since(server(Clone, "SET_ANY_DEFINER", DEFINERS), 80_200),
    since(server(Clone, "ALLOW_NONEXISTENT_DEFINER", DEFINERS), 80_200),
    before(server(Shards, "SET_USER_ID", DEFINERS), 80_200),
    since(server(Shards, "SET_ANY_DEFINER", DEFINERS), 80_200),
];
