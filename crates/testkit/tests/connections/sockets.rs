//! Unix sockets on both sides of the SQL door: clients that come by one, and servers that are reached by theirs.

use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mysql_wire::capability::Capabilities;
use reactor::Io;
use session::{BackendCredential, ClientTls, Secret, Terms, Transport};
use tempfile::TempDir;
use testkit::certificates::Authority;
use testkit::client::{Login, any_certificate};
use testkit::door::Tuning;
use testkit::{Client, Door, Release, Stage, wait_until};

use crate::tls::shown;

/// On a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Above one packet's 16 MiB there is nothing else to see; this is many receives.
const LARGE: usize = 5_000_000;

/// A directory with a door's socket.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a directory"))
    }

    fn socket(&self) -> PathBuf {
        self.0.path().join("sql.sock")
    }

    fn door(&self, stage: &Stage, tune: impl FnOnce(&mut Tuning)) -> Door {
        stage.door_with(|tuning| {
            tuning.socket = Some(self.socket());
            tune(tuning);
        })
    }

    fn login(&self, login: &Login<'_>) -> Result<Client, testkit::client::Failure> {
        Client::login_by_socket(&self.socket(), login)
    }
}

fn as_user<'a>(user: &'a str, password: &'a str) -> Login<'a> {
    Login {
        user,
        password,
        ..Login::default()
    }
}

/// Servers are reached by their sockets.
fn by_sockets() -> Arc<Transport> {
    let terms = Terms {
        sockets: true,
        ..Terms::plain()
    };
    Arc::new(Transport::new(ClientTls::Off, None, terms))
}

/// How many connections of this user the primary has by its socket, and by TCP.
fn connections(stage: &Stage, user: &str) -> (usize, usize) {
    let list = format!(
        "SELECT IF(host LIKE '%:%', 'tcp', 'socket') FROM information_schema.processlist WHERE user = '{user}'"
    );
    let rows = stage.primary.client().rows(&list);
    let of = |kind: &str| {
        rows.iter()
            .filter(|row| row[0].as_deref() == Some(kind))
            .count()
    };
    (of("socket"), of("tcp"))
}

/// Where the list of processes has this client.
fn own_host(client: &mut Client) -> String {
    let id = client.connection_id.to_string();
    let rows = client.rows("SHOW PROCESSLIST");
    let own = rows.iter().find(|row| row[0].as_ref() == Some(&id));
    own.and_then(|row| row[2].clone()).expect("it is listed")
}

#[test]
fn statements_and_files_of_any_size_pass_on_each_interface() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    stage.everywhere("SET GLOBAL local_infile = ON");
    stage.database("sockets");
    stage.everywhere("CREATE TABLE sockets.t (a INT PRIMARY KEY, b LONGTEXT)");
    for (io, transport) in [
        (Io::Auto, by_sockets()),
        (Io::Auto, Arc::new(Transport::plain())),
        (Io::Epoll, by_sockets()),
    ] {
        let place = Place::new();
        let door = place.door(&stage, |tuning| {
            tuning.io = io;
            tuning.transport = transport;
        });
        let usual = Login::default();
        let login = Login {
            database: Some("sockets"),
            capabilities: usual.capabilities | Capabilities::LOCAL_FILES,
            ..usual
        };
        let mut client = place.login(&login).expect("root has no password");
        assert_eq!(client.value("SELECT 1"), "1");
        let long = "x".repeat(LARGE);
        let length = client.value(&format!("SELECT LENGTH('{long}')"));
        assert_eq!(length, LARGE.to_string());
        assert_eq!(client.value(&format!("SELECT REPEAT('x', {LARGE})")), long);
        client.run("DELETE FROM t");
        client.files = [vec![b"1,".to_vec(), vec![b'y'; LARGE], b"\n2,z\n".to_vec()]].into();
        let load = "LOAD DATA LOCAL INFILE 'x' INTO TABLE t FIELDS TERMINATED BY ','";
        assert_eq!(client.run(load).affected_rows, 2);
        assert_eq!(
            client.value("SELECT SUM(LENGTH(b)) FROM t"),
            (LARGE + 1).to_string()
        );
        // It is shown as a client of this machine, which has no port.
        assert_eq!(own_host(&mut client), "localhost");
        // Those who come by TCP are served beside it.
        assert_eq!(door.client().value("SELECT 1"), "1");
        client.quit();
        door.drain(PATIENCE);
        assert!(!place.socket().exists(), "the file goes with the door");
    }
}

