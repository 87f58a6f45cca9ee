//! Commands on durable subscriptions to the change stream.

use std::sync::Arc;

use changes::{Kind, Token};
use meta::{Outcome, Transaction};
use serde_json::Value;

use super::{Lag, Subscriptions, rows_of, types_of, wanted_of};
use crate::commands::group::done;
use crate::context::Context;
use catalog::command::{Arguments, CommandError, Table};
use catalog::event::{epoch_ms, when};
use catalog::record::json;
use catalog::subscription::{
    ACKNOWLEDGED, AcknowledgedRecord, SUBSCRIPTION, SubscriptionRecord, all, is_name, read,
};

const COLUMNS: &[&str] = &[
    "name",
    "groups",
    "databases",
    "tables",
    "snapshot",
    "order",
    "created",
    "acknowledged",
    "lag_ms",
    "lag_bytes",
    "expiry_percent",
    "gap",
];

/// What `show` has of the filters besides.
pub(crate) const FILTERS: &[&str] = &["kinds", "columns", "source", "key_from", "key_to"];

/// The values of [`FILTERS`].
pub(crate) fn filters_of(record: &SubscriptionRecord) -> [Value; 5] {
    [
        record.kinds.join(",").into(),
        record.columns.join(",").into(),
        record.sources.join(",").into(),
        record.key_from.clone().into(),
        record.key_to.clone().into(),
    ]
}

/// The commands about subscriptions.
pub(crate) struct SubscriptionCommands {
    context: Arc<Context>,
    subscriptions: Arc<Subscriptions>,
}

impl SubscriptionCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        subscriptions: &Arc<Subscriptions>,
    ) -> SubscriptionCommands {
        SubscriptionCommands {
            context: Arc::clone(context),
            subscriptions: Arc::clone(subscriptions),
        }
    }

    pub(crate) async fn subscription_create(
        &self,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let name = args.text("name");
        if !is_name(name) {
            return Err(CommandError::Usage(format!(
                "{name:?} is no name of a subscription: up to 64 letters, digits, _, - and . make one"
            )));
        }
        let record = record(args)?;
        let acknowledged = AcknowledgedRecord {
            token: self.subscriptions.beginning(wanted_of(&record)).await?,
            at_ms: epoch_ms(),
        };
        let key = format!("{SUBSCRIPTION}{name}");
        let put = Transaction::new()
            .when_absent(&key)
            .put(&key, &json(&record))
            .put(&format!("{ACKNOWLEDGED}{name}"), &json(&acknowledged));
        match self.write(put).await? {
            Outcome::Applied(_) => done(Value::Bool(true)),
            Outcome::Stale => Err(CommandError::Refused(format!(
                "subscription {name} is there already; `subscription drop {name}` removes it"
            ))),
        }
    }

    pub(crate) async fn subscription_list(&self) -> Result<Table, CommandError> {
        let store = self.context.store();
        let mut table = Table::new(COLUMNS);
        for (name, record) in all::<SubscriptionRecord>(store, SUBSCRIPTION).await? {
            let acknowledged = read(store, ACKNOWLEDGED, &name).await?;
            let acknowledged: AcknowledgedRecord = acknowledged.unwrap_or_default().0;
            table.rows.push(self.row(&name, &record, &acknowledged));
        }
        Ok(table)
    }

    pub(crate) async fn subscription_show(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        let (record, acknowledged) = self.subscriptions.named(name).await?;
        let columns = COLUMNS.iter().chain(FILTERS).copied().chain(["token"]);
        let mut table = Table::new(&columns.collect::<Vec<&str>>());
        let mut row = self.row(name, &record, &acknowledged);
        row.extend(filters_of(&record));
        row.push(acknowledged.token.into());
        table.rows.push(row);
        Ok(table)
    }

    pub(crate) async fn subscription_drop(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        self.subscriptions.named(name).await?;
        let delete = Transaction::new()
            .delete(&format!("{SUBSCRIPTION}{name}"))
            .delete(&format!("{ACKNOWLEDGED}{name}"));
        self.write(delete).await?;
        done(Value::Bool(true))
    }

    /// The consumer has everything up to this token.
    pub(crate) async fn subscription_ack(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (name, token) = (args.text("name"), args.text("token"));
        let snapshot = self.context.snapshot_now();
        let later = Token::parse(token, &snapshot)
            .map_err(|error| CommandError::Usage(format!("token: {error}")))?;
        let (record, _) = self.subscriptions.named(name).await?;
        if !later.places.is_empty() && later.is_in_order() != record.in_order {
            return Err(CommandError::Usage(
                "token: it is of a stream of another order; acknowledge tokens of the subscription's own stream"
                    .to_owned(),
            ));
        }
        let store = self.context.store();
        let before = read::<AcknowledgedRecord>(store, ACKNOWLEDGED, name).await?;
        let (before, revision) = before.unwrap_or_default();
        // A position that a failover took back is behind whatever was told since.
        if let Ok(earlier) = Token::parse(&before.token, &snapshot)
            && let Some(group) = goes_back(&earlier, &later)
        {
            return Err(CommandError::Refused(format!(
                "the token is behind what was acknowledged of group {group}; `subscription show {name}` tells up \
                 to where that is"
            )));
        }
        let acknowledged = AcknowledgedRecord {
            token: token.to_owned(),
            at_ms: epoch_ms(),
        };
        let key = format!("{ACKNOWLEDGED}{name}");
        let put = Transaction::new()
            .when_revision(&key, revision)
            .put(&key, &json(&acknowledged));
        match self.write(put).await? {
            Outcome::Applied(_) => done(Value::Bool(true)),
            Outcome::Stale => Err(CommandError::Stale),
        }
    }

    /// These keys are none of the farm's records, which are not read anew.
    async fn write(&self, transaction: Transaction) -> Result<Outcome, CommandError> {
        let leadership = &self.context.leadership;
        let transaction = leadership.fenced(&leadership.must_lead()?, transaction)?;
        Ok(self.context.store().commit(transaction).await?)
    }

    fn row(
        &self,
        name: &str,
        record: &SubscriptionRecord,
        acknowledged: &AcknowledgedRecord,
    ) -> Vec<Value> {
        let lag = self.subscriptions.lags().subscriptions.remove(name);
        let mut row: Vec<Value> = vec![
            name.into(),
            record.groups.join(",").into(),
            record.databases.join(",").into(),
            record.tables.join(",").into(),
            record.snapshot.into(),
            order_of(record),
            when(record.created_ms).into(),
            when(acknowledged.at_ms).into(),
        ];
        row.extend(shown(lag.as_ref()));
        row
    }
}

