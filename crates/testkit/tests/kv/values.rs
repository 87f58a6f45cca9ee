//! Values of every column type through the key-value door: what is set is what the table has and what a get
//! gives, on both engines; what a column cannot hold is told and leaves the row as it was.

use testkit::client::Client;
use testkit::raw::{Raw, show};
use testkit::{Farm, Release};

/// A column's type, and values that it gives back as they were set.
type Sample = (&'static str, Vec<Vec<u8>>);

fn texts(values: &[&str]) -> Vec<Vec<u8>> {
    values.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn numbers() -> Vec<Sample> {
    [
        ("TINYINT", &["-128", "127", "0"][..]),
        ("TINYINT UNSIGNED", &["255"]),
        ("BOOL", &["1"]),
        ("SMALLINT", &["-32768"]),
        ("MEDIUMINT", &["-8388608"]),
        ("INT", &["2147483647"]),
        ("INT(5) ZEROFILL", &["00042"]),
        ("BIGINT", &["-9223372036854775808"]),
        ("BIGINT UNSIGNED", &["18446744073709551615"]),
        ("DECIMAL(30,10)", &["-12345678901234567890.0123456789"]),
        ("DECIMAL(65,0)", &["99999999999999999999999999999999999"]),
        ("FLOAT", &["1.5", "-1e20"]),
        ("DOUBLE", &["1.7976931348623157e308", "0.1"]),
        ("YEAR", &["2155", "1901"]),
    ]
    .into_iter()
    .map(|(kind, values)| (kind, texts(values)))
    .collect()
}

fn moments_and_words() -> Vec<Sample> {
    [
        ("DATE", &["2024-02-29", "9999-12-31"][..]),
        ("TIME(6)", &["-838:59:58.999999"]),
        ("DATETIME(6)", &["1000-01-01 00:00:00.000001"]),
        ("TIMESTAMP(3) NULL", &["2024-02-29 12:00:00.123"]),
        ("CHAR(10)", &["é 漢 😀", ""]),
        ("CHAR(10) CHARACTER SET latin1", &["é€"]),
        ("VARCHAR(20) CHARACTER SET utf16", &["漢😀"]),
        ("VARCHAR(20) CHARACTER SET ucs2", &["漢é"]),
        ("VARCHAR(20) CHARACTER SET sjis", &["日本表"]),
        ("VARCHAR(20) CHARACTER SET gbk", &["漢字縗"]),
        ("VARCHAR(20) CHARACTER SET utf8mb3", &["漢"]),
        (
            "VARCHAR(30)",
            &["it's \"\\ \u{1}", "a\r\nEND\r\n", "\0zero\0"],
        ),
        ("TEXT", &["😀 and\0more"]),
        ("ENUM('a','b,c','é')", &["b,c", "é"]),
        ("SET('x','y','z')", &["x,z", ""]),
        ("JSON", &["{\"a\": [1, 2.5, \"é\"]}", "null"]),
    ]
    .into_iter()
    .map(|(kind, values)| (kind, texts(values)))
    .collect()
}

fn bytes() -> Vec<Sample> {
    let large: Vec<u8> = (0..1_u32 << 20).map(|at| ((at * 7) >> 3) as u8).collect();
    let point = [
        &[0; 4][..],
        &[1, 1, 0, 0, 0],
        &[0; 6],
        &[0xF0, 0x3F],
        &[0; 8],
    ]
    .concat();
    vec![
        ("BIT(8)", vec![vec![0xFF], vec![0]]),
        ("BIT(64)", vec![b"\xFE\0\r\n\0\0\0\x80".to_vec()]),
        ("BINARY(4)", vec![b"\0\x01\xFF\0".to_vec()]),
        ("VARBINARY(9)", vec![b"\0\r\n\xFF\\' ".to_vec()]),
        ("TINYBLOB", vec![b"\xC3\0\x28".to_vec()]),
        ("MEDIUMBLOB", vec![large]),
        ("LONGTEXT", vec!["é".repeat(1 << 19).into_bytes()]),
        ("POINT", vec![point]),
    ]
}

fn of_mariadb() -> Vec<Sample> {
    [
        ("UUID", "123e4567-e89b-12d3-a456-426655440000"),
        ("INET6", "2001:db8::ff00:42:8329"),
        ("INET4", "10.0.0.1"),
    ]
    .map(|(kind, value)| (kind, texts(&[value])))
    .to_vec()
}

/// One table with a column of each type, and a container for each of them.
fn farm_of(release: Release, samples: &[Sample]) -> Option<Farm> {
    let farm = Farm::start_on(release, &["--replicas", "0"])?;
    let mut sql = farm.client();
    sql.run("CREATE DATABASE d");
    for (at, (kind, _)) in samples.iter().enumerate() {
        sql.run(&format!(
            "CREATE TABLE d.t{at} (k VARCHAR(20) PRIMARY KEY, v {kind}, other INT DEFAULT 7) \
             CHARACTER SET utf8mb4"
        ));
        farm.make_container(&format!(
            "c{at} --table=d.t{at} --key=k --values=v --cache_bytes=4000000"
        ));
    }
    Some(farm)
}

fn set(container: usize, value: &[u8]) -> Vec<u8> {
    let head = format!("set @@c{container}.k 0 0 {}\r\n", value.len());
    [head.as_bytes(), value, b"\r\n"].concat()
}

fn item(container: usize, value: &[u8]) -> Vec<u8> {
    let head = format!("VALUE @@c{container}.k 0 {}\r\n", value.len());
    [head.as_bytes(), value, b"\r\nEND\r\n"].concat()
}

fn every_type(release: Release, samples: &[Sample]) {
    let Some(farm) = farm_of(release, samples) else {
        return;
    };
    let mut sql = farm.client();
    let mut raw = Raw::connect(farm.kv);
    for (at, (kind, values)) in samples.iter().enumerate() {
        raw.asks(format!("get @@c{at}.k\r\n"), "END\r\n");
        for value in values {
            // By an INSERT, and over a row that is there, which is read by others as well.
            for _ in 0..2 {
                raw.asks(set(at, value), "STORED\r\n");
                raw.asks(format!("get @@c{at}.k\r\n"), item(at, value));
            }
            is_in_the_table(&mut sql, at, kind, value);
            raw.asks(format!("get @@c{at}.k @@c{at}.none\r\n"), item(at, value));
            raw.asks(format!("delete @@c{at}.k\r\n"), "DELETED\r\n");
        }
        sql.run(&format!("INSERT INTO d.t{at} (k, v) VALUES ('k', NULL)"));
        raw.asks(format!("get @@c{at}.k\r\n"), item(at, b""));
    }
}

/// SQL has the same value, by way of another client's character set.
fn is_in_the_table(sql: &mut Client, at: usize, kind: &str, value: &[u8]) {
    if kind == "POINT" || kind.starts_with("BIT") || value.len() > 1000 {
        let length = sql.value(&format!("SELECT OCTET_LENGTH(v) FROM d.t{at}"));
        return assert_eq!(length, value.len().to_string(), "{kind}");
    }
    let is_bytes = kind.contains("BINARY") || kind.contains("BLOB");
    let cast = match is_bytes {
        true => "v",
        false => "CAST(v AS CHAR CHARACTER SET utf8mb4)",
    };
    let text = sql.value(&format!("SELECT HEX({cast}) FROM d.t{at}"));
    let hex: String = value.iter().map(|byte| format!("{byte:02X}")).collect();
    // HEX of a number is another thing.
    if !numbers().iter().any(|(number, _)| *number == kind) {
        assert_eq!(text, hex, "{kind}");
    }
}

/// Values that their columns cannot hold.
fn refusals(release: Release) {
    let samples: Vec<Sample> = [
        ("TINYINT", "1"),
        ("INT UNSIGNED", "1"),
        ("DECIMAL(5,2)", "1.00"),
        ("DATE", "2024-01-01"),
        ("DATETIME", "2024-01-01 00:00:00"),
        ("ENUM('a','b')", "a"),
        ("SET('a','b')", "a"),
        ("VARCHAR(3)", "abc"),
        ("VARBINARY(3)", "abc"),
        ("VARCHAR(9) CHARACTER SET latin1", "e"),
        ("TEXT", "x"),
        ("JSON", "[1]"),
        ("BIT(3)", "\u{7}"),
    ]
    .map(|(kind, value)| (kind, texts(&[value])))
    .to_vec();
    let wrong: [&[&[u8]]; 13] = [
        &[b"x", b"128", b"", b"1.5", b"0x1"],
        &[b"-1", b"4294967296"],
        &[b"abc", b"1234.00"],
        &[b"2024-02-30", b"soon"],
        &[b"2024-01-01 25:00:00"],
        &[b"c", b"\xFF"],
        &[b"a,c"],
        &[b"abcd", b"\xFF"],
        &[b"abcd"],
        &["漢".as_bytes()],
        &[b"\xC3\x28", b"\xED\xA0\x80"],
        &[b"{", b"\xFF"],
        &[b"\x08"],
    ];
    let Some(farm) = farm_of(release, &samples) else {
        return;
    };
    let mut raw = Raw::connect(farm.kv);
    for (at, (kind, values)) in samples.iter().enumerate() {
        raw.asks(set(at, &values[0]), "STORED\r\n");
        for value in wrong[at] {
            raw.say(set(at, value));
            let line = raw.line();
            // MariaDB's JSON is a text with a CHECK.
            let told = line.starts_with("CLIENT_ERROR ")
                || (*kind == "JSON" && (line == "NOT_STORED" || line.starts_with("CLIENT_ERROR")));
            assert!(told, "{kind} {}: {line}", show(value));
            // Nothing is half stored, and the connection goes on.
            raw.asks(format!("get @@c{at}.k\r\n"), item(at, &values[0]));
        }
    }
}

#[test]
fn every_type_of_mariadb() {
    let all = [numbers(), moments_and_words(), bytes(), of_mariadb()].concat();
    every_type(Release::Installed, &all);
    refusals(Release::Installed);
}

#[test]
fn every_type_of_mysql() {
    let all = [numbers(), moments_and_words(), bytes()].concat();
    every_type(Release::MySql80, &all);
    refusals(Release::MySql80);
}
