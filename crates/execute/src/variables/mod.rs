//! What a client has set and what its statements have left: session variables, user variables, insert ids,
//! diagnostics, and what servers report of them.

pub mod assigned;
pub mod changes;
pub mod defaults;
pub mod diagnostics;
pub mod dist_txn_terms;
pub(crate) mod insert_id;
pub mod lasting;
pub mod own_variables;
pub mod reading;
pub mod session_variables;
pub(crate) mod tracking;
pub mod user_variables;
pub mod values;
