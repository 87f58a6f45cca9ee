//! What this router sees of the servers: whether they answer, how far they are, who may log in.
//!
//! Job: a probe loop per server, heartbeats per group, the accounts, and what Heddle's own account may do.
//!
//! Invariant: what is seen stands in the state before it is published. Nothing here changes who leads a group: doubts go to
//! the group's failover driver.
//!
//! Must not know: commands, how servers are filled, how a failover is carried out.

pub(crate) mod accounts;
mod adoption;
mod asking;
pub(crate) mod detect;
pub(crate) mod early_writes;
pub(crate) mod fault;
pub(crate) mod heartbeat;
pub(crate) mod pin;
pub(crate) mod privileges;
pub(crate) mod probes;
pub(crate) mod releases;
#[cfg(test)]
pub(crate) mod samples;
pub(crate) mod stance;

use std::sync::Arc;

use crate::context::Context;
use crate::links::Links;
use crate::observe::detect::Doubts;
use crate::observe::privileges::OwnAccount;

/// Asks every server how it is, and doubts the one that fails.
pub(crate) struct Probes {
    context: Arc<Context>,
    links: Arc<Links>,
    own_account: Arc<OwnAccount>,
    doubts: Doubts,
}

impl Probes {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        own_account: &Arc<OwnAccount>,
    ) -> Probes {
        Probes {
            context: Arc::clone(context),
            links: Arc::clone(links),
            own_account: Arc::clone(own_account),
            doubts: Doubts::default(),
        }
    }
}
