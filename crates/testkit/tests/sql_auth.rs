//! The SQL door: accounts that change while clients come and go.

use testkit::client::{Failure, Login};
use testkit::{Client, Door, Release, Stage};

fn door(stage: &Stage) -> Door {
    stage.door_with(|tuning| {
        tuning.live_accounts = true;
        // The router's RSA key is made for the first full login, in a build that is not optimised.
        tuning.settings.handshake_timeout_s = 60;
    })
}

fn as_user<'a>(user: &'a str, password: &'a str) -> Login<'a> {
    Login {
        user,
        password,
        ..Login::default()
    }
}

#[track_caller]
fn refused(door: &Door, user: &str, password: &str) -> u16 {
    match door.login(&as_user(user, password)) {
        Err(failure @ Failure::Server { .. }) => failure.number(),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[track_caller]
fn admitted(door: &Door, user: &str, password: &str) -> Client {
    door.login(&as_user(user, password)).expect("logged in")
}

/// An account made or changed through Heddle is good at once, and its old password for nothing.
#[test]
fn accounts_are_good_as_soon_as_they_are_made() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = door(&stage);
        let mut root = door.client();
        assert_eq!(refused(&door, "auth_new", "one"), 1045);
        root.run("CREATE USER auth_new@'%' IDENTIFIED BY 'one'");
        let mut client = admitted(&door, "auth_new", "one");
        // The replica of this stage never hears of the account: the primary answers.
        assert_eq!(client.value("SELECT 1 + 1"), "2");
        assert_eq!(client.value("SELECT CURRENT_USER()"), "auth_new@%");
        root.run("ALTER USER auth_new@'%' IDENTIFIED BY 'two'");
        assert_eq!(refused(&door, "auth_new", "one"), 1045);
        let mut client = admitted(&door, "auth_new", "two");
        assert_eq!(client.value("SELECT 1 + 1"), "2");
        root.run("DROP USER auth_new@'%'");
        assert_eq!(refused(&door, "auth_new", "two"), 1045);

        // The same past Heddle: known at the latest when somebody is about to be refused.
        let mut straight = stage.primary.client();
        straight.run("CREATE USER auth_new@'%' IDENTIFIED BY 'three'");
        let mut client = admitted(&door, "auth_new", "three");
        assert_eq!(client.value("SELECT 1 + 1"), "2");
    }
}
