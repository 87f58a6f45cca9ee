//! What an account entitles its clients to at the servers.

use std::sync::Arc;

use backend::{Entitlement, UserAtHost};
use farm::local::LOCAL;
use farm::{Account, Accounts, AuthPlugin};

/// What an account entitles its clients to, as far as it alone is looked at.
pub fn entitlement_of(account: &Account, way: AuthPlugin) -> Entitlement {
    Entitlement {
        user: account.user.clone(),
        host: account.host.clone(),
        way,
        privileges: account.privileges,
        limited: account.connections_max != 0,
        expired: account.expired,
        alike: None,
        is_same_locally: false,
    }
}

/// Whether a client of this name is taken for `account`, one of `accounts`, by a server whose Unix socket it
/// comes by.
pub fn is_same_locally(accounts: &Accounts, user: &str, account: &Account) -> bool {
    let found = accounts.find(user, LOCAL.ip());
    found.is_some_and(|found| std::ptr::eq(found, account))
}

/// The accounts by which a server may take a login of this user and give it no more than `account` may do. `None`:
/// that holds for every account that the server can choose.
pub fn alike_of(accounts: &Accounts, user: &str, account: &Account) -> Option<Arc<[UserAtHost]>> {
    let name = |one: &Account| (one.user.clone(), one.host.clone());
    let alike = accounts.alike(user, account)?;
    Some(alike.into_iter().map(name).collect())
}
