//! What an account entitles its clients to at the servers.

use std::sync::Arc;

use backend::{Entitlement, UserAtHost};
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
    }
}

/// By which accounts the servers may take a login of this user that Heddle finds to be `account`'s; `None`
/// where any will do.
pub fn alike_of(accounts: &Accounts, user: &str, account: &Account) -> Option<Arc<[UserAtHost]>> {
    let name = |one: &Account| (one.user.clone(), one.host.clone());
    let alike = accounts.alike(user, account)?;
    Some(alike.into_iter().map(name).collect())
}
