//! The side of the process that serves.

use std::fs;
use std::io::{Error, ErrorKind, Result};
use std::os::fd::BorrowedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::net::UnixListener;

use super::line::Line;
use super::{ANSWER_MAX, Directory, PROTOCOL, SOCKET, START_MAX};

/// Where a successor finds this process. Dropped, it is not found any more; the name in the
/// directory stays, since it may be the successor's by then.
pub struct Offer {
    listener: UnixListener,
}

/// A process that wants to take over.
pub struct Successor {
    line: Line,
    pub process: i32,
}

/// What a successor wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The file of the farm's state.
    Store,
    /// That this process accepts no more: it serves.
    Relief,
}

/// What is heard of a successor that has taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Later {
    /// The farm's state is this now.
    State(meta::Listing),
    /// It ends, and means it.
    Ended,
    /// It has handed over to another one.
    Relieved,
    /// It is gone without a word.
    Died,
}

impl Offer {
    /// Takes the name in the state directory, from whoever had it.
    pub fn open(state: &Path) -> Result<Offer> {
        let directory = Directory::open(state)?;
        let beside = directory.join(&format!("{SOCKET}.{}", std::process::id()));
        // Of a process with this number that died.
        let _ = fs::remove_file(&beside);
        let listener = UnixListener::bind(&beside)?;
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600))?;
        fs::rename(&beside, directory.join(SOCKET))?;
        Ok(Offer { listener })
    }

    /// The next process that asks for the sockets. Cancellation-safe as long as nobody asks.
    pub async fn next(&self) -> Successor {
        loop {
            match self.asked().await {
                Ok(Some(successor)) => return successor,
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!("somebody on {SOCKET} was not understood: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    async fn asked(&self) -> Result<Option<Successor>> {
        let (stream, _) = self.listener.accept().await?;
        let mut line = Line::new(stream);
        let (process, user) = line.peer()?;
        if user != rustix::process::geteuid().as_raw() && user != 0 {
            refuse(&line, "it runs as another user").await;
            return Ok(None);
        }
        let (question, _) = match line.receive(ANSWER_MAX).await {
            // A look whether somebody is here.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            question => question?,
        };
        if question["protocol"] != PROTOCOL || question["wants"] != "sockets" {
            let why = format!(
                "it is version {}, which hands over in another way; stop it, then start this one",
                env!("CARGO_PKG_VERSION")
            );
            refuse(&line, &why).await;
            return Ok(None);
        }
        Ok(Some(Successor { line, process }))
    }
}

/// Whether another process can be asked to hand over.
pub async fn somebody_else(state: &Path) -> bool {
    match Directory::open(state) {
        Ok(directory) => Line::connect(&directory.join(SOCKET)).await.is_ok(),
        Err(_) => false,
    }
}

impl Successor {
    /// Gives it the sockets, by name. `lends` says that the farm's state is in a file.
    /// Client ids up to `last_id` may be in use.
    pub async fn give(
        &self,
        sockets: &[(String, BorrowedFd<'_>)],
        lends: bool,
        last_id: u32,
    ) -> Result<()> {
        let names: Vec<&str> = sockets.iter().map(|(name, _)| name.as_str()).collect();
        let descriptors: Vec<BorrowedFd<'_>> = sockets.iter().map(|&(_, socket)| socket).collect();
        let answer = json!({"sockets": names, "lends": lends, "last_id": last_id});
        self.line.send(&answer, &descriptors).await
    }

    /// What it wants next; an error when it is gone or takes too long.
    pub async fn wants(&mut self) -> Result<Want> {
        let (wish, _) = self.line.receive(START_MAX).await?;
        match wish["wants"].as_str() {
            Some("store") => Ok(Want::Store),
            Some("relief") => Ok(Want::Relief),
            _ => Err(Error::new(
                ErrorKind::InvalidData,
                format!("it wants {wish}"),
            )),
        }
    }

    /// It has what it wanted.
    pub async fn grant(&self) -> Result<()> {
        self.line.send(&json!({"granted": true}), &[]).await
    }

    /// It does not get what it wanted.
    pub async fn refuse(&self, why: &str) {
        refuse(&self.line, why).await;
    }

    /// Waits for news of it, once it has taken over. Cancellation-safe.
    pub async fn later(&mut self) -> Later {
        loop {
            match self.line.next().await {
                Ok((word, _)) if word["tells"] == "end" => return Later::Ended,
                Ok((word, _)) if word["tells"] == "relieved" => return Later::Relieved,
                Ok((word, _)) if word["tells"] == "state" => return Later::State(listing(&word)),
                Ok(_) => {}
                Err(_) => return Later::Died,
            }
        }
    }
}

/// What the word of a successor says of the state.
fn listing(word: &Value) -> meta::Listing {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let entries = word["entries"].as_array().into_iter().flatten();
    let entries = entries.map(|entry| meta::Entry {
        key: text(&entry[0]),
        value: text(&entry[1]),
        revision: number(&entry[2]),
        // A router with a file is alone and binds nothing to leases.
        lease: None,
    });
    meta::Listing {
        entries: entries.collect(),
        revision: number(&word["revision"]),
    }
}

async fn refuse(line: &Line, why: &str) {
    let answer: Value = json!({ "refuses": why });
    // Who has gone need not be told.
    let _ = line.send(&answer, &[]).await;
}
