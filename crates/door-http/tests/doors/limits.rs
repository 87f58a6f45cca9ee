//! Clients of the HTTP door that are slow, greedy or gone: others are served all the same.

use std::net::Ipv4Addr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::running::{HERE, House, List, Lists};
use control::{NoSessions, SessionInfo, Sessions};
use door_http::{Family, Kind, Metrics, Sample, Settings};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

/// What is awaited comes much sooner; a test that failed ends by this.
const PATIENCE: Duration = Duration::from_secs(60);

/// A deadline that a test waits for.
const SHORT: Duration = Duration::from_millis(30);

const THERE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);

/// Half of a request.
const HALF: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

/// More than the kernel keeps for a client that reads nothing.
struct Heavy;

impl Metrics for Heavy {
    fn families(&self) -> Vec<Family> {
        let labels = [("text", "x".repeat(1 << 20))];
        let labels: Vec<(&str, &str)> =
            labels.iter().map(|(name, text)| (*name, &**text)).collect();
        vec![Family {
            name: "heddle_heavy",
            help: "Heavy.",
            kind: Kind::Gauge,
            samples: vec![Sample::labelled(&labels, 1.0); 16],
        }]
    }
}

/// Lists of sessions wait until the test lets them go.
#[derive(Default)]
struct Gate {
    state: Mutex<(bool, usize)>,
    moved: Condvar,
}

impl Gate {
    fn open(&self) {
        self.state.lock().expect("no panic").0 = true;
        self.moved.notify_all();
    }

    /// Lists that were begun.
    fn begun(&self) -> usize {
        self.state.lock().expect("no panic").1
    }
}

impl List for Gate {
    fn list(&self) -> Vec<SessionInfo> {
        let mut state = self.state.lock().expect("no panic");
        state.1 += 1;
        // A test that has failed ends by the limit.
        let waited = self
            .moved
            .wait_timeout_while(state, PATIENCE, |state| !state.0);
        drop(waited);
        Vec::new()
    }
}

impl House {
    async fn new(tune: impl FnOnce(&mut Settings)) -> House {
        House::of(Arc::new(NoSessions), tune).await
    }

    async fn of(sessions: Arc<dyn Sessions>, tune: impl FnOnce(&mut Settings)) -> House {
        House::open(sessions, vec![Arc::new(Heavy)], tune).await
    }

    async fn get(&self, ip: Ipv4Addr, path: &str) -> String {
        rest(self.ask(ip, path).await).await
    }

    /// The value of one of the door's own metrics.
    async fn metric(&self, line: &str) -> u64 {
        let metrics = self.get(HERE, "/metrics").await;
        let found = metrics.lines().find_map(|said| said.strip_prefix(line));
        let value = found.and_then(|value| value.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {line}"))
    }
}

/// All that still comes. The door may close a connection whose request it has not read.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("it ends");
    String::from_utf8(bytes).expect("text")
}

#[tokio::test]
async fn half_sent_requests_keep_nobody_out() {
    let house = House::new(|settings| {
        settings.connections_max = 12;
        settings.address_connections_max = 8;
    })
    .await;
    let mut half = Vec::new();
    for _ in 0..40 {
        half.push(house.send(THERE, HALF).await);
    }
    let healthy = house.get(HERE, "/healthz").await;
    assert!(healthy.ends_with("ok\n"), "{healthy}");
    // Not even at the same address.
    let healthy = house.get(THERE, "/healthz").await;
    assert!(healthy.ends_with("ok\n"), "{healthy}");
    // Seven of them, and the one that asks.
    assert_eq!(house.metric("heddle_http_connections").await, 8);
    assert!(house.metric("heddle_http_displaced_total").await >= 32);
    // Nor when many addresses do it.
    for last in 3..20 {
        half.push(house.send(Ipv4Addr::new(127, 0, 0, last), HALF).await);
    }
    let healthy = house.get(HERE, "/healthz").await;
    assert!(healthy.ends_with("ok\n"), "{healthy}");
    assert_eq!(house.metric("heddle_http_connections").await, 12);
    house.running.end().await;
}

#[tokio::test]
async fn answers_that_nobody_reads_keep_nobody_out() {
    let house = House::new(|settings| {
        settings.connections_max = 12;
        settings.address_connections_max = 8;
    })
    .await;
    let mut unread = Vec::new();
    for _ in 0..24 {
        unread.push(house.ask(HERE, "/metrics").await);
    }
    let ping = house.get(HERE, "/v1/manage/ping").await;
    assert!(ping.starts_with("HTTP/1.1 200"), "{ping}");
    house.running.end().await;
}

