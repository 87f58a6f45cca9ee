//! Doing what several routers go through: deaths and pauses of routers and of members of their store,
//! partitions between every pair of roles, a rolling restart.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::farm::send_signal;
use crate::holds_within;
use crate::servers::network::{Host, Network};

use super::ledger::now_us;
use super::load::{Dice, Stand};
use super::nemesis::Nemesis;
use super::site::Site;
use super::stop::Stop;
use super::strike::promote;

/// For a leadership to be filled, and for clients to find their way.
const PATIENCE: Duration = Duration::from_secs(30);

/// Longer than a leader's lease, its margins included.
const LONG: Duration = Duration::from_secs(5);

/// Within a failover, when the second blow falls.
const SOON_MS: u64 = 200;

/// The same where the store is struck, which is written to in the first part of a failover.
const SOONER_MS: u64 = 100;

impl Nemesis {
    /// Does it; the answer is when it began, in microseconds of [`now_us`].
    ///
    /// # Errors
    /// It could not be done.
    pub(super) fn blow(
        self,
        site: &mut Site,
        primary: usize,
        stand: &Stand,
        dice: &mut Dice,
    ) -> Result<u64, String> {
        let mut leader = None;
        holds_within(PATIENCE, || {
            leader = site.leader();
            leader.is_some()
        });
        let leader = leader.ok_or("no router leads")?;
        let follower = site.follower(dice.below(2)).ok_or("no router follows")?;
        let pid = site.nodes()[primary].pid;
        let soon = Duration::from_millis(dice.below(SOON_MS));
        let sooner = Duration::from_millis(dice.below(SOONER_MS));
        let rest = |time| {
            Stop::default().rest(time);
        };
        let at_us = now_us();
        match self {
            Nemesis::LeaderDeath => kill(site, stand, leader),
            Nemesis::FollowerDeath => kill(site, stand, follower),
            Nemesis::LeaderAndPrimary => {
                send_signal(pid, "KILL");
                kill(site, stand, leader);
            }
            Nemesis::LeaderDuringFailover | Nemesis::FollowerDuringFailover => {
                send_signal(pid, "KILL");
                rest(soon);
                let leads = self == Nemesis::LeaderDuringFailover;
                kill(site, stand, if leads { leader } else { follower });
            }
            Nemesis::LeaderPaused | Nemesis::PausedDuringFailover => {
                if self == Nemesis::PausedDuringFailover {
                    send_signal(pid, "KILL");
                    rest(soon);
                }
                send_signal(site.routers[leader].pid(), "STOP");
                rest(LONG);
                send_signal(site.routers[leader].pid(), "CONT");
            }
            Nemesis::EtcdMember | Nemesis::EtcdLeader => self.strike_store(site)?,
            Nemesis::EtcdDuringFailover => {
                send_signal(pid, "KILL");
                rest(sooner);
                self.strike_store(site)?;
            }
            Nemesis::EtcdGone => {
                self.strike_store(site)?;
                rest(LONG);
            }
            Nemesis::RollingRestart => rolling_restart(site, stand)?,
            Nemesis::Forwarded => promote(&site.routers[follower], stand)?,
            cut => {
                let sides = cut.sides(site, primary, leader, follower, dice)?;
                let network = site.network.as_ref().ok_or("no network can be cut here")?;
                cut_for(network, &sides, LONG, || {
                    if cut == Nemesis::CutAndKill {
                        send_signal(pid, "KILL");
                    }
                });
            }
        }
        Ok(at_us)
    }

    /// kill -9 of members of the store, which are started again when the round goes on.
    fn strike_store(self, site: &mut Site) -> Result<(), String> {
        let (store, _) = site.store.as_mut().ok_or("there is no store")?;
        let (leads, all) = (store.leader(), store.members());
        match self {
            Nemesis::EtcdGone => (0..all).for_each(|member| store.kill(member)),
            Nemesis::EtcdMember => store.kill((leads + 1) % all),
            _ => store.kill(leads),
        }
        Ok(())
    }

    /// Who is cut from whom.
    fn sides(
        self,
        site: &Site,
        primary: usize,
        leader: usize,
        follower: usize,
        dice: &mut Dice,
    ) -> Result<Sides, String> {
        let (store, members) = site.store.as_ref().ok_or("there is no store")?;
        let servers: Vec<_> = site.behind.iter().map(|one| &one.server.host).collect();
        let routers: Vec<_> = site.routers.iter().map(|one| &one.host).collect();
        let others = |all: &[&Arc<Host>], but: usize| -> Vec<Arc<Host>> {
            let kept = all.iter().enumerate().filter(|(place, _)| *place != but);
            kept.map(|(_, host)| Arc::clone(host)).collect()
        };
        let members: Vec<&Arc<Host>> = members.iter().collect();
        let nobody = usize::MAX;
        let (one, rest) = match self {
            Nemesis::LeaderFromEtcd | Nemesis::CutAndKill => {
                (routers[leader], others(&members, nobody))
            }
            Nemesis::FollowerFromEtcd => (routers[follower], others(&members, nobody)),
            Nemesis::LeaderFromPrimary => (routers[leader], vec![servers[primary].clone()]),
            Nemesis::FollowerFromPrimary => (routers[follower], vec![servers[primary].clone()]),
            Nemesis::RoutersApart => (routers[leader], others(&routers, leader)),
            Nemesis::ReplicaFromPrimary => {
                let replica = (primary + 1 + dice.below(2) as usize) % servers.len();
                (servers[replica], vec![servers[primary].clone()])
            }
            Nemesis::EtcdApart => {
                let leads = store.leader();
                (members[leads], others(&members, leads))
            }
            Nemesis::LeaderAlone => {
                let mut all = others(&members, nobody);
                all.extend(others(&servers, nobody));
                all.extend(others(&routers, leader));
                (routers[leader], all)
            }
            Nemesis::PrimaryAlone => {
                let mut all = others(&servers, primary);
                all.extend(others(&routers, nobody));
                (servers[primary], all)
            }
            other => return Err(format!("{} is no cut", other.name())),
        };
        Ok(Sides {
            one: Arc::clone(one),
            rest,
            way: dice.below(3),
        })
    }
}

/// Hosts between which packets are dropped: 0 both ways, 1 only from `one`, 2 only to it.
struct Sides {
    one: Arc<Host>,
    rest: Vec<Arc<Host>>,
    way: u64,
}

/// Cuts, does something in the same moment, and mends after this time.
fn cut_for(network: &Network, sides: &Sides, time: Duration, at_once: impl FnOnce()) {
    for other in &sides.rest {
        if sides.way != 2 {
            network.cut(&sides.one, other);
        }
        if sides.way != 1 {
            network.cut(other, &sides.one);
        }
    }
    at_once();
    Stop::default().rest(time);
    network.mend();
}

/// kill -9 of a router, which is started again when the round goes on.
fn kill(site: &mut Site, stand: &Stand, router: usize) {
    stand.kills(router);
    site.routers[router].kill_up();
}

/// Each router is stopped in order and started again before the next one, while clients with pools
/// work. A part of the clients is on each router again before its turn, so that each has something to
/// drain: clients stay where they went, and only the first router's spread over the others.
fn rolling_restart(site: &mut Site, stand: &Stand) -> Result<(), String> {
    stand.pooled.store(true, Ordering::SeqCst);
    for (number, router) in site.routers.iter_mut().enumerate() {
        let status = router.stop();
        if !status.success() {
            return Err(format!("router {number} ended with {status}"));
        }
        router.start_again();
    }
    Ok(())
}
