//! Transactions over two groups whose router is gone, on real servers: any router ends them, all or
//! none.

use crate::plane;

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use farm::ServerId;
use farm::dist_txn::{Branch, GlobalId, Place, RouterLife, farm_number};
use plane::{PATIENCE, Plane};
use serde_json::Value;
use testkit::{Client, Release, Server, wait_until};

/// Two groups of one server each: `a` decides, `b` has the branches.
struct Stage {
    plane: Plane,
    a: Server,
    b: Server,
    /// The router that is gone.
    router: RouterLife,
    sequence: u32,
    /// The router's clock is behind by so much.
    behind_ms: u64,
}

fn stage(dir: &Path, release: Release) -> Option<Stage> {
    let [a, b] = plane::servers_of::<2>(release)?;
    let plane = Plane::start_with(dir, |settings| {
        settings.txn_recovery.crossing_interval_ms = 100;
        settings.txn_recovery.crossing_grace_ms = 3_600_000;
        settings.txn_recovery.decisions_kept_ms = 0;
    });
    for (group, server) in [("a", &a), ("b", &b)] {
        plane.rows(&["group", "create", group]);
        plane.rows(&["group", "add", group, &server.address().to_string()]);
        plane.wait_server("takes writes", server, |it| it.serves_writes());
        let mut client = server.client();
        client.run("CREATE DATABASE d");
        client.run("CREATE TABLE d.t (v INT PRIMARY KEY) ENGINE=InnoDB");
        let there = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_NAME='decide'";
        if group == "b" {
            wait_until(PATIENCE, "a group that can decide", || {
                client.value(there) == "1"
            });
        }
    }
    wait_until(PATIENCE, "a coordinator group", || {
        let there = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_NAME='decide'";
        a.client().value(there) == "1"
    });
    let router = RouterLife {
        slot: 0,
        started_ms: 1,
    };
    Some(Stage {
        plane,
        a,
        b,
        router,
        sequence: 0,
        behind_ms: 0,
    })
}

fn connection(client: &mut Client) -> u64 {
    let id = client.value("SELECT CONNECTION_ID()");
    id.parse().expect("a number")
}

impl Stage {
    /// The number of a group, and its primary.
    fn place(&self, group: &str) -> (u32, ServerId) {
        let snapshot = self.plane.published.load();
        let group = snapshot.group(group).expect("a group");
        (group.number, group.primary().expect("a primary").id)
    }

    /// The same with its branch prepared.
    fn cross(&mut self, v: u32) -> (Client, Client, Branch) {
        let (coordinator, mut owner, branch) = self.begin(v);
        owner.run(&format!("XA PREPARE {branch}"));
        (coordinator, owner, branch)
    }

    /// A transaction that wrote `v` on both groups: its coordinator group's connection, and that of its branch.
    fn begin(&mut self, v: u32) -> (Client, Client, Branch) {
        let (mut coordinator, mut owner) = (self.a.client(), self.b.client());
        coordinator.run("BEGIN");
        coordinator.run(&format!("INSERT INTO d.t VALUES ({v})"));
        self.sequence += 1;
        let (number, server) = self.place("a");
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let since = since.expect("after 1970").as_millis();
        let now_ms = u64::try_from(since).expect("soon");
        let id = GlobalId {
            farm: farm_number(&self.plane.published.load().farm_id),
            coordinator: number,
            at_ms: now_ms - self.behind_ms,
            router: self.router,
            sequence: self.sequence,
            at: Place {
                server,
                connection: connection(&mut coordinator),
            },
        };
        let (group, server) = self.place("b");
        let branch = Branch {
            id,
            group,
            owner: Place {
                server,
                connection: connection(&mut owner),
            },
        };
        owner.run(&format!("XA START {branch}"));
        owner.run(&format!("INSERT INTO d.t VALUES ({v})"));
        owner.run(&format!("XA END {branch}"));
        (coordinator, owner, branch)
    }

    /// The text by which the farm's routers decide.
    fn sealed(&self, branch: &Branch) -> String {
        let id = self.plane.control.dist_txns().seal(branch.id);
        enginesql::decision::decide(&id, [branch.group])
    }

    fn decide(&self, coordinator: &mut Client, branch: &Branch) {
        let packet = format!("{}; COMMIT", self.sealed(branch));
        coordinator.query(packet.as_str()).expect("decided");
    }

    /// Which of the groups have the row.
    fn have(&self, v: u32) -> [bool; 2] {
        [&self.a, &self.b].map(|server| {
            let count = format!("SELECT COUNT(*) FROM d.t WHERE v = {v}");
            server.client().value(&count) == "1"
        })
    }

