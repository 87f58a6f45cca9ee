//! The login through a tunnel: the driver logs in without a password, Heddle with it.
//!
//! A server that is not trusted gets proofs of the password, never the password, and no key that a server
//! sends is used at all: inside TLS there is no need for one, and outside it would be a stranger's.
//!
//! Source: MySQL internals, «Connection Phase»; «Caching SHA-2 Pluggable Authentication».

use std::fs::File;
use std::io::Read;

use mysql_wire::auth::ParsecTerms;
use mysql_wire::handshake::{AuthMore, AuthSwitch, Login as LoginPacket};
use zeroize::Zeroizing;

use super::*;

/// ER_SECURE_TRANSPORT_REQUIRED.
const UNTRUSTED: u16 = 3159;

/// Passes the greeting on, takes the driver's login, and logs in with the password. Gives the server's key,
/// if it showed one; None when the server refused, which the driver was told.
pub(super) async fn log_in(
    tunnel: &mut Tunnel,
    driver: &mut End,
    to: &Login,
) -> Result<Option<Option<Fingerprint>>, Trouble> {
    if reply::is_err(&tunnel.greeting) {
        let greeting = std::mem::take(&mut tunnel.greeting);
        driver.write(|out| out.extend_from_slice(&greeting)).await?;
        return Ok(None);
    }
    let said = Greeting::decode(&tunnel.greeting)?;
    let shown = Greeting {
        capabilities: said.capabilities.difference(Capabilities::SSL),
        plugin: auth::NATIVE,
        ..said
    };
    driver.write(|out| shown.encode(out)).await?;
    let bytes = driver.read().await?;
    let asked = LoginPacket::decode(&bytes)?;
    let key = tunnel.go_inside(to, request(&asked)).await?;
    let greeting = std::mem::take(&mut tunnel.greeting);
    let said = Greeting::decode(&greeting)?;
    let plugin = match said.plugin {
        auth::CACHING_SHA2 => auth::CACHING_SHA2,
        _ => auth::NATIVE,
    };
    let first = prove(plugin, &said.salt, to, tunnel).unwrap_or_default();
    let mut capabilities = asked.capabilities;
    capabilities.set(Capabilities::SSL, tunnel.is_secure);
    let login = LoginPacket {
        capabilities,
        auth: &first,
        plugin: Some(plugin.as_bytes()),
        ..asked
    };
    tunnel.server.write(|out| login.encode(out)).await?;
    let is_in = answer(tunnel, driver, to, plugin).await?;
    Ok(is_in.then_some(key))
}

/// The request for TLS before a login. MySQL refuses one whose fixed part is not that of the login (1043).
fn request(login: &LoginPacket<'_>) -> TlsRequest {
    TlsRequest {
        capabilities: login.capabilities | Capabilities::SSL,
        packet_bytes_max: login.packet_bytes_max,
        collation: login.collation,
    }
}

/// Answers what the server asks until it says OK or refuses; the driver hears either.
async fn answer(
    tunnel: &mut Tunnel,
    driver: &mut End,
    to: &Login,
    plugin: &str,
) -> Result<bool, Trouble> {
    let mut plugin = plugin.to_owned();
    let mut salt = Vec::new();
    let mut unmet: Option<String> = None;
    loop {
        let payload = tunnel.server.read().await?;
        if reply::is_err(&payload) && unmet.is_some() {
            let plugin = unmet.unwrap_or_default();
            driver.refuse(UNTRUSTED, &untrusted(&plugin)).await?;
            return Ok(false);
        }
        if reply::is_err(&payload) || reply::is_ok(&payload) {
            driver.write(|out| out.extend_from_slice(&payload)).await?;
            return Ok(reply::is_ok(&payload));
        }
        if AuthSwitch::is(&payload) {
            let switch = AuthSwitch::decode(&payload)?;
            plugin = switch.plugin.to_owned();
            salt = switch.salt.to_vec();
            let proof = prove(&plugin, switch.salt, to, tunnel);
            if proof.is_none() {
                unmet.get_or_insert_with(|| plugin.clone());
            }
            let proof = proof.unwrap_or_default();
            let write = |out: &mut Vec<u8>| out.extend_from_slice(&proof);
            tunnel.server.write(write).await?;
            continue;
        }
        // MariaDB's plugins say the same without a byte in front.
        let more = AuthMore::decode(&payload).map_or(&payload[..], |more| more.0);
        match (&*plugin, more.first()) {
            (auth::PARSEC, Some(_)) => sign(tunnel, to, &salt, more).await?,
            (auth::CACHING_SHA2, Some(&auth::FAST_OK)) => {}
            (auth::CACHING_SHA2, Some(&auth::FULL)) if tunnel.is_trusted => {
                let clear = clear(to);
                let write = |out: &mut Vec<u8>| out.extend_from_slice(&clear);
                tunnel.server.write(write).await?;
            }
            (auth::CACHING_SHA2, Some(&auth::FULL)) => {
                driver.refuse(UNTRUSTED, &untrusted(&plugin)).await?;
                return Ok(false);
            }
            _ => {
                let what = "a step of the login";
                return Err(Malformed { what }.into());
            }
        }
    }
}

/// What a plugin wants to see first; None for what this server is not shown.
fn prove(plugin: &str, salt: &[u8], to: &Login, tunnel: &Tunnel) -> Option<Zeroizing<Vec<u8>>> {
    let password = to.password.as_bytes();
    let sends_password = matches!(plugin, auth::SHA256 | auth::CLEAR | auth::DIALOG);
    if password.is_empty() {
        return Some(Zeroizing::new(vec![0; usize::from(sends_password)]));
    }
    let proof = match plugin {
        auth::NATIVE => {
            auth::native_scramble(&auth::native_stage1(password), salt.first_chunk()?).to_vec()
        }
        auth::CACHING_SHA2 => {
            auth::sha2_scramble(&auth::sha2_stage1(password), salt.first_chunk()?).to_vec()
        }
        auth::ED25519 => auth::ed25519_sign(password, salt).to_vec(),
        // It first waits for the server to say more.
        auth::PARSEC => Vec::new(),
        _ if sends_password && tunnel.is_trusted => return Some(clear(to)),
        _ => return None,
    };
    Some(Zeroizing::new(proof))
}

/// Answers the server that has said how the key of `parsec` is drawn from the password.
async fn sign(tunnel: &mut Tunnel, to: &Login, servers: &[u8], said: &[u8]) -> Result<(), Trouble> {
    let what = "how to draw a key for parsec";
    let terms = ParsecTerms::decode(said).ok_or(Malformed { what })?;
    let mut own = [0; auth::PARSEC_SCRAMBLE_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut own)?;
    let answer = terms.answer(to.password.as_bytes(), servers, &own);
    let write = |out: &mut Vec<u8>| out.extend_from_slice(&answer);
    tunnel.server.write(write).await?;
    Ok(())
}

fn clear(to: &Login) -> Zeroizing<Vec<u8>> {
    let mut clear = Zeroizing::new(Vec::with_capacity(to.password.len() + 1));
    clear.extend_from_slice(to.password.as_bytes());
    clear.push(0);
    clear
}

fn untrusted(plugin: &str) -> String {
    format!("the server asks for the password itself ({plugin}), and nothing proves who it is")
}
