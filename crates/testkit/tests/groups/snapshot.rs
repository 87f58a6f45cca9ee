//! Snapshots over two groups through one door, on real servers of both engines: database `one` is on
//! the first group, `two` on the second.

use std::sync::atomic::{AtomicBool, Ordering};

use testkit::{Client, Two};

/// Two groups, each with three accounts of 100.
fn farms() -> Vec<Two> {
    let farms = Two::farms();
    for two in &farms {
        two.on_both("INSERT INTO {}.t VALUES (1, 100), (2, 100), (3, 100)");
    }
    farms
}

fn sum(client: &mut Client, name: &str) -> i64 {
    let sum = client.value(&format!("SELECT SUM(v) FROM {name}.t"));
    sum.parse().expect("a sum")
}

fn transfer(client: &mut Client, id: u32, amount: i64) {
    client.run("BEGIN");
    client.run(&format!(
        "UPDATE one.t SET v = v - {amount} WHERE id = {id}"
    ));
    client.run(&format!(
        "UPDATE two.t SET v = v + {amount} WHERE id = {id}"
    ));
    client.run("COMMIT");
}

#[test]
fn a_snapshot_is_of_one_moment() {
    for two in farms() {
        let mut auditor = two.client();
        let mut writer = two.client();
        for how in [
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
            "START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */",
        ] {
            auditor.run(how);
            let before = sum(&mut writer, "one");
            transfer(&mut writer, 1, 7);
            assert_eq!(sum(&mut writer, "one"), before - 7);
            assert_eq!(sum(&mut auditor, "two") + before, 600, "{how}");
            assert_eq!(sum(&mut auditor, "one"), before, "{how}");
            auditor.run("COMMIT");
            assert_eq!(sum(&mut auditor, "one"), before - 7, "{how}");
        }
        assert_eq!(two.door.counter("xa_snapshots"), 3);
        two.nothing_is_prepared();
    }
}

#[test]
fn a_snapshot_may_write() {
    for two in farms() {
        let mut client = two.client();
        client.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
        client.run("SAVEPOINT a");
        client.run("INSERT INTO two.t VALUES (4, 0)");
        client.run("ROLLBACK TO a");
        client.run("INSERT INTO two.t VALUES (5, 0)");
        client.run("INSERT INTO one.t VALUES (5, 0)");
        client.run("COMMIT");
        let ids = "SELECT GROUP_CONCAT(id ORDER BY id) FROM";
        assert_eq!(client.value(&format!("{ids} one.t")), "1,2,3,5");
        assert_eq!(client.value(&format!("{ids} two.t")), "1,2,3,5");
        client.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
        client.run("DELETE FROM two.t WHERE id = 5");
        client.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
        assert_eq!(client.value(&format!("{ids} two.t")), "1,2,3", "it commits");
        client.run("DELETE FROM one.t WHERE id = 5");
        client.run("ROLLBACK");
        assert_eq!(client.value(&format!("{ids} one.t")), "1,2,3,5");
        // What dumps begin with needs no XA, and may write on one group.
        client.run("START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */");
        client.run("INSERT INTO two.t VALUES (6, 0)");
        assert_eq!(client.error("INSERT INTO one.t VALUES (6, 0)"), 1105);
        client.run("INSERT INTO two.t VALUES (7, 0)");
        client.run("COMMIT");
        assert_eq!(client.value(&format!("{ids} two.t")), "1,2,3,6,7");
        assert_eq!(client.value(&format!("{ids} one.t")), "1,2,3,5");
        client.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
        assert_eq!(client.error("INSERT INTO two.t VALUES (8, 0)"), 1792);
        client.run("COMMIT");
        two.nothing_is_prepared();
    }
}

#[test]
fn no_auditor_sees_half_a_transfer() {
    for two in farms() {
        let over = AtomicBool::new(false);
        std::thread::scope(|threads| {
            for id in 1..=3u32 {
                let (two, over) = (&two, &over);
                threads.spawn(move || {
                    let mut client = two.client();
                    let mut amount = 1;
                    while !over.load(Ordering::SeqCst) {
                        transfer(&mut client, id, amount);
                        amount = -amount;
                    }
                });
            }
            let auditors: Vec<_> = (0..3)
                .map(|at| {
                    let two = &two;
                    threads.spawn(move || {
                        let mut client = two.client();
                        for round in 0..15 {
                            client.run(match (at + round) % 3 {
                                0 => "START TRANSACTION WITH CONSISTENT SNAPSHOT",
                                1 => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
                                _ => "START TRANSACTION /*!40100 WITH CONSISTENT SNAPSHOT */",
                            });
                            let all = sum(&mut client, "two") + sum(&mut client, "one");
                            client.run("COMMIT");
                            assert_eq!(all, 600);
                        }
                    })
                })
                .collect();
            let audits: Vec<_> = auditors.into_iter().map(|it| it.join()).collect();
            over.store(true, Ordering::SeqCst);
            for audit in audits {
                audit.expect("the sum does not move");
            }
        });
        assert!(two.door.counter("xa_commit_success") > 0);
        two.nothing_is_prepared();
    }
}
