//! GTID positions of both engines: what was executed or is promised, and which of two holds more.
//!
//! Job: sets of GTIDs and their order; the token that carries them between connections ([`token`]); how far each
//! server has come ([`freshness`]).
//!
//! Invariants: positions of two engines are never compared; neither covers the other.
//!
//! Must not know: how a position is asked for, clocks.

mod domains;
pub mod freshness;
mod gtid_set;
pub mod token;

use std::fmt;

pub use domains::Domains;
use gtid_set::Sources;

use crate::server::Engine;

/// What a server has executed, or what it must have executed to serve somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// Per domain the last sequence number, and the id of the server that gave it away; in one
    /// domain the order is total.
    MariaDb(Domains),
    /// Per source (UUID, and tag if any) the executed intervals, ascending, both ends included, none
    /// of them touching another.
    MySql(Sources),
}

/// The last transaction of a MariaDB domain. Sequence numbers alone are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Last {
    pub server_id: u32,
    pub sequence: u64,
}

/// MariaDB's `domain-server-sequence`: the domain, and the transaction in it; `None` for anything else.
pub fn parse_domain(text: &[u8]) -> Option<(u32, Last)> {
    let (domain, rest) = number(text)?;
    let (server_id, rest) = number(rest.strip_prefix(b"-")?)?;
    let (sequence, rest) = number(rest.strip_prefix(b"-")?)?;
    let last = Last {
        server_id: u32::try_from(server_id).ok()?,
        sequence,
    };
    let domain = u32::try_from(domain).ok()?;
    rest.is_empty().then_some((domain, last))
}

/// The same with commas between.
fn parse_domains(text: &[u8]) -> Option<Domains> {
    // What a commit reports is one.
    if let Some(one) = parse_domain(text) {
        return Some(Domains::from_iter([one]));
    }
    let parts = text.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    let mut domains = Domains::default();
    for part in parts.filter(|part| !part.is_empty()) {
        let (domain, last) = parse_domain(part)?;
        domains.insert(domain, last);
    }
    Some(domains)
}

/// So many digits are no more than 64 bits hold.
const DIGITS_SURE: usize = 19;

/// The number in decimal digits at the front, and what stands behind it.
#[inline]
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let (mut number, mut at) = (0u64, 0);
    while let Some(digit @ b'0'..=b'9') = text.get(at) {
        let digit = u64::from(digit - b'0');
        number = match at < DIGITS_SURE {
            true => number * 10 + digit,
            false => number.checked_mul(10)?.checked_add(digit)?,
        };
        at += 1;
    }
    (at > 0).then_some((number, &text[at..]))
}

/// So many intervals of one MySQL source are left as they are.
const INTERVALS_FEW: usize = 16;

impl Position {
    /// The position of a server that has executed nothing.
    pub fn empty(engine: Engine) -> Position {
        match engine {
            Engine::MariaDb => Position::MariaDb(Domains::default()),
            Engine::MySql => Position::MySql(Sources::new()),
        }
    }

    /// Reads `@@gtid_current_pos` (MariaDB) or `@@gtid_executed` (MySQL); `None` when malformed.
    pub fn parse(engine: Engine, text: &str) -> Option<Position> {
        Position::read(engine, text.as_bytes())
    }

