//! Settings that change while the door serves: they hold for the next statement of everybody, in open
//! sessions too, and what a session has chosen for itself stays.

use std::time::Duration;

use session::Level;
use testkit::client::Login;
use testkit::stage::Stage;
use testkit::{Release, wait_until};

/// For what takes a tick or two on a busy machine.
const SOON: Duration = Duration::from_secs(60);

const EVENTUAL: Level = Level::Eventual { max_lag_us: None };

#[test]
fn a_changed_level_holds_at_once_in_sessions_that_have_none_of_their_own() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door_with(|tuning| tuning.settings.consistency.level = EVENTUAL);
        let who = "SELECT name FROM stage.who";
        let (mut follows, mut own) = (door.client(), door.client());
        own.run("SET heddle_consistency = 'eventual'");
        assert_eq!(follows.value(who), "replica");
        door.tune(|all| all.settings.consistency.level = Level::Strong);
        assert_eq!(follows.value(who), "primary");
        assert_eq!(follows.value("SELECT @@heddle_consistency"), "strong");
        assert_eq!(own.value(who), "replica", "it has chosen for itself");
        own.run("SET heddle_consistency = DEFAULT");
        assert_eq!(own.value(who), "primary");
        door.tune(|all| all.settings.consistency.level = EVENTUAL);
        assert_eq!(
            (own.value(who), door.client().value(who)),
            ("replica".to_owned(), "replica".to_owned())
        );
        door.tune(|all| all.settings.failover_wait_ms = 77);
        assert_eq!(follows.value("SELECT @@heddle_failover_wait_ms"), "77");
        follows.run("SET heddle_failover_wait_ms = 5");
        door.tune(|all| all.settings.failover_wait_ms = 78);
        assert_eq!(follows.value("SELECT @@heddle_failover_wait_ms"), "5");
        follows.reset().expect("a reset");
        assert_eq!(follows.value("SELECT @@heddle_failover_wait_ms"), "78");
    }
}

#[test]
fn a_limit_of_clients_holds_for_the_next_one() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let (one, _two) = (door.client(), door.client());
        door.tune(|all| all.settings.clients_max = 2);
        let refused = door.login(&Login::default()).expect_err("there are two");
        assert_eq!(refused.number(), 1040, "{refused}");
        door.tune(|all| all.settings.clients_max = 3);
        let three = door.client();
        door.tune(|all| all.settings.clients_max = 1000);
        door.tune(|all| all.settings.user_connections_max = 2);
        let refused = door.login(&Login::default()).expect_err("there are three");
        assert_eq!(refused.number(), 1203, "{refused}");
        one.quit();
        three.quit();
        wait_until(SOON, "a seat is free", || {
            door.login(&Login::default()).is_ok()
        });
    }
}

#[test]
fn more_connections_serve_those_who_wait_and_fewer_are_closed() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    let door = stage.door_with(|tuning| {
        tuning.settings.pool.connections_max = 1;
        tuning.settings.pool.wait_ms = 600_000;
    });
    let mut holder = door.client();
    holder.run("BEGIN");
    holder.run("INSERT INTO stage.who VALUES ('held')");
    let address = door.address();
    let waits = std::thread::spawn(move || {
        let mut client = testkit::Client::connect(address, "root", "").expect("a login");
        client.run("INSERT INTO stage.who VALUES ('waited')");
    });
    wait_until(SOON, "it waits", || door.counter("pool_waiting") == 1);
    door.tune(|all| all.settings.pool.connections_max = 2);
    waits.join().expect("it was served");
    holder.run("ROLLBACK");
    wait_until(SOON, "both are idle", || door.counter("pool_idle") >= 2);
    door.tune(|all| all.settings.pool.connections_max = 1);
    wait_until(SOON, "one is left at each server", || {
        door.counter("pool_idle") <= 2 && door.counter("pool_in_use") == 0
    });
    assert_eq!(stage.primary.client().value("SELECT 1"), "1");
}

#[test]
fn a_limit_of_time_ends_what_begins_after_it() {
    for stage in &Stage::of_both_engines() {
        let door = stage.door();
        let mut client = door.client();
        stage.database("live_limits");
        stage.everywhere("CREATE TABLE live_limits.r (a INT)");
        stage.everywhere("INSERT INTO live_limits.r SELECT id FROM information_schema.collations");
        let late = "SELECT COUNT(*) FROM live_limits.r a, live_limits.r b, live_limits.r c, \
                    live_limits.r d WHERE a.a + b.a + c.a + d.a > 0";
        client.run("DO 1");
        door.tune(|all| all.settings.statement_timeout_ms = 300);
        assert_eq!(client.error(late), 1317);
        door.tune(|all| all.settings.statement_timeout_ms = 0);
        client.run("DO 1");
    }
}
