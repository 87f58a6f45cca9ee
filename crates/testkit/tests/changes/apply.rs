//! `heddle apply`: a farm of two groups replicates into one server, over kills of the applier and moves of rows.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::farm::heddle;
use testkit::server::Server;
use testkit::{Client, Farm, Release, wait_until};

use crate::reading::{SOON, Stream, admin, rows};

const ACCOUNTS: u64 = 40;
const START: u64 = 1000;
const CLIENTS: u64 = 4;

/// Kills of the applier, and how many transfers are acknowledged between two.
const KILLS: u64 = 6;
const TRANSFERS: u64 = 60;

const TABLES: [&str; 6] = [
    "one.t",
    "two.t",
    "one.log",
    "two.names",
    "one.parent",
    "one.child",
];

/// The applier, with what it says in a file.
pub(crate) fn start(farm: &Farm, target: &Server, flags: &[&str]) -> Child {
    let said = File::options()
        .create(true)
        .append(true)
        .open(farm.dir().join("apply.log"))
        .expect("a file");
    let mut command = Command::new(heddle());
    command
        .args(["apply", "--to", &target.address().to_string()])
        .args(flags);
    command.env("HEDDLE_HTTP", farm.http.to_string());
    command.env("HEDDLE_TOKEN", admin(farm));
    command.stdin(Stdio::null());
    command
        .stdout(said.try_clone().expect("a file"))
        .stderr(said);
    command.spawn().expect("the program can be run")
}

pub(crate) fn said(farm: &Farm) -> String {
    std::fs::read_to_string(farm.dir().join("apply.log")).unwrap_or_default()
}

fn prepare(farm: &Farm) {
    farm.json(&["sharding", "assign_database", "one", "g1"]);
    farm.json(&["sharding", "assign_database", "two", "g2"]);
    let mut root = farm.client();
    for name in ["one", "two"] {
        root.run(&format!("CREATE DATABASE {name}"));
        root.run(&format!(
            "CREATE TABLE {name}.t (id INT PRIMARY KEY, v BIGINT NOT NULL)"
        ));
        for id in 0..ACCOUNTS {
            root.run(&format!("INSERT INTO {name}.t VALUES ({id}, {START})"));
        }
    }
    root.run("CREATE TABLE one.log (id BIGINT AUTO_INCREMENT PRIMARY KEY, who INT, u INT UNIQUE)");
    root.run("CREATE TABLE two.names (name VARCHAR(40) PRIMARY KEY, v INT)");
    root.run("CREATE TABLE one.parent (id INT PRIMARY KEY)");
    root.run(
        "CREATE TABLE one.child (id INT PRIMARY KEY, parent INT, \
         FOREIGN KEY (parent) REFERENCES one.parent (id) ON DELETE CASCADE)",
    );
}

/// Moves money between the groups, and writes what depends on the order of transactions.
fn transfer(
    client: &mut Client,
    who: u64,
    number: u64,
    cascades: bool,
) -> Result<(), testkit::client::Failure> {
    let (from, to) = match number.is_multiple_of(2) {
        true => ("one", "two"),
        false => ("two", "one"),
    };
    let id = (number * 7 + who) % ACCOUNTS;
    client.query("BEGIN")?;
    client.query(format!("UPDATE {from}.t SET v = v - 1 WHERE id = {id}"))?;
    client.query(format!("UPDATE {to}.t SET v = v + 1 WHERE id = {id}"))?;
    client.query("COMMIT")?;
    // A unique number changes hands: it is given up by one row, and taken by another.
    client.query(format!("DELETE FROM one.log WHERE u = {who}"))?;
    client.query(format!(
        "INSERT INTO one.log (who, u) VALUES ({who}, {who})"
    ))?;
    // Keys that are equal to the server, and not byte by byte.
    let name = if number.is_multiple_of(2) {
        "Name"
    } else {
        "NAME"
    };
    client.query(format!("DELETE FROM two.names WHERE name = 'name{who}'"))?;
    client.query(format!(
        "INSERT INTO two.names VALUES ('{name}{who}', {number})"
    ))?;
    if !cascades {
        return Ok(());
    }
    // A DELETE takes along rows of another table, of which the binlog says nothing.
    client.query(format!("DELETE FROM one.parent WHERE id = {who}"))?;
    client.query(format!("INSERT INTO one.parent VALUES ({who})"))?;
    client.query(format!(
        "INSERT INTO one.child VALUES ({}, {who})",
        who + 100 * (number % 50)
    ))?;
    Ok(())
}

