//! What is done about a server connection that broke under a statement: decided here and nowhere else.
//!
//! Nothing is done twice that may have had an effect. What surely had none runs again, unseen; a
//! write may have been committed, and a transaction is gone with its connection: who waits for them
//! hears that, and what else the session lost.

use farm::{ClientError, error};
use mysql_wire::command::Command;
use mysql_wire::status::Status;
use sqltext::{Class, Facts, Verb};

use backend::{PoolError, Target};
use farm::ServerId;
use routing::Refusal;

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::refuse::ServerRefusal;
use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::connections::hold::wait::hold;
use crate::connections::hold::{Cause, Turn, is_failure};
use crate::connections::pin::Pins;
use crate::consistency::reads;
use crate::counters::{count, statistics};
use crate::execution::exec::text_shape::calls_only_quiet;
use crate::execution::exec::{Job, Loss, Run, Shape, Tried};
use crate::execution::relayed;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::per_core::operator::Fault;
use crate::prepared::statements::PreparedStatements;
use crate::session::context::StatementContext;
use crate::session::{self, Session};
use crate::transaction::joining;
use crate::transaction::outcome::{Recovered, recover};
use crate::transaction::resume::Resume;
use crate::transaction::state::Transaction;
use crate::variables::session_variables::SessionVariables;
use crate::variables::user_variables;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// A READ ONLY session had it: another server may run it at once.
    Elsewhere,
    /// It did nothing, or nothing that matters: it runs again as soon as a server is there for it.
    Again,
    /// The client hears of the loss.
    Tell,
}

/// No server may run the statement: waits for one. True when it is to be tried again; else the
/// client has been answered.
pub async fn hold_refused(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    refusal: Refusal,
) -> Result<bool, End> {
    let waits = [error::NO_PRIMARY, error::NO_SERVER].contains(&refusal.error);
    let turn = match waits {
        true => hold(session, run, Cause::NoServer).await?,
        false => Turn::Over { waited_ms: 0 },
    };
    let detail = match turn {
        Turn::Again => {
            avoid.clear();
            return Ok(true);
        }
        Turn::Answered => return Ok(false),
        Turn::Over { waited_ms: 0 } => refusal.detail,
        Turn::Over { waited_ms } => format!("{} (waited {waited_ms} ms)", refusal.detail),
    };
    place_error(&mut session.client, run)?;
    leave_replica(&session.client)?;
    session.client.error(&refusal.error, &[&detail]).await?;
    Ok(false)
}

/// Ends the session in place of an error where that would stop a replica which has just connected: one whose
/// connection ends comes again.
fn leave_replica(client: &Client) -> Result<(), End> {
    let text = client.request.payload().strip_prefix(&[Command::Query as u8]);
    match text.is_some_and(sqltext::is_of_replica) {
        true => Err(End::Quit),
        false => Ok(()),
    }
}

/// The primary, or whoever else may run the statement, gave no connection: the same.
pub async fn hold_failed(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    tried: &Tried,
    error: PoolError,
) -> Result<bool, End> {
    suspect_refusal(&session.core, &session.handle, tried.plan.server, &error);
    let waits = !tried.plan.read_only || reads::reads_move(&session.core);
    let turn = match waits && is_failure(&error) {
        true => hold(session, run, Cause::Failure).await?,
        false => Turn::Over { waited_ms: 0 },
    };
    if turn == Turn::Again {
        avoid.clear();
        return Ok(true);
    }
    if matches!(turn, Turn::Over { .. }) {
        place_error(&mut session.client, run)?;
        leave_replica(&session.client)?;
        session.client.pool_error(&error, &tried.target).await?;
    }
    Ok(false)
}

/// The primary said that it takes no writes any more: the same.
pub(crate) async fn hold_declined(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    tried: &Tried,
    refusal: &ServerRefusal,
) -> Result<bool, End> {
    suspect(&session.core, &session.handle, tried.plan.server, Fault::Refused);
    let turn = hold(session, run, Cause::Failure).await?;
    if turn == Turn::Again {
        avoid.clear();
        return Ok(true);
    }
    if matches!(turn, Turn::Over { .. }) {
        place_error(&mut session.client, run)?;
        session.client.pass_refusal(refusal).await?;
    }
    Ok(false)
}

