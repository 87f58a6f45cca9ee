//! Pipelines: commands that a client sent without waiting go to the server in one write, and their
//! replies come back in order.
//!
//! A statement rides only when nothing that Heddle does for it depends on the replies in front of
//! it: it may not change how later texts are read, be followed by questions of Heddle's own, or be
//! answered here. All others wait for the pipeline to arrive and run alone. To a replica go reads only;
//! should one of them turn out to write, it and those behind it run again where they belong.
//!
//! In a farm with shard maps a statement rides when the planner places it on the group of those in
//! front. One that is for another group or for several, that needs a question first, or that a move
//! of shards holds back, waits; so do BEGIN, COMMIT and savepoints, which Heddle itself carries out.

use backend::Connection;
use farm::error;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::relay::Expect;
use mysql_wire::status::Status;
use sqltext::{Class, Facts, Verb};

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::connections::group_connections::seat_number;
use crate::consistency::reads;
use crate::counters::count;
use crate::execution::exec::{
    Answer, Done, Job, Pipeline, PipelinedCommand, Run, Shape, text_shape,
};
use crate::execution::pipe::Pipe;
use crate::execution::relayed::readdress;
use crate::execution::statement_run::clock;
use crate::execution::{attempt, rules};
use crate::execution::{measure, relayed};
use crate::per_core::Core;
use crate::prepared::prepared_packets;
use crate::prepared::statements::PreparedStatements;
use crate::recorded;
use crate::session::Session;
use crate::transaction::joining;
use crate::transaction::state::Transaction;
use crate::transaction::{replay, settle};
use crate::variables::insert_id;
use crate::variables::session_variables::SessionVariables;

/// Requests under way at one time. All of them fit the server's receive buffer, so that writing
/// them never waits for a server which itself waits for its replies to be read.
const BYTES_MAX: usize = 32_768;

/// A pipeline is not interrupted, so its length bounds how long others wait for its connection.
const COMMANDS_MAX: usize = 512;

/// The same when somebody waits already.
const COMMANDS_CROWDED_MAX: usize = 16;

/// True when the statement may be sent before those in front of it are answered, and others behind
/// it. `replica`: the connection is one for reads. `plain_ends`: COMMIT and ROLLBACK end nothing but
/// the transaction, as `completion_type` may have it otherwise.
fn may_ride(shape: &Shape, replica: bool, plain_ends: bool) -> bool {
    let plain = Facts::LOCKING_READ | Facts::IMPLICIT_COMMIT | Facts::LAST_INSERT_ID;
    // A level of its own may want another server than those in front were sent to.
    let asks = shape.hint.is_some() || shape.level.is_some() || shape.cache_ttl_s > 0;
    if asks || shape.bad_hint || !plain.contains(shape.facts) {
        return false;
    }
    match (shape.class, shape.verb) {
        (Class::Read, _) => true,
        _ if replica => false,
        (Class::Write, Verb::Insert | Verb::Replace | Verb::Update | Verb::Delete) => true,
        (Class::Other, Verb::Select) => true,
        (Class::Transaction, Verb::Commit { release, .. } | Verb::Rollback { release, .. }) => {
            plain_ends && release != Some(true)
        }
        (Class::Transaction, _) => true,
        _ => false,
    }
}

/// The commands behind the current one that are to be sent with it: none, or those that have
/// come whole, up to the first that must wait.
pub(crate) async fn couple(
    session: &mut Session,
    connection: &mut Connection,
    run: &Run,
    replica: bool,
) -> Pipeline {
    let mut pipeline = Pipeline::default();
    let text = matches!(run.job, Job::Frame(Expect::Results) | Job::Execute(_));
    let place = session.client.request.place();
    let leads = text && place.len() <= BYTES_MAX && !session.client.request.is_split();
    // Attributes stand between the texts of a pipeline and are not for every server.
    let attributes = Capabilities::QUERY_ATTRIBUTES;
    let plain = !text_shape::has_attributes(&session.client)
        && !connection.capabilities.contains(attributes);
    // The replica was chosen by what the tables of the first statement need.
    let narrowed = replica && session.promises.narrowed.is_some();
    if !leads
        || narrowed
        || !plain
        || session.run.ruled.is_some()
        || !may_flow(&session.core, &session.variables, &session.connections, &session.transaction)
        || is_carried_out_here(&session.core, &session.transaction, &run.shape)
        || !rides(
            &session.client.request,
            &session.variables,
            &session.prepared,
            &run.shape,
            run.job,
            replica,
        )
    {
        return pipeline;
    }
    let crowded =
        session.connections.current.held.is_none() && session.core.pools.wanted(connection.server);
    let commands_max = if crowded {
        COMMANDS_CROWDED_MAX
    } else {
        COMMANDS_MAX
    };
    while pipeline.commands.len() < commands_max && session.client.step() {
        let end = session.client.request.place().end;
        if end - place.start > BYTES_MAX {
            break;
        }
        let Some(command) = next_pipelined(session, connection, replica) else {
            break;
        };
        let asks = insert_id::needs_insert_id(&command.shape);
        // What fails here is found out by the command in front.
        if asks
            && insert_id::move_insert_id(&session.handle, &mut session.variables, connection)
                .await
                .is_err()
        {
            readdress(&mut session.client.request, &command);
            break;
        }
        pipeline.commands.push_back(command);
        pipeline.bytes = end - place.end;
    }
    session.client.go_back(place);
    pipeline
}

