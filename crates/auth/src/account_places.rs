//! How many clients are logged in as each account. Servers count connections, which Heddle shares
//! among clients; what an account's limit means for clients is kept here, and the budget of memory that the
//! clients of an account share. In a farm of several routers a client also needs one of the permits that the
//! routers share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use farm::{Account, Permits, error};
use futures_channel::oneshot;
use memory::Budget;

use crate::proof::Refused;

/// The permits that the routers of a farm share. Implemented by who speaks with them.
pub trait SharedPermits {
    /// What limits of accounts are counted by; `None` where no other router can ever be.
    fn permits(&self) -> Option<&Arc<Permits>>;

    /// Has a permit brought for a client of this account, whose limit over the farm is `limit`; false
    /// when there is none. `reply` may be called from any thread.
    fn permit(&self, account: String, limit: u32, reply: Box<dyn FnOnce(bool) + Send>);
}

type Key = (Arc<str>, Arc<str>);

/// A permit that was brought may be taken by another client; so often it is asked for again.
const TRIES: u32 = 100;

/// The sessions of one router by account.
#[derive(Debug)]
pub struct AccountPlaces {
    taken: Mutex<HashMap<Key, Clients>>,
    memory: Arc<Budget>,
}

/// The clients of one account.
#[derive(Debug)]
struct Clients {
    count: u32,
    memory: Arc<Budget>,
}

/// A client's place among those of its account; given up when dropped.
#[derive(Debug)]
pub struct AccountPlace {
    account_places: Arc<AccountPlaces>,
    key: Key,
    memory: Arc<Budget>,
    _permit: Option<Permit>,
}

impl AccountPlace {
    /// The budget that the clients of the account share.
    pub fn memory(&self) -> &Arc<Budget> {
        &self.memory
    }
}

/// One of the permits that routers share; given back when dropped.
#[derive(Debug)]
struct Permit {
    permits: Arc<Permits>,
    account: String,
}

impl Permit {
    /// `None` when the farm has no more.
    async fn take(
        permits: &Arc<Permits>,
        account: String,
        limit: u32,
        peers: &(impl SharedPermits + ?Sized),
    ) -> Option<Permit> {
        for _ in 0..TRIES {
            if permits.take(&account) {
                let permits = permits.clone();
                return Some(Permit { permits, account });
            }
            let (tell, told) = oneshot::channel();
            // A client that has gone away waits for no answer.
            let reply = move |brought| {
                let _ = tell.send(brought);
            };
            peers.permit(account.clone(), limit, Box::new(reply));
            // Dropped untold when the router ends.
            if !told.await.unwrap_or(false) {
                return None;
            }
        }
        None
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.permits.leave(&self.account);
    }
}

impl AccountPlaces {
    /// No client is logged in yet. The accounts' budgets are parts of `memory`, the budget of the process.
    pub fn new(memory: Arc<Budget>) -> AccountPlaces {
        AccountPlaces {
            taken: Mutex::default(),
            memory,
        }
    }

