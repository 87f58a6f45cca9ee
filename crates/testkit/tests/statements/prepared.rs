//! The SQL door: prepared statements under the client's own ids, on whichever connection serves.

use mysql_wire::command::Command;
use testkit::client::{Reply, Rows, Statement, Value};
use testkit::{Client, Stage};

/// Executes and gives the rows of the only result.
#[track_caller]
fn rows(client: &mut Client, statement: &Statement, values: &[Value]) -> Vec<Vec<Option<String>>> {
    let mut replies = client.execute(statement, values).expect("executed");
    match replies.pop() {
        Some(Reply::Rows(rows)) if replies.is_empty() => rows.text(),
        other => panic!("expected one result, got {other:?}"),
    }
}

/// COM_STMT_EXECUTE of two BIGINT parameters without their types.
fn without_types(client: &mut Client, id: u32, values: [i64; 2]) -> Rows {
    let mut body = id.to_le_bytes().to_vec();
    body.extend_from_slice(&[0, 1, 0, 0, 0, 0, 0]);
    for value in values {
        body.extend_from_slice(&value.to_le_bytes());
    }
    client
        .send_command(Command::StmtExecute, &body)
        .expect("sent");
    match client.read_result(true).expect("rows") {
        Reply::Rows(rows) => rows,
        other => panic!("expected rows, got {other:?}"),
    }
}

fn cell(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_statement_is_known_on_every_connection() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    let who = client
        .prepare("SELECT name, ? + ? FROM stage.who")
        .expect("prepared");
    let both = [Value::Int(1), Value::Int(2)];
    assert_eq!(
        rows(&mut client, &who, &both),
        [[cell("replica"), cell("3")]]
    );
    client.run("BEGIN");
    assert_eq!(
        rows(&mut client, &who, &both),
        [[cell("primary"), cell("3")]]
    );
    // Types are not sent again: neither to the connection that has them nor to a third one.
    assert_eq!(
        without_types(&mut client, who.id, [3, 4]).text(),
        [[cell("primary"), cell("7")]]
    );
    client.run("COMMIT");
    assert_eq!(
        without_types(&mut client, who.id, [5, 6]).text(),
        [[cell("replica"), cell("11")]]
    );
    let mut blocker = door.client();
    blocker.run("START TRANSACTION");
    client.run("START TRANSACTION");
    assert_eq!(
        without_types(&mut client, who.id, [7, 8]).text(),
        [[cell("primary"), cell("15")]]
    );
    client.run("COMMIT");
    blocker.run("ROLLBACK");
    assert!(door.counter("prepares_repeated") >= 2);
    // Another session with other types on the same connections changes nothing.
    let mut other = door.client();
    let same = other
        .prepare("SELECT name, ? + ? FROM stage.who")
        .expect("prepared");
    let texts = [Value::from("10"), Value::from("20")];
    assert_eq!(
        rows(&mut other, &same, &texts),
        [[cell("replica"), cell("30")]]
    );
    assert_eq!(
        without_types(&mut client, who.id, [9, 1]).text(),
        [[cell("replica"), cell("10")]]
    );
    assert_eq!(
        rows(&mut other, &same, &texts),
        [[cell("replica"), cell("30")]]
    );
}

#[test]
fn values_of_all_kinds_and_nulls() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    let marks = vec!["?"; 20].join(", ");
    let statement = client
        .prepare(&format!("SELECT {marks}"))
        .expect("prepared");
    let kinds = [
        Value::Int(-5),
        Value::UInt(u64::MAX),
        Value::Double(1.5),
        Value::from("text"),
        Value::from(""),
        Value::Null,
    ];
    for shift in 0..kinds.len() {
        let values: Vec<Value> = (0..20)
            .map(|i| kinds[(i + shift) % kinds.len()].clone())
            .collect();
        let expected: Vec<Option<String>> = values.iter().map(Value::text).collect();
        assert_eq!(
            rows(&mut client, &statement, &values),
            [expected],
            "shift {shift}"
        );
    }
}

