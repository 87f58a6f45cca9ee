//! SELECTs over several groups as the planner would have them answered, carried out by a plain loop:
//! the same rows and columns as one server gives.
//!
//! The corpus is that of `test/shards`; its reads only. HEDDLE_PLANNED=shop/groups.sql:12 plays those
//! whose place has this in it, and shows how they are answered. Statements that seeds make up follow:
//! HEDDLE_SHARDS_SEED and HEDDLE_SHARDS_SEEDS as in `test/shards/README.md`.

mod broadcasts;
mod carrying;
#[path = "../shards/contradicts.rs"]
mod contradicts;
#[path = "../shards/corpus.rs"]
mod corpus;
#[path = "../shards/data.rs"]
mod data;
#[path = "../shards/dice.rs"]
mod dice;
mod faults;
mod firsts;
#[path = "../shards/invent/mod.rs"]
mod invent;
mod joins;
#[path = "../shards/outcome.rs"]
mod outcome;
mod spread;

use std::io::Write as _;
use std::path::Path;

use farm::Engine;
use planner::Tier;
use testkit::Release;

use contradicts::contradicts_itself;
use corpus::Step;
use outcome::{Care, difference, told};
use spread::Spread;

/// Statements that each seed makes up.
const INVENTIONS: usize = 300;

/// Where an answer is wrong.
const TOGETHER: &str = "on two shards";
const ALONE: &str = "what shards are sent, on one server";

