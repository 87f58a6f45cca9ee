//! Accounts that are locked because too many wrong passwords came for them in a row. A server counts the
//! passwords that it sees itself; those that Heddle refuses in its place are counted here, by the numbers
//! that the account has at the server (`farm::PasswordLocking`).
//!
//! Invariants: only accounts that have such numbers are counted, so there are no more than accounts; the
//! decision is pure, the time comes from outside.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farm::{Account, Accounts, AuthPlugin, Engine, PasswordLocking, error};

use crate::proof::Refused;

const DAY_S: u64 = 86_400;

type Key = (Arc<str>, Arc<str>);

/// What has failed for the accounts of one router. The lock is taken at logins of accounts that may be
/// locked so, while any of them has failures.
#[derive(Debug, Default)]
pub struct Locks {
    failing: Mutex<HashMap<Key, Failures>>,
    /// How many accounts have failures.
    count: AtomicUsize,
}

/// The wrong passwords for one account since the last right one.
#[derive(Debug)]
struct Failures {
    in_a_row: u32,
    last: Instant,
    /// Of the account when it was counted. With other numbers, or another password, it counts anew.
    locking: PasswordLocking,
    ways: Vec<AuthPlugin>,
}

/// An account's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lock {
    failures: u32,
    /// For how many days, and how many of them are left; `None` until somebody unlocks it.
    days: Option<(u32, u64)>,
}

impl Locks {
    /// How somebody is refused whose account is locked by wrong passwords, by servers of this engine.
    pub fn refusal(
        &self,
        account: &Account,
        engine: Engine,
        who: impl FnOnce() -> String,
    ) -> Option<Refused> {
        let lock = self.of(account, Instant::now())?;
        if engine == Engine::MariaDb {
            return Some((&error::ACCOUNT_BLOCKED, Vec::new()));
        }
        let (days, left) = match lock.days {
            Some((days, left)) => (days.to_string(), left.to_string()),
            None => ("unlimited".to_owned(), "unlimited".to_owned()),
        };
        let details = vec![who(), days, left, lock.failures.to_string()];
        Some((&error::ACCOUNT_BLOCKED_MYSQL, details))
    }

    /// A wrong password came for the account; `blank` says that none came. True when the client is to be
    /// told at once that this locks the account, as MySQL tells it.
    pub fn password_failed(&self, account: &Account, engine: Engine, blank: bool) -> bool {
        let mariadb = engine == Engine::MariaDb;
        if !(mariadb && blank) {
            self.failed(account, Instant::now());
        }
        !mariadb
    }

    /// A wrong password came for this account.
    fn failed(&self, account: &Account, now: Instant) {
        let Some(locking) = account.locking else {
            return;
        };
        let fresh = || Failures {
            in_a_row: 0,
            last: now,
            locking,
            ways: account.ways.clone(),
        };
        let mut failing = self.lock();
        let failures = failing.entry(key_of(account)).or_insert_with(fresh);
        if !failures.is_of(account) {
            *failures = fresh();
        }
        failures.in_a_row = failures.in_a_row.saturating_add(1);
        failures.last = now;
        self.count.store(failing.len(), Ordering::Relaxed);
    }

    /// The account's lock, if it is locked now.
    fn of(&self, account: &Account, now: Instant) -> Option<Lock> {
        account.locking.filter(|_| self.any())?;
        let mut failing = self.lock();
        let key = key_of(account);
        let failures = failing.get(&key).filter(|of| of.is_of(account))?;
        if failures.in_a_row < failures.locking.failures_max {
            return None;
        }
        let lock = failures.lock_now(now);
        if lock.is_none() {
            // The days are over: it counts anew.
            failing.remove(&key);
            self.count.store(failing.len(), Ordering::Relaxed);
        }
        lock
    }

    /// The right password came for this account.
    pub fn succeeded(&self, account: &Account) {
        if account.locking.is_some() && self.any() {
            let mut failing = self.lock();
            failing.remove(&key_of(account));
            self.count.store(failing.len(), Ordering::Relaxed);
        }
    }

    /// All accounts count anew.
    pub fn unlock_all(&self) {
        self.forget(|_| true);
    }

    /// So do those whose names stand in this text.
    pub fn unlock_named(&self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        self.forget(|(user, _)| text.contains(&**user));
    }

