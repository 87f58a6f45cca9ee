//! What sessions need of the control plane for transactions over several groups.

use enginesql::seal::Sealed;
use farm::Xid;
use farm::dist_txn::{Branch, GlobalId, Owned, Place, Verdict};

/// Takes what became of a decision; `None` when nobody can say in time.
pub type Settled = Box<dyn FnOnce(Option<Verdict>) + Send>;

/// Takes whether an account may decide now, or why not.
pub type Allowed = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Takes whether the commit barriers were held all the time, or why nobody can say so.
pub type Verified = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Lets the commit barriers go. Dropped, it does so too.
pub type LetGo = Box<dyn FnOnce(Verified) + Send>;

/// Takes the commit barriers, or the reason why there are none.
pub type BarriersHeld = Box<dyn FnOnce(Result<LetGo, String>) + Send>;

/// Takes the names of groups.
pub type OwnFound = Box<dyn FnOnce(Vec<String>) + Send>;

/// Keeps a commit barrier from being taken until it is dropped.
pub type Pass = Box<dyn Send>;

/// Takes it, or the reason why there is none.
pub type BarrierPassed = Box<dyn FnOnce(Result<Pass, String>) + Send>;

/// Takes what became of the attempt to end a client's own transaction.
pub type OwnEnded = Box<dyn FnOnce(Owned) + Send>;

/// Names transactions over several groups, and ends what sessions leave of them. Implemented by the
/// control plane, whose recovery stays away from a transaction between [`Keeper::undertake`] and
/// [`Keeper::leave`]. What a trait has bodies for is so where there is no control plane, and no commit barrier.
pub trait Keeper: Send + Sync {
    /// The id of a transaction of this farm that crosses to a second group now. `at` is the
    /// connection whose COMMIT will decide.
    fn name(&self, farm: u64, coordinator: u32, at: Place) -> GlobalId;

    /// The same id as the deciding server believes it: with the farm's seal.
    fn seal(&self, id: GlobalId) -> Sealed;

    /// A session is about to prepare the branches of this transaction.
    fn undertake(&self, id: GlobalId);

    /// The session has done what it could, and leaves these branches behind, by the names of their
    /// groups.
    fn leave(&self, id: GlobalId, verdict: Option<Verdict>, branches: Vec<(String, Branch)>);

    /// True while a branch of the group may be waiting for its end.
    fn is_in_doubt(&self, id: &GlobalId, group: &str) -> bool;

    /// Finds out what became of a decision whose answer was lost, for at most so long; calls `reply`
    /// from any thread. A decision that was not made cannot be made any more then.
    fn settle(&self, id: GlobalId, limit_ms: u64, reply: Settled);

    /// Gives an account, by user and host, the right to decide at the group of this number; calls
    /// `reply` from any thread.
    fn let_decide(&self, group: u32, account: [String; 2], reply: Allowed);

    /// Holds up all commits over several groups, when what was decided before can be seen everywhere:
    /// from the moment of `reply`, which comes from any thread after at most so long, until they are
    /// let go; for a second at most.
    fn hold(&self, limit_ms: u64, reply: BarriersHeld);

    /// The groups where an XA transaction of a client's own with this name is prepared; of those that
    /// answer. Calls `reply` from any thread.
    fn find_own(&self, xid: Xid, reply: OwnFound) {
        drop(xid);
        reply(Vec::new());
    }

    /// Passes the commit barrier of the group of this number, for a commit that cannot do so on its own
    /// connection; `of` is any number that spreads them. Calls `reply` from any thread.
    fn pass_barrier(&self, group: u32, of: u32, reply: BarrierPassed) {
        let _ = (group, of);
        reply(Ok(Box::new(())));
    }

    /// Ends a prepared XA transaction of a client's own, whichever session it was of, within so long;
    /// calls `reply` from any thread.
    fn end_own(&self, xid: Xid, verdict: Verdict, limit_ms: u64, reply: OwnEnded) {
        let _ = (xid, verdict, limit_ms);
        reply(Owned::Pending("no control plane is here".to_owned()));
    }
}
