//! Who a client is: the way in, logins and their proofs, the limits of an account and of an address.
//!
//! Must not know: statements.

pub(crate) mod accounts;
pub(crate) mod berths;
pub(crate) mod changes;
pub(crate) mod entitled;
pub(crate) mod entrance;
pub(crate) mod expired;
pub(crate) mod hosts;
pub(crate) mod locks;
pub(crate) mod login;
pub(crate) mod offer;
pub(crate) mod passwords;
pub(crate) mod proof;
pub(crate) mod prove;
pub(crate) mod reveal;
pub(crate) mod rsa_key;
pub(crate) mod salt;
pub(crate) mod secrets;
pub(crate) mod verifiers;
pub(crate) mod vouch;
