//! The SQL door: what a client and a server can agree on. A client is offered what the primary would
//! offer, and gets the same replies under whatever it takes up.

use std::net::SocketAddr;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::handshake::Greeting;
use testkit::client::{Failure, Login, Reply, Value};
use testkit::{Client, Door, Release, Server, Stage};

/// Offered by servers and for other reasons, or not, by Heddle: TLS, compression, and what follows
/// from them.
const TRANSPORT: Capabilities = Capabilities::SSL
    .union(Capabilities::COMPRESS)
    .union(Capabilities::ZSTD_COMPRESSION)
    .union(Capabilities::SSL_VERIFY_SERVER_CERT);

fn each(releases: &[Release], check: impl Fn(&Stage, &Door)) {
    for release in releases {
        let Some(stage) = Stage::start_with(*release) else {
            continue;
        };
        stage.database("caps");
        let door = stage.door();
        check(&stage, &door);
        door.wait_unused();
    }
}

const MARIADB: [Release; 2] = [Release::Installed, Release::MariaDb114];

#[test]
fn the_greeting_is_the_primarys() {
    each(&Release::ALL, |stage, door| {
        let greeting = |address: SocketAddr| {
            let mut client = Client::dial(address).expect("connected");
            let payload = client.read_packet().expect("a greeting");
            let greeting = Greeting::decode(&payload).expect("well-formed");
            let capabilities = greeting.capabilities - TRANSPORT;
            (
                greeting.version.to_owned(),
                capabilities,
                greeting.collation,
                greeting.status,
                greeting.plugin.to_owned(),
            )
        };
        let straight = greeting(stage.primary.address());
        assert_eq!(greeting(door.address()), straight);
    });
}

/// A login with all that MariaDB's own clients take up.
fn mariadb(more: Capabilities) -> Login<'static> {
    let usual = Login::default();
    let own = Capabilities::MARIADB_STMT_BULK
        | Capabilities::MARIADB_EXTENDED_METADATA
        | Capabilities::MARIADB_CACHE_METADATA
        | Capabilities::MARIADB_PROGRESS
        | Capabilities::MARIADB_BULK_UNIT_RESULTS;
    Login {
        database: Some("caps"),
        capabilities: (usual.capabilities | own | more) - Capabilities::LONG_PASSWORD,
        ..usual
    }
}

fn shown(outcome: Result<Vec<Reply>, Failure>) -> String {
    match outcome {
        Ok(replies) => format!("{replies:?}"),
        Err(failure) => failure.to_string(),
    }
}

/// The same steps straight and through, with their outcomes compared one by one.
#[track_caller]
fn compare(
    stage: &Stage,
    door: &Door,
    login: &Login<'_>,
    steps: impl Fn(&mut Client) -> Vec<String>,
) {
    let mut straight = Client::login(stage.primary.address(), login).expect("root");
    let mut through = door.login(login).expect("root");
    assert_eq!(through.capabilities, straight.capabilities);
    let expected = steps(&mut straight);
    for (got, expected) in steps(&mut through).iter().zip(&expected) {
        assert_eq!(
            got, expected,
            "{} {:?}",
            straight.version, straight.capabilities
        );
    }
}

fn texts(client: &mut Client, texts: &[&str]) -> Vec<String> {
    let said = |sql: &&str| format!("{sql}: {}", shown(client.query(sql)));
    texts.iter().map(said).collect()
}

