//! Whether a client is who it says.
//!
//! Heddle decides who may log in from the servers' own accounts, and must then be able to log in to
//! servers itself. What the plugins give for that:
//! - `mysql_native_password`: the client's proof, checked against the server's hash, reveals
//!   SHA1(password), which logs in to servers.
//! - `caching_sha2_password`: the first login of an account is a full one, checked here and by a
//!   server; the password is remembered while somebody needs it, and checks later scrambles.
//! - `sha256_password`: every login brings the password.
//! - PAM, LDAP and their like: every login brings the password, and a server has it judged.
//! - `client_ed25519`, `parsec`, and plugins that Heddle does not speak: nothing. The configuration has to
//!   give a backend credential; for a plugin that cannot be checked here, the client proves that it knows
//!   the same password.
//! - `unix_socket`, `auth_socket`: the kernel says who is at the other end of a Unix socket. That reveals
//!   nothing either.
//! - Several factors: nothing that one proof could replace. The configuration has to name another account
//!   for the servers.
//!
//! Invariant: nobody is refused by an account as it was. Before a refusal the accounts are read once
//! more, so a client may log in as soon as its account is made or changed.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use ::auth::account_places::AccountPlace;
use ::auth::entitled::{alike_of, is_same_locally};
use ::auth::proof::{Claim, Offer, Proof, Refused, plugin_of};
use ::auth::salt;
use ::auth::secrets::BackendCredential;
use ::auth::verifiers::Unverified;
use backend::{Credential, Profile, Secret};
use channel::Channel;
use execute::client::Client;
use execute::client::end::End;
use execute::connections::home::HOME;
use execute::counters::count;
use execute::per_core::Core;
use farm::{Account, Accounts, AuthPlugin, error};
use mysql_wire::auth::{self, ParsecTerms};
use mysql_wire::capability::Capabilities;
use reactor::Closer;
use zeroize::Zeroizing;

use crate::authentication::login;
use crate::authentication::reveal;

/// A claim that was proved.
pub struct Admission {
    pub profile: Profile,
    pub admin: bool,
    pub account_place: AccountPlace,
}

/// How a claim fares with the accounts as they are known now.
enum Verdict {
    Admitted(Box<Admission>),
    Refused(Refused),
    /// There is no such account, or the password is not its.
    Unproved,
}

/// Proves a claim against the accounts of the farm. The client has been told when this fails.
pub async fn authenticate(
    core: &Core,
    client: &mut Client,
    peer: IpAddr,
    mut claim: Claim<'_>,
) -> Result<Admission, End> {
    let mut accounts = core.shared.accounts_as_told().await;
    loop {
        let verdict = weigh(core, client, peer, &mut claim, &accounts).await?;
        let refused = match verdict {
            Verdict::Admitted(admission) => {
                core.heed(&accounts);
                core.shared.entrance.succeeded(peer);
                return Ok(*admission);
            }
            Verdict::Refused(refused) => Some(refused),
            Verdict::Unproved => None,
        };
        let newer = core.shared.accounts_anew().await;
        // The loop ends: the accounts do not change for ever between two readings.
        if newer == accounts {
            let refused = refused.unwrap_or_else(|| unproved(core, &claim, peer, &accounts));
            let (error, details) = refused;
            let details: Vec<&str> = details.iter().map(String::as_str).collect();
            return Err(client.refuse(error, &details).await);
        }
        accounts = newer;
    }
}

/// Counts a claim that was not proved; how it is refused.
fn unproved(core: &Core, claim: &Claim<'_>, peer: IpAddr, accounts: &Accounts) -> Refused {
    // Without accounts nobody can prove anything.
    if !accounts.is_empty() {
        core.shared.entrance.failed(peer, &core.settings().logins);
    }
    let account = accounts.find(&String::from_utf8_lossy(claim.user), peer);
    let (locks, engine) = (&core.shared.locks, core.home_engine());
    let tells = |account: &&Account| locks.password_failed(account, engine, claim.offer.is_blank());
    let locked = account.filter(tells).and_then(|account| lock_of(core, account, || claim.who()));
    locked.unwrap_or_else(|| claim.denied())
}

