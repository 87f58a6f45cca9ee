//! A scripted attacker against a whole farm: rights of every command at every door, floods, long texts,
//! made up ids of decisions. Where it is cheap, a hole is made on purpose, which the same script finds.
//!
//! All of it is ignored in an ordinary run; `make test-hostile` runs it, with the tests of single doors.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mysql_wire::command::Command;
use socket2::{Domain, Socket, Type};
use testkit::client::Failure;
use testkit::{Client, Farm, Release, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

/// In a flood others are answered within this.
const SERVED: Duration = Duration::from_secs(10);

/// The rights that the document gives, by command: a source apart from the table of the program.
fn rights() -> BTreeMap<String, &'static str> {
    let text = include_str!("../../../docs/SECURITY.md");
    let mut all = BTreeMap::new();
    for right in ["public", "monitor", "admin"] {
        let start = format!("| {right} | `");
        let rows = text.lines().filter(|line| line.starts_with(&start));
        let commands = rows.filter_map(|row| row.split('|').nth(2));
        for name in commands.flat_map(|cell| cell.split(',')) {
            let name = name.trim().trim_matches('`');
            if name.contains(' ') && !name.starts_with("Authorization") {
                all.insert(name.to_owned(), right);
            }
        }
    }
    all
}

/// What the HTTP door answers to this head and body.
fn status(http: SocketAddr, method: &str, path: &str, token: Option<&str>, body: &str) -> u16 {
    let mut stream = TcpStream::connect(http).expect("it listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let token = token.map_or(String::new(), |it| {
        format!("Authorization: Bearer {it}\r\n")
    });
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {http}\r\n{token}Content-Type: application/json\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut said = Vec::new();
    // An answer may come before the body was read.
    let _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    let code = said.split(' ').nth(1).and_then(|code| code.parse().ok());
    code.unwrap_or_else(|| panic!("{method} {path}: {said:?}"))
}

/// Commands that answer to whoever shows this token although they need more than `allowed`.
fn open_over_http(farm: &Farm, token: Option<&str>, allowed: &[&str]) -> Vec<String> {
    let mut open = Vec::new();
    for (name, right) in rights() {
        if allowed.contains(&right) {
            continue;
        }
        let path = format!("/v1/{}", name.replace(' ', "/"));
        for method in ["GET", "POST"] {
            let code = status(farm.http, method, &path, token, "{}");
            // GET of what changes something is refused as such, whoever asks.
            if ![401, 403, 405].contains(&code) {
                open.push(format!("{method} {name}: {code}"));
            }
        }
    }
    open
}

#[test]
#[ignore = "the attacker's script: make test-hostile"]
fn every_command_keeps_its_right_at_every_door() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let rights = rights();
    assert!(rights.len() > 60, "the document lists them: {rights:?}");
    let listed = farm.json(&["manage", "help"]);
    for row in &listed {
        let known = rights
            .keys()
            .any(|name| row.to_string().contains(name.as_str()));
        assert!(known, "no right is documented for {row}");
    }
    let token = |file: &str| {
        let text = std::fs::read_to_string(farm.dir().join(file)).expect("a token");
        text.trim().to_owned()
    };
    let (monitor, admin) = (token("monitor-token"), token("token"));
    let none: Vec<String> = Vec::new();
    assert_eq!(open_over_http(&farm, None, &["public"]), none);
    assert_eq!(open_over_http(&farm, Some("wrong"), &["public"]), none);
    let watched = open_over_http(&farm, Some(&monitor), &["public", "monitor"]);
    assert_eq!(watched, none);
    // The same script finds what a token opens.
    let planted = open_over_http(&farm, Some(&monitor), &["public"]);
    assert!(planted.len() > 10, "{planted:?}");

    // In SQL, by an account that has nothing.
    farm.client()
        .run("CREATE USER mallory@'%' IDENTIFIED BY 'x'");
    let mut mallory = account(&farm);
    for (name, right) in rights.iter().filter(|(_, right)| **right != "public") {
        let answer = mallory.query(format!("HEDDLE {name}"));
        match answer {
            Err(Failure::Server { number: 1227, .. }) => {}
            other => panic!("{name} ({right}): {other:?}"),
        }
    }
    mallory.query("HEDDLE manage ping").expect("it is public");

    // What routers ask each other.
    for shown in [None, Some("wrong"), Some(&*monitor), Some(&*admin)] {
        for body in [
            "",
            "{}",
            "{\"words\":[\"config\",\"show\"]}",
            &"[".repeat(100_000),
        ] {
            let code = status(farm.http, "POST", "/v1/peer", shown, body);
            assert!((400..500).contains(&code), "{shown:?}: {code}");
        }
    }
}

