//! GTID positions of both engines: what was executed or is promised, and which of two holds more.

use std::collections::BTreeMap;
use std::fmt;

use crate::server::Engine;

/// What a server has executed, or what it must have executed to serve somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Per domain the last sequence number, and the id of the server that gave it away; in one
    /// domain the order is total.
    MariaDb(BTreeMap<u32, Last>),
    /// Per source (UUID, and tag if any) the executed intervals, ascending, both ends included.
    MySql(BTreeMap<String, Vec<(u64, u64)>>),
}

/// The last transaction of a MariaDB domain. Sequence numbers alone are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    pub server_id: u32,
    pub sequence: u64,
}

/// Intervals of one MySQL source that a position keeps apart when it grows by single transactions;
/// more are joined with what lies between them.
const INTERVALS_MAX: usize = 16;

impl Position {
    /// The position of a server that has executed nothing.
    pub fn empty(engine: Engine) -> Position {
        match engine {
            Engine::MariaDb => Position::MariaDb(BTreeMap::new()),
            Engine::MySql => Position::MySql(BTreeMap::new()),
        }
    }

    /// Reads `@@gtid_current_pos` (MariaDB) or `@@gtid_executed` (MySQL); `None` when malformed.
    pub fn parse(engine: Engine, text: &str) -> Option<Position> {
        let parts = text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty());
        match engine {
            Engine::MariaDb => {
                let mut domains = BTreeMap::new();
                for part in parts {
                    let mut numbers = part.split('-');
                    let domain = numbers.next()?.parse().ok()?;
                    let server_id = numbers.next()?.parse().ok()?;
                    let sequence = numbers.next()?.parse().ok()?;
                    if numbers.next().is_some() {
                        return None;
                    }
                    let last = Last {
                        server_id,
                        sequence,
                    };
                    domains.insert(domain, last);
                }
                Some(Position::MariaDb(domains))
            }
            Engine::MySql => parts
                .map(source)
                .collect::<Option<Vec<_>>>()
                .map(|sources| {
                    let mut all: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
                    for (name, intervals) in sources.into_iter().flatten() {
                        all.entry(name).or_default().extend(intervals);
                    }
                    all.values_mut()
                        .for_each(|intervals| *intervals = joined(intervals));
                    Position::MySql(all)
                }),
        }
    }

    /// True when nothing was executed.
    pub fn is_empty(&self) -> bool {
        match self {
            Position::MariaDb(domains) => domains.is_empty(),
            Position::MySql(sources) => sources.is_empty(),
        }
    }

    /// True when everything of `other` is in `self`. On MariaDB a sequence number stands for all
    /// before it in its domain, which `gtid_strict_mode` guarantees. Never true across engines.
    pub fn covers(&self, other: &Position) -> bool {
        match (self, other) {
            (Position::MariaDb(mine), Position::MariaDb(theirs)) => {
                theirs.iter().all(|(domain, last)| {
                    mine.get(domain)
                        .is_some_and(|have| have.sequence >= last.sequence)
                })
            }
            (Position::MySql(mine), Position::MySql(theirs)) => {
                theirs.iter().all(|(name, wanted)| {
                    mine.get(name).is_some_and(|have| {
                        wanted.iter().all(|&(from, to)| {
                            have.iter().any(|&(start, end)| start <= from && to <= end)
                        })
                    })
                })
            }
            _ => false,
        }
    }

    /// What both have.
    pub fn meet(&self, other: &Position) -> Position {
        match (self, other) {
            (Position::MariaDb(mine), Position::MariaDb(theirs)) => {
                let both = mine.iter().filter_map(|(domain, last)| {
                    let other = theirs.get(domain)?;
                    let least = match last.sequence <= other.sequence {
                        true => last,
                        false => other,
                    };
                    Some((*domain, *least))
                });
                Position::MariaDb(both.collect())
            }
            (Position::MySql(mine), Position::MySql(theirs)) => {
                let both = mine.iter().filter_map(|(name, mine)| {
                    let theirs = theirs.get(name)?;
                    let both = mine.iter().flat_map(|&(start, end)| {
                        let within = theirs
                            .iter()
                            .map(move |&(from, to)| (start.max(from), end.min(to)));
                        within.filter(|(from, to)| from <= to)
                    });
                    let both = joined(&both.collect::<Vec<_>>());
                    (!both.is_empty()).then(|| (name.clone(), both))
                });
                Position::MySql(both.collect())
            }
            (_, Position::MariaDb(_)) => Position::empty(Engine::MariaDb),
            (_, Position::MySql(_)) => Position::empty(Engine::MySql),
        }
    }

    /// Adds everything of `other`. A position of another engine replaces this one: it is of another
    /// group's servers, and nothing here can be compared with it. With many gaps the result may hold
    /// more than both, never less.
    pub fn join(&mut self, other: &Position) {
        match (&mut *self, other) {
            (Position::MariaDb(mine), Position::MariaDb(theirs)) => {
                for (domain, last) in theirs {
                    let have = mine.entry(*domain).or_insert(*last);
                    if have.sequence < last.sequence {
                        *have = *last;
                    }
                }
            }
            (Position::MySql(mine), Position::MySql(theirs)) => {
                for (name, intervals) in theirs {
                    match mine.get_mut(name) {
                        None => {
                            mine.insert(name.clone(), intervals.clone());
                        }
                        Some(have) => {
                            have.extend(intervals);
                            *have = joined(have);
                            bound(have);
                        }
                    }
                }
            }
            (mine, _) => *mine = other.clone(),
        }
    }
}

