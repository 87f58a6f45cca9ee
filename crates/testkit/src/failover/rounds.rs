//! Rounds one after the other on one farm, as many and with such faults as the environment says.
//!
//! `FAILOVER_ROUNDS` for each fault, `FAILOVER_FAULTS` (names, with spaces; all by default),
//! `FAILOVER_SEED` of the first round, `FAILOVER_KEEP` keeps the data of a farm that failed,
//! `FAILOVER_THINK_MS` between two statements of a client.

use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::nemesis::Nemesis;
use super::report::{Report, table};
use super::site::Site;
use super::{Proof, next_seed};

/// Farms under load do not run side by side: they would measure each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A number of the environment.
///
/// # Panics
/// When it is none.
pub fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

/// Past the test runner, which would keep it to itself: the table is what a bench is for.
pub fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// Those of the environment that this farm can go through; without any, all of them.
fn faults(possible: &[Nemesis]) -> Vec<Nemesis> {
    let text = std::env::var("FAILOVER_FAULTS").unwrap_or_default();
    if text.is_empty() {
        return possible.to_vec();
    }
    let named = |name: &str| {
        let known = Nemesis::ALL.map(Nemesis::name).join(", ");
        Nemesis::named(name).unwrap_or_else(|| panic!("no fault {name}; there are {known}"))
    };
    let asked: Vec<Nemesis> = text.split_whitespace().map(named).collect();
    asked
        .into_iter()
        .filter(|fault| possible.contains(fault))
        .collect()
}

/// All rounds on one farm; prints the table.
///
/// # Panics
/// When a round was bad.
pub fn prove(title: &str, possible: &[Nemesis], site: impl FnOnce() -> Option<Site>) {
    let faults = faults(possible);
    if faults.is_empty() {
        return;
    }
    let _alone = alone();
    let Some(mut proof) = site().map(Proof::new) else {
        return;
    };
    let rounds = number("FAILOVER_ROUNDS").unwrap_or(1);
    let mut seed = number("FAILOVER_SEED");
    let mut reports: Vec<Report> = Vec::new();
    for _ in 0..rounds {
        for &fault in &faults {
            let report = proof.round(fault, next_seed(seed));
            seed = seed.map(|seed| seed + 1);
            say(&report.text());
            reports.push(report);
        }
    }
    say(&format!(
        "{}\n{}",
        table(title, &reports),
        proof.durability()
    ));
    let bad = reports.iter().filter(|report| !report.is_good()).count();
    if bad > 0 && std::env::var_os("FAILOVER_KEEP").is_some() {
        say(&format!(
            "kept: {}\n",
            proof.site.routers[0].keep().display()
        ));
    }
    assert_eq!(bad, 0, "rounds that failed of {}", reports.len());
}
