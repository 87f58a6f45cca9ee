//! What ties a session to one server connection, and why.

use sqltext::{Class, Facts, Verb};

use crate::counters::{Counters, count};

bitflags::bitflags! {
    /// The reasons for which a connection cannot be given to others. They last until the session
    /// ends or is reset, unless said otherwise.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Pins: u16 {
        /// A user variable that is too large to move, or whose name is not sure.
        const USER_VARIABLE = 1;
        const TEMPORARY_TABLE = 1 << 1;
        const USER_LOCK = 1 << 2;
        /// Until UNLOCK TABLES.
        const LOCK_TABLES = 1 << 3;
        const HANDLER = 1 << 4;
        const TEXT_PREPARE = 1 << 5;
        const XA = 1 << 6;
        const CALL = 1 << 7;
        /// A variable that cannot be set elsewhere, a resource group.
        const VARIABLE = 1 << 8;
        /// SET TRANSACTION: until the next transaction has ended.
        const NEXT_TRANSACTION = 1 << 9;
        /// An open cursor, or long data for an EXECUTE to come.
        const STATEMENT = 1 << 10;
        /// A login with an expired password: nobody else's connection takes a new one.
        const PASSWORD = 1 << 11;
        /// The client is known to the server as a replica, or has read its binlog.
        const REPLICATION = 1 << 12;
        /// It has asked for the counts of its connection.
        const STATUS = 1 << 13;
    }
}

/// What in a text ties its session.
const BY_FACT: [(Facts, Pins); 8] = [
    (Facts::TEMPORARY_TABLE, Pins::TEMPORARY_TABLE),
    (Facts::USER_LOCK, Pins::USER_LOCK),
    (Facts::LOCK_TABLES, Pins::LOCK_TABLES),
    (Facts::HANDLER, Pins::HANDLER),
    (Facts::TEXT_PREPARE, Pins::TEXT_PREPARE),
    (Facts::XA, Pins::XA),
    (Facts::COMPOUND, Pins::CALL),
    // LASTVAL and PREVIOUS VALUE belong to the connection that drew the value.
    (Facts::WRITES_SEQUENCE, Pins::VARIABLE),
];

/// All facts of these: nearly every text has none.
const PINNING: Facts = {
    let (mut all, mut at) = (Facts::empty(), 0);
    while at < BY_FACT.len() {
        all = all.union(BY_FACT[at].0);
        at += 1;
    }
    all
};

impl Pins {
    /// What a statement that fails has not made.
    pub(crate) const MADE_WHOLE: Pins = Pins::TEMPORARY_TABLE
        .union(Pins::LOCK_TABLES)
        .union(Pins::HANDLER)
        .union(Pins::TEXT_PREPARE);

    /// Pieces of work, which end by themselves, as transactions do.
    pub const WORK: Pins = Pins::LOCK_TABLES.union(Pins::XA);

    /// What surely ends with COM_RESET_CONNECTION.
    pub(crate) const RENEWABLE: Pins = Pins::USER_VARIABLE
        .union(Pins::TEMPORARY_TABLE)
        .union(Pins::USER_LOCK)
        .union(Pins::LOCK_TABLES)
        .union(Pins::HANDLER)
        .union(Pins::TEXT_PREPARE)
        .union(Pins::CALL)
        .union(Pins::STATEMENT)
        .union(Pins::STATUS);

    /// The pins that running this text sets.
    pub fn of(class: Class, verb: Verb, facts: Facts) -> Pins {
        let mut pins = Pins::empty();
        if facts.intersects(PINNING) {
            for (fact, pin) in BY_FACT {
                pins.set(pin, pins.contains(pin) || facts.contains(fact));
            }
        }
        pins.set(Pins::CALL, pins.contains(Pins::CALL) || class == Class::Call);
        match verb {
            Verb::SetTransaction {
                session: false,
                global: false,
            } => {
                pins |= Pins::NEXT_TRANSACTION;
            }
            Verb::SetResourceGroup => pins |= Pins::VARIABLE,
            _ => {}
        }
        if class == Class::Lock && !matches!(verb, Verb::UnlockTables | Verb::UnlockInstance) {
            pins |= Pins::LOCK_TABLES;
        }
        pins
    }

