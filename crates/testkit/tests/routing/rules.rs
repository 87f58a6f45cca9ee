//! Rules on real servers: which statements they take hold of, and what becomes of those.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use mysql_wire::command::Command;
use routing::Level;
use routing::rules::{
    Actions, Conditions, Rewrite, Rulebook, Rules, ServerName, Side, UserDefaults,
};
use testkit::client::{Failure, Login};
use testkit::rules::{commented, first, matching, on, publish, refusing, rule, ruled, to, value};
use testkit::staging::third;
use testkit::{Door, Release, Stage, wait_until};

const WHO: &str = "SELECT name FROM stage.who";
const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn servers_of_a_rule_take_its_reads() {
    let Some(stage) = Stage::shared() else { return };
    let Some(third) = third(Release::Installed) else {
        return;
    };
    let address = format!("127.0.0.1:{}", third.address().port());
    let book = Arc::new(Rulebook::default());
    publish(
        &book,
        vec![
            rule(commented("node 2"), to(&["server-2"])),
            rule(commented("address"), to(&[&address])),
            rule(commented("primary"), to(&["primary"])),
            rule(commented("nobody"), to(&["server-9"])),
            rule(on("stage.w_o"), to(&["server-1"])),
        ],
    );
    let rules = book.clone();
    let door = Door::start(&[&stage.primary, &stage.replica, &third], |tuning| {
        tuning.rules = rules;
    });
    let mut client = door.client();
    for _ in 0..4 {
        assert_eq!(client.value(WHO), "replica");
        assert_eq!(value(&mut client, WHO), "replica");
        assert_eq!(client.value(&format!("/*node 2*/ {WHO}")), "third");
        assert_eq!(value(&mut client, &format!("/*node 2*/ {WHO}")), "third");
        assert_eq!(client.value(&format!("/*address*/ {WHO}")), "third");
        assert_eq!(client.value(&format!("/*primary*/ {WHO}")), "primary");
        // A server that the farm does not have serves nothing; the primary does.
        assert_eq!(client.value(&format!("/*nobody*/ {WHO}")), "primary");
    }
    // The table is named by the session's database.
    let mut inside = door.client_in("stage");
    for _ in 0..4 {
        assert_eq!(inside.value("SELECT name FROM who"), "replica");
    }
    // A hint for the primary is followed, one for a replica stays within the rule.
    assert_eq!(client.value(&format!("/*ms=master*/ {WHO}")), "primary");
    for _ in 0..4 {
        assert_eq!(client.value(&format!("/*ms=slave*/ {WHO}")), "replica");
    }
    // Nothing moves in a transaction.
    client.run("BEGIN");
    assert_eq!(client.value(WHO), "primary");
    client.run("COMMIT");
    door.change(1, |server| server.health.alive = false);
    assert_eq!(client.value(WHO), "primary");
    door.change(0, |server| server.health.alive = false);
    // The third server would be alive, but the rule does not name it.
    assert_eq!(client.error(WHO), 1105);
    assert_eq!(book.load().list[4].name.as_ref(), "rule 5");
    assert!(book.load().list[4].matched.load(Relaxed) >= 14);
}

#[test]
fn rules_change_while_sessions_live() {
    let Some(stage) = Stage::shared() else { return };
    let (door, book) = ruled(&stage, Vec::new());
    let mut client = door.client();
    let statement = client.prepare(WHO).expect("prepared");
    assert_eq!(client.value(WHO), "replica");
    publish(&book, vec![rule(on("stage.%"), to(&["primary"]))]);
    assert_eq!(client.value(WHO), "primary");
    let replies = client.execute(&statement, &[]).expect("executed");
    assert_eq!(first(&replies), "primary");
    publish(&book, Vec::new());
    assert_eq!(client.value(WHO), "replica");
    assert_eq!(door.counter("statements_ruled"), 2);
}

