//! The proof of failover on real servers: rounds of load, a fault, and a judgement.
//!
//! `make test-failover` and `make bench-failover` run it with more rounds. From the environment:
//! `FAILOVER_ROUNDS` for each fault, `FAILOVER_FAULTS` (names, with spaces; all by default),
//! `FAILOVER_SEED` of the first round, `FAILOVER_KEEP` keeps the data of a farm that failed,
//! `FAILOVER_THINK_MS` between two statements of a client.

use testkit::Client;
use testkit::failover::nemesis::Nemesis;
use testkit::failover::rounds::{alone, number, prove};
use testkit::failover::site::Site;
use testkit::failover::{Proof, next_seed};
use testkit::server::Release;

/// A checker that finds nothing proves nothing: losses and doubles are planted, and it must see each.
#[test]
fn planted_losses_are_found() {
    let _alone = alone();
    let Some(mut proof) = Site::start(Release::Installed).map(Proof::new) else {
        return;
    };
    let report = proof.round_with(Nemesis::Calm, next_seed(None), |site| {
        let mut primary = site.client();
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
        site.client()
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
    // A switch-over needs replicas that keep up, which those of a build without optimisation do not on a
    // machine whose cores are all taken; `make test-failover` has it.
    let few = possible(&[Nemesis::Kill]);
    prove("MySQL 8.0", few, || Site::start(Release::newest_mysql()));
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
