//! Reading: the form of rings and dumps, as the crate's page has it.

use std::fmt;

use crate::notes::Notes;
use crate::step::{Slots, Step};

/// The number of the control plane, which is no core.
pub const CONTROL: u32 = u32::MAX;

const MAGIC: u64 = u64::from_le_bytes(*b"HEDLREC\n");
const VERSION: u32 = 1;

pub(crate) const KIND_RING: u32 = 1;
pub(crate) const KIND_NOTES: u32 = 2;

pub(crate) const HEAD_WORDS: usize = 16;
pub(crate) const RECORD_WORDS: usize = 4;
const HEAD_BYTES: usize = HEAD_WORDS * 8;
const RECORD_BYTES: usize = RECORD_WORDS * 8;

/// The head of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub kind: u32,
    pub body_bytes: u64,
    pub core: u32,
    pub process: u32,
    pub origin_us: u64,
}

impl Head {
    pub fn words(&self) -> [u64; HEAD_WORDS] {
        let before = [
            MAGIC,
            u64::from(VERSION) | u64::from(self.kind) << 32,
            self.body_bytes,
            u64::from(self.core) | u64::from(self.process) << 32,
            self.origin_us,
        ];
        let mut words = [0; HEAD_WORDS];
        words[..5].copy_from_slice(&before);
        words[5] = check_of(&before);
        words
    }

    fn read(bytes: &[u8; HEAD_BYTES]) -> Result<Head, NotATrace> {
        let word = |at: usize| word(bytes, at);
        if word(0) != MAGIC {
            return Err(NotATrace::Foreign);
        }
        let version = word(1) as u32;
        if version != VERSION {
            return Err(NotATrace::Version(version));
        }
        if word(5) != check_of(&std::array::from_fn::<u64, 5, _>(word)) {
            return Err(NotATrace::Damaged);
        }
        Ok(Head {
            kind: (word(1) >> 32) as u32,
            body_bytes: word(2),
            core: word(3) as u32,
            process: (word(3) >> 32) as u32,
            origin_us: word(4),
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    words.get(at).map_or(0, |word| u64::from_le_bytes(*word))
}

/// Spreads bits, so that words that differ in one bit have other checks.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

fn check_of(words: &[u64]) -> u64 {
    words.iter().fold(0, |sum, word| {
        (sum ^ word).wrapping_mul(SPREAD).rotate_left(29)
    })
}

/// The check of a record: 16 bits.
#[inline]
pub(crate) fn check(number: u64, [first, second, third]: [u64; 3]) -> u64 {
    let mixed =
        (number ^ first).wrapping_mul(SPREAD) ^ second.rotate_left(23) ^ third.rotate_left(47);
    mixed.wrapping_mul(SPREAD) >> 48
}

/// Why bytes are no trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotATrace {
    /// They begin otherwise.
    Foreign,
    /// Another release wrote them.
    Version(u32),
    /// Their head is not what was written.
    Damaged,
    /// They end within the first head.
    Short,
}

impl fmt::Display for NotATrace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotATrace::Foreign => write!(out, "this is no trace of Heddle"),
            NotATrace::Version(version) => write!(
                out,
                "this trace has version {version} of the format, and this program reads version {VERSION}: use the \
                 release that wrote it"
            ),
            NotATrace::Damaged => write!(out, "the head of the trace is damaged"),
            NotATrace::Short => write!(out, "the file ends within the head of the trace"),
        }
    }
}

impl std::error::Error for NotATrace {}

/// One step as it was written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Counts the steps of its ring from 1 on.
    pub number: u64,
    /// In microseconds since 1970.
    pub at_us: u64,
    pub core: u32,
    pub process: u32,
    /// 0 for what is of no session.
    pub session: u32,
    /// `None` for a kind that this release does not know.
    pub step: Option<Step>,
    pub kind: u8,
}

/// What a ring holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RingRead {
    pub core: u32,
    pub process: u32,
    /// In the order in which they were written.
    pub entries: Vec<Entry>,
    /// Records that are not what was written: cut off by the end of the process, or damaged.
    pub torn: usize,
}

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    pub rings: Vec<RingRead>,
    pub notes: Notes,
    /// The file ends early, or something in it is damaged: there was more.
    pub is_cut: bool,
}

