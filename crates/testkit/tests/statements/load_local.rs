//! The SQL door: LOAD DATA LOCAL, whose file comes from the client while the statement runs.

use std::time::Duration;

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use testkit::client::{Failure, Login};
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

const LOAD: &str = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ','";

/// A stage of this release that takes files, with the database `load_local`.
fn stage(release: Release) -> Option<Stage> {
    let stage = Stage::start_with(release)?;
    stage.everywhere("SET GLOBAL local_infile = ON");
    stage.database("load_local");
    stage.everywhere("CREATE TABLE load_local.t (a INT PRIMARY KEY, b LONGTEXT)");
    Some(stage)
}

fn capable() -> Login<'static> {
    let login = Login::default();
    Login {
        database: Some("load_local"),
        capabilities: login.capabilities | Capabilities::LOCAL_FILES,
        ..login
    }
}

/// A client that offers files.
fn client(address: std::net::SocketAddr) -> Client {
    Client::login(address, &capable()).expect("root has no password")
}

fn packets(parts: &[&str]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.as_bytes().to_vec()).collect()
}

/// What a text gives with these files, for comparison.
fn said(client: &mut Client, sql: &str, files: &[&[&str]]) -> String {
    client.files = files.iter().map(|file| packets(file)).collect();
    match client.query(sql) {
        Ok(replies) => format!("{sql}: {replies:?}"),
        Err(failure) => format!("{sql}: {failure}"),
    }
}

/// Every use of a file, in an order that shows what the one before left behind.
fn tour(client: &mut Client) -> Vec<String> {
    let steps: &[(&str, &[&[&str]])] = &[
        ("TRUNCATE t", &[]),
        (LOAD, &[&["1,one\n2,t", "wo\n", "3,three"]]),
        ("SELECT * FROM t ORDER BY a", &[]),
        (LOAD, &[&[]]),
        // A duplicate, a wrong number and a short row: warnings, since the file is a client's.
        (LOAD, &[&["1,again\n", "x,nothing\n4\n"]]),
        ("SHOW WARNINGS", &[]),
        ("SELECT * FROM t ORDER BY a", &[]),
        (
            &format!("{LOAD}; SELECT COUNT(*) FROM t; {LOAD}; SELECT SUM(a) FROM t"),
            &[&["5,e\n"], &["6,f\n", "7,g\n"]],
        ),
        (
            &format!("{LOAD}; SELECT nothing; {LOAD}"),
            &[&["8,h\n"], &["9,i\n"]],
        ),
        ("SELECT * FROM t ORDER BY a", &[]),
        ("BEGIN", &[]),
        (LOAD, &[&["10,j\n"]]),
        ("SELECT COUNT(*) FROM t", &[]),
        ("ROLLBACK", &[]),
        ("SELECT COUNT(*) FROM t", &[]),
        ("CREATE TEMPORARY TABLE mine LIKE t", &[]),
        (&LOAD.replace(" t ", " mine "), &[&["1,m\n"]]),
        ("SELECT * FROM mine", &[]),
        ("DROP TEMPORARY TABLE mine", &[]),
        (&LOAD.replace(" t ", " absent "), &[&["1,m\n"]]),
        (
            "LOAD XML LOCAL INFILE 'x' INTO TABLE t ROWS IDENTIFIED BY '<r>'",
            &[&["<r a='20' b='xx'/>", "<r a='21' b='yy'/>"]],
        ),
        ("SELECT * FROM t ORDER BY a", &[]),
        (
            "CREATE TRIGGER refuse BEFORE INSERT ON t FOR EACH ROW \
             IF NEW.a = 31 THEN SIGNAL SQLSTATE '45000'; END IF",
            &[],
        ),
        (LOAD, &[&["30,a\n31,b\n", "32,c\n", "33,d\n"]]),
        ("SELECT COUNT(*) FROM t", &[]),
        ("DROP TRIGGER refuse", &[]),
    ];
    steps
        .iter()
        .map(|(sql, files)| said(client, sql, files))
        .collect()
}

