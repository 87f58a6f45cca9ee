//! A follower of a stream in one order over all groups: each of its transactions waits for its turn.
//!
//! A transaction over several groups is told by the follower of the group that decided it, with the branches of the
//! others. While a follower passes or tells something it has the outlet, so that every token says where all groups
//! are at one moment of the order.

use std::collections::BTreeSet;
use std::sync::Arc;

use changes::{BranchOf, Ended, Gtid, Parts, Place, Reached, Told};
use engine::decisions::decisions;
use engine::{Error, Link};
use farm::Position;
use farm::dist_txn::{GlobalId, Verdict, farm_number};
use machines::order::{Next, Turn};

use super::telling::{AllParts, inside, told_of};
use super::{ENDED, Follower, LOOK, Trouble, lost};
use crate::change_stream::ordering::Ordering;
use crate::change_stream::outlet::{Left, Outlet};
use crate::change_stream::source::Primary;

/// Rows of decisions that are looked at; a farm removes them when they are settled.
const DECIDED_MAX: usize = 1_000_000;

/// Its branch cannot be told any more.
const TORN: &str = "the binlog of a group lacks its part of a transaction over several groups; read the tables anew, \
                    and begin without a token";

impl Follower {
    /// Learns what the primary shows as decided, where nothing was read yet. Asked before and behind the beginning:
    /// a row may be removed when all branches have ended.
    pub(super) async fn know_decided(&self, link: &mut Link) -> Result<(), Error> {
        let Some(order) = self.order.as_ref().filter(|_| self.reached.is_none()) else {
            return Ok(());
        };
        let (farm, timeout_ms) = (self.source.snapshot(), self.source.timeout_ms());
        let number = farm_number(&farm.farm_id);
        let decided = decisions(link, number, None, DECIDED_MAX, timeout_ms).await?;
        let commits = decided.into_iter();
        let commits = commits.filter(|it| it.verdict == Verdict::Commit);
        order.know(&self.source.group, commits.collect(), &farm);
        Ok(())
    }

    /// Gives what was not told yet. Of the rest note is taken, while the reading is in front of what comes.
    pub(super) fn not_told(&self, ended: Ended) -> Option<Ended> {
        if !ended.was_told {
            return Some(ended);
        }
        if let Some(order) = self.order.as_ref().filter(|_| !self.is_replayed) {
            self.replay_early(order, &ended);
        }
        None
    }

    /// Takes note of what was told, or comes before the beginning.
    pub(super) fn replay_early(&self, order: &Ordering, ended: &Ended) {
        let before = self.told_so_far(ended);
        order.replay(&self.source.group, ended, &before, &self.source.snapshot());
    }

    /// Everything that was told has been read once more, if the reading is here.
    pub(super) fn end_replay(&mut self, read: &Position) {
        if self.is_replayed {
            return;
        }
        let told = self.reached.as_ref().map(|it| &it.told);
        if told.is_none_or(|told| read.covers(told)) {
            self.is_replayed = true;
            if let Some(order) = &self.order {
                order.ready(&self.source.group);
            }
        }
    }

    /// The group begins, if all groups have come to the beginning of the order.
    pub(super) async fn begin_in_order(
        &mut self,
        order: &Ordering,
        primary: &Primary,
    ) -> Result<(), Left> {
        let group = &self.source.group;
        order.want();
        if self.is_placed || order.place(group).is_none() {
            return Ok(());
        }
        // Nothing is passed over meanwhile.
        let mut outlet = self.outlet.lock().await;
        let (Some(reached), Some(clock)) = (self.reached.clone(), order.place(group)) else {
            return Ok(());
        };
        self.is_placed = true;
        let place = Place {
            group: group.clone(),
            timeline: primary.timeline,
            reached,
            unread: self.reading.as_ref().map(|it| it.unread().clone()),
            clock: Some(clock),
        };
        outlet.begin(place).await
    }