#[test]
fn a_client_by_the_socket_is_localhost_and_so_is_the_router() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    stage.everywhere(
        "CREATE USER app@localhost IDENTIFIED BY 'here'; \
         CREATE USER app@'127.0.0.1' IDENTIFIED BY 'there'; \
         CREATE USER anywhere@'%' IDENTIFIED BY 'secret'",
    );
    let place = Place::new();
    let door = place.door(&stage, |tuning| {
        tuning.follow_accounts();
        tuning.transport = by_sockets();
    });
    // The first connection asks for the server's socket.
    assert_eq!(
        door.client()
            .value("SELECT COUNT(*) FROM mysql.user WHERE user = 'app'"),
        "2"
    );
    let mut client = place
        .login(&as_user("app", "here"))
        .expect("its own account");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "app@localhost");
    assert_eq!(connections(&stage, "app").1, 0);
    let refused = place.login(&as_user("app", "there"));
    assert_eq!(refused.expect_err("another's password").number(), 1045);
    let mut client = place.login(&as_user("anywhere", "secret")).expect("let in");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "anywhere@%");
    let mut client = door.login(&as_user("anywhere", "secret")).expect("let in");
    client.run("DO 1");
    wait_until(PATIENCE, "connections by the server's socket", || {
        let (by_socket, by_tcp) = connections(&stage, "anywhere");
        by_socket > 0 && by_tcp == 0
    });
}

/// Connections go by the socket only where it is that of the same process.
#[test]
fn a_server_that_restarts_is_reached_again() {
    let Some(mut stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    let door = stage.door_with(|tuning| tuning.transport = by_sockets());
    let mut client = door.client();
    client.run("DO 1");
    client.run("SET @x = 1");
    assert!(connections(&stage, "root").0 > 0);
    stage.primary.kill();
    stage.primary.restart();
    wait_until(PATIENCE, "the server again", || {
        door.login(&Login::default())
            .and_then(|mut client| {
                client
                    .query("CREATE DATABASE IF NOT EXISTS again")
                    .map(|_| ())
            })
            .is_ok()
    });
    wait_until(PATIENCE, "its socket again", || {
        let mut others: Vec<Client> = (0..3).map(|_| door.client()).collect();
        for other in &mut others {
            other.run("BEGIN");
            other.run("CREATE TEMPORARY TABLE again.t (a INT)");
        }
        connections(&stage, "root").0 > 0
    });
}

#[test]
fn the_operating_system_vouches_for_accounts_that_say_so() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    let own = reactor::user_name(rustix::process::getuid().as_raw()).expect("this user has a name");
    stage.everywhere(&format!(
        "CREATE USER os@'%' IDENTIFIED VIA unix_socket AS '{own}'; \
         CREATE USER other@'%' IDENTIFIED VIA unix_socket AS 'nobody at all'; \
         CREATE USER alone@'%' IDENTIFIED VIA unix_socket AS '{own}'; \
         CREATE USER os_backend@'%' IDENTIFIED BY 'configured'"
    ));
    let credential = |user: &str| BackendCredential {
        user: user.to_owned(),
        host: None,
        password: Secret::new(b"configured"),
        server_user: Some("os_backend".to_owned()),
    };
    let place = Place::new();
    let door = place.door(&stage, |tuning| {
        tuning.follow_accounts();
        tuning.backend_credentials = vec![credential("os"), credential("other")];
    });
    let mut client = place
        .login(&as_user("os", ""))
        .expect("the kernel knows it");
    assert_eq!(client.value("SELECT CURRENT_USER()"), "os_backend@%");
    let refused = |login: Result<Client, testkit::client::Failure>| {
        login.map(|_| ()).expect_err("not to be let in").number()
    };
    // Nobody is vouched for over TCP, nor somebody else by the socket.
    assert_eq!(refused(door.login(&as_user("os", ""))), 1045);
    assert_eq!(refused(place.login(&as_user("other", ""))), 1045);
    // Nothing would log in to the servers.
    assert_eq!(refused(place.login(&as_user("alone", ""))), 1524);
    // Who knows the backend credential's password needs no kernel.
    drop(
        place
            .login(&as_user("other", "configured"))
            .expect("it knows the password"),
    );
}