    fn wait_ended(&self, others: usize) {
        wait_until(PATIENCE, "no branch in doubt", || {
            self.b.client().rows("XA RECOVER").len() == others
        });
    }

    /// Rows that are left beside the one that is always there.
    fn wait_rows(&self, left: u32) {
        wait_until(PATIENCE, "decisions are removed", || {
            self.a.client().value("SELECT COUNT(*) FROM heddle.mark") == (left + 1).to_string()
        });
    }

    fn listed(&self) -> Vec<Value> {
        let rows = self.plane.rows(&["transaction", "list"]);
        rows.as_array().expect("rows").clone()
    }
}

fn without_a_row_it_is_rolled_back(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mut stage) = stage(dir.path(), release) else {
        return;
    };
    let (mut coordinator, owner, branch) = stage.cross(1);
    drop(owner);
    stage.wait_ended(0);
    assert_eq!(stage.have(1), [false, false]);
    // As long as the decision can still come, it is barred.
    let packet = format!("{}; COMMIT", stage.sealed(&branch));
    assert_eq!(coordinator.error(&packet), 1062);
    stage.wait_rows(1);
    drop(coordinator);
    stage.wait_rows(0);
    assert_eq!(stage.have(1), [false, false]);
    assert_eq!(stage.plane.control.counters().recovered, [0, 1]);
    wait_until(PATIENCE, "it is told", || {
        stage
            .plane
            .event_kinds()
            .contains(&"transactions_recovered")
    });
}

fn with_a_row_it_is_committed(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mut stage) = stage(dir.path(), release) else {
        return;
    };
    // Its owner lives, and has to be ended, but where a prepared transaction is nobody's (MySQL 8.0.29);
    // other people's transactions are not touched.
    let detached = stage.b.detaches_xa();
    let mut application = stage.b.client();
    for verb in ["START", "END", "PREPARE"] {
        application.run(&format!("XA {verb} 'order-17'"));
    }
    stage.router.slot = 1;
    let (mut coordinator, mut owner, branch) = stage.cross(1);
    stage.decide(&mut coordinator, &branch);
    wait_until(PATIENCE, "it is seen", || stage.listed().len() == 1);
    stage
        .plane
        .rows(&["transaction", "resolve", &branch.id.to_string()]);
    stage.wait_ended(1);
    assert_eq!(stage.have(1), [true, true]);
    assert!(
        detached || owner.ping().is_err(),
        "its connection was ended"
    );
    stage.wait_rows(0);
    application.run("XA ROLLBACK 'order-17'");
    assert_eq!(stage.plane.control.counters().recovered, [1, 0]);
    assert!(stage.listed().is_empty());
}

/// While the coordinator group cannot be asked, nothing happens, unless an operator says what.
fn it_waits_for_its_coordinator(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mut stage) = stage(dir.path(), release) else {
        return;
    };
    let mut cases: Vec<_> = (1..4).map(|v| stage.begin(v)).collect();
    stage.a.kill();
    let a = stage.a.address();
    wait_until(
        PATIENCE,
        "the coordinator group is known to be down",
        || {
            let snapshot = stage.plane.published.load();
            let group = snapshot.group("a").expect("a group");
            !group.primary().is_some_and(|it| it.serves_writes())
        },
    );
    for (_, owner, branch) in &mut cases {
        owner.run(&format!("XA PREPARE {branch}"));
    }
    let ids: Vec<String> = cases.iter().map(|it| it.2.id.to_string()).collect();
    drop(cases);
    wait_until(PATIENCE, "all wait for it", || {
        let rows = stage.listed();
        let waits = |row: &Value| {
            let why = row["waits_for"].as_str().expect("text");
            row["state"] != "watched" && why.contains("its coordinator group, group a,")
        };
        rows.len() == 3 && rows.iter().all(waits)
    });
    let error = stage
        .plane
        .error(&["transaction", "resolve", &ids[0], "commit"]);
    assert!(error.contains("--force=true"), "{error}");
    let force =
        |id: &str, verdict| ["transaction", "resolve", id, verdict, "true"].map(str::to_owned);
    let forced: Vec<String> = force(&ids[0], "commit").into();
    let words: Vec<&str> = forced.iter().map(String::as_str).collect();
    stage.plane.rows(&words);
    assert_eq!(stage.listed().len(), 2);
    let count = "SELECT COUNT(*) FROM d.t";
    assert_eq!(stage.b.client().value(count), "1");
    let unknown = "0".repeat(90);
    assert!(
        stage
            .plane
            .error(&["transaction", "resolve", &unknown])
            .contains("TRANSACTION_ID")
    );
    stage.a.restart();
    assert_eq!(stage.a.address(), a);
    // Nobody but an operator makes the primary of a group that is not active one again.
    if release != Release::Installed {
        stage.a.client().run("SET GLOBAL super_read_only=0");
    }
    stage.a.client().run("SET GLOBAL read_only=0");
    stage.wait_ended(0);
    assert_eq!(stage.have(2), [false, false]);
    assert_eq!(stage.have(3), [false, false]);
    // Its task ends a moment after its branches.
    wait_until(PATIENCE, "none is in doubt", || stage.listed().is_empty());
    let gone = stage.plane.error(&["transaction", "resolve", &ids[1]]);
    assert!(gone.contains("no primary that answers"), "{gone}");
}

