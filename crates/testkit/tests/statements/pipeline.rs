//! The SQL door: commands that a client sends without waiting for their answers.

use std::time::Duration;

use mysql_wire::command::Command;
use mysql_wire::packet;
use testkit::client::{Failure, Reply, Value, frames};
use testkit::{Release, Stage};

/// What can be compared between a server and the door.
fn shown(answer: &Result<Vec<Reply>, Failure>) -> String {
    let replies = match answer {
        Err(failure) => return failure.to_string(),
        Ok(replies) => replies,
    };
    let shown = replies.iter().map(|reply| match reply {
        Reply::Done(done) => format!(
            "{} rows, id {}, {} warnings, {:?}, {}",
            done.affected_rows, done.last_insert_id, done.warnings, done.status, done.info
        ),
        Reply::Rows(rows) => format!("{:?} {:?} {:?}", rows.columns, rows.rows, rows.status),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// The first value of an answer of rows.
#[track_caller]
fn value(answer: &Result<Vec<Reply>, Failure>) -> String {
    match answer.as_ref().expect("an answer").as_slice() {
        [Reply::Rows(rows)] => rows.text()[0][0].clone().expect("a value"),
        other => panic!("expected rows, got {other:?}"),
    }
}

#[track_caller]
fn number(answer: &Result<Vec<Reply>, Failure>) -> u16 {
    answer.as_ref().map_or_else(Failure::number, |ok| {
        panic!("expected an error, got {ok:?}")
    })
}

/// Statements of all kinds: those that ride, and those that must wait.
const MIXED: [&str; 32] = [
    "USE pipeline_mixed",
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT UNIQUE, b VARCHAR(10))",
    "INSERT INTO t (a, b) VALUES (1, 'one')",
    "INSERT INTO t (a, b) VALUES (2, 'two'), (3, 'three')",
    "SELECT LAST_INSERT_ID()",
    "INSERT INTO t (a, b) VALUES (1, 'again')",
    "SELECT COUNT(*) FROM t",
    "BEGIN",
    "UPDATE t SET b = 'b' WHERE a >= 2",
    "SELECT id, a, b FROM t ORDER BY a FOR UPDATE",
    "SAVEPOINT s",
    "DELETE FROM t",
    "SELECT COUNT(*) FROM t",
    "ROLLBACK TO s",
    "SELECT COUNT(*) FROM t",
    "COMMIT",
    "SELECT nothing FROM t",
    "INSERT IGNORE INTO t (a, b) VALUES (1, 'far too long for it')",
    "SHOW WARNINGS",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SELECT \"a\" FROM t ORDER BY a",
    "SET sql_mode = ''",
    "SELECT \"a\" FROM t ORDER BY a",
    "SET NAMES latin1",
    "SELECT 'x' AS name",
    "SET NAMES utf8mb4",
    "SET @x = 5",
    "SELECT @x + 1",
    "SELECT SQL_CALC_FOUND_ROWS a FROM t ORDER BY a LIMIT 1",
    "SELECT FOUND_ROWS()",
    "SYNTAX ERROR",
    "REPLACE INTO t (a, b) VALUES (3, 'c')",
];

fn the_same_as_straight(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    // One server: the second of a stage is no replica of the first.
    let door = testkit::Door::start(&[&stage.primary], |tuning| {
        tuning.settings.pool.connections_max = 1;
    });
    stage.database("pipeline_mixed");
    let mut straight = stage.primary.client();
    let expected: Vec<String> = MIXED
        .iter()
        .map(|text| shown(&straight.query(text)))
        .collect();
    stage.database("pipeline_mixed");
    let mut client = door.client();
    let answers = client.pipelined(&MIXED);
    for ((text, answer), expected) in MIXED.iter().zip(&answers).zip(&expected) {
        assert_eq!(&shown(answer), expected, "{text}");
    }
    assert!(door.counter("statements_pipelined") >= 10);
    assert_eq!(client.value("SELECT COUNT(*) FROM t"), "3");
    client.quit();
    door.wait_unused();
}

#[test]
fn every_statement_has_its_own_answer_mariadb_10() {
    the_same_as_straight(Release::Installed);
}

#[test]
fn every_statement_has_its_own_answer_mariadb_11() {
    the_same_as_straight(Release::MariaDb114);
}

#[test]
fn every_statement_has_its_own_answer_mysql_8() {
    the_same_as_straight(Release::MySql80);
}

#[test]
fn a_pool_of_one_connection_serves_many_who_do_not_wait() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("pipeline_many");
    stage.everywhere("CREATE TABLE pipeline_many.t (client INT, n INT)");
    let door = stage.door_with(|tuning| tuning.settings.pool.connections_max = 1);
    let clients = (0..4).map(|id| {
        let mut client = door.client();
        std::thread::spawn(move || {
            let texts: Vec<String> = (0..1000)
                .map(|n| format!("INSERT INTO pipeline_many.t VALUES ({id}, {n})"))
                .collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            for answer in client.pipelined(&texts) {
                answer.expect("inserted");
            }
            let last = "SELECT COUNT(*), MAX(n) FROM pipeline_many.t WHERE client = ";
            client.rows(&format!("{last}{id}"))
        })
    });
    let counts: Vec<_> = clients
        .collect::<Vec<_>>()
        .into_iter()
        .map(|c| c.join())
        .collect();
    let expected = vec![Some("1000".to_owned()), Some("999".to_owned())];
    for count in counts {
        let rows = count.expect("the client ended well");
        assert_eq!(rows, std::slice::from_ref(&expected));
    }
    assert!(door.counter("statements_pipelined") > 2000);
}

#[test]
fn large_answers_do_not_stand_in_each_others_way() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    let texts = vec!["SELECT REPEAT('x', 1000000)"; 40];
    for answer in client.pipelined(&texts) {
        assert_eq!(value(&answer).len(), 1_000_000);
    }
    // Texts that are larger than a pipeline may be.
    let long = format!("SELECT LENGTH('{}')", "y".repeat(100_000));
    let texts = ["SELECT 1", &long, "SELECT 2", &long, &long];
    let answers: Vec<String> = client.pipelined(&texts).iter().map(value).collect();
    assert_eq!(answers, ["1", "100000", "2", "100000", "100000"]);
}

