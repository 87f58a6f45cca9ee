//! The farm's other routers: who they are, and how one is asked.
//!
//! What a router knows of them stands in the [`Roster`]; how a question reaches one is a door's
//! matter and comes as an implementation of [`Peers`]. A question is a command like an operator's,
//! marked as a peer's: the asked router answers for itself and passes nothing on, so that no question
//! goes round in circles.

mod elsewhere;
pub(crate) mod permits;
pub(crate) mod questions;
pub(crate) mod roster;
pub(crate) mod routers;
mod sessions;
pub(crate) mod transport;
pub(crate) mod way;

pub use questions::PeerSessions;
pub use roster::{Leads, Peer, Roster};
pub use transport::{Asking, NoPeers, PeerError, Peers, Question, is_gone, is_refusal};
pub use way::{TLS_NAME, Way};
