//! Clients of MySQL Fabric on a farm of three groups, in both ways of `fabric_addresses`: each of them finds the
//! shard of every key, goes on through a switch-over and the kill -9 of a primary, and its report of a failure
//! arrives. Connectors are as their makers published them (`test/compat/seeds/fabric`); of mysqlnd_ms there are
//! its requests, since no PHP of today loads it.

mod subjects;

use std::net::SocketAddr;
use std::time::Duration;

use door_fabric::Value;
use door_fabric::xml::call;
use subjects::{Maps, Reports, Subject, subjects};
use testkit::client::Client;
use testkit::{Farm, wait_until};

use crate::fabric::{PYTHON, ask, error, rows};

/// For what takes a server's end and a change of primary.
const SOON: Duration = Duration::from_secs(90);

/// Where connectors are told to connect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addresses {
    Servers,
    Routers,
}

/// A farm that is sharded by RANGE (d.t) and by HASH (d.h).
struct Stage {
    farm: Farm,
    addresses: Addresses,
    /// The last number that was given to a row of d.t on g2, and those that are there for sure.
    last: u64,
    acknowledged: Vec<u64>,
}

impl Stage {
    fn start(addresses: Addresses) -> Option<Stage> {
        let told = match addresses {
            Addresses::Servers => "fabric_addresses=servers",
            Addresses::Routers => "fabric_addresses=routers",
        };
        let flags = ["--groups", "3", "--replicas", "1", "--set", told];
        let stage = Stage {
            farm: Farm::start(&flags)?,
            addresses,
            last: 1000,
            acknowledged: Vec::new(),
        };
        stage.shard();
        Some(stage)
    }

    fn shard(&self) {
        let mut client = self.farm.client();
        client.run("CREATE DATABASE d");
        client.run("CREATE TABLE d.t (id INT PRIMARY KEY)");
        client.run("CREATE TABLE d.h (id INT PRIMARY KEY)");
        for (method, words) in [
            ("sharding.create_definition", vec!["RANGE", "g1"]),
            (
                "sharding.add_shard",
                vec!["1", "g2/1,g3/1000000", "ENABLED"],
            ),
            ("sharding.add_table", vec!["1", "d.t", "id"]),
            ("sharding.create_definition", vec!["HASH", "g1"]),
            ("sharding.add_shard", vec!["2", "g1,g2,g3", "ENABLED"]),
            ("sharding.add_table", vec!["2", "d.h", "id"]),
        ] {
            self.done(method, &words);
        }
        // An account that a server's read_only stops.
        client.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
        client.run("GRANT SELECT, INSERT ON d.* TO app@'%'");
        let members = self.farm.members().into_iter();
        let mut doors: Vec<SocketAddr> = members
            .map(|member| SocketAddr::from(([127, 0, 0, 1], member.port)))
            .collect();
        doors.push(self.farm.sql);
        wait_until(SOON, "the account everywhere", || {
            let mut doors = doors.iter();
            doors.all(|door| Client::connect(*door, "app", "secret").is_ok())
        });
    }

    /// What the door answers, in the form of 1.5.
    fn fabric(&self, method: &str, words: &[&str]) -> String {
        let params: Vec<Value> = words.iter().map(|&word| word.into()).collect();
        let heard = ask(self.farm.fabric, PYTHON, &call(method, &params));
        assert_eq!(heard.status, 200, "{method}: {}", heard.body);
        heard.body
    }

    fn done(&self, method: &str, words: &[&str]) {
        let said = self.fabric(method, words);
        assert_eq!(error(&said), "", "{method} {words:?}: {said}");
    }

    /// UUID and status of the group's servers, as connectors are told.
    fn servers(&self, group: &str) -> Vec<(String, String)> {
        let all = rows(&self.fabric("dump.servers", &["0", group]));
        let server = |row: &Vec<String>| (row[0].clone(), row[5].clone());
        all.iter().map(server).collect()
    }

    /// The group has a primary and a replica.
    fn wait_for_both(&self, group: &str) {
        wait_until(SOON, "a primary and a replica", || {
            let servers = self.servers(group);
            let has = |wanted: &str| servers.iter().any(|(_, status)| status == wanted);
            has("2") && has("3")
        });
    }

    fn primary_port(&self, group: &str) -> u16 {
        self.farm.primary(group).port
    }

    /// Where a connection to the group goes.
    fn door_of(&self, group: &str) -> u16 {
        match self.addresses {
            Addresses::Servers => self.primary_port(group),
            Addresses::Routers => self.farm.sql.port(),
        }
    }

    fn group_of(&self, table: &str, key: u64) -> String {
        let of_key = rows(&self.fabric("sharding.lookup_servers", &[table, &key.to_string()]));
        let is_of = |group: &&str| {
            let mut servers = self.servers(group).into_iter();
            servers.any(|(uuid, _)| uuid == of_key[0][0])
        };
        let found = ["g1", "g2", "g3"].into_iter().find(is_of);
        found.expect("the group of the key").to_owned()
    }

    /// A key of every shard; each client has keys of its own.
    fn finds_every_shard(&self, subject: &mut Subject, number: u64) {
        self.finds(subject, "d.t", 10 + number, "g2");
        self.finds(subject, "d.t", 1_000_010 + number, "g3");
        if subject.maps != Maps::OfEveryKind {
            return;
        }
        let mut missing = vec!["g1", "g2", "g3"];
        for key in 100 * (number + 1)..100 * (number + 2) {
            let group = self.group_of("d.h", key);
            if let Some(at) = missing.iter().position(|it| **it == *group) {
                missing.remove(at);
                self.finds(subject, "d.h", key, &group);
            }
            if missing.is_empty() {
                return;
            }
        }
        panic!("no key of 100 is on {missing:?}");
    }

