//! The control plane by an account that has the privileges of `docs/PRIVILEGES.md` and no others.

use std::path::Path;

use crate::plane::{PATIENCE, Plane, servers_of, wait_until_settled};
use farm::Status;
use testkit::{Release, Server, wait_until};

const ACCOUNT: &str = "'heddle'@'%'";
const REPLICATION: &str = "'heddle_replication'@'%'";

/// What farms need of which nothing is for lesser durability.
const FEATURES: [&str; 3] = ["clone", "shards", "kv"];

/// Makes the accounts on a server, for itself alone.
fn make_accounts(server: &Server, features: &[&str]) {
    make_accounts_as(server, ACCOUNT, features);
}

fn make_accounts_as(server: &Server, account: &str, features: &[&str]) {
    let mut root = server.client();
    root.run("SET SESSION sql_log_bin = 0");
    let by = match server.engine() {
        farm::Engine::MariaDb => "IDENTIFIED BY",
        farm::Engine::MySql => "IDENTIFIED WITH mysql_native_password BY",
    };
    root.run(&format!("CREATE USER {account} {by} 'secret'"));
    // With a password the newest MariaDB replicates inside TLS only, which these servers have not.
    root.run(&format!("CREATE USER {REPLICATION} {by} ''"));
    let release = release_of(server);
    let all = control::grants(&release, features, account).expect("a release");
    for statement in all.into_iter().flat_map(|(_, statements)| statements) {
        root.run(&statement);
    }
    root.run(&control::replication_grant(REPLICATION));
}

fn release_of(server: &Server) -> String {
    server.client().value("SELECT @@version")
}

fn start(dir: &Path) -> Plane {
    Plane::start_with(dir, |settings| {
        let credentials = &mut settings.credentials;
        credentials.user = "heddle".to_owned();
        credentials.password = "secret".to_owned();
        credentials.replication_user = "heddle_replication".to_owned();
    })
}

fn address(server: &Server) -> String {
    server.address().to_string()
}

fn leads(plane: &Plane, server: &Server) -> bool {
    let snapshot = plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let primary = group.primary().map(|it| it.address());
    primary == Some(address(server)) && !group.paused
}

/// Tables, and programs of another account that a server with a binary log takes from few.
fn fill(server: &Server) {
    let mut root = server.client();
    root.run("CREATE DATABASE d");
    root.run("CREATE TABLE d.p (id INT PRIMARY KEY)");
    root.run(
        "CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT, p INT, KEY (v), \
         FOREIGN KEY (p) REFERENCES d.p (id) ON DELETE CASCADE)",
    );
    root.run("CREATE TABLE d.m (id INT PRIMARY KEY) ENGINE=MyISAM");
    root.run("INSERT INTO d.p VALUES (1)");
    root.run("INSERT INTO d.m VALUES (1)");
    root.run("CREATE TRIGGER d.tr BEFORE INSERT ON d.t FOR EACH ROW SET NEW.v = NEW.v + 1");
    root.run("CREATE FUNCTION d.f() RETURNS INT DETERMINISTIC NO SQL RETURN 7");
    root.run("CREATE PROCEDURE d.q() SELECT COUNT(*) FROM d.t");
    root.run("CREATE VIEW d.w AS SELECT id, d.f() AS f FROM d.t");
    root.run("CREATE EVENT d.e ON SCHEDULE EVERY 1 DAY DO DELETE FROM d.m");
    root.run("CREATE USER app@'%'");
    root.run("GRANT SELECT ON d.* TO app@'%'");
    root.run("INSERT INTO d.t (v, p) VALUES (1, 1)");
}

/// What a copy may lose without a word.
fn programs(server: &Server) -> Vec<String> {
    let of = |table: &str, schema: &str| {
        let sql = format!("SELECT COUNT(*) FROM information_schema.{table} WHERE {schema} = 'd'");
        server.client().value(&sql)
    };
    vec![
        of("TRIGGERS", "TRIGGER_SCHEMA"),
        of("ROUTINES", "ROUTINE_SCHEMA"),
        of("VIEWS", "TABLE_SCHEMA"),
        of("EVENTS", "EVENT_SCHEMA"),
        server.client().value("SELECT SUM(v) FROM d.t"),
        server
            .client()
            .value("SELECT COUNT(*) FROM mysql.user WHERE User = 'app'"),
    ]
}

