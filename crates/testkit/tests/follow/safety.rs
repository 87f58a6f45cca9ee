//! What a reader gets of a group's binlog, and what it never gets: whatever a failover may take back, and the log
//! of a server that is the primary no longer.

use std::thread;

use farm::{Acks, Engine};
use mysql_wire::command::Command;
use routing::rules::{Rules, UserDefaults};
use testkit::{Client, Door, Release, Server, Stage, Two, wait_until};

use crate::reader::{ask, begin, engine_of, position, read_to_end, read_until, reader};
use crate::replica::{Replica, SOON};

/// A server with the table `log.t`.
fn server(release: Release) -> Option<Server> {
    let server = Server::start_with(release, &[])?;
    let mut client = server.client();
    client.run("CREATE DATABASE log");
    client.run("CREATE TABLE log.t (v VARCHAR(30) PRIMARY KEY)");
    Some(server)
}

fn insert(mut client: Client, value: &'static str) -> thread::JoinHandle<bool> {
    let sql = format!("INSERT INTO log.t VALUES ('{value}')");
    thread::spawn(move || client.query(&sql).is_ok())
}

#[test]
fn what_no_replica_has_is_withheld_on_mariadb() {
    let Some(mut primary) = server(Release::Installed) else {
        return;
    };
    let door = Door::start(&[&primary], |_| {});
    let mut straight = reader(primary.address(), Engine::MariaDb);
    let mut through = reader(door.address(), Engine::MariaDb);
    let mut root = primary.client();
    root.run("SET GLOBAL rpl_semi_sync_master_enabled = ON");
    let writer = insert(primary.client(), "first of all");
    // Everybody else is sent it while its client waits for a replica.
    read_until(&mut straight, "first of all");
    assert!(!writer.is_finished());
    root.run("SET GLOBAL rpl_semi_sync_master_enabled = OFF");
    assert!(writer.join().expect("it writes"));
    read_until(&mut through, "first of all");
    root.run("SET GLOBAL rpl_semi_sync_master_enabled = ON");
    let writer = insert(primary.client(), "second of all");
    read_until(&mut straight, "second of all");
    primary.kill();
    assert!(!writer.join().expect("it writes"), "nobody has it");
    let (told, number) = read_to_end(&mut through, "second of all");
    assert!(!told && number == 1158, "{told} {number}");
    assert_eq!(door.counter("binlog_streams_moved"), 1);
    assert_eq!(door.counter("binlog_transactions_passed"), 1);
}

#[test]
fn what_the_router_waits_for_is_withheld_on_mysql() {
    let Some(stage) = Stage::start_with(Release::newest_mysql()) else {
        return;
    };
    stage.everywhere("CREATE DATABASE log");
    stage.everywhere("CREATE TABLE log.t (v VARCHAR(30) PRIMARY KEY)");
    stage.everywhere("RESET MASTER");
    let mut replica = stage.replica.client();
    replica.run(&format!(
        "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = {}, MASTER_USER = 'root', \
         MASTER_AUTO_POSITION = 1",
        stage.primary.address().port()
    ));
    replica.run("START SLAVE");
    let door = stage.door();
    door.regroup(|group| group.acks = Acks::Router { wait_ms: 600_000 });
    let mut straight = reader(stage.primary.address(), Engine::MySql);
    let mut through = reader(door.address(), Engine::MySql);
    stage
        .primary
        .client()
        .run("INSERT INTO log.t VALUES ('first of all')");
    read_until(&mut through, "first of all");
    replica.run("STOP SLAVE SQL_THREAD");
    let held = door.counter("commits_held");
    stage
        .primary
        .client()
        .run("INSERT INTO log.t VALUES ('second of all')");
    read_until(&mut straight, "second of all");
    wait_until(SOON, "the reader waits for the replica", || {
        door.counter("commits_held") > held
    });
    door.cut(0);
    let (told, number) = read_to_end(&mut through, "second of all");
    assert!(!told && number == 1158, "{told} {number}");
}

fn another_primary_is_another_stream(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    let engine = engine_of(release);
    stage.everywhere("CREATE DATABASE log");
    stage.everywhere("CREATE TABLE log.t (v VARCHAR(30) PRIMARY KEY)");
    let door = stage.door();
    let mut before = reader(door.address(), engine);
    stage
        .primary
        .client()
        .run("INSERT INTO log.t VALUES ('one')");
    read_until(&mut before, "one");
    // It has asked the old primary what a replica asks, and has no stream yet.
    let mut between = door.client();
    let server_id = between.value("SELECT @@global.server_id");
    door.promote(1);
    let (_, number) = read_to_end(&mut before, "nothing of it");
    assert_eq!(number, 1158);
    let from = position(&mut stage.replica.client(), engine);
    ask(&mut between, engine, &from);
    assert_eq!(read_to_end(&mut between, "nothing of it").1, 1158);
    let mut after = door.client();
    assert_ne!(after.value("SELECT @@global.server_id"), server_id);
    begin(&mut after, engine, &from);
    stage
        .replica
        .client()
        .run("INSERT INTO log.t VALUES ('two')");
    read_until(&mut after, "two");
    assert_eq!(door.counter("binlog_streams_moved"), 1);
}

