//! The SQL door: user variables are their session's, whichever pooled connection it runs on.

use testkit::client::Reply;
use testkit::door::Door;
use testkit::{Client, Release, Server};

/// Servers of every release that can be had.
fn servers() -> Vec<Server> {
    Release::ALL.into_iter().filter_map(Server::start).collect()
}

/// A door whose sessions all share one server connection.
fn narrow(server: &Server) -> Door {
    Door::start(&[server], |tuning| {
        tuning.settings.pool.connections_max = 1;
    })
}

/// Columns and rows, or the error.
fn all(client: &mut Client, sql: &str) -> String {
    match client.query(sql) {
        Ok(replies) => {
            let one = |reply: &Reply| match reply {
                Reply::Rows(rows) => format!("{:?} {:?}", rows.columns, rows.text()),
                Reply::Done(done) => format!("{} rows", done.affected_rows),
            };
            replies.iter().map(one).collect::<Vec<_>>().join("; ")
        }
        Err(failure) => failure.to_string(),
    }
}

/// Ways to give a variable a value of each type.
const VALUES: [&str; 30] = [
    "SET @v = 5",
    "SET @v = -9223372036854775808",
    "SET @v = 18446744073709551615",
    "SET @v = CAST(5 AS UNSIGNED)",
    "SET @v = 1.50",
    "SET @v = -0.000100",
    "SET @v = CAST(7 AS DECIMAL(20,0))",
    "SET @v = 12345678901234567890123456789012345678.123456789",
    "SET @v = 0.1e0 + 0.2e0",
    "SET @v = 1e308 * 1.7976931348623157e0",
    "SET @v = -1/3e0",
    "SET @v = 1e15",
    "SET @v = 'plain'",
    "SET @v = ''",
    "SET @v = 'it''s \\\\ \\n é'",
    "SET @v = _latin1 X'E9' COLLATE latin1_german1_ci",
    "SET @v = CONVERT('é' USING utf8mb4) COLLATE utf8mb4_bin",
    "SET @v = CONVERT('é' USING ucs2)",
    "SET @v = X'00FF27'",
    "SET @v = b'101'",
    "SET @v = NULL",
    "SET @v = NULL, @w = NULL",
    "SET @w = 5; SET @w = NULL; SET @v = 1.5; SET @v = (SELECT @w)",
    "SET @v = TRUE",
    "SET @v = CAST('2020-02-29 12:34:56' AS DATETIME)",
    "SELECT 3, 'x' INTO @v, @w",
    "SELECT @v := 42",
    "SET @v = @@sql_mode",
    "SET @v = REPEAT('x', 60000)",
    "SET @v = 1, @w = @v",
];

const ASK: &str = "SELECT @v, @w, COLLATION(@v), COERCIBILITY(@v), HEX(@v), LENGTH(@v)";

#[test]
fn every_type_of_value_follows_its_session() {
    for server in servers() {
        let door = narrow(&server);
        let mut other = door.client();
        for sql in VALUES {
            let (mut through, mut direct) = (door.client(), server.client());
            for client in [&mut through, &mut direct] {
                client.run("SET NAMES utf8mb4");
                client.run("SET @w = 'before'");
                client.query(sql).expect(sql);
            }
            // Somebody else uses the only connection: the values have to leave it and come back.
            other.run("SET @v = 'not yours', @other = 1");
            let wanted = all(&mut direct, ASK);
            assert_eq!(all(&mut through, ASK), wanted, "{sql}");
            assert_eq!(other.value("SELECT @v"), "not yours", "{sql}");
            assert_eq!(all(&mut through, ASK), wanted, "{sql}, again");
            assert_eq!(through.value("SELECT @other"), "NULL");
        }
        assert_eq!(door.counter("pins_user_variable"), 0);
        assert_eq!(door.counter("pool_opened").max(1), 1);
    }
}

#[test]
fn nobody_sees_the_variables_of_another() {
    for server in servers() {
        let mut direct = server.client();
        direct.run("CREATE DATABASE uv");
        direct.run("CREATE TABLE uv.t (a INT, who VARCHAR(20))");
        direct.run("CREATE FUNCTION uv.who() RETURNS VARCHAR(20) DETERMINISTIC RETURN @who");
        direct.run(
            "CREATE TRIGGER uv.t BEFORE INSERT ON uv.t FOR EACH ROW SET NEW.who = @who, @seen = 1",
        );
        let door = narrow(&server);
        let mut clients: Vec<Client> = (0..4).map(|_| door.client_in("uv")).collect();
        let mut last: Vec<Option<usize>> = vec![None; clients.len()];
        // A trigger and a function read what no text names.
        for round in 0..24 {
            let at = (round * 5 + round / 4) % clients.len();
            if at != 3 && round % 3 == 0 {
                clients[at].run(&format!("SET @who = CONCAT('n', {round}), @n{at} = 1"));
                last[at] = Some(round);
            }
            let wanted = last[at].map_or("NULL".to_owned(), |round| format!("n{round}"));
            assert_eq!(clients[at].value("SELECT who()"), wanted, "round {round}");
            clients[at].run(&format!("INSERT INTO t (a) VALUES ({round})"));
            let ask = format!("SELECT who FROM t WHERE a = {round}");
            assert_eq!(clients[at].value(&ask), wanted, "round {round}");
            // What a trigger assigned unseen is nobody else's.
            let next = (at + 1) % clients.len();
            assert_eq!(clients[next].value("SELECT @seen"), "NULL", "round {round}");
        }
        assert_eq!(door.counter("pins_user_variable"), 0);
        direct.run("DROP DATABASE uv");
    }
}

