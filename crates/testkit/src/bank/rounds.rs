//! Rounds one after the other on one farm: load, strikes, more load, the verdict.
//!
//! `BANK_ROUNDS`, `BANK_SEED` and `BANK_FAULTS` (names of [`Kind`]s, with spaces) of the environment say
//! how many, from which seed, and about what; with `BANK_KEEP` the farm's data and logs stay.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use faults::Plant;

use crate::failover::ledger::now_us;
use crate::failover::load::Dice;
use crate::failover::rounds::{alone, number, say};
use crate::history::Ended;
use crate::{Release, holds_within, wait_until};

use super::books::{Books, Entry};
use super::strike::{Kind, Strike, Struck, Target};
use super::{AUDITORS, Bank, CLIENTS, PATIENCE, auditor, teller};

/// Transfers that are acknowledged before and behind the strikes.
const TRANSFERS: u64 = 100;

/// Nothing may be prepared for longer behind the end of the load, when the farm is whole.
const PREPARED_MAX: Duration = Duration::from_secs(5);

/// A transfer that took so long is told of.
const SLOW_US: u64 = 10_000_000;

/// How a round went.
#[derive(Debug)]
pub struct Report {
    pub number: u64,
    pub seed: u64,
    pub strikes: Vec<Strike>,
    pub kills: usize,
    pub acknowledged: usize,
    pub undone: usize,
    pub unknown: usize,
    pub audits: u64,
    pub prepared: Duration,
    pub lasted_ms: u64,
    /// The transfer that took longest, if that was long.
    pub slowest: Option<String>,
    pub wrong: Vec<String>,
}

impl Report {
    /// One line, and one for each thing that is wrong.
    pub fn text(&self) -> String {
        let strikes: Vec<String> = self.strikes.iter().map(ToString::to_string).collect();
        let mut text = format!(
            "round {} (seed {}), {}: {} kills, {} acknowledged, {} undone, {} without an answer, {} \
             audits, nothing prepared after {} ms; {} ms\n",
            self.number,
            self.seed,
            strikes.join("; "),
            self.kills,
            self.acknowledged,
            self.undone,
            self.unknown,
            self.audits,
            self.prepared.as_millis(),
            self.lasted_ms,
        );
        if let Some(slowest) = &self.slowest {
            text.push_str(&format!("  slow: {slowest}\n"));
        }
        for wrong in &self.wrong {
            text.push_str(&format!("  WRONG: {wrong}\n"));
        }
        text
    }
}

/// What all rounds came to.
pub fn table(title: &str, reports: &[Report]) -> String {
    let sum = |of: fn(&Report) -> usize| reports.iter().map(of).sum::<usize>();
    let longest = reports
        .iter()
        .map(|it| it.prepared)
        .max()
        .unwrap_or_default();
    format!(
        "{title}: {} rounds, {} kills, {} transfers acknowledged, {} undone, {} without an answer, {} \
         audits; nothing prepared after {} ms at most; {} rounds with something wrong\n",
        reports.len(),
        sum(|it| it.kills),
        sum(|it| it.acknowledged),
        sum(|it| it.undone),
        sum(|it| it.unknown),
        reports.iter().map(|it| it.audits).sum::<u64>(),
        longest.as_millis(),
        reports.iter().filter(|it| !it.wrong.is_empty()).count(),
    )
}

