//! Scalar subqueries that are asked first, on a farm as its users have it: what is gathered no more, and where the statement
//! is gathered as before.

use testkit::client::{Reply, Value};
use testkit::{Client, Farm, Release};

use crate::scratch::counted;

const ABOVE: &str =
    "SELECT id FROM orders WHERE total > (SELECT AVG(total) FROM orders WHERE id < 20) ORDER BY id";

/// Two groups, and twenty orders by customer.
fn farm(release: Release) -> Option<Farm> {
    let farm = Farm::start_on(release, &["--groups", "2", "--replicas", "0"])?;
    let mut client = farm.client();
    client.rows("HEDDLE sharding create_definition SLOTS g1 shop");
    client.rows("HEDDLE sharding add_shard shop 'g1,g2' ENABLED");
    client.run("CREATE DATABASE shop");
    client.run("USE shop");
    client.run(
        "CREATE TABLE orders (id INT, customer_id INT NOT NULL, total DECIMAL(10,2), note VARCHAR(20), \
         PRIMARY KEY (customer_id, id)) /*heddle shard_map=shop shard_key=customer_id*/",
    );
    let row = |id: i32| match id % 7 {
        6 => format!("({id}, {id}, NULL, 'none')"),
        _ => format!("({id}, {id}, {id}.25, '{id} and more')"),
    };
    let rows: Vec<String> = (0..20).map(row).collect();
    client.run(&format!("INSERT INTO orders VALUES {}", rows.join(", ")));
    Some(farm)
}

/// How many statements were gathered meanwhile.
fn gathers(client: &mut Client, run: impl FnOnce(&mut Client)) -> u64 {
    let before = counted(client, "gathers");
    run(client);
    counted(client, "gathers") - before
}

fn ids(client: &mut Client, text: &str) -> Vec<String> {
    let rows = client.rows(text);
    rows.into_iter()
        .filter_map(|mut row| row.remove(0))
        .collect()
}

/// The average is 9.75.
fn expected() -> Vec<String> {
    let above = (10..20).filter(|id| id % 7 != 6);
    above.map(|id| id.to_string()).collect()
}

fn subqueries_are_asked_first(release: Release) {
    let Some(farm) = farm(release) else {
        return;
    };
    let mut client = farm.client();
    client.run("USE shop");
    let gathered = gathers(&mut client, |client| {
        assert_eq!(ids(client, ABOVE), expected());
        let none = ABOVE.replace("id < 20", "id > 20");
        assert_eq!(ids(client, &none), Vec::<String>::new());
        let latest = "SELECT id FROM orders WHERE total = (SELECT MAX(total) FROM orders)";
        assert_eq!(ids(client, latest), ["19"]);
        let statement = client
            .prepare(&ABOVE.replace("20", "?"))
            .expect("it is prepared");
        for most in [20i64, 0] {
            let replies = client
                .execute(&statement, &[Value::Int(most)])
                .expect("it runs");
            let Some(Reply::Rows(rows)) = replies.first() else {
                panic!("no rows");
            };
            let wanted = if most > 0 { expected().len() } else { 0 };
            assert_eq!(rows.rows.len(), wanted);
        }
    });
    assert_eq!(gathered, 0);
    it_is_explained(&mut client);
    others_are_gathered(&mut client);
}

fn it_is_explained(client: &mut Client) {
    let lines = |client: &mut Client, verb: &str| -> Vec<String> {
        let rows = client.rows(&format!("{verb} {ABOVE}"));
        rows.into_iter()
            .filter_map(|mut row| row.remove(0))
            .collect()
    };
    let has = |lines: &[String], part: &str| {
        assert!(
            lines.iter().any(|line| line.contains(part)),
            "{part} in {lines:#?}"
        );
    };
    let tree = lines(client, "EXPLAIN");
    has(&tree, "-> g1, g2: the whole statement");
    has(
        &tree,
        "asked first, NULL stands for its value here: SELECT SUM(total), COUNT(total) FROM orders WHERE id < 20",
    );
    let tree = lines(client, "ANALYZE");
    has(&tree, &format!("(actual rows={} bytes=", expected().len()));
    let of_groups = tree.iter().filter(|line| line.contains(": its rows "));
    assert_eq!(of_groups.count(), 2, "{tree:#?}");
}

/// Where a question might see something else, and where one says more than a row.
fn others_are_gathered(client: &mut Client) {
    let gathered = gathers(client, |client| {
        client.run("BEGIN");
        client.run("INSERT INTO orders VALUES (1000, 1000, 1000.25, 'mine')");
        assert_eq!(
            ids(client, &ABOVE.replace("id < 20", "id = 1000")),
            Vec::<String>::new()
        );
        client.run("ROLLBACK");
        assert_eq!(ids(client, &format!("/*ms=slave*/ {ABOVE}")), expected());
    });
    assert_eq!(gathered, 2);
    // A note is no number, and that is a warning.
    let odd = ABOVE.replace("id < 20", "note > 3");
    assert_eq!(gathers(client, |client| drop(client.rows(&odd))), 1);
}

testkit::on_both_engines!(subqueries_are_asked_first);