/// A server that was killed follows again. One whose commits no replica had acknowledged, as without
/// semi-sync, may hold what nobody else has: it is filled anew.
fn comes_back(plane: &Plane, server: &Server) {
    let follows = || {
        let snapshot = plane.published.load();
        let group = snapshot.group("g").expect("the group");
        let mut servers = group.servers.iter();
        servers.any(|it| {
            it.address() == address(server)
                && it.status == Status::Replica
                && it.health.io_running == Some(true)
        })
    };
    wait_until(PATIENCE, "a server that is back", || {
        follows() || plane.event_kinds().contains(&"errant_transactions")
    });
    if plane.event_kinds().contains(&"errant_transactions") {
        wait_until(PATIENCE, "the end of the rejoin", || {
            plane.event_kinds().contains(&"rejoin_failed")
        });
        // The only other server may have a commit that waits for its replica, and nobody can lock it then.
        let clone = ["server", "clone", "g", &address(server), "--force=true"];
        wait_until(PATIENCE * 2, "a server that is filled anew", || {
            plane.call(&clone).is_ok()
        });
    }
    plane.wait_replica_again(server);
}

fn complaints(plane: &Plane) -> Vec<String> {
    let events = plane.control.events();
    let told = [
        "privileges_missing",
        "accounts_unreadable",
        "transactions_unlisted",
        "clone_failed",
    ];
    let told = events.into_iter().filter(|it| told.contains(&it.kind));
    told.map(|it| format!("{} {}", it.kind, it.detail))
        .collect()
}

/// A server joins that has to be filled from `source`, and keeps what its `own` account may do.
fn is_filled(plane: &Plane, source: &Server, third: &Server, own: &str) {
    // What the binary logs no longer tell comes by a copy.
    let mut root = source.client();
    root.run("FLUSH BINARY LOGS");
    wait_until(PATIENCE, "purged logs", || {
        let logs = root.rows("SHOW BINARY LOGS");
        let last = logs.last().and_then(|row| row[0].clone()).expect("a log");
        root.run(&format!("PURGE BINARY LOGS TO '{last}'"));
        root.rows("SHOW BINARY LOGS").len() == 1
    });
    plane.rows(&["group", "add", "g", &address(third)]);
    assert!(plane.event_kinds().contains(&"clone_done"));
    let kept = third.client().rows(&format!("SHOW GRANTS FOR {own}"));
    let kept = format!("{kept:?}");
    assert!(
        kept.contains("`heddle`.*") && kept.contains("ADMIN"),
        "{kept}"
    );
    let trusts = "SELECT @@global.log_bin_trust_function_creators";
    assert_eq!(third.client().value(trusts), "0", "as it was");
    wait_until(PATIENCE, "the filled one follows", || {
        programs(third) == programs(source)
    });
    assert_eq!(
        programs(third)[..4],
        ["1", "2", "1", "1"].map(str::to_owned)
    );
    plane.wait_server("serves", third, |it| it.status == Status::Replica);
}

/// A group is made, switched over, bereaved, joined again and grown by a server that has to be filled.
fn a_life_of_a_group(release: Release) {
    let Some([mut first, second, third]) = servers_of::<3>(release) else {
        return;
    };
    for server in [&first, &second] {
        make_accounts(server, &FEATURES);
    }
    // Another account of the name, of which the server that is copied knows nothing.
    let own = "'heddle'@'127.0.0.1'";
    make_accounts_as(&third, own, &FEATURES);
    let dir = tempfile::tempdir().expect("a directory");
    let plane = start(dir.path());
    plane.rows(&["group", "create", "g"]);
    plane.rows(&["group", "add", "g", &address(&first)]);
    plane.rows(&["group", "add", "g", &address(&second)]);
    plane.rows(&["group", "activate", "g"]);
    fill(&first);
    wait_until(PATIENCE, "the accounts", || {
        let accounts = &plane.published.load().accounts;
        accounts.find("app", [127, 0, 0, 1].into()).is_some()
    });
    let doctor = plane.rows(&["manage", "doctor"]);
    let odd = doctor.as_array().expect("rows").iter();
    let odd = odd.filter(|row| row["severity"] != "info" && row["check"] == "privileges");
    assert_eq!(odd.count(), 0, "{doctor}");

    // A client whose account may do everything does not keep its server from changing its role.
    let mut resident = first.client();
    resident.run("SET SESSION autocommit = 0");
    assert_eq!(resident.value("SELECT COUNT(*) FROM d.t"), "1");
    plane.promote("g", &address(&second));
    wait_until(PATIENCE, "the second leads", || leads(&plane, &second));
    plane.wait_replica_again(&first);
    plane.promote("g", &address(&first));
    plane.wait_replica_again(&second);
    wait_until_settled(&second);

    first.kill();
    wait_until(PATIENCE, "another primary", || leads(&plane, &second));
    first.restart();
    comes_back(&plane, &first);
    second.client().run("INSERT INTO d.t (v, p) VALUES (5, 1)");
    wait_until(PATIENCE, "the row on the other one", || {
        programs(&first) == programs(&second)
    });

    is_filled(&plane, &second, &third, own);
    assert_eq!(complaints(&plane), Vec::<String>::new());
}

