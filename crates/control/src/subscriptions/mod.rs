//! Durable subscriptions to the change stream: named, with the position that their consumers have acknowledged.
//!
//! Job: what a subscription is about and where it goes on, from the state store; how far each is behind.
//!
//! Invariants: an acknowledged position never goes back; nothing is kept from being purged for a subscription: what
//! the servers have purged is a gap, of which the stream tells.
//!
//! Must not know: what changes look like, who reads a stream.

pub(crate) mod commands;
mod lag;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::command::CommandError;
use catalog::sink::SINK_PROGRESS;
use catalog::subscription::{
    ACKNOWLEDGED, AcknowledgedRecord, SUBSCRIPTION, SubscriptionRecord, all, read,
};
use changes::debezium::Types;
use changes::{Token, Wanted};
use engine::Link;
use engine::binlog::extent;
use farm::{GroupKind, ServerId};
use serde_json::Value;

use crate::change_stream::{ChangeStreams, ChangesWanted};
use crate::context::Context;
use crate::links::Links;
pub use lag::Lag;
use lag::Samples;

/// A new stream begins by then. It waits for branches that were prepared before, and says itself when it gives up.
const BEGIN: Duration = Duration::from_secs(20);

/// How often positions are looked at, while there are subscriptions or sinks.
const LOOK: Duration = Duration::from_secs(1);

/// The subscriptions of the farm, as one router serves them.
pub struct Subscriptions {
    context: Arc<Context>,
    links: Arc<Links>,
    pub(crate) streams: Arc<ChangeStreams>,
    lags: Mutex<Lags>,
}

/// How far each is behind, by name. One whose position nobody can compare is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lags {
    pub subscriptions: BTreeMap<String, Lag>,
    pub sinks: BTreeMap<String, Lag>,
}

impl Subscriptions {
    pub(crate) fn new(
        context: &Arc<Context>,
        links: &Arc<Links>,
        streams: &Arc<ChangeStreams>,
    ) -> Subscriptions {
        Subscriptions {
            context: Arc::clone(context),
            links: Arc::clone(links),
            streams: Arc::clone(streams),
            lags: Mutex::default(),
        }
    }

    /// How far each is behind, by the last look.
    pub fn lags(&self) -> Lags {
        let lags = self.lags.lock().unwrap_or_else(PoisonError::into_inner);
        lags.clone()
    }

    /// What a subscription wants; without a token of the caller's it goes on where it was acknowledged.
    ///
    /// # Errors
    /// There is none of this name; the caller wants something else besides.
    pub async fn wanted(
        &self,
        name: &str,
        asked: ChangesWanted,
    ) -> Result<ChangesWanted, CommandError> {
        let bare = ChangesWanted {
            from: asked.from.clone(),
            ..ChangesWanted::default()
        };
        if asked != bare {
            return Err(CommandError::Usage(
                "a subscription has its own filters; leave group, database, table, snapshot, order and types out"
                    .to_owned(),
            ));
        }
        let (record, acknowledged) = self.named(name).await?;
        Ok(ChangesWanted {
            from: Some(asked.from.unwrap_or(acknowledged.token)),
            ..wanted_of(&record)
        })
    }

    /// What the store has of one.
    pub(crate) async fn named(
        &self,
        name: &str,
    ) -> Result<(SubscriptionRecord, AcknowledgedRecord), CommandError> {
        let store = self.context.store();
        let record = read(store, SUBSCRIPTION, name).await?;
        let acknowledged = read(store, ACKNOWLEDGED, name).await?;
        match (record, acknowledged) {
            (Some((record, _)), Some((acknowledged, _))) => Ok((record, acknowledged)),
            _ => Err(CommandError::Refused(format!(
                "there is no subscription {name}; `subscription list` shows those that there are"
            ))),
        }
    }

