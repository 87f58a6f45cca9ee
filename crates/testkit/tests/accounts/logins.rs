//! The SQL door: who may log in, and what the others are told.

use std::sync::Arc;
use std::time::Duration;

use farm::{Account, AuthPlugin};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{self, AuthSwitch, Greeting};
use testkit::client::{Failure, Login, Reply};
use testkit::door::account;
use testkit::{Client, Door, Release, Server, Stage};

const SOON: Duration = Duration::from_secs(20);

fn app(password: &str) -> Login<'_> {
    Login {
        user: "login_app",
        password,
        ..Login::default()
    }
}

#[track_caller]
fn refused(door: &Door, login: &Login<'_>) -> String {
    match door.login(login) {
        Err(failure @ Failure::Server { .. }) => failure.to_string(),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn passwords_hosts_and_locks() {
    let Some(stage) = Stage::shared() else { return };
    stage.everywhere("CREATE OR REPLACE USER login_app@localhost IDENTIFIED BY 'secret'");
    stage.everywhere("CREATE OR REPLACE USER login_app@'%' IDENTIFIED BY 'other'");
    let door = stage.door_with(|tuning| {
        tuning
            .accounts
            .push(account("login_app", "localhost", "secret"));
        tuning.accounts.push(account("login_app", "%", "other"));
        tuning.accounts.push(account("login_far", "10.%", "secret"));
        tuning.accounts.push(Account {
            locked: true,
            ..account("login_locked", "%", "secret")
        });
        tuning.accounts.push(Account {
            ways: vec![AuthPlugin::Unsupported("gssapi".into())],
            ..account("login_plugin", "%", "")
        });
    });
    let mut client = door.login(&app("secret")).expect("the password is right");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "login_app@localhost");
    // The account of the better host is meant, not the one whose password fits.
    for wrong in ["other", "", "secret ", "Secret"] {
        let said = refused(&door, &app(wrong));
        let using = if wrong.is_empty() { "NO" } else { "YES" };
        let text = format!(
            "1045 (28000): Access denied for user 'login_app'@'localhost' (using password: {using})"
        );
        assert_eq!(said, text);
    }
    let other = |user| Login {
        user,
        ..app("secret")
    };
    assert!(refused(&door, &other("login_far")).starts_with("1045 (28000)"));
    assert!(refused(&door, &other("nobody")).starts_with("1045 (28000)"));
    assert!(refused(&door, &other("login_locked")).starts_with("4151 (HY000)"));
    assert!(refused(&door, &other("login_plugin")).starts_with("1524 (HY000)"));
    testkit::wait_until(SOON, "every refusal is counted", || {
        door.counter("logins_refused") == 8
    });
    let nowhere = Login {
        database: Some("no_such_database"),
        ..Login::default()
    };
    assert_eq!(
        refused(&door, &nowhere),
        "1049 (42000): Unknown database 'no_such_database'"
    );
    let denied = Login {
        database: Some("mysql"),
        ..app("secret")
    };
    assert!(refused(&door, &denied).starts_with("1044 (42000)"));
    drop(client);
    door.wait_unused();
}

#[test]
fn a_client_of_another_plugin_is_asked_to_switch() {
    let Some(stage) = Stage::shared() else { return };
    stage.everywhere("CREATE OR REPLACE USER login_switch@localhost IDENTIFIED BY 'secret'");
    let door = stage.door_with(|tuning| {
        tuning
            .accounts
            .push(account("login_switch", "localhost", "secret"))
    });
    for (password, right) in [("secret", true), ("wrong", false)] {
        let mut client = Client::dial(door.address()).expect("connected");
        let greeting = client.read_packet().expect("a greeting");
        let greeting = Greeting::decode(&greeting).expect("a greeting");
        client.capabilities = Login::default().capabilities & greeting.capabilities;
        let login = handshake::Login {
            capabilities: client.capabilities,
            packet_bytes_max: 1 << 24,
            collation: 45,
            user: b"login_switch",
            auth: b"another plugin's proof",
            database: None,
            plugin: Some(b"dialog"),
            attributes: None,
            zstd_level: None,
        };
        let mut payload = Vec::new();
        login.encode(&mut payload);
        client.send_packet(&payload).expect("sent");
        let payload = client.read_packet().expect("a question");
        let switch = AuthSwitch::decode(&payload).expect("a switch");
        assert_eq!(switch.plugin, auth::NATIVE);
        let salt = switch.salt_array().expect("20 bytes");
        assert_eq!(
            salt, greeting.salt,
            "the salt lasts as long as the connection"
        );
        let proof = auth::native_scramble(&auth::native_stage1(password.as_bytes()), &salt);
        client.send_packet(&proof).expect("sent");
        match client.read_done() {
            Ok(_) => assert!(right),
            Err(failure) => assert!(!right && failure.number() == 1045, "{failure}"),
        }
    }
}

#[test]
fn the_client_after_the_last_seat_gets_1040() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.clients_max = 2);
    let one = door.client();
    let two = door.client();
    for _ in 0..3 {
        let failure = door.login(&Login::default()).expect_err("no seat");
        assert_eq!(failure.number(), 1040, "{failure}");
    }
    one.quit();
    testkit::wait_until(SOON, "the seat is free", || {
        door.login(&Login::default()).is_ok()
    });
    drop(two);
    door.wait_unused();
}

