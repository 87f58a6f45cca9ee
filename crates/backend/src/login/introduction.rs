//! Telling a server by the PROXY protocol whose connection this is.
//!
//! Only connections for clients are introduced: Heddle's own go without a header, which is the same to a
//! server as one that says LOCAL. The client's port is 0, as a connection serves all clients of an
//! account from one address.

use std::net::SocketAddr;

use channel::Channel;
use farm::error;
use proxy_wire::Version;

use crate::connection::ConnectionError;
use crate::connection::target::Target;
use crate::login::pass::Profile;
use crate::login::terms::Terms;

/// Says where the profile's client is, before anything else is said.
pub(crate) async fn send(
    sock: &mut Channel,
    terms: &Terms,
    profile: &Profile,
) -> Result<(), ConnectionError> {
    let (Some(version), Some(client)) = (terms.proxy, profile.client) else {
        return Ok(());
    };
    let broken = |source| ConnectionError::Broken {
        operation: "connecting",
        source,
    };
    let server = sock.peer().map_err(broken)?;
    let client = Some(SocketAddr::new(client, 0));
    let mut header = Vec::with_capacity(128);
    match version {
        Version::Text => proxy_wire::write_v1(&mut header, client, server),
        Version::Binary => proxy_wire::write_v2(&mut header, client, server),
    }
    let bytes = header.len();
    sock.send(header, 0..bytes).await.0.map_err(broken)
}

/// What a server answers a header that it does not take: MariaDB says so, MySQL takes the bytes for a
/// packet.
const NOT_TAKEN: [u16; 4] = [1130, 1043, 1156, 1158];

/// The reason for a failed login, where it may be the header.
pub(crate) fn explained(
    error: ConnectionError,
    target: &Target,
    profile: &Profile,
) -> ConnectionError {
    let why = match &error {
        _ if profile.client.is_none() => return error,
        ConnectionError::Refused { number, .. } if NOT_TAKEN.contains(number) => error.to_string(),
        ConnectionError::Broken {
            operation: "logging in",
            ..
        } => error.to_string(),
        _ => return error,
    };
    let server = format!("{}:{}", target.host, target.port);
    tracing::warn!(server, why, "{}", error::SERVER_TAKES_NO_PROXY.cure);
    refused(&error::SERVER_TAKES_NO_PROXY, &[&server, &why])
}

/// A refusal of Heddle's own, as a server would give it.
pub(crate) fn refused(error: &farm::ClientError, details: &[&str]) -> ConnectionError {
    let mut sqlstate = *b"HY000";
    sqlstate.copy_from_slice(error.sqlstate.as_bytes());
    ConnectionError::Refused {
        number: error.number,
        sqlstate,
        message: error.text(details).into_bytes(),
    }
}
