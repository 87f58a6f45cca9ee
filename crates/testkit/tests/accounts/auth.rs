//! The SQL door: every plugin in every exchange, accounts that change while clients come and go,
//! limits of accounts.

use std::time::Duration;

use mysql_wire::auth;
use session::{BackendCredential, Secret};
use testkit::client::{Failure, Login};
use testkit::door::Tuning;
use testkit::{Client, Door, Release, Stage, wait_until};

const SOON: Duration = Duration::from_secs(20);

fn door(stage: &Stage) -> Door {
    door_with(stage, |_| {})
}

fn door_with(stage: &Stage, tune: impl FnOnce(&mut Tuning)) -> Door {
    stage.door_with(|tuning| {
        tuning.follow_accounts();
        tune(tuning);
    })
}

fn backend_credential(user: &str, password: &str) -> BackendCredential {
    BackendCredential {
        user: user.to_owned(),
        host: None,
        password: Secret::new(password.as_bytes()),
        server_user: None,
    }
}

/// Logs in with the right and a wrong password: with the plugin's own first proof, by a switch from
/// another plugin, and by COM_CHANGE_USER.
fn every_exchange(door: &Door, user: &str, plugin: &str) {
    let first = |plugin, password| Login {
        plugin: Some(plugin),
        ..as_user(user, password)
    };
    let other = if plugin == auth::NATIVE {
        auth::CACHING_SHA2
    } else {
        auth::NATIVE
    };
    for offered in [plugin, other] {
        if offered == auth::ED25519 {
            continue; // Its salt comes with a switch only.
        }
        for wrong in ["wrong", ""] {
            let refused = door.login(&first(offered, wrong)).expect_err("refused");
            assert_eq!(
                refused.number(),
                1045,
                "{user} {offered} {wrong:?}: {refused}"
            );
        }
        let mut client = door
            .login(&first(offered, "secret"))
            .unwrap_or_else(|failure| panic!("{user} by {offered}: {failure}"));
        let current = client.value("SELECT CURRENT_USER()");
        assert_eq!(current, format!("{user}@%"));
        assert_eq!(client.value("SELECT name FROM stage.who"), "replica");
    }
    let mut client = door.client();
    client
        .change_user(&as_user(user, "secret"))
        .expect("changed");
    assert_eq!(client.value("SELECT CURRENT_USER()"), format!("{user}@%"));
    let refused = client.change_user(&as_user(user, "wrong"));
    assert_eq!(refused.expect_err("refused").number(), 1045);
}

#[test]
fn every_plugin_of_mysql_in_every_exchange() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    for plugin in [auth::NATIVE, auth::CACHING_SHA2, auth::SHA256] {
        let user = plugin.trim_end_matches("_password");
        stage.everywhere(&format!(
            "CREATE USER {user}@'%' IDENTIFIED WITH {plugin} BY 'secret'; \
             GRANT SELECT ON stage.* TO {user}@'%'; \
             CREATE USER {user}_none@'%' IDENTIFIED WITH {plugin} BY ''"
        ));
    }
    let door = door(&stage);
    for plugin in [auth::NATIVE, auth::CACHING_SHA2, auth::SHA256] {
        let user = plugin.trim_end_matches("_password");
        every_exchange(&door, user, plugin);
        let none = format!("{user}_none");
        let mut client = admitted(&door, &none, "");
        assert_eq!(client.value("SELECT CURRENT_USER()"), format!("{none}@%"));
        assert_eq!(refused(&door, &none, "x"), 1045);
    }
    // MySQL's C library names its plugin in COM_CHANGE_USER and waits for the salt.
    let mut client = admitted(&door, auth::NATIVE.trim_end_matches("_password"), "secret");
    let waiting = Login {
        plugin: Some(auth::CACHING_SHA2),
        waits_for_salt: true,
        ..as_user("caching_sha2", "secret")
    };
    client.change_user(&waiting).expect("changed");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "caching_sha2@%");
}

