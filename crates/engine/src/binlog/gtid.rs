//! Names of transactions, and positions that grow by them.

use std::fmt;

use farm::{Last, Position};

/// A transaction's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Gtid {
    MariaDb {
        domain: u32,
        server_id: u32,
        sequence: u64,
    },
    MySql {
        /// Its UUID, and its tag behind a colon if it has one.
        source: String,
        number: u64,
    },
}

impl fmt::Display for Gtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Gtid::MariaDb {
                domain,
                server_id,
                sequence,
            } => write!(f, "{domain}-{server_id}-{sequence}"),
            Gtid::MySql { source, number } => write!(f, "{source}:{number}"),
        }
    }
}

impl Gtid {
    /// True when a server with this position has executed the transaction.
    pub fn is_in(&self, position: &Position) -> bool {
        match (self, position) {
            (
                Gtid::MariaDb {
                    domain, sequence, ..
                },
                Position::MariaDb(domains),
            ) => domains
                .get(domain)
                .is_some_and(|last| last.sequence >= *sequence),
            (Gtid::MySql { source, number }, Position::MySql(sources)) => {
                sources.get(source).is_some_and(|intervals| {
                    intervals
                        .iter()
                        .any(|(from, to)| (from..=to).contains(&number))
                })
            }
            _ => false,
        }
    }

    /// Adds the transaction to a position, which says exactly that afterwards.
    pub fn add_to(&self, position: &mut Position) {
        match (self, position) {
            (
                Gtid::MariaDb {
                    domain,
                    server_id,
                    sequence,
                },
                Position::MariaDb(domains),
            ) => {
                let last = Last {
                    server_id: *server_id,
                    sequence: *sequence,
                };
                domains.insert(*domain, last);
            }
            (Gtid::MySql { source, number }, Position::MySql(sources)) => {
                match sources.get_mut(source) {
                    Some(intervals) => add(intervals, *number),
                    None => drop(sources.insert(source.clone(), vec![(*number, *number)])),
                }
            }
            _ => {}
        }
    }
}

/// Adds a number to intervals that are ascending and do not touch each other.
fn add(intervals: &mut Vec<(u64, u64)>, number: u64) {
    // Most come in their order.
    let at = intervals.partition_point(|(from, _)| *from <= number);
    let joins_before = at > 0 && intervals[at - 1].1 + 1 >= number;
    let joins_behind = intervals
        .get(at)
        .is_some_and(|(from, _)| *from == number + 1);
    match (joins_before, joins_behind) {
        (true, true) => {
            intervals[at - 1].1 = intervals[at].1;
            intervals.remove(at);
        }
        (true, false) => intervals[at - 1].1 = intervals[at - 1].1.max(number),
        (false, true) => intervals[at].0 = number,
        (false, false) => intervals.insert(at, (number, number)),
    }
}

#[cfg(test)]
mod tests {
    use farm::Engine;

    use super::*;

    #[test]
    fn positions_grow_by_what_was_executed_and_no_more() {
        let mut position = Position::empty(Engine::MySql);
        for number in [5, 1, 2, 4, 9, 8, 3] {
            let gtid = Gtid::MySql {
                source: "u".to_owned(),
                number,
            };
            assert!(!gtid.is_in(&position), "{number}");
            gtid.add_to(&mut position);
            assert!(gtid.is_in(&position), "{number}");
        }
        assert_eq!(position.to_string(), "u:1-5:8-9");
        let mut position = Position::empty(Engine::MariaDb);
        let gtid = Gtid::MariaDb {
            domain: 1,
            server_id: 2,
            sequence: 7,
        };
        gtid.add_to(&mut position);
        assert!(gtid.is_in(&position));
        assert_eq!(position.to_string(), "1-2-7");
    }
}
