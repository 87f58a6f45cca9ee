//! Measures how far the consumers of subscriptions and sinks are behind, and how near that is to what the servers keep.
//!
//! Job: looks at the primaries' positions and binlogs once a second while there are consumers; the router that leads
//! tells of those that are near a gap, or in one, by events, and has servers keep their binlogs for as long as
//! `subscription_binlogs_h` says.
//!
//! Invariants: nothing is ever made to keep its binlogs for less. What is not known is not told.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use catalog::event::Event;
use catalog::sink::SINK_PROGRESS;
use catalog::subscription::{ACKNOWLEDGED, AcknowledgedRecord, all};
use changes::Token;
use engine::Link;
use engine::binlog::{Expiry, expiry, extent, first_behind, keep_for, oldest};
use farm::{GroupKind, Position, Server, ServerId, Snapshot};

use super::lag::{Beginning, Samples};
use super::{Lag, Lags, Subscriptions};
use crate::change_stream::gap;

/// How often positions are looked at, while there are subscriptions or sinks.
const LOOK: Duration = Duration::from_secs(1);

/// How often servers are asked what they keep, and told.
const LOOK_AT_EXPIRY: Duration = Duration::from_secs(10);

/// A consumer that has used so much of what the servers keep is told of.
pub(crate) const NEAR_PERCENT: u64 = 75;

/// What is known of one group.
#[derive(Default)]
struct OfGroup {
    samples: Samples,
    link: Option<(ServerId, Link)>,
    /// The oldest file of the primary's binlog, and what comes before it.
    oldest: Option<(String, Position)>,
    /// The same of all servers that can be read, where the primary lacks what somebody needs; and when they were asked.
    all_oldest: Vec<Position>,
    asked_all: Option<Duration>,
    expiry: Expiry,
    asked_expiry: Option<Duration>,
}

/// How near a gap a consumer is, as the last event about it said.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Said {
    Near,
    Gap,
}

/// What is known of all groups and consumers.
#[derive(Default)]
pub(super) struct Measured {
    groups: BTreeMap<String, OfGroup>,
    /// By consumer and group.
    beginnings: HashMap<(String, String), Beginning>,
    said: BTreeMap<String, Said>,
}

impl Subscriptions {
    /// Measures lags for as long as it runs.
    pub(crate) async fn measure_lags(self: Arc<Self>) {
        let mut measured = Measured::default();
        loop {
            tokio::time::sleep(LOOK).await;
            let store = self.context.store();
            let acknowledged = all::<AcknowledgedRecord>(store, ACKNOWLEDGED).await;
            let of_sinks = all::<AcknowledgedRecord>(store, SINK_PROGRESS).await;
            // While the store does not answer, the last look counts.
            let (Ok(acknowledged), Ok(of_sinks)) = (acknowledged, of_sinks) else {
                continue;
            };
            if acknowledged.is_empty() && of_sinks.is_empty() {
                measured = Measured::default();
                self.put(Lags::default());
                continue;
            }
            self.look(&mut measured.groups).await;
            let lags = Lags {
                subscriptions: self
                    .behind("subscription", acknowledged, &mut measured)
                    .await,
                sinks: self.behind("sink", of_sinks, &mut measured).await,
            };
            self.tell(&lags, &mut measured.said);
            self.put(lags);
        }
    }

    /// How far those with these positions are behind.
    async fn behind(
        &self,
        kind: &str,
        acknowledged: Vec<(String, AcknowledgedRecord)>,
        measured: &mut Measured,
    ) -> BTreeMap<String, Lag> {
        let snapshot = self.context.snapshot_now();
        let mut lags = BTreeMap::new();
        for (name, record) in acknowledged {
            let Ok(token) = Token::parse(&record.token, &snapshot) else {
                continue;
            };
            let mut whole = Lag::default();
            for place in &token.places {
                let consumer = format!("{kind} {name}");
                let reached = &place.reached;
                let from = reached.from.as_ref().unwrap_or(&reached.told);
                let lag = self.of_group(&consumer, &place.group, (from, &reached.told), measured);
                whole = whole.and(lag.await);
            }
            lags.insert(name, whole);
        }
        lags
    }

