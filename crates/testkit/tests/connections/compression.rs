//! The SQL door: clients that compress, servers that compress, and frames that lie.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use channel::{Algorithm, Presented, ServerTls, Trust};
use mysql_wire::command::Command;
use mysql_wire::compressed::Header;
use reactor::Io;
use session::{ClientTls, Terms, Transport};
use testkit::certificates::Authority;
use testkit::client::{Login, Value, any_certificate};
use testkit::{Client, Door, Release, Server, Stage};

const SOON: Duration = Duration::from_secs(20);

const BOTH: [Algorithm; 2] = [Algorithm::Zlib, Algorithm::Zstd(7)];

fn packed(algorithm: Algorithm) -> Login<'static> {
    Login {
        compress: Some(algorithm),
        ..Login::default()
    }
}

/// A transport with TLS for clients, and servers met on these terms.
fn transport(compress: Option<Algorithm>) -> Arc<Transport> {
    let authority = Authority::new("test CA");
    let pair = authority.sign("router", &["localhost"]);
    let read = |path| fs::read(path).expect("a file of the test");
    let presented = Presented::from_pem(&read(&pair.certificate), &read(&pair.key), None);
    let trust = Trust::new(ServerTls::Required, None).expect("no file is read");
    let servers = match compress {
        Some(_) => Terms {
            trust,
            compress,
            proxy: None,
            sockets: false,
        },
        None => Terms::plain(),
    };
    let presented = Some(presented.expect("a good pair"));
    Arc::new(Transport::new(ClientTls::Preferred, presented, servers))
}

/// All that a session does, in short and in long.
fn exercise(client: &mut Client, table: &str) {
    for number in 0..50 {
        let text = format!("SELECT {number}, REPEAT('x', {})", number * 300);
        assert_eq!(client.rows(&text)[0][0], Some(number.to_string()));
    }
    let statement = client
        .prepare("SELECT ?, REPEAT('y', 1000)")
        .expect("prepared");
    let rows = client.execute(&statement, &[Value::Int(41)]);
    assert!(format!("{rows:?}").contains("41"), "{rows:?}");
    client.close(statement).expect("closed");
    assert_eq!(client.error("SELECT * FROM nowhere.nothing"), 1146);
    client.run(&format!(
        "CREATE OR REPLACE TABLE {table} (id INT, b LONGBLOB)"
    ));
    // Noise, so that it does not shrink to one small frame.
    let mut seed = 7u64;
    let noise: String = std::iter::repeat_with(|| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(b'!' + (seed >> 58) as u8).max('+')
    })
    .take(1 << 20)
    .map(|c| if matches!(c, '\'' | '\\') { 'q' } else { c })
    .collect();
    client.run(&format!("INSERT INTO {table} VALUES (1, '{noise}')"));
    let back = client.value(&format!("/*ms=master*/ SELECT b FROM {table}"));
    assert!(back == noise, "{} bytes", back.len());
    let long = "longer than a packet ".repeat(850_000);
    client.run(&format!("UPDATE {table} SET b = '{long}'"));
    let back = client.value(&format!("/*ms=master*/ SELECT b FROM {table}"));
    assert!(back == long, "{} bytes", back.len());
    let many: Vec<String> = (2..5000)
        .map(|i| format!("({i}, REPEAT('r', 50))"))
        .collect();
    client.run(&format!("INSERT INTO {table} VALUES {}", many.join(",")));
    let rows = client.rows(&format!(
        "/*ms=master*/ SELECT id, b FROM {table} WHERE id > 1"
    ));
    assert_eq!(rows.len(), 4998);
    for number in 0..100 {
        let text = format!("SELECT {number}");
        client
            .send_command(Command::Query, text.as_bytes())
            .expect("sent");
    }
    for number in 0..100 {
        client.sequence = 1;
        let replies = client.read_results(false).expect("a result");
        let digits = format!("{:?}", number.to_string().as_bytes());
        assert!(format!("{replies:?}").contains(&digits), "{number}");
    }
    let replies = client.query("SELECT 1; SELECT 2; SELECT REPEAT('z', 100)");
    assert_eq!(replies.expect("three results").len(), 3);
    client.reset().expect("reset");
}

