//! Early writes, which are acknowledged before their commit: that somebody has to allow them, that everybody who
//! asks this router sees them, and when they are committed.

use std::time::Duration;

use testkit::ports::free_port;
use testkit::raw::{Raw, show};
use testkit::router::Router;
use testkit::{Client, Farm, Release, Server, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A farm that allows early writes, and commits them for another reason than their time; with a container whose
/// table is known already.
fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    let allowed = [
        "--replicas",
        "0",
        "--set",
        "kv_ack_before_commit=on",
        "--set",
        "kv_commit_within_ms=60000",
        "--set",
        "accounts_interval_ms=100",
    ];
    let farm = Farm::start_on(release, &[&allowed, flags].concat())?;
    farm.make_container("early --table=heddle.kv --key=k --values=v --w_batch_size=4");
    Some(farm)
}

/// A client of the container, on a core that has looked at the table.
fn client(farm: &Farm) -> Raw {
    let mut raw = Raw::connect(farm.kv);
    raw.say("get @@early\r\n");
    assert!(raw.line().starts_with("VALUE @@early"));
    raw.hears("heddle/kv\r\nEND\r\n");
    raw.asks("get nothing\r\n", "END\r\n");
    raw
}

fn set(raw: &mut Raw, key: &str, value: &str) {
    let text = format!("set {key} 0 0 {}\r\n{value}\r\n", value.len());
    raw.asks(text, "STORED\r\n");
}

/// How many of these keys have a row, as the server has committed it.
fn committed(sql: &mut Client, keys: &str) -> String {
    sql.value(&format!(
        "SELECT COUNT(*) FROM heddle.kv WHERE k IN ({keys})"
    ))
}

/// Without the operator's word nothing is early; with it, it is said aloud.
fn an_operator_has_to_allow_them(release: Release) {
    let Some(farm) = Farm::start_on(
        release,
        &["--replicas", "0", "--set", "accounts_interval_ms=100"],
    ) else {
        return;
    };
    let make = [
        "kv",
        "create",
        "early",
        "--table=heddle.kv",
        "--key=k",
        "--values=v",
        "--w_batch_size=4",
    ];
    let refused = farm.command(&make);
    assert!(!refused.status.success());
    assert!(show(&refused.stderr).contains("kv_ack_before_commit"));
    let allow = |value: &str| {
        for setting in [
            &format!("kv_ack_before_commit={value}"),
            "kv_commit_within_ms=60000",
        ] {
            farm.json(&["config", "set", &format!("--setting={setting}")]);
        }
    };
    allow("on");
    wait_until(PATIENCE, "the container is allowed", || {
        farm.command(&make).status.success()
    });
    let has = |name: &str| {
        farm.json(&["group", "events"])
            .iter()
            .any(|it| it["event"] == name)
    };
    wait_until(PATIENCE, "it is told", || has("kv_acks_before_commit"));
    let mut sql = farm.members()[0].client();
    let mut raw = client(&farm);
    set(&mut raw, "a", "1");
    assert_eq!(committed(&mut sql, "'a'"), "0");
    // What is there when it is forbidden is committed, and nothing more is early.
    allow("off");
    wait_until(PATIENCE, "it is forbidden", || has("kv_option_refused"));
    set(&mut raw, "b", "1");
    assert_eq!(committed(&mut sql, "'a', 'b'"), "2");
}

