//! Histories of a simulated farm in which everything goes wrong, played to the real machine: with one
//! router, and with several that share a state store.
//!
//! A seed is a history. One that breaks a rule prints what happened in the form of the golden
//! scenarios, and how to see it again: `HEDDLE_SEED=N cargo test -p machines --test simulate`.
//! `make test-sim` plays a million.

mod simulator;

use simulator::Farm;
use simulator::router::Planted;

fn seeds(farm: Farm, from: u64, count: u64) {
    let mut happenings = 0;
    for seed in from..from + count {
        let outcome = simulator::play(seed, farm, None, false);
        happenings += outcome.happenings;
        if !outcome.violations.is_empty() {
            let traced = simulator::play(seed, farm, None, true);
            panic!(
                "{}\n{}\n{farm:?}, seed {seed}; to see it again: HEDDLE_SEED={seed} cargo test -p machines \
                 --test simulate",
                traced.log,
                outcome.violations.join("\n")
            );
        }
    }
    assert!(happenings > count);
}

/// The seeds that are wanted, or the first ones.
fn some(farm: Farm, count: u64) {
    match std::env::var("HEDDLE_SEED") {
        Ok(seed) => seeds(farm, seed.parse().expect("a seed is a number"), 1),
        Err(_) => seeds(farm, 0, count),
    }
}

#[test]
fn histories() {
    some(Farm::OneRouter, 2_000);
}

#[test]
fn histories_of_several_routers() {
    some(Farm::Routers, 100);
    some(Farm::NarrowMiss, 50);
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
    // A history of several routers lasts as long as ten of one.
    let shares: [(Farm, u64); 3] = [
        (Farm::OneRouter, count),
        (Farm::Routers, count / 20),
        (Farm::NarrowMiss, count / 50),
    ];
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for (farm, count) in shares {
                    let share = count.div_ceil(threads);
                    seeds(farm, from + thread * share, share);
                }
            });
        }
    });
}

/// The seeds that are tried to find a planted fault.
const TRIES: u64 = 5_000;

/// Rare ones are looked for from where one was found.
fn found(farm: Farm, planted: Planted, from: u64) {
    let seed = (from..from + TRIES).find(|seed| {
        let outcome = simulator::play(*seed, farm, Some(planted), false);
        !outcome.violations.is_empty()
    });
    assert!(
        seed.is_some(),
        "{planted:?} is not found in {TRIES} histories from {from} on"
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
        found(Farm::OneRouter, planted, 0);
    }
}

#[test]
fn planted_faults_of_several_routers_are_found() {
    for (planted, from) in [
        (Planted::AllAct, 0),
        (Planted::NoLease, 80),
        (Planted::NoTerms, 320),
        (Planted::Unfenced, 190),
        (Planted::NoResume, 20),
    ] {
        found(Farm::Routers, planted, from);
    }
    for (planted, from) in [(Planted::LateCut, 1_140), (Planted::NoExpiredRouters, 50)] {
        found(Farm::NarrowMiss, planted, from);
    }
}
