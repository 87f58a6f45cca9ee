//! `/v1/rows/CONTAINER/KEY`: the rows of containers as JSON objects, with what memcached calls cas as
//! their ETag.
//!
//! A column that is no UTF-8 is `{"base64": …}`. Rows are the application's own: reading and writing
//! them needs the admin right.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::answer::Refusal;
use crate::server::Shared;

/// Seconds that a row has left.
const TTL: &str = "heddle-ttl";

/// Where rows are.
pub trait Rows: Send + Sync {
    /// Carries out what is wanted of one row.
    fn ask(&self, wanted: Wanted) -> Pin<Box<dyn Future<Output = Told> + Send>>;
}

/// What is wanted of the row of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    pub container: String,
    pub key: Vec<u8>,
    pub act: Act,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    Read,
    Write {
        /// By name; columns of the container that are left out become NULL.
        columns: BTreeMap<String, Option<Vec<u8>>>,
        only: Only,
        /// Seconds until it expires; `None` for never.
        ttl_s: Option<u32>,
    },
    Delete {
        /// Only while it has this cas.
        cas: Option<u64>,
    },
}

/// On which condition a row is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    Always,
    /// There is none.
    New,
    /// There is one.
    There,
    /// There is one with this cas.
    Cas(u64),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Row {
        columns: Vec<Column>,
        cas: u64,
        ttl_s: Option<u64>,
    },
    Written {
        cas: u64,
    },
    Deleted,
    NotThere,
    /// The condition does not hold.
    Condition,
    /// A constraint of the table does not allow the row.
    Constraint,
    NoContainer,
    /// The client's own mistake, or else the servers' state; and why.
    Refused {
        by_client: bool,
        why: String,
    },
}

/// One column of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub value: Option<Vec<u8>>,
    /// It has integers.
    pub number: bool,
}

type Place = Path<(String, String)>;

pub(crate) async fn get(
    State(shared): State<Shared>,
    Path((container, key)): Place,
    headers: HeaderMap,
) -> Response {
    let told = ask(&shared, container, key, Act::Read).await;
    let Told::Row {
        columns,
        cas,
        ttl_s,
    } = told
    else {
        return answer(told);
    };
    let known = header(&headers, header::IF_NONE_MATCH).and_then(|text| number_of(&text));
    let mut response = match known == Some(cas) {
        true => StatusCode::NOT_MODIFIED.into_response(),
        false => Json(object(columns)).into_response(),
    };
    tag(&mut response, cas);
    if let Some(ttl) = ttl_s {
        response.headers_mut().insert(TTL, HeaderValue::from(ttl));
    }
    response
}

pub(crate) async fn put(
    State(shared): State<Shared>,
    Path((container, key)): Place,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
    body: Result<Bytes, BytesRejection>,
) -> Response {
    let body = match body {
        Ok(body) => body,
        Err(rejection) => {
            let cure = "send a smaller row";
            return Refusal::new(rejection.status(), &rejection.body_text(), cure).into_response();
        }
    };
    let act = columns(&body).and_then(|columns| {
        Ok(Act::Write {
            columns,
            only: condition(&headers)?,
            ttl_s: ttl(query.as_deref())?,
        })
    });
    match act {
        Ok(act) => answer(ask(&shared, container, key, act).await),
        Err(why) => bad(&why),
    }
}

pub(crate) async fn delete(
    State(shared): State<Shared>,
    Path((container, key)): Place,
    headers: HeaderMap,
) -> Response {
    let cas = match condition(&headers) {
        Ok(Only::Cas(cas)) => Some(cas),
        Ok(Only::Always | Only::There) => None,
        Ok(Only::New) => return bad("a row that is not there cannot be deleted"),
        Err(why) => return bad(&why),
    };
    answer(ask(&shared, container, key, Act::Delete { cas }).await)
}

async fn ask(shared: &Shared, container: String, key: String, act: Act) -> Told {
    let key = key.into_bytes();
    let wanted = Wanted {
        container,
        key,
        act,
    };
    shared.rows.ask(wanted).await
}

fn answer(told: Told) -> Response {
    let refusal = match told {
        Told::Row { cas, .. } | Told::Written { cas } => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            tag(&mut response, cas);
            return response;
        }
        Told::Deleted => return StatusCode::NO_CONTENT.into_response(),
        Told::NotThere => Refusal::new(StatusCode::NOT_FOUND, "there is no such row", ""),
        Told::Condition => Refusal::new(
            StatusCode::PRECONDITION_FAILED,
            "the row is not what the request is about",
            "read it again",
        ),
        Told::Constraint => Refusal::new(
            StatusCode::CONFLICT,
            "a constraint of the table does not allow the row",
            "",
        ),
        Told::NoContainer => Refusal::new(
            StatusCode::NOT_FOUND,
            "there is no such container",
            "see `kv list`; make one with `kv create`",
        ),
        Told::Refused { by_client, why } => {
            let status = match by_client {
                true => StatusCode::BAD_REQUEST,
                false => StatusCode::SERVICE_UNAVAILABLE,
            };
            Refusal::new(status, &why, "")
        }
    };
    refusal.into_response()
}

