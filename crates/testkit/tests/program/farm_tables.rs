//! The tables about the farm in SQL: what they have, who may read them, and what they say while servers die.

use std::process::Command;
use std::time::Duration;

use serde_json::Value as Json;
use testkit::client::{Client, Reply, Statement, Value};
use testkit::{Farm, Release, wait_until};

const PATIENCE: Duration = Duration::from_secs(60);

testkit::on_both_engines! {
    statements_are_answered_in_full_sql,
    what_an_account_may_see,
}

fn column(rows: &[Vec<Option<String>>], at: usize) -> Vec<&str> {
    rows.iter()
        .map(|row| row[at].as_deref().unwrap_or("NULL"))
        .collect()
}

/// Everything that a server does with a table it does with these.
fn statements_are_answered_in_full_sql(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--groups", "2", "--replicas", "1"]) else {
        return;
    };
    let mut client = farm.client();
    let servers = client
        .rows("SELECT address, group_id, status FROM heddle.servers ORDER BY group_id, status");
    assert_eq!(column(&servers, 1), ["g1", "g1", "g2", "g2"]);
    assert_eq!(
        column(&servers, 2),
        ["PRIMARY", "SECONDARY", "PRIMARY", "SECONDARY"]
    );
    let first = servers[0][0].as_deref().expect("an address");
    same_as_the_command(&farm, &mut client);
    joined(&mut client, first);
    shown(&mut client);
    prepared(&mut client, first);
    with_tables_of_the_user(&mut client);
    refused(&mut client);
    if release == Release::Installed {
        by_the_command_line_client(&farm);
    }
}

/// One source of rows for commands, JSON and SQL.
fn same_as_the_command(farm: &Farm, client: &mut Client) {
    let command = farm.json(&["server", "list"]);
    let table = client
        .rows("SELECT server_uuid, weight, is_alive, engine FROM heddle.servers ORDER BY address");
    let mut command: Vec<&Json> = command.iter().collect();
    command.sort_by_key(|row| row["address"].as_str());
    for (row, cells) in command.iter().zip(&table) {
        assert_eq!(row["server_uuid"].as_str(), cells[0].as_deref());
        assert_eq!(
            row["weight"].as_f64(),
            cells[1].as_deref().and_then(|it| it.parse().ok())
        );
        assert_eq!(
            row["is_alive"]
                .as_bool()
                .map(|it| if it { "1" } else { "0" }),
            cells[2].as_deref()
        );
        assert_eq!(row["engine"].as_str(), cells[3].as_deref());
    }
    assert_eq!(command.len(), table.len());
    // Each column of each table is a column of its command, or a router of all.
    for table in farm::tables::TABLES {
        let words: Vec<&str> = table.command.to_vec();
        let names: Vec<&str> = table.columns.iter().map(|it| it.name).collect();
        let rows = client.rows(&format!(
            "SELECT {} FROM heddle.{}",
            names.join(", "),
            table.name
        ));
        let asked = farm.json(&words);
        let Some(one) = asked.first() else { continue };
        for column in table.columns {
            assert!(
                one.get(column.from).is_some(),
                "{}.{}: {one}",
                table.name,
                column.from
            );
        }
        assert!(table.with.is_some() || !rows.is_empty(), "{}", table.name);
    }
}

fn joined(client: &mut Client, primary: &str) {
    let counted = client.rows(
        "SELECT g.group_id, COUNT(*), SUM(s.is_alive), MAX(s.weight) FROM heddle.groups g \
         JOIN heddle.servers s USING (group_id) GROUP BY g.group_id HAVING COUNT(*) > 1 ORDER BY 1 DESC",
    );
    assert_eq!(column(&counted, 0), ["g2", "g1"]);
    assert_eq!(column(&counted, 2), ["2", "2"]);
    let named = client.value(
        "SELECT heddle.servers.address FROM heddle.servers, heddle.groups AS g \
         WHERE heddle.servers.server_uuid = g.primary_uuid AND g.group_id = 'G1'",
    );
    assert_eq!(named, primary);
    let lag =
        client.value("SELECT COUNT(*) FROM heddle.lag WHERE lag_ms >= 0 AND status = 'PRIMARY'");
    assert_eq!(lag, "2");
    // Numbers are numbers, times are times.
    let recent =
        "SELECT COUNT(*) > 0 FROM heddle.events WHERE time > UTC_TIMESTAMP() - INTERVAL 1 DAY";
    assert_eq!(client.value(recent), "1");
    let own = client.value("SELECT user FROM heddle.sessions WHERE id = CONNECTION_ID()");
    assert_eq!(own, "root");
    let setting = client.value("SELECT value FROM heddle.settings WHERE name = 'farm_tables'");
    assert_eq!(setting, "on");
    let text = "SELECT COUNT(*) > 0 FROM heddle.digests WHERE text LIKE '%heddle . servers%' OR text LIKE '%heddle.servers%'";
    assert_eq!(
        client.value(text),
        "1",
        "digests are named after what the client wrote"
    );
}

