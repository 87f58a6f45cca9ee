//! Asking the other routers on behalf of a session.

use farm::{Kill, Killed};
use futures_channel::oneshot;

use crate::per_core::Core;
use crate::per_core::peers::Elsewhere;

/// What the other routers say of their sessions.
pub async fn sessions_elsewhere(core: &Core) -> Vec<Elsewhere> {
    let peers = &core.shared.peers;
    if peers.is_alone() {
        return Vec::new();
    }
    let (tell, told) = oneshot::channel();
    peers.sessions(Box::new(move |sessions| drop(tell.send(sessions))));
    // Dropped untold when the router ends.
    told.await.unwrap_or_default()
}

/// Passes a KILL on to the other routers.
pub async fn kill_elsewhere(core: &Core, kill: Kill) -> Result<Killed, String> {
    let peers = &core.shared.peers;
    if peers.is_alone() {
        return Ok(Killed::Sessions(0));
    }
    let (tell, told) = oneshot::channel();
    peers.kill(kill, Box::new(move |killed| drop(tell.send(killed))));
    told.await.unwrap_or(Ok(Killed::Sessions(0)))
}
