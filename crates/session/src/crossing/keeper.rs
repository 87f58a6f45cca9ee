//! What sessions need of the control plane for transactions over several groups.

use farm::crossing::{Branch, GlobalId, Place, Verdict};

/// Takes what became of a decision; `None` when nobody can say in time.
pub type Settled = Box<dyn FnOnce(Option<Verdict>) + Send>;

/// Takes whether an account may decide now, or why not.
pub type Allowed = Box<dyn FnOnce(Result<(), String>) + Send>;

/// Names transactions over several groups, and ends what sessions leave of them. Implemented by the
/// control plane, whose recovery stays away from a transaction between [`Keeper::undertake`] and
/// [`Keeper::leave`].
pub trait Keeper: Send + Sync {
    /// The id of a transaction of this farm that crosses to a second group now. `at` is the
    /// connection whose COMMIT will decide.
    fn name(&self, farm: u64, decider: u32, at: Place) -> GlobalId;

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
}
