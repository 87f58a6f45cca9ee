//! What sessions ask of the control plane about their own transactions over several groups.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use engine::decisions;
use enginesql::seal::{Key, Sealed};
use farm::dist_txn::{Branch, GlobalId, Place, RouterLife, Verdict, farm_number};
use faults::Point;
use machines::xa::recovery::Event;
use tokio::time::Instant;

use super::{DistTxns, Order, OwnAsked, Task, lock, now_ms};
use crate::txn_recovery::TxnRecovery;

/// Pause between two looks at a coordinator group that does not say.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// A question of a session, with the place for its answer.
pub(crate) enum Asked {
    /// What became of a decision whose answer was lost, within so many milliseconds.
    Settle(GlobalId, u64, Settled),
    /// The account, by user and host, may decide at the group of this number.
    LetDecide(u32, [String; 2], Allowed),
    /// About XA transactions of clients' own.
    Own(OwnAsked),
}

/// Takes a verdict, `None` when nobody can say, on the control thread; must not block.
pub type Settled = Box<dyn FnOnce(Option<Verdict>) + Send>;

/// Takes what came of it, as above.
pub type Allowed = Box<dyn FnOnce(Result<(), String>) + Send>;

impl Asked {
    pub(crate) fn refuse(self, why: &str) {
        match self {
            Asked::Settle(_, _, reply) => reply(None),
            Asked::LetDecide(_, _, reply) => reply(Err(why.to_owned())),
            Asked::Own(asked) => asked.refuse(why),
        }
    }
}

/// For sessions, from any thread: recovery stays away from a transaction between
/// [`DistTxns::undertake`] and [`DistTxns::leave`].
impl DistTxns {
    /// This life of this router, for its ids.
    pub fn life(&self) -> RouterLife {
        RouterLife {
            slot: self.slot.load(Relaxed),
            started_ms: self.started_ms,
        }
    }

    /// The router has this slot from now on.
    pub(crate) fn place(&self, slot: u8) {
        self.slot.store(slot.into(), Relaxed);
    }

    /// The id of a transaction that crosses to a second group now. `at` is the connection whose
    /// COMMIT will decide.
    pub fn name(&self, farm: u64, coordinator: u32, at: Place) -> GlobalId {
        let id = GlobalId {
            farm,
            coordinator,
            at_ms: now_ms(),
            router: self.life(),
            sequence: self.named.fetch_add(1, Relaxed),
            at,
        };
        id.of_heddle()
    }

    /// The farm's key, from its secret. A second one changes nothing.
    pub(crate) fn keep_key(&self, secret: &str, farm_id: &str) {
        let _ = self.key.set(Key::new(secret, farm_id));
    }

    /// The farm's key; before the farm was read, one that no server believes.
    pub(super) fn key(&self) -> &Key {
        self.key.get_or_init(|| Key::new("", ""))
    }

    /// The same id as the deciding server believes it.
    pub fn seal(&self, id: GlobalId) -> Sealed {
        self.key().seal(id)
    }

    /// A session is about to prepare the branches of this transaction.
    pub fn undertake(&self, id: GlobalId) {
        lock(&self.undertaken).insert(id);
    }

    /// The session has done what it could about the transaction, and leaves these branches behind, by
    /// the names of their groups.
    pub fn leave(&self, id: GlobalId, verdict: Option<Verdict>, branches: Vec<(String, Branch)>) {
        lock(&self.undertaken).remove(&id);
        if !branches.is_empty() {
            for (group, branch) in &branches {
                self.show(group, *branch);
            }
            self.order(Order {
                id,
                verdict,
                by_force: false,
                branches,
            });
        }
    }

    /// True while a branch of the group may be waiting for its end, so that reads which must see it
    /// have to wait.
    pub fn is_in_doubt(&self, id: &GlobalId, group: &str) -> bool {
        let shown = self.shown();
        let branches = shown.get(id).map(|shown| &shown.branches);
        branches.is_some_and(|branches| branches.values().any(|name| name == group))
    }
}

impl TxnRecovery {
    pub(crate) async fn answer_session(self: &Arc<Self>, asked: Asked) {
        match asked {
            Asked::Settle(id, limit_ms, reply) => reply(self.settle(&id, limit_ms).await),
            Asked::LetDecide(group, [user, host], reply) => {
                reply(self.let_decide(group, &user, &host).await);
            }
            Asked::Own(asked) => self.answer_own(asked).await,
        }
    }

    /// What became of a decision. Bars it unless it has been made: nothing of the lost connection can
    /// make it afterwards.
    async fn settle(&self, id: &GlobalId, limit_ms: u64) -> Option<Verdict> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        let mut task = Task::Bar;
        Point::Settle.pass();
        loop {
            task = match self.at_coordinator(id, task).await {
                Ok(Event::Barred) => return Some(Verdict::Abort),
                Ok(Event::Row(Some(verdict))) => return Some(verdict),
                Ok(Event::Taken) => Task::Look,
                // The row was removed meanwhile, or nobody can say yet.
                Ok(_) | Err(_) => Task::Bar,
            };
            if Instant::now() >= until {
                return None;
            }
            if matches!(task, Task::Bar) {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        }
    }

    async fn let_decide(&self, group: u32, user: &str, host: &str) -> Result<(), String> {
        let text = |error: engine::Error| error.to_string();
        let (group, server) = self
            .writable(|it| it.number == group)
            .ok_or_else(|| format!("{} takes no writes", self.group_of_number(group)))?;
        let links = &self.dist_txns.links[0];
        let mut link = self.links.lend_from(links, server.0).await.map_err(text)?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let answer = async {
            let farm = farm_number(&self.context.snapshot_now().farm_id);
            decisions::make(&mut link, farm, self.dist_txns.key(), timeout_ms).await?;
            decisions::grant(&mut link, user, host, timeout_ms).await
        }
        .await;
        link.keep(answer).map_err(text)?;
        tracing::info!(group = &*group.name, user, host, "an account may decide");
        Ok(())
    }
}
