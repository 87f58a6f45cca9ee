//! The last changes of primary, step by step: what each step waited for, in microseconds.
//!
//! A change is open from the first doubt about the primary, or from its first step, until a primary is published. Steps
//! that nobody waited for (replicas that follow, the last record) end later. One that came to nothing is forgotten.
//!
//! Must not know: why a step is taken.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Changes that are kept, of all groups.
const KEPT_MAX: usize = 64;

/// Steps that are kept of one change: one that waits for a server asks again and again.
const STEPS_MAX: usize = 256;

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepTime {
    /// The number of its question; no two open steps of a group have the same.
    ask: u64,
    /// A fixed word, as in the flight recorder.
    pub(crate) step: &'static str,
    pub(crate) server: Option<u32>,
    /// Since the change began.
    pub(crate) began_us: u64,
    /// `None` while it lasts.
    pub(crate) took_us: Option<u64>,
    /// What it was about, or why it came to nothing.
    pub(crate) detail: String,
}

/// One change of primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ChangeTimes {
    pub(crate) group: String,
    /// By the router's clock, and in milliseconds since 1970.
    began_us: u64,
    pub(crate) at_ms: u64,
    pub(crate) cause: &'static str,
    /// Who took over, and when since the beginning.
    pub(crate) published: Option<(u32, u64)>,
    pub(crate) steps: Vec<StepTime>,
}

impl ChangeTimes {
    /// For people: `61.3 ms (crashed): confirm_loss 0.4, stop_receiving 3.0, …`; of steps that were taken on several
    /// servers, the longest.
    pub(crate) fn summary(&self) -> String {
        let mut longest: Vec<(&'static str, u64)> = Vec::new();
        let ended = |one: &StepTime| Some((one.step, one.took_us?));
        for (step, took_us) in self.steps.iter().filter_map(ended) {
            match longest.iter_mut().find(|(known, _)| *known == step) {
                Some((_, most_us)) => *most_us = took_us.max(*most_us),
                None => longest.push((step, took_us)),
            }
        }
        let steps: Vec<String> = longest
            .iter()
            .map(|(step, us)| format!("{step} {}", ms(*us)))
            .collect();
        let (_, took_us) = self.published.unwrap_or_default();
        format!("{} ms ({}): {}", ms(took_us), self.cause, steps.join(", "))
    }
}

/// Milliseconds with one digit behind the point.
fn ms(us: u64) -> String {
    format!("{}.{}", us / 1000, us % 1000 / 100)
}

/// All that is known of the last changes.
#[derive(Debug, Default)]
pub(crate) struct Failovers(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// By group.
    open: HashMap<String, ChangeTimes>,
    /// The oldest first.
    over: VecDeque<ChangeTimes>,
}

impl Failovers {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A change may begin, or begins; one that is open goes on.
    pub(crate) fn doubt(&self, group: &str, now_us: u64) {
        let begun = || ChangeTimes {
            group: group.to_owned(),
            began_us: now_us,
            at_ms: catalog::event::epoch_ms(),
            cause: "",
            published: None,
            steps: Vec::new(),
        };
        let mut kept = self.lock();
        kept.open.entry(group.to_owned()).or_insert_with(begun);
    }

    /// A change may begin, or is under way.
    pub(crate) fn is_open(&self, group: &str) -> bool {
        self.lock().open.contains_key(group)
    }

