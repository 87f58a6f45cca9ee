//! A topic of Kafka for each table, with the names of Debezium's connector, over a death of the broker; packed records.

use serde_json::Value;
use testkit::{Farm, wait_until};

use super::brokers::{farm, number};
use super::kafka::{Kafka, Record};
use crate::reading::SOON;

fn makes(farm: &Farm, name: &str, words: &[&str]) {
    farm.json(&[&["sink", "create", name][..], words].concat());
}

/// The topic's records when one of them is as wanted.
fn read_until(kafka: &Kafka, topic: &str, is_last: impl Fn(&Record) -> bool) -> Vec<Record> {
    let mut all = Vec::new();
    wait_until(SOON * 3, topic, || {
        all = kafka.read(topic);
        all.iter().any(&is_last)
    });
    all
}

#[test]
fn each_table_has_a_topic() {
    let Some(mut kafka) = Kafka::start() else {
        return;
    };
    let Some((farm, mut client)) = farm() else {
        return;
    };
    client.run("CREATE TABLE d.`u 1` (a INT PRIMARY KEY)");
    // The broker is there: what is not made by hand it makes itself.
    kafka.make_topic("shop.d.t", "3");
    let at = |name: &str| format!("kafka://127.0.0.1:{}/{name}", kafka.port);
    let (records, own) = (at("shop"), at("farm"));
    let of_debezium = ["--topics", "table", "--types", "debezium"];
    makes(
        &farm,
        "records",
        &[&[&*records][..], &of_debezium, &["--compress", "zstd"]].concat(),
    );
    makes(
        &farm,
        "own",
        &[&own, "--topics", "table", "--compress", "gzip"],
    );
    for number in 0..20 {
        client.run(&format!("INSERT INTO d.t VALUES ({number}, 0)"));
        client.run(&format!("INSERT INTO d.`u 1` VALUES ({number})"));
    }
    client.run("ALTER TABLE d.t ADD COLUMN c INT");
    let is_row = |wanted: i64| {
        move |(.., value): &Record| {
            value["after"]["a"] == wanted && (value["op"] == "c" || value["event"] == "row")
        }
    };
    read_until(&kafka, "shop.d.t", is_row(19));
    kafka.kill();
    client.run("UPDATE d.t SET b = 1");
    kafka.start_again();
    for sink in ["records", "own"] {
        farm.json(&["sink", "resume", sink]);
    }
    client.run("INSERT INTO d.t VALUES (1000, 0, 0)");
    client.run("INSERT INTO d.`u 1` VALUES (1000)");
    let of_t = read_until(&kafka, "shop.d.t", is_row(1000));
    let is_of = |it: &Record, name: &str| it.3["source"]["table"] == name;
    assert!(of_t.iter().all(|it| is_of(it, "t")), "no other table");
    has_each_row_in_order(&of_t);
    let of_u = read_until(&kafka, "shop.d.u_1", is_row(1000));
    assert!(of_u.iter().all(|it| is_of(it, "u 1")) && of_u.len() >= 21);
    let is_ddl = |it: &Record| {
        it.3["ddl"]
            .as_str()
            .is_some_and(|it| it.contains("ADD COLUMN"))
    };
    read_until(&kafka, "shop", is_ddl);
    let all = read_until(&kafka, "shop.transaction", |it| it.3["status"] == "END");
    assert!(all.iter().any(|it| it.3["status"] == "BEGIN"));
    // The stream's own form, by the same names.
    let of_t = read_until(&kafka, "farm.d.t", is_row(1000));
    assert!(of_t.iter().all(|it| it.3["table"] == "t"));
    assert!(
        of_t.iter()
            .any(|it| it.1 == r#"{"table":"d.t","key":{"a":7}}"#)
    );
    read_until(&kafka, "farm", |it| it.3["event"] == "ddl");
    read_until(&kafka, "farm.transaction", |it| it.3["event"] == "commit");
}

/// Each row was made, and then changed; a batch may have come twice, with equal ids.
fn has_each_row_in_order(records: &[Record]) {
    for row in 0..20 {
        let key = format!(r#"{{"a":{row}}}"#);
        let mut of_row: Vec<&Record> = records.iter().filter(|it| it.1 == key).collect();
        let mut seen = Vec::new();
        of_row.retain(|it| {
            !seen.contains(&it.2) && {
                seen.push(it.2.clone());
                true
            }
        });
        let ops: Vec<&Value> = of_row.iter().map(|it| &it.3["op"]).collect();
        assert_eq!(ops, ["c", "u"], "{key}");
        assert_eq!(number(&of_row[1].3), Some(row));
        let partitions: Vec<i32> = of_row.iter().map(|it| it.0).collect();
        assert_eq!(partitions[0], partitions[1], "{key}");
    }
}

#[test]
fn what_cannot_be_right_about_topics_is_refused() {
    let Some((farm, _)) = farm() else {
        return;
    };
    let of_table = ["kafka://h/shop", "--topics", "table"];
    for (words, why) in [
        (
            [&of_table[..], &["--types", "debezium", "--prefix", "other"]].concat(),
            "behind the host",
        ),
        (vec!["kafka://h/shop", "--topics", "any"], "one or table"),
        (vec!["nats://h/shop", "--topics", "table"], "Kafka"),
        (vec!["file:x", "--compress", "gzip"], "none or zstd"),
        (vec!["nats://h/t", "--compress", "zstd"], "files and Kafka"),
    ] {
        let output = farm.command(&[&["sink", "create", "x"][..], &words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
}
