//! `/v1/GROUP/COMMAND`: the command table over HTTP.

use std::collections::BTreeMap;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use catalog::{Call, Table};
use farm::Access;
use serde::Deserialize;
use serde_json::Value;

use crate::answer::Refusal;
use crate::guard::denied;
use crate::server::Shared;

/// The header by which a caller says who it is, for the history of the configuration.
const AUTHOR: &str = "heddle-by";

/// The body of a POST. Everything may be left out.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    /// Positional arguments: strings, numbers or booleans; null leaves one out.
    #[serde(default)]
    args: Vec<Value>,
    /// Arguments by name.
    #[serde(default)]
    options: BTreeMap<String, Value>,
}

/// GET: commands that change nothing. `?arg=…` gives the next positional argument, `?NAME=…` one by
/// name.
pub(crate) async fn read(
    State(shared): State<Shared>,
    Path((group, command)): Path<(String, String)>,
    Extension(access): Extension<Access>,
    RawQuery(query): RawQuery,
) -> Response {
    let mut call = Call::new(&group, &command, &[]).with(access);
    for pair in query
        .as_deref()
        .unwrap_or_default()
        .split('&')
        .filter(|pair| !pair.is_empty())
    {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (Some(name), Some(value)) = (decoded(name), decoded(value)) else {
            return bad(&format!(
                "{pair:?} in the query is not UTF-8 in percent encoding"
            ));
        };
        if name == "arg" {
            call.args.push(value);
        } else {
            call.options.insert(name, value);
        }
    }
    if call.spec().is_ok() && call.changes() {
        return Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this command changes something",
            "use POST with the bearer token",
        )
        .into_response();
    }
    if let Some(refusal) = refused(&call) {
        return refusal.into_response();
    }
    run(&shared, call).await
}

/// POST: every command.
pub(crate) async fn call(
    State(shared): State<Shared>,
    Path((group, command)): Path<(String, String)>,
    Extension(access): Extension<Access>,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let call = Call::new(&group, &command, &[]).with(access);
    let mut call = call.by(author(&headers));
    // Before the body is looked at: who may not ask learns nothing of what would be.
    if let Some(refusal) = refused(&call) {
        return refusal.into_response();
    }
    let body = match body {
        Ok(bytes) => bytes,
        Err(rejection) => {
            let cure = "send a smaller body";
            return Refusal::new(rejection.status(), &rejection.body_text(), cure).into_response();
        }
    };
    let body: Body = match parse(&body) {
        Ok(body) => body,
        Err(why) => return bad(&why),
    };
    for value in body.args {
        match word(value) {
            Some(word) => call.args.push(word),
            None => return bad("an element of args is neither text, number nor boolean"),
        }
    }
    for (name, value) in body.options {
        match word(value) {
            Some(word) => call.options.insert(name, word),
            None => {
                return bad(&format!(
                    "option {name} is neither text, number nor boolean"
                ));
            }
        };
    }
    run(&shared, call).await
}

/// Who calls, by its own word: all who have the token are one to this door.
fn author(headers: &HeaderMap) -> &str {
    let named = headers.get(AUTHOR).and_then(|by| by.to_str().ok());
    named.filter(|by| !by.trim().is_empty()).unwrap_or("http")
}

/// Why a call is not carried out at all.
fn refused(call: &Call) -> Option<Refusal> {
    match call.spec() {
        Ok(spec) => denied(call.access, spec.access),
        Err(error) => Some(unknown(error)),
    }
}

async fn run(shared: &Shared, call: Call) -> Response {
    // Through the queue, so that a client that hangs up does not stop a change half-way.
    match shared.control.commander().execute(call).await {
        Ok(table) => rows(&table),
        Err(error) => Refusal::from(error).into_response(),
    }
}

fn rows(table: &Table) -> Response {
    Json(table.to_json()).into_response()
}

fn unknown(error: catalog::CommandError) -> Refusal {
    Refusal {
        status: StatusCode::NOT_FOUND,
        ..Refusal::from(error)
    }
}

fn bad(why: &str) -> Response {
    let cure = r#"send {"args": ["…"], "options": {"name": "…"}}"#;
    Refusal::new(StatusCode::BAD_REQUEST, why, cure).into_response()
}

fn parse(body: &[u8]) -> Result<Body, String> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Body::default());
    }
    serde_json::from_slice(body)
        .map_err(|error| format!("the body is not what it should be: {error}"))
}

/// A JSON value as the word that the command line would have.
fn word(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(switch) => Some(switch.to_string()),
        // An argument that is left out.
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

/// Percent-decodes a part of a query; `None` when it is malformed.
fn decoded(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |b: Option<u8>| char::from(b?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_decoded() {
        assert_eq!(decoded("a%20b+c%C3%BC").as_deref(), Some("a b cü"));
        assert_eq!(decoded("%"), None);
        assert_eq!(decoded("%zz"), None);
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn bodies() {
        assert!(parse(b"").expect("empty is no arguments").args.is_empty());
        let body = parse(br#"{"args":["g1",3,true,null]}"#).expect("a body");
        let words: Vec<_> = body.args.into_iter().map(word).collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(words, [some("g1"), some("3"), some("true"), some("")]);
        assert!(
            parse(br#"{"arg":[]}"#)
                .expect_err("a misspelt name")
                .contains("unknown field")
        );
        assert_eq!(word(serde_json::json!([])), None);
    }
}