#[test]
fn long_data_waits_for_its_statement() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    let mut other = door.client();
    let text = "SELECT CONCAT(?, '|', ?)";
    // Two statements with one text: neither gets the other's data.
    let one = client.prepare(text).expect("prepared");
    let two = client.prepare(text).expect("prepared");
    client.send_long_data(one.id, 0, b"long ").expect("sent");
    client.send_long_data(two.id, 1, b"other").expect("sent");
    client.send_long_data(one.id, 0, b"data").expect("sent");
    other.run("DO 1");
    let execute = |client: &mut Client, id: u32, long_at: usize, value: &str| {
        let mut body = id.to_le_bytes().to_vec();
        body.extend_from_slice(&[0, 1, 0, 0, 0, 0, 1, 252, 0, 252, 0]);
        assert!(long_at < 2, "two parameters");
        body.push(value.len() as u8);
        body.extend_from_slice(value.as_bytes());
        client
            .send_command(Command::StmtExecute, &body)
            .expect("sent");
        match client.read_result(true) {
            Ok(Reply::Rows(rows)) => rows.text(),
            other => panic!("expected rows, got {other:?}"),
        }
    };
    assert_eq!(
        execute(&mut client, one.id, 0, "b"),
        [[cell("long data|b")]]
    );
    assert_eq!(execute(&mut client, two.id, 1, "a"), [[cell("a|other")]]);
    client
        .send_long_data(one.id, 0, b"forgotten")
        .expect("sent");
    client.reset_statement(one.id).expect("reset");
    let both = [Value::from("x"), Value::from("y")];
    assert_eq!(rows(&mut client, &one, &both), [[cell("x|y")]]);
    client
        .send_long_data(two.id, 0, b"closed with it")
        .expect("sent");
    client.close(two).expect("closed");
    assert_eq!(rows(&mut client, &one, &both), [[cell("x|y")]]);
    let big = vec![b'z'; 3 << 20];
    for part in big.chunks(1 << 20) {
        client.send_long_data(one.id, 0, part).expect("sent");
    }
    let said = execute(&mut client, one.id, 0, "end");
    assert_eq!(said[0][0].as_ref().map(String::len), Some((3 << 20) + 4));
    drop((client, other));
    door.wait_unused();
}

#[test]
fn cursors_hold_their_connection_until_they_end() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client_in("stage");
    let mut other = door.client();
    let text = "SELECT seq FROM seq_1_to_10 WHERE seq > ?";
    let one = client.prepare(text).expect("prepared");
    let two = client.prepare(text).expect("prepared");
    for (statement, from) in [(&one, 0), (&two, 5)] {
        client
            .send_execute(statement.id, 1, &[Value::Int(from)])
            .expect("sent");
        client.read_result(true).expect("a cursor");
    }
    other.run("DO 1");
    let texts = |rows: &Rows| -> Vec<String> {
        rows.text()
            .into_iter()
            .map(|row| row[0].clone().unwrap_or_default())
            .collect()
    };
    assert_eq!(
        texts(&client.fetch(&one, 3).expect("fetched")),
        ["1", "2", "3"]
    );
    // The same text prepared again leaves open cursors alone.
    let three = client.prepare(text).expect("prepared");
    assert_eq!(
        texts(&client.fetch(&two, 3).expect("fetched")),
        ["6", "7", "8"]
    );
    assert_eq!(texts(&client.fetch(&one, 100).expect("fetched")).len(), 7);
    assert_eq!(
        client.fetch(&three, 1).expect_err("no cursor").number(),
        1421
    );
    client.reset_statement(two.id).expect("reset");
    assert_eq!(client.fetch(&two, 1).expect_err("closed").number(), 1421);
    let again = client.query("SELECT 1").expect("the session goes on");
    assert_eq!(again.len(), 1);
    client
        .send_execute(three.id, 1, &[Value::Int(0)])
        .expect("sent");
    client.read_result(true).expect("a cursor");
    client.close(three).expect("closed");
    client.ping().expect("the close has been read");
    testkit::wait_until(
        std::time::Duration::from_secs(10),
        "nothing is held",
        || door.counter("pool_in_use") == 0,
    );
}

#[test]
fn errors_unknown_ids_and_short_commands() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    assert_eq!(
        client
            .prepare("SELECT no_such_column FROM stage.who")
            .expect_err("bad")
            .number(),
        1054
    );
    let failure = client.prepare("SELEC").expect_err("bad");
    assert!(failure.to_string().starts_with("1064 (42000)"), "{failure}");
    let statement = client
        .prepare("SELECT 1 FROM stage.who WHERE name = ?")
        .expect("prepared");
    let unknown = Statement {
        id: 4711,
        ..statement.clone()
    };
    let failure = client
        .execute(&unknown, &["x".into()])
        .expect_err("unknown");
    assert!(failure.to_string().starts_with("1243 (HY000)"), "{failure}");
    assert_eq!(
        client.reset_statement(4711).expect_err("unknown").number(),
        1243
    );
    assert_eq!(
        client.fetch(&unknown, 1).expect_err("unknown").number(),
        1243
    );
    // No answer to any of these.
    client.close(unknown).expect("sent");
    client.send_long_data(4711, 0, b"data").expect("sent");
    client.send_command(Command::StmtClose, &[1]).expect("sent");
    client.ping().expect("answered");
}

#[test]
fn commands_that_end_too_early() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    let statement = client
        .prepare("SELECT 1 FROM stage.who WHERE name = ?")
        .expect("prepared");
    // Commands that end too early.
    let id = statement.id.to_le_bytes();
    for body in [
        &[][..],
        &id[..2],
        &id[..],
        &[id[0], 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8],
    ] {
        client
            .send_command(Command::StmtExecute, body)
            .expect("sent");
        let number = client.read_result(true).expect_err("refused").number();
        assert!(
            matches!(number, 1835 | 1243 | 1210),
            "{number} for {body:?}"
        );
        client.ping().expect("the session goes on");
    }
    assert!(rows(&mut client, &statement, &["primary".into()]).is_empty());
    client.close(statement.clone()).expect("closed");
    assert_eq!(
        client
            .execute(&statement, &["x".into()])
            .expect_err("closed")
            .number(),
        1243
    );
    assert_eq!(
        client
            .prepare("SELECT 1; SELECT 2")
            .expect_err("one only")
            .number(),
        1064
    );
}

