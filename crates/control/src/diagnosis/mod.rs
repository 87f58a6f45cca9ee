//! `heddle doctor`: what is wrong with the farm, told when it is asked, and by events when it changes.
//!
//! Job: gather the facts ([`gather`]), let the crate `doctor` judge them, carry out what somebody wants mended
//! ([`mend`]), look once in an hour by itself ([`hourly`]).
//!
//! Invariants: looking changes nothing on any server; what is mended is a statement of the checks, never one that came
//! with a command; only the router that leads mends, and looks by itself.
//!
//! Must not know: what is right and what is wrong with a server.

mod gather;
mod hourly;
mod mend;

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use doctor::facts::DiskFacts;
use doctor::{Finding, RouterFacts, Trail};
use tokio::sync::Notify;

use crate::context::Context;
use crate::links::Links;
use crate::observe::privileges::OwnAccount;
use crate::peers::routers::PeerRouters;
use crate::provision::admission::parse_address;
use crate::subscriptions::Subscriptions;
use catalog::command::{Arguments, CommandError, Table};

/// What a router knows of itself and of its machine. Each call may read files.
pub trait Premises: Send + Sync {
    /// The router; its clock and its store's answer are left out.
    fn router(&self) -> RouterFacts;
    /// The file system of a directory of this machine; `None` where there is no such directory.
    fn disk(&self, directory: &str) -> Option<DiskFacts>;
    /// Time between two looks of the router's own; `None` for never.
    fn look_every(&self) -> Option<Duration>;
}

/// What is to be looked at.
#[derive(Clone, Debug, Default)]
struct Wanted {
    /// Groups, addresses of servers, names of routers; empty for all.
    names: Vec<String>,
    /// A server that is no member yet.
    newcomer: Option<(String, u16)>,
}

impl Wanted {
    fn read(args: &Arguments) -> Result<Wanted, CommandError> {
        let names = args.get("of").unwrap_or_default().split(',');
        let names = names.map(str::trim).filter(|name| !name.is_empty());
        Ok(Wanted {
            names: names.map(str::to_owned).collect(),
            newcomer: args.get("before_add").map(parse_address).transpose()?,
        })
    }

    /// Whether something of this name, in this group, is to be looked at.
    fn has(&self, name: &str, group: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|it| it == name || it == group)
    }
}

/// Looks for what is wrong.
pub(crate) struct Doctor {
    context: Arc<Context>,
    links: Arc<Links>,
    pub(crate) own_account: Arc<OwnAccount>,
    peers: Arc<PeerRouters>,
    /// Absent in tests of the control plane alone.
    premises: OnceLock<Arc<dyn Premises>>,
    /// Whose consumers may be late.
    subscriptions: OnceLock<Arc<Subscriptions>>,
    trail: Mutex<Trail>,
    /// A server has joined.
    joined: Notify,
}

impl Doctor {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        own_account: &Arc<OwnAccount>,
        peers: &Arc<PeerRouters>,
    ) -> Doctor {
        Doctor {
            context: Arc::clone(context),
            links: Arc::clone(links),
            own_account: Arc::clone(own_account),
            peers: Arc::clone(peers),
            premises: OnceLock::new(),
            subscriptions: OnceLock::new(),
            trail: Mutex::default(),
            joined: Notify::new(),
        }
    }

    /// Whom to ask about this router. The first one counts.
    pub(crate) fn know(&self, premises: Arc<dyn Premises>) {
        let _ = self.premises.set(premises);
    }

    /// Whom to ask how far consumers of changes are behind. The first one counts.
    pub(crate) fn know_subscriptions(&self, subscriptions: &Arc<Subscriptions>) {
        let _ = self.subscriptions.set(Arc::clone(subscriptions));
    }

    /// What is wrong, as rows.
    pub(crate) async fn manage_doctor(&self, args: &Arguments) -> Result<Table, CommandError> {
        let wanted = Wanted::read(args)?;
        self.know_all(&wanted)?;
        let mut table = Table::new(&[
            "check",
            "severity",
            "server",
            "evidence",
            "breaks",
            "cure",
            "scope",
            "group",
            "fix",
            "why_not",
            "statement",
        ]);
        for finding in self.findings(&wanted).await {
            table.rows.push(row(finding));
        }
        Ok(table)
    }

    /// Refuses names that nothing has: a look at nothing finds nothing wrong.
    fn know_all(&self, wanted: &Wanted) -> Result<(), CommandError> {
        let snapshot = self.context.snapshot_now();
        let routers = self.peers.names();
        let is_known = |name: &String| {
            let servers = snapshot.groups.iter().flat_map(|it| &it.servers);
            snapshot.group(name).is_some()
                || servers.map(|it| it.address()).any(|it| it == *name)
                || routers.contains(name)
        };
        match wanted.names.iter().find(|name| !is_known(name)) {
            None => Ok(()),
            Some(odd) => Err(CommandError::Usage(format!(
                "there is no group, server or router {odd:?}: write the name of a group or a router, or \
                 HOST:PORT of a server of the farm (--before-add for another)"
            ))),
        }
    }
}

/// A finding in the columns of `heddle doctor`.
fn row(finding: Finding) -> Vec<serde_json::Value> {
    let Finding {
        check,
        severity,
        scope,
        of,
        group,
        evidence,
        breaks,
        cure,
        fix,
        statement,
    } = finding;
    vec![
        check.into(),
        severity.name().into(),
        of.into(),
        evidence.into(),
        breaks.into(),
        cure.into(),
        scope.name().into(),
        group.into(),
        fix.name().into(),
        fix.why().into(),
        statement.into(),
    ]
}
