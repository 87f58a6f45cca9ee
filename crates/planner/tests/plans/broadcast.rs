//! Which tables are sent to the groups, what is fetched of them, and what the groups are asked then.
//!
//! `testdata/broadcast.txt` has statements behind `> ` and, indented, their answers; behind `mysql> ` those
//! that a farm of MySQL is asked.
//! `HEDDLE_WRITE_GOLDEN=1 cargo test -p planner` writes the answers anew; read what has changed.

use std::fmt::Write as _;

use planner::{
    Answer, Asked, Finish, Fragment, Ran, Seen, Sizes, Source, Volume, answer, by_broadcast,
    every_broadcast,
};
use sqltext::{Dialect, Mode, tables};

use crate::gathered::{MODE, Tpch};

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

/// What a fragment gives where it has run: a tenth of its table's rows where it has conditions.
fn seen(fragment: &Fragment) -> Option<Seen> {
    let all = rows(fragment)?;
    let rows = match fragment.text.contains(" WHERE ") {
        true => all / 10,
        false => all,
    };
    let columns = fragment.text.split(" FROM ").next()?.matches(',').count() as u64 + 1;
    Some(Seen::of(Volume {
        rows,
        bytes: rows * columns * 8,
    }))
}

fn line(text: &str) -> String {
    text.replace('\n', " ")
}

