//! Who a session is: the id that its client knows, wherever a statement asks for it.

use std::time::Duration;

use testkit::client::{Login, Reply, Rows};
use testkit::{Client, Release, Stage, wait_until_listed};

fn rows(reply: Vec<Reply>) -> Rows {
    match reply.into_iter().next() {
        Some(Reply::Rows(rows)) => rows,
        other => panic!("expected rows, got {other:?}"),
    }
}

/// Both stages that these tests run on: MariaDB always, MySQL where it can be had.
fn stages() -> Vec<Stage> {
    [Release::Installed, Release::MySql80]
        .into_iter()
        .filter_map(Stage::start_with)
        .collect()
}

/// Texts whose only value is the id of the connection.
const ASKS: [&str; 9] = [
    "SELECT CONNECTION_ID()",
    "SELECT CONNECTION_ID() AS id",
    "select connection_id( ) `the id`",
    "SELECT @@pseudo_thread_id",
    "SELECT @@session.pseudo_thread_id p",
    "SELECT IF(1, CONNECTION_ID(), NULL)",
    "SELECT CASE WHEN 1 THEN CONNECTION_ID() END",
    "SELECT (SELECT CONNECTION_ID())",
    "SELECT MAX(i) FROM (SELECT CONNECTION_ID() AS i UNION SELECT 0) x",
];

#[test]
fn the_id_is_the_clients_and_looks_like_the_servers() {
    for stage in stages() {
        let door = stage.door();
        let mut direct = stage.primary.client();
        // Other sessions move the pool's connections away from ids that are equal by chance.
        let mut others: Vec<Client> = (0..3).map(|_| door.client()).collect();
        for other in &mut others {
            other.run("BEGIN");
        }
        let mut client = door.client();
        let id = client.connection_id.to_string();
        assert_ne!(client.server_id(), id);
        for ask in ASKS {
            let own = rows(direct.query(ask).expect("the server's"));
            let ours = rows(client.query(ask).expect("the client's"));
            assert_eq!(ours.columns, own.columns, "{ask}");
            assert_eq!(ours.text(), [[Some(id.clone())]], "{ask}");
            let statement = client.prepare(ask).expect("prepared");
            let ours = rows(client.execute(&statement, &[]).expect("executed"));
            let statement = direct.prepare(ask).expect("prepared");
            let own = rows(direct.execute(&statement, &[]).expect("executed"));
            assert_eq!(ours.columns, own.columns, "{ask}, prepared");
            assert_eq!(ours.text(), [[Some(id.clone())]], "{ask}, prepared");
        }
    }
}

#[test]
fn the_same_text_prepared_by_two_is_the_id_of_each() {
    let Some(stage) = Stage::shared() else { return };
    let door = stage.door();
    let text = "SELECT CONNECTION_ID() AS id, ? AS x";
    let mut clients = [door.client(), door.client()];
    let statements = clients
        .each_mut()
        .map(|client| client.prepare(text).expect("prepared"));
    for _ in 0..3 {
        for (client, statement) in clients.iter_mut().zip(&statements) {
            let found = rows(client.execute(statement, &[1.into()]).expect("executed"));
            let id = client.connection_id.to_string();
            assert_eq!(found.text()[0][0].as_deref(), Some(&*id));
        }
    }
}

#[test]
fn everywhere_in_a_statement() {
    for stage in stages() {
        stage.database("identity_where");
        stage.everywhere("CREATE TABLE identity_where.t (id BIGINT, what VARCHAR(20))");
        let door = stage.door();
        let mut client = door.client_in("identity_where");
        let id = client.connection_id.to_string();
        client.run("INSERT INTO t VALUES (CONNECTION_ID(), 'CONNECTION_ID()')");
        client.run("SET @a = CONNECTION_ID()");
        client.run("INSERT INTO t SELECT CONNECTION_ID(), /* CONNECTION_ID() */ 'select'");
        client.run("UPDATE t SET id = CONNECTION_ID() + 0 WHERE id = CONNECTION_ID()");
        client.run("CREATE TEMPORARY TABLE made AS SELECT CONNECTION_ID() AS id");
        let mine = "SELECT COUNT(*) FROM t WHERE id = CONNECTION_ID()";
        assert_eq!(client.value(mine), "2");
        assert_eq!(client.value("SELECT @a"), id);
        assert_eq!(client.value("SELECT id FROM made"), id);
        assert_eq!(
            client.value("SELECT what FROM t WHERE what LIKE 'C%'"),
            "CONNECTION_ID()"
        );
        let both = client
            .query("SELECT CONNECTION_ID(); SELECT 1, CONNECTION_ID() x")
            .expect("two results");
        let text: Vec<_> = both.into_iter().map(|r| rows(vec![r]).text()).collect();
        assert_eq!(text[0], [[Some(id.clone())]]);
        assert_eq!(text[1], [[Some("1".to_owned()), Some(id.clone())]]);
        assert_eq!(client.error("SELECT CONNECTION_ID(1)"), 1582);
    }
}

#[test]
fn what_is_stored_asks_when_it_runs() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("identity_stored");
    let door = stage.door();
    let mut client = door.client_in("identity_stored");
    client.run("CREATE TABLE t (a INT, id BIGINT DEFAULT CONNECTION_ID())");
    client.run("CREATE VIEW v AS SELECT CONNECTION_ID() AS id");
    client.run("CREATE PROCEDURE p() BEGIN SELECT CONNECTION_ID(); END");
    for (show, at) in [
        ("SHOW CREATE TABLE t", 1),
        ("SHOW CREATE VIEW v", 1),
        ("SHOW CREATE PROCEDURE p", 2),
    ] {
        let shown = client.rows(show)[0][at].clone().unwrap_or_default();
        assert!(shown.to_lowercase().contains("connection_id()"), "{shown}");
    }
}

#[test]
fn ids_of_the_server_are_compared_with_the_servers() {
    let Some(stage) = Stage::shared() else { return };
    stage.database("identity_trx");
    stage.everywhere("CREATE TABLE identity_trx.t (a INT) ENGINE=InnoDB");
    let door = stage.door();
    let mut client = door.login(&Login::default()).expect("logged in");
    client.run("BEGIN");
    client.run("INSERT INTO identity_trx.t VALUES (1)");
    let own = "SELECT COUNT(*) FROM information_schema.innodb_trx \
               WHERE trx_mysql_thread_id = CONNECTION_ID()";
    wait_until_listed(Duration::from_secs(20), "the own transaction", || {
        client.value(own) == "1"
    });
    client.run("DO GET_LOCK('identity', 0)");
    assert_eq!(
        client.value("SELECT IS_USED_LOCK('identity') = CONNECTION_ID()"),
        "1"
    );
}
