//! Transactions over several groups that nobody ends any more: found, and ended, by any router.
//!
//! Every primary is asked for its prepared branches at the start, when a group has another primary,
//! and on a slow tick. What is this farm's is put before `machines::xa::recovery`, one machine and one
//! task for each transaction. A branch of a router that may live is left to it for a while; to judge it
//! dead too early only undoes its transaction, it never tears it. Branches of others are never touched.
//!
//! Two routers at once do no harm: the coordinator group's row is the only judge, and each step can be done twice.

mod barriers;
mod held;
mod judge;
pub(crate) mod lost_writes;
mod questions;
mod round;
pub(crate) mod sequence;
mod sweep;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use enginesql::seal::Key;
use farm::ServerId;
use farm::dist_txn::{Branch, GlobalId, Verdict};
use tokio::sync::mpsc;

use crate::context::Context;
use crate::links::Links;
use crate::links::warm::{Lent, WarmLinks};
use catalog::event::Event;

pub(crate) use held::OwnAsked;
pub use held::{Ended, Found, Passed};
pub(crate) use judge::Task;
pub(crate) use questions::Asked;
pub use questions::{Allowed, Settled};

/// Ends the transactions over several groups that their routers left behind.
pub(crate) struct TxnRecovery {
    context: Arc<Context>,
    links: Arc<Links>,
    dist_txns: Arc<DistTxns>,
}

impl TxnRecovery {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        dist_txns: &Arc<DistTxns>,
    ) -> TxnRecovery {
        TxnRecovery {
            context: Arc::clone(context),
            links: Arc::clone(links),
            dist_txns: Arc::clone(dist_txns),
        }
    }

    /// A link to a server for short questions. The next question takes it up again.
    pub(super) async fn lend(&self, server: ServerId) -> Result<Lent, engine::Error> {
        let links = &self.dist_txns.links[0];
        self.links.lend_from(links, server.0).await
    }
}

/// Transactions that sessions may hand over at once; what does not fit is found on the next tick.
const HANDED_MAX: usize = 4096;

/// Links to one server that serve recoveries: one waits for another's row, or for a replica.
pub(super) const LINKS: usize = 4;

/// Links to one server on which commit barriers are passed, each by one commit at a time.
const PASSES: usize = 8;

/// What somebody wants done about one transaction.
pub(crate) struct Order {
    pub(super) id: GlobalId,
    /// What is known of it.
    pub(super) verdict: Option<Verdict>,
    /// An operator said what became of it: no coordinator group is asked, whatever runs is given up.
    pub(super) by_force: bool,
    /// Branches that may stand prepared, by the names of their groups.
    pub(super) branches: Vec<(String, Branch)>,
}

/// A transaction in doubt, as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub(crate) branches: BTreeMap<Branch, String>,
    pub(crate) state: State,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) since_ms: u64,
    /// Why it waits; empty while it does not.
    pub(crate) waits_for: String,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Its router may still end it.
    Watched,
    Recovering,
    /// It is its client's own, prepared: its client ends it.
    Held,
    /// It does not come to an end; a human should look.
    Stuck,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            State::Watched => "watched",
            State::Recovering => "recovering",
            State::Held => "held",
            State::Stuck => "stuck",
        }
    }
}

/// What recovery, the sessions and the rest of the router share.
pub struct DistTxns {
    /// This router's place among those of the farm, as it was told last, and when it started.
    slot: AtomicU16,
    started_ms: u64,
    /// What ids of the farm are sealed with; set before any session runs.
    key: OnceLock<Key>,
    /// Ids given so far.
    named: AtomicU32,
    /// The transactions that this router's sessions are ending.
    undertaken: Mutex<HashSet<GlobalId>>,
    shown: Mutex<BTreeMap<GlobalId, Shown>>,
    pub(super) links: [WarmLinks; LINKS],
    orders: mpsc::Sender<Order>,
    /// Those on which commit barriers are passed.
    passes: [WarmLinks; PASSES],
    /// Taken by the loop.
    queue: tokio::sync::Mutex<mpsc::Receiver<Order>>,
    /// Those on which commit barriers are held.
    barriers: WarmLinks,
    /// Those on which primaries are asked again and again for their branches, and on which decisions are swept: no step
    /// of a recovery waits for either.
    looks: WarmLinks,
    sweeps: WarmLinks,
    holds: mpsc::Sender<barriers::Waiting>,
    /// Taken by the task that holds the commit barriers.
    waiting: tokio::sync::Mutex<mpsc::Receiver<barriers::Waiting>>,
    pub(super) committed: AtomicU64,
    pub(super) rolled_back: AtomicU64,
    /// Rows of nobody that were removed.
    foreign: AtomicU64,
}

impl DistTxns {
    pub(crate) fn new() -> DistTxns {
        let (orders, queue) = mpsc::channel(HANDED_MAX);
        let (holds, waiting) = mpsc::channel(barriers::WAITING_MAX);
        DistTxns {
            slot: AtomicU16::new(0),
            started_ms: now_ms(),
            key: OnceLock::new(),
            named: AtomicU32::new(0),
            undertaken: Mutex::default(),
            shown: Mutex::default(),
            links: Default::default(),
            passes: Default::default(),
            orders,
            queue: tokio::sync::Mutex::new(queue),
            barriers: WarmLinks::default(),
            looks: WarmLinks::default(),
            sweeps: WarmLinks::default(),
            holds,
            waiting: tokio::sync::Mutex::new(waiting),
            committed: AtomicU64::new(0),
            rolled_back: AtomicU64::new(0),
            foreign: AtomicU64::new(0),
        }
    }

    /// Transactions that were ended for others: committed, and rolled back.
    pub(crate) fn ended(&self) -> [u64; 2] {
        [&self.committed, &self.rolled_back].map(|count| count.load(Relaxed))
    }

    /// Rows under ids of nobody that were removed.
    pub(crate) fn foreign(&self) -> u64 {
        self.foreign.load(Relaxed)
    }

    /// Those in doubt, by age.
    pub(crate) fn shown(&self) -> MutexGuard<'_, BTreeMap<GlobalId, Shown>> {
        lock(&self.shown)
    }

    /// False when too many wait.
    pub(crate) fn order(&self, order: Order) -> bool {
        self.orders.try_send(order).is_ok()
    }

    pub(super) fn is_undertaken(&self, id: &GlobalId) -> bool {
        lock(&self.undertaken).contains(id)
    }
}

/// Milliseconds since 1970, as ids have them.
pub(crate) fn now_ms() -> u64 {
    Event::now("", "", String::new()).at_ms
}

/// Whole seconds since a transaction crossed, at least.
pub(super) fn age_s(id: &GlobalId) -> u64 {
    now_ms().saturating_sub(id.at_ms) / 1000
}

/// Takes a lock whose data stays whole even if a holder panicked: every holder changes it in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes what is shown of a transaction.
pub(super) fn note(recovery: &TxnRecovery, id: &GlobalId, change: impl FnOnce(&mut Shown)) {
    if let Some(shown) = recovery.dist_txns.shown().get_mut(id) {
        change(shown);
    }
}
