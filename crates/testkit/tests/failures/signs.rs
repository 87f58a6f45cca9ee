//! What sessions know of a server's life, for whoever watches servers.

use std::time::Duration;

use testkit::{Door, Stage, wait_until};

/// For what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// When a server lived, as sessions know, in microseconds of the farm's clock.
fn lived_us(door: &Door, index: usize) -> u64 {
    let mut lived_us = 0;
    door.change(index, |server| lived_us = server.fresh.answered_us());
    lived_us
}

#[test]
fn what_a_server_answers_to_clients_shows_that_it_lives() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("signs");
    stage.everywhere("CREATE TABLE signs.t (a INT)");
    let door = stage.door_with(|_| {});
    let mut client = door.client_in("signs");
    wait_until(PATIENCE, "a write shows that the primary lives", || {
        client.run("INSERT INTO t VALUES (1)");
        lived_us(&door, 0) > 0
    });
    let before_us = lived_us(&door, 0);
    wait_until(PATIENCE, "later writes show it anew", || {
        client.run("INSERT INTO t VALUES (1)");
        lived_us(&door, 0) > before_us
    });
    // Prepared statements and those in transactions as well.
    let statement = client.prepare("SELECT COUNT(*) FROM t").expect("prepared");
    client.run("BEGIN");
    let before_us = lived_us(&door, 0);
    wait_until(PATIENCE, "a transaction shows it", || {
        client.execute(&statement, &[]).expect("read");
        lived_us(&door, 0) > before_us
    });
    client.run("COMMIT");
    drop(client);
    door.wait_unused();
}

#[test]
fn a_refusal_shows_nothing() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("signs_refused");
    stage.everywhere("CREATE TABLE signs_refused.t (a INT PRIMARY KEY)");
    let door = stage.door_with(|_| {});
    let mut client = door.client_in("signs_refused");
    client.run("INSERT INTO t VALUES (1)");
    let mut refused = || assert_eq!(client.error("INSERT INTO t VALUES (1)"), 1062);
    // Behind its answer, the one of the statement before has been taken note of.
    refused();
    let before_us = lived_us(&door, 0);
    for _ in 0..100 {
        refused();
    }
    assert_eq!(lived_us(&door, 0), before_us);
    wait_until(PATIENCE, "what is done shows that it lives", || {
        client.run("DELETE FROM t WHERE a = 2");
        lived_us(&door, 0) > before_us
    });
    drop(client);
    door.wait_unused();
}
