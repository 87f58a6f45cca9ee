//! Connections that were tied to a session serve others once it is over: the server resets them,
//! which costs a trip instead of a login.

use std::rc::Rc;
use std::time::Duration;

use crate::connections::group_connections::Held;
use crate::connections::pin::Pins;
use crate::counters::count;
use crate::per_core::Core;
use crate::per_core::handle::Handle;

/// A reset that takes longer rolls back much: the connection is closed, and the server does it alone.
const RENEW_MAX: Duration = Duration::from_secs(10);

/// Renews a connection that its session has left, and gives it back. Does not wait.
pub fn start_renewal(core: &Rc<Core>, handle: &Rc<Handle>, held: Held) {
    if core.is_draining() {
        return;
    }
    let (core, handle) = (core.clone(), handle.clone());
    reactor::spawn(async move {
        if renew(&handle, held).await {
            count(&core.counters.connections_renewed);
        }
    })
    .detach();
}

/// Renews a connection and gives it back; closes it where a reset would leave something.
pub async fn renew(handle: &Handle, mut held: Held) -> bool {
    if !Pins::RENEWABLE.contains(held.pins) || handle.at_servers.killing.get() > 0 {
        return false;
    }
    let renewing = held.lease.connection_mut().renew();
    let renewed = reactor::timeout(RENEW_MAX, renewing).await;
    let done = matches!(renewed, Some(Ok(())));
    if done {
        held.lease.release();
    }
    done
}
