//! Whether a client is who it says.
//!
//! Heddle decides who may log in from the servers' own accounts. A client's proof for
//! `mysql_native_password` is checked against the server's hash and yields what logs in to servers;
//! for `caching_sha2_password` the first login of an account is a full one and a server judges it.
//!
//! Invariant: nobody is refused by an account as it was. Before a refusal the accounts are read once
//! more, so a client may log in as soon as its account is made or changed.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use backend::{ConnectionError, Credential, PoolError, Profile, SessionState};
use farm::{Account, Accounts, AuthPlugin, ClientError, error};
use mysql_wire::auth::{self, SALT_BYTES};
use mysql_wire::capability::Capabilities;

use crate::client::Client;
use crate::end::End;
use crate::login::fresh_salt;
use crate::per_core::Core;

/// What a client says of itself.
pub struct Claim<'a> {
    pub user: &'a [u8],
    pub offer: Offer,
    pub collation: u8,
    pub flags: Capabilities,
}

/// What a client has brought so far to prove itself with. Kept between two looks at the accounts,
/// because a client answers a question only once.
pub struct Offer {
    plugin: Vec<u8>,
    /// What the proof was made for.
    salt: [u8; SALT_BYTES],
    proof: Vec<u8>,
    /// The password, once the client has sent it.
    password: Option<Vec<u8>>,
}

impl Offer {
    /// The proof that came with the login, made for `plugin` and `salt`.
    pub fn new(plugin: &[u8], salt: [u8; SALT_BYTES], proof: &[u8]) -> Offer {
        Offer {
            plugin: plugin.to_vec(),
            salt,
            proof: proof.to_vec(),
            password: None,
        }
    }
}

/// How a claim fares with the accounts as they are known now.
enum Verdict {
    Admitted(Profile, bool),
    Refused(&'static ClientError, String),
}

impl Core {
    /// Proves a claim against the accounts of the farm. The client has been told when this fails.
    pub async fn authenticate(
        &self,
        client: &mut Client,
        peer: IpAddr,
        mut claim: Claim<'_>,
    ) -> Result<(Profile, bool), End> {
        let mut accounts = self.shared.accounts_as_told().await;
        loop {
            let verdict = self.weigh(client, peer, &mut claim, &accounts).await?;
            let (error, detail) = match verdict {
                Verdict::Admitted(profile, admin) => return Ok((profile, admin)),
                Verdict::Refused(error, detail) => (error, detail),
            };
            let newer = self.shared.accounts_anew().await;
            // The loop ends: the accounts do not change for ever between two readings.
            if newer == accounts {
                return Err(client.refuse(error, &[&detail]).await);
            }
            accounts = newer;
        }
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
            return Ok(claim.denied(peer));
        };
        let credential = match &account.plugin {
            AuthPlugin::Unsupported(plugin) => {
                let plugin = plugin.to_string();
                return Ok(Verdict::Refused(&error::AUTH_PLUGIN_UNSUPPORTED, plugin));
            }
            AuthPlugin::Native(stage2) => {
                self.prove_native(client, &mut claim.offer, stage2).await?
            }
            AuthPlugin::CachingSha2(verifier) if verifier.is_empty() => {
                claim.offer.proof.is_empty().then_some(Credential::Empty)
            }
            AuthPlugin::CachingSha2(verifier) => {
                self.prove_sha2(client, claim, account, verifier).await?
            }
        };
        let Some(credential) = credential else {
            return Ok(claim.denied(peer));
        };
        if account.locked {
            let who = format!("'{user}'@'{}'", account.host);
            return Ok(Verdict::Refused(&error::ACCOUNT_LOCKED, who));
        }
        Ok(Verdict::Admitted(claim.profile(credential), account.admin))
    }

    async fn prove_native(
        &self,
        client: &mut Client,
        offer: &mut Offer,
        stage2: &Option<[u8; 20]>,
    ) -> Result<Option<Credential>, End> {
        let Some(stage2) = stage2 else {
            return Ok(offer.proof.is_empty().then_some(Credential::Empty));
        };
        offer.ask(client, auth::NATIVE).await?;
        let stage1 = auth::native_verify(&offer.proof, &offer.salt, stage2);
        Ok(stage1.map(Credential::NativeStage1))
    }

