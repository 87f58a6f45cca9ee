//! Transactions over two groups in a whole farm: of an account without any right on Heddle's own
//! schema, and whole whatever dies when.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use faults::{Plant, Point};
use testkit::client::Login;
use testkit::etcd::Etcd;
use testkit::farm::Member;
use testkit::server::{Release, Server};
use testkit::{Client, Farm, skip, wait_until};

/// For recovery behind a restart, on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(180);

const ACCOUNTS: u64 = 8;
const START: u64 = 1000;

/// Two groups with so many replicas each.
fn farm(release: Release, replicas: &str) -> Option<Farm> {
    if release == Release::MySql80 && replicas != "0" {
        skip(&"MySQL 8.0.12 forgets prepared transactions when it dies");
        return None;
    }
    let flags = ["--groups", "2", "--replicas", replicas];
    Farm::start_on(release, &[&flags[..], release.xa_flags()].concat())
}

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

fn money_neither_comes_nor_goes(release: Release) {
    let Some(mut farm) = farm(release, "0") else {
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
            signal(farm.pid(), "KILL");
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
fn a_group_that_fails_over_loses_nothing(release: Release) {
    let Some(farm) = farm(release, "1") else {
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
            let primary = farm.primary(group);
            primary.signal("KILL");
            wait_until(PATIENCE, "another primary", || {
                farm.primary_of(group)
                    .is_some_and(|it| it.port != primary.port)
            });
            let before = done.load(Ordering::Relaxed);
            wait_until(PATIENCE, "transfers behind the failover", || {
                done.load(Ordering::Relaxed) > before + 10
            });
        }
    });
    // Past Heddle: a client of another account may read from a replica that is behind.
    let sum = |group: &str, name: &str| -> u64 {
        let primary = farm.primary(group);
        let sum = primary
            .client()
            .value(&format!("SELECT SUM(v) FROM {name}.t"));
        sum.parse().expect("a number")
    };
    wait_until(PATIENCE, "nothing prepared", || {
        ["g1", "g2"].iter().all(|group| {
            let primary = farm.primary_of(group);
            primary.is_some_and(|it| it.client().rows("XA RECOVER").is_empty())
        })
    });
    assert_eq!(sum("g1", "one") + sum("g2", "two"), 2 * ACCOUNTS * START);
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

fn signal(pid: u32, name: &str) {
    let ran = Command::new("kill")
        .args(["-s", name, &pid.to_string()])
        .status();
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

/// The client's XA RECOVER.
fn recovered(client: &mut Client) -> Vec<String> {
    let rows = client.rows("XA RECOVER");
    let names = rows.into_iter().filter_map(|row| row.into_iter().nth(3)?);
    names.collect()
}

/// Prepares a client's own XA transaction over both groups, which changes these rows.
fn prepare_own(client: &mut Client, xid: &str, id: u64) {
    client.run(&format!("XA START {xid}"));
    client.run(&format!("UPDATE one.t SET v = v - 1 WHERE id = {id}"));
    client.run(&format!("UPDATE two.t SET v = v + 1 WHERE id = {id}"));
    client.run(&format!("XA END {xid}"));
    client.run(&format!("XA PREPARE {xid}"));
}

/// What both groups have at this id, past the sessions that changed it.
fn both(farm: &Farm, id: u64) -> [u64; 2] {
    ["one", "two"].map(|name| {
        let mut client = app(farm).expect("a login");
        let sql = format!("SELECT v FROM {name}.t WHERE id = {id}");
        client.value(&sql).parse().expect("a number")
    })
}

fn nothing_is_prepared(farm: &Farm) {
    wait_until(PATIENCE, "nothing prepared", || {
        let members = farm.members();
        let mut servers = members.iter().map(|member| member.client());
        servers.all(|mut server| server.rows("XA RECOVER").is_empty())
    });
}

/// A client's own XA transaction is ended by whoever comes for it, and stays until then.
fn xa_of_a_client_outlives_its_session_and_its_router(release: Release) {
    let Some(mut farm) = farm(release, "0") else {
        return;
    };
    prepare(&farm);
    if release != Release::Installed {
        farm.client()
            .run("GRANT XA_RECOVER_ADMIN ON *.* TO app@'%'");
    }
    let mut other = app(&farm).expect("a login");
    let mut client = app(&farm).expect("a login");
    prepare_own(&mut client, "'a','b',7", 1);
    assert_eq!(recovered(&mut other), ["ab"]);
    let mut third = app(&farm).expect("a login");
    assert_eq!(third.error("XA START 'a','b',7"), 1440);
    assert_eq!(other.error("XA COMMIT 'a'"), 1397);
    // Its session lives, and others may not have it; a newer MySQL lets them.
    if release != Release::MySqlNewer {
        assert_eq!(other.error("XA COMMIT 'a','b',7"), 1397);
    }
    // A snapshot is not held up by it, nor is it torn by its end.
    other.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    assert_eq!(other.value("SELECT v FROM one.t WHERE id = 1"), "1000");
    drop(client);
    wait_until(PATIENCE, "the end of its session", || {
        third.query("XA COMMIT 'a','b',7").is_ok()
    });
    assert_eq!(other.value("SELECT v FROM two.t WHERE id = 1"), "1000");
    other.run("COMMIT");
    assert_eq!(both(&farm, 1), [999, 1001]);
    third.run("XA COMMIT 'a','b',7");
    assert_eq!(third.error("XA ROLLBACK 'a','b',7"), 1397);
    nothing_is_prepared(&farm);

    // The router dies.
    let mut client = app(&farm).expect("a login");
    prepare_own(&mut client, "'commits'", 2);
    let mut client = app(&farm).expect("a login");
    prepare_own(&mut client, "'undoes'", 3);
    let mut client = app(&farm).expect("a login");
    prepare_own(&mut client, "'stays'", 4);
    client.run("DO 1");
    signal(farm.pid(), "KILL");
    farm.kill_up();
    farm.start_again();
    let mut other = app(&farm).expect("a login");
    let mut names = recovered(&mut other);
    names.sort();
    assert_eq!(names, ["commits", "stays", "undoes"]);
    wait_until(PATIENCE, "what is held is shown", || {
        let list = farm.json(&["transaction", "list"]);
        list.len() == 3 && list.iter().all(|it| it["state"] == "held")
    });
    other.run("XA COMMIT 'commits'");
    other.run("XA ROLLBACK 'undoes'");
    assert_eq!(both(&farm, 2), [999, 1001]);
    assert_eq!(both(&farm, 3), [1000, 1000]);
    // Somebody ends it at the server itself.
    let members = farm.members();
    let one = members.iter().find(|it| it.group == "g1").expect("a group");
    one.client().run("XA COMMIT 'stays'");
    nothing_is_prepared(&farm);
    assert_eq!(both(&farm, 4), [999, 1001]);
}

/// Groups fail over while a client's own XA transaction is prepared: its client ends it all the same.
fn xa_of_a_client_outlives_a_failover(release: Release) {
    let Some(farm) = farm(release, "1") else {
        return;
    };
    prepare(&farm);
    for (id, group, end) in [
        (1, "g1", "COMMIT"),
        (2, "g2", "COMMIT"),
        (3, "g1", "ROLLBACK"),
    ] {
        let mut client = app(&farm).expect("a login");
        prepare_own(&mut client, "'f'", id);
        let primary = farm.primary(group);
        primary.signal("KILL");
        client.run(&format!("XA {end} 'f'"));
        let wanted = match end {
            "COMMIT" => [999, 1001],
            _ => [1000, 1000],
        };
        wait_until(PATIENCE, "a whole end", || both(&farm, id) == wanted);
        wait_until(PATIENCE, "a whole farm", || {
            ["g1", "g2"].iter().all(|group| {
                let servers = farm.json(&["group", "lookup_servers", group]);
                let up = |it: &&serde_json::Value| {
                    it["status"] == "PRIMARY" || it["status"] == "SECONDARY"
                };
                servers.iter().filter(up).count() == 2
            })
        });
        wait_until(PATIENCE, "nothing prepared", || {
            ["g1", "g2"].iter().all(|group| {
                let primary = farm.primary_of(group);
                primary.is_some_and(|it| it.client().rows("XA RECOVER").is_empty())
            })
        });
    }
}

/// The compiled program of `test/compat/java-xa` and its class path; says why there is none.
fn java() -> Option<(PathBuf, String)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/compat/java-xa");
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("java-xa");
    let listing = target.join("classpath");
    let built = Command::new("mvn")
        .args(["--batch-mode", "--quiet", "--file"])
        .arg(source.join("pom.xml"))
        .arg(format!("-Dxa.target={}", target.display()))
        .args(["compile", "dependency:build-classpath"])
        .arg(format!("-Dmdep.outputFile={}", listing.display()))
        .output();
    match built {
        Ok(built) if built.status.success() => {}
        Ok(built) => {
            let said = String::from_utf8_lossy(&built.stdout).into_owned();
            let first = said.lines().find(|line| line.contains("ERROR"));
            let why = first.unwrap_or("it does not say why");
            skip(&format!("Maven cannot have the transaction manager: {why}"));
            return None;
        }
        Err(error) => {
            skip(&format!(
                "Maven is not installed (maven, default-jdk-headless): {error}"
            ));
            return None;
        }
    }
    let libraries = std::fs::read_to_string(&listing).expect("a class path");
    let classes = target.join("classes");
    let path = format!("{}:{}", classes.display(), libraries.trim());
    Some((target, path))
}

/// Narayana, a transaction manager of Java, takes the farm as one resource by Connector/J: one phase,
/// two phases beside another resource, rollbacks, and its recovery when it died between the phases,
/// also with the farm's router.
#[test]
fn a_java_transaction_manager_takes_the_farm_as_one_resource() {
    let Some((target, path)) = java() else {
        return;
    };
    let Some(mut farm) = Farm::start(&["--groups", "2", "--replicas", "0"]) else {
        return;
    };
    prepare(&farm);
    let log = target.join(format!("log-{}", std::process::id()));
    let run = |farm: &Farm, what: &str| -> Output {
        let mut java = Command::new("java");
        java.args(["-cp", &path, "xa.Manager"]);
        java.args([
            &farm.sql.port().to_string(),
            &log.display().to_string(),
            what,
        ]);
        java.output().expect("java runs")
    };
    let told = |output: &Output| {
        let [out, err] = [&output.stdout, &output.stderr].map(|it| String::from_utf8_lossy(it));
        format!("{}\n{out}\n{err}", output.status)
    };
    let worked = run(&farm, "work");
    assert!(worked.status.success(), "{}", told(&worked));
    for what in ["crash", "orphan"] {
        let died = run(&farm, what);
        assert_eq!(died.status.code(), Some(3), "{}", told(&died));
    }
    assert_eq!(recovered(&mut app(&farm).expect("a login")).len(), 2);
    signal(farm.pid(), "KILL");
    farm.kill_up();
    farm.start_again();
    let recovered = run(&farm, "recover");
    assert!(recovered.status.success(), "{}", told(&recovered));
    assert_eq!(both(&farm, 4), [999, 1001]);
    assert_eq!(both(&farm, 5), [1000, 1000]);
    nothing_is_prepared(&farm);
    // A folder of the build's; nobody misses it.
    let _ = std::fs::remove_dir_all(&log);
}

/// Two routers of one farm, and the two servers that are its groups.
struct Pair {
    routers: [Farm; 2],
    servers: [Server; 2],
    _store: Etcd,
}

impl Pair {
    fn start(release: Release) -> Option<Pair> {
        let store = Etcd::start(1)?;
        let own = [("innodb_flush_log_at_trx_commit", "2")];
        let server = || Server::start_with(release, &own);
        let servers = [server()?, server()?];
        let etcd = format!("etcd={}", store.urls());
        // Without the word that says what they are.
        let settings = release.xa_flags().get(1..).unwrap_or_default();
        let routers = ["r1", "r2"].map(|name| {
            let name = format!("router_name={name}");
            Farm::serve(&[&[&*etcd, &*name], settings].concat())
        });
        for (server, group) in servers.iter().zip(["g1", "g2"]) {
            routers[0].json(&["group", "create", group]);
            let address = server.address().to_string();
            routers[0].json(&["group", "add", group, &address]);
        }
        let pair = Pair {
            routers,
            servers,
            _store: store,
        };
        prepare(&pair.routers[0]);
        Some(pair)
    }

    /// The owner of a transaction stands still when its branch is prepared; the other router ends it, and
    /// then the owner goes on. Gives what the client heard, and what stands in both groups.
    fn owner_stands_still(&self) -> (Result<(), String>, [String; 2]) {
        let [owner, _] = &self.routers;
        let mut client = app(owner).expect("a login");
        client.run("BEGIN");
        client.run("UPDATE one.t SET v = v - 1 WHERE id = 1");
        client.run("UPDATE two.t SET v = v + 1 WHERE id = 1");
        let fault = owner.faults().join(Point::Decide.name());
        // Of the time before.
        let _ = std::fs::remove_file(fault.with_extension("taken"));
        std::fs::write(&fault, "stop 0").expect("a directory takes files");
        let said = std::thread::scope(|scope| {
            let commit = scope.spawn(|| client.query("COMMIT").map(drop));
            wait_until(PATIENCE, "an owner that stands still", || {
                fault.with_extension("taken").exists()
            });
            let mut second = self.servers[1].client();
            wait_until(PATIENCE, "a branch that another router has ended", || {
                second.rows("XA RECOVER").is_empty()
            });
            signal(owner.pid(), "CONT");
            commit.join().expect("no panic")
        });
        let stands = [(0, "one"), (1, "two")].map(|(at, name): (usize, &str)| {
            let sql = format!("SELECT v FROM {name}.t WHERE id = 1");
            self.servers[at].client().value(&sql)
        });
        (said.map_err(|failure| failure.to_string()), stands)
    }
}

/// One and the same XID of clients' own, begun at two routers: none takes the other's, and whoever ends
/// it ends one of them as a whole.
fn one_name_at_two_routers_does_no_harm(release: Release) {
    let Some(pair) = Pair::start(release) else {
        return;
    };
    let [mut first, mut second] = [0, 1].map(|at| app(&pair.routers[at]).expect("a login"));
    let change = |client: &mut Client, name: &str, id: u64| {
        client.query(format!("UPDATE {name}.t SET v = v + 1 WHERE id = {id}"))
    };
    // On the same group its server keeps the second out.
    first.run("XA START 'x'");
    second.run("XA START 'x'");
    change(&mut first, "one", 1).expect("its own row");
    let taken = change(&mut second, "one", 2).expect_err("a refusal");
    assert!(taken.to_string().contains("1440"), "{taken}");
    second.run("XA ROLLBACK 'x'");
    // Begun on different ones both have it.
    second.run("XA START 'x'");
    change(&mut second, "two", 3).expect("its own row");
    change(&mut first, "two", 4).expect("its own row");
    change(&mut second, "one", 5).expect("its own row");
    for client in [&mut first, &mut second] {
        client.run("XA END 'x'");
        client.run("XA PREPARE 'x'");
    }
    let mut third = app(&pair.routers[1]).expect("a login");
    assert_eq!(third.error("XA START 'x'"), 1440);
    drop((first, second));
    // Nobody can say which of them is meant; each is ended at the group where it began.
    let why = || {
        let mut client = app(&pair.routers[0]).expect("a login");
        let failed = client.query("XA COMMIT 'x'").expect_err("two are there");
        failed.to_string()
    };
    wait_until(PATIENCE, "both without a session", || {
        why().contains("each one")
    });
    for (server, end) in pair.servers.iter().zip(["COMMIT", "ROLLBACK"]) {
        // MariaDB knows it to nobody else until the connection that prepared it has ended.
        let sql = format!("XA {end} 'x'");
        wait_until(PATIENCE, &sql, || server.client().query(&sql).is_ok());
    }
    wait_until(PATIENCE, "nothing prepared", || {
        let mut servers = pair.servers.iter().map(Server::client);
        servers.all(|mut server| server.rows("XA RECOVER").is_empty())
    });
    for (name, id) in [("one", 1), ("two", 4)] {
        let sql = format!("SELECT GROUP_CONCAT(id) FROM {name}.t WHERE v <> {START}");
        assert_eq!(third.value(&sql), id.to_string(), "{name}");
    }
    third.run("XA START 'x'");
    change(&mut third, "one", 6).expect("the name is free again");
    third.run("XA END 'x'");
    third.run("XA COMMIT 'x' ONE PHASE");
}

fn an_owner_that_was_judged_dead_too_early_tears_nothing(release: Release) {
    let Some(pair) = Pair::start(release) else {
        return;
    };
    // It may have decided in its last moment.
    let (said, stands) = pair.owner_stands_still();
    let wanted = match &said {
        Ok(()) => ["999", "1001"],
        Err(why) if why.contains("1213") => ["1000", "1000"],
        Err(why) => panic!("{why}"),
    };
    assert_eq!(stands, wanted, "{said:?}");
    // Without the row that takes the decision's place it would be torn.
    let planted = pair.routers[1]
        .faults()
        .join(Plant::ForgetsTombstone.name());
    std::fs::write(planted, "").expect("a directory takes files");
    let torn = (0..8).any(|_| {
        let (_, stands) = pair.owner_stands_still();
        let values = stands.map(|it| it.parse::<u64>().expect("a number"));
        values.iter().sum::<u64>() != 2 * START
    });
    assert!(torn, "the mistake was not found");
}

testkit::on_both_engines! {
    money_neither_comes_nor_goes,
    a_group_that_fails_over_loses_nothing,
    xa_of_a_client_outlives_its_session_and_its_router,
    xa_of_a_client_outlives_a_failover,
    one_name_at_two_routers_does_no_harm,
    an_owner_that_was_judged_dead_too_early_tears_nothing,
}
