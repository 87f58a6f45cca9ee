//! The SQL door and those who have not proved who they are: what their passwords cost, how many they
//! may be, and how long those wait whose logins fail.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use channel::Presented;
use farm::{Account, AuthPlugin};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{self, AuthMore, Greeting, TlsRequest};
use session::{ClientTls, Terms, Transport};
use testkit::certificates::Authority;
use testkit::client::{Failure, Login, any_certificate};
use testkit::door::{Tuning, account};
use testkit::network::{connect_from, own_address};
use testkit::{Client, Door, Release, Stage, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// An account with the password `secret`.
const SHA: &[u8] = b"entrance_sha";

/// One of the door's alone, with no password that is right. To hash one takes a hundred times as long, so that no machine is
/// too fast, and none too busy, for many that wait.
const SLOW: &[u8] = b"entrance_slow";

/// A door with TLS and one core, in front of a server that has [`SHA`]; it knows [`SLOW`], too.
fn hashing(tune: impl FnOnce(&mut Tuning)) -> Option<(Stage, Door)> {
    let stage = Stage::start_with(Release::MySql80)?;
    stage.everywhere("CREATE USER entrance_sha IDENTIFIED WITH caching_sha2_password BY 'secret'");
    let stored = stage
        .primary
        .client()
        .value("SELECT HEX(authentication_string) FROM mysql.user WHERE user = 'entrance_sha'");
    let stored: Vec<u8> = (0..stored.len() / 2)
        .map(|i| u8::from_str_radix(&stored[2 * i..2 * i + 2], 16).expect("hexadecimal"))
        .collect();
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    let read = |path| fs::read(path).expect("a file of the test");
    let shown = Presented::from_pem(&read(&pair.certificate), &read(&pair.key), None);
    let shown = Some(shown.expect("a good pair"));
    let door = stage.door_with(|tuning| {
        tuning.transport = Arc::new(Transport::new(ClientTls::Preferred, shown, Terms::plain()));
        tuning.settings.handshake_timeout_s = 60;
        let slow = b"$A$1F4$".iter().chain(&stored[7..]).copied();
        let slow: Vec<u8> = slow.collect();
        for (name, stored) in [("entrance_sha", stored), ("entrance_slow", slow)] {
            tuning.accounts.push(Account {
                ways: vec![AuthPlugin::CachingSha2(Arc::from(stored))],
                ..account(name, "%", "")
            });
        }
        tune(tuning);
    });
    Some((stage, door))
}

/// A client of this account of whom nothing is missing but the password.
fn before_the_password(door: &Door, user: &[u8]) -> Client {
    let mut client = Client::dial(door.address()).expect("connected");
    let greeting = client.read_packet().expect("a greeting");
    let greeting = Greeting::decode(&greeting).expect("a greeting");
    client.capabilities = Login::default().capabilities & greeting.capabilities;
    client.capabilities |= Capabilities::SSL;
    let (capabilities, packet_bytes_max, collation) = (client.capabilities, 1 << 24, 45);
    let mut payload = Vec::new();
    let request = TlsRequest {
        capabilities,
        packet_bytes_max,
        collation,
    };
    request.encode(&mut payload);
    client.send_packet(&payload).expect("sent");
    client.start_tls(any_certificate()).expect("TLS is offered");
    let scramble = auth::sha2_scramble(&auth::sha2_stage1(b"wrong"), &greeting.salt);
    let login = handshake::Login {
        capabilities,
        packet_bytes_max,
        collation,
        user,
        auth: &scramble,
        database: None,
        plugin: Some(auth::CACHING_SHA2.as_bytes()),
        attributes: None,
        zstd_level: None,
    };
    payload.clear();
    login.encode(&mut payload);
    client.send_packet(&payload).expect("sent");
    let asked = client.read_packet().expect("a question");
    let asked = AuthMore::decode(&asked).expect("a question");
    assert_eq!(asked.0, [auth::FULL], "the password itself is asked for");
    client
}

fn send_wrong(client: &mut Client) {
    client.send_packet(b"wrong\0").expect("sent");
}

#[track_caller]
fn refusal(answer: Result<impl std::fmt::Debug, Failure>) -> (u16, String) {
    match answer {
        Err(failure @ Failure::Server { .. }) => (failure.number(), failure.to_string()),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[test]
fn a_core_serves_others_while_passwords_are_hashed() {
    let Some((_stage, door)) = hashing(|_| {}) else {
        return;
    };
    let mut other = door.client();
    other.ping().expect("the router answers");
    let mut many: Vec<Client> = (0..60).map(|_| before_the_password(&door, SHA)).collect();
    many.iter_mut().for_each(send_wrong);
    // No server has a part in it.
    other.ping().expect("the router answers");
    let (verified, refused) = (
        door.counter("passwords_verified"),
        door.counter("logins_refused"),
    );
    assert!(verified < 60 && refused < 60, "the command waited for all");
    for client in &mut many {
        assert_eq!(refusal(client.read_done()).0, 1045);
    }
    let right = Login {
        user: "entrance_sha",
        password: "secret",
        tls: Some(any_certificate()),
        ..Login::default()
    };
    let mut client = door.login(&right).expect("the right password");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "entrance_sha@%");
}

#[test]
fn so_many_passwords_wait_and_more_are_refused() {
    let Some((_stage, door)) = hashing(|tuning| tuning.settings.logins.queue_max = 1) else {
        return;
    };
    let mut many: Vec<Client> = (0..20).map(|_| before_the_password(&door, SLOW)).collect();
    many.iter_mut().for_each(send_wrong);
    let told = many.iter_mut().map(|client| refusal(client.read_done()));
    let (full, wrong): (Vec<_>, Vec<_>) = told.partition(|(number, _)| *number == 1040);
    assert!(!full.is_empty() && !wrong.is_empty(), "{full:?} {wrong:?}");
    let text = "1040 (08004): Too many connections: too many passwords wait to be verified";
    assert_eq!(full[0].1, text);
    assert!(wrong.iter().all(|(number, _)| *number == 1045), "{wrong:?}");
    assert_eq!(door.counter("logins_unverified"), full.len() as u64);
}

#[test]
fn who_leaves_gives_its_place_in_the_queue_up() {
    let Some((_stage, door)) = hashing(|_| {}) else {
        return;
    };
    let clients = 60;
    let mut many: Vec<Client> = (0..clients)
        .map(|_| before_the_password(&door, SLOW))
        .collect();
    many.iter_mut().for_each(send_wrong);
    drop(many);
    wait_until(PATIENCE, "all of them are gone", || {
        door.counter("logins_now") == 0
    });
    let verified = door.counter("passwords_verified");
    assert!(
        verified < clients,
        "{verified} passwords of nobody were hashed"
    );
    door.wait_unused();
}

#[test]
fn those_who_have_not_logged_in_have_a_limit_of_their_own() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.logins.clients_max = 2);
    let mut clients: Vec<Client> = (0..5).map(|_| door.client()).collect();
    let silent: Vec<Client> = (0..2)
        .map(|_| {
            let mut client = Client::dial(door.address()).expect("connected");
            client.read_packet().expect("a greeting");
            client
        })
        .collect();
    assert_eq!(door.counter("logins_now"), 2);
    let (number, text) = refusal(door.login(&Login::default()));
    assert_eq!(number, 1040);
    assert!(text.contains("too many clients are logging in"), "{text}");
    assert_eq!(door.counter("logins_turned_away"), 1);
    assert_eq!(door.counter("clients_refused"), 0);
    for client in &mut clients {
        client.run("DO 1");
    }
    drop(silent);
    wait_until(PATIENCE, "somebody else may log in", || {
        door.login(&Login::default()).is_ok()
    });
}