    /// A step is taken. One that is taken when no change is open belongs to the last one.
    pub(crate) fn begin(
        &self,
        group: &str,
        now_us: u64,
        (ask, step): (u64, &'static str),
        server: Option<u32>,
        detail: String,
    ) {
        let mut kept = self.lock();
        let Some(change) = kept.of(group) else { return };
        if change.steps.len() < STEPS_MAX {
            change.steps.push(StepTime {
                ask,
                step,
                server,
                began_us: now_us.saturating_sub(change.began_us),
                took_us: None,
                detail,
            });
        }
    }

    /// The step has ended, for `failed` without having been done.
    pub(crate) fn end(&self, group: &str, now_us: u64, ask: u64, failed: Option<&str>) {
        let mut kept = self.lock();
        let Some(change) = kept.of(group) else { return };
        let since_us = now_us.saturating_sub(change.began_us);
        let mut steps = change.steps.iter_mut().rev();
        let step = steps.find(|one| one.ask == ask && one.took_us.is_none());
        if let Some(step) = step {
            step.took_us = Some(since_us.saturating_sub(step.began_us));
            if let Some(why) = failed {
                why.clone_into(&mut step.detail);
            }
        }
    }

    /// The group has this primary now. Gives the change, where one is open.
    pub(crate) fn publish(
        &self,
        group: &str,
        now_us: u64,
        primary: u32,
        cause: &'static str,
    ) -> Option<ChangeTimes> {
        let mut kept = self.lock();
        let mut change = kept.open.remove(group)?;
        change.cause = cause;
        change.published = Some((primary, now_us.saturating_sub(change.began_us)));
        if kept.over.len() == KEPT_MAX {
            kept.over.pop_front();
        }
        kept.over.push_back(change.clone());
        Some(change)
    }

    /// The doubt was cleared, or what was begun came to nothing.
    pub(crate) fn forget(&self, group: &str) {
        self.lock().open.remove(group);
    }

    /// Those of all groups or of one, the oldest first; the last may be open.
    pub(crate) fn list(&self, group: Option<&str>) -> Vec<ChangeTimes> {
        let kept = self.lock();
        let all = kept.over.iter().chain(kept.open.values());
        let of = all.filter(|change| group.is_none_or(|group| *group == change.group));
        of.cloned().collect()
    }
}

impl Kept {
    fn of(&mut self, group: &str) -> Option<&mut ChangeTimes> {
        let mut over = self.over.iter_mut().rev();
        match self.open.get_mut(group) {
            Some(open) => Some(open),
            None => over.find(|change| change.group == group),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(failovers: &Failovers, now_us: u64, ask: u64, step: &'static str, server: u32) {
        failovers.begin("g", now_us, (ask, step), Some(server), String::new());
    }

    #[test]
    fn a_change_tells_what_each_step_took() {
        let failovers = Failovers::default();
        begin(&failovers, 900, 1, "confirm_loss", 1);
        assert!(failovers.list(None).is_empty(), "no change is open");
        failovers.doubt("g", 1_000);
        begin(&failovers, 1_000, 2, "confirm_loss", 1);
        failovers.end("g", 1_400, 2, Some("nobody listens there"));
        for (ask, server, ended_us) in [(3, 2, 4_000), (4, 3, 6_500)] {
            begin(&failovers, 1_500, ask, "stop_receiving", server);
            failovers.end("g", ended_us, ask, None);
        }
        begin(&failovers, 6_500, 5, "follow", 3);
        let change = failovers.publish("g", 62_300, 2, "crashed").expect("open");
        let summary = "61.3 ms (crashed): confirm_loss 0.4, stop_receiving 5.0";
        assert_eq!(change.summary(), summary);
        // What nobody waited for.
        failovers.end("g", 66_500, 5, None);
        let listed = failovers.list(Some("g"));
        let [change] = &listed[..] else {
            panic!("{listed:?}")
        };
        assert_eq!(change.published, Some((2, 61_300)));
        let last = change.steps.last().expect("steps");
        assert_eq!((last.began_us, last.took_us), (5_500, Some(60_000)));
        assert_eq!(change.steps[0].detail, "nobody listens there");
        assert!(failovers.list(Some("h")).is_empty());
    }

    #[test]
    fn a_doubt_that_is_cleared_leaves_nothing() {
        let failovers = Failovers::default();
        failovers.doubt("g", 1_000);
        failovers.doubt("g", 9_000);
        assert_eq!(failovers.list(None)[0].began_us, 1_000);
        failovers.forget("g");
        assert!(failovers.list(None).is_empty());
        assert_eq!(failovers.publish("g", 2_000, 1, "ordered"), None);
    }

    #[test]
    fn the_last_ones_are_kept() {
        let failovers = Failovers::default();
        for n in 0..=KEPT_MAX as u64 {
            failovers.doubt("g", n);
            (0..2 * STEPS_MAX as u64).for_each(|ask| begin(&failovers, n, ask, "follow", 1));
            failovers.publish("g", n, 1, "ordered");
        }
        let kept = failovers.list(None);
        assert_eq!(kept.len(), KEPT_MAX);
        assert_eq!((kept[0].began_us, kept[0].steps.len()), (1, STEPS_MAX));
    }
}