    async fn prove_sha2(
        &self,
        client: &mut Client,
        claim: &mut Claim<'_>,
        account: &Account,
        verifier: &Arc<[u8]>,
    ) -> Result<Option<Credential>, End> {
        claim.offer.ask(client, auth::CACHING_SHA2).await?;
        if claim.offer.proof.is_empty() {
            return Ok(None);
        }
        if let Some(password) = self.shared.secrets.find(account, verifier)
            && claim.offer.password.is_none()
        {
            let stage2 = auth::sha2_stage2(&auth::sha2_stage1(&password));
            if auth::sha2_verify(&claim.offer.proof, &claim.offer.salt, &stage2).is_some() {
                client.more(&[auth::FAST_OK]).await?;
                return Ok(Some(Credential::Password(Rc::from(&*password))));
            }
        }
        if claim.offer.password.is_none() {
            claim.offer.password = self.full_sha2(client, &claim.offer.salt).await?;
        }
        let Some(password) = &claim.offer.password else {
            return Ok(None);
        };
        // The servers know Heddle by its own address: whether it is this account's password must be
        // seen here, before a server is asked.
        if !auth::sha2_stored_verify(password, verifier) {
            return Ok(None);
        }
        let credential = Credential::Password(Rc::from(&**password));
        if !self.judged(client, claim, &credential).await? {
            return Ok(None);
        }
        self.shared.secrets.remember(account, verifier, password);
        Ok(Some(credential))
    }

    /// Asks the client for its password: inside TLS as it is, else under our RSA key.
    async fn full_sha2(
        &self,
        client: &mut Client,
        salt: &[u8; SALT_BYTES],
    ) -> Result<Option<Vec<u8>>, End> {
        client.more(&[auth::FULL]).await?;
        let mut request = client.next_proof().await?;
        if client.is_secure() {
            return Ok((request.pop() == Some(0)).then_some(request));
        }
        if request != [auth::REQUEST_KEY] {
            // Without TLS a password in the clear is a client's mistake; it is not looked at.
            return Ok(None);
        }
        let Some(pair) = self.shared.rsa_key.get().await else {
            return Ok(None);
        };
        client.more(pair.public_pem.as_bytes()).await?;
        let sealed = client.next_proof().await?;
        Ok(pair.open(&sealed, salt))
    }

    /// Lets a server judge a password: true when it lets us in.
    async fn judged(
        &self,
        client: &mut Client,
        claim: &Claim<'_>,
        credential: &Credential,
    ) -> Result<bool, End> {
        let profile = self.pools.profile(claim.profile(credential.clone()));
        let state = Rc::new(SessionState::new(None));
        match self.take_from_primary(profile, &state).await {
            Ok(lease) => {
                lease.release();
                Ok(true)
            }
            Err(PoolError::Connection(ConnectionError::Refused { number: 1045, .. })) => Ok(false),
            Err(error) => Err(client.refuse_pool(&error).await),
        }
    }
}

impl Offer {
    /// Makes sure that the client has answered for this plugin.
    async fn ask(&mut self, client: &mut Client, plugin: &'static str) -> Result<(), End> {
        if self.plugin == plugin.as_bytes() {
            return Ok(());
        }
        self.salt = fresh_salt();
        self.proof = client.switch(plugin, &self.salt).await?;
        self.plugin = plugin.into();
        Ok(())
    }
}

impl Claim<'_> {
    fn profile(&self, credential: Credential) -> Profile {
        let user = Rc::from(self.user);
        Profile {
            user,
            credential,
            collation: self.collation,
            flags: self.flags,
        }
    }

    fn denied(&self, peer: IpAddr) -> Verdict {
        let user = String::from_utf8_lossy(self.user);
        let host = match peer.to_canonical() {
            ip if ip.is_loopback() => "localhost".to_owned(),
            ip => ip.to_string(),
        };
        let using = if self.offer.proof.is_empty() {
            "NO"
        } else {
            "YES"
        };
        let who = format!("'{user}'@'{host}' (using password: {using})");
        Verdict::Refused(&error::ACCESS_DENIED, who)
    }
}
