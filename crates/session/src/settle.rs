//! After a reply: what the session now knows, and where its connection goes.

use std::rc::Rc;

use backend::{Connection, Lease};
use mysql_wire::relay::Outcome;
use mysql_wire::status::Status;
use sqltext::{Class, Facts, Verb};

use crate::counters::count;
use crate::end::End;
use crate::exec::{Changes, Shape};
use crate::per_core::Soft;
use crate::pin::Pins;
use crate::session::{Held, Session};

impl Session {
    /// Takes note of a complete reply and keeps or gives back the connection.
    pub(crate) fn settle(
        &mut self,
        mut lease: Lease,
        shape: &Shape,
        pins: Pins,
        outcome: Outcome,
        changes: Changes,
    ) -> Result<(), End> {
        let pins = self.learn(lease.connection_mut(), shape, pins, &outcome, changes);
        if outcome.error.is_none() && self.releases(shape.verb) {
            // The server closes the connection now, and so does Heddle.
            return Err(End::Quit);
        }
        self.keep(lease, shape, pins, &outcome);
        Ok(())
    }

    /// Takes note of a complete reply. Returns what ties the session to the connection now.
    pub(crate) fn learn(
        &mut self,
        connection: &mut Connection,
        shape: &Shape,
        pins: Pins,
        outcome: &Outcome,
        changes: Changes,
    ) -> Pins {
        self.statement += 1;
        let id = self.handle.id;
        connection.owner.session = id;
        connection.owner.statement = self.statement;
        if outcome.last_insert_id != 0 {
            self.note_insert_id(connection, outcome.last_insert_id);
        }
        self.last_server = Some(connection.server);
        self.last_connection = connection.id;
        if let Some(state) = changes.state {
            let state = Rc::new(state);
            connection.set_state(state.clone());
            self.set_state(state);
        }
        if let Some(status) = outcome.status {
            self.status = status;
        }
        self.wrote |= shape.writes;
        self.wants_diagnostics |= shape
            .facts
            .intersects(Facts::FOUND_ROWS | Facts::ROW_COUNT | Facts::WARNINGS);
        if shape.facts.contains(Facts::ACCOUNTS) {
            self.core.shared.accounts_changed();
        }
        let mut new = Pins::empty();
        new.set(Pins::VARIABLE, changes.pins);
        new.set(Pins::NEXT_TRANSACTION, changes.one_shot);
        self.pins_after(shape, pins, outcome, new)
    }

    /// The statement ends the session: COMMIT RELEASE, or a COMMIT under such a completion type.
    fn releases(&self, verb: Verb) -> bool {
        let (chain, release) = match verb {
            Verb::Commit { chain, release } | Verb::Rollback { chain, release } => (chain, release),
            _ => return false,
        };
        let completion = self.state.variable("completion_type");
        release || (!chain && completion.is_some_and(|c| c == b"RELEASE" || c == b"2"))
    }

    fn pins_after(&self, shape: &Shape, before: Pins, outcome: &Outcome, new: Pins) -> Pins {
        let mut pins = before | new | Pins::of(shape.class, shape.verb, shape.facts);
        let done = outcome.error.is_none();
        if done && matches!(shape.verb, Verb::UnlockTables | Verb::UnlockInstance) {
            pins -= Pins::LOCK_TABLES;
        }
        let ended = !self.status.contains(Status::IN_TRANS) && shape.class != Class::Set;
        if before.contains(Pins::NEXT_TRANSACTION) && ended && done {
            pins -= Pins::NEXT_TRANSACTION;
        }
        pins.set(
            Pins::STATEMENT,
            self.statements.values().any(|s| s.cursor || s.long_data),
        );
        pins.count_new(before, &self.core.counters);
        pins
    }

    /// Keeps the connection for a transaction or a pin, puts it aside for diagnostics, or gives it
    /// back.
    fn keep(&mut self, lease: Lease, shape: &Shape, pins: Pins, outcome: &Outcome) {
        // An error says nothing of the transaction: it may be open still, or since just now.
        let failed = outcome.error.is_some();
        let in_transaction = self.status.contains(Status::IN_TRANS)
            || (failed && !self.status.contains(Status::AUTOCOMMIT));
        if in_transaction || !pins.is_empty() {
            self.held = Some(Held { lease, pins });
            return;
        }
        let diagnostics = failed
            || outcome.warnings > 0
            || self.wants_diagnostics
            || shape.facts.contains(Facts::FOUND_ROWS_SET);
        if diagnostics && self.handle.killing.get() == 0 {
            count(&self.core.counters.holds_diagnostics);
            let since_s = self.core.now_s.get();
            *self.handle.soft.borrow_mut() = Some(Soft { lease, since_s });
            return;
        }
        self.give_back(lease);
    }

    /// Gives a connection back to the pool; closes it where a KILL for this session may still hit
    /// whoever uses it next.
    pub(crate) fn give_back(&self, lease: Lease) {
        if self.handle.killing.get() == 0 {
            lease.release();
        }
    }

    /// Keeps a connection as it was kept before a command that never ran.
    pub(crate) fn give_back_after_error(&mut self, lease: Lease, pins: Pins) {
        let may_be_open =
            self.status.contains(Status::IN_TRANS) || !self.status.contains(Status::AUTOCOMMIT);
        if may_be_open || !pins.is_empty() {
            self.held = Some(Held { lease, pins });
        } else {
            self.give_back(lease);
        }
    }
}
