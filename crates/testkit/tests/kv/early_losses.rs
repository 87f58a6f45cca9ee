//! Early writes whose commit fails: how many they are is counted and told, to operators and to their client; and
//! a primary that is killed between acknowledgement and commit loses none that is not counted.

use std::time::Duration;

use testkit::coherence::Kv;
use testkit::raw::Raw;
use testkit::{Farm, Release, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn counter(farm: &Farm, name: &str) -> u64 {
    let rows = farm.client().rows(&format!("HEDDLE STATUS LIKE '{name}'"));
    rows[0][1]
        .as_deref()
        .expect("a number")
        .parse()
        .expect("a number")
}

fn set(raw: &mut Raw, key: &str) {
    raw.asks(format!("set {key} 0 0 1\r\n1\r\n"), "STORED\r\n");
}

/// No server comes back in time: what was acknowledged is lost, and said to be.
fn what_is_lost_is_counted_and_told(release: Release) {
    let Some(farm) = Farm::start_on(
        release,
        &[
            "--replicas",
            "0",
            "--set",
            "kv_ack_before_commit=on",
            "--set",
            "kv_commit_within_ms=60000",
            "--set",
            "accounts_interval_ms=100",
            "--set",
            "failover_wait_ms=1",
        ],
    ) else {
        return;
    };
    farm.make_container("early --table=heddle.kv --key=k --values=v --w_batch_size=100");
    let mut raw = Raw::connect(farm.kv);
    raw.asks("get @@early.nothing\r\n", "END\r\n");
    for key in ["a", "b", "c"] {
        set(&mut raw, key);
    }
    farm.members()[0].signal("STOP");
    // The read wants them to be committed.
    raw.say("get a\r\n");
    farm.members()[0].signal("KILL");
    let line = raw.line();
    assert!(line.starts_with("SERVER_ERROR"), "{line}");
    assert_eq!(counter(&farm, "kv_acks_lost"), 3);
    // What the client asks next is not carried out: it hears of its losses.
    raw.say("set d 0 0 1\r\n1\r\n");
    let line = raw.line();
    assert!(
        line.starts_with("SERVER_ERROR 3 acknowledged writes of this connection were lost"),
        "{line}"
    );
    wait_until(PATIENCE, "the event", || {
        let events = farm.json(&["group", "events"]);
        events.iter().any(|it| it["event"] == "kv_acks_lost")
    });
    wait_until(PATIENCE, "the server again", || {
        raw.say("get d\r\n");
        raw.line() == "END"
    });
    let rows = farm.client().value("SELECT COUNT(*) FROM heddle.kv");
    assert_eq!(rows, "0");
    set(&mut raw, "e");
    raw.asks("get e\r\n", "VALUE e 0 1\r\n1\r\nEND\r\n");
}

/// A client that writes all the time; primaries die. No acknowledged write is missing that is not counted.
fn a_killed_primary_loses_none_in_silence(release: Release) {
    let Some(farm) = Farm::start_on(
        release,
        &[
            "--replicas",
            "2",
            "--set",
            "kv_ack_before_commit=on",
            "--set",
            "kv_commit_within_ms=20",
        ],
    ) else {
        return;
    };
    farm.make_container("early --table=heddle.kv --key=k --values=v --w_batch_size=32");
    let mut kv = Kv::connect(farm.kv).expect("a connection");
    kv.get("@@early.nothing").expect("an answer");
    let mut acknowledged = Vec::new();
    for round in 0..3 {
        for number in 0..400 {
            let key = format!("k{round}-{number}");
            let answer = kv.set(&format!("@@early.{key}"), "1").expect("an answer");
            if answer == "STORED" {
                acknowledged.push(key);
            }
            if number == 203 {
                farm.primary("g1").signal("KILL");
            }
        }
        wait_until(PATIENCE, "three servers", || {
            let health = farm.json(&["group", "health", "g1"]);
            let up = |it: &&serde_json::Value| it["is_alive"] == true && it["status"] != "FAULTY";
            health.iter().filter(up).count() == 3
        });
    }
    // A command that is no early write comes behind all that are.
    kv.get("@@early.k2-399").expect("an answer");
    let lost = counter(&farm, "kv_acks_lost");
    assert!(counter(&farm, "kv_acks_before_commit") > 300);
    let rows = farm.client().rows("/*ms=master*/SELECT k FROM heddle.kv");
    let there: std::collections::HashSet<String> =
        rows.into_iter().filter_map(|row| row[0].clone()).collect();
    let missing = acknowledged
        .iter()
        .filter(|key| !there.contains(*key))
        .count();
    assert!(
        missing as u64 <= lost,
        "{missing} are missing, and {lost} are counted"
    );
}

testkit::on_both_engines! {
    what_is_lost_is_counted_and_told,
    a_killed_primary_loses_none_in_silence,
}
