//! The kit itself against real servers of three releases: what it says of them must be true.

use std::time::Duration;

use mysql_wire::capability::Capabilities;
use testkit::client::{Login, Reply, Value};
use testkit::{Client, Release, Server};

const SQL: &str = "SELECT CAST(-5 AS SIGNED), CAST(7 AS UNSIGNED), 1.5e0, NULL, 'text', ''";

fn all() -> impl Iterator<Item = Server> {
    Release::ALL.into_iter().filter_map(Server::start)
}

#[test]
fn text_and_binary_results_agree() {
    for server in all() {
        let eof = Login::default().capabilities;
        for capabilities in [eof, eof | Capabilities::DEPRECATE_EOF] {
            let login = Login {
                capabilities,
                ..Login::default()
            };
            let mut client = Client::login(server.address(), &login).expect("logged in");
            let text = client.rows(SQL);
            let statement = client.prepare(SQL).expect("prepared");
            let replies = client.execute(&statement, &[]).expect("executed");
            let [Reply::Rows(rows)] = &replies[..] else {
                panic!("{replies:?}")
            };
            assert_eq!(rows.text(), text);
            assert_eq!(text[0][0].as_deref(), Some("-5"));
            client.close(statement).expect("closed");
        }
    }
}

#[test]
fn parameters_cursors_and_several_results() {
    for server in all() {
        let mut client = server.client();
        client.run("CREATE DATABASE d");
        client.use_database("d").expect("it is there");
        client.run("CREATE TABLE t (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(20))");
        let insert = client
            .prepare("INSERT INTO t (v) VALUES (?), (?)")
            .expect("prepared");
        assert_eq!(insert.params.len(), 2);
        let done = client
            .execute(&insert, &["one".into(), Value::Null])
            .expect("inserted");
        let [Reply::Done(done)] = &done[..] else {
            panic!("{done:?}")
        };
        assert_eq!((done.affected_rows, done.last_insert_id), (2, 1));

        let select = client
            .prepare("SELECT id FROM t WHERE id > ?")
            .expect("prepared");
        client
            .send_execute(select.id, 1, &[Value::Int(0)])
            .expect("sent");
        client.read_result(true).expect("a cursor");
        assert_eq!(client.fetch(&select, 1).expect("fetched").rows.len(), 1);
        client
            .reset_statement(select.id)
            .expect("closed the cursor");

        let replies = client
            .query("SELECT 1; UPDATE t SET v = 'x'; SELECT 2")
            .expect("three");
        assert_eq!(replies.len(), 3);
        assert_eq!(client.error("SELECT no_such_column FROM t"), 1054);
        assert_eq!(client.value("SELECT COUNT(*) FROM t"), "2");
    }
}

#[test]
fn passwords_and_change_user() {
    for server in all() {
        let mut root = server.client();
        root.run("CREATE USER app@localhost IDENTIFIED BY 'secret'");
        if server.engine() == farm::Engine::MySql {
            // The full exchange needs RSA, which this client does not have.
            root.run("ALTER USER app@localhost IDENTIFIED WITH mysql_native_password BY 'secret'");
        }
        let mut app = Client::connect(server.address(), "app", "secret").expect("logged in");
        assert!(app.value("SELECT USER()").starts_with("app@"));
        let refused = Client::connect(server.address(), "app", "wrong").expect_err("wrong");
        assert_eq!(refused.number(), 1045);
        app.change_user(&Login::default())
            .expect("root has no password");
        assert!(app.value("SELECT USER()").starts_with("root@"));
        let login = Login {
            user: "app",
            password: "secret",
            ..Login::default()
        };
        app.change_user(&login).expect("the password is right");
        assert!(app.value("SELECT USER()").starts_with("app@"));
    }
}

#[test]
fn raw_packets_reach_the_server_as_they_are() {
    let Some(server) = Server::start(Release::Installed) else {
        return;
    };
    let mut client = server.client();
    client.sequence = 7;
    client.send_packet(b"\x0e").expect("sent");
    assert_eq!(
        client
            .read_packet()
            .expect_err("a wrong sequence number")
            .number(),
        0
    );
    assert!(server.client().ping().is_ok());

    let mut half = Client::dial(server.address()).expect("connected");
    half.read_packet().expect("a greeting");
    half.send_bytes(b"\x20\0\0").expect("sent");
    half.close_send().expect("closed");
    assert!(half.is_closed_within(Duration::from_secs(20)));
}

#[test]
fn a_killed_server_comes_back_with_its_rows() {
    let Some(mut server) = Server::start(Release::Installed) else {
        return;
    };
    server.client().run("CREATE DATABASE kept");
    server.kill();
    assert!(Client::connect(server.address(), "root", "").is_err());
    server.restart();
    assert_eq!(server.client().rows("SHOW DATABASES LIKE 'kept'").len(), 1);

    server.freeze();
    let mut frozen = Client::dial(server.address()).expect("the kernel accepts");
    frozen
        .set_read_timeout(Some(Duration::from_millis(50)))
        .expect("set");
    assert!(
        frozen.read_packet().is_err(),
        "a stopped process says nothing"
    );
    server.thaw();
    assert!(server.client().ping().is_ok());
}
