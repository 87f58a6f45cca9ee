//! The commands about the farm's routers.

use super::RouterCommands;

use meta::Transaction;
use serde_json::Value;

use super::group::done;
use crate::background::Background;
use crate::leadership::lead::Lead;
use catalog::command::{CommandError, Table};
use catalog::event::{Event, when};
use catalog::identity;
use catalog::record::{FARM_AUTHORITY, authority_record};

/// `trace dump`.
pub(super) async fn dump_trace(background: &Background) -> Result<Table, CommandError> {
    let dumped = background.in_turn(|sessions| sessions.dump_trace()).await?;
    let (path, bytes) = dumped.map_err(CommandError::Refused)?;
    let mut table = Table::new(&["path", "bytes"]);
    table.rows.push(vec![path.into(), bytes.into()]);
    Ok(table)
}

impl RouterCommands {
    /// Every router that lives, by slot.
    pub(crate) fn router_list(&self) -> Table {
        let columns = [
            "name", "slot", "leads", "since", "http", "sql", "version", "started", "this",
        ];
        let mut table = Table::new(&columns);
        // A router that is alone is known to nobody by a name.
        let shown = |text: String| match text.is_empty() {
            true => "-".to_owned(),
            false => text,
        };
        for router in self.election.routers() {
            let since_ms = router
                .leads_since_ms
                .or(router.leads.then_some(router.started_ms));
            table.rows.push(vec![
                shown(router.name).into(),
                router.slot.into(),
                router.leads.into(),
                since_ms.map(when).into(),
                shown(router.http).into(),
                shown(router.sql).into(),
                router.version.into(),
                when(router.started_ms).into(),
                router.own.into(),
            ]);
        }
        table
    }

    /// Each router shows, and takes, certificates of the new authority as soon as it hears of it.
    pub(crate) async fn rotate_authority(&self, lead: &Lead) -> Result<Table, CommandError> {
        let key = identity::authority();
        let key = key.map_err(|error| CommandError::Internal(error.to_string()))?;
        let record = authority_record(&key);
        self.context
            .commit(lead, Transaction::new().put(FARM_AUTHORITY, &record))
            .await?;
        let what = "routers know each other by another authority, as an operator says";
        self.context
            .happened(Event::now("authority_rotated", "", what.to_owned()));
        done(Value::Bool(true))
    }
}
