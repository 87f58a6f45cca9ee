//! The side of the process that starts.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::line::Line;
use super::{ANSWER_MAX, Directory, PROTOCOL, SOCKET, START_MAX};
use crate::doors::listeners::Listeners;
use crate::failure::Failure;
use crate::router::Router;
use crate::settings::Settings;

/// How often one that is just ending, or has just been relieved by another, is asked again.
const TRIES: usize = 50;

/// Client ids that are left to it until it is relieved.
const IDS_LEFT: u32 = 100_000;

/// For the last word to a predecessor.
const LAST_WORD_MAX: Duration = Duration::from_secs(1);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// The process that serves until this one does.
pub struct Predecessor {
    line: Line,
    pub process: i32,
    /// It has opened the farm's state in a file and will close it.
    lends: bool,
    /// It died; what it had is free.
    gone: bool,
}

impl Predecessor {
    /// Asks who serves from this state directory for its sockets; `None` when nobody does.
    ///
    /// # Errors
    /// There is one, and it refuses or does not answer.
    pub async fn find(
        state: &Path,
        settings: &Settings,
        listeners: &mut Listeners,
    ) -> Result<Option<Predecessor>, Failure> {
        for _ in 0..TRIES {
            let Some(mut line) = connect(state).await? else {
                return Ok(None);
            };
            let process = line.peer().map_or(0, |(process, _)| process);
            let question = json!({"wants": "sockets", "protocol": PROTOCOL});
            let sent = line.send(&question, &[]).await;
            let answer = match sent {
                Ok(()) => line.receive(START_MAX).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok((answer, sockets)) => {
                    refusal(&answer)?;
                    let names = answer["sockets"].as_array().into_iter().flatten();
                    let names = names.map(|name| name.as_str().unwrap_or_default());
                    for (name, socket) in names.zip(sockets) {
                        listeners.take(settings, name, socket)?;
                    }
                    let last_id = answer["last_id"].as_u64().unwrap_or(0);
                    // Until it is relieved it gives some more.
                    listeners.last_id = (last_id as u32).wrapping_add(IDS_LEFT);
                    listeners.are_shared = true;
                    return Ok(Some(Predecessor {
                        line,
                        process,
                        lends: answer["lends"].as_bool().unwrap_or(false),
                        gone: false,
                    }));
                }
                // It ended meanwhile, or another successor has taken over from it.
                Err(error) if ended(&error) => tokio::time::sleep(PAUSE).await,
                Err(error) => return Err(silent(process, &error)),
            }
        }
        Ok(None)
    }

    /// Has it close the file of the farm's state. It serves its clients on what it knows until
    /// [`Predecessor::relieve`]; should this process end before, it opens the file again.
    ///
    /// # Errors
    /// It refuses, or does not answer.
    pub async fn take_store(&mut self) -> Result<(), Failure> {
        match self.lends {
            true => self.ask("store").await,
            false => Ok(()),
        }
    }

    /// Tells it that this process accepts clients. When this returns it does so no more.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn relieve(mut self) -> Result<Relieved, Failure> {
        self.ask("relief").await?;
        let (tell, mut words) = mpsc::unbounded_channel::<Value>();
        let line = self.line;
        let teller = tokio::spawn(async move {
            while let Some(word) = words.recv().await {
                // It may have ended by now; then there is nobody to tell anything.
                if line.send(&word, &[]).await.is_err() {
                    return;
                }
            }
        });
        Ok(Relieved {
            tell,
            teller,
            has_file: self.lends && !self.gone,
        })
    }

    async fn ask(&mut self, what: &str) -> Result<(), Failure> {
        if self.gone {
            return Ok(());
        }
        let sent = self.line.send(&json!({"wants": what}), &[]).await;
        let answer = match sent {
            Ok(()) => self.line.receive(ANSWER_MAX).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok((answer, _)) => refusal(&answer),
            // The kernel has closed its file and its sockets; ours are open.
            Err(error) if ended(&error) => {
                self.gone = true;
                Ok(())
            }
            Err(error) => Err(silent(self.process, &error)),
        }
    }
}

/// A predecessor that has stopped accepting. It serves the clients that it had.
pub struct Relieved {
    tell: mpsc::UnboundedSender<Value>,
    /// Says one word after the other.
    teller: JoinHandle<()>,
    has_file: bool,
}

impl Relieved {
    /// The end of this process is meant: the predecessor is not to step in.
    pub async fn part(self) {
        self.say_last(json!({"tells": "end"})).await;
    }

    /// Somebody else serves now: the predecessor is not to look at this process any more.
    pub async fn pass_on(self) {
        self.say_last(json!({"tells": "relieved"})).await;
    }

    async fn say_last(self, word: Value) {
        let _ = self.tell.send(word);
        drop(self.tell);
        // One that does not listen is not waited for.
        let _ = tokio::time::timeout(LAST_WORD_MAX, self.teller).await;
    }

    /// Tells it of the farm's state, whose file it had, for as long as it is there. Ends never;
    /// cancelled and called again, it goes on.
    pub async fn inform(&self, router: &Router) {
        let mut after = 0;
        while self.has_file && !self.tell.is_closed() {
            match router.news(after).await {
                Ok(told) => {
                    after = told.revision;
                    let _ = self.tell.send(state(&told));
                }
                Err(error) => {
                    tracing::debug!("the state is not told to the process before: {error}");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
        std::future::pending().await
    }
}

/// The word that tells of the state.
fn state(told: &meta::Listing) -> Value {
    let entries = told.entries.iter();
    let entries = entries.map(|entry| json!([entry.key, entry.value, entry.revision]));
    let entries: Vec<Value> = entries.collect();
    json!({"tells": "state", "revision": told.revision, "entries": entries})
}

async fn connect(state: &Path) -> Result<Option<Line>, Failure> {
    let connected = match Directory::open(state) {
        Ok(directory) => Line::connect(&directory.join(SOCKET)).await,
        Err(error) => Err(error),
    };
    match connected {
        Ok(line) => Ok(Some(line)),
        // Never was there, or died without a word.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::NotFound | ErrorKind::ConnectionRefused
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(Failure::new(format!(
            "cannot ask {}/{SOCKET} whether a heddle serves from there: {error}; run this one as the \
             same user",
            state.display()
        ))),
    }
}

fn ended(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
    )
}

fn refusal(answer: &Value) -> Result<(), Failure> {
    match answer["refuses"].as_str() {
        Some(why) => Err(Failure::new(format!(
            "the heddle that serves from this state_dir does not hand over: {why}"
        ))),
        None => Ok(()),
    }
}

fn silent(process: i32, error: &std::io::Error) -> Failure {
    Failure::new(format!(
        "the heddle that serves from this state_dir (process {process}) does not answer on {SOCKET}: \
         {error}; it serves on, unless it hangs: then end it and start again"
    ))
}
