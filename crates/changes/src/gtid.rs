//! Names of transactions, positions that grow by them, and the events that tell them.

use std::fmt;

use farm::position::parse_domain;
use farm::{Engine, Last, Position};
use uuid::Uuid;

use crate::code;
use crate::table::Bytes;

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
    /// What an event of MySQL's begins, of either kind; `None` when it cannot be read.
    pub fn of_mysql(kind: u8, data: &[u8]) -> Option<Gtid> {
        match kind {
            code::GTID => untagged(data),
            code::GTID_TAGGED => tagged(data),
            _ => None,
        }
    }

    /// What an event of MariaDB's begins that this server logged; `None` when it cannot be read.
    pub fn of_mariadb(server_id: u32, data: &[u8]) -> Option<Gtid> {
        let mut rest = Bytes(data);
        let sequence = rest.number(8)?;
        let domain = u32::try_from(rest.number(4)?).ok()?;
        Some(Gtid::MariaDb {
            domain,
            server_id,
            sequence,
        })
    }

    /// Reads what [`Gtid`] is written as; `None` for anything else.
    pub fn parse(engine: Engine, text: &str) -> Option<Gtid> {
        if engine == Engine::MySql {
            let (source, number) = text.rsplit_once(':')?;
            let number = number.parse().ok()?;
            let uuid = source.split(':').next().unwrap_or_default();
            Uuid::parse_str(uuid).ok()?;
            let source = source.to_owned();
            return Some(Gtid::MySql { source, number });
        }
        let (domain, last) = parse_domain(text.as_bytes())?;
        Some(Gtid::MariaDb {
            domain,
            server_id: last.server_id,
            sequence: last.sequence,
        })
    }

    /// True when a server with this position has executed the transaction.
    pub fn is_in(&self, position: &Position) -> bool {
        match (self, position) {
            (
                Gtid::MariaDb {
                    domain, sequence, ..
                },
                Position::MariaDb(domains),
            ) => domains
                .get(*domain)
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

/// What a transaction of MariaDB is of an ALTER that is logged when it begins, and once more when it ends
/// (`binlog_alter_two_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlterStep {
    /// It has begun; whether it will count is not known.
    Begins,
    /// It counts. With the sequence number under which it began.
    Commits(u64),
    /// It never was. With the same number.
    RollsBack(u64),
}

/// What a GTID event of MariaDB's says of a transaction behind its name. What it does not say is `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GtidDetails {
    pub alter: Option<AlterStep>,
    /// The client's connection, which releases since 11.5 write.
    pub connection: Option<u32>,
}

impl GtidDetails {
    /// Reads an event; `None` when it ends too early.
    pub fn of_mariadb(data: &[u8]) -> Option<GtidDetails> {
        const SEQUENCE_AND_DOMAIN_BYTES: usize = 8 + 4;
        const HAS_COMMIT_ID: u64 = 2;
        /// It prepares a branch, or ends one, whose name follows.
        const HAS_XID: u64 = 64 | 128;
        /// A byte says how many engines more than one took part.
        const OF_ENGINES: u64 = 1;
        const BEGINS: u64 = 2;
        const COMMITS: u64 = 4;
        const ROLLS_BACK: u64 = 8;
        const CONNECTION: u64 = 16;
        let mut rest = Bytes(data);
        rest.take(SEQUENCE_AND_DOMAIN_BYTES)?;
        let flags = rest.number(1)?;
        if flags & HAS_COMMIT_ID != 0 {
            rest.take(8)?;
        }
        if flags & HAS_XID != 0 {
            rest.take(4)?;
            let bytes = rest.number(1)? + rest.number(1)?;
            rest.take(usize::try_from(bytes).ok()?)?;
        }
        // Older servers end here, or with zeros.
        let Some(more) = rest.number(1) else {
            return Some(GtidDetails::default());
        };
        if more & OF_ENGINES != 0 {
            rest.take(1)?;
        }
        let alter = match more & (BEGINS | COMMITS | ROLLS_BACK) {
            0 => None,
            BEGINS => Some(AlterStep::Begins),
            COMMITS => Some(AlterStep::Commits(rest.number(8)?)),
            ROLLS_BACK => Some(AlterStep::RollsBack(rest.number(8)?)),
            _ => return None,
        };
        let connection = match more & CONNECTION {
            0 => None,
            _ => u32::try_from(rest.number(4)?).ok(),
        };
        Some(GtidDetails {
            alter,
            // No connection has the number 0.
            connection: connection.filter(|it| *it > 0),
        })
    }
}

fn untagged(data: &[u8]) -> Option<Gtid> {
    let mut rest = Bytes(data.get(1..)?);
    let source = Uuid::from_slice(rest.take(16)?).ok()?.to_string();
    let number = rest.number(8)?;
    Some(Gtid::MySql { source, number })
}

