//! Rows of which servers log only some columns (`binlog_row_image`): what is told is what SELECT shows, and the stream warns.

use std::collections::BTreeSet;

use serde_json::Value;
use testkit::{Client, Farm, Release};

use super::{ALL, Kind, OF_MARIADB, OF_MYSQL, is_same};
use crate::reading::{Stream, rows};

/// What SELECT shows of a row: the columns `v` and `w`.
type State = [Option<String>; 2];

/// Changes one row in several ways; gives what it was after each. The row is gone in the end.
fn changed(direct: &mut Client, table: &str, Kind(_, shown, _, literals): &Kind) -> Vec<State> {
    let mut states = Vec::new();
    let last = literals.last().expect("a literal");
    for statement in [
        format!("INSERT INTO {table} (id, v) VALUES (1, {})", literals[0]),
        format!("UPDATE {table} SET w = 1"),
        format!("UPDATE {table} SET v = NULL, w = 2"),
        format!("UPDATE {table} SET v = {last}, w = 3"),
    ] {
        direct.run(&statement);
        let row = direct
            .rows(&format!("SELECT {shown}, w FROM {table}"))
            .remove(0);
        states.push([row[0].clone(), row[1].clone()]);
    }
    direct.run(&format!("DELETE FROM {table}"));
    states
}

/// The columns that an image has.
fn has(image: &Value) -> BTreeSet<&str> {
    let members = image.as_object().expect("an image");
    members.keys().map(String::as_str).collect()
}

/// What each image of these five changes has to have at least, and at most.
fn bounds(image: &str, change: usize, is_before: bool) -> (Vec<&'static str>, Vec<&'static str>) {
    let all = vec!["id", "v", "w"];
    match (image, change, is_before) {
        ("MINIMAL", 0, _) => (vec!["id", "v"], vec!["id", "v"]),
        ("MINIMAL", 1, false) => (vec!["w"], vec!["w"]),
        ("MINIMAL", _, false) => (vec!["v", "w"], vec!["v", "w"]),
        ("MINIMAL", _, true) => (vec!["id"], vec!["id"]),
        // A BLOB is left out where it was not changed.
        ("NOBLOB", _, _) => (vec!["id", "w"], all),
        (_, 0, _) => (vec!["id", "v"], all),
        (_, 1, false) => (vec!["w"], all),
        (_, _, false) => (vec!["v", "w"], all),
        (_, _, true) => (all.clone(), all),
    }
}

fn images_are_right(farm: &Farm, direct: &mut Client, own: &[Kind], image: &str) {
    let database = image.to_lowercase();
    direct.run(&format!("CREATE DATABASE {database} CHARACTER SET utf8mb4"));
    direct.run(&format!("CREATE TABLE {database}.last (a INT PRIMARY KEY)"));
    let mut stream = Stream::now(farm, &format!("database={database}"));
    direct.run(&format!("SET binlog_row_image = {image}"));
    let kinds: Vec<&Kind> = ALL.iter().chain(own).collect();
    let mut states = Vec::new();
    for (number, kind) in kinds.iter().enumerate() {
        let table = format!("{database}.t{number}");
        direct.run(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, v {}, w INT)",
            kind.0
        ));
        states.push(changed(direct, &table, kind));
    }
    direct.run(&format!("INSERT INTO {database}.last VALUES (1)"));
    let events = stream.until_last(1);
    let mut lacks = 0;
    for (number, (Kind(of, _, form, _), states)) in kinds.iter().zip(&states).enumerate() {
        let name = format!("t{number}");
        let changes = rows(&events)
            .into_iter()
            .filter(|row| row["table"] == *name);
        let changes: Vec<&Value> = changes.collect();
        assert_eq!(changes.len(), 5, "{of}");
        for (at, change) in changes.into_iter().enumerate() {
            let mut is_whole = true;
            for (name, state) in [("before", at.checked_sub(1)), ("after", Some(at))] {
                let told = &change[name];
                let Some(state) = state
                    .and_then(|at| states.get(at))
                    .filter(|_| !told.is_null())
                else {
                    continue;
                };
                let columns = has(told);
                is_whole &= columns.len() == 3;
                let (least, most) = bounds(image, at, name == "before");
                assert!(
                    least.iter().all(|it| columns.contains(it)),
                    "{image} {of}: {change}"
                );
                assert!(
                    columns.iter().all(|it| most.contains(it)),
                    "{image} {of}: {change}"
                );
                if let Some(value) = told.get("v") {
                    is_same(*form, value, state[0].as_ref(), of);
                }
                if let Some(value) = told.get("w") {
                    let shown = state[1].as_ref().map_or("null", |it| it);
                    assert_eq!(value.to_string(), shown, "{of}: {change}");
                }
            }
            assert_eq!(change.get("partial").is_none(), is_whole, "{of}: {change}");
            lacks += usize::from(!is_whole);
            assert_eq!(change["key"]["id"], 1, "{of}: {change}");
        }
    }
    assert!(lacks > 0, "{image}");
    warned_once(&events);
}

/// In front of the first row that lacks something.
fn warned_once(events: &[Value]) {
    let of = |wanted: &dyn Fn(&Value) -> bool| events.iter().position(wanted);
    let is_warning = |event: &Value| event["event"] == "warning";
    let (first, row) = (of(&is_warning), of(&|event| event["partial"] == true));
    let first = first.expect("a warning");
    assert_eq!(Some(first + 1), row, "{events:#?}");
    let words = events[first]["warning"].as_str().expect("words");
    assert!(words.contains("binlog_row_image=FULL"), "{words}");
    assert_eq!(events.iter().filter(|it| is_warning(it)).count(), 1);
    let is_same_table = events[first]["table"] == events[first + 1]["table"];
    assert!(is_same_table && events[first]["gtid"] == events[first + 1]["gtid"]);
}

fn on(release: Release, own: &[Kind], images: &[&str]) {
    let Some(farm) = Farm::start_on(release, &["--replicas", "0"]) else {
        return;
    };
    for image in images {
        let mut direct = farm.member("g1-1").client();
        direct.run("SET NAMES utf8mb4, time_zone='+00:00', sql_mode=''");
        images_are_right(&farm, &mut direct, own, image);
    }
}

#[test]
fn images_have_the_values_of_select_on_mariadb_10_11() {
    on(Release::Installed, OF_MARIADB, &["MINIMAL", "NOBLOB"]);
}

#[test]
fn images_have_the_values_of_select_on_mariadb_11_4() {
    on(
        Release::MariaDb114,
        OF_MARIADB,
        &["MINIMAL", "NOBLOB", "FULL_NODUP"],
    );
}

#[test]
fn images_have_the_values_of_select_on_mysql() {
    on(Release::newest_mysql(), OF_MYSQL, &["MINIMAL", "NOBLOB"]);
}