    /// A transaction that may be told, when it is its turn.
    pub(super) async fn take_in_order(
        &mut self,
        order: &Arc<Ordering>,
        primary: &Primary,
        ended: &Ended,
    ) -> Result<(), Trouble> {
        if self.reached.is_none() {
            self.reached = self.start.take();
        }
        let next = order.arrive(&self.source.group, ended, &self.source.snapshot());
        let taken = self.take_turn(order, primary, ended, &next).await;
        if taken.is_err() {
            order.withdraw(&self.source.group);
        }
        taken
    }

    async fn take_turn(
        &mut self,
        order: &Arc<Ordering>,
        primary: &Primary,
        ended: &Ended,
        next: &Next<GlobalId>,
    ) -> Result<(), Trouble> {
        let with = match self.wait_for_turn(order, primary).await? {
            Turn::Pass => {
                let mut outlet = Arc::clone(&self.outlet).lock_owned().await;
                self.pass(order, ended, next, &mut outlet);
                return Ok(());
            }
            Turn::Torn(group) => {
                let text = format!("group {group}: {TORN}");
                return Err(Trouble::Broken("gap", text));
            }
            Turn::Tell(with) => with,
        };
        self.wait_for_all_in_order(order, primary).await?;
        self.tell_tables().await?;
        let mut all = self.all_parts(primary, &ended.parts).await?;
        // Kept to the end: a transaction's lines stand together.
        let mut outlet = Arc::clone(&self.outlet).lock_owned().await;
        self.begin_telling(ended, next, &with, &mut outlet);
        let so_far = self.so_far(ended);
        let within = |index| inside(&so_far, &ended.gtid, index);
        self.tell_parts(&mut all, &within, &mut outlet).await?;
        if let Next::Decided(id, _) = next {
            for group in &with {
                let branch = (id, group.as_str(), &ended.gtid);
                self.tell_branch(order, branch, &within, &mut outlet)
                    .await?;
            }
        }
        let line = outlet.teller(&self.source.group).end();
        let reached = self.pass(order, ended, next, &mut outlet);
        if let Some(Told { line, .. }) = line {
            outlet.tell(&self.source.group, &line, reached).await?;
        }
        Ok(())
    }

    fn begin_telling(
        &self,
        ended: &Ended,
        next: &Next<GlobalId>,
        with: &BTreeSet<String>,
        outlet: &mut Outlet,
    ) {
        let group = &self.source.group;
        let told = self
            .reached
            .as_ref()
            .and_then(|it| told_of(it, &ended.gtid));
        let teller = outlet.teller(group);
        match next {
            Next::Decided(id, _) => {
                let groups = [group].into_iter().chain(with).cloned().collect();
                let transaction = (&ended.gtid, ended.logged);
                teller.begin_over_groups(transaction, id, groups, told);
            }
            _ => teller.begin(&ended.gtid, ended.logged, ended.xid.as_ref(), told),
        }
        teller.set_place((&ended.place.0, ended.place.1));
    }

    /// It is behind; everything of the group up to it is.
    fn pass(
        &mut self,
        order: &Ordering,
        ended: &Ended,
        next: &Next<GlobalId>,
        outlet: &mut Outlet,
    ) -> Reached {
        let group = &self.source.group;
        order.pass(group, next, &self.told_so_far(ended));
        let position = &ended.position;
        let oldest = order.oldest(group, position);
        let from = match (ended.from.clone(), oldest) {
            (Some(one), Some(other)) => Some(one.meet(&other)),
            (one, other) => one.or(other),
        };
        let reached = Reached {
            told: position.clone(),
            from,
            open: None,
        };
        self.reached = Some(reached.clone());
        outlet.reach(group, reached.clone());
        outlet.put_in_order(group, order.place(group));
        reached
    }

    /// What was told of the group in front of this transaction.
    fn told_so_far(&self, ended: &Ended) -> Position {
        match &self.reached {
            Some(reached) if !ended.was_told => reached.told.clone(),
            // While it is replayed: a reading that begins there finds it again.
            Some(reached) => reached.from.as_ref().unwrap_or(&reached.told).clone(),
            None => match &self.start {
                Some(start) => start.told.clone(),
                None => ended.position.clone(),
            },
        }
    }

