//! Several control planes on one store: one leads, the others follow, and another one takes over.

#[allow(dead_code, reason = "each test uses a part of it")]
mod plane;

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;

use control::Membership;
use farm::Status;
use meta::{Embedded, Store};
use plane::{PATIENCE, Plane, servers};
use serde_json::Value;
use testkit::{Server, wait_until};

/// A router's HTTP door as far as its peers need it: something that listens until the router is gone.
struct Router {
    plane: Plane,
    _door: TcpListener,
}

fn start(store: &Arc<Embedded>, dir: &Path, name: &str) -> Router {
    let door = TcpListener::bind("127.0.0.1:0").expect("a port");
    let http = door.local_addr().expect("bound").to_string();
    let store: Arc<dyn Store> = Arc::<Embedded>::clone(store);
    let plane = Plane::start_on(store, dir, |settings| {
        let mut membership = Membership::new(name, &http, "127.0.0.1:1");
        membership.lease_ms = 1000;
        settings.membership = Some(membership);
    });
    Router { plane, _door: door }
}

fn three(store: &Arc<Embedded>, dir: &Path) -> [Router; 3] {
    ["r1", "r2", "r3"].map(|name| start(store, dir, name))
}

/// The index of the router that leads, by its own word.
fn leads(routers: &[Router]) -> Option<usize> {
    let leads = |router: &Router| {
        let routers = router.plane.control.routers();
        routers.iter().any(|it| it.own && it.leads)
    };
    routers.iter().position(leads)
}

#[track_caller]
fn wait_leader(routers: &[Router]) -> usize {
    wait_until(PATIENCE, "a leader", || leads(routers).is_some());
    leads(routers).expect("it leads")
}

/// Waits until every router sees so many.
#[track_caller]
fn wait_count(routers: &[Router], count: usize) {
    for router in routers {
        wait_until(PATIENCE, "all routers to be seen", || {
            router.plane.control.routers().len() == count
        });
    }
}

#[test]
fn one_leads_and_another_takes_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(dir.path()).expect("a store"));
    let mut routers: Vec<Router> = three(&store, dir.path()).into();
    wait_count(&routers, 3);
    let at = wait_leader(&routers);
    let slots: Vec<u8> = routers[0]
        .plane
        .control
        .routers()
        .iter()
        .map(|it| it.slot)
        .collect();
    assert_eq!(slots, [1, 2, 3]);

    // One that leaves in order is forgotten at once, and somebody else leads.
    drop(routers.remove(at));
    wait_count(&routers, 2);
    let next = wait_leader(&routers);
    let kinds = routers[next].plane.event_kinds();
    for kind in ["router_joined", "router_left", "leader_changed"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
    // A newcomer takes another slot and does not lead.
    routers.push(start(&store, dir.path(), "r4"));
    wait_count(&routers, 3);
    let newcomer = routers[2].plane.control.routers();
    let own = newcomer.iter().find(|it| it.own).expect("registered");
    assert!(!own.leads && own.slot as usize != at + 1, "{own:?}");
}

/// A farm that all routers know, with table `d.t`.
fn farm(routers: &[Router], servers: &[Server]) {
    let leader = &routers[wait_leader(routers)].plane;
    leader.rows(&["group", "create", "g"]);
    for server in servers {
        leader.rows(&["group", "add", "g", &server.address().to_string()]);
    }
    leader.rows(&["group", "activate", "g"]);
    servers[0].client().run("CREATE DATABASE d");
    servers[0]
        .client()
        .run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    for server in servers {
        let mut client = server.client();
        wait_until(PATIENCE, "the server to be up for a while", || {
            let uptime = client.rows("SHOW GLOBAL STATUS LIKE 'Uptime'");
            let uptime = uptime[0][1].as_deref().and_then(|s| s.parse::<u64>().ok());
            uptime.is_some_and(|seconds| seconds >= 4)
        });
    }
    for router in routers {
        for server in servers {
            router
                .plane
                .wait_server("is known", server, |it| it.health.alive);
        }
    }
}

