//! Reads that keep their promises, on servers that really replicate: a replica that is late on
//! purpose must never show a session less than it was promised.

use std::time::Duration;

use serde_json::Value;
use testkit::client::{Login, Reply};
use testkit::farm::Member;
use testkit::{Client, Farm, Release, wait_until};

/// For what takes a heartbeat or a probe or two on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// How late the late replica is.
const DELAY_S: u64 = 3;

/// A farm of a primary and two replicas, with a table, at the level session: what several connections of
/// one client share is the matter of other tests.
fn farm(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(release, &["--set", "consistency=session"])?;
    let mut client = farm.client();
    client.run("CREATE DATABASE promise");
    client.run("CREATE TABLE promise.t (id INT PRIMARY KEY, n INT)");
    Some(farm)
}

/// Has a replica apply everything that much later.
fn delay(member: &Member, seconds: u64) {
    let mut client = member.client();
    client.run("STOP SLAVE");
    client.run(&format!("CHANGE MASTER TO MASTER_DELAY = {seconds}"));
    client.run("START SLAVE");
}

/// `lag_ms` of `group health`, by the order of the servers.
fn lags(farm: &Farm) -> Vec<Option<f64>> {
    let health = farm.json(&["group", "health", "g1"]);
    health.iter().map(|row| row["lag_ms"].as_f64()).collect()
}

fn insert_and_read(client: &mut Client, id: usize) -> bool {
    client.run(&format!("INSERT INTO promise.t VALUES ({id}, {id})"));
    let count = format!("SELECT COUNT(*) FROM promise.t WHERE id = {id}");
    // A late replica may even lack the table.
    let found = client.query(count);
    matches!(found.as_deref(), Ok([Reply::Rows(rows)]) if rows.text()[0][0].as_deref() == Some("1"))
}

/// The server that a statement would go to, and why.
fn explained(client: &mut Client, sql: &str) -> Vec<String> {
    let row = client.rows(&format!("HEDDLE EXPLAIN {sql}")).remove(0);
    row.into_iter()
        .map(|cell| cell.unwrap_or_default())
        .collect()
}

const READ: &str = "SELECT id FROM promise.t";

/// A reset, or another login on the same connection, takes nothing away of what was promised.
fn sees_what_it_wrote_after_a_reset(writer: &mut Client) {
    for id in 120..220 {
        writer.run("DROP TABLE IF EXISTS promise.young");
        writer.run("CREATE TABLE promise.young (id INT PRIMARY KEY)");
        writer.run(&format!("INSERT INTO promise.young VALUES ({id})"));
        let again = match id % 2 {
            0 => writer.reset(),
            _ => writer.change_user(&Login::default()),
        };
        again.expect("the session starts anew");
        let read = writer.value("SELECT id FROM promise.young");
        assert_eq!(read, id.to_string());
    }
}

fn promises_are_kept(release: Release) {
    let Some(farm) = farm(release) else { return };
    let late = farm.member("g1-2");
    let primary = format!("127.0.0.1:{}", farm.member("g1-1").port);
    let late_address = format!("127.0.0.1:{}", late.port);
    delay(&late, DELAY_S);

    // Nobody but the heartbeat writes, and the lag is the delay all the same.
    wait_until(SOON, "the delay is seen as lag, and only there", || {
        let lags = lags(&farm);
        let is =
            |at: usize, low: f64, high: f64| lags[at].is_some_and(|lag| (low..high).contains(&lag));
        let delay_ms = (DELAY_S * 1000) as f64;
        is(0, 0.0, 1.0) && is(1, delay_ms - 1200.0, delay_ms * 4.0) && is(2, 0.0, 1000.0)
    });

    // What a session wrote it sees at once.
    let mut writer = farm.client();
    assert!((0..100).all(|id| insert_and_read(&mut writer, id)));

    // So does everybody who takes its token up.
    for id in 100..120 {
        writer.run(&format!("INSERT INTO promise.t VALUES ({id}, {id})"));
        let token = writer.value("SELECT @@heddle_token");
        let mut reader = farm.client();
        reader.run(&format!("SET heddle_token = '{token}'"));
        assert_eq!(
            reader.value("SELECT MAX(id) FROM promise.t"),
            id.to_string()
        );
    }

    sees_what_it_wrote_after_a_reset(&mut writer);

    // A bound keeps the late replica out; without one it serves, too.
    let mut reader = farm.client();
    reader.run("SET heddle_consistency = 'eventual', heddle_max_lag_ms = 1000");
    for _ in 0..50 {
        assert_ne!(explained(&mut reader, READ)[1], late_address);
    }
    reader.run("SET heddle_max_lag_ms = 4294967295, heddle_monotonic = off");
    let to = (0..10).map(|_| explained(&mut reader, READ)[1].clone());
    assert!(to.collect::<Vec<_>>().contains(&late_address));
    reader.run("SET heddle_consistency = strong");
    assert_eq!(explained(&mut reader, READ)[1], primary);

    // Nobody steps back in time, whatever the level: once it saw the row, it sees it again.
    let mut fickle = farm.client();
    for id in 1000..1020 {
        writer.run(&format!("INSERT INTO promise.t VALUES ({id}, {id})"));
        let count = format!("SELECT COUNT(*) FROM promise.t WHERE id = {id}");
        assert_eq!(fickle.value(&format!("/*ms=strong*/ {count}")), "1");
        for _ in 0..5 {
            assert_eq!(
                fickle.value(&format!("/*ms=eventual*/ {count}")),
                "1",
                "{id}"
            );
        }
    }

    // The checks above would see it if nothing were promised.
    let mut careless = farm.client();
    careless.run("SET heddle_consistency = eventual, heddle_max_lag_ms = 4294967295");
    careless.run("SET heddle_monotonic = off");
    let kept = (2000..2020).filter(|id| insert_and_read(&mut careless, *id));
    assert!(kept.count() < 20, "a late replica served none of the reads");
}

