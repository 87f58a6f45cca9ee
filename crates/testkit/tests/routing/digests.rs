//! Statements are counted by digest: a load that is known gives exact numbers, and nothing else does.

use std::path::Path;
use std::sync::mpsc::channel;

use serde_json::Value;
use session::{Message, Visit};
use statistics::Row;
use testkit::client::Value as Param;
use testkit::{Client, Door, Farm, Stage, wait_until};

/// ER_DUP_ENTRY.
const DUPLICATE: u16 = 1062;

/// For what a thread of the router writes behind an answer.
const SOON: std::time::Duration = std::time::Duration::from_secs(30);

/// The rows of the door's one core whose text begins so.
fn rows(door: &Door, begin: &str) -> Vec<Row> {
    let (tell, told) = channel();
    let visit = Visit::new(move |core| drop(tell.send(core.digests.rows(0, usize::MAX).0)));
    door.dealer().send(0, Message::Visit(visit));
    let mut rows = told.recv().expect("the core lives");
    rows.retain(|row| row.text.starts_with(begin));
    rows.sort_by(|a, b| (&a.text, &a.tag).cmp(&(&b.text, &b.tag)));
    rows
}

/// The only row whose text begins so.
#[track_caller]
fn row(door: &Door, begin: &str) -> Row {
    let mut rows = rows(door, begin);
    assert_eq!(rows.len(), 1, "{rows:?}");
    rows.remove(0)
}

#[test]
fn a_known_load_gives_exact_numbers() {
    for stage in &Stage::of_both_engines() {
        stage.database("counted");
        let door = stage.door();
        let mut client = door.client_in("counted");
        client.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))");
        client.run("INSERT INTO t VALUES (1, 'x'), (2, 'y')");
        client.run("INSERT INTO t VALUES (3, 'z')");
        for _ in 0..3 {
            assert_eq!(client.error("INSERT INTO t VALUES (3, 'again')"), DUPLICATE);
        }
        client.run("UPDATE t SET a = 'q' WHERE id IN (1, 2)");
        for id in 1..=4 {
            client.rows(&format!("/*ms=master*/ SELECT a FROM t WHERE id = {id}"));
        }
        let inserts = rows(&door, "INSERT INTO t VALUES (?");
        let calls: u64 = inserts.iter().map(|row| row.counts.calls).sum();
        let changed: u64 = inserts.iter().map(|row| row.counts.rows_changed).sum();
        assert_eq!((calls, changed), (5, 3), "{inserts:?}");
        let failed: Vec<_> = inserts.iter().flat_map(|row| &row.counts.errors).collect();
        assert_eq!(failed, [&(DUPLICATE, 3)]);
        let update = row(&door, "UPDATE t SET a = ?");
        assert_eq!((update.counts.calls, update.counts.rows_changed), (1, 2));
        let select = row(&door, "/*ms=master*/ SELECT a FROM t");
        assert_eq!((select.counts.calls, select.counts.rows_sent), (4, 3));
        assert_eq!(
            (&*select.user, &*select.database),
            (&b"root"[..], &b"counted"[..])
        );
        assert_eq!((&*select.group, &*select.tag), ("g1", ""));
        assert!(select.counts.bytes > 100 && select.counts.first_ms <= select.counts.last_ms);
        assert!(select.example.is_none(), "literals are shown to nobody");
    }
}

#[test]
fn prepared_statements_and_pipelines_count_one_by_one() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let mut client = door.client();
        let text = "SELECT name, ? FROM stage.who /*route='/prepared'*/";
        let statement = client.prepare(text).expect("prepared");
        for number in 0..3 {
            let executed = client.execute(&statement, &[Param::from(number)]);
            executed.expect("executed");
        }
        let prepared = row(&door, "SELECT name, ? FROM stage.who");
        assert_eq!((prepared.counts.calls, prepared.counts.rows_sent), (3, 3));
        assert_eq!(&*prepared.tag, "route=/prepared");

        let mut client = door.client();
        let texts = [
            "SELECT 'first' FROM stage.who",
            "SELECT 2, 3 FROM stage.who /*route='/b'*/",
            "SELECT 'third' FROM stage.who",
            "SELECT nothing FROM stage.who",
            "SELECT 2, 3 FROM stage.who /*route='/b'*/",
        ];
        let answers = client.pipelined(&texts);
        assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 4);
        let counted = |begin: &str| {
            let row = row(&door, begin);
            (row.counts.calls, row.counts.failed(), row.counts.rows_sent)
        };
        assert_eq!(counted("SELECT ? FROM stage.who"), (2, 0, 2));
        assert_eq!(counted("SELECT ?, ? FROM stage.who"), (2, 0, 2));
        assert_eq!(counted("SELECT nothing FROM stage.who"), (1, 1, 0));
        assert_eq!(&*row(&door, "SELECT ?, ?").tag, "route=/b");
        let one = row(&door, "SELECT ? FROM stage.who").counts.bytes;
        let other = row(&door, "SELECT ?, ? FROM stage.who").counts.bytes;
        assert!(
            one > 0 && other > one,
            "{one} {other}: two columns are more"
        );
    }
}