/// What the clients and the test tell each other.
#[derive(Default)]
struct Course {
    stop: AtomicBool,
    /// The rows that were there have been read.
    is_read: AtomicBool,
    done: AtomicU64,
}

fn work(farm: &Farm, who: u64, course: &Course) {
    let mut client = farm.client();
    let mut number = 0;
    while !course.stop.load(Relaxed) {
        match transfer(&mut client, who, number, course.is_read.load(Relaxed)) {
            Ok(()) => drop(course.done.fetch_add(1, Relaxed)),
            Err(_) => drop(client.query("ROLLBACK")),
        }
        number += 1;
    }
}

/// The sums of all tables; of the farm's from the groups that have them.
fn sums(clients: [&mut Client; 2]) -> Vec<String> {
    let mut all = Vec::new();
    let [one, two] = clients;
    for table in TABLES {
        let client = if table.starts_with("one") {
            &mut *one
        } else {
            &mut *two
        };
        let rows = client.rows(&format!("CHECKSUM TABLE {table}"));
        all.push(format!("{table} {:?}", rows[0][1]));
    }
    all
}

fn two_groups_replicate_into_one_server(release: Release) {
    let flags = [
        &["--groups", "2", "--replicas", "0"][..],
        release.xa_flags(),
    ]
    .concat();
    let Some(farm) = Farm::start_on(release, &flags) else {
        return;
    };
    let Some(target) = Server::start(release) else {
        return;
    };
    prepare(&farm);
    let farm = Arc::new(farm);
    let course = Arc::new(Course::default());
    let workers: Vec<_> = (0..CLIENTS)
        .map(|who| {
            let (farm, course) = (Arc::clone(&farm), Arc::clone(&course));
            thread::spawn(move || work(&farm, who, &course))
        })
        .collect();
    let mut applier = start(&farm, &target, &["--snapshot"]);
    for kill in 0..KILLS {
        if kill == 2 {
            wait_until(SOON, "the rows of both groups", || {
                let said = said(&farm);
                ["g1", "g2"]
                    .iter()
                    .all(|group| said.contains(&format!("rows of group {group} are read")))
            });
            course.is_read.store(true, Relaxed);
        }
        let before = course.done.load(Relaxed);
        wait_until(SOON, "transfers", || {
            course.done.load(Relaxed) > before + TRANSFERS
        });
        assert!(
            applier.try_wait().expect("a child").is_none(),
            "{}",
            said(&farm)
        );
        applier.kill().expect("it runs");
        applier.wait().expect("it ends");
        if kill == KILLS / 2 {
            let mut root = farm.client();
            root.run("ALTER TABLE one.t ADD COLUMN w INT NOT NULL DEFAULT 5");
            root.run("CREATE TABLE two.later (a INT PRIMARY KEY)");
            root.run("INSERT INTO two.later VALUES (7)");
        }
        applier = start(&farm, &target, &["--snapshot"]);
    }
    course.stop.store(true, Relaxed);
    workers
        .into_iter()
        .for_each(|worker| worker.join().expect("it writes"));
    copy_is_equal(&farm, &target, &mut applier);
}