    /// The same of bytes as a server sends them. Each commit reports one.
    pub fn read(engine: Engine, bytes: &[u8]) -> Option<Position> {
        match engine {
            Engine::MariaDb => parse_domains(bytes).map(Position::MariaDb),
            Engine::MySql => gtid_set::parse(std::str::from_utf8(bytes).ok()?).map(Position::MySql),
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
            (Position::MariaDb(mine), Position::MariaDb(theirs)) => mine.covers(theirs),
            (Position::MySql(mine), Position::MySql(theirs)) => gtid_set::covers(mine, theirs),
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
                    Some((domain, *least))
                });
                Position::MariaDb(both.collect())
            }
            (Position::MySql(mine), Position::MySql(theirs)) => {
                Position::MySql(gtid_set::meet(mine, theirs))
            }
            (_, Position::MariaDb(_)) => Position::empty(Engine::MariaDb),
            (_, Position::MySql(_)) => Position::empty(Engine::MySql),
        }
    }

    /// Adds everything of `other`, and nothing else. A position of another engine replaces this one: it
    /// is of another group's servers, and nothing here can be compared with it.
    pub fn join(&mut self, other: &Position) {
        match (&mut *self, other) {
            (Position::MariaDb(mine), Position::MariaDb(theirs)) => mine.join(theirs),
            (Position::MySql(mine), Position::MySql(theirs)) => gtid_set::join(mine, theirs),
            (mine, _) => *mine = other.clone(),
        }
    }

    /// There may be gaps in it, which [`Position::join_among`] closes; on MariaDB there are none.
    pub fn may_have_gaps(&self) -> bool {
        matches!(self, Position::MySql(_))
    }

    /// Adds everything of `other` to what somebody needs who writes now and then among others: with
    /// every write there would be one more gap. Where there are many, those are closed that `executed`
    /// fills, which is what the server of these writes has executed. So nothing is ever needed that never
    /// happened: numbers may be left out for good, where a client chose its own, or another tag.
    pub fn join_among(&mut self, other: &Position, executed: Option<&Position>) {
        self.join(other);
        if let (Position::MySql(mine), Some(Position::MySql(executed))) = (self, executed) {
            // Gaps of which nothing is known yet are looked at again when there are some more.
            let many = |held: &Vec<_>| {
                held.len() >= INTERVALS_FEW && held.len().is_multiple_of(INTERVALS_FEW)
            };
            if mine.values().any(many) {
                gtid_set::close_gaps(mine, executed);
            }
        }
    }
}

/// As the servers write it.
impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::MariaDb(domains) => {
                for (at, (domain, last)) in domains.iter().enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma}{domain}-{}-{}", last.server_id, last.sequence)?;
                }
                Ok(())
            }
            Position::MySql(sources) => gtid_set::write(sources, f),
        }
    }
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
        assert_eq!(Position::parse(m, "0-1-"), None);
        assert_eq!(Position::parse(m, "4294967296-1-5"), None);
        assert_eq!(Position::parse(m, "0-1-18446744073709551616"), None);
        assert_eq!(Position::parse(m, "0-1-99999999999999999999"), None);
        assert_eq!(Position::parse(m, "0-1-9999999999999999999x"), None);
        assert!(Position::parse(m, " 4294967295-1-18446744073709551615, ").is_some());
        assert_eq!(Position::read(m, b"0-1-\xff"), None);
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
    fn what_is_needed_stays_short_and_holds_only_what_happened() {
        let a = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
        let set = |text: &str| {
            let text = text.replace('$', a);
            Position::parse(Engine::MySql, &text).expect("a position")
        };
        let held = |position: &Position| match position {
            Position::MySql(sources) => sources.values().map(Vec::len).sum::<usize>(),
            Position::MariaDb(_) => 0,
        };
        // Every second transaction is somebody else's; nobody ever gives away the numbers 500 to 599.
        let executed = set("$:1-499:600-2000");
        let mut needed = set("");
        for number in (1..500).chain(600..2000).step_by(2) {
            let one = set(&format!("$:{number}"));
            needed.join_among(&one, Some(&executed));
            assert!(needed.covers(&one));
            assert!(held(&needed) <= INTERVALS_FEW);
        }
        assert!(executed.covers(&needed));
        // The primary's position may be an old one, or not known.
        let mut needed = set("");
        let old = set("$:1-100");
        (1..200).for_each(|n| needed.join_among(&set(&format!("$:{}", n * 2)), Some(&old)));
        assert!(!needed.covers(&set("$:101")) && needed.covers(&set("$:398")));
        let exact = needed.clone();
        needed.join(&set("$:tag:5"));
        assert!(!exact.covers(&needed) && needed.covers(&exact));
        assert!(!set("$:1-9").covers(&set("$:tag:5")) && !set("$:tag:1-9").covers(&set("$:5")));
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
