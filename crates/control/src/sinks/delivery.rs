//! The delivery of one sink: from its stream to its target, until something ends it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use catalog::sink::SinkRecord;
use changes::Token;
use farm::TokenError;
use sinks::{Means, Message, Read, Target, Undelivered, read};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::gathering::Gathered;
use super::progress::Progress;
use super::{SinkCounts, Sinks};
use crate::change_stream::{ChangesWanted, taken_back};
use crate::subscriptions::commands::goes_back;
use crate::subscriptions::wanted_of;

/// Between two tries; it doubles with each.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A stream says something more often.
const SILENCE: Duration = Duration::from_secs(60);

/// Why a delivery ended.
pub(super) enum Stopped {
    /// Another router leads, or the sink is another one by now.
    Over,
    /// It is tried again, after this pause at the earliest.
    Later(String, Option<Duration>),
    /// An operator has to do something.
    Stuck(String),
}

impl From<Undelivered> for Stopped {
    fn from(undelivered: Undelivered) -> Stopped {
        match undelivered {
            Undelivered::Later(why, pause) => Stopped::Later(why, pause),
            Undelivered::Refused(why) => Stopped::Stuck(why),
        }
    }
}

/// How long to wait after so many failures in a row.
fn pause(failures: u32, asked: Option<Duration>) -> Duration {
    let pause = PAUSE.saturating_mul(1 << failures.min(10)).min(PAUSE_MAX);
    asked.map_or(pause, |asked| asked.clamp(pause, PAUSE_MAX * 10))
}

/// Delivers until another router leads, the sink is changed, or an operator has to do something.
pub(super) async fn live(sinks: &Arc<Sinks>, name: &str, record: &SinkRecord, revision: u64) {
    let counts = sinks.counts_of(name);
    let mut failures = 0;
    loop {
        let read = Progress::read(&sinks.context, name, revision).await;
        let stopped = match read {
            Err(stopped) => stopped,
            Ok(progress) if progress.now.stuck == Some(record.resumed) => return,
            Ok(progress) => {
                let before = counts.batches.load(Relaxed);
                let means = Means {
                    files_dir: sinks.context.settings().sink_files_dir.clone(),
                };
                let delivery = Delivery {
                    sinks,
                    name,
                    record,
                    progress,
                    means,
                    counts: &counts,
                };
                let stopped = delivery.run().await;
                if counts.batches.load(Relaxed) > before {
                    failures = 0;
                }
                stopped
            }
        };
        match stopped {
            Stopped::Over => return,
            Stopped::Later(why, asked) => {
                counts.failures.fetch_add(1, Relaxed);
                if let Ok(mut progress) = Progress::read(&sinks.context, name, revision).await {
                    let _ = progress.fails(&why).await;
                }
                tokio::time::sleep(pause(failures, asked)).await;
                failures += 1;
            }
            Stopped::Stuck(why) => {
                if let Ok(mut progress) = Progress::read(&sinks.context, name, revision).await
                    && progress.sticks(&why, record).await.is_ok()
                {
                    return;
                }
                tokio::time::sleep(PAUSE_MAX).await;
            }
        }
    }
}

struct Delivery<'a> {
    sinks: &'a Arc<Sinks>,
    name: &'a str,
    record: &'a SinkRecord,
    progress: Progress,
    means: Means,
    counts: &'a SinkCounts,
}

