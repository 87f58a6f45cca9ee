//! What several tests set up on a [`Stage`]: one more server, users, statements that sleep.

use std::time::Duration;

use mysql_wire::command::Command;

use crate::client::{Client, Login};
use crate::door::stage::Stage;
use crate::door::{Door, Tuning};
use crate::servers::server::{Release, Server};
use crate::wait_until;

const SOON: Duration = Duration::from_secs(10);

/// A server like those of a stage, that calls itself `third`; `None` where none can be had.
pub fn third(release: Release) -> Option<Server> {
    let server = Server::start(release)?;
    let mut client = server.client();
    client
        .query("CREATE DATABASE stage; CREATE TABLE stage.who (name VARCHAR(20))")
        .expect("made");
    client.run("INSERT INTO stage.who VALUES ('third')");
    Some(server)
}

/// Users with the password `secret` on both servers, of which the second has one right more, and a
/// door that knows them.
pub fn two_users(stage: &Stage, users: [&str; 2], right: &str) -> Door {
    let version = stage.primary.client().value("SELECT VERSION()");
    let way = match version.starts_with('8') {
        true => "WITH mysql_native_password ",
        false => "",
    };
    for user in users {
        stage.everywhere(&format!(
            "CREATE USER {user}@'%' IDENTIFIED {way}BY 'secret'"
        ));
    }
    stage.everywhere(&format!("GRANT {right} ON *.* TO {}@'%'", users[1]));
    // What they may do stands in the server's tables.
    stage.door_with(|tuning| tuning.live_accounts = true)
}

/// A client whose statement sleeps on the primary for a minute, or until somebody ends it. The mark
/// tells it from others.
pub fn asleep(stage: &Stage, door: &Door, login: &Login<'_>, mark: &str) -> Client {
    let mut client = door.login(login).expect("logged in");
    let sql = format!("SELECT /* {mark} */ SLEEP(60) + 0 * @@autocommit");
    client
        .send_command(Command::Query, sql.as_bytes())
        .expect("sent");
    let mut direct = stage.primary.client();
    wait_until(SOON, "it sleeps", || {
        let sql = "SELECT COUNT(*) FROM information_schema.processlist \
                   WHERE state = 'User sleep' AND info LIKE";
        direct.value(&format!(
            "{sql} '%{mark} */ SLEEP%' AND info NOT LIKE '%processlist%'"
        )) == "1"
    });
    client
}

impl Tuning {
    /// Accounts are read from the servers, and logins have time: the router's RSA key is made for the
    /// first full login, which takes long in a build that is not optimised.
    pub fn follow_accounts(&mut self) {
        self.live_accounts = true;
        self.settings.handshake_timeout_s = 60;
        self.settings.pool.connect_ms = 60_000;
    }
}