#[test]
fn reads_ride_to_a_replica_until_something_writes() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("pipeline_reads");
    stage.everywhere("CREATE TABLE pipeline_reads.t (a INT)");
    stage.everywhere(
        "CREATE FUNCTION pipeline_reads.w() RETURNS INT DETERMINISTIC MODIFIES SQL DATA \
         BEGIN INSERT INTO pipeline_reads.t VALUES (1); RETURN 7; END",
    );
    let door = stage.door();
    let who = "SELECT name FROM stage.who";
    let mut client = door.client();
    let write = "INSERT INTO pipeline_reads.t VALUES (2)";
    let answers = client.pipelined(&[who, who, write, who]);
    let names = [0, 1, 3].map(|at| value(&answers[at]));
    assert_eq!(names, ["replica", "replica", "primary"]);
    // A function that writes is found out by the replica, and the order stays. This connection has no
    // part in what the one before wrote.
    let mut client = door.client();
    client.run("SET heddle_consistency = 'session'");
    let call = "SELECT pipeline_reads.w()";
    let answers = client.pipelined(&[who, who, call, who, who]);
    let all: Vec<String> = answers.iter().map(value).collect();
    assert_eq!(all, ["replica", "replica", "7", "primary", "primary"]);
    assert_eq!(door.counter("reads_corrected"), 1);
    assert_eq!(client.value("SELECT COUNT(*) FROM pipeline_reads.t"), "2");
    let straight = stage
        .replica
        .client()
        .value("SELECT COUNT(*) FROM pipeline_reads.t");
    assert_eq!(straight, "0");
}

/// An EXECUTE of one BIGINT parameter.
fn execute(id: u32, value: i64) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet::write_with(&mut bytes, &mut 0, |payload| {
        payload.push(Command::StmtExecute as u8);
        payload.extend_from_slice(&id.to_le_bytes());
        payload.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 8, 0]);
        payload.extend_from_slice(&value.to_le_bytes());
    });
    bytes
}

#[test]
fn prepared_statements_ride_where_they_are_known() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("pipeline_prepared");
    stage.everywhere("CREATE TABLE pipeline_prepared.t (a BIGINT PRIMARY KEY)");
    let door = stage.door();
    let mut client = door.client();
    let insert = client
        .prepare("INSERT INTO pipeline_prepared.t VALUES (?)")
        .expect("prepared");
    let read = client
        .prepare("SELECT a + ? FROM pipeline_prepared.t WHERE a = 5")
        .expect("prepared");
    let mut bytes = Vec::new();
    for value in [1, 2, 2, 5] {
        bytes.extend(execute(insert.id, value));
    }
    // The primary does not know this one yet.
    bytes.extend(execute(read.id, 10));
    bytes.extend(frames(&["DELETE FROM pipeline_prepared.t WHERE a = 1"]));
    bytes.extend(execute(read.id, 20));
    client.send_bytes(&bytes).expect("sent");
    let answers: Vec<_> = [true, true, true, true, true, false, true]
        .map(|binary| client.answer(binary))
        .into();
    assert_eq!(number(&answers[2]), 1062);
    for at in [0, 1, 3, 5] {
        assert!(answers[at].is_ok(), "{at}: {:?}", answers[at]);
    }
    assert_eq!([value(&answers[4]), value(&answers[6])], ["15", "25"]);
    assert!(door.counter("statements_pipelined") >= 3);
    // Another client, whose statements are known by the same connections under other ids.
    let mut other = door.client();
    let read = other
        .prepare("SELECT a + ? FROM pipeline_prepared.t WHERE a = 5")
        .expect("prepared");
    other.run("BEGIN");
    let bytes: Vec<u8> = (0..50).flat_map(|n| execute(read.id, n)).collect();
    other.send_bytes(&bytes).expect("sent");
    for n in 0..50 {
        assert_eq!(value(&other.answer(true)), (n + 5).to_string());
    }
    let rows = client
        .execute(&insert, &[Value::Int(77)])
        .expect("inserted");
    assert!(matches!(&rows[..], [Reply::Done(done)] if done.affected_rows == 1));
}