async fn weigh(
    core: &Core,
    client: &mut Client,
    peer: IpAddr,
    claim: &mut Claim<'_>,
    accounts: &Accounts,
) -> Result<Verdict, End> {
    let user = String::from_utf8_lossy(claim.user).into_owned();
    let Some(account) = accounts.find(&user, peer) else {
        return Ok(Verdict::Unproved);
    };
    if let Some(locked) = lock_of(core, account, || claim.who()) {
        return Ok(Verdict::Refused(locked));
    }
    let configured = BackendCredential::of(&core.shared.backend_credentials, account);
    let (credential, way) = match prove(core, client, claim, account, configured).await? {
        (Proof::Right(credential), way) => (credential, way),
        (Proof::Wrong, _) => return Ok(Verdict::Unproved),
        (Proof::Unspeakable(refused), _) => {
            remark(core, account, &refused);
            return Ok(Verdict::Refused(refused));
        }
    };
    // Others may have guessed meanwhile.
    if let Some(locked) = lock_of(core, account, || claim.who()) {
        return Ok(Verdict::Refused(locked));
    }
    core.shared.locks.succeeded(account);
    let server_user = configured.and_then(|one| one.server_user.as_ref());
    if let Some(refused) = claim.barred(
        account,
        client.tls_facts().as_ref(),
        core.home_engine(),
        server_user.is_some(),
    ) {
        return Ok(Verdict::Refused(refused));
    }
    let connections_max = core.settings().user_connections_max;
    let taken = core.shared.account_places.take(account, connections_max, &*core.shared.peers);
    let account_place = match taken.await {
        Ok(account_place) => account_place,
        Err(full) => return Ok(Verdict::Refused(full)),
    };
    let mut profile = claim.profile(credential, account, way);
    if account.expired {
        // The server says whether it lets such a client in.
        profile.flags |= client.capabilities & Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
    }
    match server_user {
        Some(server_user) => profile.user = Rc::from(server_user.as_bytes()),
        None => {
            profile.entitlement.alike = alike_of(accounts, &user, account);
            profile.entitlement.is_same_locally = is_same_locally(accounts, &user, account);
        }
    }
    if profile.entitlement.alike.is_some() && !account.expired {
        taken_for_itself(core, client, profile.clone()).await?;
    }
    Ok(Verdict::Admitted(Box::new(Admission {
        profile,
        admin: account.admin,
        account_place,
    })))
}

/// Goes through the account's ways to log in, first through those for which the client need not
/// be asked again. Gives the way that it took.
async fn prove(
    core: &Core,
    client: &mut Client,
    claim: &mut Claim<'_>,
    account: &Account,
    configured: Option<&BackendCredential>,
) -> Result<(Proof, AuthPlugin), End> {
    if let Some(proved) = prove_by_socket(core, client, claim, account, configured).await? {
        return Ok(proved);
    }
    let ways = claim.offer.ways_in_order(account, &core.shared.secrets);
    let mut worst = (Proof::Wrong, AuthPlugin::Native(None));
    let mut any_wrong = false;
    for way in ways {
        // The account itself wants more than a password.
        let several = matches!(way, AuthPlugin::Factors(_));
        let known = configured.filter(|one| !several || one.server_user.is_some());
        let known = known.map(|one| one.password.clone());
        match prove_way(core, client, claim, account, way, known).await? {
            Proof::Right(credential) => return Ok((Proof::Right(credential), way.clone())),
            Proof::Wrong => any_wrong = true,
            Proof::Unspeakable(refused) => worst.0 = Proof::Unspeakable(refused),
        }
    }
    if any_wrong {
        worst.0 = Proof::Wrong;
    }
    Ok(worst)
}