/// Waits until this router has published this server as the primary that takes writes.
#[track_caller]
fn wait_primary(router: &Router, server: &Server) {
    let address = server.address().to_string();
    wait_until(PATIENCE, &format!("{address} to lead"), || {
        let snapshot = router.plane.published.load();
        let group = snapshot.group("g");
        group.is_some_and(|group| {
            !group.paused
                && group
                    .primary()
                    .is_some_and(|it| it.address() == address && it.serves_writes())
        })
    });
}

fn new_primary(routers: &[Router], servers: &[Server], old: usize) -> usize {
    wait_until(PATIENCE, "another primary", || {
        routers.iter().all(|router| {
            let snapshot = router.plane.published.load();
            let group = snapshot.group("g");
            group.is_some_and(|group| {
                !group.paused
                    && group.primary().is_some_and(|it| {
                        it.serves_writes() && it.address() != servers[old].address().to_string()
                    })
            })
        })
    });
    let snapshot = routers[0].plane.published.load();
    let group = snapshot.group("g").expect("the group");
    let primary = group.primary().expect("a primary").address();
    let is_it = |server: &Server| server.address().to_string() == primary;
    servers.iter().position(is_it).expect("one of them")
}

#[test]
fn a_killed_primary_is_replaced_once_and_all_follow() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(dir.path()).expect("a store"));
    let routers = three(&store, dir.path());
    wait_count(&routers, 3);
    farm(&routers, &servers);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    servers[0].kill();
    let at = new_primary(&routers, &servers, 0);
    for router in &routers {
        wait_primary(router, &servers[at]);
    }
    servers[at].client().run("INSERT INTO d.t VALUES (2)");
    let leader = leads(&routers).expect("a leader");
    for (index, router) in routers.iter().enumerate() {
        let kinds = router.plane.event_kinds();
        assert_eq!(
            kinds.contains(&"server_promoted"),
            index == leader,
            "{index} {kinds:?}"
        );
        // Everybody cut the old one off.
        router
            .plane
            .wait_server("serves nothing", &servers[0], |it| it.term > 0);
    }
    let register = servers[at].client().value("SELECT @@global.init_slave");
    assert!(register.contains("heddle:"), "{register}");

    servers[0].restart();
    for router in &routers {
        router
            .plane
            .wait_server("is a replica again", &servers[0], |it| {
                it.status == Status::Replica
                    && it.health.alive
                    && it.health.io_running == Some(true)
            });
    }
    // A switch-over by the leader; the others go along.
    let first = servers[0].address().to_string();
    routers[leader]
        .plane
        .rows(&["group", "promote", "g", &first]);
    for router in &routers {
        wait_primary(router, &servers[0]);
    }
    servers[0].client().run("INSERT INTO d.t VALUES (3)");
    assert_eq!(servers[0].client().value("SELECT COUNT(*) FROM d.t"), "3");
}

#[test]
fn another_router_fails_over_when_the_leader_has_gone() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let store = Arc::new(Embedded::open(dir.path()).expect("a store"));
    let mut routers: Vec<Router> = three(&store, dir.path()).into();
    wait_count(&routers, 3);
    farm(&routers, &servers);
    let leader = wait_leader(&routers);
    servers[0].kill();
    drop(routers.remove(leader));
    let at = new_primary(&routers, &servers, 0);
    servers[at].client().run("INSERT INTO d.t VALUES (1)");
    let next = wait_leader(&routers);
    // What only the leader does is refused elsewhere, with the way to it.
    let error = routers[1 - next].plane.call(&["group", "deactivate", "g"]);
    assert!(error.is_err(), "{error:?}");
    let rows: Value = routers[next].plane.rows(&["group", "deactivate", "g"]);
    assert_eq!(rows[0]["success"], true);
}
