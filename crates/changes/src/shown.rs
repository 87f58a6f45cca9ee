//! How much of its binlog a server shows to those who read its tables.
//!
//! A transaction is in the binlog before its changes are seen: between the two the server may wait for
//! a replica. MySQL counts a transaction as executed when it is seen. MariaDB does so when it is
//! written; what is seen it tells to a transaction with a snapshot, as a place in its binlog.

use farm::Position;

use crate::Gtid;

/// What a server shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// Everything before this place, where a transaction ends: the binlog's file, and the bytes in it.
    Until(String, u64),
    Executed(Position),
}

impl Shown {
    /// What MariaDB says of its snapshot: the rows of `SHOW STATUS LIKE 'binlog\_snapshot\_%'`. `None`: it has no
    /// binlog.
    pub fn of_snapshot<'r>(rows: impl Iterator<Item = (&'r str, &'r str)>) -> Option<Shown> {
        let (mut file, mut bytes) = (String::new(), 0);
        for (name, value) in rows {
            match name.to_ascii_lowercase().as_str() {
                "binlog_snapshot_file" => file = value.to_owned(),
                "binlog_snapshot_position" => bytes = value.parse().unwrap_or(0),
                _ => {}
            }
        }
        (!file.is_empty()).then_some(Shown::Until(file, bytes))
    }

    /// True when a transaction is among what is shown; `place` is where it ends in the binlog.
    pub fn has(&self, gtid: &Gtid, place: (&str, u64)) -> bool {
        match self {
            Shown::Until(file, bytes) => place <= (file.as_str(), *bytes),
            Shown::Executed(position) => gtid.is_in(position),
        }
    }

    /// The same of a transaction whose end has not been read; `place` is where it begins.
    pub fn has_from(&self, gtid: &Gtid, place: (&str, u64)) -> bool {
        match self {
            Shown::Until(file, bytes) => place < (file.as_str(), *bytes),
            Shown::Executed(position) => gtid.is_in(position),
        }
    }

    /// True when a reader has read all that is shown: up to `place`, which is `position`.
    pub fn is_read(&self, position: &Position, place: (&str, u64)) -> bool {
        match self {
            Shown::Until(file, bytes) => place >= (file.as_str(), *bytes),
            Shown::Executed(shown) => position.covers(shown),
        }
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    #[test]
    fn places_are_compared_by_file_first() {
        let gtid = Gtid::MariaDb {
            domain: 0,
            server_id: 1,
            sequence: 5,
        };
        let said = [
            ("Binlog_snapshot_file", "b.000002"),
            ("Binlog_snapshot_position", "100"),
        ];
        let shown = Shown::of_snapshot(said.into_iter()).expect("a place");
        assert!(shown.has(&gtid, ("b.000002", 100)) && shown.has(&gtid, ("b.000001", 900)));
        assert!(!shown.has(&gtid, ("b.000002", 101)) && !shown.has(&gtid, ("b.000003", 4)));
        let anywhere = Position::empty(Engine::MariaDb);
        assert!(shown.is_read(&anywhere, ("b.000003", 4)));
        assert!(!shown.is_read(&anywhere, ("b.000002", 99)));
        assert_eq!(
            Shown::of_snapshot([("Binlog_snapshot_file", "")].into_iter()),
            None
        );
    }

    #[test]
    fn what_begins_where_the_shown_part_ends_is_not_shown() {
        let gtid = Gtid::MariaDb {
            domain: 0,
            server_id: 1,
            sequence: 5,
        };
        let shown = Shown::Until("b.000002".to_owned(), 100);
        assert!(
            shown.has_from(&gtid, ("b.000002", 99)) && shown.has_from(&gtid, ("b.000001", 900))
        );
        assert!(!shown.has_from(&gtid, ("b.000002", 100)));
        let mut position = Position::empty(Engine::MariaDb);
        assert!(!Shown::Executed(position.clone()).has_from(&gtid, ("", 0)));
        gtid.add_to(&mut position);
        assert!(Shown::Executed(position).has_from(&gtid, ("", 0)));
    }
}
