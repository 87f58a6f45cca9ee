//! What `/metrics` shows of statements: how long they took by kind, group and door, and their errors by number.
//!
//! Each core has its own cells, written by it alone and read by anybody, so nothing waits. The number of series is
//! bounded: six kinds, two doors, [`GROUPS_MAX`] groups, and [`NUMBERS_MAX`] numbers of errors.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counts::Call;
use crate::exemplars::Exemplars;
use crate::histogram::{BUCKETS, bucket};
use crate::slow::SlowQueue;
use crate::trace::TraceQueue;

/// Errors of so many numbers are told apart on a core.
const NUMBERS_MAX: usize = 64;

/// Groups of so many names are told apart on a core; those that come later are counted together.
pub(crate) const GROUPS_MAX: usize = 32;

/// As what these are counted.
const OTHER_GROUPS: &str = "other";

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    Ddl,
    /// BEGIN, COMMIT, ROLLBACK, savepoints.
    Transaction,
    Call,
    Other,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Read,
        Kind::Write,
        Kind::Ddl,
        Kind::Transaction,
        Kind::Call,
        Kind::Other,
    ];

    /// As metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Ddl => "ddl",
            Kind::Transaction => "transaction",
            Kind::Call => "call",
            Kind::Other => "other",
        }
    }
}

/// What a statement came through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Sql,
    /// A door whose requests Heddle makes statements of.
    Keys,
}

impl Door {
    /// All of them.
    pub const ALL: [Door; 2] = [Door::Sql, Door::Keys];

    /// As metrics have it.
    pub fn name(self) -> &'static str {
        match self {
            Door::Sql => "sql",
            Door::Keys => "kv",
        }
    }
}

/// Times of one kind of statement through one door, and what it sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// How many fell into each bucket.
    pub times: [u64; BUCKETS],
    /// The same of the waiting alone.
    pub waits: [u64; BUCKETS],
    pub total_us: u64,
    pub waiting_us: u64,
    /// To clients.
    pub rows: u64,
    pub bytes: u64,
}

#[derive(Debug)]
struct Cells {
    times: [AtomicU64; BUCKETS],
    waits: [AtomicU64; BUCKETS],
    total_us: AtomicU64,
    waiting_us: AtomicU64,
    rows: AtomicU64,
    bytes: AtomicU64,
}

