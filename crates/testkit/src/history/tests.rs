//! Histories that are in order, and those in which one thing is wrong.

use std::collections::BTreeMap;

use super::{Anomaly, Ended, Id, Key, Places, Reads, Transaction, check};

fn writes(id: Id, appends: &[Key]) -> Transaction {
    Transaction {
        id,
        session: id,
        ended: Ended::Committed,
        appends: appends.to_vec(),
        kind: Reads::Locked,
        reads: Vec::new(),
        began_us: 0,
        ended_us: u64::MAX,
    }
}

fn reads(id: Id, reads: &[(Key, &[Id])]) -> Transaction {
    Transaction {
        kind: Reads::Snapshot,
        reads: reads.iter().map(|(k, list)| (*k, list.to_vec())).collect(),
        ..writes(id, &[])
    }
}

fn lists(of: &[(Key, &[Id])]) -> BTreeMap<Key, Vec<Id>> {
    of.iter().map(|(key, list)| (*key, list.to_vec())).collect()
}

/// The first thing that is wrong, as text; all lists are of one group.
fn wrong(history: &[Transaction], last: &[(Key, &[Id])]) -> String {
    let places = last.iter().map(|(key, _)| (*key, 1));
    wrong_on(history, last, places)
}

/// The same; lists are of these groups.
fn wrong_on(
    history: &[Transaction],
    last: &[(Key, &[Id])],
    places: impl IntoIterator<Item = (Key, u32)>,
) -> String {
    let found = check(history, &lists(last), &Places::from_iter(places));
    found.first().map_or(String::new(), Anomaly::to_string)
}

#[test]
fn nothing_is_wrong_with_one_order() {
    let history = [
        writes(1, &[10, 20]),
        writes(2, &[20, 30]),
        reads(3, &[(10, &[1]), (20, &[1]), (30, &[])]),
        reads(4, &[(10, &[1]), (20, &[1, 2]), (30, &[2])]),
    ];
    assert_eq!(
        wrong(&history, &[(10, &[1]), (20, &[1, 2]), (30, &[2])]),
        ""
    );
}

#[test]
fn what_was_acknowledged_is_there() {
    let text = wrong(&[writes(1, &[10, 20])], &[(10, &[1])]);
    assert_eq!(text, "1 was acknowledged and is not in 20");
    let undone = Transaction {
        ended: Ended::Undone,
        ..writes(1, &[10])
    };
    assert_eq!(wrong(&[undone], &[(10, &[1])]), "1 was undone and is in 10");
}

#[test]
fn a_half_is_found_whatever_was_said() {
    let unknown = Transaction {
        ended: Ended::Unknown,
        ..writes(1, &[10, 20])
    };
    let half = wrong(std::slice::from_ref(&unknown), &[(10, &[1]), (20, &[])]);
    assert_eq!(half, "1 is in [10] and missing in [20]");
    assert_eq!(wrong(std::slice::from_ref(&unknown), &[]), "");
    assert_eq!(wrong(&[unknown], &[(10, &[1]), (20, &[1])]), "");
}

#[test]
fn writes_come_once_and_from_somebody() {
    let text = wrong(&[writes(1, &[10])], &[(10, &[1, 1])]);
    assert_eq!(text, "1 is twice in 10");
    let text = wrong(&[writes(1, &[10])], &[(10, &[1, 7])]);
    assert_eq!(text, "7 is in 10, where nobody put it");
}

#[test]
fn nobody_reads_what_was_undone() {
    let plain = Transaction {
        kind: Reads::Plain,
        ..reads(2, &[(10, &[1])])
    };
    let undone = Transaction {
        ended: Ended::Undone,
        ..writes(1, &[10])
    };
    let text = wrong(&[undone, plain], &[(10, &[])]);
    assert_eq!(text, "2 read of 10 what was never there");
}

#[test]
fn half_a_transaction_in_a_snapshot() {
    let history = [writes(1, &[10, 20]), reads(2, &[(10, &[1]), (20, &[])])];
    let text = wrong(&history, &[(10, &[1]), (20, &[1])]);
    assert_eq!(text, "in a circle: 2 came after 1 and read 20 without 1;");
    // A plain reader may see that.
    let plain = Transaction {
        kind: Reads::Plain,
        ..history[1].clone()
    };
    let history = [history[0].clone(), plain];
    assert_eq!(wrong(&history, &[(10, &[1]), (20, &[1])]), "");
}

/// Two snapshots that see two writers in different orders.
#[test]
fn snapshots_agree_on_the_order() {
    let history = [
        writes(1, &[10]),
        writes(2, &[20]),
        reads(3, &[(10, &[1]), (20, &[])]),
        reads(4, &[(10, &[]), (20, &[2])]),
    ];
    let text = wrong(&history, &[(10, &[1]), (20, &[2])]);
    assert!(text.starts_with("in a circle:"), "{text}");
    // Which writers that skew past each other may look like.
    let text = wrong(&history[..3], &[(10, &[1]), (20, &[2])]);
    assert_eq!(text, "");
}

