//! Dumps of a whole farm: `mariadb-dump --single-transaction` through the SQL door, by an account that
//! has no rights on Heddle's own schema, while transactions over several groups go on.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use testkit::client::Login;
use testkit::{Client, Farm, Release};

/// Rows of the sharded table.
const ROWS: i64 = 12;

fn app(farm: &Farm) -> Client {
    let login = Login {
        user: "app",
        password: "secret",
        database: Some("shop"),
        ..Login::default()
    };
    Client::login(farm.sql, &login).expect("a login")
}

fn prepare(farm: &Farm, release: Release) {
    let mut root = Client::connect(farm.sql, "root", "").expect("root has no password");
    root.run("CREATE DATABASE shop");
    root.run("CREATE USER app@'%' IDENTIFIED BY 'secret'");
    root.run("GRANT ALL ON shop.* TO app@'%'");
    if release == Release::Installed {
        root.run("GRANT BINLOG MONITOR, RELOAD ON *.* TO app@'%'");
    }
    root.run("CREATE TABLE shop.t (id INT PRIMARY KEY, v INT NOT NULL)");
    farm.json(&["sharding", "create_definition", "SLOTS", "g1", "m"]);
    farm.json(&["sharding", "add_shard", "m", "g1,g2", "ENABLED"]);
    farm.json(&["sharding", "add_table", "m", "shop.t", "id"]);
    for id in 0..ROWS {
        root.run(&format!("INSERT INTO shop.t VALUES ({id}, 100)"));
    }
}

/// Ends the writers, also of a test that fails.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// The values of the dumped rows, and the GTID position that the dump names.
fn read(dump: &str) -> (Vec<i64>, Option<String>) {
    let inserts = dump.lines().filter(|line| line.starts_with('('));
    let values = inserts.map(|line| {
        let row = line
            .trim_start_matches('(')
            .trim_end_matches([')', ',', ';']);
        let (_, value) = row.split_once(',').expect("two columns");
        value.parse().expect("a number")
    });
    let set = "SET GLOBAL gtid_slave_pos='";
    let gtid = dump.lines().find_map(|line| {
        let (_, rest) = line.split_once(set)?;
        rest.split('\'').next().map(str::to_owned)
    });
    (values.collect(), gtid)
}

/// Moves from row to row until it is over.
fn write(farm: &Farm, seed: i64, over: &AtomicBool) {
    let mut client = app(farm);
    let mut at = seed;
    while !over.load(Ordering::SeqCst) {
        // The lower one first, so that nobody waits in a circle.
        let (a, b) = (at % ROWS, (at + 1 + at % 5) % ROWS);
        let sign = if a < b { 1 } else { -1 };
        let change = |id: i64, by: i64| format!("UPDATE t SET v = v + {by} WHERE id = {id}");
        let moved = client
            .query("BEGIN")
            .and_then(|_| client.query(change(a.min(b), sign)))
            .and_then(|_| client.query(change(a.max(b), -sign)))
            .and_then(|_| client.query("COMMIT"));
        if let Err(failure) = moved {
            assert!(failure.to_string().contains("1213"), "{failure}");
        }
        at += 2;
    }
}

/// MariaDB's program asks MariaDB alone where a snapshot stands, and locks all tables of other servers.
fn dump(farm: &Farm, release: Release) -> String {
    let position: &[&str] = match release {
        Release::Installed => &["--master-data=2", "--gtid"],
        _ => &["--no-tablespaces"],
    };
    let ran = Command::new("mariadb-dump")
        .args(["--no-defaults", "--single-transaction"])
        .args(position)
        .args(["--skip-ssl", "--host=127.0.0.1", "--user=app"])
        .args(["--password=secret", &format!("--port={}", farm.sql.port())])
        .arg("shop")
        .output()
        .expect("mariadb-dump runs");
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    assert!(ran.status.success(), "{said}");
    String::from_utf8(ran.stdout).expect("UTF-8")
}

fn a_dump_is_of_one_moment(release: Release) {
    if Command::new("mariadb-dump")
        .arg("--version")
        .output()
        .is_err()
    {
        return;
    }
    let mut flags = vec!["--groups", "2", "--replicas", "0"];
    flags.extend(["--set", "snapshot_reads=on"]);
    flags.extend(release.xa_flags());
    let Some(farm) = Farm::start_on(release, &flags) else {
        return;
    };
    prepare(&farm, release);
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        for seed in 0..2i64 {
            let (farm, over) = (&farm, &over);
            threads.spawn(move || write(farm, seed, over));
        }
        let _end = End(&over);
        let mut auditor = app(&farm);
        for _ in 0..2 {
            // A SELECT over both groups has a snapshot of its own.
            for _ in 0..5 {
                assert_eq!(auditor.value("SELECT SUM(v) FROM t"), "1200");
            }
            let dump = dump(&farm, release);
            let (values, gtid) = read(&dump);
            assert_eq!(values.len() as i64, ROWS, "{dump}");
            assert_eq!(values.iter().sum::<i64>(), 100 * ROWS, "{values:?}");
            if release == Release::Installed {
                let gtid = gtid.expect("a position");
                assert!(gtid.split(',').count() >= 2, "of both groups: {gtid}");
            }
        }
    });
    let mut client = app(&farm);
    assert_eq!(client.error("HEDDLE SNAPSHOT"), 1105);
    client.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY");
    let rows = client.rows("HEDDLE SNAPSHOT");
    assert_eq!(rows.len(), 2);
    // MySQL's GTIDs do not say where in a file they stand.
    let cells = if release == Release::Installed { 5 } else { 3 };
    let known = (rows.iter()).all(|row| row[..cells].iter().all(Option::is_some));
    assert!(known, "{rows:?}");
    client.run("COMMIT");
    client.run("START TRANSACTION WITH CONSISTENT SNAPSHOT");
    assert_eq!(client.value("SELECT SUM(v) FROM t"), "1200");
    client.run("COMMIT");
}

testkit::on_both_engines! {
    a_dump_is_of_one_moment,
}
