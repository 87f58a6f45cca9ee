//! The SQL door: what a login takes over from its server is what the server has now, though the
//! connections behind it were opened long ago.

use std::time::Duration;

use testkit::client::Login;
use testkit::door::Tuning;
use testkit::{Client, Door, Release, Stage, wait_until};

/// Clients that hold a connection each, so that all of the pool's are seen.
const CLIENTS: usize = 4;

/// Runs `test` on every engine.
const SOON: Duration = Duration::from_secs(20);

fn on_every_engine(test: impl Fn(&Stage, &Door)) {
    for release in Release::ALL {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = stage.door_with(Tuning::follow_accounts);
        test(&stage, &door);
    }
}

/// New sessions, each with a transaction open on a connection of its own.
fn crowd(door: &Door, login: &Login<'_>) -> Vec<Client> {
    let one = |_| {
        let mut client = door.login(login).expect("admitted");
        client.run("BEGIN");
        client
    };
    (0..CLIENTS).map(one).collect()
}

/// Leaves as many idle connections as a crowd has clients.
fn fill(door: &Door, login: &Login<'_>) {
    for mut client in crowd(door, login) {
        client.run("COMMIT");
    }
}

#[test]
fn a_database_has_its_charset_of_now() {
    on_every_engine(|stage, door| {
        stage.everywhere("CREATE DATABASE d CHARACTER SET utf8mb4");
        let login = Login {
            database: Some("d"),
            ..Login::default()
        };
        fill(door, &login);
        let ask = "SELECT @@character_set_database";
        let mut other = door.client();
        for (change, charset) in [
            ("ALTER DATABASE d CHARACTER SET latin1", "latin1"),
            (
                "DROP DATABASE d; CREATE SCHEMA d CHARACTER SET latin2",
                "latin2",
            ),
        ] {
            other.query(change).expect("changed");
            for client in &mut crowd(door, &login) {
                assert_eq!(client.value(ask), charset, "{change}");
            }
        }
    });
}

#[test]
fn new_sessions_have_the_global_values_of_now() {
    on_every_engine(|_, door| {
        let login = Login::default();
        fill(door, &login);
        let ask = "SELECT CONCAT(@@sort_buffer_size, @@sql_mode, @@character_set_server, \
                   @@collation_server)";
        let mut old = door.client();
        let before = old.value(ask);
        let mut other = door.client();
        other.run("SET GLOBAL sort_buffer_size = 654321, @@GLOBAL.sql_mode = 'ANSI_QUOTES'");
        other.run("SET GLOBAL collation_server = 'latin2_bin'");
        other.run("SET GLOBAL max_connections = 321");
        let after = "654321ANSI_QUOTESlatin2latin2_bin";
        for client in &mut crowd(door, &login) {
            assert_eq!(client.value(ask), after);
        }
        assert_eq!(other.value(ask), before, "who sets it keeps its own");
        assert_eq!(old.value(ask), before);
        old.run("SET sort_buffer_size = 555555");
        assert!(old.value(ask).starts_with("555555"));
        assert!(old.value("SELECT @@sql_mode").len() > 20);
        old.run("SET sort_buffer_size = DEFAULT");
        assert!(old.value(ask).starts_with("654321"));
        old.reset().expect("reset");
        assert_eq!(old.value(ask), after);
        other.run("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED");
        let isolation = "SHOW VARIABLES LIKE 't%isolation'";
        let of = |client: &mut Client| client.rows(isolation)[0][1].clone().expect("a level");
        for client in &mut crowd(door, &login) {
            assert_eq!(of(client), "READ-COMMITTED");
        }
        assert_eq!(of(&mut old), "REPEATABLE-READ");
    });
}

#[test]
fn sessions_that_may_not_keep_a_value_go_on_with_the_new_one() {
    on_every_engine(|stage, door| {
        stage
            .primary
            .client()
            .run("CREATE USER plain@'%' IDENTIFIED BY 'secret'");
        let login = Login {
            user: "plain",
            password: "secret",
            ..Login::default()
        };
        let mut plain = door.login(&login).expect("admitted");
        assert_eq!(plain.value("SELECT 1"), "1");
        // What only privileged sessions may set for themselves.
        door.client().run("SET GLOBAL binlog_format = 'STATEMENT'");
        assert_eq!(plain.value("SELECT @@binlog_format"), "STATEMENT");
        wait_until(Duration::from_secs(10), "the refusal is counted", || {
            door.counter("variables_refused") > 0
        });
    });
}

