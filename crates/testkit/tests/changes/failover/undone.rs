//! A failover with a loss: the stream says what was taken back, tokens of the lost timeline are refused, and who has
//! nothing of it goes on.

use std::io::Read;

use serde_json::Value;
use testkit::receiver::Receiver;
use testkit::{Client, Farm, Release, Server, wait_until};

use crate::reading::{SOON, Stream, admin, ask_with, rows};

/// Nobody waits for servers that are lost.
const SETTINGS: [&str; 2] = ["lossy_promotion_after_ms=500", "fence_command=true"];

const OWN: [(&str, &str); 2] = [
    ("read_only", "ON"),
    // A killed process loses no commit.
    ("innodb_flush_log_at_trx_commit", "2"),
];

/// A group of a primary and two replicas that Heddle did not start, so that nobody starts them again.
fn group(servers: &[Server]) -> Farm {
    let farm = Farm::serve(&SETTINGS);
    farm.json(&["group", "create", "g1"]);
    for (number, server) in servers.iter().enumerate() {
        farm.json(&["group", "add", "g1", &server.address().to_string()]);
        if number == 0 {
            let mut primary = server.client();
            primary.run("CREATE USER 'heddle_replication'@'%'");
            primary.run("GRANT REPLICATION SLAVE ON *.* TO 'heddle_replication'@'%'");
        }
    }
    farm.json(&["group", "activate", "g1"]);
    wait_until(SOON, "a primary", || write(&farm, "CREATE DATABASE d"));
    let mut client = farm.client();
    client.run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    client.run("CREATE TABLE d.other (a INT PRIMARY KEY)");
    farm
}

fn write(farm: &Farm, sql: &str) -> bool {
    let client = Client::connect(farm.sql, "root", "");
    client.and_then(|mut client| client.query(sql)).is_ok()
}

/// The primary and the first replica go on, and the second one gets nothing more, not even what is on its way.
fn part(servers: &mut [Server]) {
    let mut primary = servers[0].client();
    primary.run("SET SESSION sql_log_bin = 0");
    primary.run("RENAME USER 'heddle_replication'@'%' TO 'nobody'@'%'");
    servers[2].client().run("STOP SLAVE IO_THREAD");
    servers[2].freeze();
}

/// Each stands for five seconds in which nothing happens.
const BEATS_MAX: usize = 30;

/// The numbers of the rows among these events.
fn numbers(events: &[Value]) -> Vec<i64> {
    let rows = rows(events).into_iter();
    rows.map(|row| row["after"]["a"].as_i64().expect("a number"))
        .collect()
}

/// Reads up to the row of this number, and the end of its transaction.
fn until(stream: &mut Stream, number: i64) -> Vec<Value> {
    stream.until(|event| event["after"]["a"] == number)
}

/// The last line of a stream that tells no row any more.
fn end_of(stream: &mut Stream) -> Value {
    let (mut end, mut beats) = (Value::Null, 0);
    while let Some(event) = stream.next() {
        assert_ne!(event["event"], "row", "{event}");
        beats += usize::from(event["event"] == "heartbeat");
        assert!(beats < BEATS_MAX, "it goes on");
        end = event;
    }
    end
}

/// The status and the text of a request's answer.
fn refusal(farm: &Farm, query: &str) -> (u16, String) {
    let bearer = admin(farm);
    let (status, mut from) = ask_with(farm, query, Some(&bearer), "Connection: close\r\n");
    let mut text = String::new();
    if status != 200 {
        from.read_to_string(&mut text).expect("an answer");
    }
    (status, text)
}

fn says_taken_back(end: &Value) {
    let error = end["error"].as_str().unwrap_or_default();
    assert_eq!(
        (&end["event"], &end["group"]),
        (&"undone".into(), &"g1".into()),
        "{end}"
    );
    assert!(error.contains("was taken back"), "{end}");
    let (from, to) = (&end["taken_back"]["from"], &end["taken_back"]["to"]);
    assert!(from.is_string() && to.is_string() && from != to, "{end}");
}

fn state(farm: &Farm) -> Value {
    farm.json(&["sink", "show", "hook"])[0]["state"].clone()
}

/// What the clients have when the primary is lost.
struct Consumers {
    plain: Stream,
    in_order: Stream,
    /// Behind what everybody has, within what is lost, and behind it.
    kept: String,
    middle: String,
    receiver: Receiver,
}

impl Consumers {
    fn start(farm: &Farm) -> Consumers {
        let receiver = Receiver::start(|_| Some(200));
        for name in ["kept", "lost"] {
            farm.json(&["subscription", "create", name, "--tables", "d.t"]);
        }
        farm.json(&["sink", "create", "hook", &receiver.url(), "--tables", "d.t"]);
        Consumers {
            plain: Stream::now(farm, "table=d.t"),
            in_order: Stream::now(farm, "table=d.t&order=global"),
            kept: String::new(),
            middle: String::new(),
            receiver,
        }
    }

    /// The numbers of the rows that were posted.
    fn posted(&self) -> Vec<i64> {
        numbers(&self.receiver.events())
    }

