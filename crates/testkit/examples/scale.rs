//! What a farm of a given size costs where it is only a value: to publish it, to find a server in it, to find a
//! shard. `bench/scale.py` runs this and makes a page of what it prints: one JSON object a line.
//!
//! Usage: scale SERVERS GROUPS SHARDS THREADS SECONDS

use std::hint::black_box;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use farm::samples;
use farm::shard::{Bound, Key, Shard, ShardKind, ShardMap};
use farm::{Group, Places, Published, ServerId, Sharding, Snapshot, Status};

/// Shards of one map at most.
const SHARDS_OF_MAP: usize = 50_000;

/// Publications that are timed.
const TIMED: u32 = 200;

/// Lookups that are timed together, since one is shorter than a look at the clock.
const LOOKUPS: u64 = 1_000_000;

#[derive(Clone, Copy)]
struct Size {
    servers: u32,
    groups: u32,
}

fn main() {
    let arguments: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|it| it.parse().ok())
        .collect();
    let [servers, groups, shards, threads, seconds] = arguments[..] else {
        say("usage: scale SERVERS GROUPS SHARDS THREADS SECONDS");
        std::process::exit(2);
    };
    let size = Size {
        servers: servers as u32,
        groups: groups as u32,
    };
    // First, while nothing was freed that its memory could come from.
    sharding(size, shards as usize);
    let published = Arc::new(Published::from_pointee(whole(size, 1)));
    publishing(size, &published);
    finding(size, &published);
    for (publishes, name) in [(false, "nobody publishes"), (true, "a group a millisecond")] {
        reading(
            size,
            &published,
            threads,
            Duration::from_secs(seconds),
            publishes,
            name,
        );
    }
}

/// Prints a line. Who does not read it gets none.
fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The group of this number, with one server's death in it where `dead` says so.
fn group(size: Size, number: u32, dead: bool) -> Group {
    let members = size.servers / size.groups;
    let name = format!("group{number:05}");
    let servers = (0..members).map(|place| {
        let status = match place {
            0 => Status::Primary,
            _ => Status::Replica,
        };
        let mut server = samples::server(1 + number * members + place, &name, status);
        server.health.alive = !(dead && place + 1 == members);
        server
    });
    Group {
        number: number + 1,
        ..samples::group(&name, servers.collect())
    }
}

/// A picture of everything, as when the farm's records change.
fn whole(size: Size, epoch: u64) -> Snapshot {
    let groups = (0..size.groups)
        .map(|number| group(size, number, false))
        .collect();
    let snapshot = samples::snapshot("farm", Instant::now(), groups);
    Snapshot {
        epoch,
        places: Arc::new(Places::of(&snapshot.groups)),
        ..snapshot
    }
}

/// One group's change, as when a server dies or comes back.
fn change(size: Size, published: &Published, turn: u32) {
    let old = published.load_full();
    let number = turn % size.groups;
    let new = old.with_group(
        number as usize,
        Arc::new(group(size, number, turn.is_multiple_of(2))),
    );
    new.turnover.note(&old, &new);
    published.store(Arc::new(new));
}

fn median(mut all: Vec<Duration>) -> f64 {
    all.sort();
    all[all.len() / 2].as_secs_f64() * 1e6
}

fn timed(work: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    work();
    begun.elapsed()
}

/// Resident memory of this process, in kB.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse().ok());
    number.unwrap_or(0)
}

fn publishing(size: Size, published: &Published) {
    let before_kb = resident_kb();
    let kept: Vec<Snapshot> = (0..5).map(|epoch| whole(size, epoch)).collect();
    let whole_kb = resident_kb().saturating_sub(before_kb) / kept.len() as u64;
    let before_kb = resident_kb();
    let mut shared = Vec::new();
    for turn in 0..TIMED {
        shared.push(published.load_full());
        change(size, published, turn);
    }
    let group_kb = resident_kb().saturating_sub(before_kb) as f64 / f64::from(TIMED);
    drop((kept, shared));
    let wholes = (0..TIMED / 10)
        .map(|epoch| timed(|| published.store(Arc::new(whole(size, 2 + u64::from(epoch))))));
    let whole_us = median(wholes.collect());
    let groups = (0..TIMED).map(|turn| timed(|| change(size, published, turn)));
    let group_us = median(groups.collect());
    let line = format!(
        "{{\"what\": \"publish\", \"whole_us\": {whole_us:.1}, \"whole_kb\": {whole_kb}, \
         \"group_us\": {group_us:.2}, \"group_kb\": {group_kb:.1}}}"
    );
    say(&line);
}

/// Numbers that jump about, the same in each run.
fn jumping(last: &mut u64, below: u64) -> u64 {
    *last = last
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*last >> 33) % below
}

