//! `heddle apply` from one engine to the other: rows of the types that both know come out equal, of a snapshot as of the
//! stream.

use testkit::server::Server;
use testkit::{Client, Farm, Release, wait_until};

use crate::apply::{said, start};
use crate::reading::SOON;

/// What both know. A table of MySQL has to have a collation that MariaDB has.
const TABLE: &str = "CREATE TABLE d.t (id INT PRIMARY KEY, ti TINYINT, su SMALLINT UNSIGNED, m MEDIUMINT, \
     b BIGINT UNSIGNED, n DECIMAL(20,6), f FLOAT, g DOUBLE, bt BIT(11), y YEAR, da DATE, tm TIME(3), dt DATETIME(6), \
     ts TIMESTAMP(6) NULL, c CHAR(10), v VARCHAR(100), l VARCHAR(40) CHARACTER SET latin1, vb VARBINARY(20), \
     bi BINARY(4), bl BLOB, tx TEXT, e ENUM('a','b'), s SET('x','y','z'), p POINT, j JSON) \
     DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci";

const VALUES: &str = "-128, 65535, -8388608, 18446744073709551615, -12345678901234.123456, 1.5, -1e300, b'10101010101', 2024, \
     '2024-02-29', '-838:59:58.999', '9999-12-31 23:59:59.999999', '2024-02-29 12:34:56.789012', 'ab', \
     'sm\u{f6}r \u{1f600} ''q'' \\\\ x', '\u{e9}t\u{e9}', x'00FF27', x'0100', x'0001025C27', 'long text', 'b', 'x,z', \
     ST_GeomFromText('POINT(1 -2.5)'), '{\"a\": [1, -2.5, null, \"\u{e9}\"], \"b\": {\"c\": true}}'";

/// All columns as texts that both engines write alike.
const ROWS: &str = "SELECT id, ti, su, m, b, n, f, g, bt + 0, y, da, tm, dt, ts, c, HEX(v), HEX(CONVERT(l USING utf8mb4)), \
     HEX(vb), HEX(bi), HEX(bl), tx, e, s, ST_AsText(p), JSON_EXTRACT(j, '$.a[0]'), JSON_EXTRACT(j, '$.a[1]'), \
     JSON_EXTRACT(j, '$.a[3]'), JSON_EXTRACT(j, '$.b.c'), JSON_LENGTH(j) FROM d.t ORDER BY id";

/// NULL in all columns, and the values.
fn insert(client: &mut Client, id: u32) {
    client.run(&format!("INSERT INTO d.t VALUES ({id}, {VALUES})"));
    client.run(&format!("INSERT INTO d.t (id) VALUES ({})", id + 1));
}

fn rows_come_out_equal(from: Release, to: Release) {
    let Some(farm) = Farm::start_on(from, &["--replicas", "0"]) else {
        return;
    };
    let Some(target) = Server::start(to) else {
        return;
    };
    let mut client = farm.member("g1-1").client();
    client.run("SET NAMES utf8mb4");
    client.run("CREATE DATABASE d DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci");
    client.run(TABLE);
    insert(&mut client, 1);
    let mut applier = start(&farm, &target, &["--snapshot"]);
    wait_until(SOON, "the rows that are there", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(&farm));
        said(&farm).contains("rows of group g1 are read")
    });
    insert(&mut client, 3);
    client.run("UPDATE d.t SET v = CONCAT(v, '!'), n = n / 3, j = NULL WHERE id = 1");
    client.run("UPDATE d.t SET id = 20, bl = x'FF' WHERE id = 2");
    insert(&mut client, 5);
    client.run("DELETE FROM d.t WHERE id = 6");
    client.run("ALTER TABLE d.t ADD COLUMN w INT NOT NULL DEFAULT 5");
    client.run("CREATE TABLE d.last (a INT PRIMARY KEY) DEFAULT CHARACTER SET latin1");
    client.run("INSERT INTO d.last VALUES (1)");
    wait_until(SOON, "the last row", || {
        let ended = applier.try_wait().expect("a child");
        assert!(ended.is_none(), "{}", said(&farm));
        target.client().query("SELECT a FROM d.last").is_ok()
            && target.client().value("SELECT COUNT(*) FROM d.last") == "1"
    });
    applier.kill().expect("it runs");
    applier.wait().expect("it ends");
    let (there, copied) = (client.rows(ROWS), target.client().rows(ROWS));
    assert_eq!(there.len(), 5);
    assert_eq!(copied, there, "{}", said(&farm));
    assert_eq!(target.client().value("SELECT SUM(w) FROM d.t"), "25");
    assert!(!said(&farm).contains("conflict:"), "{}", said(&farm));
}

#[test]
fn from_mariadb_to_mysql() {
    rows_come_out_equal(Release::Installed, Release::newest_mysql());
}

/// MySQL 8.0.12 does not log the character sets of labels.
#[test]
fn from_mysql_to_mariadb() {
    rows_come_out_equal(Release::MySqlNewer, Release::Installed);
}
