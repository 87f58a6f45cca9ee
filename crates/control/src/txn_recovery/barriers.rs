//! Holds up the commits of transactions over several groups while sessions open their views of all
//! groups.
//!
//! One task takes the commit barriers of all groups ([`engine::barriers`]), for everybody who waits for them at that
//! moment; who comes later gets the next turn. Held they are for as long as the slowest of those
//! opens its views, and at most [`HELD_MAX`]; the commits of a single group are never held up.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use engine::barriers::{self, Barrier, Settled, Taking};
use farm::dist_txn::farm_number;
use farm::{Group, GroupKind, ServerId};
use faults::{Plant, Point};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::DistTxns;
use crate::links::warm::Lent;
use crate::txn_recovery::TxnRecovery;
use catalog::event::Event;

/// Sessions that may wait for the commit barriers at once.
pub(super) const WAITING_MAX: usize = 4096;

/// So long the commit barriers are held for sessions that open their views, at most.
const HELD_MAX: Duration = Duration::from_millis(1000);

/// So long they are held for branches to end that were decided before.
const SETTLED_MAX: Duration = Duration::from_millis(500);

/// Who waits so long for a commit barrier looks who keeps it: a commit passes it in milliseconds.
const WAITED: Duration = Duration::from_millis(400);

/// Pause before they are taken again.
const AGAIN: Duration = Duration::from_millis(20);

/// Takes whether the commit barriers were held all the time, or why nobody can say so; on the control thread,
/// must not block.
pub type Verified = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Lets the commit barriers go. Dropped, it does so too.
pub type LetGo = Box<dyn FnOnce(Verified) + Send>;

/// Takes the commit barriers, or the reason why there are none; as above.
pub type Held = Box<dyn FnOnce(Result<LetGo, String>) + Send>;

/// Somebody who waits for the commit barriers.
pub(crate) struct Waiting {
    until: Instant,
    reply: Held,
}

/// A group's primary and its leadership.
type Primary = (Arc<Group>, ServerId, u32);

impl DistTxns {
    /// Holds up what commits over several groups from the moment of `reply` until it is let go, which
    /// it is after a second in any case. Waits for at most so long.
    pub fn hold(&self, limit_ms: u64, reply: Held) {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        if let Err(refused) = self.holds.try_send(Waiting { until, reply }) {
            let (mpsc::error::TrySendError::Full(waiting)
            | mpsc::error::TrySendError::Closed(waiting)) = refused;
            (waiting.reply)(Err("the control plane does not answer".to_owned()));
        }
    }
}

