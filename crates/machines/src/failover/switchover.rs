//! A change of primary that an operator wants: nothing is lost, nothing breaks, and until the new
//! primary is recorded every failure leads back to the old one.

use farm::{Position, ServerId, Status};

use super::change::{Change, Stage};
use super::{Action, Ask, Cause, Failed, Failover, Fault, Kind, Member, Step};

/// So often a replica may catch up before it is called too slow.
const ROUNDS_MAX: u32 = 20;

/// A server that says how long it is up leaves out less than this.
const UP_STEP_US: u64 = 1_000_000;

impl Failover {
    /// Begins a switch-over to this server, or to the best one.
    pub(super) fn promote(&mut self, order: u64, to: Option<ServerId>) {
        let result = match self.objection(to) {
            Some(objection) => Err(objection),
            None if to.is_some() && to == self.primary => {
                let primary = to.map(|to| self.name(to)).unwrap_or_default();
                Ok(format!("{primary} is the primary already"))
            }
            None => {
                let primary = self.primary;
                let mut change = Change::new(Cause::Ordered, primary, self.now_us);
                change.order = Some(order);
                change.wish = to;
                change.stage = Stage::Choosing;
                self.change = Some(change);
                if primary.is_none() {
                    return self.clear_the_way(None, Cause::Ordered);
                }
                for server in self.others(None) {
                    self.ask(Ask::Look { server });
                }
                return;
            }
        };
        self.out.push(Action::Reply { order, result });
    }

    fn objection(&self, to: Option<ServerId>) -> Option<String> {
        if let Some(change) = &self.change {
            let why = match change.told.as_str() {
                "" => String::new(),
                told => format!(": {told}"),
            };
            return Some(format!("a change of primary is under way{why}"));
        }
        let to = to?;
        let Some(member) = self.members.get(&to) else {
            return Some("no such server in the group".to_owned());
        };
        let name = &member.name;
        if member.status == Status::Faulty {
            return Some(format!(
                "{name} is FAULTY; bring it back with `server set_status {name} SPARE` first"
            ));
        }
        if member.never {
            return Some(format!("{name} is marked never to be the primary"));
        }
        let left = self.left_behind(member)?;
        Some(format!(
            "{name} is of a newer release than {}, which would have to follow it; upgrade {} first",
            left.name, left.name
        ))
    }

    /// A replica that would have to follow a primary of a newer release. The old primary is upgraded last, so
    /// it does not count.
    fn left_behind(&self, to: &Member) -> Option<&Member> {
        let others = self.members.values();
        let mut replicas = others.filter(|one| one.counts() && Some(one.id) != self.primary);
        replicas.find(|one| one.id != to.id && one.release < to.release)
    }

    /// Leaves the group without a primary.
    pub(super) fn demote(&mut self, order: u64) {
        let result = match (self.objection(None), self.primary) {
            (Some(objection), _) => Err(objection),
            (None, None) => Ok("the group has no primary".to_owned()),
            (None, Some(from)) => {
                let mut change = Change::new(Cause::Ordered, Some(from), self.now_us);
                change.order = Some(order);
                change.course.demotes = true;
                self.change = Some(change);
                return self.pause(from);
            }
        };
        self.out.push(Action::Reply { order, result });
    }

    /// The stages of a switch-over, one after the other.
    pub(super) fn switch(&mut self, stage: Stage) {
        if self.waits_for_steps() {
            return;
        }
        let Some(change) = &self.change else { return };
        let Some(from) = change.old else { return };
        if matches!(stage, Stage::Closing | Stage::Reaching)
            && let Some(why) = self.deficit(from)
        {
            self.reply_refused(why);
            return self.clear_the_way(Some(from), Cause::Returned);
        }
        match stage {
            Stage::Choosing => self.choose(from),
            Stage::CatchingUp => self.caught_up(from),
            Stage::LeadingBack => self.led_back(from),
            Stage::Pausing => {
                self.set_stage(Stage::Closing);
                self.ask(Ask::Close { server: from });
            }
            Stage::Closing if change.course.demotes => self.demoted(from),
            Stage::Closing => {
                let (Some(to), Some(position)) = (change.winner, self.executed(from)) else {
                    return;
                };
                self.set_stage(Stage::Reaching);
                self.ask(Ask::Reach {
                    server: to,
                    position,
                });
                for server in self.others(Some(from)) {
                    self.ask(Ask::Look { server });
                }
            }
            Stage::Reaching => {
                let (Some(to), Some(fork)) = (change.winner, self.executed(from)) else {
                    return;
                };
                if let Some(heard) = self.change.as_mut().and_then(|c| c.heard.get_mut(&to)) {
                    heard.executed.join(&fork);
                    heard.received = fork.clone();
                }
                self.turn_to(to, None, fork);
            }
            _ => {}
        }
    }

