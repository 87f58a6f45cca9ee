//! The logs of real servers in `crates/changes/corpus/changes_log`, with which decoders are tested byte by byte, have every
//! kind of event. `HEDDLE_WRITE_GOLDEN=1` writes them anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use testkit::{Release, Server};

/// One log: its name, the server, and what it has to have.
struct Log {
    name: &'static str,
    release: fn() -> Release,
    settings: &'static [(&'static str, &'static str)],
    statements: &'static [&'static str],
    /// Kinds of events.
    has: &'static [u8],
}

const ROWS: &[&str] = &[
    "CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(40) CHARACTER SET utf8mb4, n DECIMAL(12,4), b BLOB, e ENUM('x','y'), \
     s SET('p','q'), dt DATETIME(3), ts TIMESTAMP(6) NULL, ti TIME(2), bits BIT(11), u BIGINT UNSIGNED, f FLOAT, g DOUBLE, \
     y YEAR, da DATE, c CHAR(20) CHARACTER SET latin1, m MEDIUMINT, p POINT)",
    "INSERT INTO d.t VALUES (1, 'smör', 1.5, x'00FF', 'y', 'p,q', '2024-02-29 01:02:03.456', '2024-02-29 01:02:03.456789', \
     '-12:34:56.78', b'10101010101', 18446744073709551615, 1.25, -1e300, 2024, '2024-02-29', 'été', -8388608, POINT(1, 2)), \
     (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
    "UPDATE d.t SET v = 'other', n = -7 WHERE id = 2",
    "DELETE FROM d.t WHERE id = 1",
];

/// With values beside them; the file of the LOAD DATA is beside the log.
const STATEMENTS: &[&str] = &[
    "CREATE TABLE d.t (id INT AUTO_INCREMENT PRIMARY KEY, r DOUBLE, v VARCHAR(40))",
    "SET @text = 'ä', @number = 7, @real = 1.5e0, @exact = 3.25, @nothing = NULL",
    "INSERT INTO d.t (r, v) VALUES (RAND(), CONCAT(@text, @number, @real, @exact))",
    "INSERT INTO d.t (v) VALUES (@nothing), (LAST_INSERT_ID())",
    "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT'",
    "INSERT INTO d.t (v) VALUES (\"v\" || 'x')",
    "LOAD DATA INFILE '$FILE' INTO TABLE d.t FIELDS TERMINATED BY ',' (v)",
    "SET sql_mode = ''",
    "BEGIN",
    "SAVEPOINT a",
    "DELETE FROM d.t WHERE id = 1",
    "COMMIT",
];

const BRANCHES: &[&str] = &[
    "CREATE TABLE d.t (id INT PRIMARY KEY, v TEXT, w INT)",
    "INSERT INTO d.t VALUES (1, 'a', 1), (2, 'b', 2)",
    "XA START 'one','branch',7",
    "UPDATE d.t SET w = 9 WHERE id = 1",
    "XA END 'one','branch',7",
    "XA PREPARE 'one','branch',7",
    "XA COMMIT 'one','branch',7",
    "XA START 'two'",
    "DELETE FROM d.t WHERE id = 2",
    "XA END 'two'",
    "XA COMMIT 'two' ONE PHASE",
];

const DOCUMENTS: &[&str] = &[
    "CREATE TABLE d.t (id INT PRIMARY KEY, j JSON)",
    "INSERT INTO d.t VALUES (1, '{\"a\": [1, -2, 300000, 1e10, true, false, null, \"é\"], \"b\": {\"c\": {}, \"d\": []}}')",
    "INSERT INTO d.t VALUES (2, JSON_OBJECT('n', CAST(1.25 AS DECIMAL(5,2)), 't', CAST('12:34:56.5' AS TIME(1)), \
     'd', CAST('2024-02-29' AS DATE), 'x', CAST('2024-02-29 01:02:03' AS DATETIME), 'b', CAST(x'00FF' AS BINARY), \
     'u', 18446744073709551615, 'long', REPEAT('z', 300)))",
    "UPDATE d.t SET j = JSON_SET(j, '$.a[0]', 77, '$.b.e', 'new') WHERE id = 1",
    "UPDATE d.t SET j = JSON_REMOVE(j, '$.long') WHERE id = 2",
];

