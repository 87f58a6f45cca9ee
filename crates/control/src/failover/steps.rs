//! What the failover machine asks for, done on servers, sessions and the state store.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::exchange::{self, Halted};
use engine::{Error, Greeting, Link, Login, Thread, term};
use farm::{Position, ServerId, Status};
use faults::Chore;
use machines::failover::{Answer, Ask, Failed, Fault, Heard, Record};

use super::done;
use crate::context::State;
use crate::failover::FailoverDrivers;
use crate::fence::{FenceTarget, Fenced};
use crate::leadership::lead::Lead;
use crate::links::warm::Lent;
use crate::observe::fault::failed;
use crate::observe::releases;
use catalog::event;
use catalog::record::ServerRecord;

/// A server that does not become read-only within this time has statements or commits that wait.
const LINGER: Duration = Duration::from_millis(100);

/// A client that was ended and is still there after so many milliseconds rolls back.
const ROLLBACK_MS: u64 = 500;

/// What becomes of commits that wait for an acknowledgement while a server becomes read-only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// They wait on: replicas are about to acknowledge them.
    StaysSo,
    /// Nobody acknowledges any more. They wait on even when their clients were ended, and are let go only
    /// when the wish to be read-only waits already, which keeps new commits out, and after their clients
    /// were ended, so that nobody is told of them.
    LetGo,
}

/// A step's outcome.
type Step = Result<Answer, Failed>;

impl FailoverDrivers {
    /// Does what was asked. Dropped, it closes the connection that it uses, so that nothing takes
    /// effect later.
    ///
    /// A connection that was kept for this moment may be one to a process that has ended since: a
    /// server that was started anew is not given up for that, or another one that holds less would be
    /// chosen. Every step may be repeated.
    ///
    /// Among several routers it is done only while this one leads under `number`, and servers are told
    /// the number: they do nothing for a smaller one any more.
    pub(super) async fn do_step(&self, group: &str, what: Ask, number: Option<u64>) -> Step {
        Chore::FailoverStep.pass();
        // Until it is over nobody else changes the server.
        let on_server = on_server(&what);
        let _turn = match on_server {
            Some(server) => Some(self.links.turns.take(server.0).await),
            None => None,
        };
        let first = self.try_step(group, what.clone(), number).await;
        let on_kept_link = on_server.is_some() && !matches!(what, Ask::Fence { .. });
        match first {
            Err(failed) if on_kept_link && failed.fault == Fault::Reset => {
                self.try_step(group, what, number).await
            }
            other => other,
        }
    }

    async fn try_step(&self, group: &str, what: Ask, number: Option<u64>) -> Step {
        let timeout_ms = self.context.settings().step_timeout_ms;
        // Everybody may look.
        if let Ask::Confirm { server } = what {
            return self.confirm(server).await;
        }
        let lead = self.context.leadership.lead_under(number);
        let lead = &lead.map_err(|error| said(error.to_string()))?;
        match what {
            // Answered above, or begun when it was asked.
            Ask::Confirm { .. } | Ask::Cut { .. } => done(),
            Ask::Fence { server } => self.fence(lead, server).await,
            Ask::Halt { server } => self.halt(lead, server).await,
            Ask::Look { server } => {
                let mut link = self
                    .links
                    .lend_to_act(lead, server.0)
                    .await
                    .map_err(failed)?;
                let outcome = exchange::look(&mut link, timeout_ms).await;
                heard(link.keep(outcome))
            }
            Ask::Reach { server, position } => {
                let mut link = self
                    .links
                    .lend_to_act(lead, server.0)
                    .await
                    .map_err(failed)?;
                let outcome = exchange::apply(&mut link, &position, timeout_ms).await;
                plain(link.keep(outcome))
            }
            Ask::Lead { server } => self.prepare_primary(lead, group, server).await,
            Ask::Open { server } => {
                let mut link = self
                    .links
                    .lend_to_act(lead, server.0)
                    .await
                    .map_err(failed)?;
                let outcome = match lead.number() {
                    None => exchange::open(&mut link, timeout_ms).await,
                    Some(number) => {
                        let remains = || self.context.leadership.lease_remains();
                        term::open(&mut link, number, remains, timeout_ms).await
                    }
                };
                plain(link.keep(outcome))
            }
            Ask::Point { server, primary } => self.point(lead, server, primary).await,
            Ask::Follow { server, primary } => self.follow_primary(lead, server, primary).await,
            Ask::Pause { server } => self.quiesce(lead, group, server).await,
            Ask::Close { server } => self.close(lead, server).await,
            Ask::Record(record) => match self.record_step(lead, group, &record).await {
                Ok(()) => {
                    self.let_go(lead, group, &record).await;
                    done()
                }
                Err(error) => Err(said(error.to_string())),
            },
        }
    }

