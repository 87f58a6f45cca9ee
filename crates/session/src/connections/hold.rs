//! Statements that wait, for a primary or for the end of a move: nothing was sent, and the client sees
//! only time pass.
//!
//! Who waits costs a waker and, once, a timer. All of a core's are woken together when a group
//! stands differently from before: by the control plane's word at once, and else by a look every few
//! milliseconds, which is taken only while somebody waits.

use std::cell::{Cell, RefCell};
use std::hash::Hasher;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backend::{ConnectionError, Lease, Pass, PoolError, SessionState, Target, ends_connection};
use farm::{Group, GroupKind, Snapshot, error};
use futures_channel::oneshot;
use rustc_hash::{FxHashMap, FxHasher};

use crate::client::end::End;
use crate::connections::group_connections::{HOME, group_of};
use crate::connections::target::target;
use crate::counters::{Counters, count};
use crate::execution::attempt;
use crate::execution::exec::Run;
use crate::execution::profile::Step;
use crate::per_core::{Core, Handle};
use crate::session::{self, Session, is_free};
use crate::transaction::loss;

/// Time between two looks at the snapshot while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A server that failed though it should serve is tried again after this time, which doubles up to
/// the other: nothing may ever be published, because nothing but a connection was lost.
const PAUSE_MIN_US: u64 = 1000;
const PAUSE_MAX_US: u64 = 200_000;

/// Those of one core who wait.
#[derive(Default)]
pub(crate) struct Waiting {
    waiters: RefCell<FxHashMap<u64, oneshot::Sender<Wake>>>,
    last_ticket: Cell<u64>,
    /// How the groups stood at the last look.
    standing: Cell<u64>,
    /// The task that looks is there.
    looks: Cell<bool>,
}

/// Why a wait was over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// It is worth another try.
    Try,
    /// Somebody ends the statement.
    Interrupted,
}

/// How long one statement has waited, over all its tries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    began_us: u64,
    /// Tries that failed with a server which should serve.
    failures: u32,
}

/// What kept a statement from running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// No server is there that may serve it.
    NoServer,
    /// The one that should have served it failed.
    Failure,
}

/// What is to be done after a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// The statement may be tried again.
    Again,
    /// Nobody waits for this group, or not any longer: so long it was waited for.
    Over { waited_ms: u64 },
    /// The client has been answered.
    Answered,
}

impl Waiting {
    /// Somebody waits.
    fn is_used(&self) -> bool {
        !self.waiters.borrow().is_empty()
    }

    /// Wakes all when the group stands differently from the last look.
    fn look(&self, snapshot: &Snapshot) {
        let standing = standing(snapshot);
        if self.standing.replace(standing) != standing && self.is_used() {
            self.wake_all(Wake::Try);
        }
    }

    fn wake_all(&self, wake: Wake) {
        for (_, waiter) in std::mem::take(&mut *self.waiters.borrow_mut()) {
            // Its wait may just have ended otherwise.
            let _ = waiter.send(wake);
        }
    }

    /// Ends the wait with this number, if there is one.
    pub fn interrupt(&self, ticket: u64) {
        if let Some(waiter) = self.waiters.borrow_mut().remove(&ticket) {
            let _ = waiter.send(Wake::Interrupted);
        }
    }

    /// Ends all waits.
    pub fn interrupt_all(&self) {
        self.wake_all(Wake::Interrupted);
    }
}

/// What of the groups decides whether a statement can run, as one number.
fn standing(snapshot: &Snapshot) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write_u64(snapshot.sharding.as_ref().map_or(0, |sharding| sharding.epoch));
    for group in &snapshot.groups {
        hasher.write_u8(u8::from(group.paused));
        for server in &group.servers {
            hasher.write_u32(server.id.0);
            hasher.write_u32(server.term);
            let serves = [server.serves_reads(), server.serves_writes()];
            hasher
                .write_u8(server.status as u8 * 4 + u8::from(serves[0]) * 2 + u8::from(serves[1]));
        }
    }
    hasher.finish()
}

/// True while the group takes statements that need its primary.
fn is_served(group: &Group) -> bool {
    !group.paused && group.primary().is_some_and(|server| server.serves_writes())
}

/// True where somebody works on it that the group has a primary again, or its cluster does.
pub(crate) fn is_tended(snapshot: &Snapshot, seat: u32) -> bool {
    group_of(snapshot, seat)
        .is_some_and(|group| group.active || group.paused || group.kind == GroupKind::Galera)
}

/// True for errors of a server that is gone, or is not the primary any more: nothing was done.
pub(crate) fn is_failure(error: &PoolError) -> bool {
    match error {
        PoolError::Connection(ConnectionError::Refused {
            number, message, ..
        }) => ends_connection(*number) || says_read_only(*number, message),
        PoolError::Connection(ConnectionError::Broken { .. } | ConnectionError::Timeout { .. }) => {
            true
        }
        _ => false,
    }
}

