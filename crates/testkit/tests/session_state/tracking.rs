//! The SQL door: session tracking. A client hears of the changes that it asked for, and sees its own
//! settings, whatever Heddle has the servers report for itself.

use mysql_wire::capability::Capabilities;
use mysql_wire::reply::session_changes;
use testkit::client::{Login, Reply};
use testkit::{Client, Door, Release, Stage};

/// With DEPRECATE_EOF, under which the end of rows tells changes too.
fn login() -> Login<'static> {
    let usual = Login::default();
    Login {
        database: Some("track"),
        capabilities: usual.capabilities | Capabilities::DEPRECATE_EOF,
        ..usual
    }
}

/// All that a text gives, and the session changes; the servers have no order for these.
fn said(client: &mut Client, sql: &str) -> String {
    match client.query(sql) {
        Ok(mut replies) => {
            let mut changes = Vec::new();
            for reply in &mut replies {
                if let Reply::Done(done) = reply {
                    let block = std::mem::take(&mut done.session_state);
                    let all = session_changes(&block).map(|change| {
                        let mut one = Vec::new();
                        change.expect("well-formed").encode(&mut one);
                        String::from_utf8_lossy(&one).into_owned()
                    });
                    changes.extend(all);
                }
            }
            changes.sort();
            format!("{sql}: {replies:?} {changes:?}")
        }
        Err(failure) => format!("{sql}: {failure}"),
    }
}

/// Both answers, step by step.
#[track_caller]
fn compare(stage: &Stage, door: &Door, steps: &[&str]) {
    let mut straight = Client::login(stage.primary.address(), &login()).expect("root");
    let mut through = door.login(&login()).expect("root");
    for sql in steps {
        let expected = said(&mut straight, sql);
        assert_eq!(said(&mut through, sql), expected, "{}", straight.version);
    }
}

fn each(check: impl Fn(&Stage, &Door)) {
    for release in Release::ALL {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        stage.database("track");
        stage.database("track_b");
        stage.everywhere("CREATE TABLE track.t (a INT) ENGINE=InnoDB");
        let door = stage.door();
        check(&stage, &door);
        assert_eq!(door.counter("pins_variable"), 0, "{release:?}");
        door.wait_unused();
    }
}

const SHOW: &str = "SELECT @@session_track_system_variables, @@session.session_track_schema";

#[test]
fn changes_are_those_that_the_client_asked_for() {
    each(|stage, door| {
        compare(
            stage,
            door,
            &[
                SHOW,
                "SET autocommit = 0",
                "SET autocommit = 1",
                "SET NAMES latin1",
                "SET time_zone = '+01:00'",
                "SET sql_mode = 'ANSI'",
                "USE track_b",
                "SET SESSION session_track_system_variables = 'div_precision_increment,sql_mode'",
                SHOW,
                "SET SESSION sql_mode = ''",
                "SET autocommit = 0",
                "SET SESSION autocommit = 1, SESSION div_precision_increment = 5",
                "USE track",
                "SET SESSION session_track_schema = OFF",
                SHOW,
                "USE track_b",
                "SELECT DATABASE()",
                "SET SESSION session_track_schema = ON; USE track; SELECT DATABASE()",
                "SET SESSION session_track_schema = OFF, SESSION time_zone = '+02:00'; USE track_b",
                "SELECT DATABASE(), @@time_zone, @@div_precision_increment, @@sql_mode",
                "SHOW VARIABLES LIKE 'session_track_s%'",
                "SHOW VARIABLES WHERE Variable_name = 'session_track_schema'",
                "SET SESSION session_track_system_variables = 'no_such_variable'",
                "SET SESSION session_track_system_variables = ''",
                "SET NAMES utf8mb4",
                SHOW,
                "SET SESSION session_track_system_variables = DEFAULT",
                SHOW,
                "SET time_zone = '+03:00'",
                "SELECT @@time_zone",
            ],
        );
    });
}

#[test]
fn the_other_trackers_pass() {
    each(|stage, door| {
        let steps = [
            "SET SESSION session_track_state_change = ON",
            "USE track_b",
            "SET SESSION sql_mode = 'ANSI'",
            "SELECT 1",
            "USE track",
            "SET SESSION session_track_state_change = OFF",
            "SET SESSION session_track_transaction_info = 'CHARACTERISTICS'",
            "START TRANSACTION READ ONLY",
            "SELECT COUNT(*) FROM t",
            "COMMIT",
            "START TRANSACTION",
            "INSERT INTO t VALUES (1)",
            "ROLLBACK",
            "SET SESSION session_track_transaction_info = 'OFF'",
            "SELECT 1",
        ];
        compare(stage, door, &steps);
    });
}

#[test]
fn the_settings_move_with_their_session() {
    each(|_, door| {
        let mut one = door.login(&login()).expect("root");
        let mut two = door.login(&login()).expect("root");
        one.run("SET SESSION session_track_system_variables = 'sql_mode'");
        // Each opens a transaction, so that the two change connections.
        two.run("BEGIN");
        let change = one.run("SET SESSION sql_mode = 'ANSI'");
        assert!(!change.session_state.is_empty());
        assert_eq!(
            one.value("SELECT @@session_track_system_variables"),
            "sql_mode"
        );
        assert_ne!(
            two.value("SELECT @@session_track_system_variables"),
            "sql_mode"
        );
        two.run("COMMIT");
        let quiet = two.run("SET SESSION sql_mode = 'ANSI'");
        assert!(quiet.session_state.is_empty());
        one.reset().expect("as after login");
        assert!(
            one.value("SELECT @@session_track_system_variables")
                .contains("time_zone")
        );
        assert!(
            one.run("SET SESSION sql_mode = ''")
                .session_state
                .is_empty()
        );
    });
}

#[test]
fn a_prepared_text_sees_them_too() {
    each(|_, door| {
        let mut client = door.login(&login()).expect("root");
        client.run("SET SESSION session_track_system_variables = 'sql_mode'");
        let select = client
            .prepare("SELECT @@session_track_system_variables")
            .expect("prepared");
        let text =
            |client: &mut Client| match client.execute(&select, &[]).expect("a row").remove(0) {
                Reply::Rows(rows) => rows.text()[0][0].clone().expect("a value"),
                other => panic!("{other:?}"),
            };
        assert_eq!(text(&mut client), "sql_mode");
        let set = client
            .prepare("SET SESSION session_track_system_variables = ?")
            .expect("prepared");
        client.execute(&set, &["time_zone".into()]).expect("set");
        assert_eq!(text(&mut client), "time_zone");
        assert!(
            client
                .run("SET SESSION sql_mode = 'ANSI'")
                .session_state
                .is_empty()
        );
        assert_eq!(client.value("SELECT @@sql_mode LIKE '%ANSI%'"), "1");
    });
}

#[test]
fn a_client_without_tracking_hears_nothing() {
    each(|_, door| {
        let mut plain = login();
        plain.capabilities -= Capabilities::SESSION_TRACK;
        let mut client = door.login(&plain).expect("root");
        client.run("SET SESSION session_track_system_variables = '*'");
        assert!(client.run("SET autocommit = 0").session_state.is_empty());
        assert_eq!(client.value("SELECT @@session_track_system_variables"), "*");
        client.run("SET autocommit = 1");
    });
}
