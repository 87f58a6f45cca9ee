//! Who a client is: the way in, logins and their proofs, the limits of an account and of an address.
//!
//! Must not know: statements.

pub(crate) mod expired;
pub(crate) mod login;
pub(crate) mod offer;
pub(crate) mod prove;
pub(crate) mod reveal;
pub(crate) mod secure;
pub(crate) mod vouch;