/// Reads a ring or a dump, as far as it goes.
///
/// # Errors
/// The beginning is not that of a trace.
pub fn read(bytes: &[u8]) -> Result<Trace, NotATrace> {
    let mut trace = Trace::default();
    let mut rest = bytes;
    let mut is_first = true;
    while is_first || !rest.is_empty() {
        let Some((head, behind)) = rest.split_first_chunk() else {
            if is_first {
                return Err(NotATrace::Short);
            }
            trace.is_cut = true;
            break;
        };
        let head = match Head::read(head) {
            Ok(head) => head,
            Err(why) if is_first => return Err(why),
            Err(_) => {
                trace.is_cut = true;
                break;
            }
        };
        is_first = false;
        let wanted = usize::try_from(head.body_bytes).unwrap_or(usize::MAX);
        trace.is_cut |= wanted > behind.len();
        let (body, next) = behind.split_at(wanted.min(behind.len()));
        match head.kind {
            KIND_RING => trace.rings.push(ring(&head, body)),
            KIND_NOTES => trace.notes.take(body),
            // Of a later release.
            _ => {}
        }
        rest = next;
    }
    Ok(trace)
}

fn ring(head: &Head, body: &[u8]) -> RingRead {
    let mut ring = RingRead {
        core: head.core,
        process: head.process,
        ..RingRead::default()
    };
    let places = head.body_bytes / RECORD_BYTES as u64;
    let (records, _) = body.as_chunks::<RECORD_BYTES>();
    for (at, record) in records.iter().enumerate() {
        let [first, values @ ..]: [u64; RECORD_WORDS] = std::array::from_fn(|at| word(record, at));
        let number = first >> 16;
        if number == 0 && values == [0; 3] {
            continue;
        }
        let is_whole = first & 0xFFFF == check(number, values);
        let is_here = number
            .checked_sub(1)
            .is_some_and(|before| before % places == at as u64);
        if !is_whole || !is_here {
            ring.torn += 1;
            continue;
        }
        let [timed, named, b] = values;
        let slots = Slots {
            kind: (timed >> 8) as u8,
            code: timed as u8,
            a: named as u32,
            b,
        };
        ring.entries.push(Entry {
            number,
            at_us: head.origin_us.saturating_add(timed >> 16),
            core: head.core,
            process: head.process,
            session: (named >> 32) as u32,
            step: Step::of(slots),
            kind: slots.kind,
        });
    }
    ring.entries.sort_unstable_by_key(|entry| entry.number);
    ring
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(kind: u32, body_bytes: u64) -> Vec<u8> {
        let head = Head {
            kind,
            body_bytes,
            core: 1,
            process: 2,
            origin_us: 3,
        };
        head.words()
            .iter()
            .flat_map(|word| word.to_le_bytes())
            .collect()
    }

    #[test]
    fn foreign_and_damaged_files_are_told_apart() {
        assert_eq!(read(b""), Err(NotATrace::Short));
        assert_eq!(read(&[b'x'; 4096]), Err(NotATrace::Foreign));
        let mut other = head(KIND_RING, 0);
        other[8] = 9;
        assert_eq!(read(&other), Err(NotATrace::Version(9)));
        let mut damaged = head(KIND_RING, 0);
        damaged[17] ^= 1;
        assert_eq!(read(&damaged), Err(NotATrace::Damaged));
        assert_eq!(read(&head(KIND_RING, 0)[..100]), Err(NotATrace::Short));
    }

    #[test]
    fn what_is_there_of_a_file_that_was_cut_is_read() {
        let whole = head(KIND_RING, 64);
        let trace = read(&whole).expect("a trace");
        assert!(trace.is_cut && trace.rings.len() == 1);
        // A section of a later release is passed over; what comes behind is garbage.
        let mut two = head(9, 2);
        two.extend(b"ab");
        two.extend([7; 300]);
        let trace = read(&two).expect("a trace");
        assert!(trace.is_cut && trace.rings.is_empty());
        // A length beyond the address space.
        assert!(read(&head(KIND_RING, u64::MAX)).expect("a trace").is_cut);
    }

    #[test]
    fn no_bytes_make_a_reader_fail() {
        let mut bytes = head(KIND_RING, 320);
        bytes.extend((0..320u32).map(|at| (at * 7 % 251) as u8));
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut bent = bytes.clone();
                bent[at] ^= flip;
                let _ = read(&bent);
                let _ = read(&bent[..at]);
            }
        }
        let trace = read(&bytes).expect("a trace");
        assert_eq!((trace.rings[0].torn, trace.rings[0].entries.len()), (10, 0));
    }
}
