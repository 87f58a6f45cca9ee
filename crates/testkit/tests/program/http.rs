//! The HTTP door of a whole router: its metrics; clients who mean ill, and what goes on meanwhile.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use testkit::certificates::{Authority, Pair};
use testkit::network::Network;
use testkit::router::Router;
use testkit::{Client, Farm, Release, wait_until};

/// For what takes a server's end and a change of primary.
const SOON: Duration = Duration::from_secs(60);

/// Half of a request.
const HALF: &str = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ";

/// A connection from this address of the machine.
fn connect(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    let from = SocketAddr::from((from, 0));
    socket.bind(&from.into()).expect("an address of loopback");
    socket.connect(&to.into()).expect("the door is open");
    socket.into()
}

/// So many requests at once on one connection, and no answer is read.
fn greedy(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    let mut stream = connect(from, to);
    stream.set_nonblocking(true).expect("a socket");
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    // The router reads no more of them than it answers.
    let _ = stream.write_all(request.repeat(5000).as_bytes());
    stream
}

/// The metrics that the page of statistics tells of, and their kinds: its rows are marked as gauges, and
/// its head says what becomes of a name in `/metrics`.
fn metrics_of_the_page() -> BTreeMap<String, &'static str> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/STATISTICS.md");
    let page = std::fs::read_to_string(path).expect("the page is there");
    let mut found = BTreeMap::new();
    let mut in_table = false;
    for line in page.lines() {
        in_table = line == "| name | counts |" || (in_table && line.starts_with('|'));
        let cell = line.split('|').nth(1).filter(|_| in_table).unwrap_or("");
        let is_gauge = cell.contains("*gauge*");
        let is_histogram = cell.contains("*histogram*");
        // What stands between a pair of backticks.
        for name in cell.split('`').skip(1).step_by(2) {
            let name = name.split('{').next().unwrap_or(name);
            let stem = name.trim_end_matches("_now").trim_end_matches("_total");
            let metric = match (name.starts_with("heddle_"), is_gauge) {
                (true, _) => name.to_owned(),
                (false, true) => format!("heddle_{stem}"),
                (false, false) => format!("heddle_{stem}_total"),
            };
            let kind = match (is_gauge, is_histogram) {
                (true, _) => "gauge",
                (_, true) => "histogram",
                _ => "counter",
            };
            found.insert(metric, kind);
        }
    }
    found
}

