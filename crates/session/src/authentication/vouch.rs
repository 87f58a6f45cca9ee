//! Logins with a name and a password in the clear, for doors whose protocols have nothing better. The
//! accounts are those of the servers, and so are the rules: host patterns, locks, demands on TLS, and
//! how many clients an account may have.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use ::auth::account_places::AccountPlace;
use ::auth::entitled::{alike_of, entitlement_of, is_same_locally};
use ::auth::passwords::{fits, is_stored};
use ::auth::secrets::BackendCredential;
use ::auth::verifiers::Unverified;
use backend::{Credential, Entitlement, Profile, Secret};
use execute::own_account::COLLATION;
use execute::per_core::Core;
use farm::{Account, Accounts, AuthPlugin, TlsFacts};
use memory::Budget;
use mysql_wire::auth;
use mysql_wire::capability::Capabilities;
use reactor::Closer;
use zeroize::Zeroizing;

use crate::authentication::prove::{lock_of, verify};

/// What a client says of itself, and how it is connected.
pub struct PlainLogin<'a> {
    pub user: &'a str,
    pub password: &'a [u8],
    pub peer: IpAddr,
    pub tls: Option<&'a TlsFacts>,
    pub closer: Closer,
}

/// Somebody who proved who it is.
pub struct Admitted {
    /// It may change the farm.
    pub admin: bool,
    pub(crate) profile: Profile,
    /// By which it was admitted, or looked at last.
    accounts: Arc<Accounts>,
    /// Its place among the clients of its account; given up when dropped.
    account_place: AccountPlace,
}

/// How somebody who was admitted stands now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// As before.
    Same,
    /// What the account may do has changed, or may have.
    Other,
    /// The account is gone or locked, or has another password.
    Gone,
}

impl Admitted {
    /// The budget that the clients of its account share.
    pub fn memory(&self) -> &Arc<Budget> {
        self.account_place.memory()
    }

    /// Looks at the accounts as they are known now. What a server would leave to a session that is there ends
    /// here with the account.
    pub fn look_again(&mut self, core: &Core) -> Standing {
        let published = core.glance();
        if Arc::ptr_eq(&published.accounts, &self.accounts) {
            return Standing::Same;
        }
        let before = std::mem::replace(&mut self.accounts, Arc::clone(&published.accounts));
        core.heed(&self.accounts);
        let entitlement = &mut self.profile.entitlement;
        let found = self.accounts.exactly(&entitlement.user, &entitlement.host);
        let is_open =
            |one: &&Account| !one.locked && !one.expired && one.ways.contains(&entitlement.way);
        let Some(account) = found.filter(is_open) else {
            return Standing::Gone;
        };
        let user = String::from_utf8_lossy(&self.profile.user);
        let alike = alike_of(&self.accounts, &user, account);
        let same = account.privileges == entitlement.privileges
            && alike == entitlement.alike
            && account.admin == self.admin
            && before.databases == self.accounts.databases;
        *entitlement = Entitlement {
            alike,
            is_same_locally: is_same_locally(&self.accounts, &user, account),
            ..entitlement_of(account, entitlement.way.clone())
        };
        self.admin = account.admin;
        match same {
            true => Standing::Same,
            false => Standing::Other,
        }
    }
}

/// Nobody is let in so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The client did not prove who it is. It is not told why, as that would tell which accounts there
    /// are; the text is for the log.
    Unproved(String),
    /// It did, and the account may not be used so. It is not told either.
    Refused(String),
    /// Too many passwords wait to be verified.
    Busy,
    /// The client has left.
    Gone,
}

impl From<Unverified> for Denied {
    fn from(why: Unverified) -> Denied {
        match why {
            Unverified::Full | Unverified::Undone => Denied::Busy,
            Unverified::Gone => Denied::Gone,
        }
    }
}

/// Looks whether the password is this user's. Before somebody is refused the accounts are read once
/// more.
///
/// # Errors
/// It is not, or the account may not be used so.
pub async fn admit(core: &Core, login: &PlainLogin<'_>) -> Result<Admitted, Denied> {
    let mut accounts = core.shared.accounts_as_told().await;
    loop {
        let denied = match look(core, &accounts, login).await {
            Ok(admitted) => {
                core.shared.entrance.succeeded(login.peer);
                return Ok(admitted);
            }
            Err(early @ (Denied::Busy | Denied::Gone)) => return Err(early),
            Err(denied) => denied,
        };
        let newer = core.shared.accounts_anew().await;
        // The loop ends: the accounts do not change for ever between two readings.
        if newer == accounts {
            // Without accounts nobody can prove anything.
            if matches!(denied, Denied::Unproved(_)) && !accounts.is_empty() {
                core.shared.entrance.failed(login.peer, &core.settings().logins);
                if let Some(account) = accounts.find(login.user, login.peer) {
                    let blank = login.password.is_empty();
                    if core.shared.locks.password_failed(account, core.home_engine(), blank) {
                        lock_of(core, account, || login.user.to_owned());
                    }
                }
            }
            return Err(denied);
        }
        accounts = newer;
    }
}

