//! How other threads call commands, or ask for the newest accounts: bounded queues into the control
//! thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use farm::dist_txn::GlobalId;
use farm::{Fate, Kill, Killed, LostWrite, Permits, ServerId, Xid};
use tokio::sync::{mpsc, oneshot};

use crate::observe::accounts::Read;
use crate::observe::detect::Sign;
use crate::peers::questions::PeerSessions;
use crate::txn_recovery::lost_writes::{Asked, Verdict};
use crate::txn_recovery::sequence::{Taken, WantedIds};
use crate::txn_recovery::{self, Allowed, DistTxns, Settled};
use catalog::command::{Call, CommandError, Table};

/// Calls that may wait at once; more are refused.
const CALLS_MAX: usize = 1024;

/// Askers for the newest accounts that may wait at once; more have to do with what is known.
const ASKERS_MAX: usize = 4096;

/// Sessions that may wait at once to hear what became of their writes.
const LOST_MAX: usize = 65_536;

/// Suspicions that may wait at once.
const SUSPECTS_MAX: usize = 256;

/// What a command's caller gets.
pub type Answer = Result<Table, CommandError>;

/// Receives the answer, on the control thread; must not block.
pub type Reply = Box<dyn FnOnce(Answer) + Send>;

/// Takes what the other routers said of their sessions, on the control thread; must not block.
pub type Listed = Box<dyn FnOnce(Vec<PeerSessions>) + Send>;

/// Takes what became of a KILL on the other routers, as above.
pub type Ended = Box<dyn FnOnce(Result<Killed, String>) + Send>;

/// Takes whether a client may come in, as above.
pub type Permitted = Box<dyn FnOnce(bool) + Send>;

/// Something to do, with the place for its answer. A reply that is dropped unanswered tells the caller
/// so.
pub(crate) enum Request {
    Command(Call, Reply),
    /// A command that changes nothing; it ends when nobody waits for it any more.
    Read(Call, oneshot::Sender<Answer>),
    /// What sessions ask of other routers.
    Sessions(Listed),
    Kill(Kill, Ended),
    /// One more client of an account, whose limit is this.
    Permit(String, u32, Permitted),
    /// What sessions ask about transactions over several groups.
    DistTxn(crate::txn_recovery::Asked),
    /// Ids of a table on many groups.
    Ids(WantedIds, Taken),
}

impl Request {
    /// Tells the caller that nothing was done.
    pub(crate) fn refuse(self, why: &str) {
        match self {
            Request::Command(_, reply) => reply(Err(CommandError::Internal(why.to_owned()))),
            Request::Read(_, reply) => {
                // The caller may have gone away; then nobody wants the answer.
                let _ = reply.send(Err(CommandError::Internal(why.to_owned())));
            }
            // Other routers are no matter of one that is ending; its own sessions are all there is.
            Request::Sessions(reply) => reply(Vec::new()),
            Request::Kill(_, reply) => reply(Err(why.to_owned())),
            Request::Permit(_, _, reply) => reply(false),
            Request::DistTxn(asked) => asked.refuse(why),
            Request::Ids(_, reply) => reply(Err(why.to_owned())),
        }
    }
}

/// Calls commands from any thread; clones share one queue.
#[derive(Clone)]
pub struct Commander {
    queue: mpsc::Sender<Request>,
    askers: mpsc::Sender<Read>,
    lost: mpsc::Sender<Asked>,
    suspects: mpsc::Sender<(ServerId, Sign)>,
    /// No other router lives.
    alone: Arc<AtomicBool>,
    permits: Arc<Permits>,
    dist_txns: Arc<DistTxns>,
    /// Whether limits of accounts are shared with other routers.
    shares: bool,
}

/// The other ends of a commander's queues.
pub(crate) struct Queues {
    pub(crate) calls: mpsc::Receiver<Request>,
    pub(crate) askers: mpsc::Receiver<Read>,
    pub(crate) lost: mpsc::Receiver<Asked>,
    pub(crate) suspects: mpsc::Receiver<(ServerId, Sign)>,
}

/// How a server failed a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspicion {
    /// It refused a new connection.
    Refused,
    /// An open connection broke.
    Broken,
}

impl Commander {
    /// `shares`: other routers may serve the same farm.
    pub(crate) fn new(shares: bool) -> (Commander, Queues) {
        let (queue, calls) = mpsc::channel(CALLS_MAX);
        let (ask, askers) = mpsc::channel(ASKERS_MAX);
        let (lose, lost) = mpsc::channel(LOST_MAX);
        let (suspect, suspects) = mpsc::channel(SUSPECTS_MAX);
        let commander = Commander {
            queue,
            askers: ask,
            lost: lose,
            suspects: suspect,
            alone: Arc::new(AtomicBool::new(true)),
            permits: Arc::default(),
            dist_txns: Arc::new(DistTxns::new()),
            shares,
        };
        let queues = Queues {
            calls,
            askers,
            lost,
            suspects,
        };
        (commander, queues)
    }

    /// Finds out what became of a write whose answer was lost, on the group's primary once it has
    /// one, and calls `reply` with it: on the control thread, or here when that cannot be asked.
    pub fn resolve(&self, lost: LostWrite, reply: Verdict) {
        if let Err(refused) = self.lost.try_send(Asked {
            lost,
            reply,
            at_us: 0,
        }) {
            let asked = match refused {
                mpsc::error::TrySendError::Full(asked)
                | mpsc::error::TrySendError::Closed(asked) => asked,
            };
            let why = "the control plane does not answer";
            (asked.reply)(Fate::Unknown(why.to_owned()));
        }
    }

