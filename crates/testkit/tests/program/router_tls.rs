//! Two routers of one farm on etcd, as programs: what they ask each other goes through a relay that records it,
//! works, and shows nobody on the way what they know.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::etcd::Etcd;
use testkit::farm::Farm;
use testkit::server::Release;
use testkit::{Client, Server, wait_until};

const SOON: Duration = Duration::from_secs(30);

/// The first byte of TLS.
const TLS_HANDSHAKE: u8 = 0x16;

/// A way to a router's HTTP door that writes down what it carries.
struct Relay {
    address: SocketAddr,
    target: Arc<OnceLock<SocketAddr>>,
    /// For each connection what its two ends have sent.
    carried: Arc<Mutex<Vec<[Vec<u8>; 2]>>>,
}

impl Relay {
    fn start() -> Relay {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let relay = Relay {
            address: listener.local_addr().expect("bound"),
            target: Arc::default(),
            carried: Arc::default(),
        };
        let (target, carried) = (Arc::clone(&relay.target), Arc::clone(&relay.carried));
        thread::spawn(move || {
            // Who asks before waits in the kernel.
            let target = *target.wait();
            for asking in listener.incoming().map_while(Result::ok) {
                let Ok(asked) = TcpStream::connect(target) else {
                    continue;
                };
                let at = {
                    let mut carried = lock(&carried);
                    carried.push(Default::default());
                    carried.len() - 1
                };
                let both = [
                    (asking.try_clone(), asked.try_clone()),
                    (Ok(asked), Ok(asking)),
                ];
                for (end, (from, to)) in both.into_iter().enumerate() {
                    let carried = Arc::clone(&carried);
                    let (from, to) = (from.expect("a socket"), to.expect("a socket"));
                    thread::spawn(move || {
                        carry(from, to, |bytes| {
                            lock(&carried)[at][end].extend_from_slice(bytes);
                        })
                    });
                }
            }
        });
        relay
    }

    /// Everything that its connections carried, and what began each of them.
    fn carried(&self) -> (Vec<u8>, Vec<u8>) {
        let carried = lock(&self.carried);
        let all = carried.iter().flatten().flatten().copied().collect();
        let firsts = carried.iter().filter_map(|[asking, _]| asking.first());
        (all, firsts.copied().collect())
    }
}

fn lock<T>(kept: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Carries bytes one way until an end is closed.
fn carry(mut from: TcpStream, mut to: TcpStream, mut note: impl FnMut(&[u8])) {
    let mut buffer = [0; 65_536];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        note(&buffer[..bytes]);
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|part| part == text.as_bytes())
}

/// The value of a key of the store.
fn kept(router: &Farm, key: &str) -> String {
    let rows = router.json(&["meta", "export"]);
    let row = rows.iter().find(|row| row["key"] == key);
    let value = row.and_then(|row| row["value"].as_str());
    value.unwrap_or_else(|| panic!("no key {key}")).to_owned()
}

#[test]
fn what_routers_ask_each_other_is_read_by_nobody_on_the_way() {
    let Some(store) = Etcd::start(1) else { return };
    let own = [("innodb_flush_log_at_trx_commit", "2")];
    let Some(server) = Server::start_with(Release::Installed, &own) else {
        return;
    };
    let etcd = format!("etcd={}", store.urls());
    let relays = [Relay::start(), Relay::start()];
    let mut number = 0;
    let routers = [&relays[0], &relays[1]].map(|relay| {
        number += 1;
        let name = format!("router_name=r{number}");
        let url = format!("peer_url=http://{}", relay.address);
        let router = Farm::serve(&[&etcd, &name, &url, "log_level=trace"]);
        relay.target.set(router.http).expect("once");
        router
    });
    routers[0].json(&["group", "create", "g1"]);
    routers[0].json(&["group", "add", "g1", &server.address().to_string()]);

    // The clients of both, from each of them.
    let mut clients = [&routers[0], &routers[1]].map(|router| {
        wait_until(SOON, "a router that knows the farm", || {
            Client::connect(router.sql, "root", "").is_ok()
        });
        router.client()
    });
    let ids = [0, 1].map(|at: usize| clients[at].value("SELECT CONNECTION_ID()"));
    for router in &routers {
        for (id, name) in ids.iter().zip(["r1", "r2"]) {
            let is_it =
                |row: &Value| row["id"].as_u64() == id.parse().ok() && row["router"] == name;
            // The other router of a busy machine may answer too late for one list.
            wait_until(SOON, &format!("{id} on {name}"), || {
                router.json(&["session", "list"]).iter().any(is_it)
            });
        }
    }
    // A change at the router that does not lead is made by the one that does.
    for (at, router) in routers.iter().enumerate() {
        router.json(&["group", "create", &format!("made_at_{at}")]);
    }
    // A session of the other router is ended.
    let [near, far] = &mut clients;
    near.run(&format!("KILL {}", ids[1]));
    wait_until(SOON, "the end of the session", || {
        far.query("SELECT 1").is_err()
    });

    let (secret, authority) = (
        kept(&routers[0], "/farm/secret"),
        kept(&routers[0], "/farm/authority"),
    );
    let secret: String = serde_json::from_str(&secret).expect("a text");
    let authority: Value = serde_json::from_str(&authority).expect("a record");
    let key = authority["key"].as_str().expect("PEM");
    let key = key.lines().nth(1).expect("the key itself");
    for (relay, router) in relays.iter().zip(&routers) {
        let (all, firsts) = relay.carried();
        assert!(!firsts.is_empty(), "nobody asked: {:?}", router.lines());
        assert!(firsts.iter().all(|first| *first == TLS_HANDSHAKE));
        for text in [&*secret, key, "HTTP/1.1", "Bearer", "made_at_", "root"] {
            assert!(!holds(&all, text), "{text:?} went over the network");
        }
        let said = router.stderr();
        assert!(!said.contains(&secret) && !said.contains(key), "{said}");
    }
}
