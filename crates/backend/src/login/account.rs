//! Which account a server took a login for.
//!
//! Heddle finds a client's account by the client's own address. A server finds it by the address of the
//! connection, and that is Heddle's unless a PROXY header names another one. The two accounts may have
//! different privileges. In that case Heddle asks the server for the account that it found, and gives the
//! connection up when it is the other one, so that a client gains no privilege by coming through Heddle.

use farm::error;

use crate::connection::{Connection, ConnectionError};
use crate::login::introduction::refused;
use crate::login::pass::{Pass, Profile, UserAtHost};

/// Of a proxy user `CURRENT_USER()` is the account that it stands for.
const WHO: &[u8] =
    b"SELECT CAST(IFNULL(@@proxy_user, '') AS BINARY), CAST(CURRENT_USER() AS BINARY)";

/// Looks whether the server took the login for an account that may do what the pass's may. Where the
/// accounts have changed since the pass was given, nothing is known of others: it must be the same one.
///
/// # Errors
/// It took it for another one.
pub(crate) async fn check(connection: &mut Connection, pass: &Pass) -> Result<(), ConnectionError> {
    let profile = pass.profile();
    let entitlement = &profile.entitlement;
    let itself = [(entitlement.user.clone(), entitlement.host.clone())];
    let alike = match &entitlement.alike {
        _ if pass.is_stale() && is_own_name(profile) => &itself[..],
        Some(alike) => &alike[..],
        None => return Ok(()),
    };
    let found = match connection.ask(WHO).await {
        // Nothing can be asked, and nothing done, before the password is another.
        Err(ConnectionError::Refused { number: 1820, .. }) if entitlement.expired => return Ok(()),
        found => found?,
    };
    let text = |at: usize| found.get(at).map(|bytes| String::from_utf8_lossy(bytes));
    let (proxied, current) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
    if alike.iter().any(|one| is(one, &proxied, &current)) {
        return Ok(());
    }
    let taken = match proxied.is_empty() {
        true => format!("'{}'", current.replacen('@', "'@'", 1)),
        false => proxied.into_owned(),
    };
    let own = format!("'{}'@'{}'", entitlement.user, entitlement.host);
    let user = String::from_utf8_lossy(&profile.user);
    tracing::warn!(
        "a client of {own} is refused: the server takes it for {taken}, which may do something else; {}",
        error::ACCOUNT_MISTAKEN.cure
    );
    Err(refused(&error::ACCOUNT_MISTAKEN, &[&user, &taken, &own]))
}

/// False where another account logs in to the servers for the client's.
fn is_own_name(profile: &Profile) -> bool {
    let user = &profile.entitlement.user;
    user.is_empty() || user.as_bytes() == &*profile.user
}

/// Whether the server's words are this account's name.
fn is((user, host): &UserAtHost, proxied: &str, current: &str) -> bool {
    match proxied.is_empty() {
        true => current == format!("{user}@{host}"),
        false => proxied == format!("'{user}'@'{host}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_known_by_both_of_its_names() {
        let one: UserAtHost = ("a@b".into(), "10.%".into());
        assert!(is(&one, "", "a@b@10.%"));
        assert!(is(&one, "'a@b'@'10.%'", "role@%"));
        assert!(!is(&one, "", "a@b@10._"));
        assert!(!is(&one, "'other'@'10.%'", "a@b@10.%"));
    }
}
