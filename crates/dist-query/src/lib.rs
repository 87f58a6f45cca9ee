//! Statements in a farm with several groups: which groups a statement is for, and one answer of them all.
//!
//! Job: place a statement ([`place`]), run it on several groups at once, merge what they say, or gather rows on the
//! scratch server for what no group can answer ([`scatter`]).
//!
//! Invariants: a statement on one group costs no more than a look-up by its digest; one on several is answered whole or
//! not at all; what cannot be read, or cannot be right, is refused with its reason.
//!
//! Must not know: the command loop, the statements that Heddle answers itself, and how a client logs in.

pub(crate) mod learned;
pub mod place;
pub mod scatter;
