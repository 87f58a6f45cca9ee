//! SHOW PROCESSLIST and COM_PROCESS_INFO: the clients of Heddle, as a server would list its own.

use std::time::Duration;

use mysql_wire::command::Command;
use testkit::client::{Login, Reply, Rows};
use testkit::staging::two_users;
use testkit::{Client, Farm, Release, Stage, wait_until, wait_until_listed};

const SOON: Duration = Duration::from_secs(20);

fn stages() -> Vec<Stage> {
    [Release::Installed, Release::MySql80]
        .into_iter()
        .filter_map(Stage::start_with)
        .collect()
}

fn rows(reply: Vec<Reply>) -> Rows {
    match reply.into_iter().next() {
        Some(Reply::Rows(rows)) => rows,
        other => panic!("expected rows, got {other:?}"),
    }
}

fn list(client: &mut Client) -> Rows {
    rows(client.query("SHOW FULL PROCESSLIST").expect("a list"))
}

fn process_info(client: &mut Client) -> Rows {
    client
        .send_command(Command::ProcessInfo, b"")
        .expect("sent");
    rows(vec![client.read_result(false).expect("a list")])
}

fn row_of(rows: &Rows, id: u32) -> Option<Vec<Option<String>>> {
    let id = Some(id.to_string());
    rows.text().into_iter().find(|row| row[0] == id)
}

/// Waits until the session's row shows this text.
fn wait_for(client: &mut Client, id: u32, info: &str) -> Vec<Option<String>> {
    let mut found = None;
    wait_until(SOON, "the statement is in the list", || {
        found = row_of(&list(client), id);
        found
            .as_ref()
            .is_some_and(|row| row[7].as_deref() == Some(info))
    });
    found.expect("the row")
}

#[test]
fn the_list_is_of_clients_and_looks_like_the_servers() {
    for stage in stages() {
        stage.database("plist");
        let door = stage.door_with(|tuning| tuning.threads = 2);
        let mut idle = door.client_in("plist");
        idle.ping().expect("pong");
        let mut client = door.client();
        let own = rows(
            stage
                .primary
                .client()
                .query("SHOW FULL PROCESSLIST")
                .expect("the server's"),
        );
        let ours = list(&mut client);
        assert_eq!(ours.columns, own.columns);
        assert_eq!(ours.rows.len(), 2, "{:?}", ours.text());
        let idle_row = row_of(&ours, idle.connection_id).expect("a row");
        assert_eq!(idle_row[1].as_deref(), Some("root"));
        assert!(
            idle_row[2]
                .as_ref()
                .is_some_and(|host| host.starts_with("127.0.0.1:"))
        );
        assert_eq!(idle_row[3].as_deref(), Some("plist"));
        assert_eq!(idle_row[4].as_deref(), Some("Sleep"));
        assert_eq!(idle_row[7], None);
        let own_row = row_of(&ours, client.connection_id).expect("a row");
        assert_eq!(own_row[4].as_deref(), Some("Query"));
        assert_eq!(own_row[7].as_deref(), Some("SHOW FULL PROCESSLIST"));
        // The other ways to ask.
        let info = process_info(&mut client);
        let direct = process_info(&mut stage.primary.client());
        assert_eq!(info.columns, direct.columns);
        assert_eq!(info.rows.len(), 2);
        let statement = client.prepare("SHOW FULL PROCESSLIST").expect("prepared");
        let prepared = rows(client.execute(&statement, &[]).expect("executed"));
        assert_eq!(prepared.text()[0][..4], ours.text()[0][..4]);
        assert_eq!(prepared.rows.len(), 2);
        // A transaction's connection answers too, and goes on with it.
        client.run("BEGIN");
        client.run("INSERT INTO stage.who VALUES ('me')");
        assert_eq!(list(&mut client).rows.len(), 2);
        assert_eq!(client.value("SELECT COUNT(*) FROM stage.who"), "2");
        client.run("ROLLBACK");
    }
}

#[test]
fn what_runs_is_shown_and_can_be_ended_by_its_id() {
    for stage in stages() {
        let door = stage.door_with(|tuning| tuning.threads = 2);
        let mut client = door.client();
        // On the primary, and on a replica.
        for text in ["SELECT SLEEP(60) + 0 * @@autocommit", "SELECT SLEEP(59)"] {
            let mut sleeper = door.client();
            sleeper
                .send_command(Command::Query, text.as_bytes())
                .expect("sent");
            let row = wait_for(&mut client, sleeper.connection_id, text);
            assert_eq!(row[4].as_deref(), Some("Query"));
            assert_eq!(row[6].as_deref(), Some("User sleep"));
            let id = row[0].clone().expect("an id");
            client.run(&format!("KILL {id}"));
            assert!(sleeper.is_closed_within(SOON));
        }
    }
}

#[test]
fn without_process_only_the_users_own() {
    for stage in stages() {
        let door = two_users(&stage, ["plist_a", "plist_b"], "PROCESS");
        let login = |user| {
            let login = Login {
                user,
                password: "secret",
                ..Login::default()
            };
            door.login(&login).expect("logged in")
        };
        let _root = door.client();
        let (mut one, mut two) = (login("plist_a"), login("plist_b"));
        let _three = login("plist_a");
        assert_eq!(list(&mut one).rows.len(), 2);
        assert_eq!(list(&mut two).rows.len(), 4);
    }
}

/// Waits until `session list` shows these columns of a session.
fn wait_listed(farm: &Farm, id: u32, wanted: &[(&str, &str)]) {
    let mut last = Vec::new();
    wait_until(SOON, &format!("session {id} with {wanted:?}"), || {
        last = farm.json(&["session", "list"]);
        let row = last.iter().find(|row| row["id"] == id);
        row.is_some_and(|row| wanted.iter().all(|(column, value)| row[*column] == *value))
    });
}