    /// True while a switch-over's step is under way.
    fn waits_for_steps(&self) -> bool {
        self.unrecorded()
            || self.open(|what| {
                matches!(
                    what,
                    Ask::Look { .. } | Ask::Reach { .. } | Ask::Pause { .. } | Ask::Close { .. }
                )
            })
    }

    /// Why the old primary may not have everything; `None` when it has. One that was restarted may have
    /// lost what replicas received.
    fn deficit(&self, from: ServerId) -> Option<String> {
        let name = self.name(from);
        let unheard = || Some(format!("{name} was not heard"));
        let Some(change) = &self.change else {
            return unheard();
        };
        let Some(heard) = change.heard.get(&from) else {
            return unheard();
        };
        let since_us = self.now_us - change.since_us;
        // Servers count whole seconds: what one that has just been started said before tells it from
        // one that was restarted.
        let as_before = |up_us: u64| {
            let before_us = change.old_up_us;
            before_us.is_some_and(|it| up_us >= it) && up_us + UP_STEP_US >= since_us
        };
        let stayed_up = heard
            .up_us
            .is_none_or(|up_us| up_us >= since_us || as_before(up_us));
        if !stayed_up {
            return Some(format!("{name} was restarted meanwhile"));
        }
        let (other, more) = change
            .heard
            .iter()
            .map(|(&other, heard)| (other, heard.holds()))
            .find(|(_, holds)| !heard.executed.covers(holds))?;
        Some(format!(
            "{} holds {more}, and {name} has {} only",
            self.name(other),
            heard.executed
        ))
    }

    fn set_stage(&mut self, stage: Stage) {
        if let Some(change) = &mut self.change {
            change.stage = stage;
        }
    }

    fn executed(&self, server: ServerId) -> Option<Position> {
        let heard = self.change.as_ref()?.heard.get(&server)?;
        Some(heard.executed.clone())
    }

    fn choose(&mut self, from: ServerId) {
        let Some(change) = &self.change else { return };
        if change.heard.get(&from).is_some_and(|heard| heard.read_only) {
            let name = self.name(from);
            return self.refuse(format!("{name} is read-only; it is restored first"));
        }
        let fit = |id: &ServerId| self.promotable(change, *id);
        // Only members that count were asked, so nobody else was heard.
        let chosen = match change.wish {
            Some(wish) if fit(&wish) => Ok(wish),
            Some(wish) => Err(match change.unheard.get(&wish) {
                Some(why) => format!("{} does not answer: {why}", self.name(wish)),
                None => format!(
                    "{} cannot take over: its applier is stopped or its data cannot be written",
                    self.name(wish)
                ),
            }),
            None => {
                let heard = change.heard.keys().copied();
                let others = heard.filter(|id| *id != from && fit(id));
                others
                    .max_by(|&a, &b| self.compare(change, a, b))
                    .ok_or_else(|| "no replica can take over".to_owned())
            }
        };
        let position = self.executed(from);
        match (chosen, position) {
            (Ok(server), Some(position)) => {
                if let Some(change) = &mut self.change {
                    change.winner = Some(server);
                    change.stage = Stage::CatchingUp;
                    change.asked_us = self.now_us;
                }
                self.ask(Ask::Reach { server, position });
                self.ask(Ask::Look { server: from });
            }
            (Ok(_), None) => {
                let text = format!("{} does not answer", self.name(from));
                self.refuse(text);
            }
            (Err(why), _) => self.refuse(why),
        }
    }

    /// The replica that was chosen does not catch up: where the operator named none, the next best one is
    /// tried.
    fn choose_another(&mut self, from: ServerId, why: String) {
        self.forget_steps();
        if let Some(change) = &mut self.change {
            change.tried.extend(change.winner.take());
            change.rounds = 0;
        }
        let Some(change) = &self.change else { return };
        let fit = |id: &ServerId| *id != from && self.promotable(change, *id);
        match change.wish.is_none() && change.heard.keys().any(fit) {
            true => self.choose(from),
            false => self.refuse(why),
        }
    }

