//! Runs one command: choose a server, check a connection out, send, relay the reply, and on trouble
//! decide whether another server may be asked.
//!
//! Nothing is retried that may have had an effect: only reads outside transactions, and only while
//! the client has not seen a byte of the reply.

use backend::{Lease, PoolError, Target};
use farm::{ServerId, error};
use recorder::Retry;
use routing::Plan;
use sqltext::{Class, Facts};

use crate::client::Client;
use crate::client::answer::Answers;
use crate::client::end::End;
use crate::connections::hedge;
use crate::connections::parked::{Parked, reclaim};
use crate::connections::pin::Pins;
use crate::consistency::client_level;
use crate::consistency::promises::keeping;
use crate::consistency::reads;
use crate::consistency::required_waits::ask;
use crate::counters::count;
use crate::execution::exec::{Answer, Job, Run, Shape, Tried};
use crate::execution::pipeline;
use crate::execution::profile::Step;
use crate::execution::{servers_tried, without};
use crate::introspection::recorded;
use crate::per_core::{Core, Handle};
use crate::prepared::statements::commands;
use crate::session::{self, Session};
use crate::transaction::outcome::recover;
use crate::transaction::replay;
use crate::transaction::{loss, settle};
use crate::variables::defaults;
use crate::variables::diagnostics::answers;

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
        if keeping::may_prove(&self.connections, &self.promises, &shape)
            || keeping::may_ask_to_move(&self.core, &self.connections, &self.promises, &shape)
        {
            Box::pin(keeping::ask_before_read(
                &self.core,
                &self.user,
                &self.variables,
                &mut self.connections,
                &mut self.transaction,
                &self.promises,
                &shape,
            ))
            .await;
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
                recorded::retried(self.handle.id, plan.server, Some(Retry::Refused));
                loss::suspect_refusal(&self.core, &self.handle, plan.server, &error);
                reads::pass_over(&self.core, &self.connections, plan.server, avoid);
                return Ok(true);
            }
            Err(error) => {
                let (core, handle, own) = (&self.core, &self.handle, &mut self.variables);
                if without::does_without(core, handle, &self.user, own, &error) {
                    return Ok(true);
                }
                let tried = Tried { plan, target, free };
                return Box::pin(self.hold_failed(run, avoid, &tried, error)).await;
            }
        };
        recorded::taken(self.handle.id, lease.connection(), !run.alone);
        self.run.profile.lap(Step::Connect);
        run.pins = pins;
        let (handle, own, shape) = (&self.handle, &self.variables, &run.shape);
        if servers_tried::is_barred(handle, own, &self.run, lease.connection(), shape)
            && !Box::pin(answers::leave_nothing(handle, own, &mut lease, shape)).await
        {
            self.keep_after_error(lease, pins);
            loss::place_error(&mut self.client, run)?;
            let turning = Box::pin(self.turn_away(run.shape, run.job));
            return turning.await.map(|()| false);
        }
        let of = (&*self.core, target.session);
        let (connections, promises) = (&self.connections, &self.promises);
        if plan.wait && !Box::pin(ask::await_required(of, connections, promises, &mut lease)).await
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
            replay::log_statement(
                &self.core,
                &self.client,
                &self.variables,
                &mut self.connections,
                &self.prepared,
                run,
                &done.outcome,
            );
            settle::settle_run(self, lease, run, *done).await?;
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

    /// After an attempt that did not end with the server's answer: the same.
    async fn go_on(
        &mut self,
        run: &mut Run,
        avoid: &mut Vec<ServerId>,
        tried: &Tried,
        ended: (Lease, Answer),
    ) -> Result<bool, End> {
        let (mut lease, answer) = ended;
        recorded::retried(self.handle.id, tried.plan.server, answer.retry());
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
                commands::make_room_for_statement(
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
                recorded::lost(self.handle.id, lease.connection(), loss.forwarded);
                run.lost_on = Some(recover::lost_on(
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
            Box::pin(reclaim::hear_parked(
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
            && let Some(lease) = Box::pin(reclaim::take_up(
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
