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
    let says = |text: &str| errors.iter().any(|(_, finding)| finding.contains(text));
    assert!(says(&second), "the replica was not named: {shown}");
    // What would be missing after a failover is named, too.
    assert!(says("heddle_replication"), "{shown}");
    // On this server alone.
    may_replicate(&primary);
    let answer = |apply: bool, untried: bool| {
        let named = vec![
            ("servers".to_owned(), second.as_str().into()),
            ("apply".to_owned(), apply.into()),
            ("untried_replication".to_owned(), untried.into()),
        ];
        let params = [first.as_str().into(), "shop".into(), Value::Struct(named)];
        python(door, method, &params)
    };
    let ask_for = |apply: bool| {
        let answer = answer(apply, true);
        assert_eq!(error(&answer), "", "{answer}");
        rows(&answer)
    };
    // Nobody could follow the replica once it is the primary: that is for the operator to say.
    let refused = answer(true, false);
    let refused = error(&refused);
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(refused.contains("untried_replication"), "{refused}");
    let shown = ask_for(false);
    assert!(of_kind(&shown, "error").is_empty(), "{shown:?}");
    let warnings = of_kind(&shown, "warning");
    let lacks = |(server, text): &(String, String)| {
        *server == second && text.contains("heddle_replication")
    };
    assert!(warnings.iter().any(lacks), "{shown:?}");
    assert!(!of_kind(&shown, "change").is_empty(), "{shown:?}");
    assert_eq!(replica.client().value("SELECT @@global.read_only"), "0");
    assert!(rows(&python(door, "group.lookup_groups", &[])).is_empty());
    let done = ask_for(true);
    assert!(of_kind(&done, "change").is_empty(), "{done:?}");
    assert!(!of_kind(&done, "done").is_empty(), "{done:?}");
    may_replicate(&replica);
    works(door, &primary, &replica);
    let nobody = python(door, method, &["127.0.0.1:1".into()]);
    assert!(error(&nobody).starts_with("GroupError: "), "{nobody}");
}

/// Makes the account by which others follow this server, and on no other server.
fn may_replicate(server: &Server) {
    let mut client = server.client();
    for text in [
        "SET sql_log_bin = 0",
        "CREATE USER heddle_replication@'%'",
        "GRANT REPLICATION SLAVE ON *.* TO heddle_replication@'%'",
    ] {
        client.run(text);
    }
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
