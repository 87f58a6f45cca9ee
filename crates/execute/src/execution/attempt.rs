//! One attempt on one connection: make it ready, send, relay the reply as it comes.

mod refusal;

use backend::{Connection, ConnectionError, Lease};
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::relay::{Expect, Outcome, Relay};
use mysql_wire::reply::SessionChange;
use mysql_wire::statement::PARAMETERS_COUNTED;
use reactor::rarely;
use sqltext::{Class, Facts};

use crate::client::end::End;
use crate::client::refuse::ServerRefusal;
use crate::client::request::Request;
use crate::connections::group_connections::GroupConnections;
use crate::consistency::acks::wait::may_tell;
use crate::consistency::client_level;
use crate::consistency::promises::Promises;
use crate::consistency::write_tags::tagging;
use crate::counters::count;
use crate::execution::exec::{Answer, Done, Job, Loss, Run, Shape};
use crate::execution::pipe::Pipe;
use crate::execution::profile::{Detail, Step, server_counters};
use crate::execution::statement_run::clock::{end_attempt, start_clock};
use crate::execution::{pipe, pipeline, relayed};
use crate::per_core::Core;
use crate::prepared::statements::PreparedStatements;
use crate::prepared::{prepared_packets, ready};
use crate::recorded;
use crate::session::context::StatementContext;
use crate::session::{self, Session};
use crate::transaction::replay;
use crate::transaction::resume::Tally;
use crate::variables::assigned::{self, try_to_repeat};
use crate::variables::changes::Changes;
use crate::variables::{defaults, insert_id, user_variables};

/// The command byte of COM_STMT_EXECUTE.
const EXECUTE: u8 = Command::StmtExecute as u8;

/// Once a reply has filled this many buffers it is a long one, and goes on in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// Runs the command of `run` on this connection, and those behind it that may go with it: then
/// the answer is that of the last one of which anything is known, and the others stay in
/// `run.pipeline`. Fails only when the client is gone; then the reply is unread and the connection
/// must not be used again.
pub(crate) async fn attempt(
    session: &mut Session,
    lease: &mut Lease,
    run: &mut Run,
    read_only: bool,
) -> Result<Answer, End> {
    let connection = lease.connection_mut();
    if session.run.detail == Detail::Server && may_count(&session.client.request, run) {
        session.run.before = rarely(server_counters::before(connection)).await;
    }
    begin_attempt(session, connection, run);
    let answer = attempt_inner(session, connection, run, read_only).await;
    end_attempt(&session.handle, &mut session.run);
    answer
}

/// A statement goes to this connection: others on the core may see, stop and time it.
pub fn begin_attempt(session: &mut Session, connection: &Connection, run: &Run) {
    recorded::sent(session.handle.id, connection);
    session.handle.at_servers.running.set(Some((connection.server, connection.thread_id)));
    if session.run.measured.is_none() {
        let digest = user_variables::digest(
            &session.core,
            &session.client.request,
            &session.variables,
            &session.prepared,
            &run.shape,
            run.job,
        );
        session.handle.asked.borrow_mut().name(digest);
    }
    let waits = run.shape.facts.contains(Facts::USER_LOCK);
    let idle = waits || run.shape.class == Class::Read;
    session.handle.at_servers.ends_with_client.set(idle);
    start_clock(&session.core, &session.handle, &mut session.run, &run.shape);
    replay::begin_log(
        &session.core,
        &session.variables,
        &mut session.connections,
        &session.transaction,
        &run.shape,
    );
    session.run.profile.lap(Step::Wait);
    session.run.profile.goes_to(connection.server);
}

async fn attempt_inner(
    session: &mut Session,
    connection: &mut Connection,
    run: &mut Run,
    read_only: bool,
) -> Result<Answer, End> {
    if connection.is_cut() {
        return Ok(Answer::UNSENT);
    }
    if defaults::may_set_globals(&run.shape) {
        let (client, own, prepared) = (&session.client, &session.variables, &session.prepared);
        let (shape, job) = (&run.shape, run.job);
        let asked = defaults::ask_globals(&client.request, own, prepared, connection, shape, job);
        run.globals = rarely(asked).await;
    }
    let (expect, own) = match make_ready(session, connection, &run.shape, run.job).await {
        Ok(ready) => ready,
        Err(ConnectionError::Refused {
            number,
            sqlstate,
            message,
        }) => {
            return Ok(Answer::Refused(ServerRefusal {
                number,
                sqlstate,
                message,
            }));
        }
        Err(_) => return Ok(Answer::UNSENT),
    };
    if own.is_none() && session.client.request.has_more() {
        run.pipeline = rarely(pipeline::couple(session, connection, run, read_only)).await;
        session.handle.at_servers.in_pipeline.set(!run.pipeline.commands.is_empty());
    }
    count(&session.core.counters.statements);
    if send(session, connection, run, own).await.is_err() {
        return Ok(match run.pipeline.commands.is_empty() {
            true => Answer::UNSENT,
            false => Answer::LOST,
        });
    }
    let mut pipe = Pipe {
        buffer: session.core.take_buffer(),
        ready: 0,
    };
    let mut answer = answer_one(session, connection, run, expect, read_only, &mut pipe).await;
    if !run.pipeline.commands.is_empty() {
        answer =
            rarely(pipeline::ride(session, connection, run, answer, read_only, &mut pipe)).await;
    }
    session.core.give_buffer(pipe.buffer);
    answer
}