    /// A winner that was made to wait for replicas goes on without them when all of them were lost with the change.
    async fn let_go(&self, lead: &Lead, group: &str, record: &Record) {
        let is_over = matches!(record.step, machines::failover::Step::Over { .. });
        if !is_over || self.links.wanted_ack_wait_ms(group).is_some() {
            return;
        }
        if let Err(error) = self.links.apply_acks(lead, group).await {
            tracing::warn!(group, "commits wait for replicas that are lost: {error}");
        }
    }

    async fn confirm(&self, server: ServerId) -> Step {
        let timeout_ms = self.context.settings().detection.detection_timeout_ms;
        let Some(place) = self.probes.place(server.0) else {
            return Err(said("it left the farm".to_owned()));
        };
        let failed = |fault, text: &str| {
            let text = text.to_owned();
            Err(Failed { fault, text })
        };
        match self.probes.greeting(&place, timeout_ms).await {
            Greeting::Given => done(),
            Greeting::Refused => failed(Fault::Refused, "nobody listens there"),
            Greeting::Closed => failed(Fault::Reset, "a new connection broke"),
            Greeting::Silent => failed(Fault::Silent, "a new connection was not greeted"),
        }
    }

    /// The server is told to stop itself, beside whatever means there are from outside. Only the
    /// latter, or a server that said that it is read-only and whose clients are gone, is sure.
    async fn fence(&self, lead: &Lead, server: ServerId) -> Step {
        let Some(record) = self.context.record_of(server.0) else {
            return done();
        };
        let target = FenceTarget {
            uuid: record.uuid.clone(),
            name: record.name.clone(),
            host: record.host.clone(),
            port: record.port,
            group: record.group.clone(),
        };
        let settings = self.context.settings();
        let outside = settings.failover.fence.fence(target);
        let (outside, inside) = tokio::join!(outside, self.stop_writes(lead, &record));
        let (kind, detail, step) = match (outside, inside) {
            (Fenced::Surely, _) => (
                "server_fenced",
                "it takes no write any more".to_owned(),
                done(),
            ),
            (Fenced::NoMeans | Fenced::Failed(_), Ok(killed)) => (
                "server_fenced",
                format!("it is read-only, and {killed} clients of it were ended"),
                done(),
            ),
            (Fenced::NoMeans, Err(error)) => {
                let why = format!("no fence_command is set, and {error}");
                ("fence_failed", why.clone(), Err(said(why)))
            }
            (Fenced::Failed(why), Err(error)) => {
                let why = format!("{why}; {error}");
                ("fence_failed", why.clone(), Err(said(why)))
            }
        };
        let event = event::Event::now(kind, &record.group, detail);
        self.context
            .happened(event.of(&record.uuid, record.address()));
        step
    }

    /// Makes a server read-only and ends its clients, on connections of its own.
    pub(super) async fn stop_writes(
        &self,
        lead: &Lead,
        record: &ServerRecord,
    ) -> Result<u64, Error> {
        let login = self.links.login(record);
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let mut link = Link::open(&login, timeout_ms).await?;
        self.links.act(lead, &mut link).await?;
        let mut killed = exchange::kill_clients(&mut link, timeout_ms).await?;
        killed += self
            .become_read_only(lead, &mut link, &login, Waiting::LetGo, timeout_ms)
            .await?;
        // Those that came between, and those whose rights let them write nevertheless.
        killed += exchange::kill_clients(&mut link, timeout_ms).await?;
        Ok(killed)
    }

