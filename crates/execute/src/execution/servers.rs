//! Runs one command: choose a server, check a connection out, send, relay the reply, and on trouble
//! decide whether another server may be asked.
//!
//! Nothing is retried that may have had an effect: only reads outside transactions, and only while
//! the client has not seen a byte of the reply.

use backend::{Lease, PoolError};
use farm::{ServerId, error};
use mysql_wire::relay::Expect;
use sqltext::Class;

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::connections::hedge;
use crate::connections::parked::reclaim;
use crate::connections::pin::Pins;
use crate::consistency::client_level;
use crate::consistency::promises::keeping;
use crate::consistency::reads;
use crate::consistency::required_waits::ask;
use crate::counters::count;
use crate::execution::cache::recall;
use crate::execution::exec::{Answer, Job, Ran, Run, Shape, Tried};
use crate::execution::point::vouch;
use crate::execution::profile::Step;
use crate::execution::servers_tried::checkout;
use crate::execution::{attempt, relayed, route};
use crate::execution::{servers_tried, without};
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::prepared::ready;
use crate::recorded;
use crate::session::{self, Session};
use crate::transaction::outcome::recover;
use crate::transaction::replay;
use crate::transaction::{loss, settle};
use crate::variables::diagnostics::answers;
use reactor::rarely;
use recorder::Retry;

/// Runs a command that only a server of the current group can answer.
async fn run_on_servers(session: &mut Session, shape: Shape, job: Job) -> Result<Ran, End> {
    let mut run = reads::new_run(session, shape, job);
    // Servers that have failed this statement. Each is tried once, so the loop ends.
    let mut avoid = Vec::new();
    client_level::heed_client(
        &session.core,
        &mut session.connections,
        &mut session.transaction,
        &session.promises,
        &shape,
    );
    if keeping::may_prove(&session.connections, &session.promises, &shape)
        || keeping::may_ask_to_move(&session.core, &session.connections, &session.promises, &shape)
    {
        rarely(keeping::ask_before_read(
            &session.core,
            &session.user,
            &session.variables,
            &mut session.connections,
            &mut session.transaction,
            &session.promises,
            &shape,
        ))
        .await;
    }
    while try_server(session, &mut run, &mut avoid).await? {}
    Ok(match run.recalls {
        true => Ran::Recalls(run.shape),
        false => Ran::Answered,
    })
}

/// Runs the command on one server. True when it is to be tried again; else the client has been
/// answered.
async fn try_server(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
) -> Result<bool, End> {
    let (plan, target) = match route::route(session, &run.shape, Some(run.job), avoid) {
        Ok(route) => route,
        Err(refusal) => return rarely(loss::hold_refused(session, run, avoid, refusal)).await,
    };
    session.run.profile.chosen(plan, session.promises.level_of(&run.shape));
    // Until the reply begins, a read that nothing holds may go to another server.
    let free = reads::may_move(&session.core, &session.connections, &run.shape)
        && !avoid.contains(&plan.server);
    run.alone = session.connections.current.held.is_none();
    let (mut lease, pins) = match checkout(session, &plan, &target, &run.shape).await {
        Ok(taken) => taken,
        Err(error) if free && servers_tried::elsewhere_may_help(&error, plan.read_only) => {
            leave(session, plan.server, &error, avoid);
            return Ok(true);
        }
        Err(error) => {
            let (core, handle, own) = (&session.core, &session.handle, &mut session.variables);
            if without::does_without(core, handle, &session.user, own, &error) {
                return Ok(true);
            }
            let tried = Tried { plan, target, free };
            return rarely(loss::hold_failed(session, run, avoid, &tried, error)).await;
        }
    };
    recorded::taken(session.handle.id, lease.connection(), !run.alone);
    session.run.profile.lap(Step::Connect);
    run.pins = pins;
    let (handle, own, shape) = (&session.handle, &session.variables, &run.shape);
    if servers_tried::is_barred(handle, own, &session.run, lease.connection(), shape)
        && !rarely(answers::leave_nothing(handle, own, &mut lease, shape)).await
    {
        settle::keep_after_error(session, lease, pins);
        loss::place_error(&mut session.client, run)?;
        let turning = rarely(turn_away(session, run));
        return turning.await.map(|()| false);
    }
    let of = (&*session.core, target.session);
    let (connections, promises) = (&session.connections, &session.promises);
    if plan.wait && !rarely(ask::await_required(of, connections, promises, &mut lease)).await {
        avoid.push(plan.server);
        reclaim::give_back(&session.handle, lease);
        return Ok(true);
    }
    let answer =
        match hedge::hedges(&session.core, &session.client, &session.connections, &plan, run) {
            true => rarely(hedge::attempt_hedged(session, &mut lease, run, &plan)).await?,
            false => attempt::attempt(session, &mut lease, run, plan.guards()).await?,
        };
    if let Answer::Done(done) = answer {
        settle::note_answer(session, lease.connection(), run, &done.outcome, &done.changes);
        replay::log_statement(
            &session.core,
            &session.client,
            &session.variables,
            &mut session.connections,
            &session.prepared,
            run,
            &done.outcome,
        );
        settle::settle_run(session, lease, run, done).await?;
        return Ok(false);
    }
    let tried = Tried { plan, target, free };
    rarely(go_on(session, run, avoid, &tried, (lease, answer))).await
}

