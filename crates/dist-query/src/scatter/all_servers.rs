//! A read that runs on every server of a group, because its hint says so (`/*ms=all*/`): one result of each server,
//! one after the other in one reply.
//!
//! Invariants: only what surely reads runs so, on READ ONLY sessions, so that what writes all the same is refused
//! everywhere. Either every server has a connection for it, or none is sent anything. The servers work at the same
//! time, and the client reads their results in the order of [`routing::plan_all`]; the first error ends the reply.
//! Levels have no say, and the session's later reads are promised nothing by it: each server shows what it has.

use backend::{Lease, Questions, Residue, Warnings};
use execute::client::answer::Answers;
use execute::client::end::End;
use execute::client::refuse::ServerRefusal;
use execute::client::sink::ReplySink;
use execute::connections::group_connections::GroupConnections;
use execute::connections::parked::reclaim;
use execute::consistency::reads;
use execute::counters::{count, statistics};
use execute::execution::exec::{Job, Shape};
use execute::execution::servers_tried::{self, Asked};
use execute::execution::statement_run::StatementRun;
use execute::execution::{attempt, without};
use execute::per_core::Core;
use execute::per_core::operator::Fault;
use execute::session::{self, Session, is_free};
use execute::transaction::loss;
use execute::transaction::state::Transaction;
use execute::variables::session_variables::SessionVariables;
use farm::{Status as Standing, error};
use mysql_wire::capability::Capabilities;
use mysql_wire::packet;
use mysql_wire::relay::{Expect, Outcome};
use mysql_wire::reply::OkPacket;
use mysql_wire::status::Status;
use routing::Refusal;

use super::end_scatter;
use super::feed::{Event, Feed, Order};
use super::feeds::Feeds;
use super::result_writer::{Form, ResultWriter};
use super::rows::{PIECE_BYTES, flush};
use super::stop::end_feeds;

/// What the servers' replies leave behind.
struct Left {
    /// Of the last result, or of the one that failed.
    outcome: Outcome,
    warnings: Option<Warnings>,
    /// The error of the server that failed, with its address; `None` inside where its connection broke.
    failure: Option<(String, Option<ServerRefusal>)>,
}

/// Runs the current text on every server of the current group, to its answer. Nothing bars it by itself
/// ([`bars_all`]).
pub(crate) async fn run_on_all(session: &mut Session, shape: Shape, job: Job) -> Result<(), End> {
    if let Some(why) = ties(&session.connections, &session.variables) {
        return session.client.error(&error::ALL_SERVERS_REFUSED, &[&why]).await;
    }
    let asked = match servers_tried::all_servers(&session.core, &session.connections, &session.run)
    {
        Ok(asked) => asked,
        Err(Refusal { error, detail }) => return session.client.error(&error, &[&detail]).await,
    };
    let several = Capabilities::MULTI_RESULTS | Capabilities::MULTI_STATEMENTS;
    if asked.len() > 1 && !session.client.capabilities.intersects(several) {
        let why = "gives several results, which the client did not ask for when it logged in \
                   (CLIENT_MULTI_RESULTS)";
        return session.client.error(&error::ALL_SERVERS_REFUSED, &[why]).await;
    }
    answer_of_all(session, &asked, shape, job).await
}

/// Why the hint is not followed for this command, wherever its tables are.
pub(crate) fn bars_all(
    core: &Core,
    variables: &SessionVariables,
    transaction: &Transaction,
    shape: &Shape,
    job: Job,
) -> Option<&'static str> {
    if job != Job::Frame(Expect::Results) {
        return Some("is for texts: a prepared statement runs on one server");
    }
    let free = is_free(variables.status) && transaction.dist_txn.is_none();
    let inside = "is not followed inside a transaction, which has its server";
    servers_tried::bars_all_servers(core, shape).or((!free).then_some(inside))
}

/// Why the session's statements run on one connection of the current group.
fn ties(connections: &GroupConnections, variables: &SessionVariables) -> Option<String> {
    let why = match &connections.current.held {
        Some(held) => held.pins.describe(),
        None if variables.lasting.is_empty() => return None,
        None => "settings that no other one has".to_owned(),
    };
    Some(format!("is not followed while the session is tied to one connection ({why})"))
}

