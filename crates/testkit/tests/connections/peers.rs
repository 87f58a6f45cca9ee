//! Clients of one farm on several routers: SHOW PROCESSLIST and KILL reach all of them.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use door_sql::Killer;
use farm::{Kill, Killed, Permits, Victim};
use mysql_wire::command::Command;
use session::{Elsewhere, Peers};
use testkit::client::{Failure, Login, Reply};
use testkit::staging::asleep;
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

/// How many routers the tests have; their slots are 1 and 2.
const ROUTERS: u8 = 2;

/// The way from one door to the others, without a control plane between.
#[derive(Clone, Default)]
struct Link {
    others: Arc<Mutex<Vec<(u8, Killer)>>>,
    silent: bool,
}

impl Link {
    fn others(&self) -> Vec<(u8, Killer)> {
        let others = self.others.lock();
        others.unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Peers for Link {
    fn is_alone(&self) -> bool {
        self.others().is_empty()
    }

    fn sessions(&self, reply: Box<dyn FnOnce(Vec<Elsewhere>) + Send>) {
        let (others, silent) = (self.others(), self.silent);
        let told = move |(slot, killer): (u8, Killer)| Elsewhere {
            router: format!("r{slot}"),
            id: u32::from(slot) << 24,
            sessions: match silent {
                true => Err("it cannot be reached".to_owned()),
                false => Ok(killer.sessions()),
            },
        };
        thread::spawn(move || reply(others.into_iter().map(told).collect()));
    }

    fn permits(&self) -> Option<&Arc<Permits>> {
        None
    }

    fn permit(&self, _account: String, _limit: u32, reply: Box<dyn FnOnce(bool) + Send>) {
        reply(true);
    }

    fn kill(&self, kill: Kill, reply: Box<dyn FnOnce(Result<Killed, String>) + Send>) {
        let (mut others, silent) = (self.others(), self.silent);
        if let Victim::Session(id) = kill.victim {
            others.retain(|(slot, _)| u32::from(*slot) == id >> 24);
        }
        thread::spawn(move || {
            if silent {
                return reply(Err("router r2: it cannot be reached".to_owned()));
            }
            let mut ended = 0;
            for (_, killer) in others {
                match killer.kill(&kill) {
                    Killed::Sessions(count) => ended += count,
                    foreign => return reply(Ok(foreign)),
                }
            }
            reply(Ok(Killed::Sessions(ended)));
        });
    }
}

/// The doors of two routers on one stage, who know each other.
fn doors(stage: &Stage, silent: bool) -> Vec<Door> {
    let version = stage.primary.client().value("SELECT VERSION()");
    let (way, right) = match version.starts_with('8') {
        true => ("WITH mysql_native_password ", "CONNECTION_ADMIN"),
        false => ("", "CONNECTION ADMIN"),
    };
    for user in ["plain", "killer"] {
        stage.everywhere(&format!(
            "CREATE USER {user}@'%' IDENTIFIED {way}BY 'secret'"
        ));
    }
    stage.everywhere(&format!("GRANT {right}, PROCESS ON *.* TO killer@'%'"));
    let links: Vec<Link> = (0..ROUTERS)
        .map(|_| Link {
            silent,
            ..Link::default()
        })
        .collect();
    let doors: Vec<Door> = links
        .iter()
        .map(|link| {
            stage.door_with(|tuning| {
                tuning.threads = 2;
                tuning.peers = Arc::new(link.clone());
                tuning.live_accounts = true;
            })
        })
        .collect();
    for (at, door) in (1..).zip(&doors) {
        door.killer().place(at);
    }
    for (at, link) in (1..).zip(&links) {
        let others = (1..).zip(&doors).filter(|(slot, _)| *slot != at);
        let killers = others.map(|(slot, door)| (slot, door.killer())).collect();
        *link.others.lock().expect("no panic") = killers;
    }
    doors
}

fn stages() -> Vec<Stage> {
    [Release::Installed, Release::MySql80]
        .into_iter()
        .filter_map(Stage::start_with)
        .collect()
}

fn login(user: &str) -> Login<'_> {
    Login {
        user,
        password: "secret",
        ..Login::default()
    }
}

/// The rows of SHOW FULL PROCESSLIST as text.
fn list(client: &mut Client) -> Vec<Vec<Option<String>>> {
    let reply = client.query("SHOW FULL PROCESSLIST").expect("a list");
    match reply.into_iter().next() {
        Some(Reply::Rows(rows)) => rows.text(),
        other => panic!("expected rows, got {other:?}"),
    }
}

fn row_of(rows: &[Vec<Option<String>>], id: u32) -> Option<&Vec<Option<String>>> {
    let id = id.to_string();
    rows.iter().find(|row| row[0].as_deref() == Some(&*id))
}

fn was_interrupted(answer: Result<Reply, Failure>) -> bool {
    match answer {
        Ok(Reply::Rows(rows)) => rows.text() == [[Some("1".to_owned())]],
        Ok(other) => panic!("{other:?}"),
        Err(failure) => failure.number() == 1317,
    }
}

#[test]
fn lists_of_processes_are_the_farms() {
    for stage in stages() {
        let doors = doors(&stage, false);
        let mut here = doors[0].client();
        let idle = doors[1].login(&login("plain")).expect("logged in");
        let sleeper = asleep(&stage, &doors[1], &Login::default(), "elsewhere");
        assert_eq!(here.connection_id >> 24, 1);
        assert_eq!(sleeper.connection_id >> 24, 2);
        let rows = list(&mut here);
        assert_eq!(rows.len(), 3, "{rows:?}");
        let row = row_of(&rows, idle.connection_id).expect("the idle one");
        assert_eq!(row[1].as_deref(), Some("plain"));
        assert_eq!(row[4].as_deref(), Some("Sleep"));
        // What the server says of a statement that another router has sent there.
        let row = row_of(&rows, sleeper.connection_id).expect("the one that sleeps");
        assert_eq!(row[4].as_deref(), Some("Query"));
        let info = row[7].as_deref().unwrap_or_default();
        assert!(info.contains("elsewhere"), "{row:?}");
        // Everybody sees their own, wherever they are.
        let mut plain = doors[0].login(&login("plain")).expect("logged in");
        let rows = list(&mut plain);
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(row_of(&rows, idle.connection_id).is_some());
        let mut seer = doors[0].login(&login("killer")).expect("logged in");
        assert_eq!(list(&mut seer).len(), 5);
    }
}

#[test]
fn kill_reaches_every_router() {
    for stage in stages() {
        let doors = doors(&stage, false);
        let mut root = doors[0].client();
        let mut sleeper = asleep(&stage, &doors[1], &Login::default(), "by number");
        root.run(&format!("KILL QUERY {}", sleeper.connection_id));
        assert!(was_interrupted(sleeper.read_result(false)));
        root.send_command(Command::ProcessKill, &sleeper.connection_id.to_le_bytes())
            .expect("sent");
        root.read_result(false).expect("done");
        assert!(sleeper.is_closed_within(SOON));
        // Its session ends a moment after its connection.
        let gone = format!("KILL {}", sleeper.connection_id);
        wait_until(SOON, "its id is unknown", || {
            root.query(gone.as_str())
                .is_err_and(|failure| failure.number() == 1094)
        });
        // One that no router has, and one of a slot that nobody has.
        for id in [2 << 24, 9 << 24 | 1, 77] {
            assert_eq!(root.error(&format!("KILL {id}")), 1094, "{id}");
        }

        let mut mine = doors[0].login(&login("plain")).expect("logged in");
        let mut twin = doors[1].login(&login("plain")).expect("logged in");
        let other = doors[1].client();
        assert_eq!(mine.error(&format!("KILL {}", other.connection_id)), 1095);
        mine.run(&format!("KILL {}", twin.connection_id));
        assert!(twin.is_closed_within(SOON), "one may end one's own");
        let mut killer = doors[0].login(&login("killer")).expect("logged in");
        let mut root_there = doors[1].client();
        killer.run(&format!("KILL {}", root_there.connection_id));
        assert!(
            root_there.is_closed_within(SOON),
            "the right is the account's"
        );
    }
}

#[test]
fn users_are_ended_on_all_routers() {
    let Some(stage) = Stage::start() else { return };
    let doors = doors(&stage, false);
    let log_in = |door: usize, user| doors[door].login(&login(user)).expect("logged in");
    let mut plain = [log_in(0, "plain"), log_in(1, "plain"), log_in(1, "plain")];
    let (mut killer, far) = (log_in(0, "killer"), log_in(1, "killer"));
    // Of those that are meant one is elsewhere, and nobody is ended.
    assert_eq!(plain[1].error("KILL USER killer"), 1095);
    killer.ping().expect("not ended");
    assert_eq!(killer.run("KILL USER plain").affected_rows, 3);
    for client in &mut plain {
        assert!(client.is_closed_within(SOON));
    }
    drop(far);
}

#[test]
fn a_router_that_is_silent_is_named() {
    let Some(stage) = Stage::start() else { return };
    let doors = doors(&stage, true);
    let mut client = doors[0].client();
    let rows = list(&mut client);
    let row = row_of(&rows, 2 << 24).expect("a row for the router");
    assert_eq!(row[2].as_deref(), Some("r2"));
    let state = row[6].as_deref().unwrap_or_default();
    assert!(state.contains("cannot be reached"), "{row:?}");
    let prepared = client.prepare("SHOW PROCESSLIST").expect("prepared");
    let rows = client.execute(&prepared, &[]).expect("rows as values");
    assert!(matches!(rows[..], [Reply::Rows(_)]), "{rows:?}");
    let failure = client.query(format!("KILL {}", 2 << 24 | 5));
    let failure = failure.expect_err("not answered").to_string();
    assert!(failure.contains("router r2"), "{failure}");
    assert_eq!(client.error("KILL USER plain"), 1105);
    assert_eq!(client.value("SELECT 1"), "1", "the session goes on");
}
