//! The clients stand still: every consumer comes to have what the farm has.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::client::{Client, Reply};
use crate::failover::load::Dice;
use crate::farm::Farm;
use crate::holds_within;

use super::applier::checksum;
use super::consumer::{Consumer, Memory};
use super::copy::{Copy, Place, Row};
use super::gaps::is_honest;
use super::{GLOBAL, GROUPS, MOVED, PATIENCE, Proof, load, primary, rows_of};

/// The tables whose rows are on one group each; all are applied elsewhere, and so is the global one.
const SPREAD: [&str; 4] = ["bank.account", "bank.entry", "bank.beacon", MOVED];

impl Proof {
    /// Lets the clients stand still, compares everything, and lets them go on.
    pub(super) fn judge(&mut self, dice: &mut Dice) {
        load::pause(&self.course);
        self.beacon += 1;
        // A transaction that has not ended everywhere is told as a whole: nobody has the farm then.
        if self.becomes_whole() && self.write_beacon() {
            match rows_of(&self.farm) {
                Ok(rows) => self.compare(&rows, dice),
                Err(why) => self.course.complain(why),
            }
        }
        self.course.pause(false);
    }

    /// No move is under way, every group is whole, and nothing is prepared; false when that does not come to be.
    fn becomes_whole(&mut self) -> bool {
        self.await_router();
        let is_whole = holds_within(PATIENCE, || {
            self.moves_are_over() && GROUPS.iter().all(|group| self.is_whole(group))
        });
        if !is_whole {
            let jobs = self.at.json(&["job", "list"]);
            let text = format!("the farm does not become whole within {PATIENCE:?}: {jobs:?}");
            self.course.complain(text);
        }
        let mut listed = Ok(Vec::new());
        let has_ended = holds_within(PATIENCE, || {
            listed = self.at.json(&["transaction", "list"]);
            listed.as_ref().is_ok_and(Vec::is_empty)
        });
        if !has_ended {
            let servers = GROUPS.map(|group| what_runs(&self.farm, group));
            let text = format!("branches do not end: {listed:?}; {}", servers.join("; "));
            self.course.complain(text);
        }
        is_whole && has_ended
    }

    /// The last transaction of all; false when it does not succeed.
    fn write_beacon(&self) -> bool {
        let sql = format!("UPDATE bank.beacon SET number = {}", self.beacon);
        let is_written = holds_within(PATIENCE, || {
            let client = Client::connect(self.farm.sql, "root", "");
            client.and_then(|mut client| client.query(&sql)).is_ok()
        });
        if !is_written {
            self.course.complain("no beacon can be written".to_owned());
        }
        is_written
    }

    fn compare(&mut self, rows: &BTreeMap<Place, Row>, dice: &mut Dice) {
        let course = Arc::clone(&self.course);
        for consumer in &self.consumers {
            if consumer.state().gap.is_some() && is_honest(self, consumer) {
                self.gaps += 1;
            }
            self.arrives(consumer.name, || {
                let state = consumer.state();
                state.is_broken || (state.copy.beacon() >= self.beacon && !state.copy.is_open())
            });
            let state = consumer.state();
            if !state.is_broken {
                is_equal(&course, consumer.name, &state.copy, rows);
            }
        }
        self.arrives("webhook", || {
            self.webhook.with_copy(|copy| copy.beacon() >= self.beacon)
        });
        self.webhook
            .with_copy(|copy| is_equal(&course, "webhook", copy, rows));
        self.webhook.receiver.forget();
        self.take_files();
        is_equal(&course, "files", &self.files.copy, rows);
        self.compare_target();
        self.go_on_behind(dice);
        self.compare_orders();
    }

    /// A consumer that does not come to have the beacon hangs.
    fn arrives(&self, name: &str, has: impl FnMut() -> bool) {
        if !holds_within(PATIENCE, has) {
            let beacon = self.beacon;
            let text = format!("{name} does not hear of beacon {beacon} within {PATIENCE:?}");
            self.course.complain(text);
        }
    }

    fn take_files(&mut self) {
        let mut found = Ok(());
        let (files, beacon) = (&mut self.files, self.beacon);
        let has = holds_within(PATIENCE, || {
            found = files.take();
            found.is_err() || files.copy.beacon() >= beacon
        });
        match found {
            Err(why) => self.course.complain(format!("files: {why}")),
            Ok(()) => self.arrives("files", || has),
        }
    }

    /// What was applied elsewhere is what the groups have together: sums of rows add up.
    fn compare_target(&mut self) {
        let beacon = self.beacon;
        let applier = &mut self.applier;
        let mut ended = 0;
        let has = holds_within(PATIENCE, || {
            // One that ended while its target or its router was away is begun again, as an operator would.
            if !applier.is_running() {
                ended += 1;
                applier.begin();
            }
            applier.beacon() >= beacon
        });
        if !has || ended > 5 {
            let said = self.applier.said();
            let lines: Vec<&str> = said.lines().rev().take(5).collect();
            let text = format!("the applier ended {ended} times, and is late: {lines:?}");
            self.course.complain(text);
            return;
        }
        // Transactions of other rows than the beacon's may still be under way in front of it.
        let (there, mut here) = (self.sums(), Err(String::new()));
        let tables = [&SPREAD[..], &[GLOBAL]].concat();
        let is_equal = holds_within(PATIENCE, || {
            here = self.applier.sums(&tables);
            here == there
        });
        if !is_equal {
            let text = format!("the target is not the farm: {here:?}, {there:?}");
            self.course.complain(text);
        }
        self.finds_no_conflict();
    }