#[test]
fn a_file_arrives_as_it_does_at_the_server() {
    for release in Release::ALL {
        let Some(stage) = stage(release) else {
            continue;
        };
        let straight = tour(&mut client(stage.primary.address()));
        let door = stage.door();
        for caps in [Capabilities::empty(), Capabilities::DEPRECATE_EOF] {
            let mut login = capable();
            login.capabilities |= caps;
            let mut client = door.login(&login).expect("root");
            let through = tour(&mut client);
            for (through, straight) in through.iter().zip(&straight) {
                assert_eq!(through, straight, "{release:?}");
            }
        }
        door.wait_unused();
    }
}

#[test]
fn a_client_without_files_gets_the_servers_own_error() {
    for release in Release::ALL {
        let Some(stage) = stage(release) else {
            continue;
        };
        let door = stage.door();
        let login = Login {
            database: Some("load_local"),
            ..Login::default()
        };
        let mut straight = Client::login(stage.primary.address(), &login).expect("root");
        let mut through = door.login(&login).expect("root");
        let refused = said(&mut straight, LOAD, &[]);
        assert!(
            refused.contains("(42000)") || refused.contains("(HY000)"),
            "{refused}"
        );
        assert_eq!(said(&mut through, LOAD, &[]), refused);
        through.ping().expect("the session goes on");
        // Another client of the same account, with files, has another server connection.
        let mut able = client(door.address());
        able.files = [packets(&["1,a\n"])].into();
        assert_eq!(able.run(LOAD).affected_rows, 1);
        assert_eq!(said(&mut through, LOAD, &[]), refused);
    }
}

/// Starts a LOAD and reads the server's request for the file.
fn begin(client: &mut Client) {
    client
        .send_command(Command::Query, LOAD.as_bytes())
        .expect("sent");
    let asked = client.read_packet().expect("a request");
    assert_eq!(asked, b"\xFBx");
}

#[test]
fn packets_of_any_size_in_any_pieces() {
    let Some(stage) = stage(Release::Installed) else {
        return;
    };
    let door = stage.door();
    let mut client = client(door.address());
    begin(&mut client);
    let mut bytes = Vec::new();
    for packet in [
        &b"1,"[..],
        &[b'x'; 70_000],
        b"\n2,",
        &vec![b'y'; 17_000_000],
        b"\n",
        b"",
    ] {
        mysql_wire::packet::write(&mut bytes, &mut client.sequence, packet);
    }
    // A command behind the file, sent without waiting.
    let mut sequence = 0;
    mysql_wire::packet::write(
        &mut bytes,
        &mut sequence,
        b"\x03SELECT SUM(LENGTH(b)) FROM t",
    );
    for piece in bytes.chunks(999_983) {
        client.send_bytes(piece).expect("sent");
    }
    assert_eq!(client.read_done().expect("loaded").affected_rows, 2);
    client.sequence = 1;
    let replies = client.read_results(false).expect("a sum");
    assert!(format!("{replies:?}").contains(&format!("{:?}", "17070000".as_bytes())));
}

#[test]
fn a_long_file_lies_nowhere_in_memory() {
    let Some(stage) = stage(Release::Installed) else {
        return;
    };
    let door = stage.door();
    let mut client = client(door.address());
    begin(&mut client);
    let before = resident_bytes();
    let mut most = before;
    for a in 0..1000 {
        let mut row = format!("{a},").into_bytes();
        row.resize(100_000, b'z');
        row.push(b'\n');
        client.send_packet(&row).expect("sent");
        most = most.max(resident_bytes());
    }
    client.send_packet(b"").expect("sent");
    assert_eq!(client.read_done().expect("loaded").affected_rows, 1000);
    assert!(most - before < 40 << 20, "{} bytes more", most - before);
}

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").expect("a process of our own");
    let pages = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse::<usize>().ok());
    pages.expect("a number of pages") * 4096
}

