//! Commands that a client sends without waiting, in a farm whose tables are spread: those of one group go
//! on without a wait, all others wait, and every answer is what one server would say.
//!
//! `flow.t` has its ids below 100 on the first group and the others on the second.

use std::sync::Arc;
use std::time::Duration;

use farm::sharding::{Column, Moving, TableSchema};
use farm::{Sharding, samples};
use testkit::client::{Failure, Reply, Value, frames};
use testkit::{Client, Door, Farm, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(30);

const TABLE: &str = "CREATE TABLE flow.t (id INT PRIMARY KEY, s VARCHAR(10))";

fn column(name: &str, full_type: &str, collation: Option<&str>) -> Column {
    Column {
        collation: collation.map(Into::into),
        nullable: name != "id",
        ..samples::column(name, full_type)
    }
}

/// The map of this epoch: ids below 100 are on the group `low`, the others on g2.
fn sharding(epoch: u64, low: &str) -> Sharding {
    let map = samples::range_map(1, &[(low, 0), ("g2", 100)]);
    let mut sharding = Sharding::new(epoch, vec![map]);
    sharding.declare("flow", "t", samples::sharded("flow", "t", "id", 1));
    let text = Some("utf8mb4_general_ci");
    let schema = TableSchema {
        columns: vec![
            column("id", "int(11)", None),
            column("s", "varchar(10)", text),
        ],
        primary: vec![0],
        ..TableSchema::default()
    };
    sharding.describe("flow", "t", Arc::new(schema));
    sharding
}

/// Two groups of one server each, behind one door.
struct Two {
    stage: Stage,
    door: Door,
}

impl Two {
    fn new(stage: Stage, connections_max: usize) -> Two {
        stage.let_decide();
        stage.everywhere(&format!("CREATE DATABASE flow; {TABLE}"));
        let door = stage.door_with(|tuning| {
            // The MySQL that is installed may be older than its safe XA.
            tuning.settings.dist_txns.unsafe_xa = true;
            tuning.settings.pool.connections_max = connections_max;
            tuning.settings.failover_wait_ms = 60_000;
        });
        door.spread();
        let two = Two { stage, door };
        two.place(sharding(1, "g1"));
        two
    }

    fn farms() -> Vec<Two> {
        let releases = [Release::Installed, Release::MySql80];
        let stages = releases.into_iter().filter_map(Stage::start_with);
        stages.map(|stage| Two::new(stage, 20)).collect()
    }

    fn place(&self, sharding: Sharding) {
        self.door
            .publish(|snapshot| snapshot.sharding = Some(Arc::new(sharding)));
    }

    fn client(&self) -> Client {
        self.door.client_in("flow")
    }

    /// The ids on each group, past the door.
    fn ids(&self) -> [String; 2] {
        [&self.stage.primary, &self.stage.replica].map(|server| {
            let ids = "SELECT COALESCE(GROUP_CONCAT(id ORDER BY id), '') FROM flow.t";
            server.client().value(ids)
        })
    }

    fn ridden(&self) -> u64 {
        self.door.counter("statements_pipelined")
    }
}

/// What can be compared between a server and the door.
fn shown(answer: &Result<Vec<Reply>, Failure>) -> String {
    let replies = match answer {
        Err(failure) => return failure.number().to_string(),
        Ok(replies) => replies,
    };
    let shown = replies.iter().map(|reply| match reply {
        Reply::Done(done) => format!("{} rows, {} warnings", done.affected_rows, done.warnings),
        Reply::Rows(rows) => format!("{:?}", rows.text()),
    });
    shown.collect::<Vec<_>>().join("; ")
}

/// Runs of one group, others between them, errors in the middle, transactions of one group and of both.
const MIXED: [&str; 34] = [
    "INSERT INTO t VALUES (1, 'a')",
    "INSERT INTO t VALUES (2, 'b')",
    "INSERT INTO t VALUES (3, 'c')",
    "INSERT INTO t VALUES (101, 'a')",
    "INSERT INTO t VALUES (102, 'b')",
    "SELECT s FROM t WHERE id = 2",
    "INSERT INTO t VALUES (2, 'again')",
    "UPDATE t SET s = 'd' WHERE id = 2",
    "SELECT COUNT(*) FROM t",
    "INSERT INTO t VALUES (4, 'x'), (104, 'x')",
    "SELECT 1",
    "DELETE FROM t WHERE id = 104",
    "SELECT nothing FROM t WHERE id = 104",
    "SELECT id, s FROM t WHERE id = 102 FOR UPDATE",
    "BEGIN",
    "INSERT INTO t VALUES (11, 'x')",
    "INSERT INTO t VALUES (11, 'y')",
    "INSERT INTO t VALUES (12, 'x')",
    "SELECT COUNT(*) FROM t WHERE id = 11",
    "COMMIT",
    "BEGIN",
    "SAVEPOINT s",
    "INSERT INTO t VALUES (113, 'x')",
    "INSERT INTO t VALUES (114, 'x')",
    "ROLLBACK TO s",
    "INSERT INTO t VALUES (115, 'x')",
    "INSERT INTO t VALUES (15, 'x')",
    "INSERT INTO t VALUES (16, 'x')",
    "SELECT COUNT(*) FROM t",
    "COMMIT",
    "BEGIN",
    "DELETE FROM t WHERE id = 15",
    "DELETE FROM t WHERE id = 16",
    "ROLLBACK",
];

#[test]
fn every_statement_has_the_answer_of_one_server() {
    for two in Two::farms() {
        let mut straight = two.stage.primary.client();
        straight.run("CREATE DATABASE alone");
        straight.run("USE alone");
        straight.run(&TABLE.replace("flow.", ""));
        let expected = MIXED.map(|text| shown(&straight.query(text)));
        let mut client = two.client();
        let answers = client.pipelined(&MIXED);
        for ((text, answer), expected) in MIXED.iter().zip(&answers).zip(&expected) {
            assert_eq!(&shown(answer), expected, "{text}");
        }
        assert_eq!(two.ids(), ["1,2,3,4,11,12,15,16", "101,102,115"]);
        assert!(two.ridden() >= 10, "{}", two.ridden());
        client.quit();
        two.door.wait_unused();
    }
}

#[test]
fn statements_of_one_group_do_not_wait() {
    for two in Two::farms() {
        let mut client = two.client();
        let texts: Vec<String> = (0..50)
            .map(|id| format!("INSERT INTO t VALUES ({id}, 'x')"))
            .collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        for answer in client.pipelined(&texts) {
            answer.expect("inserted");
        }
        // The first commands of a client fill the room of an idle one, and the rest comes behind them.
        assert_eq!(two.ridden(), 48);
        // Prepared, with keys of one group and then of the other.
        let insert = client
            .prepare("INSERT INTO t VALUES (?, 'p')")
            .expect("prepared");
        client
            .execute(&insert, &[Value::Int(60)])
            .expect("known on the first group");
        client
            .execute(&insert, &[Value::Int(160)])
            .expect("known on the second group");
        for id in [61, 62, 63, 161, 162, 163, 64, 61] {
            client
                .send_execute(insert.id, 0, &[Value::Int(id)])
                .expect("sent");
        }
        let answers: Vec<_> = (0..8).map(|_| client.answer(true)).collect();
        assert!(answers[..7].iter().all(Result::is_ok), "{answers:?}");
        assert_eq!(answers[7].as_ref().map_err(Failure::number), Err(1062));
        assert!(two.ridden() > 51, "{}", two.ridden());
        let ids = two.ids();
        assert!(ids[0].ends_with(",49,60,61,62,63,64"), "{ids:?}");
        assert_eq!(ids[1], "160,161,162,163");
    }
}

#[test]
fn in_a_transaction_of_one_group_nothing_waits_but_its_bounds() {
    for two in Two::farms() {
        let mut client = two.client();
        let ten: Vec<String> = (0..10)
            .map(|id| format!("INSERT INTO t VALUES ({}, 'x')", id + 100))
            .collect();
        let mut texts = vec!["BEGIN"];
        texts.extend(ten.iter().map(String::as_str));
        texts.push("COMMIT");
        for answer in client.pipelined(&texts) {
            answer.expect("done");
        }
        // The first commands of a client fill the room of an idle one, and the rest comes behind them.
        assert_eq!((two.ridden(), two.door.counter("xa_begin")), (8, 0));
        // What rode has written: the first group is a part of a transaction over both.
        let texts = [
            "BEGIN",
            "SELECT s FROM t WHERE id = 1",
            "INSERT INTO t VALUES (1, 'x')",
            "INSERT INTO t VALUES (110, 'x')",
            "COMMIT",
        ];
        for answer in client.pipelined(&texts) {
            answer.expect("done");
        }
        assert_eq!((two.ridden(), two.door.counter("xa_begin")), (9, 1));
        // And without autocommit.
        let texts = [
            "SET autocommit = 0",
            "INSERT INTO t VALUES (2, 'x')",
            "INSERT INTO t VALUES (3, 'x')",
            "INSERT INTO t VALUES (111, 'x')",
            "ROLLBACK",
        ];
        for answer in client.pipelined(&texts) {
            answer.expect("done");
        }
        assert_eq!(two.ridden(), 10);
        let [low, high] = two.ids();
        assert_eq!((low.as_str(), high.matches(',').count()), ("1", 10));
    }
}

/// A map that is changed while a statement waits for its connection: it goes on by the map under which it
/// began, and those behind it wait for the end of the move.
#[test]
fn a_move_holds_back_what_has_not_begun() {
    let Some(stage) = Stage::start() else { return };
    let two = Two::new(stage, 1);
    // Its only connection is the first client's until the COMMIT.
    let (mut first, mut client) = (two.client(), two.client());
    first.run("BEGIN");
    first.run("INSERT INTO t VALUES (50, 'x')");
    let texts = [
        "INSERT INTO t VALUES (1, 'x')",
        "INSERT INTO t VALUES (2, 'x')",
    ];
    client.send_bytes(&frames(&texts)).expect("sent");
    let begun = |epoch| two.door.killer().units_of_work_before(epoch, SOON);
    wait_until(SOON, "both have begun", || begun(2) == Some(2));
    let mut held = sharding(2, "g1");
    held.moving(Moving {
        job: "j1".into(),
        map: 1,
        from: "g1".into(),
        to: "g2".into(),
        held_since: Some(2),
        defined: true,
        mixed: None,
    });
    two.place(held);
    first.run("COMMIT");
    client
        .answer(false)
        .expect("inserted by the map under which it began");
    wait_until(SOON, "nobody works by the old map", || begun(2) == Some(0));
    assert_eq!(two.ids(), ["1,50", ""]);
    two.place(sharding(3, "g2"));
    client.answer(false).expect("inserted by the new map");
    assert_eq!(two.ids(), ["1,50", "2"]);
}

fn value(answer: &Result<Vec<Reply>, Failure>) -> String {
    match answer.as_deref() {
        Ok([Reply::Rows(rows)]) => rows.text()[0][0].clone().expect("a value"),
        other => panic!("expected rows, got {other:?}"),
    }
}

#[test]
fn what_writes_on_a_replica_runs_again_where_it_belongs() {
    let Some(stage) = Stage::start() else { return };
    stage.everywhere(&format!("CREATE DATABASE flow; {TABLE}"));
    stage.everywhere(
        "CREATE FUNCTION flow.w() RETURNS INT DETERMINISTIC MODIFIES SQL DATA \
         BEGIN INSERT INTO flow.t VALUES (7, 'w'); RETURN 7; END",
    );
    let door = stage.door();
    door.publish(|snapshot| {
        let home = snapshot.groups[0].name.clone();
        let mut sharding = Sharding::new(1, Vec::new());
        sharding.assign("flow", home.clone());
        sharding.assign("stage", home);
        snapshot.sharding = Some(Arc::new(sharding));
    });
    let mut client = door.client();
    let who = "SELECT name FROM stage.who";
    let answers = client.pipelined(&[who, who, "SELECT flow.w()", who, who]);
    let all: Vec<String> = answers.iter().map(value).collect();
    assert_eq!(all, ["replica", "replica", "7", "primary", "primary"]);
    assert_eq!(door.counter("reads_corrected"), 1);
    assert!(door.counter("statements_pipelined") >= 2);
}

#[test]
fn a_read_with_a_level_of_its_own_waits() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let who = "SELECT name FROM stage.who";
    let strong = "/*heddle consistency=strong*/ SELECT name FROM stage.who";
    let wrong = "/*heddle consistency=best*/ SELECT name FROM stage.who";
    let mut client = door.client();
    let answers = client.pipelined(&[who, who, strong, who, wrong]);
    let names = [0, 1, 2, 3].map(|at| value(&answers[at]));
    assert_eq!(names, ["replica", "replica", "primary", "replica"]);
    assert!(
        answers[4].is_err(),
        "a hint that cannot be followed is refused"
    );
}

