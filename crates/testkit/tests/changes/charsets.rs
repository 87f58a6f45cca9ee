//! Texts of every character set come out as the server itself converts them.

use std::collections::BTreeSet;

use changes::charset_of;
use serde_json::Value;
use testkit::{Client, Farm, Release};

use crate::reading::{Stream, rows};

/// Every character set that the server has, with one byte or more for a character.
fn charsets(client: &mut Client) -> Vec<(String, usize)> {
    let all = client.rows(
        "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS ORDER BY 1",
    );
    let pairs = all.into_iter().map(|row| {
        let mut cells = row.into_iter().map(|cell| cell.expect("not NULL"));
        let name = cells.next().expect("a name");
        (
            name,
            cells.next().expect("a length").parse().expect("a number"),
        )
    });
    pairs
        .filter(|(name, _)| name != "binary" && name != "filename")
        .collect()
}

fn texts_are_right(farm: &Farm) {
    let mut direct = farm.member("g1-1").client();
    direct.run("SET NAMES utf8mb4, sql_mode=''");
    direct.run("CREATE DATABASE d CHARACTER SET utf8mb4");
    direct.run("CREATE TABLE d.last (a INT PRIMARY KEY)");
    let mut stream = Stream::now(farm, "database=d");
    let all = charsets(&mut direct);
    let mut expected = Vec::new();
    for (name, bytes_max) in &all {
        // A geometry in front of it, which MariaDB counts among the texts.
        let table = format!("d.in_{name}");
        direct.run(&format!(
            "CREATE TABLE {table} (id INT PRIMARY KEY, g POINT, v VARCHAR(40) CHARACTER SET {name}, \
             e ENUM('a') CHARACTER SET {name}, w TEXT CHARACTER SET latin1)"
        ));
        if *bytes_max == 1 {
            // MySQL's strict parser takes no bytes that are no character.
            let bytes = (0_u32..256).filter(|byte| name != "ascii" || *byte < 128);
            let values: Vec<String> = bytes
                .map(|byte| format!("({byte}, NULL, _{name} x'41{byte:02X}', 'a', 'sm\u{f6}r')"))
                .collect();
            direct.run(&format!("INSERT INTO {table} VALUES {}", values.join(",")));
        } else {
            direct.run(&format!(
                "INSERT INTO {table} VALUES (0, NULL, 'plain', 'a', 'sm\u{f6}r'), \
                 (1, NULL, 'sm\u{f6}r \u{20ac} \u{6f22}\u{5b57}', 'a', 'x')"
            ));
        }
        let sql = format!("SELECT id, CONVERT(v USING utf8mb4), HEX(v) FROM {table} ORDER BY id");
        expected.push(direct.rows(&sql));
    }
    direct.run("INSERT INTO d.last VALUES (1)");
    let events = stream.until_last(1);
    for ((name, bytes_max), expected) in all.iter().zip(&expected) {
        let table = format!("in_{name}");
        let told: Vec<&Value> = rows(&events)
            .into_iter()
            .filter(|row| row["table"] == *table)
            .collect();
        assert_eq!(told.len(), expected.len(), "{name}");
        let mut as_text = 0;
        for (row, cells) in told.iter().zip(expected) {
            let (text, hex) = (
                cells[1].as_ref().expect("a text"),
                cells[2].as_ref().expect("bytes"),
            );
            let after = &row["after"];
            assert_eq!(
                (&after["e"], after["w"].is_string()),
                (&"a".into(), true),
                "{name}"
            );
            let Some(said) = after["v"].as_str() else {
                // Bytes that are no character there, or a set of which only ASCII is known.
                assert_eq!(after["v"]["charset"], **name, "{name} {hex}: {after}");
                assert!(
                    *bytes_max > 1 || text.contains(['?', char::REPLACEMENT_CHARACTER]),
                    "{name} {hex}: {text}"
                );
                continue;
            };
            as_text += 1;
            assert_eq!(said, text, "{name} {hex}");
        }
        assert!(as_text > 0, "{name}");
    }
}

#[test]
fn texts_of_every_character_set_are_right_on_mariadb() {
    if let Some(farm) = Farm::start(&["--replicas", "0"]) {
        texts_are_right(&farm);
        every_collation_is_known(&mut farm.member("g1-1").client());
    }
}

#[test]
fn texts_of_every_character_set_are_right_on_mysql() {
    if let Some(farm) = Farm::start_on(Release::newest_mysql(), &["--replicas", "0"]) {
        texts_are_right(&farm);
        every_collation_is_known(&mut farm.member("g1-1").client());
    }
}

fn every_collation_is_known(client: &mut Client) {
    let sql = "SELECT ID, CHARACTER_SET_NAME FROM information_schema.COLLATIONS \
               WHERE ID IS NOT NULL AND CHARACTER_SET_NAME IS NOT NULL";
    let mut wrong = BTreeSet::new();
    for row in client.rows(sql) {
        let (id, name) = (
            row[0].as_deref().expect("an id"),
            row[1].as_deref().expect("a name"),
        );
        // Each MySQL has its own name of it.
        let name = if name == "utf8" { "utf8mb3" } else { name };
        let known = charset_of(id.parse().expect("a number")).map(|it| it.name());
        if known != Some(name) {
            wrong.insert(format!("{id} is {name}, not {known:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
