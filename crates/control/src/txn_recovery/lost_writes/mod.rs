//! What became of writes whose answers were lost: looked up in the log of the group's primary, once it
//! has one that will stay.
//!
//! All that wait for one group are answered from one reading of the log. In a change of primary the log is read while
//! the next primary is being prepared, so that who waits is answered when it is published. A write that was sent to
//! the server which is still the primary may yet be running there; it is ended first.

mod log;
mod reading;
#[cfg(test)]
mod samples;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use engine::Link;
use engine::binlog;
use farm::{Fate, Group, GroupKind, LostWrite, ServerId};
use tokio::task::JoinSet;

use crate::context::Context;
use crate::context::supervision::Queue;
use crate::context::winners::{Watching, Winner};
use crate::links::Links;
use crate::links::reach::Place;
use reading::Reading;

/// A group's writes are looked up for so long; after that nobody can say.
const PATIENCE_MS: u64 = 60_000;

/// Pause between two looks at whether there is a primary, or a connection is gone.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Pause after a server failed to answer: the first tries come sooner.
const PAUSE: Duration = Duration::from_millis(50);
const TRIES_SOON: u32 = 20;

/// Takes what became of a write, on the control thread; must not block.
pub type Verdict = Box<dyn FnOnce(Fate) + Send>;

/// A lost write and who asks for it.
pub(crate) struct Asked {
    pub(crate) lost: LostWrite,
    pub(crate) reply: Verdict,
    /// When it was asked, once that is known: its ages count from then.
    pub(crate) at_us: u64,
}

/// Those that wait, by group.
type Waiting = Arc<Mutex<HashMap<String, Vec<Asked>>>>;

/// Finds out what became of writes whose answers were lost.
pub(crate) struct LostWrites {
    context: Arc<Context>,
    links: Arc<Links>,
}

impl LostWrites {
    pub(crate) fn new(context: &Arc<Context>, links: &Arc<Links>) -> LostWrites {
        LostWrites {
            context: Arc::clone(context),
            links: Arc::clone(links),
        }
    }
}

impl LostWrites {
    /// Answers what sessions ask about their lost writes, for as long as the control plane runs.
    pub(crate) async fn settle_lost(self: Arc<Self>, asked: Queue<Asked>) {
        let mut asked = asked.lock().await;
        let waiting = Waiting::default();
        let mut groups: JoinSet<String> = JoinSet::new();
        let mut busy: Vec<String> = Vec::new();
        loop {
            tokio::select! {
                Some(mut one) = asked.recv() => {
                    one.at_us = self.context.now_us();
                    let mut all = waiting.lock().unwrap_or_else(PoisonError::into_inner);
                    all.entry(one.lost.group.clone()).or_default().push(one);
                }
                Some(done) = groups.join_next() => {
                    // A task that panicked answers nobody; its askers hear that it was dropped.
                    let done = done.unwrap_or_default();
                    busy.retain(|group| *group != done);
                }
                else => return,
            }
            let all = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            for group in all.keys().filter(|group| !busy.contains(group)) {
                groups.spawn(Arc::clone(&self).settle_group(group.clone(), waiting.clone()));
            }
            busy = all.keys().cloned().chain(busy).collect();
            busy.sort_unstable();
            busy.dedup();
        }
    }

