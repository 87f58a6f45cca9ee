//! A client chooses the shard itself, in each way that there is and by each kind of map: what it sends next
//! without a key runs on the group that has the rows of that key, or is refused with the reason.

use testkit::client::{Failure, Reply, Statement};
use testkit::{Client, Farm};

use crate::chosen_tables;

/// ER_TRUNCATED_WRONG_VALUE_FOR_FIELD.
const BAD: u16 = 1366;
/// ER_WRONG_VALUE_FOR_VAR.
const WRONG_VALUE: u16 = 1231;
/// ER_NO_PARTITION_FOR_GIVEN_VALUE.
const OUT: u16 = 1526;
/// ER_NOT_SUPPORTED_YET.
pub(super) const NOT_SHARDED: u16 = 1235;
/// ER_UNKNOWN_SYSTEM_VARIABLE.
const UNKNOWN: u16 = 1193;
/// ER_UNSUPPORTED_PS.
const NOT_PREPARABLE: u16 = 1295;

/// A map, keys that it has, other texts of these, and keys that it has not with the error of each.
pub(super) struct Case {
    pub kind: &'static str,
    pub shards: &'static str,
    pub column: &'static str,
    pub keys: &'static [&'static str],
    pub same: &'static [(&'static str, &'static str)],
    pub wrong: &'static [(&'static str, u16)],
}

pub(super) const CASES: [Case; 9] = [
    Case {
        kind: "RANGE",
        shards: "g1/0,g2/100",
        column: "INT",
        keys: &["0", "1", "99", "100", "101", "2147483647"],
        same: &[("+1", "1"), ("00100", "100"), ("-0", "0")],
        wrong: &[
            ("-1", OUT),
            ("ten", BAD),
            ("1.5", BAD),
            ("1e2", BAD),
            (" 1", BAD),
            ("NULL", BAD),
            ("111111111111111111111", BAD),
        ],
    },
    Case {
        kind: "RANGE_INTEGER",
        shards: "g1/-5,g2/0",
        column: "BIGINT",
        keys: &["-5", "-1", "0", "9223372036854775807"],
        same: &[("-05", "-5"), ("-0", "0")],
        wrong: &[
            ("-6", OUT),
            ("-9223372036854775808", OUT),
            ("x", BAD),
            ("-", BAD),
            ("0.0", BAD),
            ("NULL", BAD),
        ],
    },
    Case {
        kind: "RANGE_STRING",
        shards: "g1/A,g2/M",
        column: "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        keys: &[
            "A", "Lzzz", "M", "NULL", "null", "zz", "D'Arcy", "O'Brien", "a", "Zürich",
        ],
        same: &[],
        wrong: &[("1", OUT), ("@", OUT), (" A", OUT)],
    },
    Case {
        kind: "RANGE_DATETIME",
        shards: "g1/2020-01-01,g2/2022-01-01",
        column: "DATETIME",
        keys: &[
            "2020-01-01 00:00:00",
            "2021-12-31 23:59:59",
            "2022-01-01 00:00:00",
            "2026-02-03 04:05:06",
        ],
        same: &[
            ("2022-01-01", "2022-01-01 00:00:00"),
            ("2022-01-01T00:00:00", "2022-01-01 00:00:00"),
            ("2021-12-31 23:59:59.000000", "2021-12-31 23:59:59"),
        ],
        wrong: &[
            ("2019-12-31 23:59:59", OUT),
            ("soon", BAD),
            ("2021-13-01 00:00:00", BAD),
            ("20220101", BAD),
            ("NULL", BAD),
        ],
    },
    Case {
        kind: "HASH",
        shards: "g1,g2",
        column: "VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        keys: &[
            "a",
            "b",
            "c",
            "d",
            "customer 7",
            "NULL",
            "D'Arcy",
            "O'Brien",
            "Zürich",
            "Genève",
            "Łódź",
        ],
        same: &[],
        wrong: &[],
    },
    Case {
        kind: "HASH",
        shards: "g1,g2",
        column: "BIGINT",
        keys: &["-1", "0", "1", "2", "3", "7", "9223372036854775807"],
        same: &[("007", "7"), ("+2", "2")],
        wrong: &[("a", BAD), ("1.0", BAD), ("NULL", BAD)],
    },
    Case {
        kind: "LIST",
        shards: "g1/DE|AT,g2/FR|IT",
        column: "VARCHAR(20)",
        keys: &["DE", "AT", "FR", "IT"],
        same: &[("de", "DE"), ("It", "IT")],
        wrong: &[("ES", OUT), ("NULL", OUT), ("Ö", BAD), ("D", OUT)],
    },
    Case {
        kind: "LIST",
        shards: "g1/1|2,g2/-3|40",
        column: "INT",
        keys: &["1", "2", "-3", "40"],
        same: &[("+1", "1"), ("040", "40")],
        wrong: &[("3", OUT), ("4", OUT), ("one", BAD), ("NULL", BAD)],
    },
    Case {
        kind: "SLOTS",
        shards: "g1,g2",
        column: "INT",
        keys: &["-7", "0", "1", "2", "3", "4", "5"],
        same: &[("+5", "5"), ("-07", "-7")],
        wrong: &[("one", BAD), ("0.5", BAD), ("0x1", BAD), ("NULL", BAD)],
    },
];

