//! Connections to the farm's servers.
//!
//! Job: how Heddle logs in to a member, links that are open before they are needed, links that act by the right to lead,
//! whose turn it is to change a server.
//!
//! Must not know: what is asked over a link.

pub(crate) mod reach;
pub(crate) mod turns;
pub(crate) mod warm;

use std::sync::Arc;

use crate::context::Context;
use turns::Turns;
use warm::WarmLinks;

/// Connections to the farm's servers, and how Heddle logs in to them.
pub(crate) struct Links {
    context: Arc<Context>,
    warm: WarmLinks,
    pub(crate) turns: Turns,
}

impl Links {
    pub(crate) fn new(context: &Arc<Context>) -> Links {
        Links {
            context: Arc::clone(context),
            warm: WarmLinks::default(),
            turns: Turns::default(),
        }
    }
}
