//! The proof of several routers: three of them on an etcd of three members, in front of three real
//! servers, with clients at all of them, while routers, members and servers die, pause, and lose sight
//! of each other. What is judged is what the proof of failover judges.
//!
//! `make test-routers` and `make bench-routers` run it with more rounds; the environment is that of
//! `tests/failover.rs`.

use std::sync::Arc;

use testkit::failover::nemesis::Nemesis;
use testkit::failover::rounds::{alone, number, prove, say};
use testkit::failover::site::Site;
use testkit::failover::{Proof, cost};
use testkit::network::Network;
use testkit::server::Release;

/// Both may need what is beyond the hosts' network.
fn prepare(release: Release) {
    let _ = (testkit::farm::heddle(), release.binary());
}

fn on_loopback(title: &str, release: Release, few: &[Nemesis]) {
    let all = number("FAILOVER_ROUNDS").map(|_| &Nemesis::OF_ROUTERS[..]);
    prove(title, all.unwrap_or(few), || {
        Site::with_routers(release, None, &[])
    });
}

#[test]
fn three_routers() {
    let few = [Nemesis::LeaderAndPrimary, Nemesis::FollowerDuringFailover];
    on_loopback("MariaDB 10.11, three routers", Release::Installed, &few);
}

#[test]
#[ignore = "make test-routers"]
fn three_routers_on_mysql() {
    on_loopback("MySQL 8.0, three routers", Release::MySql80, &[]);
}

#[test]
#[ignore = "make bench-routers"]
fn what_routers_cost() {
    let _alone = alone();
    let mut text = String::from(cost::HEAD);
    for several in [false, true] {
        let (title, site) = match several {
            false => ("one", Site::with_one_router(Release::Installed, &[])),
            true => ("three", Site::with_routers(Release::Installed, None, &[])),
        };
        let Some(proof) = site.map(Proof::new) else {
            return;
        };
        text.push_str(&cost::row(title, &proof.site));
    }
    say(&text);
}

#[test]
#[ignore = "make test-routers"]
fn partitions() {
    prepare(Release::Installed);
    let Some(network) = Network::start().map(Arc::new) else {
        return;
    };
    let hub = Arc::clone(&network);
    hub.within(|| {
        prove(
            "MariaDB 10.11, three routers on hosts of their own",
            &Nemesis::OF_PARTITIONS,
            || Site::with_routers(Release::Installed, Some(network), &[]),
        );
    });
}
