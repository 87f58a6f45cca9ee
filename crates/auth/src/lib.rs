//! Who clients are: the way in, what they prove, the passwords that Heddle keeps for them, the limits of
//! accounts and of addresses.
//!
//! Job: decide whether a claim is right and whether its account may come in now, and count what has failed.
//!
//! Invariants: secrets are overwritten when they are dropped or their account changes; whatever a stranger
//! can make this keep is bounded; nothing that takes milliseconds runs on the caller's thread.
//!
//! Must not know: a client's connection and how it is asked, sessions, cores, statements.

pub mod account_places;
pub mod changes;
pub mod clients;
pub mod entitled;
pub mod entrance;
mod hosts;
pub mod locks;
pub mod passwords;
pub mod proof;
pub mod rsa_key;
pub mod salt;
#[cfg(test)]
mod samples;
pub mod secrets;
pub mod verifiers;