#[test]
fn the_greeting_is_like_the_servers_own() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let [here, there] = [door.address(), stage.primary.address()].map(|address| {
        let mut client = Client::dial(address).expect("connected");
        client.read_packet().expect("a greeting")
    });
    let (here, there) = (
        Greeting::decode(&here).expect("one"),
        Greeting::decode(&there).expect("one"),
    );
    assert_eq!(here.plugin, there.plugin);
    assert!(here.version.starts_with("5.5.5-10.11"), "{}", here.version);
    assert_eq!(
        here.capabilities.contains(Capabilities::LONG_PASSWORD),
        there.capabilities.contains(Capabilities::LONG_PASSWORD)
    );
    // This door has no certificate.
    assert!(!here.capabilities.contains(Capabilities::SSL));
    let mut old = Client::dial(door.address()).expect("connected");
    old.read_packet().expect("a greeting");
    // A login of before 4.1: 16-bit capabilities without PROTOCOL_41.
    old.send_packet(b"\x05\x00\xff\xff\xffroot\0\0")
        .expect("sent");
    old.capabilities = Capabilities::PROTOCOL_41;
    assert_eq!(old.read_done().expect_err("too old").number(), 1043);
    let mut tls = Client::dial(door.address()).expect("connected");
    tls.read_packet().expect("a greeting");
    let mut request = (Capabilities::PROTOCOL_41 | Capabilities::SSL)
        .bits()
        .to_le_bytes()[..4]
        .to_vec();
    request.resize(32, 0);
    tls.send_packet(&request).expect("sent");
    tls.capabilities = Capabilities::PROTOCOL_41;
    assert_eq!(tls.read_done().expect_err("not offered").number(), 1043);
}

#[test]
fn attributes_and_collations_pass() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    for (collation, name) in [
        (8, "latin1_swedish_ci"),
        (45, "utf8mb4_general_ci"),
        (33, "utf8mb3_general_ci"),
    ] {
        let login = Login {
            collation,
            attributes: &[("_client_name", "test"), ("program_name", "sql_logins")],
            ..Login::default()
        };
        let mut client = door.login(&login).expect("logged in");
        let mut other = door.login(&login).expect("logged in");
        assert_eq!(client.value("SELECT @@collation_connection"), name);
        other.run("SET NAMES utf8mb4 COLLATE utf8mb4_bin");
        // Back on the connection that the other one used, it is as the handshake chose it.
        assert_eq!(client.value("SELECT @@collation_connection"), name);
        assert_eq!(
            client.value("SELECT @@character_set_results"),
            name[..name.find('_').expect("one")]
        );
    }
}

