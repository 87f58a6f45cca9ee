//! The SQL door: roles follow their session over shared connections.

use testkit::client::{Login, Reply};
use testkit::{Client, Door, Release, Server};

/// An account with two roles, the first its default if so asked; each may read a database of its own.
fn server(release: Release, default: bool) -> Option<Server> {
    let server = Server::start(release)?;
    let mysql = release == Release::MySql80;
    let way = match mysql {
        true => "WITH mysql_native_password ",
        false => "",
    };
    let mut root = server.client();
    root.run(&format!(
        "CREATE USER role_a@'%' IDENTIFIED {way}BY 'secret'"
    ));
    for role in ["r1", "r2"] {
        root.run(&format!("CREATE DATABASE of_{role}"));
        root.run(&format!("CREATE TABLE of_{role}.t (a INT)"));
        root.run(&format!("CREATE ROLE {role}"));
        root.run(&format!("GRANT SELECT ON of_{role}.* TO {role}"));
        root.run(&format!("GRANT {role} TO role_a@'%'"));
    }
    match (default, mysql) {
        (false, _) => {}
        (true, true) => drop(root.run("SET DEFAULT ROLE r1 TO role_a@'%'")),
        (true, false) => drop(root.run("SET DEFAULT ROLE r1 FOR role_a@'%'")),
    }
    Some(server)
}

fn login() -> Login<'static> {
    Login {
        user: "role_a",
        password: "secret",
        ..Login::default()
    }
}

/// A door whose sessions share one connection to the server.
fn narrow(server: &Server) -> Door {
    Door::start(&[server], |tuning| {
        tuning.live_accounts = true;
        tuning.settings.pool.connections_max = 1;
        tuning.settings.pool.wait_ms = 20_000;
    })
}

/// What a session hears of its roles in some of their turns.
fn turns(client: &mut Client, mut between: impl FnMut()) -> Vec<String> {
    let mut said = Vec::new();
    for sql in [
        "SELECT 1",
        "SET ROLE r2",
        "SET ROLE nope",
        "SET ROLE NONE",
        "SELECT 1; SET ROLE r1",
        "SET ROLE DEFAULT",
    ] {
        let outcome = client.query(sql);
        said.push(outcome.map_or_else(|failure| failure.to_string(), |_| sql.to_owned()));
        between();
        said.push(client.value("SELECT CURRENT_ROLE()"));
        between();
        for table in ["of_r1.t", "of_r2.t"] {
            let read = client.query(format!("SELECT * FROM {table}"));
            said.push(read.map_or_else(|failure| failure.to_string(), |_| table.to_owned()));
        }
        client.reset().expect("reset");
        said.push(client.value("SELECT CURRENT_ROLE()"));
    }
    let statement = client.prepare("SET ROLE r2").expect("prepared");
    client.execute(&statement, &[]).expect("granted");
    between();
    said.push(client.value("SELECT CURRENT_ROLE()"));
    // MariaDB lets another user have the former one's role where it has no default; Heddle does not.
    client.run("SET ROLE NONE");
    client.change_user(&login()).expect("the password is right");
    said.push(client.value("SELECT CURRENT_ROLE()"));
    said
}

#[test]
fn a_role_follows_its_session() {
    for (release, default) in [
        (Release::Installed, false),
        (Release::MariaDb114, true),
        (Release::MySql80, true),
        (Release::MySql80, false),
    ] {
        let Some(server) = server(release, default) else {
            continue;
        };
        let mut straight = Client::login(server.address(), &login()).expect("logged in");
        let door = narrow(&server);
        let mut through = door.login(&login()).expect("logged in");
        // Others use the one connection in between, and find the role of their login.
        let mut other = door.login(&login()).expect("logged in");
        let first = other.value("SELECT CURRENT_ROLE()");
        let expected = turns(&mut straight, || {});
        let found = turns(&mut through, || {
            assert_eq!(other.value("SELECT CURRENT_ROLE()"), first);
        });
        assert_eq!(found, expected, "{release:?}");
        assert_eq!(door.counter("pins_variable"), 0);
        // What a routine or a prepared text sets does not outlive the session either.
        through.run("PREPARE s FROM 'SET ROLE r2'");
        through.run("EXECUTE s");
        through.quit();
        assert_eq!(other.value("SELECT CURRENT_ROLE()"), first);
    }
}

#[test]
fn a_role_that_was_taken_away_gives_nothing() {
    for release in [Release::Installed, Release::MySql80] {
        let Some(server) = server(release, false) else {
            continue;
        };
        let door = narrow(&server);
        let mut client = door.login(&login()).expect("logged in");
        let mut other = door.login(&login()).expect("logged in");
        client.run("SET ROLE r1");
        other.run("DO 1");
        client.rows("SELECT * FROM of_r1.t");
        server.client().run("REVOKE r1 FROM role_a@'%'");
        other.run("DO 1");
        assert_eq!(client.error("SELECT * FROM of_r1.t"), 1142);
        client.run("SET ROLE r2");
        other.run("DO 1");
        client.rows("SELECT * FROM of_r2.t");
    }
}