/// A door that knows `entrance_app`, and a login of it from an address that is not loopback.
fn from_outside(stage: &Stage, tune: impl FnOnce(&mut Tuning)) -> Option<(Door, Login<'static>)> {
    let from = own_address()?;
    stage.everywhere("CREATE OR REPLACE USER entrance_app@'%' IDENTIFIED BY 'secret'");
    let door = stage.door_with(|tuning| {
        tuning.accounts.push(account("entrance_app", "%", "secret"));
        tune(tuning);
    });
    let login = Login {
        user: "entrance_app",
        password: "secret",
        from: Some(from),
        ..Login::default()
    };
    Some((door, login))
}

/// Three logins in a row fail, and one that would be right has to wait; gives what it is told. Again, where the machine was so
/// busy that the wait was over before.
fn is_blocked(door: &Door, wrong: &Login<'_>, right: &Login<'_>) -> String {
    let mut told = None;
    wait_until(PATIENCE, "an address that has to wait", || {
        for _ in 0..3 {
            refusal(door.login(wrong));
        }
        told = door.login(right).err();
        told.is_some()
    });
    let (number, text) = refusal(Err::<(), _>(told.expect("it was waited for")));
    assert_eq!(number, 1129, "{text}");
    text
}

#[test]
fn an_address_whose_logins_fail_has_to_wait() {
    let Some(stage) = Stage::shared() else { return };
    let outside = from_outside(&stage, |tuning| tuning.settings.logins.failures_max = 3);
    let Some((door, right)) = outside else { return };
    let wrong = Login {
        password: "wrong",
        ..right.clone()
    };
    let fail = |times| {
        for _ in 0..times {
            assert_eq!(refusal(door.login(&wrong)).0, 1045);
        }
    };
    // Not in a row.
    fail(2);
    let mut before = door.login(&right).expect("the right password");
    fail(2);
    door.login(&right).expect("the right password");
    assert_eq!(door.counter("logins_blocked"), 0);
    let text = is_blocked(&door, &wrong, &right);
    let from = right.from.expect("it is set");
    let said = format!("Host '{from}' is blocked because 3 logins in a row have failed");
    assert!(text.contains(&said), "{text}");
    assert!(door.counter("logins_blocked") > 0);
    // Others, and those who are there, notice nothing.
    let here = Login {
        from: None,
        ..right.clone()
    };
    door.login(&here).expect("loopback never waits");
    before.run("DO 1");
    wait_until(PATIENCE, "the wait is over", || door.login(&right).is_ok());
    is_blocked(&door, &wrong, &right);
    door.tune(|all| all.settings.logins.failures_max = 0);
    door.login(&right).expect("nobody waits any more");
}

