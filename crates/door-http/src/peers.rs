//! Routers of one farm talk by their HTTP doors: the question as one asks it, and as one answers it.
//!
//! `POST /v1/peer` inside TLS, in which both routers show a certificate that the farm's authority signed; to a
//! router of an older release in clear, with the farm's secret as the bearer token, where [`Way`] says so. In the
//! body a [`Said`] and a command, in the answer a [`Said`] and the command's table or error. Routers of different versions talk as
//! long as [`PROTOCOL`] is the same: fields may be added, and what one does not know it leaves.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use catalog::{Call, CommandError, Table};
use control::peers::{Asking, Question, Way};
use control::{Control, PeerError, Peers, is_refusal};
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use rustls::ServerConfig;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::answer::Refusal;
use crate::client::exchange;
use crate::peer_tls::{self, Heeding};
use crate::server::Shared;
use crate::serving::{Certificate, FromPeer};

/// Where peers ask.
pub(crate) const PATH: &str = "/v1/peer";

/// The form of questions and answers. It grows when an older router would misread a newer one.
const PROTOCOL: u32 = 1;

/// A longer answer is read on a thread of its own.
const READ_AT_ONCE_MAX: usize = 64 << 10;

/// What stands in every question and answer.
#[derive(Debug, Serialize, Deserialize)]
struct Said<T> {
    protocol: u32,
    /// What is older or newer may say something else here.
    #[serde(flatten)]
    what: T,
}

#[derive(Debug, Serialize, Deserialize)]
struct Asked {
    call: Call,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answered {
    Table {
        columns: Vec<String>,
        rows: Vec<Vec<Value>>,
    },
    Usage(String),
    Refused(String),
    Internal(String),
}

/// Asks peers at their HTTP doors, by one connection for each question.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpPeers;

impl Peers for HttpPeers {
    fn ask(&self, question: Question) -> Asking<Result<Table, PeerError>> {
        Box::pin(async move {
            let mut reached = false;
            let asking = async {
                let stream = TcpStream::connect(&question.peer.http).await;
                let stream = stream.map_err(|error| match is_refusal(&error) {
                    true => PeerError::Gone,
                    false => PeerError::Unreached(error.to_string()),
                })?;
                // The question is one small write, and nothing is to wait for a second one.
                let _ = stream.set_nodelay(true);
                let request = request(&question)?;
                match &question.way {
                    Way::InClear(_) => {
                        reached = true;
                        ask(stream, request).await
                    }
                    Way::Tls(config) => {
                        let stream = peer_tls::enter(stream, Arc::clone(config)).await?;
                        reached = true;
                        let (stream, refused) = Heeding::new(stream);
                        let answer = ask(stream, request).await;
                        answer.map_err(|error| refused.get().cloned().unwrap_or(error))
                    }
                }
            };
            let answer = tokio::time::timeout(question.limit, asking).await;
            answer.unwrap_or_else(|_| {
                let late = format!("within {} ms", question.limit.as_millis());
                Err(match reached {
                    true => PeerError::Silent(late),
                    false => PeerError::Unreached(late),
                })
            })
        })
    }
}

/// What peers are shown who ask at this router's door.
pub(crate) struct Shown(pub(crate) Arc<Control>);

impl Certificate for Shown {
    fn now(&self) -> Option<Arc<ServerConfig>> {
        match self.0.mutual() {
            Ok(mutual) => Some(Arc::clone(&mutual.server)),
            Err(error) => {
                tracing::error!("{error}");
                None
            }
        }
    }
}

/// One question over a fresh connection.
async fn ask<S>(stream: S, request: hyper::Request<Full<Bytes>>) -> Result<Table, PeerError>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let answer = exchange(stream, request).await;
    let (head, body) = answer.map_err(|error| PeerError::Silent(error.to_string()))?;
    let status = head.status;
    if body.len() <= READ_AT_ONCE_MAX {
        return read(status, &body);
    }
    // The control plane asks, and its thread has more to do than to read long lists.
    let read = tokio::task::spawn_blocking(move || read(status, &body)).await;
    read.unwrap_or_else(|error| Err(PeerError::Strange(error.to_string())))
}

fn request(question: &Question) -> Result<hyper::Request<Full<Bytes>>, PeerError> {
    let unfit = |error: &dyn std::fmt::Display| PeerError::Unreached(error.to_string());
    let asked = Said {
        protocol: PROTOCOL,
        what: Asked {
            call: question.call.clone(),
        },
    };
    let body = serde_json::to_vec(&asked).map_err(|error| unfit(&error))?;
    let mut request = hyper::Request::post(PATH)
        .header(HOST, &question.peer.http)
        .header(CONTENT_TYPE, "application/json");
    if let Way::InClear(secret) = &question.way {
        request = request.header(AUTHORIZATION, format!("Bearer {}", secret.reveal()));
    }
    request
        .body(Full::new(Bytes::from(body)))
        .map_err(|error| unfit(&error))
}

