//! Whether a client is who it says.
//!
//! Heddle decides who may log in from the servers' own accounts, and must then be able to log in to
//! servers itself. What the plugins give for that:
//! - `mysql_native_password`: the client's proof, checked against the server's hash, reveals
//!   SHA1(password), which logs in to servers.
//! - `caching_sha2_password`: the first login of an account is a full one, checked here and by a
//!   server; the password is remembered while somebody needs it, and checks later scrambles.
//! - `sha256_password`: every login brings the password.
//! - `client_ed25519`, and plugins that Heddle does not speak: nothing. The configuration has to give
//!   a backend credential; for a plugin that cannot be checked here, the client proves that it knows
//!   the same password.
//!
//! Invariant: nobody is refused by an account as it was. Before a refusal the accounts are read once
//! more, so a client may log in as soon as its account is made or changed.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use backend::{ConnectionError, Credential, PoolError, Profile, Secret, SessionState};
use farm::{Account, Accounts, AuthPlugin, ClientError, Engine, error};
use mysql_wire::auth::{self, SALT_BYTES};
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
    plugin: Vec<u8>,
    /// What the proof was made for.
    salt: Vec<u8>,
    proof: Vec<u8>,
    /// The password, once the client has sent it.
    password: Option<Zeroizing<Vec<u8>>>,
}

