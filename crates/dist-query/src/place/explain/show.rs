//! Answers `HEDDLE EXPLAIN`, and EXPLAIN and ANALYZE of statements over several groups: asks the servers what
//! they think, runs the statement where that is wanted, and looks for cures. Of how many rows come one group is asked
//! by EXPLAIN, and the others are taken to be like it.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::heard::Heard;
use execute::client::refuse::ServerRefusal;
use execute::execution::profile::Profile;
use execute::per_core::Core;
use execute::per_core::operator::Answer;
use execute::session::{Session, send_answer};
use execute::variables::session_variables::SessionVariables;
use farm::shard::UNEVEN;
use farm::sharding::Sharding;
use farm::{Snapshot, error};
use planner::{Answer as Planned, Estimate, Source, advise};
use sqltext::Class;

use super::tree::{self, Facts, Node, Ran, Row, Took};
use super::words::{Asking, Form};
use super::{Explained, Told, explain_place, planned_rows};
use crate::learned;
use crate::place::inner;
use crate::place::planned::estimate::estimate;

/// So many ways out are named, of those that change least.
const CURES_MAX: usize = 3;

/// Of a run that was to send tables.
const TURNED_BACK: &str = "tables were to be sent to the groups; more rows came than that is worth, or a group refused \
                           them, so the statement was gathered";

const COLUMNS: [&str; 7] = [
    "tier",
    "groups",
    "statement",
    "then",
    "reason",
    "rows",
    "cure",
];

/// Answers EXPLAIN or ANALYZE of a statement over several groups.
pub(crate) async fn explain_placed(session: &mut Session, asking: &Asking) -> Result<(), End> {
    let shape = session.core.shape(&asking.statement, &session.variables.mode);
    let context = session.context();
    let told = explain_place(&context, &session.handle, &session.run, &asking.statement, &shape);
    match told {
        Some(Explained::Told(told)) => Box::pin(tell(session, told, asking)).await,
        // Its group has changed in between.
        Some(Explained::Group(_)) | None => {
            let why = "where the statement goes has just changed: send it again";
            session.client.error(&error::NOT_OVER_GROUPS, &[why]).await
        }
    }
}

/// What each row of the table is thought to give: what it gave before, else what servers expect.
async fn expected(
    session: &Session,
    rows: &[Row],
    planned: Option<&Planned>,
) -> Vec<Option<Estimate>> {
    let (core, user, variables) = (&session.core, &session.user, &session.variables);
    let sending = planned.and_then(|planned| planned.sending.as_deref());
    let gathered = planned.filter(|_| sending.is_none());
    let before = gathered.map_or(Vec::new(), |it| learned::ran(core, variables, it).fetches);
    if before.len() == rows.len() && !rows.is_empty() {
        let estimate = |it: planner::Seen| Estimate {
            rows: it.last.rows,
            bytes: Some(it.last.bytes),
            source: Source::Learned,
        };
        return before.into_iter().map(|it| Some(estimate(it))).collect();
    }
    let told = |rows: u64| Estimate {
        rows,
        bytes: None,
        source: Source::Statistics,
    };
    let asked = estimate(core, user, variables, rows).await;
    let mut all: Vec<Option<Estimate>> = asked.into_iter().map(|it| it.map(told)).collect();
    let sent = sending.map_or(&[][..], |it| &it.expected[..]);
    for (known, sent) in all.iter_mut().zip(sent) {
        *known = Some(*sent);
    }
    all
}

/// Answers with what is known of a statement over several groups, in the form that is asked for.
pub async fn tell(session: &mut Session, told: Told, asking: &Asking) -> Result<(), End> {
    let mut planned = told.planned.as_ref().map(|(planned, _)| &**planned);
    let mut facts = Facts {
        expected: expected(session, &told.rows, planned).await,
        cures: cures(&session.core, &session.variables, &told).await,
        note: uneven(&session.core.snapshot()),
        ran: None,
    };
    let mut rows = Cow::Borrowed(&told.rows);
    if asking.runs {
        match run(session, &asking.statement).await? {
            Ok(ran) => facts.ran = Some(ran),
            Err(heard) => return session.client.pass_refusal(&heard).await,
        }
        let sending = planned.and_then(|planned| planned.sending.as_deref());
        if let Some(sending) = sending.filter(|_| session.run.profile.turned_back) {
            planned = Some(&sending.instead);
            rows = Cow::Owned(planned_rows(&sending.instead));
            facts.expected.clear();
            facts.note = Some(TURNED_BACK.to_owned());
        }
    }
    let answer = match (asking.form, asking.runs) {
        // It always had this form.
        (Form::Unsaid | Form::Table | Form::Other, false) if asking.own => table(&rows, &facts),
        _ => drawn(&tree::tree(&rows, planned, &facts), asking),
    };
    send_answer(&mut session.client, &session.variables, &session.transaction, answer).await
}

/// The same of a statement that goes to one server, or to all, as rows say that were made for a table.
pub async fn tell_whole(
    session: &mut Session,
    answer: Answer,
    class: Class,
    asking: &Asking,
) -> Result<(), End> {
    let mut ran = None;
    if asking.runs {
        if class != Class::Read {
            let why = "ANALYZE runs the statement, and does so for a SELECT alone";
            return session.client.error(&error::COMMAND_REFUSED, &[why]).await;
        }
        match run(session, &asking.statement).await? {
            Ok(it) => ran = Some(it.whole),
            Err(heard) => return session.client.pass_refusal(&heard).await,
        }
    }
    let answer = match (asking.form, asking.runs) {
        (Form::Unsaid | Form::Table | Form::Other, false) => answer,
        _ => drawn(&whole(&answer, ran), asking),
    };
    send_answer(&mut session.client, &session.variables, &session.transaction, answer).await
}

