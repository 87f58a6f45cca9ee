//! Is the primary lost? Two signals must agree.
//!
//! - A broken connection or a refused one, and a fresh connection that is refused too: its process is
//!   gone.
//! - Silence for several heartbeats, and a fresh connection without a greeting in its time, which is opened when the
//!   first of them is missed: it hangs. Not
//!   while replicas still receive from it: then it is the network between it and this router.
//! - Writes that hang for long while reads are answered: its disk is frozen.
//!
//! Silence is believed more slowly each time it was believed lately: what looks like a dead server
//! again and again is often something else.

use std::collections::{BTreeMap, VecDeque};

use farm::ServerId;

use super::change::Change;
use super::{Answer, Ask, Cause, Failed, Failover, Fault, Kind, Loss};

/// Beyond this, patience with silence does not grow.
const PATIENCE_MAX: u32 = 3;

/// What speaks against the primary.
#[derive(Clone, Debug, Default)]
pub(crate) struct Suspicion {
    /// Heartbeats in a row without an answer.
    missed: u32,
    /// When the first of them was missed.
    silent_since_us: Option<u64>,
    /// Since when no write ended.
    write_silent_since_us: Option<u64>,
    /// A connection broke or was refused.
    broken: bool,
    /// Somebody outside said so.
    reported: bool,
    confirming: bool,
    /// A new connection was not greeted while the silence was still too short to be believed.
    ungreeted: bool,
    told: bool,
    vetoed: bool,
    /// When each replica last received something.
    views: BTreeMap<ServerId, u64>,
    reports: VecDeque<(u64, String)>,
}

impl Suspicion {
    pub(crate) fn view(&mut self, replica: ServerId, heard_us: u64) {
        self.views.insert(replica, heard_us);
    }

    pub(crate) fn heard_us(&self, replica: ServerId) -> Option<u64> {
        self.views.get(&replica).copied()
    }

    /// True when some replica received something after the silence began.
    fn replicas_receive(&self, margin_us: u64) -> bool {
        self.silent_since_us.is_some_and(|since| {
            let alive_after = since.saturating_add(margin_us);
            self.views.values().any(|&heard| heard > alive_after)
        })
    }

    /// An answer of the primary takes everything back but what concerns its writes.
    fn clear(&mut self) -> bool {
        let told = self.told;
        *self = Suspicion {
            write_silent_since_us: self.write_silent_since_us,
            views: std::mem::take(&mut self.views),
            reports: std::mem::take(&mut self.reports),
            ..Suspicion::default()
        };
        told
    }
}

impl Failover {
    pub(super) fn heartbeat(&mut self, server: ServerId, read_only: bool) {
        if self.change.is_some() {
            return self.returned(server);
        }
        if self.primary != Some(server) {
            return;
        }
        self.alive_us = self.now_us;
        self.answers();
        if self.suspicion.confirming {
            // What a new connection finds says nothing of a later silence.
            self.asks
                .retain(|_, what| !matches!(what, Ask::Confirm { .. }));
        }
        if self.suspicion.clear() {
            let text = format!("{} answers", self.name(server));
            self.tell(Kind::Cleared, Some(server), text);
        }
        if read_only && self.active && self.acts() {
            self.restore(server);
        }
    }

    pub(super) fn wrote(&mut self, server: ServerId) {
        if self.primary == Some(server) {
            self.suspicion.write_silent_since_us = None;
            self.form_opinion(None);
        }
    }

    pub(super) fn failed(&mut self, server: ServerId, fault: Fault) {
        if self.change.is_some() || self.primary != Some(server) || !self.active {
            return;
        }
        match fault {
            Fault::Refused | Fault::Reset => {
                self.suspicion.broken = true;
                self.confirm(server, Some(fault));
            }
            Fault::Silent => {
                self.missed_heartbeat();
                let patience = self.patience();
                if self.suspicion.missed >= patience {
                    match std::mem::take(&mut self.suspicion.ungreeted) {
                        true => self.judge_silence(server),
                        false => self.confirm(server, Some(fault)),
                    }
                // The new connection is opened at the first missing sign: both have to be missing, not one after
                // the other. After a silence that was believed lately it is opened when the others are missed.
                } else if patience == self.policy.detections && !self.suspicion.ungreeted {
                    self.confirm(server, None);
                }
            }
            Fault::WriteSilent => self.write_hangs(server),
            Fault::Late | Fault::Said => {}
        }
    }

