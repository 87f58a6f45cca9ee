//! Logins that bring the password itself: in clear where nobody can read along, else under the router's
//! RSA key.
//!
//! Invariants: a password in clear is taken inside TLS only; what is told to a server stands for that login,
//! and a password that Heddle cannot check itself is judged by a server each time, never by an idle
//! connection.

use std::sync::Arc;

use ::auth::passwords::is_stored;
use ::auth::proof::{Claim, Offer, Proof, plugin_of};
use backend::{ConnectionError, Credential, PoolError, Profile, Secret};
use execute::client::Client;
use execute::client::end::End;
use execute::connections::home::HOME;
use execute::per_core::Core;
use farm::{Account, AuthPlugin, error};
use mysql_wire::auth;
use zeroize::Zeroizing;

use crate::authentication::login;
use crate::authentication::prove;
use crate::authentication::prove::ask;

/// PAM, LDAP and their like: nobody but them knows the password.
pub(crate) async fn prove_clear(
    core: &Core,
    client: &mut Client,
    claim: &mut Claim<'_>,
    account: &Account,
    way: &AuthPlugin,
) -> Result<Proof, End> {
    let AuthPlugin::Clear { plugin, .. } = way else {
        return Ok(Proof::Wrong);
    };
    if !core.settings().remember_passwords {
        return Ok(Proof::unspeakable(way));
    }
    if !client.is_private() {
        let why = (&error::PASSWORD_NEEDS_TLS, vec![plugin.to_string()]);
        return Ok(Proof::Unspeakable(why));
    }
    let offer = &mut claim.offer;
    ask(offer, client, plugin_of(way)).await?;
    let password = offer.proof.strip_suffix(b"\0").unwrap_or(&offer.proof);
    if password.is_empty() {
        return Ok(Proof::Wrong);
    }
    let secret = Secret::new(password);
    let profile = claim.profile(Credential::Password(secret), account, way.clone());
    if !judged_anew(core, client, profile).await? {
        return Ok(Proof::Wrong);
    }
    let offer = &claim.offer;
    let password = offer.proof.strip_suffix(b"\0").unwrap_or(&offer.proof);
    let secret = core.shared.secrets.remember(account, way, password);
    Ok(Proof::Right(Credential::Password(secret)))
}

/// The two plugins of MySQL by which the password itself may have to come.
pub(crate) async fn prove_sha2(
    core: &Core,
    client: &mut Client,
    claim: &mut Claim<'_>,
    account: &Account,
    way: &AuthPlugin,
    configured: Option<Arc<Secret>>,
) -> Result<Proof, End> {
    let offer = &mut claim.offer;
    if configured.is_none() && !core.settings().remember_passwords {
        return Ok(Proof::unspeakable(way));
    }
    let is_caching = matches!(way, AuthPlugin::CachingSha2(_));
    let plugin = if is_caching {
        auth::CACHING_SHA2
    } else {
        auth::SHA256
    };
    ask(offer, client, plugin).await?;
    if offer.is_blank() {
        return Ok(Proof::Wrong);
    }
    let remembered = configured.or_else(|| core.shared.secrets.find(account, way));
    if let Some(known) = remembered
        && offer.password.is_none()
        && is_caching
        && offer.knows(&known)
    {
        client.fast_ok = true;
        return Ok(Proof::Right(Credential::Password(known)));
    }
    if offer.password.is_none() {
        offer.password = full_password(core, client, offer, is_caching).await?;
    }
    let Some(password) = &offer.password else {
        return Ok(Proof::Wrong);
    };
    let known = core.shared.secrets.find(account, way);
    let same = |known: &Secret| known.with(|known| auth::equal(known, password)) == Some(true);
    if let Some(known) = known.filter(|known| same(known)) {
        return Ok(Proof::Right(Credential::Password(known)));
    }
    // The servers know Heddle by its own address: whether it is this account's password must be
    // seen here, before a server is asked.
    let (asked, stored) = (password.clone(), way.clone());
    let fits = move || is_stored(&asked, &stored);
    if !prove::verified(core, client, fits).await? {
        return Ok(Proof::Wrong);
    }
    let secret = core.shared.secrets.remember(account, way, password);
    let credential = Credential::Password(secret);
    let profile = claim.profile(credential.clone(), account, way.clone());
    // With an expired password nothing more is asked here than the session's own login will ask.
    if account.expired || judged(core, client, profile).await? {
        return Ok(Proof::Right(credential));
    }
    Ok(Proof::Wrong)
}

/// Gets the password itself from the client: in clear where nobody can read along, else under our
/// RSA key. `None` when it did not send it so.
async fn full_password(
    core: &Core,
    client: &mut Client,
    offer: &Offer,
    is_caching: bool,
) -> Result<Option<Zeroizing<Vec<u8>>>, End> {
    let (mut answer, request) = if is_caching {
        login::more(client, &[auth::FULL]).await?;
        (login::next_proof(client).await?, auth::REQUEST_KEY)
    } else {
        (offer.proof.to_vec(), auth::SHA256_REQUEST_KEY)
    };
    let asks = answer == [request];
    // A client may take a Unix socket for a wire, and ask for the key there, too.
    if client.is_private() && !asks {
        let mut password = Zeroizing::new(answer);
        return Ok((password.pop() == Some(0)).then_some(password));
    }
    // A client that has our key already may send the sealed password at once. Anything else is
    // a password in the clear, a client's mistake that is not looked at.
    if !asks && is_caching {
        return Ok(None);
    }
    let Some(pair) = core.shared.login_work.rsa_key.get().await else {
        return Ok(None);
    };
    if asks {
        login::more(client, pair.public_pem.as_bytes()).await?;
        answer = login::next_proof(client).await?;
    }
    let salt = offer.salt.clone();
    let opened = move || pair.open(&answer, &salt).map(Zeroizing::new);
    prove::verified(core, client, opened).await
}

/// Lets a server judge a password: true when it lets us in.
async fn judged(core: &Core, client: &mut Client, profile: Profile) -> Result<bool, End> {
    let pass = core.pools.pass(profile);
    let state = core.pools.state_after_login(None);
    match core.take_from_primary(HOME, &pass, &state, true).await {
        Ok(lease) => {
            lease.release();
            Ok(true)
        }
        Err(PoolError::Connection(ConnectionError::Refused { number: 1045, .. })) => Ok(false),
        Err(error) => Err(client.refuse_pool(&error).await),
    }
}

/// The same by a connection of its own.
async fn judged_anew(core: &Core, client: &mut Client, profile: Profile) -> Result<bool, End> {
    let pass = core.pools.pass(profile);
    let error = match core.primary_target(HOME) {
        Ok(target) => match core.pools.open_extra(&target, &pass).await {
            Ok(_) => return Ok(true),
            Err(ConnectionError::Refused { number: 1045, .. }) => return Ok(false),
            Err(error) => error,
        },
        Err(error) => error,
    };
    Err(client.refuse_pool(&error.into()).await)
}
