//! XA transactions of clients' own: asked for on all groups, ended wherever they are prepared, and left
//! alone by recovery while their clients may still end them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use engine::barriers::{self, Taking};
use engine::{Prepared, held};
use farm::Xid;
use farm::dist_txn::{Branch, GlobalId, Owned, Verdict};
use farm::{GroupKind, ServerId};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{LINKS, Order, State, note};
use crate::txn_recovery::TxnRecovery;

/// Pause before a transaction is looked for again that may come to be free.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// So long somebody else's connection may keep what is to be ended: that of a router which has died,
/// or of a session that is just leaving.
const KEPT_MAX: Duration = Duration::from_secs(2);

/// What sessions want of the control plane for clients' own XA transactions.
pub(crate) enum OwnAsked {
    /// The groups where a prepared one has this name.
    Find(Xid, Found),
    /// The commit barrier of this group is passed until the answer is dropped. The number chooses a link.
    Pass(u32, u32, Passed),
    /// One with this name is ended, wherever it is prepared, within so many milliseconds.
    End(Xid, Verdict, u64, Ended),
}

/// Takes names of groups; on the control thread, must not block.
pub type Found = Box<dyn FnOnce(Vec<String>) + Send>;

/// Keeps a commit barrier from being taken until it is dropped.
pub type Pass = Box<dyn Send>;

/// Takes it, or the reason why there is none; as above.
pub type Passed = Box<dyn FnOnce(Result<Pass, String>) + Send>;

/// Takes what came of it; as above.
pub type Ended = Box<dyn FnOnce(Owned) + Send>;

impl OwnAsked {
    pub(crate) fn refuse(self, why: &str) {
        match self {
            OwnAsked::Find(_, reply) => reply(Vec::new()),
            OwnAsked::Pass(_, _, reply) => reply(Err(why.to_owned())),
            OwnAsked::End(_, _, _, reply) => reply(Owned::Pending(why.to_owned())),
        }
    }
}

impl TxnRecovery {
    pub(super) async fn answer_own(self: &Arc<Self>, asked: OwnAsked) {
        match asked {
            OwnAsked::Find(xid, reply) => {
                let (lists, _) = self.list_all().await;
                let named = lists.into_iter().filter(|(_, it)| it.own.contains(&xid));
                reply(named.map(|(group, _)| group).collect());
            }
            OwnAsked::Pass(group, of, reply) => self.pass_barrier(group, of, reply).await,
            OwnAsked::End(xid, verdict, limit_ms, reply) => {
                reply(self.end_own(&xid, verdict, limit_ms).await);
            }
        }
    }

    /// What the primaries of all groups list, at once, and the groups that do not say.
    async fn list_all(self: &Arc<Self>) -> (Vec<(String, Prepared)>, Vec<String>) {
        let mut asked = tokio::task::JoinSet::new();
        for group in &self.context.snapshot_now().groups {
            if group.kind == GroupKind::Replication {
                let (recovery, name) = (Arc::clone(self), group.name.to_string());
                asked.spawn(async move { (recovery.list_group(&name).await, name) });
            }
        }
        let (mut lists, mut silent) = (Vec::new(), Vec::new());
        while let Some(answer) = asked.join_next().await {
            match answer {
                Ok((Ok(Some(list)), group)) => lists.push((group, list)),
                Ok((_, group)) => silent.push(group),
                // The runtime ends.
                Err(_) => silent.push("?".to_owned()),
            }
        }
        (lists, silent)
    }