impl Delivery<'_> {
    /// Ends with the reason; what is delivered is in the progress that was written.
    async fn run(mut self) -> Stopped {
        let target = Target::new(self.name, &self.record.spec, &self.means);
        let mut target = match target {
            Ok(target) => target,
            Err(why) => return Stopped::Stuck(why),
        };
        let stopped = match self.stream(&mut target).await {
            Ok(()) => Stopped::Later("the change stream ended".to_owned(), None),
            Err(stopped) => stopped,
        };
        // What was delivered is not delivered again, as far as the store can be told.
        if !matches!(stopped, Stopped::Over) && self.progress.due().is_some() {
            let _ = self.progress.save().await;
        }
        stopped
    }

    async fn stream(&mut self, target: &mut Target) -> Result<(), Stopped> {
        let reached = target.reached().await?;
        for token in [Some(&self.progress.now.token), reached.as_ref()]
            .into_iter()
            .flatten()
        {
            self.is_kept(token)?;
        }
        if let Some(token) = reached.filter(|token| self.is_later(token)) {
            self.progress.reach(&token, 0);
        }
        self.resend(target).await?;
        let wanted = ChangesWanted {
            from: Some(self.progress.now.token.clone()),
            ..wanted_of(&self.record.of)
        };
        let opened = self.sinks.subscriptions.streams.open(wanted);
        let opened = opened.map_err(|error| Stopped::Later(error.to_string(), None))?;
        let mut serving = JoinSet::new();
        serving.spawn(opened.serving);
        let mut lines = opened.lines;
        while let Some(gathered) = self.gather(&mut lines).await? {
            self.deliver_gathered(target, &gathered).await?;
            if let Some((event, why)) = gathered.end {
                return Err(match &*event {
                    // These do not mend themselves.
                    "gap" | "undone" => Stopped::Stuck(why),
                    _ => Stopped::Later(why, None),
                });
            }
        }
        Ok(())
    }

    /// The next lines, as many as are there; writes the progress when that is due in the meantime.
    async fn gather(
        &mut self,
        lines: &mut mpsc::Receiver<Vec<u8>>,
    ) -> Result<Option<Gathered>, Stopped> {
        let broken =
            |why: String| Stopped::Later(format!("the change stream cannot be read: {why}"), None);
        let first = loop {
            let until = self.progress.due();
            let next = match until {
                Some(until) => tokio::time::timeout_at(until, lines.recv()).await,
                None => tokio::time::timeout(SILENCE, lines.recv()).await,
            };
            match next {
                Ok(Some(first)) => break first,
                Ok(None) => return Ok(None),
                Err(_) if until.is_some() => self.progress.save().await?,
                Err(_) => return Err(broken("it is silent".to_owned())),
            }
        };
        let mut gathered = Gathered::default();
        gathered.take(&first).map_err(broken)?;
        while gathered.has_room()
            && let Ok(more) = lines.try_recv()
        {
            gathered.take(&more).map_err(broken)?;
        }
        Ok(Some(gathered))
    }

    async fn deliver_gathered(
        &mut self,
        target: &mut Target,
        gathered: &Gathered,
    ) -> Result<(), Stopped> {
        let batches = gathered.batches();
        if batches.is_empty() {
            target.deliver(&[]).await?;
            self.progress.goes_well().await?;
        }
        for batch in batches {
            self.deliver(target, batch).await?;
            let token = batch.last().map_or("", |it| &it.token);
            self.progress.reach(token, batch.len());
            self.progress.save_if_due().await?;
        }
        if let Some(token) = &gathered.token {
            self.progress.reach(token, 0);
        }
        self.progress.save_if_due().await
    }

    /// Delivers a batch, but for the events that the target refuses: they become letters.
    async fn deliver(&mut self, target: &mut Target, batch: &[Message]) -> Result<(), Stopped> {
        let mut parts = vec![batch];
        let mut failures = 0;
        while let Some(part) = parts.pop() {
            if self.sinks.context.leadership.lead().is_none() {
                return Err(Stopped::Over);
            }
            match target.deliver(part).await {
                Ok(bytes) => {
                    failures = 0;
                    self.counts.batches.fetch_add(1, Relaxed);
                    let count = |number| u64::try_from(number).unwrap_or(0);
                    self.counts.events.fetch_add(count(part.len()), Relaxed);
                    self.counts.bytes.fetch_add(count(bytes), Relaxed);
                    self.progress.goes_well().await?;
                }
                Err(Undelivered::Later(why, asked)) => {
                    self.counts.failures.fetch_add(1, Relaxed);
                    self.progress.fails(&why).await?;
                    tokio::time::sleep(pause(failures, asked)).await;
                    failures += 1;
                    parts.push(part);
                }
                // Which of them is it?
                Err(Undelivered::Refused(_)) if part.len() > 1 => {
                    let (first, second) = part.split_at(part.len() / 2);
                    parts.extend([second, first]);
                }
                Err(Undelivered::Refused(why)) => {
                    self.counts.refused.fetch_add(1, Relaxed);
                    for message in part {
                        self.progress.keep_letter(message, &why).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Delivers the letters once more, if somebody wants that.
    async fn resend(&mut self, target: &mut Target) -> Result<(), Stopped> {
        if self.progress.now.resent == self.record.resend {
            return Ok(());
        }
        for letter in self.progress.letters().await? {
            let line = letter.line.into_bytes();
            if line.is_empty() {
                continue;
            }
            // By what the target spreads it.
            let read = match read(&line) {
                Ok(Read::Message(message)) => *message,
                _ => Message::default(),
            };
            let message = Message {
                line,
                id: letter.id,
                token: letter.token,
                ..read
            };
            match target.deliver(std::slice::from_ref(&message)).await {
                Ok(_) => self.progress.drop_letter(&message.id).await?,
                Err(Undelivered::Refused(why)) => self.progress.keep_letter(&message, &why).await?,
                Err(later) => return Err(later.into()),
            }
        }
        self.progress.now.resent = self.record.resend;
        self.progress.save().await
    }

    /// Checks that no failover took back what the target has: that does not mend itself.
    fn is_kept(&self, token: &str) -> Result<(), Stopped> {
        match Token::parse(token, &self.sinks.context.snapshot_now()) {
            Err(lost @ TokenError::Lost { .. }) => Err(Stopped::Stuck(taken_back(&lost))),
            _ => Ok(()),
        }
    }

    /// Whether a token that the target has is behind the one that the store has.
    fn is_later(&self, token: &str) -> bool {
        let snapshot = self.sinks.context.snapshot_now();
        let parse = |text: &str| Token::parse(text, &snapshot);
        match (parse(&self.progress.now.token), parse(token)) {
            (Ok(stored), Ok(reached)) => goes_back(&stored, &reached).is_none(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_targets_may_ask_for_longer_ones() {
        let seconds = Duration::from_secs;
        assert_eq!(pause(0, None), PAUSE);
        assert_eq!(pause(3, None), seconds(4));
        assert_eq!(pause(u32::MAX, None), PAUSE_MAX);
        assert_eq!(pause(0, Some(seconds(7))), seconds(7));
        assert_eq!(pause(3, Some(seconds(1))), seconds(4));
        assert_eq!(pause(0, Some(seconds(1 << 40))), PAUSE_MAX * 10);
    }
}
