//! Command-line verbs: one call to a running router over HTTP, and its answer printed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use control::Call;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::printing;

/// A command may clone or catch up a server, which takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// A command, and how to ask it.
#[derive(Debug)]
pub struct Question {
    pub call: Call,
    /// It needs the token.
    pub changes: bool,
    pub json: bool,
    /// The router's HTTP address.
    pub http: String,
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
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(PATIENCE))
        .http_status_as_error(false)
        .build()
        .into();
    let url = format!("http://{http}/v1/{}/{}", call.group, call.command);
    let mut request = agent.post(url);
    if let Some(token) = token(&question.data)? {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if let Some(author) = author() {
        request = request.header("heddle-by", author);
    }
    let body = json!({"args": call.args, "options": call.options});
    let mut response = request
        .send_json(body)
        .map_err(|error| unreachable_router(http, &error))?;
    let status = response.status().as_u16();
    let answer: Value = response.body_mut().read_json().map_err(|error| {
        Failure::new(format!(
            "{http} answered {status} and no JSON ({error}); is it a heddle?"
        ))
    })?;
    match (status, answer) {
        (200, Value::Array(rows)) => Ok(rows),
        (status, answer) => Err(refusal(question, status, &answer)),
    }
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
        401 | 403 if question.changes => Failure::new(format!(
            "{said}; set HEDDLE_TOKEN, or --data to the directory of `heddle up` ({} has no right \
             token)",
            question.data.display()
        )),
        _ => Failure::new(said),
    }
}

fn unreachable_router(http: &str, error: &ureq::Error) -> Failure {
    let refused = matches!(error, ureq::Error::Io(io) if io.kind() == ErrorKind::ConnectionRefused);
    let what = if refused {
        "nothing listens there".to_owned()
    } else {
        error.to_string()
    };
    Failure::new(format!(
        "no router at {http}: {what}; start one (heddle up), or name another (--http ADDR, HEDDLE_HTTP)"
    ))
}

/// The token of the environment, else of the directory of `heddle up`; none when there is neither.
fn token(data: &Path) -> Result<Option<String>, Failure> {
    if let Ok(token) = std::env::var("HEDDLE_TOKEN") {
        return Ok(Some(token.trim().to_owned()));
    }
    let path = data.join("token");
    match std::fs::read_to_string(&path) {
        Ok(token) => Ok(Some(token.trim().to_owned())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let path = path.display();
            Err(Failure::new(format!(
                "cannot read {path}: {error}; set HEDDLE_TOKEN instead"
            )))
        }
    }
}