#[test]
fn more_statements_than_a_connection_keeps() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.statements_max = 300);
    let mut client = door.client();
    let statements: Vec<Statement> = (0..300)
        .map(|n| {
            client
                .prepare(&format!("SELECT {n} + ?"))
                .expect("prepared")
        })
        .collect();
    assert_eq!(
        client.prepare("SELECT 1").expect_err("too many").number(),
        1461
    );
    for n in (0..300).chain((0..300).rev().step_by(7)) {
        let said = rows(&mut client, &statements[n], &[Value::Int(1000)]);
        assert_eq!(said, [[Some((n + 1000).to_string())]]);
    }
    // The servers keep no more than the limit of each connection.
    let mut direct = stage.replica.client();
    let open = direct
        .rows("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'")
        .remove(0);
    let open: u64 = open[1]
        .as_ref()
        .and_then(|n| n.parse().ok())
        .expect("a number");
    assert!(open <= 900, "{open}");
    for statement in statements {
        client.close(statement).expect("closed");
    }
    client.prepare("SELECT 1").expect("there is room again");
}

#[test]
fn ddl_and_settings_between_executions() {
    let Some(stage) = Stage::shared() else { return };
    for name in ["ps_ddl", "ps_ddl_two"] {
        stage.database(name);
        stage.everywhere(&format!("CREATE TABLE {name}.t (a VARCHAR(20))"));
        stage.everywhere(&format!("INSERT INTO {name}.t VALUES ('{name}')"));
    }
    let door = stage.door();
    let mut client = door.client_in("ps_ddl");
    let statement = client.prepare("SELECT * FROM t").expect("prepared");
    let quoted = {
        client.run("SET sql_mode = 'ANSI_QUOTES'");
        let quoted = client.prepare("SELECT \"a\" FROM t").expect("prepared");
        client.run("SET sql_mode = DEFAULT");
        quoted
    };
    assert_eq!(rows(&mut client, &statement, &[]), [[cell("ps_ddl")]]);
    // What the text meant at PREPARE it means on any connection, whatever the session set since.
    client.run("USE ps_ddl_two");
    client.run("BEGIN");
    assert_eq!(rows(&mut client, &statement, &[]), [[cell("ps_ddl")]]);
    assert_eq!(rows(&mut client, &quoted, &[]), [[cell("ps_ddl")]]);
    assert_eq!(client.value("SELECT a FROM t"), "ps_ddl_two");
    client.run("COMMIT");
    stage.everywhere("ALTER TABLE ps_ddl.t ADD COLUMN b INT DEFAULT 7");
    let wide = [[cell("ps_ddl"), cell("7")]];
    assert_eq!(rows(&mut client, &statement, &[]), wide);
    stage.everywhere("DROP TABLE ps_ddl.t");
    assert_eq!(
        client.execute(&statement, &[]).expect_err("gone").number(),
        1146
    );
    stage.everywhere("CREATE TABLE ps_ddl.t AS SELECT 'new' AS a");
    assert_eq!(rows(&mut client, &statement, &[]), [[cell("new")]]);
}

#[test]
fn writes_transactions_and_sets_can_be_prepared() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("ps_write");
    stage.everywhere("CREATE TABLE ps_write.t (id INT PRIMARY KEY AUTO_INCREMENT, a INT)");
    stage.everywhere("CREATE TABLE ps_write.u LIKE ps_write.t");
    let door = stage.door();
    let mut client = door.client_in("ps_write");
    let mut prepare = |sql: &str| client.prepare(sql).expect("prepared");
    let [begin, insert, commit, rollback, last, zone] = [
        "START TRANSACTION",
        "INSERT INTO t (a) VALUES (?)",
        "COMMIT",
        "ROLLBACK",
        "SELECT LAST_INSERT_ID()",
        "SET time_zone = ?",
    ]
    .map(&mut prepare);
    let mut other = door.client_in("ps_write");
    for (end, count) in [(&rollback, "0"), (&commit, "1")] {
        client.execute(&begin, &[]).expect("begun");
        let done = client.execute(&insert, &[Value::Int(5)]).expect("inserted");
        let [Reply::Done(done)] = &done[..] else {
            panic!("{done:?}")
        };
        other.run("INSERT INTO u VALUES (DEFAULT, 0), (DEFAULT, 0)");
        client.execute(end, &[]).expect("ended");
        let id = cell(&done.last_insert_id.to_string());
        assert_eq!(rows(&mut client, &last, &[]), [[id]]);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), count);
    }
    client.execute(&zone, &["+04:00".into()]).expect("set");
    other.run("DO 1");
    assert_eq!(client.value("SELECT @@time_zone"), "+04:00");
    assert_ne!(other.value("SELECT @@time_zone"), "+04:00");
}
