//! How far each server's data reach, as it was last learnt: the part of a snapshot that moves.
//!
//! Positions change with every write, so they would make a new snapshot all the time. Instead a
//! server keeps its [`Freshness`] from snapshot to snapshot; the control plane writes it, everybody
//! reads it, and a value is always a lower bound: a server never has less than is written here.
//!
//! Times are microseconds by one clock of this router, [`crate::Snapshot::origin`]'s. Nothing here
//! reads a clock.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwapOption;

use crate::position::Position;

/// A position and the moment at which it was known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    pub position: Position,
    /// The server was asked after this moment.
    pub asked_us: u64,
}

/// What is known of one server's data.
#[derive(Debug, Default)]
pub struct Freshness {
    known: ArcSwapOption<Known>,
    complete_us: AtomicU64,
    /// The lag plus one; 0 while it is not known.
    lag_us: AtomicU64,
    acknowledged: Mutex<Option<Position>>,
    answered_us: AtomicU64,
}

/// Answers to sessions are told this far apart: every core tells them, and they are one word that all cores share.
const ANSWERS_APART_US: u64 = 5_000;

impl Freshness {
    /// The last position that was learnt.
    pub fn known(&self) -> Option<Arc<Known>> {
        self.known.load_full()
    }

    /// True when the server is known to hold all of `position`.
    pub fn covers(&self, position: &Position) -> bool {
        let known = self.known.load();
        known.as_ref().is_some_and(|k| k.position.covers(position))
    }

    /// True when the server is known to hold what `other` had at a moment after `moment_us`.
    pub fn covers_later(&self, other: &Freshness, moment_us: u64) -> bool {
        let theirs = other.known.load();
        let later = theirs.as_ref().filter(|known| known.asked_us > moment_us);
        later.is_some_and(|known| self.covers(&known.position))
    }

    /// Takes note of a position.
    pub fn learn(&self, position: Position, asked_us: u64) {
        self.known
            .store(Some(Arc::new(Known { position, asked_us })));
    }

    /// The server was seen to hold `position` too.
    pub fn raise(&self, position: &Position) {
        let Some(known) = self.known() else { return };
        let mut known = Known::clone(&known);
        known.position.join(position);
        self.known.store(Some(Arc::new(known)));
    }

    /// Everything that was committed in the group before this moment is on the server; 0 when that
    /// was never known.
    pub fn complete_us(&self) -> u64 {
        self.complete_us.load(Relaxed)
    }

    /// Takes note that everything committed before this moment is there.
    pub fn complete(&self, until_us: u64) {
        self.complete_us.fetch_max(until_us, Relaxed);
    }

    /// How far the server is behind its primary; `None` while nobody knows.
    pub fn lag_us(&self) -> Option<u64> {
        self.lag_us.load(Relaxed).checked_sub(1)
    }

    /// Takes note of the lag.
    pub fn set_lag_us(&self, lag_us: Option<u64>) {
        self.lag_us.store(lag_us.map_or(0, |lag| lag + 1), Relaxed);
    }

    /// The server has answered a session that sent something to it at this moment, so it lived then. That the answer was read
    /// later proves nothing more: it may have lain here.
    pub fn answered(&self, sent_us: u64) {
        let known_us = self.answered_us.load(Relaxed);
        if sent_us >= known_us.saturating_add(ANSWERS_APART_US) {
            self.answered_us.fetch_max(sent_us, Relaxed);
        }
    }

    /// A moment at which the server lived, as sessions know; 0 while none does.
    pub fn answered_us(&self) -> u64 {
        self.answered_us.load(Relaxed)
    }

    /// A session heard from the server that this is committed, and is about to tell its client.
    pub fn acknowledge(&self, position: &Position) {
        let executed = position.may_have_gaps().then(|| self.known()).flatten();
        let executed = executed.as_ref().map(|known| &known.position);
        let mut acknowledged = self.lock_acknowledged();
        match &mut *acknowledged {
            Some(all) => all.join_among(position, executed),
            None => *acknowledged = Some(position.clone()),
        }
    }

    /// Covers every commit of this server that a session of this router told its client of; `None`
    /// when there was none.
    pub fn acknowledged(&self) -> Option<Position> {
        self.lock_acknowledged().clone()
    }

