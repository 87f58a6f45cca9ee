//! One statement on two groups at once, through one door, on real servers of both engines: `scatter.t` has
//! its ids below 100 on the first group and the others on the second.

use std::sync::Arc;
use std::time::Duration;

use farm::sharding::{Column, TableSchema};
use farm::{Sharding, samples};
use mysql_wire::capability::Capabilities;
use testkit::client::{Login, Reply, Value};
use testkit::proxy::{Proxy, Trap};
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

struct Two {
    stage: Stage,
    door: Door,
}

fn farms() -> Vec<Two> {
    let releases = [Release::Installed, Release::MySql80];
    let stages = releases.into_iter().filter_map(Stage::start_with);
    stages.map(Two::new).collect()
}

fn column(name: &str, full_type: &str) -> Column {
    let text = full_type.starts_with("varchar");
    Column {
        collation: text.then(|| "utf8mb4_general_ci".into()),
        nullable: name != "id",
        ..samples::column(name, full_type)
    }
}

fn sharding() -> Sharding {
    let map = samples::range_map(1, &[("g1", 0), ("g2", 100)]);
    let mut sharding = Sharding::new(1, vec![map]);
    sharding.declare("fan", "t", samples::sharded("fan", "t", "id", 1));
    let schema = TableSchema {
        columns: vec![column("id", "int(11)"), column("s", "varchar(3)")],
        primary: vec![0],
        ..TableSchema::default()
    };
    sharding.describe("fan", "t", Arc::new(schema));
    sharding
}

impl Two {
    fn new(stage: Stage) -> Two {
        stage.let_decide();
        stage.everywhere(
            "CREATE DATABASE fan; \
             CREATE TABLE fan.t (id INT PRIMARY KEY, s VARCHAR(3)) CHARACTER SET utf8mb4",
        );
        for (server, from) in [(&stage.primary, 0), (&stage.replica, 100)] {
            let rows: Vec<String> = (0..50).map(|id| format!("({}, 'a')", id + from)).collect();
            let text = format!("INSERT INTO fan.t VALUES {}", rows.join(","));
            server.client().run(&text);
        }
        // The MySQL that is installed may be older than its safe XA.
        let door = stage.door_with(|tuning| tuning.settings.dist_txns.unsafe_xa = true);
        door.spread();
        door.publish(|snapshot| snapshot.sharding = Some(Arc::new(sharding())));
        Two { stage, door }
    }

    fn client(&self) -> Client {
        self.door.client_in("fan")
    }
}

/// Codes of SHOW WARNINGS.
fn codes(client: &mut Client) -> Vec<String> {
    let rows = client.rows("SHOW WARNINGS");
    rows.into_iter()
        .filter_map(|mut row| row[1].take())
        .collect()
}

#[test]
fn warnings_of_all_groups_are_shown() {
    for two in farms() {
        let mut client = two.client();
        client.run("SET sql_mode = ''");
        let done = client.run("INSERT INTO t VALUES (60, 'long'), (160, 'longer')");
        assert_eq!((done.affected_rows, done.warnings), (2, 2));
        assert_eq!(codes(&mut client), ["1265", "1265"]);
        client.run("BEGIN");
        client.run("UPDATE t SET s = 'much' WHERE id IN (60, 160)");
        assert_eq!(codes(&mut client), ["1265", "1265"]);
        client.run("ROLLBACK");
        assert_eq!(
            client.error("INSERT INTO t VALUES (70, 'b'), (160, 'b')"),
            1062
        );
        assert_eq!(codes(&mut client), ["1062"]);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "102");
        drop(client);
        two.door.wait_unused();
    }
}

/// A literal that is no number, two meanings of a name: each group finds it in its text.
#[test]
fn warnings_of_a_text_count_once() {
    for two in farms() {
        let mut client = two.client();
        client.run("SET sql_mode = ''");
        for (text, code) in [
            ("SELECT id FROM t WHERE id = 'abc'", "1292"),
            ("SELECT id AS s, COUNT(*) FROM t GROUP BY s", "1052"),
        ] {
            let mut alone = two.stage.primary.client();
            alone.use_database("fan").expect("it is there");
            alone.run("SET sql_mode = ''");
            let here = alone.query(text).expect("rows");
            let there = client.query(text).expect("rows");
            let warnings = |replies: &[Reply]| match replies {
                [Reply::Rows(rows)] => rows.warnings,
                other => panic!("{other:?}"),
            };
            assert_eq!(warnings(&there), warnings(&here), "{text}");
            let codes = codes(&mut client);
            assert!(codes.iter().all(|it| it == code), "{text}: {codes:?}");
            assert_eq!(codes.len(), usize::from(warnings(&here)), "{text}");
        }
        // Each row that is read says it again.
        let rows = client
            .query("SELECT id FROM t WHERE s + 0 > 5")
            .expect("rows");
        assert!(matches!(&rows[..], [Reply::Rows(rows)] if rows.warnings == 100));
        drop(client);
        two.door.wait_unused();
    }
}

