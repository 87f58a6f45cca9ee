//! The SQL door: the commands that are neither text nor prepared statements, and KILL.

use std::time::Duration;

use mysql_wire::auth;
use mysql_wire::command::Command;
use testkit::client::{Login, Reply};
use testkit::door::account;
use testkit::staging::asleep;
use testkit::{Client, Door, Release, Stage};

const SOON: Duration = Duration::from_secs(20);

#[test]
fn ping_statistics_and_lists() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client_in("stage");
    client.ping().expect("pong");
    client.send_command(Command::Statistics, b"").expect("sent");
    let said = client.read_packet().expect("a text");
    assert!(
        said.starts_with(b"Uptime: "),
        "{}",
        String::from_utf8_lossy(&said)
    );
    client
        .send_command(Command::FieldList, b"who\0%")
        .expect("sent");
    let column = client.read_packet().expect("a column");
    assert!(
        column.starts_with(b"\x03def\x05stage\x03who\x03who\x04name"),
        "{column:?}"
    );
    assert_eq!(client.read_packet().expect("the end")[0], 0xFE);
    client
        .send_command(Command::ProcessInfo, b"")
        .expect("sent");
    assert!(matches!(client.read_result(false), Ok(Reply::Rows(_))));
    client.ping().expect("pong");
}

#[test]
fn unknown_commands_are_1047_and_the_session_goes_on() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    let bytes = (0x00..=0xFFu8).filter(|byte| {
        // The server's own, and numbers that mean nothing.
        matches!(
            byte,
            0x00 | 0x05 | 0x06 | 0x0b | 0x0f | 0x10 | 0x13 | 0x14 | 0x1d
        ) || (*byte > 0x22 && *byte != 0xFA)
    });
    for byte in bytes {
        client.sequence = 0;
        client.send_packet(&[byte, 1, 2, 3]).expect("sent");
        let failure = client.read_done().expect_err("refused");
        assert!(
            failure.to_string().starts_with("1047 (08S01)"),
            "{byte:#x}: {failure}"
        );
    }
    client.ping().expect("pong");
}

#[test]
fn several_statements_can_be_allowed_and_forbidden() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("com_option");
    stage.everywhere("CREATE TABLE com_option.t (a INT) ENGINE=InnoDB");
    let door = stage.door();
    let mut client = door.client_in("com_option");
    let option = |client: &mut Client, off: u8| {
        client
            .send_command(Command::SetOption, &[off, 0])
            .expect("sent");
        assert_eq!(client.read_packet().expect("an EOF")[0], 0xFE);
    };
    option(&mut client, 1);
    assert_eq!(client.error("SELECT 1; SELECT 2"), 1064);
    option(&mut client, 0);
    assert_eq!(client.query("SELECT 1; SELECT 2").expect("two").len(), 2);
    client.run("BEGIN");
    client.run("INSERT INTO t VALUES (1)");
    option(&mut client, 1);
    assert_eq!(client.error("SELECT 1; SELECT 2"), 1064);
    assert_eq!(client.value("SELECT COUNT(*) FROM t"), "1");
    client.run("ROLLBACK");
    assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0");
    assert_eq!(client.error("SELECT 1; SELECT 2"), 1064);
    assert_eq!(
        door.client()
            .query("SELECT 1; SELECT 2")
            .expect("two")
            .len(),
        2
    );
}

/// Door and servers with an account `com_app` that has a password.
fn with_account(stage: &Stage) -> Door {
    stage.everywhere("CREATE OR REPLACE USER com_app@localhost IDENTIFIED BY 'secret'");
    stage.everywhere("GRANT SELECT ON stage.* TO com_app@localhost");
    stage.door_with(|tuning| {
        tuning
            .accounts
            .push(account("com_app", "localhost", "secret"))
    })
}

#[test]
fn another_user_on_the_same_connection() {
    let Some(stage) = Stage::shared() else { return };
    let door = with_account(&stage);
    let app = Login {
        user: "com_app",
        password: "secret",
        ..Login::default()
    };
    let mut client = door.client();
    client.change_user(&app).expect("the password is right");
    assert!(
        client
            .value("SELECT CURRENT_USER()")
            .starts_with("com_app@")
    );
    assert_eq!(client.error("CREATE DATABASE com_denied"), 1044);
    client
        .change_user(&Login {
            database: Some("stage"),
            ..app.clone()
        })
        .expect("again");
    assert_eq!(client.value("SELECT DATABASE()"), "stage");
    client.change_user(&Login::default()).expect("root");
    assert!(client.value("SELECT CURRENT_USER()").starts_with("root@"));
    for wrong in [
        Login {
            password: "wrong",
            ..app.clone()
        },
        Login {
            password: "",
            ..app.clone()
        },
        Login {
            user: "nobody",
            ..app.clone()
        },
    ] {
        let mut client = door.client_in("stage");
        client.run("SET @a = 1, sql_mode = ''");
        let failure = client.change_user(&wrong).expect_err("refused");
        assert!(failure.to_string().starts_with("1045 (28000)"), "{failure}");
        stays_as_it_was(&mut client);
    }
    let nowhere = Login {
        database: Some("no_such_database"),
        ..Login::default()
    };
    let mut client = door.client_in("stage");
    client.run("SET @a = 1, sql_mode = ''");
    assert_eq!(
        client.change_user(&nowhere).expect_err("refused").number(),
        1049
    );
    stays_as_it_was(&mut client);
    drop(door);
}