/// `known` is the password that the configuration gives for the account.
async fn prove_way(
    core: &Core,
    client: &mut Client,
    claim: &mut Claim<'_>,
    account: &Account,
    way: &AuthPlugin,
    known: Option<Arc<Secret>>,
) -> Result<Proof, End> {
    let offer = &mut claim.offer;
    let right = match (way, known) {
        (AuthPlugin::Native(None), _) => return blank(client, offer, way).await,
        (AuthPlugin::CachingSha2(hash) | AuthPlugin::Sha256(hash), _) if hash.is_empty() => {
            return blank(client, offer, way).await;
        }
        (AuthPlugin::Native(Some(stage2)), known) => {
            ask(offer, client, auth::NATIVE).await?;
            let Some(stage1) = offer.native(stage2) else {
                return Ok(Proof::Wrong);
            };
            let stage1 = Credential::NativeStage1(Zeroizing::new(stage1));
            return Ok(Proof::Right(known.map_or(stage1, Credential::Password)));
        }
        (AuthPlugin::CachingSha2(_) | AuthPlugin::Sha256(_), known) => {
            return reveal::prove_sha2(core, client, claim, account, way, known).await;
        }
        (AuthPlugin::Ed25519(public), Some(known)) => {
            ask(offer, client, auth::ED25519).await?;
            auth::ed25519_verify(&offer.proof, &offer.salt, public).then_some(known)
        }
        (AuthPlugin::Parsec { public, .. }, Some(known)) => {
            let right = signs_parsec(offer, client, way, public).await?;
            right.then_some(known)
        }
        (AuthPlugin::Clear { .. }, None) => {
            return reveal::prove_clear(core, client, claim, account, way).await;
        }
        (
            AuthPlugin::Unsupported(_)
            | AuthPlugin::Socket { .. }
            | AuthPlugin::Clear { .. }
            | AuthPlugin::Factors(_),
            Some(known),
        ) => {
            let plugin = match offer.plugin == auth::CACHING_SHA2.as_bytes() {
                true => auth::CACHING_SHA2,
                false => auth::NATIVE,
            };
            ask(offer, client, plugin).await?;
            let right = offer.knows(&known);
            client.fast_ok = right && plugin == auth::CACHING_SHA2;
            right.then_some(known)
        }
        (way, None) => return Ok(Proof::unspeakable(way)),
    };
    Ok(right.map_or(Proof::Wrong, |known| Proof::Right(Credential::Password(known))))
}

/// Says in the log, once for each account, why nobody comes in by it.
fn remark(core: &Core, account: &Account, (error, details): &Refused) {
    if core.shared.secrets.is_new_refusal(account) {
        let details: Vec<&str> = details.iter().map(String::as_str).collect();
        let (user, host) = (&account.user, &account.host);
        let text = error.text(&details);
        tracing::warn!("clients of '{user}'@'{host}' are refused: {text} {}", error.cure);
    }
}

/// Has this done for a login, beside the core. The client has been told when it is not done.
pub(crate) async fn verified<T: Send + 'static>(
    core: &Core,
    client: &mut Client,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, End> {
    let Some(closer) = client.channel().map(Channel::closer) else {
        return Err(End::Gone);
    };
    match verify(core, &closer, work).await {
        Ok(done) => Ok(done),
        Err(Unverified::Gone) => Err(End::Gone),
        Err(Unverified::Full | Unverified::Undone) => {
            Err(client.refuse(&error::LOGIN_QUEUE_FULL, &[]).await)
        }
    }
}

/// Sees to it that a server takes the client for its account, or for one that may do the same. The client
/// has been told when it does not.
async fn taken_for_itself(core: &Core, client: &mut Client, profile: Profile) -> Result<(), End> {
    let pass = core.pools.pass(profile);
    let state = core.pools.state_after_login(None);
    match core.take_from_primary(HOME, &pass, &state, true).await {
        Ok(lease) => {
            lease.release();
            Ok(())
        }
        Err(error) => Err(client.refuse_pool(&error).await),
    }
}