    /// How far a consumer is behind one group: it reads on behind `from`, and was told up to `told`.
    async fn of_group(
        &self,
        consumer: &str,
        name: &str,
        (from, told): (&Position, &Position),
        measured: &mut Measured,
    ) -> Lag {
        let now = self.context.started.elapsed();
        let Some(group) = measured.groups.get_mut(name) else {
            return Lag::default();
        };
        let key = (consumer.to_owned(), name.to_owned());
        let oldest = group.oldest.as_ref();
        let missing = match oldest.is_some_and(|(_, oldest)| !from.covers(oldest)) {
            true => {
                self.ask_all(name, group, now).await;
                gap(from, &group.all_oldest)
            }
            false => None,
        };
        if missing.is_none() && group.samples.is_older(told) {
            let known = measured.beginnings.get(&key);
            let is_due = known.is_none_or(|known| {
                known.behind != *told && known.asked_before(now) > LOOK_AT_EXPIRY
            });
            if is_due && let Some(beginning) = self.ask_beginning(name, group, told, now).await {
                measured.beginnings.insert(key.clone(), beginning);
            }
        } else {
            measured.beginnings.remove(&key);
        }
        let lag = group.samples.lag(told, measured.beginnings.get(&key), now);
        Lag {
            gap: missing.map(|gap| (name.to_owned(), gap)),
            ..lag.within(&group.expiry)
        }
    }

    /// Asks all servers of a group that can be read how far back their binlogs go, but not all the time.
    async fn ask_all(&self, name: &str, group: &mut OfGroup, now: Duration) {
        let before = group.asked_all.map(|at| now.saturating_sub(at));
        if before.is_some_and(|before| before < LOOK_AT_EXPIRY) {
            return;
        }
        group.asked_all = Some(now);
        let snapshot = self.context.snapshot_now();
        // A group that has no primary now is asked when it has one.
        if snapshot
            .group(name)
            .is_some_and(|it| it.primary().is_some())
        {
            let source = self.streams.source(name);
            let limit = Duration::from_millis(self.context.settings().step_timeout_ms);
            if let Ok(Some(primary)) = tokio::time::timeout(limit, source.primary()).await {
                group.all_oldest = source.begins(&primary).await;
            }
        }
    }