    /// A place for one more client of this account. Its own limit goes before `connections_max`, the
    /// one for accounts without; 0 is no limit. Waits for the farm's other routers where limits hold
    /// over them and this one has no permit left.
    ///
    /// # Errors
    /// What the servers say, with the details for its text.
    pub async fn take(
        self: &Arc<Self>,
        account: &Account,
        connections_max: u32,
        peers: &(impl SharedPermits + ?Sized),
    ) -> Result<AccountPlace, Refused> {
        let own = account.connections_max;
        let limit = if own == 0 { connections_max } else { own };
        let full = |count: u32| -> Refused {
            let user = account.user.to_string();
            match own {
                0 => (&error::TOO_MANY_USER_CONNECTIONS, vec![user]),
                _ => {
                    let details = vec![user, "max_user_connections".to_owned(), count.to_string()];
                    (&error::USER_LIMIT_REACHED, details)
                }
            }
        };
        let permit = match peers.permits().filter(|_| limit != 0) {
            None => None,
            Some(permits) => {
                let account = format!("{}@{}", account.user, account.host);
                let taken = Permit::take(permits, account, limit, peers).await;
                Some(taken.ok_or_else(|| full(limit))?)
            }
        };
        let key = (account.user.clone(), account.host.clone());
        let mut taken = self.lock();
        let clients = taken.entry(key.clone()).or_insert_with(|| Clients {
            count: 0,
            memory: Arc::new(Budget::of_account(&self.memory)),
        });
        if permit.is_none() && limit != 0 && clients.count >= limit {
            return Err(full(clients.count));
        }
        clients.count += 1;
        let memory = clients.memory.clone();
        drop(taken);
        Ok(AccountPlace {
            account_places: self.clone(),
            key,
            memory,
            _permit: permit,
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Clients>> {
        // Every change is one number or one entry, so a panic cannot leave it half done.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AccountPlace {
    fn drop(&mut self) {
        let mut taken = self.account_places.lock();
        if let Some(clients) = taken.get_mut(&self.key) {
            clients.count -= 1;
            if clients.count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::samples;

    /// The future of a value that nobody has to wait for.
    fn now<T>(future: impl Future<Output = T>) -> T {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(value) => value,
            Poll::Pending => panic!("it waits"),
        }
    }

    fn places() -> AccountPlaces {
        AccountPlaces::new(Arc::new(Budget::new(1 << 20)))
    }

    fn account(connections_max: u32) -> Account {
        Account {
            connections_max,
            ..samples::account()
        }
    }

    #[test]
    fn the_accounts_own_limit_goes_first_and_seats_come_back() {
        let limited = account(2);
        let account_places = Arc::new(places());
        let take = |account: &Account, max| now(account_places.take(account, max, &Alone));
        let one = take(&limited, 1).expect("the account's limit is 2");
        let _two = take(&limited, 1).expect("the second");
        let full = take(&limited, 1).expect_err("no third");
        assert_eq!((full.0.number, full.1[2].as_str()), (1226, "2"));
        drop(one);
        let _three = take(&limited, 1).expect("an account place came back");
        let full = take(&account(0), 1).expect_err("the limit for all");
        assert_eq!(full.0.number, 1203);
        assert!(take(&account(0), 0).is_ok());
    }

    #[test]
    fn clients_of_one_account_share_their_memory() {
        let account_places = Arc::new(places());
        let take = |user: &str| {
            let account = Account {
                user: user.into(),
                ..samples::account()
            };
            now(account_places.take(&account, 0, &Alone)).expect("no limit")
        };
        let (one, two, other) = (take("shop"), take("shop"), take("crm"));
        assert!(Arc::ptr_eq(one.memory(), two.memory()));
        assert!(!Arc::ptr_eq(one.memory(), other.memory()));
    }

    /// A router that is alone for ever.
    struct Alone;

    impl SharedPermits for Alone {
        fn permits(&self) -> Option<&Arc<Permits>> {
            None
        }

        fn permit(&self, _account: String, _limit: u32, reply: Box<dyn FnOnce(bool) + Send>) {
            reply(true);
        }
    }

    /// A farm with this many permits left.
    #[derive(Default)]
    struct Left {
        left: AtomicU32,
        permits: Arc<Permits>,
    }

    impl SharedPermits for Left {
        fn permits(&self) -> Option<&Arc<Permits>> {
            Some(&self.permits)
        }

        fn permit(&self, account: String, _limit: u32, reply: Box<dyn FnOnce(bool) + Send>) {
            let left = self.left.load(Ordering::Relaxed);
            if left > 0 {
                self.left.store(left - 1, Ordering::Relaxed);
                self.permits.add(&account, 1);
            }
            reply(left > 0);
        }
    }

    #[test]
    fn a_client_needs_a_permit_of_the_farm() {
        let (farm, account_places) = (Left::default(), Arc::new(places()));
        farm.left.store(2, Ordering::Relaxed);
        let take = |account: &Account, max| now(account_places.take(account, max, &farm));
        let one = take(&account(9), 0).expect("a permit");
        let _two = take(&account(9), 0).expect("the last one");
        let full = take(&account(9), 0).expect_err("others have the rest");
        assert_eq!((full.0.number, full.1[2].as_str()), (1226, "9"));
        assert!(take(&account(0), 0).is_ok(), "no limit, no permit");
        drop(one);
        assert!(take(&account(9), 0).is_ok(), "the permit came back");
    }
}