fn finding(size: Size, published: &Published) {
    let snapshot = published.load_full();
    let blind = Snapshot {
        places: Arc::default(),
        ..(*snapshot).clone()
    };
    let each_ns = |snapshot: &Snapshot, count: u64| {
        let mut last = 1;
        let spent = timed(|| {
            for _ in 0..count {
                let id = 1 + jumping(&mut last, u64::from(size.servers)) as u32;
                black_box(snapshot.server(black_box(ServerId(id))));
            }
        });
        spent.as_secs_f64() * 1e9 / count as f64
    };
    let (placed, scanned) = (each_ns(&snapshot, LOOKUPS), each_ns(&blind, LOOKUPS / 500));
    say(&format!(
        "{{\"what\": \"find\", \"placed_ns\": {placed:.1}, \"scanned_ns\": {scanned:.1}}}"
    ));
}

/// Threads that do what each statement does with the snapshot, while it is replaced or is not.
fn reading(
    size: Size,
    published: &Arc<Published>,
    threads: u64,
    limit: Duration,
    publishes: bool,
    name: &str,
) {
    let over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..threads)
        .map(|seed| {
            let (published, over) = (published.clone(), over.clone());
            std::thread::spawn(move || {
                let (mut last, mut count, mut longest) = (seed, 0u64, Duration::ZERO);
                while !over.load(Relaxed) {
                    let begun = Instant::now();
                    for _ in 0..16 {
                        let id = 1 + jumping(&mut last, u64::from(size.servers)) as u32;
                        black_box(published.load().server(ServerId(id)).map(|it| it.port));
                    }
                    longest = longest.max(begun.elapsed());
                    count += 16;
                }
                (count, longest)
            })
        })
        .collect();
    let (begun, mut turn) = (Instant::now(), 0);
    while begun.elapsed() < limit {
        std::thread::park_timeout(Duration::from_millis(1));
        if publishes {
            change(size, published, turn);
            turn += 1;
        }
    }
    let elapsed_s = begun.elapsed().as_secs_f64();
    over.store(true, Relaxed);
    let read: Vec<(u64, Duration)> = readers
        .into_iter()
        .map(|reader| reader.join().expect("readers end"))
        .collect();
    let all: u64 = read.iter().map(|(count, _)| count).sum();
    let longest = read
        .iter()
        .map(|(_, longest)| *longest)
        .max()
        .unwrap_or_default();
    let line = format!(
        "{{\"what\": \"read\", \"while\": \"{name}\", \"threads\": {threads}, \"publications\": {turn}, \
         \"million_per_s\": {:.2}, \"longest_us\": {:.1}}}",
        all as f64 / elapsed_s / 1e6,
        longest.as_secs_f64() * 1e6,
    );
    say(&line);
}

/// A map of integers whose shards stand on the groups in turns.
fn map(size: Size, id: u32, shards: usize) -> ShardMap {
    let shard = |at: usize| Shard {
        id: 1 + at as u32,
        group: format!("group{:05}", at as u32 % size.groups).into(),
        bound: Bound::Lower(Key::Int(at as i128 * 1000)),
        enabled: true,
    };
    ShardMap {
        id,
        kind: ShardKind::Range,
        global_group: "group00000".into(),
        shards: (0..shards).map(shard).collect(),
        slots: Vec::new(),
    }
}

fn sharding(size: Size, shards: usize) {
    let counts = (0..shards.div_ceil(SHARDS_OF_MAP))
        .map(|at| SHARDS_OF_MAP.min(shards - at * SHARDS_OF_MAP));
    let before_kb = resident_kb();
    let maps: Vec<ShardMap> = (1..)
        .zip(counts)
        .map(|(id, count)| map(size, id, count))
        .collect();
    let mut made = None;
    let together = timed(|| made = Some(Sharding::new(1, maps)));
    let made = made.expect("it was just made");
    let kb = resident_kb().saturating_sub(before_kb);
    let (mut last, first) = (1, &made.maps()[0].map);
    let spent = timed(|| {
        for _ in 0..LOOKUPS {
            let key = jumping(&mut last, 1000 * first.shards.len() as u64);
            let _ = black_box(routing::shard::locate(first, &Key::Int(i128::from(key))));
        }
    });
    let locate_ns = spent.as_secs_f64() * 1e9 / LOOKUPS as f64;
    let line = format!(
        "{{\"what\": \"shards\", \"maps\": {}, \"together_ms\": {:.2}, \"kb\": {kb}, \
         \"locate_ns\": {locate_ns:.1}}}",
        made.maps().len(),
        together.as_secs_f64() * 1e3,
    );
    say(&line);
}
