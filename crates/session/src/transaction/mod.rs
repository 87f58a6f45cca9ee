//! The transaction of a session: what can be done again after its connection was lost, and what became of a
//! write whose answer was lost.

pub(crate) mod claimed_ids;
pub(crate) mod distributed;
pub(crate) mod joining;
pub(crate) mod lock_waits;
pub(crate) mod loss;
pub(crate) mod outcome;
pub(crate) mod replay;
pub(crate) mod replay_log;
pub(crate) mod resume;
pub(crate) mod settle;
pub(crate) mod state;
pub(crate) mod unit_of_work;
