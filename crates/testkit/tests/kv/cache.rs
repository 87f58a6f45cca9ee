//! The row cache of the key-value door: what it remembers, when it does not, and that nobody reads
//! anything older than promised while rows change by every way that there is.
//!
//! `KV_READS` says how many reads the proof makes (`make test-kv`).

use std::net::SocketAddr;
use std::time::Duration;

use faults::Plant;
use serde_json::Value;
use testkit::client::{Failure, Reply, Value as Cell};
use testkit::coherence::{Kv, Proof, cache, fill, load, place, prepare, remembered};
use testkit::failover::site::Site;
use testkit::{Client, Farm, Release, holds_within, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn farm(release: Release, replicas: &str) -> Option<Farm> {
    let farm = Farm::start_on(
        release,
        &["--replicas", replicas, "--set", "max_lag_ms=1000"],
    )?;
    prepare(&[&farm]);
    Some(farm)
}

fn number(row: &Value, name: &str) -> u64 {
    row[name].as_u64().unwrap_or(0)
}

fn got(kv: &mut Kv, key: &str) -> Option<String> {
    kv.get(key).expect("it can be read")
}

fn is_open(farm: &Farm, container: &str) {
    let open = || cache(farm, container)["state"] == "open";
    wait_until(PATIENCE, "the cache is open", open);
}

/// Gets until the cache has answered.
fn is_remembered(farm: &Farm, kv: &mut Kv, container: &str, key: &str, value: &str) {
    wait_until(PATIENCE, "the row is remembered", || {
        let before = number(&cache(farm, container), "hits");
        let got = got(kv, &format!("@@{container}.{key}"));
        got.as_deref() == Some(value) && number(&cache(farm, container), "hits") > before
    });
}

fn remembers_and_forgets(release: Release) {
    let Some(farm) = farm(release, "1") else {
        return;
    };
    let mut client = farm.client();
    client.run("INSERT INTO d.t (id, v) VALUES (1, 'one'), (4000000000, 'big')");
    let mut kv = Kv::connect(farm.kv).expect("the door listens");
    is_open(&farm, "sure");
    is_remembered(&farm, &mut kv, "sure", "1", "one");
    is_remembered(&farm, &mut kv, "sure", "4000000000", "big");
    answers_in_order(&mut client, &mut kv);
    // A client's own change is seen at once, everybody else's soon.
    let stored = kv.set("@@sure.1", "two");
    assert_eq!(stored.expect("an answer"), "STORED");
    assert_eq!(got(&mut kv, "@@sure.1").as_deref(), Some("two"));
    is_remembered(&farm, &mut kv, "sure", "1", "two");
    client.run("UPDATE d.t SET v = 'three' WHERE id = 1");
    wait_until(PATIENCE, "the change is seen", || {
        got(&mut kv, "@@sure.1").as_deref() == Some("three")
    });
    is_remembered(&farm, &mut kv, "sure", "1", "three");
    // By an XA transaction, whose rows count when it is committed.
    for sql in [
        "XA START 'x'",
        "UPDATE d.t SET v = 'four' WHERE id = 1",
        "XA END 'x'",
        "XA PREPARE 'x'",
    ] {
        client.run(sql);
    }
    is_remembered(&farm, &mut kv, "sure", "1", "three");
    client.run("XA COMMIT 'x'");
    wait_until(PATIENCE, "the branch is seen", || {
        got(&mut kv, "@@sure.1").as_deref() == Some("four")
    });
    // DDL empties, and the cache opens again.
    is_remembered(&farm, &mut kv, "sure", "1", "four");
    client.run("ALTER TABLE d.t ADD COLUMN extra INT FIRST");
    client.run("UPDATE d.t SET v = 'five' WHERE id = 1");
    wait_until(PATIENCE, "the change is seen", || {
        got(&mut kv, "@@sure.1").as_deref() == Some("five")
    });
    is_open(&farm, "sure");
    is_remembered(&farm, &mut kv, "sure", "1", "five");
    answers_sql(&farm, &mut client);
    client.run("TRUNCATE d.t");
    let gone = || got(&mut kv, "@@sure.1").is_none();
    wait_until(PATIENCE, "it is gone", gone);
    says_why_not(&farm, &mut client);
}

/// The items of several keys.
fn gets(kv: &mut Kv, keys: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let asked = kv.say(format!("get {keys}\r\n").as_bytes());
    asked.expect("the door takes it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let good = kv.items(|key, value| all.push((text(key), text(value))));
    assert!(good.expect("they can be read"), "an error");
    all
}

/// What is remembered waits for what is not, and no number of replies is too large.
fn answers_in_order(client: &mut Client, kv: &mut Kv) {
    client.run("INSERT INTO d.t (id, v) VALUES (2, 'new')");
    let some = gets(kv, "@@sure.1 @@sure.2 @@sure.3 @@sure.1");
    let item = |key: &str, value: &str| (format!("@@sure.{key}"), value.to_owned());
    assert_eq!(some, [item("1", "one"), item("2", "new"), item("1", "one")]);
    const MANY: usize = 6000;
    let many = gets(kv, &["@@sure.1"; MANY].join(" "));
    assert_eq!(many, vec![item("1", "one"); MANY]);
    let asked = kv.say("get @@sure.1\r\n".repeat(MANY).as_bytes());
    asked.expect("the door takes it");
    for _ in 0..MANY {
        let reply = [0; 3].map(|_| kv.line().expect("an answer"));
        assert_eq!(reply, ["VALUE @@sure.1 0 3", "one", "END"]);
    }
}

/// Point SELECTs of who asks for it are answered as well, and never with what is old.
fn answers_sql(farm: &Farm, client: &mut Client) {
    let mut asking = farm.client();
    asking.run("SET heddle_row_cache = ON");
    assert_eq!(asking.value("SELECT @@heddle_row_cache"), "1");
    let asked = |client: &mut Client| client.value("SELECT v FROM d.t WHERE id = 1");
    for turn in 0..20 {
        let value = format!("sql {turn}");
        client.run(&format!("UPDATE d.t SET v = '{value}' WHERE id = 1"));
        wait_until(PATIENCE, "the change is seen", || {
            asked(&mut asking) == value
        });
        // Its own change is seen at once.
        asking.run(&format!("UPDATE d.t SET v = 'own {turn}' WHERE id = 1"));
        assert_eq!(asked(&mut asking), format!("own {turn}"));
    }
    asking.run("BEGIN");
    assert_eq!(asked(&mut asking), "own 19");
    asking.run("ROLLBACK");
    assert!(
        asking
            .query("SELECT v, NOW() FROM d.t WHERE id = 1")
            .is_ok()
    );
    wait_until(PATIENCE, "the cache answers", || {
        let before = hits(client);
        asked(&mut asking);
        hits(client) > before
    });
    client.run("UPDATE d.t SET v = 'five' WHERE id = 1");
}

/// The row's last cell, by a text or a prepared statement; empty without a row.
fn cell(replies: Result<Vec<Reply>, Failure>) -> String {
    let row = match replies.expect("it is answered").pop() {
        Some(Reply::Rows(rows)) => rows.text().pop(),
        other => panic!("no rows but {other:?}"),
    };
    row.and_then(|mut row| row.pop()?).unwrap_or_default()
}

/// Asks until a remembered reply has come, with this value.
fn is_answered(client: &mut Client, value: &str, mut ask: impl FnMut() -> String) {
    wait_until(PATIENCE, "the cache answers", || {
        let before = hits(client);
        ask() == value && hits(client) > before
    });
}

/// A table whose keys are texts: those of `bin` are known by their bytes, those of `ci` by a collation.
fn table_of_texts(farm: &Farm, client: &mut Client) {
    client.run(
        "CREATE TABLE d.texts (bin VARCHAR(20) COLLATE utf8mb4_bin PRIMARY KEY, \
         ci VARCHAR(20) COLLATE utf8mb4_general_ci UNIQUE, v VARCHAR(20)) CHARACTER SET utf8mb4",
    );
    client.run("INSERT INTO d.texts VALUES ('a', 'Ann', '1'), ('b', 'Bob', '2')");
    for key in ["bin", "ci"] {
        farm.make_container(&format!(
            "{key} --table=d.texts --key={key} --values=v --cache_bytes=1000000"
        ));
        is_open(farm, key);
    }
}

/// Prepared statements and keys that are texts.
fn point_selects(release: Release) {
    let Some(farm) = farm(release, "1") else {
        return;
    };
    let mut client = farm.client();
    client.run("INSERT INTO d.t (id, v) VALUES (1, 'one')");
    table_of_texts(&farm, &mut client);
    let mut asking = farm.client();
    asking.run("SET heddle_row_cache = ON");
    let by_id = asking.prepare("SELECT v FROM d.t WHERE id = ?");
    let by_id = by_id.expect("it is prepared");
    for key in [Cell::Int(1), Cell::UInt(1), Cell::from("1")] {
        is_answered(&mut client, "one", || {
            cell(asking.execute(&by_id, std::slice::from_ref(&key)))
        });
    }
    client.run("UPDATE d.t SET v = 'two' WHERE id = 1");
    wait_until(PATIENCE, "the change is seen", || {
        cell(asking.execute(&by_id, &[Cell::Int(1)])) == "two"
    });
    asking.run("UPDATE d.t SET v = 'own' WHERE id = 1");
    assert_eq!(cell(asking.execute(&by_id, &[Cell::Int(1)])), "own");
    assert_eq!(cell(asking.execute(&by_id, &[Cell::Int(2)])), "");
    texts_by_bytes(&mut client, &mut asking);
    texts_by_collation(&mut client, &mut asking);
}

fn texts_by_bytes(client: &mut Client, asking: &mut Client) {
    let prepared = asking.prepare("SELECT v FROM d.texts WHERE bin = ?");
    let prepared = prepared.expect("it is prepared");
    is_answered(client, "1", || {
        cell(asking.query("SELECT v FROM d.texts WHERE bin = 'a'"))
    });
    is_answered(client, "1", || {
        cell(asking.execute(&prepared, &["a".into()]))
    });
    // That there is none is remembered until there is one, by whatever text of it.
    let gone = "SELECT v FROM d.texts WHERE bin = 'new'";
    is_answered(client, "", || cell(asking.query(gone)));
    client.run("INSERT INTO d.texts VALUES ('new  ', 'x', '3')");
    wait_until(PATIENCE, "the row is seen", || {
        cell(asking.query(gone)) == "3"
    });
    is_answered(client, "3", || cell(asking.query(gone)));
    client.run("UPDATE d.texts SET bin = 'newer' WHERE bin = 'new'");
    wait_until(PATIENCE, "the row is gone", || {
        cell(asking.query(gone)).is_empty()
    });
    // An integer is compared with texts as a number: with many.
    let before = hits(client);
    (0..20).for_each(|_| drop(asking.query("SELECT v FROM d.texts WHERE bin = 0")));
    assert_eq!(hits(client), before);
}

fn texts_by_collation(client: &mut Client, asking: &mut Client) {
    let prepared = asking.prepare("SELECT ci, v FROM d.texts WHERE ci = ?");
    let prepared = prepared.expect("it is prepared");
    let told = "SELECT ci, v FROM d.texts WHERE ci = 'ANN'";
    is_answered(client, "1", || cell(asking.query(told)));
    is_answered(client, "1", || {
        cell(asking.execute(&prepared, &["aNN ".into()]))
    });
    client.run("UPDATE d.texts SET v = '4' WHERE bin = 'a'");
    wait_until(PATIENCE, "the change is seen", || {
        cell(asking.query(told)) == "4" && cell(asking.execute(&prepared, &["aNN ".into()])) == "4"
    });
    client.run("UPDATE d.texts SET ci = 'Eve' WHERE bin = 'a'");
    wait_until(PATIENCE, "the row is gone", || {
        cell(asking.query(told)).is_empty()
    });
    client.run("INSERT INTO d.texts VALUES ('c', 'Änn', '5')");
    wait_until(PATIENCE, "the row is seen", || {
        cell(asking.query(told)) == "5"
    });
    // Whose key nobody tells is asked for each time.
    let before = hits(client);
    for _ in 0..20 {
        let silent = asking.query("SELECT v FROM d.texts WHERE ci = 'bob'");
        assert_eq!(cell(silent), "2");
    }
    assert_eq!(hits(client), before);
}

#[test]
fn point_selects_are_answered_on_mariadb() {
    point_selects(Release::Installed);
}

#[test]
fn point_selects_are_answered_on_mysql() {
    point_selects(Release::MySql80);
}

fn hits(client: &mut Client) -> u64 {
    let rows = client.rows("HEDDLE STATUS LIKE 'cache_hits'");
    rows[0][1]
        .as_deref()
        .map_or(0, |hits| hits.parse().expect("a number"))
}

/// Tables whose changes no binlog tells are not remembered.
fn says_why_not(farm: &Farm, client: &mut Client) {
    client.run("CREATE TABLE d.p (id INT PRIMARY KEY)");
    client.run(
        "CREATE TABLE d.c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d.p (id) \
         ON DELETE SET NULL)",
    );
    let child = "child --table=d.c --key=id --values=p --cache_bytes=1000000";
    farm.make_container(child);
    wait_until(PATIENCE, "the reason is told", || {
        let state = cache(farm, "child")["state"].clone();
        state.as_str().is_some_and(|s| s.contains("SET NULL"))
    });
    let words = ["kv", "create"].into_iter().chain(child.split(' '));
    let strong: Vec<&str> = words.chain(["--consistency=strong"]).collect();
    let strong = farm.command(&strong);
    assert!(!strong.status.success());
    assert!(String::from_utf8_lossy(&strong.stderr).contains("leave out cache_bytes"));
}

#[test]
fn remembers_and_forgets_on_mariadb() {
    remembers_and_forgets(Release::Installed);
}

#[test]
fn remembers_and_forgets_on_mysql() {
    remembers_and_forgets(Release::MySql80);
}

fn reads_wanted() -> u64 {
    let given = std::env::var("KV_READS").ok();
    given.and_then(|text| text.parse().ok()).unwrap_or(200_000)
}

/// Where a server of this port listens.
fn here(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn primary_port(farm: &Farm) -> u16 {
    farm.primary(&group(farm)).port
}

fn group(farm: &Farm) -> String {
    farm.members()[0].group.clone()
}

/// Waits for a share of all reads, or for something wrong.
fn reaches(proof: &Proof, share: u64, of: u64) {
    let reached = || proof.reads() >= reads_wanted() / of * share || !proof.found().is_empty();
    holds_within(Duration::from_secs(3600), reached);
}

/// One router, whose primary is exchanged and then killed.
fn nobody_reads_what_is_old(release: Release) {
    let Some(farm) = farm(release, "2") else {
        return;
    };
    fill(&farm);
    let primary = here(primary_port(&farm));
    let wrong = load(&[place(&farm)], primary, reads_wanted(), |proof| {
        reaches(proof, 1, 3);
        farm.promote(&group(&farm), None);
        reaches(proof, 2, 3);
        let port = primary_port(&farm);
        let members = farm.members();
        let primary = members.iter().find(|member| member.port == port);
        primary.expect("it is a member").signal("KILL");
    });
    has_answered(&farm);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn nobody_reads_what_is_old_on_mariadb() {
    nobody_reads_what_is_old(Release::Installed);
}

#[test]
#[ignore = "make test-kv"]
fn nobody_reads_what_is_old_on_mysql() {
    nobody_reads_what_is_old(Release::MySql80);
}

/// Two routers, each with a cache of its own, while primaries are exchanged and killed, and a router is
/// killed.
fn nobody_at_two_routers_reads_what_is_old(release: Release) {
    let settings = ["kv_auth=off", "max_lag_ms=1000"];
    let Some(mut site) = Site::with_two_routers(release, &settings) else {
        return;
    };
    site.settle().expect("the group becomes whole");
    let routers: Vec<&Farm> = site.routers.iter().collect();
    prepare(&routers);
    fill(routers[0]);
    let places: Vec<_> = routers.iter().map(|farm| place(farm)).collect();
    let primary = site.nodes()[site.primary().expect("there is one")].direct;
    let wrong = load(&places, primary, reads_wanted(), |proof| {
        for share in 1..6 {
            reaches(proof, share, 6);
            match share {
                1 | 4 => promote(&site),
                2 | 5 => kill_primary(&site),
                _ => site.routers[1].kill_up(),
            }
            // A server may be filled with the data of one that is found to be astray later.
            let whole = (0..3).any(|_| site.settle().is_ok());
            assert!(whole, "the group does not become whole again");
        }
    });
    site.routers.iter().for_each(has_answered);
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn promote(site: &Site) {
    let promoted = || site.command(&["group", "promote", "g1"]).status.success();
    wait_until(PATIENCE, "another server leads", promoted);
}

fn kill_primary(site: &Site) {
    let primary = site.primary().expect("the group is whole");
    site.nodes()[primary].signal("KILL");
}

fn has_answered(farm: &Farm) {
    let answered = remembered(farm);
    assert!(
        answered > 0,
        "nothing was remembered: {}",
        cache(farm, "fast")
    );
}

#[test]
#[ignore = "make test-kv"]
fn nobody_at_two_routers_reads_what_is_old_on_mariadb() {
    nobody_at_two_routers_reads_what_is_old(Release::Installed);
}

#[test]
#[ignore = "make test-kv"]
fn nobody_at_two_routers_reads_what_is_old_on_mysql() {
    nobody_at_two_routers_reads_what_is_old(Release::MySql80);
}

/// A planted fault shows before so many.
const READS_UNTIL_FOUND: u64 = 200_000_000;

/// What the proof itself is worth.
fn finds(plant: Plant) {
    let Some(farm) = farm(Release::Installed, "1") else {
        return;
    };
    let faults = farm.faults();
    std::fs::create_dir_all(&faults).expect("a directory");
    std::fs::write(faults.join(plant.name()), "").expect("a file");
    fill(&farm);
    let primary = here(primary_port(&farm));
    let wrong = load(&[place(&farm)], primary, READS_UNTIL_FOUND, |_| {});
    assert!(!wrong.is_empty(), "{plant:?} was not found");
}

#[test]
#[ignore = "make test-kv"]
fn rows_that_are_kept_too_long_are_found() {
    finds(Plant::KeepsChangedRows);
}

#[test]
#[ignore = "make test-kv"]
fn events_that_are_believed_too_early_are_found() {
    finds(Plant::BelievesEvents);
}