/// MariaDB refuses another user and goes on with the one before; MySQL closes the connection.
fn stays_as_it_was(client: &mut Client) {
    let row = client.rows("SELECT @a, @@sql_mode = '', DATABASE(), CURRENT_USER()");
    let row: Vec<_> = row[0].iter().map(Option::as_deref).collect();
    assert_eq!(
        row,
        [None, Some("0"), Some("stage"), Some("root@localhost")]
    );
}

#[test]
fn another_user_that_mysql_refuses_is_the_end() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    let door = stage.door();
    for (user, database, number) in [
        ("nobody", None, 1045),
        ("root", Some("no_such_database"), 1049),
    ] {
        let wrong = Login {
            user,
            database,
            ..Login::default()
        };
        let mut client = door.client();
        assert_eq!(
            client.change_user(&wrong).expect_err("refused").number(),
            number
        );
        assert!(client.is_closed_within(SOON));
    }
}

#[test]
fn the_database_of_a_login_is_reported() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    for address in [stage.primary.address(), door.address()] {
        let login = |database| Login {
            database,
            ..Login::default()
        };
        let mut client = Client::login(address, &login(Some("stage"))).expect("logged in");
        let done = client.change_user(&login(Some("mysql"))).expect("root");
        assert_eq!(done.session_state, b"\x01\x06\x05mysql");
        let done = client.change_user(&login(Some("mysql"))).expect("root");
        assert_eq!(done.session_state, b"\x01\x06\x05mysql");
        let done = client.change_user(&login(None)).expect("root");
        assert!(done.session_state.is_empty());
    }
}

/// MariaDB's Connector/C proves itself with the greeting's salt, whatever it is asked.
#[test]
fn the_salt_of_the_greeting_serves_every_change_of_user() {
    let Some(stage) = Stage::shared() else { return };
    let door = with_account(&stage);
    let app = Login {
        user: "com_app",
        password: "secret",
        plugin: Some(auth::NATIVE),
        ..Login::default()
    };
    let mut client = door.client();
    for _ in 0..2 {
        client.change_user(&app).expect("the password is right");
        let user = client.value("SELECT CURRENT_USER()");
        assert!(user.starts_with("com_app@"), "{user}");
        // A plugin that has to be asked for gets the same salt.
        let asked = Login {
            plugin: None,
            ..app.clone()
        };
        client.change_user(&asked).expect("the password is right");
    }
    let wrong = Login {
        password: "wrong",
        ..app
    };
    let failure = client.change_user(&wrong).expect_err("refused");
    assert_eq!(failure.number(), 1045);
}

#[test]
fn a_silent_change_of_user_does_not_last_for_ever() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.handshake_timeout_s = 1);
    let mut client = door.client();
    client
        .send_command(Command::ChangeUser, b"root\0\0\0\x2d\0heddle_ask_again\0")
        .expect("sent");
    let reply = client.read_packet();
    if reply.as_ref().is_ok_and(|packet| packet[0] == 0xFE) {
        let failure = client.read_done().expect_err("too slow");
        assert_eq!(failure.number(), 1159);
    }
    drop(client);
    door.wait_unused();
}

