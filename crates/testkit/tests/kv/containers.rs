//! Containers from outside: where they are declared, their rows over HTTP, and whether a strong one is like
//! one copy of its rows.

use std::io::Read;
use std::time::{Duration, Instant};

use testkit::linear::{Act, Event, check};
use testkit::raw::{Raw, show};
use testkit::{Client, Farm, Release, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(20);

fn farm(release: Release, flags: &[&str]) -> Option<Farm> {
    Farm::start_on(release, &[&["--replicas", "0"], flags].concat())
}

/// What a migration from the plugin finds: its configuration tables as they were shipped.
fn containers_of_the_plugin_are_read_where_they_stand(release: Release) {
    let Some(farm) = farm(release, &["--set", "accounts_interval_ms=100"]) else {
        return;
    };
    let mut sql = farm.client();
    for text in [
        "CREATE DATABASE innodb_memcache",
        "CREATE DATABASE test",
        "CREATE TABLE innodb_memcache.containers (name VARCHAR(50) PRIMARY KEY, db_schema VARCHAR(250) NOT NULL, \
         db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), \
         flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), expire_time_column VARCHAR(250), \
         unique_idx_name_on_key VARCHAR(250) NOT NULL)",
        "CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) PRIMARY KEY, value VARCHAR(50))",
        "INSERT INTO innodb_memcache.config_options VALUES ('separator', '/'), ('table_map_delimiter', '.')",
        "CREATE TABLE test.demo_test (c1 VARCHAR(32) PRIMARY KEY, c2 VARCHAR(1024), c3 INT, \
         c4 BIGINT UNSIGNED, c5 INT, c6 INT)",
        "INSERT INTO test.demo_test VALUES ('AA', 'HELLO, HELLO', 8, 0, 0, 5)",
        "INSERT INTO innodb_memcache.containers VALUES \
         ('aaa', 'test', 'demo_test', 'c1', 'c2', 'c3', 'c4', 'c5', 'PRIMARY'), \
         ('two', 'test', 'demo_test', 'c1', 'c2|c6', '0', '0', '0', 'PRIMARY'), \
         ('broken', 'test', 'demo_test', 'c1', NULL, '0', '0', '0', 'PRIMARY')",
    ] {
        sql.run(text);
    }
    wait_until(PATIENCE, "the plugin's containers", || {
        farm.json(&["kv", "list"]).len() == 3
    });
    let mut raw = Raw::connect(farm.kv);
    raw.asks(
        "get @@aaa.AA\r\n",
        "VALUE @@aaa.AA 8 12\r\nHELLO, HELLO\r\nEND\r\n",
    );
    raw.asks(
        "get @@two.AA\r\nset @@two.BB 0 0 4\r\nB//7\r\n",
        "VALUE @@two.AA 0 14\r\nHELLO, HELLO/5\r\nEND\r\n\
         CLIENT_ERROR the value has more than 2 parts\r\n",
    );
    raw.asks("set @@two.BB 0 0 3\r\nB/7\r\n", "STORED\r\n");
    assert_eq!(
        sql.value("SELECT CONCAT(c2, c6) FROM test.demo_test WHERE c1 = 'BB'"),
        "B7"
    );
    raw.asks("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
    let dropped = farm.command(&["kv", "drop", "aaa"]);
    assert!(show(&dropped.stderr).contains("innodb_memcache.containers"));
}

/// The plugin's tables with a delimiter and policies of their own.
fn with_options(farm: &Farm) -> Client {
    let mut sql = farm.client();
    let words = "ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL";
    for text in [
        "CREATE DATABASE innodb_memcache",
        "CREATE DATABASE test",
        "CREATE TABLE innodb_memcache.config_options (name VARCHAR(50) PRIMARY KEY, value VARCHAR(50))",
        "INSERT INTO innodb_memcache.config_options VALUES ('table_map_delimiter', '::'), ('w_batch_size', '32')",
        &format!(
            "CREATE TABLE innodb_memcache.cache_policies (policy_name VARCHAR(40) PRIMARY KEY, \
             get_policy {words}, set_policy {words}, delete_policy {words}, flush_policy {words})"
        ),
        "INSERT INTO innodb_memcache.cache_policies VALUES \
         ('cache_policy', 'innodb_only', 'caching', 'disabled', 'innodb_only'), \
         ('later', 'disabled', 'disabled', 'disabled', 'disabled')",
        "CREATE TABLE test.t (c1 VARCHAR(32) PRIMARY KEY, c2 VARCHAR(1024))",
        "INSERT INTO test.t VALUES ('AA', 'first'), ('B::B', 'second')",
        "CREATE TABLE innodb_memcache.containers (name VARCHAR(50) PRIMARY KEY, db_schema VARCHAR(250) NOT NULL, \
         db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), \
         flags VARCHAR(250) NOT NULL DEFAULT '0', cas_column VARCHAR(250), expire_time_column VARCHAR(250), \
         unique_idx_name_on_key VARCHAR(250) NOT NULL)",
        "INSERT INTO innodb_memcache.containers VALUES \
         ('a.b', 'test', 't', 'c1', 'c2', '0', '0', '0', 'PRIMARY')",
    ] {
        sql.run(text);
    }
    sql
}

/// The plugin's options beside the containers: the delimiter behind a name, and the policies of the first row.
fn options_and_policies_of_the_plugin_hold(release: Release) {
    let Some(farm) = farm(release, &["--set", "accounts_interval_ms=100"]) else {
        return;
    };
    let mut sql = with_options(&farm);
    let known = |farm: &Farm| {
        farm.json(&["kv", "list"])
            .iter()
            .any(|it| it["name"] == "a.b")
    };
    wait_until(PATIENCE, "the plugin's container", || known(&farm));
    // Acknowledged means committed, whatever the option says; and it is said that the option is not followed.
    let events = farm.json(&["group", "events"]);
    let refused = events
        .iter()
        .filter(|it| it["event"] == "kv_option_refused");
    assert_eq!(refused.count(), 1, "{events:?}");
    let mut raw = Raw::connect(farm.kv);
    raw.asks(
        "get @@a.b::AA\r\n",
        "VALUE @@a.b::AA 0 5\r\nfirst\r\nEND\r\n",
    );
    raw.asks(
        "get @@a.b::B::B\r\n",
        "VALUE @@a.b::B::B 0 6\r\nsecond\r\nEND\r\n",
    );
    raw.asks("get @@a.b\r\n", "VALUE @@a.b 0 6\r\ntest/t\r\nEND\r\n");
    // It is the connection's container now.
    raw.asks("set CC 0 0 5\r\nthird\r\n", "STORED\r\n");
    let off = "CLIENT_ERROR the delete_policy in innodb_memcache.cache_policies disables this\r\n";
    raw.asks("delete CC\r\n", off);
    assert_eq!(sql.value("SELECT COUNT(*) FROM test.t"), "3");
    // A container of Heddle's own is not the plugin's.
    farm.make_container("own --table test.t --key c1 --values c2");
    raw.asks(
        "get @@own.AA\r\ndelete @@own.CC\r\n",
        "VALUE @@own.AA 0 5\r\nfirst\r\nEND\r\nDELETED\r\n",
    );
    raw.asks(
        "get @@a.b\r\nflush_all\r\n",
        "VALUE @@a.b 0 6\r\ntest/t\r\nEND\r\nOK\r\n",
    );
    assert_eq!(sql.value("SELECT COUNT(*) FROM test.t"), "0");
    sql.run(
        "UPDATE innodb_memcache.cache_policies SET get_policy = 'cache_only', flush_policy = 'disabled' \
         WHERE policy_name = 'cache_policy'",
    );
    let memory = "CLIENT_ERROR the get_policy in innodb_memcache.cache_policies is cache_only, and Heddle keeps \
                  nothing but the rows of tables\r\n";
    wait_until(PATIENCE, "the new policy", || {
        let mut raw = Raw::connect(farm.kv);
        raw.say("get @@a.b::AA\r\nquit\r\n");
        let mut answer = String::new();
        raw.0.read_to_string(&mut answer).expect("an answer");
        answer == memory
    });
    raw.asks("flush_all\r\n", "CLIENT_ERROR flush_all not allowed\r\n");
}

fn rows_are_there_over_http(release: Release) {
    let Some(farm) = farm(release, &[]) else {
        return;
    };
    let mut sql = farm.client();
    sql.run("CREATE DATABASE shop");
    sql.run(
        "CREATE TABLE shop.city (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL, size INT, \
         raw VARBINARY(9), code CHAR(2) UNIQUE)",
    );
    farm.make_container("city --table shop.city --key id --values name,size,raw,code");
    let token = std::fs::read_to_string(farm.dir().join("token")).expect("up wrote it");
    let ask = |method: &str, key: &str, headers: &str, body: &str| -> (u16, String, String) {
        let mut raw = Raw::connect(farm.http);
        raw.say(format!(
            "{method} /v1/rows/city/{key} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            token.trim(),
            body.len()
        ));
        let mut answer = String::new();
        raw.0.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let tag = head.lines().find_map(|line| line.strip_prefix("etag: "));
        let tag = tag.unwrap_or_default().to_owned();
        (status.expect("a status"), tag, body.to_owned())
    };
    assert_eq!(ask("GET", "1", "", "").0, 404);
    let row = r#"{"name":"Köln","size":1000000,"raw":{"base64":"AP8="},"code":null}"#;
    let (status, tag, _) = ask("PUT", "1", "", row);
    assert_eq!(status, 204);
    assert_eq!(
        sql.value("SELECT CONCAT_WS(',', name, size, HEX(raw), code IS NULL) FROM shop.city"),
        "Köln,1000000,00FF,1"
    );
    assert_eq!(ask("GET", "1", "", ""), (200, tag.clone(), row.to_owned()));
    assert_eq!(
        ask("GET", "1", &format!("If-None-Match: {tag}\r\n"), "").0,
        304
    );
    sql.run("UPDATE shop.city SET size = 5");
    let stale = format!("If-Match: {tag}\r\n");
    assert_eq!(ask("PUT", "1", &stale, row).0, 412);
    assert_eq!(ask("DELETE", "1", &stale, "").0, 412);
    assert_eq!(ask("PUT", "1", "If-None-Match: *\r\n", row).0, 412);
    assert_eq!(ask("PUT", "2", "", r#"{"name":"Bonn","code":"bn"}"#).0, 204);
    assert_eq!(
        ask("PUT", "3", "", r#"{"name":"Berlin","code":"bn"}"#).0,
        409
    );
    assert_eq!(ask("PUT", "3", "", r#"{"name":null}"#).0, 409);
    assert_eq!(ask("PUT", "3", "", r#"{"name":"B","no":1}"#).0, 400);
    assert_eq!(ask("PUT", "3", "", r#"{"name":"B","size":"x"}"#).0, 400);
    assert_eq!(ask("DELETE", "1", "", "").0, 204);
    assert_eq!(ask("DELETE", "1", "", "").0, 404);
    assert_eq!(sql.value("SELECT GROUP_CONCAT(id) FROM shop.city"), "2");
}

/// Keys that all clients use.
const KEYS: usize = 4;
const CLIENTS: u64 = 6;
const COMMANDS: u64 = 400;

/// One client's commands, and what it heard; by key.
fn one_client(farm: &Farm, number: u64, began: Instant) -> Vec<(usize, Event)> {
    let mut raw = Raw::connect(farm.kv);
    let mut seed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |limit: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed % limit
    };
    let micros = || u64::try_from(began.elapsed().as_micros()).expect("not so long");
    let mut seen = Vec::new();
    for command in 0..COMMANDS {
        let key = below(KEYS as u64) as usize;
        let value = number * 1_000_000 + command * 100;
        let digits = value.to_string();
        let store = |verb: &str| format!("{verb} l{key} 0 0 {}\r\n{digits}\r\n", digits.len());
        let what = below(10);
        let request = match what {
            0..4 => format!("get l{key}\r\n"),
            4 | 5 => store("set"),
            6 => store("add"),
            7 => format!("delete l{key}\r\n"),
            _ => format!("incr l{key} 1\r\n"),
        };
        let asked = micros();
        raw.say(request);
        let line = raw.line();
        let number = || -> u64 { line.parse().unwrap_or_else(|_| panic!("no number: {line}")) };
        let act = match (what, line.as_str()) {
            (0..4, "END") => Act::Get(None),
            (0..4, _) => {
                let value = raw.line().trim().parse().expect("a number was stored");
                raw.hears("END\r\n");
                Act::Get(Some(value))
            }
            (4 | 5, _) => Act::Set(value),
            (6, answer) => Act::Add {
                value,
                stored: answer == "STORED",
            },
            (7, answer) => Act::Delete {
                found: answer == "DELETED",
            },
            (_, "NOT_FOUND") => Act::Count { by: 1, sum: None },
            _ => Act::Count {
                by: 1,
                sum: Some(number()),
            },
        };
        let answered = Some(micros());
        let event = Event {
            act,
            asked,
            answered,
        };
        seen.push((key, event));
    }
    seen
}

/// Reads go to replicas, too: at the level strong nobody can tell.
fn a_strong_container_is_like_one_copy_of_its_rows(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    farm.make_container(
        "default --table=heddle.kv --key=k --values=v --flags=flags --cas=cas --expire=expire \
         --consistency=strong",
    );
    let began = Instant::now();
    let all: Vec<(usize, Event)> = std::thread::scope(|scope| {
        let farm = &farm;
        let clients = 1..=CLIENTS;
        let clients: Vec<_> = clients
            .map(|number| scope.spawn(move || one_client(farm, number, began)))
            .collect();
        let done = clients.into_iter().map(|client| client.join());
        done.flat_map(|seen| seen.expect("the client got its answers"))
            .collect()
    });
    for wanted in 0..KEYS {
        let of_key = all.iter().filter(|(key, _)| *key == wanted);
        let mut history: Vec<Event> = of_key.map(|(_, event)| *event).collect();
        assert_eq!(check(&history), Ok(()), "key {wanted}");
        // A read that nobody could have seen is found among them.
        let planted = history
            .iter_mut()
            .rev()
            .find_map(|event| match &mut event.act {
                Act::Get(Some(seen)) => Some(seen),
                _ => None,
            });
        *planted.expect("something was read") += 7;
        assert!(
            check(&history).is_err(),
            "key {wanted} with a planted fault"
        );
    }
}

/// A server of this group that follows.
fn replica(farm: &Farm, group: &str) -> Client {
    let member = farm.in_role(group, "SECONDARY");
    member.expect("a replica").client()
}

/// What was written to another group since does not make a client forget what it wrote to this one.
fn own_writes_to_several_groups_are_seen(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--groups", "2", "--replicas", "1"]) else {
        return;
    };
    let mut sql = farm.client();
    sql.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    sql.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    sql.run("CREATE DATABASE d");
    sql.run(
        "CREATE TABLE d.s (k INT PRIMARY KEY, v VARCHAR(20)) /*heddle shard_map=shop shard_key=k*/",
    );
    farm.make_container("s --table=d.s --key=k --values=v --consistency=session");
    let mut raw = Raw::connect(farm.kv);
    raw.asks("get @@s\r\n", "VALUE @@s 0 3\r\nd/s\r\nEND\r\n");
    let keys: Vec<String> = (0..20).map(|key| key.to_string()).collect();
    for key in &keys {
        raw.asks(format!("set {key} 0 0 1\r\n0\r\n"), "STORED\r\n");
    }
    // The replicas are late from here on.
    let mut late = [replica(&farm, "g1"), replica(&farm, "g2")];
    late.iter_mut()
        .for_each(|server| drop(server.run("FLUSH TABLES WITH READ LOCK")));
    for turn in 10..40 {
        for pair in keys.chunks(2) {
            let (one, other) = (&pair[0], &pair[1]);
            raw.asks(
                format!(
                    "set {one} 0 0 2\r\n{turn}\r\nset {other} 0 0 2\r\n{turn}\r\nget {one}\r\n"
                ),
                format!("STORED\r\nSTORED\r\nVALUE {one} 0 2\r\n{turn}\r\nEND\r\n"),
            );
        }
    }
}

/// Names in front of keys that count for one request only, a key that is not the primary one, parts that
/// are empty, missing, or have separators in them.
fn names_need_not_stick_and_values_have_parts(release: Release) {
    let Some(farm) = farm(
        release,
        &["--set", "kv_sticky=off", "--set", "kv_delimiter=::"],
    ) else {
        return;
    };
    let mut sql = farm.client();
    sql.run(
        "CREATE TABLE heddle.parts (id INT AUTO_INCREMENT PRIMARY KEY, k VARCHAR(20) UNIQUE, \
         a VARCHAR(9), b VARCHAR(9) NOT NULL, c VARCHAR(9))",
    );
    for words in ["plain", "escaped --escape"] {
        farm.make_container(&format!(
            "{words} --table=heddle.parts --key=k --values=a,b,c --separator=;"
        ));
    }
    let mut raw = Raw::connect(farm.kv);
    let shown =
        "SELECT CONCAT_WS(',', QUOTE(a), QUOTE(b), QUOTE(c)) FROM heddle.parts WHERE k = 'x'";
    raw.asks("set @@plain::x 0 0 4\r\n1;;3\r\n", "STORED\r\n");
    assert_eq!(sql.value(shown), "'1','','3'");
    // The name was for that request alone.
    raw.asks("get x\r\ndelete x\r\n", "END\r\nNOT_FOUND\r\n");
    raw.asks(
        "set @@plain::x 0 0 3\r\n;;;\r\n",
        "CLIENT_ERROR the value has more than 3 parts\r\n",
    );
    raw.asks("set @@plain::x 0 0 0\r\n\r\n", "STORED\r\n");
    assert_eq!(sql.value(shown), "NULL,'',NULL");
    raw.asks(
        "set @@escaped::x 0 0 10\r\n\\;a;\\\\;b\\;\r\n",
        "STORED\r\n",
    );
    assert_eq!(sql.value(shown), "';a','\\\\','b;'");
    raw.asks(
        "get @@escaped::x\r\n",
        "VALUE @@escaped::x 0 10\r\n\\;a;\\\\;b\\;\r\nEND\r\n",
    );
    raw.say("gats 0 @@escaped::x\r\n");
    let line = raw.line();
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(words[..4], ["VALUE", "@@escaped::x", "0", "10"], "{line}");
    let cas: u64 = words[4].parse().expect("a number");
    raw.hears("\\;a;\\\\;b\\;\r\nEND\r\n");
    sql.run("UPDATE heddle.parts SET c = 'other'");
    raw.asks(format!("cas @@plain::x 0 0 1 {cas}\r\n1\r\n"), "EXISTS\r\n");
    assert_eq!(sql.value("SELECT id FROM heddle.parts"), "1");
}

testkit::on_both_engines! {
    containers_of_the_plugin_are_read_where_they_stand,
    options_and_policies_of_the_plugin_hold,
    rows_are_there_over_http,
    a_strong_container_is_like_one_copy_of_its_rows,
    own_writes_to_several_groups_are_seen,
    names_need_not_stick_and_values_have_parts,
}