/// A batch has one commit; what asks for one of its keys, by whichever connection and core, sees it.
fn who_asks_this_router_sees_them(release: Release) {
    let Some(farm) = farm(release, &["--set", "threads=2"]) else {
        return;
    };
    let mut sql = farm.members()[0].client();
    let mut one = client(&farm);
    let mut others: Vec<Raw> = (0..3).map(|_| client(&farm)).collect();
    // Three are acknowledged, and the fourth is answered when all are committed.
    for key in ["a", "b", "c"] {
        set(&mut one, key, "1");
    }
    assert_eq!(committed(&mut sql, "'a', 'b', 'c', 'd'"), "0");
    set(&mut one, "d", "1");
    assert_eq!(committed(&mut sql, "'a', 'b', 'c', 'd'"), "4");
    for (at, other) in others.iter_mut().enumerate() {
        let key = format!("k{at}");
        set(&mut one, &key, "5");
        assert_eq!(committed(&mut sql, &format!("'{key}'")), "0");
        other.asks(
            format!("get {key}\r\n"),
            format!("VALUE {key} 0 1\r\n5\r\nEND\r\n"),
        );
        set(&mut one, &key, "6");
        other.asks(format!("incr {key} 1\r\n"), "7\r\n");
        set(&mut one, &key, "8");
        other.asks(format!("add {key} 0 0 1\r\n1\r\n"), "NOT_STORED\r\n");
        set(&mut one, &key, "9");
        other.asks(format!("append {key} 0 0 1\r\n0\r\n"), "STORED\r\n");
        one.asks(format!("incr {key} 1\r\n"), "91\r\n");
        set(&mut one, &key, "1");
        other.asks(format!("delete {key}\r\n"), "DELETED\r\n");
        one.asks(format!("get {key}\r\n"), "END\r\n");
    }
    // Of several that set one key the last one counts.
    for round in 0..40 {
        let value = format!("{round:02}");
        set(&mut one, "last", "xx");
        set(&mut others[round % 3], "last", &value);
        others[(round + 1) % 3].asks(
            "get last\r\n",
            format!("VALUE last 0 2\r\n{value}\r\nEND\r\n"),
        );
    }
    cas_is_that_of_the_row(&mut one, &mut others[0]);
    // A reply that says what only the commit tells comes behind it.
    one.asks("ms meta 1\r\n1\r\n", "HD\r\n");
    assert_eq!(committed(&mut sql, "'meta'"), "0");
    one.say("ms token 1 G\r\n1\r\n");
    assert!(one.line().starts_with("HD G"));
    assert_eq!(committed(&mut sql, "'meta', 'token'"), "2");
    let counter = "HEDDLE STATUS LIKE 'kv_acks%'";
    let counted = farm.client().rows(counter);
    let of = |name: &str| {
        let row = counted.iter().find(|row| row[0].as_deref() == Some(name));
        row.and_then(|row| row[1].clone()).expect("a counter")
    };
    assert_ne!(of("kv_acks_before_commit"), "0");
    assert_eq!(of("kv_acks_lost"), "0");
}

fn cas_is_that_of_the_row(one: &mut Raw, other: &mut Raw) {
    set(one, "cas", "1");
    other.say("gets cas\r\n");
    let line = other.line();
    let cas = line.rsplit(' ').next().expect("a cas").to_owned();
    other.hears("1\r\nEND\r\n");
    set(one, "cas", "2");
    other.asks(format!("cas cas 0 0 1 {cas}\r\n3\r\n"), "EXISTS\r\n");
    other.asks("get cas\r\n", "VALUE cas 0 1\r\n2\r\nEND\r\n");
}

/// What a table may refuse is answered when it has taken it, or refused it.
fn what_a_table_may_refuse_is_never_early(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.members()[0].client();
    for text in [
        "CREATE TABLE heddle.parent (id VARCHAR(9) PRIMARY KEY)",
        "CREATE TABLE heddle.child (k VARCHAR(9) PRIMARY KEY, v VARCHAR(9), FOREIGN KEY (v) REFERENCES heddle.parent (id))",
        "CREATE TABLE heddle.short (k VARCHAR(9) PRIMARY KEY, v VARCHAR(3), n INT NOT NULL)",
        "CREATE TABLE heddle.num (k VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, v TINYINT)",
        "INSERT INTO heddle.parent VALUES ('here')",
    ] {
        sql.run(text);
    }
    for table in ["child", "short", "num"] {
        farm.make_container(&format!(
            "{table} --table=heddle.{table} --key=k --values=v --w_batch_size=4"
        ));
    }
    let mut raw = Raw::connect(farm.kv);
    raw.asks("get @@child.x @@short.x @@num.x\r\n", "END\r\n");
    raw.asks("set @@child.a 0 0 4\r\ngone\r\n", "NOT_STORED\r\n");
    raw.asks("set @@child.a 0 0 4\r\nhere\r\n", "STORED\r\n");
    assert_eq!(sql.value("SELECT COUNT(*) FROM heddle.child"), "1");
    // Another column has no default.
    raw.asks("set @@short.a 0 0 1\r\n1\r\n", "NOT_STORED\r\n");
    raw.asks("set @@num.a 0 0 1\r\n1\r\n", "STORED\r\n");
    assert_eq!(sql.value("SELECT COUNT(*) FROM heddle.num"), "0");
    raw.say("set @@num.b 0 0 3\r\n128\r\n");
    assert!(raw.line().starts_with("CLIENT_ERROR"));
    assert_eq!(sql.value("SELECT GROUP_CONCAT(k) FROM heddle.num"), "a");
}

