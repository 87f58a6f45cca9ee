//! Waiting itself: a statement or a login that no server may serve now, until it is worth another try.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backend::{ConnectionError, Lease, Pass, PoolError, SessionState, Target};
use farm::{Snapshot, error};
use futures_channel::oneshot;
use recorder::Awaited;

use crate::client::answer::Answers;
use crate::client::end::End;
use crate::connections::hold::{
    Cause, Hold, LOOK_EVERY, PAUSE_MAX_US, PAUSE_MIN_US, Turn, Wake, is_failure, is_served,
    is_tended, standing,
};
use crate::connections::home::{HOME, group_of};
use crate::connections::target::target;
use crate::consistency::acks::wait::follow_acks;
use crate::counters::{Counters, count};
use crate::execution::exec::Run;
use crate::execution::profile::Step;
use crate::execution::statement_run::clock;
use crate::per_core::Core;
use crate::per_core::handle::Handle;
use crate::recorded;
use crate::session::{self, Session, is_free};
use crate::transaction::loss;

/// A waiter while it waits; dropped, it leaves.
struct Place<'a> {
    core: &'a Core,
    handle: Option<&'a Handle>,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.core.waits.waiting.waiters.borrow_mut().remove(&self.ticket);
        self.core.counters.statements_held_now.fetch_sub(1, Relaxed);
        if let Some(handle) = self.handle {
            handle.waiting.set(0);
        }
    }
}

impl Core {
    /// The published snapshot has a new primary, a paused group, or a server that was cut off.
    pub fn turned(&self) {
        self.heed_settings();
        self.follow(&self.glance());
    }

    /// Ends the connections that the snapshot cuts off, and wakes who waited for it.
    pub fn follow(&self, snapshot: &Snapshot) {
        let servers = snapshot.groups.iter().flat_map(|group| &group.servers);
        for server in servers {
            self.pools.cut(server.id, server.term);
        }
        self.waits.waiting.look(snapshot);
        follow_acks(self, snapshot);
    }

    /// Waits until a statement is worth another try, for at most `left_us`.
    pub async fn wait(
        &self,
        handle: Option<&Handle>,
        seat: u32,
        hold: &mut Hold,
        cause: Cause,
        left_us: u64,
    ) -> Wake {
        let snapshot = self.shared.published.load_full();
        let pause_us = match cause {
            Cause::Failure => {
                hold.failures += 1;
                let doubled = PAUSE_MIN_US << (hold.failures - 1).min(16);
                doubled.min(PAUSE_MAX_US)
            }
            // It came meanwhile.
            Cause::NoServer if group_of(&snapshot, seat).is_some_and(|group| is_served(group)) => {
                PAUSE_MIN_US
            }
            Cause::NoServer => left_us,
        };
        let waiting = &self.waits.waiting;
        let (tell, told) = oneshot::channel();
        let ticket = waiting.last_ticket.get() + 1;
        waiting.last_ticket.set(ticket);
        if !waiting.is_used() {
            waiting.standing.set(standing(&snapshot));
        }
        waiting.waiters.borrow_mut().insert(ticket, tell);
        self.counters.statements_held_now.fetch_add(1, Relaxed);
        if let Some(handle) = handle {
            handle.waiting.set(ticket);
        }
        let _place = Place {
            core: self,
            handle,
            ticket,
        };
        self.keep_looking();
        let pause = Duration::from_micros(pause_us.min(left_us));
        match reactor::timeout(pause, told).await {
            Some(Ok(wake)) => wake,
            _ => Wake::Try,
        }
    }

    /// True when as many wait as may. Cores do not ask each other, so each may let in one too many.
    fn is_crowded(&self) -> bool {
        let waiters_max = self.settings().failover_waiters_max;
        let now = |counters: &Arc<Counters>| counters.statements_held_now.load(Relaxed);
        waiters_max > 0 && self.shared.counters.iter().map(now).sum::<u64>() >= waiters_max
    }

    /// Sees to it that the snapshot is looked at for as long as somebody waits.
    fn keep_looking(&self) {
        let Some(core) = self.me.upgrade() else {
            return;
        };
        if core.waits.waiting.looks.replace(true) {
            return;
        }
        reactor::spawn(async move {
            while core.waits.waiting.is_used() {
                reactor::sleep(LOOK_EVERY).await;
                core.turned();
            }
            core.waits.waiting.looks.set(false);
        })
        .detach();
    }

    /// A connection to the primary of a seat's group, or while it is down to any server of it that
    /// lives. A login waits for one.
    pub async fn take_from_primary(
        &self,
        seat: u32,
        pass: &Pass,
        state: &Rc<SessionState>,
        at_login: bool,
    ) -> Result<Lease, PoolError> {
        let mut hold = None;
        loop {
            let taken = self.try_primary(seat, pass, state, at_login).await;
            let Err(error) = taken else { return taken };
            if !at_login || !is_failure(&error) || !Box::pin(self.hold_login(&mut hold)).await {
                return Err(error);
            }
        }
    }

