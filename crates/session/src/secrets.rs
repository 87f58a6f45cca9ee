//! Passwords that clients have proved by a full login, kept in memory so that their next logins and
//! the connections to servers can use `caching_sha2_password`. A changed password at the server
//! changes the account's authentication string and with it the key, so an old secret is never used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use farm::Account;

/// Accounts whose passwords are remembered; when full, the map starts anew and clients log in fully
/// once more.
const SECRETS_MAX: usize = 10_000;

type Key = (Arc<str>, Arc<str>, Arc<[u8]>);

/// The remembered passwords of one router. Touched at logins only.
#[derive(Default)]
pub struct Secrets {
    passwords: Mutex<HashMap<Key, Arc<[u8]>>>,
}

impl Secrets {
    /// The password that was proved for this account as it is now.
    pub fn find(&self, account: &Account, verifier: &Arc<[u8]>) -> Option<Arc<[u8]>> {
        let passwords = self
            .passwords
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        passwords.get(&key(account, verifier)).cloned()
    }

    /// Remembers a password that a server has accepted.
    pub fn remember(&self, account: &Account, verifier: &Arc<[u8]>, password: &[u8]) {
        let mut passwords = self
            .passwords
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if passwords.len() >= SECRETS_MAX {
            passwords.clear();
        }
        passwords.retain(|(user, host, _), _| *user != account.user || *host != account.host);
        passwords.insert(key(account, verifier), password.into());
    }
}

fn key(account: &Account, verifier: &Arc<[u8]>) -> Key {
    (account.user.clone(), account.host.clone(), verifier.clone())
}
