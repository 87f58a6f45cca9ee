//! The PROXY protocol at the doors: where a load balancer says that its client is counts for everything
//! that asks where a client comes from, and nobody else may say so.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use testkit::client::{Failure, Login};
use testkit::network::connect_from;
use testkit::raw::Raw;
use testkit::{Client, Farm, Release, Server, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the load balancer is.
const BALANCER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

/// 203.0.113.7:4711, in version 2, with an extension behind the addresses.
const BINARY: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x11\xcb\x00\x71\x07\xc0\x00\x02\x01\x12\x67\x0c\xea\x04\x00\x02ab";
const TEXT: &[u8] = b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 3306\r\n";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00";

/// A router behind the balancer, and its server, which has `app` for 203.0.113.% and for the router.
fn farm(settings: &[&str]) -> Option<(Farm, Server)> {
    let server = Server::start(Release::Installed)?;
    let balancer = format!("proxy_protocol_networks={BALANCER}/32,2001:db8::/32");
    let farm = Farm::serve(&[&[&*balancer], settings].concat());
    farm.json(&["group", "create", "g"]);
    farm.json(&["group", "add", "g", &server.address().to_string()]);
    let mut root = server.client();
    root.run("CREATE DATABASE d");
    root.run("CREATE TABLE d.t (k VARCHAR(50) PRIMARY KEY, v VARCHAR(50))");
    for host in ["203.0.113.%", "127.0.0.1"] {
        root.run(&format!("CREATE USER app@'{host}' IDENTIFIED BY 'secret'"));
        root.run(&format!("GRANT ALL ON d.* TO app@'{host}'"));
    }
    wait_until(PATIENCE, "the account is known", || {
        Client::login(farm.sql, &app(TEXT)).is_ok()
    });
    Some((farm, server))
}

/// `app`, through the balancer.
fn app(preface: &[u8]) -> Login<'_> {
    Login {
        user: "app",
        password: "secret",
        from: Some(BALANCER),
        preface,
        ..Login::default()
    }
}

#[track_caller]
fn refused(answer: Result<Client, Failure>) -> (u16, String) {
    match answer {
        Err(failure @ Failure::Server { .. }) => (failure.number(), failure.to_string()),
        Err(other) => panic!("expected a refusal, got {other:?}"),
        Ok(_) => panic!("expected a refusal"),
    }
}

/// Where the sessions of this user are, as `session list` shows them.
fn clients(farm: &Farm, user: &str) -> Vec<String> {
    let rows = farm.json(&["session", "list"]);
    let own = rows.iter().filter(|row| row["user"] == user);
    let client = |row: &serde_json::Value| row["client"].as_str().unwrap_or_default().to_owned();
    own.map(client).collect()
}

fn counter(farm: &Farm, name: &str) -> u64 {
    let mut root = farm.client();
    let rows = root.rows(&format!("HEDDLE STATUS LIKE '{name}'"));
    let value = rows.first().and_then(|row| row[1].clone());
    value
        .and_then(|value| value.parse().ok())
        .expect("a counter")
}

#[test]
fn sql_clients_are_where_the_balancer_says() {
    let Some((farm, _server)) = farm(&["login_failures=2"]) else {
        return;
    };
    for preface in [BINARY, TEXT] {
        let mut client = Client::login(farm.sql, &app(preface)).expect("logged in");
        assert_eq!(client.value("SELECT 1"), "1");
        assert_eq!(clients(&farm, "app"), ["203.0.113.7:4711"]);
        client.quit();
        wait_until(PATIENCE, "it has gone", || clients(&farm, "app").is_empty());
    }
    // Without a header, and with one of its own, the balancer is itself: it has no account.
    for preface in [&b""[..], LOCAL, b"PROXY UNKNOWN\r\n"] {
        let (number, text) = refused(Client::login(farm.sql, &app(preface)));
        assert_eq!(number, 1045, "{text}");
    }
    sql_headers_that_do_not_count(&farm);
    // Guesses count for the client, not for the balancer.
    let guess = Login {
        password: "wrong",
        ..app(b"PROXY TCP4 203.0.113.8 192.0.2.1 1 3306\r\n")
    };
    for _ in 0..2 {
        assert_eq!(refused(Client::login(farm.sql, &guess)).0, 1045);
    }
    let (number, text) = refused(Client::login(farm.sql, &guess));
    assert_eq!(number, 1129, "{text}");
    assert!(text.contains("203.0.113.8"), "{text}");
    Client::login(farm.sql, &app(TEXT)).expect("others have to wait for nobody");
    assert!(counter(&farm, "proxy_headers") > 5);
}