    /// Live traffic found a server failing. Costs next to nothing and may be said often: what the
    /// queue cannot take says nothing new.
    pub fn suspect(&self, server: ServerId, how: Suspicion) {
        let sign = match how {
            Suspicion::Refused => Sign::Refused,
            Suspicion::Broken => Sign::Broken,
        };
        let _ = self.suspects.try_send((server, sign));
    }

    /// Has the accounts read from a server and published, and calls `done` after that. One reading
    /// serves all who asked before it began; a dropped `done` was never called.
    pub fn read_accounts(&self, done: Read) {
        if let Err(mpsc::error::TrySendError::Full(done)) = self.askers.try_send(done) {
            done();
        }
    }

    /// Queues a call and returns at once. `reply` runs on the control thread, or here when the queue
    /// is full or the control plane has ended.
    pub fn submit(&self, call: Call, reply: Reply) {
        self.send(Request::Command(call, reply));
    }

    /// True while no other router of the farm lives. Costs one look at a flag.
    pub fn is_alone(&self) -> bool {
        self.alone.load(Ordering::Relaxed)
    }

    /// The permits by which limits of accounts hold over the farm; `None` where no other router can
    /// ever be.
    pub fn permits(&self) -> Option<&Arc<Permits>> {
        self.shares.then_some(&self.permits)
    }

    /// The permits that this router holds, whether it shares them or not.
    pub(crate) fn permits_held(&self) -> &Arc<Permits> {
        &self.permits
    }

    /// Has a permit brought for a client of this account, whose limit over the farm is `limit`, and
    /// returns at once; `reply` as in [`Commander::submit`]. A permit that was brought is free to be
    /// taken, by whoever is first.
    pub fn permit(&self, account: String, limit: u32, reply: Permitted) {
        self.send(Request::Permit(account, limit, reply));
    }

    /// What this router's sessions and its recovery know of transactions over several groups.
    pub fn dist_txns(&self) -> &Arc<DistTxns> {
        &self.dist_txns
    }

    /// Finds out what became of a decision whose answer was lost, for at most so long; one that was
    /// not made cannot be made any more then. `reply` as in [`Commander::submit`].
    pub fn settle(&self, id: GlobalId, limit_ms: u64, reply: Settled) {
        let asked = crate::txn_recovery::Asked::Settle(id, limit_ms, reply);
        self.send(Request::DistTxn(asked));
    }

    /// Gives an account, by user and host, the right to decide at the group of this number. `reply`
    /// as in [`Commander::submit`].
    pub fn let_decide(&self, group: u32, account: [String; 2], reply: Allowed) {
        let asked = crate::txn_recovery::Asked::LetDecide(group, account, reply);
        self.send(Request::DistTxn(asked));
    }

    /// Asks for the groups where an XA transaction of a client's own with this name is prepared;
    /// `reply` as in [`Commander::submit`].
    pub fn find_own(&self, xid: Xid, reply: txn_recovery::Found) {
        self.own(crate::txn_recovery::OwnAsked::Find(xid, reply));
    }

    /// Passes the commit barrier of the group of this number until the answer is dropped; `of` spreads passes
    /// over links. `reply` as above.
    pub fn pass_barrier(&self, group: u32, of: u32, reply: txn_recovery::Passed) {
        self.own(crate::txn_recovery::OwnAsked::Pass(group, of, reply));
    }

    /// Ends an XA transaction of a client's own, wherever it is prepared, within so many milliseconds;
    /// `reply` as above.
    pub fn end_own(
        &self,
        xid: Xid,
        verdict: farm::dist_txn::Verdict,
        limit_ms: u64,
        reply: txn_recovery::Ended,
    ) {
        self.own(crate::txn_recovery::OwnAsked::End(
            xid, verdict, limit_ms, reply,
        ));
    }

    fn own(&self, asked: crate::txn_recovery::OwnAsked) {
        self.send(Request::DistTxn(crate::txn_recovery::Asked::Own(asked)));
    }

    /// Takes ids of a table on many groups; `reply` as in [`Commander::submit`].
    pub fn take_ids(&self, wanted: WantedIds, reply: Taken) {
        self.send(Request::Ids(wanted, reply));
    }

    pub(crate) fn set_alone(&self, alone: bool) {
        self.alone.store(alone, Ordering::Relaxed);
    }

    /// Asks all other routers for their sessions and returns at once; `reply` as in
    /// [`Commander::submit`].
    pub fn sessions_elsewhere(&self, reply: Listed) {
        self.send(Request::Sessions(reply));
    }

    /// Passes a KILL on to the other routers that it may concern and returns at once; `reply` as in
    /// [`Commander::submit`].
    pub fn kill_elsewhere(&self, kill: Kill, reply: Ended) {
        self.send(Request::Kill(kill, reply));
    }

    fn send(&self, request: Request) {
        if let Err(refused) = self.queue.try_send(request) {
            match refused {
                mpsc::error::TrySendError::Full(request) => {
                    request.refuse("too many commands wait; try again");
                }
                mpsc::error::TrySendError::Closed(request) => {
                    request.refuse("the router is shutting down; try another one");
                }
            }
        }
    }

    /// Calls a command and waits for its answer. Dropping the future ends a command that changes
    /// nothing; one that may change something is carried out all the same.
    pub async fn execute(&self, call: Call) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.send(match call.changes() {
            false => Request::Read(call, sender),
            true => Request::Command(
                call,
                Box::new(move |answer| {
                    // The caller may have gone away; then nobody wants the answer.
                    let _ = sender.send(answer);
                }),
            ),
        });
        receiver.await.unwrap_or_else(|_| {
            Err(CommandError::Internal(
                "the router shut down before the command ended".to_owned(),
            ))
        })
    }
}
