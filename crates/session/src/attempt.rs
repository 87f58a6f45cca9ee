//! One attempt on one connection: make it ready, send, relay the reply as it comes.

use std::time::Instant;

use backend::{Connection, ConnectionError, Lease, Questions, Residue, ends_connection};
use farm::Engine;
use mysql_wire::capability::Capabilities;
use mysql_wire::command::Command;
use mysql_wire::packet::HEADER_BYTES;
use mysql_wire::relay::{BUFFER_BYTES, Expect, Outcome, Relay};
use mysql_wire::reply::{ErrPacket, SessionChange};
use mysql_wire::statement::PARAMETERS_COUNTED;
use mysql_wire::status::Status;
use sqltext::{Class, Facts};

use crate::assigned::try_to_repeat;
use crate::changes::Changes;
use crate::counters::count;
use crate::end::End;
use crate::exec::{Answer, Done, Job, Loss, Run, Shape};
use crate::hold::{is_tended, says_read_only};
use crate::profile::Step;
use crate::refuse::ServerRefusal;
use crate::resume::Tally;
use crate::session::{Session, is_free};

/// The command byte of COM_STMT_EXECUTE.
const EXECUTE: u8 = Command::StmtExecute as u8;

/// ER_QUERY_INTERRUPTED.
const QUERY_INTERRUPTED: u16 = 1317;

/// Once a reply has filled this many buffers it is a long one, and goes on in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// The pieces of a long reply. It bounds what a slow client costs.
const LONG_BUFFER_BYTES: usize = 65_536;

/// Bytes on their way from a server to the client.
pub(crate) struct Pipe {
    pub buffer: Vec<u8>,
    /// So many at the front have been walked and may go to the client; the others come next.
    pub ready: usize,
}

impl Pipe {
    /// Receives more behind what is there.
    async fn fill(&mut self, connection: &mut Connection) -> std::io::Result<()> {
        let (received, filled) = connection.recv(std::mem::take(&mut self.buffer)).await;
        self.buffer = filled;
        received.map(drop)
    }
}

impl Session {
    /// Runs the command of `run` on this connection, and those behind it that may go with it: then
    /// the answer is that of the last one of which anything is known, and the others stay in
    /// `run.train`. Fails only when the client is gone; then the reply is unread and the connection
    /// must not be used again.
    pub(crate) async fn attempt(
        &mut self,
        lease: &mut Lease,
        run: &mut Run,
        read_only: bool,
    ) -> Result<Answer, End> {
        let connection = lease.connection_mut();
        self.begin_attempt(connection, run);
        let answer = self.attempt_inner(connection, run, read_only).await;
        self.end_attempt();
        answer
    }

    /// A statement goes to this connection: others on the core may see, stop and time it.
    pub(crate) fn begin_attempt(&mut self, connection: &Connection, run: &Run) {
        self.handle
            .running
            .set(Some((connection.server, connection.thread_id)));
        self.handle.digest.set(self.digest(&run.shape, run.job));
        let waits = run.shape.facts.contains(Facts::USER_LOCK);
        let idle = waits || run.shape.class == Class::Read;
        self.handle.ends_with_client.set(idle);
        self.start_clock(&run.shape);
        self.begin_log(&run.shape);
        self.run.profile.lap(Step::Wait);
    }

    /// It is over.
    pub(crate) fn end_attempt(&mut self) {
        self.run.profile.lap(Step::Serve);
        self.handle.running.set(None);
        self.handle.started.set(None);
        self.handle.in_train.set(false);
    }

    /// A statement begins whose time is limited. The end of a transaction has no limit: interrupted,
    /// nobody could tell how it ended.
    pub(crate) fn start_clock(&mut self, shape: &Shape) {
        if self.start_own_clock(shape) {
            return;
        }
        let limited =
            self.core.settings().statement_timeout_ms > 0 && shape.class != Class::Transaction;
        self.handle.started.set(limited.then(Instant::now));
    }

