//! What binlogs tell, on real servers of every release: replicas' of lost writes of their primary, and
//! anybody's of the rows that change.

use crate::root::{MS, link, login};
use engine::binlog::{
    End, Event, Gtid, Image, Reader, Touched, Written, auto_column, is_after, is_gap,
    unsigned_value, written,
};
use engine::heartbeat;
use farm::Position;
use testkit::{Client, Release, Server};

/// A primary with a replica that has caught up, and the position of both.
async fn pair(release: Release) -> Option<(Server, Server)> {
    let marked = [("loose_binlog_rows_query_log_events", "ON")];
    let a = Server::start_with(release, &marked)?;
    let b = Server::start_with(release, &marked)?;
    let (mut to_a, mut to_b) = (link(&a).await, link(&b).await);
    let off = engine::make_primary(&mut to_a, None, MS).await;
    off.expect("a primary");
    let mut client = a.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (a INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, b INT, c VARCHAR(300), UNIQUE (b))");
    client.run("CREATE TABLE d.plain (a INT PRIMARY KEY, b TEXT, c DECIMAL(20,5), d DATETIME(3))");
    let primary = login(&a);
    let joined = engine::make_replica(&mut to_b, &primary, MS).await;
    joined.expect("a replica");
    Some((a, b))
}

/// What the transactions with this write tag did.
fn of_tag<'a>(all: &'a [Written], tag: &str) -> Vec<&'a Written> {
    let marked = all.iter().filter(|w| w.tag.as_deref() == Some(tag));
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
    let from = heartbeat::position(&mut link(&a).await, MS).await;
    let from = from.expect("a position");
    let mut client = a.client();
    write_marked(&mut client);
    let position = heartbeat::position(&mut link(&a).await, MS).await;
    let position = position.expect("a position");
    let reached = heartbeat::reach(&mut link(&b).await, &position, MS, MS).await;
    assert!(reached.expect("an answer").covers(&position));
    for from in [Some(&from), None] {
        let all = written(&login(&b), from, MS).await.expect("a binlog");
        let one = of_tag(&all, "m1");
        assert_eq!(one.len(), 2, "{all:?}");
        assert_eq!(rows(one[0]), [("t", 3, 0, 0)]);
        assert!(is_after(&one[1].gtid, &one[0].gtid));
        assert!(all.iter().all(|w| w.counted || w.tag.is_none()), "{all:?}");
        let only = |tag: &str| {
            let found = of_tag(&all, tag);
            assert_eq!(found.len(), 1, "{tag}: {all:?}");
            found[0].clone()
        };
        assert_eq!(rows(&only("m2")), [("t", 0, 2, 0)]);
        assert_eq!(rows(&only("m3")), [("t", 1, 1, 0)]);
        let replaced = rows(&only("m4"))[0].1 + 2 * rows(&only("m4"))[0].2 + rows(&only("m4"))[0].3;
        assert_eq!(replaced, 2, "{:?}", only("m4"));
        assert_eq!(rows(&only("m5")), [("t", 0, 0, 1)]);
        assert_eq!(rows(&only("m6")), [("plain", 1, 0, 0)]);
        assert_eq!(rows(&only("m7")), [("plain", 1, 0, 0), ("t", 0, 1, 0)]);
        assert!(of_tag(&all, "m8").is_empty());
        assert_eq!(rows(&only("m9")), [("t", 1, 0, 0)]);
        assert!(!all.iter().any(|w| w.mute), "{all:?}");
        let column = auto_column(&mut link(&b).await, "d", "t", MS).await;
        let (place, kind) = column.expect("an answer").expect("there is one");
        let first = one[0].tables[0]
            .integers
            .iter()
            .find(|(at, _)| *at == place);
        assert_eq!(first.map(|(_, v)| unsigned_value(&kind, *v)), Some(1));
        let none = auto_column(&mut link(&b).await, "d", "plain", MS).await;
        assert_eq!(none, Ok(None));
    }
    let listings = "SHOW GLOBAL STATUS LIKE 'Com_show_binlog_events'";
    let listings = b.client().rows(listings);
    assert_eq!(listings[0][1].as_deref(), Some("0"), "the log is read once");
}

