//! Transactions that go on after their connection was lost: they are done again on a new one, and
//! what every statement answers is compared with what the client was told.
//!
//! While a transaction is open its commands are kept, and of each reply a checksum. Nobody asks whether
//! a statement is deterministic: what differs is found out. Then the transaction is rolled back, and
//! the client hears a deadlock, which frameworks answer by running the transaction again.

use std::borrow::Cow;

use backend::{Connection, ConnectionError};
use farm::error;
use mysql_wire::command::Command;
use mysql_wire::packet;
use mysql_wire::relay::Outcome;
use mysql_wire::status::Status;
use recorder::{Server, Step, note};
use sqltext::{Class, Facts, Verb};

use crate::client::Client;
use crate::client::end::End;
use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::connections::hold::wait::hold;
use crate::connections::hold::{Cause, Turn, is_failure};
use crate::connections::pin::Pins;
use crate::consistency::promises::Promises;
use crate::consistency::reads;
use crate::counters::count;
use crate::execution::exec::text_shape::calls_only_quiet;
use crate::execution::exec::{Answer, Job, Loss, Run, Shape, Tried};
use crate::execution::{attempt, route, servers_tried};
use crate::per_core::Core;
use crate::prepared::statements::PreparedStatements;
use crate::prepared::{prepared_packets, ready};
use crate::session::{self, Session};
use crate::transaction::loss::end_transaction;
use crate::transaction::outcome::{Recovered, recover};
use crate::transaction::replay_log::{Entry, Log};
use crate::transaction::state::Transaction;
use crate::transaction::{loss, settle};
use crate::variables::session_variables::SessionVariables;

/// So much of a statement is shown in an error.
const SHOWN_CHARACTERS_MAX: usize = 120;

/// How doing it again ended.
enum Played {
    Same,
    /// The statement, and what was different.
    Differs(String),
    /// Its server was lost, too.
    Gone,
}

/// The connection is lost under an open transaction.
pub(crate) async fn recover_transaction(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
) -> Result<Recovered, End> {
    let commits = |shape: &Shape| {
        matches!(shape.verb, Verb::Commit { .. }) || shape.facts.contains(Facts::IMPLICIT_COMMIT)
    };
    let commands = &run.pipeline.commands;
    let ends = commits(&run.shape) || commands.iter().any(|command| commits(&command.shape));
    if ends && !loss.unsent && !tried.plan.read_only {
        let plain = matches!(
            run.shape.verb,
            Verb::Commit {
                release: None | Some(false),
                chain: None | Some(false)
            }
        );
        let (writes, sure) = wrote(&session.connections, &session.promises, &session.prepared);
        if plain && commands.is_empty() && !writes {
            return end_transaction(
                &session.core,
                &mut session.client,
                &mut session.variables,
                &mut session.connections,
                &mut session.transaction,
                &mut session.prepared,
            )
            .await;
        }
        let sure =
            sure && commands.iter().all(|command| command.shape.tagged || !command.shape.writes);
        let found = recover::recover_commit(session, run, tried, loss, (sure, plain)).await?;
        if let Some(recovered) = found {
            return Ok(recovered);
        }
    }
    let reason = match &session.connections.current.replay {
        _ if !run.pins.is_empty() => Some(run.pins.describe()),
        None => Some("nothing is known of it".to_owned()),
        Some(log) => log.refused.map(str::to_owned),
    };
    let lost = session.variables.user_variables.as_mut().is_some_and(|own| own.lose());
    if let Some(reason) = reason.or(lost.then(|| Pins::USER_VARIABLE.describe())) {
        let text = format!("it cannot be done again: {reason}");
        return tell_over(session, run, tried, loss, text).await;
    }
    let (id, server) = (session.handle.id, Server(tried.plan.server.0));
    note(id, Step::ReplayBegins { server });
    let recovered = replay_transaction(session, run, tried, loss).await;
    let done = matches!(recovered, Ok(Recovered::Again));
    note(id, Step::ReplayEnds { done });
    recovered
}

/// The transaction is over without having happened; the client may run it again.
async fn tell_over(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
    why: String,
) -> Result<Recovered, End> {
    count(&session.core.counters.transactions_differ);
    session.connections.current.replay = None;
    let told = Some((error::TRANSACTION_DIFFERS, why));
    // What was pinned in the transaction is named by the reason.
    loss::tell_loss(session, run, &tried.target, loss, told).await?;
    Ok(Recovered::Answered)
}

