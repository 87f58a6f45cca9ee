//! The pulse of each group: how far its servers' data reach, and how far replicas are behind.
//!
//! A pulse knows moments and the positions that the primary had at them: [`PositionSample`]s. Some come from
//! heartbeats, rows that this router writes so that the primary's position moves even when nobody
//! else writes; the others from looking at the primary while sessions want to know more. Beside each
//! replica stands a follower that waits, on the server, until the first sample that it lacks is there.
//! So a lag is the time between two events seen by one clock, this router's.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::Link;
use engine::exchange;
use farm::{Freshness, Position, ServerId, Status};
use machines::failover::Event;
use machines::failover::Fault;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use crate::context::Context;
use crate::links::Links;
use crate::pace;
use catalog::record::ServerRecord;

/// Samples that no replica has reached yet are kept up to this number; then the older half is thinned.
const SAMPLES_MAX: usize = 4096;

/// A follower waits so long on its server before it looks again.
const FOLLOW_MS: u64 = 1000;

/// After a failure, and while there is nothing to measure.
const PAUSE: Duration = Duration::from_millis(200);

/// Positions are looked at no more often than this, however small the lags that reads ask for.
const LOOK_EVERY_US_MIN: u64 = 10_000;

/// A write of a heartbeat may wait for a replica's acknowledgement, and those wait for ever.
const HEARTBEAT_TIMEOUT_MS: u64 = engine::replication::ACK_WAIT_FOREVER_MS;

/// What a write says when the disk takes no more: ER_DISK_FULL, ER_RECORD_FILE_FULL,
/// ER_ERROR_ON_WRITE, ER_BINLOG_LOGGING_IMPOSSIBLE.
const DISK_FAILS: [u16; 4] = [1021, 1114, 3, 1598];

/// Everything that was committed before `asked_us` is in `position`, which the primary had at
/// `seen_us` at the latest.
#[derive(Clone, Debug)]
struct PositionSample {
    asked_us: u64,
    seen_us: u64,
    position: Position,
}

/// The samples of one group, the oldest first; each new one wakes the followers.
struct PositionSamples {
    kept: Mutex<VecDeque<Arc<PositionSample>>>,
    newest: watch::Sender<u64>,
}

impl PositionSamples {
    fn new() -> PositionSamples {
        PositionSamples {
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Arc<PositionSample>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, sample: PositionSample) {
        let asked_us = sample.asked_us;
        let mut kept = self.lock();
        if kept.len() >= SAMPLES_MAX {
            let mut at = 0;
            kept.retain(|_| {
                at += 1;
                at > SAMPLES_MAX / 2 || at % 2 == 0
            });
        }
        // The sample of a heartbeat that waited long ends behind looks that began later.
        let at = kept.partition_point(|known| known.asked_us <= asked_us);
        kept.insert(at, Arc::new(sample));
        drop(kept);
        self.newest.send_replace(asked_us);
    }

    /// The first sample after this moment.
    fn after(&self, asked_us: u64) -> Option<Arc<PositionSample>> {
        let kept = self.lock();
        let at = kept.partition_point(|sample| sample.asked_us <= asked_us);
        kept.get(at).cloned()
    }

    /// The last sample that a server with this position has reached.
    fn reached(&self, position: &Position) -> Option<Arc<PositionSample>> {
        let kept = self.lock();
        let have = kept.partition_point(|sample| position.covers(&sample.position));
        have.checked_sub(1).and_then(|at| kept.get(at).cloned())
    }

    /// Forgets what every replica has had for long.
    fn forget_before(&self, asked_us: u64) {
        let mut kept = self.lock();
        let have = kept.partition_point(|sample| sample.asked_us < asked_us);
        kept.drain(..have.saturating_sub(1));
    }
}

/// One server as the pulse meets it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    id: u32,
    at: crate::links::reach::Place,
}

/// The servers of a group that have a pulse.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Members {
    primary: Place,
    writable: bool,
    replicas: Vec<Place>,
}

/// Moves the positions of primaries, and sees how far the replicas follow.
pub(crate) struct Heartbeats {
    context: Arc<Context>,
    links: Arc<Links>,
}

impl Heartbeats {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> Heartbeats {
        Heartbeats {
            context: Arc::clone(context),
            links: Arc::clone(links),
        }
    }
}