async fn look(
    core: &Core,
    accounts: &Arc<Accounts>,
    login: &PlainLogin<'_>,
) -> Result<Admitted, Denied> {
    let (user, peer) = (login.user, login.peer);
    let denied = |why: &str| Err(Denied::Refused(format!("{user}@{peer}: {why}")));
    let unproved = |why: &str| Err(Denied::Unproved(format!("{user}@{peer}: {why}")));
    let Some(account) = accounts.find(user, peer) else {
        return unproved("there is no such account");
    };
    if lock_of(core, account, || user.to_owned()).is_some() {
        return denied("wrong passwords have locked the account");
    }
    let Some(way) = fitting(core, account, login).await? else {
        return unproved("the password is wrong");
    };
    // Others may have guessed meanwhile.
    if lock_of(core, account, || user.to_owned()).is_some() {
        return denied("wrong passwords have locked the account");
    }
    core.shared.locks.succeeded(account);
    if !account.tls.is_met(login.tls) {
        return denied("the account wants TLS, or more of it");
    }
    if account.locked || account.expired {
        return denied("the account is locked, or its password has expired");
    }
    match account_place(core, account).await {
        Ok(account_place) => Ok(Admitted {
            admin: account.admin,
            accounts: Arc::clone(accounts),
            profile: profile_of(core, accounts, account, way, login),
            account_place,
        }),
        Err(why) => denied(&why),
    }
}

/// The first of the account's ways to log in that takes the password.
async fn fitting<'a>(
    core: &Core,
    account: &'a Account,
    login: &PlainLogin<'_>,
) -> Result<Option<&'a AuthPlugin>, Unverified> {
    let configured = BackendCredential::of(&core.shared.backend_credentials, account);
    for way in &account.ways {
        let fits = match way {
            AuthPlugin::CachingSha2(hash) | AuthPlugin::Sha256(hash) if !hash.is_empty() => {
                fits_stored(core, account, way, login).await?
            }
            AuthPlugin::Parsec { .. } => fits_stored(core, account, way, login).await?,
            way => fits(way, configured, login.password),
        };
        if fits {
            return Ok(Some(way));
        }
    }
    Ok(None)
}

/// What was right before need not be hashed again.
async fn fits_stored(
    core: &Core,
    account: &Account,
    way: &AuthPlugin,
    login: &PlainLogin<'_>,
) -> Result<bool, Unverified> {
    let same = |known: &Secret| known.with(|known| auth::equal(known, login.password));
    let known = core.shared.secrets.find(account, way);
    if known.is_some_and(|known| same(&known) == Some(true)) {
        return Ok(true);
    }
    let (password, way) = (Zeroizing::new(login.password.to_vec()), way.clone());
    let fits = move || is_stored(&password, &way);
    verify(core, &login.closer, fits).await
}

/// As the account's connections to servers are opened.
fn profile_of(
    core: &Core,
    accounts: &Accounts,
    account: &Account,
    way: &AuthPlugin,
    login: &PlainLogin<'_>,
) -> Profile {
    let password = login.password;
    let credential = match password.is_empty() {
        true => Credential::Empty,
        false => {
            let secrets = &core.shared.secrets;
            Credential::Password(secrets.remember(account, way, password))
        }
    };
    Profile {
        user: Rc::from(account.user.as_bytes()),
        credential,
        collation: COLLATION,
        flags: Capabilities::empty(),
        client: Some(login.peer),
        entitlement: Entitlement {
            alike: alike_of(accounts, login.user, account),
            is_same_locally: is_same_locally(accounts, login.user, account),
            ..entitlement_of(account, way.clone())
        },
    }
}

async fn account_place(core: &Core, account: &Account) -> Result<AccountPlace, String> {
    let connections_max = core.settings().user_connections_max;
    let account_places = &core.shared.account_places;
    let taken = account_places.take(account, connections_max, &*core.shared.peers);
    taken.await.map_err(|(error, details)| {
        let details: Vec<&str> = details.iter().map(String::as_str).collect();
        error.text(&details)
    })
}
