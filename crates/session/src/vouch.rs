//! Logins with a name and a password in the clear, for doors whose protocols have nothing better. The
//! accounts are those of the servers, and so are the rules: host patterns, locks, demands on TLS, and
//! how many clients an account may have.

use std::net::IpAddr;
use std::rc::Rc;

use backend::{Credential, Entitlement, Profile};
use farm::{Account, Accounts, AuthPlugin, TlsFacts};
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;

use crate::berths::Berth;
use crate::lane::COLLATION;
use crate::per_core::Core;
use crate::secrets::BackendCredential;

/// Somebody who proved who it is.
pub struct Admitted {
    /// It may change the farm.
    pub admin: bool,
    pub(crate) profile: Profile,
    /// Its place among the clients of its account; given up when dropped.
    _berth: Berth,
}

/// Nobody is let in so. Clients are not told why, as that would tell them which accounts there are; the
/// text is for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied(pub String);

impl Core {
    /// Looks whether the password is this user's. Before somebody is refused the accounts are read once
    /// more.
    ///
    /// # Errors
    /// It is not, or the account may not be used so.
    pub async fn admit(
        &self,
        user: &str,
        password: &[u8],
        peer: IpAddr,
        tls: Option<&TlsFacts>,
    ) -> Result<Admitted, Denied> {
        let mut accounts = self.shared.accounts_as_told().await;
        loop {
            let denied = match self.look(&accounts, user, password, peer, tls).await {
                Ok(admitted) => return Ok(admitted),
                Err(denied) => denied,
            };
            let newer = self.shared.accounts_anew().await;
            // The loop ends: the accounts do not change for ever between two readings.
            if newer == accounts {
                return Err(denied);
            }
            accounts = newer;
        }
    }

    async fn look(
        &self,
        accounts: &Accounts,
        user: &str,
        password: &[u8],
        peer: IpAddr,
        tls: Option<&TlsFacts>,
    ) -> Result<Admitted, Denied> {
        let denied = |why: &str| Err(Denied(format!("{user}@{peer}: {why}")));
        let Some(account) = accounts.find(user, peer) else {
            return denied("there is no such account");
        };
        let configured = BackendCredential::of(&self.shared.backend_credentials, account);
        let fits = |way| fits(way, configured, password);
        let Some(way) = account.ways.iter().find(|way| fits(way)) else {
            return denied("the password is wrong");
        };
        if !account.tls.is_met(tls) {
            return denied("the account wants TLS, or more of it");
        }
        if account.locked || account.expired {
            return denied("the account is locked, or its password has expired");
        }
        match self.berth(account).await {
            Ok(berth) => Ok(Admitted {
                admin: account.admin,
                profile: self.profile_of(account, way, password),
                _berth: berth,
            }),
            Err(why) => denied(&why),
        }
    }

    /// As the account's connections to servers are opened.
    fn profile_of(&self, account: &Account, way: &AuthPlugin, password: &[u8]) -> Profile {
        let credential = match password.is_empty() {
            true => Credential::Empty,
            false => {
                let secrets = &self.shared.secrets;
                Credential::Password(secrets.remember(account, way, password))
            }
        };
        Profile {
            user: Rc::from(account.user.as_bytes()),
            credential,
            collation: COLLATION,
            flags: Capabilities::empty(),
            entitlement: Entitlement {
                user: account.user.clone(),
                host: account.host.clone(),
                way: way.clone(),
                privileges: account.privileges,
                limited: account.connections_max != 0,
                expired: account.expired,
            },
        }
    }

    async fn berth(&self, account: &Account) -> Result<Berth, String> {
        let connections_max = self.settings().user_connections_max;
        let berths = &self.shared.berths;
        let taken = berths.take(account, connections_max, &*self.shared.peers);
        taken.await.map_err(|(error, details)| {
            let details: Vec<&str> = details.iter().map(String::as_str).collect();
            error.text(&details)
        })
    }
}

/// One of the account's ways to log in takes this password.
fn fits(way: &AuthPlugin, configured: Option<&BackendCredential>, password: &[u8]) -> bool {
    match way {
        AuthPlugin::Native(None) => password.is_empty(),
        AuthPlugin::Native(Some(stage2)) => {
            auth::native_stage2(&auth::native_stage1(password)) == *stage2
        }
        AuthPlugin::CachingSha2(hash) | AuthPlugin::Sha256(hash) if hash.is_empty() => {
            password.is_empty()
        }
        AuthPlugin::CachingSha2(hash) => auth::sha2_stored_verify(password, hash),
        AuthPlugin::Sha256(hash) => auth::sha256_stored_verify(password, hash),
        AuthPlugin::Ed25519(public) => auth::ed25519_public(password) == *public,
        AuthPlugin::Unsupported(_) => configured.is_some_and(|one| {
            let same = |known: &[u8]| auth::equal(known, password);
            one.password.with(same) == Some(true)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_fits_its_own_account() {
        let hash = auth::native_stage2(&auth::native_stage1(b"secret"));
        let cases = [
            (AuthPlugin::Native(None), "", "secret"),
            (AuthPlugin::Native(Some(hash)), "secret", ""),
            (
                AuthPlugin::Ed25519(auth::ed25519_public(b"secret")),
                "secret",
                "Secret",
            ),
            (AuthPlugin::CachingSha2(Vec::new().into()), "", "x"),
        ];
        for (way, right, wrong) in cases {
            assert!(fits(&way, None, right.as_bytes()), "{way:?}");
            assert!(!fits(&way, None, wrong.as_bytes()), "{way:?}");
        }
        let unknown = AuthPlugin::Unsupported("pam".into());
        assert!(!fits(&unknown, None, b""));
    }
}