/// Nobody writes any more: what the applier has applied is what the groups have.
fn copy_is_equal(farm: &Farm, target: &Server, applier: &mut Child) {
    let mut root = farm.client();
    root.run("CREATE TABLE one.last (a INT PRIMARY KEY)");
    root.run("CREATE TABLE two.last (a INT PRIMARY KEY)");
    root.run("INSERT INTO one.last VALUES (1)");
    root.run("INSERT INTO two.last VALUES (1)");
    wait_until(SOON, "the last rows", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(farm));
        let has = |table: &str| {
            let count = format!("SELECT COUNT(*) FROM {table}");
            target.client().query(&count).is_ok() && target.client().value(&count) == "1"
        };
        has("one.last") && has("two.last")
    });
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
    let (mut one, mut two) = (farm.member("g1-1").client(), farm.member("g2-1").client());
    let there = sums([&mut one, &mut two]);
    let mut copy = target.client();
    let mut again = target.client();
    assert_eq!(sums([&mut copy, &mut again]), there, "{}", said(farm));
    let money =
        copy.value("SELECT SUM(v) FROM (SELECT v FROM one.t UNION ALL SELECT v FROM two.t) x");
    assert_eq!(money, (2 * ACCOUNTS * START).to_string());
    assert_eq!(copy.value("SELECT a FROM two.later"), "7");
    let said = said(farm);
    // A line that counts says «0 conflicts».
    assert!(!said.contains("conflict:"), "{said}");
}