#[test]
fn levels_come_from_rules_and_users_and_hints_beat_them() {
    let Some(stage) = Stage::shared() else { return };
    let book = Arc::new(Rulebook::default());
    let strong = Actions {
        level: Some(Level::Strong),
        ..Actions::default()
    };
    let mut rules = Rules {
        list: vec![rule(commented("sure"), strong)],
        users: vec![UserDefaults {
            user: "root".to_owned(),
            host: Some("localhost".to_owned()),
            level: Some(Level::Strong),
            max_lag_ms: Some(77),
            monotonic: Some(false),
            ..UserDefaults::default()
        }],
    };
    book.publish(rules.clone());
    let given = book.clone();
    let door = stage.door_with(|tuning| {
        tuning.rules = given;
        tuning.accounts.push(testkit::door::account("app", "%", ""));
    });
    stage.everywhere("CREATE USER IF NOT EXISTS app; GRANT SELECT ON stage.* TO app");
    let mut app = door
        .login(&Login {
            user: "app",
            ..Login::default()
        })
        .expect("app may log in");
    assert_eq!(app.value(WHO), "replica");
    assert_eq!(app.value(&format!("/*sure*/ {WHO}")), "primary");
    assert_eq!(
        app.value(&format!("/*sure*//*ms=eventual*/ {WHO}")),
        "replica"
    );
    assert_eq!(app.value("SELECT @@heddle_consistency"), "client");
    let mut root = door.client();
    assert_eq!(root.value("SELECT @@heddle_consistency"), "strong");
    assert_eq!(root.value("SELECT @@heddle_max_lag_ms"), "77");
    assert_eq!(root.value(WHO), "primary");
    root.run("SET heddle_consistency = 'eventual', heddle_max_lag_ms = 4294967295");
    assert_eq!(root.value(WHO), "replica");
    root.run("SET heddle_consistency = DEFAULT");
    assert_eq!(root.value(WHO), "primary");
    // Another login on the connection takes up what its user has.
    root.change_user(&Login {
        user: "app",
        ..Login::default()
    })
    .expect("app may log in");
    assert_eq!(root.value(WHO), "replica");
    rules.users.clear();
    book.publish(rules);
    assert_eq!(door.client().value("SELECT @@heddle_consistency"), "client");
}

#[test]
fn refused_statements_hear_the_operators_words() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("rules_refuse");
    stage.everywhere("CREATE TABLE rules_refuse.t (a INT)");
    let write = Conditions {
        side: Some(Side::Write),
        ..on("rules_refuse.%")
    };
    let (door, book) = ruled(
        &stage,
        vec![rule(
            matching("^DELETE FROM \\S+$"),
            refusing("add a WHERE"),
        )],
    );
    let mut client = door.client();
    client.run("INSERT INTO rules_refuse.t VALUES (1), (2)");
    let refused = client.query("delete /* all */ from rules_refuse.t");
    let Err(Failure::Server {
        number,
        sqlstate,
        message,
    }) = refused
    else {
        panic!("{refused:?}");
    };
    assert_eq!(
        (number, &*sqlstate, &*message),
        (1148, "42000", "add a WHERE")
    );
    let prepared = client.prepare("DELETE FROM rules_refuse.t");
    assert_eq!(prepared.expect_err("refused").number(), 1148);
    client.run("DELETE FROM rules_refuse.t WHERE a = 1");
    // What was prepared before the rule came obeys it too, in a transaction as well.
    let insert = client
        .prepare("INSERT INTO rules_refuse.t VALUES (3)")
        .expect("prepared");
    publish(&book, vec![rule(write, refusing("closed"))]);
    client.run("BEGIN");
    assert_eq!(
        client.execute(&insert, &[]).expect_err("refused").number(),
        1148
    );
    assert_eq!(client.value("SELECT COUNT(*) FROM rules_refuse.t"), "1");
    client.run("COMMIT");
    assert_eq!(door.counter("statements_refused"), 3);
    // A pipeline of statements loses the one, and no other.
    for sql in [
        "SELECT 1",
        "INSERT INTO rules_refuse.t VALUES (4)",
        "SELECT 2",
    ] {
        client
            .send_command(Command::Query, sql.as_bytes())
            .expect("sent");
    }
    let mut answer = || {
        client.sequence = 1;
        client.read_results(false)
    };
    assert_eq!(first(&answer().expect("1")), "1");
    assert_eq!(answer().expect_err("refused").number(), 1148);
    assert_eq!(first(&answer().expect("2")), "2");
    client.quit();
    door.wait_unused();
}