impl Offer {
    /// The proof that came with the login, made for `plugin` and `salt`.
    pub fn new(plugin: &[u8], salt: [u8; SALT_BYTES], proof: &[u8]) -> Offer {
        Offer {
            plugin: plugin.to_vec(),
            salt: salt.to_vec(),
            proof: proof.to_vec(),
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
enum Proof {
    Right(Credential),
    Wrong,
    /// Heddle could not log in to servers for the client, whatever it proves.
    Unspeakable(String),
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
            (Proof::Unspeakable(plugin), _) => {
                let unspeakable = (&error::AUTH_PLUGIN_UNSUPPORTED, vec![plugin]);
                return Ok(Verdict::Refused(unspeakable));
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
        let taken = self
            .shared
            .berths
            .take(account, connections_max, &*self.shared.peers);
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
        ways.sort_by_key(|way| plugin_of(way).as_bytes() != claim.offer.plugin);
        let mut worst = (Proof::Wrong, AuthPlugin::Native(None));
        let mut any_wrong = false;
        for way in ways {
            let known = configured.map(|one| one.password.clone());
            match self.prove_way(client, claim, account, way, known).await? {
                Proof::Right(credential) => return Ok((Proof::Right(credential), way.clone())),
                Proof::Wrong => any_wrong = true,
                Proof::Unspeakable(plugin) => worst.0 = Proof::Unspeakable(plugin),
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
            (AuthPlugin::Unsupported(_), Some(known)) => {
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
            (way, None) => return Ok(Proof::Unspeakable(plugin_of(way).to_owned())),
        };
        Ok(right.map_or(Proof::Wrong, |known| {
            Proof::Right(Credential::Password(known))
        }))
    }

    /// The two plugins of MySQL by which the password itself may have to come.
    async fn prove_sha2(
        &self,
        client: &mut Client,
        claim: &mut Claim<'_>,
        account: &Account,
        way: &AuthPlugin,
        configured: Option<Arc<Secret>>,
    ) -> Result<Proof, End> {
        let offer = &mut claim.offer;
        if configured.is_none() && !self.settings().remember_passwords {
            return Ok(Proof::Unspeakable(plugin_of(way).to_owned()));
        }
        let is_caching = matches!(way, AuthPlugin::CachingSha2(_));
        let plugin = if is_caching {
            auth::CACHING_SHA2
        } else {
            auth::SHA256
        };
        offer.ask(client, plugin).await?;
        if offer.is_blank() {
            return Ok(Proof::Wrong);
        }
        let remembered = configured.or_else(|| self.shared.secrets.find(account, way));
        if let Some(known) = remembered
            && offer.password.is_none()
            && is_caching
            && offer.knows(&known)
        {
            client.more(&[auth::FAST_OK]).await?;
            return Ok(Proof::Right(Credential::Password(known)));
        }
        if offer.password.is_none() {
            offer.password = self.full_password(client, offer, is_caching).await?;
        }
        let Some(password) = &offer.password else {
            return Ok(Proof::Wrong);
        };
        let known = self.shared.secrets.find(account, way);
        let same = |known: &Secret| known.with(|known| auth::equal(known, password)) == Some(true);
        if let Some(known) = known.filter(|known| same(known)) {
            return Ok(Proof::Right(Credential::Password(known)));
        }
        // The servers know Heddle by its own address: whether it is this account's password must be
        // seen here, before a server is asked.
        let (asked, stored) = (password.clone(), way.clone());
        let fits = move || is_stored(&asked, &stored);
        if !self.verified(client, fits).await? {
            return Ok(Proof::Wrong);
        }
        let secret = self.shared.secrets.remember(account, way, password);
        let credential = Credential::Password(secret);
        let profile = claim.profile(credential.clone(), account, way.clone());
        // With an expired password nothing more is asked here than the session's own login will ask.
        if account.expired || self.judged(client, profile).await? {
            return Ok(Proof::Right(credential));
        }
        Ok(Proof::Wrong)
    }

    /// Gets the password itself from the client: in clear where nobody can read along, else under our
    /// RSA key. `None` when it did not send it so.
    async fn full_password(
        &self,
        client: &mut Client,
        offer: &Offer,
        is_caching: bool,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, End> {
        let (mut answer, request) = if is_caching {
            client.more(&[auth::FULL]).await?;
            (client.next_proof().await?, auth::REQUEST_KEY)
        } else {
            (offer.proof.clone(), auth::SHA256_REQUEST_KEY)
        };
        if client.is_secure() {
            let mut password = Zeroizing::new(answer);
            return Ok((password.pop() == Some(0)).then_some(password));
        }
        let asks = answer == [request];
        // A client that has our key already may send the sealed password at once. Anything else is
        // a password in the clear, a client's mistake that is not looked at.
        if !asks && is_caching {
            return Ok(None);
        }
        let Some(pair) = self.shared.rsa_key.get().await else {
            return Ok(None);
        };
        if asks {
            client.more(pair.public_pem.as_bytes()).await?;
            answer = client.next_proof().await?;
        }
        let salt = offer.salt.clone();
        let opened = move || pair.open(&answer, &salt).map(Zeroizing::new);
        self.verified(client, opened).await
    }

    /// Has this done for a login, beside the core. The client has been told when it is not done.
    async fn verified<T: Send + 'static>(
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

    /// Lets a server judge a password: true when it lets us in.
    async fn judged(&self, client: &mut Client, profile: Profile) -> Result<bool, End> {
        let pass = self.pools.pass(profile);
        let state = Rc::new(SessionState::new(None));
        match self.take_from_primary(HOME, &pass, &state, true).await {
            Ok(lease) => {
                lease.release();
                Ok(true)
            }
            Err(PoolError::Connection(ConnectionError::Refused { number: 1045, .. })) => Ok(false),
            Err(error) => Err(client.refuse_pool(&error).await),
        }
    }
}

/// Whether it is the password whose hash a server stored for this way to log in. Takes milliseconds: the
/// verifiers do it.
pub(crate) fn is_stored(password: &[u8], way: &AuthPlugin) -> bool {
    match way {
        AuthPlugin::CachingSha2(hash) => auth::sha2_stored_verify(password, hash),
        AuthPlugin::Sha256(hash) => auth::sha256_stored_verify(password, hash),
        _ => false,
    }
}

/// An account without a password. Clients wait for its plugin also where there is nothing to prove.
async fn blank(client: &mut Client, offer: &mut Offer, way: &AuthPlugin) -> Result<Proof, End> {
    offer.ask(client, plugin_of(way)).await?;
    Ok(offer.blank())
}

/// The plugin that a client speaks for a way to log in.
fn plugin_of(way: &AuthPlugin) -> &str {
    match way {
        AuthPlugin::Native(_) => auth::NATIVE,
        AuthPlugin::CachingSha2(_) => auth::CACHING_SHA2,
        AuthPlugin::Sha256(_) => auth::SHA256,
        AuthPlugin::Ed25519(_) => auth::ED25519,
        AuthPlugin::Unsupported(name) => name,
    }
}

impl Offer {
    /// Makes sure that the client has answered for this plugin.
    async fn ask(&mut self, client: &mut Client, plugin: &str) -> Result<(), End> {
        if self.plugin == plugin.as_bytes() {
            return Ok(());
        }
        if !client.capabilities.contains(Capabilities::PLUGIN_AUTH) {
            return Err(client.refuse(&error::OLD_AUTHENTICATION, &[]).await);
        }
        self.salt = client.salt.to_vec();
        if plugin == auth::ED25519 {
            self.salt.resize(auth::ED25519_SALT_BYTES, 0);
            OsRng.fill_bytes(&mut self.salt);
        }
        self.proof = client.switch(plugin, &self.salt).await?;
        self.plugin = plugin.into();
        Ok(())
    }

    /// No password: MySQL's own client sends a NUL for it.
    fn is_blank(&self) -> bool {
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

    /// True when the scramble is of this password.
    fn knows(&self, password: &Secret) -> bool {
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

impl Claim<'_> {
    fn profile(&self, credential: Credential, account: &Account, way: AuthPlugin) -> Profile {
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
