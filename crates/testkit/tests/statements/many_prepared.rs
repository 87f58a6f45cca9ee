//! The SQL door: prepared statements in numbers that no server keeps, and over changes beneath them.

use std::time::Duration;

use mysql_wire::status::Status;
use testkit::client::{Failure, Reply, Statement, Value};
use testkit::{Client, Door, Release, Server, Stage, wait_until};

/// What one connection keeps here.
const KEPT: usize = 10;

/// Closes are sent together: so many more statements may be there for a while.
const CLOSING: usize = 32;

/// A door in front of the primary alone, with few connections that keep few statements.
fn small_door(stage: &Stage, connections: usize) -> Door {
    Door::start(&[&stage.primary], |tuning| {
        tuning.settings.pool.connections_max = connections;
        tuning.settings.pool.statements_max = KEPT;
    })
}

/// The rows of the only result.
#[track_caller]
fn rows(answer: Result<Vec<Reply>, Failure>) -> Vec<Vec<Option<String>>> {
    match answer.expect("executed").as_slice() {
        [Reply::Rows(rows)] => rows.text(),
        other => panic!("expected rows, got {other:?}"),
    }
}

/// Executes with one number; gives the only value.
#[track_caller]
fn value(client: &mut Client, statement: &Statement, number: i64) -> String {
    let rows = rows(client.execute(statement, &[Value::Int(number)]));
    rows[0][0].clone().expect("a value")
}

/// Statements that the server has prepared now.
fn prepared_at(server: &Server) -> usize {
    let rows = server
        .client()
        .rows("SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'");
    rows[0][1]
        .as_deref()
        .and_then(|n| n.parse().ok())
        .expect("a number")
}

fn many_statements_over_few_connections(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    let door = small_door(&stage, 2);
    let mut clients = [door.client(), door.client()];
    let mut statements: Vec<Vec<Statement>> = vec![Vec::new(), Vec::new()];
    for n in 0..300 {
        for (client, own) in clients.iter_mut().zip(&mut statements) {
            let text = format!("SELECT ? + {n}");
            own.push(client.prepare(&text).expect("prepared"));
        }
    }
    for round in 0..2 {
        for n in (0..300).map(|i| (i * 7 + round) % 300) {
            for (client, own) in clients.iter_mut().zip(&statements) {
                let sum = value(client, &own[n], 1000);
                assert_eq!(sum.trim_end_matches(".0"), (1000 + n).to_string());
            }
        }
        assert!(prepared_at(&stage.primary) <= 2 * (KEPT + CLOSING));
    }
    // What a client closes is no more its own, and what is left still works.
    let closed = statements[0].remove(5);
    let id = closed.id;
    clients[0].close(closed).expect("sent");
    clients[0]
        .send_execute(id, 0, &[Value::Int(1)])
        .expect("sent");
    let gone = clients[0].read_results(true).expect_err("closed");
    assert_eq!(gone.number(), 1243);
    assert_eq!(
        value(&mut clients[0], &statements[0][5], 1).trim_end_matches(".0"),
        "7"
    );
    assert!(
        clients[0]
            .prepare("SELECT ? FROM")
            .is_err_and(|f| f.number() == 1064)
    );
    assert!(
        clients[0]
            .prepare("SELECT ? FROM stage.nothing")
            .is_err_and(|f| f.number() == 1146)
    );
    clients.into_iter().for_each(Client::quit);
    door.wait_unused();
}

#[test]
fn many_statements_mariadb_10() {
    many_statements_over_few_connections(Release::Installed);
}

#[test]
fn many_statements_mariadb_11() {
    many_statements_over_few_connections(Release::MariaDb114);
}

#[test]
fn many_statements_mysql_8() {
    many_statements_over_few_connections(Release::MySql80);
}

#[test]
fn an_open_cursor_and_long_data_outlive_many_other_statements() {
    let Some(stage) = Stage::shared() else { return };
    let door = small_door(&stage, 1);
    let mut client = door.client();
    let numbers = client
        .prepare("SELECT 1 UNION SELECT 2 UNION SELECT 3 UNION SELECT 4")
        .expect("prepared");
    client.send_execute(numbers.id, 1, &[]).expect("sent");
    client.read_result(true).expect("opened");
    assert!(client.status.contains(Status::CURSOR_EXISTS));
    let length = client.prepare("SELECT LENGTH(?)").expect("prepared");
    client.send_long_data(length.id, 0, b"12345").expect("sent");
    for n in 0..5 * KEPT as i64 {
        let other = client
            .prepare(&format!("SELECT ? * {n}"))
            .expect("prepared");
        let product = value(&mut client, &other, 2);
        assert_eq!(product.trim_end_matches(".0"), (2 * n).to_string());
    }
    let first = client
        .fetch(&numbers, 2)
        .expect("rows of the cursor")
        .text();
    assert_eq!(first, [[Some("1".to_owned())], [Some("2".to_owned())]]);
    client
        .send_execute(length.id, 0, &[Value::from("")])
        .expect("sent");
    let answer = rows(client.read_results(true));
    assert_eq!(answer, [[Some("5".to_owned())]]);
    let rest = client
        .fetch(&numbers, 10)
        .expect("rows of the cursor")
        .text();
    assert_eq!(rest, [[Some("3".to_owned())], [Some("4".to_owned())]]);
    client.quit();
    door.wait_unused();
}

