//! Permits: how many clients of an account a router may have, out of a limit that holds over the farm.
//!
//! The data plane takes one for each client and gives it back; the control plane brings more, or takes
//! back what is not used. So a login needs nobody but this while there is a permit to be had, and what
//! all routers hold together never passes the limit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of so many permits in use one is kept in reserve, so that a client that comes back at once waits
/// for nobody.
const RESERVE: u32 = 8;

/// The permits of one router, by account. Only accounts with a limit are here.
#[derive(Debug, Default)]
pub struct Permits {
    accounts: Mutex<HashMap<String, Count>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    used: u32,
    held: u32,
}

impl Permits {
    /// Takes one for a client; false when none is left.
    pub fn take(&self, account: &str) -> bool {
        let mut accounts = self.lock();
        let Some(count) = accounts.get_mut(account) else {
            return false;
        };
        let free = count.used < count.held;
        count.used += u32::from(free);
        free
    }

    /// A client has gone.
    pub fn leave(&self, account: &str) {
        if let Some(count) = self.lock().get_mut(account) {
            count.used = count.used.saturating_sub(1);
        }
    }

    /// Whether one can be taken.
    pub fn has_free(&self, account: &str) -> bool {
        let count = self.lock().get(account).copied().unwrap_or_default();
        count.used < count.held
    }

    /// How many the router holds, used or not.
    pub fn held(&self, account: &str) -> u32 {
        self.lock().get(account).map_or(0, |count| count.held)
    }

    /// The router has got so many more.
    pub fn add(&self, account: &str, more: u32) {
        self.lock().entry(account.to_owned()).or_default().held += more;
    }

    /// Gives up what is neither used nor, with `reserve`, a small reserve; how many were given up.
    pub fn give_up(&self, account: &str, reserve: bool) -> u32 {
        let mut accounts = self.lock();
        let Some(count) = accounts.get_mut(account) else {
            return 0;
        };
        let reserve = if reserve {
            count.used.div_ceil(RESERVE)
        } else {
            0
        };
        let kept = count.held.min(count.used + reserve);
        let given = count.held - kept;
        count.held = kept;
        if kept == 0 {
            accounts.remove(account);
        }
        given
    }

    /// The accounts of which it holds any.
    pub fn accounts(&self) -> Vec<String> {
        self.lock().keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Count>> {
        // Every change is one or two numbers that are right by themselves.
        self.accounts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_never_given_up() {
        let permits = Permits::default();
        assert!(!permits.take("a"), "none yet");
        permits.add("a", 10);
        for _ in 0..4 {
            assert!(permits.take("a"));
        }
        assert_eq!(permits.give_up("a", true), 5);
        assert_eq!((permits.held("a"), permits.has_free("a")), (5, true));
        assert_eq!(permits.give_up("a", false), 1);
        assert!(!permits.take("a"));
        permits.leave("a");
        assert!(permits.take("a"));
        for _ in 0..4 {
            permits.leave("a");
        }
        assert_eq!(permits.give_up("a", true), 4);
        assert!(permits.accounts().is_empty());
        assert_eq!(permits.give_up("a", true), 0);
    }
}
