//! The level `client`, which is the default: a connection reads what another one of the same client has
//! had acknowledged, whatever the replicas lack, and other reads do not pay for that.

use std::time::Duration;

use farm::ClientScope;
use session::Level;
use testkit::client::{Login, Reply, Value};
use testkit::etcd::Etcd;
use testkit::farm::Member;
use testkit::staging::third;
use testkit::{Client, Door, Farm, Release, Server, Stage, wait_until};

/// For what takes a heartbeat or a probe or two on a busy machine.
const SOON: Duration = Duration::from_secs(60);

/// No test lasts so long.
const FOR_EVER_S: u64 = 3600;

/// A farm of a primary and two replicas, with tables.
fn farm(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(release, &[])?;
    let mut client = farm.client();
    client.run("CREATE DATABASE kin");
    for table in ["t", "a", "b", "log", "source", "copy"] {
        client.run(&format!(
            "CREATE TABLE kin.{table} (id INT PRIMARY KEY, n INT)"
        ));
    }
    client.run("CREATE TABLE kin.parent (id INT PRIMARY KEY)");
    client.run(
        "CREATE TABLE kin.child (id INT PRIMARY KEY, parent INT, \
         FOREIGN KEY (parent) REFERENCES kin.parent (id) ON DELETE CASCADE)",
    );
    client.run("CREATE VIEW kin.seen AS SELECT * FROM kin.t");
    client.run("CREATE PROCEDURE kin.put(x INT) INSERT INTO kin.t VALUES (x, x)");
    client.run(
        "CREATE FUNCTION kin.top() RETURNS INT READS SQL DATA RETURN (SELECT MAX(n) FROM kin.a)",
    );
    client.run(
        "CREATE TRIGGER kin.copies AFTER INSERT ON kin.source FOR EACH ROW \
         INSERT INTO kin.copy VALUES (NEW.id, NEW.n)",
    );
    Some(farm)
}

/// Has a replica apply everything that much later.
fn delay(member: &Member, seconds: u64) {
    let mut client = member.client();
    client.run("STOP SLAVE");
    client.run(&format!("CHANGE MASTER TO MASTER_DELAY = {seconds}"));
    client.run("START SLAVE");
}

/// The one value of a query; `None` for no row, and from a server that lacks the table.
fn found(client: &mut Client, sql: &str) -> Option<String> {
    match client.query(sql).as_deref() {
        Ok([Reply::Rows(rows)]) => rows.text().first()?[0].clone(),
        _ => None,
    }
}

/// A replica would answer, and is known to have what the read needs.
fn is_replicas(client: &mut Client, primary: &str, sql: &str) -> bool {
    let row = client.rows(&format!("HEDDLE EXPLAIN {sql}")).remove(0);
    row[1].as_deref() != Some(primary) && row[5].as_deref() == Some("false")
}

fn what_one_connection_writes_another_reads(release: Release) {
    let Some(farm) = farm(release) else { return };
    delay(&farm.member("g1-2"), 2);
    let (mut writer, mut reader) = (farm.client(), farm.client());
    for id in 0..1500 {
        writer.run(&format!("INSERT INTO kin.t VALUES ({id}, {id})"));
        let read = reader.value(&format!("SELECT COUNT(*) FROM kin.t WHERE id = {id}"));
        assert_eq!(read, "1", "{id}");
    }
    // A connection that is made after the write is one of them.
    for id in 1500..1600 {
        writer.run(&format!("INSERT INTO kin.t VALUES ({id}, {id})"));
        let read = format!("SELECT n FROM kin.t WHERE id = {id}");
        assert_eq!(farm.client().value(&read), id.to_string());
    }
    // The checks above would see it if nothing were promised.
    reader.run("SET heddle_consistency = 'session', heddle_monotonic = OFF");
    reader.run("SET heddle_token = DEFAULT");
    let missed = (1600..1700).filter(|id| {
        writer.run(&format!("INSERT INTO kin.t VALUES ({id}, {id})"));
        found(&mut reader, &format!("SELECT n FROM kin.t WHERE id = {id}")).is_none()
    });
    assert!(missed.count() > 0, "the late replica was never asked");
}

#[test]
fn what_one_connection_writes_another_reads_on_mariadb() {
    what_one_connection_writes_another_reads(Release::Installed);
}

#[test]
fn what_one_connection_writes_another_reads_on_mysql() {
    what_one_connection_writes_another_reads(Release::MySql80);
}

