//! The SQL door: mysqlnd_ms's statistics after a workload that is known, and HEDDLE PROFILE.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use farm::Status;
use routing::rules::{Actions, Fallback, Hook, Rulebook};
use testkit::client::Login;
use testkit::rules::{commented, publish, rule};
use testkit::{Client, Door, Farm, Stage, wait_until};

const WHO: &str = "SELECT name FROM stage.who";

/// The names that mysqlnd_ms_get_stats() returns.
const NAMES: [&str; 46] = [
    "use_slave",
    "use_master",
    "use_slave_guess",
    "use_master_guess",
    "use_slave_sql_hint",
    "use_master_sql_hint",
    "use_last_used_sql_hint",
    "use_slave_callback",
    "use_master_callback",
    "non_lazy_connections_slave_success",
    "non_lazy_connections_slave_failure",
    "non_lazy_connections_master_success",
    "non_lazy_connections_master_failure",
    "lazy_connections_slave_success",
    "lazy_connections_slave_failure",
    "lazy_connections_master_success",
    "lazy_connections_master_failure",
    "trx_autocommit_on",
    "trx_autocommit_off",
    "trx_master_forced",
    "gtid_autocommit_injections_success",
    "gtid_autocommit_injections_failure",
    "gtid_commit_injections_success",
    "gtid_commit_injections_failure",
    "gtid_implicit_commit_injections_success",
    "gtid_implicit_commit_injections_failure",
    "transient_error_retries",
    "fabric_sharding_lookup_servers_success",
    "fabric_sharding_lookup_servers_failure",
    "fabric_sharding_lookup_servers_time_total",
    "fabric_sharding_lookup_servers_bytes_total",
    "fabric_sharding_lookup_servers_xml_failure",
    "xa_begin",
    "xa_commit_success",
    "xa_commit_failure",
    "xa_rollback_success",
    "xa_rollback_failure",
    "xa_participants",
    "xa_rollback_on_close",
    "pool_masters_total",
    "pool_slaves_total",
    "pool_masters_active",
    "pool_slaves_active",
    "pool_updates",
    "pool_master_reactivated",
    "pool_slave_reactivated",
];

/// What HEDDLE STATUS says of the extension's names.
fn statistics(client: &mut Client) -> BTreeMap<String, u64> {
    let rows = client.rows("HEDDLE STATUS");
    let mut all = BTreeMap::new();
    for mut row in rows {
        let value = row.pop().flatten().expect("a value");
        let name = row.pop().flatten().expect("a name");
        if NAMES.contains(&name.as_str()) {
            all.insert(name, value.parse().expect("a number"));
        }
    }
    all
}

/// By how much each statistic has grown while `work` was done, without those that have not.
fn grown(door: &Door, work: impl FnOnce(&mut Client)) -> BTreeMap<String, u64> {
    let mut watch = door.client();
    let mut client = door.client();
    let before = statistics(&mut watch);
    work(&mut client);
    let after = statistics(&mut watch);
    let grew = after.into_iter().map(|(name, value)| {
        let more = value - before[&name];
        (name, more)
    });
    grew.filter(|(_, more)| *more > 0).collect()
}

fn expected(pairs: &[(&str, u64)]) -> BTreeMap<String, u64> {
    let own = |&(name, value): &(&str, u64)| (name.to_owned(), value);
    pairs.iter().map(own).collect()
}

/// The counters of connections are published once a second.
fn opened(door: &Door) -> [u64; 8] {
    let names = &NAMES[9..17];
    let values: Vec<u64> = names.iter().map(|name| door.counter(name)).collect();
    values.try_into().expect("eight")
}

#[test]
fn all_names_of_the_extension_are_there() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let all = statistics(&mut door.client());
        assert_eq!(all.len(), NAMES.len(), "{all:?}");
        for (name, value) in [
            ("pool_masters_total", 1),
            ("pool_masters_active", 1),
            ("pool_slaves_total", 1),
            ("pool_slaves_active", 1),
            ("xa_begin", 0),
        ] {
            assert_eq!(all[name], value, "{name}");
        }
        door.change(1, |server| server.health.alive = false);
        let all = statistics(&mut door.client());
        assert_eq!(
            (all["pool_slaves_total"], all["pool_slaves_active"]),
            (1, 0)
        );
        door.change(1, |server| server.status = Status::Spare);
        assert_eq!(statistics(&mut door.client())["pool_slaves_total"], 0);
    }
}

