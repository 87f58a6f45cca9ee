//! The cut of a move: new transactions wait, those that began before end, the last changes are brought,
//! both sides are proved equal, and the map is changed.

use std::time::{Duration, Instant};

use engine::{Link, clock, heartbeat, part};
use farm::{GroupKind, Status};
use machines::reshard::Phase;

use super::run::{Crew, Trouble};
use super::work::HEARTBEAT;
use crate::peers::questions::{DRAINED, GROUP};
use crate::reshard::Resharding;
use catalog::command::Call;
use catalog::record::{MOVE, json};

/// How often it is looked whether transactions have ended.
const LOOK: Duration = Duration::from_millis(5);

/// Between two tries to find out what became of a change of the map.
const ASK_AGAIN: Duration = Duration::from_millis(200);

impl Resharding {
    /// True when no session of this router works any more by the map from before a cut.
    pub(crate) async fn is_drained(&self, job: &str) -> bool {
        let Some(since) = self.context.state().layout.held_since(job) else {
            return false;
        };
        let open = self
            .background
            .aside(move |sessions| sessions.units_of_work_before(since));
        open.await == Ok(Some(0))
    }

    /// Waits until nothing is left, on any router, that began before the cut.
    pub(super) async fn drain_part(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        let began = *crew.held_since.get_or_insert_with(Instant::now);
        let limit = Duration::from_millis(record.hold_ms);
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut source = self.sharding.ask_group(&record.from).await?;
        let moved = record.tables.iter();
        let moved = moved.map(|it| (it.database.clone(), it.table.clone()));
        let moved: Vec<(String, String)> = moved.collect();
        let late =
            |what: &str| Trouble::Late(format!("{what} did not end within {} ms", record.hold_ms));
        loop {
            if self.is_drained(job).await {
                if let Some(why) = self.undrained_peer(job).await {
                    if began.elapsed() > limit {
                        return Err(late(&why));
                    }
                } else if !part::prepared_now(&mut source, timeout_ms)
                    .await?
                    .is_empty()
                {
                    if began.elapsed() > limit {
                        return Err(late("prepared transactions"));
                    }
                } else if part::await_writers(&mut source, &moved, timeout_ms).await? {
                    return Ok(());
                } else if began.elapsed() > limit {
                    return Err(late("writers that are no session's any more"));
                }
            }
            if began.elapsed() > limit {
                return Err(late("transactions that began before"));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// A router whose sessions may still work by the old map.
    async fn undrained_peer(&self, job: &str) -> Option<String> {
        if self.context.leadership.is_alone() {
            return None;
        }
        if !self.context.leadership.role().expired_routers.is_empty() {
            return Some("a router that has left without being seen to be gone".to_owned());
        }
        let others = self.election.roster().others.clone();
        let call = Call::new(GROUP, DRAINED, &[job]);
        for (peer, answer) in self.peers.ask_these(others, &call).await {
            let drained = answer.is_ok_and(|table| {
                table.rows.first().and_then(|row| row.first()?.as_bool()) == Some(true)
            });
            if !drained {
                return Some(format!("transactions of router {}", peer.name));
            }
        }
        None
    }

    /// Brings the last changes and proves that both sides are equal, while nobody writes.
    pub(super) async fn settle_part(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        let record = self.moved(job)?;
        let began = *crew.held_since.get_or_insert_with(Instant::now);
        let limit = Duration::from_millis(record.hold_ms * 2);
        let late = || Trouble::Late(format!("the last changes took longer than {limit:?}"));
        let left = || limit.saturating_sub(began.elapsed());
        if let Some(feed) = &mut crew.feed {
            feed.repeat_branches();
        }
        if !self.catch_up(job, crew, left()).await? {
            return Err(late());
        }
        self.verify_hot(crew).await?;
        // They were taken away for the move.
        if record.fresh && self.have_triggers(&record).await? {
            self.make_alike(&record).await?;
        }
        self.raise_clock(&record.to).await?;
        let timeout_ms = self.context.settings().step_timeout_ms;
        let mut target = self.sharding.ask_group(&record.to).await?;
        let wanted = heartbeat::write(&mut target, HEARTBEAT, timeout_ms).await?;
        for replica in self.replicas_of(&record.to) {
            let mut link = Link::open(&replica, timeout_ms).await?;
            while !heartbeat::position(&mut link, timeout_ms)
                .await?
                .covers(&wanted)
            {
                if left().is_zero() {
                    return Err(Trouble::Late(format!(
                        "replica {} of group {} was too far behind",
                        link.address(),
                        record.to
                    )));
                }
                tokio::time::sleep(LOOK).await;
            }
        }
        // What was compared was compared at the servers that have the groups' data.
        self.still_leading(job, crew)?;
        match left().is_zero() {
            true => Err(late()),
            false => Ok(()),
        }
    }

    /// From now on whatever the group's log gets has a greater number of the logical clock than anything that any log has
    /// now: what the group tells of a row comes behind what the old group told of it.
    async fn raise_clock(&self, group: &str) -> Result<(), Trouble> {
        let timeout_ms = self.context.settings().step_timeout_ms;
        let snapshot = self.context.snapshot_now();
        let groups = snapshot.groups.iter();
        let groups = groups.filter(|group| group.kind == GroupKind::Replication);
        let mut numbers = Vec::new();
        for group in groups {
            let mut link = self.sharding.ask_group(&group.name).await?;
            let number = clock::number(&mut link, timeout_ms).await?;
            numbers.push((link, number));
        }
        let Some(most) = numbers.iter().filter_map(|it| it.1).max() else {
            return Ok(());
        };
        let late = || Trouble::Late("the logical clock could not be raised".to_owned());
        // A number is nowhere before every group has the number in front of it.
        for (link, _) in numbers.iter_mut().filter(|it| it.1 != Some(most)) {
            let raised = clock::raise(link, most, timeout_ms).await?;
            raised.ok_or_else(late)?;
        }
        let mut target = self.sharding.ask_group(group).await?;
        let raised = clock::raise(&mut target, most + 1, timeout_ms).await?;
        raised.map(drop).ok_or_else(late)
    }

    /// The replicas of a group that serve reads.
    fn replicas_of(&self, group: &str) -> Vec<engine::Login> {
        let state = self.context.state();
        let members = state.records.members(group);
        let serving = members.filter(|(id, server)| {
            let alive = state.seen.get(id).is_some_and(|seen| seen.health.alive);
            server.status == Status::Replica && alive
        });
        serving
            .map(|(_, server)| self.links.login(server))
            .collect()
    }

    /// Changes the map. Ends only when it is known whether it was changed.
    pub(super) async fn flip(&self, job: &str, crew: &mut Crew) -> Result<(), Trouble> {
        let Some(kept) = self.move_record(job) else {
            return Err(Trouble::Failed("it is forgotten".to_owned()));
        };
        let lead = &self.context.leadership.must_lead()?;
        let began = crew.held_since;
        let mut record = kept.value;
        if record.aborted || record.phase() != Phase::Cut {
            return Err(Trouble::Failed("somebody wants it otherwise".to_owned()));
        }
        record.phase = Phase::Prune.name().to_owned();
        record.error = String::new();
        let held =
            began.map(|began| u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX));
        record.held_ms = held;
        let mut change = self.context.state().records.declared.change();
        for id in &record.removes {
            change = change.remove_shard(*id);
        }
        for (id, shard) in &record.puts {
            change = change.put_shard(*id, shard);
        }
        let key = format!("{MOVE}{job}");
        let transaction = change
            .finish()
            .when_revision(&key, kept.revision)
            .put(&key, &json(&record));
        let mut outcome = self.context.commit(lead, transaction).await;
        // An error may come from a store that has done it.
        while outcome.is_err() {
            if self.context.reload().await.is_ok() {
                let now = self.move_record(job).map(|kept| kept.value.phase());
                if now == Some(Phase::Prune) {
                    outcome = Ok(());
                }
                break;
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
        outcome?;
        self.context.sessions.turned();
        let waited = held.map_or(String::new(), |ms| {
            format!(", for which clients waited {ms} ms")
        });
        let detail = format!("map {} has changed{waited}", record.map);
        self.tell_move(job, &record, "move_flipped", detail);
        crew.held_since = None;
        Ok(())
    }
}