fn a_server_with_too_many_statements(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    let door = Door::start(&[&stage.primary], |_| {});
    let mut control = stage.primary.client();
    control.run("SET GLOBAL max_prepared_stmt_count = 30");
    let mut straight = stage.primary.client();
    let mut own: Vec<Statement> = (0..20)
        .map(|n| straight.prepare(&format!("DO {n}")).expect("prepared"))
        .collect();
    // The last ten places serve any number of statements, of clients on different connections.
    let mut clients = [door.client(), door.client(), door.client()];
    let mut statements = Vec::new();
    for n in 0..40 {
        for client in &mut clients {
            client.run("BEGIN");
        }
        for (at, client) in clients.iter_mut().enumerate() {
            let statement = client
                .prepare(&format!("SELECT ? + {n} -- {at}"))
                .expect("prepared");
            statements.push((at, n, statement));
            client.run("COMMIT");
        }
    }
    for (at, n, statement) in &statements {
        let sum = value(&mut clients[*at], statement, 1);
        assert_eq!(sum.trim_end_matches(".0"), (n + 1).to_string());
    }
    // Without any place left it is as with the server itself.
    drop(clients);
    drop(door);
    wait_until(Duration::from_secs(30), "no place is left", || {
        let more = straight.prepare("DO ?");
        let full = more.as_ref().is_err_and(|failure| failure.number() == 1461);
        own.extend(more);
        full && own.len() == 30
    });
    let door = Door::start(&[&stage.primary], |_| {});
    let refused = door.client().prepare("DO ?").expect_err("no place");
    assert_eq!(refused.number(), 1461);
}

#[test]
fn too_many_statements_mariadb_10() {
    a_server_with_too_many_statements(Release::Installed);
}

#[test]
fn too_many_statements_mariadb_11() {
    a_server_with_too_many_statements(Release::MariaDb114);
}

#[test]
fn too_many_statements_mysql_8() {
    a_server_with_too_many_statements(Release::MySql80);
}

fn statements_survive_ddl_and_a_restart(release: Release) {
    let Some(mut stage) = Stage::start_with(release) else {
        return;
    };
    stage.database("ddl");
    stage.everywhere("CREATE TABLE ddl.t (a INT); INSERT INTO ddl.t VALUES (1)");
    let door = small_door(&stage, 2);
    let mut client = door.client_in("ddl");
    let read = client
        .prepare("SELECT * FROM t WHERE a >= ?")
        .expect("prepared");
    let write = client.prepare("UPDATE t SET a = a + ?").expect("prepared");
    let one = [Value::Int(1)];
    let cell = |text: &str| Some(text.to_owned());
    assert_eq!(rows(client.execute(&read, &one)), [[cell("1")]]);
    let mut straight = stage.primary.client();
    straight.run("ALTER TABLE ddl.t ADD b VARCHAR(5) DEFAULT 'x'");
    assert_eq!(rows(client.execute(&read, &one)), [[cell("1"), cell("x")]]);
    client.execute(&write, &one).expect("executed");
    straight.run("DROP TABLE ddl.t");
    let gone = client.execute(&read, &one).expect_err("no table");
    assert_eq!(gone.number(), 1146);
    straight.run("CREATE TABLE ddl.t (a BIGINT, c INT DEFAULT 7)");
    straight.run("INSERT INTO ddl.t (a) VALUES (5)");
    assert_eq!(rows(client.execute(&read, &one)), [[cell("5"), cell("7")]]);
    client.execute(&write, &one).expect("executed");
    assert_eq!(rows(client.execute(&read, &one)), [[cell("6"), cell("7")]]);
    // Durability is relaxed here: what a restart must keep is put there after it.
    stage.primary.client().run("FLUSH ENGINE LOGS");
    stage.primary.kill();
    stage.primary.restart();
    let mut straight = stage.primary.client();
    straight.run("DELETE FROM ddl.t");
    straight.run("INSERT INTO ddl.t (a) VALUES (8)");
    wait_until(
        Duration::from_secs(30),
        "the dead connections are found out",
        || client.execute(&write, &one).is_ok(),
    );
    assert_eq!(rows(client.execute(&read, &one)), [[cell("9"), cell("7")]]);
}

#[test]
fn ddl_and_restart_mariadb_10() {
    statements_survive_ddl_and_a_restart(Release::Installed);
}

#[test]
fn ddl_and_restart_mariadb_11() {
    statements_survive_ddl_and_a_restart(Release::MariaDb114);
}

#[test]
fn ddl_and_restart_mysql_8() {
    statements_survive_ddl_and_a_restart(Release::MySql80);
}

/// A proof for a quiet hour: `cargo test --release -p testkit --test statements many_prepared:: -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_million_distinct_statements_are_right_and_leave_nothing() {
    let Some(stage) = Stage::start() else { return };
    let door = Door::start(&[&stage.primary], |tuning| {
        tuning.threads = 2;
        tuning.settings.pool.statements_max = 200;
    });
    let (each, clients) = (125_000, 8);
    let address = door.address();
    let workers: Vec<_> = (0..clients)
        .map(|worker| {
            std::thread::spawn(move || {
                let mut client = Client::connect(address, "root", "").expect("connected");
                let mut open: Vec<(Statement, i64)> = Vec::new();
                for n in 0..each {
                    let number = i64::from(worker * each + n);
                    let statement = client.prepare(&format!("SELECT ? + {number}"));
                    let statement = statement.expect("prepared");
                    assert_eq!(value(&mut client, &statement, 5), (number + 5).to_string());
                    open.push((statement, number));
                    if open.len() == 500 {
                        // An old one is still what it was, wherever it has to be prepared again.
                        let (oldest, number) = &open[0];
                        assert_eq!(value(&mut client, oldest, 7), (number + 7).to_string());
                        for (statement, _) in open.drain(..400) {
                            client.close(statement).expect("closed");
                        }
                    }
                }
                client.quit();
            })
        })
        .collect();
    for worker in workers {
        worker.join().expect("every statement was right");
    }
    door.wait_unused();
    assert!(prepared_at(&stage.primary) <= 64 * (200 + CLOSING));
}
