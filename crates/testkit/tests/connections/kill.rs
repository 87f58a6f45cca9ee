//! KILL in every form, by the ids that clients know, with the servers' own errors and rights.

use std::time::Duration;

use farm::Engine;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::status::Status;
use testkit::client::{Failure, Login, Reply};
use testkit::staging::{asleep, two_users};
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

fn stages() -> Vec<Stage> {
    [Release::Installed, Release::MySql80]
        .into_iter()
        .filter_map(Stage::start_with)
        .collect()
}

/// The sleeping statement was interrupted: MySQL lets SLEEP() say so by its value.
fn was_interrupted(answer: Result<Reply, Failure>) -> bool {
    match answer {
        Ok(Reply::Rows(rows)) => rows.text() == [[Some("1".to_owned())]],
        other => number(other) == 1317,
    }
}

fn number(failure: Result<impl std::fmt::Debug, Failure>) -> u16 {
    failure.expect_err("an error").number()
}

#[test]
fn expressions_name_the_victim() {
    for stage in stages() {
        let door = stage.door_with(|tuning| tuning.threads = 2);
        let mut killer = door.client();
        let login = Login::default();
        // A variable of the session's, also when another connection has to be given it.
        let mut sleeper = asleep(&stage, &door, &login, "by variable");
        killer.run(&format!("SET @victim = {}", sleeper.connection_id));
        killer.run("KILL QUERY @victim");
        assert!(was_interrupted(sleeper.read_result(false)));
        let mut sleeper = asleep(&stage, &door, &login, "by sum");
        killer.run(&format!("KILL QUERY {} + 1", sleeper.connection_id - 1));
        assert!(was_interrupted(sleeper.read_result(false)));
        let mut sleeper = asleep(&stage, &door, &login, "by parameter");
        let kill = killer.prepare("KILL QUERY ?").expect("prepared");
        let id = i64::from(sleeper.connection_id);
        killer.execute(&kill, &[id.into()]).expect("killed");
        assert!(was_interrupted(sleeper.read_result(false)));
        let mut sleeper = asleep(&stage, &door, &login, "by prepared text");
        let text = format!("KILL CONNECTION {}", sleeper.connection_id);
        let kill = killer.prepare(&text).expect("prepared");
        killer.execute(&kill, &[]).expect("killed");
        assert!(sleeper.is_closed_within(SOON));
        wait_until(
            SOON,
            "it is gone",
            || matches!(killer.execute(&kill, &[]), Err(failure) if failure.number() == 1094),
        );
    }
}

#[test]
fn errors_are_the_servers() {
    for stage in stages() {
        let door = stage.door();
        for text in [
            "KILL 4000000000",
            "KILL 0",
            "KILL QUERY 4000000001",
            "KILL 18446744073709551615",
            "KILL NULL",
            "KILL",
            "KILL CONNECTION",
            "KILL 1 2",
            "KILL 'x",
            "KILL QUERY ID 77777",
            "KILL SOFT QUERY 4000000000",
            "KILL HARD 4000000000",
            "KILL USER nobody@nowhere",
            "KILL QUERY CONNECTION_ID()",
            "KILL CONNECTION_ID()",
        ] {
            let own = stage.primary.client().query(text).map_err(|f| f.number());
            let ours = door.client().query(text).map_err(|f| f.number());
            let numbers = (own.map(drop), ours.map(drop));
            assert_eq!(numbers.0, numbers.1, "{text}");
        }
        let mut client = door.client();
        assert_eq!(client.error("KILL QUERY CONNECTION_ID()"), 1317);
        client.ping().expect("only the statement ended");
        let failure = client.query("KILL CONNECTION_ID()");
        assert!(failure.is_err());
        assert!(client.is_closed_within(SOON));
        // Beside others it would reach the server with an id that is not the server's.
        assert_eq!(door.client().error("SELECT 1; KILL 5"), 1105);
    }
}

/// The users `kill_a` and `kill_b`, of whom the latter may kill others.
fn with_accounts(stage: &Stage) -> Door {
    let right = match stage.primary.engine() {
        Engine::MySql => "CONNECTION_ADMIN",
        Engine::MariaDb => "CONNECTION ADMIN",
    };
    two_users(stage, ["kill_a", "kill_b"], right)
}

fn login(user: &str) -> Login<'_> {
    Login {
        user,
        password: "secret",
        ..Login::default()
    }
}

#[test]
fn the_right_to_end_others_is_the_accounts() {
    for stage in stages() {
        let door = with_accounts(&stage);
        let mut one = door.login(&login("kill_a")).expect("logged in");
        let mut two = door.login(&login("kill_a")).expect("logged in");
        let mut admin = door.login(&login("kill_b")).expect("logged in");
        assert_eq!(one.error(&format!("KILL {}", admin.connection_id)), 1095);
        one.run(&format!("KILL {}", two.connection_id));
        assert!(two.is_closed_within(SOON));
        admin.run(&format!("KILL {}", one.connection_id));
        assert!(one.is_closed_within(SOON));
        // After a change of user it is the new user's.
        let mut changed = door.client();
        changed.change_user(&login("kill_a")).expect("changed");
        let mut other = door.login(&login("kill_a")).expect("logged in");
        other.run(&format!("KILL {}", changed.connection_id));
        assert!(changed.is_closed_within(SOON));
    }
}