fn what_the_target_has_otherwise_is_reported(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let Some(target) = Server::start(release) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    let mut copy = target.client();
    let table = "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)";
    for sql in [
        "CREATE DATABASE d",
        table,
        "INSERT INTO d.t VALUES (1, 1), (2, 2)",
    ] {
        client.run(sql);
        copy.run(sql);
    }
    copy.run("DELETE FROM d.t WHERE id = 1");
    copy.run("INSERT INTO d.t VALUES (3, 30)");
    let mut applier = start(&farm, &target, &[]);
    wait_until(SOON, "it has begun", || {
        let rows = target
            .client()
            .query("SELECT COUNT(*) FROM heddle_apply.progress");
        rows.is_ok()
            && target
                .client()
                .value("SELECT COUNT(*) FROM heddle_apply.progress")
                == "1"
    });
    client.run("UPDATE d.t SET v = 11 WHERE id = 1");
    client.run("INSERT INTO d.t VALUES (3, 3)");
    client.run("CREATE TRIGGER d.x BEFORE INSERT ON d.t FOR EACH ROW SET NEW.v = NEW.v + 1");
    client.run("INSERT INTO d.t VALUES (4, 4)");
    let rows = "SELECT GROUP_CONCAT(id, '=', v ORDER BY id) FROM d.t";
    wait_until(SOON, "the rows", || {
        target.client().value(rows) == "1=11,2=2,3=3,4=5"
    });
    let text = said(&farm);
    for part in [
        "had no row {\"id\":1}; it was inserted",
        "had a row {\"id\":3} already; it was overwritten",
        "left out",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // A definition that the binlog tells once is carried out once.
    client.run("TRUNCATE TABLE d.t");
    client.run("INSERT INTO d.t VALUES (9, 8)");
    wait_until(SOON, "the rows", || target.client().value(rows) == "9=9");
    assert!(
        applier.try_wait().expect("a child").is_none(),
        "{}",
        said(&farm)
    );
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
}

/// Rows that move.
const ROWS: i64 = 30;

fn farm_of_one_map(release: Release) -> Option<Farm> {
    let flags = [
        &["--groups", "2", "--replicas", "0"][..],
        release.xa_flags(),
    ]
    .concat();
    let farm = Farm::start_on(release, &flags)?;
    let mut root = farm.client();
    root.run("CREATE DATABASE d");
    farm.json(&["sharding", "create_definition", "SLOTS", "g1", "map"]);
    farm.json(&["sharding", "add_shard", "map", "g1", "ENABLED"]);
    root.run("CREATE TABLE d.t (id INT PRIMARY KEY, v INT) /*heddle shard_map=map shard_key=id*/");
    root.run("CREATE TABLE d.last (a INT PRIMARY KEY) /*heddle shard_map=map shard_key=a*/");
    root.run("CREATE TABLE d.rate (id INT PRIMARY KEY, v INT) /*heddle global_map=map*/");
    for id in 0..ROWS {
        root.run(&format!("INSERT INTO d.t VALUES ({id}, 0)"));
    }
    root.run("INSERT INTO d.rate VALUES (1, 1)");
    Some(farm)
}

fn rows_that_move_stay_what_they_are(release: Release) {
    let Some(farm) = farm_of_one_map(release) else {
        return;
    };
    let Some(target) = Server::start(release) else {
        return;
    };
    let mut stream = Stream::now(&farm, "order=global");
    let mut records = Stream::now(&farm, "order=global&types=debezium");
    let mut applier = start(&farm, &target, &["--snapshot", "--order", "global"]);
    wait_until(SOON, "the rows of both groups", || {
        let said = said(&farm);
        ["g1", "g2"]
            .iter()
            .all(|group| said.contains(&format!("rows of group {group} are read")))
    });
    let mut root = farm.client();
    root.run("UPDATE d.t SET v = 1 WHERE id = 1");
    farm.json(&["sharding", "move_shard", &farm.shard_on("g1"), "g2"]);
    root.run("UPDATE d.t SET v = v + 1 WHERE id IN (1, 2)");
    root.run("DELETE FROM d.t WHERE id = 3");
    // Both groups have this one, and each tells of it.
    root.run("UPDATE d.rate SET v = 2 WHERE id = 1");
    root.run("INSERT INTO d.last VALUES (1)");
    let events = stream.until_last(1);
    let told = rows(&events).into_iter().filter(|it| it["table"] == "t");
    let (moved, others): (Vec<_>, Vec<_>) = told.partition(|it| it["move"] == true);
    let count = |kind: &str| moved.iter().filter(|it| it["kind"] == kind).count();
    // Rows that change while they are copied are brought once more.
    let (there, gone) = (count("insert"), count("delete"));
    assert!(there == gone && gone >= 30, "{moved:#?}");
    let kinds: Vec<_> = others.iter().map(|it| it["kind"].clone()).collect();
    assert_eq!(kinds, ["update", "update", "update", "delete"]);
    let records = records.until(|it| it["table"] == "last" && it["event"] == "row");
    let records = rows(&records).into_iter().filter(|it| it["table"] == "t");
    assert_eq!(records.count(), others.len());
    wait_until(SOON, "the last row", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(&farm));
        target.client().value("SELECT COUNT(*) FROM d.last") == "1"
    });
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
    let sql = "SELECT id, v FROM d.t ORDER BY id";
    assert_eq!(target.client().rows(sql), root.rows(sql), "{}", said(&farm));
    let said = said(&farm);
    assert!(!said.contains("conflict:"), "{said}");
}

#[test]
fn an_applier_without_an_order_refuses_what_moves() {
    let Some(farm) = farm_of_one_map(Release::Installed) else {
        return;
    };
    let Some(target) = Server::start(Release::Installed) else {
        return;
    };
    let mut applier = start(&farm, &target, &["--snapshot"]);
    wait_until(SOON, "the rows", || {
        said(&farm).contains("rows of group g1 are read")
    });
    farm.json(&["sharding", "move_shard", &farm.shard_on("g1"), "g2"]);
    wait_until(SOON, "its end", || {
        applier.try_wait().expect("a child").is_some()
    });
    let said = said(&farm);
    assert!(said.contains("begin anew with --order global"), "{said}");
}

testkit::on_both_engines! {
    rows_that_move_stay_what_they_are,
    two_groups_replicate_into_one_server,
    what_the_target_has_otherwise_is_reported,
}