/// Sends the command, with those behind it that go with it; `own` is sent in its place, if it is there.
async fn send(
    session: &mut Session,
    connection: &mut Connection,
    run: &Run,
    own: Option<Vec<u8>>,
) -> std::io::Result<()> {
    let own = own.or_else(|| {
        tagging::tagged(&session.core, &session.client.request, &session.promises, connection, run)
    });
    let is_lent = own.is_none();
    let (bytes, range) = match own {
        Some(bytes) => {
            let all = 0..bytes.len();
            (bytes, all)
        }
        None => {
            let (bytes, range) = session.client.request.lend();
            (bytes, range.start..range.end + run.pipeline.bytes)
        }
    };
    let (sent, bytes) = connection.send(bytes, range).await;
    match is_lent {
        true => session.client.request.restore(bytes),
        false => session.core.give_buffer(bytes),
    }
    sent
}

/// Relays one reply and completes what it says.
pub(crate) async fn answer_one(
    session: &mut Session,
    connection: &mut Connection,
    run: &Run,
    expect: Expect,
    read_only: bool,
    pipe: &mut Pipe,
) -> Result<Answer, End> {
    let mut answer = relay(session, connection, run, expect, read_only, pipe).await;
    match &mut answer {
        Ok(Answer::Done(done)) => {
            let Done { outcome, changes } = &mut **done;
            complete(session, connection, run, expect, outcome, changes).await;
        }
        _ if run.shape.tracking => connection.condemn(),
        _ => {}
    }
    answer
}

/// Takes note of a reply that is about a prepared statement.
async fn note_statement(
    prepared: &mut PreparedStatements,
    connection: &mut Connection,
    job: Job,
    expect: Expect,
    outcome: &Outcome,
    changes: &mut Changes,
) {
    match (job, outcome.prepared) {
        (Job::Prepare(_), Some(reply)) => {
            let _ = prepared.note_prepared(connection, reply).await;
            if outcome.warnings > 0 {
                changes.residue = rarely(relayed::ask_warnings(connection)).await;
            }
        }
        (Job::Execute(id), _) => {
            let opens = expect == Expect::Cursor;
            prepared.note_executed(connection, id, outcome.status.filter(|_| opens));
        }
        _ => {}
    }
}

/// Learns what a complete reply leaves to be asked. A connection that breaks here is found out
/// by its next user.
async fn complete(
    session: &mut Session,
    connection: &mut Connection,
    run: &Run,
    expect: Expect,
    outcome: &Outcome,
    changes: &mut Changes,
) {
    let (shape, job) = (&run.shape, run.job);
    note_statement(&mut session.prepared, connection, job, expect, outcome, changes).await;
    let failed = outcome.error.is_some();
    let text = user_variables::text(&session.client.request, &session.prepared, job);
    if shape.facts.contains(Facts::USER_VARIABLE) {
        let id = session.handle.id;
        let noted = session.variables.note_user_variables(id, connection, shape, text, failed);
        changes.pins_user_variables = noted;
    }
    if session.connections.may_tie(shape) {
        let whole = (!session.client.request.is_split()).then_some(text);
        let (core, own, connections) =
            (&session.core, &session.variables, &mut session.connections);
        let noting = connections.note_ties(core, own, connection, shape, whole, failed);
        changes.ended = rarely(noting).await;
    }
    changes.pins |= changes.tracking && !shape.tracking;
    // A SET that failed has assigned nothing, and a question behind it would take its
    // diagnostics away.
    let nothing = shape.class == Class::Set && failed;
    if !nothing && assigned::may_assign(shape) {
        let learning = assigned::learn_assigned(
            &session.client.request,
            &session.variables,
            &session.prepared,
            connection,
            shape,
            job,
            changes,
        );
        let _ = rarely(learning).await;
        let plain = outcome.warnings == 0 && !shape.facts.contains(Facts::MULTIPLE);
        if plain && shape.class == Class::Set {
            let _ = rarely(try_to_repeat(connection, changes)).await;
        }
    }
    if shape.facts.contains(Facts::ROLE) {
        rarely(assigned::learn_role(connection, changes)).await;
    }
    if shape.tracking {
        let taking = session.variables.take_tracking_back(connection, shape, changes);
        if rarely(taking).await.is_err() {
            connection.condemn();
        }
    }
    if insert_id::assigns_insert_id(&session.client.request, &session.prepared, shape, job) {
        let _ =
            rarely(insert_id::learn_insert_id(&session.handle, &mut session.variables, connection))
                .await;
    }
}

