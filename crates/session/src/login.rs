//! The beginning of a session: greeting, proof of identity, the account behind it.
//!
//! Heddle decides who may log in from the servers' own accounts. A client's proof for
//! `mysql_native_password` is checked against the server's hash and yields what logs in to servers;
//! for `caching_sha2_password` the first login of an account is a full one and a server judges it.

use std::net::IpAddr;
use std::rc::Rc;

use backend::{ConnectionError, Credential, PoolError, Profile, SessionState};
use farm::{Account, AuthPlugin, Engine, error};
use mysql_wire::auth::{self, SALT_BYTES};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{AuthMore, AuthSwitch, Greeting, Login, is_tls_request};
use mysql_wire::packet;
use mysql_wire::status::Status;
use rsa::rand_core::{OsRng, RngCore};

use crate::client::{Client, ReadError};
use crate::end::End;
use crate::per_core::Core;

/// What Heddle offers to clients.
const OFFERED: Capabilities = Capabilities::FOUND_ROWS
    .union(Capabilities::LONG_FLAG)
    .union(Capabilities::CONNECT_WITH_DB)
    .union(Capabilities::NO_SCHEMA)
    .union(Capabilities::ODBC)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::PROTOCOL_41)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::IGNORE_SIGPIPE)
    .union(Capabilities::TRANSACTIONS)
    .union(Capabilities::RESERVED)
    .union(Capabilities::SECURE_CONNECTION)
    .union(Capabilities::MULTI_STATEMENTS)
    .union(Capabilities::MULTI_RESULTS)
    .union(Capabilities::PS_MULTI_RESULTS)
    .union(Capabilities::PLUGIN_AUTH)
    .union(Capabilities::CONNECT_ATTRS)
    .union(Capabilities::PLUGIN_AUTH_LENENC)
    .union(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS)
    .union(Capabilities::SESSION_TRACK)
    .union(Capabilities::DEPRECATE_EOF);

/// The client's flags that a server connection must have too.
const PASSED_ON: Capabilities = Capabilities::FOUND_ROWS
    .union(Capabilities::NO_SCHEMA)
    .union(Capabilities::ODBC)
    .union(Capabilities::LOCAL_FILES)
    .union(Capabilities::IGNORE_SPACE)
    .union(Capabilities::INTERACTIVE)
    .union(Capabilities::MULTI_STATEMENTS);

/// Who logged in, and how.
pub struct Identity {
    pub profile: Profile,
    pub database: Option<Vec<u8>>,
    pub admin: bool,
}

/// What a client brought to prove itself with.
pub struct Claim<'a> {
    pub user: &'a [u8],
    /// Its first proof, made for `plugin` and `salt`.
    pub proof: &'a [u8],
    pub plugin: &'a [u8],
    pub salt: [u8; SALT_BYTES],
    pub collation: u8,
    pub flags: Capabilities,
}