impl Case {
    pub fn name(&self) -> String {
        let column = self.column.split([' ', '(']).next().unwrap_or_default();
        format!("chosen_{}_{column}", self.kind).to_ascii_lowercase()
    }

    /// A table that is on the map and that nobody has made yet.
    pub fn later(&self) -> String {
        format!("{}.later", self.name())
    }

    fn prepare(&self, farm: &Farm) {
        let (name, column) = (self.name(), self.column);
        let mut root = farm.client();
        root.run(&format!("CREATE DATABASE {name}"));
        farm.json(&["sharding", "create_definition", self.kind, "g1", &name]);
        farm.json(&["sharding", "add_shard", &name, self.shards, "ENABLED"]);
        farm.json(&["sharding", "add_table", &name, &self.later(), "k"]);
        root.run(&format!(
            "CREATE TABLE {name}.t (k {column} NOT NULL PRIMARY KEY) /*heddle shard_map={name} shard_key=k*/"
        ));
        root.run(&format!(
            "CREATE TABLE {name}.names (id INT PRIMARY KEY) /*heddle global_map={name}*/"
        ));
        for key in self.keys {
            root.run(&format!("INSERT INTO {name}.t VALUES ('{}')", escaped(key)));
        }
    }

    /// The group that has the row of a key, asked past Heddle.
    pub fn group_of(&self, farm: &Farm, key: &str) -> String {
        let ask = format!(
            "SELECT COUNT(*) FROM {}.t WHERE k = '{}'",
            self.name(),
            escaped(key)
        );
        let has = |it: &testkit::farm::Member| it.client().value(&ask) == "1";
        let members = farm.members();
        let mut groups = members
            .iter()
            .filter(|it| has(it))
            .map(|it| it.group.clone());
        let found = groups.next().expect("the row is somewhere");
        assert_eq!(groups.next(), None, "and nowhere else");
        found
    }
}

/// A way to choose, for one statement or for all that come.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    Set,
    Hint,
    Select,
    LongData,
}

pub(super) const WAYS: [Way; 4] = [Way::Set, Way::Hint, Way::Select, Way::LongData];

/// Sends a choice as long data, of which no answer comes.
fn send_choice(client: &mut Client, words: &[&str]) {
    let statement = client.prepare("HEDDLE SELECT ?").expect("prepared");
    let data = format!("HEDDLE SELECT {}", words.join("\0"));
    client
        .send_long_data(statement.id, 0, data.as_bytes())
        .expect("sent");
}

/// The inside of a string of SQL.
fn escaped(key: &str) -> String {
    key.replace('\'', "''")
}