    /// Forgets accounts that are gone.
    pub fn review(&self, accounts: &Accounts) {
        self.forget(|(user, host)| accounts.exactly(user, host).is_none());
    }

    fn forget(&self, which: impl Fn(&Key) -> bool) {
        if self.any() {
            let mut failing = self.lock();
            failing.retain(|key, _| !which(key));
            self.count.store(failing.len(), Ordering::Relaxed);
        }
    }

    fn any(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Failures>> {
        // Nothing that is done under the lock can panic halfway.
        self.failing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Failures {
    /// They were counted of the account as it is now.
    fn is_of(&self, account: &Account) -> bool {
        account.locking == Some(self.locking) && account.ways == self.ways
    }

    /// The lock that they brought, unless it is over.
    fn lock_now(&self, now: Instant) -> Option<Lock> {
        let failures = self.in_a_row;
        let Some(days) = self.locking.days else {
            let days = None;
            return Some(Lock { failures, days });
        };
        let end = self.last + Duration::from_secs(u64::from(days) * DAY_S);
        let left_s = end.checked_duration_since(now)?.as_secs();
        let days = Some((days, left_s.div_ceil(DAY_S)));
        (left_s > 0).then_some(Lock { failures, days })
    }
}

fn key_of(account: &Account) -> Key {
    (account.user.clone(), account.host.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn account(user: &str, locking: Option<(u32, Option<u32>)>) -> Account {
        Account {
            user: user.into(),
            ways: vec![AuthPlugin::Native(Some([1; 20]))],
            locking: locking.map(|(failures_max, days)| PasswordLocking { failures_max, days }),
            ..samples::account()
        }
    }

    #[test]
    fn an_account_is_locked_for_its_days() {
        let (locks, start) = (Locks::default(), Instant::now());
        let days = |days: u64| start + Duration::from_secs(days * DAY_S);
        let app = account("app", Some((2, Some(3))));
        locks.failed(&app, start);
        assert_eq!(locks.of(&app, start), None);
        locks.failed(&app, start);
        let lock = |left| {
            let days = Some((3, left));
            Some(Lock { failures: 2, days })
        };
        assert_eq!(locks.of(&app, start), lock(3));
        assert_eq!(locks.of(&app, days(1)), lock(2));
        assert_eq!(locks.of(&app, days(2) + Duration::from_secs(9)), lock(1));
        assert_eq!(locks.of(&app, days(3)), None);
        locks.failed(&app, days(3));
        assert_eq!(locks.of(&app, days(3)), None, "it counts anew");
    }

    #[test]
    fn a_right_password_a_new_one_and_other_numbers_end_the_count() {
        let (locks, now) = (Locks::default(), Instant::now());
        let app = account("app", Some((2, None)));
        let mut other = app.clone();
        other.ways = vec![AuthPlugin::Native(Some([2; 20]))];
        for end in [
            &(|| locks.succeeded(&app)) as &dyn Fn(),
            &|| locks.unlock_all(),
            &|| locks.unlock_named(b"ALTER USER 'app'@'%' ACCOUNT UNLOCK"),
            &|| locks.review(&Accounts::default()),
            &|| locks.failed(&other, now),
            &|| locks.failed(&account("app", Some((3, None))), now),
        ] {
            locks.unlock_all();
            locks.failed(&app, now);
            locks.failed(&app, now);
            let days = None;
            assert_eq!(locks.of(&app, now), Some(Lock { failures: 2, days }));
            assert_eq!(locks.of(&other, now), None, "it is another password");
            end();
            assert_eq!(locks.of(&app, now), None);
        }
    }

    #[test]
    fn who_is_not_meant_is_not_touched() {
        let (locks, now) = (Locks::default(), Instant::now());
        let [app, free] = [("app", Some((1, None))), ("free", None)].map(|(u, l)| account(u, l));
        locks.failed(&free, now);
        assert!(!locks.any(), "an account without numbers is not counted");
        locks.failed(&app, now);
        locks.unlock_named(b"ALTER USER other ACCOUNT UNLOCK");
        locks.succeeded(&free);
        locks.review(&Accounts::new(vec![app.clone()]));
        assert!(locks.of(&app, now).is_some());
    }
}