/// Collations of newer clients, and numbers that nobody has: what the server itself makes of them.
#[test]
fn unknown_collations_are_what_the_server_makes_of_them() {
    const ASK: &str = "SELECT CONCAT_WS(',', @@character_set_client, @@character_set_connection, \
                       @@character_set_results, @@collation_connection)";
    for release in [
        Release::Installed,
        Release::MariaDb114,
        Release::MySql80,
        Release::MySqlNewer,
    ] {
        let Some(server) = Server::start(release) else {
            continue;
        };
        let door = Door::start(&[&server], |_| {});
        let hear = |address, collation| {
            let login = Login {
                collation,
                ..Login::default()
            };
            let ask = |client: &mut Client| match client.query(ASK) {
                Ok(replies) => format!("{:?}", rows_of(&replies)),
                Err(failure) => format!("then {failure}"),
            };
            let said = |failure: Failure| failure.to_string();
            let mut root = Client::connect(address, "root", "").expect("root");
            let changed = root.change_user(&login);
            [
                Client::login(address, &login).map_or_else(said, |mut client| ask(&mut client)),
                changed.map_or_else(said, |_| ask(&mut root)),
            ]
        };
        let ids = [
            0, 1, 8, 33, 45, 46, 63, 83, 127, 128, 192, 224, 247, 248, 254, 255, 256, 305, 309,
            323, 576, 1069, 2048, 2304, 2318, 2560, 9999, 65535,
        ];
        let differ = ids.map(|id| [hear(server.address(), id), hear(door.address(), id)]);
        let differ = ids
            .iter()
            .zip(differ)
            .filter(|(_, [straight, through])| straight != through);
        let differ: Vec<_> = differ.collect();
        assert!(differ.is_empty(), "{release:?}: {differ:#?}");
    }
}

fn rows_of(replies: &[Reply]) -> Vec<Vec<Option<String>>> {
    let rows = replies.iter().filter_map(|reply| match reply {
        Reply::Rows(rows) => Some(rows.text()),
        Reply::Done(_) => None,
    });
    rows.flatten().collect()
}

/// MySQL 8's plugin: the first login is a full one, which a server judges; later ones are fast.
#[test]
fn caching_sha2_password() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    for server in [&stage.primary, &stage.replica] {
        let mut root = server.client();
        root.run("CREATE USER login_sha@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'");
        root.run("CREATE USER login_none@'%' IDENTIFIED WITH caching_sha2_password BY ''");
        root.run("GRANT SELECT ON stage.* TO login_sha@'%'");
        root.run("GRANT SELECT ON stage.* TO login_none@'%'");
    }
    let mut root = stage.primary.client();
    let verifier =
        root.value("SELECT HEX(authentication_string) FROM mysql.user WHERE user = 'login_sha'");
    let bytes: Vec<u8> = (0..verifier.len() / 2)
        .map(|i| u8::from_str_radix(&verifier[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect();
    let sha = |user, verifier: &[u8]| Account {
        ways: vec![AuthPlugin::CachingSha2(Arc::from(verifier))],
        ..account(user, "%", "")
    };
    let door = stage.door_with(|tuning| {
        tuning.accounts.push(sha("login_sha", &bytes));
        tuning.accounts.push(sha("login_none", b""));
        // The router's RSA key is made for the first full login, in a build that is not optimised.
        tuning.settings.handshake_timeout_s = 60;
    });
    let none = Login {
        user: "login_none",
        ..Login::default()
    };
    assert_eq!(
        door.login(&none)
            .expect("no password")
            .value("SELECT name FROM stage.who"),
        "replica"
    );
    let login = |password| Login {
        user: "login_sha",
        password,
        ..Login::default()
    };
    assert_eq!(refused(&door, &login("")).get(..4), Some("1045"));
    assert_eq!(refused(&door, &login("wrong")).get(..4), Some("1045"));
    let mut full = door.login(&login("secret")).expect("a full login");
    assert_eq!(full.value("SELECT name FROM stage.who"), "replica");
    assert!(
        full.value("SELECT CURRENT_USER()")
            .starts_with("login_sha@")
    );
    // The password is known now: the fast exchange is enough, for the right password only.
    let mut fast = door.login(&login("secret")).expect("fast");
    assert_eq!(fast.value("SELECT name FROM stage.who"), "replica");
    assert_eq!(refused(&door, &login("wrong")).get(..4), Some("1045"));
}
