//! Command-line verbs: one call to a running router over HTTP, and its answer printed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use catalog::Call;
use channel::{ClientConfig, Trust};
use door_http::client::Place;
use serde_json::{Value, json};

use crate::doors::tls::OWN_CERTIFICATE;
use crate::failure::Failure;
use crate::printing;
use crate::router::runtime;

/// A command may clone or catch up a server, which takes its time.
const PATIENCE: Duration = Duration::from_secs(600);

/// Which router a verb asks, and what it knows the router by.
#[derive(clap::Args, Clone, Debug)]
pub struct RouterFlags {
    /// The router to talk to; with https:// in front, inside TLS
    #[arg(
        long,
        value_name = "ADDR",
        env = "HEDDLE_HTTP",
        default_value = "127.0.0.1:6080"
    )]
    pub http: String,
    /// PEM file with the router's certificate, or with its authority's, for https://
    #[arg(long, value_name = "FILE", env = "HEDDLE_CA")]
    pub ca: Option<PathBuf>,
    /// Where the router's token is, and its own certificate
    #[arg(long, value_name = "DIR", default_value = "heddle-data")]
    pub data: PathBuf,
}

/// A command, and how to ask it.
#[derive(Debug)]
pub struct Question {
    pub call: Call,
    pub json: bool,
    pub router: RouterFlags,
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

/// The rows of the answer.
///
/// # Errors
/// As for [`run`].
pub fn rows(question: &Question) -> Result<Vec<Value>, Failure> {
    let remote = Remote::new(&question.router)?;
    runtime()?.block_on(remote.rows(&question.call))
}

/// A running router, and by what right it is asked.
pub struct Remote {
    place: Place,
    trust: Option<Arc<ClientConfig>>,
    headers: Vec<(&'static str, String)>,
    http: String,
    data: PathBuf,
}

impl Remote {
    /// The router that the flags name; the token is that of the environment, or of their directory.
    ///
    /// # Errors
    /// The token cannot be read, or there is nothing to know the router by.
    pub fn new(flags: &RouterFlags) -> Result<Remote, Failure> {
        let RouterFlags { http, ca, data } = flags;
        let (place, trust) = place(http, ca.as_deref(), data)?;
        let mut headers = Vec::new();
        if let Some(token) = token(data)? {
            headers.push(("authorization", format!("Bearer {token}")));
        }
        if let Some(author) = author() {
            headers.push(("heddle-by", author));
        }
        Ok(Remote {
            place,
            trust,
            headers,
            http: http.clone(),
            data: data.clone(),
        })
    }

    /// The rows that a command gives.
    ///
    /// # Errors
    /// What the router answered: exit 2 for a call that is wrong in itself, 1 for anything else.
    pub async fn rows(&self, call: &Call) -> Result<Vec<Value>, Failure> {
        let path = format!("/v1/{}/{}", call.group, call.command);
        let body = json!({"args": call.args, "options": call.options}).to_string();
        let answer = self
            .place
            .post(&path, &self.headers, body.into_bytes(), self.trust.clone());
        match self.answer(answer).await? {
            Value::Array(rows) => Ok(rows),
            other => Err(self.refusal(200, &other)),
        }
    }

    /// What is at a path.
    ///
    /// # Errors
    /// As above.
    pub async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.answer(self.place.get(path, &self.headers, self.trust.clone()))
            .await
    }

    async fn answer(
        &self,
        answer: impl Future<Output = std::io::Result<(u16, impl AsRef<[u8]>)>>,
    ) -> Result<Value, Failure> {
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        let answer = answer.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()));
        let (status, body) = answer.map_err(|error| self.unreachable(&error))?;
        let answer: Value = serde_json::from_slice(body.as_ref()).map_err(|error| {
            Failure::new(format!(
                "{} answered {status} and no JSON ({error}); is it a heddle?",
                self.http
            ))
        })?;
        match status {
            200 => Ok(answer),
            status => Err(self.refusal(status, &answer)),
        }
    }

    fn refusal(&self, status: u16, answer: &Value) -> Failure {
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
                self.data.display()
            )),
            _ => Failure::new(said),
        }
    }

    fn unreachable(&self, error: &std::io::Error) -> Failure {
        let http = &self.http;
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
}

/// The router at an address, and inside TLS what it must show.
///
/// # Errors
/// There is nothing to know it by.
pub fn place(
    http: &str,
    ca: Option<&Path>,
    data: &Path,
) -> Result<(Place, Option<Arc<ClientConfig>>), Failure> {
    let place = Place::of(http);
    let trust = match place.is_secure {
        true => Some(trust(http, ca, data)?),
        false => None,
    };
    Ok((place, trust))
}

/// What the router must show: the certificate or authority of `--ca`, else the certificate that it made
/// itself in its directory.
fn trust(http: &str, ca: Option<&Path>, data: &Path) -> Result<Arc<ClientConfig>, Failure> {
    let own = [data.to_owned(), data.join("state")].map(|dir| dir.join(OWN_CERTIFICATE));
    let file = match ca {
        Some(file) => Some(file),
        None => own.iter().map(|file| &**file).find(|file| file.exists()),
    };
    let Some(file) = file else {
        return Err(Failure::new(format!(
            "nothing to know the router at {http} by; name a PEM file with its certificate or authority \
             (--ca FILE, HEDDLE_CA), or its directory (--data DIR)"
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