/// A branch of a router that may live is left to it; an operator may end it before.
fn a_living_router_keeps_its_own(release: Release) {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mut stage) = stage(dir.path(), release) else {
        return;
    };
    stage.router.slot = 1;
    let (coordinator, _owner, other) = stage.cross(1);
    stage.router = stage.plane.control.dist_txns().life();
    let (_coordinator, owner, _) = stage.cross(2);
    drop(owner);
    // One of this router's own, of which it does not know, is nobody's.
    wait_until(PATIENCE, "one is left", || {
        stage.plane.control.counters().recovered == [0, 1] && stage.listed().len() == 1
    });
    let row = &stage.listed()[0];
    assert_eq!(
        (&row["state"], &row["decider"]),
        (&"watched".into(), &"group a".into())
    );
    assert_eq!(row["transaction_id"], other.id.to_string());
    let (_first, mut third, kept) = stage.begin(3);
    stage.plane.control.dist_txns().undertake(kept.id);
    third.run(&format!("XA PREPARE {kept}"));
    drop(third);
    // Its session hands it over.
    let known = vec![("b".to_owned(), kept)];
    stage
        .plane
        .control
        .dist_txns()
        .leave(kept.id, Some(farm::dist_txn::Verdict::Abort), known);
    wait_until(PATIENCE, "one is left", || {
        stage.plane.control.counters().recovered == [0, 2] && stage.listed().len() == 1
    });
    drop(coordinator);
    stage
        .plane
        .rows(&["transaction", "resolve", &other.id.to_string()]);
    stage.wait_ended(0);
    assert_eq!(stage.have(1), [false, false]);
}

/// Two routers end the same transactions at the same time.
fn two_routers_do_no_harm(release: Release) {
    const TRANSACTIONS: u32 = 24;
    let (dir, twin) = (
        tempfile::tempdir().expect("a directory"),
        tempfile::tempdir().expect("a directory"),
    );
    let Some(stage) = stage(dir.path(), release) else {
        return;
    };
    let Stage {
        plane,
        a,
        b,
        router,
        ..
    } = stage;
    drop(plane);
    for file in std::fs::read_dir(dir.path()).expect("a directory") {
        let path = file.expect("a file").path();
        if path.is_file() {
            let name = path.file_name().expect("a name");
            std::fs::copy(&path, twin.path().join(name)).expect("copied");
        }
    }
    let start = |dir: &Path| {
        Plane::start_with(dir, |settings| {
            settings.txn_recovery.crossing_interval_ms = 100;
            settings.txn_recovery.crossing_grace_ms = 50;
        })
    };
    let plane = start(dir.path());
    let mut stage = Stage {
        plane,
        a,
        b,
        router: RouterLife { slot: 9, ..router },
        sequence: 0,
        behind_ms: 0,
    };
    stage
        .plane
        .wait_server("takes writes", &stage.a, |it| it.serves_writes());
    let other = start(twin.path());
    let mut decided = Vec::new();
    for v in 0..TRANSACTIONS {
        let (mut coordinator, owner, branch) = stage.cross(v);
        let packet = format!("{}; COMMIT", stage.sealed(&branch));
        if v % 2 == 0 && coordinator.query(packet.as_str()).is_ok() {
            decided.push(v);
        }
        if v % 3 == 0 {
            drop(owner);
        }
    }
    stage.wait_ended(0);
    for v in 0..TRANSACTIONS {
        let all = decided.contains(&v);
        assert_eq!(stage.have(v), [all, all], "{v}");
    }
    // Whoever ended each, both say that none is left.
    wait_until(PATIENCE, "both know", || {
        let none = |plane: &Plane| plane.rows(&["transaction", "list"]) == Value::Array(Vec::new());
        none(&stage.plane) && none(&other)
    });
}