#[test]
fn kill_query_interrupts_one_statement_only() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.threads = 2);
    let mut killer = door.client();
    let mut other = asleep(&stage, &door, &Login::default(), "not me");
    for at in 0..4 {
        let mut sleeper = asleep(&stage, &door, &Login::default(), &format!("kill {at}"));
        let id = sleeper.connection_id;
        killer.run(&format!("KILL QUERY {id}"));
        let ended = sleeper.read_result(false);
        assert!(
            matches!(&ended, Err(failure) if failure.to_string().starts_with("1317 (70100)")),
            "{ended:?}"
        );
        assert_eq!(sleeper.value("SELECT CONNECTION_ID()"), id.to_string());
    }
    let mut sleeper = asleep(&stage, &door, &Login::default(), "command");
    let id = sleeper.connection_id;
    killer
        .send_command(Command::ProcessKill, &id.to_le_bytes())
        .expect("sent");
    killer.read_done().expect("killed");
    assert!(sleeper.is_closed_within(SOON));
    let mut sleeper = asleep(&stage, &door, &Login::default(), "connection");
    let id = sleeper.connection_id;
    killer.run(&format!("KILL {id}"));
    assert!(sleeper.is_closed_within(SOON));
    let mut idle = door.client();
    killer.run(&format!("KILL CONNECTION {}", idle.connection_id));
    // As on the servers, without a packet that nobody asked for.
    let word = idle.read_packet();
    assert!(word.is_err(), "{word:?}");
    // The one that nobody meant still sleeps.
    other
        .set_read_timeout(Some(Duration::from_millis(1)))
        .expect("set");
    assert!(other.read_packet().is_err(), "nothing came");
    killer.run(&format!("KILL QUERY {}", other.connection_id));
    assert_eq!(killer.error("KILL 4000000000"), 1094);
    assert_eq!(
        killer.error(&format!("KILL {}", killer.connection_id)),
        1927
    );
    assert!(killer.is_closed_within(SOON));
    drop((sleeper, idle, other));
    door.wait_unused();
}

#[test]
fn only_the_same_user_or_an_administrator_kills() {
    let Some(stage) = Stage::shared() else { return };
    let door = with_account(&stage);
    let app = Login {
        user: "com_app",
        password: "secret",
        ..Login::default()
    };
    let mut app_one = door.login(&app).expect("logged in");
    let mut app_two = door.login(&app).expect("logged in");
    let root = door.client();
    assert_eq!(app_one.error(&format!("KILL {}", root.connection_id)), 1095);
    app_one.run(&format!("KILL {}", app_two.connection_id));
    assert!(app_two.is_closed_within(SOON));
    let mut root = root;
    root.run(&format!("KILL {}", app_one.connection_id));
    assert!(app_one.is_closed_within(SOON));
}

#[test]
fn a_killed_transaction_is_rolled_back() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("com_kill");
    stage.everywhere("CREATE TABLE com_kill.t (a INT PRIMARY KEY) ENGINE=InnoDB");
    let door = stage.door();
    let mut client = door.client_in("com_kill");
    client.run("BEGIN");
    client.run("INSERT INTO t VALUES (1)");
    let mut killer = door.client_in("com_kill");
    killer.run(&format!("KILL {}", client.connection_id));
    assert!(client.is_closed_within(SOON));
    // Waits for the row's lock if it must.
    killer.run("INSERT INTO t VALUES (1)");
}

/// COM_DEBUG is the server's to allow, and SHUTDOWN is for nobody: it would hit any server.
#[test]
fn a_server_is_not_shut_down_through_the_door() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let way = match release {
            Release::MySql80 => "WITH mysql_native_password ",
            _ => "",
        };
        stage.everywhere(&format!(
            "CREATE USER com_b@'%' IDENTIFIED {way}BY 'secret'"
        ));
        let door = stage.door_with(|tuning| tuning.live_accounts = true);
        let app = Login {
            user: "com_b",
            password: "secret",
            ..Login::default()
        };
        let ends = |client: &mut Client| {
            let statement = client.prepare("SHUTDOWN").ok();
            let mut said = Vec::new();
            client.send_command(Command::Shutdown, b"\0").expect("sent");
            said.push(client.read_done().expect_err("refused"));
            said.push(client.query("SHUTDOWN").expect_err("refused"));
            said.push(client.query("SELECT 1; SHUTDOWN").expect_err("refused"));
            if let Some(statement) = statement {
                said.push(client.execute(&statement, &[]).expect_err("refused"));
            }
            said
        };
        let mut root = door.client();
        for failure in ends(&mut root) {
            assert_eq!(failure.number(), 1105, "{failure}");
            assert!(failure.to_string().contains("connect to that server"));
        }
        let mut poor = door.login(&app).expect("logged in");
        for failure in ends(&mut poor) {
            assert_eq!(failure.number(), 1227, "{failure}");
        }
        let debug = |client: &mut Client| -> Result<u8, u16> {
            client.send_command(Command::Debug, b"").expect("sent");
            let packet = client.read_packet().expect("an answer");
            match packet[..] {
                [0xFF, low, high, ..] => Err(u16::from_le_bytes([low, high])),
                _ => Ok(packet[0]),
            }
        };
        assert_eq!(debug(&mut root), Ok(0xFE));
        assert_eq!(debug(&mut poor), Err(1227));
        root.ping().expect("pong");
        poor.ping().expect("pong");
        assert_eq!(stage.primary.client().value("SELECT 1"), "1");
    }
}
