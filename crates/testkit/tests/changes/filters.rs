//! Filters of the change stream: by kind, columns, keys and where statements come from; nothing else is left out.

use serde_json::Value;
use testkit::{Farm, Release};

use crate::reading::{Stream, admin, ask};

fn filters_leave_out_what_is_not_meant(release: Release) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    let mut client = farm.client();
    client.run("CREATE DATABASE d");
    client.run("CREATE TABLE d.t (id BIGINT UNSIGNED PRIMARY KEY, a INT, b INT)");
    let open = |query: &str| Stream::now(&farm, &format!("table=d.t&{query}"));
    let mut streams = [
        "kind=insert&kind=delete",
        "column=b",
        "key_from=10&key_to=20",
        "source=app%3Dshop",
        "",
    ]
    .map(open);
    for sql in [
        "INSERT INTO d.t VALUES (1, 1, 1), (10, 1, 1), (18446744073709551615, 1, 1)",
        "UPDATE d.t SET a = 2 WHERE id = 1",
        "UPDATE d.t SET b = 2 WHERE id = 10",
        "/*app='shop'*/ UPDATE d.t SET id = 5 WHERE id = 10",
        "DELETE FROM d.t WHERE id = 5",
        "INSERT INTO d.t VALUES (15, 0, 0)",
        "/*app='shop'*/ DELETE FROM d.t WHERE id = 15",
    ] {
        client.run(sql);
    }
    let rows = |stream: &mut Stream, last: &str| -> Vec<Value> {
        let events = stream.until(|event| event["event"] == "row" && shown(event) == last);
        events
            .into_iter()
            .filter(|it| it["event"] == "row")
            .collect()
    };
    let all = [
        "insert 1",
        "insert 10",
        "insert 18446744073709551615",
        "update 1",
        "update 10",
        "update 10",
        "delete 5",
        "insert 15",
        "delete 15",
    ];
    let expected = [
        vec![0, 1, 2, 6, 7, 8],
        vec![0, 1, 2, 4, 5, 6, 7, 8],
        vec![1, 4, 5, 7, 8],
        vec![5, 8],
        (0..9).collect(),
    ];
    for (stream, wanted) in streams.iter_mut().zip(expected) {
        let told: Vec<String> = rows(stream, "delete 15").iter().map(shown).collect();
        let wanted: Vec<&str> = wanted.into_iter().map(|at| all[at]).collect();
        assert_eq!(told, wanted);
    }
    let (status, _) = ask(&farm, "column=a&types=debezium", Some(&admin(&farm)));
    assert_eq!(status, 400);
}

/// The kind, and the key before the change.
fn shown(event: &Value) -> String {
    let key = event["key"]["id"].to_string();
    format!(
        "{} {}",
        event["kind"].as_str().unwrap_or_default(),
        key.trim_matches('"')
    )
}

testkit::on_both_engines! {
    filters_leave_out_what_is_not_meant,
}