    async fn attempt_inner(
        &mut self,
        connection: &mut Connection,
        run: &mut Run,
        read_only: bool,
    ) -> Result<Answer, End> {
        if connection.is_cut() {
            return Ok(Answer::UNSENT);
        }
        if Session::may_set_globals(&run.shape) {
            run.globals = Box::pin(self.ask_globals(connection, &run.shape, run.job)).await;
        }
        let (expect, own) = match self.make_ready(connection, &run.shape, run.job).await {
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
        if own.is_none() && self.client.has_more() {
            run.train = Box::pin(self.couple(connection, run, read_only)).await;
            self.handle.in_train.set(!run.train.cars.is_empty());
        }
        count(&self.core.counters.statements);
        let sent = match own.or_else(|| self.marked(connection, run)) {
            Some(bytes) => {
                let range = 0..bytes.len();
                connection.send(bytes, range).await.0
            }
            None => {
                let (frame, range) = self.client.lend();
                let end = range.end + run.train.bytes;
                let (sent, frame) = connection.send(frame, range.start..end).await;
                self.client.restore(frame);
                sent
            }
        };
        if sent.is_err() {
            return Ok(match run.train.cars.is_empty() {
                true => Answer::UNSENT,
                false => Answer::LOST,
            });
        }
        let mut pipe = Pipe {
            buffer: self.core.take_buffer(),
            ready: 0,
        };
        let mut answer = self
            .answer_one(connection, run, expect, read_only, &mut pipe)
            .await;
        if !run.train.cars.is_empty() {
            answer = Box::pin(self.ride(connection, run, answer, read_only, &mut pipe)).await;
        }
        self.core.give_buffer(pipe.buffer);
        answer
    }

    /// Relays one reply and completes what it says.
    pub(crate) async fn answer_one(
        &mut self,
        connection: &mut Connection,
        run: &Run,
        expect: Expect,
        read_only: bool,
        pipe: &mut Pipe,
    ) -> Result<Answer, End> {
        let mut answer = self.relay(connection, run, expect, read_only, pipe).await;
        match &mut answer {
            Ok(Answer::Done(done)) => {
                let Done { outcome, changes } = &mut **done;
                self.complete(connection, run, expect, outcome, changes)
                    .await;
            }
            _ if run.shape.tracking => connection.condemn(),
            _ => {}
        }
        answer
    }

    /// Learns what a complete reply leaves to be asked. A connection that breaks here is found out
    /// by its next user.
    async fn complete(
        &mut self,
        connection: &mut Connection,
        run: &Run,
        expect: Expect,
        outcome: &Outcome,
        changes: &mut Changes,
    ) {
        let (shape, job) = (&run.shape, run.job);
        match (job, outcome.prepared) {
            (Job::Prepare(_), Some(reply)) => {
                let _ = self.note_prepared(connection, reply).await;
                if outcome.warnings > 0 {
                    changes.residue = Box::pin(ask_warnings(connection)).await;
                }
            }
            (Job::Execute(id), _) => {
                let opens = expect == Expect::Cursor;
                self.note_executed(connection, id, outcome.status.filter(|_| opens));
            }
            _ => {}
        }
        if shape.facts.contains(Facts::USER_VARIABLE) {
            let failed = outcome.error.is_some();
            changes.pins_user_variables = self.note_variables(connection, shape, job, failed);
        }
        if self.may_tie(shape) {
            let failed = outcome.error.is_some();
            changes.ended = Box::pin(self.note_ties(connection, shape, job, failed)).await;
        }
        changes.pins |= changes.tracking && !shape.tracking;
        // A SET that failed has assigned nothing, and a question behind it would take its
        // diagnostics away.
        let nothing = shape.class == Class::Set && outcome.error.is_some();
        if !nothing && Session::may_assign(shape) {
            let learning = self.learn_assigned(connection, shape, job, changes);
            let _ = Box::pin(learning).await;
            let plain = outcome.warnings == 0 && !shape.facts.contains(Facts::MULTIPLE);
            if plain && shape.class == Class::Set {
                let _ = Box::pin(try_to_repeat(connection, changes)).await;
            }
        }
        if shape.facts.contains(Facts::ROLE) {
            Box::pin(self.learn_role(connection, changes)).await;
        }
        if shape.tracking {
            let taking = self.take_tracking_back(connection, shape, changes);
            if Box::pin(taking).await.is_err() {
                connection.condemn();
            }
        }
        if self.assigns_insert_id(shape, job) {
            let _ = Box::pin(self.learn_insert_id(connection)).await;
        }
    }

    /// Brings to the connection what the command relies on. Returns what reply it has, and the
    /// command rewritten where the client's own bytes will not do. `Refused` is the answer to an
    /// EXECUTE whose statement cannot be prepared any more.
    async fn make_ready(
        &mut self,
        connection: &mut Connection,
        shape: &Shape,
        job: Job,
    ) -> Result<(Expect, Option<Vec<u8>>), ConnectionError> {
        self.bring_values(connection, shape, job).await?;
        let ready = match job {
            Job::Frame(expect) => (expect, self.attributed(connection, shape)),
            Job::Prepare(client_id) => (Expect::Prepare { client_id }, None),
            Job::Execute(id) => {
                self.ready_statement(connection, id).await?;
                // The byte behind command and id says what cursor the client wants: 0 for none.
                let expect = match self.client.payload() {
                    [EXECUTE, _, _, _, _, flags, ..] if flags & !PARAMETERS_COUNTED != 0 => {
                        Expect::Cursor
                    }
                    [EXECUTE, ..] if shape.class == Class::Call => Expect::Call,
                    _ => Expect::Results,
                };
                (expect, self.address_statement(connection, id))
            }
        };
        if shape.tracking {
            Box::pin(self.lend_tracking(connection)).await?;
        }
        Ok(ready)
    }

    /// The current text with its attributes, for a server that takes them.
    fn attributed(&self, connection: &Connection, shape: &Shape) -> Option<Vec<u8>> {
        let takes = connection
            .capabilities
            .contains(Capabilities::QUERY_ATTRIBUTES);
        (takes && self.client.payload()[0] == Command::Query as u8).then(|| {
            let comment = self.mark_for(connection, shape);
            self.client.with_attributes(&comment)
        })
    }

    /// Relays the reply. The reply's bytes are edited and sent in the buffer they were received in.
    /// With more replies to come, its end may stay in the pipe for the next send.
    async fn relay(
        &mut self,
        connection: &mut Connection,
        run: &Run,
        expect: Expect,
        read_only: bool,
        pipe: &mut Pipe,
    ) -> Result<Answer, End> {
        let more = !run.train.cars.is_empty();
        let mut relay = self.relay_of(connection, &run.shape, expect);
        let mut changes = Changes::default();
        let counted = self.may_resume(run, pipe);
        let mut tally = run.resume.map(Tally::after);
        let (mut forwarded, mut file, mut pieces, mut need) = (false, false, 0, 0);
        loop {
            if pipe.buffer.len() > pipe.ready {
                let next = relay.next_sequence();
                let mut note = |change: SessionChange<'_>| changes.note(connection, change);
                let walked = relay.advance(&mut pipe.buffer, pipe.ready, &mut note);
                let Ok(progress) = walked else {
                    tracing::error!(session = self.handle.id, "the server broke the protocol");
                    self.forward(pipe).await?;
                    return Ok(lost(&relay, forwarded, file, None));
                };
                if progress.done
                    && relay.outcome().error.is_some()
                    && let Some(refused) = self
                        .refused(connection, run, relay.outcome(), read_only, pipe)
                        .await
                {
                    changes.writes = matches!(refused, Answer::WritesOnReplica);
                    if let Some(answer) = behind(refused, forwarded, next, tally.as_deref()) {
                        self.forward(pipe).await?;
                        return Ok(answer);
                    }
                }
                if changes.is_news() && !self.may_tell(connection, &mut changes).await {
                    self.forward(pipe).await?;
                    return Ok(lost_before(next, forwarded, file, None));
                }
                if progress.forward > pipe.ready {
                    self.note_told(&pipe.buffer[pipe.ready..progress.forward]);
                    pipe.ready = progress.forward;
                    if !Tally::takes(&mut tally, pipe, counted, progress.done) {
                        return Ok(Answer::Differs);
                    }
                    forwarded = tally.as_ref().is_none_or(|tally| !tally.swallows());
                    pieces += 1;
                }
                if progress.done {
                    if !more {
                        self.forward(pipe).await?;
                    }
                    let outcome = relay.outcome().clone();
                    return Ok(Answer::Done(Box::new(Done { outcome, changes })));
                }
                if progress.wants_file {
                    file = true;
                    self.forward(pipe).await?;
                    Box::pin(self.ask_file(connection, &mut relay)).await?;
                }
                need = progress.need;
            }
            self.forward(pipe).await?;
            make_room(&mut pipe.buffer, need, pieces > SMALL_BUFFERS_MAX);
            if pipe.fill(connection).await.is_err() {
                return Ok(lost(&relay, forwarded, file, tally.as_deref()));
            }
        }
    }

    /// What turns the server's reply into the client's.
    fn relay_of(&self, connection: &Connection, shape: &Shape, expect: Expect) -> Relay {
        // Before the client can hear of it.
        if shape.writes && !connection.tells_gtids {
            self.tell_client_unlogged();
        }
        let server = connection.capabilities;
        Relay::new(expect, self.client.capabilities, server, self.status_now())
            .showing(self.shown(connection, shape))
            .of_several(shape.has_several_results())
    }

    /// The server wants a file of the client's.
    async fn ask_file(
        &mut self,
        connection: &mut Connection,
        relay: &mut Relay,
    ) -> Result<(), End> {
        if !self.pass_file(connection, relay).await? {
            // What the server said before it went may still be there to read.
            connection.condemn();
        }
        Ok(())
    }

    /// A long result of a read may be gone on with elsewhere.
    fn may_resume(&self, run: &Run, pipe: &Pipe) -> bool {
        let again = run.alone || self.connections.current.replay.is_some();
        again && run.shape.class == Class::Read && pipe.ready == 0
    }

    /// How the attempt ended when this error, whose packet comes next, says nothing about the command
    /// itself.
    async fn refused(
        &self,
        connection: &mut Connection,
        run: &Run,
        outcome: &Outcome,
        read_only: bool,
        pipe: &Pipe,
    ) -> Option<Answer> {
        match self.ends(connection, run, outcome.error?).await {
            true => Some(Answer::LOST),
            false => self.refusal(run, outcome, read_only, pipe),
        }
    }

    /// The same of an error behind which the connection goes on.
    fn refusal(
        &self,
        run: &Run,
        outcome: &Outcome,
        read_only: bool,
        pipe: &Pipe,
    ) -> Option<Answer> {
        if let Some(refusal) = self.waited_across(run, outcome) {
            return Some(Answer::Refused(refusal));
        }
        let refusal = run.refusal(outcome, read_only);
        let refusal = refusal.or_else(|| self.refusal_in_transaction(outcome, pipe));
        refusal.or_else(|| {
            let alone = run.alone && is_free(self.variables.status);
            let plain = run.train.cars.is_empty() && !run.shape.has_several_results();
            let error = (alone && plain && !read_only).then(|| self.read_only_error(outcome, pipe));
            let error = error.flatten()?;
            Some(Answer::ReadOnly(ServerRefusal {
                number: error.number,
                sqlstate: error.sqlstate,
                message: error.message.to_vec(),
            }))
        })
    }

    /// The same within a transaction. In one that can be done again elsewhere: the server takes no writes any
    /// more. A READ ONLY one is told what a primary says, for a replica of MySQL thinks of itself first.
    fn refusal_in_transaction(&self, outcome: &Outcome, pipe: &Pipe) -> Option<Answer> {
        if self.variables.status.contains(Status::IN_TRANS_READONLY) {
            let error = self.read_only_error(outcome, pipe);
            return error.map(|_| Answer::Refused(ServerRefusal::in_read_only_transaction()));
        }
        let log = self.connections.current.replay.as_ref()?;
        if self.is_killed()
            || !is_tended(
                &self.core.shared.published.load(),
                self.connections.current.group,
            )
        {
            return None;
        }
        let error = log
            .may_be_repeated()
            .then(|| self.read_only_error(outcome, pipe));
        error.flatten().map(|_| Answer::UNSENT)
    }

    /// The error that comes next, if it says that the server is read-only.
    fn read_only_error<'p>(&self, outcome: &Outcome, pipe: &'p Pipe) -> Option<ErrPacket<'p>> {
        outcome.error?;
        let packet = pipe.buffer.get(pipe.ready + HEADER_BYTES..)?;
        let error = ErrPacket::decode(packet, self.client.capabilities).ok()?;
        says_read_only(error.number, error.message).then_some(error)
    }

    /// True for an error by which the server goes, or ends a connection that is Heddle's: nothing that
    /// a client asked for.
    async fn ends(&self, connection: &mut Connection, run: &Run, number: u16) -> bool {
        if self.is_killed() {
            return false;
        }
        // MySQL says no more of a connection that it ends than of a statement.
        let unclear = number == QUERY_INTERRUPTED
            && connection.engine() == Engine::MySql
            && run.train.cars.is_empty();
        ends_connection(number)
            || (unclear
                && Box::pin(connection.run(&[(Command::Ping, b"")]))
                    .await
                    .is_err())
    }

    /// Somebody ends the session or its statement through Heddle.
    fn is_killed(&self) -> bool {
        self.handle.killed.get() || self.handle.killing.get() != 0
    }

    /// Sends what is ready in the pipe and removes it from there.
    pub(crate) async fn forward(&mut self, pipe: &mut Pipe) -> Result<(), End> {
        let bytes = std::mem::take(&mut pipe.ready);
        if bytes == 0 {
            return Ok(());
        }
        self.run.profile.bytes += bytes as u64;
        let buffer = std::mem::take(&mut pipe.buffer);
        self.record(&buffer[..bytes]);
        let (sent, back) = self.client.send(buffer, 0..bytes).await;
        pipe.buffer = back;
        if bytes == pipe.buffer.len() {
            pipe.buffer.clear();
        } else {
            pipe.buffer.drain(..bytes);
        }
        sent.map_err(|_| End::Gone)
    }
}

