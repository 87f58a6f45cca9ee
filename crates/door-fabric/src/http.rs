//! XML-RPC over HTTP: paths for the HTTP door's server, which bounds connections, heads and bodies.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Extension, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use farm::Access;

use crate::answer::Failure;
use crate::client::{PATHS, Shown};
use crate::digest::{Gate, Verdict};
use crate::door::{Caller, Door, command, random};
use crate::table::Work;
use crate::xml;

/// Python's `SimpleXMLRPCServer`, of which Fabric is made, has this code for all faults.
const FAULT: i64 = 1;

/// The door and who is let in.
#[derive(Clone)]
struct Entrance {
    door: Arc<Door>,
    gate: Option<Arc<Mutex<Gate>>>,
}

/// The paths of the XML-RPC door. A request may carry a right that it has proved otherwise, as an extension
/// of the type [`Access`].
///
/// # Errors
/// There are no random bytes to seal nonces with.
pub fn paths(door: Arc<Door>) -> std::io::Result<Router> {
    let secret = random()?;
    let gate = door.options.user.as_ref();
    let gate = gate.map(|(user, password)| Gate::new(user, password, secret));
    let entrance = Entrance {
        gate: gate.map(|gate| Arc::new(Mutex::new(gate))),
        door,
    };
    let fixed = PATHS.iter().map(|(path, _)| *path);
    let paths = ["/", "/RPC2"].into_iter().chain(fixed);
    let router = paths.fold(Router::new(), |router, path| {
        router.route(path, post(answer))
    });
    Ok(router.with_state(entrance))
}

async fn answer(
    State(entrance): State<Entrance>,
    access: Option<Extension<Access>>,
    uri: Uri,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let proved = access.map_or(Access::Public, |Extension(access)| access);
    let access = match entrance.admit(proved, &headers) {
        Ok(access) => access,
        Err(refusal) => return *refusal,
    };
    let body = match body {
        Ok(body) => body,
        Err(rejection) => return said(rejection.status(), &rejection.body_text()),
    };
    if body.iter().all(u8::is_ascii_whitespace) {
        // Connector/J asks so whether it must log in.
        return said(StatusCode::BAD_REQUEST, "there is no call in this request");
    }
    entrance.carry_out(access, &uri, &headers, &body).await
}

impl Entrance {
    /// What the caller may ask for; or how he is to prove it.
    fn admit(&self, proved: Access, headers: &HeaderMap) -> Result<Access, Box<Response>> {
        let Some(gate) = &self.gate else {
            return Ok(proved.max(self.door.options.open));
        };
        if proved > Access::Public {
            return Ok(proved);
        }
        let shown = headers.get(header::AUTHORIZATION);
        let shown = shown.and_then(|value| value.to_str().ok());
        let now_ms = self.door.now_ms();
        let mut gate = gate.lock().unwrap_or_else(PoisonError::into_inner);
        match gate.judge(shown, "POST", now_ms) {
            Verdict::Welcome => Ok(Access::Admin),
            Verdict::Ask { stale } => {
                let challenge = gate.challenge(stale, now_ms);
                let refusal = said(StatusCode::UNAUTHORIZED, "log in as fabric_user");
                let challenge = [(header::WWW_AUTHENTICATE, challenge)];
                Err(Box::new((challenge, refusal).into_response()))
            }
            Verdict::Refused => {
                tracing::warn!(
                    "a client of the Fabric door shows a wrong name or password; give it fabric_user and \
                     fabric_password of this router's settings"
                );
                let refusal = said(StatusCode::BAD_REQUEST, "wrong name or password");
                Err(Box::new(refusal))
            }
        }
    }

    async fn carry_out(
        &self,
        access: Access,
        uri: &Uri,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Response {
        let began = Instant::now();
        let call = match xml::read(body) {
            Ok(call) => call,
            Err(error) => {
                self.door.counts.unreadable();
                tracing::warn!(
                    "a client of the Fabric door sent {error}; it must send calls of XML-RPC"
                );
                let class = "<class 'xml.parsers.expat.ExpatError'>";
                return text(
                    StatusCode::OK,
                    xml::fault(FAULT, &format!("{class}:{error}")),
                );
            }
        };
        let agent = headers.get(header::USER_AGENT);
        let mut shown = Shown {
            path: uri.path(),
            agent: agent
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default(),
            is_latin: call.is_latin,
            method: &call.method,
            params: call.params.len(),
            has_sync: false,
        };
        let command = match command(&call.method) {
            Ok(command) => command,
            Err(failure) => return fault(&failure),
        };
        let is_look_up = matches!(command.work, Work::LookUp(_));
        // Older clients gave look-ups a switch more than they have now.
        shown.has_sync = is_look_up && call.params.len() == command.params.len() + 1;
        let form = shown.form(self.door.options.replies);
        let caller = Caller {
            access,
            reader: shown.reader(form),
            by: "fabric".to_owned(),
        };
        let answer = self.door.call(command, &call.params, &caller).await;
        let found = answer.is_ok();
        let answer = match answer {
            Ok(answer) => Ok(answer),
            Err(Failure::Failed(text)) => Err(text),
            Err(failure) => return fault(&failure),
        };
        let answer = answer.as_ref().map_err(String::as_str);
        let written = xml::response(&self.door.head().shape(form, command, answer));
        if is_look_up {
            let us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.door.counts.looked_up(found, us, written.len() as u64);
        }
        text(StatusCode::OK, written)
    }
}

/// What is no answer of the command: Python's exceptions, and rights.
fn fault(failure: &Failure) -> Response {
    let (status, class) = match failure {
        Failure::Unknown(_) => (StatusCode::OK, "exceptions.Exception"),
        Failure::Signature(_) => (StatusCode::OK, "exceptions.TypeError"),
        Failure::Denied(_) => (StatusCode::FORBIDDEN, "exceptions.Exception"),
        Failure::Failed(_) => (StatusCode::OK, "exceptions.Exception"),
    };
    if let Failure::Denied(why) = failure {
        tracing::warn!("a client of the Fabric door was refused: {why}");
    }
    text(
        status,
        xml::fault(FAULT, &format!("<type '{class}'>:{failure}")),
    )
}

fn text(status: StatusCode, xml: String) -> Response {
    (status, [(header::CONTENT_TYPE, "text/xml")], xml).into_response()
}

/// A refusal before there is a call.
fn said(status: StatusCode, why: &str) -> Response {
    (
        status,
        [(header::CONTENT_TYPE, "text/plain")],
        format!("{why}\n"),
    )
        .into_response()
}
