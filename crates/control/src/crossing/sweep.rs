//! Removes decisions that nobody will ask for any more.
//!
//! A row that says commit goes when no group that it names lists a branch of it, what ended them is as
//! safe as an acknowledged commit, and its router knows what became of it. The second is made sure by
//! one more commit on each group, behind the list: what a replica has of that, it has of all before.
//! A row that says abort goes when the decider's connection is gone: nothing can arrive from it then.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use engine::decisions::{self, Decision};
use engine::heartbeat;
use farm::crossing::{GlobalId, Verdict, farm_number};
use farm::{Group, ServerId};
use faults::Point;

use super::{age_s, now_ms};
use crate::runtime::Control;

/// Rows that are read at once, and pages of one sweep; the rest is for the next one.
const PAGE: usize = 500;
const PAGES_MAX: usize = 20;

/// The ids that groups, by number, still have branches of; `None` where nobody can say.
type Listed = HashMap<u32, Option<HashSet<GlobalId>>>;

impl Control {
    /// Looks at the rows of all groups once.
    pub(super) async fn sweep(self: &Arc<Self>) {
        let groups = self.snapshot_now().groups.clone();
        for group in groups {
            let Some((group, server)) = self.writable(|it| it.number == group.number) else {
                continue;
            };
            // What cannot be removed now is looked at again.
            if let Err(why) = self.sweep_group(&group, server).await {
                tracing::debug!(group = &*group.name, why, "decisions were not swept");
            }
        }
    }

    async fn sweep_group(&self, group: &Group, server: ServerId) -> Result<(), String> {
        let farm = farm_number(&self.snapshot_now().farm_id);
        let timeout_ms = self.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let mut behind: Option<GlobalId> = None;
        for _ in 0..PAGES_MAX {
            let mut link = self
                .lend_from(&self.crossings.links[0], server.0)
                .await
                .map_err(text)?;
            let rows =
                decisions::decisions(&mut link, farm, behind.as_ref(), PAGE, timeout_ms).await;
            let rows = link.keep(rows).map_err(text)?;
            let Some(last) = rows.last() else { break };
            behind = Some(last.id);
            let useless = self.useless(server, &rows).await?;
            if !useless.is_empty() {
                let mut link = self.link_for(&useless[0], server).await?;
                Point::Sweep.pass();
                let removed = decisions::remove(&mut link, &useless, timeout_ms).await;
                link.keep(removed).map_err(text)?;
                Point::Swept.pass();
                tracing::debug!(
                    group = &*group.name,
                    rows = useless.len(),
                    "decisions removed"
                );
            }
            if rows.len() < PAGE {
                break;
            }
        }
        Ok(())
    }

    /// Those that can go. The rows were read before the branches are.
    async fn useless(&self, server: ServerId, rows: &[Decision]) -> Result<Vec<GlobalId>, String> {
        let mut listed = Listed::new();
        let mut useless = Vec::new();
        for row in rows {
            let goes = match row.verdict {
                Verdict::Commit => self.is_finished(row, &mut listed).await,
                Verdict::Abort => self.is_disarmed(server, &row.id).await?,
            };
            if goes {
                useless.push(row.id);
            }
        }
        Ok(useless)
    }

    async fn is_finished(&self, row: &Decision, listed: &mut Listed) -> bool {
        let (router, own) = (row.id.router, self.crossings.life());
        // Of a client's own a repeated XA COMMIT asks.
        let mine = router.slot == own.slot && router.started_ms <= own.started_ms;
        let knows = match mine && !row.id.is_of_client() {
            true => !self.crossings.is_undertaken(&row.id),
            // Another router, which may be asking for the row as long as it asks for anything.
            false => now_ms().saturating_sub(row.id.at_ms) > self.settings().decisions_kept_ms,
        };
        if !knows {
            return false;
        }
        let groups = &self.snapshot_now().groups;
        // One that left the farm has nothing that anybody could end.
        let there = |number: &&u32| groups.iter().any(|group| group.number == **number);
        for number in row.groups.iter().filter(there) {
            if !listed.contains_key(number) {
                let ids = self.safely_listed(*number).await;
                listed.insert(*number, ids);
            }
            let ids = listed.get(number).and_then(Option::as_ref);
            if ids.is_none_or(|ids| ids.contains(&row.id)) {
                return false;
            }
        }
        true
    }

    /// The ids of which a group has branches; the end of all others is as safe as a commit.
    async fn safely_listed(&self, number: u32) -> Option<HashSet<GlobalId>> {
        let (group, server) = self.writable(|group| group.number == number)?;
        let list = self.list_group(&group.name).await.ok()??;
        let mut link = self
            .lend_from(&self.crossings.links[0], server.0)
            .await
            .ok()?;
        let router = self.state().records.farm_id.clone();
        let beat = heartbeat::beat(&mut link, &router, self.settings().step_timeout_ms).await;
        let safe = self.is_safe(&group, &mut link).await;
        link.keep(beat).ok()?;
        // It was one and the same server all the time.
        let (_, now) = self.writable(|group| group.number == number)?;
        (safe && now == server).then(|| list.ours.iter().map(|branch| branch.id).collect())
    }

    /// True when nothing can come from the connection that was to decide.
    async fn is_disarmed(&self, server: ServerId, id: &GlobalId) -> Result<bool, String> {
        if id.at.server != server {
            return Ok(true);
        }
        let text = |error: engine::Error| error.to_string();
        let mut link = self
            .lend_from(&self.crossings.links[0], server.0)
            .await
            .map_err(text)?;
        let timeout_ms = self.settings().step_timeout_ms;
        let there =
            engine::is_still_connected(&mut link, id.at.connection, age_s(id), timeout_ms).await;
        link.keep(there).map(|there| !there).map_err(text)
    }
}