fn shown(client: &mut Client) {
    let names = client.rows("SHOW TABLES FROM heddle");
    assert!(column(&names, 0).contains(&"servers"), "{names:?}");
    assert!(column(&client.rows("SHOW DATABASES"), 0).contains(&"heddle"));
    let full = client.rows("SHOW FULL TABLES FROM heddle WHERE Table_type = 'SYSTEM VIEW' AND Tables_in_heddle LIKE 'shard%'");
    assert_eq!(
        column(&full, 0),
        ["shard_maps", "shard_sizes", "sharded_tables", "shards"]
    );
    let described = client.rows("DESCRIBE heddle.groups");
    assert_eq!(
        column(&described, 0),
        [
            "group_id",
            "description",
            "failure_detector",
            "primary_uuid"
        ]
    );
    assert_eq!(described[2][1].as_deref(), Some("tinyint(1)"));
    assert_eq!(
        client
            .rows("SHOW COLUMNS FROM lag FROM heddle LIKE 'lag\\_ms'")
            .len(),
        1
    );
    let made = client.rows("SHOW CREATE TABLE heddle.lag");
    assert!(
        made[0][1]
            .as_deref()
            .is_some_and(|text| text.contains("`lag_ms` double")),
        "{made:?}"
    );
    // As Grafana and JDBC ask.
    let listed = client.rows(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = 'heddle' AND table_name LIKE 's%' ORDER BY 1",
    );
    let listed = column(&listed, 0);
    assert!(
        listed.contains(&"servers") && listed.contains(&"sessions"),
        "{listed:?}"
    );
    let columns = client.rows(
        "SELECT column_name, data_type FROM information_schema.columns \
         WHERE table_schema = 'heddle' AND table_name = 'shards' ORDER BY ordinal_position",
    );
    assert_eq!(
        column(&columns, 1),
        ["bigint", "bigint", "varchar", "varchar", "longtext"]
    );
    client.run("USE heddle");
    assert_eq!(
        client.value("SELECT COUNT(*) FROM servers WHERE group_id = 'g1'"),
        "2"
    );
    assert!(column(&client.rows("SHOW TABLES"), 0).contains(&"sessions"));
    assert_eq!(client.rows("DESC lag").len(), 5);
}

fn prepared(client: &mut Client, primary: &str) {
    let sql = "SELECT status, weight, is_alive, lag_ms FROM heddle.servers WHERE address = ?";
    let statement = client.prepare(sql).expect("it can be prepared");
    assert_eq!((statement.columns.len(), statement.params.len()), (4, 1));
    for _ in 0..3 {
        let values = [Value::Bytes(primary.as_bytes().to_vec())];
        assert_eq!(
            executed(client, &statement, &values),
            [["PRIMARY", "1", "1", "0"].map(|it| Some(it.to_owned()))]
        );
    }
    let shown = client
        .prepare("SHOW TABLES FROM heddle")
        .expect("it can be prepared");
    assert!(executed(client, &shown, &[]).len() >= farm::tables::TABLES.len());
}

fn executed(
    client: &mut Client,
    statement: &Statement,
    values: &[Value],
) -> Vec<Vec<Option<String>>> {
    match &client.execute(statement, values).expect("it runs")[..] {
        [Reply::Rows(rows)] => rows.text(),
        other => panic!("no rows: {other:?}"),
    }
}

