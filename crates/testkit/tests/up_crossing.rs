//! Transactions over two groups in a whole farm: of an account without any right on Heddle's own
//! schema, and whole whatever dies when.

use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use testkit::client::Login;
use testkit::farm::Member;
use testkit::{Client, Farm, wait_until};

/// For recovery behind a restart, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

const ACCOUNTS: u64 = 8;
const START: u64 = 1000;

fn app(farm: &Farm) -> Result<Client, testkit::client::Failure> {
    let login = Login {
        user: "app",
        password: "secret",
        ..Login::default()
    };
    Client::login(farm.sql, &login)
}

/// Moves money from one group to the other; an error rolls back.
fn transfer(client: &mut Client, seed: u64) -> Result<(), testkit::client::Failure> {
    let (from, to) = match seed.is_multiple_of(2) {
        true => ("one", "two"),
        false => ("two", "one"),
    };
    let id = seed % ACCOUNTS;
    client.query("BEGIN")?;
    client.query(format!("UPDATE {from}.t SET v = v - 1 WHERE id = {id}"))?;
    client.query(format!("UPDATE {to}.t SET v = v + 1 WHERE id = {id}"))?;
    client.query("COMMIT")?;
    Ok(())
}

#[test]
fn money_neither_comes_nor_goes() {
    let flags = ["--groups", "2", "--replicas", "0"];
    let Some(mut farm) = Farm::start(&flags) else {
        return;
    };
    prepare(&farm);
    for round in 0..4 {
        let done = AtomicU64::new(0);
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for client in 0..4 {
                let (farm, done, over) = (&farm, &done, &over);
                scope.spawn(move || {
                    let Ok(mut connection) = app(farm) else {
                        return;
                    };
                    let mut seed = client;
                    while !over.load(Ordering::Relaxed) {
                        match transfer(&mut connection, seed) {
                            Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                            // A deadlock ends nothing but its transaction.
                            Err(failure) if failure.to_string().contains("1213") => {}
                            Err(_) => return,
                        }
                        seed += 5;
                    }
                });
            }
            wait_until(PATIENCE, "some transfers", || {
                done.load(Ordering::Relaxed) > 40 + round
            });
            kill(farm.pid());
            over.store(true, Ordering::Relaxed);
        });
        farm.kill_up();
        farm.start_again();
        wait_until(PATIENCE, "nothing prepared", || {
            let members = farm.members();
            let mut servers = members.iter().map(|member| member.client());
            servers.all(|mut server| server.rows("XA RECOVER").is_empty())
        });
        let sum = |member: &Member, name: &str| -> u64 {
            let sum = member
                .client()
                .value(&format!("SELECT SUM(v) FROM {name}.t"));
            sum.parse().expect("a number")
        };
        let members = farm.members();
        let of = |group: &str| members.iter().find(|it| it.group == group);
        let (Some(one), Some(two)) = (of("g1"), of("g2")) else {
            panic!("two groups");
        };
        assert_eq!(sum(one, "one") + sum(two, "two"), 2 * ACCOUNTS * START);
    }
}

/// The primary of a group dies while money moves; its replica takes over, and the clients go on.
#[test]
fn a_group_that_fails_over_loses_nothing() {
    let flags = ["--groups", "2", "--replicas", "1"];
    let Some(farm) = Farm::start(&flags) else {
        return;
    };
    prepare(&farm);
    let (done, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let unclear = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for client in 0..4 {
            let (farm, done, over, unclear) = (&farm, &done, &over, &unclear);
            scope.spawn(move || {
                let mut seed = client;
                let mut connection = app(farm).expect("a login");
                while !over.load(Ordering::Relaxed) {
                    match transfer(&mut connection, seed) {
                        Ok(()) => drop(done.fetch_add(1, Ordering::Relaxed)),
                        Err(failure) if failure.to_string().contains("1213") => {}
                        Err(failure) => {
                            let mut unclear = unclear.lock().expect("no panic");
                            unclear.push(failure.to_string());
                            let _ = connection.query("ROLLBACK");
                        }
                    }
                    seed += 5;
                }
            });
        }
        let _end = End(&over);
        for group in ["g1", "g2"] {
            let before = done.load(Ordering::Relaxed);
            wait_until(PATIENCE, "transfers", || {
                done.load(Ordering::Relaxed) > before + 30
            });
            let primary = primary_of(&farm, group).expect("a primary");
            primary.signal("KILL");
            wait_until(PATIENCE, "another primary", || {
                primary_of(&farm, group).is_some_and(|it| it.port != primary.port)
            });
            let before = done.load(Ordering::Relaxed);
            wait_until(PATIENCE, "transfers behind the failover", || {
                done.load(Ordering::Relaxed) > before + 10
            });
        }
    });
    let mut root = farm.client();
    let sum = |root: &mut Client, name: &str| -> u64 {
        let sum = root.value(&format!("SELECT SUM(v) FROM {name}.t"));
        sum.parse().expect("a number")
    };
    wait_until(PATIENCE, "nothing prepared", || {
        ["g1", "g2"].iter().all(|group| {
            let primary = primary_of(&farm, group);
            primary.is_some_and(|it| it.client().rows("XA RECOVER").is_empty())
        })
    });
    assert_eq!(
        sum(&mut root, "one") + sum(&mut root, "two"),
        2 * ACCOUNTS * START
    );
    // The client is told how each ended.
    let unclear = unclear.into_inner().expect("no panic");
    assert_eq!(unclear, Vec::<String>::new());
}

/// Ends the clients, also of a test that fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The group's primary; `None` while there is none.
fn primary_of(farm: &Farm, group: &str) -> Option<Member> {
    let servers = farm.json(&["group", "lookup_servers", group]);
    let primary = servers.iter().find(|it| it["status"] == "PRIMARY")?;
    let (_, port) = primary["address"].as_str()?.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    farm.members().into_iter().find(|it| it.port == port)
}

fn kill(pid: u32) {
    let ran = Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(ran.is_ok_and(|status| status.success()), "it runs");
}

fn prepare(farm: &Farm) {
    farm.json(&["sharding", "assign_database", "one", "g1"]);
    farm.json(&["sharding", "assign_database", "two", "g2"]);
    let mut root = Client::connect(farm.sql, "root", "").expect("root has no password");
    root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    for name in ["one", "two"] {
        root.run(&format!("CREATE DATABASE {name}"));
        root.run(&format!("GRANT ALL ON {name}.* TO app@'%'"));
        root.run(&format!(
            "CREATE TABLE {name}.t (id INT PRIMARY KEY, v BIGINT NOT NULL)"
        ));
        for id in 0..ACCOUNTS {
            root.run(&format!("INSERT INTO {name}.t VALUES ({id}, {START})"));
        }
    }
}