/// The connection broke under the statement: the same.
pub async fn after_loss(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    tried: &Tried,
    loss: Loss,
) -> Result<bool, End> {
    let server = tried.plan.server;
    suspect(&session.core, &session.handle, server, Fault::Reset);
    // What the client has of an attempt before is not taken back.
    let before = run.resume.filter(|_| !loss.forwarded);
    let loss = before.map_or(loss, |resume| resume.loss);
    match remedy(&session.context(), run, &loss, tried) {
        Remedy::Tell => match Box::pin(recover::recover(session, run, tried, loss)).await? {
            Recovered::Again => avoid.clear(),
            Recovered::Answered => return Ok(false),
            Recovered::No => {
                tell_loss(session, run, &tried.target, loss, None).await?;
                return Ok(false);
            }
        },
        Remedy::Elsewhere => reads::pass_over(&session.core, &session.connections, server, avoid),
        Remedy::Again => {
            if let Some(own) = &mut session.variables.user_variables {
                own.lose_silently();
            }
            match hold(session, run, Cause::Failure).await? {
                Turn::Again => avoid.clear(),
                Turn::Answered => return Ok(false),
                Turn::Over { .. } => {
                    tell_loss(session, run, &tried.target, loss, None).await?;
                    return Ok(false);
                }
            }
        }
    }
    if let Some(sent) = loss.sent {
        run.resume = Some(Resume { sent, loss });
        session.run.recording = None;
        count(&session.core.counters.reads_resumed);
    }
    count(&session.core.counters.retries);
    relayed::leave_pipeline(&mut session.client, run);
    Ok(true)
}

/// The read ran again, and its rows were others than those that the client has.
pub(crate) async fn tell_difference(
    session: &mut Session,
    run: &mut Run,
    tried: &Tried,
) -> Result<(), End> {
    count(&session.core.counters.reads_resumed_in_vain);
    match run.resume {
        Some(resume) => tell_loss(session, run, &tried.target, resume.loss, None).await,
        None => Ok(()),
    }
}

/// The server's connection is gone: says so, with what the session lost by it, or in the words
/// that are given.
pub async fn tell_loss(
    session: &mut Session,
    run: &mut Run,
    target: &Target,
    loss: Loss,
    told: Option<(ClientError, String)>,
) -> Result<(), End> {
    lose_what_stood(
        &session.core,
        &mut session.variables,
        &mut session.connections,
        &mut session.transaction,
        &mut session.prepared,
        run,
    );
    let was_in_transaction = session.variables.status.contains(Status::IN_TRANS);
    let commits = matches!(run.shape.verb, Verb::Commit { .. }) && was_in_transaction;
    statistics::note_gtid(
        &session.core,
        &run.shape,
        false,
        run.shape.writes || commits,
        was_in_transaction,
    );
    let commands = run.pipeline.commands.iter().map(|command| command.shape);
    let tied = was_in_transaction
        || !run.pins.is_empty()
        || !session.variables.status.contains(Status::AUTOCOMMIT)
        || commands.chain([run.shape]).any(|s| s.class == Class::Transaction);
    session.variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    let server = format!("{}:{}", target.host, target.port);
    tracing::debug!(
        session = session.handle.id,
        server,
        forwarded = loss.forwarded,
        "server connection lost"
    );
    let Some(sequence) = loss.sequence else {
        return Err(End::TornResult);
    };
    session.client.sequence = sequence;
    if session.handle.killed.get() {
        return Err(session::last_word(&session.core, &mut session.client).await);
    }
    leave_replica(&session.client)?;
    let (client, pins) = (&mut session.client, run.pins);
    if let Some((error, detail)) = told {
        client.error(&error, &[&detail]).await?;
    } else if loss.forwarded && !loss.file {
        let error = &error::SERVER_LOST_IN_RESULT;
        client.error(error, &[&server]).await?;
    } else if !pins.is_empty() && !was_in_transaction {
        let error = &error::SESSION_LOST_PIN;
        client.error(error, &[&pins.describe()]).await?;
    } else {
        client.error(&error::SERVER_LOST, &[&server]).await?;
    }
    // They may have run, up to any of them.
    for _ in std::mem::take(&mut run.pipeline).commands {
        client.step();
        client.error(&error::SERVER_LOST, &[&server]).await?;
    }
    // What the client sent before it could know relies on what is lost: run on another connection,
    // it would be committed one by one.
    match client.pipelines && tied {
        true => Err(End::Gone),
        false => Ok(()),
    }
}

