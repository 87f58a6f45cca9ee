//! A farm without a fault: a group of MariaDB, one of MySQL, two routers.

use std::collections::BTreeMap;

use doctor::facts::{
    AccountFacts, BinlogFacts, CertificateFacts, DiskFacts, DoorFacts, FileFacts, ForeignKey,
    HostFacts, SchemaFacts, SourceFacts, StoreFacts,
};
use doctor::{FarmFacts, GroupFacts, RouterFacts, ServerFacts};
use farm::Status;

const BOTH: &[(&str, &str)] = &[
    ("log_bin", "ON"),
    ("log_slave_updates", "ON"),
    ("binlog_format", "ROW"),
    ("binlog_row_image", "FULL"),
    ("sync_binlog", "1"),
    ("innodb_flush_log_at_trx_commit", "1"),
    ("innodb_doublewrite", "ON"),
    ("innodb_read_only", "OFF"),
    ("innodb_page_size", "16384"),
    ("innodb_buffer_pool_size", "1073741824"),
    ("relay_log_recovery", "ON"),
    ("binlog_expire_logs_seconds", "864000"),
    ("max_connections", "500"),
    ("max_allowed_packet", "67108864"),
    ("max_prepared_stmt_count", "65536"),
    ("wait_timeout", "28800"),
    ("lower_case_table_names", "0"),
    ("sql_mode", "STRICT_TRANS_TABLES"),
    ("character_set_server", "utf8mb4"),
    ("time_zone", "SYSTEM"),
    ("system_time_zone", "UTC"),
    ("explicit_defaults_for_timestamp", "ON"),
    ("default_storage_engine", "InnoDB"),
    ("event_scheduler", "OFF"),
    ("local_infile", "OFF"),
    ("require_secure_transport", "ON"),
    ("have_ssl", "YES"),
    ("tls_version", "TLSv1.2,TLSv1.3"),
    ("log_bin_trust_function_creators", "OFF"),
    ("slave_skip_errors", "OFF"),
    ("slave_exec_mode", "STRICT"),
];

const MARIADB: &[(&str, &str)] = &[
    ("gtid_strict_mode", "ON"),
    ("gtid_domain_id", "0"),
    ("binlog_annotate_row_events", "ON"),
    ("replicate_annotate_row_events", "ON"),
    ("init_rpl_role", "SLAVE"),
    ("slave_parallel_threads", "4"),
    ("slave_parallel_mode", "optimistic"),
    ("slave_run_triggers_for_rbr", "NO"),
    ("tx_isolation", "REPEATABLE-READ"),
    ("collation_server", "utf8mb4_general_ci"),
    ("rpl_semi_sync_master_wait_point", "AFTER_SYNC"),
    ("rpl_semi_sync_slave_enabled", "ON"),
];

const MYSQL: &[(&str, &str)] = &[
    ("gtid_mode", "ON"),
    ("enforce_gtid_consistency", "ON"),
    ("binlog_rows_query_log_events", "ON"),
    ("relay_log_info_repository", "TABLE"),
    ("replica_parallel_workers", "4"),
    ("replica_preserve_commit_order", "ON"),
    ("binlog_transaction_dependency_tracking", "WRITESET"),
    ("transaction_isolation", "REPEATABLE-READ"),
    ("collation_server", "utf8mb4_0900_ai_ci"),
    ("rpl_semi_sync_source_wait_point", "AFTER_SYNC"),
    ("rpl_semi_sync_replica_enabled", "ON"),
];

const SOURCE: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    pairs.iter().map(owned).collect()
}

fn account(user: &str, host: &str) -> AccountFacts {
    AccountFacts {
        user: user.to_owned(),
        host: host.to_owned(),
        plugin: "mysql_native_password".to_owned(),
        proof: 1,
        ..AccountFacts::default()
    }
}

fn disk(path: &str) -> DiskFacts {
    DiskFacts {
        path: path.to_owned(),
        free_bytes: 80 << 30,
        total_bytes: 100 << 30,
    }
}