#[tokio::test]
async fn work_keeps_others_out_with_a_word() {
    let gate = Arc::<Gate>::default();
    let sessions = Arc::new(Lists(Arc::clone(&gate)));
    let house = House::of(sessions, |settings| settings.address_connections_max = 3).await;
    let mut lists = Vec::new();
    for _ in 0..3 {
        lists.push(house.ask(THERE, "/v1/session/list").await);
    }
    while house.control.counters().commands < 3 {
        tokio::task::yield_now().await;
    }
    let refused = rest(house.client_of(THERE).await).await;
    assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
    assert!(
        refused.contains("http_address_connections_max"),
        "{refused}"
    );
    let limit = "heddle_http_refused_total{limit=\"address\"}";
    assert_eq!(house.metric(limit).await, 1);
    gate.open();
    for list in lists {
        assert!(rest(list).await.starts_with("HTTP/1.1 200"));
    }
    house.running.end().await;
}

#[tokio::test]
async fn a_list_that_nobody_waits_for_is_not_made() {
    let gate = Arc::<Gate>::default();
    let sessions = Arc::new(Lists(Arc::clone(&gate)));
    let house = House::of(sessions, |_| {}).await;
    let first = house.ask(HERE, "/v1/session/list").await;
    let mut left = Vec::new();
    for _ in 0..10 {
        left.push(house.ask(HERE, "/v1/session/list").await);
    }
    while house.control.counters().commands < 11 {
        tokio::task::yield_now().await;
    }
    drop(left);
    // The first one, and the one that asks.
    while house.metric("heddle_http_connections").await > 2 {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert!(rest(first).await.starts_with("HTTP/1.1 200"));
    let last = house.get(HERE, "/v1/session/list").await;
    assert!(last.starts_with("HTTP/1.1 200"));
    assert_eq!(gate.begun(), 2, "the lists of those who left were made");
    house.running.end().await;
}

#[tokio::test]
async fn a_head_and_the_next_request_have_deadlines() {
    let house = House::new(|settings| {
        settings.header_timeout = SHORT;
        settings.idle_timeout = SHORT;
    })
    .await;
    assert_eq!(rest(house.client_of(HERE).await).await, "");
    assert_eq!(rest(house.send(HERE, HALF).await).await, "");
    let head = "heddle_http_deadlines_total{deadline=\"header\"}";
    assert_eq!(house.metric(head).await, 2);
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let idle = house.send(HERE, request).await;
    assert!(rest(idle).await.ends_with("ok\n"));
    let idle = "heddle_http_deadlines_total{deadline=\"idle\"}";
    assert_eq!(house.metric(idle).await, 1);
    // Half of the next one.
    let next = house.send(HERE, &format!("{request}{HALF}")).await;
    assert!(rest(next).await.ends_with("ok\n"));
    house.running.end().await;
}

/// While it waits for the control plane, the door has found that the client sends nothing.
#[tokio::test]
async fn a_connection_rests_no_longer_behind_an_answer_that_took_its_time() {
    let gate = Arc::<Gate>::default();
    let sessions = Arc::new(Lists(Arc::clone(&gate)));
    let house = House::of(sessions, |settings| settings.idle_timeout = SHORT).await;
    let request = "GET /v1/session/list HTTP/1.1\r\nHost: localhost\r\n\
                   Authorization: Bearer secret\r\n\r\n";
    let list = house.send(HERE, request).await;
    while gate.begun() == 0 {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert!(rest(list).await.ends_with("[]"));
    house.running.end().await;
}

#[tokio::test]
async fn a_body_has_a_deadline_and_the_client_hears_of_it() {
    let house = House::new(|settings| settings.body_timeout = SHORT).await;
    let half = "POST /v1/group/create HTTP/1.1\r\nHost: localhost\r\n\
                Authorization: Bearer secret\r\nContent-Length: 100\r\n\r\n{";
    let answer = rest(house.send(HERE, half).await).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("http_body_timeout_s"), "{answer}");
    let body = "heddle_http_deadlines_total{deadline=\"body\"}";
    assert_eq!(house.metric(body).await, 1);
    house.running.end().await;
}

#[tokio::test]
async fn an_answer_that_is_not_taken_is_cut() {
    let house = House::new(|settings| settings.write_timeout = SHORT).await;
    let unread = house.ask(HERE, "/metrics").await;
    let write = "heddle_http_deadlines_total{deadline=\"write\"}";
    while house.metric(write).await == 0 {
        tokio::task::yield_now().await;
    }
    assert!(rest(unread).await.len() < 16 << 20);
    house.running.end().await;
}
