//! Replicas of a farm of MySQL apply in parallel, and have what their primary has, in its order.

use std::thread;
use std::time::Duration;

use testkit::{Client, Farm, Release, wait_until};

const SOON: Duration = Duration::from_secs(60);

const WRITERS: u64 = 4;
const ROWS: u64 = 100;

/// The first of these variables that the server has.
fn variable(client: &mut Client, names: &[&str]) -> Option<String> {
    let found = names.iter().find_map(|name| {
        let rows = client.rows(&format!("SHOW GLOBAL VARIABLES LIKE '{name}'"));
        rows.into_iter().next()
    });
    found.and_then(|mut row| row.swap_remove(1))
}

fn is_set_up(client: &mut Client) {
    let workers = ["replica_parallel_workers", "slave_parallel_workers"];
    assert_eq!(variable(client, &workers).as_deref(), Some("4"));
    let order = [
        "replica_preserve_commit_order",
        "slave_preserve_commit_order",
    ];
    assert!(["ON", "1"].contains(&&*variable(client, &order).expect("there is one")));
    let kind = ["replica_parallel_type", "slave_parallel_type"];
    let kind = variable(client, &kind);
    assert!(kind.is_none_or(|it| it == "LOGICAL_CLOCK"));
    let tracking = variable(client, &["binlog_transaction_dependency_tracking"]);
    assert!(tracking.is_none_or(|it| it == "WRITESET"));
}

fn applies_in_parallel(release: Release) {
    let Some(farm) = Farm::start_on(release, &[]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT PRIMARY KEY, v INT)");
    client.run("CREATE TABLE d.keyless (v INT)");
    let writers = (0..WRITERS).map(|writer| {
        let mut client = farm.client();
        thread::spawn(move || {
            for row in 0..ROWS {
                let id = writer * ROWS + row;
                client.run(&format!("INSERT INTO d.t VALUES ({id}, 0)"));
                client.run(&format!("UPDATE d.t SET v = v + 1 WHERE id = {id}"));
            }
        })
    });
    let writers: Vec<_> = writers.collect();
    for row in 0..ROWS {
        client.run(&format!("INSERT INTO d.keyless VALUES ({row})"));
    }
    for writer in writers {
        writer.join().expect("it writes");
    }
    let wanted = ROWS.to_string();
    for member in farm.members() {
        let mut own = member.client();
        is_set_up(&mut own);
        wait_until(SOON, "the server has all", || {
            own.value("SELECT COUNT(*) FROM d.t WHERE v = 1") == (WRITERS * ROWS).to_string()
                && own.value("SELECT COUNT(*) FROM d.keyless") == wanted
        });
        let rows = own.rows("SELECT v FROM d.keyless");
        let rows: Vec<u64> = rows
            .iter()
            .map(|row| {
                row[0]
                    .as_deref()
                    .and_then(|it| it.parse().ok())
                    .expect("a number")
            })
            .collect();
        assert_eq!(rows, (0..ROWS).collect::<Vec<_>>(), "{}", member.name);
        let executed = own.value("SELECT @@global.gtid_executed");
        assert!(
            !executed
                .split(',')
                .any(|source| source.matches(':').count() > 1),
            "{executed}"
        );
    }
    let found = farm.json(&["doctor"]);
    for check in ["single_applier", "commit_order", "dependency_tracking"] {
        assert!(found.iter().all(|row| row["check"] != check), "{found:?}");
    }
}

#[test]
fn replicas_apply_in_parallel_on_mysql() {
    applies_in_parallel(Release::newest_mysql());
}

#[test]
fn replicas_apply_in_parallel_on_an_older_mysql() {
    applies_in_parallel(Release::MySql80);
}
