//! Bringing servers back into their group after a change of primary, when they answer again.

use std::sync::Arc;
use std::time::Duration;

use engine::Link;
use farm::{ServerId, Status};

use super::Driver;
use crate::failover::FailoverDrivers;
use crate::leadership::lead::Lead;
use crate::provision::rejoin::Rejoined;
use catalog::command::CommandError;
use catalog::event::Event;
use catalog::record::ServerRecord;

/// Between two tries.
const AGAIN: Duration = Duration::from_millis(250);

impl Driver {
    /// Brings a server back when it answers; one that is being brought back is left to that.
    pub(super) fn rejoin(&mut self, server: ServerId) {
        self.rejoining.retain(|_, task| !task.is_finished());
        let failover = Arc::clone(&self.failover);
        let group = self.group.clone();
        let begin = || self.rejoins.spawn(failover.bring_back(group, server.0));
        self.rejoining.entry(server.0).or_insert_with(begin);
    }
}

impl FailoverDrivers {
    /// Tries until the server follows the primary, has become the primary itself, or left the group.
    async fn bring_back(self: Arc<Self>, group: String, id: u32) {
        let mut told = String::new();
        loop {
            // Until the change is over nobody knows whom to follow.
            while self.context.state().standing.is_changing(&group) {
                tokio::time::sleep(AGAIN).await;
            }
            let (record, alive) = {
                let state = self.context.state();
                let kept = state.records.servers.get(&id);
                let alive = state.seen.get(&id).is_some_and(|seen| seen.health.alive);
                (kept.map(|kept| kept.value.clone()), alive)
            };
            let Some(lead) = self.context.leadership.lead() else {
                // Another router leads, and brings it back.
                return;
            };
            let Some(record) = record.filter(|record| record.group == group) else {
                return;
            };
            if record.status == Status::Primary {
                return self.context.heal(id);
            }
            if alive {
                match self.try_to_bring_back(&lead, id, &record).await {
                    Ok(Rejoined::Follows | Rejoined::LeftAlone(_)) => return self.context.heal(id),
                    // An operator has it filled; that ends with a server that follows.
                    Ok(Rejoined::NeedsClone(_)) => return self.context.heal(id),
                    Ok(Rejoined::BeingFilled(_) | Rejoined::Later) => {}
                    Err(error) => {
                        let error = error.to_string();
                        if error != told {
                            let event = Event::now("rejoin_failed", &group, error.clone());
                            self.context
                                .happened(event.of(&record.uuid, record.address()));
                            told = error;
                        }
                    }
                }
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn try_to_bring_back(
        &self,
        lead: &Lead,
        id: u32,
        record: &ServerRecord,
    ) -> Result<Rejoined, CommandError> {
        let fencing = self.fence_who_came_back(lead, id, record);
        match self.links.turns.unless_wanted(id, fencing).await {
            Some(fenced) => fenced?,
            None => return Ok(Rejoined::Later),
        }
        self.rejoin.rejoin_server(lead, id).await
    }

    /// One that takes writes led when it was lost, and nobody told it since.
    async fn fence_who_came_back(
        &self,
        lead: &Lead,
        id: u32,
        record: &ServerRecord,
    ) -> Result<(), CommandError> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link: Link = self.links.reach(lead, record).await?;
        let seen = engine::probe(&mut link, false, timeout_ms).await?;
        if seen.read_only || !self.context.stays_a_replica(id) {
            return Ok(());
        }
        let killed = self.stop_writes(lead, record).await?;
        let detail = format!(
            "{} came back taking writes, though another server leads the group: it was made \
             read-only and {killed} clients of it were ended",
            record.address(),
        );
        let event = Event::now("server_fenced", &record.group, detail);
        self.context
            .happened(event.of(&record.uuid, record.address()));
        Ok(())
    }
}
