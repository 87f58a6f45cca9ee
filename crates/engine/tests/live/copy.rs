//! Copies between real servers: everything arrives as it was, and replication goes on from there.

use std::sync::atomic::Ordering::Relaxed;

use crate::root::{MS, link, login};
use engine::copy::{self, Progress};
use farm::Engine;
use testkit::{Client, Release, Server, wait_until};

const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// What both engines have.
const BOTH: &[&str] = &[
    "CREATE DATABASE plain",
    "CREATE DATABASE `odd ``name` CHARACTER SET latin1",
    "CREATE DATABASE programs",
    "CREATE TABLE plain.numbers (id BIGINT UNSIGNED AUTO_INCREMENT PRIMARY KEY, f FLOAT, d DOUBLE, \
     n DECIMAL(30,10), b BIT(12), y YEAR, t TIME(6), dt DATETIME(3), ts TIMESTAMP(6) NULL, \
     twice INT AS (y * 2) STORED) AUTO_INCREMENT=1000",
    "INSERT INTO plain.numbers (id, f, d, n, b, y, t, dt, ts) VALUES \
     (1, 0.1, 0.1, 12345678901234567890.0123456789, b'101', 2024, '-838:59:59', \
      '1000-01-01 00:00:00.001', '2038-01-19 03:14:07.499999'), \
     (2, 16777216.1, 1.7976931348623157e308, -1, b'111111111111', 1901, '00:00:00.000001', \
      '9999-12-31 23:59:59.999', NULL), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
     (4, 3.4028234e38, 5e-324, 0, 0, 0, 0, '2020-02-02', '1970-01-01 00:00:01')",
    "INSERT INTO plain.numbers (id, f) SELECT 0, 1/3 FROM information_schema.COLLATIONS LIMIT 90",
    "DELETE FROM plain.numbers WHERE id > 1050",
    "CREATE TABLE plain.texts (id INT PRIMARY KEY, a VARCHAR(50) CHARACTER SET latin1, \
     u TEXT CHARACTER SET utf8mb4, s VARCHAR(20) CHARACTER SET utf16, c CHAR(5) CHARACTER SET sjis, \
     e ENUM('x','ü','') CHARACTER SET latin1, m SET('a','b','ß') CHARACTER SET latin1, \
     k VARBINARY(300), big LONGBLOB, j JSON, p POINT) CHARACTER SET utf8mb4",
    "INSERT INTO plain.texts VALUES (1, 'naïve \\'quoted\\\\', '𝄞 music', 'ünïcode', 'ソ', 'ü', 'a,ß', \
     x'00FF27225C0A1A', REPEAT(x'00275C80FF', 700000), '{\"a\": [1, \"ü𝄞\", null]}', POINT(1.5, -2)), \
     (2, '', '', '', '', '', '', '', '', '[]', NULL), \
     (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "CREATE TABLE `odd ``name`.`a.b` (`key` VARCHAR(10) PRIMARY KEY, `from` INT, \
     CONSTRAINT `fk 1` FOREIGN KEY (`from`) REFERENCES `odd ``name`.later (id))",
];

const ENGINES: &[&str] = &[
    "INSERT INTO `odd ``name`.later VALUES (7)",
    "INSERT INTO `odd ``name`.`a.b` VALUES ('x', 7), ('y', NULL)",
    "CREATE TABLE plain.old (id INT PRIMARY KEY, v TEXT) ENGINE=MyISAM",
    "INSERT INTO plain.old VALUES (1, 'one')",
    "CREATE TABLE plain.parts (id INT PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 3",
    "INSERT INTO plain.parts VALUES (1), (2), (3), (4)",
    "CREATE TABLE plain.lone (v INT)",
    "INSERT INTO plain.lone VALUES (1), (1), (NULL)",
    "CREATE FUNCTION programs.twice(n INT) RETURNS INT DETERMINISTIC RETURN n * 2",
    "CREATE PROCEDURE programs.many() BEGIN DECLARE i INT DEFAULT 0; SELECT 'ü;'; SET i = 1; END",
    "CREATE VIEW programs.b_first AS SELECT 1 AS one",
    "CREATE VIEW programs.a_second AS SELECT one, programs.twice(one) AS two FROM programs.b_first",
    "CREATE TABLE programs.log (id INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(20))",
    "CREATE TRIGGER programs.first_one BEFORE INSERT ON programs.log FOR EACH ROW SET NEW.what = \
     CONCAT(NEW.what, '1')",
    "CREATE TRIGGER programs.second_one BEFORE INSERT ON programs.log FOR EACH ROW SET NEW.what = \
     CONCAT(NEW.what, '2')",
    "INSERT INTO programs.log (what) VALUES ('a')",
    // It must not run while both servers are compared.
    "CREATE EVENT programs.often ON SCHEDULE EVERY 1 HOUR STARTS CURRENT_TIMESTAMP + INTERVAL 1 HOUR \
     DO INSERT INTO programs.log (what) VALUES ('event')",
    "CREATE USER app@'%' IDENTIFIED BY 'secret'",
    "GRANT SELECT, INSERT ON plain.* TO app@'%'",
    "GRANT UPDATE (u) ON plain.texts TO app@'%'",
    "GRANT EXECUTE ON FUNCTION programs.twice TO app@'%'",
    "CREATE ROLE reader",
    "GRANT SELECT ON programs.* TO reader",
    "GRANT reader TO app@'%'",
];