#[test]
fn loopback_never_waits() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|tuning| tuning.settings.logins.failures_max = 1);
    let wrong = Login {
        password: "wrong",
        ..Login::default()
    };
    for _ in 0..5 {
        assert_eq!(refusal(door.login(&wrong)).0, 1045);
    }
    door.client().run("DO 1");
}

/// Whoever never answers, or not in the protocol, has failed; who only looks has not.
#[test]
fn silence_and_noise_are_failures() {
    let Some(stage) = Stage::shared() else { return };
    let outside = from_outside(&stage, |tuning| {
        tuning.settings.logins.failures_max = 2;
        // As long as a login may take on a busy machine.
        tuning.settings.handshake_timeout_s = 4;
    });
    let Some((door, right)) = outside else { return };
    let from = right.from.expect("it is set");
    let dial = || {
        let stream = connect_from(from, door.address()).expect("connected");
        let mut client = Client::over(stream).expect("a socket has limits");
        client.read_packet().expect("a greeting");
        client.capabilities = Capabilities::PROTOCOL_41;
        client
    };
    // As a load balancer does that wants to know whether the door is open.
    for _ in 0..5 {
        let mut look = dial();
        look.close_send().expect("closed");
        assert!(look.is_closed_within(PATIENCE));
    }
    door.login(&right).expect("nobody has failed");
    assert_eq!(refusal(dial().read_done()).0, 1159, "handshake_timeout_s");
    let mut noise = dial();
    noise.send_packet(b"noise").expect("sent");
    assert_eq!(refusal(noise.read_done()).0, 1043);
    assert_eq!(refusal(door.login(&right)).0, 1129);
}

/// A door that knows the accounts as the primary has them, and how logins of this user end there: 0 for one
/// that succeeds.
fn follows(stage: &Stage, user: &'static str) -> (Door, impl Fn(&Door, &str) -> (u16, String)) {
    let door = stage.door_with(Tuning::follow_accounts);
    let ends = move |door: &Door, password: &str| {
        let login = Login {
            user,
            password,
            ..Login::default()
        };
        match door.login(&login) {
            Ok(_) => (0, String::new()),
            refused => refusal(refused),
        }
    };
    (door, ends)
}

fn numbers(door: &Door, ends: &impl Fn(&Door, &str) -> (u16, String), tries: &[&str]) -> Vec<u16> {
    let number = |password: &&str| ends(door, password).0;
    tries.iter().map(number).collect()
}