#[test]
fn another_primary_is_another_stream_on_mariadb() {
    another_primary_is_another_stream(Release::Installed);
}

#[test]
fn another_primary_is_another_stream_on_mysql() {
    another_primary_is_another_stream(Release::newest_mysql());
}

#[test]
fn a_place_in_a_file_is_no_place_of_a_group() {
    for release in [Release::Installed, Release::newest_mysql()] {
        let Some(server) = server(release) else {
            continue;
        };
        let door = Door::start(&[&server], |_| {});
        let file = server.client().rows("SHOW BINARY LOGS")[0][0]
            .clone()
            .expect("a name");
        let mut client = door.client();
        let mut payload = 4u32.to_le_bytes().to_vec();
        payload.extend_from_slice(&[0; 2]);
        payload.extend_from_slice(&992u32.to_le_bytes());
        payload.extend_from_slice(file.as_bytes());
        client
            .send_command(Command::BinlogDump, &payload)
            .expect("sent");
        let failure = client.read_done().expect_err("refused");
        assert_eq!(failure.number(), 1236);
        assert!(failure.to_string().contains("MASTER_USE_GTID"), "{failure}");
        assert!(client.is_closed_within(SOON));
    }
}

/// A primary that waits for acknowledgements takes the reader for no replica of its own, and the replica gets the
/// stream that it expects.
fn nobody_acknowledges_for_the_group(release: Release) {
    let Some(primary) = server(release) else {
        return;
    };
    let door = Door::start(&[&primary], |_| {});
    let mut root = primary.client();
    let names = root.rows("SHOW VARIABLES LIKE 'rpl_semi_sync_%_timeout'");
    let Some(timeout) = names.first().and_then(|row| row[0].clone()) else {
        return testkit::skip(&"no semi-sync plugins");
    };
    let waits = timeout.replace("timeout", "enabled");
    let clients = format!(
        "SHOW STATUS LIKE '{}'",
        timeout.replace("timeout", "clients")
    );
    root.run(&format!("SET GLOBAL {timeout} = 10"));
    root.run(&format!("SET GLOBAL {waits} = ON"));
    let Some(replica) = Replica::of(release, door.address(), &[("max_allowed_packet", "64M")])
    else {
        return;
    };
    wait_until(SOON, "the stream is there", || {
        door.counter("binlog_streams_now") == 1
    });
    root.run("CREATE DATABASE d");
    root.run("CREATE TABLE d.t (id INT PRIMARY KEY, v LONGTEXT)");
    root.run("INSERT INTO d.t VALUES (1, 'x'), (2, REPEAT('y', 17 << 20))");
    replica.reaches("d.t", 2);
    let row = root.rows(&clients);
    assert_eq!(row[0][1].as_deref(), Some("0"), "{row:?}");
    let status = "SHOW STATUS WHERE Variable_name IN \
                  ('Rpl_semi_sync_slave_status', 'Rpl_semi_sync_replica_status')";
    let row = replica.server.client().rows(status);
    assert_eq!(row[0][1].as_deref(), Some("ON"), "it was asked for");
    // It comes again by itself.
    let mut client = door.client();
    let list = client.rows("SHOW PROCESSLIST");
    let dumps = |row: &&Vec<Option<String>>| {
        row[4]
            .as_deref()
            .is_some_and(|command| command.starts_with("Binlog Dump"))
    };
    let id = list.iter().find(dumps).expect("it is listed")[0].clone();
    client.run(&format!("KILL {}", id.expect("an id")));
    wait_until(SOON, "the replica has come again", || {
        door.counter("pins_replication") >= 2 && door.counter("binlog_streams_now") == 1
    });
    root.run("INSERT INTO d.t VALUES (3, 'z')");
    replica.reaches("d.t", 3);
    replica.is_sound();
}

#[test]
fn nobody_acknowledges_for_the_group_on_mariadb() {
    nobody_acknowledges_for_the_group(Release::Installed);
}

#[test]
fn nobody_acknowledges_for_the_group_on_mysql() {
    nobody_acknowledges_for_the_group(Release::newest_mysql());
}

#[test]
fn an_account_reads_the_group_of_its_table() {
    for two in Two::farms() {
        let engine = engine_of(two.stage.release);
        let publish = |group: &str| {
            two.rules.publish(Rules {
                users: vec![UserDefaults {
                    user: "root".to_owned(),
                    group: Some(group.to_owned()),
                    ..UserDefaults::default()
                }],
                ..Rules::default()
            });
        };
        let own = |server: &Server| server.client().value("SELECT @@global.server_id");
        publish("g2");
        let mut client = two.client();
        assert_eq!(
            client.value("SELECT @@global.server_id"),
            own(&two.stage.replica)
        );
        let from = position(&mut client, engine);
        begin(&mut client, engine, &from);
        two.stage
            .primary
            .client()
            .run("INSERT INTO one.t VALUES (1, 1)");
        two.stage
            .replica
            .client()
            .run("CREATE TABLE two.of_the_second (a INT PRIMARY KEY)");
        read_until(&mut client, "of_the_second");
        publish("g7");
        let mut client = two.client();
        ask(&mut client, engine, &from);
        let failure = client.read_done().expect_err("refused");
        assert!(
            failure.number() == 1236 && failure.to_string().contains("g7"),
            "{failure}"
        );
    }
}
