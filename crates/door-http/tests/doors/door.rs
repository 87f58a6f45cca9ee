//! The HTTP door over real sockets, on a farm without servers.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

use crate::running::{Running, credentials};
use control::{Control, NoSessions, Settings};
use door_http::{Act, Column, Door, Family, Kind, Metrics, Only, Rows, Sample, Told, Wanted};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const TOKEN: &str = "Authorization: Bearer secret\r\n";

/// Of those who may only look.
const MONITOR: &str = "Authorization: Bearer watch\r\n";

/// A control plane and its door; ended by `end`.
struct House {
    address: SocketAddr,
    control: Arc<Control>,
    sql_serves: Arc<AtomicBool>,
    running: Running,
    _dir: tempfile::TempDir,
}

struct Seven;

impl Metrics for Seven {
    fn families(&self) -> Vec<Family> {
        let samples = vec![Sample::plain(7.0)];
        vec![Family {
            name: "heddle_seven",
            help: "Seven.",
            kind: Kind::Gauge,
            samples,
        }]
    }
}

/// A container `c` with a row of the key `k ü`.
struct OneRow;

impl Rows for OneRow {
    fn ask(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Told> + Send>> {
        let there = wanted.key == "k ü".as_bytes();
        let told = match (wanted.container.as_str(), wanted.act) {
            ("c", Act::Read) if there => Told::Row {
                columns: vec![
                    Column {
                        name: "name".to_owned(),
                        value: Some(b"it".to_vec()),
                        number: false,
                    },
                    Column {
                        name: "size".to_owned(),
                        value: Some(b"7".to_vec()),
                        number: true,
                    },
                ],
                cas: 5,
                ttl_s: Some(9),
            },
            ("c", Act::Write { only, .. }) => match only {
                Only::Cas(5) | Only::Always => Told::Written { cas: 6 },
                _ => Told::Condition,
            },
            ("c", Act::Delete { .. }) if there => Told::Deleted,
            ("c", _) => Told::NotThere,
            _ => Told::NoContainer,
        };
        Box::pin(std::future::ready(told))
    }
}

async fn house() -> House {
    house_with(|settings| settings.body_bytes_max = 10_000).await
}

async fn house_with(tune: impl FnOnce(&mut door_http::Settings)) -> House {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(meta::Embedded::open(dir.path()).expect("a store"));
    let published = Arc::new(farm::Published::from_pointee(farm::Snapshot::empty(
        "",
        Instant::now(),
    )));
    let settings = Settings::new(credentials());
    let control = Control::open(store, published, Arc::new(NoSessions), settings)
        .await
        .expect("a farm");
    let sql_serves = Arc::new(AtomicBool::new(false));
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut settings = door_http::Settings::new(listen, "secret");
    tune(&mut settings);
    settings.monitor_token = "watch".to_owned();
    let metrics: Vec<Arc<dyn Metrics>> = vec![Arc::new(Seven)];
    let door = Door::open(
        settings,
        Arc::clone(&control),
        Arc::clone(&sql_serves),
        metrics,
        Arc::new(OneRow),
    )
    .expect("a free port");
    let address = door.address();
    let running = Running::start(&control, door);
    House {
        address,
        control,
        sql_serves,
        running,
        _dir: dir,
    }
}

impl House {
    /// Sends one request; gives status and body.
    async fn send(&self, method: &str, path: &str, headers: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\
             Content-Length: {length}\r\n{headers}\r\n{body}",
            self.address
        );
        self.send_raw(&request).await
    }

