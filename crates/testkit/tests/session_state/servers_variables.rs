//! The SQL door: what servers say of their own variables counts. What only a connection has stays there,
//! and what a server refuses to set is no error for the client, nor anybody else's.

use std::time::Duration;

use farm::Engine;
use testkit::client::Login;
use testkit::{Client, Door, Release, Server, wait_until};

use crate::variables::{narrow, servers};

const SOON: Duration = Duration::from_secs(20);

/// The session variables that have no global value, as the server tells.
fn session_only(server: &Server) -> Vec<String> {
    let ask = match server.engine() {
        Engine::MariaDb => {
            "SELECT LOWER(VARIABLE_NAME) FROM information_schema.SYSTEM_VARIABLES \
             WHERE VARIABLE_SCOPE = 'SESSION ONLY' AND READ_ONLY = 'NO'"
        }
        Engine::MySql => {
            "SELECT VARIABLE_NAME FROM performance_schema.session_variables \
             WHERE VARIABLE_NAME NOT IN \
             (SELECT VARIABLE_NAME FROM performance_schema.global_variables)"
        }
    };
    let rows = server.client().rows(ask).into_iter();
    rows.map(|row| row[0].clone().expect("a name")).collect()
}

#[test]
fn what_has_no_global_value_ties_the_session() {
    for server in servers(&[]) {
        let door = narrow(&server);
        let mut tied = 0;
        for name in session_only(&server) {
            // These the router moves.
            if ["last_insert_id", "identity"].contains(&&*name) {
                continue;
            }
            let before = door.counter("pins_variable");
            let mut client = door.client();
            for value in ["1", "'AUTOMATIC'", "'FULL'"] {
                if client
                    .query(format!("SET SESSION {name} = {value}"))
                    .is_ok()
                {
                    wait_until(SOON, &format!("{}: {name}", server.version()), || {
                        door.counter("pins_variable") == before + 1
                    });
                    tied += 1;
                    break;
                }
            }
            client.quit();
        }
        assert!(tied > 5, "{}: {tied} variables", server.version());
    }
}

/// A server and one of a newer release of its engine.
fn pairs() -> Vec<[Server; 2]> {
    let releases = [
        [Release::Installed, Release::MariaDb114],
        [Release::MySql80, Release::MySqlNewer],
    ];
    let start = |pair: [Release; 2]| {
        let [Some(older), Some(newer)] = pair.map(Server::start) else {
            return None;
        };
        (older.version() != newer.version()).then_some([older, newer])
    };
    releases.into_iter().filter_map(start).collect()
}

#[test]
fn a_variable_that_another_server_does_not_know_is_no_error() {
    for [older, newer] in pairs() {
        for (server, name) in [(&older, "older"), (&newer, "newer")] {
            server.client().run("CREATE DATABASE v");
            server.client().run("CREATE TABLE v.who (name VARCHAR(9))");
            let row = format!("INSERT INTO v.who VALUES ('{name}')");
            server.client().run(&row);
        }
        let (name, value) = match newer.engine() {
            Engine::MariaDb => ("character_set_collations", "utf8mb4=utf8mb4_bin"),
            Engine::MySql => ("terminology_use_previous", "BEFORE_8_0_26"),
        };
        let door = Door::start(&[&newer, &older], |_| {});
        let who = "SELECT name FROM v.who";
        let mut client = door.client();
        assert_eq!(client.value(who), "older", "it is the replica");
        client.run(&format!("SET SESSION {name} = '{value}'"));
        client.run("SET SESSION sort_buffer_size = 555008");
        // The primary takes what the replica does not know.
        assert_eq!(client.value(who), "newer");
        assert_eq!(door.client().value(who), "older");
        let refused = || door.counter("variables_refused");
        wait_until(SOON, "the refusal is counted", || refused() > 0);
        // Nobody takes it any more: the session goes on without, and keeps what it has besides.
        door.promote(1);
        let mut all = format!("{who} WHERE @@sort_buffer_size = 555008 FOR UPDATE");
        assert_eq!(client.value(&all), "older");
        all.push_str(" -- once more");
        assert_eq!(client.value(&all), "older");
        // It is gone for good.
        door.promote(0);
        assert_eq!(
            client.value("SELECT @@sort_buffer_size FROM v.who"),
            "555008"
        );
    }
}

/// What a role allowed somebody to set, those without the role may not undo.
#[test]
fn nobody_finds_what_somebody_else_may_set() {
    for server in servers(&[]) {
        let mysql = server.engine() == Engine::MySql;
        let (way, privilege) = match mysql {
            true => ("WITH mysql_native_password", "SYSTEM_VARIABLES_ADMIN"),
            false => ("", "BINLOG ADMIN"),
        };
        let mut root = server.client();
        for sql in [
            &format!("CREATE USER app@'%' IDENTIFIED {way} BY 'secret'"),
            "CREATE ROLE setter",
            &format!("GRANT {privilege} ON *.* TO setter"),
            "GRANT setter TO app@'%'",
        ] {
            root.run(sql);
        }
        let login = Login {
            user: "app",
            password: "secret",
            ..Login::default()
        };
        let format = "SELECT @@session.binlog_format";
        let mut straight = Client::login(server.address(), &login).expect("admitted");
        let usual = straight.value(format);
        assert_ne!(usual, "STATEMENT");
        let door = narrow(&server);
        let mut may = door.login(&login).expect("admitted");
        may.run("SET ROLE setter");
        may.run("SET SESSION binlog_format = 'STATEMENT'");
        let mut other = door.login(&login).expect("admitted");
        for _ in 0..3 {
            assert_eq!(other.value(format), usual, "{}", server.version());
            assert_eq!(may.value(format), "STATEMENT", "{}", server.version());
        }
        assert_eq!(door.counter("pins_variable"), 0);
    }
}
