//! Sets of MySQL's GTIDs, with tags, against a model that cannot be wrong: all transactions one by one.
//!
//! Servers that know tags are not at hand where these tests run; what they do with sets without tags is
//! asked of them in `crates/engine/tests/gtid_sets.rs`.

use std::collections::BTreeSet;

use farm::{Engine, Position};
use fastrand::Rng;

/// Every transaction of a set: the source, its tag, its number.
type Model = BTreeSet<(usize, &'static str, u64)>;

const UUIDS: [&str; 3] = [
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "3E11FA47-71CA-11E1-9E33-C80AA9429563",
    "00000000-0000-0000-0000-000000000001",
];
const TAGS: [&str; 4] = ["", "a", "a_long_tag_of_thirty_two_bytes__", "_9"];
const NUMBERS: u64 = 40;

fn of<T: Copy>(random: &mut Rng, all: &[T]) -> T {
    all[random.usize(..all.len())]
}

/// A set in one of the ways in which it can be written, and what it holds.
fn made_up(random: &mut Rng) -> (String, Model) {
    let (mut text, mut model) = (String::new(), Model::new());
    for _ in 0..random.u64(..5) {
        let source = of(random, &[0, 1, 2]);
        let mut tag = "";
        text.push_str(of(random, &["", " ", "\n"]));
        text.push_str(UUIDS[source]);
        for _ in 0..=random.u64(..5) {
            text.push(':');
            if random.u64(..3) == 0 {
                tag = of(random, &TAGS[1..]);
                match random.u64(..2) {
                    0 => text.push_str(tag),
                    _ => text.push_str(&tag.to_uppercase()),
                }
                continue;
            }
            let from = random.u64(..NUMBERS) + 1;
            let to = from + random.u64(..6);
            match from == to {
                true => text.push_str(&from.to_string()),
                false => text.push_str(&format!("{from}{}{to}", of(random, &["-", " - "]))),
            }
            model.extend((from..=to).map(|number| (source, tag, number)));
        }
        text.push(',');
    }
    (text, model)
}

fn read(text: &str) -> Position {
    Position::parse(Engine::MySql, text).unwrap_or_else(|| panic!("a set: {text}"))
}

/// A set as one would write it who knows nothing of intervals.
fn spelt_out(model: &Model) -> Position {
    let one = |(source, tag, number): &(usize, &str, u64)| {
        let tag = if tag.is_empty() {
            String::new()
        } else {
            format!(":{tag}")
        };
        format!("{}{tag}:{number}", UUIDS[*source])
    };
    read(&model.iter().map(one).collect::<Vec<_>>().join(","))
}

fn holds(position: &Position, model: &Model) {
    assert_eq!(position, &spelt_out(model));
    assert_eq!(
        position,
        &read(&position.to_string()),
        "written and read again"
    );
    assert_eq!(position.is_empty(), model.is_empty());
}

#[test]
fn sets_hold_what_they_should_and_nothing_else() {
    for seed in 0..4_000 {
        let mut random = Rng::with_seed(seed);
        let (text, mine) = made_up(&mut random);
        let (other_text, theirs) = made_up(&mut random);
        let (one, other) = (read(&text), read(&other_text));
        holds(&one, &mine);
        assert_eq!(
            one.covers(&other),
            mine.is_superset(&theirs),
            "{text} {other_text}"
        );
        assert_eq!(
            other.covers(&one),
            theirs.is_superset(&mine),
            "{text} {other_text}"
        );
        holds(&one.meet(&other), &(&mine & &theirs));
        let mut all = one.clone();
        all.join(&other);
        let everything = &mine | &theirs;
        holds(&all, &everything);
        // What grows by the way holds what it must, and nothing that neither it nor the server has.
        let (executed_text, executed) = made_up(&mut random);
        let mut grown = Position::empty(Engine::MySql);
        for transaction in everything.iter().step_by(2) {
            let transaction = spelt_out(&Model::from([*transaction]));
            grown.join_among(&transaction, Some(&read(&executed_text)));
            assert!(grown.covers(&transaction));
        }
        let some = everything.iter().step_by(2).copied().collect::<Model>();
        assert!(grown.covers(&spelt_out(&some)));
        assert!(
            spelt_out(&(&some | &executed)).covers(&grown),
            "{executed_text} {grown}"
        );
    }
}
