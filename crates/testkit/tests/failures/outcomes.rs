//! Writes and transactions whose server connection breaks: nothing is lost, nothing is done twice, and
//! the client hears what it would have heard.

use std::sync::Arc;
use std::time::Duration;

use testkit::client::{Done, Failure, Reply, Value};
use testkit::fate::fate_on;
use testkit::proxy::{Proxy, Trap};
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(60);

struct Set {
    stage: Stage,
    proxy: Proxy,
    door: Door,
}

impl Set {
    fn new(release: Release) -> Option<Set> {
        let stage = Stage::start_with(release)?;
        let proxy = Proxy::new(stage.primary.address());
        let server = stage.primary.address();
        let door = stage.door_with(|tuning| {
            tuning.settings.failover_wait_ms = 20_000;
            tuning.fates = Some(Arc::new(move |lost| fate_on(server, &lost)));
        });
        door.change(0, |server| server.port = proxy.address.port());
        let mut client = stage.primary.client();
        client.run(
            "CREATE TABLE stage.t (a INT UNSIGNED PRIMARY KEY AUTO_INCREMENT, b INT UNIQUE, \
             c VARCHAR(50))",
        );
        client.run("INSERT INTO stage.t (b, c) VALUES (1, 'one'), (2, 'two'), (3, 'three')");
        Some(Set { stage, proxy, door })
    }

    /// Runs a statement whose request or reply is lost.
    #[track_caller]
    fn through(&self, client: &mut Client, trap: Trap, sql: &str) -> Result<Done, Failure> {
        self.proxy.set(trap);
        let replies = client.query(sql)?;
        assert!(self.proxy.is_sprung(), "nothing was lost at {sql}");
        match replies.into_iter().next() {
            Some(Reply::Done(done)) => Ok(done),
            other => panic!("{sql}: {other:?}"),
        }
    }

    fn count(&self, what: &str) -> String {
        let sql = format!("SELECT COUNT(*) FROM stage.t WHERE {what}");
        self.stage.primary.client().value(&sql)
    }
}

fn both(text: &'static str) -> [Trap; 2] {
    [Trap::Reply(text), Trap::Request(text)]
}

fn single_writes_happen_once(release: Release) {
    let Some(set) = Set::new(release) else {
        return;
    };
    let mut client = set.door.client();
    client.run("INSERT INTO stage.t (b) VALUES (10)");
    for (trap, b) in both("trapped").into_iter().zip([11, 12]) {
        let sql = format!("INSERT INTO stage.t (b, c) VALUES ({b}, 'trapped')");
        let done = set.through(&mut client, trap, &sql).expect("an OK");
        let id = set
            .stage
            .primary
            .client()
            .value(&format!("SELECT a FROM stage.t WHERE b = {b}"));
        assert_eq!(
            (done.affected_rows, done.last_insert_id.to_string()),
            (1, id.clone())
        );
        assert_eq!(client.value("SELECT LAST_INSERT_ID()"), id);
    }
    for (sql, affected) in [
        (
            "INSERT INTO stage.t (b, c) VALUES (20, 'x1'), (21, 'x2')",
            2,
        ),
        (
            "INSERT INTO stage.t (b, c) VALUES (1, 'x3') ON DUPLICATE KEY UPDATE c = 'x4'",
            2,
        ),
        ("REPLACE INTO stage.t (b, c) VALUES (2, 'x5')", 2),
        ("UPDATE stage.t SET c = 'x6' WHERE b IN (20, 21)", 2),
        ("DELETE FROM stage.t WHERE c = 'x6'", 2),
    ] {
        let done = set.through(&mut client, Trap::Reply("x"), sql).expect(sql);
        assert_eq!(done.affected_rows, affected, "{sql}");
    }
    assert_eq!(set.count("b IN (20, 21)"), "0");
    let insert = client
        .prepare("INSERT INTO stage.t (b, c) VALUES (?, ?)")
        .expect("right");
    for (trap, b) in both("prepped").into_iter().zip([31, 32]) {
        set.proxy.set(trap);
        let values = [Value::Int(b), Value::Bytes(b"prepped".to_vec())];
        client.execute(&insert, &values).expect("an OK");
        assert!(set.proxy.is_sprung());
    }
    assert_eq!(set.count("c = 'prepped'"), "2");
    assert_eq!(set.door.counter("outcomes_unknown"), 0);
}

#[test]
fn single_writes_happen_once_on_mariadb() {
    single_writes_happen_once(Release::Installed);
}

#[test]
fn single_writes_happen_once_on_mariadb_11_4() {
    single_writes_happen_once(Release::MariaDb114);
}

fn commits_happen_once(release: Release) {
    let Some(set) = Set::new(release) else {
        return;
    };
    let mut client = set.door.client();
    for (trap, b) in both("COMMIT").into_iter().zip([40, 41]) {
        client.run("BEGIN");
        client.run(&format!("INSERT INTO stage.t (b) VALUES ({b})"));
        client.run("UPDATE stage.t SET c = CONCAT(c, '+') WHERE b = 3");
        set.through(&mut client, trap, "COMMIT").expect("an OK");
        assert_eq!(set.count(&format!("b = {b}")), "1");
    }
    let mut direct = set.stage.primary.client();
    let c = "SELECT c FROM stage.t WHERE b = 3";
    assert_eq!(direct.value(c), "three++", "each transaction once");
    assert_eq!(set.door.counter("transactions_replayed"), 1);
    assert_eq!(set.door.counter("outcomes_committed"), 1);
}

