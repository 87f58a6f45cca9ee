//! What one scan costs, for texts of the usual sizes: `cargo test --release -p sqltext --test
//! scan_speed -- --ignored --nocapture`. The best of several rounds counts, since other work on the
//! machine only adds. `SCAN_SPEED_TEXT` picks one text, `SCAN_SPEED_ROUNDS` the rounds.

use std::hint::black_box;
use std::time::Instant;

use sqltext::{Dialect, Mode, Scan};

const SCANS_PER_ROUND: u32 = 200_000;
const ROUNDS: u32 = 15;

/// The best time per scan, in nanoseconds.
fn best_ns(text: &str, rounds: u32) -> f64 {
    let mode = Mode::new(Dialect::MariaDb, 101_106);
    let mut scan = Scan::new();
    let scans = SCANS_PER_ROUND / (1 + text.len() as u32 / 200);
    let mut best = f64::MAX;
    for _ in 0..rounds {
        let start = Instant::now();
        for _ in 0..scans {
            scan.read(black_box(text.as_bytes()), &mode);
            black_box(&scan);
        }
        best = best.min(start.elapsed().as_nanos() as f64 / f64::from(scans));
    }
    best
}

#[test]
#[ignore = "measures, and says nothing in a debug build"]
fn scan_speed() {
    let insert = format!(
        "INSERT INTO t (a,b) VALUES {}(9,'z')",
        "(1,'abc'),".repeat(100)
    );
    let texts = [
        (
            "point",
            "SELECT c FROM sbtest1 WHERE id=5034 AND k=12 AND pad='abcdefg' ORDER BY c",
        ),
        ("sysbench", "SELECT c FROM sbtest1 WHERE id=50345"),
        ("begin", "BEGIN"),
        (
            "update",
            "UPDATE sbtest1 SET c='68487932199-96439406143-93774651418' WHERE id=5034",
        ),
        (
            "in",
            "SELECT `a`, `b` FROM `t` WHERE `id` IN (1, 2, 3, 4, 5, 6, 7, 8) LIMIT 10",
        ),
        ("insert", insert.as_str()),
    ];
    let wanted = std::env::var("SCAN_SPEED_TEXT").ok();
    let rounds = std::env::var("SCAN_SPEED_ROUNDS").map_or(ROUNDS, |count| count.parse().unwrap());
    println!("{:<10} {:>6} {:>9} {:>9}", "text", "bytes", "ns", "ns/byte");
    for (name, text) in texts {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            let ns = best_ns(text, rounds);
            println!(
                "{name:<10} {:>6} {ns:>9.1} {:>9.2}",
                text.len(),
                ns / text.len() as f64
            );
        }
    }
}
