//! The console's files and its live picture, over real sockets.

use std::sync::Arc;
use std::time::Instant;

use control::NoSessions;
use door_http::{Family, Metrics, Settings};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::running::{HERE, House};

const ADMIN: &str = "Authorization: Bearer secret\r\n";
const MONITOR: &str = "Authorization: Bearer watch\r\n";
const STREAM: &str = "Accept: text/event-stream\r\n";

/// Counts how often somebody wants metrics.
struct Asked(watch::Sender<u64>, Instant);

impl Metrics for Asked {
    fn families(&self) -> Vec<Family> {
        self.0.send_modify(|times| *times += 1);
        Vec::new()
    }
}

impl Asked {
    fn times(&self) -> u64 {
        *self.0.borrow()
    }

    /// So often at most the charts have looked while nobody did.
    fn idle_times_max(&self) -> u64 {
        self.1.elapsed().as_secs() / IDLE_PERIOD_S
    }
}

/// From one look at the charts' numbers to the next.
const IDLE_PERIOD_S: u64 = 3;

async fn house(tune: impl FnOnce(&mut Settings)) -> (House, Arc<Asked>) {
    let asked = Arc::new(Asked(watch::Sender::new(0), Instant::now()));
    let metrics: Vec<Arc<dyn Metrics>> = vec![Arc::clone(&asked) as Arc<dyn Metrics>];
    let opened = House::open(Arc::new(NoSessions), metrics, |settings| {
        settings.monitor_token = "watch".to_owned();
        tune(settings);
    });
    (opened.await, asked)
}

async fn connect(house: &House, path: &str, headers: &str) -> TcpStream {
    let request =
        format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n");
    house.send(HERE, &request).await
}

/// The whole answer: head and body.
async fn get(house: &House, path: &str, headers: &str) -> (String, String) {
    let mut stream = connect(house, path, headers).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
    (head.to_ascii_lowercase(), body.to_owned())
}

fn status(head: &str) -> &str {
    head.split(' ').nth(1).unwrap_or_default()
}

/// The value of a header.
fn header<'a>(head: &'a str, name: &str) -> &'a str {
    let mut lines = head.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.unwrap_or_default()
}

/// The next event of a stream, its name and its data; none at its end.
async fn event(stream: &mut BufReader<TcpStream>) -> Option<(String, Value)> {
    let mut name = String::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.expect("the door answers") == 0 {
            return None;
        }
        if let Some(found) = line.strip_prefix("event: ") {
            name = found.trim().to_owned();
        } else if let Some(data) = line.strip_prefix("data: ") {
            return Some((name, serde_json::from_str(data).expect("JSON")));
        }
    }
}

