//! Prints what one scan costs, for texts of the usual sizes: `cargo run --release -p sqltext --example
//! scan_speed [text [rounds]]`. The best of several rounds counts, since other work on the machine only adds.
#![allow(clippy::print_stdout)]

use std::hint::black_box;
use std::time::Instant;

use sqltext::{Dialect, Mode, Scan};

const SCANS_PER_ROUND: u32 = 200_000;
const ROUNDS: u32 = 15;

fn main() {
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
    let mode = Mode::new(Dialect::MariaDb, 101_106);
    let mut scan = Scan::new();
    let rounds = std::env::args()
        .nth(2)
        .map_or(ROUNDS, |count| count.parse().unwrap_or(ROUNDS));
    println!("{:<10} {:>6} {:>9} {:>9}", "text", "bytes", "ns", "ns/byte");
    let wanted = std::env::args().nth(1);
    for (name, text) in texts {
        if wanted.as_ref().is_some_and(|wanted| wanted != name) {
            continue;
        }
        let scans = SCANS_PER_ROUND / (1 + text.len() as u32 / 200);
        let mut best_ns = f64::MAX;
        for _ in 0..rounds {
            let start = Instant::now();
            for _ in 0..scans {
                scan.read(black_box(text.as_bytes()), &mode);
                black_box(&scan);
            }
            best_ns = best_ns.min(start.elapsed().as_nanos() as f64 / f64::from(scans));
        }
        let per_byte = best_ns / text.len() as f64;
        println!(
            "{name:<10} {:>6} {best_ns:>9.1} {per_byte:>9.2}",
            text.len()
        );
    }
}
