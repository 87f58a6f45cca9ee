//! `/*ms=all*/`: a read runs on every server of the group, and the client has one result of each.

use std::time::Duration;

use farm::{Mode, Status as Standing};
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::status::Status;
use testkit::client::{Failure, Login, Reply, Value};
use testkit::staging::third;
use testkit::{Client, Door, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);
const WHO: &str = "/*ms=all*/ SELECT name FROM stage.who";

/// ER_NOT_SUPPORTED_YET.
const REFUSED: u16 = 1235;

/// The rows of each result.
#[track_caller]
fn results(client: &mut Client, sql: &str) -> Vec<Vec<Vec<Option<String>>>> {
    let replies = client.query(sql).unwrap_or_else(|it| panic!("{sql}: {it}"));
    let rows = |reply| match reply {
        Reply::Rows(rows) => rows.text(),
        other => panic!("{sql}: expected rows, got {other:?}"),
    };
    replies.into_iter().map(rows).collect()
}

/// The only value of each result.
#[track_caller]
fn values(client: &mut Client, sql: &str) -> Vec<String> {
    let value = |mut rows: Vec<Vec<Option<String>>>| {
        assert_eq!(rows.len(), 1, "{sql}");
        rows.remove(0).pop().flatten().expect("a value")
    };
    results(client, sql).into_iter().map(value).collect()
}

fn login(without: Capabilities, with: Capabilities) -> Login<'static> {
    let usual = Login::default();
    Login {
        capabilities: (usual.capabilities - without) | with,
        ..usual
    }
}

#[test]
fn every_server_answers_in_one_reply() {
    for stage in &Stage::of_both_engines() {
        let Some(third) = third(stage.release) else {
            continue;
        };
        let door = Door::start(&[&stage.replica, &stage.primary, &third], |_| {});
        // The primary comes first, wherever it stands.
        door.promote(1);
        let order = ["primary", "replica", "third"];
        for with in [Capabilities::empty(), Capabilities::DEPRECATE_EOF] {
            let mut client = door.login(&login(with, with)).expect("logged in");
            for sql in [WHO, " /* why */ /*MS=ALL*/(SELECT name FROM stage.who)"] {
                assert_eq!(values(&mut client, sql), order, "{with:?}");
            }
            let replies = client.query(WHO).expect("rows");
            let more = |reply: &Reply| match reply {
                Reply::Rows(rows) => rows.status.contains(Status::MORE_RESULTS),
                Reply::Done(_) => panic!("no rows"),
            };
            let more: Vec<bool> = replies.iter().map(more).collect();
            assert_eq!(more, [true, true, false]);
            assert_eq!(
                client.value("SELECT 7"),
                "7",
                "the next statement is itself"
            );
        }
        let mut client = door.client();
        let servers = [&stage.primary, &stage.replica, &third];
        let ports = servers.map(|server| server.address().port().to_string());
        // What each server has for itself, and Heddle would answer otherwise.
        for sql in [
            "/*ms=all*/SELECT @@port",
            "/*ms=all*/SELECT @@global.port",
            "/*ms=all*/SHOW VARIABLES LIKE 'port'",
            "/*ms=all*/SHOW GLOBAL VARIABLES LIKE 'port'",
        ] {
            assert_eq!(values(&mut client, sql), ports, "{sql}");
        }
        let listed = results(&mut client, "/*ms=all*/ SHOW PROCESSLIST");
        assert_eq!(listed.len(), 3);
        let empty = results(&mut client, "/*ms=all*/ SELECT name FROM stage.who WHERE 0");
        assert!(empty.len() == 3 && empty.iter().all(Vec::is_empty));
    }
}

