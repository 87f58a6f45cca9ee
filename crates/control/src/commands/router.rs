//! The command that shows the farm's routers.

use super::Table;
use crate::events::when;
use crate::runtime::Control;

impl Control {
    /// Every router that lives, by slot.
    pub(super) fn router_list(&self) -> Table {
        let columns = [
            "name", "slot", "leads", "since", "http", "sql", "version", "started", "this",
        ];
        let mut table = Table::new(&columns);
        // A router that is alone is known to nobody by a name.
        let shown = |text: String| match text.is_empty() {
            true => "-".to_owned(),
            false => text,
        };
        for router in self.routers() {
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
}