/// A message of MySQL's serialization library: the library's version, the message's size, the last field
/// that a reader must know, and the fields in the order of their numbers, each behind its own. What
/// comes behind the tag is not looked at: later releases may add to it.
fn tagged(data: &[u8]) -> Option<Gtid> {
    const FLAGS: u64 = 0;
    const UUID: u64 = 1;
    const NUMBER: u64 = 2;
    const TAG: u64 = 3;
    let mut rest = Bytes(data);
    let _version = packed(&mut rest)?;
    let _bytes = packed(&mut rest)?;
    // A message with a field that nobody here knows and that counts is not read at all.
    let must_know = packed(&mut rest)?;
    let (mut source, mut number) = (None, None);
    loop {
        match packed(&mut rest)? {
            FLAGS => drop(packed(&mut rest)?),
            UUID => {
                let mut uuid = [0; 16];
                for byte in &mut uuid {
                    *byte = u8::try_from(packed(&mut rest)?).ok()?;
                }
                source = Some(Uuid::from_bytes(uuid));
            }
            // The lowest bit is the sign.
            NUMBER => {
                number = Some(packed(&mut rest)?)
                    .filter(|n| n & 1 == 0)
                    .map(|n| n >> 1)
            }
            TAG => {
                let bytes = usize::try_from(packed(&mut rest)?).ok()?;
                let tag = std::str::from_utf8(rest.take(bytes)?).ok()?;
                let source = source.filter(|_| must_know <= LAST_FIELD)?;
                let source = match tag {
                    "" => source.to_string(),
                    tag => format!("{source}:{tag}"),
                };
                let number = number?;
                return Some(Gtid::MySql { source, number });
            }
            _ => return None,
        }
    }
}

/// The last field of the message that 8.4 knows (its ticket of a group commit).
const LAST_FIELD: u64 = 11;

/// A number of MySQL's serialization library: as many ones at the low end of its first byte as there
/// are bytes behind it, a zero, and the number's bits; behind eight ones eight whole bytes.
fn packed(rest: &mut Bytes<'_>) -> Option<u64> {
    let first = *rest.0.first()?;
    match first.trailing_ones() {
        8 => {
            rest.take(1)?;
            rest.number(8)
        }
        more => {
            let bytes = more as usize + 1;
            Some(rest.number(bytes)? >> bytes)
        }
    }
}

/// Adds a number to intervals that are ascending and do not touch each other.
fn add(intervals: &mut Vec<(u64, u64)>, number: u64) {
    // Most come in their order.
    let at = intervals.partition_point(|(from, _)| *from <= number);
    let joins_before = at > 0 && intervals[at - 1].1.saturating_add(1) >= number;
    let joins_behind = intervals
        .get(at)
        .is_some_and(|(from, _)| *from == number.saturating_add(1));
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

    /// An event as a server writes it, made here by the layout in its manual; `behind` are the fields
    /// behind the tag.
    fn event(uuid: [u8; 16], number: u64, tag: &str, behind: &[u8]) -> Vec<u8> {
        fn pack(value: u64, out: &mut Vec<u8>) {
            let bits = 64 - value.leading_zeros().min(63);
            let bytes = (bits as usize).div_ceil(7);
            if bytes > 8 {
                out.push(0xFF);
                return out.extend(value.to_le_bytes());
            }
            let packed = value << bytes | ((1 << (bytes - 1)) - 1);
            out.extend(&packed.to_le_bytes()[..bytes]);
        }
        let mut fields = vec![0, 2, 2];
        uuid.iter()
            .for_each(|byte| pack(u64::from(*byte), &mut fields));
        pack(2, &mut fields);
        pack(number << 1, &mut fields);
        pack(3, &mut fields);
        pack(tag.len() as u64, &mut fields);
        fields.extend(tag.as_bytes());
        fields.extend(behind);
        let mut out = Vec::new();
        pack(1, &mut out);
        pack(fields.len() as u64 + 3, &mut out);
        pack(0, &mut out);
        out.extend(fields);
        out
    }

    const UUID: &str = "77d1902c-01da-11f1-9a41-908d6e5f6e8d";

    #[test]
    fn both_kinds_of_events_name_transactions() {
        let uuid = Uuid::parse_str(UUID).expect("a UUID").into_bytes();
        let name = |kind, data: &[u8]| Gtid::of_mysql(kind, data).map(|gtid| gtid.to_string());
        let mut plain = vec![1];
        plain.extend(uuid);
        plain.extend(5_u64.to_le_bytes());
        assert_eq!(name(code::GTID, &plain), Some(format!("{UUID}:5")));
        assert_eq!(name(code::GTID, &plain[..24]), None);
        for number in [1, 63, 64, 9000, 1 << 40, i64::MAX as u64 - 1] {
            let data = event(uuid, number, "test_tag", &[8, 0, 10, 4]);
            let told = name(code::GTID_TAGGED, &data);
            assert_eq!(told, Some(format!("{UUID}:test_tag:{number}")));
            let position = format!("{UUID}:test_tag:1-{number}");
            let position = Position::parse(Engine::MySql, &position).expect("a position");
            let gtid = Gtid::of_mysql(code::GTID_TAGGED, &data).expect("a GTID");
            assert!(gtid.is_in(&position));
            assert_eq!(Gtid::parse(Engine::MySql, &gtid.to_string()), Some(gtid));
        }
        let data = event(uuid, 7, "t", &[]);
        for end in 0..data.len() {
            assert_eq!(name(code::GTID_TAGGED, &data[..end]), None, "{end}");
        }
        let mut newer = data.clone();
        newer[2] = 12 << 1;
        assert_eq!(
            name(code::GTID_TAGGED, &newer),
            None,
            "a field that must be known"
        );
    }
}
