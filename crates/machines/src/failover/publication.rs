//! The end of a change: who follows the winner, who is out, and what the world is told.

use farm::{ServerId, Status};

use super::change::Change;
use super::suspicion::Suspicion;
use super::{Action, Answer, Ask, Cause, Failed, Failover, Heard, Kind};

impl Failover {
    /// Points everybody who was heard at the primary, and has the rest brought back.
    pub(super) fn let_follow(&mut self, primary: ServerId) {
        let Some(change) = &self.change else { return };
        let change = change.clone();
        let heard = &change.heard;
        let (old, same) = (change.old, change.old == Some(primary));
        let mut away = Vec::new();
        for server in self.others(Some(primary)) {
            if fits(&change, server) {
                self.ask(Ask::Follow { server, primary });
            } else if same && !heard.contains_key(&server) {
                // It was away before, or the primary never went: it goes on by itself.
                self.out.push(Action::Rejoin { server });
            } else if old != Some(server) || heard.contains_key(&server) {
                away.push(server);
            }
        }
        if let Some(change) = &mut self.change {
            change.away = away;
        }
    }

    /// Faulty until it was brought back: it may hold what nobody else has.
    pub(super) fn depose(&mut self, server: ServerId) {
        self.deposed.insert(server);
        self.unproved.remove(&server);
        if let Some(member) = self.members.get_mut(&server) {
            member.status = Status::Faulty;
        }
    }

    pub(super) fn followed(&mut self, server: ServerId, answer: Result<Answer, Failed>) {
        let Err(failed) = answer else {
            self.unproved.remove(&server);
            return;
        };
        let text = format!("{} does not follow: {}", self.name(server), failed.text);
        self.tell(Kind::ReplicaLost, Some(server), text);
        self.unproved.insert(server);
        self.out.push(Action::Rejoin { server });
        if self.change.is_none() {
            self.record_over(self.primary);
        }
    }

    /// The winner takes writes: what waited goes on.
    pub(super) fn publish(&mut self) {
        let Some(change) = self.change.take() else {
            return;
        };
        let Some(winner) = change.winner else { return };
        let same = change.old == Some(winner);
        let lost = !same && change.cause != Cause::Ordered;
        let old_heard = change
            .old
            .is_some_and(|old| change.heard.contains_key(&old));
        if !same {
            self.fork.clone_from(&change.fork);
        }
        self.enthrone(change.old, winner, old_heard);
        for server in change.away {
            self.depose(server);
        }
        self.out.push(Action::Publish {
            primary: Some(winner),
            fork: change.fork.filter(|_| lost).or(change.untold),
        });
        for server in self.deposed.clone() {
            self.out.push(Action::Rejoin { server });
        }
        let name = self.name(winner);
        let (kind, text) = match same {
            true => (Kind::Restored, format!("{name} takes the writes again")),
            false => (Kind::Promoted, format!("{name} takes the writes")),
        };
        self.tell(kind, Some(winner), text.clone());
        if let Some(order) = change.order {
            let result = if same { Err(text) } else { Ok(text) };
            self.out.push(Action::Reply { order, result });
        }
        self.record_over(Some(winner));
    }

    /// From here on the winner counts as the primary. An old one that was not heard is faulty until
    /// it was brought back: it may hold what nobody else has.
    pub(super) fn enthrone(&mut self, old: Option<ServerId>, winner: ServerId, old_heard: bool) {
        if let Some(old) = old.filter(|old| *old != winner) {
            if !old_heard {
                self.depose(old);
            } else if let Some(member) = self.members.get_mut(&old)
                && member.counts()
            {
                member.status = Status::Replica;
            }
        }
        if let Some(winner) = self.members.get_mut(&winner) {
            winner.status = Status::Primary;
        }
        self.deposed.remove(&winner);
        self.unproved.remove(&winner);
        self.primary = Some(winner);
        self.alive_us = self.now_us;
        self.reign_us = self.now_us;
        self.suspicion = Suspicion::default();
        self.another_primary();
    }
}

/// Those who lose nothing when they are pointed at the winner while it is being prepared. To stop a replica throws
/// away what it has not applied, and the winner may fail.
pub(super) fn pointable(
    change: &Change,
    winner: ServerId,
    mut others: Vec<ServerId>,
) -> Vec<ServerId> {
    let follow_it = change.old == Some(winner);
    let drained = |id: &ServerId| change.heard.get(id).is_some_and(Heard::drained);
    let is_old = |id: &ServerId| change.old == Some(*id);
    others.retain(|id| !follow_it && !is_old(id) && drained(id) && fits(change, *id));
    others
}

/// It was heard, and holds nothing that the winner lacks.
fn fits(change: &Change, server: ServerId) -> bool {
    match (change.heard.get(&server), &change.fork) {
        (Some(heard), Some(fork)) => fork.covers(&heard.holds()),
        (Some(_), None) => true,
        (None, _) => false,
    }
}