const MARIADB: &[&str] = &[
    "CREATE SEQUENCE programs.s START WITH 5 INCREMENT BY 3",
    "SELECT NEXTVAL(programs.s)",
    "CREATE TABLE plain.history (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING",
    "INSERT INTO plain.history VALUES (1, 1)",
    "UPDATE plain.history SET v = 2",
    "CREATE TABLE plain.kinds (u UUID, i INET6, h INT INVISIBLE DEFAULT 7, v INT AS (h) VIRTUAL)",
    "INSERT INTO plain.kinds (u, i, h) VALUES ('123e4567-e89b-12d3-a456-426614174000', '::1', 9)",
];

fn fill(server: &Server) -> Client {
    let mut client = server.client();
    client.run("SET NAMES utf8mb4");
    client.run("SET SESSION sql_mode='', SESSION foreign_key_checks=0, SESSION time_zone='+00:00'");
    for sql in BOTH {
        client.run(sql);
    }
    client.run("CREATE TABLE `odd ``name`.later (id INT PRIMARY KEY)");
    for sql in ENGINES {
        client.run(sql);
    }
    if server.engine() == Engine::MariaDb {
        for sql in MARIADB {
            client.query(*sql).expect("runs");
        }
    }
    client
}

fn lines(client: &mut Client, sql: &str) -> Vec<String> {
    let rows = client.rows(sql);
    rows.iter().map(|row| format!("{row:?}")).collect()
}

/// Everything that both servers say of themselves.
fn portrait(server: &Server) -> Vec<String> {
    let mut client = server.client();
    client.run("SET NAMES utf8mb4");
    let (mut said, mut sums) = (Vec::new(), Vec::new());
    let tables = lines_of_names(
        &mut client,
        "SELECT CONCAT('`', REPLACE(TABLE_SCHEMA, '`', '``'), '`.`', REPLACE(TABLE_NAME, '`', '``'), \
         '`') FROM information_schema.TABLES WHERE TABLE_SCHEMA IN ('plain','odd `name','programs') \
         AND TABLE_NAME<>'often' ORDER BY 1",
    );
    assert!(tables.len() >= 10, "{tables:?}");
    for table in &tables {
        said.extend(lines(&mut client, &format!("SHOW CREATE TABLE {table}")));
        // The servers' checksum of a row with BIT columns counts bits that nobody set.
        if !table.contains("`s`") && !table.contains("numbers") {
            sums.extend(lines(&mut client, &format!("CHECKSUM TABLE {table}")));
        }
    }
    for sql in [
        "SELECT TRIGGER_NAME, ACTION_STATEMENT, ACTION_ORDER, SQL_MODE, DEFINER FROM \
         information_schema.TRIGGERS WHERE TRIGGER_SCHEMA='programs' ORDER BY 1",
        "SELECT ROUTINE_NAME, ROUTINE_DEFINITION, SQL_MODE, DEFINER, CHARACTER_SET_CLIENT FROM \
         information_schema.ROUTINES WHERE ROUTINE_SCHEMA='programs' ORDER BY 1",
        "SELECT EVENT_NAME, EVENT_DEFINITION, INTERVAL_VALUE FROM information_schema.EVENTS",
        "SHOW GRANTS FOR app@'%'",
        "SHOW CREATE USER app@'%'",
        "SHOW GRANTS FOR reader",
        "SELECT HEX(a), HEX(u), HEX(s), HEX(c), e+0, m+0, HEX(k), MD5(big), j, HEX(p) FROM plain.texts",
        "SELECT id, f*1e0, d, n, b+0, y, t, dt, ts+0, twice FROM plain.numbers",
    ] {
        said.extend(lines(&mut client, sql));
    }
    if server.engine() == Engine::MariaDb {
        let sql = "SELECT *, row_start, row_end FROM plain.history FOR SYSTEM_TIME ALL";
        said.extend(lines(&mut client, sql));
        said.extend(lines(&mut client, "SELECT u, i, h, v FROM plain.kinds"));
        said.extend(lines(&mut client, "SHOW CREATE SEQUENCE programs.s"));
    }
    said.extend(sums);
    said
}

fn lines_of_names(client: &mut Client, sql: &str) -> Vec<String> {
    let rows = client.rows(sql);
    rows.iter()
        .map(|row| row[0].clone().expect("a name"))
        .collect()
}

/// What stands on a destination goes, also under a lock and in prepared transactions.
fn occupy(destination: &Server) {
    let mut old = destination.client();
    old.run("CREATE DATABASE plain");
    old.run("CREATE TABLE plain.texts (id INT PRIMARY KEY) ENGINE=InnoDB");
    old.run("CREATE USER leftover@'%'");
    old.run("XA START 'a','b'");
    old.run("INSERT INTO plain.texts VALUES (1)");
    old.run("XA END 'a','b'");
    old.run("XA PREPARE 'a','b'");
}

