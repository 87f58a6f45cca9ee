//! The servers of a group as a stream reads them: which one leads, and whether it still does.

use std::sync::Arc;
use std::time::Duration;

use changes::{Gtid, Place, Token};
use engine::{Link, Login};
use farm::{Acks, ServerId, Snapshot, Status, TokenError};

use super::gap::Gap;
use crate::context::Context;
use crate::links::Links;

/// How often it is looked whether there is a primary.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Clone)]
pub(crate) struct Source {
    context: Arc<Context>,
    links: Arc<Links>,
    pub(super) group: String,
}

/// The server that takes the group's writes.
#[derive(Clone)]
pub(crate) struct Primary {
    pub(super) id: ServerId,
    pub(super) login: Login,
    pub(super) timeline: u32,
}

impl Source {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>, group: &str) -> Source {
        Source {
            context: Arc::clone(context),
            links: Arc::clone(links),
            group: group.to_owned(),
        }
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        self.context.settings().step_timeout_ms
    }

    /// Waits for a primary that is not being exchanged; `None` when the farm does not have the group.
    pub(crate) async fn primary(&self) -> Option<Primary> {
        loop {
            let snapshot = self.context.snapshot_now();
            let group = snapshot.group(&self.group)?;
            if let Some(primary) = group.primary().filter(|_| !group.paused) {
                return Some(Primary {
                    id: primary.id,
                    login: self.links.login(&**primary),
                    timeline: group.timeline(),
                });
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The other servers of the group, and whether they follow the primary.
    pub(super) fn others(&self, primary: &Primary) -> Vec<(ServerId, bool, Login)> {
        let snapshot = self.context.snapshot_now();
        let servers = snapshot.group(&self.group).map(|group| &group.servers);
        let others = servers.into_iter().flatten();
        let others = others.filter(|it| it.id != primary.id);
        let follows = |status| matches!(status, Status::Replica | Status::Spare);
        others
            .map(|it| (it.id, follows(it.status), self.links.login(&**it)))
            .collect()
    }

    /// True while this server is the primary, and nobody is exchanging it. Asked after the server was asked: what
    /// a server says while clients are being cut off from it, it says of commits that nobody was told of.
    pub(super) fn is_led_by(&self, primary: &Primary) -> bool {
        let snapshot = self.context.snapshot_now();
        snapshot.group(&self.group).is_some_and(|group| {
            let leads = group.primary().is_some_and(|it| it.id == primary.id);
            leads && !group.paused && group.timeline() == primary.timeline
        })
    }

    /// True when a transaction that the primary shows is as safe as an acknowledged commit: where servers do not
    /// see to that, a replica is known to have it.
    pub(super) fn is_acknowledged(&self, gtid: &Gtid) -> bool {
        let snapshot = self.context.snapshot_now();
        let Some(group) = snapshot.group(&self.group) else {
            return false;
        };
        let mut replicas = group
            .servers
            .iter()
            .filter(|it| it.status != Status::Primary);
        match group.acks {
            Acks::Servers => true,
            Acks::Router { .. } => replicas.any(|replica| {
                let known = replica.fresh.known();
                known.is_some_and(|known| gtid.is_in(&known.position))
            }),
        }
    }

    /// Whether the group still has everything that was told.
    ///
    /// # Errors
    /// It was lost with a timeline; the text says so.
    pub(super) fn check(&self, farm: &str, place: &Place) -> Result<(), TokenError> {
        let token = Token {
            farm: farm.to_owned(),
            places: vec![place.clone()],
        };
        Token::parse(&token.to_string(), &self.context.snapshot_now()).map(drop)
    }

    /// What the group has lost of what was told: behind where its timeline ended, up to what was told. `None` for nothing.
    pub(super) fn lost(&self, place: &Place) -> Option<Gap> {
        let snapshot = self.context.snapshot_now();
        let group = snapshot.group(&self.group)?;
        let to = place.reached.with_open();
        let later = group.forks.get(place.timeline.checked_sub(1)? as usize..)?;
        let fork = later.iter().find(|fork| !fork.covers(&to))?;
        Some(Gap {
            from: fork.clone(),
            to,
        })
    }

    /// Has all servers of the group log what columns are called. One that cannot be reached is told later.
    pub(super) async fn tell_servers(&self) {
        let snapshot = self.context.snapshot_now();
        let Some(group) = snapshot.group(&self.group) else {
            return;
        };
        for server in &group.servers {
            let login = self.links.login(&**server);
            if let Ok(mut link) = Link::open(&login, self.timeout_ms()).await {
                // The primary's own refusal ends a stream; a replica's shows when it leads.
                let _ = engine::keep_columns(&mut link, self.timeout_ms()).await;
            }
        }
    }

    pub(super) fn farm(&self) -> String {
        self.context.snapshot_now().farm_id.to_string()
    }

    /// The farm as it is now.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.context.snapshot_now()
    }

    /// The servers of another group.
    pub(super) fn of(&self, group: &str) -> Source {
        Source::new(&self.context, &self.links, group)
    }
}