#[tokio::test]
async fn the_files_are_everybodys_and_say_nothing_of_the_farm() {
    let (house, asked) = house(|_| {}).await;
    let (head, page) = get(&house, "/", "").await;
    assert_eq!(status(&head), "200");
    assert!(!page.contains(&house.control.snapshot().farm_id.to_string()));
    let policy = header(&head, "content-security-policy");
    for demand in [
        "default-src 'none'",
        "script-src 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
    ] {
        assert!(policy.contains(demand), "{policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(header(&head, "x-content-type-options"), "nosniff");
    assert_eq!(header(&head, "cache-control"), "no-cache");
    assert_eq!(header(&head, "set-cookie"), "");
    for (path, kind) in [
        ("/console/app.js", "text/javascript"),
        ("/console/views/overview.js", "text/javascript"),
        ("/console/console.css", "text/css"),
        ("/console/icon.svg", "image/svg+xml"),
    ] {
        let (head, body) = get(&house, path, "").await;
        assert_eq!(status(&head), "200", "{path}");
        assert!(
            header(&head, "content-type").starts_with(kind),
            "{path}: {head}"
        );
        assert!(!body.is_empty(), "{path}");
    }
    for path in [
        "/console/",
        "/console/none.js",
        "/console/../src/lib.rs",
        "/console/..%2fCargo.toml",
    ] {
        let (head, _) = get(&house, path, ADMIN).await;
        assert_eq!(status(&head), "404", "{path}");
    }
    let times = asked.times();
    assert!(
        times <= asked.idle_times_max(),
        "no picture was made for files"
    );
    house.running.end().await;
}

#[tokio::test]
async fn a_file_that_a_browser_has_is_not_sent_again() {
    let (house, _) = house(|_| {}).await;
    let (head, _) = get(&house, "/console/app.js", "").await;
    let tag = header(&head, "etag");
    let (head, body) = get(
        &house,
        "/console/app.js",
        &format!("If-None-Match: {tag}\r\n"),
    )
    .await;
    assert_eq!((status(&head), body.as_str()), ("304", ""));
    let (head, _) = get(&house, "/console/app.js", "If-None-Match: \"other\"\r\n").await;
    assert_eq!(status(&head), "200");
    house.running.end().await;
}

#[tokio::test]
async fn the_picture_needs_the_monitor_right_unless_metrics_are_public() {
    let (closed, asked) = house(|_| {}).await;
    for accept in ["", STREAM] {
        let (head, body) = get(&closed, "/v1/live", accept).await;
        assert_eq!(status(&head), "401", "{body}");
    }
    let foreign = format!("{ADMIN}Origin: http://evil.example\r\n");
    assert_eq!(status(&get(&closed, "/v1/live", &foreign).await.0), "403");
    let times = asked.times();
    assert!(
        times <= asked.idle_times_max(),
        "no picture for who may not see it"
    );
    for (token, access) in [(MONITOR, "monitor"), (ADMIN, "admin")] {
        let (head, body) = get(&closed, "/v1/live", token).await;
        assert_eq!(status(&head), "200", "{body}");
        assert_eq!(header(&head, "cache-control"), "no-store");
        let answer: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(answer["access"], access);
        assert!(answer["picture"]["groups"].is_object(), "{body}");
    }
    closed.running.end().await;
    let (open, _) = house(|settings| settings.open_metrics = true).await;
    let (head, body) = get(&open, "/v1/live", "").await;
    assert_eq!(status(&head), "200");
    assert!(body.starts_with(r#"{"access":"public""#), "{body}");
    open.running.end().await;
}

#[tokio::test]
async fn a_stream_begins_with_everything_goes_on_with_what_differs_and_ends_with_a_reason() {
    let (house, asked) = house(|_| {}).await;
    let stream = connect(&house, "/v1/live", &format!("{MONITOR}{STREAM}")).await;
    let mut stream = BufReader::new(stream);
    let (name, hello) = event(&mut stream).await.expect("an event");
    assert_eq!(
        (name.as_str(), &hello["access"]),
        ("hello", &"monitor".into())
    );
    let (name, state) = event(&mut stream).await.expect("an event");
    assert_eq!(name, "state");
    assert_eq!(state["farm"]["id"], *house.control.snapshot().farm_id);
    assert!(
        state["groups"]
            .as_object()
            .is_some_and(|groups| groups.is_empty())
    );
    let call = catalog::Call::new("group", "create", &["g1"]).with(farm::Access::Admin);
    house.control.execute(call).await.expect("a group");
    // Others may come first: of the traffic, each second.
    let group = loop {
        let (name, patch) = event(&mut stream).await.expect("an event");
        assert_eq!(name, "patch");
        if !patch["groups"]["g1"].is_null() {
            break patch["groups"]["g1"].clone();
        }
    };
    assert_eq!(group["severity"], "down", "it has no server");
    assert!(asked.times() >= 2, "a picture a second");
    let reading = async {
        loop {
            let (name, end) = event(&mut stream).await.expect("an end before the end");
            if name == "end" {
                return end["reason"].as_str().unwrap_or_default().to_owned();
            }
        }
    };
    let (reason, ()) = tokio::join!(reading, house.running.end());
    assert!(reason.contains("takes no requests any more"), "{reason}");
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.expect("the end");
    assert!(!rest.contains("event:"), "{rest}");
}

#[tokio::test]
async fn the_charts_begin_with_what_was_before_somebody_looked() {
    let (house, asked) = house(|_| {}).await;
    let mut looks = asked.0.subscribe();
    looks.wait_for(|times| *times >= 3).await.expect("it lives");
    let (head, body) = get(&house, "/v1/live", MONITOR).await;
    assert_eq!(status(&head), "200");
    let answer: Value = serde_json::from_str(&body).expect("JSON");
    let samples = answer["picture"]["traffic"].as_object().expect("samples");
    assert!(samples.len() >= 2, "{body}");
    house.running.end().await;
}

#[tokio::test]
async fn one_that_leaves_makes_room() {
    let (house, _) = house(|_| {}).await;
    let wanted = format!("{ADMIN}{STREAM}");
    let listeners = |metrics: &str| {
        let line = metrics
            .lines()
            .find(|line| line.starts_with("heddle_console_listeners "));
        line.and_then(|line| line.split(' ').nth(1)?.parse::<f64>().ok())
    };
    let mut stream = BufReader::new(connect(&house, "/v1/live", &wanted).await);
    event(&mut stream).await.expect("hello");
    let (_, metrics) = get(&house, "/metrics", ADMIN).await;
    assert_eq!(listeners(&metrics), Some(1.0), "{metrics}");
    let mut socket = stream.into_inner();
    socket.shutdown().await.expect("closed");
    drop(socket);
    // The door learns of it when it sends the next event.
    while listeners(&get(&house, "/metrics", ADMIN).await.1) != Some(0.0) {
        tokio::task::yield_now().await;
    }
    house.running.end().await;
}