fn bad(why: &str) -> Response {
    Refusal::new(StatusCode::BAD_REQUEST, why, "").into_response()
}

fn header(headers: &HeaderMap, name: header::HeaderName) -> Option<String> {
    let value = headers.get(name)?.to_str().ok()?;
    Some(value.trim().to_owned())
}

fn tag(response: &mut Response, cas: u64) {
    if let Ok(value) = HeaderValue::from_str(&format!("\"{cas}\"")) {
        response.headers_mut().insert(header::ETAG, value);
    }
}

/// The number between the quotes of an ETag.
fn number_of(tag: &str) -> Option<u64> {
    let tag = tag.strip_prefix("W/").unwrap_or(tag);
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

fn condition(headers: &HeaderMap) -> Result<Only, String> {
    let matches = header(headers, header::IF_MATCH);
    let differs = header(headers, header::IF_NONE_MATCH);
    match (matches.as_deref(), differs.as_deref()) {
        (None, None) => Ok(Only::Always),
        (Some("*"), None) => Ok(Only::There),
        (Some(tag), None) => number_of(tag)
            .map(Only::Cas)
            .ok_or_else(|| format!("If-Match is no ETag of a row: {tag}")),
        (None, Some("*")) => Ok(Only::New),
        _ => Err("of If-Match and If-None-Match: * a request has one at most".to_owned()),
    }
}

/// `?ttl=SECONDS`.
fn ttl(query: Option<&str>) -> Result<Option<u32>, String> {
    let mut ttl_s = None;
    for pair in query
        .unwrap_or_default()
        .split('&')
        .filter(|p| !p.is_empty())
    {
        let seconds = pair.strip_prefix("ttl=").and_then(|text| text.parse().ok());
        let wrong = || format!("{pair} in the query: there is ttl=SECONDS, a number from 1");
        ttl_s = Some(seconds.filter(|&s: &u32| s > 0).ok_or_else(wrong)?);
    }
    Ok(ttl_s)
}

/// The columns of a request's object.
fn columns(body: &[u8]) -> Result<BTreeMap<String, Option<Vec<u8>>>, String> {
    let object: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| format!("the body is no JSON object of columns: {error}"))?;
    let mut columns = BTreeMap::new();
    for (name, value) in object {
        let value = match value {
            Value::Null => None,
            Value::String(text) => Some(text.into_bytes()),
            Value::Bool(yes) => Some(u8::from(yes).to_string().into_bytes()),
            Value::Number(number) => Some(number.to_string().into_bytes()),
            Value::Object(object) => Some(
                object
                    .get("base64")
                    .and_then(Value::as_str)
                    .and_then(|text| BASE64.decode(text).ok())
                    .ok_or_else(|| format!("column {name}: an object is {{\"base64\": TEXT}}"))?,
            ),
            Value::Array(_) => return Err(format!("column {name} cannot be a list")),
        };
        columns.insert(name, value);
    }
    Ok(columns)
}

fn object(columns: Vec<Column>) -> Value {
    let each = columns.into_iter().map(|column| {
        let value = match column.value {
            None => Value::Null,
            Some(bytes) => match String::from_utf8(bytes) {
                Ok(text) if column.number => {
                    serde_json::from_str(&text).unwrap_or(Value::String(text))
                }
                Ok(text) => Value::String(text),
                Err(bytes) => json!({ "base64": BASE64.encode(bytes.as_bytes()) }),
            },
        };
        (column.name, value)
    });
    Value::Object(each.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_come_back_as_they_were_sent() {
        let text = r#"{"a":"x","b":null,"c":5,"d":true,"e":{"base64":"AP8="}}"#;
        let read = columns(text.as_bytes()).expect("it is an object");
        let column = |name: &str, number| Column {
            name: name.to_owned(),
            value: read[name].clone(),
            number,
        };
        let all = ["a", "b", "c", "d", "e"].map(|name| column(name, ["c", "d"].contains(&name)));
        let back = object(all.to_vec());
        let expected = json!({"a":"x","b":null,"c":5,"d":1,"e":{"base64":"AP8="}});
        assert_eq!(back, expected);
        for wrong in [
            "[]",
            "{",
            r#"{"a":[]}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{"base64":"!"}}"#,
        ] {
            assert!(columns(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn conditions_are_read_from_headers() {
        let read = |name: header::HeaderName, value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            condition(&headers)
        };
        assert_eq!(read(header::IF_MATCH, "\"7\""), Ok(Only::Cas(7)));
        assert_eq!(read(header::IF_MATCH, "*"), Ok(Only::There));
        assert_eq!(read(header::IF_NONE_MATCH, "*"), Ok(Only::New));
        assert!(read(header::IF_MATCH, "7").is_err());
        assert_eq!(ttl(Some("ttl=9")), Ok(Some(9)));
        assert!(ttl(Some("ttl=0")).is_err() && ttl(Some("x=1")).is_err());
    }
}
