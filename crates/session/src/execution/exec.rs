//! Runs one command: choose a server, check a connection out, send, relay the reply, and on trouble
//! decide whether another server may be asked.
//!
//! Nothing is retried that may have had an effect: only reads outside transactions, and only while
//! the client has not seen a byte of the reply.

use backend::{Global, Lease, PoolError, TOO_MANY_STATEMENTS, Target};
use farm::{ServerId, error};
use mysql_wire::relay::{Expect, Outcome};
use routing::{Level, Plan};
use sqltext::{Class, Facts, MsHint, Verb};

use crate::client::Client;
use crate::client::end::End;
use crate::client::refuse::ServerRefusal;
use crate::connections::hedge;
use crate::connections::hold::Hold;
use crate::connections::parked::{self, Parked};
use crate::connections::pin::Pins;
use crate::consistency::reads::{self, Transient};
use crate::consistency::{client_level, promises, required_waits};
use crate::counters::count;
use crate::execution::pipeline::{self, Pipeline};
use crate::execution::profile::Step;
use crate::execution::{servers_tried, without};
use crate::per_core::{Core, Handle};
use crate::prepared::statements;
use crate::session::{self, Session};
use crate::transaction::outcome::{self, LostOn};
use crate::transaction::resume::{Resume, Sent};
use crate::transaction::{loss, settle};
use crate::variables::changes::Changes;
use crate::variables::{defaults, diagnostics};

/// What the tokenizer said of a text, or what stands for it where there is none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub class: Class,
    pub verb: Verb,
    pub facts: Facts,
    pub hint: Option<MsHint>,
    /// The shape's own number in this process; 0 for what is no text. See [`sqltext::Scan::shape`].
    pub hash: u128,
    /// What else tells texts of the same shape apart; see [`sqltext::Scan::folds`].
    pub folds: u64,
    /// The number of the scan that read the text; its literals are there until the next one.
    pub scan: u64,
    /// It changes rows, and may be marked for the log.
    pub tagged: bool,
    /// The text may read or assign what the client has its server report.
    pub tracking: bool,
    /// The text may change data; the session's reads must have that from then on.
    pub writes: bool,
    /// The level that a hint asks for.
    pub level: Option<Level>,
    /// A hint allows an answer from the cache that is so old; 0 is none.
    pub cache_ttl_s: u32,
    /// A hint cannot be followed.
    pub bad_hint: bool,
    /// A hint names a shard.
    pub shard_hint: bool,
}

impl Shape {
    /// A command that is no text: it goes to the primary and changes nothing.
    pub fn command() -> Shape {
        Shape {
            class: Class::Show,
            verb: Verb::Other,
            facts: Facts::empty(),
            hint: None,
            hash: 0,
            folds: 0,
            scan: 0,
            tagged: false,
            tracking: false,
            writes: false,
            level: None,
            cache_ttl_s: 0,
            bad_hint: false,
            shard_hint: false,
        }
    }

    /// A query that nobody can be sure of may still go to a replica, or to all servers, when its author says so:
    /// what it might write is refused there, and what ties it to its connection keeps it away.
    pub fn heed_hint(&mut self) {
        let all = self.hint == Some(MsHint::All);
        let asked = all || matches!(self.hint, Some(MsHint::Slave | MsHint::Eventual));
        let query = matches!(
            self.verb,
            Verb::Select | Verb::Values | Verb::Table | Verb::Show | Verb::Describe | Verb::Explain
        );
        let mut harmless = Facts::SYSTEM_VARIABLE | Facts::SERVER_SCHEMA | Facts::CONNECTION_ID;
        // A global variable is the server's own, and here each server tells it.
        harmless.set(Facts::GLOBAL_SETTING, all);
        if asked && query && self.facts.difference(harmless).is_empty() {
            (self.class, self.writes) = (Class::Read, false);
        }
    }

    /// The reply may have more than one result.
    pub fn has_several_results(&self) -> bool {
        self.class == Class::Call || self.facts.intersects(Facts::MULTIPLE | Facts::COMPOUND)
    }

    /// Asks for what only the connection of the statement before knows.
    pub fn asks_back(&self) -> bool {
        self.facts.intersects(Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS)
            && !self.facts.contains(Facts::MULTIPLE)
    }
}

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// The client's command as it is.
    Frame(Expect),
    /// COM_STMT_PREPARE for the client's statement of this id.
    Prepare(u32),
    /// COM_STMT_EXECUTE of the client's statement of this id.
    Execute(u32),
}