/// A connection that breaks behind the OK of a write over several groups has its part of the transaction
/// with it: the client, which heard OK, hears of it from the next statement, and nothing is left.
#[test]
fn a_part_that_is_lost_behind_its_ok_is_told_of() {
    for two in farms() {
        let proxy = Proxy::new(two.stage.replica.address());
        let port = proxy.address.port();
        two.door.publish(|snapshot| {
            let group = Arc::make_mut(&mut snapshot.groups[1]);
            Arc::make_mut(&mut group.servers[0]).port = port;
        });
        let mut client = two.client();
        let changed = "SELECT COUNT(*) FROM t WHERE s <> 'a'";
        // What takes the statement's time from the connection again, and what asks for its warnings.
        for behind in ["SET timestamp=DEFAULT", "SHOW WARNINGS"] {
            for next in ["COMMIT", "INSERT INTO t VALUES (70, 'b')", changed] {
                client.run("SET sql_mode = ''");
                client.run("BEGIN");
                proxy.set(Trap::Request(behind));
                let done = client.run("UPDATE t SET s = NOW() WHERE id IN (1, 101)");
                assert!(proxy.is_sprung(), "{behind}");
                assert_eq!(done.affected_rows, 2);
                assert_eq!(client.error(next), 1213, "{behind}: {next}");
                client.run("COMMIT");
                assert_eq!(client.value(changed), "0", "{behind}: {next}");
            }
        }
        client.run("BEGIN");
        proxy.set(Trap::Request("SET timestamp=DEFAULT"));
        client.run("UPDATE t SET s = NOW() WHERE id IN (1, 101)");
        client.run("ROLLBACK");
        client.run("INSERT INTO t VALUES (71, 'a'), (171, 'a')");
        assert_eq!(client.value(changed), "0");
        drop(client);
        two.door.wait_unused();
    }
}

#[test]
fn rows_come_in_both_protocols() {
    for two in farms() {
        let mut client = two.client();
        let all = client.rows("SELECT id, s FROM t ORDER BY id DESC LIMIT 3 OFFSET 48");
        let ids: Vec<_> = all.iter().filter_map(|row| row[0].as_deref()).collect();
        assert_eq!(ids, ["101", "100", "49"]);
        let statement = client
            .prepare("SELECT id FROM t WHERE s = ?")
            .expect("prepared");
        let rows = client.execute(&statement, &["a".into()]).expect("rows");
        let testkit::client::Reply::Rows(rows) = &rows[0] else {
            panic!("no rows: {rows:?}");
        };
        assert_eq!(rows.rows.len(), 100);
        drop(client);
        two.door.wait_unused();
    }
}

/// Servers on which a statement of the door's waits for locks.
fn waiting(two: &Two) -> usize {
    let text = "SELECT COUNT(*) FROM information_schema.processlist \
                WHERE info LIKE '%FOR UPDATE%' AND info NOT LIKE '%processlist%'";
    let servers = [&two.stage.primary, &two.stage.replica];
    let counts = servers.map(|server| server.client().value(text));
    counts.iter().filter(|count| *count != "0").count()
}

#[test]
fn a_kill_reaches_all_groups() {
    for two in farms() {
        let mut holders = [two.stage.primary.client(), two.stage.replica.client()];
        for holder in &mut holders {
            holder.run("BEGIN");
            holder
                .query("SELECT id FROM fan.t FOR UPDATE")
                .expect("rows");
        }
        let mut client = two.client();
        let id = client.connection_id;
        let asked = std::thread::spawn(move || {
            let answer = client.query("SELECT id FROM t FOR UPDATE");
            (client, answer)
        });
        wait_until(SOON, "both servers wait", || waiting(&two) == 2);
        two.client().run(&format!("KILL QUERY {id}"));
        let (mut client, answer) = asked.join().expect("an answer");
        assert_eq!(answer.expect_err("it was killed").number(), 1317);
        wait_until(SOON, "nobody waits", || waiting(&two) == 0);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "100");
        drop(client);
        two.door.wait_unused();
    }
}

#[test]
fn every_group_looks_after_its_rows() {
    for two in farms() {
        let mut client = two.client();
        client.run("BEGIN");
        client.run("DELETE FROM t WHERE id IN (1, 101)");
        for verb in ["ANALYZE", "CHECK", "OPTIMIZE"] {
            let rows = client.rows(&format!("{verb} TABLE t"));
            let good = |row: &&Vec<Option<String>>| row[3].as_deref() == Some("OK");
            assert_eq!(rows.iter().filter(good).count(), 2, "{verb}: {rows:?}");
        }
        // The first of them has committed.
        client.run("ROLLBACK");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "98");
        drop(client);
        two.door.wait_unused();
    }
}

