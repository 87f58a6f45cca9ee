//! The SQL door: the text protocol, byte for byte as a straight connection has it.

use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::{HEADER_BYTES, Header, PAYLOAD_BYTES_MAX};
use reactor::Io;
use testkit::client::{Login, Reply, Value};
use testkit::{Client, Door, Release, Stage};

/// Sequence number and payload of every packet of the reply to a command. A ping behind it, whose
/// reply begins a new sequence, shows where the reply ends; so it must not have 255 packets.
fn packets(client: &mut Client, command: Command, body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    client.send_command(command, body).expect("sent");
    client.send_command(Command::Ping, b"").expect("sent");
    let (mut bytes, mut found) = (Vec::new(), Vec::<(u8, Vec<u8>)>::new());
    loop {
        while let Some(header) = Header::parse(&bytes) {
            let end = HEADER_BYTES + header.payload_bytes;
            if bytes.len() < end {
                break;
            }
            if header.sequence == 1 && found.last().is_some_and(|last| last.0 != 0) {
                return found;
            }
            found.push((header.sequence, bytes[HEADER_BYTES..end].to_vec()));
            bytes.drain(..end);
        }
        let more = client.read_bytes(65_536).expect("the reply goes on");
        assert!(!more.is_empty(), "closed after {found:?}");
        bytes.extend(more);
    }
}

/// What may differ: the EOF behind column definitions has flags and a count of warnings that no client uses; the
/// servers put in what they have at that moment.
fn comparable(mut all: Vec<(u8, Vec<u8>)>) -> Vec<(u8, Vec<u8>)> {
    for at in 1..all.len() {
        let behind_column = all[at - 1].1.starts_with(b"\x03def");
        if behind_column && all[at].1.len() == 5 && all[at].1[0] == 0xFE {
            all[at].1[1..].fill(0);
        }
    }
    // Several session changes in one OK come in the order of a hash table: compared by content.
    for (_, payload) in &mut all {
        let changes = payload.windows(20).any(|w| w == b"character_set_client");
        if payload[0] == 0 && changes {
            payload.sort_unstable();
        }
    }
    all
}

const TEXTS: &[&str] = &[
    "SELECT 1, NULL, '', 'text', 1.5e0, NOW() > 0",
    "CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, s VARCHAR(20), d DATETIME, b BLOB)",
    "INSERT INTO t (s, d) VALUES ('a', '2026-01-02 03:04:05'), (NULL, NULL)",
    "UPDATE t SET s = 'b' WHERE id = 1",
    "UPDATE t SET s = 'b' WHERE id = 1",
    "SELECT * FROM t",
    "SELECT * FROM t WHERE id > 10",
    "SELECT * FROM no_such_table",
    "SELEC",
    "",
    "SET sql_mode = ''",
    "INSERT INTO t (s) VALUES ('much longer than twenty characters')",
    "SHOW WARNINGS",
    "SET NAMES latin1",
    "SET autocommit = 0",
    "SELECT COUNT(*) FROM t",
    "COMMIT",
    "SET autocommit = 1",
    "SET time_zone = '+02:00'",
    "SET max_join_size = 5000",
    "SET @@sql_select_limit = 100",
    "USE text_compare",
    "DO 1",
    "SELECT 1; SELECT 2 FROM t WHERE 0; DO 1; UPDATE t SET s = 'c'; SELECT 3",
    "SELECT 1; SELECT no_such_column; SELECT 2",
    "BEGIN",
    "SELECT s FROM t FOR UPDATE",
    "ROLLBACK",
    "ALTER TABLE t ADD COLUMN e INT",
    "LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE t",
    "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
    "CALL p()",
    "DROP PROCEDURE p",
    "EXPLAIN SELECT * FROM t",
    "DROP TABLE t",
];

const STATEMENTS: &[(&str, usize)] = &[
    ("SELECT ?, ?", 2),
    ("SELECT 1", 0),
    ("CREATE TABLE u (a INT)", 0),
    ("INSERT INTO u VALUES (?)", 1),
    ("SELECT a, a + 1 FROM u WHERE a >= ?", 1),
    ("SELECT no_such_column FROM u", 0),
    ("DROP TABLE u", 0),
];

const OTHERS: [(Command, &[u8], &str); 10] = [
    (Command::InitDb, b"text_compare", "COM_INIT_DB"),
    (Command::Ping, b"", "COM_PING"),
    (Command::InitDb, b"no_such_database", "COM_INIT_DB"),
    (Command::SetOption, &[1, 0], "COM_SET_OPTION"),
    (
        Command::Query,
        b"SELECT 1; SELECT 2",
        "without several statements",
    ),
    (Command::SetOption, &[0, 0], "COM_SET_OPTION"),
    (Command::SetOption, &[7, 0], "COM_SET_OPTION"),
    (
        Command::StmtExecute,
        &[255, 255, 255, 0, 0, 1, 0, 0, 0],
        "no statement",
    ),
    (Command::StmtReset, &[255, 255, 255, 0], "no statement"),
    (Command::FieldList, b"no_such_table\0", "COM_FIELD_LIST"),
];