/// FAILED_LOGIN_ATTEMPTS and PASSWORD_LOCK_TIME, as straight: the server itself sees none of these
/// passwords.
#[test]
fn wrong_passwords_lock_an_account_of_mysql() {
    let Some(stage) = Stage::start_with(Release::newest_mysql()) else {
        return;
    };
    let made = "CREATE USER entrance_lock@'%' IDENTIFIED WITH mysql_native_password BY 'right' \
                FAILED_LOGIN_ATTEMPTS 3 PASSWORD_LOCK_TIME 2";
    if let Err(old) = stage.primary.client().query(made) {
        return testkit::skip(&format!("this MySQL locks no accounts: {old}"));
    }
    stage.replica.client().run(made);
    let (door, ends) = follows(&stage, "entrance_lock");
    let tries = |tries: &[&str]| numbers(&door, &ends, tries);
    assert_eq!(
        tries(&["wrong", "", "right"]),
        [1045, 1045, 0],
        "not in a row"
    );
    assert_eq!(tries(&["wrong", "", "wrong"]), [1045, 1045, 3955]);
    let text = "3955 (HY000): Access denied for user 'entrance_lock'@'localhost'. Account is blocked \
                for 2 day(s) (2 day(s) remaining) due to 3 consecutive failed logins.";
    assert_eq!(ends(&door, "right"), (3955, text.to_owned()));
    assert_eq!(door.counter("logins_locked"), 2);
    // What others do with accounts unlocks nothing; what is said of this one does.
    let mut root = door.client();
    root.run("CREATE USER entrance_other@'%'");
    let login = Login {
        user: "entrance_other",
        ..Login::default()
    };
    let mut other = door.login(&login).expect("it has no password");
    other.run("ALTER USER USER() IDENTIFIED BY 'FLUSH PRIVILEGES entrance_lock'");
    assert_eq!(tries(&["right"]), [3955]);
    root.run("ALTER USER entrance_lock@'%' ACCOUNT UNLOCK");
    assert_eq!(
        tries(&["right", "wrong", "wrong", "wrong"]),
        [0, 1045, 1045, 3955]
    );
    root.run("FLUSH PRIVILEGES");
    assert_eq!(
        tries(&["right", "wrong", "wrong", "wrong"]),
        [0, 1045, 1045, 3955]
    );
    // Other numbers count, also when they are set past Heddle.
    let other = "ALTER USER entrance_lock@'%' FAILED_LOGIN_ATTEMPTS 1 PASSWORD_LOCK_TIME UNBOUNDED";
    stage.everywhere(other);
    wait_until(PATIENCE, "the account is read", || tries(&["right"]) == [0]);
    assert_eq!(tries(&["wrong"]), [3955]);
    let (_, text) = ends(&door, "right");
    assert!(
        text.contains("unlimited day(s) (unlimited day(s) remaining)"),
        "{text}"
    );
    stage.everywhere("ALTER USER entrance_lock@'%' PASSWORD_LOCK_TIME 0");
    wait_until(PATIENCE, "the account is read", || tries(&["right"]) == [0]);
    assert_eq!(tries(&["wrong", "wrong", "right"]), [1045, 1045, 0]);
}

/// `max_password_errors`, as straight.
#[test]
fn wrong_passwords_lock_an_account_of_mariadb() {
    for release in [Release::Installed, Release::MariaDb114] {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        stage.everywhere(
            "CREATE USER entrance_lock@'%' IDENTIFIED BY 'right'; \
             SET GLOBAL max_password_errors = 2",
        );
        let (door, ends) = follows(&stage, "entrance_lock");
        let tries = |tries: &[&str]| numbers(&door, &ends, tries);
        // No password is no wrong one.
        assert_eq!(tries(&["wrong", "", "", "right"]), [1045, 1045, 1045, 0]);
        assert_eq!(tries(&["wrong", "wrong", "wrong"]), [1045, 1045, 4150]);
        let text = "4150 (HY000): User is blocked because of too many credential errors; unblock with \
                    'ALTER USER / FLUSH PRIVILEGES'";
        assert_eq!(ends(&door, "right"), (4150, text.to_owned()));
        let mut root = door.client();
        root.run("FLUSH PRIVILEGES");
        assert_eq!(
            tries(&["right", "wrong", "wrong", "right"]),
            [0, 1045, 1045, 4150]
        );
        root.run("ALTER USER entrance_lock@'%' IDENTIFIED BY 'right'");
        assert_eq!(tries(&["right"]), [0]);
        // Attempts to become somebody are attempts.
        let wrong = Login {
            user: "entrance_lock",
            password: "wrong",
            ..Login::default()
        };
        for number in [1045, 1045, 4150] {
            let refused = root.change_user(&wrong).expect_err("refused");
            assert_eq!(refused.number(), number, "{refused}");
        }
        stage.everywhere("SET GLOBAL max_password_errors = DEFAULT");
        wait_until(PATIENCE, "the limit is read", || tries(&["right"]) == [0]);
    }
}