#[test]
fn large_results_follow_each_other_whole() {
    for stage in &Stage::of_both_engines() {
        stage.database("all_large");
        stage
            .everywhere("CREATE TABLE all_large.t (a INT AUTO_INCREMENT PRIMARY KEY, b CHAR(200))");
        stage.everywhere("INSERT INTO all_large.t (b) VALUES ('x'), ('y'), ('z'), ('w')");
        for _ in 0..9 {
            stage.everywhere(
                "INSERT INTO all_large.t (b) SELECT LEFT(REPEAT(b, 200), 200) FROM all_large.t",
            );
        }
        let door = stage.door();
        let mut client = door.client();
        let sql = "SELECT b, REPEAT('r', 300) FROM all_large.t ORDER BY a";
        let direct = stage.primary.client().rows(sql);
        let all = results(&mut client, &format!("/*ms=all*/ {sql}"));
        assert_eq!(all.len(), 2);
        assert!(all.iter().all(|rows| *rows == direct));
        assert_eq!(client.value("SELECT COUNT(*) FROM all_large.t"), "2048");
        drop(client);
        door.wait_unused();
    }
}

#[test]
fn what_all_servers_must_not_run_is_refused() {
    for stage in &Stage::of_both_engines() {
        stage.database("all_refused");
        stage.everywhere("CREATE TABLE all_refused.t (a INT)");
        stage.everywhere(
            "CREATE FUNCTION all_refused.f(n INT) RETURNS INT DETERMINISTIC MODIFIES SQL DATA \
             BEGIN INSERT INTO all_refused.t VALUES (n); RETURN n; END",
        );
        let door = stage.door();
        let mut client = door.client_in("all_refused");
        for sql in [
            "INSERT INTO t VALUES (1)",
            "DELETE FROM t",
            "SELECT a FROM t FOR UPDATE",
            "SELECT @a := 1",
            "SELECT GET_LOCK('all', 1)",
            "SELECT LAST_INSERT_ID()",
            "SELECT a FROM t INTO @a",
            "SHOW WARNINGS",
            "SET GLOBAL max_connections = 400",
            "SET @a = 1",
            "FLUSH TABLES",
            "CREATE TABLE u (a INT)",
            "TRUNCATE t",
            "CALL p()",
            "BEGIN",
            "DO 1",
            "SELECT 1; SELECT 2",
        ] {
            assert_eq!(client.error(&format!("/*ms=all*/{sql}")), REFUSED, "{sql}");
        }
        let text = format!("HEDDLE EXPLAIN {}", "/*ms=all*/ DELETE FROM t");
        assert_eq!(client.error(&text), REFUSED);
        let refused = client.prepare(WHO).expect_err("one server prepares");
        assert_eq!(refused.number(), REFUSED);
        // What is seen only while it runs is refused by the first server, so by all.
        assert_eq!(client.error("/*ms=all*/ SELECT f(1)"), 1792);
        for server in [&stage.primary, &stage.replica] {
            let count = server.client().value("SELECT COUNT(*) FROM all_refused.t");
            assert_eq!(count, "0");
        }
        // And elsewhere it still runs.
        assert_eq!(client.value("SELECT f(1)"), "1");
        for ties in [
            "BEGIN",
            "START TRANSACTION READ ONLY",
            "SET autocommit = 0",
            "CREATE TEMPORARY TABLE here (a INT)",
            "LOCK TABLES t READ",
        ] {
            let mut tied = door.client_in("all_refused");
            tied.run(ties);
            assert_eq!(tied.error(WHO), REFUSED, "{ties}");
        }
        assert_eq!(values(&mut client, WHO), ["primary", "replica"]);
        let several = Capabilities::MULTI_RESULTS | Capabilities::MULTI_STATEMENTS;
        let old = login(several, Capabilities::empty());
        let mut old = door.login(&old).expect("logged in");
        assert_eq!(old.error(WHO), REFUSED);
        door.change(1, |server| {
            (server.status, server.mode) = (Standing::Spare, Mode::Offline)
        });
        assert_eq!(old.value(WHO), "primary", "one result is for every client");
    }
}

