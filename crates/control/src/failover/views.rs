//! What replicas see of their primary, asked while there is doubt about it: each look costs a
//! statement on each replica.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use engine::{Thread, replication};
use farm::{ServerId, Status};
use machines::failover::{Event, Fault};
use tokio::task::AbortHandle;

use super::Driver;
use crate::context::drivers::Told;
use crate::failover::FailoverDrivers;

/// Replicas are asked so often, for so long, after a doubt.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
const LOOKS: u32 = 10;

/// The looks that are under way.
#[derive(Debug, Default)]
pub(super) struct Views(Option<AbortHandle>);

impl Driver {
    /// Asks the replicas when the primary is silent or its writes hang.
    pub(super) fn watch_replicas(&mut self, event: &Event) {
        let Event::Failed { server, fault } = event else {
            return;
        };
        // Among several routers the replicas' word is wanted for whatever the leader sees.
        let leads_others = self.others.leads().is_some();
        let doubtful = matches!(fault, Fault::Silent | Fault::WriteSilent) || leads_others;
        if doubtful {
            self.begin_look(*server, *fault == Fault::WriteSilent);
        }
    }

    /// Asks the replicas of a primary that another router holds for lost.
    pub(super) fn look_at_replicas_of(&mut self, server: ServerId) {
        if self.others.leads().is_some() {
            self.begin_look(server, false);
        }
    }

    fn begin_look(&mut self, server: ServerId, hangs: bool) {
        let under_way = self.views.0.as_ref().is_some_and(|it| !it.is_finished());
        if under_way || self.machine.primary() != Some(server) {
            return;
        }
        let failover = Arc::clone(&self.failover);
        let look = failover.look_at_replicas(self.group.clone(), hangs);
        self.views.0 = Some(self.rejoins.spawn(look));
    }
}

impl FailoverDrivers {
    /// Tells the driver of each replica that received something meanwhile. Where writes hang, a
    /// replica that is connected counts: it could acknowledge them.
    async fn look_at_replicas(self: Arc<Self>, group: String, hangs: bool) {
        let mut before: BTreeMap<u32, String> = BTreeMap::new();
        let timeout_ms = self.context.settings().observation.probe_timeout_ms;
        for _ in 0..LOOKS {
            let replicas: Vec<u32> = {
                let state = self.context.state();
                let replicas = state.records.members(&group);
                let follow = |status| matches!(status, Status::Replica | Status::Spare);
                let replicas = replicas.filter(|(_, record)| follow(record.status));
                replicas.map(|(id, _)| id).collect()
            };
            for id in replicas {
                let Ok(mut link) = self.links.lend(id).await else {
                    continue;
                };
                let outcome = replication::status(&mut link, timeout_ms).await;
                let Ok(Some(now)) = link.keep(outcome) else {
                    continue;
                };
                if now.io != Thread::Running && !self.context.leadership.is_alone() {
                    let replica = ServerId(id);
                    self.context
                        .drivers
                        .tell(&group, Told::Event(Event::Disconnected { replica }));
                    continue;
                }
                let last = before.insert(id, now.received.clone());
                let receives = last.is_some_and(|last| last != now.received);
                if receives || (hangs && now.io == Thread::Running) {
                    let view = Event::View {
                        replica: ServerId(id),
                        heard_us: self.context.now_us(),
                    };
                    self.context.drivers.tell(&group, Told::Event(view));
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}