    /// Pauses only when the rest will be there in a moment: what the primary took while the new one
    /// caught up is caught up with again.
    fn caught_up(&mut self, from: ServerId) {
        let (near, now_us) = (self.policy.catch_up_us, self.now_us);
        let position = self.executed(from);
        let Some(change) = &mut self.change else {
            return;
        };
        let asked_us = std::mem::replace(&mut change.asked_us, now_us);
        let (Some(server), Some(position)) = (change.winner, position) else {
            let text = format!("{} does not answer", self.name(from));
            return self.refuse(text);
        };
        change.rounds += 1;
        match (now_us - asked_us, change.rounds) {
            (us, _) if us <= near => self.pause(from),
            (_, ROUNDS_MAX..) => {
                let text = format!("{} does not catch up", self.name(server));
                self.refuse(text);
            }
            // The position is from the look that came with the last round.
            _ => {
                self.ask(Ask::Reach { server, position });
                self.ask(Ask::Look { server: from });
            }
        }
    }

    fn pause(&mut self, from: ServerId) {
        self.set_stage(Stage::Pausing);
        self.record(Step::Switching { from });
        self.ask(Ask::Pause { server: from });
    }

    /// Nothing was changed yet: the order is answered and forgotten.
    fn refuse(&mut self, why: String) {
        self.reply_refused(why);
        self.change = None;
    }

    fn reply_refused(&mut self, why: String) {
        let order = self.change.as_mut().and_then(|change| change.order.take());
        if let Some(order) = order {
            let result = Err(why);
            self.out.push(Action::Reply { order, result });
        }
    }

    fn demoted(&mut self, from: ServerId) {
        let Some(change) = self.change.take() else {
            return;
        };
        if let Some(member) = self.members.get_mut(&from) {
            member.status = Status::Replica;
        }
        self.primary = None;
        self.out.push(Action::Publish {
            primary: None,
            fork: None,
        });
        let text = format!(
            "{} is no primary any more; the group has none",
            self.name(from)
        );
        self.tell(Kind::Demoted, Some(from), text.clone());
        if let Some(order) = change.order {
            let result = Ok(text);
            self.out.push(Action::Reply { order, result });
        }
        self.record_over(None);
    }

    /// Until the new primary is recorded every failure leads back; a primary that fails now is lost.
    pub(super) fn switch_failed(&mut self, what: Ask, stage: Stage, failed: Failed) {
        let Some(from) = self.change.as_ref().and_then(|change| change.old) else {
            return;
        };
        let why = match &what {
            Ask::Reach { server, .. } => {
                format!("{} is behind: {}", self.name(*server), failed.text)
            }
            Ask::Pause { .. } => format!("transactions in flight did not end: {}", failed.text),
            _ => failed.text,
        };
        let lives = matches!(failed.fault, Fault::Said | Fault::Late);
        match (what, stage) {
            (Ask::Reach { .. }, Stage::CatchingUp) => self.choose_another(from, why),
            (Ask::Pause { .. }, Stage::Pausing) => self.lead_back(from, why),
            (Ask::Reach { .. }, Stage::Reaching) => self.lead_back(from, why),
            (Ask::Close { .. }, Stage::Closing) if lives => self.lead_back(from, why),
            (Ask::Close { .. }, Stage::Closing) => self.lost_meanwhile(from, failed.fault, why),
            _ => {}
        }
    }

    /// The old primary takes the writes again, if it is still the one that was paused.
    fn lead_back(&mut self, from: ServerId, why: String) {
        self.forget_steps();
        self.reply_refused(why);
        if let Some(change) = &mut self.change {
            change.heard.remove(&from);
            change.stage = Stage::LeadingBack;
        }
        self.ask(Ask::Look { server: from });
    }

    fn led_back(&mut self, from: ServerId) {
        let heard = self
            .change
            .as_ref()
            .and_then(|change| change.heard.get(&from));
        if heard.is_none() {
            let fault = match self.change.as_ref().is_some_and(|change| change.gone) {
                true => Fault::Refused,
                false => Fault::Silent,
            };
            return self.lost_meanwhile(from, fault, "it does not answer".to_owned());
        }
        if self.deficit(from).is_some() {
            return self.clear_the_way(Some(from), Cause::Returned);
        }
        if let Some(change) = &mut self.change {
            change.winner = Some(from);
            change.fork = None;
            change.stage = Stage::Opening;
        }
        self.ask(Ask::Open { server: from });
    }
}
