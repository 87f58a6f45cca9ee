//! What clients make the process keep in memory, and the ceilings over it.
//!
//! Job: one [`Budget`] per process counts the bytes that are kept for clients, and refuses what would pass
//! its limit. Each account has a budget within that one, so that one account cannot take all of it. Who
//! keeps bytes owns a [`Reservation`], which grows and shrinks with them.
//!
//! Invariants: what is reserved never passes a limit by a reservation that was granted, and a limit that
//! is lowered takes nothing away; what an account has counts for the process, too; a reservation gives back
//! what it has when it is dropped; a refused one has what it had before. The first [`STEP_BYTES`] of each reservation are free, so a client with
//! ordinary statements touches nothing that others share.
//!
//! Must not know: who the clients and accounts are, their protocols, what an error looks like.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Reservations are multiples of this, and what is not larger needs none.
pub const STEP_BYTES: usize = 16 << 10;

/// What bytes are kept for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Commands that have come in part, or wait to be carried out.
    Packets,
    /// The prepared statements of a session.
    Prepared,
    /// Open transactions, so that they can be done again.
    Replay,
    /// Rows that are fetched for a statement and not passed on at once.
    Results,
    /// What memcached clients send.
    Values,
    /// Bodies of HTTP requests.
    Bodies,
}

/// Refusals by purpose: the counter's name, what it counts.
const REFUSED: [(&str, &str); 6] = [
    (
        "memory_refused_packets",
        "Commands that were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_prepared",
        "Prepared statements that were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_replay",
        "Transactions that cannot be done again because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_results",
        "Statements whose rows had to be kept and were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_values",
        "Requests of memcached clients that were refused because memory_bytes_max was reached.",
    ),
    (
        "memory_refused_bodies",
        "HTTP requests whose body was refused because memory_bytes_max was reached.",
    ),
];

/// The limit that was reached. The reservation is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// What all clients together may have (`memory_bytes_max`).
    Process,
    /// What clients of one account may have (`user_memory_bytes_max`).
    Account,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Full::Process => "memory_bytes_max was reached",
            Full::Account => "user_memory_bytes_max was reached",
        })
    }
}

impl std::error::Error for Full {}

/// The bytes that the process keeps for all its clients, or those of one account.
#[derive(Debug)]
pub struct Budget {
    reserved: AtomicUsize,
    within: Within,
}

#[derive(Debug)]
enum Within {
    /// The budget of the process.
    Nothing(Limits),
    /// An account's, within that of the process.
    Process(Arc<Budget>),
}

/// How many bytes may be kept at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceilings {
    /// For all clients together (`memory_bytes_max`).
    pub process: usize,
    /// For the clients of one account (`user_memory_bytes_max`); `usize::MAX` for no ceiling of its own.
    pub account: usize,
}

/// What holds for the whole process.
#[derive(Debug)]
struct Limits {
    process: AtomicUsize,
    account: AtomicUsize,
    refused: [AtomicU64; REFUSED.len()],
    refused_accounts: AtomicU64,
}

impl Budget {
    /// A process's budget of so many bytes, none of them reserved. Accounts have no limit of their own.
    pub fn new(limit: usize) -> Budget {
        Budget {
            reserved: AtomicUsize::new(0),
            within: Within::Nothing(Limits {
                process: AtomicUsize::new(limit),
                account: AtomicUsize::new(usize::MAX),
                refused: Default::default(),
                refused_accounts: AtomicU64::new(0),
            }),
        }
    }

    /// The budget of one account's clients within that of the process.
    pub fn of_account(process: &Arc<Budget>) -> Budget {
        let process = match &process.within {
            Within::Nothing(_) => process,
            Within::Process(process) => process,
        };
        Budget {
            reserved: AtomicUsize::new(0),
            within: Within::Process(process.clone()),
        }
    }

    fn limits(&self) -> &Limits {
        match &self.within {
            Within::Nothing(limits) => limits,
            Within::Process(process) => process.limits(),
        }
    }

    /// Reservations may add up to so much from now on. What is reserved already stays.
    pub fn set_ceilings(&self, ceilings: Ceilings) {
        self.limits().process.store(ceilings.process, Relaxed);
        self.limits().account.store(ceilings.account, Relaxed);
    }

    /// The bytes that are reserved now.
    pub fn reserved(&self) -> usize {
        self.reserved.load(Relaxed)
    }

