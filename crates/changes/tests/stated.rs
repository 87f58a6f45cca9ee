//! Statements with what they were run with, byte by byte turned into something else: nothing panics, and what is told is
//! JSON.

mod stating;

/// INTVAR, RAND, USER_VAR, a block, the statement of a LOAD DATA, and one with a session's variables.
fn events() -> Vec<u8> {
    let mut all = Vec::new();
    let mut add = |kind: u8, data: &[u8]| {
        all.push(kind);
        all.push(u8::try_from(data.len()).expect("short"));
        all.extend(data);
    };
    add(5, &[2, 9, 0, 0, 0, 0, 0, 0, 0]);
    add(13, &[1; 16]);
    let mut variable = vec![1, 0, 0, 0, b'a', 0, 0, 45, 0, 0, 0, 2, 0, 0, 0];
    variable.extend(b"xy\0");
    add(14, &variable);
    add(17, b"\x03\0\0\0one,two");
    let mut status = vec![0, 0, 0, 0, 4, 1, 0, 0, 0x20, 0, 0, 0, 0, 0];
    status.extend([4, 45, 0, 45, 0, 8, 0, 5, 6]);
    status.extend(b"SYSTEM");
    status.extend([11, 1, b'u', 1, b'h', 12, 1, b'd', 0, 128, 5, 0, 0]);
    let mut head = vec![5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0];
    head.extend(u16::try_from(status.len()).expect("short").to_le_bytes());
    let tail = |text: &str| [&status[..], b"d\0", text.as_bytes()].concat();
    let load = [&head[..], &[3, 0, 0, 0, 9, 0, 0, 0, 20, 0, 0, 0, 0]].concat();
    add(
        18,
        &[load, tail("LOAD DATA INFILE 'x' INTO TABLE t")].concat(),
    );
    add(2, &[head, tail("CREATE TABLE t (a INT)")].concat());
    all
}

#[test]
fn statements_are_told_in_both_forms() {
    // begin, block, statement, ddl, commit.
    assert_eq!(stating::check(&events()), 10);
}

#[test]
fn the_events_are_the_seed_of_the_fuzz_target() {
    let seed = include_bytes!("../corpus/changes_statement/all");
    assert!(
        *seed == *events(),
        "write them to corpus/changes_statement/all"
    );
}

#[test]
fn statements_with_other_bytes_do_no_harm() {
    let events = events();
    for at in 0..events.len() {
        for flip in [0xFF, 0x01, 0x80] {
            let mut flipped = events.clone();
            flipped[at] ^= flip;
            stating::check(&flipped);
        }
        stating::check(&events[..at]);
    }
}