#[test]
fn comments_of_applications_split_digests_and_others_do_not() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    for comment in [
        "/* some remark */",
        "/* another: remark */",
        "/*!99999 main.php:12 */",
        "/*app:web,controller:users,pid:1*/",
        "/*app:web,controller:users,pid:2*/",
        "/*traceparent='00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'*/",
    ] {
        client.rows(&format!("SELECT name FROM stage.who {comment}"));
    }
    let rows = rows(&door, "SELECT name FROM stage.who");
    let told: Vec<_> = rows
        .iter()
        .map(|row| (&*row.tag, row.counts.calls))
        .collect();
    assert_eq!(
        told,
        [("", 3), ("app:web,controller:users", 2), ("main.php:12", 1)]
    );
    let digest = rows[0].digest;
    assert!(rows.iter().all(|row| row.digest == digest));
}

#[test]
fn the_switch_and_the_bound_hold_at_once() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    client.rows("SELECT name FROM stage.who");
    door.tune(|in_force| in_force.counting.on = false);
    client.rows("SELECT name FROM stage.who");
    door.tune(|in_force| {
        in_force.counting.on = true;
        in_force.counting.examples = true;
    });
    client.rows("SELECT name FROM stage.who");
    assert_eq!(row(&door, "SELECT name").counts.calls, 2);

    client.rows("SELECT 'shown' AS a FROM stage.who");
    client.rows("SELECT 'hidden' AS passwd FROM stage.who");
    let example = |begin: &str| row(&door, begin).example.map(|text| text.to_string());
    assert_eq!(
        example("SELECT ? AS a").as_deref(),
        Some("SELECT 'shown' AS a FROM stage.who")
    );
    assert_eq!(example("SELECT ? AS passwd"), None);
    door.tune(|in_force| in_force.counting.examples = false);
    client.rows("SELECT name FROM stage.who");
    assert_eq!(example("SELECT ? AS a"), None, "it is forgotten");

    door.tune(|in_force| in_force.counting.bytes_max = 64 << 10);
    for number in 0..200 {
        client.rows(&format!("SELECT name AS n{number} FROM stage.who"));
    }
    let kept = rows(&door, "SELECT name AS").len();
    assert!((1..200).contains(&kept), "{kept}");
    assert_eq!(rows(&door, "SELECT name AS n199").len(), 1);
    wait_until(SOON, "the tick that counts what went", || {
        door.counter("digests_evicted") > 0
    });
    assert!(door.counter("digest_bytes_now") <= 64 << 10);
}

#[test]
fn waiting_is_told_from_serving() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    client.rows("/*ms=master*/ SELECT SLEEP(0.2)");
    let counts = row(&door, "/*ms=master*/ SELECT SLEEP").counts;
    let served_us = counts.total_us - counts.waiting_us;
    assert!(served_us >= 200_000, "{counts:?}");
    assert_eq!(counts.most_us, counts.total_us);
}

#[test]
fn a_profile_looks_back() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    client.rows("SELECT name FROM stage.who");
    let profile = |client: &mut Client, words: &str| client.rows(&format!("HEDDLE PROFILE{words}"));
    assert_eq!(profile(&mut client, "").len(), 1);
    client.rows("SELECT name FROM stage.who UNION ALL SELECT 'b' /*route='/two'*/");
    client.rows("SELECT name FROM stage.who UNION ALL SELECT 'b' UNION ALL SELECT 'c'");
    let rows_of = |profile: Vec<Vec<Option<String>>>| profile[0][8].clone().expect("a number");
    for (words, rows) in [("", "3"), (" FOR 1", "3"), (" FOR 2", "2"), (" FOR 3", "1")] {
        assert_eq!(rows_of(profile(&mut client, words)), rows, "{words}");
    }
    let second = profile(&mut client, " FOR 2").remove(0);
    assert_eq!(second[21].as_deref(), Some("route=/two"), "{second:?}");
    assert!(profile(&mut client, " FOR 4").is_empty());
    for _ in 0..120 {
        client.rows("SELECT name FROM stage.who");
    }
    assert_eq!(rows_of(profile(&mut client, " FOR 100")), "1");
    let refused = client
        .query("HEDDLE PROFILE FOR 101")
        .expect_err("too far back");
    assert!(refused.to_string().contains("usage"), "{refused}");
}

