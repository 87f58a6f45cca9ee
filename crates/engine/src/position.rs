//! Executed GTID positions of both engines, and which of two holds more.

use std::collections::BTreeMap;

use farm::Engine;

/// What a server has executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Per domain the last sequence number; in one domain the order is total.
    MariaDb(BTreeMap<u32, u64>),
    /// Per source (UUID, and tag if any) the executed intervals, ascending, both ends included.
    MySql(BTreeMap<String, Vec<(u64, u64)>>),
}

impl Position {
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
                    let _server_id: u32 = numbers.next()?.parse().ok()?;
                    let sequence = numbers.next()?.parse().ok()?;
                    if numbers.next().is_some() {
                        return None;
                    }
                    domains.insert(domain, sequence);
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
            (Position::MariaDb(mine), Position::MariaDb(theirs)) => theirs
                .iter()
                .all(|(domain, sequence)| mine.get(domain).is_some_and(|have| have >= sequence)),
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
    fn engines_do_not_compare() {
        let empty = |engine| Position::parse(engine, "").expect("a position");
        assert!(!empty(Engine::MySql).covers(&empty(Engine::MariaDb)));
    }
}
