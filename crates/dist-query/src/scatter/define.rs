//! Statements that change definitions, on all groups that have these definitions.
//!
//! The first group goes first and alone: what it refuses is done nowhere. Then the others get the same
//! text, all at once; each runs it to its end, whatever becomes of it on the others. When it has gone
//! well, the router reads the tables anew before the client hears of it, so that its next statement
//! finds them as they are.

use std::sync::Arc;

use backend::{Warning, Warnings};
use dist_txn::end;
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::ServerRefusal;
use execute::client::request::Request;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::consistency::reads;
use execute::execution::exec::{Job, Run, Shape};
use execute::per_core::operator::{Answer, Reply};
use execute::per_core::{Core, accounts};
use execute::session::user::SessionUser;
use execute::session::{self, Session};
use execute::transaction::unit_of_work;
use execute::variables::session_variables::SessionVariables;
use farm::local::host_of;
use farm::sharding::Placed;
use farm::{Access, GroupKind, Sharding, Snapshot, error};
use mysql_wire::relay::Outcome;
use mysql_wire::reply::OkPacket;
use planner::define::{Around, Declaration, Defines, Named, Then, define};
use sqltext::{Class, Facts};

use super::counts::Counts;
use super::feeds::Feeds;
use super::parts::{Done, Taken};
use super::warnings::together;
use super::{Part, Scatter, Wanted};
use crate::scatter;
use crate::scatter::parts;

/// The number of no group.
const NO_GROUP: u32 = u32::MAX;

/// Beyond so many tables, all are read.
const READ_BY_NAME_MAX: usize = 4;

/// So much of an error is written down.
const WHY_CHARS_MAX: usize = 1000;

/// Where a definition is made, and what follows.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    groups: Vec<Arc<str>>,
    text: Vec<u8>,
    then: Then,
    /// No table of it has other rows on other groups: all groups say the same.
    same: bool,
    /// Tables that may be others then; no names for all.
    names: Vec<Named>,
}

/// What is to be done with a statement about definitions.
#[derive(Clone, Debug)]
pub(crate) enum Defining {
    Elsewhere,
    /// A temporary table of the session, which is on one connection.
    Temporary,
    Here(Box<Definition>),
    Refused(String),
}

/// What came of a round.
enum Round {
    /// The client has been told of something else.
    Answered,
    Done(Counts, Option<Warnings>),
    /// The groups that failed, and why the first did.
    Failed(Vec<Arc<str>>, ServerRefusal),
}

/// Runs it everywhere, to the answer.
pub(crate) async fn run_definition(
    session: &mut Session,
    definition: &Definition,
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    session.run.recording = None;
    // What is open is committed over all its groups; no server alone may do it.
    if !end::commit_before(session, NO_GROUP).await? {
        return Ok(());
    }
    let Definition {
        groups, text, then, ..
    } = definition;
    if let Some(why) = unit_of_work::is_fixed(&session.core, groups) {
        return session.client.error(&error::COMMAND_REFUSED, &[&why]).await;
    }
    let (first, others) = groups.split_at(1.min(groups.len()));
    let mut run = reads::new_run(session, shape, job);
    let written =
        match write_down(&session.core, &session.user, &session.variables, text, groups).await {
            Ok(id) => id,
            Err(why) => return session.client.error(&error::COMMAND_REFUSED, &[&why]).await,
        };
    let (mut counts, said) = match define_on(session, first, text, &mut run).await? {
        Round::Answered => return strike_out(&session.core, &session.user, written).await,
        Round::Failed(_, refusal) => {
            strike_out(&session.core, &session.user, written).await?;
            return session.client.pass_refusal(&refusal).await;
        }
        Round::Done(counts, said) => (counts, said),
    };
    if !others.is_empty() {
        let (id, word) = (written.as_deref(), (&mut counts, said));
        if !define_on_others(session, definition, others, &mut run, &shape, id, word).await? {
            return Ok(());
        }
    }
    strike_out(&session.core, &session.user, written).await?;
    if let Err(why) = follow_up(session, then, first, &mut run).await? {
        return session.client.error(&error::COMMAND_REFUSED, &[&why]).await;
    }
    defined(&session.core, &session.user, &session.client.request, &shape, definition).await;
    let mut ok = OkPacket::new(session::status_now(&session.variables, &session.transaction));
    ok.affected_rows = counts.affected_rows;
    ok.warnings = counts.warnings;
    ok.info = &counts.info;
    session.client.answer_ok(&ok).await
}

