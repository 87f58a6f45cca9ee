//! A transaction over several groups: atomic, recoverable by anyone, at no cost until it crosses.
//!
//! The group that was touched first keeps its plain transaction and is the *coordinator group*; every other one
//! has an XA *branch*. [`commit`] ends such a transaction for its client; [`recovery`] ends a branch
//! whose router is gone or does not know. The rules that both keep:
//!
//! 1. *Prepare* all branches that wrote: from then on they survive everything.
//! 2. *Decide*: one row of ours and the coordinator group's own COMMIT, in one trip. That commit is the decision;
//!    there is no other record of it. It is never sent before every branch is prepared.
//! 3. *Finish* the branches. Nobody commits one without having seen the decision, and nobody rolls one
//!    back without knowing that there never will be one: the coordinator group's transaction was rolled back
//!    before its COMMIT was sent, or a row that says so stands where the decision would have to stand.
//!
//! A row that says commit stays until every branch has ended for good and the router of the
//! transaction knows what became of it; one that says abort, until the coordinator group's connection is gone:
//! either is asked for until then.
//!
//! Branches that only read end when the others are prepared; those that read with locks end after the
//! decision, so that what they read still held at that moment. One writing group needs no
//! prepared branch; the row of its commit names none.
//!
//! A client's own XA transaction is prepared, decided and ended in three steps of its client: the row is
//! written with the first, by the client's transaction at the coordinator group, which is prepared last and ends
//! first.

pub mod commit;
pub mod recovery;

pub use farm::dist_txn::Verdict;

/// A group's place in a transaction, in the order of enlistment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub u16);

impl Seat {
    /// The group whose COMMIT is the decision.
    pub const COORDINATOR: Seat = Seat(0);
}
