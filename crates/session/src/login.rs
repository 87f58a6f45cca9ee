//! The beginning of a session: the greeting, what the client answers, and the packets of the plugins'
//! conversations. Whether the client is who it says is decided in [`crate::prove`].

use std::net::IpAddr;

use backend::Pass;
use farm::error;
use mysql_wire::auth::{self, SALT_BYTES};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{AuthMore, AuthSwitch, Greeting, Login};
use mysql_wire::packet;
use mysql_wire::status::Status;
use rsa::rand_core::{OsRng, RngCore};

use crate::berths::Berth;
use crate::client::{Client, ReadError};
use crate::end::End;
use crate::offer::PASSED_ON;
use crate::per_core::Core;
use crate::prove::{Claim, Offer};
use crate::transport::compression;

/// Who logged in, and how.
pub struct Identity {
    /// What the session may use connections by.
    pub pass: Pass,
    pub database: Option<Vec<u8>>,
    pub admin: bool,
    /// The client's place among those of its account; given up before the account changes.
    pub berth: Option<Berth>,
}

impl Core {
    /// Greets the client and lets it log in. The client has been told when this fails.
    pub async fn login(&self, client: &mut Client, peer: IpAddr, id: u32) -> Result<Identity, End> {
        let salt = fresh_salt();
        client.salt = salt;
        let presented = self.shared.transport.offer();
        let offered = self.greet(client, salt, id, presented.is_some()).await?;
        if let Err(read) = client.read(1).await {
            return Err(client.refuse_read(read).await);
        }
        self.secure(client, presented).await?;
        let payload = client.payload().to_vec();
        let Ok(login) = Login::decode(&payload) else {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        };
        client.capabilities = login.capabilities & offered;
        client.compression = compression(client.capabilities, login.zstd_level);
        if !login.capabilities.contains(Capabilities::PROTOCOL_41) {
            return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
        }
        let plugin = login.plugin.unwrap_or(auth::NATIVE.as_bytes());
        let claim = Claim {
            user: login.user,
            offer: Offer::new(plugin, salt, login.auth),
            collation: login.collation,
            flags: client.capabilities & PASSED_ON,
        };
        let admission = self.authenticate(client, peer, claim).await?;
        let database = login
            .database
            .filter(|name| !name.is_empty())
            .map(<[u8]>::to_vec);
        Ok(Identity {
            pass: self.pools.pass(admission.profile),
            database,
            admin: admission.admin,
            berth: Some(admission.berth),
        })
    }

    async fn greet(
        &self,
        client: &mut Client,
        salt: [u8; SALT_BYTES],
        id: u32,
        tls: bool,
    ) -> Result<Capabilities, End> {
        let welcome = self.welcome().await;
        let mut offered = welcome.capabilities;
        offered.set(Capabilities::SSL, tls);
        let plugin = if welcome.mariadb {
            auth::NATIVE
        } else {
            auth::CACHING_SHA2
        };
        let greeting = Greeting {
            version: &welcome.version,
            connection_id: id,
            salt,
            capabilities: offered,
            collation: welcome.collation,
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
    pub async fn switch(&mut self, plugin: &'static str, salt: &[u8]) -> Result<Vec<u8>, End> {
        let mut out = Vec::with_capacity(64);
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            AuthSwitch { plugin, salt }.encode(payload);
        });
        self.say(out).await?;
        self.next_proof().await
    }

    /// Says a part of a plugin's conversation.
    pub async fn more(&mut self, data: &[u8]) -> Result<(), End> {
        let mut out = Vec::with_capacity(data.len() + 8);
        packet::write_with(&mut out, &mut self.sequence, |payload| {
            AuthMore(data).encode(payload)
        });
        self.say(out).await
    }

    /// The client's part of a plugin's conversation.
    pub async fn next_proof(&mut self) -> Result<Vec<u8>, End> {
        let sequence = self.sequence;
        if let Err(read) = self.read(sequence).await {
            return Err(self.refuse_read(read).await);
        }
        Ok(self.payload().to_vec())
    }
}

/// 20 random bytes that are neither NUL nor `$`, in ASCII, as the servers make them.
fn fresh_salt() -> [u8; SALT_BYTES] {
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
