//! Commands that show and end jobs.

use super::JobCommands;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use serde_json::Value;

use super::group::done;
use crate::commands::reshard;
use crate::provision::jobs::Job;
use catalog::command::{Arguments, CommandError, Table};
use catalog::event::when;

const COLUMNS: &[&str] = &[
    "uuid",
    "kind",
    "group_id",
    "address",
    "source",
    "state",
    "step",
    "tables_done",
    "tables",
    "rows",
    "bytes",
    "started",
    "ended",
    "method",
    "bytes_total",
    "bytes_per_s",
];

impl JobCommands {
    pub(crate) fn job_list(&self) -> Table {
        let mut table = Table::new(COLUMNS);
        table.rows = self.jobs.list().iter().map(|job| row(job)).collect();
        let state = self.context.state();
        let moves = state.records.moves.iter();
        table
            .rows
            .extend(moves.map(|(job, kept)| reshard::row(job, &kept.value)));
        drop(state);
        table
    }

    pub(crate) fn job_show(&self, args: &Arguments) -> Result<Table, CommandError> {
        let mut table = Table::new(COLUMNS);
        let given = args.text("job_id");
        let moved = self.reshard.move_record(given);
        table.rows.push(match moved {
            Some(kept) => reshard::row(given, &kept.value),
            None => row(&*self.named_job(args)?),
        });
        Ok(table)
    }

    /// Returns when the job has ended.
    pub(crate) async fn job_abort(&self, args: &Arguments) -> Result<Table, CommandError> {
        let given = args.text("job_id");
        if let Some(kept) = self.reshard.move_record(given) {
            let lead = &self.context.leadership.must_lead()?;
            return self.abort_move(lead, given, &kept).await;
        }
        let job = self.named_job(args)?;
        if !job.abort() {
            return Err(CommandError::Refused(format!(
                "job {} is {} already",
                job.uuid,
                job.state().name()
            )));
        }
        // Its outcome is of no interest: it may have ended well in this very moment.
        let _ = job.outcome().await;
        done(Value::Bool(true))
    }

    fn named_job(&self, args: &Arguments) -> Result<Arc<Job>, CommandError> {
        let given = args.text("job_id");
        self.jobs.find(given).ok_or_else(|| {
            CommandError::Refused(format!(
                "this router has no job {given}; `job list` shows those that it has"
            ))
        })
    }
}

fn row(job: &Job) -> Vec<Value> {
    let [rows, bytes, tables_done, tables] = job.counts();
    vec![
        job.uuid.clone().into(),
        "clone".into(),
        job.group.clone().into(),
        job.destination.clone().into(),
        job.source().into(),
        job.state().name().into(),
        job.progress.step().into(),
        tables_done.into(),
        tables.into(),
        rows.into(),
        bytes.into(),
        when(job.started_ms).into(),
        job.ended_ms().map_or(Value::Null, |ms| when(ms).into()),
        job.method()
            .map_or(Value::Null, |method| method.name().into()),
        match job.progress.bytes_total.load(Relaxed) {
            0 => Value::Null,
            total => total.into(),
        },
        job.progress.bytes_per_s().map_or(Value::Null, Value::from),
    ]
}
