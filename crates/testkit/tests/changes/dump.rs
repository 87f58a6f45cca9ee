//! `heddle binlog dump`: a file and a server say the same, and the statements make the rows again.

use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;
use testkit::farm::heddle;
use testkit::{Client, Farm, Release, skip};

const STATEMENTS: &[&str] = &[
    "CREATE DATABASE d CHARACTER SET utf8mb4",
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20), n DECIMAL(8,2), b BLOB, e ENUM('x','y'), \
     s SET('p','q'), dt DATETIME(3), bits BIT(5), u BIGINT UNSIGNED)",
    "INSERT INTO d.t VALUES (1, 'sm\u{f6}r', 1.5, x'00FF', 'y', 'p,q', '2024-02-29 01:02:03.456', b'10101', \
     18446744073709551615), (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "UPDATE d.t SET v = 'other', n = -7 WHERE id = 2",
    "INSERT INTO d.t (id, v) VALUES (3, 'gone')",
    "DELETE FROM d.t WHERE id = 3",
    "CREATE TABLE d.keyless (a INT, b VARCHAR(9))",
    "INSERT INTO d.keyless VALUES (1, 'x'), (1, 'x'), (2, NULL)",
    "DELETE FROM d.keyless WHERE a = 1 LIMIT 1",
];

pub(crate) fn dump(words: &[&str]) -> Output {
    let output = Command::new(heddle())
        .args(["binlog", "dump"])
        .args(words)
        .output();
    output.expect("the program can be run")
}