async fn answer_of_all(
    session: &mut Session,
    asked: &[Asked],
    shape: Shape,
    job: Job,
) -> Result<(), End> {
    let run = reads::new_run(session, shape, job);
    let Some(leases) = take_all(session, asked, &shape).await? else {
        return Ok(());
    };
    if let Some(first) = leases.first() {
        attempt::begin_attempt(session, first.connection(), &run);
    }
    let mut feeds = send_to_all(session, leases);
    let mut writer = ResultWriter::new(Form::Text, session.client.capabilities);
    let status = session::status_now(&session.variables, &session.transaction);
    let (client, profile) = (&mut session.client, &mut session.run);
    let failed = relay_all(client, profile, status, &mut feeds, &mut writer).await?;
    end_feeds(&session.core, &session.handle, &mut feeds, failed.is_some()).await;
    end_scatter(&session.handle, &mut session.run);
    let left = leave_all(session, asked, &shape, feeds, failed).await;
    session.run.number += 1;
    let diagnostics = &mut session.variables.diagnostics;
    diagnostics.note(&shape, &left.outcome, session.variables.mode.dialect);
    diagnostics.learn(&mut Residue {
        warnings: left.warnings,
        ..Residue::default()
    });
    session.transaction.note_failure(left.outcome.error);
    flush(&mut session.client, &mut session.run, &mut writer).await?;
    session.client.sequence = writer.sequence;
    match left.failure {
        None => Ok(()),
        Some((_, Some(refusal))) => session.client.pass_refusal(&refusal).await,
        Some((server, None)) => {
            session.client.error(&error::SERVER_LOST_IN_RESULT, &[&server]).await
        }
    }
}

/// A connection to each server. `None`: one could not be had, and the client has been told why.
async fn take_all(
    session: &mut Session,
    asked: &[Asked],
    shape: &Shape,
) -> Result<Option<Vec<Lease>>, End> {
    let mut leases = Vec::with_capacity(asked.len());
    for (plan, target) in asked {
        session.run.profile.chosen(*plan, session.promises.level_of(shape));
        let taken = loop {
            let taken = Box::pin(servers_tried::checkout(session, plan, target, shape)).await;
            let (core, handle, user) = (&session.core, &session.handle, &session.user);
            match taken {
                Err(error)
                    if without::does_without(
                        core,
                        handle,
                        user,
                        &mut session.variables,
                        &error,
                    ) => {}
                taken => break taken,
            }
        };
        match taken {
            Ok((lease, _)) => leases.push(lease),
            Err(error) => {
                loss::suspect_refusal(&session.core, &session.handle, plan.server, &error);
                for lease in leases {
                    reclaim::give_back(&session.handle, lease);
                }
                session.client.pool_error(&error, target).await?;
                return Ok(None);
            }
        }
    }
    Ok(Some(leases))
}

/// Sends all of them the client's text.
fn send_to_all(session: &mut Session, leases: Vec<Lease>) -> Feeds {
    let order = Order {
        text: packet::joined(session.client.request.frame()).split_off(1),
        ..Order::default()
    };
    let core = &session.core;
    let start = |lease| {
        count(&core.counters.statements);
        Feed::start(lease, &order, core.take_buffer())
    };
    let all: Vec<Feed> = leases.into_iter().map(start).collect();
    let elsewhere = all.iter().skip(1).map(|feed| feed.on).collect();
    session.handle.at_servers.running_elsewhere.replace(elsewhere);
    Feeds {
        all,
        clocked: false,
    }
}

