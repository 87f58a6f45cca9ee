//! One transaction in doubt: what its machine asks for, done on the servers.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use engine::decisions::{self, Bar};
use engine::replication::ACK_WAIT_FOREVER_MS;
use engine::{Error, Link, binlog, heartbeat};
use farm::dist_txn::{Branch, GlobalId, Verdict};
use farm::{Acks, Group, ServerId, Status};
use faults::{Plant, Point};
use machines::xa::Seat;
use machines::xa::recovery::{Action, Event, Recovery};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::round::LOOK_WITHIN;
use super::{LINKS, State, age_s, note};
use crate::links::warm::{Lent, WarmLinks};
use crate::txn_recovery::TxnRecovery;
use catalog::event;

/// A branch that stands prepared, or may, and the name of the group that has it.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) group: String,
    pub(super) branch: Branch,
}

/// The task of one transaction.
struct Case {
    id: GlobalId,
    machine: Recovery,
    /// By seat.
    branches: Vec<Found>,
    todo: VecDeque<Action>,
    wake: Option<Instant>,
    /// Its client ends it.
    held: bool,
}

impl Case {
    /// A branch may be found again.
    fn add(&mut self, found: Found) {
        let known = self.branches.iter();
        let at = known
            .zip(0..)
            .find(|(known, _)| known.branch == found.branch)
            .map(|(_, at)| at);
        let at = at.or_else(|| {
            let at = u16::try_from(self.branches.len()).ok()?;
            self.branches.push(found);
            Some(at)
        });
        if let Some(at) = at {
            self.todo.extend(self.machine.step(Event::Found(Seat(at))));
        }
    }
}

