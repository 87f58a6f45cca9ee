//! The SQL door: clients that break the protocol and servers that break down hurt nobody else.

use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use reactor::Io;
use testkit::client::{Failure, Login, Reply};
use testkit::{Client, Door, Stage};

const SOON: Duration = Duration::from_secs(20);

/// The error that comes next, and then the end.
#[track_caller]
fn last_error(client: &mut Client, what: &str) -> String {
    let failure = match client.read_done() {
        Err(failure @ Failure::Server { .. }) => failure.to_string(),
        other => panic!("{what}: expected an error, got {other:?}"),
    };
    assert!(client.is_closed_within(SOON), "{what}");
    failure
}

/// A connection that has its greeting and has said nothing. What the door says to it has no SQLSTATE
/// yet: it does not know whether the client reads one.
fn greeted(door: &Door) -> Client {
    let mut client = Client::dial(door.address()).expect("connected");
    client.read_packet().expect("a greeting");
    client.capabilities = Capabilities::PROTOCOL_41;
    client
}

fn each_io(stage: &Stage, test: impl Fn(&Door)) {
    for io in [Io::Epoll, Io::Auto] {
        let door = stage.door_with(|tuning| {
            tuning.io = io;
            // As long as a login may take on a busy machine.
            tuning.settings.handshake_timeout_s = 3;
            tuning.settings.packet_bytes_max = 1 << 20;
        });
        let mut witness = door.client();
        test(&door);
        assert_eq!(witness.value("SELECT 1"), "1", "others notice nothing");
        drop(witness);
        door.wait_unused();
    }
}

#[test]
fn silence_in_the_handshake_is_1159() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        let mut nothing = greeted(door);
        let mut half_header = greeted(door);
        half_header.send_bytes(b"\x40\0").expect("sent");
        let mut half_packet = greeted(door);
        half_packet.send_bytes(b"\x40\0\0\x01abc").expect("sent");
        half_packet.sequence = 2;
        for client in [&mut nothing, &mut half_header, &mut half_packet] {
            let said = last_error(client, "silence");
            assert_eq!(
                said,
                "1159 (HY000): Got timeout reading communication packets"
            );
        }
    });
}

#[test]
fn closing_early_is_no_ones_trouble() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        for bytes in [&b""[..], b"\x40", b"\x40\0\0\x01", b"\x40\0\0\x01abc"] {
            let mut client = greeted(door);
            client.send_bytes(bytes).expect("sent");
            drop(client);
            let mut polite = greeted(door);
            polite.send_bytes(bytes).expect("sent");
            polite.close_send().expect("closed");
            assert!(polite.is_closed_within(SOON));
            let mut client = door.client();
            client.send_bytes(bytes).expect("sent");
            drop(client);
            let mut polite = door.client();
            polite.send_bytes(bytes).expect("sent");
            polite.close_send().expect("closed");
            assert!(polite.is_closed_within(SOON), "{bytes:?}");
        }
        // A client that takes its leave and whose port is still open is as good as gone.
        Client::dial(door.address()).expect("connected");
    });
}

#[test]
fn garbage_instead_of_a_login_is_1043() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        for payload in [&b""[..], b"x", b"GET / HTTP/1.1\r\n\r\n", &[0xFF; 300]] {
            let mut client = greeted(door);
            client.sequence = 1;
            client.send_packet(payload).expect("sent");
            let said = last_error(&mut client, "garbage");
            assert!(
                said.starts_with("1043 (") || said.starts_with("1045 ("),
                "{said}"
            );
        }
        let mut http = greeted(door);
        http.send_bytes(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
            .expect("sent");
        assert!(http.is_closed_within(SOON));
    });
}

#[test]
fn nothing_long_is_kept_for_a_client_before_its_login() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        let mut client = greeted(door);
        client.sequence = 2;
        // The header alone: 64 KiB and one byte are announced, and are not waited for.
        client.send_bytes(&[1, 0, 1, 1]).expect("sent");
        let said = last_error(&mut client, "a long login");
        assert!(said.starts_with("1153 ("), "{said}");
    });
}

#[test]
fn wrong_sequence_numbers_are_1156() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        for sequence in [1, 7, 255] {
            let mut client = door.client();
            client.ping().expect("pong");
            client.sequence = sequence;
            client.send_packet(b"\x0e").expect("sent");
            assert!(last_error(&mut client, "a sequence").starts_with("1156 (08S01)"));
        }
        let mut client = greeted(door);
        client.sequence = 9;
        client.send_packet(b"anything").expect("sent");
        assert!(last_error(&mut client, "in the login").starts_with("1156 ("));
    });
}