/// Rows whose statements a server does not log, and the same server once it was told to.
async fn keeps_statements(release: Release) {
    let off = [
        ("loose_binlog_rows_query_log_events", "OFF"),
        ("loose_binlog_annotate_row_events", "OFF"),
    ];
    let Some(server) = Server::start_with(release, &off) else {
        return;
    };
    server.client().run("CREATE DATABASE d");
    server.client().run("CREATE TABLE d.t (a INT)");
    let insert = "/*heddle:m1*/ INSERT INTO d.t VALUES (1)";
    server.client().run(insert);
    let on = engine::keep_statements(&mut link(&server).await, MS).await;
    on.expect("it is told");
    server.client().run(insert);
    let all = written(&login(&server), None, MS).await;
    let all = all.expect("a binlog");
    let changes: Vec<(bool, Option<&str>)> = all
        .iter()
        .filter(|w| !w.tables.is_empty())
        .map(|w| (w.mute, w.tag.as_deref()))
        .collect();
    assert_eq!(changes, [(true, None), (false, Some("m1"))]);
}

#[tokio::test]
async fn keeps_statements_on_mariadb() {
    keeps_statements(Release::Installed).await;
    keeps_statements(Release::MariaDb114).await;
}

#[tokio::test]
async fn keeps_statements_on_mysql() {
    keeps_statements(Release::MySql80).await;
    keeps_statements(Release::MySqlNewer).await;
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
    tells_what_was_written(Release::MySqlNewer).await;
}

/// Everything up to the end of the transaction in which `last` was written, as lines: transactions
/// without their names, and rows with their cells as literals.
async fn told(reader: &mut Reader, last: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut seen = false;
    loop {
        let event = reader.next().await.expect("an event");
        match event {
            Event::Begin(gtid) => {
                assert!(!gtid.is_in(reader.position()), "{gtid}");
                lines.push("begin".to_owned());
            }
            Event::Rows(rows) => {
                for change in rows.changes() {
                    let change = change.expect("it can be read");
                    let shown = |image: Option<Image<'_>>| {
                        let cells = image.unwrap_or_default();
                        let cells = cells.iter().zip(&rows.table.columns).enumerate();
                        let texts = cells.map(|(at, (cell, column))| {
                            let mut text = Vec::new();
                            let cell = cell.as_ref().expect("the whole row");
                            // Not every server says which columns have no sign.
                            let unsigned = column.unsigned.unwrap_or(at == 1);
                            cell.literal(unsigned, column, &mut text);
                            String::from_utf8(text).expect("literals are ASCII here")
                        });
                        texts.collect::<Vec<_>>().join(",")
                    };
                    let (table, kind) = (&rows.table.name, rows.kind);
                    let line = format!(
                        "{kind:?} {table} {} > {}",
                        shown(change.before),
                        shown(change.after)
                    );
                    seen |= line.contains(last);
                    lines.push(line);
                }
            }
            Event::Statement(statement) => {
                lines.push(String::from_utf8_lossy(&statement.text).into_owned());
            }
            Event::Block(_) | Event::Source(_) | Event::Alive => {}
            Event::End(end) => {
                lines.push(match end {
                    End::Commit => "commit".to_owned(),
                    End::RolledBack => "rolled back".to_owned(),
                    End::Prepared(xid) => format!("prepared {}", xid.transaction.len()),
                    End::BranchCommitted(xid) => format!("branch {}", xid.transaction.len()),
                    End::BranchRolledBack(_) => "branch undone".to_owned(),
                });
                if seen {
                    return lines;
                }
            }
        }
    }
}

async fn reader(server: &Server, from: &Position) -> Reader {
    let opened = Reader::open(&login(server), from, 1000, MS).await;
    opened.expect("a reader")
}