    /// Holds the pass until the session drops it.
    async fn pass_barrier(self: &Arc<Self>, group: u32, of: u32, reply: Passed) {
        let passed = async {
            let (_, server) = self
                .writable(|it| it.number == group)
                .ok_or_else(|| format!("{} takes no writes", self.group_of_number(group)))?;
            let of = usize::try_from(of).unwrap_or(0) % self.dist_txns.passes.len();
            let lent = self
                .links
                .lend_from(&self.dist_txns.passes[of], server.0)
                .await;
            let mut link = lent.map_err(|error| error.to_string())?;
            match barriers::pass(&mut link, self.context.settings().step_timeout_ms).await {
                Ok(Taking::Held) => Ok(link),
                Ok(Taking::Busy) => Err("a snapshot over all groups is being opened".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        match passed.await {
            Err(why) => reply(Err(why)),
            Ok(mut link) => {
                let (keep, dropped) = oneshot::channel::<()>();
                reply(Ok(Box::new(keep)));
                // Dropped is all that it ever is.
                let _ = dropped.await;
                let gone =
                    barriers::let_go(&mut link, self.context.settings().step_timeout_ms).await;
                if let Err(error) = link.keep(gone) {
                    tracing::debug!(%error, "a commit barrier was let go with its connection");
                }
            }
        }
    }

    /// Ends a client's own transaction, prepared by whichever session of whichever router.
    async fn end_own(self: &Arc<Self>, xid: &Xid, verdict: Verdict, limit_ms: u64) -> Owned {
        let began = Instant::now();
        let until = began + Duration::from_millis(limit_ms);
        loop {
            let (lists, silent) = self.list_all().await;
            let there = lists.iter().filter(|(_, list)| list.own.contains(xid));
            let groups: Vec<&str> = there.map(|(group, _)| group.as_str()).collect();
            let (why, last) = match groups[..] {
                [] if silent.is_empty() => match self.was_ended(xid, verdict).await {
                    Ok(owned) => return owned,
                    Err(why) => (why, until),
                },
                [] => (
                    format!("group {} does not answer", silent.join(", ")),
                    until,
                ),
                [group] => match self.end_at(group, xid, verdict, &lists, until).await {
                    Ok(true) => return Owned::Ended,
                    Ok(false) => (String::new(), until.min(began + KEPT_MAX)),
                    Err(why) => (why, until),
                },
                _ => {
                    let groups = groups.into_iter().map(str::to_owned);
                    return Owned::Several(groups.collect());
                }
            };
            if Instant::now() >= last {
                return match why.is_empty() {
                    // As a server says it of one whose session lives.
                    true => Owned::Unknown,
                    false => Owned::Pending(why),
                };
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Ends it at the group that has it prepared, and its branches on other groups. False: somebody is
    /// at it.
    async fn end_at(
        self: &Arc<Self>,
        group: &str,
        xid: &Xid,
        verdict: Verdict,
        lists: &[(String, Prepared)],
        until: Instant,
    ) -> Result<bool, String> {
        let text = |error: engine::Error| error.to_string();
        let timeout_ms = self.context.settings().step_timeout_ms;
        let (coordinator, server) = self
            .writable(|it| *it.name == *group)
            .ok_or_else(|| format!("group {group} has no primary that takes writes"))?;
        let id = self.name_of(server, xid).await?;
        let id = id.filter(|(_, verdict)| verdict.is_none()).map(|it| it.0);
        let mut pass = None;
        if let (Some(id), Verdict::Commit) = (id, verdict) {
            let (tell, told) = oneshot::channel();
            let recovery = Arc::clone(self);
            let number = coordinator.number;
            let reply: Passed = Box::new(move |passed| {
                // Nobody waits any more: it is dropped.
                let _ = tell.send(passed);
            });
            tokio::spawn(async move { recovery.pass_barrier(number, id.sequence, reply).await });
            let gone = || Err("the control plane ends".to_owned());
            pass = Some(told.await.unwrap_or_else(|_| gone())?);
        }
        let mut link = self.take_link(xid, server).await?;
        let ended = held::end(&mut link, xid, verdict, timeout_ms).await;
        let safe = ended != Ok(true) || self.is_safe(&coordinator, &mut link).await;
        let ended = link.keep(ended).map_err(text)?;
        drop(pass);
        if !ended {
            return Ok(false);
        }
        if !safe {
            return Err(format!("no replica of group {group} has it yet"));
        }
        if let Some(id) = id {
            self.end_branches(id, verdict, lists, until).await;
        }
        Ok(true)
    }

    /// Has the branches ended, and waits for that.
    async fn end_branches(
        &self,
        id: GlobalId,
        verdict: Verdict,
        lists: &[(String, Prepared)],
        until: Instant,
    ) {
        let of_group = |(group, list): &(String, Prepared)| {
            let branches = list.ours.iter().filter(|it| it.id == id).copied();
            branches
                .map(|branch| (group.clone(), branch))
                .collect::<Vec<_>>()
        };
        let branches: Vec<(String, Branch)> = lists.iter().flat_map(of_group).collect();
        if branches.is_empty() {
            return;
        }
        for (group, branch) in &branches {
            self.dist_txns.show(group, *branch);
        }
        self.dist_txns.order(Order {
            id,
            verdict: Some(verdict),
            by_force: false,
            branches,
        });
        // What takes longer is in the hands of recovery.
        while self.dist_txns.shown().contains_key(&id) && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Nobody has it prepared: what became of it. Errors are why that cannot be told now.
    async fn was_ended(&self, xid: &Xid, verdict: Verdict) -> Result<Owned, String> {
        for group in self.context.snapshot_now().groups.clone() {
            let (_, server) = self
                .writable(|it| it.number == group.number)
                .ok_or_else(|| format!("group {} has no primary that takes writes", group.name))?;
            if let Some((_, Some(was))) = self.name_of(server, xid).await? {
                return Ok(match was == verdict {
                    true => Owned::Ended,
                    false => Owned::Unknown,
                });
            }
        }
        Ok(Owned::Unknown)
    }

    async fn name_of(
        &self,
        server: ServerId,
        xid: &Xid,
    ) -> Result<Option<(GlobalId, Option<Verdict>)>, String> {
        let mut link = self.take_link(xid, server).await?;
        let named = held::named(&mut link, xid, self.context.settings().step_timeout_ms).await;
        link.keep(named).map_err(|error| error.to_string())
    }

    async fn take_link(
        &self,
        xid: &Xid,
        server: ServerId,
    ) -> Result<crate::links::warm::Lent, String> {
        let of = xid
            .key()
            .iter()
            .map(|byte| usize::from(*byte))
            .sum::<usize>()
            % LINKS;
        let lent = self
            .links
            .lend_from(&self.dist_txns.links[of], server.0)
            .await;
        lent.map_err(|error| error.to_string())
    }

    /// Of the listed transactions of clients those that their clients may still end: nobody else may.
    /// Where a coordinator group does not say, all of them.
    pub(super) async fn held(&self, lists: &[(String, Prepared)]) -> HashSet<GlobalId> {
        let ours = lists.iter().flat_map(|(_, list)| &list.ours);
        let mut by_coordinator: HashMap<u32, HashSet<GlobalId>> = HashMap::new();
        for branch in ours.filter(|branch| branch.id.is_of_client()) {
            if !self.dist_txns.is_undertaken(&branch.id) {
                let of_coordinator = by_coordinator.entry(branch.id.coordinator).or_default();
                of_coordinator.insert(branch.id);
            }
        }
        let mut all = HashSet::new();
        for (coordinator, ids) in by_coordinator {
            match self.held_at(coordinator, &ids).await {
                Ok(held) => {
                    for (id, xid) in held {
                        all.insert(id);
                        note(self, &id, |shown| {
                            shown.state = State::Held;
                            shown.waits_for =
                                format!("XA COMMIT or XA ROLLBACK {xid} of its client");
                        });
                    }
                }
                Err(why) => {
                    for id in &ids {
                        note(self, id, |shown| shown.waits_for.clone_from(&why));
                    }
                    all.extend(ids);
                }
            }
        }
        all
    }

    async fn held_at(
        &self,
        coordinator: u32,
        ids: &HashSet<GlobalId>,
    ) -> Result<HashMap<GlobalId, Xid>, String> {
        let (_, server) = self
            .writable(|it| it.number == coordinator)
            .ok_or_else(|| {
                let named = self.group_of_number(coordinator);
                format!("its coordinator group, {named}, has no primary that takes writes")
            })?;
        let ids: Vec<GlobalId> = ids.iter().copied().collect();
        let text = |error: engine::Error| error.to_string();
        let mut link = self.lend(server).await.map_err(text)?;
        let held = held::held(&mut link, &ids, self.context.settings().step_timeout_ms).await;
        link.keep(held).map_err(text)
    }

    /// The same of one transaction.
    pub(super) async fn is_held(&self, id: &GlobalId) -> bool {
        if !id.is_of_client() {
            return false;
        }
        let held = self.held_at(id.coordinator, &HashSet::from([*id])).await;
        held.map_or(true, |held| held.contains_key(id))
    }
}