/// A lag's columns: `lag_ms`, `lag_bytes`, `expiry_percent`, `gap`.
pub(crate) fn shown(lag: Option<&Lag>) -> [Value; 4] {
    [
        lag.map(|it| it.ms).into(),
        lag.map(|it| it.bytes).into(),
        lag.and_then(|it| it.expiry_percent).into(),
        lag.and_then(Lag::gap_text).into(),
    ]
}

/// A group of which the later token has less.
pub(crate) fn goes_back<'a>(earlier: &'a Token, later: &Token) -> Option<&'a str> {
    let has_less = |group: &str, told: &farm::Position| {
        let place = later.places.iter().find(|place| place.group == *group);
        !place.is_some_and(|place| place.reached.told.covers(told))
    };
    let mut places = earlier.places.iter();
    let back = places.find(|place| has_less(&place.group, &place.reached.told));
    back.map(|place| &*place.group)
}

/// What a call of `subscription create` or `sink create` wants.
pub(crate) fn record(args: &Arguments) -> Result<SubscriptionRecord, CommandError> {
    let record = SubscriptionRecord {
        groups: list(args.get("groups")),
        databases: list(args.get("databases")),
        tables: list(args.get("tables")),
        kinds: list(args.get("kinds")),
        sources: args.get("source").map(str::to_owned).into_iter().collect(),
        columns: list(args.get("columns")),
        key_from: args.get("key_from").map(str::to_owned),
        key_to: args.get("key_to").map(str::to_owned),
        snapshot: args.switch("snapshot")?,
        in_order: in_order(args)?,
        types: args.get("types").unwrap_or_default().to_owned(),
        prefix: args.get("prefix").unwrap_or_default().to_owned(),
        schema: args.switch("schema")?,
        tombstones: args.switch("tombstones")?,
        created_ms: epoch_ms(),
    };
    if let Some(wrong) = record.kinds.iter().find(|it| Kind::named(it).is_none()) {
        return Err(args.bad("kinds", wrong, "of insert, update and delete"));
    }
    let types = types_of(&record).map_err(CommandError::Usage)?;
    match rows_of(&record).objection(&types) {
        Some(why) => Err(CommandError::Usage(why.to_owned())),
        None => Ok(record),
    }
}

/// Whether a call wants one order over all groups.
fn in_order(args: &Arguments) -> Result<bool, CommandError> {
    match args.get("order") {
        None => Ok(false),
        Some("global") => Ok(true),
        Some(other) => Err(CommandError::Usage(format!(
            "order {other:?}: global is the only one; leave it out for each group's own order"
        ))),
    }
}

/// What the order of a subscription is called.
pub(crate) fn order_of(record: &SubscriptionRecord) -> Value {
    match record.in_order {
        true => "global".into(),
        false => Value::Null,
    }
}

/// The names of a comma list.
pub(crate) fn list(text: Option<&str>) -> Vec<String> {
    let names = text.unwrap_or_default().split(',').map(str::trim);
    names
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}