/// Does the transaction again on the primary that comes; then the command may be tried again.
async fn replay_transaction(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
    loss: Loss,
) -> Result<Recovered, End> {
    let Some(mut log) = session.connections.current.replay.take() else {
        return Ok(Recovered::No);
    };
    let (state, status) = (session.variables.state.clone(), session.variables.status);
    session.prepared.forget_cursors();
    session.connections.ties = None;
    loop {
        let turn = hold(session, run, Cause::Failure).await?;
        if turn != Turn::Again {
            session::set_state(
                &session.core,
                &session.handle,
                &session.user,
                &mut session.variables,
                state,
            );
            session.variables.status = status;
            return Ok(match turn {
                Turn::Answered => {
                    session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
                    Recovered::Answered
                }
                _ => Recovered::No,
            });
        }
        match play_from_start(session, &mut log).await? {
            Played::Same => {
                count(&session.core.counters.transactions_replayed);
                session.connections.current.replay = Some(log);
                return Ok(Recovered::Again);
            }
            Played::Gone => session.connections.current.held = None,
            Played::Differs(text) => {
                // Closed, it is rolled back.
                session.connections.current.held = None;
                session::set_state(
                    &session.core,
                    &session.handle,
                    &session.user,
                    &mut session.variables,
                    state,
                );
                session.variables.status = status;
                return tell_over(session, run, tried, loss, text).await;
            }
        }
    }
}

/// The session becomes what it was before the transaction, closed statements included, so that its
/// commands find what they found then; afterwards these statements are closed again.
async fn play_from_start(session: &mut Session, log: &mut Log) -> Result<Played, End> {
    if let Some((began, status, insert_id)) = log.began.clone() {
        session::set_state(
            &session.core,
            &session.handle,
            &session.user,
            &mut session.variables,
            began,
        );
        (session.variables.status, session.variables.insert_id.value) = (status, insert_id);
        session.variables.insert_id.version += 1;
    }
    for (id, statement) in std::mem::take(&mut log.closed) {
        session.prepared.statements.insert(id, statement);
        log.closed_again.push(id);
    }
    let kept = session.client.begin_play();
    let played = play(session, log).await;
    session.client.end_play(kept);
    session.connections.current.replay = None;
    for id in std::mem::take(&mut log.closed_again) {
        if let Some(statement) = session.prepared.statements.remove(&id) {
            log.closed.push((id, statement));
        }
    }
    played
}

/// Runs the commands; their replies go nowhere.
async fn play(session: &mut Session, log: &Log) -> Result<Played, End> {
    for entry in &log.entries {
        match play_one(session, entry, log.frame(entry)).await? {
            Played::Same => {}
            other => return Ok(other),
        }
    }
    let Some(held) = &mut session.connections.current.held else {
        return Ok(match log.entries.is_empty() {
            true => Played::Same,
            false => Played::Differs("it ended by itself when it was done again".to_owned()),
        });
    };
    let connection = held.lease.connection_mut();
    let back = connection.run(&[(Command::Query, b"SET timestamp=DEFAULT")]);
    if let Err(error) = back.await
        && let Some(gone) = unless_refused(&error)
    {
        return Ok(gone);
    }
    Ok(Played::Same)
}

async fn play_one(session: &mut Session, entry: &Entry, frame: &[u8]) -> Result<Played, End> {
    session.client.play(Request::again(frame));
    let mut run = reads::new_run(session, entry.shape, entry.job);
    loop {
        let Ok((plan, target)) = route::route(session, &run.shape, None, &[]) else {
            return Ok(Played::Gone);
        };
        run.alone = false;
        let (mut lease, pins) =
            match servers_tried::checkout(session, &plan, &target, &run.shape).await {
                Ok(taken) => taken,
                Err(error) if is_failure(&error) => return Ok(Played::Gone),
                Err(_) => {
                    let text = "the server refuses the session there".to_owned();
                    return Ok(Played::Differs(text));
                }
            };
        run.pins = pins;
        if let Some(set) = as_then(&session.core, entry) {
            let connection = lease.connection_mut();
            if let Err(error) = connection.run(&[(Command::Query, set.as_bytes())]).await
                && let Some(gone) = unless_refused(&error)
            {
                return Ok(gone);
            }
        }
        // What the replies are is summed up in a log of its own.
        session.connections.current.replay = Some(Box::default());
        let answer = attempt::attempt(session, &mut lease, &mut run, plan.guards()).await?;
        let told = session.connections.current.replay.take().map(|mut log| log.take_told());
        match answer {
            Answer::Done(mut done) => {
                settle::settle(session, lease, &run.shape, run.pins, &mut done)?;
                return Ok(match told == Some(entry.told) {
                    true => Played::Same,
                    false => Played::Differs(session.prepared.differs(entry, frame)),
                });
            }
            Answer::Again if !run.again => {
                run.again = true;
                ready::make_room_for_statement(
                    &session.core,
                    &session.prepared,
                    lease.connection_mut(),
                    run.job,
                )
                .await;
                settle::keep_after_error(session, lease, run.pins);
            }
            // The client may have been told of a duplicate: the next attempt passes it on.
            Answer::Collided => {
                run.again = true;
                settle::keep_after_error(session, lease, run.pins);
            }
            Answer::Lost(_) | Answer::ReadOnly(_) => return Ok(Played::Gone),
            _ => return Ok(Played::Differs(session.prepared.differs(entry, frame))),
        }
    }
}

