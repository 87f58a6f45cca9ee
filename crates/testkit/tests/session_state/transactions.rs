//! The SQL door: transactions stay on one connection, and nobody sees another's.

use std::time::Duration;

use mysql_wire::status::Status;
use testkit::{Client, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

/// Two databases' worth of nothing: a table of two columns.
fn table(stage: &Stage, database: &str) {
    stage.database(database);
    stage.everywhere(&format!(
        "CREATE TABLE {database}.t (id INT PRIMARY KEY, v INT NOT NULL) ENGINE=InnoDB"
    ));
}

#[test]
fn all_statements_of_a_transaction_run_on_one_connection() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_one");
        let door = stage.door();
        let mut client = door.client_in("trx_one");
        let mut others: Vec<Client> = (0..4).map(|_| door.client_in("trx_one")).collect();
        let begins = [
            "BEGIN",
            "START TRANSACTION",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
            "BEGIN WORK",
            "SET autocommit = 0",
        ];
        for (id, begin) in begins.into_iter().enumerate() {
            client.run(begin);
            client.run(&format!("INSERT INTO t VALUES ({id}, 1)"));
            let connection = client.server_id();
            for other in &mut others {
                assert_eq!(
                    other.value(&format!(
                        "SELECT COUNT(*) + 0 * @@autocommit FROM t WHERE id = {id}"
                    )),
                    "0"
                );
            }
            // A read too, and it sees what the transaction wrote.
            assert_eq!(
                client.value(&format!("SELECT COUNT(*) FROM t WHERE id = {id}")),
                "1"
            );
            assert_eq!(client.error("SELECT no_such_column FROM t"), 1054);
            assert_eq!(client.server_id(), connection);
            assert!(client.status.contains(Status::IN_TRANS), "{begin}");
            client.run(if id % 2 == 0 { "COMMIT" } else { "ROLLBACK" });
            assert!(!client.status.contains(Status::IN_TRANS), "{begin}");
        }
        assert_eq!(
            stage
                .primary
                .client()
                .rows("SELECT id FROM trx_one.t")
                .len(),
            3
        );
    }
}

#[test]
fn errors_inside_leave_the_transaction_as_the_server_does() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_errors");
        let door = stage.door();
        let mut client = door.client_in("trx_errors");
        client.run("BEGIN");
        client.run("INSERT INTO t VALUES (1, 1)");
        assert_eq!(client.error("INSERT INTO t VALUES (1, 2)"), 1062);
        client.run("INSERT INTO t VALUES (2, 1)");
        client.run("SAVEPOINT s");
        client.run("INSERT INTO t VALUES (3, 1)");
        client.run("ROLLBACK TO s");
        client.run("COMMIT");
        assert_eq!(client.value("SELECT GROUP_CONCAT(id) FROM t"), "1,2");
        // A failed DDL has committed what was before it.
        client.run("BEGIN");
        client.run("INSERT INTO t VALUES (4, 1)");
        assert_eq!(client.error("CREATE TABLE t (a INT)"), 1050);
        client.run("ROLLBACK");
        assert_eq!(client.value("SELECT GROUP_CONCAT(id) FROM t"), "1,2,4");
        // The first statement of an implicit transaction fails; the second is in it all the same.
        client.run("SET autocommit = 0");
        assert_eq!(client.error("INSERT INTO t VALUES (1, 1)"), 1062);
        client.run("INSERT INTO t VALUES (5, 1)");
        client.run("ROLLBACK");
        assert_eq!(client.value("SELECT GROUP_CONCAT(id) FROM t"), "1,2,4");
    }
}

#[test]
fn a_deadlock_rolls_back_and_frees_the_connection() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_deadlock");
        stage.everywhere("INSERT INTO trx_deadlock.t VALUES (1, 0), (2, 0)");
        let door = stage.door();
        let mut one = door.client_in("trx_deadlock");
        let mut two = door.client_in("trx_deadlock");
        one.run("BEGIN");
        two.run("BEGIN");
        one.run("UPDATE t SET v = 1 WHERE id = 1");
        two.run("UPDATE t SET v = 2 WHERE id = 2");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| one.query("UPDATE t SET v = 1 WHERE id = 2").is_ok());
            let second = two.query("UPDATE t SET v = 2 WHERE id = 1").is_ok();
            assert!(
                first.join().expect("no panic") != second,
                "one of two is the victim"
            );
        });
        one.run("COMMIT");
        two.run("COMMIT");
        let sum = stage
            .primary
            .client()
            .value("SELECT SUM(v) FROM trx_deadlock.t");
        assert!(sum == "2" || sum == "4", "{sum}");
        drop((one, two));
        door.wait_unused();
    }
}

