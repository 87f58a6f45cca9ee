//! Logs of real servers, byte by byte and by chance turned into something else: nothing panics, what can be read is JSON, and
//! no log asks for more memory, or tells more lines, than its bytes are worth.

mod checking;

use std::path::Path;

/// What each byte is turned into: all bits, the lowest and the highest one.
const FLIPS: [u8; 3] = [0xFF, 0x01, 0x80];

/// The test flips every fourth byte, to save time; [`Chance`] reaches the others.
const STEP: usize = 4;

/// Each log tells some transactions whole.
const LINES_MIN: usize = 9;

/// The logs of the corpus, by name.
fn logs() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/changes_log");
    let files = std::fs::read_dir(folder).expect("the corpus is there");
    let read = files.map(|file| {
        let path = file.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a file");
        (path.display().to_string(), bytes)
    });
    read.collect()
}

#[test]
fn logs_of_servers_are_read_to_their_end() {
    for (name, bytes) in logs() {
        assert!(checking::check(&bytes) >= LINES_MIN, "{name}");
    }
}

#[test]
fn flipped_bytes_are_no_panic() {
    for (_, bytes) in logs() {
        for at in (0..bytes.len()).step_by(STEP) {
            let mut flipped = bytes.clone();
            flipped[at] ^= FLIPS[at / STEP % FLIPS.len()];
            checking::check(&flipped);
        }
    }
}

#[test]
fn cut_logs_are_no_panic() {
    for (_, bytes) in logs() {
        for end in (0..bytes.len()).step_by(7) {
            checking::check(&bytes[..end]);
        }
    }
}

/// Of each log, by chance.
const VARIANTS: u64 = 1000;

/// Changes of one variant.
const CHANGES_MAX: u64 = 8;

/// What this process takes at most, for logs of some thousand bytes.
const MEMORY_MAX_KIB: u64 = 256 << 10;

/// Numbers by chance, the same in each run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(limit.max(1)).expect("short")).expect("short")
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).expect("a byte")
    }

    /// Changes a log at some place.
    fn change(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len());
        match self.below(5) {
            0 => bytes[at] = self.byte(),
            1 => bytes[at] ^= 1 << self.below(8),
            // A length that is as great as can be.
            2 => {
                let end = bytes.len().min(at + 1 + self.below(8));
                bytes[at..end].fill(0xFF);
            }
            // Something that was there before, once more.
            3 => {
                let end = bytes.len().min(at + 1 + self.below(64));
                let again = bytes[at..end].to_vec();
                let to = self.below(bytes.len());
                bytes.splice(to..to, again);
            }
            _ => {
                let end = bytes.len().min(at + 1 + self.below(16));
                bytes.drain(at..end);
            }
        }
    }
}

/// What this process has taken at most, in KiB.
fn memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("it is there");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.expect("a number")
}

#[test]
fn logs_by_chance_do_no_harm() {
    for (name, bytes) in logs() {
        for seed in 1..=VARIANTS {
            let mut chance = Chance(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            let mut variant = bytes.clone();
            for _ in 0..=seed % CHANGES_MAX {
                chance.change(&mut variant);
            }
            let lines = checking::check(&variant);
            assert!(lines <= variant.len(), "{name}, seed {seed}: {lines} lines");
        }
    }
    let memory = memory_kib();
    assert!(memory < MEMORY_MAX_KIB, "{memory} KiB");
}
