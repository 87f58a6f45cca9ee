//! What a client has set and what its statements have left: session variables, user variables, insert ids,
//! diagnostics, and what servers report of them.

pub(crate) mod assigned;
pub(crate) mod changes;
pub(crate) mod defaults;
pub(crate) mod diagnostics;
pub(crate) mod dist_txn_terms;
pub(crate) mod insert_id;
pub(crate) mod lasting;
pub(crate) mod own_variables;
pub(crate) mod reading;
pub(crate) mod session_variables;
pub(crate) mod tracking;
pub(crate) mod user_variables;
pub(crate) mod values;