/// A command under way.
pub(crate) struct Run {
    pub shape: Shape,
    pub job: Job,
    /// The session kept no connection when it began.
    pub alone: bool,
    /// What ties the session to the connection.
    pub pins: Pins,
    /// The client has the beginning of its reply from an attempt before.
    pub resume: Option<Resume>,
    /// When it came, in microseconds of the core's clock; 0 for a read outside transactions.
    pub began_us: u64,
    /// The connection that it was lost with last.
    pub lost_on: Option<Box<LostOn>>,
    /// How long it has waited for a primary.
    pub hold: Option<Box<Hold>>,
    /// The commands behind it that were sent with it and are not answered yet.
    pub pipeline: Pipeline,
    /// What global variables were that it may set.
    pub globals: Vec<Global>,
    /// The server had no room for a statement, or did not know it, once already.
    pub again: bool,
    /// Errors that pass by themselves: the statement may be repeated so often.
    pub transient: Transient,
}

/// Where a command was tried.
pub(crate) struct Tried {
    pub plan: Plan,
    pub target: Target,
    /// A read that may still go elsewhere.
    pub free: bool,
}

/// What a READ ONLY session or a read-only server says to a write: nothing has been done.
/// ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION, ER_OPTION_PREVENTS_STATEMENT, ER_READ_ONLY_MODE.
const WRITE_REFUSED: [u16; 3] = [1792, 1290, 1836];

/// What an EXECUTE hears whose statement is to be prepared anew: ER_UNKNOWN_STMT_HANDLER,
/// ER_NEED_REPREPARE.
const STATEMENT_GONE: [u16; 2] = [1243, 1615];

impl Run {
    /// How the attempt ended when this error says nothing about the command itself: it is to run
    /// elsewhere, or again after the statement was prepared anew or others were closed for it.
    pub fn refusal(&self, outcome: &Outcome, read_only: bool) -> Option<Answer> {
        let number = outcome.error?;
        let first = !self.again && self.pipeline.commands.is_empty();
        match self.job {
            Job::Prepare(_) if first && number == TOO_MANY_STATEMENTS => Some(Answer::Again),
            Job::Execute(_) if first && STATEMENT_GONE.contains(&number) => Some(Answer::Again),
            _ if first && self.transient.allows(number) => Some(Answer::Transient),
            _ => {
                let guarded = read_only && self.shape.class == Class::Read;
                let refused = guarded && WRITE_REFUSED.contains(&number);
                refused.then_some(Answer::WritesOnReplica)
            }
        }
    }
}

/// A complete reply. Boxed in the answer, which every step of a statement would make room for.
pub(crate) struct Done {
    pub outcome: Outcome,
    pub changes: Changes,
}

/// How an attempt ended.
pub(crate) enum Answer {
    /// The client has the whole reply.
    Done(Box<Done>),
    /// A replica refused to write; the client has seen nothing.
    WritesOnReplica,
    /// The server refused for a reason that passes; the client has seen nothing.
    Transient,
    /// Nothing was done, and the statement must be prepared anew; the client has seen nothing.
    Again,
    /// The primary takes no writes any more; nothing was done, and the client has seen nothing.
    ReadOnly(ServerRefusal),
    /// The reply does not begin as the one of which the client has the beginning.
    Differs,
    /// The server's connection broke.
    Lost(Loss),
    /// Re-preparing was refused: this is the answer to the client's EXECUTE.
    Refused(ServerRefusal),
}

impl Answer {
    /// The connection broke before the reply began.
    pub(crate) const LOST: Answer = Answer::Lost(Loss {
        unsent: false,
        forwarded: false,
        file: false,
        sequence: Some(1),
        sent: None,
    });

    /// It broke before the server could have the whole command.
    pub(crate) const UNSENT: Answer = Answer::Lost(Loss {
        unsent: true,
        forwarded: false,
        file: false,
        sequence: Some(1),
        sent: None,
    });
}

/// What the client had seen when its server's connection broke.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    /// The server cannot have run it.
    pub unsent: bool,
    /// A part of the reply.
    pub forwarded: bool,
    /// That part was the request for a file; the client has sent it, and will not send it again.
    pub file: bool,
    /// The number of the next packet; None in the middle of one.
    pub sequence: Option<u8>,
    /// What that part is, where the reply may be gone on with.
    pub sent: Option<Sent>,
}

impl Loss {
    /// In the middle of a reply of which the client has this.
    pub fn within(sequence: Option<u8>, sent: Option<Sent>) -> Loss {
        Loss {
            unsent: false,
            forwarded: true,
            file: false,
            sequence,
            sent,
        }
    }
}