/// The other groups follow, as the first has not refused it; what they say joins its word. False when
/// the client has been answered.
async fn define_on_others(
    session: &mut Session,
    definition: &Definition,
    others: &[Arc<str>],
    run: &mut Run,
    shape: &Shape,
    written: Option<&str>,
    (counts, said): (&mut Counts, Option<Warnings>),
) -> Result<bool, End> {
    let Definition {
        groups, text, same, ..
    } = definition;
    match define_on(session, others, text, run).await? {
        // What is written down says where it has not run.
        Round::Answered => Ok(false),
        Round::Failed(failed, refusal) => {
            let why = String::from_utf8_lossy(&refusal.message).into_owned();
            let id = written.unwrap_or_default();
            leave_written(
                &session.core,
                &session.user,
                &session.variables,
                id,
                text,
                &failed,
                &why,
            )
            .await;
            defined(&session.core, &session.user, &session.client.request, shape, definition).await;
            let details = [&*groups[0], &*failed.join(", "), &*why, id];
            let error = &error::DEFINITION_UNFINISHED;
            session.client.error(error, &details).await?;
            Ok(false)
        }
        Round::Done(more, others) => {
            let others = (!same).then_some((more, others));
            tell_together(&mut session.variables, text, (counts, said), others, shape);
            Ok(true)
        }
    }
}

/// Runs the text on these groups at the same time.
async fn define_on(
    session: &mut Session,
    groups: &[Arc<str>],
    text: &[u8],
    run: &mut Run,
) -> Result<Round, End> {
    let part = |group: &Arc<str>| Part {
        group: group.clone(),
        text: text.to_vec(),
    };
    let scatter = Scatter {
        parts: groups.iter().map(part).collect(),
        answer: Wanted::Counts {
            insert_id: None,
            same: true,
        },
        clock: false,
        carried: None,
    };
    let mut avoid = Vec::new();
    let mut taken = loop {
        match parts::take_parts(session, &scatter, run, &mut avoid).await {
            Ok(taken) => break taken,
            Err((group, stuck)) => {
                if !scatter::scatter_stuck(session, run, &mut avoid, &group, stuck).await? {
                    return Ok(Round::Answered);
                }
            }
        }
    };
    // It commits by itself, before and after.
    let writes = std::mem::replace(&mut run.shape.writes, false);
    let mut feeds = parts::start_parts(session, &scatter, &mut taken, run, true);
    run.shape.writes = writes;
    loop {
        for feed in &mut feeds.all {
            let _ = feed.step();
        }
        if feeds.all.iter().all(|feed| feed.is_done()) {
            break;
        }
        feeds.any().await;
    }
    scatter::end_scatter(&session.handle, &mut session.run);
    close_definition(session, groups, taken, feeds, run).await
}

/// Takes note of what the groups said.
async fn close_definition(
    session: &mut Session,
    groups: &[Arc<str>],
    taken: Vec<Taken>,
    feeds: Feeds,
    run: &Run,
) -> Result<Round, End> {
    let mut counts = Counts::default();
    feeds.all.iter().for_each(|feed| counts.add(&feed.outcome, &feed.info));
    let failed = |at: &usize| feeds.all[*at].lost || feeds.all[*at].refusal.is_some();
    let failed: Vec<usize> = (0..feeds.all.len()).filter(failed).collect();
    let mut done = Done::of(taken, feeds, &mut session.run.profile);
    let first = failed.first().copied();
    let refusal = first.map(|at| {
        let refusal = done.parts[at].refusal.take();
        refusal.unwrap_or_else(|| lost_there(&groups[at]))
    });
    done.ask_warnings(&[], false, None).await;
    counts.say_once(done.repeated);
    done.end_clock().await;
    let warnings = done.told.take();
    parts::leave_parts(session, run, done);
    session.run.number += 1;
    let mut outcome = Outcome {
        status: Some(session.variables.status),
        warnings: counts.warnings,
        affected_rows: counts.affected_rows,
        ..Outcome::default()
    };
    outcome.error = refusal.as_ref().map(|refusal| refusal.number);
    session.variables.diagnostics.note(&run.shape, &outcome, session.variables.mode.dialect);
    learn_warnings(&mut session.variables, warnings.clone());
    let named = |at: usize| groups[at].clone();
    Ok(match refusal {
        Some(refusal) => Round::Failed(failed.into_iter().map(named).collect(), refusal),
        None => Round::Done(counts, warnings),
    })
}