#[test]
fn columns_say_more_to_mariadbs_own_clients() {
    each(&MARIADB, |stage, door| {
        for more in [Capabilities::empty(), Capabilities::DEPRECATE_EOF] {
            compare(stage, door, &mariadb(more), |client| {
                let mut said = texts(
                    client,
                    &[
                        "CREATE OR REPLACE TABLE t (a INT, j JSON, i INET6, u UUID, g POINT, v VARCHAR(9))",
                        "INSERT INTO t VALUES (1, '[1]', '::1', UUID_NIL(), POINT(1,2), 'x')"
                            .replace("UUID_NIL()", "'00000000-0000-0000-0000-000000000001'")
                            .leak(),
                        "SELECT * FROM t",
                        "SELECT a FROM t WHERE 0; SELECT 1; DO 1; SELECT j FROM t",
                        "SELECT nothing",
                    ],
                );
                let select = client.prepare("SELECT *, ? FROM t").expect("prepared");
                said.push(format!("{:?} {:?}", select.params, select.columns));
                for value in [Value::from(7), Value::from("text"), Value::Null] {
                    said.push(shown(client.execute(&select, &[value])));
                }
                client.run("ALTER TABLE t ADD COLUMN b INT DEFAULT 5");
                let again = client.prepare("SELECT * FROM t").expect("prepared");
                said.push(shown(client.execute(&again, &[])));
                client.close(select).expect("sent");
                said
            });
        }
        // A client with none of this, on the same door.
        let mut plain = door.client_in("caps");
        assert_eq!(plain.rows("/*ms=master*/ SELECT a, v FROM t").len(), 1);
    });
}

/// Rows of an INT and a text.
fn rows() -> Vec<Vec<Value>> {
    vec![
        vec![Value::from(1), Value::from("one")],
        vec![Value::from(2), Value::Null],
        vec![Value::from(3), Value::Bytes(vec![b'3'; 70_000])],
    ]
}

fn bulk(client: &mut Client) -> Vec<String> {
    let mut said = texts(
        client,
        &["CREATE OR REPLACE TABLE b (a BIGINT PRIMARY KEY, t LONGTEXT)"],
    );
    let insert = client
        .prepare("INSERT INTO b VALUES (?, ?)")
        .expect("prepared");
    let rows = rows();
    let rows: Vec<&[Value]> = rows.iter().map(|row| &row[..]).collect();
    let types = [Value::from(0), Value::from("")];
    said.push(shown(client.execute_bulk(&insert, 0, Some(&types), &rows)));
    said.push(shown(client.query("SELECT a, LENGTH(t) FROM b ORDER BY a")));
    // All are there: the first stops the others.
    said.push(shown(client.execute_bulk(&insert, 0, Some(&types), &rows)));
    let delete = client
        .prepare("DELETE FROM b WHERE a = ?")
        .expect("prepared");
    let keys: Vec<[Value; 1]> = (1..4).map(|key| [Value::from(key)]).collect();
    let keys: Vec<&[Value]> = keys.iter().map(|key| &key[..]).collect();
    said.push(shown(client.execute_bulk(
        &delete,
        0,
        Some(&types[..1]),
        &keys,
    )));
    // Without types: those of last time hold.
    said.push(shown(client.execute_bulk(&insert, 0, None, &rows)));
    said.push(shown(
        client.execute(&insert, &[Value::from(9), Value::from("single")]),
    ));
    said.push(shown(
        client.query("SELECT COUNT(*), SUM(LENGTH(t)) FROM b"),
    ));
    let absent = testkit::client::Statement {
        id: 4711,
        ..insert.clone()
    };
    said.push(shown(client.execute_bulk(&absent, 0, Some(&types), &rows)));
    said.push(shown(client.execute_bulk(&insert, 0, Some(&types), &[])));
    said
}

#[test]
fn many_rows_in_one_execution() {
    each(&MARIADB, |stage, door| {
        compare(stage, door, &mariadb(Capabilities::DEPRECATE_EOF), bulk);
        compare(stage, door, &mariadb(Capabilities::empty()), bulk);
        let bare = Login {
            database: Some("caps"),
            ..Login::default()
        };
        compare(stage, door, &bare, |client| {
            let insert = client
                .prepare("INSERT INTO b VALUES (?, ?)")
                .expect("prepared");
            let types = [Value::from(0), Value::from("")];
            let row = [Value::from(5), Value::from("x")];
            vec![shown(client.execute_bulk(
                &insert,
                0,
                Some(&types),
                &[&row],
            ))]
        });
    });
}

