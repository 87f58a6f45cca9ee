//! A primary of `heddle up` that is killed with commits that nobody else has comes back by itself.

use std::time::Duration;

use testkit::farm::{Farm, Member};
use testkit::{Client, Release, wait_until};

/// Deaths, elections and copies on two busy cores.
const PATIENCE: Duration = Duration::from_secs(60);

fn checksum(member: &Member) -> Option<String> {
    let address = ([127, 0, 0, 1], member.port).into();
    let mut client = Client::connect(address, "root", "").ok()?;
    let reply = client.query("CHECKSUM TABLE d.t").ok()?;
    Some(format!("{reply:?}"))
}

fn comes_back(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "2"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(50))");
    client.run("INSERT INTO d.t (v) VALUES ('one'), ('two')");
    let primary = &farm.primary("g1");
    let members = farm.members();
    let others: Vec<&Member> = members
        .iter()
        .filter(|it| it.port != primary.port)
        .collect();
    wait_until(PATIENCE, "equal rows", || {
        others
            .iter()
            .all(|other| checksum(other) == checksum(primary))
    });

    // A commit that reaches nobody: past Heddle, while the replicas stand still.
    others.iter().for_each(|other| other.signal("STOP"));
    let mut direct = primary.client();
    let writer = std::thread::spawn(move || {
        // Its answer does not matter: the server dies.
        let _ = direct.query("INSERT INTO d.t (v) VALUES ('nobody has this')");
    });
    let mut look = primary.client();
    wait_until(PATIENCE, "the row in the primary's log", || {
        let waiting = "SELECT 1 FROM information_schema.PROCESSLIST WHERE STATE LIKE \
                       'Waiting for semi-sync%'";
        let there = "SELECT 1 FROM d.t WHERE v LIKE 'nobody%'";
        !look.rows(waiting).is_empty() || !look.rows(there).is_empty()
    });
    primary.signal("KILL");
    others.iter().for_each(|other| other.signal("CONT"));
    writer.join().expect("it ends");

    let mut through = farm.client();
    through.run("INSERT INTO d.t (v) VALUES ('after')");
    wait_until(
        PATIENCE,
        "three servers with equal rows, one of them the primary",
        || {
            let rows = farm.json(&["group", "lookup_servers", "g1"]);
            let count = |status: &str| rows.iter().filter(|row| row["status"] == status).count();
            let sums: Vec<_> = farm.members().iter().map(checksum).collect();
            count("PRIMARY") == 1
                && count("SECONDARY") == 2
                && sums.iter().all(|sum| sum.is_some() && *sum == sums[0])
        },
    );
    through.run("INSERT INTO d.t (v) VALUES ('last')");
    wait_until(PATIENCE, "the last row on all", || {
        let sums: Vec<_> = farm.members().iter().map(checksum).collect();
        sums.iter().all(|sum| sum.is_some() && *sum == sums[0])
    });
}

#[test]
fn a_mariadb_primary_comes_back() {
    comes_back(Release::Installed);
}

#[test]
fn a_mysql_primary_comes_back() {
    comes_back(Release::MySql80);
}
