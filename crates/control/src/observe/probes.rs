//! Watching servers: a probe loop per server.

use super::Probes;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::exchange;
use engine::{Error, Link, Observation, probe};
use farm::{GroupKind, Status};
use faults::Chore;

use crate::context::seen::{Seen, Turn};
use crate::observe::fault::is_silence;
use crate::observe::stance::{Stance, stance};
use catalog::event::Event;
use catalog::record::ServerRecord;

/// After a failure the next probe comes sooner, on a new connection: two must fail before a server
/// counts as dead, and nobody should wait a whole interval for the second.
const RETRY_DIVISOR: u64 = 5;

impl Probes {
    /// Probes one server for as long as the farm has it.
    pub(crate) async fn watch_server(self: Arc<Self>, id: u32) {
        let mut link: Option<Link> = None;
        let mut relaxed = false;
        loop {
            let Some(record) = self
                .context
                .state()
                .records
                .servers
                .get(&id)
                .map(|kept| kept.value.clone())
            else {
                return;
            };
            // A link to where the server was is of no use.
            if link
                .as_ref()
                .is_some_and(|link| link.address() != record.address())
            {
                link = None;
            }
            let asked = self.context.state().seen.entry(id).or_default().news;
            let result = self.probe_once(id, &mut link, &record).await;
            let failed = result.is_err();
            match result {
                Ok(observation) => {
                    let answer = observation.clone();
                    self.take_over(id, |seen| seen.probed(asked, answer));
                    self.adopt(id, &observation).await;
                    self.own_account
                        .look_at_privileges(id, &record, &mut link)
                        .await;
                    let follows = observation.replica.is_some() && record.status != Status::Primary;
                    relaxed = follows && (relaxed || self.relax(id, &mut link).await);
                }
                Err(error) => {
                    // It may have been started anew since.
                    relaxed = false;
                    self.failed(id, &error);
                }
            }
            let interval_ms = self.context.settings().observation.probe_interval_ms;
            let pause_ms = if failed {
                interval_ms / RETRY_DIVISOR
            } else {
                interval_ms
            };
            let wake = Arc::clone(&self.context.state().seen.entry(id).or_default().wake);
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(pause_ms.max(1))) => {}
                () = wake.notified() => {}
            }
        }
    }

    /// Lets a replica flush less often, where the farm allows that: when it joined, and when it was
    /// started anew. True when nothing is left to do.
    async fn relax(&self, id: u32, link: &mut Option<Link>) -> bool {
        let Some(open) = link
            .as_mut()
            .filter(|_| self.context.settings().failover.relaxed_replicas)
        else {
            return true;
        };
        let may = || self.context.leadership.lead().is_some() && self.context.stays_a_replica(id);
        if !may() {
            return false;
        }
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let mut done = exchange::relax(open, timeout_ms).await;
        let stays = may();
        if done.is_ok() && !stays {
            // It is being made the primary, which was told to be strict perhaps just before.
            done = exchange::be_strict(open, timeout_ms).await;
        }
        if done.is_err() {
            *link = None;
        }
        done.is_ok() && stays
    }

    /// A Galera node that takes no statements counts as one that does not answer.
    async fn probe_once(
        &self,
        id: u32,
        link: &mut Option<Link>,
        record: &ServerRecord,
    ) -> Result<Observation, Error> {
        self.context.tally.probes.fetch_add(1, Relaxed);
        Chore::Probe.pass();
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        let galera = self.context.state().records.kind(&record.group) == GroupKind::Galera;
        let acks = record.status == Status::Primary && !galera;
        let mut open = self.links.link(link.take(), record).await?;
        let observation = probe(&mut open, acks, timeout_ms).await?;
        if let Some(reason) = self.stranger(id, record, &observation) {
            let server = open.address().to_owned();
            return Err(Error::Stranger { server, reason });
        }
        if galera {
            let node = engine::galera::node(&mut open, timeout_ms).await?;
            let none = || Some("it is no Galera node any more".to_owned());
            if let Some(reason) = node.map_or_else(none, |node| node.trouble()) {
                return Err(Error::Replication {
                    server: open.address().to_owned(),
                    reason,
                    cure: "see its error log; a cluster without a majority is bootstrapped by hand"
                        .to_owned(),
                    error: None,
                });
            }
        }
        self.pin(id, record, &open).await;
        // Only a link that answered is kept.
        *link = Some(open);
        Ok(observation)
    }

    /// Takes over what a server answered to a command.
    pub(crate) fn answered(&self, id: u32, observation: Observation) {
        self.take_over(id, |seen| seen.answered(observation));
    }

    fn take_over(&self, id: u32, answer: impl FnOnce(&mut Seen) -> Option<Turn>) {
        let turn = answer(self.context.state().seen.entry(id).or_default());
        self.turned(id, turn, "");
        self.heal_what_follows(id);
        self.context.publish_server(id);
    }

    fn failed(&self, id: u32, error: &Error) {
        self.context.tally.probes_failed.fetch_add(1, Relaxed);
        let server = recorder::Server(id);
        recorder::note(0, recorder::Step::ProbeFailed { server });
        let failures_max = self.context.settings().observation.probe_failures;
        let (turn, often) = {
            let mut state = self.context.state();
            let seen = state.seen.entry(id).or_default();
            let turn = seen.failed(error, failures_max);
            (turn, seen.just_failed_often(failures_max))
        };
        if often && is_silence(error) && self.context.stays_a_replica(id) {
            self.context.end_connections(id);
        }
        if matches!(error, Error::Certificate { .. }) && turn == Some(Turn::Died) {
            self.tell_of_stranger(id, error);
        }
        self.turned(id, turn, &error.to_string());
        self.context.publish_server(id);
    }

    /// The detector is sure that a server does not answer.
    pub(crate) fn condemned(&self, id: u32, reason: &str) {
        let seen = || {
            Some(
                self.context
                    .state()
                    .seen
                    .get_mut(&id)?
                    .died(reason.to_owned()),
            )
        };
        let Some(turn) = seen() else { return };
        self.turned(id, turn, reason);
        self.context.publish_server(id);
    }

    fn turned(&self, id: u32, turn: Option<Turn>, error: &str) {
        let Some(turn) = turn else { return };
        let record = self
            .context
            .state()
            .records
            .servers
            .get(&id)
            .map(|kept| kept.value.clone());
        let Some(record) = record else { return };
        let address = record.address();
        let role = record.status.fabric_name();
        let (kind, detail) = match turn {
            Turn::Died => (
                "server_died",
                format!("{role} {address} does not answer: {error}"),
            ),
            Turn::CameAlive => ("server_alive", format!("{role} {address} answers again")),
            Turn::AcksLost => (
                "acks_lost",
                format!(
                    "{address} acknowledges commits without a replica: they would be lost with it; \
                     bring a replica of group {} back",
                    record.group
                ),
            ),
            Turn::AcksBack => (
                "acks_back",
                format!("commits on {address} wait for a replica again"),
            ),
        };
        if matches!(turn, Turn::Died | Turn::AcksLost) {
            tracing::warn!(server = %address, group = %record.group, "{detail}");
        }
        self.context
            .happened(Event::now(kind, &record.group, detail).of(&record.uuid, address));
    }

    /// One of several routers cut a server off when the leader said so; who brings it back is the
    /// leader. Once it follows the primary again it serves; one that must be filled anew is shown as it
    /// is, and takes no part by its status.
    pub(crate) fn heal_what_follows(&self, id: u32) {
        if !self.context.leadership.follows() || !self.context.state().standing.is_cut(id) {
            return;
        }
        let follows = {
            let state = self.context.state();
            let (Some(kept), Some(seen)) = (state.records.servers.get(&id), state.seen.get(&id))
            else {
                return;
            };
            let member = &kept.value;
            let counts = matches!(member.status, Status::Replica | Status::Spare);
            let primary = state.records.primary(&member.group);
            let observation = seen.observation.as_ref();
            let set_aside = member.status == Status::Faulty && seen.health.alive;
            !state.standing.is_changing(&member.group)
                && primary.is_some_and(|(_, primary)| {
                    let follows = |it| counts && stance(it, primary, false) == Stance::Follows;
                    set_aside || observation.is_some_and(follows)
                })
        };
        if follows {
            self.context.heal(id);
        }
    }
}
