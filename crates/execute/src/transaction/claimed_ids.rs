//! AUTO_INCREMENT values that replayed transactions claim, and statements of others that collide with them.
//!
//! A transaction that is done again on a new primary sets `insert_id` to the values that its client was told.
//! The new primary may give the same value away at that moment: InnoDB takes a value from the counter before it
//! stores the row, and a claim in between makes the row of an innocent statement a duplicate. That statement has
//! done nothing, and the next value of the counter is free, so it is run once more.
//!
//! Invariants: a statement is repeated only where running it twice is the same as running it once: one row, no
//! function that may change anything, no user variable. A duplicate that the statement itself names comes again,
//! and the client hears of it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use sqltext::{Facts, Source, Verb};

use crate::execution::exec::Run;
use crate::execution::exec::text_shape::calls_only_quiet;
use crate::session::context::StatementContext;
use crate::variables::user_variables;

/// ER_DUP_ENTRY.
const DUPLICATE: u16 = 1062;

/// A claim and what collides with it are milliseconds apart, unless the row waits for a lock.
const CLAIMS_US: u64 = 60_000_000;

/// When this router last claimed a value.
#[derive(Debug, Default)]
pub struct ClaimedIds {
    /// By the clock of the farm's snapshots; 0 for never.
    last_us: AtomicU64,
}

impl ClaimedIds {
    /// A replayed statement is about to claim its value.
    pub fn note(&self, now_us: u64) {
        self.last_us.store(now_us.max(1), Relaxed);
    }

    fn is_recent(&self, now_us: u64) -> bool {
        let last_us = self.last_us.load(Relaxed);
        last_us > 0 && now_us.saturating_sub(last_us) <= CLAIMS_US
    }
}

/// True where this error may come from a claim, and the statement may run once more.
pub(crate) fn is_collision(context: &StatementContext<'_>, run: &Run, error: Option<u16>) -> bool {
    let core = context.core;
    let plain = !run.again
        && run.pipeline.commands.is_empty()
        && run.shape.verb == Verb::Insert
        && !run.shape.facts.intersects(Facts::MULTIPLE | Facts::USER_VARIABLE);
    if error != Some(DUPLICATE) || !plain || !core.shared.claimed_ids.is_recent(core.now_us()) {
        return false;
    }
    let text = user_variables::text(&context.client.request, context.prepared, run.job);
    let Some(insert) = sqltext::insert(text, &context.variables.mode) else {
        return false;
    };
    let quiet = |from: u32| calls_only_quiet(&text[from as usize..]);
    match &insert.source {
        Source::Rows { rows, .. } => rows.len() == 1 && quiet(rows[0].whole.start),
        Source::Set(set) => set.iter().all(|(_, value)| quiet(value.start)),
        Source::Query(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_recent_for_a_while() {
        let claimed = ClaimedIds::default();
        assert!(!claimed.is_recent(5), "there was none");
        claimed.note(0);
        assert!(claimed.is_recent(CLAIMS_US));
        claimed.note(1_000);
        assert!(claimed.is_recent(1_000 + CLAIMS_US));
        assert!(!claimed.is_recent(1_001 + CLAIMS_US));
    }
}
