//! Taking a slot, keeping it, and campaigning for the leadership.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use meta::{Lease, LeaseId, Outcome, Transaction};

use super::presence::{LEADER, LeaderRecord, ROUTER, RouterRecord, Seat, router_key};
use crate::leadership::election::Election;
use crate::settings::{Membership, Settings};
use catalog::Error;
use catalog::command::CommandError;
use catalog::event::{Event, epoch_ms};
use catalog::record::json;

/// Before the store is tried again.
const AGAIN: Duration = Duration::from_millis(100);

/// So long a router waits for the store when it ends; its keys vanish by themselves otherwise.
const FAREWELL: Duration = Duration::from_secs(1);

/// Registrations that others snatched away before this one; there are 255 slots.
const TRIES_MAX: u32 = 255;

impl Election {
    /// What the others are told of this router.
    pub(super) fn own_record(&self, settings: &Settings) -> RouterRecord {
        let membership = settings.membership.as_ref();
        let text = |of: fn(&Membership) -> &String| membership.map(of).cloned().unwrap_or_default();
        RouterRecord {
            id: self.context.leadership.id.clone(),
            name: text(|membership| &membership.name),
            http: text(|membership| &membership.http),
            sql: text(|membership| &membership.sql),
            version: settings.version.clone(),
            started_ms: self.context.leadership.started_ms,
            tls: true,
        }
    }

    /// Takes a slot at the start, so that it is known before any client is served.
    pub(crate) async fn join_the_others(&self) -> Result<(), Error> {
        let settings = self.context.settings();
        let Some(membership) = &settings.membership else {
            return Ok(());
        };
        self.read_presence().await?;
        if membership.replaces {
            self.end_earlier_life(membership).await?;
        }
        self.take_seat(membership).await
    }

    /// A process that ended without a farewell and had the same HTTP address, which this process has
    /// bound since: nobody has to wait until its lease runs out.
    async fn end_earlier_life(&self, membership: &Membership) -> Result<(), Error> {
        let gone: Vec<(u8, u64, String)> = {
            let inner = self.context.leadership.inner();
            let routers = inner.presence.routers.iter();
            let same = routers.filter(|(_, kept)| kept.value.http == membership.http);
            same.map(|(slot, kept)| (*slot, kept.revision, kept.value.id.clone()))
                .collect()
        };
        for (slot, revision, id) in gone {
            self.unseat(slot, revision, &id).await?;
        }
        self.read_presence().await?;
        Ok(())
    }

    /// Takes a router out that is surely gone, and with it its leadership.
    ///
    /// Both go in one transaction: once the leadership is gone another router takes it, and the task that
    /// calls this may be ended. A router that only lost its leadership would count as living until its lease
    /// runs out.
    pub(super) async fn unseat(
        &self,
        slot: u8,
        revision: u64,
        id: &str,
    ) -> Result<(), meta::Error> {
        let number = {
            let inner = self.context.leadership.inner();
            let leader = inner.presence.leader.as_ref();
            leader.filter(|it| it.value.id == id).map(|it| it.revision)
        };
        let key = router_key(slot);
        let gone = Transaction::new().when_revision(&key, revision);
        let gone = gone.delete(&key);
        if let Some(number) = number {
            let deposed = gone.clone().when_revision(LEADER, number);
            let outcome = self.context.store().commit(deposed.delete(LEADER)).await?;
            if matches!(outcome, Outcome::Applied(_)) {
                return Ok(());
            }
        }
        self.context.store().commit(gone).await?;
        Ok(())
    }

