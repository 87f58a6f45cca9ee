//! Which tables are sent to the groups, what is fetched of them, and what the groups are asked then.
//!
//! `testdata/broadcast.txt` has statements behind `> ` and, indented, their answers; behind `mysql> ` those
//! that a farm of MySQL is asked.
//! `HEDDLE_WRITE_GOLDEN=1 cargo test -p planner` writes the answers anew; read what has changed.

use std::fmt::Write as _;

use planner::{Answer, Asked, Finish, Fragment, Sizes, answer, by_broadcast, every_broadcast};
use sqltext::{Dialect, Mode, tables};

use crate::gathered::{MODE, farm};

const MYSQL: Mode = Mode::new(Dialect::MySql, 80_000);

const ROWS: [(&str, u64); 8] = [
    ("lineitem", 6000),
    ("orders", 1500),
    ("customer", 150),
    ("part", 200),
    ("partsupp", 800),
    ("supplier", 10),
    ("nation", 25),
    ("region", 5),
];

fn rows(fragment: &Fragment) -> Option<u64> {
    let names = tables(fragment.text.as_bytes(), &MODE);
    let name = names.first()?.name.clone();
    let mut known = ROWS.iter();
    let found = known.find(|(table, _)| table.as_bytes() == &*name);
    found.map(|(_, rows)| *rows)
}

fn line(text: &str) -> String {
    text.replace('\n', " ")
}

fn shown(text: &str, asked: &Asked<'_>) -> String {
    let gathered = match answer(text, asked) {
        Ok(gathered) => gathered,
        Err(why) => return format!("{why:?}"),
    };
    let sizes: Vec<Option<u64>> = gathered.fragments.iter().map(rows).collect();
    let sizes = Sizes {
        rows: &sizes,
        filtered: false,
        learnt: &|_| None,
        bytes_max: 4 << 20,
    };
    let mut shown = match by_broadcast(text, asked, &gathered, &sizes) {
        Ok(sent) => of_answer(&sent),
        Err(why) => format!("{:?}: {why}", gathered.tier).to_lowercase(),
    };
    for sent in every_broadcast(text, asked, &gathered) {
        let sending = sent.sending.expect("tables are sent");
        let tables = sending.tables.iter().map(|it| &*it.name);
        let _ = write!(
            shown,
            "\nmay send {}",
            tables.collect::<Vec<_>>().join(", ")
        );
    }
    shown
}

fn of_answer(answer: &Answer) -> String {
    let mut shown = answer.reasons.last().cloned().unwrap_or_default();
    let sending = answer.sending.as_ref().expect("tables are sent");
    for (at, fragment) in sending.fragments.iter().enumerate() {
        let (part, expected) = (&sending.tables[at], sending.expected[at]);
        let (rows, bytes) = (expected.rows, expected.bytes);
        let _ = write!(
            shown,
            "\n{} rows, {} bytes: {}",
            rows,
            bytes,
            line(&fragment.text)
        );
        let _ = write!(shown, "\n  {}", line(&part.create));
    }
    let fragment = &answer.fragments[0];
    let _ = write!(
        shown,
        "\n{}: {}",
        fragment.groups.join(","),
        line(&fragment.text)
    );
    if let Finish::Scratch(scratch) = &answer.finish {
        let _ = write!(shown, "\n{}", line(&scratch.text));
    }
    shown
}

/// The file as it should be.
fn play(scenarios: &str) -> String {
    let (sharding, home) = (farm(), "g1".into());
    let asked = Asked {
        sharding: &sharding,
        home: &home,
        database: "tpch",
        mode: &MODE,
        scratch: "s",
        changing: None,
    };
    let mut out = String::new();
    for given in scenarios.lines().filter(|it| !it.starts_with("    ")) {
        let _ = writeln!(out, "{given}");
        let (text, mode) = match given.strip_prefix("mysql> ") {
            Some(text) => (Some(text), &MYSQL),
            None => (given.strip_prefix("> "), &MODE),
        };
        if let Some(text) = text {
            for line in shown(text, &Asked { mode, ..asked }).lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    out
}

#[test]
fn tables_are_sent_as_written_down() {
    super::is_as_written_down("broadcast.txt", play);
}

#[test]
fn what_was_learnt_counts_more_than_what_is_guessed() {
    let (sharding, home) = (farm(), "g1".into());
    let asked = Asked {
        sharding: &sharding,
        home: &home,
        database: "tpch",
        mode: &MODE,
        scratch: "s",
        changing: None,
    };
    let text =
        "SELECT o_orderkey FROM orders JOIN customer ON c_custkey = o_custkey WHERE c_acctbal > 0";
    let gathered = answer(text, &asked).expect("it is gathered");
    let known: Vec<Option<u64>> = gathered.fragments.iter().map(rows).collect();
    let sent = |known: &[Option<u64>], learnt: Option<u64>, bytes_max: u64| {
        let sizes = Sizes {
            rows: known,
            filtered: false,
            learnt: &|_| learnt,
            bytes_max,
        };
        by_broadcast(text, &asked, &gathered, &sizes)
    };
    let sending = sent(&known, None, 4 << 20).expect("it is small").sending;
    assert_eq!(*sending.expect("a table is sent").instead, gathered);
    assert!(sent(&known, Some(1_000_000), 4 << 20).is_err());
    assert!(sent(&known, None, 10).is_err());
    let unknown = vec![None; known.len()];
    assert!(sent(&unknown, None, 4 << 20).is_err());
}