#[test]
fn variables_are_counted_up_and_prepared() {
    for server in servers() {
        let door = narrow(&server);
        let mut clients: Vec<Client> = (0..3).map(|_| door.client()).collect();
        let mut direct: Vec<Client> = (0..3).map(|_| server.client()).collect();
        for group in [&mut clients, &mut direct] {
            let mut said = Vec::new();
            for (at, client) in group.iter_mut().enumerate() {
                client.run(&format!("SET @n = {at}, @s := 'a'"));
            }
            let mut statements = Vec::new();
            for client in group.iter_mut() {
                statements.push(client.prepare("SELECT @n := @n + 1, @s").expect("prepared"));
            }
            for _ in 0..3 {
                for (client, statement) in group.iter_mut().zip(&statements) {
                    let rows = client.execute(statement, &[]).expect("rows");
                    let Reply::Rows(rows) = &rows[0] else {
                        panic!("rows")
                    };
                    said.push(rows.text());
                    client.query("SELECT @s := CONCAT(@s, @n)").expect("rows");
                }
            }
            let wanted = [
                [["1", "a"], ["2", "a"], ["3", "a"]],
                [["2", "a1"], ["3", "a2"], ["4", "a3"]],
                [["3", "a12"], ["4", "a23"], ["5", "a34"]],
            ];
            let said: Vec<Vec<String>> = said
                .iter()
                .map(|rows| {
                    rows[0]
                        .iter()
                        .map(|v| v.clone().expect("a value"))
                        .collect()
                })
                .collect();
            assert_eq!(said, wanted.concat());
        }
        assert_eq!(door.counter("pins_user_variable"), 0);
    }
}

#[test]
fn warnings_survive_the_fetching_of_variables() {
    for server in servers() {
        let door = narrow(&server);
        let (mut client, mut other) = (door.client(), door.client());
        client
            .query("SELECT @a := CAST('12x' AS SIGNED)")
            .expect("a warning");
        other.run("SET @b = RAND()");
        let rows = client.rows("SHOW WARNINGS");
        assert_eq!((rows.len(), rows[0][1].as_deref()), (1, Some("1292")));
        assert_eq!(client.value("SELECT @a"), "12");
    }
}

#[test]
fn what_cannot_move_stays() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let door = Door::start(&[&server], |tuning| {
        tuning.settings.pool.connections_max = 3
    });
    let (mut client, mut other) = (door.client(), door.client());
    client.run("SET @large = REPEAT('x', 1000000), @small = 1 + 1");
    let mut more: Vec<Client> = (0..4).map(|_| door.client()).collect();
    for client in &mut more {
        client.run("SET @a = RAND()");
    }
    for sql in ["SELECT SLEEP(0.1), @a", "SELECT SLEEP(0.1), @b"] {
        for client in &mut more {
            client.query(sql).expect("rows");
        }
    }
    assert_eq!(client.value("SELECT LENGTH(@large) + @small"), "1000002");
    assert_eq!(door.counter("pins_user_variable"), 1);
    other.run("SET @`é` = 5");
    assert_eq!(other.value("SELECT @`é`"), "5");
    assert_eq!(door.counter("pins_user_variable"), 2);
    assert_eq!(more[0].value("SELECT @`é`"), "NULL");
}

#[test]
fn a_connection_that_breaks_takes_only_what_it_alone_knew() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let door = narrow(&server);
    let mut client = door.client();
    client.run("SET @known = 1");
    client.run("SET @unknown = RAND()");
    let mut admin = server.client();
    let victims =
        admin.rows("SELECT id FROM information_schema.PROCESSLIST WHERE id <> CONNECTION_ID()");
    for victim in victims {
        let _ = admin.query(format!("KILL {}", victim[0].as_deref().expect("an id")));
    }
    // Either the statement finds the connection broken, or the session knows already.
    assert!(matches!(client.error("SELECT @unknown"), 1105));
    assert_eq!(client.value("SELECT @unknown"), "NULL");
    assert_eq!(client.value("SELECT @known"), "1");
}