fn shown(text: &str, asked: &Asked<'_>) -> String {
    let gathered = match answer(text, asked) {
        Ok(gathered) => gathered,
        Err(why) => return format!("{why:?}"),
    };
    let known: Vec<Option<u64>> = gathered.fragments.iter().map(rows).collect();
    let told = |learned: &[Seen], whole: &[Option<Seen>]| {
        let ran = Ran {
            fetches: learned.to_vec(),
            ..Ran::default()
        };
        let sizes = Sizes {
            rows: &known,
            filtered: false,
            ran: &ran,
            whole,
            bytes_max: 4 << 20,
        };
        match by_broadcast(text, asked, &gathered, &sizes) {
            Ok(sent) => of_answer(&sent),
            Err(why) => format!("{:?}: {why}", gathered.tier).to_lowercase(),
        }
    };
    let mut shown = format!("at first: {}", told(&[], &[]));
    let whole: Vec<Option<Seen>> = gathered.fragments.iter().map(seen).collect();
    let learned: Option<Vec<Seen>> = whole.iter().copied().collect();
    if let Some(learned) = learned.filter(|it| it.len() > 1) {
        let _ = write!(shown, "\nthen: {}", told(&learned, &whole));
    }
    for sent in every_broadcast(text, asked, &gathered) {
        let sending = sent.sending.expect("tables are sent");
        let tables = sending.tables.iter().zip(&sending.divided);
        let tables = tables.map(|(part, by)| match by {
            None => part.name.clone(),
            Some(by) => format!("{} by {}", part.name, by.name),
        });
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
        let _ = write!(
            shown,
            "\n{} rows, {} bytes, {}: {}",
            expected.rows,
            expected.bytes.unwrap_or_default(),
            expected.source,
            line(&fragment.text)
        );
        let _ = write!(shown, "\n  {}", line(&part.create));
        if let Some(by) = &sending.divided[at] {
            let _ = write!(shown, "\n  by {} among {}", by.name, by.groups.join(","));
        }
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
    let tpch = Tpch::new();
    let asked = tpch.asked();
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

const JOIN: &str =
    "SELECT o_orderkey FROM orders JOIN customer ON c_custkey = o_custkey WHERE c_acctbal > 0";

/// How a statement is answered with these sizes: of the gather's fetches, and of the table that may be sent.
fn sent(
    known: &[Option<u64>],
    gathered_bytes: &[u64],
    whole_bytes: Option<u64>,
    bytes_max: u64,
    ran: &Ran,
) -> Result<Answer, String> {
    let tpch = Tpch::new();
    let asked = tpch.asked();
    let gathered = answer(JOIN, &asked).expect("it is gathered");
    let seen = |bytes: u64| Seen::of(Volume { rows: 1, bytes });
    let ran = Ran {
        fetches: gathered_bytes.iter().map(|bytes| seen(*bytes)).collect(),
        ..ran.clone()
    };
    let whole = [whole_bytes.map(seen); 2];
    let sizes = Sizes {
        rows: known,
        filtered: false,
        ran: &ran,
        whole: &whole,
        bytes_max,
    };
    let sent = by_broadcast(JOIN, &asked, &gathered, &sizes)?;
    let sending = sent.sending.as_ref().expect("a table is sent");
    assert_eq!(*sending.instead, gathered);
    assert_eq!(
        gathered.fragments[sending.places[0]].groups,
        sending.fragments[0].groups
    );
    Ok(sent)
}

#[test]
fn tables_are_sent_where_that_is_known_to_move_less() {
    const MOST: u64 = 4 << 20;
    let ran = Ran::default();
    let known = [Some(1500), Some(150)];
    let unknown = [None, None];
    // What the servers say of the tables is no word about what conditions leave.
    assert!(sent(&known, &[], None, MOST, &ran).is_err());
    // A gather moves twice what it fetches; what is sent moves once, and once more to each of three groups.
    let sending = sent(&unknown, &[90_000, 1000], Some(1000), MOST, &ran)
        .expect("it is small")
        .sending;
    let sending = sending.expect("a table is sent");
    assert_eq!(sending.expected[0].source, Source::Learned);
    // The bound is what the gather would have moved, for each time that the rows move, and no less than 64 KB.
    assert_eq!(sending.bytes_max, 64 << 10);
    // Whole it would move 160,000 bytes; each row to one group, 80,000.
    let by = |sent: Result<Answer, String>| {
        let sending = sent.expect("it is sent").sending.expect("a table is sent");
        let [by] = &sending.divided[..] else {
            panic!("one table is sent");
        };
        (by.as_ref().map(|by| by.name.to_string()), sending.bytes_max)
    };
    let divided = Some("o_custkey".to_owned());
    let least = 64 << 10;
    assert_eq!(
        by(sent(&unknown, &[90_000, 1000], Some(40_000), MOST, &ran)),
        (divided.clone(), least)
    );
    assert_eq!(
        by(sent(&unknown, &[900_000, 1000], Some(400_000), MOST, &ran)),
        // Each of three groups gets a third of what a gather moves once.
        (divided.clone(), 2 * 901_000 / 6)
    );
    assert_eq!(
        by(sent(&unknown, &[90_000, 1000], Some(1000), 999, &ran)),
        (divided, 999)
    );
    assert_eq!(
        by(sent(&unknown, &[90_000, 1000], Some(1000), MOST, &ran)).0,
        Some("o_custkey".to_owned())
    );
    // As good as equal, little as a whole, and more than may be sent.
    assert!(sent(&unknown, &[30_000, 30_000], Some(46_000), MOST, &ran).is_err());
    assert!(sent(&unknown, &[900, 1000], Some(10), MOST, &ran).is_err());
    assert!(sent(&unknown, &[90_000, 1000], Some(1000), 300, &ran).is_err());
    // What has been counted once may be twice as much as the statistics say, and half.
    assert!(sent(&known, &[90_000, 1000], None, MOST, &ran).is_ok());
    assert!(sent(&unknown, &[90_000, 1000], None, MOST, &ran).is_err());
}

#[test]
fn what_groups_answer_counts() {
    const MOST: u64 = 4 << 20;
    let unknown = [None, None];
    let seen = |bytes: u64| Seen::of(Volume { rows: 1, bytes });
    let with = |result: Option<u64>, rests: &[(usize, u64)]| {
        let rests = rests.iter().map(|(at, bytes)| (vec![*at], seen(*bytes)));
        let ran = Ran {
            result: result.map(seen),
            rests: rests.collect(),
            ..Ran::default()
        };
        sent(&unknown, &[20_000, 1000], Some(1000), MOST, &ran)
    };
    // A gather moves 42,000 bytes and its result, the groups 4,000 and theirs.
    assert!(with(None, &[]).is_ok());
    assert!(with(Some(30_000), &[]).is_ok());
    // Groups that have been asked gave parts of the result, which are more.
    assert!(with(Some(10_000), &[(0, 60_000), (1, 60_000)]).is_err());
    let other = with(Some(10_000), &[(0, 60_000), (1, 9000)]).expect("the other table");
    assert_eq!(other.sending.expect("it is sent").places, [1]);
    assert!(with(Some(10_000), &[(0, 38_000), (1, 38_000)]).is_err());
}

#[test]
fn bounds_and_not_the_last_fetch_decide() {
    let volume = |bytes| Volume { rows: 1, bytes };
    let seen = Seen::of(volume(100))
        .and(volume(1_000_000))
        .and(volume(100));
    assert!(seen.most.bytes > 400_000 && seen.least.bytes == 100);
}
