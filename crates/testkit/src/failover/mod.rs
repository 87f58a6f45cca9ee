//! The proof of failover: a farm under load through one Heddle address, a fault, and a judgement of
//! what clients saw and of what stands on every server afterwards.
//!
//! A round: clients of all kinds ([`load`]) and rivals that try to write to every server past Heddle
//! ([`rivals`]) work; something fails ([`nemesis`]); when the group is whole again and every client
//! has gone on, all end, the servers catch up, and the data is judged ([`verdict`]): acknowledged
//! writes are there exactly once on every server, unanswered ones once or not at all, sums are kept,
//! reads had what they were promised, no client saw an error that it must not see, and never did two
//! servers acknowledge writes at one time. Rounds follow each other on one farm, so that roles rotate
//! and what one round wrote is still judged in the next.

mod blow;
pub mod cost;
pub mod ledger;
pub mod load;
pub mod nemesis;
mod reader;
pub mod relay;
pub mod report;
pub mod rivals;
pub mod rounds;
mod routers;
pub mod site;
pub mod stop;
mod strike;
mod teller;
pub mod verdict;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ::farm::Engine;

use crate::client::{Client, Failure};
use crate::holds_within;

use ledger::{Ledger, Outcome, now_us};
use load::{Dice, Load, TELLERS, WRITERS};
use nemesis::Nemesis;
use report::{APART, Report};
use rivals::{Ack, Rivals};
use site::Site;
use verdict::{Known, Verdict};

/// Acknowledged writes of each client before and after a fault.
const WRITES_EACH: u64 = 20;

/// For clients to have so many, on a loaded machine and through a failover.
const PATIENCE: Duration = Duration::from_secs(90);

/// Lines of Heddle's messages shown with a failed round.
const MESSAGES_MAX: usize = 80;

/// A farm that goes through rounds.
pub struct Proof {
    pub site: Site,
    known: Known,
    /// The last round could not be judged, so that `known` is old.
    unjudged: bool,
    round: u64,
}

/// What a round left behind when its clients have ended.
struct Aftermath {
    first: usize,
    /// The time of the last event before it.
    marker: String,
    ledgers: Vec<Ledger>,
    acks: Vec<Ack>,
    begun_us: u64,
    struck_us: u64,
    ended_us: u64,
    wrong: Vec<String>,
}

impl Proof {
    /// Makes the tables of the proof on this farm.
    ///
    /// # Panics
    /// When they cannot be made.
    pub fn new(mut site: Site) -> Proof {
        let mut client = site.client();
        load::make_tables(&mut client);
        rivals::make_account(&mut client);
        let ready = site.settle().and_then(|()| site.catch_up());
        ready.expect("a new farm is whole");
        Proof {
            site,
            known: Known::new(),
            unjudged: false,
            round: 0,
        }
    }

    /// One round with this fault.
    pub fn round(&mut self, nemesis: Nemesis, seed: u64) -> Report {
        self.round_with(nemesis, seed, |_| {})
    }

    /// The same; `meddle` may change the data between the end of the load and the judgement.
    pub fn round_with(
        &mut self,
        nemesis: Nemesis,
        seed: u64,
        meddle: impl FnOnce(&Site),
    ) -> Report {
        let mut after = self.play(nemesis, seed);
        let mut wrong = std::mem::take(&mut after.wrong);
        wrong.extend(self.site.settle().err());
        wrong.extend(self.site.catch_up().err());
        meddle(&self.site);
        let terms = self.site.terms_after(after.first, &after.marker);
        wrong.extend(rivals::overlaps(&after.acks, &terms));
        if nemesis.keeps_primary() && terms.len() > 1 {
            wrong.push(format!("a false failover: the primaries were {terms:?}"));
        }
        let mut report = report(nemesis, seed, &after);
        report.known_ms = self.site.known_ms(&after.marker);
        report.steps = self.site.steps_after(&after.marker);
        let mut ledger = Ledger::default();
        for one in std::mem::take(&mut after.ledgers) {
            ledger.absorb(one);
        }
        match self.judge(&ledger, &after.acks) {
            Ok(verdict) => {
                (report.lost, report.doubled) = (verdict.lost, verdict.doubled);
                wrong.extend(verdict.wrong.texts);
                let (there, all) = verdict.unanswered;
                if all > 0 {
                    let note = format!("{there} of {all} unanswered writes are there");
                    report.notes.push(note);
                }
            }
            Err(failure) => {
                self.unjudged = true;
                wrong.push(format!("the data cannot be judged: {failure}"));
            }
        }
        wrong.extend(clients(&mut report, &ledger));
        report.wrong = wrong;
        if !report.is_good() {
            report.timeline = self.timeline(&after);
        }
        report
    }

    /// The load, the fault, and the end of the load when every client has gone on.
    fn play(&mut self, nemesis: Nemesis, seed: u64) -> Aftermath {
        self.round += 1;
        let settled = self.site.settle().err();
        let mut wrong: Vec<String> = settled
            .map(|lacks| format!("at the start: {lacks}"))
            .into_iter()
            .collect();
        let marker = self.site.latest_event();
        let first = self.site.primary().unwrap_or(0);
        if self.unjudged
            && let Ok(known) = Known::read(self.site.addresses()[first])
        {
            (self.known, self.unjudged) = (known, false);
        }
        let rivals = Rivals::start(&self.site.addresses(), first, self.round);
        let doors = self.site.routers.iter().map(|router| router.sql).collect();
        let load = Load::start(doors, self.round, seed, &self.known.counters);
        let stand = load.stand.clone();

        let begun_us = now_us();
        if !holds_within(PATIENCE, || stand.fewest() >= WRITES_EACH) {
            wrong.push(format!("clients write too little: {:?}", stand.each()));
        }
        let before_us = now_us();
        let struck = nemesis.strike(&mut self.site, &stand, &mut Dice::new(seed));
        let struck_us = *struck.as_ref().unwrap_or(&before_us);
        wrong.extend(struck.err());
        wrong.extend(self.site.settle().err());
        let goal: Vec<u64> = stand
            .each()
            .iter()
            .map(|count| count + WRITES_EACH)
            .collect();
        let went_on = || {
            stand
                .each()
                .iter()
                .zip(&goal)
                .all(|(count, goal)| count >= goal)
        };
        if !holds_within(PATIENCE, went_on) {
            wrong.push(format!(
                "not every client goes on: {:?} of {goal:?}",
                stand.each()
            ));
        }
        let ended_us = now_us();
        Aftermath {
            first,
            marker,
            ledgers: load.end(),
            acks: rivals.end(),
            begun_us,
            struck_us,
            ended_us,
            wrong,
        }
    }