    /// Counts the pins that are new.
    pub fn count_new(self, before: Pins, counters: &Counters) {
        let new = self - before;
        if new.is_empty() {
            return;
        }
        let by_pin = [
            (Pins::USER_VARIABLE, &counters.pins_user_variable),
            (Pins::TEMPORARY_TABLE, &counters.pins_temporary_table),
            (Pins::USER_LOCK, &counters.pins_user_lock),
            (Pins::LOCK_TABLES, &counters.pins_lock_tables),
            (Pins::HANDLER, &counters.pins_handler),
            (Pins::TEXT_PREPARE, &counters.pins_text_prepare),
            (Pins::XA, &counters.pins_xa),
            (Pins::CALL, &counters.pins_call),
            (Pins::VARIABLE, &counters.pins_variable),
            (Pins::NEXT_TRANSACTION, &counters.pins_next_transaction),
            (Pins::STATEMENT, &counters.pins_statement),
            (Pins::PASSWORD, &counters.pins_password),
            (Pins::REPLICATION, &counters.pins_replication),
            (Pins::STATUS, &counters.pins_status),
        ];
        for (pin, counter) in by_pin {
            if new.contains(pin) {
                count(counter);
            }
        }
    }

    /// In words, one for each pin.
    pub fn reasons(self) -> Vec<&'static str> {
        let names = [
            (Pins::USER_VARIABLE, "user variables"),
            (Pins::TEMPORARY_TABLE, "temporary tables"),
            (Pins::USER_LOCK, "user locks"),
            (Pins::LOCK_TABLES, "table locks"),
            (Pins::HANDLER, "handlers"),
            (Pins::TEXT_PREPARE, "statements prepared as text"),
            (Pins::XA, "XA transaction"),
            (Pins::CALL, "state left by a procedure"),
            (Pins::VARIABLE, "session variables"),
            (Pins::NEXT_TRANSACTION, "transaction settings"),
            (Pins::STATEMENT, "open cursors"),
            (Pins::PASSWORD, "an expired password"),
            (Pins::REPLICATION, "replication"),
            (Pins::STATUS, "status counts"),
        ];
        let held = names.iter().filter(|(pin, _)| self.contains(*pin));
        held.map(|(_, name)| *name).collect()
    }

    /// In words, for the error that a session gets which loses its connection.
    pub fn describe(self) -> String {
        match self.is_empty() {
            true => "transaction".to_owned(),
            false => self.reasons().join(", "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_and_verbs_pin() {
        let pins = Pins::of(Class::Other, Verb::Select, Facts::USER_LOCK);
        assert_eq!(pins, Pins::USER_LOCK);
        let next = Verb::SetTransaction {
            session: false,
            global: false,
        };
        assert_eq!(Pins::of(Class::Set, next, Facts::empty()), Pins::NEXT_TRANSACTION);
        let session = Verb::SetTransaction {
            session: true,
            global: false,
        };
        assert_eq!(Pins::of(Class::Set, session, Facts::empty()), Pins::empty());
        assert_eq!(Pins::of(Class::Lock, Verb::UnlockTables, Facts::empty()), Pins::empty());
        assert_eq!(Pins::of(Class::Read, Verb::Select, Facts::empty()), Pins::empty());
    }

    #[test]
    fn a_transaction_ends_by_itself_and_a_temporary_table_does_not() {
        for pins in [Pins::XA, Pins::LOCK_TABLES | Pins::USER_VARIABLE] {
            assert!(pins.intersects(Pins::WORK), "{pins:?}");
        }
        let lasting = Pins::TEMPORARY_TABLE | Pins::USER_LOCK;
        for pins in [Pins::empty(), lasting, Pins::NEXT_TRANSACTION] {
            assert!(!pins.intersects(Pins::WORK), "{pins:?}");
        }
    }

    #[test]
    fn a_lost_pin_is_named() {
        let pins = Pins::TEMPORARY_TABLE | Pins::USER_LOCK;
        assert_eq!(pins.describe(), "temporary tables, user locks");
        assert_eq!(Pins::empty().describe(), "transaction");
    }
}