#[test]
fn promises_are_kept_on_mariadb() {
    promises_are_kept(Release::Installed);
}

#[test]
fn promises_are_kept_on_mysql() {
    promises_are_kept(Release::MySql80);
}

#[test]
fn what_cannot_be_promised_is_refused_and_the_session_goes_on() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let mut client = farm.client();
    let id = farm.json(&["manage", "ping"])[0]["farm_id"].clone();
    let Value::String(id) = id else {
        panic!("an id")
    };
    for (statement, number) in [
        ("SET heddle_consistency = 'best'".to_owned(), 1231),
        ("SET heddle_consistency = NULL".to_owned(), 1231),
        ("SET heddle_max_lag_ms = -5".to_owned(), 1231),
        ("SET heddle_max_lag_ms = 'soon'".to_owned(), 1231),
        ("SET heddle_monotonic = 2".to_owned(), 1231),
        ("SET heddle_token = 'none'".to_owned(), 1231),
        (
            "SET heddle_token = '1;another-farm;g1@1=0-1-1'".to_owned(),
            1231,
        ),
        (format!("SET heddle_token = '1;{id};g9@1=0-1-1'"), 1231),
        (format!("SET heddle_token = '1;{id};g1@7=0-1-1'"), 1231),
        // Nothing could ever fulfil it: there is no wait, and no read that fails later.
        (
            format!("SET heddle_token = '1;{id};g1@1=1-101-999999999'"),
            1231,
        ),
        ("SET GLOBAL heddle_consistency = 'strong'".to_owned(), 1228),
        ("SET heddle_consistensy = 'strong'".to_owned(), 1193),
        (
            "SET heddle_consistency = 'strong', sql_mode = ''".to_owned(),
            1105,
        ),
        ("SELECT @@heddle_what".to_owned(), 1193),
        ("/*heddle consistency=best*/ SELECT 1".to_owned(), 1231),
        ("/*heddle max_lag_ms=-1*/ SELECT 1".to_owned(), 1231),
    ] {
        let refused = client.query(&statement).expect_err(&statement);
        assert_eq!(refused.number(), number, "{statement}: {refused}");
    }
    assert_eq!(client.value("SELECT @@heddle_consistency"), "session");
    client.run(&format!("SET heddle_token = '1;{id}'"));
    // Texts that cannot be prepared say so in the way that drivers know.
    let refused = client.prepare("SET heddle_consistency = ?");
    assert_eq!(refused.err().map(|failure| failure.number()), Some(1295));
    client.run("INSERT INTO promise.t VALUES (1, 1)");
    assert_eq!(client.value("SELECT n FROM promise.t"), "1");
}

/// A set with tags is read, and what nobody has of it is refused at once: there is no read that waits for it.
/// What is no set of GTIDs never reaches a server.
#[test]
fn a_token_may_name_tags_and_holds_nothing_else() {
    let Some(farm) = farm(Release::MySql80) else {
        return;
    };
    let mut client = farm.client();
    client.run("INSERT INTO promise.t VALUES (1, 1)");
    let token = client.value("SELECT @@heddle_token");
    let (place, set) = token.rsplit_once('=').expect("a position");
    let (uuid, _) = set.split_once(':').expect("a source");
    let mut reader = farm.client();
    let tagged = format!("SET heddle_token = '{place}={set}:Tag_1:1-3:7'");
    let refused = reader.query(&tagged).expect_err("nobody has it");
    let why = refused.to_string();
    assert!(why.contains("does not have what it promises"), "{why}");
    reader.run(&format!("SET heddle_token = '{place}={set}:tag:5-4'"));
    assert_eq!(reader.value("SELECT n FROM promise.t"), "1");
    for set in [
        "x', SLEEP(1000)) -- :1",
        &format!("{uuid}:x', SLEEP(1000)) -- :1"),
        &format!("{uuid}:a-b:1"),
        &format!("{uuid}:x-1"),
        &format!("{uuid}:0"),
        &format!("{uuid}:1:"),
        "u:1",
    ] {
        let statement = format!("SET heddle_token = \"{place}={set}\"");
        let refused = client.query(&statement).expect_err(&statement);
        assert_eq!(refused.number(), 1231, "{statement}: {refused}");
    }
    assert_eq!(client.value("SELECT n FROM promise.t"), "1");
}