    /// Waits with a login; false when it is not to be waited for, or not any longer.
    async fn hold_login(&self, hold: &mut Option<Hold>) -> bool {
        let now_us = self.now_us();
        let limit_us = self.settings().failover_wait_ms * 1000;
        if limit_us == 0 || self.is_draining() || !is_tended(&self.glance(), HOME) {
            return false;
        }
        if hold.is_none() && self.is_crowded() {
            count(&self.counters.statements_held_refused);
            return false;
        }
        let hold = hold.get_or_insert(Hold::new(now_us));
        let left_us = (hold.began_us + limit_us).saturating_sub(now_us);
        left_us > 0 && self.wait(None, HOME, hold, Cause::Failure, left_us).await == Wake::Try
    }

    async fn try_primary(
        &self,
        seat: u32,
        pass: &Pass,
        state: &Rc<SessionState>,
        at_login: bool,
    ) -> Result<Lease, PoolError> {
        let mut target = self.primary_target(seat)?;
        target.at_login = at_login;
        let key = self.pools.key(target.server, target.read_only, pass);
        self.pools.take(&target, key, state, 0).await
    }

    /// The group's primary, or whoever serves reads while nobody takes writes.
    pub fn primary_target(&self, seat: u32) -> Result<Target, ConnectionError> {
        let snapshot = self.glance();
        let group = group_of(&snapshot, seat);
        let primary = group.and_then(|g| g.primary()).filter(|s| s.serves_writes());
        let any = || group.and_then(|g| g.servers.iter().find(|s| s.serves_reads()));
        let found = primary.or_else(any);
        found.and_then(|s| target(&snapshot, s.id, !s.serves_writes())).ok_or_else(|| {
            ConnectionError::Broken {
                operation: "choosing a server",
                source: std::io::Error::other("no server of the group is alive"),
            }
        })
    }
}

/// Waits once for what a statement needs beside its group's servers, for at most `left_us`. False: somebody ended the
/// statement, and the client has been told.
pub async fn wait_once(session: &mut Session, hold: &mut Hold, left_us: u64) -> Result<bool, End> {
    let seat = session.connections.current.group;
    let waiting = session.core.wait(Some(&session.handle), seat, hold, Cause::Failure, left_us);
    let wake = waiting.await;
    if session.handle.killed.get() || session.core.is_draining() {
        return Err(session::last_word(&session.core, &mut session.client).await);
    }
    if wake == Wake::Interrupted {
        session.handle.at_servers.started.set(None);
        session.client.error(&error::QUERY_KILLED, &[]).await?;
        return Ok(false);
    }
    Ok(true)
}

/// Waits until the statement may be tried again that `cause` kept from running. To be called only
/// while nothing of it is done.
pub async fn hold(session: &mut Session, run: &mut Run, cause: Cause) -> Result<Turn, End> {
    let began_us = session.core.now_us();
    let limit_us = session.promises.failover_wait_ms * 1000;
    let tended = is_tended(&session.core.glance(), session.connections.current.group);
    if run.hold.is_none() {
        if limit_us == 0 || !tended || session.core.is_draining() {
            return Ok(Turn::Over { waited_ms: 0 });
        }
        // What has begun waits in every case.
        let new = is_free(session.variables.status) && run.resume.is_none();
        if new && session.core.is_crowded() {
            count(&session.core.counters.statements_held_refused);
            session.client.error(&error::TOO_MANY_WAIT, &[]).await?;
            return Ok(Turn::Answered);
        }
        count(&session.core.counters.statements_held);
        clock::start_clock(&session.core, &session.handle, &mut session.run, &run.shape);
    }
    let hold = run.hold.get_or_insert(Box::new(Hold::new(began_us)));
    let left_us = (hold.began_us + limit_us).saturating_sub(began_us);
    let mut wake = Wake::Try;
    let over = left_us == 0 || !tended;
    if !over {
        let handle = &session.handle;
        let seat = session.connections.current.group;
        recorded::wait_began(handle.id, Awaited::Primary, 0);
        wake = session.core.wait(Some(handle), seat, hold, cause, left_us).await;
        recorded::wait_ended(handle.id, Awaited::Primary, 0, wake == Wake::Try);
    }
    let now_us = session.core.now_us();
    let counters = &session.core.counters;
    counters.statements_held_us.fetch_add(now_us - began_us, Relaxed);
    session.run.profile.lap(Step::Hold);
    if session.handle.killed.get() || session.core.is_draining() {
        loss::place_error(&mut session.client, run)?;
        return Err(session::last_word(&session.core, &mut session.client).await);
    }
    if wake == Wake::Interrupted {
        session.handle.at_servers.started.set(None);
        loss::place_error(&mut session.client, run)?;
        session.client.error(&error::QUERY_KILLED, &[]).await?;
        return Ok(Turn::Answered);
    }
    if over {
        session.handle.at_servers.started.set(None);
        count(&counters.statements_held_in_vain);
        let waited_ms = (now_us - hold.began_us) / 1000;
        return Ok(Turn::Over { waited_ms });
    }
    Ok(Turn::Again)
}
