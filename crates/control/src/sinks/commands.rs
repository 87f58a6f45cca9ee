//! Commands on sinks of the change stream.

use std::sync::Arc;

use catalog::command::{Arguments, CommandError, StreamVerb, Table};
use catalog::event::{epoch_ms, when};
use catalog::record::json;
use catalog::sink::{SINK, SINK_LETTER, SINK_PROGRESS, SinkProgress, SinkRecord};
use catalog::subscription::{all, is_name, read};
use meta::{Outcome, Transaction};
use serde_json::Value;

use super::Sinks;
use super::named::{prefixed, spec};
use super::progress::{letter_key, letters};
use crate::commands::group::done;
use crate::context::Context;
use crate::subscriptions::commands::{
    FILTERS, SubscriptionCommands, filters_of, order_of, record, shown,
};
use crate::subscriptions::wanted_of;

const COLUMNS: &[&str] = &[
    "name",
    "to",
    "state",
    "groups",
    "databases",
    "tables",
    "snapshot",
    "order",
    "delivered",
    "letters",
    "lag_ms",
    "lag_bytes",
    "expiry_percent",
    "gap",
    "error",
];

/// The commands about subscriptions to the change stream, and its sinks.
pub(crate) struct StreamCommands {
    subscriptions: SubscriptionCommands,
    sinks: SinkCommands,
}

impl StreamCommands {
    pub(crate) fn new(context: &Arc<Context>, sinks: &Arc<Sinks>) -> StreamCommands {
        StreamCommands {
            subscriptions: SubscriptionCommands::new(context, &sinks.subscriptions),
            sinks: SinkCommands {
                context: Arc::clone(context),
                sinks: Arc::clone(sinks),
            },
        }
    }

    pub(crate) async fn carry_out(
        &self,
        verb: StreamVerb,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (subscriptions, sinks) = (&self.subscriptions, &self.sinks);
        match verb {
            StreamVerb::CreateSubscription => subscriptions.subscription_create(args).await,
            StreamVerb::ListSubscriptions => subscriptions.subscription_list().await,
            StreamVerb::ShowSubscription => subscriptions.subscription_show(args).await,
            StreamVerb::DropSubscription => subscriptions.subscription_drop(args).await,
            StreamVerb::Acknowledge => subscriptions.subscription_ack(args).await,
            StreamVerb::CreateSink => sinks.create(args).await,
            StreamVerb::ListSinks => sinks.list().await,
            StreamVerb::ShowSink => sinks.show(args).await,
            StreamVerb::PauseSink => sinks.change(args, |record| record.paused = true).await,
            StreamVerb::ResumeSink => sinks.change(args, resume).await,
            StreamVerb::ListLetters => sinks.letters(args).await,
            StreamVerb::ResendLetters => sinks.change(args, |record| record.resend += 1).await,
            StreamVerb::DiscardLetters => sinks.discard(args).await,
            StreamVerb::DropSink => sinks.drop(args).await,
        }
    }
}

/// The commands about sinks.
struct SinkCommands {
    context: Arc<Context>,
    sinks: Arc<Sinks>,
}

impl SinkCommands {
    async fn create(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        if !is_name(name) || name.starts_with('.') {
            return Err(CommandError::Usage(format!(
                "{name:?} is no name of a sink: up to 64 letters, digits, _, - and . make one"
            )));
        }
        let key = format!("{SINK}{name}");
        let is_there = || {
            let text = format!("sink {name} is there already; `sink drop {name}` removes it");
            CommandError::Refused(text)
        };
        if self.context.store().get(&key).await?.is_some() {
            return Err(is_there());
        }
        let spec = spec(args)?;
        let mut of = record(args)?;
        prefixed(&mut of, &spec)?;
        let record = SinkRecord {
            of,
            spec,
            ..SinkRecord::default()
        };
        let beginning = self.sinks.subscriptions.beginning(wanted_of(&record.of));
        let progress = SinkProgress {
            token: beginning.await?,
            at_ms: epoch_ms(),
            ..SinkProgress::default()
        };
        let put = Transaction::new()
            .when_absent(&key)
            .put(&key, &json(&record))
            .put(&format!("{SINK_PROGRESS}{name}"), &json(&progress));
        match self.write(put).await? {
            Outcome::Applied(_) => {}
            Outcome::Stale => return Err(is_there()),
        }
        let mut table = Table::new(&["name", "to", "secret"]);
        let secret = record.spec.secret;
        let secret = if secret.is_empty() {
            Value::Null
        } else {
            secret.into()
        };
        table
            .rows
            .push(vec![name.into(), record.spec.to.into(), secret]);
        Ok(table)
    }

    async fn list(&self) -> Result<Table, CommandError> {
        let store = self.context.store();
        let mut table = Table::new(COLUMNS);
        for (name, record) in all::<SinkRecord>(store, SINK).await? {
            let progress = read(store, SINK_PROGRESS, &name).await?;
            let progress: SinkProgress = progress.unwrap_or_default().0;
            table.rows.push(self.row(&name, &record, &progress));
        }
        Ok(table)
    }

    async fn show(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        let (record, _) = self.named(name).await?;
        let progress = read(self.context.store(), SINK_PROGRESS, name).await?;
        let progress: SinkProgress = progress.unwrap_or_default().0;
        let more = [
            "created",
            "acknowledged",
            "failures",
            "failing_since",
            "token",
        ];
        let columns = COLUMNS.iter().chain(FILTERS).copied().chain(more);
        let columns: Vec<&str> = columns.collect();
        let mut table = Table::new(&columns);
        let mut row = self.row(name, &record, &progress);
        row.extend(filters_of(&record.of));
        let since = Some(progress.failing_since_ms)
            .filter(|it| *it > 0)
            .map(when);
        row.extend([
            when(record.of.created_ms).into(),
            when(progress.at_ms).into(),
            progress.failures.into(),
            since.into(),
            progress.token.into(),
        ]);
        table.rows.push(row);
        Ok(table)
    }

