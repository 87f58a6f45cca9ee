//! What Heddle's own tables say in a binlog: decisions about transactions over several groups, numbers of the
//! logical clock, and which transactions are those of a move. The clock puts transactions of different groups into one order.

use farm::dist_txn::GlobalId;

use crate::cell::Cell;
use crate::event::{Statement, is_harmless};
use crate::rows::{Image, Kind, Rows};
use crate::transactions::Part;

/// Where Heddle keeps what it needs itself; nobody is told of it.
pub(crate) const DATABASE: &str = "heddle";

/// Its table of decisions about transactions over several groups.
const DECISIONS: &str = "mark";

/// The member of the column `state` that says commit.
const COMMIT: u16 = 1;

/// Its table of the logical clock.
const CLOCK: &str = "clock";

/// Its table of heartbeats.
const HEARTBEATS: &str = "heartbeat";

/// With this begins the name that a transaction of a move gives to its row in the table of heartbeats. Such a row comes in
/// front of what the transaction does in other tables.
pub const MOVE: &str = "move ";

/// A transaction over several groups is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub id: GlobalId,
    /// The numbers of the groups that have a branch of it.
    pub branches: Vec<u32>,
}

/// What a transaction did in Heddle's own tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Own {
    pub decision: Option<Decision>,
    /// The logical clock was raised to this number.
    pub clock: Option<u64>,
    /// It did something else besides.
    pub has_others: bool,
}

impl Own {
    /// Takes note of a part.
    pub(crate) fn note(&mut self, part: &Part) {
        match part {
            Part::Source(_) => {}
            Part::Block(_) => self.has_others = true,
            Part::Statement(statement) => self.has_others |= !is_hidden(statement),
            Part::Rows(rows) if rows.table.database != DATABASE => self.has_others = true,
            Part::Rows(rows) if rows.table.name == DECISIONS && rows.kind == Kind::Insert => {
                let found = afters(rows).filter_map(|image| decision(&image)).last();
                self.decision = found.or(self.decision.take());
            }
            Part::Rows(rows) if rows.table.name == CLOCK => {
                let found = afters(rows).filter_map(|image| number(&image)).max();
                self.clock = found.max(self.clock);
            }
            Part::Rows(_) => {}
        }
    }
}

/// A statement of which nobody is told.
pub(crate) fn is_hidden(statement: &Statement) -> bool {
    is_harmless(&statement.text) || statement.database == DATABASE
}

/// The rows as they became. What cannot be read is left out: whoever tells the transaction says so.
fn afters(rows: &Rows) -> impl Iterator<Item = Image<'_>> {
    rows.changes().filter_map(|change| change.ok()?.after)
}

/// Of `(id, state, branches, at)`.
fn decision(image: &Image<'_>) -> Option<Decision> {
    let id = decided(image)?;
    match (image.get(1)?, image.get(2)?) {
        (Some(Cell::Enum(COMMIT)), Some(Cell::Bytes(groups))) => {
            let groups = std::str::from_utf8(groups).ok()?;
            let numbers = groups.split(',').filter_map(|it| it.parse().ok());
            Some(Decision {
                id,
                branches: numbers.collect(),
            })
        }
        _ => None,
    }
}

/// The transaction that a row of the table of decisions is about.
pub(crate) fn decided(image: &Image<'_>) -> Option<GlobalId> {
    match image.first()? {
        Some(Cell::Bytes(bytes)) => GlobalId::decode(bytes),
        _ => None,
    }
}

/// Of `(id, number)`.
fn number(image: &Image<'_>) -> Option<u64> {
    match image.get(1)? {
        Some(Cell::Integer(number)) => Some(*number as u64),
        _ => None,
    }
}

/// True for the row that says of its transaction that a move did it: rows change their group, and stay what they are.
pub(crate) fn is_of_move(rows: &Rows, after: &Image<'_>) -> bool {
    let is_move =
        |cell: &Cell<'_>| matches!(cell, Cell::Bytes(name) if name.starts_with(MOVE.as_bytes()));
    rows.table.name == HEARTBEATS
        && after
            .first()
            .is_some_and(|it| it.as_ref().is_some_and(is_move))
}

/// True for rows in which a decision may be.
pub(crate) fn may_decide(rows: &Rows) -> bool {
    rows.table.name == DECISIONS && rows.kind == Kind::Insert
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use farm::dist_txn::{Place, RouterLife};
    use farm::{Engine, ServerId};

    use super::*;
    use crate::table::table;

    fn of(name: &str, columns: &[u8], event: &[u8]) -> Own {
        let mut own = Own::default();
        own.note(&Part::Rows(rows(name, columns, event)));
        own
    }

    fn rows(name: &str, columns: &[u8], event: &[u8]) -> Rows {
        let mut data = vec![7, 0, 0, 0, 0, 0, 1, 0, 6];
        data.extend(b"heddle\0");
        data.push(u8::try_from(name.len()).expect("short"));
        data.extend(name.as_bytes());
        data.push(0);
        data.extend(columns);
        let (_, table) = table(&data, Engine::MySql).expect("a table map");
        let mut rows = vec![7, 0, 0, 0, 0, 0, 1, 0];
        rows.extend(event);
        Rows::of(23, &rows, Arc::new(table)).expect("an insert")
    }

    #[test]
    fn a_move_says_that_it_is_one() {
        let is_move = |name: &str, of: &str| {
            let mut event = vec![2, 3, 0, u8::try_from(of.len()).expect("short")];
            event.extend(of.as_bytes());
            event.extend(0_u64.to_le_bytes());
            // VARCHAR(64), BIGINT.
            let rows = rows(name, &[2, 15, 8, 2, 64, 0, 0], &event);
            let afters: Vec<_> = afters(&rows).collect();
            afters.iter().any(|after| is_of_move(&rows, after))
        };
        assert!(is_move("heartbeat", "move 8-4-4"));
        assert!(!is_move("heartbeat", "router") && !is_move("other", "move 8-4-4"));
    }

    #[test]
    fn the_clock_is_read() {
        let mut event = vec![2, 3, 0, 1, 0, 0, 0];
        event.extend(77_u64.to_le_bytes());
        let own = of("clock", &[2, 3, 8, 0, 0], &event);
        assert_eq!((own.clock, own.has_others), (Some(77), false));
    }

    #[test]
    fn decisions_name_their_branches() {
        let at = Place {
            server: ServerId(5),
            connection: 6,
        };
        let id = GlobalId {
            farm: 1,
            coordinator: 2,
            at_ms: 3,
            router: RouterLife {
                slot: 0,
                started_ms: 4,
            },
            sequence: 5,
            at,
        };
        for (state, is_one) in [(1, true), (2, false)] {
            let mut event = vec![3, 7, 0, 45];
            event.extend(id.encode());
            event.extend([state, 3]);
            event.extend(b"2,7");
            // VARBINARY(45), ENUM of one byte, VARCHAR(100).
            let columns = [3, 15, 254, 15, 6, 45, 0, 247, 1, 100, 0, 0];
            let own = of("mark", &columns, &event);
            let branches = own.decision.map(|it| (it.id, it.branches));
            assert_eq!(branches, is_one.then_some((id, vec![2, 7])));
        }
    }
}