/// A map `shop` over these groups, with a table of customers.
fn shop(groups: usize) -> Option<Farm> {
    let count = groups.to_string();
    let farm = Farm::start(&["--groups", &count, "--replicas", "0"])?;
    let mut root = farm.client();
    root.run("CREATE DATABASE shop");
    root.run("CREATE TABLE shop.orders (k INT PRIMARY KEY, note VARCHAR(20))");
    let names: Vec<String> = (1..=groups).map(|at| format!("g{at}")).collect();
    farm.json(&["sharding", "create_definition", "SLOTS", "g1", "shop"]);
    farm.json(&["sharding", "add_shard", "shop", &names.join(","), "ENABLED"]);
    farm.json(&["sharding", "add_table", "shop", "shop.orders", "k"]);
    Some(farm)
}

fn ridden(client: &mut Client) -> u64 {
    let rows = client.rows("HEDDLE STATUS LIKE 'statements_pipelined'");
    let cell = rows[0].last().cloned().flatten();
    cell.and_then(|text| text.parse().ok()).expect("a number")
}

fn insert(client: &mut Client, keys: &[u32]) {
    let texts: Vec<String> = keys
        .iter()
        .map(|k| format!("INSERT INTO shop.orders VALUES ({k}, 'n{k}')"))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    for (answer, k) in client.pipelined(&texts).iter().zip(keys) {
        assert!(answer.is_ok(), "{k}: {answer:?}");
    }
}