    /// Nobody else writes at the target, so there is nothing to report.
    fn finds_no_conflict(&self) {
        let said = self.applier.said();
        let conflicts: Vec<&str> = said.lines().filter(|it| it.contains("conflict:")).collect();
        if let Some(first) = conflicts.first() {
            let text = format!("{} conflicts, the first: {first}", conflicts.len());
            self.course.complain(text);
        }
    }

    /// The sums of the farm's tables, as one server would have them.
    fn sums(&self) -> Result<Vec<u64>, String> {
        let mut all = vec![0_u64; SPREAD.len() + 1];
        for group in GROUPS {
            let mut client = primary(&self.farm, group)?;
            for (at, table) in SPREAD.iter().enumerate() {
                let sum = all[at] + checksum(&mut client, table)?;
                all[at] = sum & u64::from(u32::MAX);
            }
            all[SPREAD.len()] = checksum(&mut client, GLOBAL)?;
        }
        Ok(all)
    }

    /// Behind tokens of before, and with what the consumer had then, the rest comes in the same order.
    fn go_on_behind(&mut self, dice: &mut Dice) {
        let steady = &self.consumers[0];
        let kept = std::mem::take(&mut steady.state().kept);
        let units = steady.state().copy.units().1.to_vec();
        for (token, copy) in kept {
            let query = "order=global&database=bank&database=roam";
            let late = Consumer::new("late", query, Memory::Token, copy, &token);
            let dice = Dice::new(dice.below(u64::MAX));
            let beacon = self.beacon;
            late.run(&self.at, &self.course, dice, |state| {
                state.is_broken || (state.copy.beacon() >= beacon && !state.copy.is_open())
            });
            if late.state().gap.is_some() && is_honest(self, &late) {
                self.gaps += 1;
            }
            let state = late.state();
            if state.is_broken || steady.state().is_broken {
                continue;
            }
            let is_end = units.ends_with(state.copy.units().1);
            if !is_end || *state.copy.rows() != *steady.state().copy.rows() {
                let text = format!("behind {token} another order or other rows are told");
                self.course.complain(text);
            }
        }
    }

    /// All who are told one order are told the same one, and what clients were told is in it.
    fn compare_orders(&self) {
        let told = self.course.take_acknowledged();
        let steady = &self.consumers[0];
        for consumer in &self.consumers[1..] {
            let is_over = [steady, consumer].iter().any(|it| it.state().is_broken);
            if consumer.name != "by group" && !is_over {
                let (one, other) = (steady.state(), consumer.state());
                self.is_same_order(consumer.name, &one.copy, &other.copy);
            }
        }
        let one = steady.state();
        if !one.is_broken {
            self.webhook
                .with_copy(|copy| self.is_same_order("webhook", &one.copy, copy));
        }
        drop(one);
        if self.consumers.iter().all(|it| it.state().is_broken) {
            self.course.complain("every consumer has a gap".to_owned());
        }
        for consumer in &self.consumers {
            let mut state = consumer.state();
            state.copy.take_units();
            let (seen, torn) = state.copy.take_seen();
            if state.is_broken {
                continue;
            }
            let lost: Vec<&u64> = told.difference(&seen).take(3).collect();
            let torn = torn.into_iter().take(3);
            let lost = (!lost.is_empty()).then(|| format!("was not told of {lost:?}"));
            for wrong in torn.chain(lost) {
                self.course.complain(format!("{}: {wrong}", consumer.name));
            }
        }
        self.webhook.with_copy(|copy| {
            copy.take_units();
            copy.take_seen()
        });
    }

    fn is_same_order(&self, name: &str, one: &Copy, other: &Copy) {
        let ((from, units), (since, others)) = (one.units(), other.units());
        let ours = &units[since.saturating_sub(from).min(units.len())..];
        let theirs = &others[from.saturating_sub(since).min(others.len())..];
        if ours != theirs {
            let at = ours
                .iter()
                .zip(theirs)
                .position(|(one, other)| one != other);
            let text = format!(
                "{name} is told another order: {} and {} transactions, the first difference at {at:?}",
                ours.len(),
                theirs.len()
            );
            self.course.complain(text);
        }
    }
}

fn is_equal(course: &super::course::Course, name: &str, copy: &Copy, rows: &BTreeMap<Place, Row>) {
    let differs = copy.difference(rows);
    if !differs.is_empty() {
        course.complain(format!("{name} is not the farm: {differs}"));
    }
}

/// What is prepared at a group's primary, and what runs there.
fn what_runs(farm: &Farm, group: &str) -> String {
    let asked = primary(farm, group).map(|mut client| {
        ["XA RECOVER", "SHOW FULL PROCESSLIST"].map(|sql| {
            let replies = client.query(sql).map_err(|failure| failure.to_string());
            match replies.as_deref() {
                Ok([Reply::Rows(rows)]) => format!("{:?}", rows.text()),
                other => format!("{other:?}"),
            }
        })
    });
    format!("{group}: {asked:?}")
}
