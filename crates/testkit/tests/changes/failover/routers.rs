//! Streams and subscriptions over several routers: whose router is killed goes on at another one, nothing is lost, and
//! nothing comes twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread::JoinHandle;

use serde_json::Value;
use testkit::failover::site::Site;
use testkit::{Client, Farm, Release, grow_rows, wait_until};

use super::deaths::{apply, there};
use crate::reading::{SOON, Stream};

/// Deaths of routers: each of the two dies several times.
const DEATHS: usize = 4;

/// Rows that each consumer reads at a router before that dies.
const ROWS: usize = 40;

/// Rows of one statement, so that streams break off within transactions, too.
const TOGETHER: i64 = 5;

/// What one consumer has, and with which query it goes on.
struct Consumer {
    query: &'static str,
    stream: Stream,
    table: BTreeMap<i64, i64>,
    /// Of a subscription: what it had when it acknowledged last.
    durable: Option<BTreeMap<i64, i64>>,
}

impl Consumer {
    fn start(farm: &Farm, query: &'static str) -> Consumer {
        let is_named = query.starts_with("subscription=");
        let stream = match is_named {
            true => Stream::open(farm, query),
            false => Stream::now(farm, query),
        };
        Consumer {
            query,
            stream,
            table: BTreeMap::new(),
            durable: is_named.then(BTreeMap::new),
        }
    }

    /// Takes an event; true for a row.
    fn take(&mut self, event: &Value) -> bool {
        let name = event["event"].as_str().expect("a name");
        assert!(!["gap", "undone", "error"].contains(&name), "{event}");
        let is_row = name == "row" && event["table"] == "t";
        if is_row {
            apply(&mut self.table, event);
        }
        is_row
    }

    fn read_rows(&mut self, count: usize) {
        let mut rows = 0;
        while rows < count {
            let event = self.stream.next().expect("the router lives");
            rows += usize::from(self.take(&event));
        }
    }

    /// Has what was read so far for good, as a subscription's consumer does; at whichever router takes it.
    fn acknowledge(&mut self, site: &Site) {
        let Some(durable) = &mut self.durable else {
            return;
        };
        wait_until(SOON, "it is acknowledged", || {
            let ack = ["subscription", "ack", "index", &*self.stream.token];
            site.command(&ack).status.success()
        });
        durable.clone_from(&self.table);
    }

    /// Takes what a router that is dead had sent, and goes on at another one. What a subscription's consumer has not
    /// acknowledged is lost with it.
    fn go_on(&mut self, farm: &Farm) {
        while let Some(event) = self.stream.try_next() {
            self.take(&event);
        }
        if let Some(durable) = &self.durable {
            self.table.clone_from(durable);
            self.stream = Stream::open(farm, self.query);
            return;
        }
        let token = self.stream.token.clone();
        self.stream = Stream::behind(farm, &token, self.query);
        self.stream.token = token;
    }

    fn read_to_the_end(&mut self) {
        loop {
            let event = self.stream.next().expect("the router lives");
            if event["event"] == "row" && event["table"] == "last" {
                return;
            }
            self.take(&event);
        }
    }
}

/// Clients of both routers, which write as long as their routers live.
struct Writers {
    stop: Arc<AtomicBool>,
    all: Vec<JoinHandle<()>>,
}

impl Writers {
    fn start(site: &Site) -> Writers {
        let stop = Arc::<AtomicBool>::default();
        let mut all = Vec::new();
        for (writer, router) in (0..).zip(&site.routers) {
            let (address, over) = (router.sql, Arc::clone(&stop));
            let done = Arc::<AtomicUsize>::default();
            all.push(std::thread::spawn(move || {
                grow_rows(address, writer, &over, &done)
            }));
            let over = Arc::clone(&stop);
            all.push(std::thread::spawn(move || {
                insert_together(address, 10 + writer, &over)
            }));
        }
        Writers { stop, all }
    }

    fn stop(self) {
        self.stop.store(true, Relaxed);
        for writer in self.all {
            writer.join().expect("it writes");
        }
    }
}

/// Inserts rows by statements of several, until it is stopped.
fn insert_together(farm: std::net::SocketAddr, writer: i64, stop: &AtomicBool) {
    let mut client = None;
    let mut next = writer * 1_000_000;
    while !stop.load(Relaxed) {
        let Some(open) = client.as_mut() else {
            client = testkit::connect_unless(stop, || Client::connect(farm, "root", "").ok());
            continue;
        };
        let rows: Vec<String> = (next..next + TOGETHER)
            .map(|id| format!("({id}, 0)"))
            .collect();
        next += TOGETHER;
        let sql = format!("INSERT INTO d.t VALUES {}", rows.join(", "));
        if open.query(&sql).is_err() {
            client = None;
        }
    }
}

fn a_stream_goes_on_at_another_router(release: Release) {
    let Some(mut site) = Site::with_two_routers(release, &[]) else {
        return;
    };
    site.settle().expect("the group becomes whole");
    let mut client = site.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY, v INT)");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    wait_until(SOON, "the subscription is there", || {
        let create = ["subscription", "create", "index", "--databases", "d"];
        site.command(&create).status.success()
    });
    let queries = [
        "database=d",
        "database=d&order=global",
        "subscription=index",
    ];
    let mut consumers = queries.map(|query| Consumer::start(&site.routers[0], query));
    let writers = Writers::start(&site);
    for death in 0..DEATHS {
        let (dies, other) = (death % 2, 1 - death % 2);
        for consumer in &mut consumers {
            consumer.read_rows(ROWS);
            consumer.acknowledge(&site);
            // What is not acknowledged, and ends within a transaction for some of them.
            consumer.read_rows(ROWS / 2 + death);
        }
        site.routers[dies].kill_up();
        for consumer in &mut consumers {
            consumer.go_on(&site.routers[other]);
        }
        site.routers[dies].start_again();
    }
    for consumer in &mut consumers {
        consumer.read_rows(ROWS);
    }
    writers.stop();
    wait_until(SOON, "the last row", || {
        let client = Client::connect(site.routers[0].sql, "root", "");
        client
            .and_then(|mut client| client.query("INSERT INTO d.last VALUES (1)"))
            .is_ok()
    });
    let there = there(&site.routers[0]);
    assert!(there.len() > DEATHS * ROWS / 3, "{}", there.len());
    for consumer in &mut consumers {
        consumer.read_to_the_end();
        assert!(
            consumer.table == there,
            "{}: {:?}",
            consumer.query,
            differences(&consumer.table, &there)
        );
    }
}

/// The rows that one of the two has otherwise.
fn differences(
    told: &BTreeMap<i64, i64>,
    there: &BTreeMap<i64, i64>,
) -> Vec<(i64, Option<i64>, Option<i64>)> {
    let ids = told.keys().chain(there.keys());
    let both = ids.map(|id| (*id, told.get(id).copied(), there.get(id).copied()));
    both.filter(|(_, told, there)| told != there).collect()
}

testkit::on_both_engines! {
    a_stream_goes_on_at_another_router,
}