#[test]
fn reads_follow_the_weights_though_sessions_stay_where_they_are() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let uuids: Vec<Value> = farm.json(&["group", "lookup_servers", "g1"]);
    let uuid = |name: &str| {
        let port = farm.member(name).port.to_string();
        let found = uuids.iter().find(|row| {
            row["address"]
                .as_str()
                .is_some_and(|address| address.ends_with(&port))
        });
        found.expect("the server")["server_uuid"]
            .as_str()
            .expect("a text")
            .to_owned()
    };
    farm.json(&["server", "set_weight", &uuid("g1-2"), "3"]);
    // Each server counts the rows that were read of the table: one for each read.
    let mut client = farm.client();
    client.run("INSERT INTO promise.t VALUES (1, 1)");
    let replicas = ["g1-2", "g1-3"];
    for name in replicas {
        farm.member(name).client().run("SET GLOBAL userstat = ON");
    }
    let read = |name: &str| -> f64 {
        let sql = "SELECT COALESCE(SUM(ROWS_READ), 0) FROM information_schema.TABLE_STATISTICS \
                   WHERE TABLE_SCHEMA = 'promise'";
        farm.member(name)
            .client()
            .value(sql)
            .parse()
            .expect("a number")
    };
    let mut client = farm.client();
    wait_until(SOON, "the row is on both replicas", || {
        client.rows(READ);
        replicas.into_iter().all(|name| read(name) > 0.0)
    });
    let before = replicas.map(read);
    // A session stays with its server between two looks at positions, which come late on a busy
    // machine; what that does to the shares is made up for by the reads that follow.
    let mut reads = 0.0;
    wait_until(
        SOON,
        "shares are within two in a hundred of the weights",
        || {
            (0..2000).for_each(|_| drop(client.rows(READ)));
            reads += 2000.0;
            let [heavy, light] = [read("g1-2") - before[0], read("g1-3") - before[1]];
            assert!(
                heavy + light > reads * 0.99,
                "the primary is left alone: {heavy} and {light}"
            );
            reads >= 10_000.0 && (heavy / (heavy + light) - 0.75).abs() < 0.02
        },
    );
}

#[test]
fn eventual_reads_may_be_answered_from_memory() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let mut writer = farm.client();
    writer.run("INSERT INTO promise.t VALUES (1, 1), (2, 2)");
    let count = "SELECT COUNT(*) FROM promise.t";
    let mut reader = farm.client();
    reader.run("SET heddle_consistency = eventual, heddle_cache_ttl_s = 3600");
    wait_until(
        SOON,
        "the rows are on the replicas, and their reply is kept",
        || reader.value(&format!("{count} -- {}", rand(&mut writer))) == "2",
    );
    wait_until(SOON, "the reply is kept", || {
        reader.value(count);
        hits(&mut reader) > 0
    });
    writer.run("INSERT INTO promise.t VALUES (3, 3)");
    assert_eq!(reader.value(count), "2", "as old as it was allowed to be");
    assert_eq!(reader.value("SELECT FOUND_ROWS()"), "1");
    // Other levels, other texts, other databases and other users ask the servers.
    assert_eq!(reader.value(&format!("/*ms=strong*/ {count}")), "3");
    assert_eq!(
        reader.value("/*ms=strong*/ SELECT COUNT(id) FROM promise.t"),
        "3"
    );
    writer.run("CREATE DATABASE elsewhere");
    writer.run("CREATE TABLE elsewhere.t (id INT)");
    let before = hits(&mut reader);
    reader.run("USE promise");
    reader.value("SELECT COUNT(*) FROM t");
    reader.run("USE elsewhere");
    wait_until(SOON, "another database has its own reply", || {
        let found = reader.query("SELECT COUNT(*) FROM t");
        matches!(found.as_deref(), Ok([Reply::Rows(rows)]) if rows.text()[0][0].as_deref() == Some("0"))
    });
    assert_eq!(hits(&mut reader), before);
    // A short life ends.
    let mut brief = farm.client();
    wait_until(
        SOON,
        "a reply that may live for a second is read anew",
        || brief.value(&format!("/*heddle cache_ttl_s=1*/ {count}")) == "3",
    );
    for (hint, number) in [
        ("cache_ttl_s=-1", 1231),
        ("cache_ttl_s=5 consistency=strong", 1231),
    ] {
        let refused = brief.query(format!("/*heddle {hint}*/ SELECT 1"));
        assert_eq!(
            refused.map_err(|failure| failure.number()).err(),
            Some(number),
            "{hint}"
        );
    }
}

fn hits(client: &mut Client) -> u64 {
    let rows = client.rows("HEDDLE STATUS LIKE 'cache_hits'");
    rows[0][1]
        .as_deref()
        .map_or(0, |hits| hits.parse().expect("a number"))
}

/// Something that no text had before.
fn rand(client: &mut Client) -> String {
    client.value("SELECT UUID()")
}
