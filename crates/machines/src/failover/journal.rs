//! What the state store is told before each step, and what a restarted router makes of it.

use std::collections::BTreeSet;

use farm::{Position, ServerId};

use super::change::Change;
use super::suspicion::Suspicion;
use super::{Action, Ask, Cause, Failed, Failover, Kind, Record, Step};

impl Failover {
    /// What the state store knew of a change when this router started, or began to lead.
    pub(super) fn resume(&mut self, record: Option<Record>) {
        if !self.begins_to_lead() {
            return;
        }
        if let Some(record) = record {
            self.take_up(record);
        }
        self.weigh();
    }

    fn take_up(&mut self, record: Record) {
        self.reign_us = self.now_us;
        self.number = self.number.max(record.number);
        self.fork = record.fork;
        self.deposed = record.lost.into_iter().collect();
        self.unproved = record.unproved.into_iter().collect();
        match record.step {
            Step::Over { primary } => {
                self.believe(primary);
                // Who is a member again was brought back since.
                let members = &self.members;
                let out = |id: &ServerId| members.get(id).is_some_and(|m| !m.counts());
                self.deposed.retain(out);
            }
            // Read-only or not, the next heartbeat tells what is to be done.
            Step::Switching { from } => {
                self.believe(Some(from));
                if self.council.is_some() {
                    // This router paused because of the record, as the others did.
                    let primary = Some(from);
                    self.out.push(Action::Publish {
                        primary,
                        fork: None,
                    });
                }
                self.record_over(Some(from));
            }
            Step::Clearing { old } => {
                self.primary = old;
                let mut change = Change::new(Cause::Resumed, old, self.now_us);
                change.forgetful = record.forgetful.into_iter().collect();
                change.inherited.clone_from(&change.forgetful);
                self.clear_the_way_for(change);
            }
            // The winner may be the primary already, so it is treated as one. Should it be found
            // read-only, it stands for election with the others.
            Step::Turning { old, winner } => {
                self.enthrone(old, winner, false);
                self.clear_the_way(Some(winner), Cause::Resumed);
                if let Some(change) = &mut self.change
                    && old.is_some_and(|old| old != winner)
                {
                    change.untold.clone_from(&self.fork);
                }
            }
        }
    }

    /// What was seen of somebody else says nothing of this primary.
    fn believe(&mut self, primary: Option<ServerId>) {
        if self.primary != primary {
            self.primary = primary;
            self.suspicion = Suspicion::default();
            self.another_primary();
        }
    }

    pub(super) fn record(&mut self, step: Step) {
        let fork = self.fork.clone();
        self.record_with(fork, step);
    }

    pub(super) fn record_with(&mut self, fork: Option<Position>, step: Step) {
        self.number += 1;
        // Only the last record counts.
        self.asks.retain(|_, what| !matches!(what, Ask::Record(_)));
        self.to_record = None;
        // Once somebody was chosen, what it began with is the measure of the others.
        let forgetful = match (&self.change, &step) {
            (Some(change), Step::Clearing { .. }) => change.forgetful.clone(),
            _ => BTreeSet::new(),
        };
        if let Some(change) = &mut self.change {
            change.recorded.clone_from(&forgetful);
            change.course.unwritten = false;
        }
        let record = Record {
            number: self.number,
            fork,
            lost: self.deposed.iter().copied().collect(),
            unproved: self.unproved.iter().copied().collect(),
            forgetful: forgetful.into_iter().collect(),
            step,
        };
        self.ask(Ask::Record(record));
    }

    /// A change that could not be settled at once has begun. And another router could not tell who was
    /// restarted while the primary was lost: it does not know since when it is. Nothing waits for this; who
    /// takes over is chosen by what this router knows.
    pub(super) fn record_clearing(&mut self) {
        if let Some(change) = &self.change
            && (change.course.unwritten || change.forgetful != change.recorded)
        {
            let old = change.old;
            self.record(Step::Clearing { old });
        }
    }

    pub(super) fn record_over(&mut self, primary: Option<ServerId>) {
        self.record(Step::Over { primary });
    }

    /// The state store did not take a record: nothing goes on before it does.
    pub(super) fn record_failed(&mut self, record: Record, failed: Failed) {
        let text = format!("the state store did not take a record: {}", failed.text);
        self.tell(Kind::StepFailed, None, text);
        self.to_record = Some(record);
        self.wake_after(self.policy.retry_us);
    }

    /// True while the last record is not in the state store.
    pub(super) fn unrecorded(&self) -> bool {
        self.to_record.is_some() || self.open(|what| matches!(what, Ask::Record(_)))
    }
}