fn sql_headers_that_do_not_count(farm: &Farm) {
    let foreign = Login {
        from: None,
        ..app(TEXT)
    };
    let before = counter(farm, "proxy_headers_refused");
    let (number, text) = refused(Client::login(farm.sql, &foreign));
    assert_eq!(number, 1130, "{text}");
    assert!(
        text.contains("Proxy header is not accepted from 127.0.0.1"),
        "{text}"
    );
    let (number, text) = refused(Client::login(farm.sql, &app(b"PROXY TCP4 nowhere\r\n")));
    assert_eq!(number, 1043, "{text}");
    let mut cut = BINARY.to_vec();
    cut[15] = 0x0b;
    assert_eq!(refused(Client::login(farm.sql, &app(&cut))).0, 1043);
    assert_eq!(counter(farm, "proxy_headers_refused"), before + 3);
    assert!(farm.stderr().contains("name it in proxy_protocol_networks"));
}

/// Half a header is waited for as long as half a login is.
#[test]
fn a_header_has_the_time_of_a_login() {
    let Some((farm, _server)) = farm(&["handshake_timeout_s=1"]) else {
        return;
    };
    for half in [&TEXT[..20], &BINARY[..20], b""] {
        let mut stream = connect_from(BALANCER, farm.sql).expect("the door listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.write_all(half).expect("sent");
        let mut said = Vec::new();
        stream.read_to_end(&mut said).expect("closed by the door");
        let said = String::from_utf8_lossy(&said);
        assert!(said.contains("Got timeout reading"), "{said}");
    }
    // One that comes in pieces is taken.
    let mut stream = connect_from(BALANCER, farm.sql).expect("the door listens");
    stream.write_all(&BINARY[..7]).expect("sent");
    stream.set_nodelay(true).expect("a socket");
    stream.write_all(&BINARY[7..]).expect("sent");
    drop(stream);
    Client::login(farm.sql, &app(BINARY)).expect("logged in");
}

fn kv(farm: &Farm, preface: &[u8]) -> Raw {
    let stream = connect_from(BALANCER, farm.kv).expect("the door listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let mut raw = Raw(stream);
    raw.say(preface);
    raw
}

#[test]
fn kv_clients_are_where_the_balancer_says() {
    let Some((farm, _server)) = farm(&[]) else {
        return;
    };
    for preface in [BINARY, TEXT] {
        let mut raw = kv(&farm, preface);
        raw.asks("set auth 0 0 10\r\napp secret\r\n", "STORED\r\n");
        assert_eq!(clients(&farm, "app"), ["203.0.113.7:4711"]);
        raw.asks("mn\r\n", "MN\r\n");
        drop(raw);
        wait_until(PATIENCE, "it has gone", || clients(&farm, "app").is_empty());
    }
    let mut raw = kv(&farm, LOCAL);
    raw.asks(
        "set auth 0 0 10\r\napp secret\r\n",
        "CLIENT_ERROR authentication failure\r\n",
    );
    let mut raw = Raw::connect(farm.kv);
    raw.say(TEXT);
    raw.hears("CLIENT_ERROR Proxy header is not accepted from 127.0.0.1\r\n");
    raw.is_closed();
    let mut raw = kv(&farm, b"PROXY TCP4 nowhere\r\n");
    assert!(raw.line().starts_with("CLIENT_ERROR Bad handshake"));
    raw.is_closed();
}

#[test]
fn http_clients_may_come_through_the_balancer() {
    let Some((farm, _server)) = farm(&["metrics_public=on", "http_address_connections_max=1"])
    else {
        return;
    };
    let ask = |from: Ipv4Addr, preface: &[u8]| {
        let mut stream = connect_from(from, farm.http).expect("the door listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        stream.write_all(preface).expect("sent");
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let _ = stream.write_all(request);
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        String::from_utf8_lossy(&said).into_owned()
    };
    for preface in [BINARY, TEXT, LOCAL, b""] {
        let said = ask(BALANCER, preface);
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
    let said = ask(Ipv4Addr::LOCALHOST, TEXT);
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    assert!(said.contains("proxy_protocol_networks"), "{said}");
    let said = ask(BALANCER, b"PROXY TCP4 nowhere\r\n");
    assert!(said.starts_with("HTTP/1.1 400"), "{said}");
    // Each of the balancer's clients has the places of its own address.
    let held: Vec<_> = [1, 2, 3]
        .map(|host| {
            let preface = format!("PROXY TCP4 203.0.113.{host} 192.0.2.1 1 80\r\n");
            let mut stream = connect_from(BALANCER, farm.http).expect("the door listens");
            stream.write_all(preface.as_bytes()).expect("sent");
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\n")
                .expect("sent");
            stream
        })
        .into();
    for mut stream in held {
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let rest = b"Host: localhost\r\nConnection: close\r\n\r\n";
        stream.write_all(rest).expect("it was not displaced");
        let mut said = String::new();
        stream.read_to_string(&mut said).expect("an answer");
        assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    }
}
