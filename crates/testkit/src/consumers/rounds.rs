//! A proof from its beginning to its end: faults one after the other, and in between comparisons.
//!
//! `KILLS` of the environment says how many processes are killed, `CHANGES_SEED` which ones and when, `CHANGES_FAULTS` (names
//! of [`Kind`]s, with spaces) of which kinds; with `CHANGES_KEEP` the farm's data and logs stay.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use serde_json::Value;

use crate::Release;
use crate::changes::{Lines, ask};
use crate::failover::load::Dice;
use crate::failover::rounds::{alone, number, say};

use super::copy::{Copy, Told};
use super::planted::{Planted, plant};
use super::{Kind, Proof, consumer, load, rows_of};

/// Between two faults so many transactions are acknowledged.
const TRANSACTIONS: u64 = 40;

/// Faults between two comparisons.
const FAULTS: u64 = 4;

/// Events in which mistakes are made.
const EVENTS: usize = 3000;

/// Kills processes until there are so many kills, or those of the environment; prints what was survived.
///
/// # Panics
/// When something was wrong.
pub fn prove(title: &str, release: Release, kills: u64) {
    let _alone = alone();
    let kills_wanted = number("KILLS").unwrap_or(kills);
    let seed = number("CHANGES_SEED").unwrap_or_else(|| fastrand::u64(..1_000_000));
    let Some(mut proof) = Proof::open(release, seed) else {
        return;
    };
    if std::env::var_os("CHANGES_KEEP").is_some() {
        say(&format!("kept: {}\n", proof.farm.keep().display()));
    }
    say(&format!("{title}: seed {seed}\n"));
    let began = Instant::now();
    let mut dice = Dice::new(seed);
    let mut done = Done::default();
    let mut kinds = Vec::new();
    proof.goes_on(TRANSACTIONS);
    while done.kills < kills_wanted && done.wrong.is_empty() {
        let Some(kind) = kinds.pop() else {
            kinds = asked(Kind::deal(&mut dice));
            assert!(!kinds.is_empty(), "CHANGES_FAULTS names no kind of fault");
            continue;
        };
        let struck = proof.strike(kind, &mut dice);
        proof.goes_on(TRANSACTIONS);
        let (faults, kills) = done.by_kind.entry(kind).or_default();
        (*faults, *kills) = (*faults + 1, *kills + struck.kills);
        done.faults += 1;
        done.kills += struck.kills;
        let acknowledged = proof.course.count.load(Relaxed);
        say(&format!(
            "{:>6.1} s, {} kills, {acknowledged} acknowledged: {struck}\n",
            began.elapsed().as_secs_f64(),
            done.kills
        ));
        if done.faults.is_multiple_of(FAULTS) {
            done.compare(&mut proof, &mut dice);
        }
        done.wrong.extend(proof.course.take_trouble());
    }
    if done.wrong.is_empty() {
        done.compare(&mut proof, &mut dice);
    }
    say(&done.text(title, &proof));
    assert!(done.wrong.is_empty(), "seed {seed}: {:#?}", done.wrong);
}

/// What was done, and what was wrong.
#[derive(Default)]
struct Done {
    by_kind: BTreeMap<Kind, (u64, u64)>,
    faults: u64,
    kills: u64,
    comparisons: u64,
    wrong: Vec<String>,
}

impl Done {
    fn compare(&mut self, proof: &mut Proof, dice: &mut Dice) {
        let began = Instant::now();
        proof.judge(dice);
        self.comparisons += 1;
        self.wrong.extend(proof.course.take_trouble());
        let took_ms = began.elapsed().as_millis();
        let number = self.comparisons;
        say(&format!(
            "    comparison {number} took {took_ms} ms, {} wrong\n",
            self.wrong.len()
        ));
    }

    fn text(&self, title: &str, proof: &Proof) -> String {
        let mut text = format!(
            "{title}: {} faults with {} kills, {} transactions acknowledged, {} comparisons, {} gaps, {} wrong\n",
            self.faults,
            self.kills,
            proof.course.count.load(Relaxed),
            self.comparisons,
            proof.gaps,
            self.wrong.len()
        );
        for (kind, (faults, kills)) in &self.by_kind {
            text.push_str(&format!(
                "  {}: {faults} faults, {kills} kills\n",
                kind.name()
            ));
        }
        for consumer in &proof.consumers {
            let (events, breaks) = (&consumer.events, &consumer.breaks);
            let (events, breaks) = (events.load(Relaxed), breaks.load(Relaxed));
            let name = consumer.name;
            text.push_str(&format!(
                "  {name}: {events} events, broken off {breaks} times\n"
            ));
        }
        for wrong in &self.wrong {
            text.push_str(&format!("  WRONG: {wrong}\n"));
        }
        text
    }
}

/// Those of the environment.
fn asked(kinds: Vec<Kind>) -> Vec<Kind> {
    let text = std::env::var("CHANGES_FAULTS").unwrap_or_default();
    let is_asked = |kind: &Kind| text.is_empty() || text.split(' ').any(|it| it == kind.name());
    kinds.into_iter().filter(is_asked).collect()
}

/// What a stream told under load has nothing wrong; each mistake that is made in it is found.
///
/// # Panics
/// When one is not.
pub fn mistakes_are_found(release: Release) {
    let _alone = alone();
    let Some((events, rows)) = recorded(release) else {
        return;
    };
    let check = |events: &[Value]| {
        let mut copy = Copy::new(Told::InOrder, &rows);
        events.iter().try_for_each(|event| copy.take(event))?;
        let torn = copy.take_seen().1;
        torn.into_iter().next().map_or(Ok(copy), Err)
    };
    let right = check(&events).expect("nothing is wrong with what was told");
    for planted in Planted::ALL {
        for seed in 0..20 {
            let spoilt = plant(&events, planted, &mut Dice::new(seed));
            let spoilt = spoilt.unwrap_or_else(|| panic!("no place for {planted:?}"));
            // A row that no transaction writes later differs at the end.
            let is_found = check(&spoilt).map_or(true, |copy| copy.rows() != right.rows());
            assert!(is_found, "{planted:?} with seed {seed} is not found");
        }
    }
}

type Recorded = (Vec<Value>, BTreeMap<super::Place, super::Row>);

/// What a stream told under load, and the rows before it.
fn recorded(release: Release) -> Option<Recorded> {
    let farm = super::farm(release)?;
    let at = super::access(&farm);
    let course = std::sync::Arc::default();
    let rows = rows_of(&farm).expect("every group has a primary");
    let query = "order=global&database=bank&database=roam";
    let token = consumer::token_now(&at, query);
    let threads = load::start(farm.sql, 1, &course);
    let query = format!("from={token}&{query}");
    let (_, from) = ask(at.http, &query, Some(&at.bearer), "").expect("a stream");
    let (mut lines, mut events) = (Lines::new(from), Vec::new());
    while events.len() < EVENTS
        || events
            .last()
            .is_some_and(|it: &Value| it["event"] != "commit")
    {
        events.push(lines.read().expect("a line in time").expect("it goes on"));
    }
    course.end();
    for thread in threads {
        thread.join().expect("it writes");
    }
    assert_eq!(course.take_trouble(), Vec::<String>::new());
    Some((events, rows))
}