/// All rounds on one farm.
///
/// # Panics
/// When something was wrong in one.
pub fn prove(title: &str, release: Release, replicas: u32, kinds: &[Kind], rounds: u64) {
    let kinds = asked(kinds);
    if kinds.is_empty() {
        return;
    }
    let _alone = alone();
    let Some(mut bank) = Bank::open(release, replicas) else {
        return;
    };
    if std::env::var_os("BANK_KEEP").is_some() {
        say(&format!("kept: {}\n", bank.farm.keep().display()));
    }
    let mut seed = number("BANK_SEED").unwrap_or_else(now_us);
    let first = seed;
    let rounds = number("BANK_ROUNDS").unwrap_or(rounds);
    let mut reports = Vec::new();
    for round in 0..rounds {
        let mut dice = Dice::new(seed);
        let number = first.wrapping_add(round);
        let count = kinds.len() as u64;
        let kind = kinds[usize::try_from(number % count).unwrap_or(0)];
        let strikes = kind.strikes(number / count, &mut dice);
        let report = bank.round(round, seed, strikes);
        say(&report.text());
        reports.push(report);
        seed = seed.wrapping_add(1);
    }
    say(&table(title, &reports));
    let wrong: Vec<&Report> = reports.iter().filter(|it| !it.wrong.is_empty()).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// The same farm with a mistake in it, struck so in each round: it is found in one of `rounds`.
///
/// # Panics
/// When it is not.
pub fn finds(plant: Plant, strikes: &[Strike], rounds: u64) {
    let _alone = alone();
    let Some(mut bank) = Bank::open(Release::Installed, 0) else {
        return;
    };
    bank.planted = Some(plant);
    for round in 0..rounds {
        let report = bank.round(round, round, strikes.to_vec());
        say(&report.text());
        let tells = ["the sum is", "in a circle", "missing in"];
        let found = |wrong: &String| tells.iter().any(|text| wrong.contains(text));
        if report.wrong.iter().any(found) {
            return;
        }
    }
    panic!("{plant:?} was not found");
}

/// Those of the environment.
fn asked(possible: &[Kind]) -> Vec<Kind> {
    let text = std::env::var("BANK_FAULTS").unwrap_or_default();
    let is_asked = |kind: &Kind| text.is_empty() || text.split(' ').any(|it| it == kind.name());
    possible.iter().copied().filter(is_asked).collect()
}

impl Bank {
    /// Load, these strikes one after the other, and the verdict.
    ///
    /// # Panics
    /// When the farm does not come back.
    pub fn round(&mut self, number: u64, seed: u64, strikes: Vec<Strike>) -> Report {
        self.clear();
        let began = now_us();
        let books = Arc::new(Books::default());
        let threads = self.start_clients(seed, &books);
        let mut wrong = Vec::new();
        let mut kills = 0;
        if !self.goes_on(&books) {
            wrong.push("the clients did not begin".to_owned());
        }
        self.plant();
        for strike in &strikes {
            kills += self.strike(*strike, &books);
        }
        if !strikes.is_empty() {
            self.unplant();
        }
        self.revive();
        if !self.goes_on(&books) {
            wrong.push("the clients did not go on".to_owned());
        }
        self.unplant();
        books.over.store(true, Ordering::Relaxed);
        let panicked = threads.into_iter().filter_map(|it| it.join().err()).count();
        if panicked > 0 {
            wrong.push(format!("{panicked} clients panicked"));
        }
        let prepared = self.nothing_prepared().unwrap_or_else(|why| {
            wrong.push(why);
            PATIENCE
        });
        // A loaded machine is no reason in the ordinary tests.
        if super::is_long() && prepared > PREPARED_MAX {
            wrong.push(format!(
                "something was prepared for {} ms",
                prepared.as_millis()
            ));
        }
        let audits = books.audits.load(Ordering::Relaxed);
        let Some(books) = Arc::into_inner(books) else {
            panic!("all clients have ended");
        };
        let (entries, trouble) = books.close();
        wrong.extend(trouble);
        wrong.extend(self.judge(&entries));
        let ends = |how| {
            let transfers = entries.iter().filter(|it| !it.moves.is_empty());
            transfers.filter(|it| it.transaction.ended == how).count()
        };
        Report {
            number,
            seed,
            strikes,
            kills,
            acknowledged: ends(Ended::Committed),
            undone: ends(Ended::Undone),
            unknown: ends(Ended::Unknown),
            audits,
            prepared,
            lasted_ms: (now_us() - began) / 1000,
            slowest: slowest(&entries),
            wrong,
        }
    }

    fn start_clients(&self, seed: u64, books: &Arc<Books>) -> Vec<JoinHandle<()>> {
        let address = self.address();
        let tellers = (0..CLIENTS).map(|client| {
            let (books, next) = (Arc::clone(books), Arc::clone(&self.next));
            std::thread::spawn(move || teller::run(address, client, seed, &next, &books))
        });
        let auditors = AUDITORS.map(|kind| {
            let (books, next) = (Arc::clone(books), Arc::clone(&self.next));
            std::thread::spawn(move || auditor::run(address, kind, &next, &books))
        });
        tellers.chain(auditors).collect()
    }

    /// The mistake is made from now on.
    fn plant(&self) {
        if let Some(planted) = self.planted {
            let file = self.farm.faults().join(planted.name());
            std::fs::write(file, "").expect("a temporary directory takes files");
        }
    }

    fn unplant(&self) {
        if let Some(planted) = self.planted {
            // It may be gone already.
            let _ = std::fs::remove_file(self.farm.faults().join(planted.name()));
        }
    }

    /// Waits for more transfers.
    fn goes_on(&mut self, books: &Books) -> bool {
        let count = || books.acknowledged.load(Ordering::Relaxed);
        let before = count();
        holds_within(PATIENCE, || count() >= before + TRANSFERS)
    }

    /// Lays one fault, waits until it strikes, and until its process is gone; gives the kills.
    fn strike(&mut self, strike: Strike, books: &Books) -> usize {
        let router = strike.target == Target::Router;
        if router {
            books.struck.store(true, Ordering::Relaxed);
        }
        if strike.point.is_none() || !router {
            self.revive();
        }
        let Some(pid) = self.lay(strike) else {
            books.complain(format!("{strike}: the group has no primary"));
            return 0;
        };
        if !self.farm.is_running() {
            self.farm.begin_again();
        }
        if self.strike_lands(strike, pid) == Struck::Missed {
            return 0;
        }
        wait_until(PATIENCE, "the end of what was struck", || match router {
            true => !self.farm.is_running(),
            false => !is_alive(pid),
        });
        1
    }

    /// The router runs, and serves.
    fn revive(&mut self) {
        if !self.farm.is_running() {
            self.farm.begin_again();
        }
        wait_until(PATIENCE, "a router that serves", || {
            assert!(self.farm.is_running(), "it ended: {}", self.farm.stderr());
            self.farm.is_ready()
        });
    }
}

/// The transfer that took longest, if that was long.
fn slowest(entries: &[Entry]) -> Option<String> {
    let lasted = |one: &Entry| {
        let transaction = &one.transaction;
        transaction.ended_us.saturating_sub(transaction.began_us)
    };
    let one = entries.iter().max_by_key(|one| lasted(one))?;
    let took = lasted(one);
    let transaction = &one.transaction;
    (took > SLOW_US).then(|| {
        format!(
            "transfer {} took {} ms from {}: {}",
            transaction.id,
            took / 1000,
            transaction.began_us,
            one.story
        )
    })
}

/// The process is there; one that has ended and was not waited for is not.
fn is_alive(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let state = status.lines().find(|line| line.starts_with("State:"));
    state.is_some_and(|line| !line.contains('Z') && !line.contains('X'))
}