/// Chooses the shard of a key and runs the text there.
pub(super) fn chosen(
    client: &mut Client,
    way: Way,
    table: &str,
    key: &str,
    text: &str,
) -> Result<Vec<Reply>, Failure> {
    match way {
        Way::Set => {
            client.run(&format!(
                "SET heddle_shard_table = '{table}', heddle_shard_key = '{}'",
                escaped(key)
            ));
        }
        Way::Hint => {
            // A hint knows no escapes, but two kinds of quotes.
            return client.query(format!(
                "/*heddle shard_table={table} shard_key=\"{key}\"*/ {text}"
            ));
        }
        Way::Select => {
            client.run(&format!("HEDDLE SELECT SHARD '{table}' '{}'", escaped(key)));
        }
        Way::LongData => send_choice(client, &["SHARD", table, key]),
    }
    client.query(text)
}

/// The group that served the last statement.
pub(super) fn group(client: &mut Client) -> String {
    client.rows("HEDDLE PROFILE")[0][2]
        .clone()
        .expect("a group")
}

#[track_caller]
pub(super) fn number(answer: Result<Vec<Reply>, Failure>) -> u16 {
    answer.expect_err("it is refused").number()
}

fn keys_are_found(farm: &Farm, case: &Case) {
    let table = format!("{}.t", case.name());
    let all = format!("SELECT COUNT(*) FROM {table}");
    for key in case.keys {
        let home = case.group_of(farm, key);
        for way in WAYS {
            let mut client = farm.client();
            let answer = chosen(&mut client, way, &table, key, &all);
            let said = format!("{}, {way:?}, {key}: {answer:?}", case.kind);
            assert!(answer.is_ok(), "{said}");
            assert_eq!(group(&mut client), home, "{said}");
        }
    }
    for (key, stored) in case.same {
        let home = case.group_of(farm, stored);
        for way in WAYS {
            let mut client = farm.client();
            let answer = chosen(&mut client, way, &table, key, &all);
            assert!(answer.is_ok(), "{}, {way:?}, {key}: {answer:?}", case.kind);
            assert_eq!(group(&mut client), home, "{}, {way:?}, {key}", case.kind);
        }
    }
    for (key, error) in case.wrong {
        for way in WAYS {
            let answer = chosen(&mut farm.client(), way, &table, key, &all);
            let said = answer.map_err(|failure| failure.number());
            assert_eq!(said, Err(*error), "{}, {way:?}, {key}", case.kind);
        }
    }
}

/// What is no sharded table, a key without a table, and a row that lives elsewhere.
fn mistakes_are_told(farm: &Farm, case: &Case) {
    let (name, mut client) = (case.name(), farm.client());
    let text = format!("SELECT COUNT(*) FROM {name}.t");
    let key = case.keys[0];
    for way in WAYS {
        for table in ["nowhere.t", &format!("{name}.names")] {
            let answer = chosen(&mut farm.client(), way, table, key, &text);
            assert_eq!(number(answer), NOT_SHARDED, "{way:?}, {table}");
        }
        let answer = chosen(
            &mut farm.client(),
            way,
            &format!("{name}.t"),
            key,
            "SELECT 1",
        );
        assert!(
            answer.is_ok(),
            "{way:?}: a statement without tables goes there, too: {answer:?}"
        );
    }
    // The statement's own table says which map it is.
    client
        .query(format!("/*heddle shard_key='{key}'*/ {text}"))
        .expect("its own table");
    assert_eq!(group(&mut client), case.group_of(farm, key));
    assert_eq!(
        number(client.query(format!("/*heddle shard_key='{key}'*/ SELECT 1"))),
        NOT_SHARDED
    );
    let home = case.group_of(farm, key);
    if let Some(other) = case.keys.iter().find(|it| case.group_of(farm, it) != home) {
        let write = format!("DELETE FROM {name}.t WHERE k = '{other}'");
        for way in WAYS {
            let answer = chosen(&mut farm.client(), way, &format!("{name}.t"), key, &write);
            assert_eq!(number(answer), NOT_SHARDED, "{way:?}: its row is not there");
        }
    }
    // Neither NULL nor an empty key chooses by SET, and what was chosen before is over.
    for none in ["NULL", "''", "DEFAULT"] {
        client.run(&format!(
            "SET heddle_shard_table = '{name}.t', heddle_shard_key = '{key}'"
        ));
        client.run(&format!("SET heddle_shard_key = {none}"));
        assert_eq!(client.value(&text), case.keys.len().to_string(), "{none}");
    }
}

