//! `heddle apply` of statements whose rows were not logged: run once, in their order, with what they were run with; or
//! refused with a reason.

use std::process::Child;

use testkit::server::Server;
use testkit::{Client, Farm, Release, wait_until};

use crate::apply::{said, start};
use crate::reading::SOON;

/// Kills of the applier.
const KILLS: u32 = 3;

fn prepare(client: &mut Client) {
    client.run("CREATE DATABASE d");
    client.run(
        "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, v DOUBLE, s VARCHAR(40) CHARACTER SET latin1, n DATETIME(6), \
         m DECIMAL(30,5))",
    );
    client.run("CREATE TABLE d.counter (id INT PRIMARY KEY, n INT)");
    client.run("INSERT INTO d.counter VALUES (1, 0)");
}

/// What gives something else when it is run twice, in another order or without its context.
fn change(client: &mut Client, round: u32) {
    for sql in [
        "SET SESSION binlog_format = STATEMENT, auto_increment_increment = 3, auto_increment_offset = 2",
        "SET time_zone = '+05:00', sql_mode = 'PIPES_AS_CONCAT', @who = 'sm\u{f6}r', @n = 12345678901234567890.5",
        "SET TIMESTAMP = 1700000000.123456",
        "UPDATE d.counter SET n = n * 2 + 1",
        "INSERT INTO d.t (v, s, n, m) VALUES (RAND(), @who || '!', NOW(6), @n)",
        "INSERT INTO d.t (v, s) SELECT v + (SELECT n FROM d.counter), s FROM d.t ORDER BY id",
        "INSERT INTO d.t (v) VALUES (LAST_INSERT_ID())",
        "BEGIN",
        "UPDATE d.counter SET n = n + 3",
        "SET SESSION TIMESTAMP = DEFAULT",
        "DELETE FROM d.t WHERE id % 2 = 1",
        "COMMIT",
    ] {
        client.run(sql);
    }
    // Rows and statements one after the other.
    client.run("SET SESSION binlog_format = ROW");
    client.run(&format!("INSERT INTO d.t (v) VALUES ({round})"));
}

/// Loads a file whose rows are not logged, where the server may read one.
fn load(farm: &Farm, client: &mut Client) {
    let file = farm.dir().join("rows.csv");
    std::fs::write(&file, "1000\t1.5\tx\n2000\t2.5\ty\n").expect("it is written");
    client.run("SET SESSION binlog_format = STATEMENT");
    let file = file.display();
    let sql = format!("LOAD DATA INFILE '{file}' INTO TABLE d.t (id, v, s) SET m = id + 1");
    if let Err(error) = client.query(sql) {
        assert!(error.to_string().contains("secure-file-priv"), "{error}");
    }
}

fn sums(client: &mut Client) -> Vec<String> {
    let sum = |table: &str| format!("CHECKSUM TABLE {table}");
    ["d.t", "d.counter"]
        .map(|table| format!("{:?}", client.rows(&sum(table))[0][1]))
        .to_vec()
}

fn end(mut applier: Child) {
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
}

fn statements_are_run_again_once_and_in_their_order(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let Some(target) = Server::start(release) else {
        return;
    };
    target.client().run("SET GLOBAL local_infile = ON");
    let mut client = farm.member("g1-1").client();
    let mut applier = start(&farm, &target, &["--statements"]);
    let has_begun = || {
        let count = "SELECT COUNT(*) FROM heddle_apply.progress";
        target.client().query(count).is_ok() && target.client().value(count) == "1"
    };
    wait_until(SOON, "it has begun", has_begun);
    prepare(&mut client);
    for round in 0..KILLS {
        change(&mut client, round);
        end(applier);
        change(&mut client, round);
        applier = start(&farm, &target, &["--statements"]);
    }
    load(&farm, &mut client);
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    wait_until(SOON, "the last statement", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(&farm));
        target.client().query("SELECT 1 FROM d.last").is_ok()
    });
    assert_eq!(
        sums(&mut target.client()),
        sums(&mut client),
        "{}",
        said(&farm)
    );
    // What gives something else elsewhere is refused.
    client.run("INSERT INTO d.t (s) VALUES (UUID())");
    wait_until(SOON, "a refusal", || {
        applier.try_wait().expect("a child").is_some()
    });
    let text = said(&farm);
    assert!(text.contains("UUID gives another value"), "{text}");
    assert!(text.contains("--pass"), "{text}");
}

fn statements_are_refused_unless_somebody_vouches_for_them(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let Some(target) = Server::start(release) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    prepare(&mut client);
    let mut applier = start(&farm, &target, &["--snapshot"]);
    wait_until(SOON, "the rows", || {
        said(&farm).contains("rows of group g1 are read")
    });
    client.run("SET SESSION binlog_format = STATEMENT");
    client.run("UPDATE d.counter SET n = n + 1");
    wait_until(SOON, "a refusal", || {
        applier.try_wait().expect("a child").is_some()
    });
    let text = said(&farm);
    assert!(text.contains("apply with --statements"), "{text}");
    assert_eq!(target.client().value("SELECT n FROM d.counter"), "0");
    let applier = start(&farm, &target, &["--snapshot", "--statements"]);
    wait_until(SOON, "the statement", || {
        target.client().value("SELECT n FROM d.counter") == "1"
    });
    end(applier);
}

testkit::on_both_engines! {
    statements_are_run_again_once_and_in_their_order,
    statements_are_refused_unless_somebody_vouches_for_them,
}
