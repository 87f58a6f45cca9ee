//! What a change of primary that is under way makes of groups and servers, beside what the records
//! say and the probes see. Kept in memory only: a router that starts has no sessions yet that could
//! hold an old connection.

use crate::context::Context;
use std::collections::BTreeMap;

use farm::Health;

/// Groups that are paused, servers that are cut off.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Since when, by the router's clock in microseconds.
    paused: BTreeMap<String, u64>,
    cut: BTreeMap<u32, String>,
    terms: BTreeMap<u32, u32>,
    /// Who leads a group by a change of primary that the store does not have yet.
    leading: BTreeMap<String, Option<u32>>,
}

impl Standing {
    pub(crate) fn is_paused(&self, group: &str) -> bool {
        self.paused.contains_key(group)
    }

    /// True while this server is cut off.
    pub(crate) fn is_cut(&self, id: u32) -> bool {
        self.cut.contains_key(&id)
    }

    /// True while the primary is being exchanged, up to the last record.
    pub(crate) fn is_changing(&self, group: &str) -> bool {
        self.is_paused(group) || self.leading.contains_key(group)
    }

    /// This server leads the group: what waited may go on. Gives the moment since when it waited.
    pub(crate) fn leads(&mut self, group: &str, id: u32) -> Option<u64> {
        self.leading.insert(group.to_owned(), Some(id));
        self.cut.remove(&id);
        self.paused.remove(group)
    }

    /// The group has no primary: statements go on waiting.
    pub(crate) fn nobody_leads(&mut self, group: &str) {
        self.leading.insert(group.to_owned(), None);
    }

    /// The store has what was published.
    pub(crate) fn recorded(&mut self, group: &str) {
        self.leading.remove(group);
    }

    /// Groups whose primary is published and not stored yet.
    pub(crate) fn ahead(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        self.leading.iter().map(|(group, id)| (group.as_str(), *id))
    }

    pub(crate) fn term(&self, id: u32) -> u32 {
        self.terms.get(&id).copied().unwrap_or(0)
    }

    /// The health to show: a server that is cut off serves nothing, whatever it answers.
    pub(crate) fn shown(&self, id: u32, health: &Health) -> Health {
        let mut health = health.clone();
        if let Some(reason) = self.cut.get(&id) {
            health.alive = false;
            health.error.clone_from(reason);
        }
        health
    }
}

impl Context {
    /// Statements that need the group's primary wait from now on.
    pub(crate) fn pause(&self, group: &str) {
        let now_us = self.now_us();
        {
            let mut state = self.state();
            let paused = &mut state.standing.paused;
            paused.entry(group.to_owned()).or_insert(now_us);
        }
        self.publish_group(group);
        self.sessions.turned();
    }

    /// Cuts the sessions off from a group's primary: their connections to it end, it serves nothing
    /// until [`Context::heal`], and what needs it waits.
    pub(crate) fn begin_cut(&self, group: &str, id: u32) {
        let now_us = self.now_us();
        {
            let mut state = self.state();
            *state.standing.terms.entry(id).or_default() += 1;
            let reason = "cut off: another server takes over";
            state.standing.cut.insert(id, reason.to_owned());
            let paused = &mut state.standing.paused;
            paused.entry(group.to_owned()).or_insert(now_us);
        }
        self.publish_group(group);
        self.sessions.turned();
    }

    /// The server may serve again as far as its record and health let it.
    pub(crate) fn heal(&self, id: u32) {
        if self.state().standing.cut.remove(&id).is_some() {
            self.publish_server(id);
        }
    }
}
