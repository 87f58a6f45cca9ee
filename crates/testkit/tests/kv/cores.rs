//! Plain sets that come on several cores at once: they share commits, and are answered each for itself.

use std::sync::mpsc;
use std::time::Duration;

use farm::{Container, Containers};
use kv::{Change, Expiry, Mode, Op, Outcome};
use session::Message;
use testkit::{Door, Release, Stage, wait_until_listed};

use crate::store::submitting;

const SOON: Duration = Duration::from_secs(30);
const CORES: usize = 3;

struct Farm {
    stage: Stage,
    door: Door,
}

fn farm(release: Release) -> Option<Farm> {
    let stage = Stage::start_with(release)?;
    stage.everywhere(
        "CREATE DATABASE d; \
         CREATE TABLE d.t (k VARCHAR(50) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY, v VARCHAR(9))",
    );
    let mut container = Container::new("t", "d", "t", "k", &["v"]);
    container.consistency = Some("session".to_owned());
    let door = stage.door_with(|tuning| tuning.threads = CORES);
    door.publish(|snapshot| snapshot.containers = Containers::new([container]).into());
    Some(Farm { stage, door })
}

impl Farm {
    /// Submits all commands at once on this core, and tells their outcomes when all are there.
    fn begin(&self, core: usize, ops: Vec<Op>) -> mpsc::Receiver<Vec<Outcome>> {
        let (visit, told) = submitting("t", ops);
        assert!(self.door.dealer().send(core, Message::Visit(visit)));
        told
    }

    fn inserts(&self) -> u64 {
        let mut client = self.stage.primary.client();
        let shown = client.rows("SHOW GLOBAL STATUS LIKE 'Com_insert'");
        let count = shown[0][1].as_deref().expect("it is a number");
        count.parse().expect("it is a number")
    }
}

fn set(key: String, value: &str) -> Op {
    let change = Change::Store {
        mode: Mode::Set,
        value: value.as_bytes().into(),
        flags: 0,
        expiry: Expiry::Never,
        cas: None,
    };
    Op {
        key: key.into_bytes().into(),
        change,
    }
}

fn get(key: String) -> Op {
    Op {
        key: key.into_bytes().into(),
        change: Change::Get,
    }
}

fn is_stored(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Stored { .. })
}

fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(why) if why.by_client)
}

/// In each round every core has sets of its own keys, one of which the table refuses, and sets of a key of all.
fn each_for_itself(release: Release) {
    let Some(farm) = farm(release) else { return };
    for round in 0..20 {
        let sets = |core: usize| {
            let value = |n: usize| match n == 3 + core {
                true => "much too long".to_owned(),
                false => format!("{core} {round}"),
            };
            let own = (0..8).map(|n| set(format!("{core} {n}"), &value(n)));
            own.chain([set("all".to_owned(), &value(0))]).collect()
        };
        let begun: Vec<_> = (0..CORES)
            .map(|core| farm.begin(core, sets(core)))
            .collect();
        for (core, told) in begun.into_iter().enumerate() {
            let outcomes = told.recv_timeout(SOON).expect("a core answers");
            for (n, outcome) in outcomes.iter().enumerate() {
                let good = n != 3 + core;
                assert_eq!(
                    (is_stored(outcome), is_refused(outcome)),
                    (good, !good),
                    "{core} {n}"
                );
            }
        }
        // What was acknowledged is seen by those to whom it was, whichever core has carried it out.
        let gets = |core: usize| {
            let keys = (0..8).map(|n| get(format!("{core} {n}")));
            keys.chain([get("all".to_owned())]).collect()
        };
        let begun: Vec<_> = (0..CORES)
            .map(|core| farm.begin(core, gets(core)))
            .collect();
        for (core, told) in begun.into_iter().enumerate() {
            let outcomes = told.recv_timeout(SOON).expect("a core answers");
            for (n, outcome) in outcomes.iter().enumerate() {
                let value = match outcome {
                    Outcome::Hit(item) => String::from_utf8_lossy(&item.value).into_owned(),
                    Outcome::Miss => String::new(),
                    other => panic!("a get answered {other:?}"),
                };
                match n {
                    8 => assert!(value.ends_with(&format!(" {round}")), "{value}"),
                    n if n == 3 + core => assert_eq!(value, ""),
                    _ => assert_eq!(value, format!("{core} {round}")),
                }
            }
        }
    }
}

#[test]
fn sets_of_several_cores_are_answered_each_for_itself() {
    each_for_itself(Release::Installed);
    each_for_itself(Release::MySql80);
}

/// While a row is locked, sets of other cores are stored.
#[test]
fn a_row_that_somebody_holds_keeps_one_core_waiting() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let mut holder = farm.stage.primary.client();
    holder.run("INSERT INTO d.t VALUES ('held', '')");
    holder.run("BEGIN");
    holder.run("UPDATE d.t SET v = 'holder' WHERE k = 'held'");
    let held = farm.begin(0, vec![set("held".to_owned(), "0")]);
    // A set that comes before the server has this one may share its commit, and then waits with it.
    wait_until_listed(SOON, "the server has the set", || {
        let waiting =
            "SELECT COUNT(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'";
        holder.value(waiting) == "1"
    });
    for n in 0..5 {
        for core in 1..CORES {
            let told = farm.begin(core, vec![set(format!("{core} {n}"), "x")]);
            let outcomes = told.recv_timeout(SOON).expect("it waits for nobody");
            assert!(outcomes.iter().all(is_stored), "{outcomes:?}");
        }
    }
    assert!(held.try_recv().is_err(), "the row is locked");
    holder.run("COMMIT");
    let outcomes = held.recv_timeout(SOON).expect("the row is free");
    assert!(outcomes.iter().all(is_stored), "{outcomes:?}");
    assert_eq!(holder.value("SELECT v FROM d.t WHERE k = 'held'"), "0");
}

/// What the table refuses is found without a statement for each of the others.
#[test]
fn one_refused_set_costs_its_neighbours_few_statements() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let value = |n: usize| if n == 40 { "much too long" } else { "good" };
    let sets = (0..64).map(|n| set(n.to_string(), value(n))).collect();
    let before = farm.inserts();
    let told = farm.begin(0, sets);
    let outcomes = told.recv_timeout(SOON).expect("a core answers");
    for (n, outcome) in outcomes.iter().enumerate() {
        assert_eq!(
            (is_stored(outcome), is_refused(outcome)),
            (n != 40, n == 40),
            "{n}"
        );
    }
    let statements = farm.inserts() - before;
    assert!(statements < 20, "{statements} INSERTs for 64 sets");
}