/// The account of the attacker, when it can log in.
#[track_caller]
fn account(farm: &Farm) -> Client {
    let mut found = None;
    wait_until(PATIENCE, "the account is known", || {
        found = Client::connect(farm.sql, "mallory", "x").ok();
        found.is_some()
    });
    found.expect("it was waited for")
}

/// Somebody else is served all the while.
fn while_others_are_served(farm: &Farm, flood: impl FnOnce()) {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut client = farm.client();
            let mut served = 0u32;
            while !over.load(Ordering::Relaxed) || served == 0 {
                let asked = Instant::now();
                assert_eq!(client.value("SELECT 1"), "1");
                assert!(asked.elapsed() < SERVED, "{:?}", asked.elapsed());
                served += 1;
            }
            let asked = Instant::now();
            drop(farm.client());
            assert!(asked.elapsed() < SERVED, "{:?}", asked.elapsed());
            served
        });
        flood();
        over.store(true, Ordering::Relaxed);
        let served = watch.join().expect("others are served");
        assert!(served > 0);
    });
}

/// A connection from this address of the machine.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((from, 0));
    socket.bind(&from.into()).expect("an address of loopback");
    socket.connect(&to.into()).expect("the door is open");
    socket.into()
}

#[test]
#[ignore = "the attacker's script: make test-hostile"]
fn floods_keep_nobody_out() {
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut root = farm.client();
    root.run("CREATE USER mallory@'%' IDENTIFIED BY 'x'");
    drop(account(&farm));
    while_others_are_served(&farm, || {
        // Half-open logins: silent ones, and ones that stop within their first packet.
        let mut held = Vec::new();
        for at in 0..600u16 {
            let mut stream = TcpStream::connect(farm.sql).expect("it listens");
            if at % 2 == 0 {
                stream.write_all(&[0x40, 0, 0, 1, 0x85]).expect("sent");
            }
            held.push(stream);
        }
        // Passwords that are longer than any.
        for length in [256, 257, 65_535] {
            for _ in 0..20 {
                let refused = Client::connect(farm.sql, "mallory", &"p".repeat(length));
                assert!(refused.is_err(), "{length} bytes");
            }
        }
        drop(held);
    });
    while_others_are_served(&farm, || {
        // Slow readers: large results, of which nothing is read.
        let mut slow = Vec::new();
        for _ in 0..20 {
            let mut client = account(&farm);
            let text = b"SELECT REPEAT('x', 4000000) UNION ALL SELECT REPEAT('y', 4000000)";
            client.send_command(Command::Query, text).expect("sent");
            slow.push(client);
        }
    });
    while_others_are_served(&farm, || {
        let storm = || {
            for _ in 0..40 {
                let mut client = account(&farm);
                let mut payload = b"mallory\0\x14".to_vec();
                payload.extend([7; 20]);
                payload.extend(b"\0\x2d\0mysql_native_password\0");
                client
                    .send_command(Command::ChangeUser, &payload)
                    .expect("sent");
                // A refusal, or one more question that nobody answers.
                let _ = client.read_packet();
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(storm);
            }
        });
    });
    assert!(farm.is_running());
}