#[test]
fn a_life_of_a_group_of_mariadb() {
    a_life_of_a_group(Release::Installed);
}

#[test]
fn a_life_of_a_group_of_mariadb_11_4() {
    a_life_of_a_group(Release::MariaDb114);
}

#[test]
fn a_life_of_a_group_of_mysql() {
    a_life_of_a_group(Release::MySql80);
}

#[test]
fn a_life_of_a_group_of_newer_mysql() {
    a_life_of_a_group(Release::MySqlNewer);
}

/// Ends the account's connections, which may do what they could when they began.
fn end_connections(server: &Server) {
    let mut root = server.client();
    let ids = root.rows("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = 'heddle'");
    for id in ids.into_iter().flatten().flatten() {
        // It may have ended.
        let _ = root.query(format!("KILL {id}"));
    }
}

/// Every single privilege that all farms need is missed by its name, before the server is touched.
fn what_is_missing_is_named(release: Release) {
    let Some([server, other]) = servers_of::<2>(release) else {
        return;
    };
    make_accounts(&server, &["essential"]);
    make_accounts(&other, &["essential"]);
    let dir = tempfile::tempdir().expect("a directory");
    let plane = start(dir.path());
    plane.rows(&["group", "create", "g"]);
    let mut root = server.client();
    root.run("SET SESSION sql_log_bin = 0");
    let version = release_of(&server);
    let all = control::grants(&version, &["essential"], ACCOUNT).expect("a release");
    let everything = all[0].1[0].clone();
    let list = everything
        .strip_prefix("GRANT ")
        .and_then(|it| it.split_once(" ON "));
    let names: Vec<&str> = list.expect("a grant").0.split(", ").collect();
    assert!(names.len() > 9, "{names:?}");
    for name in names {
        root.run(&format!("REVOKE {name} ON *.* FROM {ACCOUNT}"));
        let error = plane.error(&["group", "add", "g", &address(&server)]);
        let cure = format!("GRANT {name} ON *.* TO {ACCOUNT}");
        assert!(error.contains(&cure), "{name}: {error}");
        let asked = format!("--before_add={}", address(&server));
        let before = plane.rows(&["manage", "doctor", &asked]);
        assert!(before.to_string().contains(&cure), "{name}: {before}");
        root.run(&cure);
    }
    plane.rows(&["group", "add", "g", &address(&server)]);

    // While the farm runs it is told, and mended by the statement alone.
    root.run(&format!("REVOKE PROCESS ON *.* FROM {ACCOUNT}"));
    end_connections(&server);
    let shown = |plane: &Plane| {
        let health = plane.rows(&["group", "health", "g"]);
        health[0]["privileges_missing"]
            .as_str()
            .expect("text")
            .to_owned()
    };
    wait_until(PATIENCE, "what is missing", || {
        shown(&plane).contains(&format!("GRANT PROCESS ON *.* TO {ACCOUNT}"))
    });
    plane.wait_event("privileges_missing");
    root.run(&format!("GRANT PROCESS ON *.* TO {ACCOUNT}"));
    wait_until(PATIENCE, "nothing is missing", || shown(&plane).is_empty());
    plane.wait_event("privileges_complete");

    // Nothing is begun of a copy that would lose what the account does not see.
    fill(&server);
    let error = plane.error(&["group", "add", "g", &address(&other)]);
    assert!(
        error.contains("TRIGGER") && error.contains("EVENT"),
        "{error}"
    );
    assert!(error.contains(&format!("ON *.* TO {ACCOUNT}")), "{error}");
    assert_eq!(other.client().rows("SHOW DATABASES LIKE 'd'").len(), 0);
    assert_eq!(
        plane
            .rows(&["group", "lookup_servers", "g"])
            .as_array()
            .map(Vec::len),
        Some(1)
    );
}

