//! What replicas' binlogs tell of writes of their primary, on real servers of every release.

use std::net::SocketAddr;

use engine::binlog::{Touched, Written, auto_column, is_after, unsigned_value, written};
use engine::{Link, Login, heartbeat};
use farm::Engine;
use testkit::{Client, Release, Server};

/// Generous: two cores run several servers and their clients.
const STEP_MS: u64 = 20_000;

fn login(address: SocketAddr) -> Login {
    Login {
        host: address.ip().to_string(),
        port: address.port(),
        user: "root".to_owned(),
        password: String::new(),
        tls: engine::LinkTls::Off,
    }
}

async fn link(server: &Server) -> Link {
    let link = Link::open(&login(server.address()), STEP_MS).await;
    link.expect("root has no password")
}

/// A primary with a replica that has caught up, and the position of both.
async fn pair(release: Release) -> Option<(Server, Server)> {
    let marked = [("loose_binlog_rows_query_log_events", "ON")];
    let a = Server::start_with(release, &marked)?;
    let b = Server::start_with(release, &marked)?;
    let (mut to_a, mut to_b) = (link(&a).await, link(&b).await);
    let off = engine::make_primary(&mut to_a, None, STEP_MS).await;
    off.expect("a primary");
    let mut client = a.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, b INT, c VARCHAR(300), UNIQUE (b))");
    client.run("CREATE TABLE d.plain (a INT PRIMARY KEY, b TEXT, c DECIMAL(20,5), d DATETIME(3))");
    let primary = login(a.address());
    let joined = engine::make_replica(&mut to_b, &primary, STEP_MS).await;
    joined.expect("a replica");
    Some((a, b))
}

/// What the transactions with this mark did.
fn of_mark<'a>(all: &'a [Written], mark: &str) -> Vec<&'a Written> {
    let marked = all.iter().filter(|w| w.mark.as_deref() == Some(mark));
    marked.collect()
}

fn rows(written: &Written) -> Vec<(&str, u64, u64, u64)> {
    let tables = written.tables.iter();
    let counts = tables.map(|t: &Touched| (&*t.table, t.inserted, t.updated, t.deleted));
    counts.collect()
}

fn write_marked(client: &mut Client) {
    for sql in [
        "/*heddle:m1*/ INSERT INTO d.t (b, c) VALUES (1, 'one'), (2, 'two'), (3, 'three')",
        "INSERT INTO d.t (b) VALUES (50)",
        "/*heddle:m2*/ UPDATE d.t SET c = 'x' WHERE b IN (1, 2)",
        "/*heddle:m3*/ INSERT INTO d.t (b, c) VALUES (1, 'again'), (4, 'new') \
         ON DUPLICATE KEY UPDATE c = VALUES(c)",
        "/*heddle:m4*/ REPLACE INTO d.t (b, c) VALUES (2, 'replaced')",
        "/*heddle:m5*/ DELETE FROM d.t WHERE b = 3",
        "/*heddle:m6*/ INSERT INTO d.plain VALUES (1, 'x', -12.5, '2020-01-02 03:04:05.678')",
        "BEGIN",
        "/*heddle:m7*/ INSERT INTO d.plain (a) VALUES (2)",
        "/*heddle:m7*/ UPDATE d.t SET c = 'y' WHERE b = 1",
        "COMMIT",
        "BEGIN",
        "/*heddle:m8*/ INSERT INTO d.plain (a) VALUES (3)",
        "ROLLBACK",
        "/*heddle:m1*/ INSERT INTO d.plain (a) VALUES (4)",
    ] {
        client.run(sql);
    }
    let text = "/*heddle:m9*/ INSERT INTO d.t (b, c) VALUES (?, 'p')";
    let statement = client.prepare(text).expect("it is right");
    let values = [testkit::client::Value::Int(9)];
    client.execute(&statement, &values).expect("it runs");
}

async fn tells_what_was_written(release: Release) {
    let Some((a, b)) = pair(release).await else {
        return;
    };
    let from = heartbeat::position(&mut link(&a).await, STEP_MS).await;
    let from = from.expect("a position");
    let mut client = a.client();
    let thread_id: u32 = client
        .value("SELECT CONNECTION_ID()")
        .parse()
        .expect("a number");
    write_marked(&mut client);
    let position = heartbeat::position(&mut link(&a).await, STEP_MS).await;
    let position = position.expect("a position");
    let reached = heartbeat::reach(&mut link(&b).await, &position, STEP_MS, STEP_MS).await;
    assert!(reached.expect("an answer").covers(&position));
    for from in [Some(&from), None] {
        let all = written(link(&b).await, from, STEP_MS)
            .await
            .expect("a binlog");
        let one = of_mark(&all, "m1");
        assert_eq!(one.len(), 2, "{all:?}");
        assert_eq!(rows(one[0]), [("t", 3, 0, 0)]);
        assert!(is_after(&one[1].gtid, &one[0].gtid));
        assert!(all.iter().all(|w| w.counted || w.mark.is_none()), "{all:?}");
        let only = |mark: &str| {
            let found = of_mark(&all, mark);
            assert_eq!(found.len(), 1, "{mark}: {all:?}");
            found[0].clone()
        };
        assert_eq!(rows(&only("m2")), [("t", 0, 2, 0)]);
        assert_eq!(rows(&only("m3")), [("t", 1, 1, 0)]);
        let replaced = rows(&only("m4"))[0].1 + 2 * rows(&only("m4"))[0].2 + rows(&only("m4"))[0].3;
        assert_eq!(replaced, 2, "{:?}", only("m4"));
        assert_eq!(rows(&only("m5")), [("t", 0, 0, 1)]);
        assert_eq!(rows(&only("m6")), [("plain", 1, 0, 0)]);
        assert_eq!(rows(&only("m7")), [("plain", 1, 0, 0), ("t", 0, 1, 0)]);
        assert!(of_mark(&all, "m8").is_empty());
        assert_eq!(rows(&only("m9")), [("t", 1, 0, 0)]);
        if b.engine() == Engine::MySql {
            assert_eq!(only("m6").thread_id, Some(thread_id));
        }
        let column = auto_column(&mut link(&b).await, "d", "t", STEP_MS).await;
        let (place, kind) = column.expect("an answer").expect("there is one");
        let first = one[0].tables[0]
            .integers
            .iter()
            .find(|(at, _)| *at == place);
        assert_eq!(first.map(|(_, v)| unsigned_value(&kind, *v)), Some(1));
        let none = auto_column(&mut link(&b).await, "d", "plain", STEP_MS).await;
        assert_eq!(none, Ok(None));
    }
}

#[tokio::test]
async fn tells_what_was_written_on_mariadb_10_11() {
    tells_what_was_written(Release::Installed).await;
}

#[tokio::test]
async fn tells_what_was_written_on_mariadb_11_4() {
    tells_what_was_written(Release::MariaDb114).await;
}

#[tokio::test]
async fn tells_what_was_written_on_mysql_8_0() {
    tells_what_was_written(Release::MySql80).await;
}
