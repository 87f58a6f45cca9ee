//! Commands that move parts of shard maps, and jobs of this kind.

use std::time::Duration;

use serde_json::Value;

use super::group::done;
use crate::commands::JobCommands;
use crate::leadership::lead::Lead;
use crate::reshard::order::Wanted;
use catalog::command::{Arguments, CommandError, Table};
use catalog::event::when;
use catalog::identity;
use catalog::record::{Kept, MoveRecord};

/// How often it is looked whether a job has ended.
const LOOK: Duration = Duration::from_millis(50);

impl JobCommands {
    pub(crate) async fn move_shard(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let job = self.reshard.order_move(lead, args, Wanted::Whole).await?;
        self.moved_by(args, job).await
    }

    pub(crate) async fn split_shard(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let part = Wanted::Part(args.get("split_value"));
        let job = self.reshard.order_move(lead, args, part).await?;
        self.moved_by(args, job).await
    }

    pub(crate) async fn merge_shards(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let what = "number from `sharding list_shards`";
        let into = args.parse("into_shard_id", what)?.unwrap_or_default();
        let job = self
            .reshard
            .order_move(lead, args, Wanted::Into(into))
            .await?;
        self.moved_by(args, job).await
    }

    /// Waits for the end of a move that was ordered, unless it need not.
    async fn moved_by(&self, args: &Arguments, job: String) -> Result<Table, CommandError> {
        if args.get("synchronous").is_some() && !args.switch("synchronous")? {
            return Ok(Table::begun(job));
        }
        let record = self.end_of_move(&job).await?;
        if record.state() == "done" {
            let uuid = identity::uuid().map_err(|it| CommandError::Internal(it.to_string()))?;
            return Ok(Table::procedure(uuid, job.into()));
        }
        Err(CommandError::Refused(match record.state() {
            "aborted" => format!("job {job} was aborted; everything is as it was before"),
            "paused" => format!("job {job} was paused; `job resume {job}` lets it go on"),
            _ => format!(
                "{} (job {job}: mend it, then `job resume {job}`, or `job abort {job}`)",
                record.error
            ),
        }))
    }

    /// A move that has ended, or stands still.
    async fn end_of_move(&self, job: &str) -> Result<MoveRecord, CommandError> {
        loop {
            let record = self.reshard.move_record(job).map(|kept| kept.value);
            let record = record
                .ok_or_else(|| CommandError::Refused(format!("there is no job {job} any more")))?;
            if record.state() != "running" {
                return Ok(record);
            }
            if self.context.leadership.lead().is_none() {
                return Err(CommandError::Refused(format!(
                    "this router leads no more; another one goes on with job {job}"
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Takes a move back, and waits until that is done.
    pub(super) async fn abort_move(
        &self,
        lead: &Lead,
        job: &str,
        kept: &Kept<MoveRecord>,
    ) -> Result<Table, CommandError> {
        let record = &kept.value;
        let phase = record.phase();
        if phase.is_over() {
            return Err(CommandError::Refused(format!(
                "job {job} is {} already",
                record.state()
            )));
        }
        if phase.is_flipped() {
            return Err(CommandError::Refused(format!(
                "the map has changed already: group {} has the part, and what is left of it on group {} \
                 is being deleted; `sharding list_shards` shows the shard to move back",
                record.to, record.from
            )));
        }
        self.reshard
            .change_move(lead, job, |record| {
                record.aborted = true;
                (record.paused, record.stuck) = (false, false);
            })
            .await?;
        self.end_of_move(job).await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn job_pause(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (job, kept) = self.named_move(args)?;
        if kept.value.state() != "running" {
            let state = kept.value.state();
            return Err(CommandError::Refused(format!(
                "job {job} is {state}, not running"
            )));
        }
        self.reshard
            .change_move(lead, &job, |record| record.paused = true)
            .await?;
        done(Value::Bool(true))
    }

    pub(crate) async fn job_resume(
        &self,
        lead: &Lead,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let (job, kept) = self.named_move(args)?;
        if !matches!(kept.value.state(), "paused" | "failed") {
            let state = kept.value.state();
            return Err(CommandError::Refused(format!(
                "job {job} is {state}, and need not be resumed"
            )));
        }
        self.reshard
            .change_move(lead, &job, |record| {
                (record.paused, record.stuck) = (false, false);
                record.error = String::new();
            })
            .await?;
        done(Value::Bool(true))
    }

    /// Only moves stand still and go on.
    fn named_move(&self, args: &Arguments) -> Result<(String, Kept<MoveRecord>), CommandError> {
        let given = args.text("job_id");
        if let Some(kept) = self.reshard.move_record(given) {
            return Ok((given.to_owned(), kept));
        }
        Err(CommandError::Refused(match self.jobs.find(given) {
            Some(_) => format!(
                "job {given} copies a server, which cannot be paused; `job abort {given}` ends it"
            ),
            None => format!("there is no job {given}; `job list` shows those that there are"),
        }))
    }
}

/// A move as a row of the list of jobs.
pub(super) fn row(job: &str, record: &MoveRecord) -> Vec<Value> {
    vec![
        job.into(),
        record.kind.clone().into(),
        record.to.clone().into(),
        format!("shard {}", record.shard).into(),
        record.from.clone().into(),
        record.state().into(),
        record.step().into(),
        record.table.into(),
        record.tables.len().into(),
        record.rows.into(),
        record.bytes.into(),
        when(record.started_ms).into(),
        record.ended_ms.map_or(Value::Null, |ms| when(ms).into()),
        Value::Null,
        Value::Null,
        Value::Null,
    ]
}