#[test]
fn operators_see_sessions_and_what_pins_them() {
    let Some(farm) = Farm::start(&["--replicas", "1", "--threads", "2"]) else {
        return;
    };
    let mut client = farm.client();
    let id = client.connection_id;
    wait_listed(
        &farm,
        id,
        &[("command", "Sleep"), ("state", "idle"), ("pins", "")],
    );
    client.run("CREATE DATABASE listed");
    client.use_database("listed").expect("it is there");
    client.run("BEGIN");
    let server = farm.members()[0].port;
    let server = format!("127.0.0.1:{server}");
    let holds = ("state", "idle, keeps a server connection");
    wait_listed(
        &farm,
        id,
        &[
            holds,
            ("pins", "transaction"),
            ("database", "listed"),
            ("server", &server),
        ],
    );
    client.run("COMMIT");
    client.run("CREATE TEMPORARY TABLE t (a INT)");
    client.run("DO GET_LOCK('listed', 0)");
    wait_listed(
        &farm,
        id,
        &[holds, ("pins", "temporary tables, user locks")],
    );
    let mut other = farm.client();
    wait_until(SOON, "the gauge", || {
        let rows = other.rows("HEDDLE STATUS LIKE 'sessions_pinned_now'");
        rows[0][1].as_deref() == Some("1")
    });
    client
        .send_command(Command::Query, b"SELECT SLEEP(60) + 0 * @@autocommit")
        .expect("sent");
    wait_listed(&farm, id, &[("command", "COM_QUERY"), ("state", "running")]);
    let list = farm.json(&["session", "list"]);
    let row = list.iter().find(|row| row["id"] == id).expect("listed");
    assert_eq!(row["digest"].as_str().map(str::len), Some(32), "{row}");
    other.run(&format!("KILL {id}"));
    assert!(client.is_closed_within(SOON));
}

/// Rows of which only the clients' columns count.
fn clients(reply: Vec<Reply>) -> Vec<Vec<Option<String>>> {
    let mut rows = rows(reply).text();
    rows.sort();
    rows
}

#[test]
fn the_list_is_a_table_of_queries_too() {
    for stage in stages() {
        stage.database("plist_table");
        let door = stage.door_with(|tuning| tuning.threads = 2);
        let mut straight = stage.primary.client();
        let _idle = door.client_in("plist_table");
        let mut client = door.client();
        let own = client.connection_id.to_string();
        let all = "SELECT * FROM information_schema.PROCESSLIST";
        let ours = rows(client.query(all).expect("a table"));
        let servers = rows(straight.query(all).expect("a table"));
        let looks = |rows: &Rows| -> Vec<(String, u8, u16)> {
            let columns = rows.columns.iter();
            columns
                .map(|c| (c.name.clone(), c.kind, c.collation))
                .collect()
        };
        assert_eq!(looks(&ours), looks(&servers));
        assert_eq!(ours.rows.len(), 2, "{:?}", ours.text());
        let mine = row_of(&ours, client.connection_id).expect("a row");
        assert_eq!(mine[1].as_deref(), Some("root"));
        assert_eq!(
            (mine[4].as_deref(), mine[7].as_deref()),
            (Some("Query"), Some(all))
        );
        // As drivers and people ask.
        let row = |id: &str| vec![Some(id.to_owned())];
        for ask in [
            "SELECT ID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()",
            "select processlist.id from Information_Schema.`Processlist` where id=connection_id()",
            "SELECT p.id FROM information_schema.processlist p WHERE p.info LIKE '%p.info%'",
            "SELECT id FROM information_schema.processlist WHERE command = 'Query' GROUP BY id",
        ] {
            assert_eq!(clients(client.query(ask).expect(ask)), [row(&own)], "{ask}");
        }
        let both = "SELECT 1; SELECT COUNT(*) FROM information_schema.processlist";
        let replies = client.query(both).expect("two results");
        assert_eq!(
            rows(replies.into_iter().skip(1).collect()).text(),
            [row("2")]
        );
        client
            .use_database("information_schema")
            .expect("it is there");
        assert_eq!(client.value("SELECT COUNT(*) FROM PROCESSLIST"), "2");
        client.use_database("plist_table").expect("it is there");
        client.run("CREATE TEMPORARY TABLE kept AS SELECT id FROM information_schema.processlist");
        assert_eq!(client.value("SELECT COUNT(*) FROM kept"), "2");
        // What is stored has the servers' own, and what is joined with their ids.
        client.run("CREATE VIEW v AS SELECT id FROM information_schema.processlist");
        let trx = "SELECT COUNT(*) FROM information_schema.processlist p \
                   JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id";
        client.run("CREATE TABLE t (a INT) ENGINE=InnoDB");
        client.run("BEGIN");
        client.run("INSERT INTO t VALUES (1)");
        wait_until_listed(SOON, "the own transaction", || client.value(trx) == "1");
        client.run("ROLLBACK");
    }
}

#[test]
fn a_prepared_list_is_that_of_each_execution() {
    for stage in stages() {
        stage.database("plist_now");
        let door = stage.door_with(|tuning| tuning.threads = 2);
        let mut client = door.client();
        let ask = "SELECT id FROM information_schema.processlist WHERE db = ?";
        let statement = client.prepare(ask).expect("prepared");
        let mut found = || {
            let reply = client.execute(&statement, &["plist_now".into()]);
            clients(reply.expect("run"))
        };
        assert!(found().is_empty());
        let idle = door.client_in("plist_now");
        let id = idle.connection_id.to_string();
        for _ in 0..2 {
            assert_eq!(found(), [[Some(id.clone())]]);
        }
        idle.quit();
        wait_until(SOON, "the session has ended", || found().is_empty());
    }
}
