//! Whether a server takes a PROXY header from this router.
//!
//! A server that does not has no way to say so but to refuse the login behind the header: MariaDB names
//! the reason, MySQL takes the header's bytes for a packet. So one login is begun here, behind a header that
//! says LOCAL, and given up before anything is proved: the server counts no wrong password.

use std::net::{Ipv4Addr, SocketAddr};

use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::{Greeting, Login as LoginPacket};
use mysql_wire::reply::{self, ErrPacket};
use proxy_wire::Version;
use tokio::io::AsyncWriteExt;

use super::{Trouble, greeted};
use crate::error::Error;
use crate::link::Login;

/// A plugin that no account has: every server asks for another one.
const NO_PLUGIN: &[u8] = b"heddle_asks_first";

/// Errors that a login behind a header can end with though the server has taken the header: it wants TLS,
/// or does not let the account in.
const TAKEN: [u16; 5] = [1045, 1698, 3159, 1251, 4151];

/// Why the server does not take a header in this form; `None` where it does.
///
/// # Errors
/// It cannot be reached, or does not answer in time.
pub async fn proxy_objection(
    to: &Login,
    version: Version,
    timeout_ms: u64,
) -> Result<Option<String>, Error> {
    let asking = async {
        let addresses = crate::link::resolve(to).await?;
        let asked = ask(to, version, &addresses).await;
        asked.map_err(|trouble| trouble.told(to))
    };
    let limit = std::time::Duration::from_millis(timeout_ms);
    match tokio::time::timeout(limit, asking).await {
        Ok(asked) => asked,
        // It waits for the rest of what it took for a packet.
        Err(_) => Ok(Some(format!("no answer to it within {timeout_ms} ms"))),
    }
}

async fn ask(
    to: &Login,
    version: Version,
    addresses: &[SocketAddr],
) -> Result<Option<String>, Trouble> {
    let (mut server, greeting) = greeted(addresses).await?;
    if let Some(refused) = refusal(&greeting, Capabilities::empty())? {
        return Ok(Some(refused.1));
    }
    let said = Greeting::decode(&greeting)?;
    let mut header = Vec::new();
    let nowhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    match version {
        Version::Text => proxy_wire::write_v1(&mut header, None, nowhere),
        Version::Binary => proxy_wire::write_v2(&mut header, None, nowhere),
    }
    server.stream.write_all(&header).await?;
    let wanted = Capabilities::PROTOCOL_41
        | Capabilities::SECURE_CONNECTION
        | Capabilities::PLUGIN_AUTH
        | Capabilities::LONG_PASSWORD;
    let login = LoginPacket {
        capabilities: wanted & said.capabilities,
        packet_bytes_max: 1 << 24,
        collation: said.collation,
        user: to.user.as_bytes(),
        auth: b"",
        database: None,
        plugin: Some(NO_PLUGIN),
        attributes: None,
        zstd_level: None,
    };
    let answered = match server.write(|out| login.encode(out)).await {
        Ok(()) => server.read().await,
        Err(trouble) => Err(trouble),
    };
    match answered {
        Ok(answer) => Ok(refusal(&answer, Capabilities::PROTOCOL_41)?
            .filter(|(number, _)| !TAKEN.contains(number))
            .map(|(_, text)| text)),
        Err(Trouble::Io(error)) => Ok(Some(format!("it closed the connection: {error}"))),
        Err(trouble) => Err(trouble),
    }
}

/// The number and the text of an error packet.
fn refusal(payload: &[u8], capabilities: Capabilities) -> Result<Option<(u16, String)>, Trouble> {
    if !reply::is_err(payload) {
        return Ok(None);
    }
    let error = ErrPacket::decode(payload, capabilities)?;
    let text = String::from_utf8_lossy(error.message);
    Ok(Some((
        error.number,
        format!("error {}: {text}", error.number),
    )))
}