/// They are committed when their client goes, when their container is declared anew, and when the router ends.
fn they_are_committed_before_things_end(release: Release) {
    let Some(mut farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.members()[0].client();
    let mut raw = client(&farm);
    set(&mut raw, "gone", "1");
    assert_eq!(committed(&mut sql, "'gone'"), "0");
    drop(raw);
    wait_until(PATIENCE, "what a client left", || {
        committed(&mut sql, "'gone'") == "1"
    });
    let mut raw = client(&farm);
    set(&mut raw, "anew", "1");
    farm.make_container("early --table=heddle.kv --key=k --values=v");
    wait_until(PATIENCE, "what was declared otherwise", || {
        raw.asks("get other\r\n", "END\r\n");
        committed(&mut sql, "'anew'") == "1"
    });
    farm.make_container("early --table=heddle.kv --key=k --values=v --w_batch_size=9");
    let mut number = 0;
    wait_until(PATIENCE, "early writes again", || {
        number += 1;
        set(&mut raw, &format!("end{number}"), "1");
        committed(&mut sql, &format!("'end{number}'")) == "0"
    });
    set(&mut raw, "end", "1");
    assert_eq!(committed(&mut sql, "'end'"), "0");
    drop(sql);
    assert!(farm.stop().success());
    raw.is_closed();
    farm.start_again();
    let mut raw = Raw::connect(farm.kv);
    raw.asks(
        "get @@early.end\r\n",
        "VALUE @@early.end 0 1\r\n1\r\nEND\r\n",
    );
}

/// A successor's clients see what was acknowledged before it took over, and nothing is early behind its back.
#[test]
fn a_hand_over_comes_behind_their_commit() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let port = free_port();
    let mut router = Router::start(&format!(
        "kv_listen = \"127.0.0.1:{port}\"\nkv_auth = \"off\"\nkv_ack_before_commit = \"on\"\n\
         kv_commit_within_ms = 60000\n"
    ));
    router.run(&["group", "create", "g"]);
    router.run(&["group", "add", "g", &server.address().to_string()]);
    router.run(&["group", "activate", "g"]);
    router.run(&[
        "kv",
        "create",
        "early",
        "--table=d.kv",
        "--key=k",
        "--values=v",
        "--w_batch_size=9",
        "--make",
    ]);
    let mut sql = router.client();
    let kv = ([127, 0, 0, 1], port).into();
    let mut raw = Raw::connect(kv);
    raw.asks("get nothing\r\n", "END\r\n");
    set(&mut raw, "a", "1");
    assert_eq!(sql.value("SELECT COUNT(*) FROM d.kv"), "0");
    router.renew();
    assert_eq!(sql.value("SELECT COUNT(*) FROM d.kv"), "1");
    set(&mut raw, "b", "1");
    assert_eq!(sql.value("SELECT COUNT(*) FROM d.kv"), "2");
    let mut new = Raw::connect(kv);
    new.asks("get b\r\n", "VALUE b 0 1\r\n1\r\nEND\r\n");
}

testkit::on_both_engines! {
    an_operator_has_to_allow_them,
    who_asks_this_router_sees_them,
    what_a_table_may_refuse_is_never_early,
    they_are_committed_before_things_end,
}
