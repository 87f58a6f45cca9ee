//! Rows of shards against what one server would send.

use super::*;

fn row(text: &str) -> Row {
    let value = |word: &str| (word != "-").then(|| word.as_bytes().to_vec());
    text.split(' ').map(value).collect()
}

/// The result, one row a line.
fn merged(plan: Plan, shards: &[&[&str]]) -> Vec<String> {
    let mut sources: Vec<_> = shards.iter().map(|rows| rows.iter()).collect();
    let mut merge = Merge::new(plan, shards.len());
    let mut result = Vec::new();
    loop {
        match merge.step().expect("numbers") {
            Next::Needs(shard) => {
                let next = sources[shard].next().map(|text| row(text));
                merge.take(shard, next).expect("whole rows");
            }
            Next::Row(row) => {
                let word = |value: Option<Vec<u8>>| {
                    value.map_or("-".to_owned(), |text| {
                        String::from_utf8_lossy(&text).into_owned()
                    })
                };
                result.push(row.into_iter().map(word).collect::<Vec<_>>().join(" "));
            }
            Next::End => return result,
            Next::TooLong => return vec!["too long".to_owned()],
        }
    }
}

fn by(column: usize, comparison: Comparison, descending: bool) -> Key {
    Key {
        column,
        comparison,
        descending,
    }
}

#[test]
fn rows_in_any_order_are_appended() {
    let plan = Plan {
        visible: 1,
        offset: 1,
        limit: Some(2),
        ..Plan::default()
    };
    assert_eq!(merged(plan, &[&["a"], &["b", "c"], &["d"]]), ["b", "c"]);
    let nothing = Plan {
        limit: Some(0),
        visible: 1,
        ..Plan::default()
    };
    assert_eq!(merged(nothing, &[&["a"]]), Vec::<String>::new());
}

#[test]
fn rows_out_of_order_are_an_error() {
    for descending in [false, true] {
        let plan = Plan {
            order: vec![by(0, Comparison::Number, descending)],
            visible: 1,
            ..Plan::default()
        };
        let mut merge = Merge::new(plan, 1);
        let mut outcomes = Vec::new();
        for text in ["-", "7", "7", "12"] {
            assert_eq!(merge.step(), Ok(Next::Needs(0)));
            merge.take(0, Some(row(text))).expect("a whole row");
            outcomes.push(matches!(merge.step(), Ok(Next::Row(_))));
        }
        assert_eq!(outcomes, [true, !descending, !descending, !descending]);
    }
}

#[test]
fn rows_in_order_are_merged_by_hidden_keys() {
    let plan = Plan {
        order: vec![
            by(1, Comparison::Bytes, true),
            by(0, Comparison::Decimal, false),
        ],
        visible: 1,
        ..Plan::default()
    };
    let first: &[&str] = &["9 z", "1 m", "10 m", "3 -"];
    let second: &[&str] = &["8 z", "2 m"];
    assert_eq!(
        merged(plan, &[first, second]),
        ["8", "9", "1", "2", "10", "3"]
    );
}

#[test]
fn groups_are_added_up() {
    let exact = Some(4);
    let plan = Plan {
        order: vec![by(5, Comparison::Bytes, false)],
        aggregates: vec![
            Aggregate::First,
            Aggregate::Sum,
            Aggregate::Average {
                count: 1,
                places: exact,
            },
            Aggregate::Greatest(Comparison::Decimal),
            Aggregate::SumDouble,
            Aggregate::First,
        ],
        visible: 5,
        ..Plan::default()
    };
    let first: &[&str] = &["a 2 5.0 9 0.5 a", "b 0 - - - b"];
    let second: &[&str] = &["A 1 -1.0 10 0.25 a", "c 1 1.5 -3 1e300 c"];
    assert_eq!(
        merged(plan, &[first, second]),
        ["a 3 1.33333 10 0.75", "b 0 - - -", "c 1 1.50000 -3 1e300"]
    );
}

#[test]
fn without_groups_there_is_one_row() {
    let plan = Plan {
        aggregates: vec![Aggregate::Sum, Aggregate::Least(Comparison::Bytes)],
        visible: 2,
        ..Plan::default()
    };
    assert_eq!(merged(plan, &[&["3 b"], &["0 -"], &["4 a"]]), ["7 a"]);
}

#[test]
fn what_is_no_number_is_told() {
    let plan = Plan {
        aggregates: vec![Aggregate::Sum],
        visible: 1,
        ..Plan::default()
    };
    let mut merge = Merge::new(plan, 1);
    merge.take(0, Some(row("x"))).expect("a column");
    assert!(matches!(merge.step(), Err(Odd(why)) if why.contains("no number")));
    assert!(merge.take(0, Some(Vec::new())).is_err());
}