impl TxnRecovery {
    /// Serves those who want the commit barriers, for as long as the control plane runs.
    pub(crate) async fn keep_barriers(self: Arc<Self>) {
        let mut queue = self.dist_txns.waiting.lock().await;
        while let Some(first) = queue.recv().await {
            let mut all = vec![first];
            while !all.is_empty() {
                let Err(why) = self.hold_for(&mut all, &mut queue).await else {
                    continue;
                };
                tracing::debug!(why, "the commit barriers were not held");
                let now = Instant::now();
                let (late, rest) = all.drain(..).partition(|one| one.until <= now);
                all = rest;
                let late: Vec<Waiting> = late;
                for one in late {
                    (one.reply)(Err(why.clone()));
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }

    /// Holds the commit barriers once for all who wait. When that fails they wait still.
    async fn hold_for(
        self: &Arc<Self>,
        all: &mut Vec<Waiting>,
        queue: &mut mpsc::Receiver<Waiting>,
    ) -> Result<(), String> {
        let primaries = self.deciding()?;
        let mut held = Vec::with_capacity(primaries.len());
        let ready = match self.take_barriers(&primaries, &mut held).await {
            Ok(()) => self.settle_decided(&mut held).await,
            Err(why) => Err(why),
        };
        let settled = match ready {
            Ok(settled) => settled,
            Err(why) => {
                self.let_barriers_go(held).await;
                return Err(why);
            }
        };
        Point::Held.pass();
        while let Ok(one) = queue.try_recv() {
            all.push(one);
        }
        let mut open = Vec::with_capacity(all.len());
        for one in all.drain(..) {
            let (tell, told) = oneshot::channel();
            let let_go: LetGo = Box::new(move |verified| {
                // Too late: whoever hears nothing opens its views again.
                let _ = tell.send(verified);
            });
            (one.reply)(Ok(let_go));
            open.push(told);
        }
        let mut told: Vec<Verified> = Vec::with_capacity(open.len());
        let hear = async {
            for one in &mut open {
                told.extend(one.await.ok());
            }
        };
        let _ = tokio::time::timeout(HELD_MAX, hear).await;
        drop(open);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let stays = barriers::stays(&mut held, &settled, timeout_ms).await == Ok(true);
        let whole = self.let_barriers_go(held).await && stays;
        let same = self.deciding().is_ok_and(|now| {
            let place = |it: &Primary| (it.0.number, it.1, it.2);
            now.iter().map(place).eq(primaries.iter().map(place))
        });
        let verdict = match (whole, same) {
            (true, true) => Ok(()),
            (false, _) if stays => Err("a server let its commit barrier go".to_owned()),
            (false, _) => Err("a transaction was decided meanwhile".to_owned()),
            (true, false) => Err("a group has another primary".to_owned()),
        };
        for verified in told {
            verified(verdict.clone());
        }
        Ok(())
    }

    /// The primaries of all groups that transactions over several groups can have, by their numbers.
    fn deciding(&self) -> Result<Vec<Primary>, String> {
        let snapshot = self.context.snapshot_now();
        let names = match (&snapshot.sharding, snapshot.home()) {
            (Some(sharding), Some(home)) => sharding.groups(&home.name),
            _ => Vec::new(),
        };
        let mut primaries = Vec::with_capacity(names.len());
        for name in names {
            let found = self.writable(|group| group.name == name);
            let (group, server) = found.ok_or_else(|| format!("group {name} takes no writes"))?;
            let term = group.server(server).map_or(0, |it| it.term);
            primaries.push((group, server, term));
        }
        primaries.sort_by_key(|(group, ..)| group.number);
        Ok(primaries)
    }

    /// Takes one after the other, in their order. What was taken is in `held`, whatever comes of it.
    async fn take_barriers(
        &self,
        primaries: &[Primary],
        held: &mut Vec<Barrier<Lent>>,
    ) -> Result<(), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        if Plant::OpensWithoutHold.is_made() {
            return Ok(());
        }
        for (group, server, _) in primaries {
            let why = |what: String| format!("group {}: {what}", group.name);
            let lent = self
                .links
                .lend_from(&self.dist_txns.barriers, server.0)
                .await;
            let mut link = lent.map_err(|error| why(error.to_string()))?;
            let waiting = link.id();
            let taken = tokio::select! {
                taken = barriers::take(&mut link, timeout_ms) => taken,
                never = self.dismiss_holders(group, *server, waiting) => match never {},
            };
            match taken {
                Ok(Taking::Held) => held.push(Barrier {
                    group: group.number,
                    link,
                    lists: group.kind == GroupKind::Replication,
                }),
                Ok(Taking::Busy) => {
                    return Err(why("a commit does not come to an end".to_owned()));
                }
                Err(error) => return Err(why(error.to_string())),
            }
        }
        Ok(())
    }

    /// Ends connections of clients that keep a commit barrier for which a link waits; for as long as it is polled.
    async fn dismiss_holders(&self, group: &Group, server: ServerId, waiting: u64) -> Infallible {
        let timeout_ms = self.context.settings().step_timeout_ms;
        loop {
            tokio::time::sleep(WAITED).await;
            let Ok(mut link) = self.lend(server).await else {
                continue;
            };
            let ended = barriers::dismiss_holders(&mut link, waiting, timeout_ms).await;
            for id in link.keep(ended).unwrap_or_default() {
                let detail = format!(
                    "connection {id} kept the commit barrier of group {} outside a commit, and was ended",
                    group.name
                );
                self.context
                    .happened(Event::now("gate_freed", &group.name, detail));
            }
        }
    }

    /// What was decided before is to be seen on all groups.
    async fn settle_decided(&self, held: &mut [Barrier<Lent>]) -> Result<Settled, String> {
        let farm = farm_number(&self.context.snapshot_now().farm_id);
        let timeout_ms = self.context.settings().step_timeout_ms;
        match barriers::settle(held, farm, SETTLED_MAX, timeout_ms).await {
            Ok(settled) => match settled.open.first() {
                None => Ok(settled),
                Some(id) => Err(format!("transaction {id} has not ended on all its groups")),
            },
            Err(error) => Err(error.to_string()),
        }
    }

    /// True when all were held until now.
    async fn let_barriers_go(self: &Arc<Self>, held: Vec<Barrier<Lent>>) -> bool {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut going = JoinSet::new();
        for mut barrier in held {
            going.spawn(async move {
                let gone = barriers::let_go(&mut barrier.link, timeout_ms).await;
                barrier.link.keep(gone).is_ok()
            });
        }
        let mut all = true;
        while let Some(gone) = going.join_next().await {
            all &= gone.unwrap_or(false);
        }
        all
    }
}