fn server(name: char, number: u64, version: &str) -> ServerFacts {
    let mysql = name == 'm';
    let leads = number == 1;
    let mut variables = texts(BOTH);
    variables.extend(texts(if mysql { MYSQL } else { MARIADB }));
    let mut put = |name: &str, value: &str| variables.insert(name.to_owned(), value.to_owned());
    put("server_id", &number.to_string());
    put("read_only", if leads { "OFF" } else { "ON" });
    let enabled = if leads { "ON" } else { "OFF" };
    if mysql {
        put("server_uuid", &format!("uuid-{number}"));
        put("super_read_only", if leads { "OFF" } else { "ON" });
        put("rpl_semi_sync_source_enabled", enabled);
    } else {
        put("rpl_semi_sync_master_enabled", enabled);
    }
    let source = SourceFacts {
        host: format!("{name}1"),
        port: 3306,
        by_gtid: true,
        receives: "Yes".to_owned(),
        applies: "Yes".to_owned(),
        ..SourceFacts::default()
    };
    ServerFacts {
        address: format!("{name}{number}:3306"),
        status: Some(if leads {
            Status::Primary
        } else {
            Status::Replica
        }),
        version: version.to_owned(),
        variables,
        counters: texts(&[
            ("rpl_semi_sync_master_clients", "2"),
            ("rpl_semi_sync_master_status", "ON"),
            ("ssl_server_not_after", "Nov 23 05:06:07 2036 GMT"),
        ]),
        lag_ms: Some(if leads { 0 } else { 3 }),
        sources: if leads { Vec::new() } else { vec![source] },
        binlog: BinlogFacts {
            files: 3,
            bytes: 3 << 30,
            filters: Vec::new(),
        },
        gtid: match mysql {
            true => format!("{SOURCE}:1-{}", 100 - number),
            false => format!("0-1-{}", 100 - number),
        },
        clock_ahead_ms: Some(4),
        disk: Some(disk("/var/lib/mysql")),
        accounts: Some(vec![
            account("heddle_replication", "%"),
            account("app", "%"),
            account("app", "10.0.0.7"),
        ]),
        time_zones: Some(1800),
        schema: SchemaFacts {
            foreign_keys: vec![ForeignKey {
                name: "fk".to_owned(),
                table: "shop.orders".to_owned(),
                references: "shop.countries".to_owned(),
            }],
            ..SchemaFacts::default()
        },
        ..ServerFacts::default()
    }
}

fn group(number: u64, servers: Vec<ServerFacts>) -> GroupFacts {
    GroupFacts {
        name: format!("g{number}"),
        galera: false,
        media: false,
        active: true,
        servers,
        ..GroupFacts::default()
    }
}

fn settings() -> BTreeMap<String, String> {
    texts(&[
        ("admin_user", "heddle"),
        ("admin_password", "(hidden)"),
        ("replication_user", "heddle_replication"),
        ("pool_connections_max", "64"),
        ("pool_idle_s", "60"),
        ("clients_max", "10000"),
        ("server_statements_max", "12800"),
        ("packet_bytes_max", "67108864"),
        ("max_lag_ms", "10000"),
        ("relaxed_replicas", "off"),
        ("router_lease_ms", "2000"),
        ("sql_listen", "10.0.0.1:6306"),
    ])
}

fn router(number: u64) -> RouterFacts {
    let file = |what: &str, name: &str| FileFacts {
        what: what.to_owned(),
        path: format!("/etc/heddle/{name}"),
        mode: 0o600,
    };
    let door = |name: &str, port: u16| DoorFacts {
        name: name.to_owned(),
        address: format!("10.0.0.{number}:{port}"),
        public: true,
        tls: true,
        tls_only: true,
        authenticates: true,
    };
    RouterFacts {
        name: format!("r{number}"),
        version: "0.1.0".to_owned(),
        settings: settings(),
        // 2026-01-01.
        clock_ms: 1_767_225_600_000,
        clock_ahead_ms: Some(2),
        doors: vec![door("SQL", 6306), door("KV", 6211), door("HTTP", 6080)],
        files: vec![file("the file with the settings", "heddle.toml")],
        certificates: vec![CertificateFacts {
            what: "the certificate of clients' TLS".to_owned(),
            ends_s: 1_900_000_000,
        }],
        store: StoreFacts {
            etcd: true,
            answered_ms: Some(3),
            urls: ["https://e1:2379", "https://e2:2379", "https://e3:2379"]
                .map(str::to_owned)
                .to_vec(),
            ..StoreFacts::default()
        },
        host: HostFacts {
            files_max: Some(1 << 20),
            memory_bytes: Some(8 << 30),
            memory_bytes_max: Some(4 << 30),
            overcommit: Some(0),
            state_disk: Some(disk("/var/lib/heddle")),
        },
        ..RouterFacts::default()
    }
}

pub fn farm() -> FarmFacts {
    let of = |name, version: &str| (1..=3).map(|it| server(name, it, version)).collect();
    let maps = [
        ("shop.orders", "shop"),
        ("shop.lines", "shop"),
        ("shop.countries", ""),
    ];
    FarmFacts {
        groups: vec![
            group(1, of('s', "10.11.6-MariaDB")),
            group(2, of('m', "8.0.45")),
        ],
        routers: vec![router(1), router(2)],
        settings: settings(),
        sharded: texts(&maps),
        ..FarmFacts::default()
    }
}