/// Counts what each server did, asks for the warnings that are the session's now, and gives the connections back.
async fn leave_all(
    session: &mut Session,
    asked: &[Asked],
    shape: &Shape,
    feeds: Feeds,
    failed: Option<usize>,
) -> Left {
    let told = failed.unwrap_or(asked.len().saturating_sub(1));
    let mut left = Left {
        outcome: Outcome::default(),
        warnings: None,
        failure: None,
    };
    for (at, (mut feed, (plan, target))) in feeds.all.into_iter().zip(asked).enumerate() {
        let mut outcome = std::mem::take(&mut feed.outcome);
        outcome.status = Some(session.variables.status);
        let refusal = feed.refusal.take();
        session.run.profile.served(feed.on.0, feed.ended, &outcome, feed.lost);
        let (lease, buffer) = feed.finish();
        session.core.give_buffer(buffer);
        let server = format!("{}:{}", target.host, target.port);
        match lease {
            // Another one is closed because it did not stop in time.
            None if at == told => {
                loss::suspect(&session.core, &session.handle, plan.server, Fault::Reset);
                outcome.error = Some(error::SERVER_LOST_IN_RESULT.number);
            }
            None => {}
            Some(mut lease) => {
                note_asked(session, &mut lease, shape, &outcome);
                if at == told && (outcome.error.is_some() || outcome.warnings > 0) {
                    left.warnings = warnings_of(&mut lease).await;
                }
                reclaim::give_back(&session.handle, lease);
            }
        }
        if at == told {
            left.outcome = outcome;
            left.failure = failed.map(|_| (server.clone(), refusal.map(|it| named(it, &server))));
        }
    }
    left
}

/// A server has answered.
fn note_asked(session: &mut Session, lease: &mut Lease, shape: &Shape, outcome: &Outcome) {
    let connection = lease.connection_mut();
    let snapshot = session.core.glance();
    let server = snapshot.server(connection.server);
    let replica = server.is_some_and(|server| server.status == Standing::Replica);
    statistics::note_served(
        &session.core,
        &session.variables,
        &session.connections,
        &session.run,
        shape,
        connection.server,
        replica,
    );
    if replica {
        count(&session.core.counters.reads_to_replicas);
    }
    session.run.profile.done(connection, outcome);
    connection.owner.session = session.handle.id;
    connection.owner.statement = 0;
    if outcome.error.is_some() || outcome.warnings > 0 {
        connection.owner.warned = session.handle.id;
    }
}

/// Sends the client each server's result, but for the end of the last one, which is still in the writer. Gives the
/// place of the first server that failed.
async fn relay_all(
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    status: Status,
    feeds: &mut Feeds,
    writer: &mut ResultWriter,
) -> Result<Option<usize>, End> {
    for at in 0..feeds.all.len() {
        let more = at + 1 < feeds.all.len();
        let status = match more {
            true => status | Status::MORE_RESULTS,
            false => status,
        };
        relay_one(client, run, status, feeds, at, writer).await?;
        let feed = &feeds.all[at];
        if feed.failed() {
            return Ok(Some(at));
        }
        match feed.outcome.has_rows {
            true => writer.end(status, feed.outcome.warnings),
            false => writer.ok(&OkPacket {
                warnings: feed.outcome.warnings,
                ..OkPacket::new(status)
            }),
        }
    }
    Ok(None)
}

/// The rows of one server, without their end.
async fn relay_one(
    client: &mut impl ReplySink,
    run: &mut StatementRun,
    status: Status,
    feeds: &mut Feeds,
    at: usize,
    writer: &mut ResultWriter,
) -> Result<(), End> {
    loop {
        let feed = &mut feeds.all[at];
        let written = match feed.step() {
            Event::Columns => writer.begin(&feed.columns, feed.capabilities(), status),
            Event::Row => writer.text_row(feed.row(), true),
            Event::End => return Ok(()),
            Event::Wait => {
                // The client may read the results before while this server works.
                flush(client, run, writer).await?;
                feeds.of(at).await;
                Ok(())
            }
        };
        if let Err(malformed) = written {
            tracing::error!(%malformed, "a server broke the protocol");
            feeds.all[at].lost = true;
            return Ok(());
        }
        if writer.out.len() >= PIECE_BYTES {
            feeds.nudge().await;
            flush(client, run, writer).await?;
        }
    }
}

async fn warnings_of(lease: &mut Lease) -> Option<Warnings> {
    let questions = Questions {
        warnings: true,
        ..Questions::default()
    };
    let residue = lease.connection_mut().residue(&questions).await;
    residue.ok().and_then(|residue| residue.warnings)
}

/// The refusal says whose it is.
fn named(mut refusal: ServerRefusal, server: &str) -> ServerRefusal {
    refusal.message.extend_from_slice(format!(" (server {server})").as_bytes());
    refusal
}
