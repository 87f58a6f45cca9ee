//! `group.import_topology` by XML-RPC: a replication setup that runs becomes a group, and connectors find it.

use std::net::SocketAddr;
use std::time::Duration;

use door_fabric::Value;
use door_fabric::xml::call;
use testkit::{Farm, Release, Server, wait_until};

use crate::fabric::{PYTHON, ask, error, rows};

const SOON: Duration = Duration::from_secs(60);

/// A primary and a replica that an operator set up by hand.
fn setup() -> Option<[Server; 2]> {
    let [primary, replica] = [(); 2].map(|()| Server::start(Release::Installed));
    let (primary, replica) = (primary?, replica?);
    let mut client = replica.client();
    client.run(&format!(
        "CHANGE MASTER TO MASTER_HOST='{}', MASTER_PORT={}, MASTER_USER='root', MASTER_USE_GTID=slave_pos",
        primary.address().ip(),
        primary.address().port()
    ));
    client.run("START SLAVE");
    primary.client().run("CREATE DATABASE d");
    wait_until(SOON, "the database", || {
        !client.rows("SHOW DATABASES LIKE 'd'").is_empty()
    });
    Some([primary, replica])
}

fn python(door: SocketAddr, method: &str, params: &[Value]) -> String {
    let heard = ask(door, PYTHON, &call(method, params));
    assert_eq!(heard.status, 200, "{method}: {}", heard.body);
    heard.body
}

/// The findings of these kinds: server and text.
fn of_kind(rows: &[Vec<String>], kind: &str) -> Vec<(String, String)> {
    let rows = rows.iter().filter(|row| row[1] == kind);
    rows.map(|row| (row[0].clone(), row[2].clone())).collect()
}

#[test]
fn a_running_setup_becomes_a_group_by_xml_rpc() {
    let Some([primary, replica]) = setup() else {
        return;
    };
    let door = SocketAddr::from(([127, 0, 0, 1], testkit::ports::free_port()));
    let _farm = Farm::serve(&[&format!("fabric_listen={door}"), "fabric_open=admin"]);
    let [first, second] = [&primary, &replica].map(|it| it.address().to_string());
    let method = "group.import_topology";
    // Its arguments by their places; nothing is changed before somebody says so.
    let shown = python(door, method, &[first.as_str().into()]);
    assert_eq!(error(&shown), "", "{shown}");
    let errors = of_kind(&rows(&shown), "error");
    assert!(
        errors.len() == 1 && errors[0].1.contains(&second),
        "the replica was not named: {shown}"
    );
    // What would be missing after a failover is named with its statement.
    let warnings = of_kind(&rows(&shown), "warning");
    let lacks = |text: &str| text.contains("heddle_replication");
    assert!(warnings.iter().any(|(_, text)| lacks(text)), "{shown}");
    let mut client = primary.client();
    client.run("CREATE USER heddle_replication@'%'");
    client.run("GRANT REPLICATION SLAVE ON *.* TO heddle_replication@'%'");
    let ask_for = |apply: bool| {
        let named = vec![
            ("servers".to_owned(), second.as_str().into()),
            ("apply".to_owned(), apply.into()),
        ];
        let params = [first.as_str().into(), "shop".into(), Value::Struct(named)];
        let answer = python(door, method, &params);
        assert_eq!(error(&answer), "", "{answer}");
        rows(&answer)
    };
    let shown = ask_for(false);
    assert!(of_kind(&shown, "error").is_empty(), "{shown:?}");
    assert!(!of_kind(&shown, "change").is_empty(), "{shown:?}");
    assert_eq!(replica.client().value("SELECT @@global.read_only"), "0");
    assert!(rows(&python(door, "group.lookup_groups", &[])).is_empty());
    let done = ask_for(true);
    assert!(of_kind(&done, "change").is_empty(), "{done:?}");
    assert!(!of_kind(&done, "done").is_empty(), "{done:?}");
    works(door, &primary, &replica);
    let nobody = python(door, method, &["127.0.0.1:1".into()]);
    assert!(error(&nobody).starts_with("GroupError: "), "{nobody}");
}

/// What connectors ask shows both servers in their places, and the group changes its primary.
fn works(door: SocketAddr, primary: &Server, replica: &Server) {
    let second = replica.address().to_string();
    wait_until(SOON, "the group in dump.servers", || {
        let servers = rows(&python(door, "dump.servers", &[0i64.into(), "shop".into()]));
        let mut found: Vec<_> = servers
            .iter()
            .map(|row| (row[3].clone(), row[4].clone(), row[5].clone()))
            .collect();
        found.sort();
        let mut wanted = [
            (
                primary.address().port().to_string(),
                "3".to_owned(),
                "3".to_owned(),
            ),
            (
                replica.address().port().to_string(),
                "1".to_owned(),
                "2".to_owned(),
            ),
        ];
        wanted.sort();
        found == wanted
    });
    assert_eq!(replica.client().value("SELECT @@global.read_only"), "1");
    let promoted = python(
        door,
        "group.promote",
        &["shop".into(), second.as_str().into()],
    );
    assert_eq!(error(&promoted), "", "{promoted}");
    // Its commits wait for the other one, which follows it by now.
    replica.client().run("CREATE TABLE d.t (a INT)");
    wait_until(SOON, "the table", || {
        primary.client().rows("SHOW TABLES IN d LIKE 't'").len() == 1
    });
}
