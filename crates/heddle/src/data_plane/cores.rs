//! How the cores fare: what CPU they take, and how late they answer.
//!
//! Each core is asked every second whether it is there. How long its answer takes is how long a client's bytes wait until
//! anything is done about them.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use door_http::{Family, Kind, Sample};
use reactor::Dealer;
use session::{Message, Visit};
use statistics::{BUCKETS, bucket};

use super::DataPlane;
use super::metrics::buckets_of;

/// Between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// A core that does not answer for so long is counted as having taken it.
const ANSWER: Duration = Duration::from_secs(1);

/// The kernel's unit of CPU time in `/proc/PID/stat`, in seconds.
const TICK_S: f64 = 0.01;

/// Threads of cores have this before their number.
const CORE: &str = "core-";

/// Asks the cores, without end.
pub(super) async fn ask_cores(data_plane: &Arc<DataPlane>) {
    loop {
        tokio::time::sleep(PAUSE).await;
        let data_plane = Arc::clone(data_plane);
        let ask = move || {
            if let Some(open) = data_plane.open.get() {
                data_plane.delays.ask(&open.dealer);
            }
        };
        // It waits for the cores. Should it panic, there is no answer this time.
        let _ = tokio::task::spawn_blocking(ask).await;
    }
}

/// How often the answers of one core took how long.
#[derive(Debug)]
struct Delay {
    counts: [u64; BUCKETS],
    sum_us: u64,
}

/// The same of all cores.
#[derive(Debug, Default)]
pub(super) struct Delays(Mutex<Vec<Delay>>);

impl Delays {
    /// Asks each core once. Blocks for [`ANSWER`] at most.
    fn ask(&self, dealer: &Dealer<Message>) {
        let (tell, told) = mpsc::channel();
        let asked = Instant::now();
        for core in 0..dealer.cores() {
            let tell = tell.clone();
            // Whoever asked may not wait any more.
            let visit = Visit::new(move |_| {
                let _ = tell.send((core, asked.elapsed()));
            });
            dealer.send(core, Message::Visit(visit));
        }
        drop(tell);
        let mut took = vec![ANSWER; dealer.cores()];
        while let Ok((core, delay)) = told.recv_timeout(ANSWER.saturating_sub(asked.elapsed())) {
            took[core] = delay;
        }
        self.add(&took);
    }

    /// What each core took, by its number.
    fn add(&self, took: &[Duration]) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while all.len() < took.len() {
            all.push(Delay {
                counts: [0; BUCKETS],
                sum_us: 0,
            });
        }
        for (delay, took) in all.iter_mut().zip(took) {
            let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
            delay.counts[bucket(us)] += 1;
            delay.sum_us = delay.sum_us.saturating_add(us);
        }
    }

    fn samples(&self) -> Vec<Sample> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_core = |(core, delay): (usize, &Delay)| {
            let core = core.to_string();
            buckets_of(&delay.counts, delay.sum_us, &[("core", &core)], |_, _| None)
        };
        all.iter().enumerate().flat_map(of_core).collect()
    }
}

/// What `/metrics` shows of the cores.
pub(super) fn families(delays: &Delays) -> Vec<Family> {
    let own = Path::new("/proc/self");
    let family = |name, help, kind, samples| Family {
        name,
        help,
        kind,
        samples,
    };
    vec![
        family(
            "heddle_core_delay_seconds",
            "How long each core took to answer, asked once a second.",
            Kind::Histogram,
            delays.samples(),
        ),
        family(
            "heddle_core_cpu_seconds_total",
            "CPU time of each core's thread.",
            Kind::Counter,
            of_threads(own),
        ),
        family(
            "heddle_process_cpu_seconds_total",
            "CPU time of the whole process.",
            Kind::Counter,
            of_process(own).map(Sample::plain).into_iter().collect(),
        ),
    ]
}

/// The CPU time of the cores' threads; nothing of what the kernel does not tell.
fn of_threads(process: &Path) -> Vec<Sample> {
    let Ok(threads) = std::fs::read_dir(process.join("task")) else {
        return Vec::new();
    };
    let mut samples: Vec<Sample> = Vec::new();
    for thread in threads.flatten() {
        let read = |name: &str| std::fs::read_to_string(thread.path().join(name)).ok();
        let name = read("comm").unwrap_or_default();
        if let Some(core) = name.trim_end().strip_prefix(CORE)
            && let Some(text) = read("schedstat")
            && let Some(Ok(ns)) = text.split(' ').next().map(str::parse::<u64>)
        {
            samples.push(Sample::labelled(&[("core", core)], ns as f64 / 1e9));
        }
    }
    samples.sort_by(|a, b| a.labels.cmp(&b.labels));
    samples
}

/// The CPU time of all threads, those that have ended among them.
fn of_process(process: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(process.join("stat")).ok()?;
    // Behind the name, which may have spaces: the state, and from the 12th value on the time of programs and of the kernel.
    let (_, behind) = text.rsplit_once(") ")?;
    let mut values = behind.split(' ').skip(11).map(str::parse::<u64>);
    let (user, system) = (values.next()?.ok()?, values.next()?.ok()?);
    Some((user + system) as f64 * TICK_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_told_by_core() {
        let delays = Delays::default();
        assert!(delays.samples().is_empty());
        for us in [10, 90] {
            delays.add(&[Duration::from_micros(us), ANSWER]);
        }
        let samples = delays.samples();
        let sum = |core: &str| {
            let of_core = |it: &&Sample| it.suffix == "_sum" && it.labels[0].1 == core;
            samples.iter().find(of_core).map(|sample| sample.value)
        };
        assert_eq!((sum("0"), sum("1")), (Some(0.000_1), Some(2.0)));
    }

    #[test]
    fn the_kernel_tells_the_time_of_threads() {
        let dir = tempfile::tempdir().expect("a directory");
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            let parent = path.parent().expect("a directory");
            std::fs::create_dir_all(parent).expect("made");
            std::fs::write(path, text).expect("written");
        };
        for (thread, name, ns) in [("7", "core-1", 5), ("8", "control", 9), ("6", "core-0", 4)] {
            write(&format!("task/{thread}/comm"), &format!("{name}\n"));
            write(
                &format!("task/{thread}/schedstat"),
                &format!("{ns}000000000 5 6\n"),
            );
        }
        write("stat", "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0\n");
        let told = of_threads(dir.path());
        let told: Vec<_> = told.iter().map(|it| (&*it.labels[0].1, it.value)).collect();
        assert_eq!(told, [("0", 4.0), ("1", 5.0)]);
        assert_eq!(of_process(dir.path()), Some(2.0));
        assert!(of_process(Path::new("/proc/self")).is_some());
    }
}
