//! Gathers of many rows: they go to the scratch server as a file, each byte as it is; and by INSERTs where
//! that server reads no file, or does not store what the file says.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use testkit::client::{Reply, Value};
use testkit::{Client, Farm, Release, wait_until};

/// Several times what one INSERT takes.
const ROWS: usize = 4000;

/// Types that both engines have. `id` is the shard key.
const COLUMNS: &str = "id INT NOT NULL PRIMARY KEY, part INT NOT NULL, twice INT AS (part * 2) STORED, \
    tiny TINYINT UNSIGNED, big BIGINT UNSIGNED, exact DECIMAL(30,10), real_one DOUBLE, float_one FLOAT, \
    year_one YEAR, bits BIT(17), day DATE, moment DATETIME(6), span TIME(3), stamp TIMESTAMP(3) NULL, \
    west VARCHAR(40) CHARACTER SET latin1, wide VARCHAR(20) CHARACTER SET utf16, \
    jis VARCHAR(20) CHARACTER SET sjis, many VARCHAR(700) CHARACTER SET utf8mb4, \
    fixed CHAR(12) CHARACTER SET utf8mb4, kind ENUM('ä', 'N', '1') CHARACTER SET latin1, \
    kinds SET('x', 'y', 'ö') CHARACTER SET utf8mb4, raw VARBINARY(300), padded BINARY(8), \
    story TEXT CHARACTER SET utf8mb4, heap MEDIUMBLOB, doc JSON, spot POINT";

/// What a value may be that ends a line, a field or NULL in a file.
const HARD: [&str; 8] = [
    "\\N",
    "N",
    "",
    "a\tb\nc\\",
    "\\\\N\n",
    "NULL",
    "'\"\r\0\u{1a}",
    "ends in \\",
];

fn farm(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(
        release,
        &[
            "--groups",
            "2",
            "--replicas",
            "0",
            "--set",
            "broadcast_bytes_max=0",
        ],
    )?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client
        .run("CREATE TABLE parts (part INT PRIMARY KEY) /*heddle shard_map=shop shard_key=part*/");
    client.run("INSERT INTO parts VALUES (0), (1), (2), (3), (4), (5), (6), (7), (8), (9)");
    Some(farm)
}

/// A text as a literal that every `sql_mode` without NO_BACKSLASH_ESCAPES reads.
fn quoted(text: &str) -> String {
    let mut out = String::from("'");
    for letter in text.chars() {
        match letter {
            '\'' | '\\' => out.extend(['\\', letter]),
            '\0' => out.push_str("\\0"),
            '\u{1a}' => out.push_str("\\Z"),
            _ => out.push(letter),
        }
    }
    out + "'"
}

/// The values of a row, of which each seventh has NULLs where it may.
fn row(id: usize) -> String {
    let part = id % 10;
    if id % 7 == 6 {
        return format!("({id}, {part}{})", ", NULL".repeat(24));
    }
    let hard = quoted(HARD[id % HARD.len()]);
    let mut bytes = String::new();
    for byte in 0..=255u8 {
        let _ = write!(bytes, "{:02x}", byte.wrapping_add(id as u8));
    }
    let day = [
        "'2024-02-29'",
        "'0000-00-00'",
        "'2023-02-30'",
        "'2024-00-00'",
    ][id % 4];
    let stamp = match id % 3 {
        0 => "0",
        1 => "'2024-03-31 02:30:00.125'",
        _ => "'2037-12-31 23:59:59.999'",
    };
    let values = [
        (id % 256).to_string(),
        format!("{}", u64::MAX - id as u64),
        format!("-{id}.0000000001"),
        ["1e300", "-0.1", "123456789012345680", "5e-324"][id % 4].to_owned(),
        ["0.1", "16777217", "-3.5e-9", "1e20"][id % 4].to_owned(),
        ["0", "1901", "2155", "2000"][id % 4].to_owned(),
        (id % 131_072).to_string(),
        day.to_owned(),
        "'2024-02-29 23:59:59.999999'".to_owned(),
        ["'-838:59:59'", "'00:00:00.001'", "'838:59:59'"][id % 3].to_owned(),
        stamp.to_owned(),
        format!("CONCAT('Grüße ', {hard})"),
        "'\u{1F600}\u{4e00}\\n'".to_owned(),
        "'表ソ能'".to_owned(),
        format!("CONCAT({hard}, REPEAT('é\\\\', 300))"),
        format!("'{id}\\t'"),
        ["'ä'", "'N'", "'1'"][id % 3].to_owned(),
        ["''", "'x,ö'", "'y'"][id % 3].to_owned(),
        format!("x'{bytes}'"),
        format!("x'{}'", &bytes[..10]),
        hard.clone(),
        format!("CONCAT(x'{bytes}', {hard})"),
        format!("JSON_OBJECT('id', {id}, 'text', {hard})"),
        format!("ST_GeomFromText('POINT({id} -1.5)')"),
    ];
    format!("({id}, {part}, {})", values.join(", "))
}