/// What only a server could evaluate is no key, and neither is what is not in UTF-8.
fn only_values_that_are_written_out_choose(farm: &Farm, case: &Case) {
    let mut client = farm.client();
    let (name, text) = (
        case.name(),
        format!("SELECT COUNT(*) FROM {}.t", case.name()),
    );
    client.run("SET @key = 'a'");
    client.run(&format!("SET heddle_shard_table = '{name}.t'"));
    for value in [
        "@key",
        "0x61",
        "X'61'",
        "CONCAT('a', '')",
        "'a' 'b'",
        "_latin1'a'",
        "1 + 1",
    ] {
        let set = format!("SET heddle_shard_key = {value}");
        assert_eq!(client.error(&set), WRONG_VALUE, "{value}");
    }
    assert_eq!(
        client.value(&text),
        case.keys.len().to_string(),
        "nothing is chosen"
    );
    client.run("SET NAMES latin1");
    let latin1 = |before: &str, after: &str| {
        let key = &b"Z\xfcrich"[..];
        [before.as_bytes(), key, after.as_bytes()].concat()
    };
    let refused = client.query(latin1("SET heddle_shard_key = '", "'"));
    assert_eq!(number(refused), WRONG_VALUE);
    let hinted = format!("\"*/ {text}");
    let hint = format!("/*heddle shard_table={name}.t shard_key=\"");
    assert_eq!(number(client.query(latin1(&hint, &hinted))), BAD);
    let select = latin1(&format!("HEDDLE SELECT SHARD '{name}.t' '"), "'");
    client.query(select).expect("it is looked at later");
    assert_eq!(number(client.query(&text)), BAD);
}

fn global_tables_are_chosen(farm: &Farm, case: &Case) {
    let name = case.name();
    let text = format!("SELECT COUNT(*) FROM {name}.t");
    for table in [format!("{name}.names"), format!("{name}.t")] {
        let mut client = farm.client();
        client.run(&format!("SET heddle_global_table = '{table}'"));
        client.value(&text);
        assert_eq!(group(&mut client), "g1");
        client
            .query(format!("/*heddle global_table={table}*/ {text}"))
            .expect("by a hint");
        assert_eq!(group(&mut client), "g1");
        let mut client = farm.client();
        client.run(&format!("HEDDLE SELECT GLOBAL '{table}'"));
        client.value(&text);
        assert_eq!(group(&mut client), "g1");
        let mut client = farm.client();
        send_choice(&mut client, &["GLOBAL", &table]);
        client.value(&text);
        assert_eq!(group(&mut client), "g1");
    }
    let mut client = farm.client();
    client.run("SET heddle_global_table = 'nowhere.t'");
    assert_eq!(number(client.query(&text)), NOT_SHARDED);
}