    fn judge(&mut self, ledger: &Ledger, acks: &[Ack]) -> Result<Verdict, Failure> {
        let servers = self.site.addresses();
        let primary = self.site.primary().unwrap_or(0);
        // Without semi-sync only Heddle waits for replicas, and rivals write past it.
        let safe = (self.site.engine() == Engine::MariaDb).then_some(acks);
        verdict::judge(&servers, primary, self.round, ledger, safe, &mut self.known)
    }

    /// Heddle's events since the round began, and the end of its messages.
    fn timeline(&self, after: &Aftermath) -> String {
        let mut text = format!("  the fault came at {} ms\n", after.struck_us / 1000);
        for event in self.site.events_after(&after.marker) {
            let [when, kind, address, detail] =
                ["when", "event", "address", "detail"].map(|key| event[key].as_str().unwrap_or(""));
            let router = &event["router"];
            text.push_str(&format!("  {when} {router} {kind} {address} {detail}\n"));
        }
        for (number, router) in self.site.routers.iter().enumerate() {
            let messages = router.stderr();
            // The same message again and again would hide the others.
            let mut lines: Vec<&str> = messages.lines().collect();
            lines.dedup_by_key(|line| line.split_once(' ').map_or("", |(_, message)| message));
            for line in &lines[lines.len().saturating_sub(MESSAGES_MAX)..] {
                text.push_str(&format!("  {number}| {line}\n"));
            }
        }
        text
    }

    /// What makes acknowledged writes survive here, for tables of measurements.
    pub fn durability(&self) -> String {
        let pattern = "sync_binlog|innodb_flush_log_at_trx_commit|rpl_semi_sync_(master|slave)_\
                       (enabled|wait_point)|log_slave_updates";
        let sql = format!("SHOW GLOBAL VARIABLES WHERE Variable_name RLIKE '^({pattern})$'");
        let primary = self.site.primary();
        let mut text = String::new();
        for (index, node) in self.site.nodes().iter().enumerate() {
            let role = if primary == Some(index) {
                "primary"
            } else {
                "replica"
            };
            let rows = match Client::connect(node.direct, "root", "") {
                Ok(mut client) => client.rows(&sql),
                Err(failure) => vec![vec![Some(failure.to_string())]],
            };
            let pair = |row: &Vec<Option<String>>| {
                row.iter().flatten().cloned().collect::<Vec<_>>().join("=")
            };
            let pairs: Vec<String> = rows.iter().map(pair).collect();
            text.push_str(&format!("{} ({role}): {}\n", node.name, pairs.join(" ")));
        }
        text
    }
}

/// The times of a round: pauses of all and of each client.
fn report(nemesis: Nemesis, seed: u64, after: &Aftermath) -> Report {
    let writing = &after.ledgers[..(WRITERS + TELLERS) as usize];
    let gaps = |from: u64, to: u64| -> Vec<u64> {
        writing
            .iter()
            .map(|one| one.longest_gap_us(from, to))
            .collect()
    };
    let mut all = Ledger::default();
    for one in writing {
        all.writes.extend(one.writes.iter().cloned());
    }
    Report {
        nemesis,
        seed,
        pause_us: all.longest_gap_us(after.struck_us, after.ended_us),
        client_pauses_us: gaps(after.struck_us, after.ended_us),
        usual_us: gaps(after.begun_us, after.struck_us),
        acknowledged: 0,
        checked: 0,
        lost: 0,
        doubled: 0,
        errors: 0,
        apart: [0; 4],
        known_ms: Vec::new(),
        steps: Vec::new(),
        wrong: Vec::new(),
        notes: Vec::new(),
        timeline: String::new(),
    }
}

/// What clients saw; gives what they must not have seen.
fn clients(report: &mut Report, ledger: &Ledger) -> Vec<String> {
    let acknowledged = ledger
        .writes
        .iter()
        .filter(|w| w.outcome == Outcome::Acknowledged);
    report.acknowledged = acknowledged.count() as u64;
    report.checked = ledger.checked;
    report.apart = APART.map(|kind| ledger.errors(|one| one == kind));
    report.errors = ledger.errors(|kind| !kind.is_apart());
    let mut wrong = Vec::new();
    for (kind, tally) in &ledger.troubles {
        let text = format!("{} times {kind:?}: {:#?}", tally.count, tally.texts);
        if kind.is_apart() {
            report.notes.push(text);
        } else {
            wrong.push(text);
        }
    }
    let broken = &ledger.broken_promises;
    if broken.count > 0 {
        wrong.push(format!(
            "{} broken promises: {:#?}",
            broken.count, broken.texts
        ));
    }
    wrong
}

/// A seed that no other round of this process has, unless one is given.
pub fn next_seed(given: Option<u64>) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    given.unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed))
}