fn names() -> Vec<&'static str> {
    let names = COLUMNS
        .split(", ")
        .filter_map(|column| column.split(' ').next());
    let starts = |name: &&str| name.starts_with(|first: char| first.is_ascii_lowercase());
    names.filter(starts).collect()
}

fn fill(client: &mut Client) {
    client.run(&format!(
        "CREATE TABLE things ({COLUMNS}) /*heddle shard_map=shop shard_key=id*/"
    ));
    // Else MySQL itself makes zero dates of others as soon as it sorts them.
    client.run("SET sql_mode = 'ALLOW_INVALID_DATES'");
    let stored: Vec<&str> = names().into_iter().filter(|it| *it != "twice").collect();
    for ids in (0..ROWS).collect::<Vec<_>>().chunks(100) {
        let rows: Vec<String> = ids.iter().map(|id| row(*id)).collect();
        let columns = stored.join(", ");
        client.run(&format!(
            "INSERT INTO things ({columns}) VALUES {}",
            rows.join(", ")
        ));
    }
}

fn values(client: &mut Client, query: &str) -> Vec<Vec<Value>> {
    let mut replies = client
        .query(query)
        .unwrap_or_else(|failure| panic!("{query}: {failure}"));
    match replies.pop() {
        Some(Reply::Rows(rows)) => rows.rows,
        other => panic!("{query}: {other:?}"),
    }
}

/// What is gathered is what the groups send without a gather.
fn rows_are_whole(client: &mut Client) {
    let names = names();
    let exact = [
        "west", "wide", "jis", "many", "kind", "kinds", "bits", "spot",
    ];
    let hex: Vec<String> = exact.iter().map(|it| format!("HEX(t.{it})")).collect();
    let list: Vec<String> = names.iter().map(|it| format!("t.{it}")).collect();
    let list = format!("{}, {}", list.join(", "), hex.join(", "));
    let pushed = values(
        client,
        &format!("SELECT {list} FROM things t ORDER BY t.id"),
    );
    let gathered =
        format!("SELECT {list} FROM things t JOIN parts p ON p.part = t.part ORDER BY t.id");
    let gathered = values(client, &gathered);
    assert_eq!(pushed.len(), ROWS);
    for (one, other) in pushed.iter().zip(&gathered) {
        for (at, (one, other)) in one.iter().zip(other).enumerate() {
            assert_eq!(one, other, "{}", names.get(at).unwrap_or(&"hex"));
        }
    }
    assert_eq!(pushed.len(), gathered.len());
}