/// As the servers write it.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut first = true;
        let mut comma = |f: &mut fmt::Formatter<'_>| {
            let lead = if std::mem::take(&mut first) { "" } else { "," };
            f.write_str(lead)
        };
        match self {
            Position::MariaDb(domains) => {
                for (domain, last) in domains {
                    comma(f)?;
                    write!(f, "{domain}-{}-{}", last.server_id, last.sequence)?;
                }
            }
            Position::MySql(sources) => {
                for (name, intervals) in sources {
                    comma(f)?;
                    f.write_str(name)?;
                    for (from, to) in intervals {
                        if from == to {
                            write!(f, ":{from}")?;
                        } else {
                            write!(f, ":{from}-{to}")?;
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

/// Joins the closest intervals until there are few. On one source transactions are numbered without
/// gaps, so what lies between was executed before the later of the two.
fn bound(intervals: &mut Vec<(u64, u64)>) {
    while intervals.len() > INTERVALS_MAX {
        let gaps = intervals.windows(2).map(|pair| pair[1].0 - pair[0].1);
        let closest = gaps.enumerate().min_by_key(|(_, gap)| *gap);
        let Some((at, _)) = closest else { return };
        intervals[at].1 = intervals[at + 1].1;
        intervals.remove(at + 1);
    }
}

/// A name with the intervals that belong to it.
type Source = (String, Vec<(u64, u64)>);

/// One source of a MySQL set: `UUID:1-5:7`, or with tags `UUID:1-3:tag:4-5`.
fn source(part: &str) -> Option<Vec<Source>> {
    let mut words = part.split(':').map(str::trim);
    let uuid = words.next()?.to_ascii_lowercase();
    let mut sources: Vec<Source> = vec![(uuid.clone(), Vec::new())];
    for word in words {
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            let (from, to) = word.split_once('-').unwrap_or((word, word));
            let interval = (from.parse().ok()?, to.parse().ok()?);
            sources.last_mut()?.1.push(interval);
        } else {
            sources.push((format!("{uuid}:{}", word.to_ascii_lowercase()), Vec::new()));
        }
    }
    sources.retain(|(_, intervals)| !intervals.is_empty());
    Some(sources)
}

fn joined(intervals: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut sorted = intervals.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in sorted {
        match joined.last_mut() {
            Some(last) if from <= last.1.saturating_add(1) => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(engine: Engine, whole: &str, part: &str) -> bool {
        let read = |text| Position::parse(engine, text).expect("a position");
        read(whole).covers(&read(part))
    }

    #[test]
    fn mariadb_positions() {
        let m = Engine::MariaDb;
        assert!(covers(m, "0-1-5", "0-2-5"));
        assert!(covers(m, "0-1-5,1-1-2", "1-7-2"));
        assert!(!covers(m, "0-1-5", "0-1-6"));
        assert!(!covers(m, "0-1-5", "1-1-1"));
        assert!(covers(m, "", ""));
        assert!(!covers(m, "", "0-1-1"));
        assert_eq!(Position::parse(m, "0-1"), None);
        assert_eq!(Position::parse(m, "0-1-5-7"), None);
    }

    #[test]
    fn mysql_sets() {
        let m = Engine::MySql;
        let a = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        assert!(covers(
            m,
            &format!("{a}:1-5:6-9"),
            &format!("{}:2-8", a.to_uppercase())
        ));
        assert!(!covers(m, &format!("{a}:1-5:7-9"), &format!("{a}:4-7")));
        assert!(covers(m, &format!("{a}:1-5,\n{a}:6"), &format!("{a}:1-6")));
        assert!(covers(
            m,
            &format!("{a}:1-5:tag:1-3"),
            &format!("{a}:tag:2")
        ));
        assert!(!covers(
            m,
            &format!("{a}:1-5:tag:1-3"),
            &format!("{a}:tag:5")
        ));
        assert!(covers(m, &format!("{a}:1"), ""));
        assert_eq!(
            Position::parse(m, &format!("{a}:x-1")),
            Some(Position::MySql(BTreeMap::new()))
        );
        assert_eq!(Position::parse(m, &format!("{a}:1-x")), None);
    }

    #[test]
    fn positions_grow_and_are_written_as_servers_write_them() {
        let grown = |engine, parts: &[&str]| {
            let mut all = Position::empty(engine);
            for part in parts {
                all.join(&Position::parse(engine, part).expect("a position"));
            }
            all.to_string()
        };
        let m = Engine::MariaDb;
        assert_eq!(grown(m, &["0-1-5", "1-1-3", "0-2-4"]), "0-1-5,1-1-3");
        assert_eq!(grown(m, &["0-1-5", "0-2-7"]), "0-2-7");
        assert_eq!(grown(m, &[]), "");
        let a = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let mysql = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|p| format!("{a}:{p}")).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            grown(Engine::MySql, &parts)
        };
        assert_eq!(mysql(&["5", "7", "6"]), format!("{a}:5-7"));
        assert_eq!(mysql(&["5", "9-10"]), format!("{a}:5:9-10"));
    }

    #[test]
    fn a_set_with_many_gaps_is_bounded_and_never_promises_less() {
        let engine = Engine::MySql;
        let one = |n: u64| {
            let text = format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{n}");
            Position::parse(engine, &text).expect("a position")
        };
        let mut all = Position::empty(engine);
        (1..200).for_each(|n| all.join(&one(n * n)));
        assert!((1..200).all(|n| all.covers(&one(n * n))));
        assert!(!all.covers(&one(200 * 200)));
        let Position::MySql(sources) = &all else {
            panic!("a set")
        };
        assert!(sources.values().all(|held| held.len() <= INTERVALS_MAX));
    }

    #[test]
    fn what_two_positions_have_in_common() {
        let meet = |engine, one: &str, other: &str| {
            let read = |text| Position::parse(engine, text).expect("a position");
            read(one).meet(&read(other)).to_string()
        };
        let m = Engine::MariaDb;
        assert_eq!(
            meet(m, "0-1-5,1-1-9,3-1-1", "0-2-7,1-2-4,2-2-1"),
            "0-1-5,1-2-4"
        );
        assert_eq!(meet(m, "0-1-5", ""), "");
        let a = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let b = "4e11fa47-71ca-11e1-9e33-c80aa9429562";
        let (one, other) = (format!("{a}:3-9:12-20,{b}:1"), format!("{a}:1-4:8-13:30"));
        let both = format!("{a}:3-4:8-9:12-13");
        assert_eq!(meet(Engine::MySql, &one, &other), both);
        assert_eq!(meet(Engine::MySql, &one, &format!("{a}:10")), "");
    }

    #[test]
    fn engines_do_not_compare() {
        let empty = |engine| Position::parse(engine, "").expect("a position");
        assert!(!empty(Engine::MySql).covers(&empty(Engine::MariaDb)));
    }
}