#[test]
fn chain_goes_on_and_release_ends_the_session() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_chain");
        let door = stage.door();
        let mut client = door.client_in("trx_chain");
        client.run("BEGIN");
        client.run("INSERT INTO t VALUES (1, 1)");
        client.run("COMMIT AND CHAIN");
        assert!(client.status.contains(Status::IN_TRANS));
        client.run("INSERT INTO t VALUES (2, 1)");
        client.run("ROLLBACK AND CHAIN");
        client.run("INSERT INTO t VALUES (3, 1)");
        client.run("COMMIT");
        assert_eq!(client.value("SELECT GROUP_CONCAT(id) FROM t"), "1,3");
        for (id, end) in [
            (10, "COMMIT RELEASE"),
            (11, "ROLLBACK RELEASE"),
            (12, "COMMIT"),
        ] {
            let mut client = door.client_in("trx_chain");
            if end == "COMMIT" {
                client.run("SET completion_type = 'RELEASE'");
            }
            client.run("BEGIN");
            client.run(&format!("INSERT INTO t VALUES ({id}, 1)"));
            client.run(end);
            assert!(client.is_closed_within(SOON), "{end}");
            // The server has closed that connection too: nobody may get it from the pool.
            for _ in 0..3 {
                door.client_in("trx_chain").run("UPDATE t SET v = v + 1");
            }
        }
        assert_eq!(client.value("SELECT GROUP_CONCAT(id) FROM t"), "1,3,10,12");
    }
}

#[test]
fn a_vanished_client_is_rolled_back() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_vanish");
        let door = stage.door();
        for id in 0..5 {
            let mut client = door.client_in("trx_vanish");
            if id % 2 == 0 {
                client.run("SET autocommit = 0");
            } else {
                client.run("BEGIN");
            }
            client.run(&format!("INSERT INTO t VALUES ({id}, 1)"));
            drop(client);
        }
        door.wait_unused();
        let mut direct = stage.primary.client();
        // What is not rolled back yet can be read so.
        direct.run("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
        wait_until(SOON, "the server has rolled back", || {
            direct.value("SELECT COUNT(*) FROM trx_vanish.t") == "0"
        });
    }
}

#[test]
fn preparing_again_does_not_commit() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_prepare");
        let door = stage.door();
        let mut client = door.client_in("trx_prepare");
        let mut blocker = door.client_in("trx_prepare");
        let insert = client
            .prepare("INSERT INTO t VALUES (?, 1)")
            .expect("prepared");
        // The connection that knows the statement is taken by another session.
        blocker.run("BEGIN");
        blocker.run("INSERT INTO t VALUES (100, 1)");
        client.run("SET autocommit = 0");
        client.run("INSERT INTO t VALUES (1, 1)");
        client.execute(&insert, &[2.into()]).expect("inserted");
        client.run("ROLLBACK");
        blocker.run("ROLLBACK");
        assert_eq!(
            stage
                .primary
                .client()
                .value("SELECT COUNT(*) FROM trx_prepare.t"),
            "0"
        );
    }
}

#[test]
fn a_transaction_dies_with_its_connection_and_says_so() {
    for stage in &Stage::of_both_engines() {
        table(stage, "trx_killed");
        let door = stage.door();
        let mut direct = stage.primary.client();
        let mut client = door.client_in("trx_killed");
        let insert = client
            .prepare("INSERT INTO t VALUES (?, 1)")
            .expect("prepared");
        for ask in 0..3 {
            client.run("BEGIN");
            client.run("INSERT INTO t VALUES (1, 1)");
            let id = client.server_id();
            direct.run(&format!("KILL {id}"));
            wait_until(SOON, "the server's connection is gone", || {
                direct.value(&format!(
                    "SELECT COUNT(*) FROM information_schema.processlist WHERE id = {id}"
                )) == "0"
            });
            let lost = match ask {
                0 => client
                    .query("INSERT INTO t VALUES (2, 1)")
                    .expect_err("lost"),
                1 => client.execute(&insert, &[2.into()]).expect_err("lost"),
                _ => {
                    client.send_long_data(insert.id, 0, b"2").expect("sent");
                    client
                        .query("INSERT INTO t VALUES (2, 1)")
                        .expect_err("lost")
                }
            };
            assert_eq!(lost.number(), 1158, "{lost}");
            assert_eq!(client.value("SELECT COUNT(*) FROM t"), "0");
            assert!(!client.status.contains(Status::IN_TRANS));
        }
    }
}

