//! The transaction of a session: what can be done again after its connection was lost, and what became of a
//! write whose answer was lost.

pub mod claimed_ids;
pub mod distributed;
pub(crate) mod joining;
pub mod lock_waits;
pub mod loss;
pub(crate) mod outcome;
pub(crate) mod replay;
pub mod replay_log;
pub mod resume;
pub mod settle;
pub mod state;
pub mod unit_of_work;
