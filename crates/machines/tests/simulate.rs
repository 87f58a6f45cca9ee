//! Histories of a simulated farm in which everything goes wrong, played to the real machine.
//!
//! A seed is a history. One that breaks a rule prints what happened in the form of the golden
//! scenarios, and how to see it again: `HEDDLE_SEED=N cargo test -p machines --test simulate`.
//! `make test-sim` plays a million.

mod simulator;

use simulator::router::Planted;

fn seeds(from: u64, count: u64) {
    let mut happenings = 0;
    for seed in from..from + count {
        let outcome = simulator::play(seed, None, false);
        happenings += outcome.happenings;
        if !outcome.violations.is_empty() {
            let traced = simulator::play(seed, None, true);
            panic!(
                "{}\n{}\nseed {seed}; to see it again: HEDDLE_SEED={seed} cargo test -p machines --test simulate",
                traced.log,
                outcome.violations.join("\n")
            );
        }
    }
    assert!(happenings > count);
}

#[test]
fn histories() {
    match std::env::var("HEDDLE_SEED") {
        Ok(seed) => seeds(seed.parse().expect("a seed is a number"), 1),
        Err(_) => seeds(0, 2_000),
    }
}

#[test]
#[ignore = "make test-sim"]
fn a_million_histories() {
    let number = |name: &str, default| match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => default,
    };
    let (from, count) = (
        number("HEDDLE_SEED_FROM", 0),
        number("HEDDLE_SEEDS", 1_000_000),
    );
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let share = count / threads;
            scope.spawn(move || seeds(from + thread * share, share));
        }
    });
}

/// The seeds that are tried to find a planted fault.
const TRIES: u64 = 5_000;

fn found(planted: Planted) {
    let seed = (0..TRIES).find(|seed| {
        let outcome = simulator::play(*seed, Some(planted), false);
        !outcome.violations.is_empty()
    });
    assert!(
        seed.is_some(),
        "{planted:?} is not found in {TRIES} histories"
    );
}

#[test]
fn planted_faults_are_found() {
    for planted in [
        Planted::NoDrain,
        Planted::ByApplied,
        Planted::EarlyFollow,
        Planted::Deaf,
        Planted::LateRecord,
        Planted::EarlyAcks,
        Planted::NoHalt,
    ] {
        found(planted);
    }
}