#[test]
fn statements_are_counted_by_who_served_them_and_why() {
    for stage in &Stage::of_both_engines() {
        stage.database("stat_use");
        stage.everywhere("CREATE TABLE stat_use.t (a INT)");
        let door = stage.door();
        let guessed = grown(&door, |client| {
            for _ in 0..5 {
                client.value(WHO);
            }
            client.rows("SHOW TABLES FROM stage");
            client.run("SET @a = 1");
        });
        let guesses = [
            ("use_slave", 5),
            ("use_slave_guess", 5),
            ("use_master", 2),
            ("use_master_guess", 2),
        ];
        assert_eq!(guessed, expected(&guesses));

        let hinted = grown(&door, |client| {
            client.value(&format!("/*ms=slave*/{WHO}"));
            client.value(&format!("/*ms=last_used*/{WHO}"));
            client.value(&format!("/*ms=master*/{WHO}"));
            client.value(&format!("/*ms=master*/{WHO}"));
            client.value(&format!("/*ms=last_used*/{WHO}"));
            client.value(&format!("/*ms=strong*/{WHO}"));
        });
        let hints = [
            ("use_slave", 2),
            ("use_master", 4),
            ("use_slave_sql_hint", 1),
            ("use_master_sql_hint", 2),
            ("use_last_used_sql_hint", 2),
            ("use_slave_guess", 1),
        ];
        assert_eq!(hinted, expected(&hints));

        // In a transaction no hint moves anything: the read is forced to where the transaction is.
        let held = grown(&door, |client| {
            client.run("BEGIN");
            client.value(&format!("/*ms=slave*/{WHO}"));
            client.value(WHO);
            client.run("COMMIT");
            client.run("SET autocommit = 0");
            client.value(WHO);
            client.run("SET autocommit = 1");
            client.run("SET autocommit = 1");
        });
        let forced = [
            ("use_master", 8),
            ("use_slave_guess", 3),
            ("use_master_guess", 5),
            ("trx_master_forced", 3),
            ("trx_autocommit_off", 1),
            ("trx_autocommit_on", 1),
        ];
        assert_eq!(held, expected(&forced));
    }
}

#[test]
fn prepared_and_pipelined_statements_count_like_others() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let prepared = grown(&door, |client| {
            let statement = client.prepare(WHO).expect("prepared");
            for _ in 0..3 {
                client.execute(&statement, &[]).expect("executed");
            }
        });
        // The PREPARE and three executions.
        let served = prepared["use_slave"] + prepared.get("use_master").copied().unwrap_or(0);
        assert_eq!(served, 4, "{prepared:?}");
        let guesses = ["use_slave_guess", "use_master_guess"];
        let guessed: u64 = guesses.iter().filter_map(|name| prepared.get(*name)).sum();
        assert_eq!(guessed, 4, "{prepared:?}");
    }
}

#[test]
fn the_gtids_of_writes_are_counted_by_what_committed_them() {
    for stage in &Stage::of_both_engines() {
        stage.database("stat_gtid");
        stage.everywhere("CREATE TABLE stat_gtid.t (a INT PRIMARY KEY) ENGINE=InnoDB");
        let door = stage.door();
        let gtids = |work: &dyn Fn(&mut Client)| {
            let mut all = grown(&door, |client| work(client));
            all.retain(|name, _| name.starts_with("gtid_"));
            all
        };
        let autocommit = gtids(&|client| {
            client.run("INSERT INTO stat_gtid.t VALUES (1)");
            client.run("INSERT INTO stat_gtid.t VALUES (2)");
            client.run("UPDATE stat_gtid.t SET a = 9 WHERE a = 8");
        });
        let two = [("gtid_autocommit_injections_success", 2)];
        assert_eq!(autocommit, expected(&two));
        let commit = gtids(&|client| {
            client.run("BEGIN");
            client.run("INSERT INTO stat_gtid.t VALUES (3)");
            client.run("INSERT INTO stat_gtid.t VALUES (4)");
            client.run("COMMIT");
            client.run("BEGIN");
            client.run("INSERT INTO stat_gtid.t VALUES (5)");
            client.run("ROLLBACK");
        });
        let one = [("gtid_commit_injections_success", 1)];
        assert_eq!(commit, expected(&one));
        let implicit = gtids(&|client| {
            client.run("BEGIN");
            client.run("INSERT INTO stat_gtid.t VALUES (6)");
            client.run("BEGIN");
            client.run("COMMIT");
        });
        let one = [("gtid_implicit_commit_injections_success", 1)];
        assert_eq!(implicit, expected(&one));
        let doubtful = gtids(&|client| {
            let twice = "INSERT INTO stat_gtid.t VALUES (7), (1)";
            client.query(twice).expect_err("a key that is there");
        });
        let one = [("gtid_autocommit_injections_failure", 1)];
        assert_eq!(doubtful, expected(&one));
    }
}

