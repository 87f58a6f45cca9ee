//! One statement on two groups at once, through one door, on real servers of both engines: `fan.t` has
//! its ids below 100 on the first group and the others on the second.

use std::sync::Arc;
use std::time::Duration;

use farm::Sharding;
use farm::shard::{Bound, Key, KeyType, Shard, ShardKind, ShardMap, ShardedTable};
use farm::sharding::{Column, Placement, TableSchema};
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

struct Two {
    stage: Stage,
    door: Door,
}

fn farms() -> Vec<Two> {
    let releases = [Release::Installed, Release::MySql80];
    let stages = releases.into_iter().filter_map(Stage::start_with);
    stages.map(Two::new).collect()
}

fn column(name: &str, full_type: &str) -> Column {
    let data_type = full_type.split('(').next().unwrap_or_default();
    Column {
        name: name.into(),
        data_type: data_type.into(),
        full_type: full_type.into(),
        collation: (data_type == "varchar").then(|| "utf8mb4_general_ci".into()),
        nullable: name != "id",
        auto_increment: false,
        generated: false,
        invisible: false,
    }
}

fn sharding() -> Sharding {
    let shard = |id, group: &str, lower| Shard {
        id,
        group: group.into(),
        bound: Bound::Lower(Key::Int(lower)),
        enabled: true,
    };
    let map = ShardMap {
        id: 1,
        kind: ShardKind::Range,
        global_group: "g1".into(),
        shards: vec![shard(1, "g1", 0), shard(2, "g2", 100)],
        slots: Vec::new(),
    };
    let mut sharding = Sharding::new(1, vec![map]);
    let table = ShardedTable {
        database: "fan".into(),
        table: "t".into(),
        column: "id".into(),
        key: KeyType::Integer,
        map: 1,
    };
    sharding.declare("fan", "t", Placement::Sharded(table));
    let schema = TableSchema {
        columns: vec![column("id", "int(11)"), column("s", "varchar(3)")],
        primary: vec![0],
        ..TableSchema::default()
    };
    sharding.describe("fan", "t", Arc::new(schema));
    sharding
}

impl Two {
    fn new(stage: Stage) -> Two {
        stage.let_decide();
        stage.everywhere(
            "CREATE DATABASE fan; \
             CREATE TABLE fan.t (id INT PRIMARY KEY, s VARCHAR(3)) CHARACTER SET utf8mb4",
        );
        for (server, from) in [(&stage.primary, 0), (&stage.replica, 100)] {
            let rows: Vec<String> = (0..50).map(|id| format!("({}, 'a')", id + from)).collect();
            let text = format!("INSERT INTO fan.t VALUES {}", rows.join(","));
            server.client().run(&text);
        }
        // The MySQL that is installed may be older than its safe XA.
        let door = stage.door_with(|tuning| tuning.settings.crossings.unsafe_xa = true);
        door.spread();
        door.publish(|snapshot| snapshot.sharding = Some(Arc::new(sharding())));
        Two { stage, door }
    }

    fn client(&self) -> Client {
        self.door.client_in("fan")
    }
}

/// Codes of SHOW WARNINGS.
fn codes(client: &mut Client) -> Vec<String> {
    let rows = client.rows("SHOW WARNINGS");
    rows.into_iter()
        .filter_map(|mut row| row[1].take())
        .collect()
}

#[test]
fn warnings_of_all_groups_are_shown() {
    for two in farms() {
        let mut client = two.client();
        client.run("SET sql_mode = ''");
        let done = client.run("INSERT INTO t VALUES (60, 'long'), (160, 'longer')");
        assert_eq!((done.affected_rows, done.warnings), (2, 2));
        assert_eq!(codes(&mut client), ["1265", "1265"]);
        client.run("BEGIN");
        client.run("UPDATE t SET s = 'much' WHERE id IN (60, 160)");
        assert_eq!(codes(&mut client), ["1265", "1265"]);
        client.run("ROLLBACK");
        assert_eq!(
            client.error("INSERT INTO t VALUES (70, 'b'), (160, 'b')"),
            1062
        );
        assert_eq!(codes(&mut client), ["1062"]);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "102");
        drop(client);
        two.door.wait_unused();
    }
}

#[test]
fn rows_come_in_both_protocols() {
    for two in farms() {
        let mut client = two.client();
        let all = client.rows("SELECT id, s FROM t ORDER BY id DESC LIMIT 3 OFFSET 48");
        let ids: Vec<_> = all.iter().filter_map(|row| row[0].as_deref()).collect();
        assert_eq!(ids, ["101", "100", "49"]);
        let statement = client
            .prepare("SELECT id FROM t WHERE s = ?")
            .expect("prepared");
        let rows = client.execute(&statement, &["a".into()]).expect("rows");
        let testkit::client::Reply::Rows(rows) = &rows[0] else {
            panic!("no rows: {rows:?}");
        };
        assert_eq!(rows.rows.len(), 100);
        drop(client);
        two.door.wait_unused();
    }
}

/// Servers on which a statement of the door's waits for locks.
fn waiting(two: &Two) -> usize {
    let text = "SELECT COUNT(*) FROM information_schema.processlist \
                WHERE info LIKE '%FOR UPDATE%' AND info NOT LIKE '%processlist%'";
    let servers = [&two.stage.primary, &two.stage.replica];
    let counts = servers.map(|server| server.client().value(text));
    counts.iter().filter(|count| *count != "0").count()
}

#[test]
fn a_kill_reaches_all_groups() {
    for two in farms() {
        let mut holders = [two.stage.primary.client(), two.stage.replica.client()];
        for holder in &mut holders {
            holder.run("BEGIN");
            holder
                .query("SELECT id FROM fan.t FOR UPDATE")
                .expect("rows");
        }
        let mut client = two.client();
        let id = client.connection_id;
        let asked = std::thread::spawn(move || {
            let answer = client.query("SELECT id FROM t FOR UPDATE");
            (client, answer)
        });
        wait_until(SOON, "both servers wait", || waiting(&two) == 2);
        two.client().run(&format!("KILL QUERY {id}"));
        let (mut client, answer) = asked.join().expect("an answer");
        assert_eq!(answer.expect_err("it was killed").number(), 1317);
        wait_until(SOON, "nobody waits", || waiting(&two) == 0);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "100");
        drop(client);
        two.door.wait_unused();
    }
}