    async fn letters(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        self.named(name).await?;
        let mut table = Table::new(&["id", "at", "reason", "token", "event"]);
        for letter in letters(&self.context, name).await? {
            let event = serde_json::from_str::<Value>(&letter.line).unwrap_or_default();
            table.rows.push(vec![
                letter.id.into(),
                when(letter.at_ms).into(),
                letter.reason.into(),
                letter.token.into(),
                event,
            ]);
        }
        Ok(table)
    }

    async fn discard(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        let (record, revision) = self.named(name).await?;
        let only = args.get("id");
        let found = letters(&self.context, name).await?;
        let meant = found.iter().filter(|it| only.is_none_or(|id| it.id == id));
        let mut delete = Transaction::new();
        for letter in meant {
            delete = delete.delete(&letter_key(name, &letter.id));
        }
        if only.is_some() && delete.changes.is_empty() {
            return Err(CommandError::Refused(format!(
                "no letter of sink {name} has this id; `sink letters {name}` shows those that there are"
            )));
        }
        let left = found.len() - delete.changes.len();
        let key = format!("{SINK_PROGRESS}{name}");
        let progress = read::<SinkProgress>(self.context.store(), SINK_PROGRESS, name).await?;
        let (mut progress, of_progress) = progress.unwrap_or_default();
        progress.letters = u64::try_from(left).unwrap_or(u64::MAX);
        // A delivery that runs has its own count: it begins anew.
        let delete = delete
            .when_revision(&format!("{SINK}{name}"), revision)
            .when_revision(&key, of_progress)
            .put(&key, &json(&progress))
            .put(&format!("{SINK}{name}"), &json(&record));
        self.applied(delete).await
    }

    async fn drop(&self, args: &Arguments) -> Result<Table, CommandError> {
        let name = args.text("name");
        let (_, revision) = self.named(name).await?;
        let key = format!("{SINK}{name}");
        let mut delete = Transaction::new()
            .when_revision(&key, revision)
            .delete(&key)
            .delete(&format!("{SINK_PROGRESS}{name}"));
        let letters = self.context.store().scan(&format!("{SINK_LETTER}{name}/"));
        for entry in letters.await?.entries {
            delete = delete.delete(&entry.key);
        }
        self.applied(delete).await
    }

    /// Writes the record anew, so that the delivery begins by it.
    async fn change(
        &self,
        args: &Arguments,
        change: impl FnOnce(&mut SinkRecord),
    ) -> Result<Table, CommandError> {
        let name = args.text("name");
        let (mut record, revision) = self.named(name).await?;
        change(&mut record);
        let key = format!("{SINK}{name}");
        let put = Transaction::new()
            .when_revision(&key, revision)
            .put(&key, &json(&record));
        self.applied(put).await
    }

    async fn named(&self, name: &str) -> Result<(SinkRecord, u64), CommandError> {
        let found = read(self.context.store(), SINK, name).await?;
        found.ok_or_else(|| {
            CommandError::Refused(format!(
                "there is no sink {name}; `sink list` shows those that there are"
            ))
        })
    }

    async fn applied(&self, transaction: Transaction) -> Result<Table, CommandError> {
        match self.write(transaction).await? {
            Outcome::Applied(_) => done(Value::Bool(true)),
            Outcome::Stale => Err(CommandError::Stale),
        }
    }

    /// These keys are none of the farm's records, which are not read anew.
    async fn write(&self, transaction: Transaction) -> Result<Outcome, CommandError> {
        let leadership = &self.context.leadership;
        let transaction = leadership.fenced(&leadership.must_lead()?, transaction)?;
        let outcome = self.context.store().commit(transaction).await?;
        self.sinks.changed.notify_one();
        Ok(outcome)
    }

    fn row(&self, name: &str, record: &SinkRecord, progress: &SinkProgress) -> Vec<Value> {
        let lag = self.sinks.subscriptions.lags().sinks.remove(name);
        let error = Some(&progress.error).filter(|it| !it.is_empty());
        let mut row: Vec<Value> = vec![
            name.into(),
            record.spec.to.as_str().into(),
            state(record, progress).into(),
            record.of.groups.join(",").into(),
            record.of.databases.join(",").into(),
            record.of.tables.join(",").into(),
            record.of.snapshot.into(),
            order_of(&record.of),
            progress.delivered.into(),
            progress.letters.into(),
        ];
        row.extend(shown(lag.as_ref()));
        row.push(error.cloned().into());
        row
    }
}

fn resume(record: &mut SinkRecord) {
    record.paused = false;
    record.resumed += 1;
}

/// How a sink is, in a word.
pub(super) fn state(record: &SinkRecord, progress: &SinkProgress) -> &'static str {
    match (record.paused, progress.stuck) {
        (true, _) => "paused",
        (false, Some(stuck)) if stuck == record.resumed => "stuck",
        (false, _) if !progress.error.is_empty() => "failing",
        (false, _) => "running",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sink_is_in_one_state() {
        let mut record = SinkRecord::default();
        let mut progress = SinkProgress::default();
        assert_eq!(state(&record, &progress), "running");
        progress.error = "no".to_owned();
        assert_eq!(state(&record, &progress), "failing");
        progress.stuck = Some(0);
        assert_eq!(state(&record, &progress), "stuck");
        record.paused = true;
        assert_eq!(state(&record, &progress), "paused");
        resume(&mut record);
        assert_eq!(state(&record, &progress), "failing");
    }
}