    /// Answers all that wait for a group.
    async fn settle_group(self: Arc<Self>, group: String, waiting: Waiting) -> String {
        let since_us = self.context.now_us();
        let (mut ahead, mut tries) = (Ahead::default(), 0);
        loop {
            let over = self.context.now_us() > since_us + PATIENCE_MS * 1000;
            let primary = self.primary_of(&group);
            if primary.is_none() && !over {
                self.read_ahead(&group, &waiting, &mut ahead).await;
                continue;
            }
            if let Some((id, place)) = &primary
                && self
                    .settle_ahead(&group, &waiting, &mut ahead, (*id, place))
                    .await
            {
                return group;
            }
            let asked = take(&waiting, &group);
            if asked.is_empty() {
                return group;
            }
            let now_us = self.context.now_us();
            let all = asked.iter().map(|one| one.aged(now_us)).collect();
            let why = match primary {
                Some((id, place)) => match self.settle_on(&group, id, place, all).await {
                    Ok((mut reading, fates)) => {
                        reply(asked, fates);
                        self.settle_late(&group, &waiting, &mut reading).await;
                        return group;
                    }
                    Err(why) => why,
                },
                None => "the group has no primary that takes writes".to_owned(),
            };
            if over {
                let writes = asked.len();
                tracing::warn!(group, why, writes, "outcomes stay unknown");
                reply(asked, vec![Fate::Unknown(why); writes]);
                return group;
            }
            put_back(&waiting, &group, asked);
            // A primary that died is published as alive for a moment yet.
            tries += 1;
            let pause = if tries < TRIES_SOON {
                LOOK_AGAIN
            } else {
                PAUSE
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// While the group has no primary: reads the log of the one that is about to lead, once it is named. It has all
    /// that it will ever have of the primary before. Returns when somebody is named or published, or after a moment.
    async fn read_ahead(&self, group: &str, waiting: &Waiting, ahead: &mut Ahead) {
        let mut watching = self.context.winners.watch();
        let winner = self.context.winners.of(group);
        if let Some(winner) = winner.filter(|it| ahead.read_of != Some(*it)) {
            // One that cannot be read now is read when it leads.
            ahead.read_of = Some(winner);
            tokio::select! {
                reading = self.read_of(winner.id, waiting, group) => ahead.reading = reading,
                () = self.until_another(group, winner, &mut watching) => {}
            }
            return;
        }
        // The primary may also come back without a change, or have been published before this began to wait.
        let _ = tokio::time::timeout(LOOK_AGAIN, watching.turned()).await;
    }

    /// Waits until it is not this winner that leads the group, or is about to.
    async fn until_another(&self, group: &str, winner: Winner, watching: &mut Watching) {
        loop {
            watching.turned().await;
            let leads = self.primary_of(group).map(|(id, _)| id);
            if self.context.winners.of(group) != Some(winner) && leads != Some(winner.id) {
                return;
            }
        }
    }

    async fn read_of(&self, winner: u32, waiting: &Waiting, group: &str) -> Option<Reading> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let place = Place::from(&self.context.record_of(winner)?);
        let asked: Vec<LostWrite> = {
            let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
            let asked = waiting.get(group).into_iter().flatten();
            let lost = asked.map(|asked| asked.lost.clone());
            lost.filter(|lost| lost.server != ServerId(winner))
                .collect()
        };
        if asked.is_empty() {
            return None;
        }
        let starts = reading::starts(&asked, &self.context.trail(), true);
        let at = (ServerId(winner), place);
        let reading = Reading::take(&self.links, at, starts, timeout_ms).await;
        let mut reading = reading.ok()?;
        // What has to be looked up besides is known when somebody waits for it.
        reading.fates(&self.links, &asked, timeout_ms).await;
        Some(reading)
    }

    /// The group has a primary: answers from what was read of it before. True when that was all.
    async fn settle_ahead(
        &self,
        group: &str,
        waiting: &Waiting,
        ahead: &mut Ahead,
        (id, place): (u32, &Place),
    ) -> bool {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let Some(mut reading) = ahead.reading.take().filter(|it| it.is_of(id, place)) else {
            return false;
        };
        // Who was named again may have copied more since it was read.
        let winners = &self.context.winners;
        let is_whole = ahead.read_of.is_some_and(|it| winners.is_last(group, it));
        if !is_whole || !reading.takes_writes(&self.links, timeout_ms).await {
            return false;
        }
        self.settle_late(group, waiting, &mut reading).await;
        let waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        !waiting.contains_key(group)
    }

    /// Answers from a reading those who asked while it was done, as far as it tells of their writes: a second one
    /// would tell them the same, later.
    async fn settle_late(&self, group: &str, waiting: &Waiting, reading: &mut Reading) {
        let snapshot = self.context.snapshot_now();
        let is_replicated = |group: &Arc<Group>| group.kind == GroupKind::Replication;
        if !snapshot.group(group).is_some_and(is_replicated) {
            // What one node of a cluster was asked for may be done by another one later.
            return;
        }
        let is_told = |asked: &Asked| {
            let lost = &asked.lost;
            reading.tells_of(lost, reading::start(lost, &self.context.trail()))
        };
        let late = take(waiting, group);
        let (told, others): (Vec<Asked>, Vec<Asked>) = late.into_iter().partition(is_told);
        put_back(waiting, group, others);
        let lost: Vec<LostWrite> = told.iter().map(|asked| asked.lost.clone()).collect();
        let fates = self.fates(reading, &lost).await;
        reply(told, fates);
    }

    /// What a reading tells of these.
    async fn fates(&self, reading: &mut Reading, all: &[LostWrite]) -> Vec<Fate> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let fates = reading.fates(&self.links, all, timeout_ms).await;
        for (lost, fate) in all.iter().zip(&fates) {
            let (group, tag) = (&lost.group, &lost.tag);
            tracing::info!(group, tag, ?fate, "a lost write was looked up");
        }
        fates
    }

    /// The primary that takes the group's writes now, if none is being exchanged.
    fn primary_of(&self, group: &str) -> Option<(u32, Place)> {
        let snapshot = self.context.snapshot_now();
        let group = snapshot.group(group).filter(|group| !group.paused)?;
        let primary = group.primary().filter(|server| server.serves_writes())?;
        Some((primary.id.0, Place::from(&**primary)))
    }

    /// Answers these from one reading of this server's log. An error is a reason to look again.
    async fn settle_on(
        &self,
        group: &str,
        id: u32,
        place: Place,
        all: Vec<LostWrite>,
    ) -> Result<(Reading, Vec<Fate>), String> {
        tokio::select! {
            read = self.read_on(id, place, &all) => read,
            () = self.until_replaced(group, id) => Err("another server takes its place".to_owned()),
        }
    }

    /// Waits until this server is not the group's primary any more: one that hangs answers nothing.
    async fn until_replaced(&self, group: &str, id: u32) {
        while self.primary_of(group).is_some_and(|(now, _)| now == id) {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn read_on(
        &self,
        id: u32,
        place: Place,
        all: &[LostWrite],
    ) -> Result<(Reading, Vec<Fate>), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let login = self.links.login(place.clone());
        let mut link = Link::open(&login, timeout_ms).await.map_err(text)?;
        let takes = binlog::takes_writes(&mut link, timeout_ms).await;
        if !takes.map_err(text)? {
            return Err(format!("{} is read-only", link.address()));
        }
        for lost in all.iter().filter(|lost| lost.server == ServerId(id)) {
            self.end_write(&mut link, lost).await?;
        }
        let starts = reading::starts(all, &self.context.trail(), false);
        let at = (ServerId(id), place);
        let reading = Reading::take(&self.links, at, starts, timeout_ms).await;
        let mut reading = reading.map_err(text)?;
        let fates = self.fates(&mut reading, all).await;
        Ok((reading, fates))
    }

    /// Sees to it that a write which this server was asked for is over there, one way or the other.
    async fn end_write(&self, link: &mut Link, lost: &LostWrite) -> Result<(), String> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let up_s = binlog::uptime_s(link, timeout_ms).await.map_err(text)?;
        // After a restart the id may be that of somebody else's connection. Both ages are rounded down,
        // so a server that runs for less has surely been restarted.
        if up_s < lost.opened_s {
            return Ok(());
        }
        let connected = binlog::is_connected(link, lost.thread_id, timeout_ms);
        if !connected.await.map_err(text)? {
            return Ok(());
        }
        let killed = binlog::kill(link, lost.thread_id, timeout_ms).await;
        killed.map_err(text)?;
        let since_us = self.context.now_us();
        while binlog::is_connected(link, lost.thread_id, timeout_ms)
            .await
            .map_err(text)?
        {
            if self.context.now_us() > since_us + timeout_ms * 1000 {
                return Err("the write still runs, though it was ended".to_owned());
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }
}

/// What was read of a server before it led.
#[derive(Default)]
struct Ahead {
    /// Whose log was read, or could not be.
    read_of: Option<Winner>,
    reading: Option<Reading>,
}

impl Asked {
    /// The write, with the age that its connection has now.
    fn aged(&self, now_us: u64) -> LostWrite {
        let waited_us = now_us.saturating_sub(self.at_us);
        LostWrite {
            opened_s: self.lost.opened_s + waited_us / 1_000_000,
            ..self.lost.clone()
        }
    }
}

/// Takes out all that wait for a group.
fn take(waiting: &Waiting, group: &str) -> Vec<Asked> {
    let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
    waiting.remove(group).unwrap_or_default()
}

/// They go on waiting.
fn put_back(waiting: &Waiting, group: &str, asked: Vec<Asked>) {
    if !asked.is_empty() {
        let mut all = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(group.to_owned()).or_default().extend(asked);
    }
}

fn reply(asked: Vec<Asked>, fates: Vec<Fate>) {
    for (one, fate) in asked.into_iter().zip(fates) {
        (one.reply)(fate);
    }
}

#[cfg(test)]
mod tests {
    use super::samples::lost;
    use super::*;

    #[test]
    fn a_connection_grows_older_while_the_group_has_no_primary() {
        let asked = Asked {
            lost: lost("a", ""),
            reply: Box::new(drop),
            at_us: 1_000_000,
        };
        let now = asked.aged(5_500_000);
        assert_eq!((now.sent_us, now.opened_s), (59_000_000, 5));
    }
}