impl Heartbeats {
    /// Measures one group for as long as the farm has it.
    pub(crate) async fn feel_pulse(self: Arc<Self>, group: String) {
        let samples = Arc::new(PositionSamples::new());
        let mut tasks = JoinSet::new();
        let mut followers: HashMap<u32, (Place, AbortHandle)> = HashMap::new();
        let mut pulse = Pulse::default();
        loop {
            let Some(members) = self.members(&group) else {
                if !self.context.state().records.groups.contains_key(&group) {
                    return;
                }
                pulse = Pulse::default();
                tasks.abort_all();
                followers.clear();
                pace::next_look(self.context.started, PAUSE).await;
                continue;
            };
            while tasks.try_join_next().is_some() {}
            followers.retain(|_, (place, task)| {
                let stays = members.replicas.contains(place) && !task.is_finished();
                if !stays {
                    task.abort();
                }
                stays
            });
            for place in &members.replicas {
                followers.entry(place.id).or_insert_with(|| {
                    let follow = Arc::clone(&self).follow(place.clone(), Arc::clone(&samples));
                    (place.clone(), tasks.spawn(follow))
                });
            }
            let pause = self.tick(&mut pulse, &members, &samples).await;
            let oldest = self.oldest_complete(&members);
            samples.forget_before(oldest);
            tokio::time::sleep(pause).await;
        }
    }

    fn oldest_complete(&self, members: &Members) -> u64 {
        let state = self.context.state();
        let complete = members.replicas.iter().map(|place| {
            let seen = state.seen.get(&place.id);
            seen.map_or(0, |seen| seen.fresh.complete_us())
        });
        complete.min().unwrap_or(0)
    }

    /// Does what is due now; returns the time until the next look.
    async fn tick(
        self: &Arc<Self>,
        pulse: &mut Pulse,
        members: &Members,
        samples: &Arc<PositionSamples>,
    ) -> Duration {
        if pulse.primary.as_ref() != Some(&members.primary) {
            *pulse = Pulse::default();
            pulse.primary = Some(members.primary.clone());
        }
        let now_us = self.context.now_us();
        let write_us = self.context.settings().observation.heartbeat_interval_ms * 1000;
        let written = pulse.writing.as_ref().is_none_or(JoinHandle::is_finished);
        if !written && now_us >= pulse.next_write_us {
            pulse.next_write_us = now_us + write_us;
            self.look_why_it_hangs(members.primary.id).await;
        }
        if members.writable && written && now_us >= pulse.next_write_us {
            pulse.next_write_us = now_us + write_us;
            let link = match pulse.writing.take() {
                Some(done) => done.await.ok().flatten(),
                None => None,
            };
            let write = Arc::clone(self).write(members.primary.clone(), link, Arc::clone(samples));
            pulse.writing = Some(tokio::spawn(write));
            // A heartbeat is a look, too.
            pulse.next_look_us = now_us + self.look_every_us(now_us).unwrap_or(write_us);
        }
        let Some(every_us) = self.look_every_us(now_us) else {
            return until(now_us, pulse.next_write_us);
        };
        pulse.next_look_us = pulse.next_look_us.min(now_us + every_us);
        if now_us >= pulse.next_look_us {
            pulse.next_look_us = now_us + every_us;
            if self.look(pulse, members, samples).await.is_none() {
                return PAUSE;
            }
        }
        let next_us = pulse.next_look_us.min(pulse.next_write_us);
        until(self.context.now_us(), next_us)
    }

    /// How often somebody wants positions to be looked at; `None` when nobody does.
    fn look_every_us(&self, now_us: u64) -> Option<u64> {
        let position_us = self.context.settings().observation.position_interval_ms * 1000;
        let positions = self
            .context
            .interest
            .wants_positions(now_us)
            .then_some(position_us);
        // A replica's age is known to a look and its way; a quarter leaves room for both.
        let bound = self
            .context
            .interest
            .bound_us(now_us)
            .map(|bound| bound / 4);
        let every_us = positions.into_iter().chain(bound).min()?;
        Some(every_us.max(LOOK_EVERY_US_MIN))
    }