    /// A new lease, and a slot with it: the one that this router had, if that is free.
    async fn take_seat(&self, membership: &Membership) -> Result<(), Error> {
        let ttl = Duration::from_millis(membership.lease_ms);
        let asked = Instant::now();
        let lease: Arc<dyn Lease> = Arc::from(self.context.store().lease(ttl).await?);
        self.lease_kept(&*lease, asked);
        let wanted = self.context.leadership.inner().seat.map(|seat| seat.slot);
        let record = json(&self.own_record(&self.context.settings()));
        for _ in 0..TRIES_MAX {
            let (slot, own) = {
                let inner = self.context.leadership.inner();
                let slot = inner.presence.vacancy(wanted, &self.context.leadership.id);
                let there = slot.and_then(|slot| inner.presence.routers.get(&slot));
                (slot, there.map(|kept| kept.revision))
            };
            let Some(slot) = slot else { break };
            let key = router_key(slot);
            let taken = match own {
                None => Transaction::new().when_absent(&key),
                Some(revision) => Transaction::new().when_revision(&key, revision),
            };
            let taken = taken.put_leased(&key, &record, lease.id());
            match self.context.store().commit(taken).await? {
                Outcome::Applied(revision) => {
                    self.seated(slot, revision, &lease, &record);
                    return Ok(());
                }
                Outcome::Stale => {
                    let listing = self.context.store().scan(ROUTER).await?;
                    let mut inner = self.context.leadership.inner();
                    inner
                        .presence
                        .read(ROUTER, &listing.entries, listing.revision);
                }
            }
        }
        Err(Error::NoSlot)
    }

    fn seated(&self, slot: u8, revision: u64, lease: &Arc<dyn Lease>, record: &str) {
        {
            let mut inner = self.context.leadership.inner();
            inner.seat = Some(Seat {
                slot,
                revision,
                lease: lease.id(),
            });
            inner.lease = Some(Arc::clone(lease));
            inner
                .presence
                .take(&router_key(slot), Some(record), revision);
        }
        self.presence_changed();
    }

    /// The lease lives at least so long from the moment at which the store was asked; a twentieth is
    /// left for clocks that differ.
    fn lease_kept(&self, lease: &dyn Lease, asked: Instant) {
        let mut inner = self.context.leadership.inner();
        inner.valid_until = Some(asked + lease.ttl() - lease.ttl() / 20);
        inner.answered = Instant::now();
    }