/// Rows of nobody are removed and counted. Routers' clocks, years ahead or behind, say nothing of when a
/// row goes.
fn rows_of_nobody_are_swept(release: Release) {
    const YEAR_MS: u64 = 365 * 24 * 3600 * 1000;
    let dir = tempfile::tempdir().expect("a directory");
    let Some(mut stage) = stage(dir.path(), release) else {
        return;
    };
    stage.behind_ms = YEAR_MS;
    let (mut coordinator, owner, branch) = stage.cross(1);
    drop(owner);
    stage.wait_ended(0);
    let of_others = GlobalId {
        farm: branch.id.farm.wrapping_add(1),
        ..branch.id
    };
    let ahead = GlobalId {
        at_ms: branch.id.at_ms + 2 * YEAR_MS,
        router: RouterLife {
            slot: 7,
            started_ms: 1,
        },
        ..branch.id
    };
    let mut root = stage.a.client();
    for id in [of_others, ahead] {
        root.run(&format!(
            "INSERT INTO heddle.mark (id, state, branches) VALUES (X'{id}', 'commit', '2')"
        ));
    }
    // What bars the transaction stays while its coordinator group's connection may come with it.
    stage.wait_rows(1);
    let foreign = stage.plane.control.counters().foreign_decisions;
    assert_eq!(foreign, 1);
    assert!(stage.plane.event_kinds().contains(&"foreign_decisions"));
    let packet = format!("{}; COMMIT", stage.sealed(&branch));
    assert_eq!(coordinator.error(&packet), 1062);
    drop(coordinator);
    stage.wait_rows(0);
    assert_eq!(stage.have(1), [false, false]);
}

/// A group fails over between prepare and the decision's coming: the promoted replica has the branch.
#[test]
fn a_branch_survives_its_primary() {
    let dir = tempfile::tempdir().expect("a directory");
    let Some(stage) = stage(dir.path(), Release::Installed) else {
        return;
    };
    let Some(replicas) = plane::servers::<2>() else {
        return;
    };
    let mut stage = stage;
    for replica in &replicas {
        let address = replica.address().to_string();
        stage.plane.rows(&["group", "add", "b", &address]);
        stage
            .plane
            .wait_server("follows", replica, |it| it.serves_reads());
    }
    stage.plane.rows(&["group", "activate", "b"]);
    for replica in &replicas {
        plane::wait_until_settled(replica);
    }
    // Its router may live, so that nothing is done before the decision.
    stage.router.slot = 1;
    let (mut coordinator, _owner, branch) = stage.cross(1);
    let (second, _, other) = stage.cross(2);
    stage.b.kill();
    stage.decide(&mut coordinator, &branch);
    drop(second);
    wait_until(PATIENCE, "another primary", || {
        let (_, server) = stage.place("b");
        let snapshot = stage.plane.published.load();
        server != branch.owner.server
            && snapshot.server(server).is_some_and(|it| it.serves_writes())
    });
    for (id, word) in [(branch.id, "commit"), (other.id, "rollback")] {
        wait_until(PATIENCE, word, || {
            stage
                .listed()
                .iter()
                .any(|row| row["transaction_id"] == id.to_string())
        });
        stage
            .plane
            .rows(&["transaction", "resolve", &id.to_string()]);
    }
    assert!(stage.listed().is_empty());
    for replica in &replicas {
        let mut client = replica.client();
        wait_until(PATIENCE, "one transaction, whole", || {
            client.rows("XA RECOVER").is_empty() && client.value("SELECT SUM(v) FROM d.t") == "1"
        });
    }
    assert_eq!(stage.a.client().value("SELECT SUM(v) FROM d.t"), "1");
    // The row goes when the new primary's servers have the end of the branch.
    stage.wait_rows(0);
}

macro_rules! on_both {
    ($($name:ident $maria:ident $mysql:ident;)*) => {$(
        #[test]
        fn $maria() {
            $name(Release::Installed);
        }

        #[test]
        fn $mysql() {
            $name(Release::MySql80);
        }
    )*};
}

on_both! {
    without_a_row_it_is_rolled_back rolled_back_on_mariadb rolled_back_on_mysql;
    with_a_row_it_is_committed committed_on_mariadb committed_on_mysql;
    it_waits_for_its_coordinator waits_on_mariadb waits_on_mysql;
    a_living_router_keeps_its_own kept_on_mariadb kept_on_mysql;
    rows_of_nobody_are_swept swept_on_mariadb swept_on_mysql;
    two_routers_do_no_harm two_routers_on_mariadb two_routers_on_mysql;
}
