//! A client's request for TLS.

use std::sync::Arc;

use channel::Presented;
use execute::client::Client;
use execute::client::end::End;
use execute::client::transport::ClientTls;
use execute::per_core::Core;
use farm::error;
use mysql_wire::capability::Capabilities;
use mysql_wire::handshake::is_tls_request;

use crate::authentication::login;

/// Follows the client's request for TLS, if that is what it answered the greeting with; its
/// login is then the current packet as it would have been without. `offered` is what the
/// greeting promised. The client has been told when this fails, unless nobody could read it.
pub(crate) async fn secure(
    core: &Core,
    client: &mut Client,
    offered: Option<Arc<Presented>>,
) -> Result<(), End> {
    if !is_tls_request(client.request.payload()) {
        if core.shared.transport.tls == ClientTls::Required && !client.is_private() {
            client.capabilities = Capabilities::PROTOCOL_41;
            let refusal = error::SECURE_TRANSPORT_REQUIRED;
            return Err(client.refuse(&refusal, &[]).await);
        }
        return Ok(());
    }
    let Some(presented) = offered else {
        return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
    };
    client.owes = true;
    // Boxed: the handshake needs room that a session does not need afterwards.
    if let Err(error) = Box::pin(client.start_tls(&presented)).await {
        tracing::info!(%error, "a client's TLS handshake failed");
        return Err(End::Gone);
    }
    login::read_login(client, 2).await?;
    if is_tls_request(client.request.payload()) {
        return Err(client.refuse(&error::HANDSHAKE_BAD, &[]).await);
    }
    Ok(())
}