    fn missed_heartbeat(&mut self) {
        self.suspicion.missed = self.suspicion.missed.saturating_add(1);
        self.suspicion.silent_since_us.get_or_insert(self.now_us);
    }

    fn write_hangs(&mut self, server: ServerId) {
        let since = *self
            .suspicion
            .write_silent_since_us
            .get_or_insert(self.now_us);
        let Some(limit_us) = self.policy.write_silence_max_us else {
            return;
        };
        // With a failing read heartbeat, silence is the verdict; that one is quicker.
        if self.now_us - since >= limit_us && self.somebody_receives() {
            self.condemn(server, Cause::Frozen);
        }
    }

    /// Writes also hang while no replica is there to acknowledge them; that is no reason to leave.
    fn somebody_receives(&self) -> bool {
        let lately = self.now_us.saturating_sub(self.policy.flap_window_us);
        self.suspicion.views.values().any(|&heard| heard >= lately)
    }

    /// Opens a new connection for a doubt. Without a fault it is too early to tell of one.
    fn confirm(&mut self, server: ServerId, fault: Option<Fault>) {
        if self.is_convinced(fault.unwrap_or(Fault::Silent)) {
            return;
        }
        if let Some(fault) = fault {
            self.tell_suspected(server, fault);
        }
        if !std::mem::replace(&mut self.suspicion.confirming, true) {
            self.ask(Ask::Confirm { server });
        }
    }

    fn tell_suspected(&mut self, server: ServerId, fault: Fault) {
        if !std::mem::replace(&mut self.suspicion.told, true) {
            let text = format!("{} {}", self.name(server), fault.text());
            self.tell(Kind::Suspected, Some(server), text);
        }
    }

    pub(super) fn confirmed(&mut self, server: ServerId, answer: Result<Answer, Failed>) {
        let asked_for_it = std::mem::take(&mut self.suspicion.confirming);
        if !asked_for_it || self.change.is_some() || self.primary != Some(server) {
            return;
        }
        let fault = match answer {
            Ok(_) => return self.heartbeat(server, false),
            Err(failed) => failed.fault,
        };
        match fault {
            Fault::Refused => self.condemn(server, Cause::Crashed),
            Fault::Silent | Fault::Reset | Fault::WriteSilent | Fault::Late => {
                let believed = self.suspicion.missed >= self.patience() || self.suspicion.reported;
                if !self.suspicion.told && fault != Fault::Reset {
                    // It was asked early: the other signs may still come.
                    self.suspicion.ungreeted = true;
                    return;
                }
                self.missed_heartbeat();
                if believed {
                    self.judge_silence(server);
                } else if fault == Fault::Reset {
                    // A process that is dying takes connections for a moment more.
                    self.confirm(server, Some(fault));
                }
            }
            // An error is an answer.
            Fault::Said => self.heartbeat(server, false),
        }
    }

    fn judge_silence(&mut self, server: ServerId) {
        self.tell_suspected(server, Fault::Silent);
        let margin_us = self.policy.view_margin_us;
        let silent_us = self
            .suspicion
            .silent_since_us
            .map_or(0, |since| self.now_us - since);
        let vetoed = self.suspicion.replicas_receive(margin_us)
            && self.policy.veto_max_us.is_none_or(|max| silent_us < max);
        if !vetoed {
            return self.condemn(server, Cause::Silent);
        }
        if !std::mem::replace(&mut self.suspicion.vetoed, true) {
            let text = format!(
                "{} does not answer this router, but its replicas receive from it",
                self.name(server)
            );
            self.tell(Kind::Unreachable, Some(server), text);
        }
        self.wake_after(self.policy.retry_us);
    }

