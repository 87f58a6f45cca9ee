//! Accounts that differ by their hosts only. Servers that are told by the PROXY protocol where a client is
//! take it for the account that they would take it for without a router; where they are not told, nobody
//! gets another account's rights by coming through the router.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use testkit::client::{Failure, Login};
use testkit::{Client, Farm, Release, Server, wait_until};

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

const TWO: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const THREE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// `u`, who may read d.a at 127.0.0.2, d.b at 127.0.0.3, and everything at the router.
fn prepare(server: &Server) {
    let mut root = server.client();
    root.run("CREATE DATABASE d");
    root.run("CREATE TABLE d.a (id INT PRIMARY KEY)");
    root.run("CREATE TABLE d.b (id INT PRIMARY KEY)");
    for host in ["127.0.0.2", "127.0.0.3", "localhost", "127.0.0.1"] {
        root.run(&format!("CREATE USER u@'{host}' IDENTIFIED BY 'secret'"));
    }
    root.run("GRANT SELECT ON d.a TO u@'127.0.0.2'");
    root.run("GRANT SELECT ON d.b TO u@'127.0.0.3'");
    root.run("GRANT SELECT ON d.* TO u@localhost");
    root.run("GRANT SELECT ON d.* TO u@'127.0.0.1'");
}

fn u(address: SocketAddr, from: Ipv4Addr) -> Result<Client, Failure> {
    let login = Login {
        user: "u",
        password: "secret",
        from: Some(from),
        ..Login::default()
    };
    Client::login(address, &login)
}

fn add(farm: &Farm, server: &Server) {
    farm.json(&["group", "create", "g"]);
    farm.json(&["group", "add", "g", &server.address().to_string()]);
}

/// What a client sees of itself and of the tables.
fn sees(client: &mut Client) -> (Vec<Option<String>>, [Option<u16>; 2]) {
    let who = client.rows("SELECT SUBSTRING_INDEX(USER(), '@', -1), CURRENT_USER()");
    let may = |client: &mut Client, table| match client.query(format!("SELECT * FROM d.{table}")) {
        Ok(_) => None,
        Err(failure) => Some(failure.number()),
    };
    (who[0].clone(), [may(client, "a"), may(client, "b")])
}

#[test]
fn servers_that_are_told_see_the_clients_own_address() {
    for form in ["v2", "v1"] {
        let networks = [("proxy_protocol_networks", "127.0.0.1")];
        let Some(server) = Server::start_with(Release::Installed, &networks) else {
            return;
        };
        prepare(&server);
        let farm = Farm::serve(&[&format!("proxy_protocol_servers={form}")]);
        add(&farm, &server);
        wait_until(PATIENCE, "the accounts are known", || {
            u(farm.sql, TWO).is_ok()
        });
        let mut all = Vec::new();
        for from in [TWO, THREE, Ipv4Addr::LOCALHOST] {
            let mut straight = u(server.address(), from).expect("logged in");
            let own = sees(&mut straight);
            // Twice, so that connections of others are there already.
            for _ in 0..2 {
                let mut through = u(farm.sql, from).expect("logged in");
                assert_eq!(sees(&mut through), own, "{form}, from {from}");
            }
            all.push(own.1);
        }
        let (may, not) = (None, Some(1142));
        assert_eq!(all, [[may, not], [not, may], [may, may]]);
        // Heddle's own connections go without.
        farm.json(&["group", "health", "g"]);
        assert_eq!(
            farm.client().value("SELECT CURRENT_USER()"),
            "root@localhost"
        );
        // A server that takes them no more says so to everybody who needs another connection.
        server
            .client()
            .run("SET GLOBAL proxy_protocol_networks = ''");
        let other = Login {
            user: "u",
            password: "secret",
            from: Some(TWO),
            collation: 33,
            ..Login::default()
        };
        let failure = Client::login(farm.sql, &other).expect_err("no connection for it");
        assert_eq!(failure.number(), 1130, "{failure}");
        let text = failure.to_string();
        assert!(text.contains("does not take the PROXY header"), "{text}");
    }
}

#[test]
fn a_server_that_takes_no_headers_is_not_added() {
    for release in [Release::Installed, Release::newest_mysql()] {
        let Some(server) = Server::start(release) else {
            continue;
        };
        for form in ["v2", "v1"] {
            let farm = Farm::serve(&[&format!("proxy_protocol_servers={form}")]);
            farm.json(&["group", "create", "g"]);
            let address = server.address().to_string();
            let output = farm.command(&["group", "add", "g", &address]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!output.status.success(), "{release:?} {form}: {said}");
            let why = "does not take PROXY headers from this router";
            assert!(said.contains(why), "{release:?} {form}: {said}");
            assert!(said.contains("proxy_protocol_networks"), "{said}");
        }
    }
}

/// The server takes everybody for the account at the router's address.
#[test]
fn nobody_gets_the_rights_of_the_routers_own_account() {
    for release in [Release::Installed, Release::newest_mysql()] {
        let Some(server) = Server::start(release) else {
            continue;
        };
        prepare(&server);
        if release != Release::Installed {
            let mut root = server.client();
            for host in ["127.0.0.2", "127.0.0.3", "localhost", "127.0.0.1"] {
                root.run(&format!(
                    "ALTER USER u@'{host}' IDENTIFIED WITH mysql_native_password BY 'secret'"
                ));
            }
        }
        let farm = Farm::serve(&[]);
        add(&farm, &server);
        let told = |other: &str| {
            let events = farm.json(&["group", "events"]);
            let detail = format!("clients of 'u'@'{other}' are refused");
            let is = |row: &serde_json::Value| row.to_string().contains(&detail);
            events.iter().any(is)
        };
        wait_until(PATIENCE, "both pairs are told", || {
            told("127.0.0.2") && told("127.0.0.3")
        });
        wait_until(PATIENCE, "the accounts are known", || {
            u(farm.sql, Ipv4Addr::LOCALHOST).is_ok()
        });
        let failure = match u(farm.sql, TWO) {
            Ok(mut client) => panic!("{release:?}: let in, and sees {:?}", sees(&mut client)),
            Err(failure) => failure,
        };
        let text = failure.to_string();
        assert_eq!(failure.number(), 1045, "{text}");
        assert!(text.contains("the servers take the router for"), "{text}");
        assert!(
            farm.stderr().contains("proxy_protocol_servers"),
            "the log says the cure"
        );
        // With the same rights nobody gets anything.
        let mut root = server.client();
        root.run("REVOKE SELECT ON d.a FROM u@'127.0.0.2'");
        root.run("GRANT SELECT ON d.* TO u@'127.0.0.2'");
        wait_until(PATIENCE, "it is let in", || u(farm.sql, TWO).is_ok());
        let mut client = u(farm.sql, TWO).expect("logged in");
        client.run("DO 1");
        // A column more is another account again: new connections cannot be had for it.
        root.run("GRANT INSERT (id) ON d.b TO u@localhost");
        root.run("GRANT INSERT (id) ON d.b TO u@'127.0.0.1'");
        wait_until(PATIENCE, "it is refused again", || {
            u(farm.sql, TWO).is_err()
        });
        // Who is logged in has not the other account's column either.
        let text = "INSERT INTO d.b (id) VALUES (7)";
        assert_eq!(client.error(text), 1045);
        assert_eq!(server.client().value("SELECT COUNT(*) FROM d.b"), "0");
    }
}
