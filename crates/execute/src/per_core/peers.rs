//! What sessions ask of the farm's other routers: who is connected there, and ending somebody there.
//!
//! The control plane carries the questions; a session waits for the answer like for any other, and
//! its core serves others meanwhile. A router without others is never asked for more than one flag.

pub mod ask;

use std::sync::Arc;

use auth::account_places::SharedPermits;
use farm::{Kill, Killed, Permits};

use crate::per_core::view::SessionView;

/// The other routers, as far as sessions need them. Implemented by the control plane; replies may be
/// called from any thread, and must not block.
pub trait Peers: Send + Sync {
    /// True while no other router lives. Called often.
    fn is_alone(&self) -> bool;

    /// Asks every other router for its sessions.
    fn sessions(&self, reply: Box<dyn FnOnce(Vec<Elsewhere>) + Send>);

    /// Has a KILL carried out by the routers that it concerns. An error names one that did not answer.
    fn kill(&self, kill: Kill, reply: Box<dyn FnOnce(Result<Killed, String>) + Send>);

    /// What limits of accounts are counted by; `None` where no other router can ever be.
    fn permits(&self) -> Option<&Arc<Permits>>;

    /// Has a permit brought for a client of this account, whose limit over the farm is `limit`; false
    /// when there is none.
    fn permit(&self, account: String, limit: u32, reply: Box<dyn FnOnce(bool) + Send>);
}

impl SharedPermits for dyn Peers {
    fn permits(&self) -> Option<&Arc<Permits>> {
        Peers::permits(self)
    }

    fn permit(&self, account: String, limit: u32, reply: Box<dyn FnOnce(bool) + Send>) {
        Peers::permit(self, account, limit, reply);
    }
}

/// A router that is alone for ever.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoPeers;

impl Peers for NoPeers {
    fn is_alone(&self) -> bool {
        true
    }

    fn sessions(&self, reply: Box<dyn FnOnce(Vec<Elsewhere>) + Send>) {
        reply(Vec::new());
    }

    fn kill(&self, _kill: Kill, reply: Box<dyn FnOnce(Result<Killed, String>) + Send>) {
        reply(Ok(Killed::Sessions(0)));
    }

    fn permits(&self) -> Option<&Arc<Permits>> {
        None
    }

    fn permit(&self, _account: String, _limit: u32, reply: Box<dyn FnOnce(bool) + Send>) {
        reply(true);
    }
}

/// Another router's sessions.
#[derive(Clone, Debug)]
pub struct Elsewhere {
    pub router: String,
    /// The first id that is its own to give, and no session's.
    pub id: u32,
    /// Its sessions, or why they are not known.
    pub sessions: Result<Vec<SessionView>, String>,
}
