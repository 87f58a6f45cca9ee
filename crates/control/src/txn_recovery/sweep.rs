//! Removes decisions that nobody will ask for any more.
//!
//! A row that says commit goes when no group that it names lists a branch of it, what ended them is as
//! safe as an acknowledged commit, and its router knows what became of it. The second is made sure by
//! one more commit on each group, behind the list: what a replica has of that, it has of all before.
//! A row that says abort goes when the coordinator group's connection is gone: nothing can arrive from it then.
//!
//! What counts is how long a row stands, by the clock of the server that has it. The time in an id is its
//! router's word.
//!
//! Rows under ids of nobody, of which older versions of the routines took any, are removed after
//! [`FOREIGN_KEPT`] times `decisions_kept_ms`, and counted. Another farm's on the same server are its own.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::decisions::{self, Decision};
use engine::heartbeat;
use farm::dist_txn::{GlobalId, Verdict, farm_number};
use farm::{Group, ServerId};
use faults::Point;

use crate::links::warm::Lent;
use crate::txn_recovery::TxnRecovery;
use catalog::event::Event;

/// Rows that are read at once, and pages of one sweep; the rest is for the next one.
const PAGE: usize = 500;
const PAGES_MAX: usize = 20;

/// A day where `decisions_kept_ms` is ten minutes: a farm of an older version, which has no key, may have
/// made them.
const FOREIGN_KEPT: u64 = 144;

/// A server's age and a row's are told in whole seconds: so much the second may be less than the first
/// and look greater.
const ROUNDED_S: u64 = 2;

/// The ids that groups, by number, still have branches of; `None` where nobody can say.
type Listed = HashMap<u32, Option<HashSet<GlobalId>>>;

impl TxnRecovery {
    async fn lend_to_sweep(&self, server: ServerId) -> Result<Lent, engine::Error> {
        let links = &self.dist_txns.sweeps;
        self.links.lend_from(links, server.0).await
    }

    /// Looks at the rows of all groups once.
    pub(super) async fn sweep(self: &Arc<Self>) {
        let groups = self.context.snapshot_now().groups.clone();
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
        let farm = farm_number(&self.context.snapshot_now().farm_id);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        self.sweep_foreign(group, server).await?;
        let mut behind: Option<GlobalId> = None;
        for _ in 0..PAGES_MAX {
            let mut link = self.lend_to_sweep(server).await.map_err(text)?;
            let rows =
                decisions::decisions(&mut link, farm, behind.as_ref(), PAGE, timeout_ms).await;
            let rows = link.keep(rows).map_err(text)?;
            let Some(last) = rows.last() else { break };
            behind = Some(last.id);
            let useless = self.useless(server, &rows).await?;
            if !useless.is_empty() {
                let mut link = self.link_to_write(&self.dist_txns.sweeps, server).await?;
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

    /// Removes rows under ids of nobody.
    async fn sweep_foreign(&self, group: &Group, server: ServerId) -> Result<(), String> {
        let farm = farm_number(&self.context.snapshot_now().farm_id);
        let settings = self.context.settings();
        let kept_ms = settings
            .txn_recovery
            .decisions_kept_ms
            .saturating_mul(FOREIGN_KEPT);
        let timeout_ms = settings.step_timeout_ms;
        let text = |error: engine::Error| error.to_string();
        let mut link = self.lend_to_sweep(server).await.map_err(text)?;
        let removed = decisions::remove_foreign(&mut link, farm, kept_ms, PAGE, timeout_ms).await;
        let removed = link.keep(removed).map_err(text)?;
        if removed > 0 {
            self.dist_txns.foreign.fetch_add(removed, Relaxed);
            let detail = format!(
                "{removed} decisions of group {} were removed that no transaction of this farm made",
                group.name
            );
            self.context
                .happened(Event::now("foreign_decisions", &group.name, detail));
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
                Verdict::Abort => self.is_disarmed(server, row).await?,
            };
            if goes {
                useless.push(row.id);
            }
        }
        Ok(useless)
    }

    async fn is_finished(&self, row: &Decision, listed: &mut Listed) -> bool {
        let (router, own) = (row.id.router, self.dist_txns.life());
        // Of a client's own a repeated XA COMMIT asks.
        let mine = router.slot == own.slot && router.started_ms <= own.started_ms;
        let knows = match mine && !row.id.is_of_client() {
            true => !self.dist_txns.is_undertaken(&row.id),
            // Another router, which may be asking for the row as long as it asks for anything.
            false => row
                .age_ms
                .is_none_or(|age| age >= self.context.settings().txn_recovery.decisions_kept_ms),
        };
        if !knows {
            return false;
        }
        let groups = &self.context.snapshot_now().groups;
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
        let mut link = self.lend_to_sweep(server).await.ok()?;
        let router = self.context.state().records.farm_id.clone();
        let heartbeat =
            heartbeat::write(&mut link, &router, self.context.settings().step_timeout_ms).await;
        let safe = self.is_safe(&group, &mut link).await;
        link.keep(heartbeat).ok()?;
        // It was one and the same server all the time.
        let (_, now) = self.writable(|group| group.number == number)?;
        (safe && now == server).then(|| list.ours.iter().map(|branch| branch.id).collect())
    }

    /// True when nothing can come from the connection that was to decide. It was there when the row was
    /// written, or was gone before; an id that somebody else has since keeps the row for as long.
    async fn is_disarmed(&self, server: ServerId, row: &Decision) -> Result<bool, String> {
        let at = row.id.at;
        if at.server != server {
            return Ok(true);
        }
        let text = |error: engine::Error| error.to_string();
        let mut link = self.lend_to_sweep(server).await.map_err(text)?;
        let age_s = (row.age_ms.unwrap_or(0) / 1000).saturating_sub(ROUNDED_S);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let there = engine::is_still_connected(&mut link, at.connection, age_s, timeout_ms).await;
        link.keep(there).map(|there| !there).map_err(text)
    }
}