    /// Makes a server read-only. Gives how many clients were ended for that.
    ///
    /// A statement that waits for the row locks of an idle transaction keeps the server from becoming
    /// read-only for as long as it waits, and the idle transaction cannot go on meanwhile. Ended clients
    /// roll back, which lets both go.
    async fn become_read_only(
        &self,
        lead: &Lead,
        link: &mut Link,
        login: &Login,
        waiting: Waiting,
        timeout_ms: u64,
    ) -> Result<u64, Error> {
        let refuse = exchange::refuse_writes(link, timeout_ms);
        tokio::pin!(refuse);
        if let Ok(refused) = tokio::time::timeout(LINGER, &mut refuse).await {
            return refused.map(|()| 0);
        }
        let end = async {
            let mut other = Link::open(login, timeout_ms).await?;
            self.links.act(lead, &mut other).await?;
            let killed = exchange::kill_clients(&mut other, timeout_ms).await?;
            if waiting == Waiting::LetGo {
                // Who came between the two lists and committed is not in the first.
                while exchange::kill_waiting(&mut other, timeout_ms).await? > 0 {}
                engine::set_acks(&mut other, None, timeout_ms).await?;
            }
            Ok(killed)
        };
        // The wish waits on meanwhile: it may be granted before the last client was ended.
        let (refused, killed) = tokio::join!(refuse, end);
        refused?;
        killed
    }

    async fn halt(&self, lead: &Lead, server: ServerId) -> Step {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = self
            .links
            .lend_to_act(lead, server.0)
            .await
            .map_err(failed)?;
        self.context.state().standing.halts(server.0);
        let mut outcome = exchange::halt(&mut link, timeout_ms).await;
        if let Ok(halted) = &mut outcome
            && !halted.read_only
        {
            let refused = exchange::refuse_writes(&mut link, timeout_ms).await;
            refused.map_err(failed)?;
            halted.read_only = true;
        }
        heard(link.keep(outcome))
    }

    async fn prepare_primary(&self, lead: &Lead, group: &str, server: ServerId) -> Step {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let wanted = self.links.wanted_ack_wait_ms(group);
        let strict = self.context.settings().failover.relaxed_replicas;
        if let Some(record) = self
            .context
            .record_of(server.0)
            .filter(|it| it.status == Status::Primary)
        {
            self.put_right(lead, &record).await?;
        }
        let mut link = self
            .links
            .lend_to_act(lead, server.0)
            .await
            .map_err(failed)?;
        let outcome = exchange::prepare_primary(&mut link, wanted, strict, timeout_ms).await;
        let outcome = link.keep(outcome);
        if let (Ok((_, set)), Some(record)) = (&outcome, self.context.record_of(server.0)) {
            self.links.tell_acks(&record, *set, wanted);
        }
        plain(outcome.map(drop))
    }

    /// A primary that was started anew and leads on: what its log says of branches, its replicas have,
    /// and its engine may have lost.
    async fn put_right(&self, lead: &Lead, record: &ServerRecord) -> Result<(), Failed> {
        let login = self.links.login(record);
        let mended = async {
            let mut link = Link::open(&login, self.context.settings().step_timeout_ms).await?;
            self.links.act(lead, &mut link).await?;
            self.rejoin.mend_branches(record, [&mut link]).await
        };
        mended.await.map_err(failed)?.map_err(said)
    }

    /// A replica is pointed at a primary that does not take writes yet.
    async fn point(&self, lead: &Lead, server: ServerId, primary: ServerId) -> Step {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let (mut link, login, relaxed) = self.to_point(lead, server, primary).await?;
        let outcome = exchange::point(&mut link, &login, relaxed, timeout_ms).await;
        plain(link.keep(outcome))
    }

    /// What it takes to point a replica at a primary: its link, how it logs in there, whether it may flush less often.
    async fn to_point(
        &self,
        lead: &Lead,
        server: ServerId,
        primary: ServerId,
    ) -> Result<(Lent, Login, bool), Failed> {
        let Some(leader) = self.context.record_of(primary.0) else {
            return Err(said("it left the farm".to_owned()));
        };
        let login = self.links.replica_login(&leader);
        let relaxed = self.context.settings().failover.relaxed_replicas;
        let lent = self.links.lend_to_act(lead, server.0).await;
        Ok((lent.map_err(failed)?, login, relaxed))
    }

    /// A replica is only pointed elsewhere; a former primary has more to learn.
    async fn follow_primary(&self, lead: &Lead, server: ServerId, primary: ServerId) -> Step {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let Some(record) = self.context.record_of(server.0) else {
            return Err(said("it left the farm".to_owned()));
        };
        let (mut link, login, relaxed) = self.to_point(lead, server, primary).await?;
        let outcome = follow(&mut link, &login, relaxed, timeout_ms).await;
        let outcome = link.keep(outcome);
        if outcome.is_ok() {
            self.context.state().standing.goes_on(server.0);
            if record.status != Status::Faulty {
                self.context.heal(server.0);
            }
        }
        plain(outcome)
    }

