//! Writes through the door carry a mark into the binlog, and nobody else sees it.

use engine::binlog::{Written, written};
use testkit::admin::with_link;
use testkit::client::Value;
use testkit::{Release, Server, Stage};

/// All transactions of the primary's present binlog files.
fn log(server: &Server) -> Vec<Written> {
    with_link(server.address(), async |link| {
        written(link.login(), None, 20_000).await.expect("a log")
    })
}

/// The transactions that touched this table: the marks, and whether they all have one.
fn marks_of(server: &Server, table: &str) -> Vec<Option<String>> {
    let all = log(server);
    let touched = all
        .iter()
        .filter(|one| one.tables.iter().any(|t| t.table == table));
    touched.map(|one| one.tag.clone()).collect()
}

fn writes_are_marked(release: Release) {
    let Some(stage) = Stage::start_with(release) else {
        return;
    };
    let door = stage.door();
    let mut client = door.client();
    client.run("CREATE TABLE stage.marked (a INT PRIMARY KEY AUTO_INCREMENT, b TEXT)");
    client.run("INSERT INTO stage.marked (b) VALUES ('text')");
    client.run("UPDATE stage.marked SET b = 'more'");
    client.run("/*ms=master*/ REPLACE INTO stage.marked VALUES (7, 'hint')");
    let insert = client
        .prepare("INSERT INTO stage.marked (b) VALUES (?)")
        .expect("right");
    for text in ["one", "two"] {
        let value = Value::Bytes(text.as_bytes().to_vec());
        client.execute(&insert, &[value]).expect("it runs");
    }
    client.run("BEGIN");
    client.run("DELETE FROM stage.marked WHERE a = 7");
    client.run("COMMIT");
    // Commands that are sent together.
    for text in ["INSERT INTO stage.marked (b) VALUES ('t1')", "SELECT 1"] {
        let command = mysql_wire::command::Command::Query;
        client.send_command(command, text.as_bytes()).expect("sent");
    }
    client.sequence = 1;
    client.read_results(false).expect("inserted");
    client.sequence = 1;
    client.read_results(false).expect("a row");
    let marks = marks_of(&stage.primary, "marked");
    assert_eq!(marks.len(), 7, "{marks:?}");
    assert!(marks.iter().all(Option::is_some), "{marks:?}");
    // One connection ran them all.
    assert!(marks.windows(2).all(|two| two[0] == two[1]), "{marks:?}");
    let mut other = door.client();
    other.run("BEGIN");
    other.run("INSERT INTO stage.marked (b) VALUES ('other')");
    let own = client.query("INSERT INTO stage.marked (b) VALUES ('own')");
    own.expect("it runs");
    other.run("COMMIT");
    let marks = marks_of(&stage.primary, "marked");
    assert_ne!(marks[7], marks[8], "connections have marks of their own");
}

#[test]
fn writes_are_marked_on_mariadb() {
    writes_are_marked(Release::Installed);
}

#[test]
fn writes_are_marked_on_mysql() {
    writes_are_marked(Release::MySql80);
}

#[test]
fn errors_do_not_show_marks() {
    let Some(stage) = Stage::shared() else {
        return;
    };
    let door = stage.door();
    let (mut direct, mut through) = (stage.primary.client(), door.client());
    for text in [
        "INSERT INTO stage.who VALUES ('x' oops",
        "UPDATE",
        "DELETE stage.who WHERE oops",
        "INSERT INTO stage.nowhere VALUES (1)",
        "INSERT INTO stage.who (oops) VALUES (1)",
    ] {
        let said = |result: Result<_, testkit::client::Failure>| {
            format!("{:?}", result.map(|_: Vec<_>| ()).expect_err(text))
        };
        assert_eq!(
            said(direct.query(text)),
            said(through.query(text)),
            "{text}"
        );
    }
}

#[test]
fn marks_can_be_switched_off() {
    let Some(stage) = Stage::start() else {
        return;
    };
    let door = stage.door_with(|tuning| tuning.settings.marks = false);
    let mut client = door.client();
    client.run("CREATE TABLE stage.bare (a INT)");
    client.run("INSERT INTO stage.bare VALUES (1)");
    assert_eq!(marks_of(&stage.primary, "bare"), [None]);
}
