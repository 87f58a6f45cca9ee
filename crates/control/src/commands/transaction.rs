//! Commands on transactions over several groups that are in doubt.

use crate::txn_recovery::DistTxns;
use std::sync::Arc;
use std::time::Duration;

use farm::dist_txn::{GlobalId, Verdict};
use serde_json::Value;
use tokio::time::Instant;

use super::group::done;
use crate::context::Context;
use crate::txn_recovery::TxnRecovery;
use crate::txn_recovery::{Order, Shown, Task};
use catalog::command::{Arguments, CommandError, Table};
use catalog::event::when;

const COLUMNS: &[&str] = &[
    "transaction_id",
    "state",
    "verdict",
    "decider",
    "branches",
    "since",
    "waits_for",
];

/// Pause between two looks at whether it has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// The commands about transactions over several groups.
pub(crate) struct TransactionCommands {
    context: Arc<Context>,
    txn_recovery: Arc<TxnRecovery>,
    dist_txns: Arc<DistTxns>,
}

impl TransactionCommands {
    pub(crate) fn new(
        context: &Arc<Context>,
        txn_recovery: &Arc<TxnRecovery>,
        dist_txns: &Arc<DistTxns>,
    ) -> TransactionCommands {
        TransactionCommands {
            context: Arc::clone(context),
            txn_recovery: Arc::clone(txn_recovery),
            dist_txns: Arc::clone(dist_txns),
        }
    }
}

impl TransactionCommands {
    pub(crate) fn transaction_list(&self) -> Table {
        let mut table = Table::new(COLUMNS);
        let shown = self.dist_txns.shown().clone();
        table.rows = shown.iter().map(|(id, it)| self.row(id, it)).collect();
        table
    }

    fn row(&self, id: &GlobalId, shown: &Shown) -> Vec<Value> {
        let mut groups: Vec<&str> = shown.branches.values().map(String::as_str).collect();
        groups.sort_unstable();
        vec![
            id.to_string().into(),
            shown.state.name().into(),
            shown.verdict.map_or("", word).into(),
            self.txn_recovery.group_of_number(id.coordinator).into(),
            groups.join(",").into(),
            when(shown.since_ms).into(),
            shown.waits_for.clone().into(),
        ]
    }

    /// Returns when it has ended.
    pub(crate) async fn transaction_resolve(
        &self,
        args: &Arguments,
    ) -> Result<Table, CommandError> {
        let text = args.text("transaction_id");
        let id = GlobalId::parse(text)
            .ok_or_else(|| args.bad("transaction_id", text, "an id from `transaction list`"))?;
        let shown = self.dist_txns.shown().get(&id).cloned().ok_or_else(|| {
            CommandError::Refused(
                "no primary that answers has a branch of this transaction; `transaction list` shows \
                 those that are in doubt"
                    .to_owned(),
            )
        })?;
        let verdict = match args.get("verdict") {
            None => None,
            Some("commit") => Some(Verdict::Commit),
            Some("rollback") => Some(Verdict::Abort),
            Some(other) => return Err(args.bad("verdict", other, "commit or rollback")),
        };
        if verdict.is_some() {
            self.may_be_forced(args, &id).await?;
        }
        let branches = shown.branches.into_iter();
        let taken = self.dist_txns.order(Order {
            id,
            verdict,
            by_force: verdict.is_some(),
            branches: branches.map(|(branch, group)| (group, branch)).collect(),
        });
        if !taken {
            let why = "too many transactions wait to be ended; try again";
            return Err(CommandError::Internal(why.to_owned()));
        }
        let limit = Duration::from_millis(self.context.settings().step_timeout_ms);
        let until = Instant::now() + limit;
        loop {
            let waits_for = match self.dist_txns.shown().get(&id) {
                None => return done(Value::Bool(true)),
                Some(shown) => shown.waits_for.clone(),
            };
            if Instant::now() > until {
                return Err(CommandError::Refused(format!(
                    "it is still in doubt: {waits_for}; if that is lost for good, see `manage help \
                     transaction resolve`"
                )));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Nobody overrules a coordinator group that can be asked.
    async fn may_be_forced(&self, args: &Arguments, id: &GlobalId) -> Result<(), CommandError> {
        if !args.switch("force")? {
            return Err(CommandError::Refused(
                "the coordinator group of the transaction says what became of it; a verdict of yours may leave it \
                 half done: repeat it with --force=true if the coordinator group is lost for good"
                    .to_owned(),
            ));
        }
        if self
            .txn_recovery
            .at_coordinator(id, Task::Look)
            .await
            .is_ok()
        {
            return Err(CommandError::Refused(format!(
                "its coordinator group, {}, answers: it will be ended as that says; call it without a verdict",
                self.txn_recovery.group_of_number(id.coordinator)
            )));
        }
        Ok(())
    }
}

/// A verdict as clients know it.
fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Commit => "commit",
        Verdict::Abort => "rollback",
    }
}
