//! Bodies of requests: read as they come, within the memory that the router keeps for clients.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use farm::Access;
use http_body_util::BodyExt;
use memory::{Budget, Purpose, Reservation};

use crate::answer::Refusal;
use crate::serving::FromPeer;

/// A stranger's body: no more than what every reservation has for nothing.
const STRANGERS_BYTES_MAX: usize = 16 * 1024;

/// What bodies are measured by.
#[derive(Clone)]
pub(crate) struct Room {
    pub(crate) memory: Arc<Budget>,
    /// Longer ones are refused by whoever wants them.
    pub(crate) bytes_max: usize,
}

/// Runs before every request. The body counts until the request is answered.
pub(crate) async fn take(State(room): State<Room>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    let given: Access = parts.extensions.get().copied().unwrap_or_default();
    let known = given != Access::Public || parts.extensions.get::<FromPeer>().is_some();
    let mut reservation = Reservation::new(&room.memory, Purpose::Bodies);
    match room.read(body, known, &mut reservation).await {
        Ok(bytes) => next.run(Request::from_parts(parts, bytes.into())).await,
        Err(refusal) => refusal.into_response(),
    }
}

impl Room {
    /// The whole body; of one that is too long, enough to tell. Who is not `known` has room for a question,
    /// and keeps nobody else from his.
    async fn read(
        &self,
        mut body: Body,
        known: bool,
        reservation: &mut Reservation,
    ) -> Result<Vec<u8>, Refusal> {
        let mut bytes = Vec::new();
        while bytes.len() <= self.bytes_max
            && let Some(frame) = body.frame().await
        {
            let frame = frame.map_err(|why| {
                let error = format!("the request's body broke off: {why}");
                Refusal::new(StatusCode::BAD_REQUEST, &error, "send the request again")
            })?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            if !known && bytes.len() + data.len() > STRANGERS_BYTES_MAX {
                let error =
                    format!("a body without a token has {STRANGERS_BYTES_MAX} bytes at most");
                let refusal = Refusal::new(
                    StatusCode::PAYLOAD_TOO_LARGE,
                    &error,
                    catalog::cure(Access::Admin),
                );
                return Err(refusal);
            }
            let covered = reservation.cover(bytes.len() + data.len());
            covered.map_err(|_| {
                let error = "out of memory: what is kept for clients has reached memory_bytes_max";
                let cure = "try again later, or raise memory_bytes_max";
                Refusal::new(StatusCode::SERVICE_UNAVAILABLE, error, cure)
            })?;
            bytes.extend_from_slice(&data);
        }
        Ok(bytes)
    }
}