#[test]
fn means_have_the_digits_of_the_shards_averages() {
    let plan = Plan {
        aggregates: vec![
            Aggregate::Mean { sum: 1, count: 2 },
            Aggregate::Sum,
            Aggregate::Sum,
        ],
        visible: 1,
        ..Plan::default()
    };
    let shards: [&[&str]; 3] = [&["1.250000 2.50 2"], &["- - 0"], &["0.000000 0.00 1"]];
    assert_eq!(merged(plan.clone(), &shards), ["0.833333"]);
    assert_eq!(merged(plan, &[&["- - 0"], &["- - 0"]]), ["-"]);
}

#[test]
fn groups_are_chosen_and_sorted_by_their_whole() {
    let plan = Plan {
        order: vec![by(0, Comparison::Bytes, false)],
        aggregates: vec![Aggregate::First, Aggregate::Sum],
        having: vec![Having {
            column: 1,
            orders: vec![Ordering::Greater],
            number: "2".to_owned(),
        }],
        sort: vec![by(1, Comparison::Number, true)],
        offset: 1,
        limit: Some(2),
        visible: 2,
        ..Plan::default()
    };
    let shards: [&[&str]; 2] = [
        &["a 1", "b 5", "c 9", "e 1", "f 3"],
        &["a 1", "b 6", "d 10", "e 8", "g -"],
    ];
    assert_eq!(merged(plan, &shards), ["d 10", "c 9"]);
}

#[test]
fn a_weight_chooses_its_value() {
    let best = |greatest| Plan {
        aggregates: vec![
            Aggregate::Best {
                weight: 1,
                how: Comparison::Padded,
                greatest,
            },
            Aggregate::Weight,
        ],
        visible: 1,
        ..Plan::default()
    };
    let shards: [&[&str]; 4] = [&["- -"], &["b 2__"], &["A 1_"], &["C 3_"]];
    assert_eq!(merged(best(true), &shards), ["C"]);
    assert_eq!(merged(best(false), &shards), ["A"]);
    assert_eq!(merged(best(false), &[&["- -"], &["- -"]]), ["-"]);
}

#[test]
fn blanks_at_the_end_are_nothing() {
    let plan = Plan {
        order: vec![by(0, Comparison::Padded, false)],
        aggregates: vec![Aggregate::First, Aggregate::Sum],
        visible: 2,
        ..Plan::default()
    };
    let shards: [&[&str]; 2] = [&["ss__ 1", "t___ 1"], &["ss____ 1", "st____ 1"]];
    assert_eq!(merged(plan, &shards), ["ss__ 2", "st____ 1", "t___ 1"]);
}

#[test]
fn bits_of_whole_numbers_are_put_together() {
    let bits = |how| Plan {
        aggregates: vec![Aggregate::Bits(how)],
        visible: 1,
        ..Plan::default()
    };
    // Without rows a shard says what changes nothing.
    let shards: [&[&str]; 3] = [&["18446744073709551615"], &["6"], &["12"]];
    assert_eq!(merged(bits(Bits::And), &shards), ["4"]);
    assert_eq!(merged(bits(Bits::Or), &[&["0"], &["6"], &["12"]]), ["14"]);
    assert_eq!(merged(bits(Bits::Xor), &[&["0"], &["6"], &["12"]]), ["10"]);
}

/// Groups with their lists in order, which may have so many bytes.
fn lists(most: &str, shards: &[&[&str]]) -> Vec<String> {
    let plan = Plan {
        order: vec![by(0, Comparison::Bytes, false)],
        aggregates: vec![Aggregate::First, Aggregate::List(0), Aggregate::First],
        lists: vec![List {
            separator: b",".to_vec(),
            around: Around::Nothing,
            order: Some((Comparison::Number, false)),
            most: Some(2),
        }],
        offset: 1,
        visible: 2,
        ..Plan::default()
    };
    let with_most = |rows: &&[&str]| -> Vec<String> {
        rows.iter().map(|row| format!("{row} {most}")).collect()
    };
    let rows: Vec<Vec<String>> = shards.iter().map(with_most).collect();
    let rows: Vec<Vec<&str>> = rows
        .iter()
        .map(|it| it.iter().map(String::as_str).collect())
        .collect();
    let rows: Vec<&[&str]> = rows.iter().map(Vec::as_slice).collect();
    merged(plan, &rows)
}

#[test]
fn lists_become_one_and_no_row_is_given_before_all_are_known_to_fit() {
    let shards: [&[&str]; 3] = [&["a 1", "b 2,10", "d -"], &["b 9", "c 3,4,4,5"], &["d -"]];
    assert_eq!(lists("1024", &shards), ["b 2,9,10", "c 3,4,4,5", "d -"]);
    assert_eq!(lists("10", &shards), ["too long"]);
}