/// What is to be done about this loss.
fn remedy(context: &StatementContext<'_>, run: &Run, loss: &Loss, tried: &Tried) -> Remedy {
    let open = context.variables.status.contains(Status::IN_TRANS)
        && !prepares_parked(context.core, context.connections, context.transaction, run);
    let alone = run.alone && run.pins.is_empty() && !open;
    if loss.forwarded && (loss.sent.is_none() || loss.file) {
        return Remedy::Tell;
    }
    if tried.free && tried.plan.read_only {
        return Remedy::Elsewhere;
    }
    let harmless = || {
        let mut commands = run.pipeline.commands.iter();
        may_run_twice(&context.client.request, context.prepared, &run.shape, run.job)
            && commands.all(|command| command.shape.class == Class::Read)
    };
    let may = match tried.plan.read_only {
        // It was tried elsewhere in vain: servers die together, too.
        true => reads::reads_move(context.core) && run.shape.class == Class::Read,
        false => loss.unsent || harmless(),
    };
    match alone && may {
        true => Remedy::Again,
        false => Remedy::Tell,
    }
}

/// What the session had on the connection, or by it, is gone.
fn lose_what_stood(
    core: &Core,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    prepared: &mut PreparedStatements,
    run: &mut Run,
) {
    count(&core.counters.servers_lost);
    // What other groups have of the transaction is over with it.
    transaction.note_failure(Some(error::SERVER_LOST.number));
    connections.current.replay = None;
    prepared.forget_cursors();
    if variables.user_variables.as_mut().is_some_and(|own| own.lose()) {
        run.pins |= Pins::USER_VARIABLE;
    }
    connections.ties = None;
    connections.lose_proof();
}

/// True for a statement outside transactions that may run twice. Of queries only those that call
/// nothing unknown, for on a primary a function may write; a view over such a function is not
/// seen through.
fn may_run_twice(
    request: &Request,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
) -> bool {
    if matches!(job, Job::Prepare(_)) {
        return true;
    }
    if shape.facts.intersects(Facts::MULTIPLE | Facts::ACCOUNTS) || request.is_split() {
        return false;
    }
    match (shape.class, shape.verb) {
        (Class::Read | Class::Show | Class::Set, _) => {
            calls_only_quiet(user_variables::text(request, prepared, job))
        }
        (Class::Use | Class::Empty, _) => true,
        (Class::Transaction, verb) => matches!(
            verb,
            Verb::Begin { .. }
                | Verb::Commit {
                    release: None | Some(false),
                    ..
                }
                | Verb::Rollback {
                    release: None | Some(false),
                    ..
                }
        ),
        _ => false,
    }
}

/// It prepares a statement on a group that the open transaction has not touched.
fn prepares_parked(
    core: &Core,
    connections: &GroupConnections,
    transaction: &Transaction,
    run: &Run,
) -> bool {
    matches!(run.job, Job::Prepare(_)) && !joining::has_part_here(core, connections, transaction)
}

/// Tells the control plane that a server failed the session.
pub fn suspect(core: &Core, handle: &Handle, server: ServerId, fault: Fault) {
    if !handle.killed.get() {
        core.shared.operator.suspect(server, fault);
    }
}

/// The same of a connection that could not be had, if that is the server's fault.
pub fn suspect_refusal(core: &Core, handle: &Handle, server: ServerId, error: &PoolError) {
    if is_failure(error) {
        suspect(core, handle, server, Fault::Refused);
    }
}

/// An error of Heddle's own comes next: behind what the client has of the reply, if that is
/// possible.
pub(crate) fn place_error(client: &mut Client, run: &Run) -> Result<(), End> {
    if let Some(resume) = &run.resume {
        client.sequence = resume.loss.sequence.ok_or(End::TornResult)?;
    }
    Ok(())
}

/// The session's connection is gone, and with it what stood there.
pub fn leave_connection(
    core: &Core,
    connections: &mut GroupConnections,
    prepared: &mut PreparedStatements,
) {
    count(&core.counters.servers_lost);
    prepared.forget_cursors();
    connections.ties = None;
    (connections.current.last_server, connections.current.last_connection) = (None, 0);
}

/// The transaction is over, and its COMMIT is answered.
pub(crate) async fn end_transaction(
    core: &Core,
    client: &mut Client,
    variables: &mut SessionVariables,
    connections: &mut GroupConnections,
    transaction: &mut Transaction,
    prepared: &mut PreparedStatements,
) -> Result<Recovered, End> {
    leave_connection(core, connections, prepared);
    variables.status -= Status::IN_TRANS | Status::IN_TRANS_READONLY;
    connections.current.replay = None;
    client.sequence = 1;
    client.ok(session::status_now(variables, transaction)).await?;
    Ok(Recovered::Answered)
}
