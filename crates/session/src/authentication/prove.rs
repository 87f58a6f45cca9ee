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
//! - Several factors: nothing that one proof could replace. The configuration has to name another account
//!   for the servers.
//!
//! Invariant: nobody is refused by an account as it was. Before a refusal the accounts are read once
//! more, so a client may log in as soon as its account is made or changed.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use backend::{Credential, Profile, Secret, SessionState};
use farm::{Account, Accounts, AuthPlugin, ClientError, Engine, error};
use mysql_wire::auth::{self, ParsecTerms, SALT_BYTES};
use mysql_wire::capability::Capabilities;
use rsa::rand_core::{OsRng, RngCore};
use zeroize::Zeroizing;

use crate::authentication::accounts::{alike_of, entitlement_of};
use crate::authentication::berths::Berth;
use crate::authentication::secrets::BackendCredential;
use crate::authentication::verifiers::Unverified;
use crate::client::Client;
use crate::client::end::End;
use crate::connections::group_connections::HOME;
use crate::per_core::Core;

/// What a client says of itself.
pub struct Claim<'a> {
    pub user: &'a [u8],
    pub peer: IpAddr,
    pub offer: Offer,
    pub collation: u8,
    pub flags: Capabilities,
}

/// A claim that was proved.
pub struct Admission {
    pub profile: Profile,
    pub admin: bool,
    pub berth: Berth,
}

/// What a client has brought so far to prove itself with. Kept between two looks at the accounts,
/// because a client answers a question only once.
pub struct Offer {
    pub(crate) plugin: Vec<u8>,
    /// What the proof was made for.
    pub(crate) salt: Vec<u8>,
    /// Of some plugins it is the password itself.
    pub(crate) proof: Zeroizing<Vec<u8>>,
    /// The password, once the client has sent it.
    pub(crate) password: Option<Zeroizing<Vec<u8>>>,
}

impl Offer {
    /// The proof that came with the login, made for `plugin` and `salt`.
    pub fn new(plugin: &[u8], salt: [u8; SALT_BYTES], proof: &[u8]) -> Offer {
        Offer {
            plugin: plugin.to_vec(),
            salt: salt.to_vec(),
            proof: Zeroizing::new(proof.to_vec()),
            password: None,
        }
    }
}

/// How a claim fares with the accounts as they are known now.
enum Verdict {
    Admitted(Box<Admission>),
    Refused(Refused),
    /// There is no such account, or the password is not its.
    Unproved,
}