/// A read goes elsewhere, as this server gave it no connection.
fn leave(session: &mut Session, server: ServerId, error: &PoolError, avoid: &mut Vec<ServerId>) {
    session.run.profile.failed("connection_refused");
    recorded::retried(session.handle.id, server, Some(Retry::Refused));
    loss::suspect_refusal(&session.core, &session.handle, server, error);
    reads::pass_over(&session.core, &session.connections, server, avoid);
}

/// After an attempt that did not end with the server's answer: the same.
async fn go_on(
    session: &mut Session,
    run: &mut Run,
    avoid: &mut Vec<ServerId>,
    tried: &Tried,
    ended: (Lease, Answer),
) -> Result<bool, End> {
    let (mut lease, answer) = ended;
    recorded::retried(session.handle.id, tried.plan.server, answer.retry());
    session.run.profile.failed(answer.name());
    match answer {
        Answer::Done(_) => return Ok(false),
        Answer::Refused(refusal) => {
            settle::keep_after_error(session, lease, run.pins);
            loss::place_error(&mut session.client, run)?;
            session.transaction.note_failure(Some(refusal.number));
            session.client.pass_refusal(&refusal).await?;
            return Ok(false);
        }
        Answer::Again => {
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
        Answer::Collided => {
            run.again = true;
            count(&session.core.counters.insert_ids_taken_anew);
            settle::keep_after_error(session, lease, run.pins);
        }
        Answer::Transient => {
            settle::keep_after_error(session, lease, run.pins);
            reads::pause_before_retry(&session.core, run).await;
        }
        Answer::WritesOnReplica => {
            correct(&session.core, &session.handle, &mut session.client, run, lease)
        }
        Answer::ReadOnly(refusal) => {
            lease.connection_mut().owner.statement = 0;
            reclaim::give_back(&session.handle, lease);
            return loss::hold_declined(session, run, avoid, tried, &refusal).await;
        }
        Answer::Differs => {
            drop(lease);
            return loss::tell_difference(session, run, tried).await.map(|()| false);
        }
        Answer::Lost(loss) => {
            recorded::lost(session.handle.id, lease.connection(), loss.forwarded);
            run.lost_on = Some(recover::lost_on(
                &session.core,
                &mut session.connections,
                &session.promises,
                lease.connection(),
                run,
            ));
            drop(lease);
            return loss::after_loss(session, run, avoid, tried, loss).await;
        }
    }
    Ok(true)
}

/// Answers a statement that is not run as it is: its session was killed meanwhile, values of
/// its variables are lost, or it asks for what this connection does not know.
async fn turn_away(session: &mut Session, run: &mut Run) -> Result<(), End> {
    if session.handle.killed.get() {
        return Err(session::last_word(&session.core, &mut session.client).await);
    }
    if session.variables.user_variables.as_mut().is_some_and(|own| own.take_lost()) {
        let pin = Pins::USER_VARIABLE.describe();
        return session.client.error(&error::SESSION_LOST_PIN, &[&pin]).await;
    }
    run.recalls = true;
    Ok(())
}

/// After a replica refused what looked like a read: it goes to the primary.
fn correct(core: &Core, handle: &Handle, client: &mut Client, run: &mut Run, lease: Lease) {
    if !relayed::leave_pipeline(client, run) {
        reclaim::give_back(handle, lease);
    }
    core.learn_writer(run.shape.hash);
    count(&core.counters.reads_corrected);
    (run.shape.class, run.shape.writes) = (Class::Other, true);
}

/// Runs a command on the current group: a cache answers it, or a server does.
pub async fn run_here(session: &mut Session, shape: Shape, job: Job) -> Result<Ran, End> {
    session.run.recording = None;
    let asks = matches!(job, Job::Frame(Expect::Results) | Job::Execute(_));
    if session.promises.row_cache && asks {
        if rarely(vouch::answer_by_row(session, &shape, job)).await? {
            return Ok(Ran::Answered);
        }
        if session.run.point.is_some() {
            return run_on_servers(session, shape, job).await;
        }
    }
    if recall::may_be_cached(
        &session.client.request,
        &session.connections,
        &session.promises,
        &shape,
        job,
    ) && rarely(recall::answer_from_cache(session, &shape)).await?
    {
        return Ok(Ran::Answered);
    }
    run_on_servers(session, shape, job).await
}