    /// A position is joined whole or not at all, whatever its holder did.
    fn lock_acknowledged(&self) -> MutexGuard<'_, Option<Position>> {
        let lock = self.acknowledged.lock();
        lock.unwrap_or_else(PoisonError::into_inner)
    }

    /// The server may have lost data (it was restored or cloned): nothing is known any more.
    pub fn forget(&self) {
        self.known.store(None);
        self.complete_us.store(0, Relaxed);
        self.lag_us.store(0, Relaxed);
    }
}

/// What the data plane wants to know better than the heartbeat alone tells it.
#[derive(Debug, Default)]
pub struct Interest {
    positions_us: AtomicU64,
    bound_us: AtomicU64,
    bound_at_us: AtomicU64,
}

/// An interest that nobody repeats for so long is over.
const LASTS_US: u64 = 1_000_000;

impl Interest {
    /// Somebody could read from more servers if positions were newer.
    pub fn in_positions(&self, now_us: u64) {
        // Every read of every core comes here: who was heard lately need not be heard again.
        let known_us = self.positions_us.load(Relaxed);
        if known_us == 0 || now_us.saturating_sub(known_us) > LASTS_US / 10 {
            self.positions_us.store(now_us.max(1), Relaxed);
        }
    }

    /// Somebody reads from servers that are behind by no more than `bound_us`.
    pub fn in_bound(&self, bound_us: u64, now_us: u64) {
        let over = now_us.saturating_sub(self.bound_at_us.load(Relaxed)) > LASTS_US;
        let before = self.bound_us.load(Relaxed);
        if over || before == 0 || bound_us <= before {
            self.bound_us.store(bound_us.max(1), Relaxed);
            self.bound_at_us.store(now_us, Relaxed);
        }
    }

    /// True while positions are wanted.
    pub fn wants_positions(&self, now_us: u64) -> bool {
        let asked = self.positions_us.load(Relaxed);
        asked > 0 && now_us.saturating_sub(asked) <= LASTS_US
    }

    /// The smallest bound that reads have asked for lately.
    pub fn bound_us(&self, now_us: u64) -> Option<u64> {
        let bound = self.bound_us.load(Relaxed);
        let recent = now_us.saturating_sub(self.bound_at_us.load(Relaxed)) <= LASTS_US;
        (bound > 0 && recent).then_some(bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::Engine;

    #[test]
    fn answers_are_told_apart_and_in_order() {
        let fresh = Freshness::default();
        assert_eq!(fresh.answered_us(), 0);
        fresh.answered(70_000);
        fresh.answered(74_999);
        assert_eq!(fresh.answered_us(), 70_000);
        fresh.answered(75_000);
        fresh.answered(40_000);
        assert_eq!(fresh.answered_us(), 75_000);
    }

    #[test]
    fn what_is_known_is_a_lower_bound() {
        let fresh = Freshness::default();
        let read = |text| Position::parse(Engine::MariaDb, text).expect("a position");
        assert!(!fresh.covers(&read("0-1-1")) && fresh.lag_us().is_none());
        fresh.learn(read("0-1-5"), 70);
        assert!(fresh.covers(&read("0-1-5")) && !fresh.covers(&read("0-1-6")));
        assert_eq!(fresh.known().map(|known| known.asked_us), Some(70));
        fresh.complete(50);
        fresh.complete(40);
        assert_eq!(fresh.complete_us(), 50);
        fresh.set_lag_us(Some(0));
        assert_eq!(fresh.lag_us(), Some(0));
        fresh.forget();
        assert!(!fresh.covers(&read("0-1-1")) && fresh.complete_us() == 0);
    }

    #[test]
    fn interests_end_by_themselves() {
        let interest = Interest::default();
        assert!(!interest.wants_positions(5) && interest.bound_us(5).is_none());
        interest.in_positions(10);
        assert!(interest.wants_positions(LASTS_US) && !interest.wants_positions(2 * LASTS_US));
        interest.in_bound(50_000, 10);
        interest.in_bound(90_000, 20);
        assert_eq!(interest.bound_us(30), Some(50_000));
        interest.in_bound(90_000, 10 + 2 * LASTS_US);
        assert_eq!(interest.bound_us(10 + 2 * LASTS_US), Some(90_000));
        assert_eq!(interest.bound_us(10 + 4 * LASTS_US), None);
    }
}
