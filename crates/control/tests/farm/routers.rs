//! Several control planes on one store: one leads, the others follow, and another one takes over.

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::plane::{PATIENCE, Plane, servers, wait_until_settled};
use control::Membership;
use meta::{
    Access, Answer, Embedded, Entry, Etcd, Lease, LeaseId, Listing, Outcome, Store, Transaction,
    Update, Watch,
};
use serde_json::Value;
use testkit::{Client, Server, wait_until};
use tokio::sync::watch;

/// A router's HTTP door as far as its peers need it: something that listens until the router is gone.
struct Router {
    plane: Plane,
    /// It cannot reach the store.
    cut: watch::Sender<bool>,
    door: Option<TcpListener>,
}

/// A store that does not answer while it is cut off.
struct Severed {
    store: Arc<dyn Store>,
    cut: watch::Receiver<bool>,
}

/// So long a request to a store that cannot be reached is tried.
const TRIED: Duration = Duration::from_millis(200);

/// Waits for the answer, and for the store to be reached.
async fn reach<T>(mut cut: watch::Receiver<bool>, answer: Answer<'_, T>) -> Result<T, meta::Error> {
    if !*cut.borrow() {
        return answer.await;
    }
    // Whoever asked too early hears nothing, though it is reached again meanwhile.
    let _ = tokio::time::timeout(TRIED, cut.wait_for(|cut| !cut)).await;
    Err(meta::Error::Closed)
}

struct SeveredLease {
    lease: Box<dyn Lease>,
    cut: watch::Receiver<bool>,
}

struct SeveredWatch {
    watch: Box<dyn Watch>,
    cut: watch::Receiver<bool>,
}

impl Store for Severed {
    fn get(&self, key: &str) -> Answer<'_, Option<Entry>> {
        let answer = self.store.get(key);
        Box::pin(reach(self.cut.clone(), answer))
    }

    fn scan(&self, prefix: &str) -> Answer<'_, Listing> {
        let answer = self.store.scan(prefix);
        Box::pin(reach(self.cut.clone(), answer))
    }

    fn commit(&self, transaction: Transaction) -> Answer<'_, Outcome> {
        let answer = self.store.commit(transaction);
        Box::pin(reach(self.cut.clone(), answer))
    }

    fn watch(&self, prefix: &str, after: u64) -> Answer<'_, Box<dyn Watch>> {
        let answer = self.store.watch(prefix, after);
        let cut = self.cut.clone();
        Box::pin(async move {
            let watch = reach(cut.clone(), answer).await?;
            Ok(Box::new(SeveredWatch { watch, cut }) as Box<dyn Watch>)
        })
    }

    fn lease(&self, ttl: Duration) -> Answer<'_, Box<dyn Lease>> {
        let answer = self.store.lease(ttl);
        let cut = self.cut.clone();
        Box::pin(async move {
            let lease = reach(cut.clone(), answer).await?;
            Ok(Box::new(SeveredLease { lease, cut }) as Box<dyn Lease>)
        })
    }
}

impl Lease for SeveredLease {
    fn id(&self) -> LeaseId {
        self.lease.id()
    }

    fn ttl(&self) -> Duration {
        self.lease.ttl()
    }

    fn keep(&self) -> Answer<'_, ()> {
        Box::pin(reach(self.cut.clone(), self.lease.keep()))
    }

    fn revoke(&self) -> Answer<'_, ()> {
        self.lease.revoke()
    }
}

impl Watch for SeveredWatch {
    /// What happens meanwhile is told when the store is reached again.
    fn next(&mut self) -> Answer<'_, Update> {
        Box::pin(async move {
            let update = self.watch.next().await;
            let _ = self.cut.wait_for(|cut| !cut).await;
            update
        })
    }
}

fn start(store: &Shared, dir: &Path, name: &str) -> Router {
    start_leased(store, dir, name, 2000)
}

fn start_leased(store: &Shared, dir: &Path, name: &str, lease_ms: u64) -> Router {
    let door = TcpListener::bind("127.0.0.1:0").expect("a port");
    let http = door.local_addr().expect("bound").to_string();
    let (cut, reached) = watch::channel(false);
    let severed = (store.clone(), reached);
    let opened = async move {
        let (store, cut) = severed;
        let store = store.open().await;
        Arc::new(Severed { store, cut }) as Arc<dyn Store>
    };
    let plane = Plane::start_on(opened, dir, |settings| {
        let mut membership = Membership::new(name, &http, "127.0.0.1:1");
        membership.lease_ms = lease_ms;
        membership.store_silence_ms = 1500;
        settings.membership = Some(membership);
    });
    Router {
        plane,
        cut,
        door: Some(door),
    }
}