#[test]
fn clients_compress_by_zlib_and_zstd_with_and_without_tls() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("packed");
    for (io, tls) in [(Io::Epoll, false), (Io::Auto, true)] {
        let door = stage.door_with(|tuning| {
            tuning.io = io;
            tuning.transport = transport(None);
        });
        for algorithm in BOTH {
            let login = Login {
                tls: tls.then(any_certificate),
                ..packed(algorithm)
            };
            let mut client = door.login(&login).expect("it is offered");
            exercise(&mut client, "packed.clients");
            client.change_user(&login).expect("the same again");
            assert_eq!(client.value("SELECT REPEAT('a', 60)"), "a".repeat(60));
            client.quit();
        }
        door.wait_unused();
    }
}

#[test]
fn servers_compress() {
    let authority = Authority::new("test CA");
    let pair = authority.sign("server", &["localhost"]);
    let (certificate, key) = (pair.certificate.display(), pair.key.display());
    let settings = [
        ("ssl_cert", certificate.to_string()),
        ("ssl_key", key.to_string()),
        ("max_allowed_packet", "64M".to_owned()),
    ];
    let settings = settings
        .each_ref()
        .map(|(key, value)| (*key, value.as_str()));
    let Some(server) = Server::start_with(Release::Installed, &settings) else {
        return;
    };
    server.client().run("CREATE DATABASE packed");
    servers_compress_on(&server, Algorithm::Zlib);
}

/// Inside TLS and compressed, from clients that do neither, both, or the latter.
fn servers_compress_on(server: &Server, algorithm: Algorithm) {
    let door = Door::start(&[server], |t| t.transport = transport(Some(algorithm)));
    for compress in [None, Some(algorithm)] {
        let login = Login {
            compress,
            ..Login::default()
        };
        let mut client = door.login(&login).expect("it is offered");
        // What is prepared in SQL is the server's own affair; else a client hears of its own connection.
        let ask = "SHOW SESSION STATUS LIKE 'Compression'";
        let servers = client.rows(&format!("EXECUTE IMMEDIATE \"{ask}\""));
        assert_eq!(servers[0][1].as_deref(), Some("ON"));
        let own = if compress.is_some() { "ON" } else { "OFF" };
        assert_eq!(client.rows(ask)[0][1].as_deref(), Some(own));
        exercise(&mut client, "packed.servers");
        client.quit();
    }
    door.wait_unused();
}

#[test]
fn mysql_servers_compress() {
    let limit = [("max_allowed_packet", "64M")];
    let Some(server) = Server::start_with(Release::MySql80, &limit) else {
        return;
    };
    let door = Door::start(&[&server], |tuning| {
        let mut servers = Terms::plain();
        servers.compress = Some(Algorithm::Zlib);
        tuning.transport = Arc::new(Transport::new(ClientTls::Off, None, servers));
    });
    for compress in [None, Some(Algorithm::Zlib)] {
        let login = Login {
            compress,
            ..Login::default()
        };
        let mut client = door.login(&login).expect("it is offered");
        client.run("PREPARE packed FROM \"SHOW SESSION STATUS LIKE 'Compression'\"");
        let servers = client.rows("EXECUTE packed");
        assert_eq!(servers[0][1].as_deref(), Some("ON"));
        let own = match compress {
            Some(_) => ["ON", "zlib", "6"],
            None => ["OFF", "", "0"],
        };
        let rows = client.rows("SHOW SESSION STATUS WHERE Variable_name LIKE 'Compression%'");
        let values: Vec<&str> = rows.iter().filter_map(|row| row[1].as_deref()).collect();
        assert_eq!(values, own[..values.len()]);
        for bytes in [1, 100, 20_000, 3 << 20] {
            let value = client.value(&format!("SELECT REPEAT('m', {bytes})"));
            assert_eq!(value.len(), bytes);
        }
    }
    door.wait_unused();
}