/// An answer's meaning.
fn read(status: StatusCode, body: &[u8]) -> Result<Table, PeerError> {
    if status != StatusCode::OK {
        let answer: Value = serde_json::from_slice(body).unwrap_or_default();
        let said = answer["error"].as_str().unwrap_or("no reason given");
        let why = format!("it answered {}: {said}", status.as_u16());
        return Err(PeerError::Strange(why));
    }
    let protocol = serde_json::from_slice::<Said<Value>>(body).map(|said| said.protocol);
    match protocol {
        Ok(PROTOCOL) => {}
        Ok(other) => return Err(PeerError::Strange(other_protocol(other))),
        Err(error) => {
            return Err(PeerError::Strange(format!(
                "no answer of a router: {error}"
            )));
        }
    }
    let said: Said<Answered> = serde_json::from_slice(body)
        .map_err(|error| PeerError::Strange(format!("no answer of a router: {error}")))?;
    Err(PeerError::Command(match said.what {
        Answered::Table { columns, rows } => {
            let whole = rows.iter().all(|row| row.len() == columns.len());
            let columns = columns.into_iter().map(Cow::from).collect();
            return match whole {
                true => Ok(Table { columns, rows }),
                false => Err(PeerError::Strange(
                    "rows of its answer differ in length".to_owned(),
                )),
            };
        }
        Answered::Usage(text) => CommandError::Usage(text),
        Answered::Refused(text) => CommandError::Refused(text),
        Answered::Internal(text) => CommandError::Internal(text),
    }))
}

fn other_protocol(other: u32) -> String {
    format!("it speaks to peers in form {other}, this router in form {PROTOCOL}; run one version")
}

/// The command in the body of a question, as a peer's; an error says why there is none.
pub fn asked(body: &[u8]) -> Result<Call, String> {
    let unread = |error: serde_json::Error| format!("the question cannot be read: {error}");
    let said: Said<Value> = serde_json::from_slice(body).map_err(unread)?;
    if said.protocol != PROTOCOL {
        return Err(other_protocol(said.protocol));
    }
    let said: Said<Asked> = serde_json::from_slice(body).map_err(unread)?;
    let mut call = said.what.call;
    call.from_peer = true;
    Ok(call)
}

/// POST /v1/peer: a question of another router.
pub(crate) async fn answer(
    State(shared): State<Shared>,
    from_peer: Option<Extension<FromPeer>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if from_peer.is_none() {
        return Refusal::new(
            StatusCode::UNAUTHORIZED,
            "only routers of this farm may ask here, inside TLS, by a certificate of the farm's authority",
            "use the same state store on all routers, and upgrade those of releases that show the farm's secret \
             (peers_in_clear = on takes it until then); for commands POST /v1/GROUP/COMMAND",
        )
        .into_response();
    }
    let bad = |why: &str| {
        let cure = "run the same version of Heddle on all routers";
        Refusal::new(StatusCode::BAD_REQUEST, why, cure).into_response()
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return bad(&rejection.body_text()),
    };
    let call = match asked(&body) {
        Ok(call) => call,
        Err(why) => return bad(&why),
    };
    // Through the queue, so that a peer that gives up does not stop a change half-way.
    let what = match shared.control.commander().execute(call).await {
        Ok(table) => Answered::Table {
            columns: table.columns.into_iter().map(Cow::into_owned).collect(),
            rows: table.rows,
        },
        Err(CommandError::Usage(text)) => Answered::Usage(text),
        Err(CommandError::Refused(text) | CommandError::Denied(text)) => Answered::Refused(text),
        Err(stale @ CommandError::Stale) => Answered::Refused(stale.to_string()),
        Err(CommandError::Internal(text)) => Answered::Internal(text),
    };
    Json(Said {
        protocol: PROTOCOL,
        what,
    })
    .into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_none_are_told_from_errors_of_commands() {
        let ok = |body: &str| read(StatusCode::OK, body.as_bytes());
        let table = ok(r#"{"protocol":1,"later":2,"table":{"columns":["a"],"rows":[[1],["x"]]}}"#)
            .expect("a table");
        assert_eq!(table.columns, ["a"]);
        assert_eq!(table.rows, [[Value::from(1)], [Value::from("x")]]);
        let refused = ok(r#"{"protocol":1,"refused":"no; why"}"#);
        let refused_text = CommandError::Refused("no; why".to_owned());
        assert_eq!(refused, Err(PeerError::Command(refused_text)));
        for strange in [
            "",
            "<html>",
            "[]",
            r#"{"protocol":2,"table":{"columns":[],"rows":[]}}"#,
            r#"{"protocol":1,"table":{"columns":["a","b"],"rows":[[1]]}}"#,
            r#"{"protocol":1,"other":{}}"#,
        ] {
            assert!(
                matches!(ok(strange), Err(PeerError::Strange(_))),
                "{strange}"
            );
        }
        let denied = read(StatusCode::UNAUTHORIZED, br#"{"error":"who are you"}"#);
        let Err(PeerError::Strange(why)) = denied else {
            panic!("{denied:?}");
        };
        assert_eq!(why, "it answered 401: who are you");
    }
}
