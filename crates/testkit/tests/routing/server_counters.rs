//! The SQL door: what a server counts for a statement, by HEDDLE PROFILE SERVER.

use std::collections::BTreeMap;

use testkit::{Client, Stage};

/// ER_WRONG_VALUE_FOR_VAR.
const WRONG_VALUE: u16 = 1231;

/// What the statement `back` statements ago added, by the counter's name.
fn counted(client: &mut Client, back: usize) -> BTreeMap<String, String> {
    let rows = client.rows(&format!("HEDDLE PROFILE SERVER FOR {back}"));
    let text = |cell: &Option<String>| cell.clone().expect("no cell is NULL");
    rows.iter()
        .map(|row| (text(&row[1]), text(&row[2])))
        .collect()
}

#[test]
fn what_a_server_counts_is_told_by_statement() {
    for stage in &Stage::of_both_engines() {
        stage.database("counters");
        let door = stage.door();
        let mut client = door.client_in("counters");
        client.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
        let rows: Vec<String> = (0..50).map(|id| format!("({id}, {})", id % 5)).collect();
        client.run(&format!("INSERT INTO t VALUES {}", rows.join(",")));
        client.rows("/*ms=master*/ SELECT a FROM t WHERE id = 7");
        assert!(counted(&mut client, 1).is_empty(), "nobody wanted to know");
        assert_eq!(client.error("SET heddle_profile = 'all'"), WRONG_VALUE);
        client.run("SET heddle_profile = 'server'");
        assert_eq!(client.value("SELECT @@heddle_profile"), "server");
        client.rows("/*ms=master*/ SELECT a FROM t WHERE id = 7");
        let point = counted(&mut client, 1);
        assert_eq!(
            point.get("Handler_read_key").map(String::as_str),
            Some("1"),
            "{point:?}"
        );
        assert!(!point.contains_key("Handler_read_rnd_next"), "{point:?}");
        // It finds its end, too.
        client.rows("/*ms=master*/ SELECT id FROM t WHERE a < 3 ORDER BY a");
        let scan = counted(&mut client, 1);
        assert_eq!(scan["Handler_read_rnd_next"], "51", "{scan:?}");
        assert_eq!(scan["Sort_rows"], "30");
        assert_eq!(counted(&mut client, 2), point);
        client.run("SET heddle_profile = DEFAULT");
        client.rows("/*ms=master*/ SELECT a FROM t WHERE id = 7");
        assert!(counted(&mut client, 1).is_empty());
    }
}

#[test]
fn what_statements_leave_is_there_while_they_are_counted() {
    for stage in &Stage::of_both_engines() {
        stage.database("kept");
        let door = stage.door();
        let mut client = door.client_in("kept");
        client.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)");
        client.run("SET heddle_profile = 'server'");
        client.run("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)");
        assert_eq!(client.value("SELECT ROW_COUNT()"), "3");
        for begin in ["BEGIN", "SET autocommit = 1"] {
            client.run(begin);
            client.run("UPDATE t SET a = a + 1 WHERE id < 3");
            assert_eq!(counted(&mut client, 1)["Handler_update"], "2", "{begin}");
            assert_eq!(client.value("SELECT ROW_COUNT()"), "2", "{begin}");
            client.rows("SELECT id FROM t FOR UPDATE");
            assert_eq!(client.value("SELECT FOUND_ROWS()"), "3", "{begin}");
            client.rows("SELECT CAST('x' AS SIGNED), id FROM t WHERE id = 1 FOR UPDATE");
            assert_eq!(client.rows("SHOW WARNINGS").len(), 1, "{begin}");
            client.run("COMMIT");
        }
    }
}