/// The row of `digest list` whose tag is this.
fn listed(rows: &[Value], tag: &str) -> Value {
    let found = rows.iter().find(|row| row["tag"] == tag);
    found
        .cloned()
        .unwrap_or_else(|| panic!("no {tag} in {rows:?}"))
}

#[test]
fn commands_and_the_slow_log_tell_of_them() {
    let log = tempfile::tempdir().expect("a directory");
    let path = log.path().join("slow.log");
    let setting = format!("slow_log={}", path.display());
    let flags = [
        "--replicas",
        "0",
        "--set",
        &setting,
        "--set",
        "slow_log_ms=200",
    ];
    let Some(farm) = Farm::start(&flags) else {
        return;
    };
    let mut client = farm.client();
    for _ in 0..3 {
        client.rows("SELECT 'quick' /*route='/quick'*/");
    }
    client.rows("SELECT SLEEP(0.3), 'secret' /*route='/slow'*/");
    let digest = lists_have_what_was_counted(&farm);
    who_may_only_look_sees_no_texts(&farm, &digest);
    the_slow_log_has_a_line(&path);
    assert!(farm.json(&["digest", "reset"])[0]["rows"].as_u64() > Some(1));
    let rows = farm.json(&["digest", "list"]);
    assert!(
        rows.iter().all(|row| row["tag"] != "route=/quick"),
        "{rows:?}"
    );
}

/// Gives the digest of the quick statement.
fn lists_have_what_was_counted(farm: &Farm) -> String {
    let rows = farm.json(&["digest", "list", "--order", "calls"]);
    let quick = listed(&rows, "route=/quick");
    assert_eq!(
        (&quick["calls"], &quick["text"]),
        (&3.into(), &"SELECT ?".into())
    );
    assert_eq!(
        (&quick["user"], &quick["rows_sent"]),
        (&"root".into(), &3.into())
    );
    assert!(!quick["router"].as_str().unwrap_or_default().is_empty());
    let first = farm.json(&["digest", "list", "--order", "time", "--limit", "1"]);
    assert_eq!((first.len(), &first[0]["tag"]), (1, &"route=/slow".into()));
    let lately = farm.json(&["digest", "list", "--since", "5m"]);
    let quick_lately = listed(&lately, "route=/quick");
    assert_eq!(
        (&quick_lately["calls"], &quick_lately["rows_sent"]),
        (&3.into(), &3.into())
    );
    assert_eq!(quick_lately["server_ms_p50"], Value::Null);
    let refused = farm.command(&["digest", "list", "--since", "yesterday"]);
    assert!(!refused.status.success());
    let digest = quick["digest"].as_str().expect("a digest");
    let shown = farm.json(&["digest", "show", &digest[..12]]);
    assert!(
        shown.iter().any(|row| row["tag"] == "route=/quick"),
        "{shown:?}"
    );
    assert!(
        shown[0]["times"]
            .as_str()
            .unwrap_or_default()
            .contains("us:"),
        "{shown:?}"
    );
    digest.to_owned()
}

fn who_may_only_look_sees_no_texts(farm: &Farm, digest: &str) {
    let mut client = farm.client();
    client.run("CREATE USER looks@'%' IDENTIFIED BY 'x'");
    client.run("GRANT PROCESS ON *.* TO looks@'%'");
    let mut looks = Client::connect(farm.sql, "looks", "x").expect("an account");
    let rows = looks.rows("HEDDLE DIGEST LIST");
    assert!(
        !rows.is_empty() && rows.iter().all(|row| row[1].is_none()),
        "{rows:?}"
    );
    assert_eq!(looks.error(&format!("HEDDLE DIGEST SHOW {digest}")), 1227);
    assert_eq!(looks.error("HEDDLE DIGEST RESET"), 1227);
}

fn the_slow_log_has_a_line(path: &Path) {
    let mut found = None;
    wait_until(SOON, "a line of the slow log", || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        // The last line may not be whole yet.
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let mut read = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        found = read.find(|line| line["tag"] == "route=/slow");
        found.is_some()
    });
    let line = found.expect("it was found");
    assert_eq!(line["user"], "root");
    assert_eq!(line["text"], "SELECT SLEEP(?), ?");
    assert!(line["ms"].as_f64().is_some_and(|ms| ms >= 300.0), "{line}");
    assert_eq!(line["error"], Value::Null);
}
