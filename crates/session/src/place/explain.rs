//! `HEDDLE EXPLAIN` of a statement on sharded tables: its tier, its groups, what each of them is sent,
//! and why nothing simpler will do.

use std::sync::Arc;

use planner::place::{Literals, Spot};
use planner::{Answer as Planned, Finish, Tier};
use sqltext::Span;

use super::{Where, is_planned};
use crate::exec::Shape;
use crate::operator::Answer;
use crate::session::Session;

const COLUMNS: [&str; 5] = ["tier", "groups", "statement", "then", "reason"];

/// What there is to say of a statement's place.
pub(crate) enum Explained {
    /// One group runs it as it is.
    Group(Arc<farm::Group>),
    /// More is to be said.
    Rows(Answer),
}

impl Session {
    /// Tells where a text goes; `None` in a farm without sharding, and for what goes anywhere.
    pub(crate) fn explain_place(&self, text: &[u8], shape: &Shape) -> Option<Explained> {
        let snapshot = self.core.snapshot();
        let sharding = snapshot.sharding.as_ref()?;
        if !is_planned(shape) {
            return match self.place_by_names(text, shape, &snapshot, sharding) {
                Where::Group(group) => Some(Explained::Group(group)),
                Where::Refuse(error, detail) => Some(refused(error.text(&[&detail]))),
                _ => None,
            };
        }
        let plan = self.make_plan(text, shape, &snapshot, sharding)?;
        let slots = sqltext::slots(text, &self.mode);
        let spans: Vec<Span> = slots.iter().map(|slot| slot.span).collect();
        let literals = Literals {
            text,
            spans: &spans,
            mode: &self.mode,
            utf8: self.is_utf8(),
        };
        let spot = self.spot(&plan, text, &literals, sharding);
        if self.has_chosen(shape)
            && let Some(Where::Group(group)) =
                self.place_chosen(&plan, &spot, shape, text, &snapshot, sharding)
        {
            return Some(Explained::Group(group));
        }
        let first = match &spot {
            Spot::Ids(count) => Some(format!("{count} ids are put into its rows first")),
            Spot::Evaluate(_) => Some("its shard keys are computed by a server first".to_owned()),
            Spot::Moves(_) => Some(
                "rows of the old key are read with locks, deleted, and inserted under the new one"
                    .to_owned(),
            ),
            Spot::Limited(_) => {
                Some("the keys of the rows are read with locks, then they are changed".to_owned())
            }
            Spot::Select => Some("the query's rows are read, then inserted".to_owned()),
            _ => None,
        };
        if let Some(first) = first {
            let groups = match &spot {
                Spot::Moves(groups) | Spot::Limited(groups) => groups.join(","),
                _ => String::new(),
            };
            let row = ["several steps", &groups, &shown(text), &first, ""];
            return Some(rows(vec![row.map(str::to_owned)]));
        }
        match self.answer_spot(spot, || Some(text.to_vec()), false, &snapshot, sharding) {
            Where::Group(group) => Some(Explained::Group(group)),
            Where::Parts(writing) => {
                let then = match writing.same {
                    true => "all or none; the first group's counts",
                    false => "all or none; the counts are added up",
                };
                let row = |part: &crate::fan::Part| {
                    ["each group", &part.group, &shown(&part.text), then, ""].map(str::to_owned)
                };
                Some(rows(writing.parts.iter().map(row).collect()))
            }
            Where::Rows(text) => Some(match self.answer_of(&text) {
                Ok(planned) => rows(planned_rows(&planned)),
                Err((error, detail)) => refused(error.text(&[&detail])),
            }),
            Where::Refuse(error, detail) => Some(refused(error.text(&[&detail]))),
            _ => None,
        }
    }
}

fn planned_rows(planned: &Planned) -> Vec<[String; 5]> {
    let tier = match planned.tier {
        Tier::One => "one group",
        Tier::Push => "pushed",
        Tier::Gather => "gathered",
        Tier::Pull => "pulled",
    };
    let then = match &planned.finish {
        Finish::Merge(merging) if !merging.aggregates.is_empty() => "aggregates are merged",
        Finish::Merge(merging) if !merging.order.is_empty() => "rows are merged in order",
        Finish::Merge(_) => "rows are appended",
        Finish::Scratch(scratch) => &scratch.text,
    };
    let reason = planned.reasons.join("; ");
    let row = |fragment: &planner::Fragment| {
        let groups = fragment.groups.join(",");
        let groups = if fragment.any {
            format!("any of {groups}")
        } else {
            groups
        };
        [tier, &groups, &fragment.text, then, &reason].map(str::to_owned)
    };
    planned.fragments.iter().map(row).collect()
}

fn refused(why: String) -> Explained {
    rows(vec![[
        "refused".to_owned(),
        String::new(),
        String::new(),
        String::new(),
        why,
    ]])
}

fn rows(all: Vec<[String; 5]>) -> Explained {
    Explained::Rows(Answer {
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: all.into_iter().map(|row| row.map(Some).to_vec()).collect(),
    })
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
