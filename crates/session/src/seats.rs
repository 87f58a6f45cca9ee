//! How many clients are logged in as each account. Servers count connections, which Heddle shares
//! among clients; what an account's limit means for clients is kept here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farm::{Account, ClientError, error};

type Key = (Arc<str>, Arc<str>);

/// The sessions of one router by account.
#[derive(Debug, Default)]
pub struct Seats {
    taken: Mutex<HashMap<Key, u32>>,
}

/// A client's place among those of its account; given up when dropped.
#[derive(Debug)]
pub struct Seat {
    seats: Arc<Seats>,
    key: Key,
}

impl Seats {
    /// A place for one more client of this account. Its own limit goes before `connections_max`, the
    /// one for accounts without; 0 is no limit.
    ///
    /// # Errors
    /// What the servers say, with the details for its text.
    pub fn take(
        self: &Arc<Self>,
        account: &Account,
        connections_max: u32,
    ) -> Result<Seat, (&'static ClientError, Vec<String>)> {
        let key = (account.user.clone(), account.host.clone());
        let mut taken = self.lock();
        let count = taken.entry(key.clone()).or_default();
        let user = account.user.to_string();
        let own = account.connections_max;
        if own != 0 && *count >= own {
            let details = vec![user, "max_user_connections".to_owned(), count.to_string()];
            return Err((&error::USER_LIMIT_REACHED, details));
        }
        if own == 0 && connections_max != 0 && *count >= connections_max {
            return Err((&error::TOO_MANY_USER_CONNECTIONS, vec![user]));
        }
        *count += 1;
        drop(taken);
        Ok(Seat {
            seats: self.clone(),
            key,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, u32>> {
        // Every change is one number, so a panic cannot leave it half done.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.lock();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_accounts_own_limit_goes_first_and_seats_come_back() {
        let mut account = Account {
            user: "app".into(),
            host: "%".into(),
            ways: Vec::new(),
            locked: false,
            expired: false,
            tls: farm::TlsDemand::None,
            connections_max: 2,
            admin: false,
            privileges: 0,
        };
        let seats = Arc::new(Seats::default());
        let one = seats.take(&account, 1).expect("the account's limit is 2");
        let _two = seats.take(&account, 1).expect("the second");
        let full = seats.take(&account, 1).expect_err("no third");
        assert_eq!(full.0.number, 1226);
        drop(one);
        let _three = seats.take(&account, 1).expect("a seat came back");
        account.connections_max = 0;
        let full = seats.take(&account, 1).expect_err("the limit for all");
        assert_eq!(full.0.number, 1203);
        assert!(seats.take(&account, 0).is_ok());
    }
}