#[test]
fn rewritten_texts_are_read_anew() {
    let Some(stage) = Stage::shared() else { return };
    let rewrite = |find: &str, with: &str| Actions {
        rewrite: Some(Arc::new(Rewrite {
            find: regex::bytes::Regex::new(find).expect("an expression"),
            to: with.to_owned(),
        })),
        ..Actions::default()
    };
    let (door, book) = ruled(
        &stage,
        vec![
            rule(commented("lock"), rewrite("$", " FOR UPDATE")),
            rule(commented("plus"), rewrite(r"(\d+)", "$1 + 1")),
            rule(commented("huge"), rewrite("a", &"b".repeat(1000))),
            rule(commented("id"), rewrite("mine", "CONNECTION_ID()")),
        ],
    );
    let mut client = door.client();
    assert_eq!(client.value(&format!("/*plain*/ {WHO}")), "replica");
    // A read that becomes a locking one goes to the primary.
    assert_eq!(client.value(&format!("/*lock*/ {WHO}")), "primary");
    assert_eq!(value(&mut client, &format!("/*lock*/ {WHO}")), "primary");
    assert_eq!(client.value("/*plus*/ SELECT 41"), "42");
    assert_eq!(client.value("/*plus*/ SELECT 'none'"), "none");
    assert_eq!(value(&mut client, "/*plus*/ SELECT 41"), "42");
    let id = client.value("SELECT CONNECTION_ID()");
    assert_eq!(client.value("/*id*/ SELECT mine"), id);
    // A prepared statement keeps its rewritten text, and its rule by its own text.
    let statement = client.prepare("/*plus*/ SELECT 1").expect("prepared");
    publish(&book, vec![rule(matching("^SELECT \\?$"), refusing("no"))]);
    assert_eq!(
        client
            .execute(&statement, &[])
            .expect_err("refused")
            .number(),
        1148
    );
    publish(&book, Vec::new());
    let replies = client.execute(&statement, &[]).expect("executed");
    assert_eq!(first(&replies), "2");
    publish(
        &book,
        vec![rule(commented("huge"), rewrite("a", &"b".repeat(10_000)))],
    );
    let text = format!("/*huge*/ SELECT '{}'", "a".repeat(10_000));
    assert_eq!(client.error(&text), 1153);
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn limits_and_delays_hold_everywhere() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("rules_time");
    stage.everywhere("CREATE TABLE rules_time.r (a INT)");
    let rows: Vec<String> = (0..500).map(|n| format!("({n})")).collect();
    stage.everywhere(&format!(
        "INSERT INTO rules_time.r VALUES {}",
        rows.join(",")
    ));
    let limited = Actions {
        timeout_ms: Some(1_500),
        ..Actions::default()
    };
    let delayed = Actions {
        delay_ms: Some(150),
        ..Actions::default()
    };
    let (door, _book) = ruled(
        &stage,
        vec![
            rule(on("rules_time.r"), limited),
            rule(commented("later"), delayed),
        ],
    );
    let mut client = door.client();
    let read = "SELECT COUNT(*) FROM rules_time.r a, rules_time.r b, rules_time.r c, \
                rules_time.r d WHERE a.a + b.a + c.a + d.a > 0";
    assert_eq!(client.error(read), 1317);
    let statement = client.prepare(read).expect("prepared");
    assert_eq!(
        client.execute(&statement, &[]).expect_err("late").number(),
        1317
    );
    client.run("BEGIN");
    assert_eq!(client.error(read), 1317);
    client.run("ROLLBACK");
    assert_eq!(client.value("SELECT COUNT(*) FROM rules_time.r"), "500");
    let begun = Instant::now();
    assert_eq!(client.value("/*later*/ SELECT 1"), "1");
    assert!(begun.elapsed() >= Duration::from_millis(150));
    assert_eq!(door.counter("statements_timed_out"), 3);
    client.quit();
    door.wait_unused();
}