/// The store of a farm: one file for all in this process, or a real etcd.
#[derive(Clone)]
enum Shared {
    File(Arc<Embedded>),
    Etcd(String),
}

impl Shared {
    fn file(dir: &Path) -> Shared {
        Shared::File(Arc::new(Embedded::open(dir).expect("a store")))
    }

    async fn open(self) -> Arc<dyn Store> {
        match self {
            Shared::File(store) => store,
            Shared::Etcd(urls) => {
                let access = Access {
                    urls: urls.split(',').map(str::to_owned).collect(),
                    prefix: "/heddle".to_owned(),
                    account: None,
                    authority: None,
                    identity: None,
                };
                Arc::new(Etcd::connect(access).await.expect("etcd answers"))
            }
        }
    }
}

fn three(store: &Shared, dir: &Path) -> [Router; 3] {
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
    let mut leader = None;
    wait_until(PATIENCE, "a leader", || {
        leader = leads(routers);
        leader.is_some()
    });
    leader.expect("it was waited for")
}

/// What the leader says to a command that it carries out. On a machine that is short of CPU leases run out, and then
/// somebody else leads.
#[track_caller]
fn led(routers: &[Router], words: &[&str]) -> Value {
    let mut answer = None;
    wait_until(PATIENCE, &format!("{words:?}"), || {
        answer = routers[wait_leader(routers)].plane.call(words).ok();
        answer.is_some()
    });
    answer.expect("it was waited for")
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
    let store = Shared::file(dir.path());
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
    for kind in ["router_joined", "router_left", "leader_changed"] {
        wait_until(PATIENCE, kind, || {
            routers[next].plane.event_kinds().contains(&kind)
        });
    }
    // A newcomer takes another slot.
    routers.push(start(&store, dir.path(), "r4"));
    wait_count(&routers, 3);
    let newcomer = routers[2].plane.control.routers();
    let own = newcomer.iter().find(|it| it.own).expect("registered");
    assert!(own.slot as usize != at + 1, "{own:?}");
}

/// The machine of a leader that died refuses connections: the others take it out at once, with its
/// leadership. Its lease would run out long after the test.
#[test]
fn a_leader_whose_process_is_gone_counts_no_more() {
    const LONG_MS: u64 = 300_000;
    let dir = tempfile::tempdir().expect("a directory");
    let store = Shared::file(dir.path());
    let names = ["r1", "r2", "r3"];
    let mut routers: Vec<Router> = names
        .map(|name| start_leased(&store, dir.path(), name, LONG_MS))
        .into();
    wait_count(&routers, 3);
    let mut dead = routers.remove(wait_leader(&routers));
    dead.cut.send_replace(true);
    dead.door = None;
    wait_count(&routers, 2);
    wait_leader(&routers);
}

