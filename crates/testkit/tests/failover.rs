//! The proof of failover on real servers: rounds of load, a fault, and a judgement.
//!
//! `make test-failover` and `make bench-failover` run it with more rounds. From the environment:
//! `FAILOVER_ROUNDS` for each fault, `FAILOVER_FAULTS` (names, with spaces; all by default),
//! `FAILOVER_SEED` of the first round, `FAILOVER_KEEP` keeps the data of a farm that failed.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use testkit::Client;
use testkit::failover::nemesis::Nemesis;
use testkit::failover::report::{Report, table};
use testkit::failover::site::Site;
use testkit::failover::{Proof, next_seed};
use testkit::server::Release;

/// Farms under load do not run side by side: they would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

/// Past the test runner, which would keep it to itself: the table is what a bench is for.
fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Those of the environment that this farm can go through; without any, all of them.
fn faults(possible: &[Nemesis]) -> Vec<Nemesis> {
    let text = std::env::var("FAILOVER_FAULTS").unwrap_or_default();
    if text.is_empty() {
        return possible.to_vec();
    }
    let named = |name: &str| {
        let known = Nemesis::ALL.map(Nemesis::name).join(", ");
        Nemesis::named(name).unwrap_or_else(|| panic!("no fault {name}; there are {known}"))
    };
    let asked: Vec<Nemesis> = text.split_whitespace().map(named).collect();
    asked
        .into_iter()
        .filter(|fault| possible.contains(fault))
        .collect()
}

/// All rounds on one farm; prints the table and fails when a round did.
fn prove(title: &str, possible: &[Nemesis], site: impl FnOnce() -> Option<Site>) {
    let faults = faults(possible);
    if faults.is_empty() {
        return;
    }
    let _alone = alone();
    let Some(mut proof) = site().map(Proof::new) else {
        return;
    };
    let rounds = number("FAILOVER_ROUNDS").unwrap_or(1);
    let mut seed = number("FAILOVER_SEED");
    let mut reports: Vec<Report> = Vec::new();
    for _ in 0..rounds {
        for &fault in &faults {
            let report = proof.round(fault, next_seed(seed));
            seed = seed.map(|seed| seed + 1);
            say(&report.text());
            reports.push(report);
        }
    }
    say(&format!(
        "{}\n{}",
        table(title, &reports),
        proof.durability()
    ));
    let bad = reports.iter().filter(|report| !report.is_good()).count();
    if bad > 0 && std::env::var_os("FAILOVER_KEEP").is_some() {
        say(&format!("kept: {}\n", proof.site.farm.keep().display()));
    }
    assert_eq!(bad, 0, "rounds that failed of {}", reports.len());
}

/// A checker that finds nothing proves nothing: losses and doubles are planted, and it must see each.
#[test]
fn planted_losses_are_found() {
    let _alone = alone();
    let Some(mut proof) = Site::start(Release::Installed).map(Proof::new) else {
        return;
    };
    let report = proof.round_with(Nemesis::Calm, next_seed(None), |site| {
        let mut primary = site.farm.client();
        let last = |table: &str| format!("SELECT MAX(n) FROM proof.{table}");
        let row = primary.value(&last("single"));
        primary.run(&format!("DELETE FROM proof.single WHERE n = {row}"));
        let row = primary.value(&last("single"));
        let again =
            format!("INSERT INTO proof.single (id) SELECT id FROM proof.single WHERE n = {row}");
        primary.run(&again);
        primary.run("UPDATE proof.account SET balance = balance + 1 WHERE id = 7");
        primary.run("UPDATE proof.counter SET v = v - 1 WHERE writer = 3");
        primary.run("UPDATE proof.counter SET v = v + 1 WHERE writer = 5");
        site.catch_up().expect("replicas follow");
        let place = site.primary().expect("a primary");
        let replica = site.nodes()[(place + 1) % 3].direct;
        let mut replica = Client::connect(replica, "root", "").expect("it answers");
        replica.run("SET SESSION sql_log_bin = 0");
        let row = replica.value(&last("transfer"));
        replica.run(&format!("DELETE FROM proof.transfer WHERE n = {row}"));
    });
    let text = report.text();
    assert_eq!((report.lost, report.doubled), (2, 2), "{text}");
    for found in [
        "lost: 1 of Insert",
        "counter 3 is",
        "counter 5 is",
        "1 balances are not",
        "the sum of the balances",
        "it lacks",
    ] {
        assert!(text.contains(found), "{found}: {text}");
    }
    // What was lost is not blamed on a later round, and that one's own losses are still found.
    let report = proof.round_with(Nemesis::Calm, next_seed(None), |site| {
        site.farm
            .client()
            .run("DELETE FROM proof.single ORDER BY n LIMIT 1");
    });
    let text = report.text();
    assert!(text.contains("rows of earlier rounds: single"), "{text}");
}

/// All faults where somebody asks for rounds; in `make test`, which has no time for more, these few.
fn possible(few: &'static [Nemesis]) -> &'static [Nemesis] {
    match number("FAILOVER_ROUNDS") {
        Some(_) => &Nemesis::ON_ANY_FARM,
        None => few,
    }
}

#[test]
fn mariadb_10_11() {
    let few = possible(&[
        Nemesis::Kill,
        Nemesis::Stop,
        Nemesis::SwitchOver,
        Nemesis::ReplicaDeath,
        Nemesis::RouterRestart,
    ]);
    prove("MariaDB 10.11", few, || Site::start(Release::Installed));
}

#[test]
#[ignore = "make test-failover"]
fn mariadb_11_4() {
    prove("MariaDB 11.4", &Nemesis::ON_ANY_FARM, || {
        Site::start(Release::MariaDb114)
    });
}

#[test]
fn mysql_8_0() {
    let few = possible(&[Nemesis::Kill, Nemesis::SwitchOver]);
    prove("MySQL 8.0", few, || Site::start(Release::MySql80));
}

#[test]
#[ignore = "make test-failover"]
fn networks_that_are_cut() {
    prove("MariaDB 10.11, heddle serve", &Nemesis::OF_NETWORKS, || {
        Site::behind_relays(Release::Installed, &[])
    });
}

#[test]
#[ignore = "make test-failover"]
fn disks_that_are_full() {
    prove(
        "MariaDB 10.11, small disks in memory",
        &[Nemesis::FullDisk],
        || Site::on_small_disks(Release::Installed),
    );
}