#[test]
fn copies_run_on_the_mirror_mariadb() {
    copies_run_on_the_mirror(Release::Installed);
}

/// Its servers take query attributes, so that texts go to them in another form.
#[test]
fn copies_run_on_the_mirror_mysql() {
    copies_run_on_the_mirror(Release::MySql80);
}

fn copies_run_on_the_mirror(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    let Some(third) = third(release) else { return };
    for server in [&stage.primary, &third] {
        let mut client = server.client();
        client.run("DROP DATABASE IF EXISTS rules_mirror");
        client.run("CREATE DATABASE rules_mirror");
        client.run("CREATE TABLE rules_mirror.t (a INT)");
    }
    let mirrored = |name: &str| Actions {
        mirror: Some(Arc::new(ServerName::new(name))),
        ..Actions::default()
    };
    let book = Arc::new(Rulebook::default());
    let write = Conditions {
        side: Some(Side::Write),
        ..on("rules_mirror.t")
    };
    publish(
        &book,
        vec![
            rule(commented("gone"), mirrored("server-9")),
            rule(write, mirrored("server-2")),
        ],
    );
    let rules = book.clone();
    let door = Door::start(&[&stage.primary, &stage.replica, &third], |tuning| {
        tuning.rules = rules;
    });
    // A second primary: mirrors may be of another group.
    door.change(2, |server| {
        (server.status, server.mode) = (farm::Status::Primary, farm::Mode::ReadWrite);
        server.health.read_only = false;
    });
    let mut client = door.client_in("rules_mirror");
    for number in 0..10 {
        client.run(&format!("INSERT INTO t VALUES ({number})"));
    }
    let insert = client
        .prepare("INSERT INTO t VALUES (?)")
        .expect("prepared");
    for number in 20..25 {
        let values = [testkit::client::Value::Int(number)];
        client.execute(&insert, &values).expect("executed");
    }
    client.run("/*gone*/ INSERT INTO t VALUES (10)");
    // In a transaction the copy would not be undone with the statement; nothing is copied.
    client.run("BEGIN");
    client.run("INSERT INTO t VALUES (11)");
    client.run("ROLLBACK");
    let mut there = third.client();
    wait_until(PATIENCE, "fifteen rows on the mirror", || {
        there.value("SELECT COUNT(*) FROM rules_mirror.t") == "15"
    });
    wait_until(PATIENCE, "one copy that went nowhere", || {
        door.counter("mirrors_failed") == 1 && door.counter("statements_mirrored") == 15
    });
    assert_eq!(client.value("/*ms=master*/ SELECT COUNT(*) FROM t"), "16");
    assert_eq!(
        there.value("SELECT SUM(a) FROM rules_mirror.t WHERE a >= 20"),
        "110"
    );
    client.quit();
    door.wait_unused();
}

#[test]
fn explain_names_the_rule() {
    let Some(stage) = Stage::shared() else { return };
    let (door, book) = ruled(&stage, vec![rule(on("stage.who"), to(&["primary"]))]);
    let mut client = door.client();
    let explained = client.rows(&format!("HEDDLE EXPLAIN {WHO}")).remove(0);
    let cells: Vec<&str> = explained.iter().flatten().map(String::as_str).collect();
    assert!(cells.contains(&"rule 1"), "{cells:?}");
    assert!(cells.contains(&"servers=primary"), "{cells:?}");
    assert!(cells.contains(&"Rule"), "{cells:?}");
    let digest = cells.last().expect("the digest").to_string();
    assert_eq!(digest.len(), 32);
    // To explain is not to run: nothing was counted, and the digest is one that rules take.
    assert_eq!(door.counter("statements_ruled"), 0);
    let by_digest = Conditions {
        digests: vec![digest.parse().expect("a digest")],
        ..Conditions::default()
    };
    publish(&book, vec![rule(by_digest, refusing("that one"))]);
    assert_eq!(client.error(WHO), 1148);
    assert_eq!(client.value("SELECT 1"), "1");
}