/// What one session of the random test believes.
struct Model {
    /// Committed and own value of the session's own row.
    committed: i64,
    own: i64,
    open: bool,
    autocommit: bool,
    zone: i64,
}

/// A generator that gives the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

#[test]
fn many_sessions_never_see_each_other() {
    for stage in &Stage::of_both_engines() {
        random_sessions(stage);
    }
}

#[test]
fn many_sessions_never_see_each_other_on_mysql() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    random_sessions(&stage);
}

fn random_sessions(stage: &Stage) {
    table(stage, "trx_random");
    const SESSIONS: u64 = 12;
    for id in 0..SESSIONS {
        stage.everywhere(&format!("INSERT INTO trx_random.t VALUES ({id}, 0)"));
    }
    let door = stage.door_with(|tuning| tuning.settings.pool.connections_max = 16);
    for seed in [1u64, 77, 4242] {
        stage.everywhere("UPDATE trx_random.t SET v = 0");
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut sessions: Vec<(Client, Model)> = (0..SESSIONS)
            .map(|_| (door.client_in("trx_random"), Model::new()))
            .collect();
        for step in 0..700 {
            let at = random.below(SESSIONS) as usize;
            let committed: Vec<i64> = sessions.iter().map(|(_, model)| model.committed).collect();
            let (client, model) = &mut sessions[at];
            let what = format!("seed {seed} step {step} session {at}");
            model.step(client, at, &mut random, &committed, &what);
        }
    }
    door.wait_unused();
}

impl Model {
    fn new() -> Model {
        Model {
            committed: 0,
            own: 0,
            open: false,
            autocommit: true,
            zone: 0,
        }
    }

    fn step(
        &mut self,
        client: &mut Client,
        at: usize,
        random: &mut Random,
        committed: &[i64],
        what: &str,
    ) {
        match random.below(9) {
            0 => {
                client.run("BEGIN");
                // BEGIN commits what was open.
                (self.committed, self.open) = (self.own, true);
            }
            1 => {
                client.run("COMMIT");
                (self.committed, self.open) = (self.own, false);
            }
            2 => {
                client.run("ROLLBACK");
                (self.own, self.open) = (self.committed, false);
            }
            3 => {
                let on = random.below(2) == 1;
                client.run(&format!("SET autocommit = {}", u8::from(on)));
                if on && !self.autocommit {
                    (self.committed, self.open) = (self.own, false);
                }
                self.autocommit = on;
            }
            4 => {
                self.zone = random.below(12) as i64;
                client.run(&format!("SET time_zone = '+{:02}:00'", self.zone));
            }
            5 => assert_eq!(client.error("SELECT no_such_column FROM t"), 1054, "{what}"),
            6 | 7 => {
                client.run(&format!("UPDATE t SET v = v + 1 WHERE id = {at}"));
                self.own += 1;
                if !self.open && self.autocommit {
                    self.committed = self.own;
                }
            }
            _ => self.look(client, at, random, committed, what),
        }
        if !self.autocommit {
            self.open = true;
        }
    }

    /// What the session sees: its own row as it left it, others' as they committed them (at the
    /// latest now), its own settings.
    fn look(
        &self,
        client: &mut Client,
        at: usize,
        random: &mut Random,
        committed: &[i64],
        what: &str,
    ) {
        let own = client.value(&format!(
            "SELECT v FROM t WHERE id = {at} AND @@autocommit < 2"
        ));
        assert_eq!(own, self.own.to_string(), "{what}");
        let other = random.below(committed.len() as u64) as usize;
        if other != at {
            let seen = client.value(&format!(
                "SELECT v FROM t WHERE id = {other} AND @@autocommit < 2"
            ));
            let seen: i64 = seen.parse().expect("a number");
            assert!(
                seen <= committed[other],
                "{what}: {seen} of session {other} is not committed"
            );
            assert!(
                self.open || seen == committed[other],
                "{what}: {seen} of {other} is old"
            );
        }
        let sql = "SELECT CONCAT(@@session.autocommit + 0, @@session.time_zone)";
        let zone = match client.value(sql) {
            zone if zone.ends_with("SYSTEM") => zone.replace("SYSTEM", "+00:00"),
            zone => zone,
        };
        assert_eq!(
            zone,
            format!("{}+{:02}:00", u8::from(self.autocommit), self.zone),
            "{what}"
        );
    }
}