/// The metrics that the dashboard and the alerts name.
fn metrics_of_monitoring() -> Vec<String> {
    let mut names = Vec::new();
    for file in ["grafana/heddle.json", "prometheus/heddle.rules.yml"] {
        let path = format!("{}/../../packaging/{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("the file is there");
        let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        for (at, _) in text.match_indices("heddle_") {
            let rest = &text[at..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            names.push(rest[..end].to_owned());
        }
    }
    names.sort();
    names.dedup();
    names
}

fn a_farm_shows_the_metrics_of_the_page(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let mut stream = connect(Ipv4Addr::LOCALHOST, farm.http);
    let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let types = answer
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let shown: BTreeMap<String, &str> = types.map(|(name, kind)| (name.to_owned(), kind)).collect();
    let named = metrics_of_monitoring();
    assert!(named.len() > 20, "{named:?}");
    for name in &named {
        let of_histogram = ["_bucket", "_sum", "_count"];
        let stem = of_histogram
            .iter()
            .find_map(|suffix| name.strip_suffix(suffix));
        let is_series = |stem: &str| shown.get(stem) == Some(&"histogram");
        let known = shown.contains_key(name) || stem.is_some_and(is_series);
        assert!(known, "packaging/ names {name}, which /metrics has not");
    }
    let mut told = metrics_of_the_page();
    // There are no rules, and no collector of traces.
    for one in ["heddle_rule_matches_total", "heddle_otlp_spans_total"] {
        assert!(told.remove(one).is_some(), "{one}");
    }
    let here = |(name, kind): (&String, &&str)| format!("{name} {kind}");
    let (shown, told): (Vec<_>, Vec<_>) = (
        shown.iter().map(here).collect(),
        told.iter().map(here).collect(),
    );
    let untold: Vec<_> = shown.iter().filter(|one| !told.contains(one)).collect();
    let unshown: Vec<_> = told.iter().filter(|one| !shown.contains(one)).collect();
    assert!(
        untold.is_empty() && unshown.is_empty(),
        "only in /metrics: {untold:#?}\nonly in docs/STATISTICS.md: {unshown:#?}"
    );
}

/// The body of an answer to GET, for who accepts this.
fn got(farm: &Farm, path: &str, accept: &str) -> String {
    let mut stream = connect(Ipv4Addr::LOCALHOST, farm.http);
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    body.to_owned()
}

/// What `promtool` says, and how it ended; `None` where there is none.
fn promtool(words: &[&str], input: &str) -> Option<(String, i32)> {
    let child = Command::new("promtool")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        testkit::skip(&"promtool (Debian: prometheus) is not installed");
        return None;
    };
    let mut stdin = child.stdin.take().expect("piped");
    // It may end before it has read all.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Some((said, output.status.code().unwrap_or(-1)))
}

/// Of `promtool check metrics`: they can be read, and some names are not as it would have them.
const LINTS: i32 = 3;

#[test]
fn what_prometheus_is_given_passes_its_own_checks() {
    let setting = "otlp_url=http://127.0.0.1:1/v1/traces";
    let flags = [
        "--replicas",
        "0",
        "--set",
        setting,
        "--set",
        "otlp_sample=1",
    ];
    let Some(farm) = Farm::start(&flags) else {
        return;
    };
    let mut client = farm.client();
    client.rows("SELECT 1");
    let mut open = String::new();
    wait_until(SOON, "a trace beside a bucket", || {
        open = got(
            &farm,
            "/metrics",
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.5",
        );
        open.contains("# {trace_id=\"")
    });
    assert!(open.ends_with("# EOF\n"), "{open}");
    let line = open
        .lines()
        .find(|line| line.contains("trace_id"))
        .expect("just seen");
    assert!(
        line.starts_with("heddle_statement_seconds_bucket{kind="),
        "{line}"
    );
    assert!(line.contains("group=\"g1\""), "{line}");
    wait_until(SOON, "the delays of the cores", || {
        got(&farm, "/metrics", "*/*").contains("heddle_core_delay_seconds_count{core=\"0\"}")
    });
    let plain = got(&farm, "/metrics", "*/*");
    assert!(!plain.contains("trace_id") && !plain.contains("# EOF"));
    assert!(
        plain.contains("heddle_core_cpu_seconds_total{core=\"0\"} "),
        "{plain}"
    );

    if let Some((said, code)) = promtool(&["check", "metrics"], &plain) {
        assert!(code == 0 || code == LINTS, "{said}");
    }
    let rules = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../packaging/prometheus/heddle.rules.yml"
    );
    if let Some((said, code)) = promtool(&["check", "rules", rules], "") {
        assert_eq!(code, 0, "{said}");
    }
}

fn slow_and_greedy_clients_keep_neither_the_command_line_nor_a_failover(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "1"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE kept");
    client.run("CREATE TABLE kept.t (id INT PRIMARY KEY)");
    let mut held = Vec::new();
    for last in 2..12 {
        let from = Ipv4Addr::new(127, 0, 0, last);
        for _ in 0..60 {
            let mut half = connect(from, farm.http);
            half.write_all(HALF.as_bytes()).expect("sent");
            held.push(half);
        }
    }
    let own = Ipv4Addr::LOCALHOST;
    for _ in 0..80 {
        held.push(greedy(own, farm.http));
    }
    assert_eq!(farm.json(&["manage", "ping"]).len(), 1);

    let before = farm.primary("g1");
    before.signal("KILL");
    wait_until(SOON, "a row on another primary", || {
        let client = Client::connect(farm.sql, "root", "");
        client
            .and_then(|mut client| client.query("REPLACE INTO kept.t VALUES (1)"))
            .is_ok()
    });
    let after = farm.primary("g1");
    assert_ne!(after.name, before.name);
    drop(held);
}

