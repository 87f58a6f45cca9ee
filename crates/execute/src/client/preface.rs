//! What a load balancer says in front of its client's first packet.

use proxy_wire::{Found, Origin, Unfit};

use super::{Client, ReadError};

impl Client {
    /// Receives the client's first bytes, and takes a PROXY header off them if they are one.
    pub async fn preface(
        &mut self,
        trusted: bool,
    ) -> Result<Result<Option<Origin>, Unfit>, ReadError> {
        loop {
            match proxy_wire::take(&self.request.bytes, trusted) {
                Ok(Found::Nothing) => return Ok(Ok(None)),
                Ok(Found::Part { needed, .. }) => {
                    self.fill(needed, !self.request.bytes.is_empty()).await?;
                }
                Ok(Found::Header { origin, bytes }) => {
                    self.request.bytes.drain(..bytes);
                    return Ok(Ok(Some(origin)));
                }
                Err(unfit) => return Ok(Err(unfit)),
            }
        }
    }
}
