//! What a statement asks the allocator for on its way through a session: bounded, so that nobody adds to it unseen.
//!
//! A binary of its own, for the allocator counts what the whole process asks for.

use std::sync::Mutex;

use reactor::Counting;
use testkit::{Client, Door, Stage};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The allocator counts for the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// So often a statement runs until everything that is kept for its shape is there.
const WARMING: u32 = 100;

/// So often it is counted, and so often it runs each time.
const ROUNDS: u32 = 20;
const RUNS: u32 = 50;

/// Runs the texts again and again, one after the other, and gives how often the router asked the allocator for
/// something in one run of all of them. What the door's timers ask for comes in some rounds and not in others, so the least
/// counts: how long a round takes does not matter.
fn asked(client: &mut Client, texts: &[&str]) -> f64 {
    let mut run = |times: u32| {
        for _ in 0..times {
            for text in texts {
                client.query(text).expect("the statement is right");
            }
        }
    };
    run(WARMING);
    let rounds = (0..ROUNDS).map(|_| {
        let before = Counting::counted();
        run(RUNS);
        Counting::counted() - before
    });
    let least = rounds.min().expect("there are rounds");
    least as f64 / f64::from(RUNS)
}

#[track_caller]
fn is_at_most(client: &mut Client, bound: f64, texts: &[&str]) {
    let asked = asked(client, texts);
    assert!(
        asked <= bound,
        "{asked:.2} allocations, at most {bound}: {texts:?}"
    );
}

/// A door in front of one server, and a client of it beside a table of 100 rows.
fn with_rows(stage: &Stage) -> (Door, Client) {
    Counting::leave_out();
    let door = Door::start(&[&stage.primary], |_| {});
    let mut client = door.client();
    for text in [
        "DROP DATABASE IF EXISTS allocations",
        "CREATE DATABASE allocations",
        "CREATE TABLE allocations.t (id INT PRIMARY KEY, k INT, c CHAR(120))",
    ] {
        client.query(text).expect("the statement is right");
    }
    for id in 1..=100 {
        client.run(&format!(
            "INSERT INTO allocations.t VALUES ({id}, {id}, 'a row')"
        ));
    }
    let client = door.client_in("allocations");
    (door, client)
}

const SELECT: &str = "SELECT c FROM t WHERE id = 7";
const UPDATE: &str = "UPDATE t SET k = k + 1 WHERE id = 7";

#[test]
fn a_statement_asks_the_allocator_for_little() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    let (_door, mut client) = with_rows(&stage);
    is_at_most(&mut client, 1.0, &[SELECT]);
    is_at_most(&mut client, 2.0, &[UPDATE]);
}

#[test]
fn so_does_one_in_a_transaction() {
    let _alone = ALONE.lock();
    let Some(stage) = Stage::shared() else { return };
    let (_door, mut client) = with_rows(&stage);
    is_at_most(&mut client, 5.0, &["BEGIN", SELECT, UPDATE, "COMMIT"]);
}