/// A way to write, and what shows it: `{}` is the number of the round.
const WAYS: [(&[&str], &str, bool); 12] = [
    (
        &["INSERT INTO kin.a VALUES ({}, {})"],
        "SELECT n FROM kin.a WHERE id = {}",
        true,
    ),
    (
        &["BEGIN", "INSERT INTO kin.b VALUES ({}, {})", "COMMIT"],
        "SELECT x.n FROM kin.b AS x JOIN kin.b AS y USING (id) WHERE y.id = {}",
        true,
    ),
    (
        &["CALL kin.put({})"],
        "SELECT n FROM kin.t WHERE id = {}",
        true,
    ),
    // What stands behind a name is not written there.
    (
        &["INSERT INTO kin.seen VALUES (10{}, {})"],
        "SELECT n FROM kin.t WHERE id = 10{}",
        true,
    ),
    (
        &["INSERT INTO kin.t VALUES (20{}, {})"],
        "SELECT n FROM kin.seen WHERE id = 20{}",
        true,
    ),
    (
        &["UPDATE kin.a SET n = 90{} WHERE id = {}"],
        "SELECT kin.top() FROM kin.parent",
        true,
    ),
    (
        &["UPDATE kin.a SET n = {} WHERE id = {}"],
        "SELECT n FROM kin.a WHERE id = {}",
        true,
    ),
    (
        &["INSERT INTO kin.source VALUES ({}, {})"],
        "SELECT n FROM kin.copy WHERE id = {}",
        true,
    ),
    (
        &["INSERT INTO kin.child VALUES ({}, {})"],
        "SELECT id FROM kin.child WHERE parent = {}",
        true,
    ),
    (
        &["DELETE FROM kin.parent WHERE id = {}"],
        "SELECT id FROM kin.child WHERE parent = {}",
        false,
    ),
    (
        &[
            "CREATE TABLE kin.new{} (n INT)",
            "INSERT INTO kin.new{} VALUES ({})",
        ],
        "SELECT n FROM kin.new{}",
        true,
    ),
    (
        &[
            "CREATE TRIGGER kin.more AFTER UPDATE ON kin.b FOR EACH ROW INSERT INTO kin.log \
             VALUES (NEW.id, NEW.id)",
            "UPDATE kin.b SET n = -1 WHERE id = {}",
            "DROP TRIGGER kin.more",
        ],
        "SELECT n FROM kin.log WHERE id = {}",
        true,
    ),
];

/// These replicas are late, while the router knows which tables each transaction has changed.
fn every_way_of_writing_counts(release: Release, late: &[&str]) {
    let Some(farm) = farm(release) else { return };
    for name in late {
        delay(&farm.member(name), 1);
    }
    let (mut writer, mut reader) = (farm.client(), farm.client());
    for round in 1..=60_i64 {
        let text = |sql: &str| sql.replace("{}", &round.to_string());
        writer.run(&text("INSERT INTO kin.parent VALUES ({})"));
        for (writes, read, there) in WAYS {
            for sql in writes {
                writer.run(&text(sql));
            }
            let read = text(read);
            // Reads of other tables, that may be answered elsewhere, leave nothing behind.
            reader.rows("SELECT COUNT(*) FROM kin.log");
            let seen = found(&mut reader, &read);
            let expected = match there {
                true if read.contains("top()") => Some(text("90{}")),
                true => Some(round.to_string()),
                false => None,
            };
            assert_eq!(seen, expected, "round {round}: {writes:?}, then {read}");
        }
        let put = writer
            .prepare("INSERT INTO kin.t VALUES (?, ?)")
            .expect("a text");
        let get = reader
            .prepare("SELECT n FROM kin.t WHERE id = ?")
            .expect("a text");
        let id = 300_000 + round;
        let done = writer.execute(&put, &[Value::Int(id), Value::Int(id)]);
        done.expect("it is done");
        match reader.execute(&get, &[Value::Int(id)]).as_deref() {
            Ok([Reply::Rows(rows)]) => assert_eq!(rows.rows[0], [Value::Int(id)]),
            other => panic!("{other:?}"),
        }
    }
    // Without semi-sync a commit waits until a replica has it: no reader need find one that is late.
    if release == Release::MySql80 {
        return;
    }
    let narrowed = reader.rows("HEDDLE STATUS LIKE 'reads_narrowed'");
    assert_ne!(
        narrowed[0][1].as_deref(),
        Some("0"),
        "no table was told apart"
    );
}

#[test]
fn every_way_of_writing_counts_on_mariadb() {
    every_way_of_writing_counts(Release::Installed, &["g1-2", "g1-3"]);
}

/// This MySQL has no semi-sync: a commit is acknowledged once a replica has it, so one is never late.
#[test]
fn every_way_of_writing_counts_on_mysql() {
    every_way_of_writing_counts(Release::MySql80, &["g1-2"]);
}