#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    for release in Release::ALL {
        let Some(stage) = stage(release) else {
            continue;
        };
        let door = stage.door();
        let mut gone = client(door.address());
        begin(&mut gone);
        gone.send_packet(b"1,a\n2,b\n").expect("sent");
        let mut half = Vec::new();
        mysql_wire::packet::write(&mut half, &mut gone.sequence, b"3,cccccccc\n");
        gone.send_bytes(&half[..8]).expect("sent");
        drop(gone);
        door.wait_unused();
        let mut client = client(door.address());
        wait_until(SOON, "the server has noticed", || {
            client.value(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE info LIKE 'LOAD%'",
            ) == "0"
        });
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0");
        assert_eq!(door.counter("pool_in_use"), 0);
    }
}

#[test]
fn packets_out_of_order_end_the_session_only() {
    let Some(stage) = stage(Release::Installed) else {
        return;
    };
    let door = stage.door();
    let mut wrong = client(door.address());
    begin(&mut wrong);
    wrong
        .send_bytes(&[4, 0, 0, 9, b'1', b',', b'a', b'\n'])
        .expect("sent");
    let refused = wrong.read_done().expect_err("refused");
    assert_eq!(refused.number(), 1156, "{refused}");
    assert!(wrong.is_closed_within(SOON));
    drop(wrong);
    door.wait_unused();
    assert_eq!(client(door.address()).value("SELECT COUNT(*) FROM t"), "0");
}

/// The id of the server's connection that runs a LOAD.
fn loading(stage: &Stage) -> String {
    let mut client = stage.primary.client();
    let mut found = Vec::new();
    wait_until(SOON, "the LOAD runs", || {
        found =
            client.rows("SELECT id FROM information_schema.processlist WHERE info LIKE 'LOAD%'");
        !found.is_empty()
    });
    found[0][0].clone().expect("an id")
}

/// Sends the rest of a file and gives what is said to it.
fn finish(client: &mut Client) -> Failure {
    for part in 0..50 {
        let row = format!("{},{}\n", 100 + part, "r".repeat(50_000));
        client
            .send_packet(row.as_bytes())
            .expect("the file is taken to its end");
    }
    client.send_packet(b"").expect("sent");
    client.read_done().expect_err("the file was lost")
}

#[test]
fn a_server_connection_lost_in_the_middle_is_one_error() {
    for release in Release::ALL {
        let Some(stage) = stage(release) else {
            continue;
        };
        let door = stage.door();
        for in_transaction in [false, true] {
            let mut client = client(door.address());
            if in_transaction {
                client.run("BEGIN");
            }
            begin(&mut client);
            client.send_packet(b"1,a\n2,b\n").expect("sent");
            let id = loading(&stage);
            stage.primary.client().run(&format!("KILL {id}"));
            let failure = finish(&mut client);
            assert!(
                matches!(failure.number(), 1927 | 1317 | 1053 | 1156 | 1158),
                "{release:?}: {failure}"
            );
            // The session goes on, on another connection.
            wait_until(SOON, "the session goes on", || {
                client.query("ROLLBACK").is_ok()
            });
            assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0");
        }
        door.wait_unused();
    }
}

#[test]
fn a_killed_query_leaves_a_sound_session() {
    for release in Release::ALL {
        let Some(stage) = stage(release) else {
            continue;
        };
        let door: Door = stage.door();
        let mut client = client(door.address());
        begin(&mut client);
        client.send_packet(b"1,a\n2,b\n").expect("sent");
        let id = loading(&stage);
        stage.primary.client().run(&format!("KILL QUERY {id}"));
        let failure = finish(&mut client);
        assert_ne!(failure.number(), 0, "{release:?}: {failure}");
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0");
    }
}