/// Declares what was made, forgets what is gone. `Err` inside is for the client.
async fn follow_up(
    session: &mut Session,
    then: &Then,
    first: &[Arc<str>],
    run: &mut Run,
) -> Result<Result<(), String>, End> {
    match then {
        Then::Nothing => {}
        Then::Forget(tables) => {
            for (database, table) in tables {
                let name = format!("`{database}`.`{table}`");
                if let Err(why) =
                    order(&session.core, &session.user, &["remove_table", &name, "true"]).await
                {
                    return Ok(Err(why));
                }
            }
        }
        Then::Declare(declaration) => {
            let Declaration {
                database,
                table,
                map,
                column,
            } = declaration;
            let name = format!("`{database}`.`{table}`");
            let declared = match column {
                Some(column) => {
                    order(&session.core, &session.user, &["add_table", map, &name, column]).await
                }
                None => {
                    order(&session.core, &session.user, &["add_global_table", map, &name]).await
                }
            };
            if let Err(why) = declared {
                // The client was promised a table on the map, or none.
                let drop = format!("DROP TABLE IF EXISTS {name}");
                return Ok(match define_on(session, first, drop.as_bytes(), run).await? {
                    Round::Answered => Ok(()),
                    Round::Done(..) | Round::Failed(..) => Err(why),
                });
            }
        }
    }
    Ok(Ok(()))
}

/// All groups have done it. What they said together is the statement's; of copies the first one's word
/// is all.
fn tell_together(
    variables: &mut SessionVariables,
    text: &[u8],
    (counts, said): (&mut Counts, Option<Warnings>),
    others: Option<(Counts, Option<Warnings>)>,
    shape: &Shape,
) {
    let mut told = said;
    if let Some((more, others)) = others {
        let all = together(&[
            (text, rows_of(told.as_ref())),
            (text, rows_of(others.as_ref())),
        ]);
        counts.take_in(&more, all.repeated);
        let columns = told.or(others).map(|said| said.columns);
        let rows = all.rows;
        told = columns.map(|columns| Warnings { columns, rows });
    }
    let outcome = Outcome {
        status: Some(variables.status),
        warnings: counts.warnings,
        affected_rows: counts.affected_rows,
        ..Outcome::default()
    };
    variables.diagnostics.note(shape, &outcome, variables.mode.dialect);
    learn_warnings(variables, told);
}

fn learn_warnings(variables: &mut SessionVariables, warnings: Option<Warnings>) {
    if warnings.is_some() {
        variables.diagnostics.learn(&mut backend::Residue {
            warnings,
            ..backend::Residue::default()
        });
    }
}

/// The database and the mode that a statement means.
fn circumstances(variables: &SessionVariables) -> (String, String) {
    let text =
        |bytes: Option<&[u8]>| String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned();
    let mode = text(variables.state.variable("sql_mode"));
    (text(variables.state.database()), mode)
}

/// The groups without those on read-only storage, which have what they have; only of these alone all are left.
fn writable(mut groups: Vec<Arc<str>>, snapshot: &Snapshot) -> Vec<Arc<str>> {
    let fixed =
        |name: &Arc<str>| snapshot.group(name).is_some_and(|group| group.kind == GroupKind::Media);
    if !groups.iter().all(fixed) {
        groups.retain(|name| !fixed(name));
    }
    groups
}

/// Where a statement goes that may change definitions.
pub(crate) fn defining(
    variables: &SessionVariables,
    connections: &GroupConnections,
    text: &[u8],
    shape: &Shape,
    snapshot: &Snapshot,
    sharding: &Sharding,
) -> Defining {
    let accounts = shape.facts.contains(Facts::ACCOUNTS);
    let defines = shape.class == Class::Ddl || (shape.class == Class::Set && accounts);
    let Some(home) = snapshot.home().filter(|_| defines) else {
        return Defining::Elsewhere;
    };
    let database = String::from_utf8_lossy(variables.state.database().unwrap_or_default());
    let around = Around {
        sharding,
        home: &home.name,
        database: &database,
        mode: &variables.mode,
    };
    match define(text, accounts, &around) {
        Defines::Elsewhere => Defining::Elsewhere,
        Defines::On(.., names) if connections.has_made(&names, shape.verb) => Defining::Temporary,
        Defines::Refused(why) => Defining::Refused(why),
        Defines::On(groups, then, names) => Defining::Here(Box::new(Definition {
            groups: writable(groups, snapshot),
            text: text.to_vec(),
            then,
            same: !names.iter().any(|name| is_sharded(sharding, name)),
            names,
        })),
    }
}