/// An error, and the details for its text.
type Refused = (&'static ClientError, Vec<String>);

/// How a client fares with one way to log in.
pub(crate) enum Proof {
    Right(Credential),
    Wrong,
    /// Heddle could not log in to servers for the client, whatever it proves.
    Unspeakable(Refused),
}

impl Proof {
    /// The way gives Heddle nothing to log in to servers with.
    pub(crate) fn unspeakable(way: &AuthPlugin) -> Proof {
        Proof::Unspeakable(match way {
            AuthPlugin::Factors(plugins) => (&error::SEVERAL_FACTORS, vec![plugins.to_string()]),
            way => (&error::AUTH_PLUGIN_UNSUPPORTED, vec![plugin_of(way).to_owned()]),
        })
    }
}

impl Core {
    /// Proves a claim against the accounts of the farm. The client has been told when this fails.
    pub async fn authenticate(
        &self,
        client: &mut Client,
        peer: IpAddr,
        mut claim: Claim<'_>,
    ) -> Result<Admission, End> {
        let mut accounts = self.shared.accounts_as_told().await;
        loop {
            let verdict = self.weigh(client, peer, &mut claim, &accounts).await?;
            let refused = match verdict {
                Verdict::Admitted(admission) => {
                    self.heed(&accounts);
                    self.login_succeeded(peer);
                    return Ok(*admission);
                }
                Verdict::Refused(refused) => Some(refused),
                Verdict::Unproved => None,
            };
            let newer = self.shared.accounts_anew().await;
            // The loop ends: the accounts do not change for ever between two readings.
            if newer == accounts {
                let refused = refused.unwrap_or_else(|| self.unproved(&claim, peer, &accounts));
                let (error, details) = refused;
                let details: Vec<&str> = details.iter().map(String::as_str).collect();
                return Err(client.refuse(error, &details).await);
            }
            accounts = newer;
        }
    }

    /// Counts a claim that was not proved; how it is refused.
    fn unproved(&self, claim: &Claim<'_>, peer: IpAddr, accounts: &Accounts) -> Refused {
        // Without accounts nobody can prove anything.
        if !accounts.is_empty() {
            self.login_failed(peer);
        }
        let account = accounts.find(&String::from_utf8_lossy(claim.user), peer);
        let (who, blank) = (|| claim.who(peer), claim.offer.is_blank());
        let locked = account.and_then(|account| self.password_failed(account, who, blank));
        locked.unwrap_or_else(|| claim.denied(peer))
    }

    async fn weigh(
        &self,
        client: &mut Client,
        peer: IpAddr,
        claim: &mut Claim<'_>,
        accounts: &Accounts,
    ) -> Result<Verdict, End> {
        let user = String::from_utf8_lossy(claim.user).into_owned();
        let Some(account) = accounts.find(&user, peer) else {
            return Ok(Verdict::Unproved);
        };
        if let Some(locked) = self.lock_of(account, || claim.who(peer)) {
            return Ok(Verdict::Refused(locked));
        }
        let configured = BackendCredential::of(&self.shared.backend_credentials, account);
        let (credential, way) = match self.prove(client, claim, account, configured).await? {
            (Proof::Right(credential), way) => (credential, way),
            (Proof::Wrong, _) => return Ok(Verdict::Unproved),
            (Proof::Unspeakable(refused), _) => {
                self.remark(account, &refused);
                return Ok(Verdict::Refused(refused));
            }
        };
        // Others may have guessed meanwhile.
        if let Some(locked) = self.lock_of(account, || claim.who(peer)) {
            return Ok(Verdict::Refused(locked));
        }
        self.password_succeeded(account);
        let server_user = configured.and_then(|one| one.server_user.as_ref());
        if let Some(refused) = self.barred(client, peer, claim, account, server_user.is_some()) {
            return Ok(Verdict::Refused(refused));
        }
        let connections_max = self.settings().user_connections_max;
        let taken = self.shared.berths.take(account, connections_max, &*self.shared.peers);
        let berth = match taken.await {
            Ok(berth) => berth,
            Err(full) => return Ok(Verdict::Refused(full)),
        };
        let mut profile = claim.profile(credential, account, way);
        if account.expired {
            // The server says whether it lets such a client in.
            profile.flags |= client.capabilities & Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS;
        }
        match server_user {
            Some(server_user) => profile.user = Rc::from(server_user.as_bytes()),
            None => profile.entitlement.alike = alike_of(accounts, &user, account),
        }
        if profile.entitlement.alike.is_some() && !account.expired {
            self.taken_for_itself(client, profile.clone()).await?;
        }
        Ok(Verdict::Admitted(Box::new(Admission {
            profile,
            admin: account.admin,
            berth,
        })))
    }

    /// What of an account keeps somebody out who knows its password. `elsewhere` says that another account
    /// logs in to the servers for it.
    fn barred(
        &self,
        client: &Client,
        peer: IpAddr,
        claim: &Claim<'_>,
        account: &Account,
        elsewhere: bool,
    ) -> Option<Refused> {
        if !account.tls.is_met(client.tls_facts().as_ref()) {
            return Some(claim.denied(peer));
        }
        if account.locked {
            let error = match self.home_engine() {
                Engine::MariaDb => &error::ACCOUNT_LOCKED,
                Engine::MySql => &error::ACCOUNT_LOCKED_MYSQL,
            };
            return Some((error, vec![claim.who(peer)]));
        }
        // The login at the server would be another account's, whose password is none of theirs.
        (account.expired && elsewhere).then_some((&error::PASSWORD_EXPIRED, Vec::new()))
    }

    /// Goes through the account's ways to log in, first through those for which the client need not
    /// be asked again. Gives the way that it took.
    async fn prove(
        &self,
        client: &mut Client,
        claim: &mut Claim<'_>,
        account: &Account,
        configured: Option<&BackendCredential>,
    ) -> Result<(Proof, AuthPlugin), End> {
        let mut ways: Vec<&AuthPlugin> = account.ways.iter().collect();
        ways.sort_by_key(|way| {
            let same = plugin_of(way).as_bytes() == claim.offer.plugin;
            (!same, !(same && self.is_remembered(&claim.offer, account, way)))
        });
        let mut worst = (Proof::Wrong, AuthPlugin::Native(None));
        let mut any_wrong = false;
        for way in ways {
            // The account itself wants more than a password.
            let several = matches!(way, AuthPlugin::Factors(_));
            let known = configured.filter(|one| !several || one.server_user.is_some());
            let known = known.map(|one| one.password.clone());
            match self.prove_way(client, claim, account, way, known).await? {
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
        &self,
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
                offer.ask(client, auth::NATIVE).await?;
                let Some(stage1) = offer.native(stage2) else {
                    return Ok(Proof::Wrong);
                };
                let stage1 = Credential::NativeStage1(Zeroizing::new(stage1));
                return Ok(Proof::Right(known.map_or(stage1, Credential::Password)));
            }
            (AuthPlugin::CachingSha2(_) | AuthPlugin::Sha256(_), known) => {
                return self.prove_sha2(client, claim, account, way, known).await;
            }
            (AuthPlugin::Ed25519(public), Some(known)) => {
                offer.ask(client, auth::ED25519).await?;
                auth::ed25519_verify(&offer.proof, &offer.salt, public).then_some(known)
            }
            (AuthPlugin::Parsec { public, .. }, Some(known)) => {
                let right = offer.signs_parsec(client, way, public).await?;
                right.then_some(known)
            }
            (AuthPlugin::Clear { .. }, None) => {
                return self.prove_clear(client, claim, account, way).await;
            }
            (
                AuthPlugin::Unsupported(_) | AuthPlugin::Clear { .. } | AuthPlugin::Factors(_),
                Some(known),
            ) => {
                let plugin = match offer.plugin == auth::CACHING_SHA2.as_bytes() {
                    true => auth::CACHING_SHA2,
                    false => auth::NATIVE,
                };
                offer.ask(client, plugin).await?;
                let right = offer.knows(&known);
                if right && plugin == auth::CACHING_SHA2 {
                    client.more(&[auth::FAST_OK]).await?;
                }
                right.then_some(known)
            }
            (way, None) => return Ok(Proof::unspeakable(way)),
        };
        Ok(right.map_or(Proof::Wrong, |known| Proof::Right(Credential::Password(known))))
    }

    /// Says in the log, once for each account, why nobody comes in by it.
    fn remark(&self, account: &Account, (error, details): &Refused) {
        if self.shared.secrets.is_new_refusal(account) {
            let details: Vec<&str> = details.iter().map(String::as_str).collect();
            let (user, host) = (&account.user, &account.host);
            let text = error.text(&details);
            tracing::warn!("clients of '{user}'@'{host}' are refused: {text} {}", error.cure);
        }
    }

    /// Has this done for a login, beside the core. The client has been told when it is not done.
    pub(crate) async fn verified<T: Send + 'static>(
        &self,
        client: &mut Client,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, End> {
        let closer = client.channel().closer();
        match self.verify(&closer, work).await {
            Ok(done) => Ok(done),
            Err(Unverified::Gone) => Err(End::Gone),
            Err(Unverified::Full) => Err(client.refuse(&error::LOGIN_QUEUE_FULL, &[]).await),
        }
    }

    /// Sees to it that a server takes the client for its account, or for one that may do the same. The client
    /// has been told when it does not.
    async fn taken_for_itself(&self, client: &mut Client, profile: Profile) -> Result<(), End> {
        let pass = self.pools.pass(profile);
        let state = Rc::new(SessionState::new(None));
        match self.take_from_primary(HOME, &pass, &state, true).await {
            Ok(lease) => {
                lease.release();
                Ok(())
            }
            Err(error) => Err(client.refuse_pool(&error).await),
        }
    }
}

/// An account without a password. Clients wait for its plugin also where there is nothing to prove.
async fn blank(client: &mut Client, offer: &mut Offer, way: &AuthPlugin) -> Result<Proof, End> {
    offer.ask(client, plugin_of(way)).await?;
    Ok(offer.blank())
}

/// The plugin that a client speaks for a way to log in.
pub(crate) fn plugin_of(way: &AuthPlugin) -> &str {
    match way {
        AuthPlugin::Native(_) => auth::NATIVE,
        AuthPlugin::CachingSha2(_) => auth::CACHING_SHA2,
        AuthPlugin::Sha256(_) => auth::SHA256,
        AuthPlugin::Ed25519(_) => auth::ED25519,
        AuthPlugin::Parsec { .. } => auth::PARSEC,
        AuthPlugin::Clear { dialog: true, .. } => auth::DIALOG,
        AuthPlugin::Clear { .. } => auth::CLEAR,
        AuthPlugin::Unsupported(name) | AuthPlugin::Factors(name) => name,
    }
}

impl Offer {
    /// Makes sure that the client has answered for this plugin.
    pub(crate) async fn ask(&mut self, client: &mut Client, plugin: &str) -> Result<(), End> {
        if self.plugin == plugin.as_bytes() {
            return Ok(());
        }
        if !client.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            return Err(client.refuse(&error::OLD_AUTHENTICATION, &[]).await);
        }
        self.salt = match plugin {
            auth::ED25519 => random::<{ auth::ED25519_SALT_BYTES }>(),
            auth::PARSEC => random::<{ auth::PARSEC_SCRAMBLE_BYTES }>(),
            auth::CLEAR => Vec::new(),
            auth::DIALOG => auth::DIALOG_PROMPT.to_vec(),
            _ => client.salt.to_vec(),
        };
        self.proof = Zeroizing::new(client.switch(plugin, &self.salt).await?);
        self.plugin = plugin.into();
        Ok(())
    }

    /// No password: MySQL's own client sends a NUL for it.
    pub(crate) fn is_blank(&self) -> bool {
        matches!(self.proof[..], [] | [0])
    }

    fn blank(&self) -> Proof {
        if self.is_blank() {
            Proof::Right(Credential::Empty)
        } else {
            Proof::Wrong
        }
    }

    /// SHA1(password), if the proof is right.
    fn native(&self, stage2: &[u8; 20]) -> Option<[u8; 20]> {
        auth::native_verify(&self.proof, self.salt.first_chunk()?, stage2)
    }

    /// True when the client signs with the account's key. It begins with an empty answer, and is told how
    /// the key is drawn from the password.
    async fn signs_parsec(
        &mut self,
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
        self.plugin.clear();
        self.ask(client, auth::PARSEC).await?;
        if !self.proof.is_empty() {
            return Ok(false);
        }
        let terms = ParsecTerms { doublings, salt };
        client.say_bare(&terms.encode()).await?;
        self.proof = Zeroizing::new(client.next_proof().await?);
        Ok(auth::parsec_verify(&self.proof, &self.salt, public))
    }

    /// True when the scramble is of this password.
    pub(crate) fn knows(&self, password: &Secret) -> bool {
        let Some(salt) = self.salt.first_chunk() else {
            return false;
        };
        let right = password.with(|password| {
            if self.plugin == auth::CACHING_SHA2.as_bytes() {
                let stage2 = auth::sha2_stage2(&auth::sha2_stage1(password));
                return auth::sha2_verify(&self.proof, salt, &stage2).is_some();
            }
            let stage2 = auth::native_stage2(&auth::native_stage1(password));
            auth::native_verify(&self.proof, salt, &stage2).is_some()
        });
        right == Some(true)
    }
}

/// As a salt that comes with a switch.
fn random<const N: usize>() -> Vec<u8> {
    let mut bytes = vec![0; N];
    OsRng.fill_bytes(&mut bytes);
    bytes
}

impl Claim<'_> {
    pub(crate) fn profile(
        &self,
        credential: Credential,
        account: &Account,
        way: AuthPlugin,
    ) -> Profile {
        Profile {
            user: Rc::from(self.user),
            credential,
            collation: self.collation,
            flags: self.flags,
            client: Some(self.peer),
            entitlement: entitlement_of(account, way),
        }
    }

    /// The client as the servers name it.
    fn who(&self, peer: IpAddr) -> String {
        let user = String::from_utf8_lossy(self.user);
        match peer.to_canonical() {
            ip if ip.is_loopback() => format!("'{user}'@'localhost'"),
            ip => format!("'{user}'@'{ip}'"),
        }
    }

    fn denied(&self, peer: IpAddr) -> Refused {
        let using = if self.offer.is_blank() { "NO" } else { "YES" };
        let who = format!("{} (using password: {using})", self.who(peer));
        (&error::ACCESS_DENIED, vec![who])
    }
}