    /// A veto is heard for a while only: the primary is asked again.
    pub(super) fn judge_again(&mut self) {
        self.weigh();
        if self.change.is_some() {
            return;
        }
        if let Some(server) = self.primary
            && self.suspicion.missed >= self.patience()
        {
            self.confirm(server, Some(Fault::Silent));
        }
    }

    /// How many heartbeats must be missed: more after each silence that was believed lately.
    fn patience(&self) -> u32 {
        let lately = self.now_us.saturating_sub(self.policy.flap_window_us);
        let silences = self
            .losses
            .iter()
            .filter(|loss| loss.cause == Cause::Silent && loss.at_us >= lately)
            .count();
        let doublings = u32::try_from(silences).map_or(PATIENCE_MAX, |n| n.min(PATIENCE_MAX));
        self.policy.detections.max(1) << doublings
    }

    /// What was missed while the router itself stood still was not missed.
    pub(super) fn stalled(&mut self) {
        self.suspicion.clear();
        self.suspicion.write_silent_since_us = None;
        self.form_opinion(None);
        self.asks
            .retain(|_, what| !matches!(what, Ask::Confirm { .. }));
    }

    pub(super) fn reported(&mut self, server: ServerId, by: String, sure: bool) {
        if self.change.is_some() || self.primary != Some(server) || !self.active {
            return;
        }
        let reports = &mut self.suspicion.reports;
        let since = self
            .now_us
            .saturating_sub(self.policy.notification_interval_us);
        reports.retain(|(at_us, _)| *at_us >= since);
        reports.push_back((self.now_us, by));
        let mut reporters: Vec<&str> = reports.iter().map(|(_, by)| &**by).collect();
        reporters.sort_unstable();
        reporters.dedup();
        let enough = reports.len() >= self.policy.notifications as usize
            && reporters.len() >= self.policy.notification_clients as usize;
        if sure || enough {
            reports.clear();
            self.suspicion.reported = true;
            self.confirm(server, Some(Fault::Said));
        }
    }

    /// The primary is lost as far as this router can see. Alone, that is enough.
    pub(super) fn condemn(&mut self, server: ServerId, cause: Cause) {
        if !self.active {
            return;
        }
        if self.council.is_some() {
            self.form_opinion(Some((server, cause)));
            return self.weigh();
        }
        self.give_up(server, cause);
    }

    /// Somebody else may have to take the primary's place.
    pub(super) fn give_up(&mut self, server: ServerId, cause: Cause) {
        let replaced = self.losses.last();
        if let Some(last) = replaced
            && last.cause == cause
            && self.now_us < last.at_us.saturating_add(self.policy.failover_interval_us)
        {
            return self.wake_after(self.policy.retry_us);
        }
        let text = format!("{} is lost: {}", self.name(server), cause.text());
        if !self.has_heirs() && cause != Cause::Crashed {
            // Nobody could do better than wait for it; what runs there may still end well.
            if !std::mem::replace(&mut self.suspicion.vetoed, true) {
                let text = format!("{text}; no other server can take over");
                self.tell(Kind::Waiting, Some(server), text);
            }
            return self.wake_after(self.policy.retry_us);
        }
        self.tell(Kind::Lost, Some(server), text);
        self.losses.push(Loss {
            server,
            cause,
            at_us: self.now_us,
        });
        let mut change = Change::new(cause, Some(server), self.now_us);
        // Peers cut a primary off when they see the record.
        let alone = self.council.is_none() && self.has_heirs();
        change.course.at_once = alone && cause == Cause::Crashed && !self.unrecorded();
        self.clear_the_way_for(change);
    }
}

impl Fault {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Fault::Refused => "refused a connection",
            Fault::Reset => "broke a connection",
            Fault::Silent => "does not answer",
            Fault::WriteSilent => "does not end a write",
            Fault::Late => "did not end a step in time",
            Fault::Said => "is reported to fail",
        }
    }
}
