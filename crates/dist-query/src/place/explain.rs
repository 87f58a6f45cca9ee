//! `HEDDLE EXPLAIN` of a statement on sharded tables: its tier, its groups, what each of them is sent,
//! and why nothing simpler will do.

pub mod show;
pub mod tree;
pub mod words;

use std::sync::Arc;

use execute::connections::group_connections::GroupConnections;
use execute::execution::exec::{Job, Shape};
use execute::execution::statement_run::StatementRun;
use execute::per_core::Core;
use execute::per_core::handle::Handle;
use execute::prepared::statements::PreparedStatements;
use execute::session::context::StatementContext;
use execute::session::user::SessionUser;
use execute::variables::session_variables::SessionVariables;
use farm::{Sharding, Snapshot};
use mysql_wire::relay::Expect;
use planner::load::LoadPlan;
use planner::place::{Literals, Spot};
use planner::{Answer as Planned, Finish, Tier};
use sqltext::{Mode, Span, Verb};

use self::tree::Row;
use self::words::Form;
use super::{Where, is_planned};
use crate::place::planned::fetch_order::groups;
use crate::place::{self, chosen, load, names, of_session, planned};

/// What there is to say of a statement's place.
pub enum Explained {
    /// One group runs it as it is.
    Group(Arc<farm::Group>),
    /// More is to be said.
    Told(Told),
}

/// How a statement is carried out: tier, groups, what they are sent, what is done then, and the reason; a
/// row for each thing that is sent.
#[derive(Default)]
pub struct Told {
    pub rows: Vec<Row>,
    /// Of a query over several groups: the plan, and the text that it was made of.
    pub(crate) planned: Option<(Box<Planned>, Vec<u8>)>,
}

/// Tells where a text goes; `None` in a farm without sharding, and for what goes anywhere.
pub fn explain_place(
    context: &StatementContext<'_>,
    handle: &Handle,
    run: &StatementRun,
    text: &[u8],
    shape: &Shape,
) -> Option<Explained> {
    let StatementContext {
        core,
        user,
        variables,
        connections,
        prepared,
        ..
    } = *context;
    let snapshot = core.snapshot();
    let sharding = snapshot.sharding.as_ref()?;
    if !is_planned(shape) {
        return explain_unplanned(
            variables,
            connections,
            prepared,
            text,
            shape,
            &snapshot,
            sharding,
        );
    }
    let plan = place::make_plan(variables, text, shape, &snapshot, sharding)?;
    let spot = spot_of(variables, &plan, text, sharding);
    let chosen = || chosen::chosen_group(variables, run, shape, text, &snapshot, sharding);
    if run.has_chosen(shape)
        && let Some(Where::Group(group)) = chosen::place_chosen(&plan, &spot, chosen)
    {
        return Some(Explained::Group(group));
    }
    if let Some(explained) = explain_steps(core, handle, variables, &spot, text) {
        return Some(explained);
    }
    let place = names::answer_spot(
        variables,
        connections,
        spot,
        || Some(text.to_vec()),
        false,
        &snapshot,
        sharding,
    );
    explain_answer(core, handle, user, variables, place)
}