/// Views of the groups are opened one behind the other, and who writes on one group is not held up.
#[test]
fn snapshots_need_not_agree_on_what_keeps_to_one_group_each() {
    let last: [(Key, &[Id]); 3] = [(10, &[1]), (20, &[2]), (30, &[])];
    let forked = [
        writes(1, &[10]),
        writes(2, &[20]),
        reads(3, &[(10, &[1]), (20, &[])]),
        reads(4, &[(10, &[]), (20, &[2])]),
    ];
    let places = [(10, 1), (20, 2), (30, 3)];
    assert_eq!(wrong_on(&forked, &last, places), "");
    // On one group they have one order, and if one of them crosses as well.
    let text = wrong_on(&forked, &last, [(10, 1), (20, 1)]);
    assert!(text.starts_with("in a circle:"), "{text}");
    let mut dist_txn = forked.clone();
    dist_txn[0] = writes(1, &[10, 30]);
    let last: [(Key, &[Id]); 3] = [(10, &[1]), (20, &[2]), (30, &[1])];
    let text = wrong_on(&dist_txn, &last, places);
    assert!(text.starts_with("in a circle:"), "{text}");
}

/// Others of their groups, behind those that cross, hide nothing.
#[test]
fn half_of_a_dist_txn_behind_others_is_found() {
    let history = [
        writes(1, &[10, 20]),
        writes(2, &[10]),
        writes(3, &[20]),
        reads(4, &[(10, &[1, 2]), (20, &[])]),
    ];
    let places = [(10, 1), (20, 2)];
    let text = wrong_on(&history, &[(10, &[1, 2]), (20, &[1, 3])], places);
    assert_eq!(text, "in a circle: 4 came after 1 and read 20 without 1;");
    let text = wrong_on(&history, &[(10, &[1, 2]), (20, &[3, 1])], places);
    assert_eq!(text, "in a circle: 4 came after 1 and read 20 without 1;");
}

#[test]
fn conflicting_ones_have_one_order_on_all_lists() {
    let history = [writes(1, &[10, 20]), writes(2, &[10, 20])];
    let text = wrong(&history, &[(10, &[1, 2]), (20, &[2, 1])]);
    assert_eq!(
        text,
        "in a circle: 2 wrote to 10 behind 1; 1 wrote to 20 behind 2;"
    );
}

/// Each missed the other's write: nothing that locks what it reads may.
#[test]
fn what_locking_reads_see_holds() {
    let skewed = |id: Id, reads: Key, writes_to: Key| Transaction {
        reads: vec![(reads, Vec::new())],
        ..writes(id, &[writes_to])
    };
    let text = wrong(
        &[skewed(1, 10, 20), skewed(2, 20, 10)],
        &[(10, &[2]), (20, &[1])],
    );
    assert!(text.starts_with("in a circle:"), "{text}");
}

#[test]
fn a_session_reads_what_it_wrote() {
    let write = writes(1, &[10]);
    let read = Transaction {
        session: 1,
        ..reads(2, &[(10, &[])])
    };
    let text = wrong(&[write, read], &[(10, &[1])]);
    assert_eq!(text, "in a circle: 2 came after 1 and read 10 without 1;");
}

#[test]
fn what_was_acknowledged_before_is_seen() {
    let write = Transaction {
        ended_us: 5,
        ..writes(1, &[10])
    };
    let read = |began_us| Transaction {
        began_us,
        ..reads(2, &[(10, &[])])
    };
    let late = wrong(&[write.clone(), read(6)], &[(10, &[1])]);
    assert_eq!(late, "2 read 10 without 1, acknowledged before");
    assert_eq!(wrong(&[write, read(5)], &[(10, &[1])]), "");
}

/// A small generator of numbers that a seed repeats.
fn next(seed: &mut u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *seed >> 33
}

/// Transactions one after the other, with snapshots between them; snapshots take all of a moment, and
/// with `half`, once, half of a transaction.
fn serial(seed: u64, half: bool) -> (Vec<Transaction>, BTreeMap<Key, Vec<Id>>) {
    let mut seed = seed;
    let mut last = BTreeMap::<Key, Vec<Id>>::new();
    let mut history = Vec::new();
    let mut planted = !half;
    for id in 0..200 {
        let session = next(&mut seed) % 4;
        let read = |last: &BTreeMap<Key, Vec<Id>>| {
            let lists = (0..8).map(|key| (key, last.get(&key).cloned().unwrap_or_default()));
            Transaction {
                reads: lists.collect(),
                session,
                ..reads(1000 + id, &[])
            }
        };
        if id % 5 == 0 {
            history.push(read(&last));
        }
        let first = next(&mut seed) % 8;
        let second = (first + 1 + next(&mut seed) % 7) % 8;
        let mut one = writes(id, &[first, second]);
        one.session = next(&mut seed) % 4;
        one.reads = vec![(first, last.get(&first).cloned().unwrap_or_default())];
        if next(&mut seed).is_multiple_of(10) {
            one.ended = Ended::Undone;
            one.reads.clear();
        } else {
            last.entry(first).or_default().push(id);
            if !planted && id > 100 {
                planted = true;
                history.push(Transaction {
                    id: 5000,
                    session: 99,
                    ..read(&last)
                });
            }
            last.entry(second).or_default().push(id);
        }
        history.push(one);
    }
    (history, last)
}

#[test]
fn one_after_the_other_is_in_order_and_half_a_one_is_found() {
    for seed in 0..50 {
        let (history, last) = serial(seed, false);
        let places: Places = (0..8).map(|key| (key, u32::from(key > 3))).collect();
        assert_eq!(check(&history, &last, &places), [], "seed {seed}");
        let (history, last) = serial(seed, true);
        let found = check(&history, &last, &Places::new());
        let circle = matches!(&found[..], [Anomaly::Cycle(edges)] if edges.len() == 1);
        assert!(circle, "seed {seed}: {found:?}");
    }
}