#[test]
fn what_is_missing_is_named_on_mariadb() {
    what_is_missing_is_named(Release::Installed);
}

#[test]
fn what_is_missing_is_named_on_mysql() {
    what_is_missing_is_named(Release::MySql80);
}

#[test]
fn what_is_missing_is_named_on_newer_mysql() {
    what_is_missing_is_named(Release::MySqlNewer);
}

/// A change of primary that lacks a privilege ends with its name, and takes place once it is granted.
fn a_failover_needs_its_privileges(release: Release, name: &str) {
    let Some([mut first, second]) = servers_of::<2>(release) else {
        return;
    };
    for server in [&first, &second] {
        make_accounts(server, &["essential"]);
    }
    let dir = tempfile::tempdir().expect("a directory");
    let plane = start(dir.path());
    plane.rows(&["group", "create", "g"]);
    plane.rows(&["group", "add", "g", &address(&first)]);
    plane.rows(&["group", "add", "g", &address(&second)]);
    plane.rows(&["group", "activate", "g"]);
    let mut root = second.client();
    root.run("SET SESSION sql_log_bin = 0");
    if release == Release::MySqlNewer {
        root.run("SET GLOBAL super_read_only = 0");
    }
    root.run(&format!("REVOKE {name} ON *.* FROM {ACCOUNT}"));
    end_connections(&second);
    wait_until(PATIENCE, "what is missing", || {
        let health = plane.rows(&["group", "health", "g"]);
        health.to_string().contains(&format!("GRANT {name} ON"))
    });
    let error = plane.error(&["group", "promote", "g", &address(&second)]);
    assert!(error.contains(&format!("GRANT {name} ON")), "{error}");
    wait_until(PATIENCE, "the first leads as before", || {
        leads(&plane, &first)
    });
    first.client().run("CREATE DATABASE still_written");

    wait_until_settled(&second);
    first.kill();
    wait_until(PATIENCE, "a failover that cannot be", || {
        let events = plane.control.events();
        let mut since_death = events.iter().skip_while(|it| it.kind != "server_died");
        since_death.any(|it| it.kind != "privileges_missing" && it.detail.contains(name))
    });
    root.run(&format!("GRANT {name} ON *.* TO {ACCOUNT}"));
    wait_until(PATIENCE, "another primary", || leads(&plane, &second));
    let written = second.client().rows("SHOW DATABASES LIKE 'still_written'");
    assert_eq!(written.len(), 1);
}

#[test]
fn a_failover_needs_its_privileges_on_mariadb() {
    a_failover_needs_its_privileges(Release::Installed, "READ_ONLY ADMIN");
}

#[test]
fn a_failover_needs_its_privileges_on_newer_mysql() {
    a_failover_needs_its_privileges(Release::MySqlNewer, "SYSTEM_VARIABLES_ADMIN");
}

/// A server whose probes are refused says so, and is back when they are not.
fn a_refused_probe_says_why(release: Release, name: &str) {
    let Some([server]) = servers_of::<1>(release) else {
        return;
    };
    make_accounts(&server, &["essential"]);
    let dir = tempfile::tempdir().expect("a directory");
    let plane = start(dir.path());
    plane.rows(&["group", "create", "g"]);
    plane.rows(&["group", "add", "g", &address(&server)]);
    let mut root = server.client();
    root.run(&format!("REVOKE {name} ON *.* FROM {ACCOUNT}"));
    end_connections(&server);
    wait_until(PATIENCE, "a server whose probes are refused", || {
        let events = plane.control.events();
        let mut deaths = events.iter().filter(|it| it.kind == "server_died");
        deaths.any(|it| it.detail.contains(name) && it.detail.contains("heddle doctor"))
    });
    root.run(&format!("GRANT {name} ON *.* TO {ACCOUNT}"));
    plane.wait_server("is back", &server, |it| it.health.alive);
}

#[test]
fn a_refused_probe_says_why_on_mariadb() {
    a_refused_probe_says_why(Release::Installed, "SLAVE MONITOR");
}

#[test]
fn a_refused_probe_says_why_on_mysql() {
    a_refused_probe_says_why(Release::MySql80, "REPLICATION CLIENT");
}