impl TxnRecovery {
    /// Ends one transaction; returns when all branches that were found have ended.
    pub(super) async fn judge(
        self: Arc<Self>,
        id: GlobalId,
        verdict: Option<Verdict>,
        mut found: mpsc::Receiver<Found>,
    ) -> Option<Verdict> {
        let mut case = Case {
            id,
            machine: Recovery::new(verdict),
            branches: Vec::new(),
            todo: VecDeque::new(),
            wake: None,
            held: false,
        };
        loop {
            while let Ok(one) = found.try_recv() {
                case.add(one);
            }
            if let Some(action) = case.todo.pop_front() {
                if let Action::Over { verdict } = action {
                    return Some(verdict);
                }
                if let Some(event) = self.act(action, &mut case).await {
                    case.todo.extend(case.machine.step(event));
                }
                if case.held {
                    return None;
                }
                let verdict = case.machine.verdict();
                note(&self, &id, |shown| shown.verdict = verdict);
                continue;
            }
            let wake = case.wake;
            let woken = async {
                match wake {
                    Some(wake) => tokio::time::sleep_until(wake).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                one = found.recv() => match one {
                    Some(one) => case.add(one),
                    None => return None,
                },
                () = woken => {
                    case.wake = None;
                    case.todo.extend(case.machine.step(Event::Tick));
                }
            }
        }
    }

    async fn act(self: &Arc<Self>, action: Action, case: &mut Case) -> Option<Event> {
        Some(match action {
            Action::Look => match self.at_coordinator(&case.id, Task::Look).await {
                Ok(row) => row,
                Err(why) => self.waits(&case.id, why),
            },
            // To bar it would wait for its client.
            Action::Bar if self.is_held(&case.id).await => {
                case.held = true;
                return None;
            }
            Action::Bar => match self.at_coordinator(&case.id, Task::Bar).await {
                Ok(row) => row,
                Err(why) => self.waits(&case.id, why),
            },
            Action::End {
                seat,
                verdict,
                kill,
            } => {
                let found = case.branches.get(usize::from(seat.0))?.clone();
                match self.end(&found, verdict, kill).await {
                    Ok(true) => Event::Ended(seat),
                    Ok(false) => Event::Tried(seat),
                    Err(why) => {
                        self.waits(&case.id, why);
                        Event::Tried(seat)
                    }
                }
            }
            Action::List(seat) => {
                let found = case.branches.get(usize::from(seat.0))?.clone();
                match self.is_listed(&found).await {
                    Ok(listed) => {
                        if listed {
                            let why = format!("somebody is at its branch in group {}", found.group);
                            self.waits(&case.id, why);
                        }
                        Event::Listed(seat, Some(listed))
                    }
                    Err(why) => {
                        self.waits(&case.id, why);
                        Event::Listed(seat, None)
                    }
                }
            }
            Action::Wake { after_us } => {
                case.wake = Some(Instant::now() + Duration::from_micros(after_us));
                return None;
            }
            Action::Tell => {
                self.tell_stuck(case);
                return None;
            }
            Action::Over { .. } => return None,
        })
    }

    fn waits(self: &Arc<Self>, id: &GlobalId, why: String) -> Event {
        note(self, id, |shown| shown.waits_for = why);
        Event::Open
    }

    fn tell_stuck(self: &Arc<Self>, case: &Case) {
        let mut why = String::new();
        note(self, &case.id, |shown| {
            shown.state = State::Stuck;
            why.clone_from(&shown.waits_for);
        });
        let groups: Vec<&str> = case.branches.iter().map(|it| it.group.as_str()).collect();
        let detail = format!(
            "a transaction over several groups does not come to an end, {why}; its branches in {} keep \
             their locks until then: see `transaction list`",
            groups.join(", ")
        );
        let group = groups.first().copied().unwrap_or_default();
        self.context
            .happened(event::Event::now("transaction_stuck", group, detail));
    }

    /// Reads the coordinator group's row, or bars the transaction. An error is why nobody can say now.
    pub(crate) async fn at_coordinator(&self, id: &GlobalId, task: Task) -> Result<Event, String> {
        let (group, server) = self
            .writable(|group| group.number == id.coordinator)
            .ok_or_else(|| {
                let named = self.group_of_number(id.coordinator);
                format!("its coordinator group, {named}, has no primary that takes writes")
            })?;
        let mut link = self.link_for(id, server).await?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        match task {
            Task::Look => Point::Look.pass(),
            Task::Bar => Point::Bar.pass(),
        }
        let answer = async {
            Ok(match task {
                Task::Bar if Plant::ForgetsTombstone.is_made() => Event::Barred,
                Task::Look => Event::Row(decisions::look(&mut link, id, timeout_ms).await?),
                Task::Bar => {
                    match decisions::bar(&mut link, id, self.dist_txns.key(), timeout_ms).await? {
                        Bar::Stands => Event::Barred,
                        Bar::Taken => Event::Taken,
                        Bar::Open => Event::Open,
                    }
                }
            })
        }
        .await;
        if matches!(answer, Ok(Event::Barred)) {
            Point::Barred.pass();
        }
        let safe = match answer {
            Ok(Event::Row(Some(_)) | Event::Barred) => self.is_safe(&group, &mut link).await,
            _ => true,
        };
        match link.keep(answer).map_err(|error| error.to_string())? {
            _ if !safe => Err(format!(
                "no replica of group {} has the decision yet",
                group.name
            )),
            Event::Open => Err("its coordinator group's transaction is still open".to_owned()),
            event => Ok(event),
        }
    }

    /// Ends one branch on its group's primary; true when the server says so.
    async fn end(&self, found: &Found, verdict: Verdict, kill: bool) -> Result<bool, String> {
        let (group, server) = self.place_of(found)?;
        let branch = &found.branch;
        let mut link = self.link_for(&branch.id, server).await?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        Point::End.pass();
        let answer = async {
            // Ids of connections are a server's own.
            if kill && branch.owner.server == server {
                let age_s = age_s(&branch.id);
                if engine::free_branch(&mut link, branch, age_s, timeout_ms).await? {
                    let (owner, id) = (branch.owner.connection, &branch.id);
                    tracing::info!(%id, owner, "the owner of a branch was ended");
                }
            }
            engine::end_branch(&mut link, branch, verdict, timeout_ms).await
        }
        .await;
        Point::Ended.pass();
        let safe = answer != Ok(true) || self.is_safe(&group, &mut link).await;
        let ended = link.keep(answer).map_err(|error| error.to_string())?;
        Ok(ended && safe)
    }

    async fn is_listed(&self, found: &Found) -> Result<bool, String> {
        let (_, server) = self.place_of(found)?;
        let mut link = self.link_for(&found.branch.id, server).await?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let farm = found.branch.id.farm;
        let answer = engine::prepared(&mut link, farm, timeout_ms).await;
        let listed = link.keep(answer).map_err(|error| error.to_string())?;
        Ok(listed.ours.contains(&found.branch))
    }

    fn place_of(&self, found: &Found) -> Result<(Arc<Group>, ServerId), String> {
        let found_in = self.writable(|group| *group.name == *found.group);
        found_in.ok_or_else(|| format!("group {} has no primary that takes writes", found.group))
    }

    /// The group that is meant and its primary, while that takes writes and is not being exchanged.
    pub(crate) fn writable(
        &self,
        is_meant: impl Fn(&Group) -> bool,
    ) -> Option<(Arc<Group>, ServerId)> {
        let snapshot = self.context.snapshot_now();
        let group = snapshot.groups.iter().find(|group| is_meant(group))?;
        let primary = group.primary().filter(|server| server.serves_writes())?;
        (!group.paused).then(|| (Arc::clone(group), primary.id))
    }

    /// A group by its number, for people.
    pub(crate) fn group_of_number(&self, number: u32) -> String {
        let snapshot = self.context.snapshot_now();
        let group = snapshot.groups.iter().find(|it| it.number == number);
        group.map_or_else(
            || format!("group number {number}, which left the farm"),
            |group| format!("group {}", group.name),
        )
    }

    /// A link to a primary that takes writes: what is asked of it would reach one that does not, too.
    pub(super) async fn link_for(&self, id: &GlobalId, server: ServerId) -> Result<Lent, String> {
        let of = usize::try_from(id.sequence).unwrap_or(0) % LINKS;
        self.link_to_write(&self.dist_txns.links[of], server).await
    }

    /// The same, one of these.
    pub(super) async fn link_to_write(
        &self,
        links: &WarmLinks,
        server: ServerId,
    ) -> Result<Lent, String> {
        let text = |error: Error| error.to_string();
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut link = tokio::select! {
            lent = self.links.lend_within(links, server.0, timeout_ms) => lent.map_err(text)?,
            () = self.leads_no_more(server) => {
                return Err("its group has another primary meanwhile".to_owned());
            }
        };
        match binlog::takes_writes(&mut link, timeout_ms).await {
            Ok(true) => Ok(link),
            Ok(false) => {
                let address = link.address().to_owned();
                let _ = link.keep(Ok(()));
                Err(format!("{address} is read-only"))
            }
            Err(error) => Err(text(error)),
        }
    }

    /// Waits until the server is no primary any more, or is being exchanged. One that is overloaded may not answer its
    /// probes for a while.
    async fn leads_no_more(&self, server: ServerId) {
        let leads =
            |group: &Arc<Group>| !group.paused && group.primary().is_some_and(|it| it.id == server);
        while self.context.snapshot_now().groups.iter().any(leads) {
            tokio::time::sleep(LOOK_WITHIN).await;
        }
    }

    /// True when what the link's server holds now is as safe as an acknowledged commit. Where servers
    /// make commits wait for replicas, it is; elsewhere a replica is asked.
    pub(super) async fn is_safe(&self, group: &Group, link: &mut Link) -> bool {
        let Acks::Router { wait_ms } = group.acks else {
            return true;
        };
        let timeout_ms = self.context.settings().step_timeout_ms;
        let Ok(position) = heartbeat::position(link, timeout_ms).await else {
            return false;
        };
        let follows = |status| matches!(status, Status::Replica | Status::Spare);
        let replicas = group.servers.iter().filter(|it| follows(it.status));
        for replica in replicas.filter(|it| it.health.alive) {
            let login = self.links.login(&**replica);
            let Ok(mut there) = Link::open(&login, timeout_ms).await else {
                continue;
            };
            let limit_ms = wait_ms.min(timeout_ms);
            let reached = heartbeat::reach(&mut there, &position, limit_ms, timeout_ms).await;
            if reached.is_ok_and(|reached| reached.covers(&position)) {
                return true;
            }
        }
        // A last replica that is away is waited for only so long.
        wait_ms < ACK_WAIT_FOREVER_MS
    }
}

/// What the coordinator group is asked for.
#[derive(Clone, Copy)]
pub(crate) enum Task {
    Look,
    Bar,
}