/// Accounts of `unix_socket` and `auth_socket`: whoever comes by a Unix socket is who the kernel says. The
/// user of the operating system must be the one that the account names or, where it names none, have the
/// client's name: nobody is let in whom the server would not let in by its own socket. `None` where that
/// does not let the client in; it may have other ways to prove itself.
///
/// A server asks its own kernel the same of its own clients, and would be told of the router's user there.
/// So what logs in to servers for such an account is a backend credential; without one nobody comes in.
async fn prove_by_socket(
    core: &Core,
    client: &mut Client,
    claim: &Claim<'_>,
    account: &Account,
    configured: Option<&BackendCredential>,
) -> Result<Option<(Proof, AuthPlugin)>, End> {
    let is_socket = |way: &&AuthPlugin| matches!(way, AuthPlugin::Socket { .. });
    let Some(way @ AuthPlugin::Socket { os_user, .. }) = account.ways.iter().find(is_socket) else {
        return Ok(None);
    };
    let asked = client.channel().and_then(|channel| channel.peer_credentials().ok());
    let Some(credentials) = asked else {
        return Ok(None);
    };
    let name = verified(core, client, move || reactor::user_name(credentials.user)).await?;
    let wanted = match os_user.is_empty() {
        true => claim.user,
        false => os_user.as_bytes(),
    };
    if name.as_deref().map(str::as_bytes) != Some(wanted) {
        return Ok(None);
    }
    match configured {
        Some(known) => {
            let credential = Credential::Password(known.password.clone());
            Ok(Some((Proof::Right(credential), way.clone())))
        }
        // It has a password to prove: another way may take that.
        None if !claim.offer.is_blank() => Ok(None),
        None => Ok(Some((Proof::unspeakable(way), way.clone()))),
    }
}

/// How somebody is refused whose account is locked by wrong passwords.
pub(crate) fn lock_of(
    core: &Core,
    account: &Account,
    who: impl FnOnce() -> String,
) -> Option<Refused> {
    let refused = core.shared.locks.refusal(account, core.home_engine(), who)?;
    count(&core.counters.logins_locked);
    Some(refused)
}

/// Has the verifiers do this for a client, while the core serves others.
pub(crate) async fn verify<T: Send + 'static>(
    core: &Core,
    client: &Closer,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Unverified> {
    let waiting_max = core.settings().logins.queue_max;
    let done = core.shared.login_work.verifiers.verify(client, waiting_max, work).await;
    match done {
        Ok(_) | Err(Unverified::Undone) => count(&core.counters.passwords_verified),
        Err(Unverified::Full) => count(&core.counters.logins_unverified),
        Err(Unverified::Gone) => {}
    }
    done
}

/// An account without a password. Clients wait for its plugin also where there is nothing to prove.
async fn blank(client: &mut Client, offer: &mut Offer, way: &AuthPlugin) -> Result<Proof, End> {
    ask(offer, client, plugin_of(way)).await?;
    Ok(offer.blank())
}

/// Makes sure that the client has answered for this plugin.
pub(crate) async fn ask(offer: &mut Offer, client: &mut Client, plugin: &str) -> Result<(), End> {
    if offer.plugin == plugin.as_bytes() {
        return Ok(());
    }
    if !client.capabilities.contains(Capabilities::PLUGIN_AUTH) {
        return Err(client.refuse(&error::OLD_AUTHENTICATION, &[]).await);
    }
    offer.salt = match plugin {
        auth::ED25519 => salt::random::<{ auth::ED25519_SALT_BYTES }>(),
        auth::PARSEC => salt::random::<{ auth::PARSEC_SCRAMBLE_BYTES }>(),
        auth::CLEAR => Vec::new(),
        auth::DIALOG => auth::DIALOG_PROMPT.to_vec(),
        _ => client.salt.to_vec(),
    };
    offer.proof = Zeroizing::new(login::switch(client, plugin, &offer.salt).await?);
    offer.plugin = plugin.into();
    Ok(())
}

/// True when the client signs with the account's key. It begins with an empty answer, and is told how
/// the key is drawn from the password.
async fn signs_parsec(
    offer: &mut Offer,
    client: &mut Client,
    way: &AuthPlugin,
    public: &[u8; 32],
) -> Result<bool, End> {
    let &AuthPlugin::Parsec {
        doublings, salt, ..
    } = way
    else {
        return Ok(false);
    };
    // The scramble comes with a switch only.
    offer.plugin.clear();
    ask(offer, client, auth::PARSEC).await?;
    if !offer.proof.is_empty() {
        return Ok(false);
    }
    let terms = ParsecTerms { doublings, salt };
    login::say_bare(client, &terms.encode()).await?;
    offer.proof = Zeroizing::new(login::next_proof(client).await?);
    Ok(auth::parsec_verify(&offer.proof, &offer.salt, public))
}
