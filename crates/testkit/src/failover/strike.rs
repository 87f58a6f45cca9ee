//! Doing what goes wrong in a round to the servers and to a router alone; what several routers go
//! through is in [`blow`](super::blow).

use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::client::Client;
use crate::farm::Farm;
use crate::holds_within;

use super::ledger::now_us;
use super::load::{Dice, Stand};
use super::nemesis::Nemesis;
use super::relay::Cut;
use super::site::{GROUP, Site};
use super::stop::Stop;

/// For what Heddle has to do between two blows.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long a stopped process stays stopped.
const STOPPED: Duration = Duration::from_secs(5);

/// How long a disk stays full at most.
const FULL: Duration = Duration::from_secs(15);

impl Nemesis {
    /// Does it. The answer is when it began, in microseconds of [`now_us`].
    ///
    /// # Errors
    /// It could not be done.
    pub fn strike(self, site: &mut Site, stand: &Stand, dice: &mut Dice) -> Result<u64, String> {
        let primary = site.primary().ok_or("there is no primary to strike")?;
        let nodes = site.nodes();
        let replicas: Vec<usize> = (0..nodes.len()).filter(|&one| one != primary).collect();
        let replica = replicas[dice.below(replicas.len() as u64) as usize];
        let at_us = now_us();
        match self {
            Nemesis::Calm => {}
            Nemesis::FullLoad => full_load(),
            Nemesis::Kill => nodes[primary].signal("KILL"),
            Nemesis::Stop => {
                nodes[primary].signal("STOP");
                Stop::default().rest(STOPPED);
                nodes[primary].signal("CONT");
            }
            Nemesis::ReplicaDeath => nodes[replica].signal("KILL"),
            Nemesis::RouterRestart => {
                stand.kills(0);
                site.routers[0].kill_up();
                site.routers[0].start_again();
            }
            Nemesis::KillDuringPromotion => return during_promotion(site, primary, dice),
            Nemesis::TwoDeaths => two_deaths(site, primary, stand)?,
            Nemesis::SwitchOver => {
                promote(&site.routers[site.leader().unwrap_or(0)], stand)?;
            }
            Nemesis::Cut | Nemesis::CutTo | Nemesis::CutFrom => {
                let behind = site.behind.get(primary);
                let relay = behind.and_then(|behind| behind.relay.as_ref());
                let relay = relay.ok_or("no relay can be cut here")?;
                relay.cut(Cut {
                    to_server: self != Nemesis::CutFrom,
                    from_server: self != Nemesis::CutTo,
                });
                Stop::default().rest(STOPPED);
                relay.cut(Cut::default());
            }
            Nemesis::FullDisk => full_disk(site, primary)?,
            several => return several.blow(site, primary, stand, dice),
        }
        Ok(at_us)
    }
}

/// A switch-over by this router.
pub(super) fn promote(router: &Farm, stand: &Stand) -> Result<(), String> {
    let mut told = Ok(());
    // Replicas of a busy machine may be behind for as long as clients write as fast as they can; nothing
    // is changed meanwhile.
    holds_within(PATIENCE, || {
        let output = router.command(&["group", "promote", GROUP]);
        let said = String::from_utf8_lossy(&output.stderr);
        told = match output.status.success() {
            true => Ok(()),
            false => Err(format!("group promote: {}", said.trim())),
        };
        let behind = said.contains("is behind") || said.contains("does not catch up");
        stand.eased.store(behind, Ordering::SeqCst);
        told.is_ok() || !behind
    });
    stand.eased.store(false, Ordering::SeqCst);
    told
}

/// Keeps all cores busy for the minutes of the environment.
fn full_load() {
    let minutes = std::env::var("FULL_LOAD_MINUTES")
        .ok()
        .and_then(|text| text.parse().ok());
    let time = Duration::from_secs_f64(60.0 * minutes.unwrap_or(0.05_f64));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let stop = Stop::default();
    let spin = || {
        let stop = stop.clone();
        std::thread::spawn(move || {
            while !stop.is_raised() {
                (0..1_000_000u64).for_each(|n| {
                    std::hint::black_box(n);
                });
            }
        })
    };
    let threads: Vec<_> = (0..2 * cores).map(|_| spin()).collect();
    Stop::default().rest(time);
    stop.raise();
    for thread in threads {
        let _ = thread.join();
    }
}

/// All acknowledged writes so far.
fn sum(stand: &Stand) -> u64 {
    let counts = stand.acknowledged.iter();
    counts.map(|one| one.load(Ordering::SeqCst)).sum()
}

fn two_deaths(site: &Site, primary: usize, stand: &Stand) -> Result<(), String> {
    site.nodes()[primary].signal("KILL");
    let goal = sum(stand) + 50;
    let mut next = None;
    let taken = holds_within(PATIENCE, || {
        next = site.primary().filter(|&next| next != primary);
        next.is_some() && sum(stand) >= goal
    });
    let next = next.filter(|_| taken).ok_or("no successor took writes")?;
    site.nodes()[next].signal("KILL");
    Ok(())
}

/// Fills what is left of the primary's disk, and frees it again.
fn full_disk(site: &Site, primary: usize) -> Result<(), String> {
    let disk = site.disk(primary).ok_or("no disk can be filled here")?;
    let filler = disk.join("filler");
    let told = |error: std::io::Error| format!("{}: {error}", filler.display());
    let mut file = File::create(&filler).map_err(told)?;
    let block = vec![0u8; 1 << 16];
    while file.write_all(&block).is_ok() {}
    while file.write_all(&block[..512]).is_ok() {}
    drop(file);
    // The servers are the judges of the outcome: whether it was replaced or waits for room.
    holds_within(FULL, || site.primary().is_some_and(|now| now != primary));
    std::fs::remove_file(&filler).map_err(told)
}

/// Kills the primary, then a replica: one in two times the first that becomes writable, else one of
/// them after up to 60 ms, whatever Heddle is doing then.
fn during_promotion(site: &Site, primary: usize, dice: &mut Dice) -> Result<u64, String> {
    let nodes = site.nodes();
    let mut others = Vec::new();
    for (index, address) in site.addresses().into_iter().enumerate() {
        if index != primary {
            // A replica that was fenced a moment ago may be starting.
            let mut client = Err("no try".to_owned());
            holds_within(PATIENCE, || {
                client = Client::connect(address, "root", "").map_err(|error| error.to_string());
                client.is_ok()
            });
            others.push((index, client?));
        }
    }
    let mut victim = others[dice.below(others.len() as u64) as usize].0;
    let delay = Duration::from_millis(dice.below(60));
    let waits_for_promotion = dice.below(2) == 0;
    let at_us = now_us();
    nodes[primary].signal("KILL");
    if waits_for_promotion {
        holds_within(Duration::from_secs(2), || {
            let writable = others.iter_mut().find_map(|(index, client)| {
                let sql = "SELECT 1 - @@GLOBAL.read_only";
                (super::load::number(client, sql).ok()? == 1).then_some(*index)
            });
            victim = writable.unwrap_or(victim);
            writable.is_some()
        });
    } else {
        Stop::default().rest(delay);
    }
    nodes[victim].signal("KILL");
    Ok(at_us)
}