    /// Names, help and values of the process's counters, in a fixed order.
    pub fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        let reserved = (
            "memory_reserved_now",
            "Bytes that are kept for clients and count towards memory_bytes_max now.",
            self.reserved() as u64,
        );
        let limits = self.limits();
        let refused = REFUSED.iter().zip(&limits.refused);
        let refused = refused.map(|(&(name, help), count)| (name, help, count.load(Relaxed)));
        let refused_accounts = (
            "memory_refused_accounts",
            "What was refused because an account had reached user_memory_bytes_max.",
            limits.refused_accounts.load(Relaxed),
        );
        std::iter::once(reserved)
            .chain(refused)
            .chain([refused_accounts])
            .collect()
    }

    fn take(&self, bytes: usize) -> Result<(), Full> {
        match &self.within {
            Within::Nothing(limits) => match self.add(bytes, &limits.process) {
                true => Ok(()),
                false => Err(Full::Process),
            },
            Within::Process(process) => {
                if !self.add(bytes, &self.limits().account) {
                    return Err(Full::Account);
                }
                process.take(bytes).inspect_err(|_| {
                    self.reserved.fetch_sub(bytes, Relaxed);
                })
            }
        }
    }

    fn add(&self, bytes: usize, limit: &AtomicUsize) -> bool {
        let limit = limit.load(Relaxed);
        let more = |now: usize| now.checked_add(bytes).filter(|then| *then <= limit);
        self.reserved.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    fn give(&self, bytes: usize) {
        self.reserved.fetch_sub(bytes, Relaxed);
        if let Within::Process(process) = &self.within {
            process.give(bytes);
        }
    }

    fn count_refusal(&self, purpose: Purpose, full: Full) {
        let limits = self.limits();
        let counter = match full {
            Full::Process => &limits.refused[purpose as usize],
            Full::Account => &limits.refused_accounts,
        };
        counter.fetch_add(1, Relaxed);
    }
}

/// Bytes of a budget that somebody has; given back when it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Arc<Budget>,
    purpose: Purpose,
    bytes: usize,
}

impl Reservation {
    /// A reservation of nothing yet.
    pub fn new(budget: &Arc<Budget>, purpose: Purpose) -> Reservation {
        Reservation {
            budget: budget.clone(),
            purpose,
            bytes: 0,
        }
    }

    /// Another one of the same budget, of nothing yet.
    pub fn another(&self, purpose: Purpose) -> Reservation {
        Reservation::new(&self.budget, purpose)
    }

    /// The budget that it takes from.
    pub fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    /// Takes what it has from another budget from now on. Without room there it stays with its own.
    pub fn move_to(&mut self, budget: &Arc<Budget>) {
        if Arc::ptr_eq(&self.budget, budget) || (self.bytes > 0 && budget.take(self.bytes).is_err())
        {
            return;
        }
        self.budget.give(self.bytes);
        self.budget = budget.clone();
    }

    /// Makes it what holding `bytes` needs, be that more or less than before.
    ///
    /// # Errors
    /// The budget has not so much more.
    pub fn cover(&mut self, bytes: usize) -> Result<(), Full> {
        self.try_cover(bytes)
            .inspect_err(|full| self.budget.count_refusal(self.purpose, *full))
    }

    /// The same where nothing is refused without it: false then, and it is not counted.
    pub fn cover_if_free(&mut self, bytes: usize) -> bool {
        self.try_cover(bytes).is_ok()
    }

    fn try_cover(&mut self, bytes: usize) -> Result<(), Full> {
        let needed = counted(bytes);
        if needed > self.bytes {
            self.budget.take(needed - self.bytes)?;
            self.bytes = needed;
        } else {
            self.shrink(bytes);
        }
        Ok(())
    }