/// Types of MariaDB that take their text only.
fn names_of_machines_are_whole(client: &mut Client) {
    client.run(
        "CREATE TABLE machines (id INT PRIMARY KEY, part INT, name UUID, ip INET6, old INET4, \
         note VARCHAR(600)) /*heddle shard_map=shop shard_key=id*/",
    );
    for first in (0..ROWS).step_by(200) {
        let row = |id: usize| {
            let (name, part) = (format!("123e4567-e89b-12d3-a456-{id:012x}"), id % 10);
            format!(
                "({id}, {part}, '{name}', '2001:db8::{id:x}', '10.0.{}.1', REPEAT('n', 500))",
                id % 256
            )
        };
        let rows: Vec<String> = (first..first + 200).map(row).collect();
        client.run(&format!("INSERT INTO machines VALUES {}", rows.join(", ")));
    }
    client.run("INSERT INTO machines VALUES (1000000, 1, NULL, NULL, NULL, NULL)");
    let list = "t.id, t.name, t.ip, t.old, t.note";
    let pushed = values(
        client,
        &format!("SELECT {list} FROM machines t ORDER BY t.id"),
    );
    let joined =
        format!("SELECT {list} FROM machines t JOIN parts p ON p.part = t.part ORDER BY t.id");
    assert!(pushed == values(client, &joined));
    // A field that was in a variable is nobody's afterwards.
    let left = "SELECT DISTINCT @heddle_field2 FROM machines t JOIN parts p ON p.part = t.part";
    assert_eq!(values(client, left), vec![vec![Value::Null]]);
}

/// Rows that are on two groups against their table's definition come twice, also where a file would have
/// one of them left out.
fn rows_that_are_there_twice_come_twice(farm: &Farm, client: &mut Client) {
    let id = ROWS * 2;
    for member in farm.members() {
        let insert = format!("INSERT INTO shop.things (id, part) VALUES ({id}, 3)");
        member.client().run(&insert);
    }
    // By its key a row is looked for only where it belongs.
    let query = "SELECT COUNT(*), COUNT(t.many) FROM things t JOIN parts p ON p.part = t.part \
                 JOIN things u ON u.id + 0 = t.id AND u.part = p.part";
    let expected = (ROWS + 4).to_string().into_bytes();
    assert_eq!(values(client, query)[0][0], Value::Bytes(expected));
    for member in farm.members() {
        member
            .client()
            .run(&format!("DELETE FROM shop.things WHERE id = {id}"));
    }
}

fn scratch(farm: &Farm) -> Client {
    let text = std::fs::read_to_string(farm.dir().join("farm.json")).expect("it is there");
    let told: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let port = told["scratch"]["port"].as_u64().expect("it runs");
    let address = SocketAddr::from(([127, 0, 0, 1], port as u16));
    Client::connect(address, "root", "").expect("root has no password")
}

/// Files that the scratch server has been asked to read.
fn files(scratch: &mut Client) -> u64 {
    let row = scratch.rows("SHOW GLOBAL STATUS LIKE 'Com_load'").remove(0);
    row[1]
        .as_deref()
        .and_then(|it| it.parse().ok())
        .expect("a number")
}

fn many_rows_come_whole(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    let mut client = farm.client();
    client.run("USE shop");
    let mut counted = |name: &str| {
        let rows = client.rows("HEDDLE STATUS");
        let row = rows.into_iter().find(|row| row[0].as_deref() == Some(name));
        row.and_then(|row| row[1].clone()).expect("it is counted")
    };
    let small = "SELECT COUNT(*) FROM parts p JOIN parts q ON q.part + 1 = p.part";
    let mut other = farm.client();
    other.run("USE shop");
    wait_until(Duration::from_secs(60), "the scratch server", || {
        let before = counted("gathers_on_stand_in");
        assert_eq!(other.value(small), "9");
        counted("gathers_on_stand_in") == before
    });
    fill(&mut client);
    let mut scratch = scratch(&farm);
    let before = files(&mut scratch);
    assert_eq!(client.value(small), "9");
    assert_eq!(files(&mut scratch), before, "a few rows are no file");
    rows_are_whole(&mut client);
    let read = files(&mut scratch) - before;
    // A second one begins where keys are to be made at the end.
    assert!((1..=2).contains(&read), "{read} files");
    rows_that_are_there_twice_come_twice(&farm, &mut client);
    if release == Release::Installed {
        names_of_machines_are_whole(&mut client);
    }
    // It reads no file any more, and is not asked each time.
    scratch.run("SET GLOBAL local_infile = OFF");
    rows_are_whole(&mut client);
    let asked = files(&mut scratch);
    rows_are_whole(&mut client);
    assert_eq!(files(&mut scratch), asked);
}

testkit::on_both_engines!(many_rows_come_whole);
