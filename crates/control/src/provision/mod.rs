//! How servers become members of groups, get their data, and come back.
//!
//! Job: admission, clones by three methods, joining; rejoin and restore of servers that were members. Long work is a job
//! with a task of its own ([`jobs`]).
//!
//! Invariant: a server is a member once the store says so; what it needs to be one is done before.
//!
//! Must not know: who decides that a server is lost, sessions, shard maps.

pub(crate) mod admission;
pub mod backup;
pub(crate) mod cloning;
pub(crate) mod filling;
pub(crate) mod import;
pub(crate) mod jobs;
pub(crate) mod joining;
pub(crate) mod media;
pub(crate) mod nodes;
pub(crate) mod rejoin;
mod restore;

use std::sync::Arc;

use crate::context::Context;
use crate::links::Links;
use crate::observe::Probes;
use crate::observe::accounts::AccountsReader;
use crate::observe::privileges::OwnAccount;
use jobs::Jobs;

/// Makes servers members of groups, and fills them with data.
pub(crate) struct Provision {
    context: Arc<Context>,
    links: Arc<Links>,
    own_account: Arc<OwnAccount>,
    accounts: Arc<AccountsReader>,
    probes: Arc<Probes>,
    jobs: Arc<Jobs>,
}

impl Provision {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        own_account: &Arc<OwnAccount>,
        accounts: &Arc<AccountsReader>,
        probes: &Arc<Probes>,
        jobs: &Arc<Jobs>,
    ) -> Provision {
        Provision {
            context: Arc::clone(context),
            links: Arc::clone(links),
            own_account: Arc::clone(own_account),
            accounts: Arc::clone(accounts),
            probes: Arc::clone(probes),
            jobs: Arc::clone(jobs),
        }
    }
}

/// Brings servers back that left their group, or led it.
pub(crate) struct Rejoin {
    context: Arc<Context>,
    links: Arc<Links>,
    probes: Arc<Probes>,
    provision: Arc<Provision>,
    jobs: Arc<Jobs>,
}

impl Rejoin {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        probes: &Arc<Probes>,
        provision: &Arc<Provision>,
        jobs: &Arc<Jobs>,
    ) -> Rejoin {
        Rejoin {
            context: Arc::clone(context),
            links: Arc::clone(links),
            probes: Arc::clone(probes),
            provision: Arc::clone(provision),
            jobs: Arc::clone(jobs),
        }
    }
}