/// After a complete reply, before the session learns from it.
pub(crate) fn log_statement(
    core: &Core,
    client: &Client,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    prepared: &PreparedStatements,
    run: &Run,
    outcome: &Outcome,
) {
    let Some(mut log) = connections.current.replay.take() else {
        return;
    };
    let (shape, job) = (&run.shape, run.job);
    let told = log.take_told();
    let was_open = variables.status.contains(Status::IN_TRANS);
    let open = outcome.status.map_or(was_open, |s| s.contains(Status::IN_TRANS));
    if !open {
        return core.statements.logs.give(log);
    }
    let fresh = matches!(shape.verb, Verb::Begin { .. } | Verb::Commit { .. })
        || shape.facts.contains(Facts::IMPLICIT_COMMIT);
    if fresh && outcome.error.is_none() {
        log.empty();
    }
    let before = variables.status - (Status::IN_TRANS | Status::IN_TRANS_READONLY);
    log.began.get_or_insert_with(|| (variables.state.clone(), before, variables.insert_id.value));
    if !matches!(job, Job::Prepare(_)) && log.refused.is_none() {
        match command_to_keep(client, prepared, shape, job, &run.pins) {
            Err(why) => log.refuse(why),
            Ok(command) => log.keep(&command, |frame| Entry {
                shape: *shape,
                job,
                frame,
                told,
                insert_id: outcome.last_insert_id,
                at_us: run.began.map_or(0, |moment| core.at_us(moment)),
            }),
        }
    }
    if log.bytes > core.settings().replay_bytes_max {
        log.refuse("it is longer than replay_bytes_max");
    }
    log.cover(client.reservation.budget());
    connections.current.replay = Some(log);
}

/// The current command as it can be run again, or why it cannot.
fn command_to_keep<'c>(
    client: &'c Client,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
    pins: &Pins,
) -> Result<Cow<'c, [u8]>, &'static str> {
    let never = Facts::MULTIPLE | Facts::COMPOUND | Facts::LOCAL_INFILE | Facts::XA;
    let kinds = [
        (shape.facts.intersects(never), "it has statements that cannot be repeated"),
        (shape.class == Class::Call, "it calls a procedure"),
        (shape.tracking, "it changes what the server reports"),
        (shape.facts.contains(Facts::USER_VARIABLE), "it uses user variables"),
        (!pins.is_empty(), "its connection held more than the transaction"),
        (matches!(shape.verb, Verb::Commit { .. }), "it began with COMMIT AND CHAIN"),
        (client.request.is_split(), "it has a command of more than 16 MB"),
    ];
    if let Some((_, why)) = kinds.iter().find(|(is, _)| *is) {
        return Err(why);
    }
    match job {
        Job::Execute(id) => {
            let payload = client.request.payload();
            let cursor = payload.get(5).is_some_and(|flags| *flags != 0);
            let (_, payload) = prepared_packets::execution(client, prepared, id)
                .filter(|_| !cursor)
                .ok_or("it uses a cursor, long data or a bulk execution")?;
            let mut frame = Vec::with_capacity(payload.len() + 4);
            packet::write(&mut frame, &mut 0, &payload);
            Ok(Cow::Owned(frame))
        }
        _ => Ok(Cow::Borrowed(client.request.frame())),
    }
}