/// Nothing of a password may be kept: then it has to stand in the configuration.
#[test]
fn without_remembered_passwords_the_configuration_gives_them() {
    let Some(stage) = Stage::start_with(Release::MySql80) else {
        return;
    };
    for user in ["known", "unknown"] {
        stage.everywhere(&format!(
            "CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY 'secret'; \
             GRANT SELECT ON stage.* TO {user}@'%'"
        ));
    }
    let door = door_with(&stage, |tuning| {
        tuning.settings.remember_passwords = false;
        tuning.backend_credentials = vec![backend_credential("known", "secret")];
    });
    every_exchange(&door, "known", auth::CACHING_SHA2);
    let failure = door
        .login(&as_user("unknown", "secret"))
        .expect_err("refused");
    assert_eq!(failure.number(), 1524, "{failure}");
    assert!(
        failure.to_string().contains("caching_sha2_password"),
        "{failure}"
    );
}

#[test]
fn plugins_of_mariadb_in_every_exchange() {
    let Some(stage) = Stage::start() else { return };
    for server in [&stage.primary, &stage.replica] {
        if server
            .client()
            .query("INSTALL SONAME 'auth_ed25519'")
            .is_err()
        {
            testkit::skip(&"this MariaDB has no auth_ed25519");
            return;
        }
    }
    stage.everywhere(
        "CREATE USER native@'%' IDENTIFIED BY 'secret'; \
         CREATE USER signs@'%' IDENTIFIED VIA ed25519 USING PASSWORD('secret'); \
         CREATE USER signs_alone@'%' IDENTIFIED VIA ed25519 USING PASSWORD('secret'); \
         CREATE USER either@'%' IDENTIFIED VIA ed25519 USING PASSWORD('other') \
           OR mysql_native_password USING PASSWORD('secret'); \
         CREATE USER socket@'%' IDENTIFIED VIA unix_socket; \
         CREATE USER socket_backend@'%' IDENTIFIED BY 'configured'; \
         GRANT SELECT ON stage.* TO native@'%', signs@'%', either@'%'",
    );
    let door = door_with(&stage, |tuning| {
        tuning.backend_credentials = vec![
            backend_credential("signs", "secret"),
            BackendCredential {
                server_user: Some("socket_backend".to_owned()),
                ..backend_credential("socket", "configured")
            },
        ];
    });
    every_exchange(&door, "native", auth::NATIVE);
    every_exchange(&door, "signs", auth::ED25519);
    // Several ways: the one that fits counts, at Heddle and at the servers.
    let mut client = admitted(&door, "either", "secret");
    assert_eq!(client.value("SELECT name FROM stage.who"), "replica");
    // What Heddle could not log in with is said, whatever the client knows.
    let failure = door
        .login(&as_user("signs_alone", "secret"))
        .expect_err("refused");
    assert_eq!(failure.number(), 1524, "{failure}");
    // A plugin that Heddle does not speak: the client must know what the configuration says.
    for plugin in [auth::NATIVE, auth::CACHING_SHA2] {
        let first = |password| Login {
            plugin: Some(plugin),
            ..as_user("socket", password)
        };
        let mut client = door.login(&first("configured")).expect("the right one");
        assert_eq!(client.value("SELECT CURRENT_USER()"), "socket_backend@%");
        assert_eq!(
            door.login(&first("other")).expect_err("wrong").number(),
            1045
        );
    }
}

