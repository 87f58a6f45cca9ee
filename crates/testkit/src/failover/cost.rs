//! What routers cost: processor time while nothing happens and for each read, one router alone against
//! three that share a store.

use std::fmt::Write;
use std::time::Duration;

use crate::client::{Client, Failure};
use crate::farm::Farm;

use super::ledger::now_us;
use super::load::WRITERS;
use super::site::Site;
use super::stop::Stop;

/// How long nothing happens, and how long clients read.
const SPELL: Duration = Duration::from_secs(20);

/// Clients that read without a pause, all at one router.
const READERS: u64 = 4;

/// Ticks of `/proc/PID/stat` in a second, on every Linux.
const TICKS_PER_S: u64 = 100;

/// The head of the table of [`row`]s.
pub const HEAD: &str = "\n| routers | idle: ms of processor time in a second, each router | reads/s at one \
                        router | its processor time per read, us | that of the others, ms in a second |\n\
                        | --- | ---: | ---: | ---: | ---: |\n";

/// One line for this farm, which has the tables of the proof.
///
/// # Panics
/// When a client sees an error.
pub fn row(title: &str, site: &Site) -> String {
    let used = || -> Vec<u64> { site.routers.iter().map(used_ms).collect() };
    let since = |before: &[u64]| -> Vec<u64> {
        let pairs = used().into_iter().zip(before);
        pairs.map(|(now, before)| now - before).collect()
    };
    let seconds = SPELL.as_secs();
    let before = used();
    Stop::default().rest(SPELL);
    let idle = since(&before);

    let (before, began_us) = (used(), now_us());
    let reads = read_all(&site.routers[0]);
    let took_us = now_us() - began_us;
    let busy = since(&before);

    let list = |all: &[u64]| {
        let each = all.iter().map(|&ms| tenths(ms * 10 / seconds));
        each.collect::<Vec<_>>().join(", ")
    };
    let mut text = String::new();
    let _ = writeln!(
        text,
        "| {title} | {} | {} | {} | {} |",
        list(&idle),
        reads * 1_000_000 / took_us,
        tenths(busy[0] * 10_000 / reads.max(1)),
        list(&busy[1..]),
    );
    text
}

fn tenths(value: u64) -> String {
    format!("{}.{}", value / 10, value % 10)
}

/// Reads by primary key for a spell; how many there were.
fn read_all(router: &Farm) -> u64 {
    let stop = Stop::default();
    let start = |number: u64| {
        let (stop, address) = (stop.clone(), router.sql);
        let work = move || -> Result<u64, Failure> {
            let mut client = Client::connect(address, "root", "")?;
            let writer = number % WRITERS;
            let sql = format!("SELECT v FROM proof.counter WHERE writer = {writer}");
            let mut count = 0;
            while !stop.is_raised() {
                client.query(&sql)?;
                count += 1;
            }
            Ok(count)
        };
        std::thread::spawn(work)
    };
    let readers: Vec<_> = (0..READERS).map(start).collect();
    Stop::default().rest(SPELL);
    stop.raise();
    let counts = readers.into_iter().map(|one| one.join());
    counts
        .map(|count| count.expect("no panic").expect("no error"))
        .sum()
}

/// The processor time that this router has had, in milliseconds.
fn used_ms(router: &Farm) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", router.pid()));
    let stat = stat.expect("it runs");
    // Behind the name, which may have spaces: the state is field 3, the times are 14 and 15.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.filter_map(|text| text.parse::<u64>().ok()).sum();
    ticks * 1000 / TICKS_PER_S
}
