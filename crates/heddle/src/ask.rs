//! Command-line verbs: one call to a running router over HTTP, and its answer printed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catalog::Call;
use channel::{ClientConfig, Trust};
use door_http::client::Place;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::printing;
use crate::router::runtime;
use crate::tls::OWN_CERTIFICATE;

/// A command may clone or catch up a server, which takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// A command, and how to ask it.
#[derive(Debug)]
pub struct Question {
    pub call: Call,
    pub json: bool,
    /// The router's HTTP address, or its URL.
    pub http: String,
    /// Its certificate or authority.
    pub ca: Option<PathBuf>,
    /// The directory of `heddle up`, where the token is.
    pub data: PathBuf,
}

/// Asks and prints the rows.
///
/// # Errors
/// What the router answered: exit 2 for a call that is wrong in itself, 1 for anything else.
pub fn run(question: &Question) -> Result<(), Failure> {
    let rows = rows(question)?;
    let text = if question.json {
        format!("{}\n", Value::from(rows))
    } else if let Some(text) = printing::one_text(&rows) {
        text.to_owned()
    } else {
        printing::table(&rows)
    };
    printing::put(&text);
    Ok(())
}

fn rows(question: &Question) -> Result<Vec<Value>, Failure> {
    let Question { call, http, .. } = question;
    let place = Place::of(http);
    let trust = match place.is_secure {
        true => Some(trust(http, question.ca.as_deref(), &question.data)?),
        false => None,
    };
    let mut headers = Vec::new();
    if let Some(token) = token(&question.data)? {
        headers.push(("authorization", format!("Bearer {token}")));
    }
    if let Some(author) = author() {
        headers.push(("heddle-by", author));
    }
    let path = format!("/v1/{}/{}", call.group, call.command);
    let body = json!({"args": call.args, "options": call.options}).to_string();
    let asked = async {
        let answer = place.post(&path, &headers, body.into_bytes(), trust);
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
    };
    let (status, body) = runtime()?
        .block_on(asked)
        .map_err(|error| unreachable_router(question, &error))?;
    let answer: Value = serde_json::from_slice(&body).map_err(|error| {
        Failure::new(format!(
            "{http} answered {status} and no JSON ({error}); is it a heddle?"
        ))
    })?;
    match (status, answer) {
        (200, Value::Array(rows)) => Ok(rows),
        (status, answer) => Err(refusal(question, status, &answer)),
    }
}

/// What the router must show: the certificate or authority of `--ca`, else the certificate that it made
/// itself in its directory.
pub fn trust(http: &str, ca: Option<&Path>, data: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let own = [data.to_owned(), data.join("state")].map(|dir| dir.join(OWN_CERTIFICATE));
    let file = match ca {
        Some(file) => Some(file),
        None => own.iter().map(|file| &**file).find(|file| file.exists()),
    };
    let Some(file) = file else {
        return Err(Failure::new(format!(
            "nothing to know the router at {} by; name a PEM file with its certificate or authority \
             (--ca FILE, HEDDLE_CA), or its directory (--data DIR)",
            http
        )));
    };
    let failed = |error: String| Failure::new(format!("{}: {error}", file.display()));
    let pem = std::fs::read(file).map_err(|error| failed(error.to_string()))?;
    Trust::with_router(&pem).map_err(|error| failed(error.to_string()))
}

/// Who runs this program, for the history of the configuration.
fn author() -> Option<String> {
    let user = std::env::var("SUDO_USER").or_else(|_| std::env::var("USER"));
    let printable = |name: &String| name.chars().all(|c| c.is_ascii_graphic());
    user.ok().filter(printable).filter(|name| !name.is_empty())
}

fn refusal(question: &Question, status: u16, answer: &Value) -> Failure {
    let mut said = answer["error"]
        .as_str()
        .unwrap_or("no reason given")
        .to_owned();
    if let Some(cure) = answer["cure"].as_str().filter(|cure| !cure.is_empty()) {
        said = format!("{said}; {cure}");
    }
    match status {
        400 | 404 => Failure::usage(said),
        401 | 403 => Failure::new(format!(
            "{said}; set HEDDLE_TOKEN, or --data to the directory of `heddle up` ({} has no right \
             token)",
            question.data.display()
        )),
        _ => Failure::new(said),
    }
}

fn unreachable_router(question: &Question, error: &std::io::Error) -> Failure {
    let http = &question.http;
    let what = match error.kind() {
        ErrorKind::ConnectionRefused => "nothing listens there".to_owned(),
        _ => error.to_string(),
    };
    if what.contains("certificate") {
        return Failure::new(format!(
            "the router at {http} shows another certificate than was expected ({what}); compare it, then \
             name it or its authority (--ca FILE, HEDDLE_CA)"
        ));
    }
    Failure::new(format!(
        "no router at {http}: {what}; start one (heddle up), or name another (--http ADDR, HEDDLE_HTTP)"
    ))
}

/// The token of the environment, else of the directory of `heddle up`; none when there is neither.
pub fn token(data: &Path) -> Result<Option<String>, Failure> {
    if let Ok(token) = std::env::var("HEDDLE_TOKEN") {
        return Ok(Some(token.trim().to_owned()));
    }
    // Who may read only the second one may only look at the farm.
    let mut unreadable = None;
    for path in [data.join("token"), data.join("monitor-token")] {
        match std::fs::read_to_string(&path) {
            Ok(token) => return Ok(Some(token.trim().to_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => drop(unreadable.get_or_insert((path, error))),
        }
    }
    let Some((path, error)) = unreadable else {
        return Ok(None);
    };
    let path = path.display();
    Err(Failure::new(format!(
        "cannot read {path}: {error}; set HEDDLE_TOKEN instead"
    )))
}