#[test]
fn commits_happen_once_on_mariadb() {
    commits_happen_once(Release::Installed);
}

#[test]
fn commits_happen_once_on_mariadb_11_4() {
    commits_happen_once(Release::MariaDb114);
}

fn transactions_go_on(release: Release) {
    let Some(set) = Set::new(release) else {
        return;
    };
    let mut client = set.door.client();
    let insert = client
        .prepare("INSERT INTO stage.t (b, c) VALUES (?, 'p')")
        .expect("right");
    for trap in both("lost here") {
        client.run("DELETE FROM stage.t WHERE b >= 50");
        client.run("START TRANSACTION");
        let id = client
            .run("INSERT INTO stage.t (b) VALUES (50)")
            .last_insert_id;
        client.run("SET @@sort_buffer_size = 1048576");
        client.run("SAVEPOINT s");
        client.run("INSERT INTO stage.t (b) VALUES (51)");
        client.run("ROLLBACK TO SAVEPOINT s");
        client.execute(&insert, &[Value::Int(52)]).expect("it runs");
        // A replay sets the clock as it was to a few milliseconds: no second may begin within them.
        let mut direct = set.stage.primary.client();
        wait_until(SOON, "the middle of a second", || {
            let micros = direct.value("SELECT MICROSECOND(SYSDATE(6))");
            (100_000..600_000).contains(&micros.parse().unwrap_or(0))
        });
        let now = client.value("SELECT NOW()");
        assert_eq!(
            client.value("SELECT COUNT(*) FROM stage.t WHERE b >= 50"),
            "2"
        );
        assert_eq!(client.error("INSERT INTO stage.t (b) VALUES (1)"), 1062);
        let sql = "INSERT INTO stage.t (b, c) VALUES (53, 'lost here')";
        set.through(&mut client, trap, sql).expect("an OK");
        assert_eq!(
            client.value("SELECT a FROM stage.t WHERE b = 50"),
            id.to_string()
        );
        assert!(client.value("SELECT NOW()") >= now);
        client.run("COMMIT");
        assert_eq!(set.count("b >= 50"), "3");
        assert_eq!(set.count("b = 51"), "0");
        assert_eq!(client.value("SELECT @@sort_buffer_size"), "1048576");
    }
    assert_eq!(set.door.counter("transactions_replayed"), 2);
    client.run("BEGIN");
    client.run("INSERT INTO stage.t (b) VALUES (55)");
    set.proxy.set(Trap::Middle("a long result"));
    let sql = "SELECT REPEAT('a long result', 20000) FROM stage.t";
    let rows = client.rows(sql);
    assert!(set.proxy.is_sprung() && rows.len() > 3);
    assert!(
        rows.iter()
            .all(|row| row[0].as_ref().is_some_and(|text| text.len() == 260_000))
    );
    client.run("COMMIT");
    assert_eq!(set.count("b = 55"), "1");
    assert_eq!(set.door.counter("transactions_replayed"), 3);
    client.run("SET autocommit = 0");
    client.run("INSERT INTO stage.t (b) VALUES (60)");
    let sql = "UPDATE stage.t SET c = 'lost too' WHERE b = 60";
    let done = set
        .through(&mut client, Trap::Reply("lost too"), sql)
        .expect("an OK");
    assert_eq!(done.affected_rows, 1);
    client.run("COMMIT");
    assert_eq!(set.count("b = 60 AND c = 'lost too'"), "1");
}

#[test]
fn transactions_go_on_on_mariadb() {
    transactions_go_on(Release::Installed);
}

#[test]
fn transactions_go_on_on_mysql() {
    transactions_go_on(Release::MySql80);
}

#[test]
fn a_transaction_that_differs_is_a_deadlock_for_its_client() {
    let Some(set) = Set::new(Release::Installed) else {
        return;
    };
    let mut client = set.door.client();
    client.run("BEGIN");
    assert_eq!(client.value("SELECT c FROM stage.t WHERE b = 1"), "one");
    client.run("INSERT INTO stage.t (b) VALUES (70)");
    let mut other = set.stage.primary.client();
    other.run("UPDATE stage.t SET c = 'changed' WHERE b = 1");
    let sql = "UPDATE stage.t SET c = 'mine' WHERE b = 70";
    let said = set.through(&mut client, Trap::Request("mine"), sql);
    let said = said.expect_err("it differs").to_string();
    assert!(said.contains("1213"), "{said}");
    assert!(said.contains("SELECT c FROM stage.t WHERE b = 1"), "{said}");
    // The session goes on, and nothing of the transaction is left.
    assert_eq!(
        client.value("SELECT COUNT(*) FROM stage.t WHERE b = 70"),
        "0"
    );
    client.run("INSERT INTO stage.t (b) VALUES (70)");
    client.run("BEGIN");
    client.run("CREATE TEMPORARY TABLE stage.tmp (a INT)");
    client.run("INSERT INTO stage.t (b) VALUES (71)");
    let sql = "UPDATE stage.t SET c = 'pins' WHERE b = 71";
    let said = set.through(&mut client, Trap::Request("pins"), sql);
    let said = said.expect_err("a table is gone").to_string();
    assert!(
        said.contains("1213") && said.contains("temporary tables"),
        "{said}"
    );
    assert_eq!(set.door.counter("transactions_differ"), 2);
}

