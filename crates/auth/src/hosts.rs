//! Addresses from which logins fail. So many failures in a row, and the address has to wait, each time
//! twice as long up to a limit: whoever guesses passwords gets few guesses, and a program with an old
//! password does not keep the router busy.
//!
//! Invariants: memory is bounded, and the address that failed longest ago goes first; loopback never
//! waits, as servers know no host errors of it; the decision is pure, the time comes from outside.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use farm::local::address_of;

/// Addresses that are remembered.
const HOSTS_MAX: usize = 10_000;

/// What an address waits the first time, and at most.
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);

/// The addresses of one router. The lock is taken by logins that fail, and by others while any
/// address has failures.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    table: Mutex<Table>,
    /// How many addresses the table has.
    failing: AtomicUsize,
}

/// What is decided, without a clock.
#[derive(Debug, Default)]
struct Table {
    hosts: HashMap<IpAddr, Host>,
    /// Who failed when, by the number of the failure.
    order: BTreeMap<u64, IpAddr>,
    failures: u64,
}

#[derive(Debug)]
struct Host {
    /// Since the last login that succeeded.
    failures: u32,
    /// The number of the last one.
    last: u64,
    /// Until when it has to wait.
    until: Option<Instant>,
}

impl Hosts {
    /// A login from this address has failed. Gives how long the address has to wait from now on, if it
    /// does; `failures_max` failures are free, and 0 lets everything pass.
    pub fn failed(&self, peer: IpAddr, now: Instant, failures_max: u32) -> Option<Duration> {
        let peer = address_of(peer);
        if peer.is_loopback() || failures_max == 0 {
            return None;
        }
        let mut table = self.lock();
        let wait = table.failed(peer, now, failures_max);
        self.failing.store(table.hosts.len(), Ordering::Relaxed);
        wait
    }

    /// Somebody has logged in from this address.
    pub fn succeeded(&self, peer: IpAddr) {
        if self.failing.load(Ordering::Relaxed) > 0 {
            let mut table = self.lock();
            table.succeeded(peer.to_canonical());
            self.failing.store(table.hosts.len(), Ordering::Relaxed);
        }
    }

    /// The failures of an address that has to wait, and for how long it still has to.
    pub fn wait(&self, peer: IpAddr, now: Instant) -> Option<(u32, Duration)> {
        match self.failing.load(Ordering::Relaxed) {
            0 => None,
            _ => self.lock().wait(peer.to_canonical(), now),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing that is done under the lock can panic halfway.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn failed(&mut self, peer: IpAddr, now: Instant, failures_max: u32) -> Option<Duration> {
        self.failures += 1;
        let host = self.hosts.entry(peer).or_insert(Host {
            failures: 0,
            last: self.failures,
            until: None,
        });
        self.order.remove(&host.last);
        self.order.insert(self.failures, peer);
        host.last = self.failures;
        host.failures = host.failures.saturating_add(1);
        let wait = wait_after(host.failures, failures_max);
        host.until = wait.map(|wait| now + wait);
        if self.hosts.len() > HOSTS_MAX
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.hosts.remove(&oldest);
        }
        wait
    }

    fn succeeded(&mut self, peer: IpAddr) {
        if let Some(host) = self.hosts.remove(&peer) {
            self.order.remove(&host.last);
        }
    }

    fn wait(&self, peer: IpAddr, now: Instant) -> Option<(u32, Duration)> {
        let host = self.hosts.get(&peer)?;
        let left = host.until?.saturating_duration_since(now);
        (!left.is_zero()).then_some((host.failures, left))
    }
}

/// The wait that the last of so many failures brings.
fn wait_after(failures: u32, failures_max: u32) -> Option<Duration> {
    let doublings = failures.checked_sub(failures_max)?;
    let wait = WAIT_FIRST.saturating_mul(1u32.checked_shl(doublings).unwrap_or(u32::MAX));
    Some(wait.min(WAIT_MAX))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn host(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn the_wait_doubles_up_to_its_limit() {
        let seconds = |failures| wait_after(failures, 3).map(|wait| wait.as_secs());
        assert_eq!([1, 2].map(seconds), [None, None]);
        let waits = [3, 4, 5, 6, 7, 8, 9, 10].map(seconds);
        assert_eq!(waits, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
        assert_eq!(seconds(u32::MAX), Some(60));
    }

    #[test]
    fn an_address_waits_after_failures_in_a_row() {
        let (hosts, start) = (Hosts::default(), Instant::now());
        assert_eq!(hosts.failed(host(1), start, 2), None);
        hosts.succeeded(host(1));
        assert_eq!(hosts.failed(host(1), start, 2), None, "not in a row");
        assert_eq!(hosts.wait(host(1), start), None);
        assert_eq!(hosts.failed(host(1), start, 2), Some(SECOND));
        assert_eq!(hosts.wait(host(1), start), Some((2, SECOND)));
        assert_eq!(hosts.wait(host(2), start), None, "another one");
        assert_eq!(hosts.wait(host(1), start + SECOND), None, "it is over");
        let later = start + 5 * SECOND;
        assert_eq!(hosts.failed(host(1), later, 2), Some(2 * SECOND));
        assert_eq!(hosts.wait(host(1), later + SECOND), Some((3, SECOND)));
        hosts.succeeded(host(1));
        assert_eq!(hosts.wait(host(1), later + SECOND), None);
        assert_eq!(hosts.failed(host(1), later, 2), None, "it counts anew");
    }

    #[test]
    fn one_address_is_one_in_both_notations_and_loopback_never_waits() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        let mapped = "::ffff:10.0.0.1".parse().expect("an address");
        assert!(hosts.failed(mapped, now, 1).is_some());
        assert!(hosts.wait(host(1), now).is_some());
        for loopback in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let loopback = loopback.parse().expect("an address");
            assert_eq!(hosts.failed(loopback, now, 1), None);
        }
        assert_eq!(hosts.failed(host(2), now, 0), None, "off");
    }

    #[test]
    fn who_failed_longest_ago_is_forgotten_first() {
        let (hosts, now) = (Hosts::default(), Instant::now());
        let many = u32::try_from(HOSTS_MAX).expect("a number");
        for number in 0..many {
            assert!(hosts.failed(host(number), now, 1).is_some());
        }
        assert!(hosts.failed(host(0), now, 1).is_some(), "it is the newest");
        assert!(hosts.failed(host(many), now, 1).is_some());
        assert_eq!(hosts.wait(host(1), now), None);
        assert!([0, 2, many].map(host).iter().all(|one| hosts.wait(*one, now).is_some()));
        let table = hosts.lock();
        assert_eq!((table.hosts.len(), table.order.len()), (HOSTS_MAX, HOSTS_MAX));
    }
}
