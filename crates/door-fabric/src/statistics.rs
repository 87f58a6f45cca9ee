//! What the door counts: calls by procedure and by group, and whoever counts look-ups for the router.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::answer::Set;

/// Names that are counted; groups that do not exist are not remembered for ever.
const NAMES_MAX: usize = 1024;

/// Who counts look-ups beside the router's other counters.
pub trait Counts: Send + Sync {
    /// A look-up was answered with so many bytes after so long.
    fn looked_up(&self, found: bool, us: u64, bytes: u64);

    /// Something came that is no XML-RPC.
    fn unreadable(&self);
}

/// Calls since the router's start.
#[derive(Debug, Default)]
pub struct Statistics(Mutex<Tally>);

#[derive(Debug, Default)]
struct Tally {
    procedures: BTreeMap<String, Calls>,
    groups: BTreeMap<String, Calls>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Calls {
    count: u32,
    aborted: u32,
}

impl Statistics {
    /// One call, perhaps about a group.
    pub fn called(&self, method: &str, group: Option<&str>, done: bool) {
        let mut tally = self.tally();
        add(&mut tally.procedures, method, done);
        if let Some(group) = group {
            add(&mut tally.groups, group, done);
        }
    }

    /// `statistics.procedure`: names like this one, or all.
    pub fn procedures(&self, only: Option<&str>) -> Set {
        shown("proc_name", &self.tally().procedures, only)
    }

    /// `statistics.group`.
    pub fn groups(&self, only: Option<&str>) -> Set {
        shown("group_id", &self.tally().groups, only)
    }

    fn tally(&self) -> MutexGuard<'_, Tally> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn add(all: &mut BTreeMap<String, Calls>, name: &str, done: bool) {
    if all.len() >= NAMES_MAX && !all.contains_key(name) {
        return;
    }
    let calls = all.entry(name.to_owned()).or_default();
    calls.count = calls.count.saturating_add(1);
    calls.aborted = calls.aborted.saturating_add(u32::from(!done));
}

fn shown(name: &'static str, all: &BTreeMap<String, Calls>, only: Option<&str>) -> Set {
    let mut set = Set::new(&[name, "call_count", "call_abort"]);
    for (name, calls) in all {
        if only.is_none_or(|only| name.contains(only)) {
            let (count, aborted) = (calls.count.into(), calls.aborted.into());
            set.rows.push(vec![name.as_str().into(), count, aborted]);
        }
    }
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_procedure_and_by_group() {
        let statistics = Statistics::default();
        statistics.called("group.promote", Some("g1"), true);
        statistics.called("group.promote", Some("g1"), false);
        statistics.called("dump.servers", None, true);
        let rows = statistics.procedures(Some("group")).rows;
        assert_eq!(
            rows,
            [vec!["group.promote".into(), 2u32.into(), 1u32.into()]]
        );
        let rows = statistics.groups(None).rows;
        assert_eq!(rows, [vec!["g1".into(), 2u32.into(), 1u32.into()]]);
    }
}
