//! The KV door: what clients make the router keep has the same ceiling as at the SQL door.

use std::time::Duration;

use testkit::raw::Raw;
use testkit::{Client, Farm, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);
const NO_MEMORY: &str = "SERVER_ERROR out of memory storing object\r\n";

fn set(key: &str, value: &str) -> String {
    format!("set {key} 0 0 {}\r\n{value}\r\n", value.len())
}

fn status(client: &mut Client, counter: &str) -> u64 {
    let rows = client.rows(&format!("HEDDLE STATUS LIKE '{counter}'"));
    let value = rows[0][1].as_deref().expect("a number");
    value.parse().expect("a number")
}

#[test]
fn values_beyond_the_ceiling_are_refused_and_clients_go_on() {
    let memory = ["--replicas", "0", "--set", "memory_bytes_max=4194304"];
    let Some(farm) = Farm::start(&[&memory[..], &["--set", "client_read_timeout_s=3600"]].concat())
    else {
        return;
    };
    let mut sql = farm.client();
    let large = "x".repeat(1_000_000);
    let mut client = Raw::connect(farm.kv);
    client.asks(set("large", &large), "STORED\r\n");
    // Clients that stop within a value, as many as there is room for and some more.
    let half = |_| {
        let mut slow = Raw::connect(farm.kv);
        slow.say(&set("slow", &large)[..700_000]);
        slow
    };
    let mut slow: Vec<Raw> = (0..12).map(half).collect();
    wait_until(PATIENCE, "some of them are refused", || {
        status(&mut sql, "memory_refused_values") > 0
    });
    assert!(status(&mut sql, "memory_reserved_now") <= 4 << 20);
    // From here on there is room for nobody else.
    sql.rows("HEDDLE CONFIG SET '--setting=memory_bytes_max=65536'");
    client.asks(set("large", &large), NO_MEMORY);
    client.asks(set("small", "1"), "STORED\r\n");
    client.asks(
        format!("ms large {}\r\n{large}\r\nmn\r\n", large.len()),
        format!("{NO_MEMORY}MN\r\n"),
    );
    // Where a line ends nobody knows before it does.
    let mut keys = Raw::connect(farm.kv);
    keys.say(format!("get {}", "key ".repeat(200_000)));
    keys.hears(NO_MEMORY);
    keys.is_closed();
    // Who was refused goes on behind its value.
    let mut last = slow.pop().expect("it came when there was no room");
    last.say(&set("slow", &large)[700_000..]);
    last.hears(NO_MEMORY);
    last.asks("get small\r\n", "VALUE small 0 1\r\n1\r\nEND\r\n");
    // Rows that there is no room for: the connection goes on, too.
    client.say("get large\r\n");
    let line = client.line();
    assert!(line.starts_with("SERVER_ERROR "), "{line}");
    assert!(line.contains("memory_bytes_max"), "{line}");
    client.asks("get small\r\n", "VALUE small 0 1\r\n1\r\nEND\r\n");
    assert!(status(&mut sql, "memory_refused_results") > 0);
    sql.rows("HEDDLE CONFIG SET '--setting=memory_bytes_max=4194304'");
    drop(slow);
    wait_until(PATIENCE, "there is room again", || {
        status(&mut sql, "memory_reserved_now") < 1 << 20
    });
    client.asks(set("large", &large), "STORED\r\n");
    drop((client, last, keys));
    wait_until(PATIENCE, "all of it is given back", || {
        status(&mut sql, "memory_reserved_now") == 0
    });
}