/// Has a statement for several groups written down, so that one which is cut short is known. Gives
/// its id.
async fn write_down(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    text: &[u8],
    groups: &[Arc<str>],
) -> Result<Option<String>, String> {
    // What is not UTF-8 could not be run again as it is.
    let Some(text) = std::str::from_utf8(text).ok().filter(|_| groups.len() > 1) else {
        return Ok(None);
    };
    let (database, mode) = circumstances(variables);
    let groups = groups.join(",");
    let answer = order(core, user, &["add_change", text, &groups, &database, &mode]).await?;
    let result = answer.rows.first().and_then(|row| row.get(3)?.clone());
    Ok(result)
}

/// It has run everywhere, or nowhere.
async fn strike_out(core: &Core, user: &SessionUser, written: Option<String>) -> Result<(), End> {
    if let Some(id) = written
        && let Err(why) = order(core, user, &["drop_change", &id]).await
    {
        // It is listed until somebody takes it away, and does no harm.
        tracing::warn!(id, why, "a change of definitions is over and still listed");
    }
    Ok(())
}

/// Writes down where it is left to run.
async fn leave_written(
    core: &Core,
    user: &SessionUser,
    variables: &SessionVariables,
    id: &str,
    text: &[u8],
    failed: &[Arc<str>],
    why: &str,
) {
    let text = String::from_utf8_lossy(text);
    let (database, mode) = circumstances(variables);
    let groups = failed.join(",");
    let why: String = why.chars().take(WHY_CHARS_MAX).collect();
    let words = ["add_change", &text, &groups, &database, &mode, id, &why];
    if let Err(why) = order(core, user, &words).await {
        tracing::warn!(id, why, "what is left of a change of definitions is not written down");
    }
}

/// Has a command of `sharding` carried out on behalf of a definition that the client was allowed.
async fn order(core: &Core, user: &SessionUser, words: &[&str]) -> Result<Answer, String> {
    let all = std::iter::once("sharding").chain(words.iter().copied());
    let all: Vec<String> = all.map(str::to_owned).collect();
    let (tell, told) = futures_channel::oneshot::channel();
    let reply: Reply = Box::new(move |outcome| drop(tell.send(outcome)));
    let operator = Arc::clone(&core.shared.operator);
    let name = String::from_utf8_lossy(user.name()).into_owned();
    let by = format!("{name}@{}", host_of(user.peer.ip()));
    operator.submit(all, &by, Access::Admin, reply);
    match told.await {
        Ok(answer) => answer,
        Err(_) => Err("the router is shutting down".to_owned()),
    }
}

/// What was changed is read anew.
async fn defined(
    core: &Core,
    user: &SessionUser,
    request: &Request,
    shape: &Shape,
    definition: &Definition,
) {
    if shape.facts.intersects(Facts::ACCOUNTS | Facts::DATABASE) {
        core.shared.defaults.database_changed();
    }
    if shape.facts.contains(Facts::ACCOUNTS) {
        core.shared.accounts_changed();
        accounts::unlock_accounts(core, user, request, shape.verb, Some(&definition.text));
        return;
    }
    let names = &definition.names;
    let few = names.len() <= READ_BY_NAME_MAX && names.iter().all(is_plain);
    let read = match few && !names.is_empty() {
        true => read_anew(core, user, names).await,
        false => order(core, user, &["refresh"]).await.map(drop),
    };
    if let Err(why) = read {
        // The next tick reads them.
        tracing::warn!(why, "the tables were not read anew");
    }
}

async fn read_anew(core: &Core, user: &SessionUser, names: &[Named]) -> Result<(), String> {
    for (database, table) in names {
        let name = format!("`{database}`.`{table}`");
        order(core, user, &["refresh", &name]).await?;
    }
    Ok(())
}

fn rows_of(said: Option<&Warnings>) -> Vec<Warning> {
    said.map(|said| said.rows.clone()).unwrap_or_default()
}

fn is_sharded(sharding: &Sharding, (database, table): &Named) -> bool {
    matches!(sharding.placed(database, table), Placed::Sharded(_))
}

/// A name that commands can be told of.
fn is_plain((database, table): &Named) -> bool {
    !database.contains('`') && !table.contains('`')
}

/// What is said when a connection broke.
fn lost_there(group: &str) -> ServerRefusal {
    let lost = &error::SERVER_LOST;
    ServerRefusal {
        number: lost.number,
        sqlstate: *b"08S01",
        message: lost.text(&[&format!("of group {group}")]).into_bytes(),
    }
}