/// `heddle manage ping` at this URL, with these arguments besides.
fn ping(url: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(testkit::farm::heddle());
    command
        .args(["manage", "ping", "--http", url])
        .args(arguments);
    let output = command
        .env_remove("HEDDLE_CA")
        .stdin(Stdio::null())
        .output();
    output.expect("the program can be run")
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_command_line_knows_the_router_by_the_certificate_that_it_made() {
    let router = Router::start("");
    let url = format!("https://{}", router.http);
    let state = router.state_dir().display().to_string();
    let known = ping(&url, &["--data", &state]);
    assert!(known.status.success(), "{}", stderr(&known));
    // Beside plain HTTP, on the same port.
    let plain = ping(&router.http.to_string(), &["--data", &state]);
    assert!(plain.status.success(), "{}", stderr(&plain));
    // Another router's certificate is another one, though it says the same of itself.
    let other = Router::start("");
    let state = other.state_dir().display().to_string();
    let wrong = ping(&url, &["--data", &state]);
    let said = stderr(&wrong);
    assert!(
        !wrong.status.success() && said.contains("another certificate"),
        "{said}"
    );
    let nothing = ping(&url, &["--data", "nowhere"]);
    assert!(stderr(&nothing).contains("--ca"), "{}", stderr(&nothing));
}

#[test]
fn the_operators_certificate_serves_http_and_is_read_anew() {
    let authority = Authority::new("http CA");
    let own = Authority::new("another CA");
    let Pair { certificate, key } = authority.sign("router", &["localhost"]);
    let router = Router::start(&format!(
        "tls_clients = \"off\"\ntls_certificate = {certificate:?}\ntls_key = {key:?}"
    ));
    let port = router.http.port();
    let named = format!("https://localhost:{port}");
    let ca = |authority: &Authority| authority.file().display().to_string();
    let known = ping(&named, &["--ca", &ca(&authority)]);
    assert!(known.status.success(), "{}", stderr(&known));
    // The name in it is another one; another authority has not signed it.
    let wrong = ping(
        &format!("https://127.0.0.1:{port}"),
        &["--ca", &ca(&authority)],
    );
    assert!(!wrong.status.success(), "the name is not looked at");
    let wrong = ping(&named, &["--ca", &ca(&own)]);
    assert!(!wrong.status.success(), "the authority is not looked at");
    let renewed = own.sign("router", &["localhost"]);
    std::fs::copy(&renewed.key, &key).expect("written");
    std::fs::copy(&renewed.certificate, &certificate).expect("written");
    wait_until(SOON, "the new certificate", || {
        ping(&named, &["--ca", &ca(&own)]).status.success()
    });
}

#[test]
fn plain_http_of_another_machine_is_refused_where_tls_is_required() {
    let Some(network) = Network::start() else {
        return;
    };
    let router = Farm::serve_on(network.host(), &["http_tls=required", "admin_user=root"]);
    let data = router.dir().display().to_string();
    let (plain, secure) = (router.http.to_string(), format!("https://{}", router.http));
    let refused = network.within(|| ping(&plain, &["--data", &data]));
    let said = stderr(&refused);
    assert!(said.contains("https://") && said.contains("--ca"), "{said}");
    let served = network.within(|| ping(&secure, &["--data", &data]));
    assert!(served.status.success(), "{}", stderr(&served));
    let own = router.host.within(|| ping(&plain, &["--data", &data]));
    assert!(own.status.success(), "{}", stderr(&own));
}

#[test]
fn without_tls_a_handshake_is_no_request() {
    let router = Router::start("http_tls = \"off\"");
    let state = router.state_dir().display().to_string();
    let url = format!("https://{}", router.http);
    assert!(!ping(&url, &["--data", &state]).status.success());
    assert!(
        ping(&router.http.to_string(), &["--data", "nowhere"])
            .status
            .success()
    );
}

#[test]
fn handshakes_that_go_on_for_ever_are_cut() {
    let router = Router::start("http_header_timeout_s = 1");
    let mut half = connect(Ipv4Addr::LOCALHOST, router.http);
    // The beginning of a record, whose rest does not come.
    half.write_all(&[0x16, 3, 1, 2, 0, 1]).expect("sent");
    half.set_read_timeout(Some(SOON)).expect("a socket");
    assert_eq!(half.read(&mut [0; 8]).ok(), Some(0), "it was closed");
}

testkit::on_both_engines! {
    a_farm_shows_the_metrics_of_the_page,
    slow_and_greedy_clients_keep_neither_the_command_line_nor_a_failover,
}