/// The current command as part of a pipeline, made ready to be sent on this connection.
fn next_pipelined(
    session: &mut Session,
    connection: &mut Connection,
    replica: bool,
) -> Option<PipelinedCommand> {
    let (shape, job) = match Command::try_from(*session.client.request.payload().first()?) {
        Ok(Command::Query) => {
            let mut shape =
                text_shape::query_shape(&session.core, &session.client.request, &session.variables);
            if reads::is_known_writer(&session.core, &shape) {
                (shape.class, shape.writes) = (Class::Other, true);
            }
            (shape, Job::Frame(Expect::Results))
        }
        Ok(Command::StmtExecute) => {
            let (id, shape) =
                prepared_packets::executable(&session.client.request, &session.prepared)?;
            if reads::is_known_writer(&session.core, &shape) {
                return None;
            }
            (shape, Job::Execute(id))
        }
        _ => return None,
    };
    if !rides(&session.client.request, &session.variables, &session.prepared, &shape, job, replica)
        || is_carried_out_here(&session.core, &session.transaction, &shape)
        || rules::is_ruled(&session.context(), &shape, job)
    {
        return None;
    }
    let (context, run) = (session.context(), &session.run);
    if !run.stays.is_some_and(|stays| stays(&context, &session.handle, run, &shape, job)) {
        return None;
    }
    // Last, because it changes the command.
    if let Job::Execute(id) = job
        && !prepared_packets::address_as_it_is(
            &mut session.client.request,
            &mut session.prepared,
            connection,
            id,
        )
    {
        return None;
    }
    joining::take_in(&mut session.transaction, &session.variables, &shape);
    Some(PipelinedCommand { shape, job })
}

/// Gives the answers to those behind the current command, whose own is `answer`. Returns the
/// answer to the last one of which anything is known: it is the current command then.
pub(crate) async fn ride(
    session: &mut Session,
    connection: &mut Connection,
    run: &mut Run,
    answer: Result<Answer, End>,
    replica: bool,
    pipe: &mut Pipe,
) -> Result<Answer, End> {
    let mut answer = answer?;
    loop {
        let mut done = match (answer, run.pipeline.commands.is_empty()) {
            (Answer::Done(done), false) => done,
            (last, _) => return Ok(last),
        };
        let Done { outcome, changes } = &mut *done;
        settle::note_route(session, connection, run, outcome, changes);
        replay::log_statement(
            &session.core,
            &session.client,
            &session.variables,
            &mut session.connections,
            &session.prepared,
            run,
            outcome,
        );
        run.pins = settle::learn(session, connection, &run.shape, run.pins, outcome, changes);
        session.core.statements.replies.give(done);
        measure::end_in_pipeline(session, pipe.ready);
        session.client.step();
        if session.handle.killed.get() {
            relayed::forward(&mut session.client, &mut session.run, pipe).await?;
            session.client.error(&error::CONNECTION_KILLED, &[]).await?;
            return Err(End::Killed);
        }
        if let Some(command) = run.pipeline.commands.pop_front() {
            (run.shape, run.job) = (command.shape, command.job);
        }
        if session.core.digests.is_on() {
            measure::begin(session, &run.shape, run.job);
        }
        let digest = session.handle.asked.borrow().digest;
        recorded::statement(session.handle.id, session.handle.command.get(), digest);
        clock::start_clock(&session.core, &session.handle, &mut session.run, &run.shape);
        replay::begin_log(
            &session.core,
            &session.variables,
            &mut session.connections,
            &session.transaction,
            &run.shape,
        );
        count(&session.core.counters.statements);
        count(&session.core.counters.statements_pipelined);
        answer =
            attempt::answer_one(session, connection, run, Expect::Results, replica, pipe).await?;
    }
}