/// Asks for the warnings of a PREPARE, for the connection need not be that of the statement before.
async fn ask_warnings(connection: &mut Connection) -> Option<Box<Residue>> {
    let questions = Questions {
        warnings: true,
        ..Questions::default()
    };
    connection.residue(&questions).await.ok().map(Box::new)
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

/// What a refusal means when a part of the reply may have been sent on; `next` is the number of the
/// packet behind that part. None: the client gets the rest as it is.
fn behind(
    refused: Answer,
    forwarded: bool,
    next: Option<u8>,
    tally: Option<&Tally>,
) -> Option<Answer> {
    match (refused, tally) {
        (refused, _) if !forwarded => Some(refused),
        (Answer::Lost(_), Some(tally)) => {
            Some(Answer::Lost(Loss::within(next, Some(tally.sent()))))
        }
        _ => None,
    }
}

/// Makes sure that a receive has room, and that what must be seen whole will fit.
pub(crate) fn make_room(buffer: &mut Vec<u8>, need: usize, long: bool) {
    let wanted = match (need, long) {
        (0, true) => LONG_BUFFER_BYTES,
        (0, false) => BUFFER_BYTES,
        (need, _) => need + 1,
    };
    if buffer.capacity() < wanted || buffer.len() == buffer.capacity() {
        let target = wanted.max(buffer.len() + 1);
        buffer.reserve_exact(target - buffer.len());
    }
}