#[test]
fn tls_is_not_demanded_of_it_and_no_balancer_speaks_there() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    let authority = Authority::new("a CA");
    let pair = authority.sign("router", &["localhost"]);
    let everywhere = routing::rules::Network::parse("0.0.0.0/0").expect("a network");
    let place = Place::new();
    let door = place.door(&stage, |tuning| {
        let transport = Transport::new(ClientTls::Required, Some(shown(&pair)), Terms::plain());
        tuning.transport = Arc::new(transport.behind(vec![everywhere]));
    });
    let plain = door.login(&Login::default());
    assert_eq!(plain.expect_err("TLS is required over TCP").number(), 3159);
    let mut client = place.login(&Login::default()).expect("a socket is private");
    assert_eq!(client.value("SELECT 1"), "1");
    let secure = Login {
        tls: Some(any_certificate()),
        ..Login::default()
    };
    let mut client = place.login(&secure).expect("who wants TLS has it");
    assert_eq!(client.value("SELECT 1"), "1");
    // Who goes on writing behind it may find the socket closed, so what comes back is read at once.
    let mut stream = UnixStream::connect(place.socket()).expect("the door listens");
    stream
        .write_all(b"PROXY TCP4 203.0.113.7 192.0.2.1 4711 3306\r\n")
        .expect("sent");
    let mut said = Vec::new();
    let _ = stream.read_to_end(&mut said);
    let said = String::from_utf8_lossy(&said);
    assert!(
        said.contains("Proxy header is not accepted from localhost"),
        "{said}"
    );
    // Nor may a balancer say that its client came by the socket.
    let pretends = b"PROXY TCP4 0.0.0.0 192.0.2.1 0 3306\r\n";
    let mut client = Client::login(
        door.address(),
        &Login {
            preface: pretends,
            ..secure
        },
    )
    .expect("it counts as the balancer");
    let host = own_host(&mut client);
    assert!(host.starts_with(&Ipv4Addr::LOCALHOST.to_string()), "{host}");
}

#[test]
fn the_servers_own_clients_come_by_it() {
    let Some(stage) = Stage::start_with(Release::Installed) else {
        return;
    };
    let Ok(server) = Release::Installed.binary() else {
        return;
    };
    let place = Place::new();
    let _door = place.door(&stage, |_| {});
    let found = ["mariadb", "mysql"].map(|name| {
        let beside = server.path.with_file_name(name);
        let installed = PathBuf::from("/usr/bin").join(name);
        [beside, installed].into_iter().find(|path| path.exists())
    });
    let Some(client) = found.into_iter().flatten().next() else {
        return testkit::skip(&"no command line client");
    };
    for host in [&[][..], &["-h", "localhost"]] {
        let output = Command::new(&client)
            .args(["--no-defaults", "-uroot", "-N", "-S"])
            .arg(place.socket())
            .args(host)
            .args(["-e", "SELECT 40 + 2; \\s"])
            .output()
            .expect("the client runs");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.starts_with("42\n"),
            "{output:?}"
        );
        assert!(said.contains("UNIX socket"), "{said}");
    }
}
