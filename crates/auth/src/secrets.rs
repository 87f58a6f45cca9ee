//! Passwords in memory: those that clients have proved by a full login, kept so that their next logins
//! and the connections to servers can use them, and those that the configuration gives.
//!
//! A proved password lives in the passes of its sessions and of the connections that were opened for
//! them; this only finds it again while it does. When its account changes at the servers it is
//! overwritten, whoever still holds it.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use backend::Secret;
use farm::{Account, Accounts, AuthPlugin};

/// Accounts between two removals of those whose passwords are gone.
const FORGOTTEN_MAX: usize = 1000;

type Key = (Arc<str>, Arc<str>);

/// The passwords of one account: one for each of its ways to log in.
type OfAccount = Vec<Known>;

/// The remembered passwords of one router. Touched at logins, and when accounts change.
#[derive(Default)]
pub struct Secrets {
    known: Mutex<HashMap<Key, OfAccount>>,
    /// Accounts by which nobody can come in, of which the log has been told.
    refused: Mutex<HashSet<Key>>,
}

struct Known {
    /// What the account's way to log in was when the password was proved.
    way: AuthPlugin,
    secret: Weak<Secret>,
}

impl Known {
    fn is_held(&self) -> bool {
        self.secret.strong_count() > 0
    }
}

impl Secrets {
    /// The password that was proved for this way of this account as it is now.
    pub fn find(&self, account: &Account, way: &AuthPlugin) -> Option<Arc<Secret>> {
        let all = self.lock();
        let mut known = all.get(&key(account))?.iter();
        known.find(|known| known.way == *way)?.secret.upgrade()
    }

    /// Remembers a password that fits, and gives what is to be held: another client may have brought
    /// the same one.
    pub fn remember(&self, account: &Account, way: &AuthPlugin, password: &[u8]) -> Arc<Secret> {
        let secret = Secret::new(password);
        let mut all = self.lock();
        if all.len() >= FORGOTTEN_MAX {
            all.retain(|_, known| {
                known.retain(Known::is_held);
                !known.is_empty()
            });
        }
        let known = all.entry(key(account)).or_default();
        let before = known.iter().find(|known| known.way == *way);
        let before = before.and_then(|known| known.secret.upgrade());
        if let Some(before) = before.filter(|before| **before == *secret) {
            return before;
        }
        known.retain(|known| known.is_held() && known.way != *way);
        known.push(Known {
            way: way.clone(),
            secret: Arc::downgrade(&secret),
        });
        secret
    }

    /// Overwrites the passwords of accounts that are gone or prove themselves otherwise now.
    pub fn review(&self, accounts: &Accounts) {
        self.lock().retain(|(user, host), known| {
            let account = accounts.exactly(user, host);
            known.retain(|known| {
                let stays = account.is_some_and(|account| account.ways.contains(&known.way));
                if !stays && let Some(secret) = known.secret.upgrade() {
                    secret.wipe();
                }
                stays && known.is_held()
            });
            !known.is_empty()
        });
    }

    /// True the first time that it is asked about an account; false, too, when it was asked about very many.
    pub fn is_new_refusal(&self, account: &Account) -> bool {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.len() < FORGOTTEN_MAX && refused.insert(key(account))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, OfAccount>> {
        // Every change is one call, so a panic cannot leave it half done.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn key(account: &Account) -> Key {
    (account.user.clone(), account.host.clone())
}

/// How to log in to the servers for an account whose clients do not reveal it: from the
/// configuration.
pub struct BackendCredential {
    pub user: String,
    /// The host pattern of the account; `None` for the accounts of every host.
    pub host: Option<String>,
    /// What logs in to the servers, and for plugins that Heddle cannot check what clients must know.
    pub password: Arc<Secret>,
    /// The account to use on the servers, when it is not the client's own.
    pub server_user: Option<String>,
}

impl BackendCredential {
    /// The first of `all` that is meant for this account.
    pub fn of<'a>(all: &'a [BackendCredential], account: &Account) -> Option<&'a Self> {
        all.iter().find(|one| {
            one.user == *account.user && one.host.as_ref().is_none_or(|h| **h == *account.host)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn account(way: &AuthPlugin) -> Account {
        Account {
            ways: vec![way.clone()],
            ..samples::account()
        }
    }

    fn way(verifier: &str) -> AuthPlugin {
        AuthPlugin::CachingSha2(Arc::from(verifier.as_bytes()))
    }

    #[test]
    fn a_password_is_found_while_somebody_holds_it() {
        let (secrets, way) = (Secrets::default(), way("one"));
        let account = account(&way);
        let held = secrets.remember(&account, &way, b"secret");
        assert!(secrets.find(&account, &way).is_some());
        let again = secrets.remember(&account, &way, b"secret");
        assert!(Arc::ptr_eq(&held, &again), "one copy in memory");
        drop((held, again));
        assert!(secrets.find(&account, &way).is_none());
    }

    #[test]
    fn a_change_of_the_account_overwrites_the_password() {
        let (secrets, one, two) = (Secrets::default(), way("one"), way("two"));
        let held = secrets.remember(&account(&one), &one, b"secret");
        secrets.review(&Accounts::new(vec![account(&one)]));
        assert_eq!(held.with(<[u8]>::len), Some(6));
        assert!(secrets.find(&account(&two), &two).is_none());
        secrets.review(&Accounts::new(vec![account(&two)]));
        assert_eq!(held.with(<[u8]>::len), None);
        let held = secrets.remember(&account(&two), &two, b"secret");
        secrets.review(&Accounts::default());
        assert_eq!(held.with(<[u8]>::len), None, "dropped");
    }

    #[test]
    fn an_account_has_a_password_for_each_of_its_ways() {
        let (secrets, one, two) = (Secrets::default(), way("one"), way("two"));
        let mut both = account(&one);
        both.ways.push(two.clone());
        let first = secrets.remember(&both, &one, b"first");
        let second = secrets.remember(&both, &two, b"second");
        let is =
            |way, held| secrets.find(&both, way).is_some_and(|found| Arc::ptr_eq(&found, held));
        assert!(is(&one, &first) && is(&two, &second));
        secrets.review(&Accounts::new(vec![account(&two)]));
        assert_eq!(first.with(<[u8]>::len), None, "discarded");
        assert_eq!(second.with(<[u8]>::len), Some(6));
    }

    #[test]
    fn a_configured_credential_names_its_account() {
        let credential = |user: &str, host: Option<&str>| BackendCredential {
            user: user.to_owned(),
            host: host.map(str::to_owned),
            password: Secret::new(b"x"),
            server_user: None,
        };
        let account = account(&way("one"));
        let fits = |one| BackendCredential::of(&[one], &account).is_some();
        assert!(fits(credential("app", None)) && fits(credential("app", Some("%"))));
        assert!(!fits(credential("app", Some("10.%"))) && !fits(credential("ap", None)));
    }
}