#[test]
fn replies_are_those_of_a_straight_connection() {
    let Some(stage) = Stage::shared() else { return };
    compare_replies(&stage);
}

#[test]
fn replies_are_those_of_a_straight_connection_to_mysql() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    compare_replies(&stage);
}

fn compare_replies(stage: &Stage) {
    for io in [Io::Epoll, Io::Auto] {
        let door = Door::start(&[&stage.primary], |tuning| tuning.io = io);
        let usual = Login::default().capabilities - Capabilities::SESSION_TRACK;
        let (eof, track) = (Capabilities::DEPRECATE_EOF, Capabilities::SESSION_TRACK);
        for extra in [Capabilities::empty(), eof, track, eof | track] {
            stage.database("text_compare");
            let login = Login {
                database: Some("text_compare"),
                capabilities: usual | extra,
                ..Login::default()
            };
            let mut through = door.login(&login).expect("logged in");
            let mut direct = Client::login(stage.replica.address(), &login).expect("logged in");
            compare_all(&mut through, &mut direct, &format!("{extra:?}"));
        }
    }
}

/// Every command on both connections; their statements have ids of their own.
fn compare_all(through: &mut Client, direct: &mut Client, with: &str) {
    let mut compare = |command, ids: [u32; 2], rest: &[u8], what: &str| {
        let mut sides = [&mut *through, &mut *direct]
            .into_iter()
            .zip(ids)
            .map(|(client, id)| {
                let prefix = if id > 0 {
                    id.to_le_bytes().to_vec()
                } else {
                    Vec::new()
                };
                comparable(packets(client, command, &[&prefix, rest].concat()))
            });
        let (mut here, mut there) = (sides.next().expect("two"), sides.next().expect("two"));
        let mut ids = [0, 0];
        if command == Command::StmtPrepare {
            for (side, id) in [&mut here, &mut there].into_iter().zip(&mut ids) {
                if let [0, a, b, c, d, ..] = &mut side[0].1[..] {
                    *id = u32::from_le_bytes([*a, *b, *c, *d]);
                    (*a, *b, *c, *d) = (0, 0, 0, 0);
                }
            }
        }
        assert_eq!(here, there, "{with}: {what}");
        ids
    };
    for text in TEXTS {
        compare(Command::Query, [0, 0], text.as_bytes(), text);
    }
    for (text, params) in STATEMENTS {
        let ids = compare(Command::StmtPrepare, [0, 0], text.as_bytes(), text);
        if ids == [0, 0] {
            continue;
        }
        let mut execute = vec![0, 1, 0, 0, 0];
        if *params > 0 {
            execute.extend_from_slice(&[0, 1]);
            execute.extend([8u8, 0].repeat(*params));
            execute.extend([7u8, 0, 0, 0, 0, 0, 0, 0].repeat(*params));
        }
        compare(Command::StmtExecute, ids, &execute, text);
        compare(Command::StmtReset, ids, b"", text);
        if text.contains("FROM u WHERE") {
            execute[0] = 1;
            compare(Command::StmtExecute, ids, &execute, "with a cursor");
            compare(Command::StmtFetch, ids, &[1, 0, 0, 0], "COM_STMT_FETCH");
            compare(Command::StmtFetch, ids, &[9, 0, 0, 0], "COM_STMT_FETCH");
        }
    }
    for (command, body, what) in OTHERS {
        compare(command, [0, 0], body, what);
    }
}

#[test]
fn without_the_flag_a_text_has_one_statement() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let login = Login {
        capabilities: Login::default().capabilities - Capabilities::MULTI_STATEMENTS,
        ..Login::default()
    };
    let mut one = door.login(&login).expect("logged in");
    let mut many = door.client();
    for _ in 0..3 {
        assert_eq!(many.query("SELECT 1; SELECT 2").expect("two").len(), 2);
        assert_eq!(one.error("SELECT 1; SELECT 2"), 1064);
        assert_eq!(one.value("SELECT 3"), "3");
    }
}