#[test]
fn connections_are_counted_by_what_they_were_opened_for() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let mut client = door.client();
        assert_eq!(opened(&door), [0; 8]);
        client.value(WHO);
        client.run("SET @a = 1");
        // slave success, slave failure, master success, master failure: at a login, for a statement.
        wait_until(
            std::time::Duration::from_secs(10),
            "two connections",
            || opened(&door) == [0, 0, 0, 0, 1, 0, 1, 0],
        );
        let door = stage.door();
        let login = Login {
            database: Some("stage"),
            ..Login::default()
        };
        drop(door.login(&login).expect("let in"));
        wait_until(
            std::time::Duration::from_secs(10),
            "one at the login",
            || opened(&door) == [0, 0, 1, 0, 0, 0, 0, 0],
        );
    }
}

/// The row of HEDDLE PROFILE by its columns.
fn profile(client: &mut Client) -> BTreeMap<&'static str, Option<String>> {
    const COLUMNS: [&str; 18] = [
        "server",
        "name",
        "group",
        "role",
        "connection_id",
        "level",
        "reason",
        "shards",
        "rows",
        "bytes",
        "waits",
        "retries",
        "in_transaction",
        "connect_us",
        "wait_us",
        "serve_us",
        "hold_us",
        "total_us",
    ];
    let row = client.rows("HEDDLE PROFILE").remove(0);
    COLUMNS.into_iter().zip(row).collect()
}

#[test]
fn a_profile_says_where_the_last_statement_ran_and_what_it_took() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let mut client = door.client();
        assert!(client.rows("HEDDLE PROFILE").is_empty(), "nothing was run");

        let mut client = door.client();
        client.rows("SELECT name FROM stage.who UNION ALL SELECT 'another'");
        let address =
            |server: &testkit::Server| Some(format!("127.0.0.1:{}", server.address().port()));
        let first = profile(&mut client);
        assert_eq!(first["server"], address(&stage.replica));
        for (column, value) in [
            ("name", "server-1"),
            ("group", "g1"),
            ("role", "replica"),
            ("level", "client"),
            ("reason", "Read"),
            ("shards", "1"),
            ("rows", "2"),
            ("waits", "0"),
            ("retries", "0"),
            ("in_transaction", "0"),
        ] {
            assert_eq!(first[column].as_deref(), Some(value), "{column}");
        }
        assert_eq!(first["total_us"], None, "nobody had asked for times");
        let number = |cell: &Option<String>| cell.as_deref().and_then(|c| c.parse::<u64>().ok());
        assert!(number(&first["bytes"]) > Some(40), "{first:?}");

        client.run("BEGIN");
        let thread = client.value("/*ms=master*/ SELECT name FROM stage.who");
        assert_eq!(thread, "primary");
        let second = profile(&mut client);
        assert_eq!(second["server"], address(&stage.primary));
        assert_eq!(second["role"].as_deref(), Some("primary"));
        assert_eq!(second["reason"].as_deref(), Some("Held"));
        assert_eq!(second["in_transaction"].as_deref(), Some("1"));
        let steps: u64 = ["connect_us", "wait_us", "serve_us", "hold_us"]
            .iter()
            .filter_map(|step| number(&second[step]))
            .sum();
        let total = number(&second["total_us"]).expect("times are taken now");
        // Each is rounded down by itself.
        assert!(total > 0 && total.abs_diff(steps) <= 3, "{second:?}");
        // To ask is no statement.
        assert_eq!(profile(&mut client)["rows"].as_deref(), Some("1"));
        let id = second["connection_id"].clone().expect("an id");
        let mut direct = stage.primary.client();
        let who = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id}");
        assert_eq!(direct.value(&who), "1");
        client.run("COMMIT");

        client.run("CREATE TEMPORARY TABLE stage.ids (id INT AUTO_INCREMENT PRIMARY KEY, a INT)");
        let inserted = client.run("INSERT INTO stage.ids (a) VALUES (1), (2)");
        client.rows("HEDDLE STATUS LIKE 'use%'");
        let again = client.run("HEDDLE PROFILE REPEAT");
        assert_eq!(again.affected_rows, 2);
        assert_eq!(again.last_insert_id, inserted.last_insert_id);
        let refused = client.query("HEDDLE PROFILE x").expect_err("an argument");
        assert!(refused.to_string().contains("usage"), "{refused}");
    }
}

