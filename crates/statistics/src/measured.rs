//! What `/metrics` shows of statements: how long they took by kind and door, and their errors by number.
//!
//! Each core has its own cells, written by it alone and read by anybody, so nothing waits. The number of series is
//! bounded: six kinds, two doors, and [`NUMBERS_MAX`] numbers of errors.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::counts::Call;
use crate::histogram::{BUCKETS, bucket};
use crate::slow::SlowQueue;
use crate::trace::TraceQueue;

/// Errors of so many numbers are told apart on a core.
const NUMBERS_MAX: usize = 64;

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

/// Times of one kind of statement through one door.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// How many fell into each bucket.
    pub times: [u64; BUCKETS],
    /// The same of the waiting alone.
    pub waits: [u64; BUCKETS],
    pub total_us: u64,
    pub waiting_us: u64,
}

#[derive(Debug)]
struct Cells {
    times: [AtomicU64; BUCKETS],
    waits: [AtomicU64; BUCKETS],
    total_us: AtomicU64,
    waiting_us: AtomicU64,
}

impl Cells {
    const fn new() -> Cells {
        Cells {
            times: [const { AtomicU64::new(0) }; BUCKETS],
            waits: [const { AtomicU64::new(0) }; BUCKETS],
            total_us: AtomicU64::new(0),
            waiting_us: AtomicU64::new(0),
        }
    }
}

/// Errors of one number; 0 while there is none.
#[derive(Debug)]
struct Errors {
    number: AtomicU64,
    count: AtomicU64,
}

/// What one core counts. Only its thread may call [`OfCore::add`].
#[derive(Debug)]
pub struct OfCore {
    cells: [[Cells; Door::ALL.len()]; Kind::ALL.len()],
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
            cells: [const { [const { Cells::new() }; Door::ALL.len()] }; Kind::ALL.len()],
            errors: [const {
                Errors {
                    number: AtomicU64::new(0),
                    count: AtomicU64::new(0),
                }
            }; NUMBERS_MAX],
            other_errors: AtomicU64::new(0),
        }
    }

    /// Counts a statement.
    #[inline]
    pub fn add(&self, kind: Kind, door: Door, call: &Call) {
        let cells = &self.cells[kind as usize][door as usize];
        let total_us = call.total_us();
        add(&cells.times[bucket(total_us)], 1);
        add(&cells.waits[bucket(call.waiting_us)], 1);
        add(&cells.total_us, total_us);
        add(&cells.waiting_us, call.waiting_us);
        if let Some(number) = call.error {
            self.add_error(u64::from(number));
        }
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
}

impl Measured {
    /// Of so many cores.
    pub fn new(cores: usize, slow: Option<SlowQueue>) -> Measured {
        Measured {
            cores: (0..cores).map(|_| OfCore::new()).collect(),
            slow,
            traces: None,
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

    /// The times of a kind through a door, over all cores.
    pub fn latency(&self, kind: Kind, door: Door) -> Latency {
        let mut sum = Latency {
            times: [0; BUCKETS],
            waits: [0; BUCKETS],
            total_us: 0,
            waiting_us: 0,
        };
        for core in &self.cores {
            let cells = &core.cells[kind as usize][door as usize];
            let join = |into: &mut [u64; BUCKETS], of: &[AtomicU64; BUCKETS]| {
                for (sum, cell) in into.iter_mut().zip(of) {
                    *sum += cell.load(Relaxed);
                }
            };
            join(&mut sum.times, &cells.times);
            join(&mut sum.waits, &cells.waits);
            sum.total_us += cells.total_us.load(Relaxed);
            sum.waiting_us += cells.waiting_us.load(Relaxed);
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
            ..Call::default()
        };
        for core in 0..2 {
            let core = measured.of_core(core).expect("there are two");
            core.add(Kind::Write, Door::Sql, &call);
        }
        let told = measured.latency(Kind::Write, Door::Sql);
        assert_eq!((told.times[bucket(100)], told.waits[bucket(10)]), (2, 2));
        assert_eq!((told.total_us, told.waiting_us), (200, 20));
        assert_eq!(measured.latency(Kind::Write, Door::Keys).total_us, 0);
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
}
