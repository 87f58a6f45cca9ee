//! Accounts whose password has expired: who is let in, and what a session hears until it has a new
//! one, byte for byte as from the server.

use std::net::SocketAddr;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use testkit::client::Login;
use testkit::door::Tuning;
use testkit::{Client, Release, Stage};

const RELEASES: [Release; 4] = [
    Release::Installed,
    Release::MariaDb114,
    Release::MySql80,
    Release::MySqlNewer,
];

fn login<'a>(password: &'a str, able: bool) -> Login<'a> {
    let usual = Login::default();
    let flag = Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
    Login {
        user: "old",
        password,
        database: Some("stage"),
        capabilities: match able {
            true => usual.capabilities | flag,
            false => usual.capabilities,
        },
        ..usual
    }
}

/// The first packet of the answer to each command.
fn play(client: &mut Client, commands: &[(Command, &str)]) -> Vec<String> {
    let mut heard = Vec::new();
    for (command, payload) in commands {
        client
            .send_command(*command, payload.as_bytes())
            .expect("sent");
        let packet = client.read_packet().expect("an answer");
        let text = String::from_utf8_lossy(&packet).into_owned();
        heard.push(format!("{command:?} {payload}: {text:?}"));
    }
    heard
}

/// What is refused in the sandbox, and what is not.
const BEFORE: [(Command, &str); 23] = [
    (Command::Ping, ""),
    (Command::Query, "SELECT 1"),
    (Command::Query, "SELECT @@version_comment LIMIT 1"),
    (Command::Query, "DO 0"),
    (Command::Query, "SET @@sql_select_limit = 9"),
    (Command::Query, "SET @a = 1"),
    (Command::Query, "SET autocommit = 1"),
    (Command::Query, "HEDDLE STATUS"),
    (Command::Query, "KILL 1"),
    (Command::Query, "SHOW PROCESSLIST"),
    (Command::Query, "BEGIN"),
    (Command::Query, "USE stage"),
    (Command::InitDb, "stage"),
    (Command::FieldList, "who\0"),
    (Command::Statistics, ""),
    (Command::ProcessInfo, ""),
    (Command::SetOption, "\0\0"),
    (Command::ResetConnection, ""),
    (Command::ChangeUser, "root\0\0\0"),
    (Command::StmtExecute, "\u{1}\0\0\0\0\u{1}\0\0\0"),
    (Command::StmtReset, "\u{1}\0\0\0"),
    (Command::Query, "SELECT"),
    (Command::Query, "ALTER USER root@'%' ACCOUNT UNLOCK"),
];

fn expire(root: &mut Client) {
    root.run("DROP USER IF EXISTS old@'%'");
    root.run("CREATE USER old@'%' IDENTIFIED BY 'one'");
    root.run("GRANT SELECT ON stage.* TO old@'%'");
    root.run("ALTER USER old@'%' PASSWORD EXPIRE");
}

/// All that one client hears, from its login with an expired password to its end.
fn hear(address: SocketAddr, root: &mut Client, release: Release, able: bool) -> Vec<String> {
    expire(root);
    let mut client = match Client::login(address, &login("one", able)) {
        Ok(client) => client,
        Err(failure) => return vec![failure.to_string()],
    };
    let mut heard = play(&mut client, &BEFORE);
    let change = match release {
        Release::MySql80 | Release::MySqlNewer => "ALTER USER USER() IDENTIFIED BY 'two'",
        _ => "SET PASSWORD = PASSWORD('two')",
    };
    heard.extend(play(&mut client, &[(Command::Query, change)]));
    heard.push(client.value("SELECT COUNT(*) FROM who"));
    heard.push(client.value("SELECT CURRENT_USER()"));
    heard.extend(play(
        &mut client,
        &[
            (Command::Query, "SET @a = 1, autocommit = 0"),
            (Command::Query, "BEGIN"),
            (Command::Query, "ROLLBACK"),
            (Command::ResetConnection, ""),
        ],
    ));
    heard.push(client.value("SELECT CONCAT_WS(',', @a, @@autocommit, DATABASE())"));
    let other = Client::login(address, &login("one", able)).expect_err("the old one");
    heard.push(other.number().to_string());
    let mut next = Client::login(address, &login("two", able)).expect("the new one");
    heard.push(next.value("SELECT DATABASE()"));
    heard
}

#[test]
fn a_session_with_an_expired_password_hears_what_the_server_says() {
    for release in RELEASES {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = stage.door_with(Tuning::follow_accounts);
        let mut root = door.client();
        let settings: &[&str] = match release {
            Release::MySql80 | Release::MySqlNewer => &["DO 'as it is'"],
            _ => &[
                "SET GLOBAL disconnect_on_expired_password = OFF",
                "SET GLOBAL disconnect_on_expired_password = ON",
            ],
        };
        for setting in settings {
            stage.primary.client().run(setting);
            for able in [true, false] {
                let straight = hear(stage.primary.address(), &mut root, release, able);
                let through = hear(door.address(), &mut root, release, able);
                assert_eq!(through, straight, "{release:?} {setting} {able}");
            }
        }
        drop(root);
        door.wait_unused();
    }
}

/// MariaDB lets its statements prepare and run the change itself.
#[test]
fn a_new_password_may_be_set_by_a_prepared_statement() {
    let Some(stage) = Stage::start() else { return };
    let door = stage.door_with(|tuning| tuning.live_accounts = true);
    let mut root = door.client();
    for address in [stage.primary.address(), door.address()] {
        expire(&mut root);
        let mut client = Client::login(address, &login("one", true)).expect("let in");
        let refused = client
            .prepare("SELECT 1")
            .and_then(|statement| client.execute(&statement, &[]));
        assert_eq!(refused.expect_err("not yet").number(), 1820);
        let change = client
            .prepare("SET PASSWORD = PASSWORD('two')")
            .expect("prepared");
        client.execute(&change, &[]).expect("changed");
        assert_eq!(client.value("SELECT name FROM who"), "primary");
        client.close(change).expect("closed");
        drop(Client::login(address, &login("two", false)).expect("usual again"));
    }
    assert_eq!(door.counter("pins_password"), 1);
    drop(root);
    door.wait_unused();
}

/// COM_CHANGE_USER is a login as any other.
#[test]
fn a_session_may_become_a_user_whose_password_has_expired() {
    for release in RELEASES {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = stage.door_with(Tuning::follow_accounts);
        let mut root = door.client();
        let mut heard = Vec::new();
        for address in [stage.primary.address(), door.address()] {
            for able in [true, false] {
                expire(&mut root);
                let own = Login {
                    user: "root",
                    password: "",
                    ..login("", able)
                };
                let mut client = Client::login(address, &own).expect("logged in");
                let mut said = vec![match client.change_user(&login("one", able)) {
                    Ok(_) => "changed".to_owned(),
                    Err(failure) => failure.to_string(),
                }];
                said.push(match client.query("SELECT 1") {
                    Ok(_) => "answered".to_owned(),
                    Err(failure) => failure.number().to_string(),
                });
                heard.push(said);
            }
        }
        let (straight, through) = heard.split_at(2);
        assert_eq!(through, straight, "{release:?}");
    }
}
