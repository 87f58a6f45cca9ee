//! Statements about definitions that run on several groups: written down before they begin, so that one
//! which was cut short is known, and can be resumed.

use engine::definitions::run_again;
use serde_json::Value;

use super::group::done;
use crate::commands::ShardingCommands;
use crate::leadership::lead::Lead;
use crate::sharding::wanted::Which;
use catalog::command::{Arguments, CommandError, Table};
use catalog::identity;
use catalog::record::{CHANGE, ChangeRecord, json};

/// A definition of a large table takes its time.
const RESUME_MS: u64 = 3_600_000;

impl ShardingCommands {
    /// Writes one down, or what is left of one; the result is its id.
    pub(crate) async fn add_change(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let id = match args.get("change_id") {
            Some(id) => id.to_owned(),
            None => identity::uuid().map_err(|error| CommandError::Internal(error.to_string()))?,
        };
        let groups = args.text("groups").split(',').map(str::trim);
        let record = ChangeRecord {
            text: args.text("document").to_owned(),
            groups: groups.map(str::to_owned).collect(),
            database: args.get("database").unwrap_or_default().to_owned(),
            sql_mode: args.get("sql_mode").unwrap_or_default().to_owned(),
            error: args.get("error").unwrap_or_default().to_owned(),
        };
        let put = meta::Transaction::new().put(&format!("{CHANGE}{id}"), &json(&record));
        self.context.commit(lead, put).await?;
        done(id.into())
    }

    pub(crate) async fn drop_change(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (id, _) = self.named_change(args)?;
        let delete = meta::Transaction::new().delete(&format!("{CHANGE}{id}"));
        self.context.commit(lead, delete).await?;
        done(Value::Bool(true))
    }

    pub(crate) fn list_changes(&self) -> Table {
        let columns = ["change_id", "groups", "database", "statement", "error"];
        let mut table = Table::new(&columns);
        for (id, change) in &self.context.state().records.changes {
            table.rows.push(vec![
                id.as_str().into(),
                change.groups.join(",").into(),
                change.database.as_str().into(),
                change.text.as_str().into(),
                change.error.as_str().into(),
            ]);
        }
        table
    }

    /// Runs it where it is left to run. A group that says it has been done there counts as done.
    pub(crate) async fn resume_change(&self, args: &Arguments) -> Result<Table, CommandError> {
        let (id, mut change) = self.named_change(args)?;
        let key = format!("{CHANGE}{id}");
        while let Some(group) = change.groups.first().cloned() {
            // Each group may take long, so each is begun by the right of its own moment.
            let lead = &self.context.leadership.must_lead()?;
            let mut link = self.sharding.reach_group(lead, &group).await?;
            let ChangeRecord {
                text,
                database,
                sql_mode,
                ..
            } = &change;
            if let Err(error) = run_again(&mut link, database, sql_mode, text, RESUME_MS).await {
                let why = format!("group {group}: {error}");
                change.error.clone_from(&why);
                let put = meta::Transaction::new().put(&key, &json(&change));
                let lead = &self.context.leadership.must_lead()?;
                self.context.commit(lead, put).await?;
                return Err(CommandError::Refused(why));
            }
            change.groups.remove(0);
        }
        let lead = &self.context.leadership.must_lead()?;
        self.context
            .commit(lead, meta::Transaction::new().delete(&key))
            .await?;
        let read = self.sharding.refresh_tables(&Which::All).await;
        read.map_err(CommandError::Refused)?;
        done(Value::Bool(true))
    }

    fn named_change(&self, args: &Arguments) -> Result<(String, ChangeRecord), CommandError> {
        let id = args.text("change_id");
        let change = self.context.state().records.changes.get(id).cloned();
        let change = change.ok_or_else(|| {
            CommandError::Refused(format!(
                "there is no change {id}; `sharding list_changes` lists those that are not finished"
            ))
        })?;
        Ok((id.to_owned(), change))
    }
}