#[test]
fn a_savepoint_may_come_first() {
    for two in farms() {
        let mut client = two.client();
        client.run("SET autocommit = 0");
        client.run("SAVEPOINT a");
        client.run("INSERT INTO t VALUES (160, 'b')");
        client.run("SAVEPOINT b");
        client.run("INSERT INTO t VALUES (60, 'b')");
        client.run("ROLLBACK TO SAVEPOINT b");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "101");
        client.run("ROLLBACK TO SAVEPOINT a");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "100");
        client.run("RELEASE SAVEPOINT a");
        assert_eq!(client.error("RELEASE SAVEPOINT a"), 1305);
        client.run("COMMIT");
        drop(client);
        two.door.wait_unused();
    }
}

#[test]
fn rows_are_returned_in_the_order_of_an_insert() {
    for two in farms() {
        let mut client = two.client();
        if !client.value("SELECT VERSION()").contains("Maria") {
            continue;
        }
        let text = "INSERT INTO t VALUES (160, 'b'), (60, 'b'), (161, 'b'), (61, 'b') RETURNING id";
        let rows = client.rows(text);
        let ids: Vec<_> = rows.iter().filter_map(|row| row[0].as_deref()).collect();
        assert_eq!(ids, ["160", "60", "161", "61"]);
        // What is there already returns no row.
        let text =
            "INSERT IGNORE INTO t VALUES (162, 'b'), (60, 'b'), (62, 'b'), (163, 'b') RETURNING id";
        assert_eq!(client.rows(text).len(), 3);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "107");
        drop(client);
        two.door.wait_unused();
    }
}

/// What a reply is, in short: rows as text, or the number of affected rows.
fn short(reply: &testkit::client::Reply) -> String {
    match reply {
        testkit::client::Reply::Done(done) => done.affected_rows.to_string(),
        testkit::client::Reply::Rows(rows) => format!("{:?}", rows.text()),
    }
}

#[test]
fn a_text_of_several_statements_reaches_several_groups() {
    for two in farms() {
        let mut client = two.client();
        let text = "INSERT INTO t VALUES (70, 'x'), (170, 'y'); SELECT COUNT(*) FROM t; BEGIN; \
                    DELETE FROM t WHERE id = 70; DELETE FROM t WHERE id = 170; \
                    SELECT COUNT(*) FROM t; ROLLBACK; SELECT COUNT(*) FROM t WHERE id > 60";
        let replies = client.query(text).expect("eight answers");
        let said: Vec<String> = replies.iter().map(short).collect();
        assert_eq!(said.len(), 8, "{said:?}");
        assert_eq!([&*said[0], &*said[3], &*said[4]], ["2", "1", "1"]);
        assert!(
            said[1].contains("102") && said[5].contains("100"),
            "{said:?}"
        );
        // Those of the second group, and the one of each.
        assert!(said[7].contains("52"), "{said:?}");
        let text = "SELECT COUNT(*) FROM t; SELECT nothing FROM t; DELETE FROM t";
        assert_eq!(client.error(text), 1054);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "102");
        let text = "DELETE FROM t WHERE id = 70; DELETE FROM t WHERE id = 170";
        assert_eq!(client.query(text).expect("two answers").len(), 2);
        drop(client);
        two.door.wait_unused();
    }
}

/// What Heddle runs in the place of one statement of such a text is answered in that one's turn.
#[test]
fn a_statement_of_several_that_becomes_another_one_is_answered_in_its_turn() {
    for two in farms() {
        let mut client = two.client();
        let text = "PREPARE s FROM 'SELECT COUNT(*) FROM t WHERE id > ?'; SET @least = 60; \
                    EXECUTE s USING @least; SELECT COUNT(*) INTO @n FROM t; \
                    SELECT COUNT(*) FROM t; SELECT @n";
        let replies = client.query(text).expect("six answers");
        let said: Vec<String> = replies.iter().map(short).collect();
        assert_eq!(said.len(), 6, "{said:?}");
        assert_eq!(said[4], said[5], "{said:?}");
        assert_eq!(
            client.value("SELECT COUNT(*) FROM t"),
            client.value("SELECT @n")
        );
        drop(client);
        two.door.wait_unused();
    }
}