impl GroupConnections {
    /// A part of a reply goes to the client.
    #[inline]
    pub(crate) fn note_told(&mut self, part: &[u8]) {
        if let Some(log) = &mut self.current.replay {
            log.add(part);
        }
    }
}

impl PreparedStatements {
    fn differs(&self, entry: &Entry, frame: &[u8]) -> String {
        let text = match entry.job {
            Job::Execute(id) => self.statement_text(id),
            _ => frame.get(5..).unwrap_or_default(),
        };
        let text = String::from_utf8_lossy(text);
        let shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
        format!("it was done again on another connection, where this answers differently: {shown}")
    }
}

/// Before a command goes to a server: it may begin a transaction.
pub(crate) fn begin_log(
    core: &Core,
    variables: &SessionVariables,
    connections: &mut GroupConnections,
    transaction: &Transaction,
    shape: &Shape,
) {
    // Over several groups it cannot be done again on one of them.
    if transaction.is_dist_txn() {
        return;
    }
    let opens = matches!(shape.verb, Verb::Begin { .. })
        || (!variables.status.contains(Status::AUTOCOMMIT) && shape.class != Class::Set);
    match &mut connections.current.replay {
        Some(log) => drop(log.take_told()),
        None if opens && core.settings().replay_bytes_max > 0 => {
            connections.current.replay = Some(core.statements.logs.take());
        }
        None => {}
    }
}

/// A connection broke: where its server had a reason to end an idle transaction, that is over.
pub(crate) fn note_idle_end(
    core: &Core,
    connections: &mut GroupConnections,
    connection: &Connection,
) {
    let now_us = core.now_us();
    let Some(log) = &mut connections.current.replay else {
        return;
    };
    let last_us = log.entries.last().map_or(now_us, |entry| entry.at_us);
    if connection.ends_transaction_idle_for(now_us.saturating_sub(last_us) / 1000) {
        log.refuse("it was idle for longer than the server allows");
    }
}

/// Whether the transaction may have written, and whether the log surely tells if it has.
fn wrote(
    connections: &GroupConnections,
    promises: &Promises,
    prepared: &PreparedStatements,
) -> (bool, bool) {
    let Some(log) = connections.current.replay.as_ref().filter(|log| log.refused.is_none()) else {
        return (true, false);
    };
    let (mut writes, mut sure) = (false, true);
    for entry in &log.entries {
        let quiet = || match entry.job {
            Job::Execute(id) => calls_only_quiet(prepared.statement_text(id)),
            _ => calls_only_quiet(log.frame(entry).get(5..).unwrap_or_default()),
        };
        let harmless = matches!(
            entry.shape.class,
            Class::Transaction | Class::Set | Class::Show | Class::Use | Class::Empty
        ) || (entry.shape.verb == Verb::Select && quiet());
        writes |= !harmless;
        sure &= harmless || (entry.shape.tagged && promises.tags_on);
    }
    (writes, sure)
}

/// Sets the clock and the next AUTO_INCREMENT value as they were when a command first ran.
fn as_then(core: &Core, entry: &Entry) -> Option<String> {
    if !matches!(entry.shape.class, Class::Read | Class::Write | Class::Other) {
        return None;
    }
    let ago_us = core.now_us().saturating_sub(entry.at_us);
    let clock = format!(
        "SET timestamp=UNIX_TIMESTAMP(SYSDATE(6))-{}.{:06}",
        ago_us / 1_000_000,
        ago_us % 1_000_000
    );
    let inserts = matches!(entry.shape.verb, Verb::Insert | Verb::Replace);
    Some(match entry.insert_id {
        id if id > 0 && inserts => {
            core.shared.claimed_ids.note(core.now_us());
            format!("{clock}, insert_id={id}")
        }
        _ => clock,
    })
}

/// The new connection broke as well; a refusal is none of that: the comparison tells whether it
/// mattered.
fn unless_refused(error: &ConnectionError) -> Option<Played> {
    match error {
        ConnectionError::Refused { .. } => None,
        _ => Some(Played::Gone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_compared_whatever_their_pieces() {
        let (mut one, mut two) = (Log::default(), Log::default());
        one.add(b"rows of a reply");
        for part in [&b"rows"[..], b" of a", b"", b" reply"] {
            two.add(part);
        }
        let told = one.take_told();
        assert_eq!(told, two.take_told());
        assert_ne!(told, one.take_told(), "the next reply begins anew");
    }
}