#[test]
fn on_one_group_a_sharded_table_flows_like_any_other() {
    let Some(farm) = shop(1) else { return };
    let mut client = farm.client();
    let keys: Vec<u32> = (0..400).collect();
    insert(&mut client, &keys);
    assert_eq!(client.value("SELECT COUNT(*) FROM shop.orders"), "400");
    assert!(ridden(&mut client) > 300);
}

#[test]
fn on_four_groups_rows_go_where_they_belong_while_a_shard_moves() {
    let Some(farm) = shop(4) else { return };
    let mut client = farm.client();
    let keys: Vec<u32> = (0..400).collect();
    insert(&mut client, &keys);
    assert!(client.rows("HEDDLE sharding verify").is_empty());
    // Keys of one group: they flow.
    let of_g3 = farm
        .members()
        .into_iter()
        .find(|it| it.group == "g3")
        .expect("g3");
    let found = of_g3.client().rows("SELECT k FROM shop.orders");
    let reads: Vec<String> = found
        .iter()
        .filter_map(|row| {
            Some(format!(
                "SELECT note FROM shop.orders WHERE k = {}",
                row[0].as_ref()?
            ))
        })
        .collect();
    assert!(reads.len() > 50, "{}", reads.len());
    let before = ridden(&mut client);
    let texts: Vec<&str> = reads.iter().map(String::as_str).collect();
    for (answer, row) in client.pipelined(&texts).iter().zip(&found) {
        assert_eq!(
            value(answer),
            format!("n{}", row[0].as_deref().expect("a key"))
        );
    }
    assert!(ridden(&mut client) >= before + texts.len() as u64 - 2);
    let over = std::sync::atomic::AtomicBool::new(false);
    let shard = farm.shard_on("g3");
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut client = farm.client();
            let mut next = 1000;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                let keys: Vec<u32> = (next..next + 40).collect();
                insert(&mut client, &keys);
                next += 40;
            }
            next - 1000
        });
        let moved = farm.command(&["sharding", "move_shard", &shard, "g4"]);
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(moved.status.success(), "{moved:?}");
        writer.join().expect("every row was inserted")
    });
    let count = client.value("SELECT COUNT(DISTINCT k) FROM shop.orders");
    assert_eq!(count, (400 + written).to_string());
    let wrong = client.rows("HEDDLE sharding verify");
    assert!(wrong.is_empty(), "{wrong:?}");
}