/// The tree of a statement that each of these servers runs as it is.
fn whole(answer: &Answer, took: Option<Took>) -> Node {
    let of = |row: &Vec<Option<String>>, name: &str| {
        let at = answer.columns.iter().position(|column| column == name);
        at.and_then(|at| row.get(at)?.clone()).unwrap_or_default()
    };
    let step = |row: &Vec<Option<String>>| Node {
        place: format!("{}, {}", of(row, "group"), of(row, "server")),
        does: "the whole statement".to_owned(),
        reason: Some(of(row, "reason")).filter(|reason| !reason.is_empty()),
        ..Node::default()
    };
    Node {
        place: "router".to_owned(),
        does: "the rows are passed on".to_owned(),
        took,
        before: answer.rows.iter().map(step).collect(),
        ..Node::default()
    }
}

fn table(rows: &[Row], facts: &Facts) -> Answer {
    let cure = facts.cures.join(", or ");
    let cure = Some(cure).filter(|cure| !cure.is_empty());
    let row = |(row, rows): (&Row, Option<u64>)| {
        let cells = row.clone().map(Some).into_iter();
        cells.chain([rows.map(|rows| rows.to_string()), cure.clone()]).collect()
    };
    let estimates = facts.expected.iter().map(|it| it.map(|it| it.rows));
    let estimates = estimates.chain(std::iter::repeat(None));
    Answer {
        columns: COLUMNS.map(str::to_owned).to_vec(),
        rows: rows.iter().zip(estimates).map(row).collect(),
    }
}

fn drawn(root: &Node, asking: &Asking) -> Answer {
    let column = match asking.runs {
        true => "ANALYZE",
        false => "EXPLAIN",
    };
    let lines = match asking.form {
        Form::Json => vec![format!("{:#}", tree::json(root))],
        _ => tree::lines(root),
    };
    Answer {
        columns: vec![column.to_owned()],
        rows: lines.into_iter().map(|line| vec![Some(line)]).collect(),
    }
}

/// Runs the statement for what it takes; its rows are nobody's. `Err` inside: it was refused.
async fn run(session: &mut Session, text: &[u8]) -> Result<Result<Ran, ServerRefusal>, End> {
    session.run.profile.watch(true);
    let began = Instant::now();
    let heard = inner::inner(session, text).await;
    let time = began.elapsed();
    let ran = ran(&session.run.profile, time);
    session.run.profile.watch(false);
    Ok(match heard? {
        Heard::Refused(refusal) => Err(refusal),
        Heard::Rows(_) | Heard::Ok { .. } => Ok(ran),
    })
}

fn ran(profile: &Profile, time: Duration) -> Ran {
    let part = |at: usize| {
        let part = profile.parts.get(at)?;
        let took = Took {
            rows: part.rows,
            bytes: part.bytes,
            time: None,
        };
        Some((part.group.to_string(), took))
    };
    let fetches = profile.fetches().iter().map(|fetch| {
        let parts = fetch.parts.clone().filter_map(part).collect();
        (fetch.fragment, parts, fetch.time)
    });
    let fetched = |at: &usize| profile.fetches().iter().any(|it| it.parts.contains(at));
    Ran {
        whole: Took {
            rows: profile.rows,
            bytes: profile.bytes(0),
            time: Some(time),
        },
        fetches: fetches.collect(),
        parts: (0..profile.parts.len()).filter(|at| !fetched(at)).filter_map(part).collect(),
    }
}

/// What would have a statement be gathered no more, one at a time: other sessions of the core go on in between.
async fn cures(core: &Core, variables: &SessionVariables, told: &Told) -> Vec<String> {
    let moves =
        |row: &tree::Row| matches!(&*row[0], "broadcast" | "shuffle" | "gathered" | "pulled");
    let gathers = told.rows.first().is_some_and(moves);
    let Some((_, text)) = told.planned.as_ref().filter(|_| gathers) else {
        return Vec::new();
    };
    let Ok(text) = std::str::from_utf8(text) else {
        return Vec::new();
    };
    let snapshot = core.snapshot();
    let (Some(sharding), Some(home)) = (&snapshot.sharding, snapshot.home()) else {
        return Vec::new();
    };
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let asked = planner::Asked {
        sharding,
        home: &home.name,
        database: &database,
        mode: &variables.mode,
        scratch: "",
        changing: None,
    };
    let mut found: Vec<advise::Cure> = Vec::new();
    for cure in advise::candidates(text, &asked) {
        let larger = found.first().is_some_and(|it| it.changes.len() < cure.changes.len());
        if found.len() >= CURES_MAX || larger {
            break;
        }
        if advise::helps(text, &asked, &cure) {
            found.push(cure);
        }
        reactor::sleep(Duration::ZERO).await;
    }
    let shown = |cure: &advise::Cure| {
        let changes = cure.changes.iter().map(ToString::to_string);
        changes.collect::<Vec<_>>().join(" and ")
    };
    found.iter().map(shown).collect()
}

/// Maps whose groups have very different parts of the keys.
fn uneven(snapshot: &Snapshot) -> Option<String> {
    let sharding: &Sharding = snapshot.sharding.as_ref()?;
    let told = sharding.maps().iter().filter_map(|mapped| {
        let shares = mapped.map.shares(UNEVEN)?;
        let shown = shares.iter().map(|(group, share)| format!("{group} {:.0} %", share * 100.0));
        Some(format!(
            "map {} ({}) gives {} of the keys; a map of the kind SLOTS gives all alike",
            mapped.map.id,
            mapped.map.kind.name(),
            shown.collect::<Vec<_>>().join(", ")
        ))
    });
    Some(told.collect::<Vec<_>>().join("; ")).filter(|text| !text.is_empty())
}