#[test]
fn a_chosen_key_means_the_same_in_every_way_and_kind() {
    let Some(farm) = Farm::start(&["--groups", "2", "--replicas", "0"]) else {
        return;
    };
    // Without maps there is nothing to choose.
    let mut client = farm.client();
    assert_eq!(client.error("HEDDLE SELECT SHARD 'a.b' '1'"), UNKNOWN);
    assert_eq!(client.error("HEDDLE SELECT GLOBAL 'a.b'"), UNKNOWN);
    let refused = client
        .prepare("HEDDLE SELECT ?")
        .expect_err("nothing to choose from");
    assert_eq!(refused.number(), UNKNOWN);
    for case in &CASES {
        case.prepare(&farm);
        keys_are_found(&farm, case);
        chosen_tables::are_chosen_before_they_are_made(&farm, case);
        chosen_tables::all_servers_of_a_shard_are_asked(&farm, case);
        chosen_tables::disabled_shards_are_told(&farm, case);
    }
    let of_kind = |kind: &str| CASES.iter().find(|case| case.kind == kind);
    let [range, list, hash] = ["RANGE", "LIST", "HASH"].map(|it| of_kind(it).expect("a case"));
    mistakes_are_told(&farm, range);
    mistakes_are_told(&farm, list);
    only_values_that_are_written_out_choose(&farm, hash);
    global_tables_are_chosen(&farm, range);
    long_data_has_no_answer(&farm, range);
}

/// A choice without a reply keeps the numbers of the statement before, outlives nothing that it must not, and
/// what is wrong with it is said by the next statements.
fn long_data_has_no_answer(farm: &Farm, case: &Case) {
    let (name, mut client) = (case.name(), farm.client());
    let (table, text) = (
        format!("{name}.t"),
        format!("SELECT COUNT(*) FROM {name}.t"),
    );
    let statement = client.prepare("HEDDLE SELECT ?").expect("prepared");
    assert_eq!((statement.params.len(), statement.columns.len()), (1, 0));
    let choose = |client: &mut Client, data: &[u8]| {
        client.send_long_data(statement.id, 0, data).expect("sent");
    };
    // Both in one write, on one group and then on the other.
    for (key, home) in [("5", "g1"), ("500", "g2"), ("7", "g1")] {
        choose(
            &mut client,
            format!("HEDDLE SELECT SHARD\0{table}\0{key}").as_bytes(),
        );
        client.value(&text);
        assert_eq!(group(&mut client), home);
    }
    for junk in [
        "",
        "SHARD",
        "HEDDLE SELECT SHARD\0a",
        "HEDDLE SELECT ELSE\0a\0b",
        "HEDDLE SELECT SHARD\0a\0b\0c",
    ] {
        choose(&mut client, junk.as_bytes());
        assert_eq!(number(client.query(&text)), NOT_SHARDED, "{junk}");
        assert_eq!(
            number(client.query(&text)),
            NOT_SHARDED,
            "until another choice comes"
        );
    }
    client.run(&format!(
        "SET heddle_shard_table = '{table}', heddle_shard_key = '5'"
    ));
    client.value(&text);
    client.run("SET heddle_shard_key = ''");
    assert_eq!(client.value(&text), case.keys.len().to_string());
    the_statement_is_for_long_data_only(&mut client, statement, &table);
}

/// It is never executed, and is gone with its session's others without its client hearing of it.
fn the_statement_is_for_long_data_only(client: &mut Client, statement: Statement, table: &str) {
    let text = format!("SELECT COUNT(*) FROM {table}");
    assert_eq!(
        client
            .execute(&statement, &[testkit::client::Value::from("x")])
            .map_err(|it| it.number()),
        Err(NOT_PREPARABLE)
    );
    client
        .reset_statement(statement.id)
        .expect("nothing to reset");
    // The statements of a session that was reset are gone; a client does not hear of it.
    client.reset().expect("reset");
    let choice = format!("HEDDLE SELECT SHARD\0{table}\x00500");
    client
        .send_long_data(statement.id, 0, choice.as_bytes())
        .expect("sent");
    client.value(&text);
    assert_eq!(group(client), "g2");
    // Long data of other statements is what it was.
    client.run("HEDDLE SELECT GLOBAL 'chosen_range_int.t'");
    let echo = client.prepare("SELECT LENGTH(?)").expect("prepared");
    client
        .send_long_data(echo.id, 0, b"HEDDLE SELECT SHARD\0a\0b")
        .expect("sent");
    client
        .send_execute(echo.id, 0, &[testkit::client::Value::Bytes(Vec::new())])
        .expect("sent");
    assert!(client.answer(true).is_ok());
    client.close(statement).expect("closed");
}