    /// Asks the primary for its position.
    async fn look(
        &self,
        pulse: &mut Pulse,
        members: &Members,
        samples: &PositionSamples,
    ) -> Option<()> {
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let place = &members.primary;
        let link = self.links.link(pulse.link.take(), place.at.clone());
        let mut link = link.await.ok()?;
        let asked_us = self.context.now_us();
        let position = engine::heartbeat::position(&mut link, timeout_ms);
        let position = position.await.ok()?;
        self.sampled(place, asked_us, position, samples);
        pulse.link = Some(link);
        Some(())
    }

    /// Writes one heartbeat and makes a sample of it.
    async fn write(
        self: Arc<Self>,
        place: Place,
        link: Option<Link>,
        samples: Arc<PositionSamples>,
    ) -> Option<Link> {
        let mut link = self.links.link(link, place.at.clone()).await.ok()?;
        let router = self.row_name();
        let asked_us = self.context.now_us();
        match engine::heartbeat::write(&mut link, &router, HEARTBEAT_TIMEOUT_MS).await {
            Ok(position) => {
                self.wrote(place.id);
                self.sampled(&place, asked_us, position, &samples);
                Some(link)
            }
            Err(error) => {
                if error.number().is_some_and(|it| DISK_FAILS.contains(&it)) {
                    self.write_hangs(place.id);
                }
                tracing::debug!(server = link.address(), %error, "no heartbeat");
                None
            }
        }
    }

    /// The name of this router's row. Routers do not wait for each other's locks.
    fn row_name(&self) -> String {
        let farm = self.context.state().records.farm_id.clone();
        match self.context.leadership.role().slot {
            0 => farm,
            slot => format!("{farm}:{slot}"),
        }
    }

    /// The primary has this position, and was asked at this moment.
    fn sampled(&self, place: &Place, asked_us: u64, position: Position, samples: &PositionSamples) {
        self.context
            .freshness(place.id)
            .learn(position.clone(), asked_us);
        self.context
            .trail()
            .note(place.id, self.context.now_us(), &position);
        if !self.context.leadership.is_alone() {
            let executed = Event::Executed {
                server: ServerId(place.id),
                position: position.clone(),
                asked_us,
            };
            self.context.tell_of(place.id, executed);
        }
        samples.push(PositionSample {
            asked_us,
            seen_us: self.context.now_us(),
            position,
        });
    }

