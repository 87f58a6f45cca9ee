//! Spans as a collector receives them, by OTLP/HTTP: of statements on several groups, too; and a collector that
//! hangs costs nothing.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use testkit::{Farm, wait_until};

/// For what another process sends.
const SOON: Duration = Duration::from_secs(30);

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// Takes requests of OTLP/HTTP. Its threads end with the test's process.
struct Collector {
    address: SocketAddr,
    /// Of each request the path, the headers and the body.
    requests: Arc<Mutex<Vec<[String; 3]>>>,
    /// Requests are read and not answered any more.
    hangs: Arc<AtomicBool>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let collector = Collector {
            address: listener.local_addr().expect("its address"),
            requests: Arc::default(),
            hangs: Arc::default(),
        };
        let (requests, hangs) = (collector.requests.clone(), collector.hangs.clone());
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let (requests, hangs) = (requests.clone(), hangs.clone());
                std::thread::spawn(move || serve(client, &requests, &hangs));
            }
        });
        collector
    }

    /// All spans so far.
    fn spans(&self) -> Vec<Value> {
        let requests = self.requests.lock().expect("not poisoned");
        let mut all = Vec::new();
        for [_, _, body] in requests.iter() {
            let body: Value = serde_json::from_str(body).expect("JSON");
            let scopes = &body["resourceSpans"][0]["scopeSpans"];
            all.extend(scopes[0]["spans"].as_array().expect("a list").clone());
        }
        all
    }
}

/// Until the client or what it sends ends.
fn serve(client: TcpStream, requests: &Mutex<Vec<[String; 3]>>, hangs: &AtomicBool) -> Option<()> {
    let mut answers = client.try_clone().ok()?;
    let mut reader = BufReader::new(client);
    loop {
        let (mut line, mut head) = (String::new(), String::new());
        reader
            .read_line(&mut line)
            .ok()
            .filter(|bytes| *bytes > 0)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader
                .read_line(&mut header)
                .ok()
                .filter(|bytes| *bytes > 0)?;
            let header = header.trim_end().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(number) = header.strip_prefix("content-length:") {
                length = number.trim().parse().ok()?;
            }
            head.push_str(&header);
            head.push('\n');
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        let path = line.split(' ').nth(1)?.to_owned();
        let body = String::from_utf8(body).ok()?;
        requests.lock().ok()?.push([path, head, body]);
        if hangs.load(Ordering::SeqCst) {
            let _ = reader.read(&mut [0]);
            return None;
        }
        let answer =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        answers.write_all(answer.as_bytes()).ok()?;
    }
}

fn get(http: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(http).expect("it listens");
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    answer
}

fn attribute<'a>(span: &'a Value, key: &str) -> Option<&'a str> {
    let all = span["attributes"].as_array()?;
    let value = &all.iter().find(|it| it["key"] == key)?["value"];
    value["stringValue"].as_str().or(value["intValue"].as_str())
}

/// The spans right below this one.
fn below<'a>(spans: &'a [Value], of: &Value) -> Vec<&'a Value> {
    let is_below = |span: &&Value| span["parentSpanId"] == of["spanId"];
    spans.iter().filter(is_below).collect()
}

#[test]
fn a_collector_is_told_and_one_that_hangs_costs_nothing() {
    let collector = Collector::start();
    let url = format!("otlp_url=http://{}", collector.address);
    let flags = ["--groups", "2", "--replicas", "0", "--set", &url];
    let more = [
        "--set",
        "otlp_headers=api-key=geheim",
        "--set",
        "otlp_sample=0",
    ];
    let Some(mut farm) = Farm::start(&[&flags[..], &more].concat()) else {
        return;
    };
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, note VARCHAR(20)) \
         /*heddle shard_map=shop shard_key=id*/",
    );
    let values: Vec<String> = (0..40).map(|id| format!("({id}, 'n')")).collect();
    client.run(&format!("INSERT INTO orders VALUES {}", values.join(", ")));
    assert!(collector.spans().is_empty(), "nobody said that it traces");
    let traced = format!("/*traceparent='00-{TRACE}-{PARENT}-01'*/");
    client.rows(&format!(
        "SELECT id, 'literal' FROM orders WHERE note <> 'literal' {traced}"
    ));
    let gathered = format!(
        "SELECT COUNT(*) FROM orders a JOIN orders b ON a.note = b.note AND a.id < b.id {traced}"
    );
    client.rows(&gathered);
    let of_trace = || {
        let mut spans = collector.spans();
        spans.retain(|span| span["traceId"] == TRACE);
        spans
    };
    let roots = |spans: &[Value]| -> Vec<Value> {
        let is_root = |span: &&Value| span["parentSpanId"] == PARENT;
        spans.iter().filter(is_root).cloned().collect()
    };
    wait_until(SOON, "both statements at the collector", || {
        roots(&of_trace()).len() == 2
    });
    let spans = of_trace();
    let both = roots(&spans);
    the_select_ran_on_both_groups(&spans, &both[0]);
    the_join_was_gathered(&spans, &both[1]);
    requests_are_as_they_should_be(&collector);
    let sent = "heddle_otlp_spans_total{result=\"sent\"}";
    wait_until(SOON, "spans are counted", || {
        let metrics = get(farm.http, "/metrics");
        let line = metrics.lines().find_map(|line| line.strip_prefix(sent));
        line.and_then(|count| count.trim().parse().ok()) == Some(spans.len())
    });

    collector.hangs.store(true, Ordering::SeqCst);
    let before = collector.requests.lock().expect("not poisoned").len();
    for id in 0..40 {
        client.rows(&format!("SELECT note FROM orders WHERE id = {id} {traced}"));
        if id == 0 {
            wait_until(SOON, "a request that hangs", || {
                collector.requests.lock().expect("not poisoned").len() > before
            });
        }
    }
    drop(client);
    assert!(farm.stop().success());
}

fn the_select_ran_on_both_groups(spans: &[Value], root: &Value) {
    assert_eq!(
        (&root["name"], &root["kind"]),
        (&"SELECT orders".into(), &2.into())
    );
    assert_eq!(attribute(root, "db.namespace"), Some("shop"));
    assert_eq!(attribute(root, "heddle.group"), Some("*"));
    let groups = below(spans, root)
        .into_iter()
        .find(|span| span["name"] == "groups");
    let parts = below(spans, groups.expect("it ran on several"));
    let mut of: Vec<_> = parts
        .iter()
        .filter_map(|part| attribute(part, "heddle.group"))
        .collect();
    of.sort_unstable();
    assert_eq!(of, ["g1", "g2"], "{parts:?}");
    for part in parts {
        assert_eq!(
            (&part["kind"], &part["name"]),
            (&3.into(), &"SELECT orders".into())
        );
        assert!(attribute(part, "server.port").is_some_and(|port| port.parse::<u16>().is_ok()));
        assert!(attribute(part, "db.system.name").is_some());
    }
}

fn the_join_was_gathered(spans: &[Value], root: &Value) {
    let below_root = below(spans, root);
    let fetches = below_root.iter().filter(|span| span["name"] == "groups");
    assert!(fetches.count() >= 1, "{below_root:?}");
    let last = below_root.iter().rfind(|span| span["kind"] == 3);
    assert!(last.is_some(), "the scratch server worked: {below_root:?}");
}

fn requests_are_as_they_should_be(collector: &Collector) {
    for [path, head, body] in collector.requests.lock().expect("not poisoned").iter() {
        assert_eq!(path, "/v1/traces");
        assert!(
            head.contains("api-key: geheim") && head.contains("application/json"),
            "{head}"
        );
        assert!(!body.contains("literal"), "{body}");
    }
}
