//! `binlog_alter_two_phase` of MariaDB: an ALTER is logged when it begins and when it ends, and is one definition all
//! the same; one that fails is none.

use engine::binlog::{Written, written};
use serde_json::Value;
use testkit::admin::with_link;
use testkit::server::Server;
use testkit::{Client, Farm, Release, wait_until};

use crate::apply::{said, start};
use crate::dump::{dump, events, text};
use crate::reading::{SOON, Stream};

use super::present_file;

/// Those that succeed.
const ADDS: &str = "/*heddle:a1-1*/ ALTER TABLE d.t ADD COLUMN w INT NOT NULL DEFAULT 7";
const INDEXES: &str = "CREATE INDEX k ON d.t (w, v)";
/// Two rows have the same value.
const FAILS: &str = "/*heddle:a1-2*/ ALTER TABLE d.t ADD UNIQUE KEY u (v)";

/// The definitions of `d.t` behind its beginning.
fn definitions(events: &[Value]) -> Vec<(String, String)> {
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let all = events.iter().filter(|event| event["event"] == "ddl");
    let all = all.map(|event| (text(event, "gtid"), text(event, "sql")));
    all.filter(|(_, sql)| sql.contains("d.t ") && !sql.contains("CREATE TABLE"))
        .collect()
}

/// How often the log says it of a transaction's beginning.
fn count(client: &mut Client, what: &str) -> usize {
    let file = present_file(client);
    let file = file.file_name().and_then(|it| it.to_str());
    let sql = format!("SHOW BINLOG EVENTS IN '{}'", file.expect("a name"));
    let rows = client.rows(&sql);
    let said = |row: &&Vec<Option<String>>| {
        row[2].as_deref() == Some("Gtid") && row[5].as_deref().is_some_and(|it| it.contains(what))
    };
    rows.iter().filter(said).count()
}

fn an_alter_in_two_phases_is_told_once(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let Some(target) = Server::start(release) else {
        return;
    };
    let member = farm.member("g1-1");
    let mut client = member.client();
    let mut stream = Stream::now(&farm, "");
    let mut applier = start(&farm, &target, &[]);
    let has_begun = || {
        let count = "SELECT COUNT(*) FROM heddle_apply.progress";
        target.client().query(count).is_ok() && target.client().value(count) == "1"
    };
    wait_until(SOON, "it has begun", has_begun);
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    client.run("INSERT INTO d.t VALUES (1, 5), (2, 5)");
    client.run("SET SESSION binlog_alter_two_phase = ON");
    client.run(ADDS);
    for _ in 0..2 {
        let failed = client.query(FAILS);
        assert!(failed.is_err_and(|error| error.to_string().contains("Duplicate")));
    }
    client.run(INDEXES);
    client.run("INSERT INTO d.t VALUES (3, 5, 9)");
    client.run("INSERT INTO d.last VALUES (1)");
    // The server did log them in two phases.
    let phases = ["START ALTER", "COMMIT ALTER", "ROLLBACK ALTER"].map(|it| count(&mut client, it));
    assert_eq!(phases, [4, 2, 2]);

    let told = stream.until_last(1);
    let expected = [ADDS, INDEXES];
    let definitions_told = definitions(&told);
    let texts: Vec<&str> = definitions_told.iter().map(|it| &*it.1).collect();
    assert_eq!(texts, expected, "{told:#?}");
    let dumped = events(&text(&dump(&[&format!("127.0.0.1:{}", member.port)])));
    assert_eq!(definitions(&dumped), definitions_told);

    wait_until(SOON, "the last row", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(&farm));
        let last = target.client().query("SELECT 1 FROM d.last WHERE a = 1");
        last.is_ok_and(|_| target.client().value("SELECT COUNT(*) FROM d.last") == "1")
    });
    for sql in ["SHOW CREATE TABLE d.t", "SELECT * FROM d.t ORDER BY id"] {
        let there = target.client().rows(sql);
        assert_eq!(there, client.rows(sql), "{}", said(&farm));
    }
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
    lost_writes_find_what_counts(&member, &definitions_told[0].0);
}

/// Who looks for a write whose answer was lost finds the ALTER that counts, and not one that failed.
fn lost_writes_find_what_counts(member: &testkit::farm::Member, gtid: &str) {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], member.port));
    let log: Vec<Written> = with_link(address, async |link| {
        written(link.login(), None, 20_000).await.expect("a log")
    });
    let of = |tag: &str| -> Vec<&str> {
        let all = log.iter().filter(|it| it.tag.as_deref() == Some(tag));
        all.map(|it| &*it.gtid).collect()
    };
    assert_eq!((of("a1-1"), of("a1-2")), (vec![gtid], vec![]));
    assert!(!log.iter().any(|it| it.mute), "{log:#?}");
}

#[test]
fn an_alter_in_two_phases_is_told_once_on_10_11() {
    an_alter_in_two_phases_is_told_once(Release::Installed);
}

#[test]
fn an_alter_in_two_phases_is_told_once_on_11_4() {
    an_alter_in_two_phases_is_told_once(Release::MariaDb114);
}