#[test]
fn a_bulk_execution_follows_its_session() {
    each(&[Release::Installed], |_, door| {
        let login = mariadb(Capabilities::DEPRECATE_EOF);
        let mut client = door.login(&login).expect("root");
        client.run("CREATE TABLE moved (a BIGINT PRIMARY KEY, t LONGTEXT)");
        let insert = client
            .prepare("INSERT INTO moved VALUES (?, ?)")
            .expect("prepared");
        let types = [Value::from(0), Value::from("")];
        let mut others = Vec::new();
        for turn in 0..4 {
            let row = [Value::from(turn), Value::from("x")];
            let given = (turn == 0).then_some(&types[..]);
            client
                .execute_bulk(&insert, 0, given, &[&row])
                .expect("inserted");
            // It keeps the connection, so that the next execution runs on another one.
            let mut other = door.login(&login).expect("root");
            other.run("BEGIN");
            others.push(other);
        }
        assert_eq!(client.value("SELECT COUNT(*) FROM moved"), "4");
        assert!(door.counter("prepares_repeated") >= 3);
        // Over 16 MB in one execution.
        let big: Vec<[Value; 2]> = (10..30)
            .map(|key| [Value::from(key), Value::Bytes(vec![b'y'; 1 << 20])])
            .collect();
        let big: Vec<&[Value]> = big.iter().map(|row| &row[..]).collect();
        client
            .execute_bulk(&insert, 0, None, &big)
            .expect("inserted");
        assert_eq!(client.value("SELECT COUNT(*) FROM moved"), "24");
    });
}

#[test]
fn columns_may_be_left_out() {
    each(&[Release::MySql80], |stage, door| {
        for more in [Capabilities::empty(), Capabilities::DEPRECATE_EOF] {
            let usual = Login::default();
            let optional = Capabilities::OPTIONAL_RESULTSET_METADATA;
            let login = Login {
                database: Some("caps"),
                capabilities: usual.capabilities | optional | more,
                ..usual
            };
            compare(stage, door, &login, |client| {
                let mut said = texts(
                    client,
                    &[
                        "SELECT 1, 'a'",
                        "SET SESSION resultset_metadata = NONE",
                        "SELECT 1, 'a'",
                        "SELECT 1; DO 1; SELECT 'b', NULL",
                        "SELECT nothing",
                        "SELECT @@resultset_metadata",
                    ],
                );
                let statement = client.prepare("SELECT ?, 2").expect("prepared");
                said.push(format!("{:?} {:?}", statement.params, statement.columns));
                client.run("SET SESSION resultset_metadata = FULL");
                said.push(shown(client.query("SELECT 1")));
                let statement = client.prepare("SELECT ?, 2").expect("prepared");
                said.push(format!("{:?} {:?}", statement.params, statement.columns));
                said.push(shown(client.execute(&statement, &[Value::from("x")])));
                said
            });
        }
        let mut plain = door.client();
        assert_eq!(plain.error("SET SESSION resultset_metadata = NONE"), {
            stage
                .primary
                .client()
                .error("SET SESSION resultset_metadata = NONE")
        });
    });
}

#[test]
fn server_connections_say_whose_they_are() {
    for release in Release::ALL {
        let observed = [("performance_schema", "ON")];
        let Some(server) = Server::start_with(release, &observed) else {
            continue;
        };
        let door = Door::start(&[&server], |_| {});
        let mut client = door.client();
        client.run("BEGIN");
        let rows = server.client().rows(
            "SELECT attr_value FROM performance_schema.session_account_connect_attrs \
             WHERE attr_name = '_client_name'",
        );
        assert!(rows.contains(&vec![Some("heddle".to_owned())]), "{rows:?}");
        client.run("COMMIT");
    }
}

#[test]
fn the_same_commands_are_unknown() {
    each(&Release::ALL, |stage, door| {
        let login = Login {
            database: Some("caps"),
            ..Login::default()
        };
        compare(stage, door, &login, |client| {
            let mut said = Vec::new();
            for command in [
                Command::Statistics,
                Command::ProcessInfo,
                Command::SetOption,
                Command::StmtFetch,
                Command::StmtReset,
            ] {
                client.send_command(command, &[9, 9]).expect("sent");
                let first = client.read_packet().expect("an answer");
                said.push(format!("{command:?} {}", first[0]));
                if first[0] == 255 {
                    said.push(client.server_failure(&first).to_string());
                } else if command == Command::ProcessInfo {
                    break;
                }
            }
            said
        });
    });
}
