//! Statements that are gathered, answered once more with their scalar subqueries asked first: the rows are those of one
//! server.

use planner::Answer;

use crate::contradicts::contradicts_itself;
use crate::corpus::Step;
use crate::outcome::{Care, Outcome, difference};
use crate::spread::{Spread, rows_of};
use crate::{Tally, show};

impl Tally {
    /// Plays a read so, where it has such subqueries. `here`: what one server says.
    pub fn play_asked_first(
        &mut self,
        spread: &mut Spread,
        (place, step): (&str, &Step),
        care: Care,
        here: &Outcome,
    ) {
        let Some(text) = with_asked_first(spread, &step.text) else {
            return;
        };
        self.asked_first += 1;
        let (there, answer) = spread.ask(&text);
        if self.only.is_some() {
            show(&format!("{place} {text}\n{answer:#?}\n"));
        }
        let Some(what) = difference(step, care, here, &there) else {
            return;
        };
        let mariadb = spread.engine() == farm::Engine::MariaDb;
        let differs = |spread: &mut Spread| {
            let here = spread.one.query(&step.text);
            let there = spread.ask(&text).0;
            difference(step, care, &here, &there).is_some()
        };
        let both = here.is_ok() && there.is_ok();
        if both && contradicts_itself(&step.text, mariadb, spread, Spread::tell, differs) {
            self.contradicted += 1;
            return;
        }
        self.wrong += 1;
        let tier = answer.map(|it: Answer| it.tier);
        show(&format!(
            "{place} asked first: {}\n  {tier:?}: {text}\n  {what}\n",
            step.text
        ));
    }
}

/// The text with what its scalar subqueries give; `None` where it has none, or one says something odd.
fn with_asked_first(spread: &mut Spread, text: &str) -> Option<String> {
    let scalars = spread.scalars(text);
    let mut rows = Vec::new();
    for scalar in &scalars {
        let answered = rows_of(spread.ask(&scalar.question).0).ok()?;
        let mut all = answered.text();
        let alone = all.len() == 1 && answered.warnings == 0;
        rows.push(all.pop().filter(|_| alone)?);
    }
    planner::with_scalars(text, &scalars, &rows).filter(|_| !scalars.is_empty())
}