impl Session {
    /// Runs a command that only a server of the current seat can answer.
    pub(crate) async fn run_on_servers(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        let mut run = reads::new_run(
            &self.core,
            &mut self.client,
            &self.variables,
            &mut self.run,
            shape,
            job,
        );
        // Servers that have failed this statement. Each is tried once, so the loop ends.
        let mut avoid = Vec::new();
        client_level::heed_client(
            &self.core,
            &mut self.connections,
            &mut self.transaction,
            &self.promises,
            &shape,
        );
        if promises::may_prove(&self.connections, &self.promises, &shape)
            || promises::may_ask_to_move(&self.core, &self.connections, &self.promises, &shape)
        {
            Box::pin(self.ask_before_read(&shape)).await;
        }
        while self.try_server(&mut run, &mut avoid).await? {}
        Ok(())
    }

    /// Runs the command on one server. True when it is to be tried again; else the client has been
    /// answered.
    async fn try_server(&mut self, run: &mut Run, avoid: &mut Vec<ServerId>) -> Result<bool, End> {
        let (plan, target) = match self.route(&run.shape, Some(run.job), avoid) {
            Ok(route) => route,
            Err(refusal) => return Box::pin(self.hold_refused(run, avoid, refusal)).await,
        };
        self.run.profile.chosen(plan, self.promises.level_of(&run.shape));
        // Until the reply begins, a read that nothing holds may go to another server.
        let free = reads::may_move(&self.core, &self.connections, &run.shape)
            && !avoid.contains(&plan.server);
        run.alone = self.connections.current.held.is_none();
        let (mut lease, pins) = match self.checkout(&plan, &target, &run.shape).await {
            Ok(taken) => taken,
            Err(error) if free && servers_tried::elsewhere_may_help(&error, plan.read_only) => {
                loss::suspect_refusal(&self.core, &self.handle, plan.server, &error);
                reads::pass_over(&self.core, &self.connections, plan.server, avoid);
                return Ok(true);
            }
            Err(error) if self.does_without(&error) => return Ok(true),
            Err(error) => {
                let tried = Tried { plan, target, free };
                return Box::pin(self.hold_failed(run, avoid, &tried, error)).await;
            }
        };
        self.run.profile.lap(Step::Connect);
        run.pins = pins;
        let (handle, own, shape) = (&self.handle, &self.variables, &run.shape);
        if servers_tried::is_barred(handle, own, &self.run, lease.connection(), shape)
            && !Box::pin(diagnostics::leave_nothing(handle, own, &mut lease, shape)).await
        {
            self.keep_after_error(lease, pins);
            loss::place_error(&mut self.client, run)?;
            let turning = Box::pin(self.turn_away(run.shape, run.job));
            return turning.await.map(|()| false);
        }
        let (core, connections, promises) = (&self.core, &self.connections, &self.promises);
        if plan.wait
            && !Box::pin(required_waits::await_required(core, connections, promises, &mut lease))
                .await
        {
            avoid.push(plan.server);
            settle::give_back(&self.handle, lease);
            return Ok(true);
        }
        let answer = match hedge::hedges(&self.core, &self.client, &self.connections, &plan, run) {
            true => Box::pin(self.attempt_hedged(&mut lease, run, &plan)).await?,
            false => self.attempt(&mut lease, run, plan.guards()).await?,
        };
        if let Answer::Done(done) = answer {
            self.note_answer(lease.connection(), run, &done.outcome, &done.changes);
            self.log_statement(run, &done.outcome);
            self.settle(lease, &run.shape, run.pins, done.outcome, done.changes)?;
            return Ok(false);
        }
        let tried = Tried { plan, target, free };
        Box::pin(self.go_on(run, avoid, &tried, (lease, answer))).await
    }

    /// Keeps a connection as it was kept before a command that never ran.
    fn keep_after_error(&mut self, lease: Lease, pins: Pins) {
        let (core, handle, own) = (&self.core, &self.handle, &self.variables);
        settle::give_back_after_error(core, handle, own, &mut self.connections, lease, pins);
    }

    /// True when the connection is had after all, without what its server refused.
    fn does_without(&mut self, error: &PoolError) -> bool {
        let (core, handle, user) = (&self.core, &self.handle, &self.user);
        without::does_without(core, handle, user, &mut self.variables, error)
    }