fn with_tables_of_the_user(client: &mut Client) {
    client.run("CREATE DATABASE app");
    client.run("CREATE TABLE app.owners (group_id VARCHAR(64) PRIMARY KEY, team VARCHAR(64)) CHARACTER SET utf8mb4");
    client.run("INSERT INTO app.owners VALUES ('g1', 'shop'), ('g2', 'mail')");
    let teams = client.rows(
        "SELECT o.team, s.address FROM app.owners o JOIN heddle.servers s ON s.group_id = o.group_id \
         WHERE s.status = 'PRIMARY' ORDER BY o.team",
    );
    assert_eq!(column(&teams, 0), ["mail", "shop"]);
    client.run("CREATE TABLE app.snapshot AS SELECT * FROM heddle.servers");
    client.run("INSERT INTO app.snapshot SELECT * FROM heddle.servers");
    assert_eq!(client.value("SELECT COUNT(*) FROM app.snapshot"), "8");
    client.run("BEGIN");
    client.run("UPDATE app.owners SET team = 'post' WHERE group_id = 'g2'");
    assert_eq!(client.value("SELECT COUNT(*) FROM heddle.groups JOIN app.owners USING (group_id) WHERE team = 'post'"), "1");
    client.run("ROLLBACK");
}

fn refused(client: &mut Client) {
    assert_eq!(client.error("DELETE FROM heddle.servers"), 1036);
    assert_eq!(client.error("INSERT INTO heddle.events VALUES (1)"), 1036);
    assert_eq!(client.error("SELECT nothing FROM heddle.servers"), 1054);
    assert_eq!(client.error("SELECT * FROM heddle.nothing"), 1146);
    assert_eq!(
        client.error("CREATE VIEW app.v AS SELECT * FROM heddle.servers"),
        1146
    );
    // Heddle's own tables on the servers stay what they are.
    client.rows("SELECT * FROM heddle.kv");
}

