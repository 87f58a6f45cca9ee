//! Streams that have caught up share one reading of the binlog; one that is slow reads by itself and joins them again.
//! Who accepts zstd gets it.

use std::io::{BufRead, BufReader, Read};

use serde_json::Value;
use testkit::{Client, Farm, Release, wait_until};

use crate::reading::{SOON, Stream, admin, ask_with, metric};

/// As many as `change_streams_max` allows.
const STREAMS: i64 = 8;

/// How many connections read the server's binlog.
fn readers(client: &mut Client) -> usize {
    let rows = client.rows("SHOW PROCESSLIST");
    let reads = |cell: &Option<String>| cell.as_ref().is_some_and(|it| it.contains("Binlog Dump"));
    rows.iter().filter(|row| row.iter().any(reads)).count()
}

fn numbers(events: &[Value]) -> Vec<i64> {
    let rows = events.iter().filter(|it| it["event"] == "row");
    rows.map(|it| it["after"]["a"].as_i64().expect("a number"))
        .collect()
}

fn start(release: Release) -> Option<(Farm, Client)> {
    let flags = ["--replicas", "0", "--set", "http_write_timeout_s=600"];
    let farm = Farm::start_on(release, &flags)?;
    let mut client = farm.member("g1-1").client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY, b LONGBLOB)");
    Some((farm, client))
}

fn streams_share_one_reading(release: Release) {
    let Some((farm, mut client)) = start(release) else {
        return;
    };
    let before = readers(&mut client);
    let mut streams: Vec<Stream> = (0..STREAMS).map(|_| Stream::now(&farm, "")).collect();
    client.run("INSERT INTO d.last VALUES (1, NULL)");
    wait_until(SOON, "one reading", || readers(&mut client) == before + 1);
    for number in 2..=5 {
        client.run(&format!("INSERT INTO d.last VALUES ({number}, NULL)"));
    }
    for stream in &mut streams {
        assert_eq!(numbers(&stream.until_last(5)), [1, 2, 3, 4, 5]);
    }
    assert!((metric(&farm, "heddle_change_stream_readings") - 1.0).abs() < 0.1);
    drop(streams);
    wait_until(SOON, "no reading", || {
        client.run("REPLACE INTO d.last VALUES (1, NULL)");
        readers(&mut client) == before
    });
}

#[test]
fn a_slow_stream_reads_by_itself_and_joins_again() {
    let Some((farm, mut client)) = start(Release::Installed) else {
        return;
    };
    let readings = || metric(&farm, "heddle_change_stream_readings") as i64;
    let mut slow = Stream::now(&farm, "");
    let mut fast = Stream::now(&farm, "");
    wait_until(SOON, "one reading", || readings() == 1);
    // More than a shared reading keeps, and than is under way to a client.
    for number in 0..60 {
        client.run(&format!(
            "INSERT INTO d.last VALUES ({number}, REPEAT('x', 1048576))"
        ));
        assert_eq!(numbers(&fast.until_last(number)), [number]);
    }
    let told = slow.until_last(59);
    assert_eq!(numbers(&told), (0..60).collect::<Vec<_>>());
    wait_until(SOON, "it has joined again", || readings() == 1);
    client.run("INSERT INTO d.last VALUES (100, NULL)");
    for stream in [&mut slow, &mut fast] {
        assert_eq!(numbers(&stream.until_last(100)), [100]);
    }
}

/// The body of an answer in chunks.
struct Chunks<R> {
    from: R,
    left: u64,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut line = String::new();
            self.from.read_line(&mut line)?;
            // Behind a chunk is an end of line.
            self.left = u64::from_str_radix(line.trim(), 16).unwrap_or(0);
        }
        let read = (&mut self.from).take(self.left).read(into)?;
        self.left -= u64::try_from(read).expect("it fits");
        Ok(read)
    }
}

#[test]
fn a_stream_is_packed_for_who_accepts_that() {
    let Some((farm, mut client)) = start(Release::Installed) else {
        return;
    };
    let token = Stream::now(&farm, "").token;
    let headers = "Accept-Encoding: gzip, zstd\r\n";
    let query = format!("from={token}");
    let (status, from) = ask_with(&farm, &query, Some(&admin(&farm)), headers);
    assert_eq!(status, 200);
    let unpacked = zstd::stream::read::Decoder::new(Chunks { from, left: 0 });
    let mut lines = BufReader::new(unpacked.expect("a decoder")).lines();
    for number in 1..=3 {
        client.run(&format!("INSERT INTO d.last VALUES ({number}, NULL)"));
        let told = lines.by_ref().find_map(|line| {
            let event: Value = serde_json::from_str(&line.expect("a line")).expect("JSON");
            event["after"]["a"].as_i64()
        });
        assert_eq!(told, Some(number));
    }
}

testkit::on_both_engines! {
    streams_share_one_reading,
}