/// A session goes on with what it has when its account changes; what is idle for nobody is closed.
#[test]
fn sessions_outlive_changes_of_their_account() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = door(&stage);
        let mut root = door.client();
        root.run("CREATE USER auth_own@'%' IDENTIFIED BY 'one'");
        let mut own = admitted(&door, "auth_own", "one");
        let name = own.value("SELECT CURRENT_USER()");
        assert_eq!(name, "auth_own@%");
        own.run(match release {
            Release::MySql80 => "ALTER USER USER() IDENTIFIED BY 'two'",
            _ => "SET PASSWORD = PASSWORD('two')",
        });
        // As on a server: the session itself goes on, its password is good for nothing new.
        assert_eq!(own.value("SELECT CURRENT_USER()"), "auth_own@%");
        assert_eq!(refused(&door, "auth_own", "one"), 1045);
        let mut next = admitted(&door, "auth_own", "two");
        assert_eq!(next.value("SELECT CURRENT_USER()"), "auth_own@%");
        assert_eq!(own.value("SELECT 1 + 1"), "2");

        // Its connection is lost: another cannot be had, and that is said once and clearly.
        let list = "SELECT GROUP_CONCAT(id) FROM information_schema.processlist \
                    WHERE user = 'auth_own'";
        for id in stage.primary.client().value(list).split(',') {
            let _ = stage.primary.client().query(format!("KILL {id}"));
        }
        wait_until(SOON, "the connections are gone", || {
            stage.primary.client().value(list) == "NULL"
        });
        let failure = own.query("SELECT CURRENT_USER()").expect_err("refused");
        assert!(matches!(failure.number(), 1045 | 1158), "{failure}");
        let failure = own.query("SELECT CURRENT_USER()").expect_err("refused");
        assert_eq!(failure.number(), 1045, "{failure}");
        wait_until(SOON, "who knows the new password has a new one", || {
            next.query("SELECT CURRENT_USER()").is_ok()
        });

        drop((own, next));
        root.run("DROP USER auth_own@'%'");
        wait_until(
            SOON,
            "connections of the dropped account are closed",
            || stage.primary.client().value(list) == "NULL",
        );
    }
}

#[test]
fn locked_accounts_are_told_so() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = door(&stage);
        let mut root = door.client();
        root.run("CREATE USER auth_shut@'%' IDENTIFIED BY 'one'");
        drop(admitted(&door, "auth_shut", "one"));
        root.run("ALTER USER auth_shut@'%' ACCOUNT LOCK");
        let number = if release == Release::MySql80 {
            3118
        } else {
            4151
        };
        assert_eq!(refused(&door, "auth_shut", "one"), number);
        assert_eq!(refused(&door, "auth_shut", "two"), 1045);
        root.run("ALTER USER auth_shut@'%' ACCOUNT UNLOCK");
        drop(admitted(&door, "auth_shut", "one"));
    }
}

#[test]
fn accounts_have_limits() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(stage) = Stage::start_with(release) else {
            continue;
        };
        let door = door_with(&stage, |tuning| {
            tuning.settings.user_connections_max = 3;
            tuning.threads = 2;
        });
        stage.everywhere(
            "CREATE USER auth_one@'%' IDENTIFIED BY 'x' WITH MAX_USER_CONNECTIONS 1; \
             CREATE USER auth_any@'%' IDENTIFIED BY 'x'",
        );
        let any: Vec<Client> = (0..3).map(|_| admitted(&door, "auth_any", "x")).collect();
        let failure = door.login(&as_user("auth_any", "x")).expect_err("full");
        assert_eq!(
            failure.to_string(),
            "1203 (42000): User auth_any already has more than 'max_user_connections' active \
             connections"
        );
        drop(any);
        wait_until(SOON, "a seat is free", || {
            door.login(&as_user("auth_any", "x")).is_ok()
        });
        // Each client in turn may land on the other core; the last one's connection is in no one's way.
        for _ in 0..6 {
            let mut one = None;
            wait_until(SOON, "the seat is free", || {
                one = door.login(&as_user("auth_one", "x")).ok();
                one.is_some()
            });
            let mut one = one.expect("it was waited for");
            assert_eq!(one.value("SELECT CURRENT_USER()"), "auth_one@%");
            let failure = door.login(&as_user("auth_one", "x")).expect_err("full");
            assert_eq!(
                failure.to_string(),
                "1226 (42000): User 'auth_one' has exceeded the 'max_user_connections' resource \
                 (current value: 1)"
            );
            // A session may change to its own account again.
            one.change_user(&as_user("auth_one", "x"))
                .expect("its own seat");
            one.quit();
        }
    }
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
