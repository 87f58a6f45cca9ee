//! Texts that are very deep or very long, sent to a whole farm: on sharded tables and on plain ones, as
//! texts and prepared. Each has an answer or an error of its own, and the router lives on.

use testkit::{Client, Farm, Release};

/// Repeats a part of a text.
fn text(first: &str, more: &str, times: usize, last: &str) -> String {
    format!("{first}{}{last}", more.repeat(times))
}

/// What would end a thread whose stack is not known.
fn texts(table: &str) -> Vec<String> {
    let select = format!("SELECT COUNT(*) FROM {table} WHERE ");
    let from = format!(" FROM {table}");
    vec![
        text(&format!("{select}v=0"), " OR v=1", 100_000, ""),
        text(&format!("{select}v=1"), " AND v=1", 100_000, ""),
        text(&format!("{select}id IN (1"), ",2", 100_000, ")"),
        text(&select, "(", 100_000, "v"),
        text(&select, "NOT ", 100_000, "v"),
        text("SELECT ", "- ", 100_000, &format!("v{from}")),
        text("SELECT ", "abs(", 50_000, &format!("v{from}")),
        text("SELECT ", "CASE WHEN v THEN ", 50_000, &format!("1{from}")),
        text(
            &format!("SELECT 1{from}"),
            &format!(" UNION SELECT 1{from}"),
            10_000,
            "",
        ),
        text(
            &format!("SELECT 1{from}"),
            &format!(" JOIN {table} b USING (id)"),
            10_000,
            "",
        ),
        text("SELECT 1", " /* b */", 100_000, &from),
        text(
            &format!("UPDATE {table} SET v = v"),
            " + 1",
            100_000,
            " WHERE id = 1",
        ),
        text(
            &format!("DELETE FROM {table} WHERE v = -1"),
            " OR v = -1",
            100_000,
            "",
        ),
    ]
}

#[test]
fn no_text_ends_the_router() {
    let arguments = ["--groups", "2", "--replicas", "0"];
    let Some(farm) = Farm::start_on(Release::Installed, &arguments) else {
        return;
    };
    let connect = || Client::connect(farm.sql, "root", "").expect("root may log in");
    let mut client = connect();
    client.run("CREATE DATABASE plain");
    client.run("CREATE TABLE plain.t (id INT PRIMARY KEY, v INT)");
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run(
        "CREATE TABLE shop.t (id INT PRIMARY KEY, v INT) /*heddle shard_map=shop shard_key=id*/",
    );
    for table in ["plain.t", "shop.t"] {
        client.run(&format!(
            "INSERT INTO {table} VALUES (1, 1), (2, 0), (3, 1), (4, 9)"
        ));
        // 10,000 terms ended the process; the servers count them well.
        let deep = text(
            &format!("SELECT COUNT(*) FROM {table} WHERE v=0"),
            " OR v=1",
            10_000,
            "",
        );
        assert_eq!(client.value(&deep), "3", "{table}");
        for text in texts(table) {
            // An error of its own, or of a server whose stack is smaller, is an answer, too. A server may
            // close the connection behind an error.
            let mut client = connect();
            let _ = client.query(&text);
            let _ = connect().prepare(&text);
        }
        assert_eq!(client.value("SELECT 1"), "1", "the session lives");
        assert_eq!(client.value(&format!("SELECT COUNT(*) FROM {table}")), "4");
    }
}