/// A farm that all routers know, with table `d.t`.
fn farm(routers: &[Router], servers: &[Server]) {
    led(routers, &["group", "create", "g"]);
    for server in servers {
        led(
            routers,
            &["group", "add", "g", &server.address().to_string()],
        );
    }
    led(routers, &["group", "activate", "g"]);
    servers[0].client().run("CREATE DATABASE d");
    servers[0]
        .client()
        .run("CREATE TABLE d.t (a INT PRIMARY KEY)");
    for server in servers {
        wait_until_settled(server);
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

fn a_killed_primary_is_replaced_once_and_all_follow(store: &Shared, dir: &Path) {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let routers = three(store, dir);
    wait_count(&routers, 3);
    farm(&routers, &servers);
    servers[0].client().run("INSERT INTO d.t VALUES (1)");
    servers[0].kill();
    let at = new_primary(&routers, &servers, 0);
    for router in &routers {
        wait_primary(router, &servers[at]);
    }
    servers[at].client().run("INSERT INTO d.t VALUES (2)");
    let promoted = |router: &&Router| router.plane.event_kinds().contains(&"server_promoted");
    assert_eq!(routers.iter().filter(promoted).count(), 1, "one acted");
    for router in &routers {
        // Everybody cut the old one off.
        router
            .plane
            .wait_server("serves nothing", &servers[0], |it| it.term > 0);
    }
    let register = servers[at].client().value("SELECT @@global.init_slave");
    assert!(register.contains("heddle:"), "{register}");

    servers[0].restart();
    for router in &routers {
        router.plane.wait_replica_again(&servers[0]);
    }
    // A switch-over by the leader; the others go along.
    let first = servers[0].address().to_string();
    led(&routers, &["group", "promote", "g", &first]);
    for router in &routers {
        wait_primary(router, &servers[0]);
    }
    servers[0].client().run("INSERT INTO d.t VALUES (3)");
    assert_eq!(servers[0].client().value("SELECT COUNT(*) FROM d.t"), "3");
}

#[test]
fn all_follow_when_a_primary_is_killed() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Shared::file(dir.path());
    a_killed_primary_is_replaced_once_and_all_follow(&store, dir.path());
}

#[test]
fn all_follow_when_a_primary_is_killed_on_etcd() {
    let Some(etcd) = testkit::Etcd::start(3) else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let store = Shared::Etcd(etcd.urls());
    a_killed_primary_is_replaced_once_and_all_follow(&store, dir.path());
}

/// The place of the primary, as this router has published it.
fn primary_of(router: &Router, servers: &[Server]) -> Option<usize> {
    let snapshot = router.plane.published.load();
    let primary = snapshot.group("g")?.primary()?.address();
    let is_it = |server: &Server| server.address().to_string() == primary;
    servers.iter().position(is_it)
}

/// How often this router has had another server lead.
fn promotions(router: &Router) -> usize {
    let kinds = router.plane.event_kinds();
    kinds.iter().filter(|it| **it == "server_promoted").count()
}

/// The leader cannot reach the store: it leads no more, another one does, and a primary that is lost
/// is replaced by that one alone. Healed, it follows.
#[test]
fn a_leader_without_the_store_leads_no_more() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let store = Shared::file(dir.path());
    let routers = three(&store, dir.path());
    wait_count(&routers, 3);
    farm(&routers, &servers);
    let old = wait_leader(&routers);
    routers[old].cut.send_replace(true);
    let others: Vec<&Router> = routers
        .iter()
        .enumerate()
        .filter(|(at, _)| *at != old)
        .map(|(_, it)| it)
        .collect();
    // A busy machine may have doubted one that lives, and another one leads the group since.
    let dead = primary_of(others[0], &servers).expect("the group has one");
    let before = promotions(&routers[old]);
    servers[dead].kill();
    wait_until(PATIENCE, "another leader", || {
        let leads = |it: &&Router| {
            it.plane
                .control
                .routers()
                .iter()
                .any(|it| it.own && it.leads)
        };
        others.iter().any(leads)
    });
    wait_until(PATIENCE, "the silence to be told", || {
        routers[old].plane.control.contact().silent_for.is_some()
    });
    wait_until(PATIENCE, "another primary", || {
        others.iter().all(|router| {
            let snapshot = router.plane.published.load();
            let group = snapshot.group("g").expect("the group");
            let led = group.primary().is_some_and(|it| it.serves_writes());
            led && !group.paused && primary_of(router, &servers) != Some(dead)
        })
    });
    assert_eq!(promotions(&routers[old]), before);
    routers[old].cut.send_replace(false);
    new_primary(&routers, &servers, dead);
    wait_until(PATIENCE, "a row on the primary", || {
        let primary = primary_of(&routers[old], &servers);
        primary.is_some_and(|at| {
            let row = "INSERT IGNORE INTO d.t VALUES (1)";
            let client = Client::connect(servers[at].address(), "root", "");
            client.is_ok_and(|mut client| client.query(row).is_ok())
        })
    });
    wait_count(&routers, 3);
    wait_until(PATIENCE, "the store to answer", || {
        routers[old].plane.control.contact().silent_for.is_none()
    });
    servers[dead].restart();
    for router in &routers {
        router.plane.wait_replica_again(&servers[dead]);
    }
}

#[test]
fn another_router_fails_over_when_the_leader_has_gone() {
    let Some(mut servers) = servers::<3>() else {
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let store = Shared::file(dir.path());
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
    let rows = led(&routers, &["group", "deactivate", "g"]);
    assert_eq!(rows[0]["success"], true);
}