    /// Stands beside one replica and says how far it has come.
    async fn follow(self: Arc<Self>, place: Place, samples: Arc<PositionSamples>) {
        let fresh = self.context.freshness(place.id);
        let mut newest = samples.newest.subscribe();
        let mut link = None;
        loop {
            let Some(target) = samples.after(fresh.complete_us()) else {
                if newest.changed().await.is_err() {
                    return;
                }
                continue;
            };
            if self
                .follow_to(&place, &mut link, &fresh, &target, &samples)
                .await
                .is_none()
            {
                link = None;
                fresh.set_lag_us(None);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    async fn follow_to(
        &self,
        place: &Place,
        link: &mut Option<Link>,
        fresh: &Freshness,
        target: &PositionSample,
        samples: &PositionSamples,
    ) -> Option<()> {
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let open = self.links.link(link.take(), place.at.clone());
        let mut open = open.await.ok()?;
        let asked_us = self.context.now_us();
        let reach = engine::heartbeat::reach(&mut open, &target.position, FOLLOW_MS, timeout_ms);
        let position = reach.await.ok()?;
        *link = Some(open);
        let now_us = self.context.now_us();
        // It was asked while it waited; the answer is at least as new as the question.
        fresh.learn(position.clone(), asked_us);
        match samples.reached(&position) {
            Some(last) if last.asked_us >= target.asked_us => {
                fresh.complete(last.asked_us);
                fresh.set_lag_us(Some(now_us.saturating_sub(last.seen_us)));
            }
            _ => {
                let missing_us = now_us.saturating_sub(target.seen_us);
                let known_us = fresh.lag_us().unwrap_or(0);
                fresh.set_lag_us(Some(missing_us.max(known_us)));
            }
        }
        Some(())
    }
}

impl Heartbeats {
    /// The primary and the replicas, where there are both.
    fn members(&self, group: &str) -> Option<Members> {
        let state = self.context.state();
        let place = |id: u32, server: &ServerRecord| Place {
            id,
            at: server.into(),
        };
        let (id, record) = state.records.primary(group)?;
        let health = state.seen.get(&id).map(|seen| &seen.health);
        let replicas = state.records.members(group);
        let replicas = replicas
            .filter(|(_, server)| matches!(server.status, Status::Replica | Status::Spare))
            .map(|(id, server)| place(id, server));
        let members = Members {
            primary: place(id, record),
            writable: health.is_some_and(|health| health.alive && !health.read_only),
            replicas: replicas.collect(),
        };
        (!members.replicas.is_empty()).then_some(members)
    }

    /// The pulse's write ended well.
    pub(crate) fn wrote(&self, id: u32) {
        let server = ServerId(id);
        self.context.tell_of(id, Event::Wrote { server });
    }

    /// The pulse's write did not end, though it should have.
    pub(crate) fn write_hangs(&self, id: u32) {
        let server = ServerId(id);
        let fault = Fault::WriteSilent;
        self.context.tell_of(id, Event::Failed { server, fault });
    }

    /// The pulse's write has not ended yet. One that waits for an acknowledgement or for somebody's
    /// lock says nothing against its server.
    pub(crate) async fn look_why_it_hangs(&self, id: u32) {
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let Ok(mut link) = self.links.lend(id).await else {
            return;
        };
        let outcome = exchange::waits_for_others(&mut link, timeout_ms).await;
        if matches!(link.keep(outcome), Ok(false)) {
            self.write_hangs(id);
        }
    }
}

/// The longest sleep: an interest that begins is noticed so soon.
const LISTEN_US: u64 = 20_000;

/// How long to sleep until something is due, or somebody may have become interested.
fn until(now_us: u64, due_us: u64) -> Duration {
    let listen_us = pace::next_us(now_us, LISTEN_US);
    Duration::from_micros(due_us.min(listen_us).saturating_sub(now_us).max(1000))
}

/// What a pulse keeps between two looks.
#[derive(Default)]
struct Pulse {
    primary: Option<Place>,
    link: Option<Link>,
    /// A heartbeat under way; it gives its link back. A new one waits for it, so that a primary
    /// whose commits wait for replicas does not collect them.
    writing: Option<JoinHandle<Option<Link>>>,
    next_write_us: u64,
    next_look_us: u64,
}

impl Drop for Pulse {
    fn drop(&mut self) {
        if let Some(writing) = &self.writing {
            writing.abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    fn at(sequence: u64) -> Position {
        Position::parse(Engine::MariaDb, &format!("0-1-{sequence}")).expect("a position")
    }

    fn sample(moment_us: u64, sequence: u64) -> PositionSample {
        PositionSample {
            asked_us: moment_us,
            seen_us: moment_us + 1,
            position: at(sequence),
        }
    }

    #[test]
    fn samples_say_what_a_position_has_and_what_it_lacks() {
        let samples = PositionSamples::new();
        for (moment_us, sequence) in [(10, 1), (20, 1), (30, 4), (50, 6)] {
            samples.push(sample(moment_us, sequence));
        }
        // A heartbeat that waited is put where it began.
        samples.push(sample(40, 5));
        let reached = |sequence| samples.reached(&at(sequence)).map(|sample| sample.asked_us);
        assert_eq!(reached(0), None);
        assert_eq!(reached(1), Some(20));
        assert_eq!(reached(5), Some(40));
        assert_eq!(reached(9), Some(50));
        let after = |moment_us| samples.after(moment_us).map(|sample| sample.asked_us);
        assert_eq!((after(0), after(20), after(50)), (Some(10), Some(30), None));
        samples.forget_before(30);
        assert_eq!(after(0), Some(20), "one that is reached stays");
    }

    #[test]
    fn samples_are_thinned_and_never_too_many() {
        let samples = PositionSamples::new();
        (1..20_000).for_each(|n| samples.push(sample(n, n)));
        assert!(samples.lock().len() <= SAMPLES_MAX);
        assert_eq!(
            samples.reached(&at(19_999)).map(|b| b.asked_us),
            Some(19_999)
        );
        assert!(
            samples
                .after(0)
                .is_some_and(|first| first.asked_us < 19_000)
        );
    }
}