#[test]
fn a_write_counts_for_its_own_tables_only() {
    let Some(farm) = farm(Release::Installed) else {
        return;
    };
    let primary = format!("127.0.0.1:{}", farm.member("g1-1").port);
    let (mut writer, mut reader) = (farm.client(), farm.client());
    let mut n = 0;
    let mut write = |table: &str| {
        n += 1;
        writer.run(&format!("REPLACE INTO kin.{table} VALUES (1, {n})"));
    };
    // Until the binlog is read, and the replicas have what was there before.
    wait_until(SOON, "a read that needs a part of what was written", || {
        write("a");
        is_replicas(&mut reader, &primary, "SELECT n FROM kin.b");
        let narrowed = reader.rows("HEDDLE STATUS LIKE 'reads_narrowed'");
        narrowed[0][1].as_deref() != Some("0")
    });
    wait_until(SOON, "replicas that have all", || {
        found(&mut reader, "SELECT n FROM kin.a");
        is_replicas(&mut reader, &primary, "SELECT n FROM kin.a")
    });
    // From here on they apply nothing.
    let replicas = ["g1-2", "g1-3"].map(|name| farm.member(name).client());
    let _locked = replicas.map(|mut replica| {
        replica.run("FLUSH TABLES WITH READ LOCK");
        replica
    });
    let others = [
        "SELECT n FROM kin.b",
        "SELECT MAX(b.n), COUNT(*) FROM kin.b JOIN kin.log USING (id) WHERE b.id > 5",
        "SELECT id FROM kin.child WHERE parent IN (SELECT id FROM kin.parent)",
    ];
    let of_it = [
        "SELECT n FROM kin.a",
        "SELECT b.n FROM kin.b, kin.a",
        "SELECT n FROM kin.b WHERE id = (SELECT MAX(id) FROM kin.a)",
        // Whatever stands behind these.
        "SELECT n FROM kin.seen",
        "SELECT n, kin.top() FROM kin.b",
        "WITH b AS (SELECT n FROM kin.a) SELECT n FROM b",
    ];
    for _ in 0..20 {
        write("a");
        for sql in of_it {
            assert!(!is_replicas(&mut reader, &primary, sql), "{sql}");
        }
        for sql in others {
            wait_until(SOON, sql, || is_replicas(&mut reader, &primary, sql));
        }
    }
    // What goes with rows of a parent by a foreign key is written, too.
    writer.run("INSERT INTO kin.parent VALUES (1)");
    for sql in ["SELECT id FROM kin.child", "SELECT id FROM kin.parent"] {
        assert!(!is_replicas(&mut reader, &primary, sql), "{sql}");
    }
    wait_until(SOON, "b", || {
        is_replicas(&mut reader, &primary, "SELECT n FROM kin.b")
    });
    // DDL counts for all tables.
    writer.run("CREATE TABLE kin.young (id INT)");
    for sql in others {
        assert!(!is_replicas(&mut reader, &primary, sql), "{sql}");
    }
    others_have_no_part(&farm, &primary);
}

/// Another account reads from replicas.
fn others_have_no_part(farm: &Farm, primary: &str) {
    let mut writer = farm.client();
    writer.run("CREATE USER 'other'@'%' IDENTIFIED BY 'pw'");
    writer.run("GRANT SELECT ON kin.* TO 'other'@'%'");
    let mut other = None;
    wait_until(SOON, "another account", || {
        let login = Login {
            user: "other",
            password: "pw",
            ..Login::default()
        };
        other = Client::login(farm.sql, &login).ok();
        other.is_some()
    });
    let mut other = other.expect("it was waited for");
    assert!(is_replicas(&mut other, primary, "SELECT n FROM kin.a"));
}

const WHO: &str = "SELECT name FROM stage.who";

/// The servers of the stage do not replicate, so the replica never has what was written.
#[test]
fn which_connections_are_one_clients_is_a_setting() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("kin_scope");
    stage.everywhere("CREATE TABLE kin_scope.t (a INT)");
    stage.everywhere("CREATE USER 'kin_app'@'localhost' IDENTIFIED BY 'secret'");
    stage.everywhere("GRANT SELECT ON stage.* TO 'kin_app'@'localhost'");
    let first = [("_pid", "1")];
    let second = [("_pid", "2")];
    let root = |attributes| Login {
        attributes,
        ..Login::default()
    };
    let app = Login {
        user: "kin_app",
        password: "secret",
        ..Login::default()
    };
    for (scope, same_process, other_process, other_account) in [
        (ClientScope::Address, "primary", "primary", "replica"),
        (ClientScope::Process, "primary", "replica", "replica"),
        (ClientScope::Account, "primary", "primary", "replica"),
        (ClientScope::Everybody, "primary", "primary", "primary"),
    ] {
        let door = stage.door_with(|tuning| {
            tuning.settings.consistency.client_scope = scope;
            tuning.accounts = vec![testkit::door::account("kin_app", "localhost", "secret")];
        });
        let read = |login: &Login<'_>| door.login(login).expect("a login").value(WHO);
        let mut early = door.login(&root(&first)).expect("a login");
        assert_eq!(early.value(WHO), "replica");
        let mut writer = door.login(&root(&first)).expect("a login");
        writer.run("INSERT INTO kin_scope.t VALUES (1)");
        assert_eq!(early.value(WHO), "primary", "{scope:?}");
        assert_eq!(read(&root(&first)), same_process, "{scope:?}");
        assert_eq!(read(&root(&second)), other_process, "{scope:?}");
        assert_eq!(read(&app), other_account, "{scope:?}");
        // The level is each read's own choice.
        let mut fresh = door.login(&root(&first)).expect("a login");
        assert_eq!(fresh.value(&format!("/*ms=session*/ {WHO}")), "replica");
        assert_eq!(fresh.value(&format!("/*ms=client*/ {WHO}")), "primary");
        let mut fresh = door.login(&root(&first)).expect("a login");
        fresh.run("SET heddle_consistency = 'session'");
        assert_eq!(fresh.value(WHO), "replica");
        assert_eq!(
            fresh.value(&format!("/*heddle consistency=client*/ {WHO}")),
            "primary"
        );
        assert_eq!(early.value("SELECT @@heddle_consistency"), "client");
    }
}