/// Brings to the connection what the command relies on. Returns what reply it has, and the
/// command rewritten where the client's own bytes will not do. `Refused` is the answer to an
/// EXECUTE whose statement cannot be prepared any more.
async fn make_ready(
    session: &mut Session,
    connection: &mut Connection,
    shape: &Shape,
    job: Job,
) -> Result<(Expect, Option<Vec<u8>>), ConnectionError> {
    user_variables::bring_values(
        &session.handle,
        &session.client.request,
        &mut session.variables,
        &session.prepared,
        connection,
        shape,
        job,
    )
    .await?;
    let ready = match job {
        Job::Frame(expect) => (
            expect,
            attributed(
                &session.core,
                &session.client.request,
                &session.promises,
                connection,
                shape,
            ),
        ),
        Job::Prepare(client_id) => (Expect::Prepare { client_id }, None),
        Job::Execute(id) => {
            ready::ready_statement(
                &session.core,
                &session.promises,
                &session.prepared,
                connection,
                id,
            )
            .await?;
            // The byte behind command and id says what cursor the client wants: 0 for none.
            let expect = match session.client.request.payload() {
                [EXECUTE, _, _, _, _, flags, ..] if flags & !PARAMETERS_COUNTED != 0 => {
                    Expect::Cursor
                }
                [EXECUTE, ..] if shape.class == Class::Call => Expect::Call,
                _ => Expect::Results,
            };
            (
                expect,
                prepared_packets::address_statement(
                    &mut session.client,
                    &session.prepared,
                    connection,
                    id,
                ),
            )
        }
    };
    if shape.tracking {
        rarely(session.variables.lend_tracking(connection)).await?;
    }
    Ok(ready)
}

/// Relays the reply. The reply's bytes are edited and sent in the buffer they were received in.
/// With more replies to come, its end may stay in the pipe for the next send.
async fn relay(
    session: &mut Session,
    connection: &mut Connection,
    run: &Run,
    expect: Expect,
    read_only: bool,
    pipe: &mut Pipe,
) -> Result<Answer, End> {
    let mut way = Way {
        relay: relay_of(&session.context(), connection, &run.shape, expect),
        done: None,
        counted: session.connections.may_resume(run, pipe),
        tally: run.resume.map(Tally::after),
        forwarded: false,
        file: false,
        pieces: 0,
        need: 0,
    };
    loop {
        let walked = match pipe.buffer.len() > pipe.ready {
            true => walk(session, connection, run, read_only, pipe, &mut way).await,
            false => Walked::On,
        };
        if let Walked::Kept(answer) = walked {
            return Ok(answer);
        }
        relayed::forward(&mut session.client, &mut session.run, pipe).await?;
        match walked {
            Walked::On | Walked::Kept(_) => {}
            Walked::File => {
                let (core, handle, client) = (&session.core, &session.handle, &mut session.client);
                let asking = relayed::ask_file(core, handle, client, connection, &mut way.relay);
                rarely(asking).await?;
            }
            Walked::Over(answer) => return Ok(answer),
        }
        pipe::make_room(&mut pipe.buffer, way.need, way.pieces > SMALL_BUFFERS_MAX);
        if pipe.fill(connection).await.is_err() {
            return Ok(lost(&way.relay, way.forwarded, way.file, way.tally.as_deref()));
        }
    }
}

/// How far a reply has come.
struct Way {
    relay: Relay,
    /// What it has said so far, once something has come.
    done: Option<Box<Done>>,
    /// It may be gone on with elsewhere.
    counted: bool,
    tally: Option<Box<Tally>>,
    /// The client has a part of it.
    forwarded: bool,
    file: bool,
    /// Parts of it that were ready, and how much must come before there is another one.
    pieces: usize,
    need: usize,
}

/// What there is to do behind what is ready in the pipe.
enum Walked {
    /// More of the reply is to come.
    On,
    /// The client is asked for a file.
    File,
    /// The attempt is over.
    Over(Answer),
    /// The same, and what is ready stays in the pipe.
    Kept(Answer),
}

