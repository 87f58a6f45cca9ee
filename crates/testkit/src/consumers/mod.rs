//! Consumers of a farm's changes, while everything dies: routers, primaries, appliers, targets, receivers, and while rows
//! move between groups.
//!
//! Clients write versioned rows by transactions over three groups. Streams in one order over all groups, a stream of each
//! group's changes, a subscription, `heddle apply`, a webhook and files each make a copy of the farm ([`copy`]). Now and
//! then the clients stand still, and each copy has to be the farm.

mod applier;
mod consumer;
mod copy;
mod course;
mod delivery;
mod gaps;
mod load;
mod planted;
mod rounds;
mod strike;
mod verdict;

pub use consumer::Access;
pub use copy::{Copy, Place, Row, Told};
pub use planted::{Planted, plant};
pub use rounds::{mistakes_are_found, prove};
pub use strike::{Kind, Struck};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::client::{Client, Failure, Reply};
use crate::failover::load::Dice;
use crate::farm::{Farm, Member};
use crate::{Release, holds_within, wait_until};

use applier::Applier;
use consumer::{Consumer, Memory};
use course::Course;
use delivery::{Files, Webhook};

/// Clients that write.
const CLIENTS: u64 = 6;

const GROUPS: [&str; 3] = ["g1", "g2", "g3"];

/// Rows of each table of accounts, and what each of them has at first.
const ACCOUNTS: u64 = 40;
const START: i64 = 1000;

/// Rows of the global table.
const RATES: u64 = 4;

/// Rows by which a consumer knows that it has everything; there are some in each group.
const BEACONS: u64 = 24;
const BEACON: &str = "bank.beacon";

/// The global table, of which each group has all rows.
const GLOBAL: &str = "bank.rate";

/// The table whose rows move, and its map.
const MOVED: &str = "roam.account";
const MOVED_MAP: &str = "roam";

/// For what a loaded machine must do before the proof can go on.
const PATIENCE: Duration = Duration::from_secs(120);

/// The tables, each with its columns; the first so many of them are the key.
const TABLES: [(&str, &[&str], usize); 5] = [
    ("bank.account", &["id", "v", "money", "tx", "n", "pad"], 1),
    ("bank.entry", &["account", "id", "tx", "n"], 2),
    (GLOBAL, &["id", "v", "tx", "n"], 1),
    (BEACON, &["id", "number"], 1),
    (MOVED, &["id", "v", "money", "tx", "n", "pad"], 1),
];

/// The farm, its consumers, and its load.
pub struct Proof {
    pub farm: Farm,
    at: Access,
    course: Arc<Course>,
    consumers: Vec<Arc<Consumer>>,
    applier: Applier,
    webhook: Webhook,
    files: Files,
    threads: Vec<JoinHandle<()>>,
    /// The beacon that was written last.
    beacon: u64,
    /// Gaps that consumers were told of, and that are there.
    gaps: u64,
}

impl Proof {
    /// A farm of three groups with a replica each, and everybody at work; or says why the test is skipped.
    ///
    /// # Panics
    /// When something does not start.
    pub fn open(release: Release, seed: u64) -> Option<Proof> {
        let farm = farm(release)?;
        let at = access(&farm);
        let course = Arc::new(Course::default());
        let rows = rows_of(&farm).expect("every group has a primary");
        let copy = |told| Copy::new(told, &rows);
        let applier = Applier::start(release, &at, farm.dir().join("apply.log"))?;
        let json = |words: &[&str]| {
            at.json(words)
                .unwrap_or_else(|why| panic!("{words:?}: {why}"))
        };
        let filter = ["--databases", "bank,roam", "--order", "global"];
        let webhook = Webhook::start(copy(Told::InOrder), &course);
        let url = webhook.receiver.url();
        json(&[&["sink", "create", "hook", &*url][..], &filter].concat());
        let words = [
            "sink",
            "create",
            "out",
            "file:out",
            "--databases",
            "bank,roam",
        ];
        json(&[&words[..], &["--rotate_bytes", "300000"]].concat());
        let files = Files::new(farm.dir().join("sinks").join("out"), copy(Told::ByGroup));
        json(&[&["subscription", "create", "durable"][..], &filter].concat());
        let shown = json(&["subscription", "show", "durable"]);
        let acknowledged = shown[0]["token"].as_str().expect("a token").to_owned();
        let of_databases = "database=bank&database=roam";
        let in_order = format!("order=global&{of_databases}");
        let subscription = Memory::Subscription("durable".to_owned());
        let consumers = [
            ("steady", &*in_order, Memory::Steady, Told::InOrder),
            ("restless", &*in_order, Memory::Token, Told::InOrder),
            ("as one", &*in_order, Memory::Token, Told::AsOne),
            ("by group", of_databases, Memory::Token, Told::ByGroup),
            ("subscription", "", subscription, Told::InOrder),
        ];
        let consumers = consumers.map(|(name, query, memory, told)| {
            let token = match query {
                "" => acknowledged.clone(),
                query => consumer::token_now(&at, query),
            };
            Arc::new(Consumer::new(name, query, memory, copy(told), &token))
        });
        wait_until(PATIENCE, "the applier has read what there is", || {
            applier.has_read()
        });
        let mut threads = load::start(farm.sql, seed, &course);
        for (number, consumer) in (100..).zip(&consumers) {
            let dice = Dice::new(seed ^ number);
            threads.push(consumer::start(consumer, &at, &course, dice));
        }
        Some(Proof {
            farm,
            at,
            course,
            consumers: consumers.to_vec(),
            applier,
            webhook,
            files,
            threads,
            beacon: 0,
            gaps: 0,
        })
    }