fn show(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// What came of the statements.
#[derive(Default)]
struct Tally {
    /// Statements are chosen by their place, and shown.
    only: Option<String>,
    all: usize,
    wrong: usize,
    refused: usize,
    /// Those in which the one server is wrong, and the farm is not.
    contradicted: usize,
    tiers: [usize; 4],
    /// Ways to answer statements by sending tables.
    sent: usize,
    /// Those of them that divide tables among the groups.
    divided: usize,
    /// Statements whose scalar subqueries were asked first.
    asked_first: usize,
}

impl Tally {
    /// Plays a read to two shards, and what they are sent to the server that has all rows.
    fn play(&mut self, spread: &mut Spread, (place, step): (&str, &Step), care: Care) {
        let only = self.only.as_deref();
        let chosen = only.is_none_or(|it| place.contains(it));
        let elsewhere = step.on.is_some_and(|on| on != spread.engine());
        if !is_plain_read(step) || elsewhere || !chosen {
            return;
        }
        self.all += 1;
        let here = spread.one.query(&step.text);
        let (there, answer) = spread.ask(&step.text);
        let differs = difference(step, care, &here, &there);
        let Some(answer) = answer else {
            if differs.is_some() {
                self.refused += 1;
                show(&format!("{place}: {}\n  {}\n", step.text, told(&there)));
            }
            return;
        };
        self.tiers[answer.tier as usize] += 1;
        if only.is_some() {
            show(&format!("{place} {answer:#?}\n"));
        }
        let mut wrong = differs.map(|what| (TOGETHER, what));
        if wrong.is_none() && answer.tier != Tier::One {
            let alone = spread.ask_alone(&answer);
            let what = difference(step, care, &here, &alone);
            wrong = what.map(|what| (ALONE, what));
        }
        let both_answer = here.is_ok() && there.is_ok();
        let itself = wrong.as_ref().is_some_and(|(on, _)| {
            let mariadb = spread.engine() == Engine::MariaDb;
            let differs = |spread: &mut Spread| {
                let here = spread.one.query(&step.text);
                let there = match *on {
                    TOGETHER => spread.ask(&step.text).0,
                    _ => spread.ask_alone(&answer),
                };
                difference(step, care, &here, &there).is_some()
            };
            both_answer && contradicts_itself(&step.text, mariadb, spread, Spread::tell, differs)
        });
        if itself {
            self.contradicted += 1;
            return;
        }
        if wrong.is_none() {
            self.play_sent(spread, (place, step), care, (&here, &answer));
            if answer.tier == Tier::Gather {
                self.play_asked_first(spread, (place, step), care, &here);
            }
        }
        if let Some((on, what)) = wrong {
            self.wrong += 1;
            let (tier, text) = (answer.tier, &step.text);
            let sent = answer.fragments.iter().map(|it| format!("\n  {}", it.text));
            let sent: String = sent.collect();
            show(&format!("{place} {tier:?} {on}: {text}{sent}\n  {what}\n"));
        }
    }
}

fn is_plain_read(step: &Step) -> bool {
    let reads = ["SELECT", "WITH", "(SELECT"];
    let odd = [" INTO ", ":=", "@", "; "];
    reads.iter().any(|verb| step.text.starts_with(verb))
        && !odd.iter().any(|it| step.text.contains(it))
        && step.with.is_none()
}

/// Reads that two shards answer as one server does; and what the shards are sent gives the same once
/// more where one server has all rows, so that no server is asked for what it does not answer well.
fn equal_over_shards(release: Release) {
    let Some(mut spread) = Spread::start(release, 2) else {
        return;
    };
    let mut tally = Tally {
        only: std::env::var("HEDDLE_PLANNED").ok(),
        ..Tally::default()
    };
    let number = |name: &str| std::env::var(name).ok().and_then(|it| it.parse().ok());
    let first = number("HEDDLE_SHARDS_SEED").unwrap_or(1);
    let seeds = number("HEDDLE_SHARDS_SEEDS").unwrap_or(1);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/shards");
    for corpus in corpus::read_all(&folder) {
        spread.fill(&corpus);
        for file in &corpus.files {
            for step in &file.steps {
                let place = format!("{}/{}.sql:{}", corpus.name, file.name, step.line);
                // The clock may not tick between two servers that are asked for it.
                if step.text.starts_with("SET timestamp") {
                    spread.tell(&step.text);
                }
                tally.play(&mut spread, (&place, step), Care::Usual);
            }
        }
        let invents = corpus.name == "shop";
        if invents {
            spread.make_views(&invent::definitions());
        }
        let joins = corpus.name == "broadcast";
        for seed in first..first + seeds * u64::from(joins) {
            for number in 0..INVENTIONS {
                let step = joins::statement(seed, number);
                let place = format!("joins {seed}:{number}");
                tally.play(&mut spread, (&place, &step), Care::Loose);
            }
        }
        for seed in first..first + seeds * u64::from(invents) {
            for number in 0..INVENTIONS {
                let step = invent::statement(seed, number);
                let place = format!("seed {seed}:{number}");
                tally.play(&mut spread, (&place, &step), Care::Loose);
            }
        }
    }
    let [one, push, gather, pull] = tally.tiers;
    let (all, wrong, refused) = (tally.all, tally.wrong, tally.refused);
    let (contradicted, sent, divided) = (tally.contradicted, tally.sent, tally.divided);
    let first = tally.asked_first;
    show(&format!(
        "{all} statements, {wrong} wrong, {refused} refused, in {contradicted} the one server contradicts itself; {one} by one group, {push} pushed, {gather} gathered, {pull} pulled; {sent} ways to send tables, {divided} of which divide some; of {first} something was asked first\n"
    ));
    assert_eq!(wrong, 0, "of {all}");
    assert!(tally.only.is_some() || first > 0, "nothing is asked first");
    assert!(
        tally.only.is_some() || divided > 500,
        "few tables are divided"
    );
}

#[test]
fn shards_answer_as_one_server_on_mariadb() {
    equal_over_shards(Release::Installed);
}

#[test]
fn shards_answer_as_one_server_on_mysql() {
    equal_over_shards(Release::MySql80);
}

#[test]
fn shards_answer_as_one_server_on_a_newer_mysql() {
    equal_over_shards(Release::MySqlNewer);
}
