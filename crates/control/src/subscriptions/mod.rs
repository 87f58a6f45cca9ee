//! Durable subscriptions to the change stream: named, with the position that their consumers have acknowledged.
//!
//! Job: what a subscription is about and where it goes on, from the state store; how far each is behind.
//!
//! Invariants: an acknowledged position never goes back; the servers alone purge their binlogs, and Heddle has them keep
//! these for longer at most ([`measuring`]): what they have purged is a gap, of which the stream tells.
//!
//! Must not know: what changes look like, who reads a stream.

pub(crate) mod commands;
mod lag;
mod measuring;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::command::CommandError;
use catalog::subscription::{
    ACKNOWLEDGED, AcknowledgedRecord, SUBSCRIPTION, SubscriptionRecord, read,
};
use changes::debezium::Types;
use changes::{KeyRange, Kind, Wanted};
use serde_json::Value;

use crate::change_stream::{ChangeStreams, ChangesWanted};
use crate::context::Context;
use crate::links::Links;
pub use lag::Lag;
pub(crate) use measuring::NEAR_PERCENT;

/// A new stream begins by then. It waits for branches that were prepared before, and says itself when it gives up.
const BEGIN: Duration = Duration::from_secs(20);

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

impl Lags {
    /// All of them, by what the consumer is called among both kinds, such as `sink index`.
    pub(crate) fn all(&self) -> impl Iterator<Item = (String, &Lag)> {
        let kinds = [("subscription", &self.subscriptions), ("sink", &self.sinks)];
        kinds
            .into_iter()
            .flat_map(|(kind, lags)| lags.iter().map(move |it| (kind, it)))
            .map(|(kind, (name, lag))| (format!("{kind} {name}"), lag))
    }
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

    fn put(&self, lags: Lags) {
        *self.lags.lock().unwrap_or_else(PoisonError::into_inner) = lags;
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

/// Which rows a subscription is about.
pub(crate) fn rows_of(record: &SubscriptionRecord) -> Wanted {
    let kinds = record.kinds.iter();
    Wanted {
        databases: record.databases.clone(),
        tables: record.tables.clone(),
        // They were checked when it was made.
        kinds: kinds.filter_map(|it| Kind::named(it)).collect(),
        sources: record.sources.clone(),
        columns: record.columns.clone(),
        keys: KeyRange {
            from: record.key_from.clone(),
            to: record.key_to.clone(),
        },
    }
}

/// The stream that a subscription is, from its beginning.
pub(crate) fn wanted_of(record: &SubscriptionRecord) -> ChangesWanted {
    ChangesWanted {
        from: None,
        groups: record.groups.clone(),
        of: rows_of(record),
        snapshot: record.snapshot,
        in_order: record.in_order,
        // It was checked when it was made.
        types: types_of(record).unwrap_or_default(),
    }
}