#[test]
fn a_command_that_is_too_large_is_1153() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        // The header alone is enough, and so is the whole of it.
        let mut client = door.client();
        client.send_bytes(b"\x01\0\x10\0\x03").expect("sent");
        client.sequence = 1;
        assert!(last_error(&mut client, "a header").starts_with("1153 (08S01)"));
        let mut client = door.client();
        let sql = format!("SELECT '{}'", "a".repeat(1 << 20));
        let _ = client.send_command(Command::Query, sql.as_bytes());
        client.sequence = 1;
        assert!(last_error(&mut client, "a text").starts_with("1153 (08S01)"));
        let mut client = door.client();
        let sql = format!("SELECT LENGTH('{}')", "a".repeat((1 << 20) - 100));
        assert_eq!(client.value(&sql), ((1 << 20) - 100).to_string());
        let mut login = greeted(door);
        login.send_bytes(b"\xff\xff\xff\x01abc").expect("sent");
        login.sequence = 2;
        assert!(last_error(&mut login, "a login").starts_with("1153 ("));
    });
}

#[test]
fn empty_and_malformed_commands() {
    let Some(stage) = Stage::shared() else { return };
    each_io(&stage, |door| {
        let mut client = door.client();
        client.sequence = 0;
        client.send_packet(b"").expect("sent");
        assert!(last_error(&mut client, "empty").starts_with("1835 (HY000)"));
        let mut client = door.client();
        client
            .send_command(Command::ChangeUser, b"\x01")
            .expect("sent");
        assert!(last_error(&mut client, "change user").starts_with("1835 (HY000)"));
        let mut client = door.client();
        for command in [
            Command::ProcessKill,
            Command::SetOption,
            Command::StmtFetch,
            Command::StmtReset,
            Command::StmtExecute,
        ] {
            client.send_command(command, b"\x01").expect("sent");
            let number = client.read_done().expect_err("refused").number();
            assert!(
                matches!(number, 1835 | 1047 | 1243),
                "{command:?}: {number}"
            );
        }
        assert_eq!(client.error(""), 1065);
        assert_eq!(
            client
                .query("SELECT 'never ends")
                .expect_err("refused")
                .number(),
            1064
        );
        assert_eq!(
            client
                .query(b"SELECT \xff\xfe\x00")
                .expect_err("refused")
                .number(),
            1064
        );
        client.ping().expect("pong");
    });
}

/// Reads a result's packets until one is an error; `None` when the connection just ended.
fn read_to_error(client: &mut Client) -> Option<Failure> {
    loop {
        match client.read_packet() {
            Ok(payload) if payload.first() == Some(&0xFF) => {
                return Some(client.server_failure(&payload));
            }
            Ok(payload) => assert!(payload.first() != Some(&0xFE), "the result ended well"),
            Err(Failure::Io(_)) => return None,
            Err(failure) => panic!("{failure}"),
        }
    }
}

#[test]
fn rows_that_no_other_server_has_end_with_1158_when_theirs_dies() {
    for (io, extra) in [
        (Io::Epoll, Capabilities::DEPRECATE_EOF),
        (Io::Auto, Capabilities::empty()),
    ] {
        let Some(mut stage) = Stage::start() else {
            return;
        };
        let door = Door::start(&[&stage.primary, &stage.replica], |tuning| tuning.io = io);
        let login = Login {
            database: Some("stage"),
            capabilities: Login::default().capabilities | extra,
            ..Login::default()
        };
        let mut client = door.login(&login).expect("logged in");
        let mut giant = door.login(&login).expect("logged in");
        let mut witness = door.client();
        witness.run("SET @pin = 1");
        client
            .send_command(
                Command::Query,
                b"SELECT seq, name, REPEAT('x', 200) FROM seq_1_to_1000000, who",
            )
            .expect("sent");
        for _ in 0..10 {
            client.read_packet().expect("the result begins");
        }
        giant
            .send_command(Command::Query, b"SELECT REPEAT(name, 8000000) FROM who")
            .expect("sent");
        let before_rows = if extra.is_empty() { 3 } else { 2 };
        for _ in 0..before_rows {
            giant.read_packet().expect("the result begins");
        }
        stage.replica.kill();
        let failure = read_to_error(&mut client).expect("an error at the end of a row");
        assert!(failure.to_string().starts_with("1158 (08S01)"), "{failure}");
        // The session lives on, on another server.
        assert_eq!(client.value("SELECT name FROM who"), "primary");
        // Inside a row nothing can be said.
        match read_to_error(&mut giant) {
            None => assert!(giant.is_closed_within(SOON)),
            Some(failure) => assert_eq!(failure.number(), 1158),
        }
        assert_eq!(witness.value("SELECT @pin"), "1");
        drop((client, giant, witness));
        door.wait_unused();
    }
}

#[test]
fn a_client_that_leaves_its_result_is_forgotten() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    for _ in 0..4 {
        let mut client = door.client_in("stage");
        let sql = b"SELECT seq, REPEAT('x', 200) FROM seq_1_to_1000000";
        client.send_command(Command::Query, sql).expect("sent");
        client.read_packet().expect("the result begins");
    }
    door.wait_unused();
    assert!(matches!(
        door.client().query("SELECT 1").as_deref(),
        Ok([Reply::Rows(_)])
    ));
}