/// Walks over what has come of the reply.
async fn walk(
    session: &mut Session,
    connection: &mut Connection,
    run: &Run,
    read_only: bool,
    pipe: &mut Pipe,
    way: &mut Way,
) -> Walked {
    let next = way.relay.next_sequence();
    let replies = &session.core.statements.replies;
    let changes = &mut way.done.get_or_insert_with(|| replies.take()).changes;
    let mut note = |change: SessionChange<'_>| changes.note(connection, change);
    let Ok(progress) = way.relay.advance(&mut pipe.buffer, pipe.ready, &mut note) else {
        tracing::error!(session = session.handle.id, "the server broke the protocol");
        return Walked::Over(lost(&way.relay, way.forwarded, way.file, None));
    };
    if progress.done
        && way.relay.outcome().error.is_some()
        && let Some(refused) =
            rarely(refused(session, connection, run, way.relay.outcome(), read_only, pipe)).await
    {
        changes.writes = matches!(refused, Answer::WritesOnReplica);
        let held = relayed::behind(refused, way.forwarded, next, way.tally.as_deref());
        if let Some(answer) = held {
            return Walked::Over(answer);
        }
    }
    if changes.is_news() && !may_tell(session, connection, changes).await {
        return Walked::Over(lost_before(next, way.forwarded, way.file, None));
    }
    if progress.forward > pipe.ready {
        session.connections.note_told(&pipe.buffer[pipe.ready..progress.forward]);
        pipe.ready = progress.forward;
        if !Tally::takes(&mut way.tally, pipe, way.counted, progress.done) {
            return Walked::Kept(Answer::Differs);
        }
        way.forwarded = way.tally.as_ref().is_none_or(|tally| !tally.swallows());
        way.pieces += 1;
    }
    if progress.done {
        let mut done = way.done.take().unwrap_or_default();
        done.outcome = way.relay.outcome().clone();
        let answer = Answer::Done(done);
        return match run.pipeline.commands.is_empty() {
            true => Walked::Over(answer),
            false => Walked::Kept(answer),
        };
    }
    way.need = progress.need;
    if progress.wants_file {
        way.file = true;
        return Walked::File;
    }
    Walked::On
}

/// How the attempt ended when this error, whose packet comes next, says nothing about the command
/// itself.
async fn refused(
    session: &Session,
    connection: &mut Connection,
    run: &Run,
    outcome: &Outcome,
    read_only: bool,
    pipe: &Pipe,
) -> Option<Answer> {
    match relayed::ends(&session.handle, connection, run, outcome.error?).await {
        true => Some(Answer::LOST),
        false => session.context().refusal(&session.handle, run, outcome, read_only, pipe),
    }
}

/// What turns the server's reply into the client's.
fn relay_of(
    context: &StatementContext<'_>,
    connection: &Connection,
    shape: &Shape,
    expect: Expect,
) -> Relay {
    // Before the client can hear of it.
    if shape.writes && !connection.tells_gtids {
        client_level::tell_client_unlogged(context.core, context.connections, context.transaction);
    }
    let server = connection.capabilities;
    Relay::new(
        expect,
        context.client.capabilities,
        server,
        session::status_now(context.variables, context.transaction),
    )
    .showing(context.variables.shown(connection, shape))
    .of_several(shape.has_several_results())
}

/// The server may be asked what it counts, around this statement.
fn may_count(request: &Request, run: &Run) -> bool {
    let Shape {
        class, verb, facts, ..
    } = run.shape;
    let is_whole = !request.has_more() && run.resume.is_none();
    is_whole
        && !matches!(run.job, Job::Prepare(_))
        && server_counters::may_count(class, verb, facts)
}

impl GroupConnections {
    /// A long result of a read may be gone on with elsewhere.
    fn may_resume(&self, run: &Run, pipe: &Pipe) -> bool {
        let again = run.alone || self.current.replay.is_some();
        again && run.shape.class == Class::Read && pipe.ready == 0
    }
}

/// The current text with its attributes, for a server that takes them.
fn attributed(
    core: &Core,
    request: &Request,
    promises: &Promises,
    connection: &Connection,
    shape: &Shape,
) -> Option<Vec<u8>> {
    let takes = connection.capabilities.contains(Capabilities::QUERY_ATTRIBUTES);
    (takes && request.payload()[0] == Command::Query as u8).then(|| {
        let comment = tagging::tag_for(core, promises, connection, shape);
        request.with_attributes(comment.as_bytes())
    })
}

/// The server's connection broke within this reply.
fn lost(relay: &Relay, forwarded: bool, file: bool, tally: Option<&Tally>) -> Answer {
    lost_before(relay.next_sequence(), forwarded, file, tally)
}

/// The same before the packet of this number.
fn lost_before(sequence: Option<u8>, forwarded: bool, file: bool, tally: Option<&Tally>) -> Answer {
    if let Some(loss) = tally.and_then(Tally::loss_before) {
        return Answer::Lost(loss);
    }
    Answer::Lost(Loss {
        forwarded,
        file,
        ..Loss::within(sequence, tally.map(Tally::sent))
    })
}