    /// Gives back what holding `bytes` does not need. It never grows.
    pub fn shrink(&mut self, bytes: usize) {
        let needed = counted(bytes);
        if needed < self.bytes {
            self.budget.give(self.bytes - needed);
            self.bytes = needed;
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

/// What is reserved for so many bytes.
fn counted(bytes: usize) -> usize {
    match bytes <= STEP_BYTES {
        true => 0,
        false => bytes.checked_next_multiple_of(STEP_BYTES).unwrap_or(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(steps: usize) -> Arc<Budget> {
        Arc::new(Budget::new(steps * STEP_BYTES))
    }

    fn ceilings(process: usize, account: usize) -> Ceilings {
        Ceilings { process, account }
    }

    fn refused(budget: &Budget) -> u64 {
        budget.limits().refused[Purpose::Packets as usize].load(Relaxed)
    }

    #[test]
    fn what_is_small_is_free() {
        let budget = budget(0);
        let mut reservation = Reservation::new(&budget, Purpose::Packets);
        assert_eq!(reservation.cover(STEP_BYTES), Ok(()));
        assert_eq!(budget.reserved(), 0);
        assert_eq!(reservation.cover(STEP_BYTES + 1), Err(Full::Process));
        assert_eq!((budget.reserved(), refused(&budget)), (0, 1));
    }

    #[test]
    fn a_refused_reservation_has_what_it_had() {
        let budget = budget(5);
        let mut one = Reservation::new(&budget, Purpose::Packets);
        let mut other = Reservation::new(&budget, Purpose::Packets);
        assert_eq!(one.cover(3 * STEP_BYTES), Ok(()));
        assert_eq!(other.cover(2 * STEP_BYTES - 1), Ok(()));
        assert_eq!(budget.reserved(), 5 * STEP_BYTES);
        assert_eq!(one.cover(3 * STEP_BYTES + 1), Err(Full::Process));
        assert_eq!(one.cover(usize::MAX), Err(Full::Process));
        assert_eq!(budget.reserved(), 5 * STEP_BYTES);
        drop(other);
        assert_eq!(one.cover(4 * STEP_BYTES), Ok(()));
        one.shrink(STEP_BYTES);
        assert_eq!(budget.reserved(), 0);
        one.shrink(9 * STEP_BYTES);
        assert_eq!(budget.reserved(), 0, "it never grows by that");
    }

    #[test]
    fn a_lowered_limit_takes_nothing_away() {
        let budget = budget(4);
        let mut reservation = Reservation::new(&budget, Purpose::Packets);
        assert_eq!(reservation.cover(4 * STEP_BYTES), Ok(()));
        budget.set_ceilings(ceilings(STEP_BYTES, usize::MAX));
        assert_eq!(budget.reserved(), 4 * STEP_BYTES);
        assert_eq!(
            reservation.cover(3 * STEP_BYTES),
            Ok(()),
            "less is no growth"
        );
        assert_eq!(reservation.cover(4 * STEP_BYTES), Err(Full::Process));
        drop(reservation);
        assert_eq!(budget.reserved(), 0);
    }

    #[test]
    fn an_account_has_its_own_limit_within_that_of_the_process() {
        let process = budget(5);
        process.set_ceilings(ceilings(5 * STEP_BYTES, 3 * STEP_BYTES));
        let one = Arc::new(Budget::of_account(&process));
        let other = Arc::new(Budget::of_account(&one));
        let mut of_one = Reservation::new(&one, Purpose::Packets);
        let mut second_of_one = of_one.another(Purpose::Prepared);
        let mut of_other = Reservation::new(&other, Purpose::Packets);
        assert_eq!(of_one.cover(2 * STEP_BYTES), Ok(()));
        assert_eq!(second_of_one.cover(2 * STEP_BYTES), Err(Full::Account));
        assert_eq!(
            of_other.cover(3 * STEP_BYTES),
            Ok(()),
            "it has as much, whatever the other has"
        );
        assert_eq!(of_one.cover(3 * STEP_BYTES), Err(Full::Process));
        assert_eq!(
            (one.reserved(), process.reserved()),
            (2 * STEP_BYTES, 5 * STEP_BYTES)
        );
        let of = |name| {
            let counters = process.counters();
            counters.iter().find(|row| row.0 == name).expect("there").2
        };
        assert_eq!(
            (of("memory_refused_packets"), of("memory_refused_accounts")),
            (1, 1)
        );
        drop((of_one, of_other));
        assert_eq!(
            (one.reserved(), other.reserved(), process.reserved()),
            (0, 0, 0)
        );
    }

    #[test]
    fn a_reservation_may_move_to_an_account() {
        let process = budget(8);
        process.set_ceilings(ceilings(8 * STEP_BYTES, 3 * STEP_BYTES));
        let account = Arc::new(Budget::of_account(&process));
        let mut reservation = Reservation::new(&process, Purpose::Packets);
        assert_eq!(reservation.cover(4 * STEP_BYTES), Ok(()));
        reservation.move_to(&account);
        assert_eq!(
            (account.reserved(), process.reserved()),
            (0, 4 * STEP_BYTES),
            "no room there"
        );
        reservation.shrink(2 * STEP_BYTES);
        reservation.move_to(&account);
        assert_eq!(
            (account.reserved(), process.reserved()),
            (2 * STEP_BYTES, 2 * STEP_BYTES)
        );
        reservation.move_to(&process);
        assert_eq!(
            (account.reserved(), process.reserved()),
            (0, 2 * STEP_BYTES)
        );
    }

    #[test]
    fn many_threads_never_pass_the_limit() {
        let budget = budget(8);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..1000 {
                        let mut reservation = Reservation::new(&budget, Purpose::Packets);
                        let granted = reservation.cover((2 + round % 4) * STEP_BYTES).is_ok();
                        assert!(budget.reserved() <= 8 * STEP_BYTES);
                        assert!(!granted || budget.reserved() >= 2 * STEP_BYTES);
                    }
                });
            }
        });
        assert_eq!(budget.reserved(), 0);
    }
}