impl Core {
    /// Greets the client and lets it log in. The client has been told when this fails.
    pub async fn login(&self, client: &mut Client, peer: IpAddr, id: u32) -> Result<Identity, End> {
        let salt = fresh_salt();
        let offered = self.greet(client, salt, id).await?;
        if let Err(read) = client.read(1).await {
            return Err(client.refuse_read(read).await);
        }
        let payload = client.payload().to_vec();
        if is_tls_request(&payload) {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        }
        let Ok(login) = Login::decode(&payload) else {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        };
        client.capabilities = login.capabilities & offered;
        if !login.capabilities.contains(Capabilities::PROTOCOL_41) {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        }
        let claim = Claim {
            user: login.user,
            proof: login.auth,
            plugin: login.plugin.unwrap_or(auth::NATIVE.as_bytes()),
            salt,
            collation: login.collation,
            flags: client.capabilities & PASSED_ON,
        };
        let (profile, admin) = self.authenticate(client, peer, &claim).await?;
        let database = login
            .database
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec);
        Ok(Identity {
            profile,
            database,
            admin,
        })
    }

    async fn greet(
        &self,
        client: &mut Client,
        salt: [u8; SALT_BYTES],
        id: u32,
    ) -> Result<Capabilities, End> {
        let snapshot = self.snapshot();
        let primary = snapshot.home().and_then(|group| group.primary());
        let mariadb = primary.is_none_or(|server| server.engine == Engine::MariaDb);
        let version = match primary {
            // MariaDB 10 hides its number behind this, for replicas that know no number above 5.
            Some(server) if mariadb && server.version.starts_with("10.") => {
                format!("5.5.5-{}", server.version)
            }
            Some(server) => server.version.to_string(),
            None => "5.5.5-10.6.0-MariaDB".to_owned(),
        };
        let mut offered = OFFERED;
        offered.set(Capabilities::LONG_PASSWORD, !mariadb);
        let plugin = if mariadb {
            auth::NATIVE
        } else {
            auth::CACHING_SHA2
        };
        let greeting = Greeting {
            version: &version,
            connection_id: id,
            salt,
            capabilities: offered,
            // utf8mb4_general_ci, which both engines know.
            collation: 45,
            status: Status::AUTOCOMMIT,
            plugin,
        };
        let mut out = Vec::with_capacity(128);
        client.sequence = 0;
        packet::write_with(&mut out, &mut client.sequence, |payload| {
            greeting.encode(payload)
        });
        client.say(out).await?;
        Ok(offered | Capabilities::LONG_PASSWORD)
    }

    /// Proves a claim against the accounts of the farm. The client has been told when this fails.
    pub async fn authenticate(
        &self,
        client: &mut Client,
        peer: IpAddr,
        claim: &Claim<'_>,
    ) -> Result<(Profile, bool), End> {
        let snapshot = self.snapshot();
        let user = String::from_utf8_lossy(claim.user);
        let Some(account) = snapshot.accounts.find(&user, peer) else {
            return Err(self.deny(client, claim, peer).await);
        };
        if account.locked {
            let who = format!("'{user}'@'{}'", account.host);
            return Err(client.refuse(&error::ACCOUNT_LOCKED, &[&who]).await);
        }
        let credential = match &account.plugin {
            AuthPlugin::Unsupported(plugin) => {
                return Err(client
                    .refuse(&error::AUTH_PLUGIN_UNSUPPORTED, &[plugin])
                    .await);
            }
            AuthPlugin::Native(stage2) => self.prove_native(client, claim, stage2).await?,
            AuthPlugin::CachingSha2(verifier) if verifier.is_empty() => {
                claim.proof.is_empty().then_some(Credential::Empty)
            }
            AuthPlugin::CachingSha2(verifier) => {
                self.prove_sha2(client, peer, claim, account, verifier)
                    .await?
            }
        };
        let Some(credential) = credential else {
            return Err(self.deny(client, claim, peer).await);
        };
        Ok((claim.profile(credential), account.admin))
    }

    async fn prove_native(
        &self,
        client: &mut Client,
        claim: &Claim<'_>,
        stage2: &Option<[u8; 20]>,
    ) -> Result<Option<Credential>, End> {
        let Some(stage2) = stage2 else {
            return Ok(claim.proof.is_empty().then_some(Credential::Empty));
        };
        let mut proof = claim.proof.to_vec();
        let mut salt = claim.salt;
        if claim.plugin != auth::NATIVE.as_bytes() {
            salt = fresh_salt();
            proof = client.switch(auth::NATIVE, &salt).await?;
        }
        let stage1 = auth::native_verify(&proof, &salt, stage2);
        Ok(stage1.map(Credential::NativeStage1))
    }

    async fn prove_sha2(
        &self,
        client: &mut Client,
        peer: IpAddr,
        claim: &Claim<'_>,
        account: &Account,
        verifier: &std::sync::Arc<[u8]>,
    ) -> Result<Option<Credential>, End> {
        let mut proof = claim.proof.to_vec();
        let mut salt = claim.salt;
        if claim.plugin != auth::CACHING_SHA2.as_bytes() {
            salt = fresh_salt();
            proof = client.switch(auth::CACHING_SHA2, &salt).await?;
        }
        if proof.is_empty() {
            return Ok(None);
        }
        if let Some(password) = self.shared.secrets.find(account, verifier) {
            let stage2 = auth::sha2_stage2(&auth::sha2_stage1(&password));
            if auth::sha2_verify(&proof, &salt, &stage2).is_some() {
                client.more(&[auth::FAST_OK]).await?;
                return Ok(Some(Credential::Password(Rc::from(&*password))));
            }
        }
        let Some(password) = self.full_sha2(client, &salt).await? else {
            return Ok(None);
        };
        let credential = Credential::Password(Rc::from(&*password));
        self.judge(client, peer, claim, &credential).await?;
        self.shared.secrets.remember(account, verifier, &password);
        Ok(Some(credential))
    }

    /// Asks the client for its password under our RSA key.
    async fn full_sha2(
        &self,
        client: &mut Client,
        salt: &[u8; SALT_BYTES],
    ) -> Result<Option<Vec<u8>>, End> {
        client.more(&[auth::FULL]).await?;
        let request = client.next_proof().await?;
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

    /// Lets a server judge a password: by logging in with it. The connection goes to the pool.
    async fn judge(
        &self,
        client: &mut Client,
        peer: IpAddr,
        claim: &Claim<'_>,
        credential: &Credential,
    ) -> Result<(), End> {
        let profile = self.pools.profile(claim.profile(credential.clone()));
        let state = Rc::new(SessionState::new(None));
        match self.take_from_primary(profile, &state).await {
            Ok(lease) => {
                lease.release();
                Ok(())
            }
            Err(PoolError::Connection(ConnectionError::Refused { number: 1045, .. })) => {
                Err(self.deny(client, claim, peer).await)
            }
            Err(error) => Err(client.refuse_pool(&error).await),
        }
    }

    async fn deny(&self, client: &mut Client, claim: &Claim<'_>, peer: IpAddr) -> End {
        let user = String::from_utf8_lossy(claim.user);
        let host = match peer.to_canonical() {
            ip if ip.is_loopback() => "localhost".to_owned(),
            ip => ip.to_string(),
        };
        let using = if claim.proof.is_empty() { "NO" } else { "YES" };
        let who = format!("'{user}'@'{host}' (using password: {using})");
        client.refuse(&error::ACCESS_DENIED, &[&who]).await
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
}

impl Client {
    /// Tells the client an error and gives the reason for the end.
    pub async fn refuse(&mut self, error: &farm::ClientError, details: &[&str]) -> End {
        match self.error(error, details).await {
            Ok(()) => End::Refused(*error),
            Err(end) => end,
        }
    }

    /// Turns a failed read into the reason for the end, and tells the client where that helps.
    pub async fn refuse_read(&mut self, read: ReadError) -> End {
        match read {
            ReadError::Closed => End::Quit,
            ReadError::Broken(_) => End::Gone,
            ReadError::Refused(error) => self.refuse(&error, &[]).await,
        }
    }

    /// Asks the client for another plugin's proof, and reads it.
    async fn switch(
        &mut self,
        plugin: &'static str,
        salt: &[u8; SALT_BYTES],
    ) -> Result<Vec<u8>, End> {
        let mut out = Vec::with_capacity(64);
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            AuthSwitch { plugin, salt }.encode(payload);
        });
        self.say(out).await?;
        self.next_proof().await
    }

    async fn more(&mut self, data: &[u8]) -> Result<(), End> {
        let mut out = Vec::with_capacity(data.len() + 8);
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            AuthMore(data).encode(payload)
        });
        self.say(out).await
    }

    async fn next_proof(&mut self) -> Result<Vec<u8>, End> {
        let sequence = self.sequence;
        if let Err(read) = self.read(sequence).await {
            return Err(self.refuse_read(read).await);
        }
        Ok(self.payload().to_vec())
    }
}

/// 20 random bytes that are neither NUL nor `$`, in ASCII, as the servers make them.
pub fn fresh_salt() -> [u8; SALT_BYTES] {
    let mut salt = [0; SALT_BYTES];
    OsRng.fill_bytes(&mut salt);
    for byte in &mut salt {
        *byte &= 0x7F;
        if *byte == 0 || *byte == b'$' {
            *byte += 1;
        }
    }
    salt
}