/// Where EXPLAIN, DESCRIBE and ANALYZE of a statement go whose tables and keys are looked for: to its group,
/// which knows its own plan best, or, if there are several, nowhere. `None` for everything else.
pub(super) fn place_explained(
    context: &StatementContext<'_>,
    run: &StatementRun,
    shape: &Shape,
    text: &[u8],
    job: Job,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Where> {
    let explains = matches!(shape.verb, Verb::Explain | Verb::Describe | Verb::Analyze);
    if !explains || !matches!(job, Job::Frame(Expect::Results)) {
        return None;
    }
    let variables = context.variables;
    let asking = words::asking(text, &variables.mode)?;
    let inner = context.core.shape(&asking.statement, &variables.mode);
    if !is_planned(&inner) {
        return None;
    }
    let plan = place::make_plan(variables, &asking.statement, &inner, snapshot, sharding)?;
    let spot = spot_of(variables, &plan, &asking.statement, sharding);
    let chosen =
        || chosen::chosen_group(variables, run, &inner, &asking.statement, snapshot, sharding);
    if run.has_chosen(&inner)
        && let Some(place) = chosen::place_chosen(&plan, &spot, chosen)
    {
        return Some(place);
    }
    let written = || Some(asking.statement.clone());
    let connections = context.connections;
    let place =
        names::answer_spot(variables, connections, spot, written, false, snapshot, sharding);
    match place {
        Where::Group(_) | Where::Stay => Some(place),
        _ if matches!(asking.form, Form::Table | Form::Other) => None,
        Where::Rows(_) => Some(Where::Explain(Box::new(asking))),
        _ if asking.runs => Some(place::refuse(
            "ANALYZE runs the statement, and over several groups that is done for a SELECT alone: EXPLAIN \
             tells of others without running them",
        )),
        _ => Some(Where::Explain(Box::new(asking))),
    }
}

fn spot_of(
    variables: &SessionVariables,
    plan: &planner::place::Plan,
    text: &[u8],
    sharding: &Sharding,
) -> Spot {
    let slots = sqltext::slots(text, &variables.mode);
    let spans: Vec<Span> = slots.iter().map(|slot| slot.span).collect();
    let literals = Literals {
        text,
        spans: &spans,
        mode: &variables.mode,
        utf8: variables.is_utf8(),
    };
    plan.spot(&place::statement_of(variables, text, &literals), sharding)
}

/// What a plan's answer says of where a statement goes; `None` where it goes anywhere.
fn explain_answer(
    core: &Core,
    handle: &Handle,
    user: &SessionUser,
    variables: &SessionVariables,
    place: Where,
) -> Option<Explained> {
    match place {
        Where::Group(group) => Some(Explained::Group(group)),
        Where::Parts(writing) => {
            let then = match writing.same {
                true => "all or none; the first group's counts",
                false => "all or none; the counts are added up",
            };
            let row = |part: &crate::scatter::Part| {
                ["each group", &part.group, &shown(&part.text), then, ""].map(str::to_owned)
            };
            Some(rows(writing.parts.iter().map(row).collect()))
        }
        Where::Rows(text) => {
            let text = without_values(text, &variables.mode);
            let (text, questions) = planned::first::with_unknown(core, variables, text);
            Some(match planned::answer_of(core, handle, variables, &text) {
                Ok(planned) => {
                    let sending = planned::sending::sending;
                    let mut planned = sending(core, handle, user, variables, &text, planned);
                    let asked =
                        |it: String| format!("asked first, NULL stands for its value here: {it}");
                    planned.reasons.extend(questions.into_iter().map(asked));
                    Explained::Told(Told {
                        rows: planned_rows(&planned),
                        planned: Some((Box::new(planned), text)),
                    })
                }
                Err((error, detail)) => refused(error.text(&[&detail])),
            })
        }
        Where::Refuse(error, detail) => Some(refused(error.text(&[&detail]))),
        _ => None,
    }
}

/// The statements that take several steps: what is done first says more of them than their groups.
fn explain_steps(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    spot: &Spot,
    text: &[u8],
) -> Option<Explained> {
    let first = match spot {
        Spot::Ids(count) => Some(format!("{count} ids are put into its rows first")),
        Spot::Evaluate(_) => Some("its shard keys are computed by a server first".to_owned()),
        Spot::Moves(_) => Some(
            "rows of the old key are read with locks, deleted, and inserted under the new one"
                .to_owned(),
        ),
        Spot::Limited(_) => {
            Some("the keys of the rows are read with locks, then they are changed".to_owned())
        }
        Spot::ByKeys => {
            return Some(explain_by_keys(core, handle, variables, text));
        }
        Spot::Select => Some("the query's rows are read, then inserted".to_owned()),
        _ => None,
    };
    if let Some(first) = first {
        let groups = match spot {
            Spot::Moves(groups) | Spot::Limited(groups) => groups.join(","),
            _ => String::new(),
        };
        let row = ["several steps", &groups, &shown(text), &first, ""];
        return Some(rows(vec![row.map(str::to_owned)]));
    }
    None
}

fn explain_by_keys(
    core: &Core,
    handle: &Handle,
    variables: &SessionVariables,
    text: &[u8],
) -> Explained {
    let text = without_values(text.to_vec(), &variables.mode);
    match planned::planned(core, handle, variables, &text, |text, asked| {
        planner::by_keys(text, asked, of_session::shares(variables))
    }) {
        Ok(plan) => {
            let then =
                "the rows that are meant are read with locks, then they are changed by their keys";
            let mut all = planned_rows(&plan.read);
            all.iter_mut().for_each(|row| row[4] = then.to_owned());
            Explained::Told(Told {
                rows: all,
                planned: Some((Box::new(plan.read), text)),
            })
        }
        Err((error, detail)) => refused(error.text(&[&detail])),
    }
}

/// The same of a statement whose keys are not looked for.
fn explain_unplanned(
    variables: &SessionVariables,
    connections: &GroupConnections,
    prepared: &PreparedStatements,
    text: &[u8],
    shape: &Shape,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Option<Explained> {
    let job = Job::Frame(Expect::Results);
    let place = match load::place_load(variables, shape, text, job, snapshot, sharding) {
        Some(place) => place,
        None => {
            names::place_by_names(variables, connections, prepared, text, shape, snapshot, sharding)
        }
    };
    match place {
        Where::Load(plan) => Some(loaded(&plan)),
        Where::Group(group) => Some(Explained::Group(group)),
        Where::Refuse(error, detail) => Some(refused(error.text(&[&detail]))),
        Where::Upkeep(parts) => {
            let groups = parts.iter().map(|part| part.group.to_string());
            let groups = groups.collect::<Vec<_>>().join(",");
            let row = ["each group", &groups, &shown(text), "rows are appended", ""];
            Some(rows(vec![row.map(str::to_owned)]))
        }
        _ => None,
    }
}

/// The session's own values are not asked for: NULL stands for them.
fn without_values(text: Vec<u8>, mode: &Mode) -> Vec<u8> {
    let Ok(read) = std::str::from_utf8(&text) else {
        return text;
    };
    let values = planner::session_values(read, mode);
    let nulls = vec!["NULL".to_owned(); values.len()];
    planner::with_values(read, &values, &nulls).into_bytes()
}

fn loaded(plan: &LoadPlan) -> Explained {
    let then = match (plan.same, plan.cuts()) {
        (true, false) => "the whole file goes to each group",
        (true, true) => "all rows go to each group, with the same ids",
        (false, _) => "each row goes to the group of its key",
    };
    let text = shown(&plan.text);
    let row = ["each group", &plan.groups.join(","), &text, then, ""];
    rows(vec![row.map(str::to_owned)])
}

fn planned_rows(planned: &Planned) -> Vec<Row> {
    let tier = match planned.tier {
        Tier::One => "one group",
        Tier::Push => "pushed",
        Tier::Gather => "gathered",
        Tier::Pull => "pulled",
    };
    let then = match &planned.finish {
        Finish::Merge(merging) if !merging.lists.is_empty() => {
            "aggregates and lists are merged; rows are gathered for a list near group_concat_max_len"
        }
        Finish::Merge(merging) if !merging.aggregates.is_empty() => "aggregates are merged",
        Finish::Merge(merging) if !merging.order.is_empty() => "rows are merged in order",
        Finish::Merge(_) => "rows are appended",
        Finish::Scratch(scratch) => &scratch.text,
    };
    let reason = planned.reasons.join("; ");
    let row = |(at, fragment): (usize, &planner::Fragment)| {
        let groups = groups(fragment);
        let text = sent(planned, at, fragment);
        [tier, &groups, &text, then, &reason].map(str::to_owned)
    };
    let rest = planned.fragments.iter().enumerate().map(row);
    sent_rows(planned, &reason).into_iter().chain(rest).collect()
}

/// The rows of tables that are sent to the groups first.
fn sent_rows(planned: &Planned, reason: &str) -> Vec<Row> {
    let Some(sending) = &planned.sending else {
        return Vec::new();
    };
    let to = planned.fragments.first().map_or(String::new(), |it| it.groups.join(","));
    let all = sending.fragments.iter().zip(&sending.tables).enumerate();
    let row = |(at, (fragment, table)): (usize, (&planner::Fragment, &planner::Part))| {
        let (way, then) = match sending.divided.get(at).and_then(Option::as_ref) {
            None => ("broadcast", format!("its rows go to {to}, into {}", table.name)),
            Some(by) => {
                let name = &table.name;
                let then =
                    format!("each row goes to one of {to} by its `{}`, into {name}", by.name);
                ("shuffle", then)
            }
        };
        [way, &groups(fragment), &fragment.text, &then, reason].map(str::to_owned)
    };
    all.map(row).collect()
}

/// What groups are sent before any values have come.
fn sent(planned: &Planned, at: usize, fragment: &planner::Fragment) -> String {
    match &planned.finish {
        Finish::Scratch(scratch) => {
            let reduced = &scratch.reduced[at];
            let there = reduced.by.iter().filter_map(|it| it.there.clone());
            reduced.text(&fragment.text, &there.collect::<Vec<_>>())
        }
        Finish::Merge(_) => fragment.text.clone(),
    }
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

fn rows(all: Vec<Row>) -> Explained {
    Explained::Told(Told {
        rows: all,
        planned: None,
    })
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}
