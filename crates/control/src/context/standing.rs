//! What a change of primary that is under way makes of groups and servers, beside what the records
//! say and the probes see. Kept in memory only: a router that starts has no sessions yet that could
//! hold an old connection.

use crate::context::Context;
use std::collections::{BTreeMap, BTreeSet};

use catalog::record::Records;
use farm::{Health, Position, Status};

/// Groups that are paused, servers that are cut off.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// Since when, by the router's clock in microseconds.
    paused: BTreeMap<String, u64>,
    cut: BTreeMap<u32, String>,
    terms: BTreeMap<u32, u32>,
    /// Changes of primary that are published, and that the store does not have yet.
    ahead: BTreeMap<String, Ahead>,
    /// Servers whose replication a change of primary stopped and has not started again.
    halted: BTreeSet<u32>,
}

/// What a change of primary made of its group.
#[derive(Debug, Default)]
struct Ahead {
    leader: Option<u32>,
    /// Where the group's timelines ended, as in its record, when one more has ended.
    forks: Option<Vec<String>>,
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
        self.is_paused(group) || self.ahead.contains_key(group)
    }

    /// This server leads the group: what waited may go on. Gives the moment since when it waited.
    pub(crate) fn leads(&mut self, group: &str, id: u32) -> Option<u64> {
        self.ahead.entry(group.to_owned()).or_default().leader = Some(id);
        self.goes_on(id);
        self.cut.remove(&id);
        self.paused.remove(group)
    }

    /// A change of primary stops the replication of this server.
    pub(crate) fn halts(&mut self, id: u32) {
        self.halted.insert(id);
    }

    /// What a change of primary had stopped goes on, or the server leads.
    pub(crate) fn goes_on(&mut self, id: u32) {
        self.halted.remove(&id);
    }

    /// True while a stopped replication is not an operator's doing, but what a change of primary left.
    pub(crate) fn is_halted(&self, id: u32) -> bool {
        self.halted.contains(&id)
    }

    /// The group has no primary: statements go on waiting.
    pub(crate) fn nobody_leads(&mut self, group: &str) {
        self.ahead.entry(group.to_owned()).or_default().leader = None;
    }

    /// The group's timeline ended at this position. `records` have it from now on.
    pub(crate) fn ends_timeline(&mut self, group: &str, fork: &Position, records: &mut Records) {
        if let Some(kept) = records.groups.get_mut(group) {
            kept.value.forks.push(fork.to_string());
            let ahead = self.ahead.entry(group.to_owned()).or_default();
            ahead.forks = Some(kept.value.forks.clone());
        }
    }

    /// True while the present timeline of the group has begun and is not stored.
    pub(crate) fn has_timeline_ahead(&self, group: &str) -> bool {
        let ahead = self.ahead.get(group);
        ahead.is_some_and(|ahead| ahead.forks.is_some())
    }

    /// A change of primary that is published stays so in records that were read before the store had it: the
    /// leader and its timeline.
    pub(crate) fn keep_ahead(&self, records: &mut Records) {
        for (group, ahead) in &self.ahead {
            let members = records.servers.iter_mut();
            for (&id, kept) in members.filter(|(_, kept)| kept.value.group == *group) {
                kept.value = kept.value.after_change_of_primary(ahead.leader == Some(id));
            }
            if let Some(forks) = &ahead.forks
                && let Some(kept) = records.groups.get_mut(group)
                && kept.value.forks.len() < forks.len()
            {
                kept.value.forks.clone_from(forks);
            }
        }
    }

    /// The store has what was published.
    pub(crate) fn recorded(&mut self, group: &str) {
        self.ahead.remove(group);
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

    /// Ends the sessions' connections to a server that is silent. Whatever they sent there gets no answer; they repeat
    /// elsewhere what may be repeated.
    pub(crate) fn end_connections(&self, id: u32) {
        *self.state().standing.terms.entry(id).or_default() += 1;
        self.publish_server(id);
        self.sessions.turned();
    }

    /// True for a member that does not lead, while no change of primary may give it another role.
    pub(crate) fn stays_a_replica(&self, id: u32) -> bool {
        let state = self.state();
        let kept = state.records.servers.get(&id);
        kept.is_some_and(|kept| {
            let record = &kept.value;
            record.status != Status::Primary && !state.standing.is_changing(&record.group)
        })
    }

    /// The server may serve again as far as its record and health let it.
    pub(crate) fn heal(&self, id: u32) {
        if self.state().standing.cut.remove(&id).is_some() {
            self.publish_server(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use catalog::record::samples;
    use farm::Engine;

    #[test]
    fn what_is_published_stays_until_it_is_stored() {
        let roles = [(1, Status::Primary), (2, Status::Replica)];
        let servers = roles.map(|(port, status)| samples::server("g", port, status));
        let stored = samples::records("g", &servers);
        let (mut shown, mut standing) = (stored.clone(), Standing::default());
        let fork = Position::parse(Engine::MariaDb, "0-1-7").expect("a position");

        standing.ends_timeline("g", &fork, &mut shown);
        standing.leads("g", 2);
        standing.keep_ahead(&mut shown);
        assert_eq!(shown.primary("g").map(|(id, _)| id), Some(2));
        assert_eq!(shown.groups["g"].value.forks, ["0-1-7"]);

        // Another change of the farm has the records read anew: nothing happened in the group.
        let mut read = stored.clone();
        standing.keep_ahead(&mut read);
        assert_eq!(read, shown);
        assert!(read.events_since(&shown).is_empty());

        // Once the store has it, the timeline is not ended twice.
        let mut read = shown.clone();
        standing.keep_ahead(&mut read);
        assert_eq!(read, shown);
        standing.recorded("g");
        assert!(!standing.has_timeline_ahead("g"));
        let mut read = stored.clone();
        standing.keep_ahead(&mut read);
        assert_eq!(read, stored);
    }
}
