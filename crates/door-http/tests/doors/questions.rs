//! The fuzz target's seeds, and many bodies that are a little different from them.

use crate::asking;

use std::fs;
use std::path::Path;

use fastrand::Rng;

#[test]
fn what_is_nearly_a_question_breaks_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/peer_question");
    let mut seeds: Vec<_> = fs::read_dir(folder)
        .expect("the fuzz target has seeds")
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    seeds.sort();
    // The same in every run.
    let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    for seed in seeds {
        let text = fs::read(&seed).expect("a seed is a file");
        asking::check(&text);
        for _ in 0..1000 {
            let mut changed = text.clone();
            for _ in 0..=random.usize(..4) {
                let at = random.usize(..changed.len().max(1));
                match random.usize(..3) {
                    0 => changed[at] = b"{}[]\",:\\0-9eu\x00\x80"[random.usize(..15)],
                    1 => drop(changed.remove(at)),
                    _ => changed.insert(at, b"{}[]\",:\\u1"[random.usize(..10)]),
                }
            }
            asking::check(&changed);
        }
    }
}

#[test]
fn questions_that_are_none_are_told_apart() {
    let said = |body: &str| door_http::peers::asked(body.as_bytes());
    let call = said(r#"{"protocol":1,"call":{"group":"manage","command":"ping"}}"#);
    let call = call.expect("a question");
    assert!(call.from_peer && call.args.is_empty());
    let newer = said(r#"{"protocol":9,"call":7}"#).expect_err("newer");
    assert!(newer.contains("form 9"), "{newer}");
    for none in [
        "",
        "GET / HTTP/1.1",
        "[]",
        r#"{"protocol":1}"#,
        r#"{"protocol":1,"call":{"group":"manage"}}"#,
        r#"{"protocol":-1,"call":{"group":"manage","command":"ping"}}"#,
    ] {
        let error = said(none).expect_err("no question");
        assert!(error.contains("cannot be read"), "{none}: {error}");
    }
    let deep = format!("{{\"protocol\":1,\"x\":{}", "[".repeat(100_000));
    said(&deep).expect_err("too deep");
}