    /// Read-only, nobody left who could write, and what it has then.
    async fn close(&self, lead: &Lead, server: ServerId) -> Step {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let Some(record) = self.context.record_of(server.0) else {
            return Err(said("it left the farm".to_owned()));
        };
        let login = self.links.login(&record);
        let mut link = self
            .links
            .lend_to_act(lead, server.0)
            .await
            .map_err(failed)?;
        let refused = self
            .become_read_only(lead, &mut link, &login, Waiting::StaysSo, timeout_ms)
            .await;
        refused.map_err(failed)?;
        // Accounts with READ ONLY ADMIN would write on; sessions find the new primary.
        let ended = exchange::end_clients(&mut link, ROLLBACK_MS.min(timeout_ms), timeout_ms).await;
        ended.map_err(failed)?;
        let outcome = exchange::look(&mut link, timeout_ms).await;
        heard(link.keep(outcome))
    }

    /// The servers' standing as sessions see it from now on; the store follows at once. The timeline ends with it, at
    /// `fork`: what the next primary commits is no part of it.
    pub(super) fn publish_primary(
        &self,
        group: &str,
        primary: Option<ServerId>,
        fork: Option<&Position>,
    ) {
        let old = self.context.state().records.clone();
        let mut since_us = None;
        {
            let mut state = self.context.state();
            if let Some(fork) = fork {
                let State {
                    standing, records, ..
                } = &mut *state;
                standing.ends_timeline(group, fork, records);
            }
            let ids: Vec<u32> = state.records.members(group).map(|(id, _)| id).collect();
            for id in ids {
                let is_it = primary == Some(ServerId(id));
                if let Some(kept) = state.records.servers.get_mut(&id) {
                    kept.value = kept.value.after_change_of_primary(is_it);
                }
                if is_it {
                    since_us = state.standing.leads(group, id);
                    state.seen.entry(id).or_default().promoted();
                }
            }
            if primary.is_none() {
                state.standing.nobody_leads(group);
            }
        }
        let happened = self.context.state().records.events_since(&old);
        happened
            .into_iter()
            .for_each(|event| self.context.happened(event));
        self.context.publish_group(group);
        self.context.sessions.turned();
        self.context.winners.forget(group);
        releases::tell_older_replicas(&self.context, group);
        if let Some(since_us) = since_us {
            let pause_us = self.context.now_us().saturating_sub(since_us);
            self.context.tally.last_pause_us.store(pause_us, Relaxed);
        }
        self.context.probe_now();
    }
}

/// The server on which a step is done: not one that is only looked at from outside, or that sessions are cut off from.
fn on_server(what: &Ask) -> Option<ServerId> {
    match what {
        Ask::Confirm { .. } | Ask::Cut { .. } | Ask::Record(_) => None,
        what => what.server(),
    }
}

/// Points a server at a primary, whatever it did before.
async fn follow(
    link: &mut Link,
    primary: &Login,
    relaxed: bool,
    timeout_ms: u64,
) -> Result<(), Error> {
    match engine::replication::status(link, timeout_ms).await? {
        Some(now) if engine::replication::follows(&now, primary) => {
            exchange::start(link, timeout_ms).await
        }
        Some(_) => exchange::repoint(link, primary, relaxed, timeout_ms).await,
        None => {
            engine::make_replica(link, primary, timeout_ms).await?;
            match relaxed {
                true => exchange::relax(link, timeout_ms).await,
                false => Ok(()),
            }
        }
    }
}

fn heard(outcome: Result<Halted, Error>) -> Step {
    let halted = outcome.map_err(failed)?;
    Ok(Answer::Heard(Heard {
        applies: halted
            .replica
            .as_ref()
            .is_some_and(|replica| replica.sql != Thread::Stopped),
        executed: halted.executed,
        received: halted.received,
        read_only: halted.read_only,
        up_us: halted.up_s.map(|s| s.saturating_mul(1_000_000)),
        frozen: halted.frozen,
    }))
}

fn plain(outcome: Result<(), Error>) -> Step {
    outcome.map_err(failed)?;
    done()
}

fn said(text: String) -> Failed {
    Failed {
        fault: Fault::Said,
        text,
    }
}
