//! Sets of MySQL's GTIDs, with tags, against a model that cannot be wrong: all transactions one by one.
//!
//! Servers that know tags are not at hand where these tests run; what they do with sets without tags is
//! asked of them in `crates/engine/tests/gtid_sets.rs`.

use std::collections::BTreeSet;

use farm::{Engine, Position};

/// Every transaction of a set: the source, its tag, its number.
type Model = BTreeSet<(usize, &'static str, u64)>;

const UUIDS: [&str; 3] = [
    "3e11fa47-71ca-11e1-9e33-c80aa9429562",
    "3E11FA47-71CA-11E1-9E33-C80AA9429563",
    "00000000-0000-0000-0000-000000000001",
];
const TAGS: [&str; 4] = ["", "a", "a_long_tag_of_thirty_two_bytes__", "_9"];
const NUMBERS: u64 = 40;

/// Numbers that a seed repeats (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        let at = self.below(all.len() as u64);
        all[usize::try_from(at).expect("small")]
    }
}

/// A set in one of the ways in which it can be written, and what it holds.
fn made_up(dice: &mut Dice) -> (String, Model) {
    let (mut text, mut model) = (String::new(), Model::new());
    for _ in 0..dice.below(5) {
        let source = dice.of(&[0, 1, 2]);
        let mut tag = "";
        text.push_str(dice.of(&["", " ", "\n"]));
        text.push_str(UUIDS[source]);
        for _ in 0..=dice.below(5) {
            text.push(':');
            if dice.below(3) == 0 {
                tag = dice.of(&TAGS[1..]);
                match dice.below(2) {
                    0 => text.push_str(tag),
                    _ => text.push_str(&tag.to_uppercase()),
                }
                continue;
            }
            let from = dice.below(NUMBERS) + 1;
            let to = from + dice.below(6);
            match from == to {
                true => text.push_str(&from.to_string()),
                false => text.push_str(&format!("{from}{}{to}", dice.of(&["-", " - "]))),
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
        let mut dice = Dice(seed);
        let (text, mine) = made_up(&mut dice);
        let (other_text, theirs) = made_up(&mut dice);
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
        let (executed_text, executed) = made_up(&mut dice);
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