    fn so_far(&self, ended: &Ended) -> Reached {
        self.reached.clone().unwrap_or(Reached {
            told: ended.position.clone(),
            from: ended.from.clone(),
            open: None,
        })
    }

    async fn wait_for_turn(
        &mut self,
        order: &Ordering,
        primary: &Primary,
    ) -> Result<Turn, Trouble> {
        let mut news = order.news();
        let mut is_flushed = false;
        loop {
            news.mark_unchanged();
            if let Some(turn) = order.turn(&self.source.group) {
                return Ok(turn);
            }
            self.begin_in_order(order, primary).await?;
            if !std::mem::replace(&mut is_flushed, true) {
                self.outlet.lock().await.flush().await?;
            }
            self.wait(order, primary, &mut news).await?;
        }
    }

    /// Waits until every group of the stream has begun.
    async fn wait_for_all_in_order(
        &mut self,
        order: &Ordering,
        primary: &Primary,
    ) -> Result<(), Trouble> {
        let mut news = order.news();
        loop {
            self.begin_in_order(order, primary).await?;
            if self.outlet.lock().await.has_begun() {
                return Ok(());
            }
            self.wait(order, primary, &mut news).await?;
        }
    }

    /// Waits for news, but not for long, and not of a server that leads no more.
    async fn wait(
        &self,
        order: &Ordering,
        primary: &Primary,
        news: &mut tokio::sync::watch::Receiver<()>,
    ) -> Result<(), Trouble> {
        order.want();
        // Either way it is looked again.
        let _ = tokio::time::timeout(LOOK, news.changed()).await;
        match self.source.is_led_by(primary) {
            true => Ok(()),
            false => Err(Trouble::Server(lost(&primary.login, ENDED))),
        }
    }

    /// Tells the branch that another group has of a transaction that this one decided.
    async fn tell_branch(
        &mut self,
        order: &Ordering,
        (id, group, decided): (&GlobalId, &str, &Gtid),
        within: &(dyn Fn(u32) -> Reached + Sync),
        outlet: &mut Outlet,
    ) -> Result<(), Trouble> {
        let torn = || Trouble::Broken("gap", format!("group {group}: {TORN}"));
        let branch = order.branch(id, group).ok_or_else(torn)?;
        order.note(group, &branch.parts);
        let own = self.source.group.clone();
        let told = self.reached.as_ref().and_then(|it| told_of(it, decided));
        let of = BranchOf {
            gtid: &branch.gtid,
            logged: branch.logged,
            id,
            so_far: outlet.teller(&own).progress().clone(),
            skip: told.unwrap_or(0),
        };
        outlet.teller(group).begin_branch(of);
        let queues = self.readings.queues(group);
        let mut parts = match &branch.parts {
            Parts::Kept(parts) => AllParts::Kept(parts.iter()),
            Parts::Reread { behind, gtid } => {
                let primary = self.source.of(group).primary().await.ok_or_else(torn)?;
                let timeout_ms = self.source.timeout_ms();
                let from = (&primary.login, &queues.again);
                AllParts::read(behind, gtid, from, timeout_ms).await?
            }
        };
        while let Some(part) = parts.next().await? {
            let before = outlet.teller(group).progress().index;
            let mut lines = Vec::new();
            let told = outlet.teller(group).part(&part, &mut lines);
            if !lines.is_empty() {
                let mut begin = Vec::new();
                outlet.teller(&own).announce(before, &mut begin);
                lines.splice(0..0, begin);
            }
            let telling = async { Ok(self.tell_lines(lines, within, outlet).await?) };
            parts.hold(telling).await?;
            told.map_err(|why| Trouble::Broken("error", why))?;
        }
        let so_far = outlet.teller(group).end_branch();
        outlet.teller(&own).go_on_behind(so_far);
        Ok(())
    }
}