#[test]
fn new_sessions_have_the_privileges_of_now() {
    on_every_engine(|stage, door| {
        let mysql = stage.primary.engine() == farm::Engine::MySql;
        stage.everywhere("CREATE DATABASE p; CREATE TABLE p.t (a INT)");
        let mut root = door.client();
        root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
        root.run("CREATE ROLE reader");
        root.run("GRANT SELECT ON p.* TO reader");
        let login = Login {
            user: "app",
            password: "secret",
            ..Login::default()
        };
        let to = if mysql { "TO" } else { "FOR" };
        let default_role = format!("SET DEFAULT ROLE reader {to} app@'%'");
        let changes: [(&str, &str, bool); 7] = [
            ("GRANT SELECT ON *.* TO app@'%'", "global", true),
            ("REVOKE SELECT ON *.* FROM app@'%'", "global", false),
            ("GRANT SELECT ON p.* TO app@'%'", "database", true),
            ("REVOKE SELECT ON p.* FROM app@'%'", "database", false),
            ("GRANT reader TO app@'%'", "role, not active", false),
            (&default_role, "role", true),
            ("REVOKE SELECT ON p.* FROM reader", "role's own", false),
        ];
        for (change, what, may) in changes {
            fill(door, &login);
            root.run(change);
            for client in &mut crowd(door, &login) {
                // On the primary, where the accounts are.
                let read = client.query("SELECT COUNT(*) FROM p.t FOR UPDATE");
                let read = match mysql {
                    // There it takes another privilege, too.
                    true => client.query("SELECT COUNT(*) FROM p.t"),
                    false => read,
                };
                assert_eq!(read.is_ok(), may, "{what}: {change}: {read:?}");
            }
        }
    });
}

#[test]
fn a_database_is_selected_with_the_privileges_of_now() {
    on_every_engine(|stage, door| {
        stage.everywhere("CREATE DATABASE q; CREATE TABLE q.t (a INT); CREATE TABLE q.u (a INT)");
        let mut root = door.client();
        root.run("CREATE USER some@'%' IDENTIFIED BY 'secret'");
        root.run("GRANT SELECT ON q.t TO some@'%'");
        let login = Login {
            user: "some",
            password: "secret",
            database: Some("q"),
            ..Login::default()
        };
        fill(door, &login);
        for (change, may) in [
            ("GRANT SELECT ON q.* TO some@'%'", true),
            ("REVOKE SELECT ON q.* FROM some@'%'", false),
        ] {
            root.run(change);
            for client in &mut crowd(door, &login) {
                let read = client.query("SELECT COUNT(*) FROM u");
                assert_eq!(read.is_ok(), may, "{change}: {read:?}");
            }
        }
    });
}

#[test]
fn new_sessions_send_as_much_as_servers_take_now() {
    on_every_engine(|_, door| {
        let login = Login::default();
        let long = format!("SELECT @@autocommit, LENGTH('{}')", "x".repeat(3 << 20));
        let mut other = door.client();
        let before = other.value("SELECT @@global.max_allowed_packet");
        for (limit, fits) in [("2097152", false), ("33554432", true), (&*before, true)] {
            fill(door, &login);
            other.run(&format!("SET GLOBAL max_allowed_packet = {limit}"));
            let ask = "SELECT @@session.max_allowed_packet";
            // A client is answered before the router takes note.
            wait_until(SOON, "the limit of now", || {
                door.client().value(ask) == limit
            });
            for client in &mut crowd(door, &login) {
                assert_eq!(client.value(ask), limit);
                assert_eq!(client.query(&long).is_ok(), fits, "{limit}");
            }
        }
    });
}

#[test]
fn new_sessions_hear_of_what_is_reported_now() {
    on_every_engine(|_, door| {
        let login = Login::default();
        fill(door, &login);
        let mut other = door.client();
        let ask = "SELECT @@global.session_track_system_variables";
        let before = other.value(ask);
        let told = |client: &mut Client| {
            let done = client.run("SET SESSION sort_buffer_size = 444444");
            let told = String::from_utf8_lossy(&done.session_state).into_owned();
            told.contains("sort_buffer_size")
        };
        assert!(!told(&mut door.client()));
        other.run("SET GLOBAL session_track_system_variables = 'sort_buffer_size'");
        // A client is answered before the router takes note.
        wait_until(SOON, "what is reported now", || told(&mut door.client()));
        for client in &mut crowd(door, &login) {
            assert!(told(client));
        }
        other.run(&format!(
            "SET GLOBAL session_track_system_variables = '{before}'"
        ));
        let again = "what was reported before";
        wait_until(SOON, again, || !told(&mut door.client()));
    });
}
