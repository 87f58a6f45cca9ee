//! Any target, as who delivers sees it.

use std::path::PathBuf;

use crate::files::Files;
use crate::kafka::Kafka;
use crate::message::Message;
use crate::nats::Nats;
use crate::spec::{Place, Spec};
use crate::undelivered::Undelivered;
use crate::webhook::Webhook;

/// What a router has for its sinks.
#[derive(Clone, Debug, Default)]
pub struct Means {
    /// Below it are the directories of the sinks that write files.
    pub files_dir: PathBuf,
}

/// A target that is, or can be, connected.
pub enum Target {
    Webhook(Box<Webhook>),
    Files(Files),
    Nats(Box<Nats>),
    Kafka(Box<Kafka>),
}

impl Target {
    /// The target of the sink of this name. Nothing is connected or opened yet.
    ///
    /// # Errors
    /// What was told of it cannot be right.
    pub fn new(sink: &str, spec: &Spec, means: &Means) -> Result<Target, String> {
        Ok(match spec.place()? {
            Place::Webhook(url) => Target::Webhook(Box::new(Webhook::new(sink, url, spec))),
            Place::Files(name) => {
                let dir = means.files_dir.join(name);
                Target::Files(Files::new(sink, dir, spec))
            }
            Place::Kafka(at) => Target::Kafka(Box::new(Kafka::new(at, spec))),
            Place::Nats(at) => Target::Nats(Box::new(Nats::new(at, spec))),
        })
    }

    /// The token of the last event that the target has, where it knows that itself.
    ///
    /// # Errors
    /// It cannot be asked.
    pub async fn reached(&mut self) -> Result<Option<String>, Undelivered> {
        match self {
            Target::Webhook(_) | Target::Kafka(_) => Ok(None),
            Target::Files(files) => files.reached().await,
            Target::Nats(nats) => nats.reached().await,
        }
    }

    /// Delivers messages in their order, and gives how many bytes that were. Without messages the target does what
    /// has become due.
    ///
    /// # Errors
    /// They are not, or not surely, delivered.
    pub async fn deliver(&mut self, batch: &[Message]) -> Result<usize, Undelivered> {
        match self {
            Target::Webhook(webhook) => webhook.deliver(batch).await,
            Target::Files(files) => files.deliver(batch).await,
            Target::Nats(nats) => nats.deliver(batch).await,
            Target::Kafka(kafka) => kafka.deliver(batch).await,
        }
    }
}