#[test]
fn a_server_that_is_missing_or_fails_is_named() {
    for stage in &Stage::of_both_engines() {
        stage.database("all_failing");
        let mut direct = stage.primary.client();
        direct.run("CREATE TABLE all_failing.t (a INT)");
        direct.run("INSERT INTO all_failing.t VALUES (7)");
        let door = stage.door();
        let mut client = door.client();
        // The first result has come whole; the error of the second server ends the reply.
        let sql = "/*ms=all*/ SELECT a FROM all_failing.t";
        client
            .send_command(Command::Query, sql.as_bytes())
            .expect("sent");
        match client.read_result(false).expect("the primary's rows") {
            Reply::Rows(rows) => assert_eq!(rows.rows, [[Value::Bytes(b"7".to_vec())]]),
            other => panic!("{other:?}"),
        }
        let failure = client.read_result(false).expect_err("no such table there");
        let address = stage.replica.address().to_string();
        match &failure {
            Failure::Server {
                number, message, ..
            } => {
                assert_eq!(*number, 1146);
                assert!(
                    message.ends_with(&format!(" (server {address})")),
                    "{message}"
                );
            }
            other => panic!("{other:?}"),
        }
        let warned = client.rows("SHOW WARNINGS");
        assert_eq!(warned.len(), 1);
        assert_eq!(warned[0][1].as_deref(), Some("1146"));
        assert_eq!(client.value("SELECT @@error_count"), "1");
        // Warnings are each result's own, and afterwards the last one's.
        let replies = client
            .query("/*ms=all*/ SELECT CAST('x' AS SIGNED)")
            .expect("rows");
        let warnings = |reply: &Reply| match reply {
            Reply::Rows(rows) => rows.warnings,
            Reply::Done(done) => done.warnings,
        };
        assert_eq!(replies.iter().map(warnings).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(client.rows("SHOW WARNINGS").len(), 1);
        door.change(1, |server| server.health.alive = false);
        match client.query(WHO).expect_err("one is missing") {
            Failure::Server {
                number, message, ..
            } => {
                assert_eq!(number, 1105);
                assert!(message.contains(&address), "{message}");
            }
            other => panic!("{other:?}"),
        }
        door.change(1, |server| server.health.alive = true);
        assert_eq!(values(&mut client, WHO), ["primary", "replica"]);
        drop(client);
        door.wait_unused();
    }
}

#[test]
fn it_is_one_statement_among_others() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let mut client = door.client();
        let texts = [
            "SELECT 1 FROM stage.who",
            WHO,
            "SELECT 2 FROM stage.who",
            WHO,
        ];
        let replies = client.pipelined(&texts).into_iter();
        let counts: Vec<usize> = replies.map(|it| it.expect("rows").len()).collect();
        assert_eq!(counts, [1, 2, 1, 2]);
        let before = ["use_master", "use_slave"].map(|name| door.counter(name));
        assert_eq!(values(&mut client, WHO), ["primary", "replica"]);
        let after = ["use_master", "use_slave"].map(|name| door.counter(name));
        assert_eq!(after, before.map(|count| count + 1));
        let explained = client.rows(&format!("HEDDLE EXPLAIN {WHO}"));
        let servers: Vec<_> = explained.iter().filter_map(|row| row[1].clone()).collect();
        let addresses = [&stage.primary, &stage.replica].map(|it| it.address().to_string());
        assert_eq!(servers, addresses);
        // Whoever kills it ends it on each server.
        let id = client.connection_id;
        let sleep = b"/*ms=all*/ SELECT /* all of them */ SLEEP(60)";
        client.send_command(Command::Query, sleep).expect("sent");
        let sleeping = |stage: &Stage| {
            [&stage.primary, &stage.replica].map(|server| {
                let sql = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep' \
                           AND info LIKE '%all of them%' AND info NOT LIKE '%processlist%'";
                server.client().value(sql)
            })
        };
        wait_until(SOON, "both servers sleep", || sleeping(stage) == ["1", "1"]);
        door.client().run(&format!("KILL QUERY {id}"));
        // MySQL lets SLEEP() say by its value that it was interrupted.
        match client.read_results(false) {
            Ok(replies) => assert_eq!(replies.len(), 2),
            Err(failure) => assert_eq!(failure.number(), 1317),
        }
        wait_until(SOON, "no server sleeps", || sleeping(stage) == ["0", "0"]);
        assert_eq!(values(&mut client, WHO), ["primary", "replica"]);
    }
}