/// The session is in a database that only its former role could enter: it stays on its connection.
#[test]
fn a_database_that_is_closed_now_is_still_the_current_one() {
    let Some(server) = server(Release::Installed, false) else {
        return;
    };
    let door = Door::start(&[&server], |tuning| tuning.live_accounts = true);
    let mut client = door.login(&login()).expect("logged in");
    client.run("SET ROLE r1");
    client.run("USE of_r1");
    client.run("SET ROLE NONE");
    assert_eq!(client.value("SELECT DATABASE()"), "of_r1");
    assert_eq!(client.error("SELECT * FROM t"), 1142);
    assert_eq!(door.counter("pins_variable"), 1);
}

/// Who sees, ends and reads what, as the server itself says it and as the door does.
fn rights(server: &Server, door: Option<&Door>, user: &str) -> Vec<String> {
    let address = door.map_or(server.address(), Door::address);
    let login = |user| {
        let login = Login {
            user,
            password: "secret",
            ..Login::default()
        };
        Client::login(address, &login).expect("the password is right")
    };
    let mut client = login(user);
    let mut said = vec![client.value("SELECT CURRENT_ROLE()")];
    let victims = ["plain", "power"];
    let mut others = victims.map(login);
    let shown = client.rows("SHOW PROCESSLIST");
    let sees = shown.iter().any(|row| row[1].as_deref() == Some("plain"));
    said.push(format!("sees: {sees}"));
    for (victim, other) in victims.iter().zip(&mut others) {
        let kill = client.query(format!("KILL {}", other.value("SELECT CONNECTION_ID()")));
        let number = kill.map_or_else(|failure| failure.number(), |_| 0);
        said.push(format!("KILL of {victim}: {number}"));
    }
    for sql in [
        "SELECT * FROM open.t",
        "SELECT * FROM shut.t",
        "SHOW DATABASES LIKE 'shut'",
    ] {
        said.push(match client.query(sql) {
            Ok(answer) => format!(
                "{sql}: {} rows",
                answer.into_iter().map(rows_of).sum::<usize>()
            ),
            Err(failure) => format!("{sql}: {}", failure.number()),
        });
    }
    said
}

fn rows_of(reply: Reply) -> usize {
    match reply {
        Reply::Rows(rows) => rows.rows.len(),
        _ => 0,
    }
}

/// Mandatory roles, default roles, all roles at once, and privileges that were taken back in part.
#[test]
fn what_an_account_may_do_is_what_its_server_says() {
    let settings = [("partial_revokes", "ON")];
    let Some(server) = Server::start_with(Release::MySqlNewer, &settings) else {
        return;
    };
    let mut root = server.client();
    for sql in [
        "CREATE DATABASE open",
        "CREATE DATABASE shut",
        "CREATE TABLE open.t (a INT)",
        "CREATE TABLE shut.t (a INT)",
        "CREATE ROLE sees, kills, readers",
        "GRANT PROCESS ON *.* TO sees",
        "GRANT CONNECTION_ADMIN ON *.* TO kills",
        "GRANT SELECT ON *.* TO readers",
        "REVOKE SELECT ON shut.* FROM readers",
    ] {
        root.run(sql);
    }
    let users = [
        "plain",
        "power",
        "held",
        "by_default",
        "narrow",
        "super",
        "connects",
    ];
    for user in users {
        root.run(&format!("CREATE USER {user}@'%' IDENTIFIED BY 'secret'"));
        root.run(&format!("GRANT SELECT ON open.* TO {user}@'%'"));
    }
    for sql in [
        "GRANT SYSTEM_USER, CONNECTION_ADMIN ON *.* TO power@'%'",
        "GRANT sees, kills TO held@'%'",
        "GRANT sees, kills, readers TO by_default@'%'",
        "ALTER USER by_default@'%' DEFAULT ROLE kills, readers",
        "GRANT SELECT, SHOW DATABASES ON *.* TO narrow@'%'",
        "REVOKE SELECT ON shut.* FROM narrow@'%'",
        "GRANT SUPER ON *.* TO super@'%'",
        "GRANT CONNECTION_ADMIN ON *.* TO connects@'%'",
    ] {
        root.run(sql);
    }
    let door = Door::start(&[&server], |tuning| tuning.live_accounts = true);
    for (mandatory, all) in [
        ("", "OFF"),
        ("", "ON"),
        ("sees,readers", "OFF"),
        ("sees,readers", "ON"),
    ] {
        root.run(&format!("SET GLOBAL mandatory_roles = '{mandatory}'"));
        root.run(&format!("SET GLOBAL activate_all_roles_on_login = {all}"));
        // The door reads the accounts anew before the next login.
        door.client().run("FLUSH PRIVILEGES");
        for user in users {
            let straight = rights(&server, None, user);
            let through = rights(&server, Some(&door), user);
            assert_eq!(
                through, straight,
                "{user}, mandatory {mandatory:?}, all {all}"
            );
        }
    }
}