#[test]
fn many_rows_of_one_execution_reach_several_groups() {
    for two in farms() {
        let usual = Login::default();
        let login = Login {
            database: Some("fan"),
            capabilities: (usual.capabilities | Capabilities::MARIADB_STMT_BULK)
                - Capabilities::LONG_PASSWORD,
            ..usual
        };
        let mut client = two.door.login(&login).expect("root");
        if !client.value("SELECT VERSION()").contains("Maria") {
            continue;
        }
        let types = [Value::from(0), Value::from("")];
        let insert = client.prepare("INSERT INTO t VALUES (?, ?)").expect("text");
        let row = |id: i64, text: &str| [Value::from(id), Value::from(text)];
        let many: Vec<[Value; 2]> = (60..90).chain(200..1200).map(|id| row(id, "b")).collect();
        let many: Vec<&[Value]> = many.iter().map(|row| &row[..]).collect();
        let done = client.execute_bulk(&insert, 0, Some(&types), &many);
        assert_eq!(short(&done.expect("inserted")[0]), "1030");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "1130");
        // The last one is there: none is written.
        let some = [row(95, "c"), row(1200, "c"), row(160, "c"), row(60, "c")];
        let some: Vec<&[Value]> = some.iter().map(|row| &row[..]).collect();
        let refused = client.execute_bulk(&insert, 0, None, &some);
        assert!(refused.is_err(), "{refused:?}");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "1130");
        let update = client
            .prepare("UPDATE t SET s = ? WHERE id >= ? AND id < 300")
            .expect("text");
        let types = [Value::from(""), Value::from(0)];
        let all = [
            [Value::from("d"), Value::from(80)],
            [Value::Null, Value::from(290)],
        ];
        let all: Vec<&[Value]> = all.iter().map(|row| &row[..]).collect();
        let done = client.execute_bulk(&update, 0, Some(&types), &all);
        assert_eq!(short(&done.expect("updated")[0]), "170");
        let text = "SELECT COUNT(*) FROM t WHERE s IS NULL";
        assert_eq!(client.value(text), "10");
        drop(client);
        two.door.wait_unused();
    }
}

/// What several clients read to write by it is what is there when they have written.
#[test]
fn writes_by_rows_of_other_groups_are_one_behind_the_other() {
    const CLIENTS: usize = 3;
    const EACH: usize = 3;
    for two in farms() {
        let mut admin = two.client();
        admin.run("DELETE FROM t");
        admin.run("INSERT INTO t VALUES (0, '0'), (100, '0')");
        std::thread::scope(|scope| {
            for number in 0..CLIENTS {
                let mut client = two.client();
                scope.spawn(move || {
                    for turn in 0..EACH {
                        let home = (number % 2) * 100 + 10 + number * 10 + turn;
                        // Each row says how many were there before it.
                        let insert =
                            format!("INSERT INTO t VALUES ({home}, (SELECT COUNT(*) - 1 FROM t))");
                        let give = "UPDATE t SET s = (SELECT MAX(n) + 1 FROM \
                                    (SELECT CAST(s AS SIGNED) AS n FROM t) x) WHERE id IN (0, 100)";
                        for text in [&*insert, give] {
                            while let Err(error) = client.query(text) {
                                let number = error.to_string();
                                let again = number.contains("1213") || number.contains("1205");
                                assert!(again, "{error}");
                            }
                        }
                    }
                });
            }
        });
        let rows = CLIENTS * EACH;
        let text = "SELECT COUNT(*), COUNT(DISTINCT s) FROM t WHERE id NOT IN (0, 100)";
        let row = admin.rows(text).remove(0);
        assert_eq!(row[0].as_deref(), Some(&*rows.to_string()));
        let marks = admin.rows("SELECT DISTINCT s FROM t WHERE id IN (0, 100)");
        assert_eq!(marks.len(), 1, "{marks:?}");
        let last: usize = marks[0][0]
            .as_deref()
            .and_then(|it| it.parse().ok())
            .expect("a number");
        assert!(last >= rows, "{last} of {rows}");
        drop(admin);
        two.door.wait_unused();
    }
}

#[test]
fn variables_are_set_from_rows_of_all_groups() {
    for two in farms() {
        let mut client = two.client();
        client.run("SELECT COUNT(*), MAX(id) INTO @n, @m FROM t");
        assert_eq!(client.value("SELECT @n + @m"), "249");
        for nothing in ["id = 7777", "id > 7777"] {
            let text = format!("SELECT id INTO @n FROM t WHERE {nothing}");
            let done = client.run(&text);
            assert_eq!((done.affected_rows, done.warnings), (0, 1), "{nothing}");
            assert_eq!(codes(&mut client), ["1329"], "{nothing}");
            assert_eq!(client.value("SELECT @n"), "100", "{nothing}");
        }
        assert_eq!(client.error("SELECT id INTO @n FROM t"), 1172);
        assert_eq!(client.error("SELECT id, s INTO @n FROM t LIMIT 1"), 1222);
        drop(client);
        two.door.wait_unused();
    }
}
