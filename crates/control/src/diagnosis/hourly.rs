//! Looks without being asked: once in an hour, and some time after a server has joined.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use doctor::{Change, Finding};

use super::{Doctor, Wanted};
use catalog::event::Event;

/// A server that has just joined catches up first. What is new must still be there after as long: a change of primary
/// is no fault.
const SETTLING: Duration = Duration::from_secs(10);

/// The setting may change meanwhile.
const SETTING_LOOK: Duration = Duration::from_secs(60);

impl Doctor {
    /// Looks for as long as the control plane runs.
    pub(crate) async fn look_hourly(self: Arc<Self>) {
        loop {
            self.until_due().await;
            // Another router looks while it leads.
            if self.context.leadership.lead().is_some() {
                self.look().await;
            }
        }
    }

    /// A server has joined, which is looked at soon.
    pub(crate) fn tell_joined(&self) {
        self.joined.notify_one();
    }

    async fn until_due(&self) {
        let began = Instant::now();
        let due = async {
            loop {
                let every = self.premises.get().and_then(|it| it.look_every());
                let left = every.map(|every| every.saturating_sub(began.elapsed()));
                match left {
                    Some(Duration::ZERO) => return,
                    Some(left) => tokio::time::sleep(left.min(SETTING_LOOK)).await,
                    None => tokio::time::sleep(SETTING_LOOK).await,
                }
            }
        };
        tokio::select! {
            () = due => {}
            () = self.joined.notified() => tokio::time::sleep(SETTLING).await,
        }
    }

    async fn look(&self) {
        if self.premises.get().and_then(|it| it.look_every()).is_none() {
            return;
        }
        let wanted = Wanted::default();
        let mut now = self.findings(&wanted).await;
        if self.has_news(&now) {
            tokio::time::sleep(SETTLING).await;
            let later = self.findings(&wanted).await;
            let stays = |it: &Finding| later.iter().any(|other| is_same(it, other));
            now.retain(stays);
        }
        let changes = {
            let mut trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
            trail.follow(&now, is_unseen(&now))
        };
        for change in changes {
            self.tell(change);
        }
    }

    fn has_news(&self, now: &[Finding]) -> bool {
        let trail = self.trail.lock().unwrap_or_else(PoisonError::into_inner);
        let mut tried = trail.clone();
        let changes = tried.follow(now, is_unseen(now));
        changes.iter().any(|it| matches!(it, Change::Found(_)))
    }

    fn tell(&self, change: Change) {
        let (kind, finding, detail) = match change {
            Change::Found(it) => {
                let detail = format!(
                    "{} {} at {}: {}; it breaks: {}; cure: {}",
                    it.severity, it.check, it.of, it.evidence, it.breaks, it.cure
                );
                ("doctor_found", it, detail)
            }
            Change::Cured(it) => {
                let detail = format!("{} at {} is over", it.check, it.of);
                ("doctor_cured", it, detail)
            }
        };
        let event = Event::now(kind, &finding.group, detail);
        let uuid = {
            let state = self.context.state();
            let found = state.records.find(&finding.of);
            found.map(|(_, kept)| kept.value.uuid.clone())
        };
        self.context.happened(match uuid {
            Some(uuid) => event.of(&uuid, finding.of),
            None => event,
        });
    }
}

fn is_same(one: &Finding, other: &Finding) -> bool {
    one.check == other.check && one.of == other.of
}

/// Whether what was found before can have been seen now: not where its server or router does not answer.
fn is_unseen(now: &[Finding]) -> impl Fn(&Finding) -> bool {
    let silent = now
        .iter()
        .filter(|it| ["reach", "router_silent"].contains(&it.check));
    let silent: Vec<String> = silent.map(|it| it.of.clone()).collect();
    move |before| silent.contains(&before.of)
}