impl Cells {
    const fn new() -> Cells {
        Cells {
            times: [const { AtomicU64::new(0) }; BUCKETS],
            waits: [const { AtomicU64::new(0) }; BUCKETS],
            total_us: AtomicU64::new(0),
            waiting_us: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

/// Errors of one number; 0 while there is none.
#[derive(Debug)]
struct Errors {
    number: AtomicU64,
    count: AtomicU64,
}

/// What one core counts of one group.
#[derive(Debug)]
struct OfGroup {
    name: Box<str>,
    cells: [[Cells; Door::ALL.len()]; Kind::ALL.len()],
}

impl OfGroup {
    fn new(name: &str) -> Box<OfGroup> {
        Box::new(OfGroup {
            name: name.into(),
            cells: [const { [const { Cells::new() }; Door::ALL.len()] }; Kind::ALL.len()],
        })
    }
}

/// What one core counts. Only its thread may call [`OfCore::add`].
#[derive(Debug)]
pub struct OfCore {
    /// In the order in which they came; the last place is that of all others.
    groups: [OnceLock<Box<OfGroup>>; GROUPS_MAX + 1],
    errors: [Errors; NUMBERS_MAX],
    other_errors: AtomicU64,
}

/// Adds to a cell that nobody else writes to.
#[inline]
fn add(cell: &AtomicU64, count: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(count), Relaxed);
}

impl OfCore {
    fn new() -> OfCore {
        OfCore {
            groups: [const { OnceLock::new() }; GROUPS_MAX + 1],
            errors: [const {
                Errors {
                    number: AtomicU64::new(0),
                    count: AtomicU64::new(0),
                }
            }; NUMBERS_MAX],
            other_errors: AtomicU64::new(0),
        }
    }

    /// Counts a statement. `group`: where it ran; empty where no server was asked.
    #[inline]
    pub fn add(&self, kind: Kind, door: Door, group: &str, call: &Call) {
        let cells = &self.of_group(group).cells[kind as usize][door as usize];
        let total_us = call.total_us();
        add(&cells.times[bucket(total_us)], 1);
        add(&cells.waits[bucket(call.waiting_us)], 1);
        add(&cells.total_us, total_us);
        add(&cells.waiting_us, call.waiting_us);
        add(&cells.rows, call.rows_sent);
        add(&cells.bytes, call.bytes);
        if let Some(number) = call.error {
            self.add_error(u64::from(number));
        }
    }

    #[inline]
    fn of_group(&self, name: &str) -> &OfGroup {
        let (others, own) = (&self.groups[GROUPS_MAX], &self.groups[..GROUPS_MAX]);
        for place in own {
            let group = place.get_or_init(|| OfGroup::new(name));
            if *group.name == *name {
                return group;
            }
        }
        others.get_or_init(|| OfGroup::new(OTHER_GROUPS))
    }

    /// The groups that were counted apart.
    fn known(&self) -> impl Iterator<Item = &OfGroup> {
        self.groups
            .iter()
            .filter_map(|place| place.get().map(|it| &**it))
    }

    #[cold]
    fn add_error(&self, number: u64) {
        for errors in &self.errors {
            match errors.number.load(Relaxed) {
                0 => errors.number.store(number, Relaxed),
                known if known == number => {}
                _ => continue,
            }
            return add(&errors.count, 1);
        }
        add(&self.other_errors, 1);
    }
}

/// What all cores count, and where their slow statements go.
#[derive(Debug)]
pub struct Measured {
    cores: Vec<OfCore>,
    /// `None` where nobody writes them down.
    pub slow: Option<SlowQueue>,
    /// Where traced statements go; `None` where nobody exports them.
    pub traces: Option<TraceQueue>,
    /// Traced statements that stand for others of their histogram's buckets.
    pub exemplars: Exemplars,
}

impl Measured {
    /// Of so many cores.
    pub fn new(cores: usize, slow: Option<SlowQueue>) -> Measured {
        Measured {
            cores: (0..cores).map(|_| OfCore::new()).collect(),
            slow,
            traces: None,
            exemplars: Exemplars::default(),
        }
    }

    /// The same with somebody who exports traced statements.
    pub fn traced(self, traces: Option<TraceQueue>) -> Measured {
        Measured { traces, ..self }
    }

    /// The part of one core.
    pub fn of_core(&self, core: usize) -> Option<&OfCore> {
        self.cores.get(core)
    }

    /// The groups whose statements were counted, in the order of names.
    pub fn groups(&self) -> BTreeSet<&str> {
        let all = self.cores.iter().flat_map(OfCore::known);
        all.map(|group| &*group.name).collect()
    }

    /// The times of a kind through a door on a group, over all cores.
    pub fn latency(&self, kind: Kind, door: Door, group: &str) -> Latency {
        let mut sum = Latency {
            times: [0; BUCKETS],
            waits: [0; BUCKETS],
            total_us: 0,
            waiting_us: 0,
            rows: 0,
            bytes: 0,
        };
        let all = self.cores.iter().flat_map(OfCore::known);
        for of_group in all.filter(|it| *it.name == *group) {
            let cells = &of_group.cells[kind as usize][door as usize];
            let join = |into: &mut [u64; BUCKETS], of: &[AtomicU64; BUCKETS]| {
                for (sum, cell) in into.iter_mut().zip(of) {
                    *sum += cell.load(Relaxed);
                }
            };
            join(&mut sum.times, &cells.times);
            join(&mut sum.waits, &cells.waits);
            sum.total_us += cells.total_us.load(Relaxed);
            sum.waiting_us += cells.waiting_us.load(Relaxed);
            sum.rows += cells.rows.load(Relaxed);
            sum.bytes += cells.bytes.load(Relaxed);
        }
        sum
    }

    /// The errors that clients were told, by number; under 0 those of further numbers.
    pub fn errors(&self) -> BTreeMap<u64, u64> {
        let mut sum = BTreeMap::new();
        for core in &self.cores {
            for errors in &core.errors {
                let count = errors.count.load(Relaxed);
                if count > 0 {
                    *sum.entry(errors.number.load(Relaxed)).or_insert(0) += count;
                }
            }
            let others = core.other_errors.load(Relaxed);
            if others > 0 {
                *sum.entry(0).or_insert(0) += others;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_add_up() {
        let measured = Measured::new(2, None);
        let call = Call {
            waiting_us: 10,
            server_us: 90,
            error: Some(1062),
            rows_sent: 3,
            bytes: 50,
            ..Call::default()
        };
        for core in 0..2 {
            let core = measured.of_core(core).expect("there are two");
            core.add(Kind::Write, Door::Sql, "g1", &call);
        }
        let told = measured.latency(Kind::Write, Door::Sql, "g1");
        assert_eq!((told.times[bucket(100)], told.waits[bucket(10)]), (2, 2));
        assert_eq!((told.total_us, told.waiting_us), (200, 20));
        assert_eq!((told.rows, told.bytes), (6, 100));
        for (door, group) in [(Door::Keys, "g1"), (Door::Sql, "g2")] {
            assert_eq!(measured.latency(Kind::Write, door, group).total_us, 0);
        }
        assert_eq!(measured.errors(), BTreeMap::from([(1062, 2)]));
        assert!(measured.of_core(2).is_none());
    }

    #[test]
    fn numbers_of_errors_are_bounded() {
        let measured = Measured::new(1, None);
        let core = measured.of_core(0).expect("there is one");
        for number in 1..=100 {
            let error = Some(1000 + number);
            core.add(
                Kind::Read,
                Door::Sql,
                "",
                &Call {
                    error,
                    ..Call::default()
                },
            );
        }
        let errors = measured.errors();
        assert_eq!(errors.len(), NUMBERS_MAX + 1);
        assert_eq!(errors[&0], 36);
    }

    #[test]
    fn groups_are_told_apart_up_to_a_bound() {
        let measured = Measured::new(2, None);
        let call = Call {
            server_us: 5,
            ..Call::default()
        };
        for core in 0..2 {
            let core = measured.of_core(core).expect("there are two");
            for number in 0..GROUPS_MAX + 3 {
                core.add(Kind::Read, Door::Sql, &format!("g{number}"), &call);
            }
            core.add(Kind::Read, Door::Sql, "g0", &call);
        }
        assert_eq!(measured.groups().len(), GROUPS_MAX + 1);
        let us = |group| measured.latency(Kind::Read, Door::Sql, group).total_us;
        assert_eq!((us("g0"), us("g1"), us(OTHER_GROUPS)), (20, 10, 30));
        let last = format!("g{GROUPS_MAX}");
        assert_eq!(us(&last), 0, "it is one of the others");
    }
}
