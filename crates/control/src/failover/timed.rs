//! What a driver notes of the time that each step of a change of primary takes, and what it tells of it.

use farm::ServerId;
use machines::failover::{Action, Ask, Event, Kind, Record, Step};

use super::{Driver, recorded};
use catalog::event;

impl Driver {
    /// What happened, before the machine hears of it.
    pub(super) fn time_answer(&self, event: &Event) {
        let (ask, failed) = match event {
            Event::Done { ask, answer } => {
                let failed = answer.as_ref().err();
                (ask.0, failed.map(|failed| &*failed.text))
            }
            Event::Wrote { server } => (first_write(*server), None),
            _ => return,
        };
        let context = &self.failover.context;
        context
            .failovers
            .end(&self.group, context.now_us(), ask, failed);
    }

    /// What the machine wants, before it is done. `cause`: why the primary is being exchanged.
    pub(super) fn time_action(&self, action: &Action, cause: Option<&'static str>) {
        let context = &self.failover.context;
        let (failovers, group, now_us) = (&context.failovers, &self.group, context.now_us());
        match action {
            Action::Tell {
                kind: Kind::Suspected,
                ..
            } => {
                // One that a router's own standstill excused was not cleared.
                failovers.forget(group);
                failovers.doubt(group, now_us);
            }
            Action::Tell {
                kind: Kind::Cleared,
                ..
            } => failovers.forget(group),
            // Asked at the first missing sign, when there is no doubt yet.
            Action::Ask {
                what: Ask::Confirm { .. },
                ..
            } if !failovers.is_open(group) => {}
            Action::Ask { ask, what, .. } => {
                if begins(what) {
                    failovers.doubt(group, now_us);
                }
                let server = what.server().map(|server| server.0);
                let step = (ask.0, recorded::question(what).word());
                failovers.begin(group, now_us, step, server, about(what));
            }
            Action::Publish {
                primary: Some(primary),
                ..
            } => {
                let cause = cause.unwrap_or("resumed");
                let change = failovers.publish(group, now_us, primary.0, cause);
                if let Some(change) = change {
                    let text = format!(
                        "{} took over after {}",
                        self.name(primary.0),
                        change.summary()
                    );
                    context.happened(event::Event::now("failover_timed", group, text));
                    let step = (first_write(*primary), "first_write");
                    let about = "a heartbeat, acknowledged by a replica".to_owned();
                    failovers.begin(group, now_us, step, Some(primary.0), about);
                }
            }
            Action::Publish { primary: None, .. } => failovers.forget(group),
            Action::Tell { .. }
            | Action::Rejoin { .. }
            | Action::Vote { .. }
            | Action::Reply { .. }
            | Action::Wake { .. } => {}
        }
    }

    fn name(&self, id: u32) -> String {
        let record = self.failover.context.record_of(id);
        record.map_or_else(|| format!("server {id}"), |record| record.name)
    }
}

/// The number of what is no question: the first write of a new primary.
fn first_write(server: ServerId) -> u64 {
    u64::MAX - u64::from(server.0)
}

/// A change of primary is under way with this; a new connection is opened for a doubt, and the end of a change is
/// recorded behind it.
fn begins(what: &Ask) -> bool {
    !matches!(
        what,
        Ask::Confirm { .. }
            | Ask::Follow { .. }
            | Ask::Record(Record {
                step: Step::Over { .. },
                ..
            })
    )
}

/// What a record is about.
fn about(what: &Ask) -> String {
    let Ask::Record(record) = what else {
        return String::new();
    };
    let about = match record.step {
        Step::Clearing { .. } => "it begins",
        Step::Turning { .. } => "the winner",
        Step::Switching { .. } => "clients wait",
        Step::Over { .. } => "it is over",
    };
    about.to_owned()
}