fn by_the_command_line_client(farm: &Farm) {
    let (host, port) = (farm.sql.ip().to_string(), farm.sql.port().to_string());
    let asked = |database: &str, sql: &str| {
        let output = Command::new("mysql")
            .args([
                "--no-defaults",
                "-u",
                "root",
                "-h",
                &host,
                "-P",
                &port,
                "-B",
                "-e",
                sql,
                database,
            ])
            .output()
            .expect("the client is there");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{sql}: {said}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert_eq!(
        asked("heddle", "SELECT group_id FROM `groups` ORDER BY 1"),
        "group_id\ng1\ng2\n"
    );
    assert!(asked("heddle", "show tables").contains("\nservers\n"));
    assert!(asked("mysql", "desc heddle.servers").contains("\nlag_ms\tdouble\t"));
}

/// PROCESS shows the farm; who has less sees his own sessions.
fn what_an_account_may_see(release: Release) {
    let flags = ["--replicas", "1", "--set", "accounts_interval_ms=100"];
    let Some(farm) = Farm::start_on(release, &flags) else {
        return;
    };
    let mut root = farm.client();
    root.run("CREATE DATABASE app");
    for (user, rights) in [("watcher", "PROCESS ON *.*"), ("plain", "SELECT ON app.*")] {
        root.run(&format!("CREATE USER {user} IDENTIFIED BY 'pw'"));
        root.run(&format!("GRANT {rights} TO {user}"));
    }
    let connect = |user: &str| {
        let mut connected = None;
        wait_until(PATIENCE, "the account is known", || {
            connected = Client::connect(farm.sql, user, "pw").ok();
            connected.is_some()
        });
        connected.expect("it was connected")
    };
    let (mut watcher, mut plain) = (connect("watcher"), connect("plain"));
    assert_eq!(watcher.value("SELECT COUNT(*) FROM heddle.servers"), "2");
    let users = watcher.rows("SELECT DISTINCT user FROM heddle.sessions ORDER BY 1");
    assert!(
        column(&users, 0).contains(&"plain") && column(&users, 0).contains(&"root"),
        "{users:?}"
    );
    assert_eq!(watcher.value("SELECT COUNT(text) FROM heddle.digests"), "0");
    assert!(root.value("SELECT COUNT(text) FROM heddle.digests") != "0");
    assert_eq!(watcher.error("SELECT * FROM heddle.settings"), 1227);
    assert!(column(&watcher.rows("SHOW TABLES FROM heddle"), 0).contains(&"servers"));
    assert_eq!(
        column(&plain.rows("SELECT user, command FROM heddle.sessions"), 0),
        ["plain"]
    );
    for table in ["servers", "digests", "events", "settings", "findings"] {
        assert_eq!(
            plain.error(&format!("SELECT * FROM heddle.{table}")),
            1227,
            "{table}"
        );
    }
    let mixed = "SELECT 1 FROM heddle.sessions, heddle.servers";
    assert_eq!(plain.error(mixed), 1227);
    assert!(
        plain.query("SHOW TABLES FROM heddle").is_err(),
        "as the servers say it"
    );
    root.run("SET GLOBAL max_connections = 200");
    let off = farm.command(&["config", "set", "--setting=farm_tables=off"]);
    assert!(off.status.success(), "{off:?}");
    assert_eq!(root.error("SELECT * FROM heddle.servers"), 1146);
}

/// The night in which they are needed most.
#[test]
fn the_tables_answer_while_servers_die() {
    let flags = ["--replicas", "2", "--set", "failover_wait_ms=20000"];
    let Some(farm) = Farm::start(&flags) else {
        return;
    };
    let mut client = farm.client();
    // A replica that was started just now may lack what it once acknowledged: then the old primary is waited for.
    for name in ["g1-2", "g1-3"] {
        let mut replica = farm.member(name).client();
        wait_until(PATIENCE, "a replica that runs for a while", || {
            let uptime = replica.rows("SHOW GLOBAL STATUS LIKE 'Uptime'").remove(0);
            uptime[1]
                .as_ref()
                .is_some_and(|it| it.parse::<u32>().is_ok_and(|it| it > 3))
        });
    }
    let primary = farm.primary("g1");
    primary.signal("KILL");
    let events =
        "SELECT COUNT(*) FROM heddle.events WHERE event LIKE '%promot%' OR event LIKE '%primary%'";
    wait_until(PATIENCE, "a failover that the tables tell of", || {
        let servers = client.rows(
            "SELECT s.address FROM heddle.servers s JOIN heddle.groups g ON g.primary_uuid = s.server_uuid",
        );
        servers.len() == 1
            && servers[0][0].as_deref() != Some(&*format!("127.0.0.1:{}", primary.port))
            && client.value(events) != "0"
    });
}

/// Without a server the simplest statements say what they said with one.
#[test]
fn the_tables_answer_when_no_server_is_left() {
    let Some(farm) = Farm::start(&["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    let same = [
        "SELECT address, group_id, weight FROM heddle.servers WHERE status = 'primary' AND weight >= 1",
        "SELECT name, value FROM heddle.settings WHERE name LIKE 'FARM_%' ORDER BY name DESC LIMIT 2 OFFSET 0",
        "SELECT COUNT(*) FROM heddle.settings WHERE source IS NOT NULL",
        "SELECT command AS c FROM heddle.commands ORDER BY command LIMIT 3",
        "SHOW COLUMNS FROM heddle.lag",
    ];
    let before: Vec<_> = same.iter().map(|sql| client.rows(sql)).collect();
    let server = farm.primary("g1");
    server.signal("STOP");
    wait_until(PATIENCE, "the server counts as dead", || {
        farm.json(&["server", "list"])[0]["is_alive"] == false
    });
    let after: Vec<_> = same.iter().map(|sql| client.rows(sql)).collect();
    assert_eq!(before, after);
    let dead = client.value("SELECT is_alive FROM heddle.servers");
    assert_eq!(dead, "0");
    assert!(column(&client.rows("SHOW TABLES FROM heddle"), 0).contains(&"servers"));
    let many = "SELECT status, COUNT(*) FROM heddle.servers GROUP BY status";
    let refused = client.query(many).expect_err("it needs a server");
    assert!(
        refused.to_string().contains("no server of the farm"),
        "{refused}"
    );
    server.signal("CONT");
    wait_until(PATIENCE, "the server is back", || {
        client.query(many).is_ok()
    });
}