    /// After an attempt that did not end with the server's answer: the same.
    async fn go_on(
        &mut self,
        run: &mut Run,
        avoid: &mut Vec<ServerId>,
        tried: &Tried,
        ended: (Lease, Answer),
    ) -> Result<bool, End> {
        let (mut lease, answer) = ended;
        match answer {
            Answer::Done(_) => return Ok(false),
            Answer::Refused(refusal) => {
                self.keep_after_error(lease, run.pins);
                loss::place_error(&mut self.client, run)?;
                self.transaction.note_failure(Some(refusal.number));
                self.client.pass_refusal(&refusal).await?;
                return Ok(false);
            }
            Answer::Again => {
                run.again = true;
                statements::make_room_for_statement(
                    &self.core,
                    &self.prepared,
                    lease.connection_mut(),
                    run.job,
                )
                .await;
                self.keep_after_error(lease, run.pins);
            }
            Answer::Transient => {
                self.keep_after_error(lease, run.pins);
                reads::pause_before_retry(&self.core, run).await;
            }
            Answer::WritesOnReplica => {
                correct(&self.core, &self.handle, &mut self.client, run, lease)
            }
            Answer::ReadOnly(refusal) => {
                lease.connection_mut().owner.statement = 0;
                settle::give_back(&self.handle, lease);
                return self.hold_declined(run, avoid, tried, &refusal).await;
            }
            Answer::Differs => {
                drop(lease);
                return self.tell_difference(run, tried).await.map(|()| false);
            }
            Answer::Lost(loss) => {
                run.lost_on = Some(outcome::lost_on(
                    &self.core,
                    &mut self.connections,
                    &self.promises,
                    lease.connection(),
                    run,
                ));
                drop(lease);
                return self.after_loss(run, avoid, tried, loss).await;
            }
        }
        Ok(true)
    }

    /// Answers a statement that is not run as it is: its session was killed meanwhile, values of
    /// its variables are lost, or it asks for what this connection does not know.
    async fn turn_away(&mut self, shape: Shape, job: Job) -> Result<(), End> {
        if self.handle.killed.get() {
            return Err(session::last_word(&self.core, &mut self.client).await);
        }
        if self.variables.user_variables.as_mut().is_some_and(|own| own.take_lost()) {
            let pin = Pins::USER_VARIABLE.describe();
            return self.client.error(&error::SESSION_LOST_PIN, &[&pin]).await;
        }
        self.recall(shape, job).await
    }

    /// A connection of the planned server in the session's state: the held one with its pins, the
    /// one that was parked for diagnostics, or one from the pool.
    pub(crate) async fn checkout(
        &mut self,
        plan: &Plan,
        target: &Target,
        shape: &Shape,
    ) -> Result<(Lease, Pins), PoolError> {
        if self.handle.parked.borrow().is_asked() {
            Box::pin(parked::hear_parked(
                &self.core,
                &self.handle,
                &mut self.variables,
                &mut self.connections,
            ))
            .await;
        }
        if let Some(held) = self.connections.take_held(&self.variables.state).await? {
            return Ok((held.lease, held.pins));
        }
        let key = self.core.pools.key(plan.server, plan.read_only, &self.user.identity.pass);
        let parked = self.handle.parked.take();
        if let Parked::Kept(kept) = parked
            && let Some(lease) = Box::pin(parked::take_up(
                &self.core,
                &self.handle,
                &mut self.variables,
                &mut self.connections,
                *kept,
                key,
            ))
            .await
        {
            return Ok((lease, Pins::empty()));
        }
        if let Some(held) = self.connections.current.held.take() {
            return Ok((held.lease, held.pins));
        }
        if self.variables.defaults != self.core.shared.defaults.globals() {
            defaults::keep_defaults(&self.core, &self.handle, &self.user, &mut self.variables);
        }
        let back = shape.asks_back() || shape.facts.contains(Facts::LAST_INSERT_ID);
        let prefer = match &self.variables.user_variables {
            _ if back => self.connections.current.last_connection,
            Some(own) => own.home(),
            None => 0,
        };
        let taken = self.core.pools.take(target, key, &self.variables.state, prefer).await;
        if matches!(taken, Err(PoolError::WaitTimeout { .. })) {
            count(&self.core.counters.pool_waits_failed);
        }
        let mut lease = taken?;
        defaults::accept(
            &self.core,
            &self.handle,
            &self.user,
            &mut self.variables,
            lease.connection(),
        );
        let pins = match self.variables.lasting.is_empty() {
            true => Pins::empty(),
            false => Box::pin(self.variables.bring_lasting(lease.connection_mut())).await?,
        };
        Ok((lease, pins))
    }
}

/// After a replica refused what looked like a read: it goes to the primary.
fn correct(core: &Core, handle: &Handle, client: &mut Client, run: &mut Run, lease: Lease) {
    if !pipeline::leave_pipeline(client, run) {
        settle::give_back(handle, lease);
    }
    core.learn_writer(run.shape.hash);
    count(&core.counters.reads_corrected);
    (run.shape.class, run.shape.writes) = (Class::Other, true);
}
