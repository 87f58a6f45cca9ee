//! Sets of GTIDs are what the servers themselves make of them: GTID_SUBSET and GTID_SUBTRACT of MySQL.

use farm::{Engine, Position};
use fastrand::Rng;
use testkit::{Client, Release, Server};

const UUIDS: [&str; 3] = [
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "3E11FA47-71CA-11E1-9E33-C80AA9429563",
    "00000000-0000-0000-0000-000000000001",
];

fn of<T: Copy>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

/// A set without tags, in one of the ways in which people write it.
fn made_up(random: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.u64(..4) {
        text.push_str(of(random, &["", " ", "\n"]));
        text.push_str(of(random, &UUIDS));
        for _ in 0..random.u64(..8) {
            let limit = of(random, &[20, 200, 1 << 40]);
            let from = random.u64(..limit) + 1;
            let to = (from + random.u64(..9))
                .saturating_sub(random.u64(..3))
                .max(1);
            match from == to {
                true => text.push_str(&format!(":{from}")),
                false => text.push_str(&format!(":{from}{}{to}", of(random, &["-", " - "]))),
            }
        }
        text.push_str(of(random, &[",", " , ", ",,"]));
    }
    text
}

fn read(text: &str) -> Position {
    Position::parse(Engine::MySql, text).unwrap_or_else(|| panic!("a set: {text}"))
}

/// What the server says of two sets, against what is made of them here.
fn agree(client: &mut Client, a: &str, b: &str) {
    let row = client.rows(&format!(
        "SELECT GTID_SUBSET('{b}', '{a}'), GTID_SUBTRACT('{a}', ''), \
         GTID_SUBTRACT('{a},{b}', ''), GTID_SUBTRACT('{a}', GTID_SUBTRACT('{a}', '{b}'))"
    ));
    let said: Vec<String> = row.into_iter().flatten().flatten().collect();
    let said: Vec<String> = said.iter().map(|set| set.replace('\n', "")).collect();
    let (one, other) = (read(a), read(b));
    let mut all = one.clone();
    all.join(&other);
    let here = [
        u8::from(one.covers(&other)).to_string(),
        one.to_string(),
        all.to_string(),
        one.meet(&other).to_string(),
    ];
    assert_eq!(said, here, "{a}\n{b}");
}

fn sets_are_what_the_server_says(release: Release) {
    let Some(server) = Server::start_with(release, &[]) else {
        return;
    };
    let mut client = server.client();
    for seed in 0..400 {
        let mut random = Rng::with_seed(seed);
        let (a, b) = (made_up(&mut random), made_up(&mut random));
        agree(&mut client, &a, &b);
        agree(&mut client, &a, &read(&a).to_string());
    }
    // As servers have them whose transactions came from several writers: 280 intervals.
    for number in 0..280 {
        let name = format!("{}:{}", UUIDS[0], number * 3 + 1 + number % 2);
        client.run(&format!("SET gtid_next = '{name}'"));
        client.run("BEGIN");
        client.run("COMMIT");
    }
    client.run("SET gtid_next = AUTOMATIC");
    let executed = client
        .value("SELECT @@global.gtid_executed")
        .replace('\n', "");
    assert!(executed.split(':').count() > 280, "{executed}");
    assert_eq!(read(&executed).to_string(), executed);
    for seed in 0..40 {
        let mut random = Rng::with_seed(seed);
        let part = format!(
            "{}:{}-{}",
            UUIDS[0],
            random.u64(..800) + 1,
            random.u64(..850) + 1
        );
        agree(&mut client, &executed, &part);
        agree(&mut client, &part, &executed);
        agree(&mut client, &executed, &made_up(&mut random));
    }
    refused_alike(&mut client);
}

/// What the server does not read is not read here, and what is read here it reads.
fn refused_alike(client: &mut Client) {
    // The server reads these, as something else than they seem.
    for text in ["$:010", "$:0x10", "$:1-", "$:1-0", "$:+1"] {
        let text = text.replace('$', UUIDS[0]);
        assert_eq!(Position::parse(Engine::MySql, &text), None, "{text}");
    }
    for text in [
        "$:",
        "$:0",
        "$:0-5",
        "$:-1",
        "$:1x",
        "$:1 2",
        "$:1::2",
        "$::1",
        "$:1-5;",
        "x:1",
        "{$}:1",
        "3e11fa4771ca11e19e33c80aa9429562:1",
        "3e11fa47-71ca11e19e33c80aa9429562:1",
        "$:9223372036854775807",
        "$:1-9223372036854775807",
        "$:99999999999999999999",
        "$,x",
    ] {
        let text = text.replace('$', UUIDS[0]);
        let failure = client.query(format!("SELECT GTID_SUBTRACT('{text}', '')"));
        let failure = failure.expect_err("the server does not read it");
        assert_eq!(failure.number(), 1772, "{text}");
        assert_eq!(Position::parse(Engine::MySql, &text), None, "{text}");
    }
    for text in ["", ",", " $ ", "$:5-3", "$:1-9223372036854775806", "\t$:1"] {
        let text = text.replace('$', UUIDS[0]);
        agree(client, &text, &text);
    }
}

#[test]
fn sets_are_what_mysql_8_0_says() {
    sets_are_what_the_server_says(Release::MySql80);
}

#[test]
fn sets_are_what_a_newer_mysql_says() {
    sets_are_what_the_server_says(Release::MySqlNewer);
}
