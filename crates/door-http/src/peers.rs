//! Routers of one farm talk by their HTTP doors: the question as one asks it, and as one answers it.
//!
//! `POST /v1/peer` with the farm's secret as the bearer token; in the body a [`Said`] and a command,
//! in the answer a [`Said`] and the command's table or error. Routers of different versions talk as
//! long as [`PROTOCOL`] is the same: fields may be added, and what one does not know it leaves.

use std::borrow::Cow;

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use control::peers::{Asking, Question};
use control::{Call, CommandError, PeerError, Peers, Table, is_refusal};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::net::TcpStream;

use crate::answer::Refusal;
use crate::guard::FromPeer;
use crate::server::Shared;

/// Where peers ask.
pub(crate) const PATH: &str = "/v1/peer";

/// The form of questions and answers. It grows when an older router would misread a newer one.
const PROTOCOL: u32 = 1;

/// Longest answer that is read; one row for each client of a full router is shorter.
const ANSWER_BYTES_MAX: usize = 256 << 20;

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
                reached = true;
                ask(stream, &question).await
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

/// One question over a fresh connection.
async fn ask(stream: TcpStream, question: &Question) -> Result<Table, PeerError> {
    let silent = |error: &dyn std::fmt::Display| PeerError::Silent(error.to_string());
    // The question is one small write, and nothing is to wait for a second one.
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| PeerError::Unreached(error.to_string()))?;
    let answer = async {
        let request = request(question)?;
        let response = sender.send_request(request).await;
        let response = response.map_err(|error| silent(&error))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX);
        let body = body.collect().await.map_err(|error| silent(&error))?;
        read(status, &body.to_bytes())
    };
    // The connection moves the bytes; its own end is no news once there is an answer.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(silent(&error)),
        },
    }
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
    let bearer = format!("Bearer {}", question.secret.reveal());
    hyper::Request::post(PATH)
        .header(HOST, &question.peer.http)
        .header(AUTHORIZATION, bearer)
        .header(CONTENT_TYPE, "application/json")
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

/// POST /v1/peer: a question of another router.
pub(crate) async fn answer(
    State(shared): State<Shared>,
    from_peer: Option<Extension<FromPeer>>,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    if from_peer.is_none() {
        return Refusal::new(
            StatusCode::UNAUTHORIZED,
            "only routers of this farm may ask here, by the farm's secret",
            "use the same state store on all routers; for commands POST /v1/GROUP/COMMAND",
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
    match serde_json::from_slice::<Said<Value>>(&body) {
        Ok(said) if said.protocol == PROTOCOL => {}
        Ok(said) => return bad(&other_protocol(said.protocol)),
        Err(error) => return bad(&format!("the question cannot be read: {error}")),
    }
    let mut call = match serde_json::from_slice::<Said<Asked>>(&body) {
        Ok(said) => said.what.call,
        Err(error) => return bad(&format!("the question cannot be read: {error}")),
    };
    call.from_peer = true;
    // Through the queue, so that a peer that gives up does not stop a change half-way.
    let what = match shared.control.commander().execute(call).await {
        Ok(table) => Answered::Table {
            columns: table.columns.into_iter().map(Cow::into_owned).collect(),
            rows: table.rows,
        },
        Err(CommandError::Usage(text)) => Answered::Usage(text),
        Err(CommandError::Refused(text)) => Answered::Refused(text),
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
