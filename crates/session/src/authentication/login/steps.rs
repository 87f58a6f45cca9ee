//! The steps of a login, from the greeting to the account.

use std::net::SocketAddr;

use ::auth::proof::{Claim, Offer};
use ::auth::salt;
use execute::client::Client;
use execute::client::end::End;
use execute::client::sink::ReplySink;
use execute::client::transport::compression;
use execute::per_core::Core;
use execute::session::user::Identity;
use farm::error;
use mysql_wire::auth::{self, SALT_BYTES};
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{Greeting, Login};
use mysql_wire::packet;
use mysql_wire::status::Status;

use crate::authentication::login;
use crate::authentication::login::{PROCESS, PROGRAM, attribute, no_client_has};
use crate::authentication::offer;
use crate::authentication::offer::PASSED_ON;
use crate::authentication::prove;
use crate::authentication::secure;

/// Greets the client and lets it log in. `peer` becomes the address that a load balancer gives.
/// The client has been told when this fails.
pub async fn login(
    core: &Core,
    client: &mut Client,
    peer: &mut SocketAddr,
    id: u32,
) -> Result<Identity, End> {
    let salt = salt::fresh();
    client.salt = salt;
    let presented = core.shared.transport.offer();
    let (offered, greeted) = greet(core, client, salt, id, presented.is_some()).await?;
    heed_balancer(core, client, peer).await?;
    let peer = peer.ip();
    login::read_login(client, 1).await?;
    secure::secure(core, client, presented).await?;
    let payload = client.request.payload().to_vec();
    let Ok(login) = Login::decode(&payload) else {
        return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
    };
    client.capabilities = login.capabilities & offered;
    client.compression = compression(client.capabilities, login.zstd_level);
    if !login.capabilities.contains(Capabilities::PROTOCOL_41) {
        return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
    }
    if let Some(charset) = no_client_has(login.collation.into()) {
        return Err(client.refuse(&error::CHARSET_UNFIT, &[charset]).await);
    }
    let plugin = match login.plugin {
        // Its plugin had no part in the greeting: it waits to be asked.
        Some(plugin) if login.auth.is_empty() && plugin != greeted.as_bytes() => &b""[..],
        Some(plugin) => plugin,
        None => auth::NATIVE.as_bytes(),
    };
    let claim = Claim {
        user: login.user,
        peer,
        offer: Offer::new(plugin, salt, login.auth),
        collation: login.collation,
        flags: client.capabilities & PASSED_ON,
    };
    // Others of its address may have failed since it came.
    if let Err(refusal) = core.shared.entrance.look_at(peer, &core.settings().logins) {
        return Err(login::turn_away(client, &refusal).await);
    }
    let admission = prove::authenticate(core, client, peer, claim).await?;
    let process = attribute(login.attributes, PROCESS).map(Box::from);
    let program = attribute(login.attributes, PROGRAM).and_then(sqltext::program_tag);
    let database = login.database.filter(|name| !name.is_empty()).map(<[u8]>::to_vec);
    Ok(Identity {
        pass: core.pools.pass(admission.profile),
        database,
        process,
        program,
        admin: admission.admin,
        account_place: Some(admission.account_place),
    })
}

/// Takes a PROXY header in front of the client's first word. As with MariaDB, which greets before
/// it reads, a load balancer may send none.
async fn heed_balancer(core: &Core, client: &mut Client, peer: &mut SocketAddr) -> Result<(), End> {
    let trusted = core.shared.transport.is_balancer(peer.ip());
    let entrance = &core.shared.entrance;
    client.owes = true;
    match client.preface(trusted).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(origin))) => *peer = entrance.heard(*peer, origin),
        Ok(Err(unfit)) => {
            let refusal = entrance.misheard(*peer, unfit);
            // The client expects the answer to its first packet.
            client.sequence = 2;
            return Err(login::turn_away(client, &refusal).await);
        }
        Err(read) => return Err(client.refuse_read(read).await),
    }
    client.owes = false;
    Ok(())
}

/// What it offers, and the plugin that its salt is for.
async fn greet(
    core: &Core,
    client: &mut Client,
    salt: [u8; SALT_BYTES],
    id: u32,
    tls: bool,
) -> Result<(Capabilities, &'static str), End> {
    let welcome = offer::welcome(core).await;
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
    packet::write_with(&mut out, &mut client.sequence, |payload| greeting.encode(payload));
    client.say(out).await?;
    Ok((offered | Capabilities::LONG_PASSWORD, plugin))
}
