//! The proof of transactions over groups: money moves between four shards on three groups, while
//! routers and servers die between the steps of the transactions and at any moment.
//!
//! `make test-xa` runs it with more rounds.

use faults::{Plant, Point};
use testkit::bank::{Kind, Strike, Target, finds, prove};
use testkit::server::Release;

#[test]
fn whatever_dies_no_money_does() {
    let title = "MariaDB 10.11, three groups";
    prove(title, Release::Installed, 1, &Kind::ALL, 4);
}

#[test]
#[ignore = "make test-xa"]
fn without_replicas() {
    let title = "MariaDB 10.11, groups of one server";
    prove(title, Release::Installed, 0, &Kind::ALL, 12);
}

/// From 8.0.30 on MySQL keeps what was prepared through every crash, and Heddle takes its groups as they are.
/// One round is the sample of `make test`.
#[test]
fn on_a_newer_mysql() {
    let title = "a newer MySQL, three groups";
    let rounds = match std::env::var_os("HEDDLE_NEWER_MYSQL") {
        Some(_) => 6,
        None => 1,
    };
    prove(title, Release::MySqlNewer, 1, &Kind::ALL, rounds);
}

/// Without replicas: a MySQL of before 8.0.30 lets a branch's locks go before its binlog has the end of it,
/// where another connection than its own ends it. What got the rows in between stands first in the binlog,
/// and a replica, which has the branch prepared still, waits for these rows for ever.
#[test]
#[ignore = "make test-xa"]
fn on_mysql() {
    let title = "MySQL 8.0, groups of one server";
    prove(title, Release::MySql80, 0, &Kind::OF_ROUTERS, 12);
}

/// What the proof itself is worth.
#[test]
#[ignore = "make test-xa"]
fn branches_that_are_committed_before_the_decision_are_found() {
    let strike = Strike {
        target: Target::Router,
        point: Some(Point::Decide),
        late_us: None,
    };
    finds(Plant::CommitsBeforeDecision, &[strike], 5);
}

#[test]
#[ignore = "make test-xa"]
fn snapshots_that_hold_nobody_up_are_found() {
    finds(Plant::OpensWithoutHold, &[], 5);
}