#[test]
fn users_are_ended_as_a_whole() {
    let Some(stage) = Stage::start() else { return };
    let door = with_accounts(&stage);
    let mut victims: Vec<Client> = (0..3)
        .map(|_| door.login(&login("kill_a")).expect("logged in"))
        .collect();
    let mut admin = door.login(&login("kill_b")).expect("logged in");
    assert_eq!(victims[0].error("KILL USER kill_b"), 1095);
    assert_eq!(admin.run("KILL USER kill_a@'10.%'").affected_rows, 0);
    admin.ping().expect("nobody was ended");
    let mut sleeper = asleep(&stage, &door, &login("kill_a"), "of a user");
    assert_eq!(admin.run("KILL QUERY USER kill_a").affected_rows, 4);
    assert!(was_interrupted(sleeper.read_result(false)));
    assert_eq!(
        admin.run("KILL SOFT USER kill_a@localhost").affected_rows,
        4
    );
    for victim in victims.iter_mut().chain([&mut sleeper]) {
        assert!(victim.is_closed_within(SOON));
    }
    let mut own = door.login(&login("kill_a")).expect("logged in");
    assert!(own.query("KILL USER CURRENT_USER()").is_err());
    assert!(own.is_closed_within(SOON));
    drop((victims, own, sleeper, admin));
    door.wait_unused();
}

/// Plays a text of several statements and gives what each of them was answered, flags included.
fn answers(client: &mut Client, text: &str) -> Vec<String> {
    client
        .send_command(Command::Query, text.as_bytes())
        .expect("sent");
    let mut heard = Vec::new();
    loop {
        match client.read_result(false) {
            Ok(Reply::Done(done)) => heard.push(format!("{done:?}")),
            Ok(Reply::Rows(rows)) => heard.push(format!("{:?}", rows.text())),
            Err(failure) => {
                heard.push(failure.to_string());
                return heard;
            }
        }
        if !client.status.contains(Status::MORE_RESULTS) {
            return heard;
        }
    }
}

/// As `mysql2`'s own tests do it: KILL, and a statement that gives the victim time to be gone.
#[test]
fn a_kill_may_come_before_other_statements() {
    for stage in stages() {
        let door = stage.door_with(|tuning| tuning.threads = 2);
        for address in [stage.primary.address(), door.address()] {
            let login = || Client::login(address, &Login::default()).expect("logged in");
            let (mut killer, mut one, mut two) = (login(), login(), login());
            let text = format!("KILL {}; SELECT SLEEP(0.01), 7", one.connection_id);
            let heard = answers(&mut killer, &text);
            assert_eq!(heard.len(), 2, "{heard:?}");
            assert!(heard[1].contains("Some(\"7\")"), "{heard:?}");
            assert!(one.is_closed_within(SOON), "killed");
            let text = format!("KILL {};KILL 4000000000; SELECT 1", two.connection_id);
            let heard = answers(&mut killer, &text);
            assert_eq!(heard.len(), 2, "the first error ends it: {heard:?}");
            assert!(heard[1].starts_with("1094 "), "{heard:?}");
            assert!(two.is_closed_within(SOON), "killed");
            assert_eq!(killer.value("SELECT 1"), "1", "the session goes on");

            // A client that did not ask for several statements has sent a wrong one.
            let usual = Login::default();
            let single = Login {
                capabilities: usual.capabilities - Capabilities::MULTI_STATEMENTS,
                ..usual
            };
            let mut plain = Client::login(address, &single).expect("logged in");
            let text = format!("KILL {}; SELECT 1", killer.connection_id);
            assert_eq!(plain.error(&text), 1064);
            assert_eq!(killer.value("SELECT 1"), "1", "nobody was killed");
        }
        let text = "KILL 4000000000; SELECT 1";
        let straight = answers(&mut stage.primary.client(), text);
        assert_eq!(answers(&mut door.client(), text), straight);
    }
}

/// So many clients of the primary run this text now; none where it cannot say.
fn running(stage: &Stage, text: &str) -> Option<String> {
    let list = "SELECT COUNT(*) FROM information_schema.processlist WHERE info";
    let asked = stage.primary.client().query(format!("{list} = '{text}'"));
    match asked.ok()?.first()? {
        Reply::Rows(rows) => rows.text().first()?.first()?.clone(),
        Reply::Done(_) => None,
    }
}

/// A client whose connection is killed hears no last word, also in the middle of a statement.
#[test]
fn a_killed_connection_is_closed_without_an_answer() {
    for stage in stages() {
        let door = stage.door_with(|tuning| tuning.threads = 2);
        for address in [stage.primary.address(), door.address()] {
            let login = || Client::login(address, &Login::default()).expect("logged in");
            for text in ["SELECT SLEEP(60) + @@autocommit", "DO SLEEP(60)"] {
                let (mut killer, mut victim) = (login(), login());
                victim
                    .send_command(Command::Query, text.as_bytes())
                    .expect("sent");
                wait_until(SOON, "it runs", || {
                    running(&stage, text).as_deref() == Some("1")
                });
                killer.run(&format!("KILL {}", victim.connection_id));
                let failure = victim.read_result(false).expect_err("no answer");
                assert!(matches!(failure, Failure::Io(_)), "{text}: {failure}");
                wait_until(SOON, "it has ended", || {
                    running(&stage, text).as_deref() == Some("0")
                });
            }
        }
    }
}
