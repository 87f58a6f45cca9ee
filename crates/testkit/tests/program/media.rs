//! A data set on read-only storage: served with its weight, never written to, never the primary.

use testkit::{Farm, Release, Server};

testkit::on_both_engines!(a_data_set_on_read_only_storage_is_served);

/// As on a disc: no binary log, no events, no write of the engine.
const ON_DISC: [(&str, &str); 4] = [
    ("read_only", "ON"),
    ("innodb_read_only", "ON"),
    ("event_scheduler", "OFF"),
    ("skip_log_bin", ""),
];

fn a_data_set_on_read_only_storage_is_served(release: Release) {
    let (Some(first), Some(mut disc), Some(mut copy)) = (
        Server::start(release),
        Server::start(release),
        Server::start(release),
    ) else {
        return;
    };
    for (server, name) in [(&disc, "disc"), (&copy, "copy")] {
        let mut root = server.client();
        root.run("CREATE DATABASE archive");
        root.run("CREATE TABLE archive.t (id INT PRIMARY KEY, text VARCHAR(20))");
        root.run("INSERT INTO archive.t VALUES (1, 'one'), (2, 'two')");
        root.run("CREATE TABLE archive.who (name VARCHAR(20) PRIMARY KEY)");
        root.run(&format!("INSERT INTO archive.who VALUES ('{name}')"));
    }
    disc.stop();
    disc.restart_with(&ON_DISC);
    let before = contents(&disc);

    let farm = Farm::serve(&["accounts_interval_ms=100"]);
    for words in [
        &["group", "create", "a"][..],
        &["group", "add", "a", &first.address().to_string()],
        &["group", "create", "disc", "--kind=media"],
    ] {
        farm.json(words);
    }
    let address = disc.address().to_string();
    let refused = farm.command(&["group", "add", "disc", &copy.address().to_string()]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && said.contains("read_only = ON"),
        "{said}"
    );
    farm.json(&["group", "add", "disc", &address]);
    copy.stop();
    copy.restart_with(&ON_DISC);
    farm.json(&["group", "add", "disc", &copy.address().to_string()]);
    farm.json(&["server", "set_weight", &address, "3"]);
    farm.json(&["sharding", "assign_database", "archive", "disc"]);
    served(&farm);
    listed(&farm, &address);
    assert_eq!(before, contents(&disc), "nothing was written there");
    farm.json(&["group", "remove", "disc", &address]);
    assert_eq!(farm.client().value("SELECT COUNT(*) FROM archive.t"), "2");
}

fn served(farm: &Farm) {
    let mut client = farm.client();
    for level in ["eventual", "session", "client", "strong"] {
        client.run(&format!("SET heddle_consistency = '{level}'"));
        let text = client.value("SELECT text FROM archive.t WHERE id = 2");
        assert_eq!(text, "two", "{level}");
    }
    let mut asked = [0; 2];
    for _ in 0..80 {
        let name = client.value("SELECT name FROM archive.who");
        asked[usize::from(name == "copy")] += 1;
    }
    assert!(
        asked.iter().all(|count| *count > 0),
        "both serve: {asked:?}"
    );
    assert!(
        client
            .query("INSERT INTO archive.t VALUES (3, 'three')")
            .is_err()
    );
    client.run("CREATE DATABASE app");
    client.run("CREATE TABLE app.t (id INT PRIMARY KEY)");
    client.run("INSERT INTO app.t VALUES (1)");
}

fn listed(farm: &Farm, address: &str) {
    let mut client = farm.client();
    let row = client.rows(&format!(
        "SELECT group_id, status, promotable, is_alive, weight FROM heddle.servers WHERE address = '{address}'"
    ));
    let row: Vec<&str> = row[0]
        .iter()
        .map(|cell| cell.as_deref().unwrap_or("NULL"))
        .collect();
    assert_eq!(row, ["disc", "SECONDARY", "0", "1", "3"]);
    let health = farm.json(&["group", "health", "disc"]);
    assert!(
        health
            .iter()
            .all(|it| it["is_not_configured"] == false && it["is_alive"] == true),
        "{health:?}"
    );
    let promoted = farm.command(&["group", "promote", "disc"]);
    let said = String::from_utf8_lossy(&promoted.stderr).into_owned();
    assert!(
        !promoted.status.success() && said.contains("read-only storage"),
        "{said}"
    );
    let found = farm.json(&["doctor", "disc"]);
    let grave: Vec<_> = found
        .iter()
        .filter(|row| row["severity"] == "error")
        .collect();
    assert!(grave.is_empty(), "{grave:?}");
}

/// What a write of Heddle's would change.
fn contents(server: &Server) -> [Vec<Vec<Option<String>>>; 3] {
    let mut root = server.client();
    [
        "SHOW DATABASES",
        "SELECT user, host FROM mysql.user ORDER BY 1, 2",
        "SHOW VARIABLES WHERE Variable_name IN ('read_only', 'init_slave', 'init_replica')",
    ]
    .map(|sql| root.rows(sql))
}