/// A lost primary takes writes with it that will never come.
#[test]
fn nobody_waits_for_what_was_lost() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("kin_lost");
    stage.everywhere("CREATE TABLE kin_lost.t (a INT)");
    let Some(third) = third(Release::Installed) else {
        return;
    };
    let door = Door::start(&[&stage.primary, &third], |tuning| {
        tuning.settings.consistency.level = Level::Client;
    });
    let (mut writer, mut reader) = (door.client(), door.client());
    assert_eq!(reader.value(WHO), "third");
    writer.run("INSERT INTO kin_lost.t VALUES (1)");
    assert_eq!(reader.value(WHO), "primary");
    // The new one had nothing when it took over.
    door.regroup(|group| group.forks = vec![farm::Position::empty(farm::Engine::MariaDb)]);
    assert_eq!(door.client().value(WHO), "third");
}

/// Two routers of one farm.
#[test]
fn what_was_written_at_one_router_is_read_at_another() {
    let Some(store) = Etcd::start(1) else { return };
    let own = [("innodb_flush_log_at_trx_commit", "2")];
    let server = || Server::start_with(Release::Installed, &own);
    let (Some(primary), Some(replica)) = (server(), server()) else {
        return;
    };
    let etcd = format!("etcd={}", store.urls());
    let mut routers = ["r1", "r2"].map(|name| {
        let name = format!("router_name={name}");
        Farm::serve(&[&etcd, &name])
    });
    routers[0].json(&["group", "create", "g1"]);
    for (number, server) in [&primary, &replica].into_iter().enumerate() {
        let address = server.address().to_string();
        routers[0].json(&["group", "add", "g1", &address]);
        if number == 0 {
            let mut client = primary.client();
            client.run("CREATE USER 'heddle_replication'@'%'");
            client.run("GRANT REPLICATION SLAVE ON *.* TO 'heddle_replication'@'%'");
        }
    }
    let mut writer = routers[0].client();
    writer.run("CREATE DATABASE kin");
    writer.run("CREATE TABLE kin.t (id INT PRIMARY KEY)");
    let at_primary = primary.address().to_string();
    const READ: &str = "SELECT id FROM kin.t";
    let mut reader = routers[1].client();
    // A read asks the primary first where another router was silent for a moment.
    wait_until(SOON, "a replica that serves", || {
        found(&mut reader, READ);
        is_replicas(&mut reader, &at_primary, READ)
    });
    let mut late = replica.client();
    late.run("STOP SLAVE");
    late.run(&format!("CHANGE MASTER TO MASTER_DELAY = {FOR_EVER_S}"));
    late.run("START SLAVE");
    wait_until(SOON, "a replica that serves again", || {
        is_replicas(
            &mut routers[1].client(),
            &at_primary,
            "/*ms=slave*/ SELECT 1",
        )
    });
    writer.run("INSERT INTO kin.t VALUES (1)");
    // As soon as the routers have told each other, and for ever then. A read goes to the primary for other
    // reasons, too, as where a replica or a router was silent for a moment: the reason is what tells.
    wait_until(SOON, "the other router knows", || {
        let explained = reader.rows(&format!("HEDDLE EXPLAIN {READ}"));
        explained[0][4].as_deref() == Some("TooOld")
    });
    assert_eq!(reader.value(READ), "1");
    assert_eq!(routers[1].client().value(READ), "1");
    // Of a router that is gone nobody knows what it acknowledged last: the primary is asked.
    let mut second = routers[1].client();
    second.run("INSERT INTO kin.t VALUES (2)");
    routers[1].kill_up();
    wait_until(SOON, "what the dead router acknowledged", || {
        routers[0].client().value("SELECT COUNT(*) FROM kin.t") == "2"
    });
}