/// Waits until a statement with this text runs on the primary, and gives its connection's id.
fn running(stage: &Stage, text: &str) -> String {
    let ask = format!(
        "SELECT MAX(id) FROM information_schema.processlist WHERE info LIKE '%{text}%' \
         AND id != CONNECTION_ID()"
    );
    let mut control = stage.primary.client();
    let mut id = String::new();
    testkit::wait_until(Duration::from_secs(30), "the statement runs", || {
        id = control.value(&ask);
        id != "NULL"
    });
    id
}

#[test]
fn kill_query_ends_one_statement_of_a_pipeline() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("pipeline_kill");
    stage.everywhere("CREATE TABLE pipeline_kill.t (a INT)");
    let door = stage.door();
    let mut client = door.client();
    let id = client.value("SELECT CONNECTION_ID()");
    let first = "INSERT INTO pipeline_kill.t VALUES (1)";
    let slow = "INSERT INTO pipeline_kill.t SELECT 2 + SLEEP(60)";
    let last = "INSERT INTO pipeline_kill.t VALUES (3)";
    client
        .send_bytes(&frames(&[first, slow, last]))
        .expect("sent");
    running(&stage, "INSERT INTO pipeline_kill.t SELECT 2");
    door.client().run(&format!("KILL QUERY {id}"));
    let answers: Vec<_> = (0..3).map(|_| client.answer(false)).collect();
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert_eq!(number(&answers[1]), 1317);
    // All of a killed session ends: what was sent behind the running statement does not run.
    client
        .send_bytes(&frames(&[first, slow, last]))
        .expect("sent");
    running(&stage, "INSERT INTO pipeline_kill.t SELECT 2");
    door.client().run(&format!("KILL {id}"));
    assert!(client.is_closed_within(Duration::from_secs(30)));
    let mut control = stage.primary.client();
    let rows = control.rows("SELECT a, COUNT(*) FROM pipeline_kill.t GROUP BY a ORDER BY a");
    let cell = |text: &str| Some(text.to_owned());
    assert_eq!(rows, [[cell("1"), cell("2")], [cell("3"), cell("1")]]);
    door.wait_unused();
}

#[test]
fn each_unanswered_statement_hears_of_a_lost_server() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("pipeline_lost");
    stage.everywhere("CREATE TABLE pipeline_lost.t (a INT)");
    let door = stage.door();
    let mut client = door.client();
    let first = "INSERT INTO pipeline_lost.t VALUES (1)";
    let slow = "INSERT INTO pipeline_lost.t SELECT 20 + SLEEP(60)";
    let last = "INSERT INTO pipeline_lost.t VALUES (3)";
    client
        .send_bytes(&frames(&[first, slow, last, last]))
        .expect("sent");
    let id = running(&stage, "INSERT INTO pipeline_lost.t SELECT 20");
    stage.primary.client().run(&format!("KILL {id}"));
    let answers: Vec<_> = (0..4).map(|_| client.answer(false)).collect();
    assert!(answers[0].is_ok(), "{answers:?}");
    // The killed statement may still say so itself.
    assert!(
        [1317, 1927, 1158].contains(&number(&answers[1])),
        "{answers:?}"
    );
    assert_eq!([number(&answers[2]), number(&answers[3])], [1158, 1158]);
    // Nothing was tied to that connection: the session goes on.
    assert_eq!(client.value("SELECT COUNT(*) FROM pipeline_lost.t"), "1");
    // A transaction is: what was sent for it must not be committed outside of it.
    let texts = ["BEGIN", first, slow, last, "COMMIT"];
    client.send_bytes(&frames(&texts)).expect("sent");
    let id = running(&stage, "INSERT INTO pipeline_lost.t SELECT 20");
    stage.primary.client().run(&format!("KILL {id}"));
    let answers: Vec<_> = texts.iter().map(|_| client.answer(false)).collect();
    assert!(answers[0].is_ok() && answers[1].is_ok(), "{answers:?}");
    assert_eq!([number(&answers[3]), number(&answers[4])], [1158, 1158]);
    assert!(client.is_closed_within(Duration::from_secs(30)));
    let count = stage
        .primary
        .client()
        .value("SELECT COUNT(*) FROM pipeline_lost.t");
    assert_eq!(count, "1");
    door.wait_unused();
}

#[test]
fn a_drain_ends_after_what_was_sent_to_the_server() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("pipeline_drain");
    stage.everywhere("CREATE TABLE pipeline_drain.t (a INT)");
    let door = stage.door();
    let mut client = door.client();
    let slow = "INSERT INTO pipeline_drain.t SELECT 10 + SLEEP(1)";
    let last = "INSERT INTO pipeline_drain.t VALUES (3)";
    client.send_bytes(&frames(&[slow, last])).expect("sent");
    running(&stage, "INSERT INTO pipeline_drain.t SELECT 10");
    door.drain(Duration::from_secs(30));
    assert!(client.answer(false).is_ok());
    assert!(client.answer(false).is_ok());
    assert!(client.is_closed_within(Duration::from_secs(30)));
}