async fn follows_what_is_written(release: Release) {
    let Some((a, b)) = pair(release).await else {
        return;
    };
    let mut client = a.client();
    client.run(
        "CREATE TABLE d.all_types (i TINYINT, u INT UNSIGNED, m MEDIUMINT, l BIGINT, f FLOAT, g DOUBLE, \
         n DECIMAL(14,4), dt DATE, tm TIME(2), dm DATETIME(3), ts TIMESTAMP(6) NULL, y YEAR, c CHAR(5), \
         v VARCHAR(300) CHARACTER SET utf8mb4, vb VARBINARY(9), tx TEXT, e ENUM('a','b'), \
         s SET('x','y','z'), bt BIT(10))",
    );
    client.run("CREATE TABLE d.twin LIKE d.all_types");
    client.run("CREATE TABLE d.end (a INT)");
    let from = heartbeat::position(&mut link(&a).await, MS).await;
    let from = from.expect("a position");
    client.run("SET time_zone='+00:00'");
    for sql in [
        "INSERT INTO d.all_types VALUES (-1, 4000000000, -8000000, -5, 1.5, -2.25, -1234567890.1234, \
         '2024-02-29', '-01:02:03.45', '1999-12-31 23:59:59.678', '2020-01-02 03:04:05.000006', 2024, \
         'ab', 'sm\u{f6}r', x'00FF', 'long', 'b', 'x,z', b'1000000001')",
        "INSERT INTO d.all_types (tm, n) VALUES ('00:00:00.01', 0.5), ('838:59:59', NULL)",
        "UPDATE d.all_types SET f = 7 WHERE i = -1",
        "BEGIN",
        "DELETE FROM d.all_types WHERE i IS NULL",
        "INSERT INTO d.t (b) VALUES (77)",
        "COMMIT",
        "CREATE TABLE d.later (a INT)",
        "XA START 'abc'",
        "INSERT INTO d.later VALUES (5)",
        "XA END 'abc'",
        "XA PREPARE 'abc'",
        "XA COMMIT 'abc'",
        "INSERT INTO d.end VALUES (1)",
    ] {
        client.run(sql);
    }
    let mut straight = reader(&a, &from).await;
    let lines = told(&mut straight, "Insert end").await;
    let rows: Vec<&String> = lines.iter().filter(|line| line.contains('>')).collect();
    assert_eq!(rows.len(), 9, "{lines:#?}");
    assert!(rows[0].contains("-8000000,-5,1.5e0,-2.25e0,'-1234567890.1234','2024-02-29'"));
    assert!(
        rows[0].contains("'-01:02:03.45','1999-12-31 23:59:59.678','2020-01-02 03:04:05.000006'")
    );
    let end = "'2024',x'6162',x'736DC3B672',x'00FF',x'6C6F6E67',2,5,513";
    assert!(rows[0].ends_with(end), "{}", rows[0]);
    assert!(
        rows[1].contains("'0.5000',NULL,'00:00:00.01'"),
        "{}",
        rows[1]
    );
    assert!(rows[3].starts_with("Update all_types") && rows[3].contains(",7e0,"));
    let has = |wanted: &str| lines.iter().any(|line| line.starts_with(wanted));
    assert!(
        has("CREATE TABLE d.later") && has("prepared 3") && has("branch 3"),
        "{lines:#?}"
    );
    // What was told can be written again, and is the same.
    let literals = rows[0].split_once("> ").expect("an insert").1;
    client.run(&format!("INSERT INTO d.twin VALUES ({literals})"));
    client.run("UPDATE d.twin SET f = 7");
    let differ = "SELECT COUNT(*) FROM (SELECT * FROM d.all_types WHERE i = -1 UNION SELECT * FROM d.twin) x";
    assert_eq!(client.value(differ), "1");
    goes_on_elsewhere(&a, &b, straight.position().clone()).await;
}

/// A reader goes on at a replica, from where it was with the primary; one that is ahead is told so.
async fn goes_on_elsewhere(a: &Server, b: &Server, position: Position) {
    let now = heartbeat::position(&mut link(a).await, MS).await;
    let now = now.expect("a position");
    assert!(now.covers(&position), "{now} {position}");
    let reached = heartbeat::reach(&mut link(b).await, &now, MS, MS).await;
    assert!(reached.expect("an answer").covers(&now));
    let mut other = reader(b, &position).await;
    a.client().run("INSERT INTO d.end VALUES (2)");
    let lines = told(&mut other, "Insert end  > 2").await;
    assert!(
        !lines.iter().any(|line| line.contains("Insert end  > 1")),
        "{lines:#?}"
    );
    let mut ahead = now.clone();
    let beyond = match &now {
        Position::MariaDb(_) => Gtid::MariaDb {
            domain: 0,
            server_id: 1,
            sequence: 1_000_000,
        },
        Position::MySql(sources) => Gtid::MySql {
            source: sources.keys().next().cloned().expect("it has written"),
            number: 1_000_000,
        },
    };
    beyond.add_to(&mut ahead);
    let error = loop {
        match reader(a, &ahead).await.next().await {
            Ok(Event::Alive) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => break error,
        }
    };
    assert!(is_gap(&error), "{error}");
}

#[tokio::test]
async fn follows_what_is_written_on_mariadb_10_11() {
    follows_what_is_written(Release::Installed).await;
}

#[tokio::test]
async fn follows_what_is_written_on_mariadb_11_4() {
    follows_what_is_written(Release::MariaDb114).await;
}

#[tokio::test]
async fn follows_what_is_written_on_mysql_8_0() {
    follows_what_is_written(Release::MySql80).await;
}