#[test]
fn rows_nulls_and_results_without_rows() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("text_rows");
    stage.everywhere("CREATE TABLE text_rows.t (id INT PRIMARY KEY, s VARCHAR(9))");
    let door = stage.door();
    let mut client = door.client_in("text_rows");
    let done = client.run("INSERT INTO t VALUES (1, NULL), (2, ''), (3, 'x')");
    assert_eq!(
        (done.affected_rows, &*done.info),
        (3, "Records: 3  Duplicates: 0  Warnings: 0")
    );
    let rows = client.rows("SELECT s FROM t ORDER BY id");
    assert_eq!(
        rows,
        [[None], [Some(String::new())], [Some("x".to_owned())]]
    );
    assert!(client.rows("SELECT s FROM t WHERE id > 99").is_empty());
    let done = client.run("UPDATE t SET s = 'x'");
    assert_eq!(
        (done.affected_rows, &*done.info),
        (2, "Rows matched: 3  Changed: 2  Warnings: 0")
    );
    let failure = client
        .query("INSERT INTO t VALUES (1, 'y')")
        .expect_err("a duplicate");
    assert!(
        failure
            .to_string()
            .starts_with("1062 (23000): Duplicate entry"),
        "{failure}"
    );
    // As many packets as make the sequence numbers wrap, with a packet put in before them.
    let many = client.rows("SELECT seq FROM seq_1_to_1000");
    assert_eq!(many.len(), 1000);
    let found = Login {
        capabilities: Login::default().capabilities | Capabilities::FOUND_ROWS,
        ..Login::default()
    };
    let mut found = door.login(&found).expect("logged in");
    assert_eq!(found.run("UPDATE text_rows.t SET s = 'x'").affected_rows, 3);
    assert_eq!(client.run("UPDATE t SET s = 'x'").affected_rows, 0);
}

/// `SELECT LENGTH('aaa…')` whose command, the command byte included, has this many bytes.
fn long_query(command_bytes: usize) -> (String, usize) {
    let around = "SELECT LENGTH('')".len() + 1;
    let length = command_bytes - around;
    (format!("SELECT LENGTH('{}')", "a".repeat(length)), length)
}

#[test]
fn texts_over_16_mb() {
    let Some(stage) = Stage::shared() else { return };
    for io in [Io::Epoll, Io::Auto] {
        let door = stage.door_with(|tuning| tuning.io = io);
        let mut client = door.client();
        for bytes in [
            PAYLOAD_BYTES_MAX - 1,
            PAYLOAD_BYTES_MAX,
            PAYLOAD_BYTES_MAX + 1,
            20 << 20,
        ] {
            let (sql, length) = long_query(bytes);
            assert_eq!(client.value(&sql), length.to_string());
        }
        let statement = client.prepare("SELECT LENGTH(?), ?").expect("prepared");
        let long = Value::Bytes(vec![b'x'; 20 << 20]);
        let replies = client
            .execute(&statement, &[long, 5.into()])
            .expect("executed");
        let [Reply::Rows(rows)] = &replies[..] else {
            panic!("one result")
        };
        assert_eq!(
            rows.text(),
            [[Some((20 << 20).to_string()), Some("5".to_owned())]]
        );
        assert!(client.ping().is_ok());
    }
}

#[test]
fn rows_over_16_mb() {
    let Some(stage) = Stage::shared() else { return };
    for io in [Io::Epoll, Io::Auto] {
        let door = stage.door_with(|tuning| tuning.io = io);
        for extra in [Capabilities::empty(), Capabilities::DEPRECATE_EOF] {
            let login = Login {
                capabilities: Login::default().capabilities | extra,
                ..Login::default()
            };
            let mut client = door.login(&login).expect("logged in");
            // The second has a payload that fills its packet, so an empty one follows.
            for length in [
                40 << 20,
                PAYLOAD_BYTES_MAX - 4,
                PAYLOAD_BYTES_MAX - 5,
                16_384,
            ] {
                let sql = format!(
                    "SELECT REPEAT('x', {length}) AS a UNION ALL SELECT 'y' UNION ALL SELECT NULL"
                );
                let replies = client.query(sql).expect("rows");
                let [Reply::Rows(rows)] = &replies[..] else {
                    panic!("one result")
                };
                let first = &rows.rows[0][0];
                assert!(
                    matches!(first, Value::Bytes(b) if b.len() == length && b.iter().all(|&c| c == b'x'))
                );
                assert_eq!(rows.rows[1..], [[Value::from("y")], [Value::Null]]);
            }
            assert!(client.ping().is_ok());
        }
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let mut client = door.client();
    for n in 0..50 {
        client
            .send_command(Command::Query, format!("SELECT {n}").as_bytes())
            .expect("sent");
    }
    for n in 0..50 {
        client.sequence = 1;
        let reply = client.read_result(false).expect("a result");
        assert!(matches!(&reply, Reply::Rows(rows) if rows.text() == [[Some(n.to_string())]]));
    }
}