#[track_caller]
pub(crate) fn text(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// The events without the statements, which a MariaDB's file has as well as the server.
pub(crate) fn events(text: &str) -> Vec<Value> {
    let read =
        |line: &str| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

fn file_and_server_agree(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let member = farm.member("g1-1");
    let mut client = member.client();
    client.run("SET NAMES utf8mb4, time_zone='+00:00'");
    STATEMENTS.iter().for_each(|sql| drop(client.run(sql)));
    let data = client.value("SELECT @@datadir");
    let files = client.rows("SHOW BINARY LOGS");
    let files = files
        .iter()
        .map(|row| PathBuf::from(&data).join(row[0].as_deref().expect("a name")));
    let files: Vec<PathBuf> = files.collect();
    let address = format!("127.0.0.1:{}", member.port);
    let of_server = events(&text(&dump(&[&address, "--database", "d"])));
    let mut of_files = Vec::new();
    for file in &files {
        let path = file.display().to_string();
        of_files.extend(events(&text(&dump(&[&path, "--database", "d", "--json"]))));
    }
    let rows = |all: &[Value]| -> Vec<Value> {
        all.iter()
            .filter(|it| it["event"] == "row")
            .cloned()
            .collect()
    };
    assert_eq!(rows(&of_server), rows(&of_files));
    assert_eq!(rows(&of_server).len(), 9);
    let last = files.last().expect("a file").display().to_string();
    // From a place on.
    let from = of_server[of_server.len() - 2]["gtid"]
        .as_str()
        .expect("a GTID")
        .to_owned();
    if release == Release::Installed {
        let rest = events(&text(&dump(&[
            &address,
            "--database",
            "d",
            "--from",
            &from,
        ])));
        assert!(rows(&rest).is_empty(), "{rest:?}");
        agrees_with_mariadb_binlog(&last, &of_files);
    }
    makes_the_rows_again(&mut client, &last);
}

/// The statements make the same rows on a server that had none.
fn makes_the_rows_again(client: &mut Client, file: &str) {
    let statements = text(&dump(&[file, "--sql", "--database", "d"]));
    let before = ["t ORDER BY id", "keyless ORDER BY a"]
        .map(|it| client.rows(&format!("SELECT * FROM d.{it}")));
    client.run("DROP DATABASE d");
    client.run("SET time_zone='+00:00', sql_mode=''");
    for statement in statements
        .split(";\n")
        .skip_while(|it| !it.contains("CREATE DATABASE d"))
    {
        let statement: Vec<&str> = statement
            .lines()
            .filter(|line| !line.starts_with("--"))
            .collect();
        let statement = statement.join("\n");
        if !statement.is_empty()
            && !statement.starts_with("USE ")
            && !statement.starts_with("DROP DATABASE")
        {
            client.run(&statement);
        }
    }
    let after = ["t ORDER BY id", "keyless ORDER BY a"]
        .map(|it| client.rows(&format!("SELECT * FROM d.{it}")));
    assert_eq!(before, after, "{statements}");
}

/// What depends on the session that ran it. The rows of these statements are not logged.
const CONTEXTS: &[&str] = &[
    "SET SESSION binlog_format=STATEMENT, sql_mode='ANSI_QUOTES,STRICT_ALL_TABLES', time_zone='+02:00'",
    "CREATE DATABASE c CHARACTER SET utf8mb4",
    "CREATE TABLE c.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(60), d DOUBLE, at DATETIME(6), ts TIMESTAMP NULL)",
    "INSERT INTO c.t (v, d, at, ts) VALUES (\"v\", 0, NOW(6), '2024-02-29 12:00:00')",
    "SET @a = 'sm\u{f6}r', @n = NULL, @i = -7, @d = 1.50, @r = 2.5e0, @`b``c` = 18446744073709551615",
];

/// The same with the values that stand beside the text.
const VALUES: &[&str] = &[
    "SET TIMESTAMP=1700000000.123456, INSERT_ID=77, RAND_SEED1=5, RAND_SEED2=6",
    "INSERT INTO c.t (v, d, at) VALUES (CONCAT_WS(',', @a, @n, @i, @d, @r, @`b``c`), RAND(), NOW(6))",
    "INSERT INTO c.t (v, d, at) SELECT LAST_INSERT_ID(), 1, NOW()",
    "SET time_zone='+00:00', sql_mode='', character_set_client=latin1",
    "INSERT INTO c.t (v, ts) VALUES ('plain', '2024-02-29 12:00:00')",
    "SET SESSION binlog_format=ROW, TIMESTAMP=DEFAULT",
    "INSERT INTO c.t (v) VALUES ('row')",
];

/// The program that prints a release's binlogs, if it is there.
pub(crate) fn printer(release: Release) -> Option<PathBuf> {
    if release == Release::Installed {
        return Some("mariadb-binlog".into());
    }
    let binary = release.binary().ok()?;
    let beside = std::path::Path::new(&binary.path).with_file_name("mysqlbinlog");
    beside.exists().then_some(beside)
}

/// SET statements, without what differs between the programs.
fn settings(text: &str) -> Vec<String> {
    let lines = text.split('\n').filter(|it| it.starts_with("SET "));
    let lines = lines.filter(|it| {
        let left_out = [
            "SESSION.GTID_NEXT",
            "gtid_",
            "pseudo_",
            "server_id",
            "skip_parallel",
            "NAMES",
            "check_constraint",
            "system_versioning",
        ];
        !left_out.iter().any(|word| it.contains(word))
    });
    let plain = |line: &str| {
        let line = line
            .replace("/*!*/", "")
            .replace("/*!80019", "")
            .replace(['`', ' ', ';'], "");
        line.to_lowercase()
            .replace("@@session.", "")
            .replace("/*!100001sessionvariables*/", "")
    };
    lines.map(plain).collect()
}

fn statements_run_as_they_ran(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let member = farm.member("g1-1");
    let mut client = member.client();
    client.run("SET NAMES utf8mb4");
    client.run("FLUSH BINARY LOGS");
    let file = client
        .rows("SHOW BINARY LOGS")
        .last()
        .and_then(|row| row[0].clone());
    CONTEXTS
        .iter()
        .chain(VALUES)
        .for_each(|sql| drop(client.run(sql)));
    let dir = tempfile::tempdir().expect("a directory");
    let rows = dir.path().join("rows.txt");
    std::fs::write(&rows, "from a file\t1\n").expect("a file");
    client.run("SET GLOBAL local_infile=1");
    client.run("SET SESSION binlog_format=STATEMENT");
    let data = client.value("SELECT @@datadir");
    // The server reads it, so that its blocks are in the log.
    let of_server = PathBuf::from(&data).join("rows.txt");
    std::fs::copy(&rows, &of_server).expect("it is copied");
    let may = client.query(format!(
        "LOAD DATA INFILE '{}' INTO TABLE c.t (v, d)",
        of_server.display()
    ));
    client.run("SET SESSION binlog_format=ROW");
    // From here on nobody writes into the file that two programs read: neither this test nor a router's heartbeat.
    client.run("FLUSH BINARY LOGS");
    let loads = may.is_ok();
    let path = PathBuf::from(&data).join(file.expect("a file"));
    let path = path.display().to_string();
    let printed = text(&dump(&[
        &path,
        "--sql",
        "--local-load",
        &dir.path().display().to_string(),
    ]));
    for line in [
        "SET TIMESTAMP=1700000000.123456;",
        "SET INSERT_ID=77;",
        "SET @@RAND_SEED1=",
        "SET @`i`:=-7;",
        "SET @`d`:=1.50;",
        "SET @`b``c`:=18446744073709551615;",
        "SET @@session.time_zone='+02:00';",
    ] {
        assert!(printed.contains(line), "{line} in {printed}");
    }
    agrees_with_the_servers_program(release, &path, &printed);
    let before = client.rows("SELECT * FROM c.t ORDER BY id");
    assert_eq!(before.len(), 5 + usize::from(loads), "{before:?}");
    client.run("DROP DATABASE c");
    run_by_program(&member, &printed);
    assert_eq!(
        client.rows("SELECT * FROM c.t ORDER BY id"),
        before,
        "{printed}"
    );
}

/// Runs statements as a person would: by the server's own client.
fn run_by_program(member: &testkit::farm::Member, statements: &str) {
    let address = [
        "--protocol=tcp",
        "-h127.0.0.1",
        &format!("-P{}", member.port),
        "-uroot",
        "--local-infile=1",
    ]
    .map(str::to_owned);
    let mut program = Command::new("mariadb")
        .args(address)
        .arg("--skip-ssl")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the client is installed");
    let mut into = program.stdin.take().expect("it takes statements");
    std::io::Write::write_all(&mut into, statements.as_bytes()).expect("it takes them");
    drop(into);
    let output = program.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said} {statements}");
}

/// What the server's own program sets is set here, too.
fn agrees_with_the_servers_program(release: Release, path: &str, printed: &str) {
    let output = printer(release).map(|it| Command::new(it).arg(path).output());
    let Some(Ok(output)) = output else {
        return skip(&"the server's program is not installed");
    };
    let theirs = settings(&String::from_utf8_lossy(&output.stdout));
    let ours = settings(printed);
    // Theirs begins with settings for what comes from nowhere.
    let of_statements = |all: &[String]| -> Vec<String> {
        // Of the statements' own times: the program tells that of a BEGIN, too, which may be in another second.
        let words = [
            "timestamp=1700000000",
            "insert_id=",
            "rand_seed",
            "set@",
            "time_zone=",
            "sql_mode=",
        ];
        let meant = all
            .iter()
            .filter(|it| words.iter().any(|word| it.contains(word)));
        let values = meant.filter(|it| !it.contains("'+00:00'") && !it.ends_with("sql_mode=''"));
        values.cloned().collect()
    };
    let missing: Vec<String> = of_statements(&theirs)
        .into_iter()
        .filter(|it| !ours.contains(it) && !it.contains("collate") && !it.starts_with("set@r:="))
        .collect();
    assert!(missing.is_empty(), "{missing:#?} in {ours:#?}");
}

/// `mariadb-binlog -v` says so many rows of each kind.
fn agrees_with_mariadb_binlog(file: &str, told: &[Value]) {
    let output = Command::new("mariadb-binlog")
        .args(["-v", "--base64-output=decode-rows", file])
        .output();
    let Ok(output) = output else {
        return skip(&"mariadb-binlog is not installed");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    for (kind, verb) in [
        ("insert", "### INSERT INTO `d`."),
        ("update", "### UPDATE `d`."),
        ("delete", "### DELETE FROM `d`."),
    ] {
        let of_kind = told.iter().filter(|event| event["kind"] == kind).count();
        let shown = text.lines().filter(|line| line.starts_with(verb)).count();
        assert_eq!(of_kind, shown, "{kind}");
    }
    for event in told.iter().filter(|it| it["event"] == "row") {
        let gtid = event["gtid"].as_str().expect("a GTID");
        assert!(text.contains(&format!("GTID {gtid}")), "{gtid}");
    }
}

#[test]
fn a_file_and_its_server_say_the_same_on_mariadb() {
    file_and_server_agree(Release::Installed);
}

#[test]
fn a_file_and_its_server_say_the_same_on_mysql() {
    file_and_server_agree(Release::newest_mysql());
}

#[test]
fn statements_run_as_they_ran_on_mariadb() {
    statements_run_as_they_ran(Release::Installed);
}

#[test]
fn statements_run_as_they_ran_on_mysql() {
    statements_run_as_they_ran(Release::newest_mysql());
}

#[test]
fn what_is_no_binlog_is_told() {
    for (of, code, why) in [
        ("/nowhere", 2, "no HOST:PORT"),
        ("/etc/passwd", 1, "no binlog"),
        ("127.0.0.1:1", 1, "cannot connect"),
    ] {
        let output = dump(&[of]);
        assert_eq!(output.status.code(), Some(code), "{of}");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    }
}
