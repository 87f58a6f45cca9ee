//! By what connections of the scratch server are used for a client.

use backend::Pass;

use crate::per_core::Core;
use crate::scratch::ScratchServer;

/// The right to use its connections for such a client.
pub fn scratch_pass(core: &Core, server: &ScratchServer, client: &Pass) -> Pass {
    core.pools.pass(server.profile(client.profile()))
}
