//! SELECTs over several groups as the planner would have them answered, carried out by a plain loop:
//! the same rows and columns as one server gives.
//!
//! The corpus is that of `test/shards`; its reads only. HEDDLE_PLANNED=shop/groups.sql:12 plays those
//! whose place has this in it, and shows how they are answered.

#[path = "planned/carrying.rs"]
mod carrying;
#[path = "shards/corpus.rs"]
mod corpus;
#[path = "shards/data.rs"]
mod data;
#[path = "shards/dice.rs"]
mod dice;
#[path = "shards/outcome.rs"]
mod outcome;
#[path = "planned/spread.rs"]
mod spread;

use std::io::Write as _;
use std::path::Path;

use testkit::Release;

use outcome::{Care, difference, told};
use spread::Spread;

/// Reads that two shards answer as one server does.
fn equal_over_shards(release: Release) {
    let Some(mut spread) = Spread::start(release, 2) else {
        return;
    };
    let only = std::env::var("HEDDLE_PLANNED").ok();
    let show = |text: &str| {
        let _ = std::io::stderr().write_all(text.as_bytes());
    };
    let (mut all, mut wrong, mut refused) = (0, 0, 0);
    let mut tiers = [0; 4];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../test/shards");
    for corpus in corpus::read_all(&folder) {
        let chosen = |name: &str| only.as_deref().is_none_or(|it| name.contains(it));
        spread.fill(&corpus);
        for file in &corpus.files {
            for step in &file.steps {
                let place = format!("{}/{}.sql:{}", corpus.name, file.name, step.line);
                let reads = ["SELECT", "WITH", "(SELECT"];
                let reads = reads.iter().any(|verb| step.text.starts_with(verb));
                let odd = [" INTO ", ":=", "@", "; "]
                    .iter()
                    .any(|it| step.text.contains(it));
                let elsewhere = step.on.is_some_and(|on| on != spread.engine());
                if !reads || odd || elsewhere || step.with.is_some() || !chosen(&place) {
                    continue;
                }
                all += 1;
                let here = spread.one.query(&step.text);
                let (there, answer) = spread.ask(&corpus.name, &step.text);
                if let Some(answer) = &answer {
                    tiers[answer.tier as usize] += 1;
                    if only.is_some() {
                        show(&format!("{place} {answer:#?}\n"));
                    }
                }
                match (&answer, difference(step, Care::Usual, &here, &there)) {
                    (None, Some(_)) => {
                        refused += 1;
                        show(&format!("{place}: {}\n  {}\n", step.text, told(&there)));
                    }
                    (Some(answer), Some(what)) => {
                        wrong += 1;
                        let tier = answer.tier;
                        show(&format!("{place} {tier:?}: {}\n  {what}\n", step.text));
                    }
                    _ => {}
                }
            }
        }
    }
    let [one, push, gather, pull] = tiers;
    show(&format!(
        "{all} statements, {wrong} wrong, {refused} refused; {one} by one group, {push} pushed, {gather} gathered, {pull} pulled\n"
    ));
    assert_eq!(wrong, 0, "of {all}");
}

#[test]
fn shards_answer_as_one_server_on_mariadb() {
    equal_over_shards(Release::Installed);
}

#[test]
fn shards_answer_as_one_server_on_mysql() {
    equal_over_shards(Release::MySql80);
}