#[test]
fn a_file_goes_compressed_both_ways() {
    let Some(server) = Server::start_with(Release::Installed, &[("local_infile", "1")]) else {
        return;
    };
    server.client().run("CREATE DATABASE packed");
    server
        .client()
        .run("CREATE TABLE packed.files (id INT, text VARCHAR(100))");
    for compress in [None, Some(Algorithm::Zlib)] {
        let door = Door::start(&[&server], |t| {
            let mut servers = Terms::plain();
            servers.compress = compress;
            t.transport = Arc::new(Transport::new(ClientTls::Off, None, servers));
        });
        for side in [None, Some(Algorithm::Zlib), Some(Algorithm::Zstd(3))] {
            let mut login = Login {
                compress: side,
                ..Login::default()
            };
            login.capabilities |= mysql_wire::capability::Capabilities::LOCAL_FILES;
            let mut client = door.login(&login).expect("it is offered");
            client.run("DELETE FROM packed.files");
            let rows: String = (0..3000).map(|i| format!("{i}\ttext {i}\n")).collect();
            client
                .send_command(
                    Command::Query,
                    b"LOAD DATA LOCAL INFILE 'f' INTO TABLE packed.files",
                )
                .expect("sent");
            let asked = client.read_packet().expect("a question");
            assert_eq!(asked, b"\xFBf");
            for piece in rows.as_bytes().chunks(150) {
                client.send_packet(piece).expect("sent");
            }
            client.send_packet(b"").expect("sent");
            let done = client.read_done().expect("loaded");
            assert_eq!(done.affected_rows, 3000, "{compress:?} {side:?}");
            assert_eq!(
                client.value("/*ms=master*/ SELECT COUNT(*) FROM packed.files"),
                "3000"
            );
        }
        door.wait_unused();
    }
}

fn frame(sequence: u8, plain_bytes: usize, body: &[u8]) -> Vec<u8> {
    let header = Header {
        body_bytes: body.len(),
        sequence,
        plain_bytes,
    };
    [&header.encode()[..], body].concat()
}

#[test]
fn frames_that_lie_end_their_own_client() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door_with(|t| t.transport = transport(None));
    let mut witness = door.client();
    for algorithm in BOTH {
        let lies: [(&str, Vec<u8>, Option<u16>); 6] = [
            ("wrong number", frame(1, 0, b"\x01\0\0\0\x0E"), Some(1156)),
            ("no compression", frame(0, 100, &[7; 60]), Some(1157)),
            (
                "16 MB of nothing",
                frame(0, 0xFF_FF_FF, &[7; 60]),
                Some(1157),
            ),
            ("empty body", frame(0, 60, b""), Some(1157)),
            ("a wrong second", frame(0, 0, b"\x20\0\0\0\x03SELECT"), None),
            ("cut short", frame(0, 0, b"\x20\0\0")[..9].to_vec(), None),
        ];
        for (what, bytes, expected) in lies {
            let mut client = door.login(&packed(algorithm)).expect("it is offered");
            assert_eq!(client.value("SELECT 1"), "1");
            client.send_frames(&bytes).expect("sent");
            if what == "a wrong second" {
                client.send_frames(&frame(7, 0, b" 1")).expect("sent");
            }
            client.forget_compression();
            if let Some(number) = expected {
                let said = client.read_bytes(300).expect("an error");
                let Some((sequence, error)) = said.get(3).zip(said.get(11..14)) else {
                    panic!("{what}: {said:?}");
                };
                let first = if what == "wrong number" { 2 } else { 1 };
                assert_eq!(*sequence, first, "{what}");
                let [low, high] = u16::to_le_bytes(number);
                assert_eq!(error, [0xFF, low, high], "{what}");
            }
            if what == "cut short" {
                client.close_send().expect("closed");
            }
            assert!(client.is_closed_within(SOON), "{what}");
        }
    }
    assert_eq!(witness.value("SELECT 1"), "1");
    drop(witness);
    door.wait_unused();
}