    /// The token with which a stream begins now.
    ///
    /// # Errors
    /// It does not begin; the text says why.
    pub(crate) async fn beginning(&self, wanted: ChangesWanted) -> Result<String, CommandError> {
        let mut opened = self.streams.open(wanted)?;
        let ended =
            || CommandError::Refused("the change stream did not begin; see the log".to_owned());
        let late = tokio::time::sleep(BEGIN);
        tokio::pin!(late);
        loop {
            let lines = tokio::select! {
                lines = opened.lines.recv() => lines.ok_or_else(ended)?,
                () = &mut opened.serving => match opened.lines.try_recv() {
                    Ok(lines) => lines,
                    Err(_) => return Err(ended()),
                },
                () = &mut late => return Err(CommandError::Refused(
                    "the change stream did not begin in time; see `group health`, whether every group has a primary"
                        .to_owned(),
                )),
            };
            let line = lines.split(|&byte| byte == b'\n').next();
            let event: Value = serde_json::from_slice(line.unwrap_or_default()).unwrap_or_default();
            match (event["token"].as_str(), event["error"].as_str()) {
                (_, Some(error)) => return Err(CommandError::Refused(error.to_owned())),
                (Some(token), None) => return Ok(token.to_owned()),
                // It says that it is there, and has not begun.
                (None, None) => {}
            }
        }
    }

    /// Measures lags for as long as it runs.
    pub(crate) async fn measure_lags(self: Arc<Self>) {
        let mut samples: BTreeMap<String, Samples> = BTreeMap::new();
        let mut links: HashMap<String, (ServerId, Link)> = HashMap::new();
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
                samples.clear();
                links.clear();
                self.put(Lags::default());
                continue;
            }
            self.look(&mut samples, &mut links).await;
            self.put(Lags {
                subscriptions: self.behind(acknowledged, &samples),
                sinks: self.behind(of_sinks, &samples),
            });
        }
    }

    /// How far those with these positions are behind.
    fn behind(
        &self,
        acknowledged: Vec<(String, AcknowledgedRecord)>,
        samples: &BTreeMap<String, Samples>,
    ) -> BTreeMap<String, Lag> {
        let now = self.context.started.elapsed();
        let snapshot = self.context.snapshot_now();
        let lag = |(name, record): (String, AcknowledgedRecord)| {
            let token = Token::parse(&record.token, &snapshot).ok()?;
            let behind = token.places.iter().filter_map(|place| {
                let samples = samples.get(&place.group)?;
                Some(samples.lag(&place.reached.told, now))
            });
            let whole = behind.fold(Lag::default(), |whole, lag| Lag {
                ms: whole.ms.max(lag.ms),
                bytes: whole.bytes + lag.bytes,
            });
            Some((name, whole))
        };
        acknowledged.into_iter().filter_map(lag).collect()
    }

    fn put(&self, lags: Lags) {
        *self.lags.lock().unwrap_or_else(PoisonError::into_inner) = lags;
    }

    /// Asks each group's primary what it has.
    async fn look(
        &self,
        samples: &mut BTreeMap<String, Samples>,
        links: &mut HashMap<String, (ServerId, Link)>,
    ) {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let snapshot = self.context.snapshot_now();
        let mut there = BTreeSet::new();
        for group in &snapshot.groups {
            let name = group.name.to_string();
            let Some(primary) = group
                .primary()
                .filter(|_| group.kind == GroupKind::Replication)
            else {
                continue;
            };
            there.insert(name.clone());
            let link = match links.remove(&name) {
                Some((server, link)) if server == primary.id => Ok(link),
                _ => Link::open(&self.links.login(&**primary), timeout_ms).await,
            };
            let Ok(mut link) = link else { continue };
            // The moment before: what is executed later is not said to have been there.
            let now = self.context.started.elapsed();
            if let Ok((position, files)) = extent(&mut link, timeout_ms).await {
                let of_group = samples.entry(name.clone()).or_default();
                of_group.add(now, primary.id, position, files);
                links.insert(name, (primary.id, link));
            }
        }
        samples.retain(|name, _| there.contains(name));
    }
}

/// The form of a subscription's rows.
///
/// # Errors
/// There is none that is called so; the text says which there are.
pub(crate) fn types_of(record: &SubscriptionRecord) -> Result<Types, String> {
    Types::named(
        Some(&*record.types).filter(|it| !it.is_empty()),
        Some(&*record.prefix).filter(|it| !it.is_empty()),
        record.schema,
        record.tombstones,
    )
}

/// The stream that a subscription is, from its beginning.
pub(crate) fn wanted_of(record: &SubscriptionRecord) -> ChangesWanted {
    ChangesWanted {
        from: None,
        groups: record.groups.clone(),
        of: Wanted {
            databases: record.databases.clone(),
            tables: record.tables.clone(),
        },
        snapshot: record.snapshot,
        in_order: record.in_order,
        // It was checked when it was made.
        types: types_of(record).unwrap_or_default(),
    }
}
