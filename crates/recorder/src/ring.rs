//! Writing: the ring of a thread.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::format::{HEAD_WORDS, Head, KIND_RING, RECORD_WORDS, check};
use crate::step::Step;

/// What a ring says of itself.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    /// Or [`crate::CONTROL`].
    pub core: u32,
    pub process: u32,
    /// When the clock that [`install`] is given was 0: in microseconds since 1970.
    pub origin_us: u64,
}

/// The bytes of a ring for so many records.
pub fn bytes_of(records: u64) -> u64 {
    (HEAD_WORDS + RECORD_WORDS * records as usize) as u64 * 8
}

/// A record's words.
type Record = [AtomicU64; RECORD_WORDS];

struct Writer {
    records: Cell<&'static [Record]>,
    /// Where the next record goes.
    at: Cell<usize>,
    /// Its number.
    number: Cell<u64>,
    clock: Cell<fn() -> u64>,
}

thread_local! {
    static WRITER: Writer = const {
        Writer {
            records: Cell::new(&[]),
            at: Cell::new(0),
            number: Cell::new(1),
            clock: Cell::new(|| 0),
        }
    };
}

/// The steps of this thread go to `words` from now on, which have [`bytes_of`] bytes and hold nothing yet. `clock` gives
/// microseconds; the cheaper it is, the cheaper is a step.
pub fn install(words: &'static [AtomicU64], ring: Ring, clock: fn() -> u64) {
    let Some((head, body)) = words.split_at_checked(HEAD_WORDS) else {
        return;
    };
    let (records, _) = body.as_chunks();
    let written = Head {
        kind: KIND_RING,
        body_bytes: (records.len() * RECORD_WORDS * 8) as u64,
        core: ring.core,
        process: ring.process,
        origin_us: ring.origin_us,
    };
    // The first word last: whoever finds it finds the rest.
    for (word, value) in head.iter().zip(written.words()).rev() {
        word.store(value.to_le(), Release);
    }
    WRITER.with(|writer| {
        writer.records.set(records);
        writer.at.set(0);
        writer.number.set(1);
        writer.clock.set(clock);
    });
}

/// The steps of this thread go nowhere from now on.
pub fn remove() {
    WRITER.with(|writer| writer.records.set(&[]));
}

/// Writes a step down: of this session, 0 where it is of none. Nothing happens on a thread without a ring.
#[inline(always)]
pub fn note(session: u32, step: Step) {
    let slots = step.slots();
    let named = u64::from(session) << 32 | u64::from(slots.a);
    write(
        u64::from(slots.kind) << 8 | u64::from(slots.code),
        named,
        slots.b,
    );
}

/// The rest of a step, which all steps share. Its values stay in registers.
#[inline(never)]
fn write(kind: u64, named: u64, value: u64) {
    WRITER.with(|writer| {
        let records = writer.records.get();
        let at = writer.at.get();
        let Some([first, second, third, fourth]) = records.get(at) else {
            return;
        };
        let number = writer.number.get();
        let time_us = writer.clock.get()();
        let values = [time_us << 16 | kind, named, value];
        second.store(values[0].to_le(), Relaxed);
        third.store(values[1].to_le(), Relaxed);
        fourth.store(values[2].to_le(), Relaxed);
        // Behind the rest: a record that was cut off has the check of another.
        let first_word = number << 16 | check(number, values);
        first.store(first_word.to_le(), Release);
        let next = at + 1;
        writer.at.set(if next == records.len() { 0 } else { next });
        writer.number.set(number + 1);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::{CONTROL, read};

    fn words(records: u64) -> &'static [AtomicU64] {
        let words: Vec<AtomicU64> = (0..bytes_of(records) / 8)
            .map(|_| AtomicU64::new(0))
            .collect();
        Vec::leak(words)
    }

    fn bytes(words: &[AtomicU64]) -> Vec<u8> {
        words
            .iter()
            .flat_map(|word| word.load(Relaxed).to_ne_bytes())
            .collect()
    }

    const RING: Ring = Ring {
        core: CONTROL,
        process: 12,
        origin_us: 1_000,
    };

    #[test]
    fn the_last_steps_are_there() {
        let words = words(3);
        install(words, RING, || 5);
        for error in 1..=5 {
            note(7, Step::NoServer { error });
        }
        remove();
        note(7, Step::Accepted {});
        let trace = read(&bytes(words)).expect("a trace");
        let [ring] = &trace.rings[..] else {
            panic!("one ring")
        };
        assert_eq!((ring.core, ring.process, ring.torn), (CONTROL, 12, 0));
        let seen: Vec<_> = ring
            .entries
            .iter()
            .map(|it| (it.number, it.at_us, it.session, it.step))
            .collect();
        let expected = |error| (u64::from(error), 1_005, 7, Some(Step::NoServer { error }));
        assert_eq!(seen, [3, 4, 5].map(expected));
    }

    #[test]
    fn each_step_comes_back_as_it_was() {
        let all = Step::each();
        let words = words(all.len() as u64);
        install(words, RING, || 5);
        all.iter().for_each(|&step| note(u32::MAX, step));
        remove();
        let trace = read(&bytes(words)).expect("a trace");
        let back: Vec<Step> = trace.rings[0]
            .entries
            .iter()
            .filter_map(|it| it.step)
            .collect();
        assert_eq!(back, all);
        assert!(all.len() > 30);
    }

    #[test]
    fn a_record_that_was_cut_off_is_told() {
        let words = words(2);
        install(words, RING, || 5);
        for error in 1..=2 {
            note(7, Step::NoServer { error });
        }
        // The third record would stand in the place of the first; its last word is not written.
        words[HEAD_WORDS + 1].store(99, Relaxed);
        remove();
        let trace = read(&bytes(words)).expect("a trace");
        let ring = &trace.rings[0];
        assert_eq!((ring.torn, ring.entries.len()), (1, 1));
    }

    #[test]
    fn a_ring_that_is_too_small_is_none() {
        install(&[], RING, || 5);
        note(1, Step::Accepted {});
        assert_eq!(bytes_of(50_000), 1_600_128);
    }
}