    /// Everybody has the row 1.
    fn have_one(&mut self, farm: &Farm) {
        for stream in [&mut self.plain, &mut self.in_order] {
            assert_eq!(numbers(&until(stream, 1)), [1]);
        }
        self.kept = self.plain.token.clone();
        farm.json(&["subscription", "ack", "kept", &self.kept]);
        wait_until(SOON, "the first row", || self.posted() == [1]);
    }

    /// Everybody but the subscription `kept` has the rows 2 and 3, which the second replica lacks.
    fn have_more(&mut self, farm: &Farm) {
        let told = until(&mut self.plain, 3);
        assert_eq!(numbers(&told), [2, 3]);
        let middle = rows(&told)[0]["token"].as_str();
        self.middle = middle.expect("every event has one").to_owned();
        assert_eq!(numbers(&until(&mut self.in_order, 3)), [2, 3]);
        farm.json(&["subscription", "ack", "lost", &self.plain.token]);
        wait_until(SOON, "the other rows", || self.posted() == [1, 2, 3]);
    }

    /// Who was told of what is lost hears that it is.
    fn hear_of_the_loss(&mut self) {
        for stream in [&mut self.plain, &mut self.in_order] {
            says_taken_back(&end_of(stream));
        }
    }

    /// Requests with tokens of what is lost are refused; with older ones the stream goes on.
    fn go_on(&self, farm: &Farm) {
        for query in [
            format!("from={}", self.plain.token),
            format!("from={}", self.middle),
            format!("order=global&from={}", self.in_order.token),
            "subscription=lost".to_owned(),
        ] {
            let (status, said) = refusal(farm, &query);
            assert_eq!(status, 409, "{query}: {said}");
            assert!(said.contains("was taken back"), "{query}: {said}");
        }
        let query = "table=d.t";
        for mut stream in [
            Stream::behind(farm, &self.kept, query),
            Stream::open(farm, "subscription=kept"),
        ] {
            assert_eq!(numbers(&until(&mut stream, 4)), [4]);
        }
    }

    /// The sink stands still until somebody makes it anew.
    fn are_stuck(&self, farm: &Farm) {
        let is_stuck = || {
            wait_until(SOON, "the sink is stuck", || state(farm) == "stuck");
            let shown = farm.json(&["sink", "show", "hook"]);
            let error = shown[0]["error"].as_str().unwrap_or_default();
            assert!(error.contains("was taken back"), "{shown:?}");
            assert_eq!(self.posted(), [1, 2, 3]);
        };
        is_stuck();
        // Once more from the position that is lost.
        farm.json(&["sink", "resume", "hook"]);
        is_stuck();
        farm.json(&["sink", "drop", "hook"]);
        let snapshot = ["--tables", "d.t", "--snapshot"];
        let create = [
            &["sink", "create", "hook", &*self.receiver.url()],
            &snapshot[..],
        ];
        farm.json(&create.concat());
        wait_until(SOON, "the rows that are there", || {
            let posted = self.posted();
            posted[3..].contains(&1) && posted[3..].contains(&4)
        });
        let posted = self.posted();
        assert!(
            !posted[3..].iter().any(|it| [2, 3].contains(it)),
            "{posted:?}"
        );
    }
}

fn what_a_failover_takes_back_is_told(release: Release) {
    let Some(mut servers) = Server::start_some(3, release, &OWN) else {
        return;
    };
    let farm = group(&servers);
    let mut consumers = Consumers::start(&farm);
    let mut client = farm.client();
    client.run("INSERT INTO d.t VALUES (1)");
    consumers.have_one(&farm);
    wait_until(SOON, "the replicas have it", || {
        let has = |server: &Server| server.client().value("SELECT COUNT(*) FROM d.t") == "1";
        servers.iter().all(has)
    });
    part(&mut servers);
    client.run("INSERT INTO d.t VALUES (2), (3)");
    consumers.have_more(&farm);
    servers[1].kill();
    servers[0].kill();
    servers[2].thaw();
    consumers.hear_of_the_loss();
    let events = farm.json(&["group", "events", "g1"]);
    let is_lossy = |event: &Value| event["event"] == "failover_lossy";
    assert!(events.iter().any(is_lossy), "{events:#?}");
    wait_until(SOON, "the other server takes writes", || {
        write(&farm, "INSERT IGNORE INTO d.t VALUES (4)")
    });
    assert_eq!(
        farm.client()
            .value("SELECT GROUP_CONCAT(a ORDER BY a) FROM d.t"),
        "1,4"
    );
    consumers.go_on(&farm);
    consumers.are_stuck(&farm);
    // A consumer that has read the tables anew goes on from there.
    let token = Stream::now(&farm, "table=d.t").token;
    farm.json(&["subscription", "ack", "lost", &token]);
    client = farm.client();
    client.run("INSERT INTO d.t VALUES (5)");
    let told = until(&mut Stream::open(&farm, "subscription=lost"), 5);
    assert_eq!(numbers(&told), [5]);
}

testkit::on_both_engines! {
    what_a_failover_takes_back_is_told,
}