#[test]
fn a_profile_counts_servers_that_failed_the_statement() {
    let Some(stage) = Stage::start() else { return };
    let door = stage.door();
    let mut client = door.client();
    client.value(WHO);
    drop(stage.replica);
    assert_eq!(client.value(WHO), "primary");
    let after = profile(&mut client);
    assert_eq!(after["role"].as_deref(), Some("primary"));
    assert!(after["retries"] >= Some("1".to_owned()), "{after:?}");
}

#[test]
fn servers_that_leave_and_come_back_are_counted() {
    let Some(farm) = Farm::start(&["--replicas", "1"]) else {
        return;
    };
    let mut client = farm.client();
    let mut pool = || {
        let mut all = statistics(&mut client);
        all.retain(|name, _| name.starts_with("pool_"));
        all
    };
    let patience = std::time::Duration::from_secs(30);
    wait_until(patience, "both servers serve", || {
        let now = pool();
        now["pool_masters_active"] == 1 && now["pool_slaves_active"] == 1
    });
    let before = pool();
    assert!(before["pool_updates"] > 0, "{before:?}");
    farm.json(&["server", "set_status", "g1-2", "SPARE"]);
    let away = pool();
    assert_eq!(
        (away["pool_slaves_total"], away["pool_slaves_active"]),
        (0, 0)
    );
    assert_eq!(away["pool_updates"], before["pool_updates"] + 1);
    farm.json(&["server", "set_status", "g1-2", "SECONDARY"]);
    wait_until(patience, "the replica serves again", || {
        pool()["pool_slaves_active"] == 1
    });
    let back = pool();
    assert_eq!(back["pool_updates"], before["pool_updates"] + 2);
    assert_eq!(
        back["pool_slave_reactivated"],
        before["pool_slave_reactivated"] + 1
    );
    assert_eq!(
        back["pool_master_reactivated"],
        before["pool_master_reactivated"]
    );
}

/// A hook that gives this decision to everybody who asks; it ends with the process.
fn hook(decision: &'static str) -> Hook {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("bound").port();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut asked = Vec::new();
            let mut part = [0; 4096];
            // The question is JSON, and ends with its last brace.
            while !asked.ends_with(b"}") {
                match client.read(&mut part) {
                    Ok(bytes @ 1..) => asked.extend_from_slice(&part[..bytes]),
                    _ => break,
                }
            }
            let length = decision.len();
            let answer = format!("HTTP/1.0 200 OK\r\nContent-Length: {length}\r\n\r\n{decision}");
            let _ = client.write_all(answer.as_bytes());
        }
    });
    Hook {
        url: format!("http://127.0.0.1:{port}/"),
        host: "127.0.0.1".to_owned(),
        port,
        path: "/".to_owned(),
        timeout_ms: 10_000,
        fallback: Fallback::Refuse,
        cache_ms: 0,
        sends_text: false,
    }
}

#[test]
fn what_hooks_decide_is_counted_as_the_callbacks_were() {
    for stage in &Stage::of_both_engines() {
        let book = Arc::new(Rulebook::default());
        let asking = |decision| Actions {
            hook: Some(Arc::new(hook(decision))),
            ..Actions::default()
        };
        publish(
            &book,
            vec![
                rule(
                    commented("to the replica"),
                    asking(r#"{"server":"server-1"}"#),
                ),
                rule(
                    commented("to the primary"),
                    asking(r#"{"server":"primary"}"#),
                ),
                rule(commented("as you like"), asking("{}")),
            ],
        );
        let door = stage.door_with(|tuning| tuning.rules = book);
        let decided = grown(&door, |client| {
            assert_eq!(
                client.value(&format!("/*to the replica*/ {WHO}")),
                "replica"
            );
            assert_eq!(
                client.value(&format!("/*to the replica*/ {WHO}")),
                "replica"
            );
            assert_eq!(
                client.value(&format!("/*to the primary*/ {WHO}")),
                "primary"
            );
            assert_eq!(client.value(&format!("/*as you like*/ {WHO}")), "replica");
        });
        let hooked = [
            ("use_slave", 3),
            ("use_master", 1),
            ("use_slave_guess", 4),
            ("use_slave_callback", 2),
            ("use_master_callback", 1),
        ];
        assert_eq!(decided, expected(&hooked));
    }
}