    /// Waits until clients have had so many transactions acknowledged.
    fn goes_on(&self, transactions: u64) {
        if let Some(why) = self.applier.audit() {
            self.course.complain(why);
        }
        let before = self.course.count.load(Relaxed);
        let goes = holds_within(PATIENCE, || {
            self.course.count.load(Relaxed) >= before + transactions
        });
        if !goes {
            let text = format!("clients do not go on within {PATIENCE:?}");
            self.course.complain(text);
        }
    }
}

impl Drop for Proof {
    fn drop(&mut self) {
        self.course.end();
        for thread in self.threads.drain(..) {
            // What it panicked with was said.
            let _ = thread.join();
        }
    }
}

/// The farm with its tables.
fn farm(release: Release) -> Option<Farm> {
    let mut flags = vec!["--groups", "3", "--replicas", "1"];
    flags.extend(["--set", "cross_lock_wait_ms=1000"]);
    flags.extend(release.xa_flags());
    let farm = Farm::start_on(release, &flags)?;
    let mut root = farm.client();
    root.set_patience(PATIENCE).expect("a socket");
    for map in ["bank", MOVED_MAP] {
        root.rows(&format!("HEDDLE sharding create_definition SLOTS g1 {map}"));
        root.rows(&format!(
            "HEDDLE sharding add_shard {map} 'g1,g2,g3' ENABLED"
        ));
        root.run(&format!("CREATE DATABASE {map}"));
    }
    let account = "id BIGINT PRIMARY KEY, v BIGINT NOT NULL, money BIGINT NOT NULL, tx BIGINT NOT NULL, \
                   n BIGINT NOT NULL, pad VARCHAR(200) NOT NULL";
    for map in ["bank", MOVED_MAP] {
        root.run(&format!(
            "CREATE TABLE {map}.account ({account}) /*heddle shard_map={map} shard_key=id*/"
        ));
        for id in 0..ACCOUNTS {
            root.run(&format!(
                "INSERT INTO {map}.account VALUES ({id}, 0, {START}, 0, 0, REPEAT('x', 100))"
            ));
        }
    }
    root.run(
        "CREATE TABLE bank.entry (account BIGINT NOT NULL, id BIGINT NOT NULL, tx BIGINT NOT NULL, \
         n BIGINT NOT NULL, PRIMARY KEY (account, id)) /*heddle shard_map=bank shard_key=account*/",
    );
    root.run(
        "CREATE TABLE bank.rate (id BIGINT PRIMARY KEY, v BIGINT NOT NULL, tx BIGINT NOT NULL, n BIGINT NOT NULL) \
         /*heddle global_map=bank*/",
    );
    root.run(
        "CREATE TABLE bank.beacon (id BIGINT PRIMARY KEY, number BIGINT NOT NULL) \
         /*heddle shard_map=bank shard_key=id*/",
    );
    for id in 0..RATES {
        root.run(&format!("INSERT INTO bank.rate VALUES ({id}, 0, 0, 0)"));
    }
    for id in 0..BEACONS {
        root.run(&format!("INSERT INTO bank.beacon VALUES ({id}, 0)"));
    }
    root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    for map in ["bank", MOVED_MAP] {
        root.run(&format!("GRANT ALL ON {map}.* TO app@'%'"));
    }
    Some(farm)
}

fn access(farm: &Farm) -> Access {
    let bearer = std::fs::read_to_string(farm.dir().join("token"));
    Access {
        http: farm.http,
        bearer: bearer.expect("`up` writes it").trim().to_owned(),
    }
}

/// A connection to the primary of a group, as soon as there is one: a busy machine may doubt a primary that lives.
fn primary(farm: &Farm, group: &str) -> Result<Client, String> {
    let mut member: Option<Member> = None;
    holds_within(PATIENCE, || {
        member = farm.primary_of(group);
        member.is_some()
    });
    let member = member.ok_or_else(|| format!("group {group} has no primary"))?;
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], member.port));
    Client::connect(address, "root", "").map_err(|failure| failure.to_string())
}

/// All rows that the groups have.
fn rows_of(farm: &Farm) -> Result<BTreeMap<Place, Row>, String> {
    let mut all = BTreeMap::new();
    for group in GROUPS {
        let mut client = primary(farm, group)?;
        for (table, columns, keys) in TABLES {
            let rows = read(&mut client, table, columns).map_err(|failure| failure.to_string())?;
            for row in rows {
                let key: Vec<&str> = row[..keys].iter().map(String::as_str).collect();
                let place = (group.to_owned(), table.to_owned(), key.join(","));
                let names = columns.iter().map(|it| (*it).to_owned());
                all.insert(place, names.zip(row).collect());
            }
        }
    }
    Ok(all)
}

fn read(client: &mut Client, table: &str, columns: &[&str]) -> Result<Vec<Vec<String>>, Failure> {
    let replies = client.query(format!("SELECT {} FROM {table}", columns.join(", ")))?;
    let Some(Reply::Rows(rows)) = replies.first() else {
        return Err(Failure::Protocol(format!("rows, not {replies:?}")));
    };
    let text = |cell: Option<String>| cell.unwrap_or_else(|| "null".to_owned());
    let rows = rows.text().into_iter();
    Ok(rows
        .map(|row| row.into_iter().map(text).collect())
        .collect())
}