#[test]
#[ignore = "the attacker's script: make test-hostile"]
fn thousands_of_slow_http_clients_keep_nobody_out() {
    let Some(mut farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let halves = [
        "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ".to_owned(),
        "POST /v1/group/create HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n{"
            .to_owned(),
        "POST /v1/peer HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n["
            .to_owned(),
    ];
    let mut held = Vec::new();
    for at in 0..2000u16 {
        let [_, low] = (2 + at % 20).to_be_bytes();
        let mut stream = connect(Ipv4Addr::new(127, 0, 0, low), farm.http);
        // One that had to give way to another is refused.
        let _ = stream.write_all(halves[usize::from(at % 3)].as_bytes());
        held.push(stream);
    }
    let asked = Instant::now();
    assert_eq!(farm.json(&["manage", "ping"]).len(), 1);
    assert_eq!(farm.client().value("SELECT 1"), "1");
    assert!(asked.elapsed() < SERVED, "{:?}", asked.elapsed());
    drop(held);
    assert!(farm.is_running());
}

/// A farm whose tables `one.t` and `two.t` are on two groups, and the attacker's account.
fn two_groups(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(release, &["--groups", "2", "--replicas", "0"])?;
    let mut root = farm.client();
    for (database, group) in [("one", "g1"), ("two", "g2")] {
        root.rows(&format!(
            "HEDDLE sharding assign_database {database} {group}"
        ));
        root.run(&format!("CREATE DATABASE {database}"));
        root.run(&format!("CREATE TABLE {database}.t (id INT PRIMARY KEY)"));
    }
    root.run("CREATE USER mallory@'%' IDENTIFIED BY 'x'");
    root.run("GRANT ALL ON one.* TO mallory@'%'");
    root.run("GRANT ALL ON two.* TO mallory@'%'");
    Some(farm)
}

#[test]
#[ignore = "the attacker's script: make test-hostile"]
fn very_long_texts_end_nothing() {
    let Some(mut farm) = two_groups(Release::Installed) else {
        return;
    };
    let mut mallory = account(&farm);
    for bytes in [16 << 20, 64 << 20] {
        for text in [
            "SELECT 1 /*",
            "SELECT COUNT(*) FROM one.t WHERE id IN ('",
            "SELECT `",
        ] {
            let whole = format!("{text}{}", "x".repeat(bytes));
            // An answer, an error, or the end of this connection: of nothing else.
            if mallory.query(whole).is_err() {
                mallory = account(&farm);
            }
        }
    }
    assert_eq!(mallory.value("SELECT COUNT(*) FROM one.t"), "0");
    assert!(farm.is_running());
}

/// What the attacker gets done straight at the server that decides, with ids that he made up.
fn forgeries(server: &mut Client, ids: &[String]) -> Vec<String> {
    let mut done = Vec::new();
    for id in ids {
        for text in [
            format!("CALL heddle.decide(X'{id}', '1,2')"),
            format!("CALL heddle.decide(CONCAT(X'{id}', REPEAT('x', 16)), '1,2')"),
            format!("CALL heddle.hold(X'{id}', '1,2', 'x')"),
        ] {
            if server.query(&text).is_ok() {
                done.push(text);
            }
        }
    }
    done
}

fn decisions_are_not_forged(release: Release) {
    let Some(farm) = two_groups(release) else {
        return;
    };
    let mut client = account(&farm);
    let cross = |client: &mut Client, id: u32| {
        client.run("BEGIN");
        client.run(&format!("INSERT INTO one.t VALUES ({id})"));
        client.run(&format!("INSERT INTO two.t VALUES ({id})"));
        client.run("COMMIT");
    };
    // With its first one over two groups the account may decide.
    cross(&mut client, 1);
    let coordinator = farm.primary("g1");
    let mut root = coordinator.client();
    let mut straight = Client::connect(
        SocketAddr::from(([127, 0, 0, 1], coordinator.port)),
        "mallory",
        "x",
    )
    .expect("servers know the account");
    let ids: Vec<String> = root
        .rows("SELECT HEX(id) FROM heddle.mark WHERE LENGTH(id) = 45")
        .into_iter()
        .filter_map(|row| row.into_iter().next().flatten())
        .chain([
            format!("484401{}", "00".repeat(42)),
            format!("484401{}", "ff".repeat(42)),
        ])
        .collect();
    assert!(
        straight.error("CALL heddle.view(1)") != 1370,
        "it has the rights"
    );
    straight.run("BEGIN");
    assert_eq!(forgeries(&mut straight, &ids), Vec::<String>::new());
    // While its transaction is open, others cross, and snapshots open.
    cross(&mut client, 2);
    let mut other = farm.client();
    let asked = Instant::now();
    other.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    assert_eq!(other.value("SELECT COUNT(*) FROM one.t"), "2");
    other.run("COMMIT");
    assert!(asked.elapsed() < SERVED, "{:?}", asked.elapsed());
    straight.run("ROLLBACK");
    // The routine as it was: the same script finds the hole.
    root.run("DROP PROCEDURE heddle.decide");
    root.run(
        "CREATE PROCEDURE heddle.decide(IN of_id VARBINARY(64), IN of_groups VARCHAR(4096)) \
         INSERT INTO heddle.mark (id, state, branches) VALUES (LEFT(of_id, 45), 'commit', of_groups)",
    );
    root.run("GRANT EXECUTE ON PROCEDURE heddle.decide TO mallory@'%'");
    straight.run("BEGIN");
    assert!(
        !forgeries(&mut straight, &ids).is_empty(),
        "the planted hole"
    );
    straight.run("ROLLBACK");
}

#[test]
#[ignore = "the attacker's script: make test-hostile"]
fn decisions_are_not_forged_on_mariadb() {
    decisions_are_not_forged(Release::Installed);
}

#[test]
#[ignore = "the attacker's script: make test-hostile"]
fn decisions_are_not_forged_on_mysql() {
    decisions_are_not_forged(Release::MySqlNewer);
}