const LOGS: &[Log] = &[
    Log {
        name: "mariadb_compressed",
        release: || Release::Installed,
        settings: &[
            ("log_bin_compress", "ON"),
            ("log_bin_compress_min_len", "10"),
            ("binlog_row_metadata", "FULL"),
        ],
        statements: ROWS,
        has: &[16, 19, 160, 162, 163, 165, 166, 167, 168],
    },
    Log {
        name: "mariadb_statements",
        release: || Release::Installed,
        settings: &[("binlog_format", "STATEMENT")],
        statements: STATEMENTS,
        has: &[2, 5, 13, 14, 16, 17, 18, 162],
    },
    Log {
        name: "mariadb_branches",
        release: || Release::Installed,
        settings: &[
            ("binlog_row_image", "MINIMAL"),
            ("binlog_row_metadata", "FULL"),
        ],
        statements: BRANCHES,
        has: &[2, 19, 23, 24, 25, 38, 162],
    },
    Log {
        name: "mysql_compressed",
        release: Release::newest_mysql,
        settings: &[
            ("binlog_transaction_compression", "ON"),
            ("binlog_row_metadata", "FULL"),
        ],
        statements: ROWS,
        has: &[2, 33, 40],
    },
    Log {
        name: "mysql_statements",
        release: Release::newest_mysql,
        settings: &[("binlog_format", "STATEMENT"), ("secure_file_priv", "")],
        statements: STATEMENTS,
        has: &[2, 5, 13, 14, 16, 17, 18, 33],
    },
    Log {
        name: "mysql_branches",
        release: Release::newest_mysql,
        settings: &[
            ("binlog_row_image", "MINIMAL"),
            ("binlog_row_metadata", "FULL"),
        ],
        statements: BRANCHES,
        has: &[2, 19, 30, 31, 32, 33, 38],
    },
    Log {
        name: "mysql_documents",
        release: Release::newest_mysql,
        settings: &[("binlog_row_metadata", "FULL")],
        statements: DOCUMENTS,
        has: &[19, 30, 31, 33],
    },
    Log {
        name: "mysql_partial_documents",
        release: Release::newest_mysql,
        settings: &[
            ("binlog_row_value_options", "PARTIAL_JSON"),
            ("binlog_row_metadata", "FULL"),
        ],
        statements: DOCUMENTS,
        has: &[19, 30, 33, 39],
    },
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../changes/corpus/changes_log")
}

/// The kinds of a log's events.
fn kinds(log: &[u8]) -> BTreeSet<u8> {
    let mut rest = &log[4..];
    let mut kinds = BTreeSet::new();
    while let Some(header) = rest.get(..19) {
        kinds.insert(header[4]);
        let bytes = u32::from_le_bytes(header[9..13].try_into().expect("four bytes"));
        rest = rest
            .get(usize::try_from(bytes).expect("short")..)
            .expect("the event is whole");
    }
    kinds
}

/// The log of a server that has run the statements.
fn made(log: &Log) -> Option<Vec<u8>> {
    let server = Server::start_with((log.release)(), log.settings)?;
    let mut client = server.client();
    client.run("SET NAMES utf8mb4");
    client.run("CREATE DATABASE d");
    client.run("USE d");
    let data = PathBuf::from(client.value("SELECT @@datadir"));
    let file = data.join("load.csv");
    fs::write(&file, "one\ntwo\n").expect("the directory takes files");
    client.run("FLUSH BINARY LOGS");
    let files = client.rows("SHOW BINARY LOGS");
    let name = files.last().and_then(|row| row[0].clone()).expect("a file");
    for sql in log.statements {
        client.run(&sql.replace("$FILE", &file.display().to_string()));
    }
    client.run("FLUSH BINARY LOGS");
    Some(fs::read(data.join(name)).expect("the server's file"))
}

#[test]
fn the_corpus_has_every_kind_of_event() {
    let is_written = std::env::var_os("HEDDLE_WRITE_GOLDEN").is_some();
    for log in LOGS {
        let path = folder().join(log.name);
        if is_written && let Some(made) = made(log) {
            fs::write(&path, made).expect("it is written");
        }
        let kinds = kinds(&fs::read(&path).expect("it is there"));
        let lacks: Vec<&u8> = log
            .has
            .iter()
            .filter(|kind| !kinds.contains(kind))
            .collect();
        assert!(lacks.is_empty(), "{}: {lacks:?} of {kinds:?}", log.name);
    }
}