fn rides(
    request: &Request,
    variables: &SessionVariables,
    prepared: &PreparedStatements,
    shape: &Shape,
    job: Job,
    replica: bool,
) -> bool {
    let plain_ends = variables.state.variable("completion_type").is_none();
    may_ride(shape, replica, plain_ends)
        && !insert_id::assigns_insert_id(request, prepared, shape, job)
}

/// True where a statement may reach the current group without a question: outside transactions, and
/// in a transaction that this group has for itself.
fn may_flow(
    core: &Core,
    variables: &SessionVariables,
    connections: &GroupConnections,
    transaction: &Transaction,
) -> bool {
    match &transaction.dist_txn {
        Some(dist_txn) => dist_txn.is_alone_on(seat_number(core, connections)),
        // Without autocommit any statement may be the one that begins a transaction here.
        None => {
            let sharded = core.glance().sharding.is_some();
            !sharded || variables.status.contains(Status::AUTOCOMMIT)
        }
    }
}

/// Where transactions may be over several groups, Heddle itself begins and ends them.
fn is_carried_out_here(core: &Core, transaction: &Transaction, shape: &Shape) -> bool {
    let bounds = shape.class == Class::Transaction || shape.facts.contains(Facts::IMPLICIT_COMMIT);
    bounds && (transaction.dist_txn.is_some() || core.glance().sharding.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqltext::{Dialect, Mode, Scan};

    fn shape(text: &str) -> Shape {
        let mut scan = Scan::new();
        scan.read(text.as_bytes(), &Mode::new(Dialect::MariaDb, 101_100));
        Shape {
            class: scan.class,
            verb: scan.verb,
            facts: scan.facts,
            hint: scan.hint.ms,
            ..Shape::command()
        }
    }

    #[test]
    fn plain_statements_ride_to_the_primary() {
        for text in [
            "INSERT INTO t VALUES (1)",
            "UPDATE t SET a = 1",
            "DELETE FROM t",
            "REPLACE INTO t VALUES (1)",
            "SELECT a FROM t",
            "SELECT a FROM t FOR UPDATE",
            "BEGIN",
            "COMMIT",
            "SAVEPOINT s",
            "SELECT LAST_INSERT_ID()",
        ] {
            assert!(may_ride(&shape(text), false, true), "{text}");
        }
    }

    #[test]
    fn what_needs_an_answer_first_waits() {
        for text in [
            "SET sql_mode = 'ANSI_QUOTES'",
            "SET NAMES latin1",
            "USE other",
            "SELECT @a := 1",
            "SELECT @@sql_mode",
            "SELECT FOUND_ROWS()",
            "SHOW WARNINGS",
            "CALL p()",
            "SELECT 1; SELECT 2",
            "LOAD DATA LOCAL INFILE 'f' INTO TABLE t",
            "CREATE TEMPORARY TABLE t (a INT)",
            "ALTER TABLE t ADD b INT",
            "LOCK TABLES t WRITE",
            "SELECT GET_LOCK('a', 1)",
            "XA START 'a'",
            "KILL 5",
            "HEDDLE STATUS",
            "SELECT CONNECTION_ID()",
            "COMMIT RELEASE",
            "/*ms=master*/ SELECT 1",
            "PREPARE s FROM 'SELECT 1'",
            "SET STATEMENT max_statement_time = 1 FOR SELECT 1",
            "SET TRANSACTION READ ONLY",
            "BEGIN NOT ATOMIC SELECT 1; END",
            "",
        ] {
            assert!(!may_ride(&shape(text), false, true), "{text}");
        }
        assert!(!may_ride(&shape("COMMIT"), false, false));
    }

    #[test]
    fn only_reads_ride_to_a_replica() {
        assert!(may_ride(&shape("SELECT a FROM t"), true, true));
        for text in [
            "INSERT INTO t VALUES (1)",
            "BEGIN",
            "SELECT LAST_INSERT_ID()",
        ] {
            assert!(!may_ride(&shape(text), true, true), "{text}");
        }
    }
}