/// A server's refusal because all of it is read-only: ER_OPTION_PREVENTS_STATEMENT, which is about
/// other options too, and ER_READ_ONLY_MODE.
pub(crate) fn says_read_only(number: u16, message: &[u8]) -> bool {
    let names = |option: &[u8]| message.windows(option.len()).any(|part| part == option);
    number == 1836 || (number == 1290 && (names(b"read-only") || names(b"read_only")))
}

/// A waiter while it waits; dropped, it leaves.
struct Place<'a> {
    core: &'a Core,
    handle: Option<&'a Handle>,
    ticket: u64,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.core.waiting.waiters.borrow_mut().remove(&self.ticket);
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
        self.follow(&self.shared.published.load());
    }

    /// Ends the connections that the snapshot cuts off, and wakes who waited for it.
    pub(crate) fn follow(&self, snapshot: &Snapshot) {
        let servers = snapshot.groups.iter().flat_map(|group| &group.servers);
        for server in servers {
            self.pools.cut(server.id, server.term);
        }
        self.waiting.look(snapshot);
        self.follow_acks(snapshot);
    }

    /// Waits until a statement is worth another try, for at most `left_us`.
    pub(crate) async fn wait(
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
        let waiting = &self.waiting;
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
        if core.waiting.looks.replace(true) {
            return;
        }
        reactor::spawn(async move {
            while core.waiting.is_used() {
                reactor::sleep(LOOK_EVERY).await;
                core.turned();
            }
            core.waiting.looks.set(false);
        })
        .detach();
    }

    /// A connection to the primary of a seat's group, or while it is down to any server of it that
    /// lives. A login waits for one.
    pub(crate) async fn take_from_primary(
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
        if limit_us == 0 || self.is_draining() || !is_tended(&self.shared.published.load(), HOME) {
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
    pub(crate) fn primary_target(&self, seat: u32) -> Result<Target, ConnectionError> {
        let snapshot = self.shared.published.load();
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

impl Hold {
    pub(crate) fn new(began_us: u64) -> Hold {
        Hold {
            began_us,
            failures: 0,
        }
    }
}

impl Session {
    /// Waits until the statement may be tried again that `cause` kept from running. To be called only
    /// while nothing of it is done.
    pub(crate) async fn hold(&mut self, run: &mut Run, cause: Cause) -> Result<Turn, End> {
        let began_us = self.core.now_us();
        let limit_us = self.promises.failover_wait_ms * 1000;
        let tended = is_tended(&self.core.shared.published.load(), self.connections.current.group);
        if run.hold.is_none() {
            if limit_us == 0 || !tended || self.core.is_draining() {
                return Ok(Turn::Over { waited_ms: 0 });
            }
            // What has begun waits in every case.
            let new = is_free(self.variables.status) && run.resume.is_none();
            if new && self.core.is_crowded() {
                count(&self.core.counters.statements_held_refused);
                self.client.error(&error::TOO_MANY_WAIT, &[]).await?;
                return Ok(Turn::Answered);
            }
            count(&self.core.counters.statements_held);
            attempt::start_clock(&self.core, &self.handle, &mut self.run, &run.shape);
        }
        let hold = run.hold.get_or_insert(Box::new(Hold::new(began_us)));
        let left_us = (hold.began_us + limit_us).saturating_sub(began_us);
        let mut wake = Wake::Try;
        let over = left_us == 0 || !tended;
        if !over {
            let handle = &self.handle;
            let seat = self.connections.current.group;
            wake = self.core.wait(Some(handle), seat, hold, cause, left_us).await;
        }
        let now_us = self.core.now_us();
        let counters = &self.core.counters;
        counters.statements_held_us.fetch_add(now_us - began_us, Relaxed);
        self.run.profile.lap(Step::Hold);
        if self.handle.killed.get() || self.core.is_draining() {
            loss::place_error(&mut self.client, run)?;
            return Err(session::last_word(&self.core, &mut self.client).await);
        }
        if wake == Wake::Interrupted {
            self.handle.started.set(None);
            loss::place_error(&mut self.client, run)?;
            self.client.error(&error::QUERY_KILLED, &[]).await?;
            return Ok(Turn::Answered);
        }
        if over {
            self.handle.started.set(None);
            count(&counters.statements_held_in_vain);
            let waited_ms = (now_us - hold.began_us) / 1000;
            return Ok(Turn::Over { waited_ms });
        }
        Ok(Turn::Again)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_only_is_told_from_other_options() {
        let of_option = |option: &str| {
            let text = format!("The MariaDB server is running with the {option} option");
            says_read_only(1290, text.as_bytes())
        };
        assert!(of_option("--read-only") && of_option("--super-read-only"));
        assert!(!of_option("--secure-file-priv") && !of_option("--skip-grant-tables"));
        assert!(says_read_only(1836, b"Running in read-only mode"));
        assert!(!says_read_only(1792, b"in a READ ONLY transaction"));
    }
}