    async fn send_raw(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address)
            .await
            .expect("the door is open");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").expect("an HTTP answer");
        let status = head
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        (status.expect("a status"), body.to_owned())
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.send("GET", path, "", "").await
    }

    /// Looks as a monitor does.
    async fn look(&self, path: &str) -> (u16, String) {
        self.send("GET", path, MONITOR, "").await
    }

    async fn end(self) {
        self.running.end().await;
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[tokio::test]
async fn what_a_monitor_may_see() {
    let house = house().await;
    assert_eq!(house.get("/healthz").await, (200, "ok\n".to_owned()));
    let (status, live) = house.look("/v1/live").await;
    assert_eq!(status, 200);
    assert!(live.starts_with(r#"{"access":"monitor""#), "{live}");
    let (status, farm) = house.look("/v1/farm").await;
    assert_eq!(
        (status, &json(&farm)["groups"]),
        (200, &Value::Array(Vec::new()))
    );
    assert_eq!(json(&farm)["farm_id"].as_str().map(str::len), Some(36));
    let (_, metrics) = house.look("/metrics").await;
    assert!(metrics.contains("heddle_farm_epoch 1\n"), "{metrics}");
    assert!(metrics.contains("heddle_seven 7\n"), "{metrics}");
    let (status, help) = house.look("/v1/manage/help?group=group&command=add").await;
    assert_eq!(status, 200);
    let usage = json(&help)[0]["command"].clone();
    assert_eq!(
        usage,
        "group add GROUP_ID ADDRESS [TIMEOUT] [UPDATE_ONLY] [NAME] [SYNCHRONOUS] [METHOD]"
    );
    house.end().await;
}

/// Every command and every path, by each of the three rights.
#[tokio::test]
async fn nobody_gets_more_than_his_right() {
    use farm::Access;
    let house = house().await;
    let askers = [(Access::Public, ""), (Access::Monitor, MONITOR)];
    for spec in catalog::command::TABLE {
        let path = format!("/v1/{}/{}", spec.group, spec.command);
        for (access, token) in askers {
            let (status, body) = house.send("POST", &path, token, "{}").await;
            let refused = matches!(status, 401 | 403);
            assert_eq!(refused, access < spec.access, "{path} {access:?}: {body}");
            let (status, _) = house.send("GET", &path, token, "").await;
            assert!(
                !refused || matches!(status, 401 | 403 | 405),
                "GET {path} {access:?}"
            );
        }
    }
    for (path, needed) in [
        ("/healthz", Access::Public),
        ("/", Access::Public),
        ("/console/app.js", Access::Public),
        ("/v1/live", Access::Monitor),
        ("/metrics", Access::Monitor),
        ("/v1/farm", Access::Monitor),
        ("/v1/rows/c/k", Access::Admin),
    ] {
        for (access, token) in askers {
            let (status, _) = house.send("GET", path, token, "").await;
            assert_eq!(
                matches!(status, 401 | 403),
                access < needed,
                "{path} {access:?}"
            );
        }
    }
    assert_eq!(house.send("POST", "/v1/peer", TOKEN, "{}").await.0, 401);
    house.end().await;
}

/// The address of a stranger's server, who waits for a login.
#[tokio::test]
async fn nobody_has_the_router_log_in_at_a_stranger() {
    let house = house().await;
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    stranger.set_nonblocking(true).expect("a socket");
    let address = stranger.local_addr().expect("bound");
    let path = format!("/v1/server/lookup_uuid?arg={address}");
    assert_eq!(house.get(&path).await.0, 401);
    assert_eq!(house.look(&path).await.0, 403);
    let (status, body) = house.send("GET", &path, TOKEN, "").await;
    assert_eq!(status, 409, "{body}");
    let nobody = stranger.accept().expect_err("the router did not come");
    assert_eq!(nobody.kind(), std::io::ErrorKind::WouldBlock);
    house.end().await;
}

#[tokio::test]
async fn readiness_waits_for_the_sql_door_and_for_groups() {
    let house = house().await;
    let (status, body) = house.get("/readyz").await;
    assert_eq!(status, 503);
    assert_eq!(
        json(&body)["reasons"].as_array().map(Vec::len),
        Some(2),
        "{body}"
    );
    house.sql_serves.store(true, Relaxed);
    let (status, body) = house.get("/readyz").await;
    assert_eq!(status, 503);
    assert_eq!(
        json(&body)["reasons"].as_array().map(Vec::len),
        Some(1),
        "{body}"
    );
    house.end().await;
}

#[tokio::test]
async fn changes_need_the_token() {
    let house = house().await;
    let create = r#"{"args":["g1"],"options":{"description":"the first"}}"#;
    let (status, body) = house.send("POST", "/v1/group/create", "", create).await;
    assert_eq!(status, 401, "{body}");
    assert!(
        json(&body)["cure"]
            .as_str()
            .expect("a cure")
            .contains("Bearer")
    );
    assert!(
        house.control.snapshot().groups.is_empty(),
        "nothing was done"
    );
    let wrong = "Authorization: Bearer secreT\r\n";
    assert_eq!(
        house
            .send("POST", "/v1/group/create", wrong, create)
            .await
            .0,
        401
    );
    assert_eq!(house.get("/v1/group/create?arg=g1").await.0, 405);

    let (status, body) = house.send("POST", "/v1/group/create", TOKEN, create).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(json(&body)[0]["success"], true);
    // What changes nothing is a monitor's, by either method.
    let (status, body) = house
        .send("POST", "/v1/group/lookup_groups", MONITOR, "")
        .await;
    assert_eq!(
        (status, &json(&body)[0]["description"]),
        (200, &Value::from("the first"))
    );
    let (status, body) = house.look("/v1/group/lookup_groups?arg=g1").await;
    assert_eq!(
        (status, &json(&body)[0]["group_id"]),
        (200, &Value::from("g1"))
    );
    house.end().await;
}

#[tokio::test]
async fn foreign_pages_are_refused() {
    let house = house().await;
    let rebound = "GET /v1/farm HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n";
    assert_eq!(house.send_raw(rebound).await.0, 403);
    let origin = "Origin: https://evil.example\r\n";
    let (status, body) = house
        .send(
            "POST",
            "/v1/group/create",
            &format!("{origin}{TOKEN}"),
            "{}",
        )
        .await;
    assert_eq!(status, 403, "{body}");
    assert_eq!(house.send("GET", "/v1/farm", origin, "").await.0, 403);
    house.end().await;
}

#[tokio::test]
async fn wrong_requests_are_answered_with_a_cure() {
    let house = house().await;
    let cases = [
        ("GET", "/nothing", "", 404),
        ("DELETE", "/v1/farm", "", 405),
        ("POST", "/v1/group/promtoe", "{}", 404),
        ("POST", "/v1/group/create", "not json", 400),
        ("POST", "/v1/group/create", r#"{"args":[[]]}"#, 400),
        ("POST", "/v1/group/create", r#"{"args":[]}"#, 400),
        ("POST", "/v1/group/create", r#"{"args":["a/b"]}"#, 400),
        ("POST", "/v1/group/destroy", r#"{"args":["none"]}"#, 409),
        ("GET", "/v1/group/events?arg=%zz", "", 400),
    ];
    for (method, path, body, expected) in cases {
        let (status, answer) = house.send(method, path, TOKEN, body).await;
        assert_eq!(status, expected, "{method} {path} {body}: {answer}");
        let answer = json(&answer);
        let text = |key: &str| answer[key].as_str().unwrap_or_default().to_owned();
        assert!(
            !text("error").is_empty() && !text("cure").is_empty(),
            "{path}: {answer}"
        );
    }
    let long = format!("{{\"args\":[\"{}\"]}}", "x".repeat(20_000));
    assert_eq!(
        house.send("POST", "/v1/group/create", TOKEN, &long).await.0,
        413
    );
    house.end().await;
}

#[tokio::test]
async fn bodies_count_while_they_are_read_and_no_longer() {
    let memory = Arc::new(memory::Budget::new(256 << 10));
    let house = house_with(|settings| settings.memory = Arc::clone(&memory)).await;
    let body = |bytes: usize| "x".repeat(bytes);
    let room = house
        .send("PUT", "/v1/rows/c/a", TOKEN, &body(200_000))
        .await;
    assert_ne!(room.0, 503, "{}", room.1);
    let (status, said) = house
        .send("PUT", "/v1/rows/c/a", TOKEN, &body(300_000))
        .await;
    assert_eq!(status, 503, "{said}");
    assert!(said.contains("memory_bytes_max"), "{said}");
    // A stranger's takes nothing from others.
    let (status, said) = house.send("PUT", "/v1/rows/c/a", "", &body(20_000)).await;
    assert_eq!(status, 413, "{said}");
    // What a client only announces costs nothing.
    let mut slow = TcpStream::connect(house.address).await.expect("it listens");
    let head = format!(
        "PUT /v1/rows/c/a HTTP/1.1\r\nHost: {}\r\n{TOKEN}Content-Length: 900000\r\n\r\nx",
        house.address
    );
    slow.write_all(head.as_bytes()).await.expect("sent");
    let again = house
        .send("PUT", "/v1/rows/c/a", TOKEN, &body(200_000))
        .await;
    assert_eq!(again.0, room.0, "{}", again.1);
    drop(slow);
    house.end().await;
    assert_eq!(memory.reserved(), 0);
}

#[tokio::test]
async fn rows_are_objects_with_their_cas_as_etag() {
    let house = house().await;
    let path = "/v1/rows/c/k%20%C3%BC";
    assert_eq!(house.get(path).await.0, 401);
    let raw = |method: &str, headers: &str, body: &str| {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{TOKEN}\
             Content-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
    };
    let (status, row) = house.send_raw(&raw("GET", "", "")).await;
    assert_eq!(
        (status, json(&row)),
        (200, serde_json::json!({"name": "it", "size": 7}))
    );
    let same = "If-None-Match: \"5\"\r\n";
    assert_eq!(
        house.send_raw(&raw("GET", same, "")).await,
        (304, String::new())
    );
    let body = r#"{"name": "other", "size": null}"#;
    for (headers, status) in [
        ("", 204),
        ("If-Match: \"5\"\r\n", 204),
        ("If-Match: \"4\"\r\n", 412),
        ("If-None-Match: *\r\n", 412),
        ("If-Match: 5\r\n", 400),
    ] {
        let answer = house.send_raw(&raw("PUT", headers, body)).await;
        assert_eq!(answer.0, status, "{headers} {}", answer.1);
    }
    assert_eq!(house.send_raw(&raw("PUT", "", "[1]")).await.0, 400);
    assert_eq!(house.send_raw(&raw("DELETE", "", "")).await.0, 204);
    for (path, status) in [("/v1/rows/c/none", 404), ("/v1/rows/d/k", 404)] {
        assert_eq!(house.send("GET", path, TOKEN, "").await.0, status);
    }
    house.end().await;
}

#[tokio::test]
async fn an_address_in_use_is_said_with_the_cure() {
    let house = house().await;
    let settings = door_http::Settings::new(house.address, "t");
    let again = Door::open(
        settings,
        Arc::clone(&house.control),
        Arc::default(),
        Vec::new(),
        Arc::new(OneRow),
    );
    let error = again.err().expect("in use").to_string();
    assert!(
        error.contains("cannot listen") && error.contains("--http"),
        "{error}"
    );
    house.end().await;
}

#[tokio::test]
async fn idle_connections_do_not_hold_the_shutdown() {
    let house = house().await;
    let mut idle = TcpStream::connect(house.address)
        .await
        .expect("the door is open");
    // One request keeps the connection alive behind it.
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", house.address);
    idle.write_all(request.as_bytes()).await.expect("sent");
    let mut first = [0u8; 12];
    idle.read_exact(&mut first).await.expect("an answer");
    assert_eq!(&first, b"HTTP/1.1 200");
    let began = std::time::Instant::now();
    house.end().await;
    assert!(
        began.elapsed().as_secs() < 2,
        "it waited for an idle client"
    );
}
