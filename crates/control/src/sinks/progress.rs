//! Up to where one sink is, in the state store.

use std::sync::Arc;
use std::time::Duration;

use catalog::event::{Event, epoch_ms};
use catalog::record::json;
use catalog::sink::{SINK, SINK_LETTER, SINK_PROGRESS, SinkLetter, SinkProgress, SinkRecord};
use catalog::subscription::{all, read};
use meta::{Outcome, Transaction};
use sha2::{Digest, Sha256};
use sinks::Message;
use tokio::time::Instant;

use super::delivery::Stopped;
use crate::context::Context;

/// A position is written no more often while the delivery goes well.
const SAVE: Duration = Duration::from_millis(200);

/// A failure that goes on is noted no more often.
const NOTE: Duration = Duration::from_secs(5);

/// So many letters may wait for an operator.
const LETTERS_MAX: u64 = 1000;

/// Longer events are not kept as letters; their tokens are.
const LETTER_BYTES_MAX: usize = 256 << 10;

/// The progress of one sink, while this router delivers it.
pub(super) struct Progress {
    context: Arc<Context>,
    name: String,
    /// Under this revision of its record.
    revision: u64,
    pub(super) now: SinkProgress,
    is_saved: bool,
    saved_at: Instant,
}

impl Progress {
    /// Reads it.
    pub(super) async fn read(
        context: &Arc<Context>,
        name: &str,
        revision: u64,
    ) -> Result<Progress, Stopped> {
        let found = read::<SinkProgress>(context.store(), SINK_PROGRESS, name).await;
        let found = found.map_err(|error| Stopped::Later(error.to_string(), None))?;
        // Without it the sink is being dropped.
        let (now, _) = found.ok_or(Stopped::Over)?;
        Ok(Progress {
            context: Arc::clone(context),
            name: name.to_owned(),
            revision,
            now,
            is_saved: true,
            saved_at: Instant::now(),
        })
    }

    /// The target has everything up to this token.
    pub(super) fn reach(&mut self, token: &str, events: usize) {
        self.now.delivered += u64::try_from(events).unwrap_or(0);
        if self.now.token != token {
            token.clone_into(&mut self.now.token);
            self.is_saved = false;
        }
    }

    /// When it has to be written, if nothing else happens.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_saved).then(|| self.saved_at + SAVE)
    }

    /// Writes it, if that is due.
    pub(super) async fn save_if_due(&mut self) -> Result<(), Stopped> {
        match self.due().is_some_and(|due| due <= Instant::now()) {
            true => self.save().await,
            false => Ok(()),
        }
    }

    pub(super) async fn save(&mut self) -> Result<(), Stopped> {
        self.write(Transaction::new()).await
    }

    /// The delivery goes well.
    pub(super) async fn goes_well(&mut self) -> Result<(), Stopped> {
        if self.now.error.is_empty() {
            return Ok(());
        }
        self.tell("sink_recovered", "it delivers again");
        self.now.error.clear();
        (self.now.failures, self.now.failing_since_ms) = (0, 0);
        self.now.stuck = None;
        self.save().await
    }

    /// A try failed.
    pub(super) async fn fails(&mut self, why: &str) -> Result<(), Stopped> {
        self.now.failures += 1;
        let is_first = self.now.error.is_empty();
        if is_first {
            self.now.failing_since_ms = epoch_ms();
            self.tell("sink_failing", why);
        }
        let is_news = is_first || self.saved_at.elapsed() >= NOTE;
        why.clone_into(&mut self.now.error);
        match is_news {
            true => self.save().await,
            false => Ok(()),
        }
    }

    /// Nothing is tried any more until somebody resumes the sink.
    pub(super) async fn sticks(&mut self, why: &str, record: &SinkRecord) -> Result<(), Stopped> {
        self.tell("sink_stuck", why);
        why.clone_into(&mut self.now.error);
        self.now.failing_since_ms = epoch_ms();
        self.now.stuck = Some(record.resumed);
        self.save().await
    }

    /// Keeps an event that the target refused; it counts as delivered then.
    pub(super) async fn keep_letter(
        &mut self,
        message: &Message,
        why: &str,
    ) -> Result<(), Stopped> {
        if self.now.letters >= LETTERS_MAX {
            return Err(Stopped::Stuck(format!(
                "the target refuses events ({why}), and {LETTERS_MAX} dead letters wait: see `sink letters`, \
                 then `sink resend` or `sink discard`, and `sink resume`"
            )));
        }
        let is_short = message.line.len() <= LETTER_BYTES_MAX;
        let line = String::from_utf8_lossy(&message.line);
        let letter = SinkLetter {
            id: message.id.clone(),
            token: message.token.clone(),
            at_ms: epoch_ms(),
            reason: why.to_owned(),
            line: if is_short {
                line.into_owned()
            } else {
                String::new()
            },
        };
        let key = letter_key(&self.name, &message.id);
        let is_new = self.context.store().get(&key).await;
        let is_new = is_new.map_err(|error| Stopped::Later(error.to_string(), None))?;
        self.now.letters += u64::from(is_new.is_none());
        self.write(Transaction::new().put(&key, &json(&letter)))
            .await
    }

    /// A letter's event was delivered after all.
    pub(super) async fn drop_letter(&mut self, id: &str) -> Result<(), Stopped> {
        self.now.letters = self.now.letters.saturating_sub(1);
        let key = letter_key(&self.name, id);
        self.write(Transaction::new().delete(&key)).await
    }

    /// The letters, oldest first.
    pub(super) async fn letters(&self) -> Result<Vec<SinkLetter>, Stopped> {
        let found = letters(&self.context, &self.name).await;
        found.map_err(|error| Stopped::Later(error.to_string(), None))
    }

    /// Writes the progress with something else, if this router leads and the sink is as it was.
    async fn write(&mut self, transaction: Transaction) -> Result<(), Stopped> {
        self.now.at_ms = epoch_ms();
        let leadership = &self.context.leadership;
        let lead = leadership.lead().ok_or(Stopped::Over)?;
        let transaction = transaction
            .when_revision(&format!("{SINK}{}", self.name), self.revision)
            .put(&format!("{SINK_PROGRESS}{}", self.name), &json(&self.now));
        let transaction = leadership.fenced(&lead, transaction);
        let transaction = transaction.map_err(|_| Stopped::Over)?;
        match self.context.store().commit(transaction).await {
            Ok(Outcome::Applied(_)) => {
                self.is_saved = true;
                self.saved_at = Instant::now();
                Ok(())
            }
            Ok(Outcome::Stale) => Err(Stopped::Over),
            Err(error) => Err(Stopped::Later(error.to_string(), None)),
        }
    }

    fn tell(&self, kind: &'static str, text: &str) {
        let text = format!("sink {}: {text}", self.name);
        tracing::info!("{text}");
        self.context.happened(Event::now(kind, "", text));
    }
}

/// Where the store keeps the letter of an event.
pub(super) fn letter_key(sink: &str, id: &str) -> String {
    let digest = hex::encode(&Sha256::digest(id)[..16]);
    format!("{SINK_LETTER}{sink}/{digest}")
}

/// The letters of a sink, oldest first.
pub(super) async fn letters(
    context: &Context,
    sink: &str,
) -> Result<Vec<SinkLetter>, catalog::Error> {
    let found = all::<SinkLetter>(context.store(), &format!("{SINK_LETTER}{sink}/")).await?;
    let mut letters: Vec<SinkLetter> = found.into_iter().map(|(_, letter)| letter).collect();
    letters.sort_by_key(|letter| letter.at_ms);
    Ok(letters)
}