/// Runs this insert so that the row with the id that the server gives it is there before its own: it waits for
/// a gap behind the last row, in which somebody stores that row meanwhile. Returns the id that was taken.
fn colliding<T: Send>(set: &Set, insert: impl FnOnce() -> T + Send) -> (u64, T) {
    let (mut other, mut watcher) = (set.stage.primary.client(), set.stage.primary.client());
    let last = other
        .run("INSERT INTO stage.t (c) VALUES ('the last one')")
        .last_insert_id;
    let next = last + 1;
    other.run("BEGIN");
    other.rows(&format!(
        "SELECT a FROM stage.t WHERE a >= {next} FOR UPDATE"
    ));
    std::thread::scope(|scope| {
        let inserting = scope.spawn(insert);
        // The tables about transactions are answered from memory while one asks again and again.
        wait_until(SOON, "the insert waits", || {
            let status = watcher.rows("SHOW ENGINE INNODB STATUS").remove(0);
            status[2]
                .as_ref()
                .is_some_and(|text| text.contains("LOCK WAIT"))
        });
        other.run(&format!("INSERT INTO stage.t (a) VALUES ({next})"));
        other.run("COMMIT");
        (next, inserting.join().expect("no panic"))
    })
}

/// A transaction that is done again claims the ids that its client knows; the new primary may be giving one of
/// them to somebody else.
fn whose_id_was_claimed_gets_the_next_one(release: Release) {
    let Some(set) = Set::new(release) else {
        return;
    };
    let mut client = set.door.client();
    let anew = || set.door.counter("insert_ids_taken_anew");
    let insert = client
        .prepare("INSERT INTO stage.t SET b = ?, c = UPPER('p')")
        .expect("right");
    let (_, number) = colliding(&set, || {
        client.error("INSERT INTO stage.t (b) VALUES (200)")
    });
    assert_eq!(number, 1062, "nothing was done again");

    client.run("BEGIN");
    client.run("INSERT INTO stage.t (b) VALUES (201)");
    set.through(&mut client, Trap::Request("COMMIT"), "COMMIT")
        .expect("an OK");
    assert_eq!(set.door.counter("transactions_replayed"), 1);
    let (taken, done) = colliding(&set, || client.run("INSERT INTO stage.t (b) VALUES (202)"));
    assert_eq!((done.last_insert_id, anew()), (taken + 1, 1));
    // In a transaction, and prepared.
    client.run("BEGIN");
    client.run("UPDATE stage.t SET c = 'in it' WHERE b = 202");
    let (taken, done) = colliding(&set, || client.execute(&insert, &[Value::Int(203)]));
    done.expect("an OK");
    client.run("COMMIT");
    let stored = format!("(a = {} AND b = 203) OR c = 'in it'", taken + 1);
    assert_eq!((set.count(&stored), anew()), ("2".to_owned(), 2));
    // What is a duplicate by itself stays one.
    assert_eq!(
        client.error("INSERT INTO stage.t (b) VALUES (203)"),
        1062,
        "b is unique"
    );
    assert_eq!(anew(), 3);
    // Of several rows a part might be stored.
    let (_, number) = colliding(&set, || {
        client.error("INSERT INTO stage.t (b) VALUES (204), (205)")
    });
    assert_eq!((number, anew()), (1062, 3));
}

#[test]
fn whose_id_was_claimed_gets_the_next_one_on_mariadb() {
    whose_id_was_claimed_gets_the_next_one(Release::Installed);
}

#[test]
fn whose_id_was_claimed_gets_the_next_one_on_mysql() {
    whose_id_was_claimed_gets_the_next_one(Release::newest_mysql());
}

#[test]
fn what_cannot_be_told_is_said() {
    let Some(set) = Set::new(Release::Installed) else {
        return;
    };
    let mut client = set.door.client();
    set.stage
        .primary
        .client()
        .run("CREATE PROCEDURE stage.p() INSERT INTO stage.t (b) VALUES (90)");
    let sql = "CALL stage.p() /* lost */";
    let said = set.through(&mut client, Trap::Reply("lost"), sql);
    let said = said.expect_err("nobody knows").to_string();
    assert!(
        said.contains("1105") && said.contains("outcome unknown"),
        "{said}"
    );
    assert_eq!(set.door.counter("outcomes_unknown"), 1);
    assert_eq!(client.value("SELECT 1"), "1");
}

#[test]
fn single_writes_happen_once_on_mysql() {
    single_writes_happen_once(Release::MySql80);
}

#[test]
fn commits_happen_once_on_mysql() {
    commits_happen_once(Release::MySql80);
}