    fn finds(&self, subject: &mut Subject, table: &str, key: u64, group: &str) {
        let name = subject.name;
        subject.must(&format!("key {table} {key}"));
        if !subject.has_statements {
            let at = subject.must("ping it");
            assert_eq!(
                at,
                format!("127.0.0.1:{}", self.door_of(group)),
                "{name}: {table} {key}"
            );
            return;
        }
        subject.must(&format!("sql INSERT INTO {table} VALUES ({key})"));
        let found = subject.must(&format!("sql SELECT id FROM {table} WHERE id = {key}"));
        assert_eq!(found, key.to_string(), "{name}");
        let primary = SocketAddr::from(([127, 0, 0, 1], self.primary_port(group)));
        let mut straight = Client::connect(primary, "root", "").expect("root has no password");
        let there = straight.rows(&format!("SELECT id FROM {table} WHERE id = {key}"));
        assert_eq!(there.len(), 1, "{name}: {table} {key} is not on {group}");
    }

    /// Has the client do on g2 what it does, until that is done; the errors on the way.
    fn goes_on(&mut self, subject: &mut Subject) -> Vec<String> {
        let mut errors = Vec::new();
        let what = format!("{} goes on", subject.name);
        wait_until(SOON, &what, || {
            self.last += 1;
            let said = match subject.has_statements {
                true => subject
                    .client
                    .ask(&format!("sql INSERT INTO d.t VALUES ({})", self.last)),
                false => subject.client.ask("ping it"),
            };
            match said {
                Err(error) => errors.push(error),
                Ok(_) if subject.has_statements => {
                    self.acknowledged.push(self.last);
                    return true;
                }
                Ok(at) => return at == format!("127.0.0.1:{}", self.door_of("g2")),
            }
            false
        });
        errors
    }

    /// All clients go on; behind routers they notice nothing.
    fn all_go_on(&mut self, subjects: &mut [Subject], through: &str) {
        for subject in subjects {
            let errors = self.goes_on(subject);
            if self.addresses == Addresses::Routers {
                assert!(
                    errors.is_empty(),
                    "{} through {through}: {errors:?}",
                    subject.name
                );
            }
        }
        self.wait_for_both("g2");
    }

    /// A replica's failure is reported: among servers it is FAULTY, and an operator takes it back; behind
    /// routers it is looked at and goes on.
    fn reports_arrive(&self, subjects: &mut [Subject]) {
        let replica = self
            .servers("g1")
            .into_iter()
            .find(|(_, status)| status == "2");
        let (replica, _) = replica.expect("a replica");
        let is_told = || self.servers("g1").iter().any(|(uuid, _)| *uuid == replica);
        for subject in subjects {
            if subject.reports != Reports::WhenAsked {
                continue;
            }
            subject.must(&format!("report {replica}"));
            match self.addresses {
                Addresses::Routers => assert!(is_told(), "{} condemned a replica", subject.name),
                Addresses::Servers => {
                    wait_until(SOON, "a FAULTY replica", || !is_told());
                    self.done("server.set_status", &[&replica, "SPARE"]);
                    self.done("server.set_status", &[&replica, "SECONDARY"]);
                    wait_until(SOON, "the replica", is_told);
                }
            }
        }
    }

    /// So many reports were counted, and those of connectors that report of themselves are told.
    fn reports_are_counted(&self, subjects: &[Subject]) {
        let of = |reports: Reports| {
            subjects
                .iter()
                .filter(move |it| it.reports == reports)
                .count()
        };
        let counted = rows(&self.fabric("statistics.procedure", &["threat.report_failure"]));
        let counted: usize = counted
            .first()
            .map_or(0, |row| row[1].parse().expect("a number"));
        assert!(counted >= of(Reports::WhenAsked), "{counted} reports");
        if self.addresses == Addresses::Servers && of(Reports::OfItself) > 0 {
            let events = self.farm.json(&["group", "events", "g2"]);
            let told =
                |event: &serde_json::Value| event.to_string().contains("MySQL Connector/J reports");
            assert!(events.iter().any(told), "{events:?}");
        }
    }

    fn nothing_is_lost(&self) {
        let primary = SocketAddr::from(([127, 0, 0, 1], self.primary_port("g2")));
        let mut straight = Client::connect(primary, "root", "").expect("root has no password");
        for id in &self.acknowledged {
            let there = straight.rows(&format!("SELECT id FROM d.t WHERE id = {id}"));
            assert_eq!(there.len(), 1, "{id} was acknowledged");
        }
    }
}

fn clients_go_on(addresses: Addresses) {
    let Some(mut stage) = Stage::start(addresses) else {
        return;
    };
    let mut subjects = subjects(&stage.farm);
    for (number, subject) in subjects.iter_mut().enumerate() {
        stage.finds_every_shard(subject, number as u64);
        subject.must("group g2");
        stage.goes_on(subject);
    }
    let before = stage.primary_port("g2");
    stage.done("group.promote", &["g2"]);
    assert_ne!(stage.primary_port("g2"), before);
    stage.all_go_on(&mut subjects, "a switch-over");
    stage.farm.primary("g2").signal("KILL");
    stage.all_go_on(&mut subjects, "the death of the primary");
    stage.reports_arrive(&mut subjects);
    stage.reports_are_counted(&subjects);
    stage.nothing_is_lost();
    for subject in subjects.iter_mut().filter(|it| !it.has_statements) {
        assert_eq!(
            subject.must("begins SELECT 1"),
            "statementBegins",
            "the driver's own loop"
        );
    }
}

#[test]
fn clients_that_are_told_servers_go_on() {
    clients_go_on(Addresses::Servers);
}

#[test]
fn clients_that_are_told_routers_notice_nothing() {
    clients_go_on(Addresses::Routers);
}
