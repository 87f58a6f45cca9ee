//! Answers that are not what was asked for: one JSON form for all, `{"error": …, "cure": …}`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use catalog::CommandError;
use serde_json::json;

/// An error with its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) error: String,
    pub(crate) cure: String,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, error: &str, cure: &str) -> Refusal {
        Refusal {
            status,
            error: error.to_owned(),
            cure: cure.to_owned(),
        }
    }
}

impl From<CommandError> for Refusal {
    /// The texts of commands hold their cure behind the first semicolon.
    fn from(error: CommandError) -> Refusal {
        let status = match &error {
            CommandError::Usage(_) => StatusCode::BAD_REQUEST,
            // Whoever shows a token at all gets 403 by `guard::denied`.
            CommandError::Denied(_) => StatusCode::FORBIDDEN,
            CommandError::Refused(_) | CommandError::Stale => StatusCode::CONFLICT,
            CommandError::Internal(_) => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let text = error.to_string();
        let (error, cure) = text.split_once("; ").unwrap_or((&text, ""));
        Refusal::new(status, error, cure)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let body = Json(json!({ "error": self.error, "cure": self.cure }));
        (self.status, body).into_response()
    }
}

/// No such path.
pub(crate) async fn not_found() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "there is nothing at this path",
        "see /, /healthz, /readyz, /metrics, /v1/farm, /v1/live, or POST /v1/GROUP/COMMAND",
    )
}

/// The path is there, but not for this method.
pub(crate) async fn wrong_method() -> Refusal {
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "this path does not take this method",
        "GET what shows something, POST /v1/GROUP/COMMAND to change something",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_commands_are_split_into_error_and_cure() {
        let refusal = Refusal::from(CommandError::Refused("no group x; make it; or not".into()));
        assert_eq!(
            refusal,
            Refusal::new(StatusCode::CONFLICT, "no group x", "make it; or not")
        );
        let refusal = Refusal::from(CommandError::Usage("what".into()));
        assert_eq!(refusal, Refusal::new(StatusCode::BAD_REQUEST, "what", ""));
    }
}
