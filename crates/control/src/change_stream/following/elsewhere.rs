//! Another server of the group that still has what the primary's binlog lacks.
//!
//! A server that was filled without its source's binlogs begins its own with the filling. When such a server leads, the other
//! servers have the transactions from before, and a stream that needs these reads one of them. The primary still says what may
//! be told.

use std::collections::BTreeSet;
use std::time::Duration;

use engine::Login;
use farm::ServerId;
use tokio::time::Instant;

use crate::change_stream::source::{Primary, Source};

/// Servers that do not follow the primary yet have this time to do so.
const PATIENCE: Duration = Duration::from_secs(60);

/// Which server is read.
#[derive(Default)]
pub(super) struct Elsewhere {
    server: Option<(ServerId, Login)>,
    /// Servers that lack what comes next.
    lacking: BTreeSet<ServerId>,
    since: Option<Instant>,
}

impl Elsewhere {
    /// Whose binlog is read.
    pub(super) fn login<'a>(&'a self, primary: &'a Primary) -> &'a Login {
        self.server
            .as_ref()
            .map_or(&primary.login, |(_, login)| login)
    }

    /// It is another server than the primary.
    pub(super) fn is_chosen(&self) -> bool {
        self.server.is_some()
    }

    /// The primary is read again.
    pub(super) fn leave(&mut self) {
        self.server = None;
    }

    /// The server that is read has what comes next.
    pub(super) fn found(&mut self) {
        self.lacking.clear();
        self.since = None;
    }

    /// The server that is read lacks what comes next: chooses another one. False when no server has it.
    pub(super) fn choose(&mut self, source: &Source, primary: &Primary) -> bool {
        let since = *self.since.get_or_insert_with(Instant::now);
        let lacks = self.server.take().map_or(primary.id, |(id, _)| id);
        self.lacking.insert(lacks);
        let mut others = source.others(primary);
        others.retain(|(id, ..)| !self.lacking.contains(id));
        let follows = others.iter().find(|(_, follows, _)| *follows);
        self.server = follows.map(|(id, _, login)| (*id, login.clone()));
        let may_follow = !others.is_empty() && since.elapsed() < PATIENCE;
        self.server.is_some() || may_follow
    }
}