    /// Keeps the slot and campaigns for the leadership, for as long as the router lives.
    pub(crate) async fn hold_leadership(self: Arc<Self>) {
        let mut told = String::new();
        loop {
            let settings = self.context.settings();
            let Some(membership) = &settings.membership else {
                return;
            };
            let lease = self.context.leadership.inner().lease.clone();
            if let Some(lease) = lease {
                tokio::select! {
                    () = self.keep(&*lease) => {}
                    () = self.expire() => {}
                    () = self.campaign(lease.id()) => {}
                }
                self.context.leadership.inner().lease = None;
                self.update_role();
            }
            // It is told again: somebody else may have taken the slot, or the store been restored.
            let joined = match self.read_presence().await {
                Ok(_) => self.take_seat(membership).await,
                Err(error) => Err(error.into()),
            };
            match joined {
                Ok(()) => told.clear(),
                Err(error) => {
                    let error = error.to_string();
                    if told != error {
                        self.context
                            .happened(Event::now("router_adrift", "", error.clone()));
                        told = error;
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Extends the lease four times while it lives; returns when it is lost.
    async fn keep(&self, lease: &dyn Lease) {
        let mut pause = lease.ttl() / 4;
        loop {
            tokio::time::sleep(pause).await;
            let asked = Instant::now();
            match tokio::time::timeout(lease.ttl() / 2, lease.keep()).await {
                Ok(Ok(())) => {
                    self.lease_kept(lease, asked);
                    pause = lease.ttl() / 4;
                }
                Ok(Err(meta::Error::LeaseLost)) => return,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the lease was not extended");
                    pause = AGAIN;
                }
                Err(_) => pause = AGAIN,
            }
            self.update_role();
        }
    }

    /// Sees to it that nobody takes this router for the leader when its lease may have run out.
    async fn expire(&self) {
        loop {
            let until = self.context.leadership.inner().valid_until;
            let now = Instant::now();
            match until {
                Some(until) if until > now => tokio::time::sleep(until - now).await,
                _ => {
                    if self.context.leadership.role().leads.is_some() {
                        self.presence_changed();
                    }
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }

    /// Takes the leadership whenever nobody has it; returns when this router's registration is gone.
    async fn campaign(&self, lease: LeaseId) {
        loop {
            let changed = self.context.leadership.changed.notified();
            tokio::pin!(changed);
            // From here on no change is missed.
            changed.as_mut().enable();
            let (seated, vacant) = {
                let inner = self.context.leadership.inner();
                let there = |seat: &Seat| {
                    let kept = inner.presence.routers.get(&seat.slot);
                    kept.is_some_and(|kept| kept.value.id == self.context.leadership.id)
                };
                let vacant = inner.presence.leader.is_none() && !inner.resigned;
                (inner.seat.filter(there), vacant)
            };
            let Some(seat) = seated else { return };
            if !vacant {
                changed.await;
                continue;
            }
            match self.take_leadership(seat, lease).await {
                Ok(true) => {}
                // Another one was faster, or the store does not answer: the watch tells.
                Ok(false) | Err(_) => tokio::select! {
                    () = changed => {}
                    () = tokio::time::sleep(AGAIN) => {}
                },
            }
        }
    }

    async fn take_leadership(&self, seat: Seat, lease: LeaseId) -> Result<bool, meta::Error> {
        let record = json(&LeaderRecord {
            slot: seat.slot,
            id: self.context.leadership.id.clone(),
            since_ms: epoch_ms(),
        });
        let elected = Transaction::new()
            .when_absent(LEADER)
            .when_revision(&router_key(seat.slot), seat.revision)
            .put_leased(LEADER, &record, lease);
        let outcome = self.context.store().commit(elected).await?;
        let Outcome::Applied(number) = outcome else {
            return Ok(false);
        };
        {
            let mut inner = self.context.leadership.inner();
            inner.elected = Some((number, lease));
            inner.presence.take(LEADER, Some(&record), number);
        }
        self.presence_changed();
        Ok(true)
    }

    /// Gives the leadership up and does not want it again: for a router that is about to end. Another one
    /// leads a moment later. What was begun ends by its own or is taken up by the next leader.
    pub async fn resign(&self) -> Result<(), CommandError> {
        if self.context.leadership.alone {
            return Ok(());
        }
        let number = {
            let mut inner = self.context.leadership.inner();
            let number = inner.leads(&self.context.leadership.id, Instant::now());
            inner.resigned = true;
            number
        };
        self.presence_changed();
        if let Some(number) = number {
            let resigned = Transaction::new().when_revision(LEADER, number);
            self.context.store().commit(resigned.delete(LEADER)).await?;
        }
        Ok(())
    }

    /// Leaves to another process of this machine all that is more than serving the clients that this
    /// one has: it leads no more and changes nothing, but goes on watching, and follows what the
    /// other one records. Also for a router that is alone, whose store then is the other one's.
    pub async fn retire(&self) -> Result<(), CommandError> {
        self.context.leadership.retired.store(true, Relaxed);
        let resigned = self.resign().await;
        self.presence_changed();
        resigned
    }

    /// Takes back what [`Election::retire`] gave away: the other process has ended.
    pub fn resume(&self) {
        self.context.leadership.retired.store(false, Relaxed);
        self.context.leadership.inner().resigned = false;
        self.presence_changed();
    }

    /// The last that the others hear of this router: it is gone at once.
    pub(crate) async fn say_farewell(&self) {
        let lease = self.context.leadership.inner().lease.take();
        if let Some(lease) = lease {
            // Otherwise it runs out.
            let _ = tokio::time::timeout(FAREWELL, lease.revoke()).await;
        }
    }
}
