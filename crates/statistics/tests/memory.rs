//! What digests take of the process's memory, as the kernel counts it, while texts come that were never seen before. Alone
//! in its process.

use std::sync::Arc;
use std::time::Instant;

use sqltext::{Dialect, Mode, Scan};
use statistics::{Call, Digests, Door, Kind, Measured, Name, Settings};

const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

const BYTES_MAX: usize = 8 << 20;

/// Several times as many as fit.
const TEXTS: usize = 30_000;

/// For the histograms, and what the allocator keeps for later.
const BESIDE: usize = 2 << 20;

/// Bytes of the process that are in memory; `None` where the kernel does not say so.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib << 10)
}

fn note(digests: &Digests, number: usize) {
    let text = format!(
        "SELECT c{number} FROM shop.orders WHERE customer = {number} /*route='/r{number}'*/"
    );
    let mut scan = Scan::new();
    scan.read(text.as_bytes(), &MODE);
    let tag = format!("route=/r{number}");
    let name = Name {
        digest: digests.of(scan.shape, text.as_bytes(), &MODE),
        user: b"app",
        database: b"shop",
        group: "g1",
        tag: &tag,
    };
    let example = || Some(Arc::from(&*text));
    digests.note(
        &name,
        scan.shape,
        (Kind::Read, Door::Sql),
        &Call::default(),
        example,
    );
}

#[test]
fn ever_new_texts_take_no_more_than_they_may() {
    let settings = Settings {
        bytes_max: BYTES_MAX,
        examples: true,
        ..Settings::default()
    };
    let born = (Instant::now(), 1_000);
    let digests = Digests::new(Arc::new(Measured::new(1, None)), 0, 1, settings, born);
    note(&digests, 0);
    let Some(before) = resident() else { return };
    for number in 0..TEXTS {
        note(&digests, number);
    }
    let after = resident().expect("it was there");
    let (rows, bytes, evicted) = digests.sizes();
    assert!(evicted as usize > 2 * rows, "{rows} rows, {evicted} went");
    assert!(
        bytes <= BYTES_MAX / 4 * 3 && rows > 1_000,
        "{rows} rows, {bytes} bytes"
    );
    let more = after.saturating_sub(before);
    assert!(more <= BYTES_MAX + BESIDE, "{more} bytes for {bytes}");
}