fn everything_arrives(release: Release) {
    let Some(source) = Server::start(release) else {
        return;
    };
    let destination = Server::start(release).expect("the same release");
    let mut writer = fill(&source);
    occupy(&destination);
    let progress = Progress::default();
    let position = runtime()
        .block_on(copy::copy(
            &login(&source),
            &login(&destination),
            &progress,
            MS,
        ))
        .unwrap_or_else(|error| panic!("{error}"));
    let (copied, original) = (portrait(&destination), portrait(&source));
    for (copied, original) in copied.iter().zip(&original) {
        assert_eq!(copied, original);
    }
    assert_eq!(copied.len(), original.len());
    assert!(progress.rows.load(Relaxed) > 50 && progress.bytes.load(Relaxed) > 3_500_000);
    assert_eq!(
        progress.tables.load(Relaxed),
        progress.tables_done.load(Relaxed)
    );
    let mut there = destination.client();
    assert_eq!(there.rows("SHOW DATABASES LIKE 'heddle%'").len(), 0);
    assert_eq!(
        there
            .rows("SELECT 1 FROM mysql.user WHERE User='leftover'")
            .len(),
        0
    );
    let disabled =
        "SELECT COUNT(*) FROM information_schema.EVENTS WHERE STATUS LIKE '%SIDE_DISABLED'";
    assert_eq!(there.value(disabled), "1");
    let app = Client::connect(destination.address(), "app", "secret");
    app.expect("the account came along")
        .rows("SELECT 1 FROM plain.texts");

    // The copy is a replica that goes on where the source was.
    writer.run("INSERT INTO plain.lone VALUES (42)");
    runtime().block_on(async {
        let mut link = link(&destination).await;
        engine::make_replica(&mut link, &login(&source), MS)
            .await
            .unwrap_or_else(|error| panic!("at {position}: {error}"));
    });
    wait_until(PATIENCE, "what came after the copy", || {
        destination
            .client()
            .value("SELECT COUNT(*) FROM plain.lone")
            == "4"
    });
    // The counter goes on above rows that were deleted.
    let next = "SELECT AUTO_INCREMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA='plain' AND \
                TABLE_NAME='numbers'";
    assert_eq!(
        destination.client().value(next),
        source.client().value(next)
    );
}

#[test]
fn everything_arrives_on_mariadb() {
    everything_arrives(Release::Installed);
}

#[test]
fn everything_arrives_on_mariadb_11() {
    everything_arrives(Release::MariaDb114);
}

#[test]
fn everything_arrives_on_mysql() {
    everything_arrives(Release::MySql80);
}

/// A primary whose replicas are all gone: its commits wait, and a copy has to be made of it all the same.
#[test]
fn a_mysql_whose_commits_wait_is_copied() {
    let Some(source) = Server::start(Release::MySqlNewer) else {
        return;
    };
    let destination = Server::start(Release::MySqlNewer).expect("the same release");
    let mut client = source.client();
    client.run("CREATE DATABASE plain");
    client.run("CREATE TABLE plain.accounts (id INT PRIMARY KEY, v INT)");
    client.run("INSERT INTO plain.accounts VALUES (1, 10), (2, 20)");
    client.run("SET GLOBAL rpl_semi_sync_master_timeout=3600000");
    client.run("SET GLOBAL rpl_semi_sync_master_enabled=1");
    let mut waits = source.client();
    let writer = std::thread::spawn(move || waits.run("INSERT INTO plain.accounts VALUES (3, 30)"));
    let mut queues = source.client();
    let behind = std::thread::spawn(move || {
        queues.run("UPDATE plain.accounts SET v = v + 1 WHERE id = 1");
    });
    let waiting = "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE LIKE \
                   'Waiting for semi-sync ACK%'";
    wait_until(PATIENCE, "a commit that waits", || {
        client.value(waiting) == "1"
    });

    let copied = runtime().block_on(copy::copy(
        &login(&source),
        &login(&destination),
        &Progress::default(),
        MS,
    ));
    let position = copied.unwrap_or_else(|error| panic!("{error}"));
    let rows = "SELECT GROUP_CONCAT(CONCAT(id, '=', v) ORDER BY id) FROM plain.accounts";
    assert_eq!(destination.client().value(rows), "1=10,2=20");
    assert!(!writer.is_finished() && !behind.is_finished());

    // The copy follows, acknowledges, and gets what waited.
    runtime().block_on(async {
        let mut link = link(&destination).await;
        engine::make_replica(&mut link, &login(&source), MS)
            .await
            .unwrap_or_else(|error| panic!("at {position}: {error}"));
    });
    writer.join().expect("committed");
    behind.join().expect("committed");
    wait_until(PATIENCE, "what waited", || {
        destination.client().value(rows) == "1=11,2=20,3=30"
    });
}
