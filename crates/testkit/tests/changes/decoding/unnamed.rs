//! Logs that do not name columns, as servers write them by default: a dump calls them by their places, as the servers'
//! own programs do; the stream refuses them.

use serde_json::{Value, json};
use testkit::server::Server;
use testkit::{Client, Release};

use crate::dump::{dump, events, text};

use super::{present_file, shown};

/// The values of an event's rows, as a server's own program shows them: `@1=5` and so on, row by row.
fn theirs(text: &str) -> Vec<Vec<String>> {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for line in text.lines() {
        match line.strip_prefix("###   @") {
            Some(cell) => {
                let value = cell.split_once('=').map_or("", |(_, value)| value);
                let row = rows.last_mut().expect("a row has begun");
                row.push(value.to_owned());
            }
            None if ["### SET", "### WHERE"].contains(&line) => rows.push(Vec::new()),
            None => {}
        }
    }
    rows
}

/// The same of events, before and after.
fn ours(events: &[Value]) -> Vec<Vec<Value>> {
    let rows = events.iter().filter(|event| event["event"] == "row");
    let images = rows.flat_map(|event| [event["before"].clone(), event["after"].clone()]);
    let images = images.filter(|image| !image.is_null());
    let cells = images.map(|image| {
        let places = 1..=image.as_object().map_or(0, serde_json::Map::len);
        places.map(|at| image[format!("@{at}")].clone()).collect()
    });
    cells.collect()
}

/// Whether both say the same. Programs show a number below zero with what it is without a sign behind it, in brackets.
fn agree(ours: &Value, theirs: &str) -> bool {
    match ours {
        Value::Null => theirs == "NULL",
        Value::String(words) => theirs.trim_matches('\'') == words,
        Value::Number(number) => {
            let number = number.to_string();
            let is_first = theirs == number || theirs.starts_with(&format!("{number} ("));
            is_first || theirs.ends_with(&format!("({number})"))
        }
        either if either["signed"].is_number() => {
            let other = either["unsigned"].to_string();
            theirs == format!("{} ({})", either["signed"], other.trim_matches('"'))
        }
        // Bytes of a text whose character set is not told.
        bytes => bytes["base64"].is_string() && theirs.starts_with('\''),
    }
}

fn change(client: &mut Client) {
    client.run("DROP DATABASE IF EXISTS d");
    client.run("CREATE DATABASE d CHARACTER SET utf8mb4");
    client.run(
        "CREATE TABLE d.t (id INT PRIMARY KEY, tiny TINYINT UNSIGNED, m DECIMAL(10,2), big BIGINT, \
         v VARCHAR(20), e ENUM('x','y'))",
    );
    client.run(
        "INSERT INTO d.t VALUES (1, 200, 1.50, -5, 'sm\u{f6}r', 'y'), (2, 7, NULL, 5, NULL, NULL)",
    );
    client.run("UPDATE d.t SET m = -7 WHERE id = 2");
    client.run("DELETE FROM d.t WHERE id = 1");
}

fn columns_without_names_have_their_places(release: Release, metadata: &[&str]) {
    let Some(server) = Server::start(release) else {
        return;
    };
    let mut client = server.client();
    client.run("SET NAMES utf8mb4");
    for kind in metadata {
        client.run(&format!("SET GLOBAL binlog_row_metadata = {kind}"));
        client.run("FLUSH BINARY LOGS");
        change(&mut client);
        let path = present_file(&mut client).display().to_string();
        let output = dump(&[&path]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            said.contains("@1, @2") && said.lines().count() == 1,
            "{said}"
        );
        let told = events(&text(&output));
        let rows = ours(&told);
        assert_eq!(rows.len(), 5, "{told:#?}");
        let (tiny, big) = match *kind {
            // Nothing tells signs.
            "NO_LOG" => (
                json!({ "signed": -56, "unsigned": 200 }),
                json!({ "signed": -5, "unsigned": "18446744073709551611" }),
            ),
            _ => (json!(200), json!(-5)),
        };
        let words = match *kind {
            "NO_LOG" => json!({ "base64": "c23DtnI=", "charset": null }),
            _ => json!("sm\u{f6}r"),
        };
        let first = [json!(1), tiny, json!("1.50"), big, words, json!(2)];
        assert_eq!(rows[0], first, "{kind}");
        let row = told.iter().find(|event| event["event"] == "row");
        assert_eq!(row.expect("a row")["key"], Value::Null, "no key is told");
        if let Some(shown) = shown(release, &[], &path) {
            let theirs = theirs(&shown);
            assert_eq!(theirs.len(), rows.len(), "{shown}");
            for (ours, theirs) in rows.iter().flatten().zip(theirs.iter().flatten()) {
                assert!(agree(ours, theirs), "{kind}: {ours} is not {theirs}");
            }
        }
        no_server_runs_the_statements(&mut client, &path);
        of_server(&server, &told);
    }
}

/// Names of places must not be taken for variables, by which a DELETE would find any row.
fn no_server_runs_the_statements(client: &mut Client, path: &str) {
    let statements = text(&dump(&[path, "--sql"]));
    assert_eq!(
        statements.matches("no server runs").count(),
        1,
        "{statements}"
    );
    let changes = statements.lines().filter(|line| {
        ["INSERT", "UPDATE", "DELETE"]
            .iter()
            .any(|word| line.starts_with(word))
    });
    let mut count = 0;
    for sql in changes {
        count += 1;
        let refused = client.query(sql.trim_end_matches(';'));
        assert!(
            refused.is_err_and(|error| error.to_string().contains("@1")),
            "{sql}"
        );
    }
    assert_eq!(count, 4, "{statements}");
}

/// The server tells the same as its last file.
fn of_server(server: &Server, of_file: &[Value]) {
    let all = events(&text(&dump(&[&server.address().to_string()])));
    let rows = |all: &[Value]| -> Vec<Value> {
        let mut rows: Vec<Value> = all
            .iter()
            .filter(|it| it["event"] == "row")
            .cloned()
            .collect();
        rows.iter_mut()
            .for_each(|row| drop(row.as_object_mut().map(|it| it.remove("sql"))));
        rows
    };
    assert!(rows(&all).ends_with(&rows(of_file)));
}

#[test]
fn columns_without_names_have_their_places_on_mariadb() {
    columns_without_names_have_their_places(Release::Installed, &["NO_LOG", "MINIMAL"]);
}

#[test]
fn columns_without_names_have_their_places_on_11_4() {
    columns_without_names_have_their_places(Release::MariaDb114, &["NO_LOG", "MINIMAL"]);
}

#[test]
fn columns_without_names_have_their_places_on_mysql() {
    columns_without_names_have_their_places(Release::newest_mysql(), &["MINIMAL"]);
}