    /// When and where what a consumer lacks begins, as the primary says.
    async fn ask_beginning(
        &self,
        name: &str,
        group: &mut OfGroup,
        told: &Position,
        now: Duration,
    ) -> Option<Beginning> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let snapshot = self.context.snapshot_now();
        let primary = Arc::clone(snapshot.group(name)?.primary()?);
        let (_, link) = group.link.as_mut().filter(|(id, _)| *id == primary.id)?;
        let login = self.links.login(&*primary);
        let first = first_behind(link, &login, told, timeout_ms).await;
        let first = first.ok().flatten()?;
        Some(group.samples.beginning(now, told.clone(), &first))
    }

    /// Asks each group's primary what it has.
    async fn look(&self, groups: &mut BTreeMap<String, OfGroup>) {
        let snapshot = self.context.snapshot_now();
        groups.retain(|name, _| {
            snapshot
                .group(name)
                .is_some_and(|it| it.primary().is_some())
        });
        for group in &snapshot.groups {
            let replicates = group.kind == GroupKind::Replication;
            if let Some(primary) = group.primary().filter(|_| replicates) {
                let of_group = groups.entry(group.name.to_string()).or_default();
                // What cannot be asked now is asked at the next look.
                let _ = self.look_at(primary, of_group).await;
                self.have_kept(&snapshot, &group.name, of_group).await;
            }
        }
    }

    async fn look_at(&self, primary: &Server, group: &mut OfGroup) -> Result<(), engine::Error> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = match group
            .link
            .take()
            .filter(|(server, _)| *server == primary.id)
        {
            Some((_, link)) => link,
            None => {
                group.oldest = None;
                group.asked_expiry = None;
                Link::open(&self.links.login(primary), timeout_ms).await?
            }
        };
        // The moment before: what is executed later is not said to have been there.
        let now = self.context.started.elapsed();
        let (position, files) = extent(&mut link, timeout_ms).await?;
        let first = files
            .first()
            .map(|(name, _)| name.clone())
            .unwrap_or_default();
        if group.oldest.as_ref().is_none_or(|(name, _)| *name != first) {
            group.oldest = Some((first, oldest(&mut link, timeout_ms).await?));
        }
        group.samples.add(now, primary.id, position, files);
        if is_due(group.asked_expiry, now) {
            group.expiry = expiry(&mut link, timeout_ms).await?;
        }
        group.link = Some((primary.id, link));
        Ok(())
    }

    /// Has the group's servers keep their binlogs for as long as the settings say, if this router leads.
    async fn have_kept(&self, snapshot: &Snapshot, name: &str, group: &mut OfGroup) {
        let now = self.context.started.elapsed();
        if !is_due(group.asked_expiry, now) {
            return;
        }
        group.asked_expiry = Some(now);
        let (hours, timeout_ms) = {
            let settings = self.context.settings();
            (settings.subscription_binlogs_h, settings.step_timeout_ms)
        };
        if hours == 0 || self.context.leadership.lead().is_none() {
            return;
        }
        let servers = snapshot.group(name).map(|group| &group.servers);
        for server in servers.into_iter().flatten() {
            let kept = async {
                let mut link = Link::open(&self.links.login(&**server), timeout_ms).await?;
                keep_for(&mut link, hours * 3600, timeout_ms).await
            };
            match kept.await {
                Ok(None) => {}
                Ok(Some(before)) => {
                    let address = server.address();
                    let text = format!(
                        "{address} keeps its binlogs for {hours} h (subscription_binlogs_h) and no more for {before} s alone"
                    );
                    self.context
                        .happened(Event::now("binlogs_kept", name, text));
                }
                // One that cannot be reached is told later.
                Err(error) => tracing::debug!(group = name, "binlogs are not kept: {error}"),
            }
        }
    }

    /// Tells of consumers that came near a gap, or into one, since the last look.
    fn tell(&self, lags: &Lags, said: &mut BTreeMap<String, Said>) {
        let mut now = BTreeMap::new();
        for (consumer, lag) in lags.all() {
            let Some((state, text)) = condition(&consumer, lag) else {
                continue;
            };
            let is_news = said.get(&consumer) != Some(&state);
            if is_news && self.context.leadership.lead().is_some() {
                let kind = match state {
                    Said::Near => "consumer_near_gap",
                    Said::Gap => "consumer_gap",
                };
                self.context.happened(Event::now(kind, "", text));
            }
            now.insert(consumer, state);
        }
        *said = now;
    }
}

/// What is to be told of a consumer, if anything is.
fn condition(consumer: &str, lag: &Lag) -> Option<(Said, String)> {
    if let Some((group, gap)) = &lag.gap {
        let text = format!(
            "{consumer}: the servers of group {group} have purged what it has not acknowledged, {gap}; drop it, and create it anew \
             with --snapshot"
        );
        return Some((Said::Gap, text));
    }
    let percent = lag.expiry_percent.filter(|it| *it >= NEAR_PERCENT)?;
    let text = format!(
        "{consumer} is {} s and {} bytes behind, which is {percent} % of what the servers keep of their binlogs; have its \
         consumer go on, or the servers keep more (subscription_binlogs_h, binlog_expire_logs_seconds)",
        lag.ms / 1000,
        lag.bytes
    );
    Some((Said::Near, text))
}

fn is_due(asked: Option<Duration>, now: Duration) -> bool {
    asked.is_none_or(|at| now.saturating_sub(at) >= LOOK_AT_EXPIRY)
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;
    use crate::change_stream::Gap;

    #[test]
    fn consumers_near_a_gap_are_told_of() {
        let at = |text| Position::parse(Engine::MariaDb, text).expect("a position");
        let mut lag = Lag {
            ms: 7_400_000,
            bytes: 12,
            expiry_percent: Some(NEAR_PERCENT - 1),
            gap: None,
        };
        assert!(condition("sink a", &lag).is_none());
        lag.expiry_percent = Some(NEAR_PERCENT);
        let (said, text) = condition("sink a", &lag).expect("it is near");
        assert!(said == Said::Near);
        assert!(
            text.starts_with("sink a is 7400 s and 12 bytes behind"),
            "{text}"
        );
        let gap = Gap {
            from: at("0-1-5"),
            to: at("0-1-9"),
        };
        lag.gap = Some(("g1".to_owned(), gap));
        let (said, text) = condition("sink a", &lag).expect("it is there");
        assert!(
            said == Said::Gap && text.contains("behind 0-1-5 up to 0-1-9"),
            "{text}"
        );
    }
}
