//! More faults on real servers that `heddle doctor` must find by their names: replication that is set up by hand,
//! what only one server of a group has, and groups that cannot do their work.

use testkit::{Farm, Release, Server, wait_until};

use crate::doctor::{PATIENCE, SETTINGS, found, has, lacks, names, plant, start};

/// Faults that a configuration plants.
const CONFIGURED: [(&str, &str, &str); 2] = [
    ("tls_version", "TLSv1.1,TLSv1.2", "tls_old_versions"),
    ("binlog_ignore_db", "scratch", "binlog_filters"),
];

/// Faults that a statement plants on a replica.
const AT_REPLICA: [(&str, &str); 13] = [
    ("SET GLOBAL gtid_strict_mode = OFF", "gtid_strict"),
    (
        "SET GLOBAL innodb_flush_log_at_trx_commit = 2",
        "flush_log_at_commit",
    ),
    ("SET GLOBAL expire_logs_days = 0", "binlog_never_expires"),
    (
        "SET GLOBAL rpl_semi_sync_slave_enabled = OFF",
        "semi_sync_replica",
    ),
    ("SET GLOBAL max_allowed_packet = 1048576", "max_packet"),
    ("STOP SLAVE", ""),
    ("SET GLOBAL slave_parallel_threads = 2", "keyless_order"),
    (
        "SET GLOBAL slave_run_triggers_for_rbr = YES",
        "triggers_double",
    ),
    ("CHANGE MASTER TO MASTER_DELAY = 3600", "replica_delayed"),
    (
        "CHANGE MASTER TO MASTER_USE_GTID = no",
        "replica_by_position",
    ),
    (
        "CHANGE MASTER 'second' TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'",
        "replica_of_several",
    ),
    ("SET GLOBAL event_scheduler = ON", ""),
    ("CREATE DATABASE stray", "errant_gtids"),
];

/// What the replica alone has, without a trace in its log.
const UNLOGGED: [(&str, &str); 3] = [
    ("SET SESSION sql_log_bin = 0", ""),
    (
        "ALTER USER same@'%' IDENTIFIED BY 'other'",
        "account_differs",
    ),
    (
        "CREATE EVENT shop.tick ON SCHEDULE EVERY 1 DAY DO SET @a = 1",
        "events_double",
    ),
];

/// Faults of a primary.
const AT_PRIMARY: [(&str, &str); 3] = [
    (
        "CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT=1, MASTER_USER='x'",
        "primary_follows",
    ),
    (
        "SET GLOBAL rpl_semi_sync_master_enabled = OFF",
        "semi_sync_primary",
    ),
    ("SET GLOBAL read_only = ON", "primary_read_only"),
];

#[test]
fn faults_of_replication_and_of_groups_are_found_by_their_names() {
    let Some(first) = Server::start(Release::Installed) else {
        return;
    };
    let configured = CONFIGURED.map(|(name, value, _)| (name, value));
    let Some(second) = Server::start_with(Release::Installed, &configured) else {
        return;
    };
    let farm = Farm::serve(&SETTINGS);
    farm.json(&["group", "create", "nobody"]);
    has(&found(&farm, "nobody"), &["group_empty"]);
    start(&farm, &[&first]);
    has(&found(&farm, "g"), &["group_of_one"]);
    let [primary, replica] = [&first, &second].map(|it| it.address().to_string());
    has(
        &found(&farm, &primary),
        &["time_zone_tables", "own_password"],
    );
    farm.json(&["group", "add", "g", &replica]);

    let mut root = first.client();
    root.run("CREATE TABLE shop.log (a INT)");
    root.run("CREATE TABLE shop.lost (a INT PRIMARY KEY)");
    root.run("CREATE TRIGGER shop.t BEFORE INSERT ON shop.log FOR EACH ROW SET NEW.a = 1");
    root.run("CREATE USER same@'%' IDENTIFIED BY 'one'");
    let mut direct = second.client();
    wait_until(PATIENCE, "the account at the replica", || {
        !direct
            .rows("SELECT 1 FROM mysql.user WHERE user = 'same'")
            .is_empty()
    });
    // Servers of tests are fast and forgetful.
    direct.run("SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    direct.run("SET GLOBAL expire_logs_days = 7");
    let at_replica = || found(&farm, &replica);
    has(&at_replica(), &CONFIGURED.map(|(_, _, check)| check));
    has(&at_replica(), &["single_applier"]);

    // A row of a table that only the primary has.
    direct.run("SET SESSION sql_log_bin = 0");
    direct.run("DROP TABLE shop.lost");
    root.run("INSERT INTO shop.lost VALUES (1)");
    wait_until(PATIENCE, "broken replication", || {
        at_replica().contains("replica_broken")
    });

    let unlike: Vec<&str> = AT_REPLICA
        .iter()
        .chain(&UNLOGGED)
        .map(|(_, check)| *check)
        .collect();
    lacks(&at_replica(), &unlike);
    let planted = [plant(&second, &AT_REPLICA), plant(&second, &UNLOGGED)].concat();
    has(&at_replica(), &names(&planted));

    lacks(&found(&farm, &primary), &AT_PRIMARY.map(|(_, check)| check));
    let planted = plant(&first, &AT_PRIMARY);
    has(&found(&farm, &primary), &names(&planted));

    farm.json(&["server", "set_status", &replica, "FAULTY"]);
    has(&at_replica(), &["server_faulty"]);
    has(&found(&farm, "g"), &["group_without_candidate"]);
    farm.json(&["group", "demote", "g"]);
    has(&found(&farm, "g"), &["group_without_primary"]);
}
